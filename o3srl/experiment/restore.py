"""A run's policies back in memory, from its directory alone: neither its log nor a simulator is needed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from o3srl import checkpoint
from o3srl.data import width
from o3srl.errors import ConfigError, RunError
from o3srl.experiment import lanes as lane_tools
from o3srl.experiment import snapshots
from o3srl.experiment.run import STATE, Plan, first_algorithm, make_builder, read
from o3srl.policy import in_box
from o3srl.train import Lanes, make_engine, raw_key
from o3srl.types import Algorithm, Data, Episodes, Info, Parameters, Scaling, Step


class Saved(NamedTuple):
    """A run as its last checkpoint has it: plan, facts about its data, algorithm, lanes, and gradient updates done."""

    plan: Plan
    info: Info
    algorithm: Algorithm
    lanes: Lanes
    updates: int

    def parameters(self, iterate: str = "last") -> Parameters:
        """Return what the policies of all lanes act with, [L, ...]; `iterate` is last, exponential or uniform."""
        variants: Mapping[str, Parameters] = self.algorithm.parameters(self.lanes.state)
        if iterate not in variants:
            raise ConfigError(f"There is no iterate {iterate!r}; this algorithm keeps {', '.join(variants)}.")
        return variants[iterate]


def at_snapshot(saved: Saved, updates: int, iterate: str = "last") -> Parameters:
    """Return what the policies of all lanes acted with after so many updates, from a run that kept snapshots."""
    template = dict(saved.algorithm.parameters(saved.lanes.state))
    saved.parameters(iterate)  # an unknown iterate is refused with the known ones
    return snapshots.read(Path(saved.plan.run.out), template, updates)[iterate]


def restore(directory: Path) -> Saved:
    """Return the run's last checkpoint."""
    plan, info = read(directory)
    if not (directory / STATE).exists():
        raise RunError(f"{directory} has no checkpoint yet. `o3srl resume {directory}` trains it.")
    statistics = (np.zeros(info.obs_dim), np.ones(info.obs_dim)) if plan.run.normalize_observations else None
    builder = make_builder(plan, statistics)
    settings = lane_tools.stacked_settings(plan.algorithm, plan.lanes)
    algorithm = first_algorithm(builder, settings)
    template = make_engine(builder, settings, skeleton(info)).shapes(lane_tools.keys(plan.lanes))
    lanes, facts = checkpoint.restore(directory / STATE, template)
    return Saved(plan, info, algorithm, lanes, int(facts["updates"]))


def skeleton(info: Info) -> Data:
    """Return data with one row of zeros, from which an algorithm's `init` reads the shapes of its state."""
    one = jnp.zeros(1, jnp.int32)
    return Data(
        table=jnp.zeros((1, width(info))),
        episodes=Episodes(one, one, jnp.zeros(1), jnp.zeros((1, info.costs))),
        usable=one,
        initial=one,
        scaling=Scaling(jnp.float32(1.0), jnp.float32(1.0), jnp.float32(1.0)),
        info=info,
    )


class Controller:
    """A trained policy on raw observations, with actions in the environment's own box.

    Call `reset` at the start of an episode and the controller at each step:

        policy = o3srl.load("runs/x")
        policy.reset()
        action = policy(obs)
    """

    def __init__(self, saved: Saved, lane: int, parameters: Parameters, seed: int) -> None:
        self.info, self.limit = saved.info, saved.plan.lanes[lane].limit
        self._policy = saved.algorithm.policy
        self._parameters = jax.tree.map(lambda x: jnp.asarray(x[lane]), parameters)
        self._key = raw_key(seed)
        self._act = jax.jit(self._policy.act)
        self.reset()

    def reset(self, limit: tuple[float, ...] | None = None) -> None:
        """Begin an episode, with the budget `limit` [M] (by default the one that was trained for)."""
        self._key, key = jax.random.split(self._key)
        self._memory = self._policy.reset(key, self._parameters, jnp.asarray(limit or self.limit, jnp.float32))

    def __call__(self, obs: Any, reward: float = 0.0, cost: Any = 0.0) -> np.ndarray:
        """Return the action [m] for obs [n]; reward [] and cost [M] are the last step's (unused if Markov)."""
        obs = jnp.asarray(obs, jnp.float32)
        if obs.shape != (self.info.obs_dim,):
            raise ConfigError(
                f"This policy acts on observations of shape [{self.info.obs_dim}]; got {list(obs.shape)}."
            )
        self._key, key = jax.random.split(self._key)
        costs = jnp.broadcast_to(jnp.asarray(cost, jnp.float32), (self.info.costs,))
        step = Step(obs, jnp.float32(reward), costs)
        action, self._memory = self._act(key, self._parameters, self._memory, step)
        return in_box(action, self.info.action_low, self.info.action_high)


def load_policy(
    directory: str | Path, *, lane: int = 0, iterate: str = "last", updates: int | None = None, seed: int = 0
) -> Controller:
    """Return the policy of one lane of a run directory, as a callable on raw observations.

    `updates` takes a snapshot on the way instead of the last checkpoint.
    """
    saved = restore(Path(directory))
    if not 0 <= lane < len(saved.plan.lanes):
        raise ConfigError(f"{directory} has {len(saved.plan.lanes)} lane(s), counted from 0; there is no lane {lane}.")
    parameters = saved.parameters(iterate) if updates is None else at_snapshot(saved, updates, iterate)
    return Controller(saved, lane, parameters, seed)
