"""How far a pair of players is from equilibrium, exactly. All numbers are averages per step."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from o3srl.tabular.cmdp import CMDP
from o3srl.tabular.solve import respond, values


class Gap(NamedTuple):
    """Fields: best [], max_D L(D, multiplier); worst [], min over [0, C]^M of L(occupancy, .); total [], best - worst,
    the smallest epsilon (or twice it) for which the pair is an epsilon-approximate equilibrium; reward []; violation
    [M], cost - allowance."""

    best: Array
    worst: Array
    total: Array
    reward: Array
    violation: Array


def lagrangian(values: Array, multiplier: Array, allowance: Array) -> Array:
    """Return L [] = reward - multiplier . (cost - allowance) of values [1 + M] per step."""
    return values[0] - multiplier @ (values[1:] - allowance)


def equilibrium_gap(cmdp: CMDP, occupancy: Array, multiplier: Array, allowance: Array, maximum: ArrayLike) -> Gap:
    """Return max_D L(D, multiplier [M]) - min_{lambda in [0, C]^M} L(occupancy [S, A], lambda), with C = `maximum`.

    L is linear in each multiplier, so the minimum lies where each is 0 or C. It is 0 at an equilibrium and never below.
    The pair is an epsilon-approximate equilibrium, in the paper's words, for epsilon = total, and for no epsilon below
    total / 2.
    """
    own = values(cmdp, occupancy)
    violation = own[1:] - allowance
    best = lagrangian(values(cmdp, respond(cmdp, multiplier)), multiplier, allowance)
    worst = own[0] - jnp.sum(maximum * jnp.maximum(violation, 0.0))
    return Gap(best, worst, best - worst, own[0], violation)


def lagrangian_range(cmdp: CMDP, allowance: Array, maximum: ArrayLike) -> tuple[Array, Array]:
    """Return (lowest, highest) L that any policy takes at any multiplier in [0, C]^M with one cost, C = `maximum`."""
    ends = jnp.stack([jnp.zeros_like(allowance), jnp.full_like(allowance, maximum)])
    against = cmdp._replace(reward=-cmdp.reward, cost=-cmdp.cost)
    high = jnp.stack([lagrangian(values(cmdp, respond(cmdp, end)), end, allowance) for end in ends])
    low = jnp.stack([lagrangian(values(cmdp, respond(against, end)), end, allowance) for end in ends])
    return jnp.min(low), jnp.max(high)
