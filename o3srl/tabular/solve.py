"""Exact answers on finite CMDPs by linear solves: occupancies, values, best responses, all best responses at once.

Values are averages per step, that is discounted sums divided by H = 1/(1 - gamma), as everywhere in the game.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from o3srl.tabular.cmdp import CMDP

TOLERANCE = 1e-11  # an advantage below it is rounding: rewards are about 1, and solves are in float64


def occupancy(cmdp: CMDP, policy: Array) -> Array:
    """Return rho [S, A], the discounted share of steps in each state and action, of a policy [S, A]; it sums to 1.

    d = (1 - gamma) (I - gamma P_pi^T)^-1 mu,   rho(s, a) = d(s) pi(a | s)
    """
    follow = jnp.einsum("sa,san->sn", policy, cmdp.transition)
    states = jnp.linalg.solve(_resolvent(cmdp, follow).T, (1.0 - cmdp.discount) * cmdp.start)
    return states[:, None] * policy


def values(cmdp: CMDP, rho: Array) -> Array:
    """Return [1 + M]: the average reward and the average of each cost per step under an occupancy rho [S, A]."""
    return jnp.concatenate([jnp.sum(rho * cmdp.reward)[None], jnp.einsum("sa,sam->m", rho, cmdp.cost)])


def deterministic(choice: Array, actions: int) -> Array:
    """Return the policy [S, A] that takes action choice[s] in state s."""
    return jax.nn.one_hot(choice, actions, dtype=float)


def priced(cmdp: CMDP, multiplier: Array) -> Array:
    """Return [S, A]: reward - multiplier . cost. The paper's r' is this plus a constant, multiplier . allowance."""
    return cmdp.reward - cmdp.cost @ multiplier


def action_values(cmdp: CMDP, choice: Array, signal: Array) -> Array:
    """Return Q [S, A, h], discounted sums of signals [S, A, h] when choice [S] is followed after the first action."""
    state = jnp.arange(choice.shape[0])
    follow = cmdp.transition[state, choice]
    v = jnp.linalg.solve(_resolvent(cmdp, follow), signal[state, choice])
    return signal + cmdp.discount * jnp.einsum("san,nh->sah", cmdp.transition, v)


def best_response(cmdp: CMDP, reward: Array, choice: Array) -> Array:
    """Return the choice [S] of an optimal policy for a reward [S, A], by policy iteration from `choice`.

    An action is changed only for a better one, so that ties keep what was and the iteration ends.
    """

    def improve(choice: Array) -> tuple[Array, Array]:
        q = action_values(cmdp, choice, reward[..., None])[..., 0]
        own = jnp.take_along_axis(q, choice[:, None], axis=1)[:, 0]
        better = jnp.max(q, axis=1) > own + TOLERANCE
        return jnp.where(better, jnp.argmax(q, axis=1).astype(choice.dtype), choice), jnp.any(better)

    def body(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        return improve(carry[0])

    return jax.lax.while_loop(lambda carry: carry[1], body, (choice, jnp.bool_(True)))[0]


def any_choice(cmdp: CMDP) -> Array:
    """Return the choice [S] of the first action everywhere, from which to begin an iteration."""
    return jnp.zeros(cmdp.reward.shape[0], jnp.int32)


def respond(cmdp: CMDP, multiplier: Array) -> Array:
    """Return the occupancy [S, A] of a policy that maximizes L(., multiplier [M])."""
    choice = best_response(cmdp, priced(cmdp, multiplier), any_choice(cmdp))
    return occupancy(cmdp, deterministic(choice, cmdp.reward.shape[1]))


class Path(NamedTuple):
    """Every best response of a CMDP with one cost, in the order of the multiplier.

    Fields: breakpoint [J], where each policy begins to be optimal (the first at 0, infinite for places not used);
    values [J, 2], its average reward and cost per step; occupancy [J, S, A]; complete [], whether the last policy is
    the cheapest of all, so that the path ends of itself.
    """

    breakpoint: Array
    values: Array
    occupancy: Array
    complete: Array


def trace_path(cmdp: CMDP, places: int) -> Path:
    """Return the best responses to every multiplier in [0, infinity), by the parametric simplex method.

    A policy that is optimal at lambda stays so until, in some state, the advantage A_r - lambda A_c of another action
    reaches 0, which happens at lambda' = min A_r / A_c over actions with A_c < 0; there that action takes over.
    """
    actions = cmdp.reward.shape[1]
    signal = jnp.concatenate([cmdp.reward[..., None], cmdp.cost], axis=-1)

    def step(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:
        choice, begins = carry
        rho = occupancy(cmdp, deterministic(choice, actions))
        q = action_values(cmdp, choice, signal)
        advantage = q - jnp.take_along_axis(q, choice[:, None, None], axis=1)
        cheaper = advantage[..., 1] < -TOLERANCE
        ratio = jnp.where(cheaper, advantage[..., 0] / jnp.where(cheaper, advantage[..., 1], 1.0), jnp.inf)
        state, action = jnp.unravel_index(jnp.argmin(ratio), ratio.shape)
        ends = jnp.maximum(begins, ratio[state, action])
        moved = choice.at[state].set(action.astype(choice.dtype))
        choice = jnp.where(jnp.isfinite(ends), moved, choice)
        return (choice, ends), (begins, values(cmdp, rho), rho)

    first = best_response(cmdp, cmdp.reward, any_choice(cmdp))
    (_, last), (begins, pairs, rho) = jax.lax.scan(step, (first, jnp.zeros(())), None, length=places)
    return Path(begins, pairs, rho, jnp.isinf(last))


def place_on(path: Path, multiplier: Array) -> Array:
    """Return the place [] of the best response to a multiplier []; at a tie, of the cheapest."""
    return jnp.sum(multiplier >= path.breakpoint) - 1


def cost_range(path: Path) -> tuple[Array, Array]:
    """Return (least possible, least at the highest reward) average cost per step; a limit between the two binds."""
    return path.values[-1, 1], path.values[place_on(path, jnp.zeros(())), 1]


def _resolvent(cmdp: CMDP, follow: Array) -> Array:
    return jnp.eye(follow.shape[0]) - cmdp.discount * follow
