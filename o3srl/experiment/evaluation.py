"""Evaluation of a run in its task's simulator by DSRL's protocol and scores: of its last checkpoint, or its snapshots.

Rewards and costs are means over episodes of undiscounted sums. Standard deviations are over the lanes of one setting
and divide by their number (ddof 0).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from o3srl.envs import make as make_environment
from o3srl.envs import tasks
from o3srl.envs.gym import ENVIRONMENTS, Settings, simulate
from o3srl.envs.pool import PATIENCE
from o3srl.envs.score import log_constants, normalized_cost, normalized_reward
from o3srl.envs.tasks import Constants, Task
from o3srl.errors import ConfigError, RunError
from o3srl.evaluate import Outcome, rollout
from o3srl.experiment import snapshots
from o3srl.experiment.lanes import Lane, by_setting
from o3srl.experiment.record import best_within, read_log
from o3srl.experiment.restore import Saved, at_snapshot, restore
from o3srl.experiment.run import CURVE, RESULT
from o3srl.files import write_json
from o3srl.train import raw_key
from o3srl.types import Parameters

Told = Callable[[int, int], None]  # episodes that have ended, of how many


class Evaluation(NamedTuple):
    """What is asked: episodes per lane; the limit to score by (None: each lane's own); which iterate; the seed; the
    task (None: the run's own); and how a simulator is used, see `envs.gym.Settings`."""

    episodes: int = 20
    limit: tuple[float, ...] | None = None
    iterate: str = "last"
    seed: int = 0
    task: str | None = None
    environments: int = ENVIRONMENTS
    processes: int | None = None
    patience: float = PATIENCE


class Question(NamedTuple):
    """What is asked of a run: the run, its directory, the task, each lane's limit, the task's constants, the log."""

    saved: Saved
    directory: Path
    task: Task
    limits: list[tuple[float, ...]]
    constants: Constants
    log: dict[str, Any]

    def source(self) -> str:
        """Whose extreme returns normalize rewards."""
        if self.task.constants is None:
            return "the run's log"
        return "the task's own log" if self.task.suite == tasks.BUILT_IN else "DSRL's log"

    def facts(self, asked: Evaluation) -> dict[str, Any]:
        """What the numbers depend on besides the policy, as JSON types."""
        simulated = {} if self.task.suite == tasks.BUILT_IN else {"environments": asked.environments}
        return {
            "task": self.task.name,
            "episodes": asked.episodes,
            "iterate": asked.iterate,
            "seed": asked.seed,
            **simulated,
            "constants": {**self.constants._asdict(), "source": self.source()},
        }


def evaluate(directory: Path, asked: Evaluation, told: Told | None = None) -> dict[str, Any]:
    """Run the episodes, write `result.json` into the run directory, and return its content."""
    about = question(directory, asked)
    outcome = _play(about, about.saved.parameters(asked.iterate), asked, told, 0, len(about.limits) * asked.episodes)
    result = {
        **about.facts(asked),
        "updates": about.saved.updates,
        "episodes_spent": _spent(directory) + asked.episodes * len(about.limits),
        **_scored(about, outcome),
    }
    write_json(directory / RESULT, result)
    return result


def evaluate_snapshots(directory: Path, asked: Evaluation, told: Told | None = None) -> dict[str, Any]:
    """Evaluate every snapshot of a run, write `curve.json` after each, and return its content.

    Snapshots that the file already holds, evaluated under the same settings, are not evaluated again.
    """
    about = question(directory, asked)
    kept = snapshots.kept(directory)
    if not kept:
        raise RunError(f"{directory} kept no snapshots: train with --snapshots N (of N policies, evenly spaced).")
    facts = {**about.facts(asked), "limits": [list(limit) for limit in about.limits]}
    path, each = directory / CURVE, asked.episodes * len(about.limits)
    points = _points(path, facts)
    missing = [updates for updates in kept if updates not in {point["updates"] for point in points}]
    for index, updates in enumerate(missing):
        parameters = at_snapshot(about.saved, updates, asked.iterate)
        outcome = _play(about, parameters, asked, told, index * each, len(missing) * each)
        points = sorted([*points, {"updates": updates, **_scored(about, outcome)}], key=lambda point: point["updates"])
        write_json(path, {**facts, "episodes_spent": _spent(directory) + each, "points": points})
    return json.loads(path.read_text())


def _points(path: Path, facts: dict[str, Any]) -> list[dict[str, Any]]:
    try:
        content = json.loads(path.read_text())
        return content["points"] if all(content[name] == value for name, value in facts.items()) else []
    except (OSError, ValueError, KeyError):
        return []


def question(directory: Path, asked: Evaluation) -> Question:
    """Return what is asked of a run, made sure of; nothing is simulated."""
    counts = {
        "--episodes": asked.episodes,
        "--environments": asked.environments,
        "--processes": asked.processes,
    }
    for flag, value in counts.items():
        if value is not None and value < 1:
            raise ConfigError(f"{flag} must be at least 1; got {value}.")
    if not asked.patience > 0:
        raise ConfigError(f"--patience must be a number of seconds above 0; got {asked.patience:g}.")
    if asked.seed < 0:
        raise ConfigError(f"--seed must not be negative; got {asked.seed}.")
    saved = restore(directory)
    name = asked.task or saved.plan.run.task
    if name is None:
        raise RunError(
            f"{directory} was trained on a file without a task, so there is nothing to simulate in. Name the task that "
            f"the log came from (--task, see `o3srl tasks`), or take the policy where it belongs: "
            f'o3srl.load("{directory}") acts on raw observations.'
        )
    task = tasks.find(name)
    tasks.check_fits(saved.info, task)
    limits = [asked.limit or lane.limit for lane in saved.plan.lanes]
    if any(len(limit) != saved.info.costs for limit in limits):
        raise ConfigError(f"The run has {saved.info.costs} cost(s): give as many limits, joined by commas.")
    log = read_log(directory)
    return Question(saved, directory, task, limits, task.constants or log_constants(log["returns"]), log)


def _play(
    about: Question, parameters: Parameters, asked: Evaluation, told: Told | None, before: int, total: int
) -> Outcome:
    """Return the outcome [L, E] of policies with parameters [L, ...]."""
    saved, limits = about.saved, jnp.asarray(about.limits, jnp.float32)
    policy = saved.algorithm.policy
    if about.task.suite == tasks.BUILT_IN:
        environment, key = make_environment(about.task.name), raw_key(asked.seed)

        def one(parameters: Any, limit: Any) -> Any:
            return rollout(key, policy, parameters, environment, limit, asked.episodes)

        return jax.device_get(jax.jit(jax.vmap(one))(parameters, limits))
    settings = Settings(asked.seed, asked.environments, asked.processes, asked.patience)
    done = before

    def ended(episodes: int) -> None:
        nonlocal done
        done += episodes
        if told is not None:
            told(done, total)

    if told is not None:
        told(done, total)
    return simulate(policy, parameters, limits, about.task, saved.info, asked.episodes, settings, ended)


def _scored(about: Question, outcome: Outcome) -> dict[str, Any]:
    returns, costs = np.asarray(about.log["returns"]), np.asarray(about.log["costs"])
    own = about.saved.plan.lanes
    lanes = [
        {
            **_lane(about.constants, lane, limit, np.asarray(outcome.returns[index]), np.asarray(outcome.costs[index])),
            "best_logged": None if (best := best_within(returns, costs, limit)) is None else float(returns[best]),
        }
        for index, (lane, limit) in enumerate(zip(own, about.limits, strict=True))
    ]
    return {"lanes": lanes, **_summary(own, lanes)}


def _lane(
    constants: Constants, lane: Lane, limit: tuple[float, ...], returns: np.ndarray, costs: np.ndarray
) -> dict[str, Any]:
    reward, cost = float(returns.mean()), costs.mean(axis=0)
    return {
        "seed": lane.seed,
        "limit": list(limit),
        **({"settings": dict(lane.own)} if lane.own else {}),
        "reward": reward,
        "cost": cost.tolist(),
        "normalized_reward": float(normalized_reward(reward, constants)),
        "normalized_cost": float(normalized_cost(cost, np.asarray(limit))),
        "returns": returns.tolist(),
        "costs": costs.tolist(),
    }


SCORES = ("normalized_reward", "normalized_cost")


def _summary(lanes: list[Lane], results: list[dict[str, Any]]) -> dict[str, Any]:
    # Over several settings, the mean is over all lanes and the deviation pools those within the settings.
    settings: list[dict[str, Any]] = []
    for members in by_setting(lanes):
        scores = {name: np.asarray([results[index][name] for index in members]) for name in SCORES}
        settings.append(
            {
                "limit": results[members[0]]["limit"],
                **lanes[members[0]].own,
                "seeds": [lanes[index].seed for index in members],
                "mean": {name: float(values.mean()) for name, values in scores.items()},
                "std": {name: float(values.std()) for name, values in scores.items()},
            }
        )
    return {
        "mean": {name: float(np.mean([entry["mean"][name] for entry in settings])) for name in SCORES},
        "std": {name: float(np.sqrt(np.mean([entry["std"][name] ** 2 for entry in settings]))) for name in SCORES},
        "settings": settings,
    }


def _spent(directory: Path) -> int:
    """Simulated episodes that all evaluations of the run have spent so far."""
    return max(_recorded(directory / RESULT), _recorded(directory / CURVE))


def _recorded(path: Path) -> int:
    try:
        return int(json.loads(path.read_text())["episodes_spent"])
    except (OSError, ValueError, KeyError):
        return 0
