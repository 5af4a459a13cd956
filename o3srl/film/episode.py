"""One episode of a run's policy as a film: the first of an evaluation, with what it earns and spends."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from o3srl.envs import make as make_environment
from o3srl.envs.gym import Settings, simulate
from o3srl.envs.pool import Answers, Pool
from o3srl.envs.tasks import BUILT_IN
from o3srl.errors import ConfigError
from o3srl.evaluate import trace
from o3srl.experiment.evaluation import Evaluation, Question, question
from o3srl.film import scene, strip
from o3srl.train import raw_key

SECONDS = 12.0  # about how long a film is, whatever the number of steps
PER_SECOND = (10.0, 30.0)  # frames, at least and at most
MOST_FRAMES = 240  # longer episodes are shown in every so-manyth step


class Filmed(NamedTuple):
    """What the filmed episode earned [] and cost [M], in how many steps."""

    reward: float
    cost: np.ndarray
    steps: int


def film(directory: Path, asked: Evaluation, lane: int, out: Path) -> Filmed:
    """Film a lane's first episode of the evaluation that is asked for, and write it to `out`, .gif or .mp4."""
    strip.check(out)
    about = question(directory, asked)
    lanes = about.saved.plan.lanes
    if not 0 <= lane < len(lanes):
        raise ConfigError(f"--lane {lane}: {directory} has lanes 0 to {len(lanes) - 1}, as config.json lists them.")
    parameters = jax.tree.map(lambda x: x[lane : lane + 1], about.saved.parameters(asked.iterate))
    play = _drawn if about.task.suite == BUILT_IN else _seen
    every = -(-about.saved.info.horizon // MOST_FRAMES)
    frames, reward, cost = play(about, asked, lane, parameters, every)
    account = strip.Account(reward, cost, np.asarray(about.limits[lane]), f"{about.task.name}, seed {lanes[lane].seed}")
    pictures = strip.with_account(frames, account, every)
    strip.write(out, [*pictures, *[pictures[-1]] * 10], float(np.clip(len(pictures) / SECONDS, *PER_SECOND)))
    return Filmed(float(reward.sum()), cost.sum(axis=0), len(reward))


def _drawn(about: Question, asked: Evaluation, lane: int, parameters: Any, every: int) -> tuple[list[Any], Any, Any]:
    environment = make_environment(about.task.name)
    key = jax.random.fold_in(raw_key(asked.seed), 0)  # as `evaluate.rollout` numbers episodes
    own, limit = jax.tree.map(lambda x: x[0], parameters), jnp.asarray(about.limits[lane], jnp.float32)
    steps = jax.device_get(trace(key, about.saved.algorithm.policy, own, environment, limit))
    length = int(steps.alive.sum())
    obs = np.concatenate([steps.obs[:length], steps.next_obs[length - 1 : length]])
    frames = scene.drawn(about.task.name, obs)[::every]
    return frames, steps.reward[:length], steps.cost[:length]


def _seen(about: Question, asked: Evaluation, lane: int, parameters: Any, every: int) -> tuple[list[Any], Any, Any]:
    frames: list[Any] = []
    rewards: list[float] = []
    costs: list[Any] = []

    def watch(pool: Pool, answers: Answers) -> None:
        if frames:  # the first tick is the reset
            rewards.append(float(answers.reward[0]))
            costs.append(answers.cost[0].copy())
        if len(rewards) % every == 0:
            frames.append(pool.picture(0))

    policy, limits = about.saved.algorithm.policy, [about.limits[lane]]
    settings = Settings(asked.seed, 1, 1, asked.patience)
    simulate(policy, parameters, limits, about.task, about.saved.info, 1, settings, watch=watch)
    return frames, np.asarray(rewards), np.asarray(costs)
