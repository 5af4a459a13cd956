"""Oracles on finite CMDPs, in the place of a network: the game and its duals are the ones that train networks.

What such an oracle acts with is its policy's *occupancy* rho [S, A]. The average of occupancies over rounds is the
occupancy of the mixture of their policies, so the game's uniform average is the theorem's D_bar, which is not so for
the parameters of a network. Values are exact; observations and batches are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from o3srl.tabular.cmdp import CMDP
from o3srl.tabular.gap import lagrangian
from o3srl.tabular.solve import (
    Path,
    any_choice,
    deterministic,
    occupancy,
    place_on,
    priced,
    values,
)
from o3srl.tabular.solve import best_response as optimal_choice
from o3srl.types import Metrics, Objective, Oracle, Parameters, Policy, State, Step, Transition, Update, Value


def best_response(cmdp: CMDP, believed: CMDP | None = None, *, noisy: bool = False) -> Oracle:
    """Return the oracle that answers each multiplier with an optimal policy, by policy iteration.

    It plans in `believed` (such as a pessimistic model of a log) where one is given, and is valued in `cmdp`. With
    `noisy` the value is that of one step drawn from the policy's occupancy: the paper's unbiased V~.
    """
    model = cmdp if believed is None else believed

    def update(key: Array, state: State, batch: Transition, objective: Objective) -> tuple[State, Metrics]:
        del key, batch
        return optimal_choice(model, priced(model, objective.multiplier), state), {}

    def parameters(state: State) -> Parameters:
        return occupancy(cmdp, deterministic(state, cmdp.reward.shape[1]))

    return tabular(cmdp, any_choice(cmdp), update, parameters, _exact(cmdp, parameters, noisy))


def along(cmdp: CMDP, path: Path, *, noisy: bool = False) -> Oracle:
    """Return the same oracle for one cost, which looks its answers up on a path that `trace_path` has found."""

    def update(key: Array, state: State, batch: Transition, objective: Objective) -> tuple[State, Metrics]:
        del key, batch, state
        return place_on(path, objective.multiplier[0]), {}

    def parameters(state: State) -> Parameters:
        return path.occupancy[state]

    return tabular(cmdp, place_on(path, jnp.zeros(())), update, parameters, _exact(cmdp, parameters, noisy))


def sweeps(cmdp: CMDP, *, temperature: ArrayLike = 0.0, noisy: bool = False) -> Oracle:
    """Return the practical oracle: each update is one sweep of value iteration on r', from where the last one ended.

        Q(s, a) <- r'(s, a) + gamma sum_s' P(s' | s, a) tau log sum_b exp(Q(s', b) / tau),   pi ~ exp(Q / tau)

    At temperature tau = 0 these are the maximum and the greedy policy. A positive one makes the policy move smoothly
    with the multiplier, at a loss of at most tau ln A per step; networks that are pulled toward a log do too.
    """
    states, actions = cmdp.reward.shape
    cold = jnp.asarray(temperature, float) <= 0.0
    warmth = jnp.where(cold, 1.0, jnp.asarray(temperature, float))

    def update(key: Array, state: State, batch: Transition, objective: Objective) -> tuple[State, Metrics]:
        del key, batch
        following = jnp.where(cold, jnp.max(state, axis=1), warmth * jax.nn.logsumexp(state / warmth, axis=1))
        modified = priced(cmdp, objective.multiplier) + objective.multiplier @ objective.allowance
        return modified + cmdp.discount * cmdp.transition @ following, {}

    def parameters(state: State) -> Parameters:
        greedy = deterministic(jnp.argmax(state, axis=1), actions)
        return occupancy(cmdp, jnp.where(cold, greedy, jax.nn.softmax(state / warmth, axis=1)))

    return tabular(cmdp, jnp.zeros((states, actions)), update, parameters, _exact(cmdp, parameters, noisy))


def tabular(
    cmdp: CMDP,
    first: State,
    update: Update,
    parameters: Callable[[State], Parameters],
    known: Callable[[Array, State], Array],
) -> Oracle:
    """Return the oracle of one update function on a CMDP: `known` (key, state) -> [1 + M] is what it takes its averages
    of reward and costs per step to be, `parameters` (state) -> [S, A] is its true occupancy."""
    steps = 1.0 / (1.0 - cmdp.discount)

    def value(key: Array, state: State, obs: Array, objective: Objective) -> Value:
        del obs
        own = known(key, state)
        whole = lagrangian(own, objective.multiplier, objective.allowance)
        return Value(steps * whole, steps * (own[1:] - objective.allowance))

    discount: Any = cmdp.discount  # a traced number serves as well as a concrete one
    return Oracle(
        init=lambda key, example: first,
        cycle=(update,),
        value=value,
        parameters=parameters,
        policy=stationary(),
        discount=discount,
        parts=True,
    )


def _exact(cmdp: CMDP, parameters: Callable[[State], Parameters], noisy: bool) -> Callable[[Array, State], Array]:
    signals = jnp.concatenate([cmdp.reward[..., None], cmdp.cost], axis=-1).reshape(-1, 1 + cmdp.cost.shape[-1])

    def known(key: Array, state: State) -> Array:
        rho = parameters(state)
        return signals[jax.random.categorical(key, jnp.log(rho.reshape(-1)))] if noisy else values(cmdp, rho)

    return known


def stationary() -> Policy:
    """Return the policy of an occupancy rho [S, A]: pi(a | s) = rho(s, a) / sum_b rho(s, b), uniform where rho is 0.

    It has that very occupancy, so on a finite CMDP a mixture of policies is as good as one policy. Observations are
    one-hot states [S], actions are one-hot [A] with -1 for 0 (`log.environment`).
    """

    def reset(key: Array, parameters: Parameters, limit: Array) -> State:
        del key, parameters, limit
        return ()

    def act(key: Array, parameters: Parameters, memory: State, step: Step) -> tuple[Array, State]:
        chances = parameters[jnp.argmax(step.obs)]
        known = jnp.where(jnp.sum(chances) > 0.0, chances, jnp.ones_like(chances))
        action = jax.random.categorical(key, jnp.log(known))
        return 2.0 * jax.nn.one_hot(action, chances.shape[0]) - 1.0, memory

    return Policy(reset, act)
