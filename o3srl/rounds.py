"""What the game and a plain oracle share: updates taken in turn, what a round samples, and averages of the policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from o3srl.data import sample as sampling
from o3srl.types import Data, Info, Metrics, Objective, Oracle, Parameters, Phase, Sample, State, Transition


class Averages(NamedTuple):
    """Averages over rounds of what the policy acts with, and of the multiplier [M] that was answered.

    These average *parameters*. They steady the last iterate, but are not the average of the theorem, which is a
    mixture: a policy drawn for each episode from those of all rounds. A parameter average can act like none of them.
    """

    exponential: Parameters
    uniform: Parameters
    multiplier: Array
    rounds: Array


def learn(
    oracle: Oracle, key: Array, primal: State, batches: Transition, objective: Objective, start: int = 0
) -> tuple[State, Metrics]:
    """Return the oracle's state after one update per batch, taken in turn from its cycle beginning at `start`.

    Whole turns of the cycle are scanned, so that a delayed actor costs no condition; the metrics are the last turn's.
    """
    turn = oracle.cycle[start:] + oracle.cycle[:start]
    updates = batches.reward.shape[0]
    whole = updates // len(turn)
    keys = jax.random.split(key, updates)

    def several(primal: State, xs: tuple[Array, Transition], steps: int) -> tuple[State, Metrics]:
        metrics: dict[str, Array] = {}
        for step in range(steps):
            key, batch = at(xs, step)
            primal, new = turn[step](key, primal, batch, objective)
            metrics.update(new)
        return primal, metrics

    def scanned(carry: State, xs: tuple[Array, Transition]) -> tuple[State, Metrics]:
        return several(carry, xs, len(turn))

    metrics: dict[str, Array] = {}
    if whole:
        xs = jax.tree.map(lambda x: x[: whole * len(turn)].reshape(whole, len(turn), *x.shape[1:]), (keys, batches))
        primal, stacked = jax.lax.scan(scanned, primal, xs, unroll=_unroll(whole))
        metrics.update(at(stacked, -1))
    rest = updates - whole * len(turn)
    if rest:
        primal, new = several(primal, at((keys, batches), slice(-rest, None)), rest)
        metrics.update(new)
    return primal, metrics


def at(tree: Any, where: int | slice) -> Any:
    """Return the tree with each array indexed along its leading axis."""
    return jax.tree.map(lambda x: x[where], tree)


def _unroll(length: int) -> int:
    # A GPU gains from longer stretches without a loop's bookkeeping; on a CPU one turn is long enough.
    return 1 if jax.default_backend() == "cpu" else min(length, 5)


def rounds_per_step(updates_per_round: int, oracle: Oracle) -> int:
    """Return how many rounds make whole turns of the oracle's cycle: 1, except for M smaller than or across a cycle."""
    return math.lcm(updates_per_round, len(oracle.cycle)) // updates_per_round


def example(info: Info) -> Transition:
    """Return a transition of zeros without batch axes, from which networks read their sizes."""
    scalar = jnp.zeros(())
    obs, action, cost = jnp.zeros(info.obs_dim), jnp.zeros(info.action_dim), jnp.zeros(info.costs)
    return Transition(obs, action, scalar, cost, obs, scalar, scalar, scalar)


def draw(key: Array, data: Data, updates: int, batch_size: int) -> Sample:
    """Return what `updates` gradient updates learn from: as many batches, and one batch of initial observations."""
    key_batches, key_initial = jax.random.split(key)
    return Sample(
        batches=sampling.draw(key_batches, data, (updates, batch_size)),
        initial=sampling.draw_initial(key_initial, data, (batch_size,)),
    )


def phase(step: Callable[[Array, State, Sample], tuple[State, Metrics]], updates: int, batch_size: int) -> Phase:
    """Return the one phase of an algorithm whose `step` makes so many gradient updates of what `draw` gives it."""
    return Phase(lambda key, data: draw(key, data, updates, batch_size), step, updates, share=1.0)


def start_averages(parameters: Parameters, multiplier: Array) -> Averages:
    """Return averages of nothing yet, which read as the initial parameters."""
    return Averages(parameters, parameters, jnp.zeros_like(multiplier), jnp.int32(0))


def update_averages(averages: Averages, parameters: Parameters, multiplier: Array, rate: float) -> Averages:
    """Return the averages after one more round: exponential with `rate` per round, uniform with 1 / rounds."""
    rounds = averages.rounds + 1
    share = 1.0 / rounds.astype(float)

    def toward(old: Parameters, new: Parameters, step: Array | float) -> Parameters:
        return jax.tree.map(lambda o, n: o + step * (n - o), old, new)

    return Averages(
        exponential=toward(averages.exponential, parameters, rate),
        uniform=toward(averages.uniform, parameters, share),
        multiplier=averages.multiplier + share * (multiplier - averages.multiplier),
        rounds=rounds,
    )


def iterates(last: Parameters, averages: Averages) -> Mapping[str, Parameters]:
    """Return the variants of the policy that may be evaluated: last iterate, exponential and uniform average."""
    return {"last": last, "exponential": averages.exponential, "uniform": averages.uniform}


def average_rate(updates: int, average_updates: int) -> float:
    """Return 1 - exp(-updates / average_updates): one round's share of an average that forgets over so many updates."""
    return -math.expm1(-updates / average_updates)
