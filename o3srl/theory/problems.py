"""The problems that the statements are checked on: random ones with limits that bind, and the smallest ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from o3srl.tabular.cmdp import CMDP, garnet, one_state
from o3srl.tabular.gap import Gap, equilibrium_gap, lagrangian_range
from o3srl.tabular.lp import optimum
from o3srl.tabular.solve import (
    Path,
    any_choice,
    best_response,
    cost_range,
    deterministic,
    occupancy,
    trace_path,
    values,
)

PLACES = 24  # more than the best responses of any of these problems; `make` checks
MAXIMUM, LEAST_MAXIMUM = (
    1.5,
    0.5,
)  # C is so many times lambda*, and at least so much; at 2 a uniform grid begins at lambda*


class Problems(NamedTuple):
    """Problems with one cost, stacked along a leading axis [L]; numbers are averages per step.

    Fields: cmdp; path, its best responses; limit [L, 1], on the discounted sum; allowance [L, 1]; maximum [L], C;
    multiplier [L], lambda*, and reward [L], both of the linear program; slater [L] and safest [L], by how much the
    safest policy keeps the limit and what it earns; size [L], the largest |violation|; lowest [L] and highest [L], the
    ends of L over all policies and [0, C].
    """

    cmdp: CMDP
    path: Path
    limit: Array
    allowance: Array
    maximum: Array
    multiplier: Array
    reward: Array
    slater: Array
    safest: Array
    size: Array
    lowest: Array
    highest: Array

    def take(self, lanes: np.ndarray) -> Problems:
        """Return the problems of these numbers, one per lane."""
        return jax.tree.map(lambda x: x[lanes], self)

    def with_maximum(self, maximum: Array) -> Problems:
        """Return the problems with another C [L]."""
        lowest, highest = jax.jit(jax.vmap(lagrangian_range))(self.cmdp, self.allowance, maximum)
        return self._replace(maximum=maximum, lowest=lowest, highest=highest)

    @property
    def span(self) -> Array:
        """[L]: the range of L."""
        return self.highest - self.lowest


def make(count: int, seed: int = 0, states: int = 10, actions: int = 4) -> Problems:
    """Return random CMDPs (`garnet`), each with a limit drawn from the middle half of those that bind."""
    key_cmdp, key_limit = jax.random.split(jax.random.PRNGKey(seed))
    draw = jax.jit(jax.vmap(lambda key: garnet(key, states, actions)))
    cmdp = draw(jax.random.split(key_cmdp, count))
    return limited(cmdp, jax.random.uniform(key_limit, (count,), minval=0.25, maxval=0.75))


def limited(cmdp: CMDP, share: Array) -> Problems:
    """Return the problems whose limits lie at a share [L] between the least possible cost and that of the best reward.

    A share over 1 is slack: the limit does not bind.
    """
    path = jax.jit(jax.vmap(lambda one: trace_path(one, PLACES)))(cmdp)
    assert bool(jnp.all(path.complete)), "a problem has more best responses than places"
    low, high = jax.vmap(cost_range)(path)
    limit = (low + share * (high - low))[:, None] / (1.0 - cmdp.discount)[:, None]
    return solved(cmdp, path, limit)


def solved(cmdp: CMDP, path: Path, limit: Array) -> Problems:
    """Return the problems with their linear programs solved, and C at `MAXIMUM` times lambda*."""
    best = [optimum(jax.tree.map(lambda x, lane=lane: x[lane], cmdp), limit[lane]) for lane in range(len(limit))]
    multiplier = jnp.asarray([one.multiplier[0] for one in best])
    allowance = limit * (1.0 - cmdp.discount)[:, None]
    low, high = path.values[:, -1, 1], jax.jit(jax.vmap(_largest_cost))(cmdp)
    unknown = jnp.zeros_like(multiplier)
    problems = Problems(
        cmdp=cmdp,
        path=path,
        limit=limit,
        allowance=allowance,
        maximum=unknown,
        multiplier=multiplier,
        reward=jnp.asarray([one.reward for one in best]),
        slater=jnp.asarray([one.slater for one in best]),
        safest=jnp.asarray([one.safest for one in best]),
        size=jnp.maximum(high - allowance[:, 0], allowance[:, 0] - low),
        lowest=unknown,
        highest=unknown,
    )
    return problems.with_maximum(jnp.maximum(MAXIMUM * multiplier, LEAST_MAXIMUM))


def counterexample() -> Problems:
    """Return the problem on which Algorithm 2 as printed fails: actions (0.8, 1) and (0, 0), limit 0.5, C = 2."""
    return two_actions(np.array([0.8]))


def two_actions(reward: np.ndarray) -> Problems:
    """Return one-state problems with actions (reward [L], 1) and (0, 0), limit 0.5 and C = 2: lambda* is the reward.

    The violation is always 0.5 or -0.5, so a dual has as much to learn as L's range allows.
    """
    cost = jnp.asarray([[1.0], [0.0]])
    cmdp = jax.vmap(lambda one: one_state(jnp.stack([one, jnp.zeros(())]), cost))(jnp.asarray(reward))
    path = jax.vmap(lambda one: trace_path(one, PLACES))(cmdp)
    return solved(cmdp, path, jnp.full((len(reward), 1), 0.5)).with_maximum(jnp.full(len(reward), 2.0))


def _largest_cost(cmdp: CMDP) -> Array:
    choice = best_response(cmdp, cmdp.cost[..., 0], any_choice(cmdp))
    return values(cmdp, occupancy(cmdp, deterministic(choice, cmdp.reward.shape[1])))[1]


_gaps = jax.jit(jax.vmap(equilibrium_gap))


def gaps(problems: Any, occupancies: Array, multiplier: Array) -> Gap:
    """Return the equilibrium gap of each lane's pair, as arrays [L]: occupancies [L, S, A], multiplier [L, M].

    `problems` has fields cmdp, allowance [L, M] and maximum [L].
    """
    found = _gaps(problems.cmdp, occupancies, multiplier, problems.allowance, problems.maximum)
    return jax.tree.map(np.asarray, found)
