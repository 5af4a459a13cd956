"""What a behavior policy logs on a finite CMDP, and the pessimistic model that a log supports."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from o3srl.data import from_arrays
from o3srl.envs.toy import Environment
from o3srl.evaluate import Trace, trace
from o3srl.tabular.cmdp import CMDP
from o3srl.tabular.oracle import stationary
from o3srl.types import Data


class World(NamedTuple):
    """A finite CMDP under way: key, what its chances are drawn with, and state []."""

    key: Array
    state: Array


def environment(cmdp: CMDP, horizon: int) -> Environment:
    """Return the CMDP as a task: observations are one-hot states [S], the largest entry of an action [A] is taken."""
    states, actions, costs = cmdp.cost.shape

    def reset(key: Array) -> World:
        key, key_start = jax.random.split(key)
        return World(key, jax.random.categorical(key_start, jnp.log(cmdp.start)))

    def step(world: World, action: Array) -> tuple[World, Array, Array, Array]:
        key, key_next = jax.random.split(world.key)
        at = (world.state, jnp.argmax(action))
        following = jax.random.categorical(key_next, jnp.log(cmdp.transition[at]))
        return World(key, following), cmdp.reward[at], cmdp.cost[at], jnp.zeros(())

    def observe(world: World) -> Array:
        return jax.nn.one_hot(world.state, states, dtype=float)

    return Environment(reset, step, observe, horizon, states, actions, costs)


def logged(key: Array, cmdp: CMDP, occupancy: Array, episodes: int, horizon: int) -> Trace:
    """Return a log, a Trace with axes [episodes, horizon], of the policy that an occupancy [S, A] stands for."""
    world, policy = environment(cmdp, horizon), stationary()
    limit = jnp.zeros(world.costs)
    return jax.vmap(lambda own: trace(own, policy, occupancy, world, limit))(jax.random.split(key, episodes))


def as_data(log: Trace, source: str = "a finite CMDP") -> Data:
    """Return the library's own `Data` of a log, as networks learn from it; its episodes end by timeout."""
    episodes, horizon = log.reward.shape
    flat = {
        "observations": log.obs, "actions": log.action, "rewards": log.reward, "costs": log.cost,
        "next_observations": log.next_obs, "terminals": log.terminal,
    }  # fmt: skip
    arrays = {name: np.asarray(x).reshape(episodes * horizon, *x.shape[2:]) for name, x in flat.items()}
    arrays["timeouts"] = np.arange(episodes * horizon) % horizon == horizon - 1
    return from_arrays(arrays, source=source)


def counts(log: Trace) -> Array:
    """Return [S, A, S]: how often each state and action was followed by each state."""
    states, actions = log.obs.shape[-1], log.action.shape[-1]
    each = [jnp.argmax(x, axis=-1).reshape(-1) for x in (log.obs, log.action, log.next_obs)]
    place = jnp.ravel_multi_index(each, (states, actions, states), mode="clip")
    return jnp.bincount(place, length=states * actions * states).reshape(states, actions, states).astype(float)


def pessimistic(cmdp: CMDP, counts: Array, width: ArrayLike) -> CMDP:
    """Return the CMDP that a log of these counts supports: lower confidence in reward, upper confidence in cost.

        P^(s' | s, a) = n(s, a, s') / n(s, a),   b(s, a) = width H / sqrt(n(s, a)),   reward - b,   cost + b

    Planning in it for r - lambda (c - a) is lower-confidence value iteration (Rashidinejad et al., 2021) with the bonus
    (1 + sum lambda) b, for every multiplier at once. `width` stands for the constant and logarithm of the confidence
    interval. What was never tried earns -H and costs H, less than any policy can; rewards and costs are as logged,
    without noise. A width of 0 is the plain empirical model.
    """
    times = jnp.sum(counts, axis=-1)
    tried = times > 0.0
    horizon = 1.0 / (1.0 - cmdp.discount)
    bonus = width * horizon / jnp.sqrt(jnp.maximum(times, 1.0))
    stay = jnp.broadcast_to(jnp.eye(times.shape[0])[:, None, :], counts.shape)
    return cmdp._replace(
        transition=jnp.where(tried[..., None], counts / jnp.maximum(times, 1.0)[..., None], stay),
        reward=jnp.where(tried, cmdp.reward - bonus, -horizon),
        cost=jnp.where(tried[..., None], cmdp.cost + bonus[..., None], horizon),
    )
