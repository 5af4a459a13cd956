"""Batch policy learning under constraints (Le et al., 2019, https://arxiv.org/abs/1903.08738) on finite CMDPs.

Its loop: fitted Q iteration answers the multiplier, fitted Q evaluation values the answer in reward and in each cost,
an online learner moves the multiplier; then the answer to the *average* multiplier is found and valued too, and the
loop stops when the duality gap that these values show is small. With tables instead of regressors both fits are sweeps
of value iteration in the log's empirical model. Everything else is the game's.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from o3srl.tabular.cmdp import CMDP
from o3srl.tabular.gap import lagrangian
from o3srl.tabular.oracle import tabular
from o3srl.tabular.solve import any_choice, deterministic, occupancy, priced
from o3srl.types import Metrics, Objective, Oracle, Parameters, State, Transition

LOOP_FITS = 6  # per loop: the answers to a multiplier and to the average, and reward and cost of either


class Learned(NamedTuple):
    """A decomposed critic under way: q [S, A, 1 + M], discounted sums; choice [S], the greedy policy it belongs to."""

    q: Array
    choice: Array


def fitted_iteration(model: CMDP, multiplier: Array, sweeps: int) -> Array:
    """Return the choice [S] that is greedy after so many sweeps, from zero, of Q <- r' + gamma P max Q."""
    reward = priced(model, multiplier)

    def sweep(q: Array, _: None) -> tuple[Array, None]:
        return reward + model.discount * model.transition @ jnp.max(q, axis=1), None

    q, _ = jax.lax.scan(sweep, jnp.zeros_like(reward), None, length=sweeps)
    return jnp.argmax(q, axis=1)


def fitted_evaluation(model: CMDP, choice: Array, sweeps: int) -> Array:
    """Return [1 + M], the averages per step of a policy [S], after so many sweeps from zero of

    Q <- (r, c) + gamma P_pi Q
    """
    signal = _signals(model)

    def sweep(v: Array, _: None) -> tuple[Array, None]:
        q = signal + model.discount * jnp.einsum("san,nh->sah", model.transition, v)
        return jnp.take_along_axis(q, choice[:, None, None], axis=1)[:, 0], None

    v, _ = jax.lax.scan(sweep, jnp.zeros((signal.shape[0], signal.shape[-1])), None, length=sweeps)
    return (1.0 - model.discount) * model.start @ v


def fitted(cmdp: CMDP, model: CMDP, sweeps: int) -> Oracle:
    """Return the oracle of Le et al.: it answers by fitted Q iteration and is valued by fitted Q evaluation.

    Both are done in `model`, from zero in every round; where the policy truly leads is read in `cmdp`.
    """

    def update(key: Array, state: State, batch: Transition, objective: Objective) -> tuple[State, Metrics]:
        del key, batch, state
        return fitted_iteration(model, objective.multiplier, sweeps).astype(jnp.int32), {}

    def parameters(state: State) -> Parameters:
        return occupancy(cmdp, deterministic(state, cmdp.reward.shape[1]))

    def known(key: Array, state: State) -> Array:
        del key
        return fitted_evaluation(model, state, sweeps)

    return tabular(cmdp, any_choice(cmdp), update, parameters, known)


def learned(cmdp: CMDP, model: CMDP) -> Oracle:
    """Return the practical oracle with a decomposed critic, which is valued by that critic and never evaluated apart.

    An update is one sweep, from where the last round ended: pi = argmax Q . (1, -lambda), Q <- (r, c) + gamma P_pi Q.
    """
    signal = _signals(model)

    def greedy(q: Array, multiplier: Array) -> Array:
        return jnp.argmax(q[..., 0] - q[..., 1:] @ multiplier, axis=1).astype(jnp.int32)

    def update(key: Array, state: State, batch: Transition, objective: Objective) -> tuple[State, Metrics]:
        del key, batch
        choice = greedy(state.q, objective.multiplier)
        v = jnp.take_along_axis(state.q, choice[:, None, None], axis=1)[:, 0]
        q = signal + model.discount * jnp.einsum("san,nh->sah", model.transition, v)
        return Learned(q, greedy(q, objective.multiplier)), {}

    def parameters(state: State) -> Parameters:
        return occupancy(cmdp, deterministic(state.choice, cmdp.reward.shape[1]))

    def known(key: Array, state: State) -> Array:
        del key
        v = jnp.take_along_axis(state.q, state.choice[:, None, None], axis=1)[:, 0]
        return (1.0 - model.discount) * model.start @ v

    return tabular(cmdp, Learned(jnp.zeros_like(signal), any_choice(cmdp)), update, parameters, known)


def shown_gap(model: CMDP, seen: Array, multiplier: Array, allowance: Array, maximum: Array, sweeps: int) -> Array:
    """Return the duality gap [] that the loop can see, L_max - L_min, and stops at.

    L_max is the fitted value, at the average multiplier [M], of the fitted answer to it; L_min is the least of
    L(average policy, lambda) over [0, C]^M, from the average `seen` [1 + M] of the fitted values of all rounds.
    """
    answer = fitted_evaluation(model, fitted_iteration(model, multiplier, sweeps), sweeps)
    least = seen[0] - jnp.sum(maximum * jnp.maximum(seen[1:] - allowance, 0.0))
    return lagrangian(answer, multiplier, allowance) - least


def _signals(model: CMDP) -> Array:
    return jnp.concatenate([model.reward[..., None], model.cost], axis=-1)
