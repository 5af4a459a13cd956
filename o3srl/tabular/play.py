"""The game on many finite problems at once: lanes of the training engine, vectorized, in whatever precision is set.

For float64 put `with jax.enable_x64(True):` around the making of the problems and the play.
"""

from __future__ import annotations

import time
import warnings
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from o3srl.data import DataWarning
from o3srl.errors import ConfigError
from o3srl.game import GameState
from o3srl.tabular.cmdp import one_state
from o3srl.tabular.log import as_data, logged
from o3srl.train import Build, Settings, Stretch, make_engine, place, raw_key
from o3srl.types import Data


class Played(NamedTuple):
    """Where every lane stands after `rounds` rounds.

    Fields: average [L, S, A], the occupancy of D_bar; multiplier [L, M], the average of what was answered, which is the
    one that belongs to D_bar; last [L, S, A], the occupancy of the last policy; lagrangian [L], the average over all
    rounds of the L that was charged.
    """

    rounds: int
    average: Array
    multiplier: Array
    lagrangian: np.ndarray
    metrics: dict[str, np.ndarray]
    seconds: float
    state: GameState


def play(
    build: Build, settings: Settings, seeds: np.ndarray, rounds: int, chunks: int = 1, costs: int = 1
) -> list[Played]:
    """Return where the lanes stand after each of `chunks` equal parts of `rounds` rounds.

    `build` makes one lane's game from its settings, a pytree of arrays with a leading axis [L]; a problem may be among
    them, as the game is built inside the compiled program. seeds [L] are the lanes' own.
    """
    if rounds % chunks:
        raise ConfigError(f"{rounds} rounds are not {chunks} equal parts: give a multiple of {chunks}.")
    engine = make_engine(build, settings, _placeholder(costs), vectorize=True)
    updates = build(jax.tree.map(lambda x: x[0], settings)).phases[0].updates
    stretch = Stretch(phase=0, steps=rounds // chunks, updates=rounds // chunks * updates, chunks=chunks)
    lanes = engine.start(jnp.stack([raw_key(int(seed)) for seed in seeds]))
    history: list[Played] = []
    total = np.zeros(len(seeds))
    for chunk in range(chunks):
        began = time.perf_counter()
        lanes, metrics = engine.advance(lanes, stretch, chunk * stretch.updates)
        seconds = time.perf_counter() - began
        total = total + metrics["game/lagrangian"]
        averages = lanes.state.averages
        history.append(
            Played(
                rounds=stretch.steps * (chunk + 1),
                average=averages.uniform,
                multiplier=averages.multiplier,
                lagrangian=total / (chunk + 1),
                metrics=metrics,
                seconds=seconds,
                state=lanes.state,
            )
        )
    return history


def last_policies(build: Build, settings: Settings, played: Played) -> Array:
    """Return [L, S, A], the occupancies of the policies of the last round."""
    return jax.jit(jax.vmap(lambda own, state: build(own).parameters(state)["last"]))(settings, played.state)


@cache
def _placeholder(costs: int) -> Data:
    # An exact oracle reads no batches; the engine still draws them, from the shortest log that there can be.
    log = logged(jax.random.PRNGKey(0), one_state([0.0, 1.0], [[0.0] * costs] * 2), jnp.ones((1, 2)), 1, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return place(as_data(log))
