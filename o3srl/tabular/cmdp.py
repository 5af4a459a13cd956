"""Finite constrained MDPs: every number in the paper can be computed on them.

All arrays, so that problems are stacked along a leading axis and mapped over like anything else.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from o3srl.errors import ConfigError


class CMDP(NamedTuple):
    """A finite constrained MDP of S states, A actions and M costs.

    Fields: transition [S, A, S], the chance of each next state; reward [S, A]; cost [S, A, M], at least 0; start [S],
    the chance of each first state; discount [], gamma.
    """

    transition: Array
    reward: Array
    cost: Array
    start: Array
    discount: Array


def garnet(
    key: Array, states: int = 10, actions: int = 4, costs: int = 1, branches: int = 3, discount: ArrayLike = 0.9
) -> CMDP:
    """Return a random CMDP (Archibald et al., 1995): each state and action leads to `branches` states drawn at random.

    Their chances are the gaps between sorted uniform numbers; rewards and costs are uniform in [0, 1].
    """
    if not 1 <= branches <= states:
        raise ConfigError(f"A random CMDP of {states} states cannot branch into {branches}: give 1 to {states}.")
    key_next, key_chance, key_reward, key_cost = jax.random.split(key, 4)
    cells = (states, actions)
    order = jnp.argsort(jax.random.uniform(key_next, (*cells, states)), axis=-1)[..., :branches]
    cuts = jnp.sort(jax.random.uniform(key_chance, (*cells, branches - 1)), axis=-1)
    edges = jnp.concatenate([jnp.zeros((*cells, 1)), cuts, jnp.ones((*cells, 1))], axis=-1)
    return CMDP(
        transition=jnp.einsum("sab,sabn->san", jnp.diff(edges), jax.nn.one_hot(order, states, dtype=edges.dtype)),
        reward=jax.random.uniform(key_reward, cells),
        cost=jax.random.uniform(key_cost, (*cells, costs)),
        start=jnp.full(states, 1.0 / states),
        discount=jnp.asarray(discount, float),
    )


def gridworld(
    key: Array, size: int = 4, hazards: float = 0.3, slip: float = 0.1, costs: int = 1, discount: ArrayLike = 0.9
) -> CMDP:
    """Return a square of size^2 cells, from one corner to the goal in the opposite one, with hazards strewn about.

    Four moves; with chance `slip` a move goes anywhere. A step in the goal earns 1 and leads back to the start. Each
    cell but these two is a hazard of each cost with chance `hazards`, and a step in it costs 1.
    """
    states = size * size
    row, column = jnp.divmod(jnp.arange(states), size)
    reached = [
        jnp.clip(row + down, 0, size - 1) * size + jnp.clip(column + right, 0, size - 1)
        for down, right in ((0, 1), (1, 0), (0, -1), (-1, 0))
    ]
    moves = jax.nn.one_hot(jnp.stack(reached, axis=1), states, dtype=float)
    slipped = jnp.mean(moves, axis=1, keepdims=True)
    goal = jnp.arange(states) == states - 1
    start = jax.nn.one_hot(0, states, dtype=float)
    transition = jnp.where(goal[:, None, None], start, (1.0 - slip) * moves + slip * slipped)
    inside = ~goal & (jnp.arange(states) > 0)
    hazard = (jax.random.uniform(key, (states, costs)) < hazards) & inside[:, None]
    shape = (states, len(reached))
    return CMDP(
        transition=transition,
        reward=jnp.broadcast_to(goal[:, None], shape).astype(float),
        cost=jnp.broadcast_to(hazard[:, None, :], (*shape, costs)).astype(float),
        start=start,
        discount=jnp.asarray(discount, float),
    )


def one_state(reward: Any, cost: Any) -> CMDP:
    """Return the CMDP of one state and gamma = 0, so that H = 1: action a earns reward [A] and costs cost [A, M]."""
    actions = jnp.asarray(reward).shape[0]
    return CMDP(
        transition=jnp.ones((1, actions, 1)),
        reward=jnp.asarray(reward, float)[None, :],
        cost=jnp.asarray(cost, float).reshape(1, actions, -1),
        start=jnp.ones(1),
        discount=jnp.zeros(()),
    )
