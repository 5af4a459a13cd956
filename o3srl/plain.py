"""An oracle alone, at a multiplier that never moves; zero is ordinary offline RL, blind to cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from o3srl import budget, rounds
from o3srl.data import clip_rewards
from o3srl.types import Algorithm, Data, Metrics, Objective, Oracle, Parameters, Sample, State


class PlainState(NamedTuple):
    """The oracle, its objective in sampled units, and averages."""

    primal: State
    objective: Objective
    averages: rounds.Averages


def plain(
    oracle: Oracle,
    *,
    multiplier: ArrayLike = 0.0,
    limit: ArrayLike = 0.0,
    updates_per_round: int = 10,
    batch_size: int = 512,
    average_updates: int = 4000,
    prepare: Callable[[Data], Data] = clip_rewards,
) -> Algorithm:
    """Return the oracle trained on r' = r - multiplier . (c - (1 - gamma) limit), with multiplier and limit [] or [M].

    The multiplier belongs to rewards and costs as sampled, like a dual's grid; the limit is in logged units.

    A round is only how many updates one step takes. An oracle without a critic, such as `bc`, trains this way alone.
    """
    updates = rounds.rounds_per_step(updates_per_round, oracle) * updates_per_round
    rate = rounds.average_rate(updates, average_updates)

    def init(key: Array, data: Data) -> PlainState:
        def per_cost(value: ArrayLike) -> Array:
            return jnp.broadcast_to(jnp.asarray(value, jnp.float32), (data.info.costs,))

        primal = oracle.init(key, rounds.example(data.info))
        allowance = budget.discounted(per_cost(limit), oracle.discount, data.info.horizon) * data.scaling.cost
        objective = Objective(per_cost(multiplier), allowance)
        averages = rounds.start_averages(oracle.parameters(primal), objective.multiplier)
        return PlainState(primal, objective, averages)

    def step(key: Array, state: PlainState, sample: Sample) -> tuple[PlainState, Metrics]:
        primal, metrics = rounds.learn(oracle, key, state.primal, sample.batches, state.objective)
        averages = rounds.update_averages(state.averages, oracle.parameters(primal), state.objective.multiplier, rate)
        return PlainState(primal, state.objective, averages), metrics

    phase = rounds.phase(step, updates, batch_size)

    def parameters(state: PlainState) -> Mapping[str, Parameters]:
        return rounds.iterates(oracle.parameters(state.primal), state.averages)

    return Algorithm(prepare=prepare, init=init, phases=(phase,), policy=oracle.policy, parameters=parameters)
