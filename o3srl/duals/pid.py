"""A PID controller of the multiplier (Stooke et al., 2020, https://arxiv.org/abs/2007.03964), as OSRL has it."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from o3srl.duals.gradient import no_metrics, point
from o3srl.types import Dual, Play, State, Value


class PIDState(NamedTuple):
    """multiplier [M] to be played next; integral [M]; error [M] of the round before."""

    multiplier: Array
    integral: Array
    error: Array


def pid(
    proportional: ArrayLike = 0.1,
    integral: ArrayLike = 0.003,
    derivative: ArrayLike = 0.001,
    maximum: ArrayLike = 5.0,
    costs: int = 1,
) -> Dual:
    """Return the controller; with e the violation of the round,

    I <- max(0, I + e),  lambda = clip(KP max(0, e) + KI I + KD max(0, e - e'), 0, C)
    """

    def init() -> PIDState:
        return PIDState(jnp.zeros(costs), jnp.zeros(costs), jnp.zeros(costs))

    def update(state: PIDState, play: Play, value: Value) -> PIDState:
        del play
        assert value.violation is not None  # the game refuses an oracle that cannot tell
        error = value.violation
        total = jnp.maximum(0.0, state.integral + error)
        rise = jnp.maximum(0.0, error - state.error)
        raw = proportional * jnp.maximum(0.0, error) + integral * total + derivative * rise
        return PIDState(jnp.clip(raw, 0.0, maximum), total, error)

    def play(key: Array, state: State) -> Play:
        del key
        return point(state.multiplier)

    return Dual(init=init, play=play, update=update, metrics=no_metrics, costs=costs, parts=True)
