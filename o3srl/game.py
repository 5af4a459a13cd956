"""O3SRL (Chemingui et al., NeurIPS 2025): an offline RL oracle against a no-regret dual, as one `Algorithm`.

One round is a round of the paper's Algorithm 2 with the changes of its "Final Approximate Algorithm": the oracle
starts from where the last round left it, takes M gradient updates instead of training to convergence, and the last
iterate is the result. Averages are kept besides, as options at evaluation (`rounds.Averages`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from o3srl import budget, rounds
from o3srl.data import clip_rewards
from o3srl.errors import ConfigError
from o3srl.feedback import at_batch_states
from o3srl.types import (
    Algorithm,
    Data,
    Dual,
    Feedback,
    Metrics,
    Objective,
    Oracle,
    Parameters,
    Sample,
    State,
)

Allowance = Callable[[Array, float, int], Array]


class GameState(NamedTuple):
    """Both players, the feedback between them, allowance [M] and cost_scale [] in sampled units, and averages."""

    primal: State
    dual: State
    feedback: State
    allowance: Array
    cost_scale: Array
    averages: rounds.Averages


def o3srl(
    oracle: Oracle,
    dual: Dual,
    feedback: Feedback | None = None,
    *,
    limit: ArrayLike,
    allowance: Allowance = budget.discounted,
    updates_per_round: int = 10,
    batch_size: int = 512,
    average_updates: int = 4000,
    prepare: Callable[[Data], Data] = clip_rewards,
) -> Algorithm:
    """Return the game between `oracle` and `dual` for a `limit` [M] per episode.

    In round t, with multiplier lambda_t from the dual and allowance per step a:

        D_t = M updates of the oracle on r' = r - lambda_t . (c - a)
        V_t = the oracle's value of r' (`feedback`, by default at the states of the batch)
        lambda_{t+1} = the dual's answer to V_t

    `allowance` turns the limit into a; `average_updates` is how many gradient updates the exponential average of the
    policy's parameters looks back; `prepare` is the paper's clipping and scaling of rewards.
    """
    feedback = feedback or at_batch_states()
    _check(oracle, dual, feedback)
    per_step = rounds.rounds_per_step(updates_per_round, oracle)
    rate = rounds.average_rate(updates_per_round, average_updates)

    def init(key: Array, data: Data) -> GameState:
        costs = data.info.costs
        if dual.costs != costs:
            raise ConfigError(
                f"The log has {costs} cost(s), but the dual plays {dual.costs} multiplier(s) and limit(s)."
            )
        key_primal, key_feedback = jax.random.split(key)
        primal = oracle.init(key_primal, rounds.example(data.info))
        scale = jnp.asarray(data.scaling.cost, float)
        per_episode = jnp.broadcast_to(jnp.asarray(limit, float), (costs,))
        return GameState(
            primal=primal,
            dual=dual.init(),
            feedback=feedback.init(key_feedback, data),
            allowance=allowance(per_episode, oracle.discount, data.info.horizon) * scale,
            cost_scale=scale,
            averages=rounds.start_averages(oracle.parameters(primal), per_episode),
        )

    def one_round(key: Array, state: GameState, sample: Sample, start: int) -> tuple[GameState, Metrics]:
        key_play, key_learn, key_value = jax.random.split(key, 3)
        play = dual.play(key_play, state.dual)
        objective = Objective(play.multiplier, state.allowance)
        primal, metrics = rounds.learn(oracle, key_learn, state.primal, sample.batches, objective, start)
        charged = Objective(play.charged, state.allowance)
        heard, value = feedback.reveal(key_value, state.feedback, oracle, primal, sample, charged)
        answer = dual.update(state.dual, play, value)
        averages = rounds.update_averages(state.averages, oracle.parameters(primal), play.multiplier, rate)
        known = {} if value.violation is None else {"game/violation": value.violation / state.cost_scale}
        metrics = {
            "game/multiplier": play.multiplier * state.cost_scale,
            "game/average_multiplier": averages.multiplier * state.cost_scale,
            "game/lagrangian": value.lagrangian,
            **known,
            **dual.metrics(answer),
            **metrics,
        }
        return GameState(primal, answer, heard, state.allowance, state.cost_scale, averages), metrics

    def step(key: Array, state: GameState, sample: Sample) -> tuple[GameState, Metrics]:
        metrics: dict[str, Array] = {}
        for turn, key_round in enumerate(jax.random.split(key, per_step)):
            first = turn * updates_per_round
            part = sample._replace(batches=rounds.at(sample.batches, slice(first, first + updates_per_round)))
            state, new = one_round(key_round, state, part, first % len(oracle.cycle))
            metrics.update(new)
        return state, metrics

    phase = rounds.phase(step, per_step * updates_per_round, batch_size)

    def parameters(state: GameState) -> Mapping[str, Parameters]:
        return rounds.iterates(oracle.parameters(state.primal), state.averages)

    return Algorithm(prepare=prepare, init=init, phases=(phase,), policy=oracle.policy, parameters=parameters)


def _check(oracle: Oracle, dual: Dual, feedback: Feedback) -> None:
    if oracle.value is None:
        raise ConfigError(
            "This oracle has no critic, so no round of the game could reveal a value to the dual. "
            "Train it alone with plain(...), or use an oracle with a critic: td3_bc() or iql()."
        )
    if dual.parts and not (oracle.parts or feedback.parts):
        raise ConfigError(
            "This dual reads the violation, or charges another multiplier than the one answered, and a scalar critic "
            'knows only their sum. Use a decomposed critic (td3_bc(TD3BCConfig(critic="decomposed")); '
            "--td3-bc.critic decomposed), a fitted evaluation (feedback.fitted(); --feedback fitted), or a dual that "
            "needs one number: exp3(...) or fixed(...)."
        )
