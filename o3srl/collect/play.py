"""Whole episodes of a behavior policy: in the graph for built-in tasks, over processes of simulators for the others."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import Array

from o3srl import envs
from o3srl.collect import ppo
from o3srl.envs import toy
from o3srl.envs.pool import IDLE, PATIENCE, RESET, STEP, Pool
from o3srl.envs.tasks import BUILT_IN, Sizes, Task
from o3srl.envs.worker import GOES_ON, TERMINAL
from o3srl.errors import ConfigError
from o3srl.evaluate import Trace, trace
from o3srl.policy import in_box

Numbers = npt.NDArray[np.float64]
Seeds = npt.NDArray[np.uint32]


class Stage(NamedTuple):
    """Where episodes are played. sizes: of the task; low and high [m]: the box of its actions; play: (key, seeds [S],
    behavior) -> Trace [S, T, ...] with actions as sampled."""

    sizes: Sizes
    low: Numbers
    high: Numbers
    play: Callable[[Array, Seeds, ppo.Behavior], Trace]


class Simulators(NamedTuple):
    """How a task is simulated. costs per step and horizon: where the task does not tell; processes (None: one per
    core) and patience in seconds, as a `Pool` has them."""

    costs: int = 1
    horizon: int | None = None
    processes: int | None = None
    patience: float = PATIENCE


@contextmanager
def stage(task: Task, seeds: Seeds, simulators: Simulators = Simulators()) -> Generator[Stage]:
    """Yield a fresh stage with one environment per seed."""
    if task.suite == BUILT_IN:
        environment = envs.make(task.environment)
        box = np.ones(environment.action_dim)
        assert task.sizes is not None
        yield Stage(task.sizes, -box, box, partial(_in_graph, environment))
        return
    costs = task.sizes.costs if task.sizes else simulators.costs
    with Pool(task, costs, seeds.tolist(), simulators.processes, simulators.patience) as pool:
        facts = pool.facts
        horizon = task.sizes.horizon if task.sizes else simulators.horizon or facts.horizon
        if horizon is None:
            raise ConfigError(
                f"The environment {task.name} has no time limit of its own. Say how long an episode is (--horizon)."
            )
        sizes = Sizes(facts.obs_dim, len(facts.low), costs, horizon)
        yield Stage(sizes, facts.low, facts.high, partial(_simulated, pool, sizes))


_POLICY = ppo.policy()


@partial(jax.jit, static_argnums=0)
def _in_graph(environment: toy.Environment, key: Array, seeds: Seeds, behavior: ppo.Behavior) -> Trace:
    def one(seed: Array) -> Trace:
        limit = jnp.zeros(environment.costs)
        return trace(jax.random.fold_in(key, seed), _POLICY, behavior, environment, limit)

    return jax.vmap(one)(jnp.asarray(seeds))


_sample = jax.jit(ppo.sample)


def _simulated(pool: Pool, sizes: Sizes, key: Array, seeds: Seeds, behavior: ppo.Behavior) -> Trace:
    slots, horizon = len(seeds), sizes.horizon
    keys = jax.random.split(key, horizon)
    steps = _nothing(slots, sizes)
    alive = np.ones(slots, bool)
    obs = pool.tick(np.full(slots, RESET, np.uint8), seeds, np.zeros((slots, sizes.action_dim))).obs
    for number in range(horizon):
        sampled = np.asarray(_sample(keys[number], behavior, obs))
        actions = in_box(sampled, pool.facts.low, pool.facts.high)
        answers = pool.tick(np.where(alive, STEP, IDLE).astype(np.uint8), seeds, actions)
        taken = (obs, sampled, answers.reward, answers.cost, answers.obs, answers.state == TERMINAL, alive)
        for whole, part in zip(steps, taken, strict=True):
            whole[alive, number] = part[alive]
        obs, alive = answers.obs, alive & (answers.state == GOES_ON)
        if not alive.any():
            break
    return steps


def _nothing(slots: int, sizes: Sizes) -> Any:
    shape = (slots, sizes.horizon)

    def zeros(*entries: int, kind: Any = np.float32) -> Any:
        return np.zeros((*shape, *entries), kind)

    return Trace(
        obs=zeros(sizes.obs_dim), action=zeros(sizes.action_dim), reward=zeros(), cost=zeros(sizes.costs),
        next_obs=zeros(sizes.obs_dim), terminal=zeros(), alive=zeros(kind=bool),
    )  # fmt: skip
