"""Evaluation in the graph: a policy's episodes in a built-in task, all at once.

Every episode's key is folded from the lane's key and the episode's number, so that an episode does not depend on how
many others run beside it.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from o3srl.envs.toy import Environment
from o3srl.types import Parameters, Policy, State, Step


class Outcome(NamedTuple):
    """Evaluated episodes: returns [E] and costs [E, M] (undiscounted sums), lengths [E] in steps."""

    returns: Array
    costs: Array
    lengths: Array


class _Running(NamedTuple):
    """An episode under way: world and memory are the environment's and the policy's, alive is 0 once it has ended."""

    world: State
    memory: State
    step: Step
    alive: Array
    outcome: Outcome


def _episode(key: Array, policy: Policy, parameters: Parameters, environment: Environment, limit: Array) -> Outcome:
    """One episode's returns [], costs [M] and lengths []."""
    key_world, key_memory, key_act = jax.random.split(key, 3)

    def advance(running: _Running, key_step: Array) -> tuple[_Running, None]:
        action, memory = policy.act(key_step, parameters, running.memory, running.step)
        world, reward, cost, terminal = environment.step(running.world, action)
        # A world that has ended may go anywhere, so what it yields is replaced, not multiplied by zero.
        reward, cost = jnp.where(running.alive, reward, 0.0), jnp.where(running.alive, cost, 0.0)
        returns, costs, lengths = running.outcome
        outcome = Outcome(returns + reward, costs + cost, lengths + running.alive)
        alive = running.alive & (terminal == 0)
        return _Running(world, memory, Step(environment.observe(world), reward, cost), alive, outcome), None

    world = environment.reset(key_world)
    zero, zeros = jnp.float32(0.0), jnp.zeros(environment.costs)
    start = _Running(
        world,
        policy.reset(key_memory, parameters, limit),
        Step(environment.observe(world), zero, zeros),
        jnp.array(True),
        Outcome(zero, zeros, jnp.int32(0)),
    )
    return jax.lax.scan(advance, start, jax.random.split(key_act, environment.horizon))[0].outcome


@partial(jax.jit, static_argnames=("policy", "environment", "episodes"))
def rollout(
    key: Array, policy: Policy, parameters: Parameters, environment: Environment, limit: Array, episodes: int
) -> Outcome:
    """Return the outcome of `episodes` episodes, each of T steps or up to its terminal, with a budget of limit [M].

    Lanes are a vmap over key, parameters and limit.
    """
    keys = jax.vmap(partial(jax.random.fold_in, key))(jnp.arange(episodes))
    return jax.vmap(lambda key_episode: _episode(key_episode, policy, parameters, environment, limit))(keys)
