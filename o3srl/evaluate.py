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


class Trace(NamedTuple):
    """One episode, step by step: obs [T, n], action [T, m], reward [T], cost [T, M], next_obs [T, n], terminal [T].

    alive [T] is whether the step belongs to the episode: False after its terminal, where reward and cost are zero and
    the rest means nothing.
    """

    obs: Array
    action: Array
    reward: Array
    cost: Array
    next_obs: Array
    terminal: Array
    alive: Array


class _Running(NamedTuple):
    """An episode under way: world and memory are the environment's and the policy's, step is what the policy sees."""

    world: State
    memory: State
    step: Step
    alive: Array


def trace(key: Array, policy: Policy, parameters: Parameters, environment: Environment, limit: Array) -> Trace:
    """Return one episode of T steps, with a budget of limit [M]."""
    key_world, key_memory, key_act = jax.random.split(key, 3)

    def advance(running: _Running, key_step: Array) -> tuple[_Running, Trace]:
        alive, obs = running.alive, running.step.obs
        action, memory = policy.act(key_step, parameters, running.memory, running.step)
        world, reward, cost, terminal = environment.step(running.world, action)
        # A world that has ended may go anywhere, so what it yields is replaced, not multiplied by zero.
        step = Step(environment.observe(world), jnp.where(alive, reward, 0.0), jnp.where(alive, cost, 0.0))
        taken = Trace(obs, action, step.reward, step.cost, step.obs, terminal, alive)
        return _Running(world, memory, step, alive & (terminal == 0)), taken

    world = environment.reset(key_world)
    first = Step(environment.observe(world), jnp.zeros(()), jnp.zeros(environment.costs))
    running = _Running(world, policy.reset(key_memory, parameters, limit), first, jnp.array(True))
    return jax.lax.scan(advance, running, jax.random.split(key_act, environment.horizon))[1]


@partial(jax.jit, static_argnames=("policy", "environment", "episodes"))
def rollout(
    key: Array, policy: Policy, parameters: Parameters, environment: Environment, limit: Array, episodes: int
) -> Outcome:
    """Return the outcome of `episodes` episodes, each of T steps or up to its terminal, with a budget of limit [M].

    Lanes are a vmap over key, parameters and limit.
    """

    def episode(number: Array) -> Outcome:
        steps = trace(jax.random.fold_in(key, number), policy, parameters, environment, limit)
        return Outcome(steps.reward.sum(), steps.cost.sum(axis=0), steps.alive.sum())

    return jax.vmap(episode)(jnp.arange(episodes))
