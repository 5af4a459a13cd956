"""Evaluation of a run in its task's simulator: the last checkpoint, DSRL's protocol and scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from o3srl.envs import make as make_environment
from o3srl.envs.score import normalized_cost, normalized_reward
from o3srl.errors import ConfigError, RunError
from o3srl.evaluate import rollout
from o3srl.experiment.lanes import Lane, by_setting
from o3srl.experiment.record import best_within, read_log
from o3srl.experiment.restore import restore
from o3srl.files import write_json
from o3srl.train import raw_key


class Evaluation(NamedTuple):
    """What is asked: episodes per lane, the limit to score by (None: each lane's own), which iterate, and the seed."""

    episodes: int = 20
    limit: tuple[float, ...] | None = None
    iterate: str = "last"
    seed: int = 0


def evaluate(directory: Path, asked: Evaluation) -> dict[str, Any]:
    """Run the episodes, write `result.json` into the run directory, and return its content.

    Rewards and costs are means over episodes of undiscounted sums. Standard deviations are over the lanes of one
    setting and divide by their number (ddof 0).
    """
    saved = restore(directory)
    task = saved.plan.run.task
    if task is None:
        raise RunError(
            f"{directory} was trained on a file without a task, so there is nothing to simulate in. Name the task that "
            f"the log came from when training (--task, see `o3srl tasks`), or take the policy where it belongs: "
            f'o3srl.load("{directory}") acts on raw observations.'
        )
    if asked.episodes < 1:
        raise ConfigError(f"--episodes must be at least 1; got {asked.episodes}.")
    environment = make_environment(task)
    limits = [asked.limit or lane.limit for lane in saved.plan.lanes]
    if any(len(limit) != environment.costs for limit in limits):
        raise ConfigError(f"The task {task} has {environment.costs} cost(s): give as many limits, joined by commas.")
    key = raw_key(asked.seed)
    parameters = saved.parameters(asked.iterate)

    def one(parameters: Any, limit: Any) -> Any:
        return rollout(key, saved.algorithm.policy, parameters, environment, limit, asked.episodes)

    outcome = jax.device_get(jax.jit(jax.vmap(one))(parameters, jnp.asarray(limits, jnp.float32)))
    log = read_log(directory)
    returns, costs = np.asarray(log["returns"]), np.asarray(log["costs"])
    lanes = [
        {
            **_lane(task, lane, limit, outcome.returns[index], outcome.costs[index]),
            "best_logged": None if (best := best_within(returns, costs, limit)) is None else float(returns[best]),
        }
        for index, (lane, limit) in enumerate(zip(saved.plan.lanes, limits, strict=True))
    ]
    result = {
        "task": task,
        "episodes": asked.episodes,
        "updates": saved.updates,
        "iterate": asked.iterate,
        "seed": asked.seed,
        "episodes_spent": _spent(directory) + asked.episodes * len(lanes),
        "lanes": lanes,
        **_summary(saved.plan.lanes, lanes),
    }
    write_json(directory / "result.json", result)
    return result


def _lane(task: str, lane: Lane, limit: tuple[float, ...], returns: np.ndarray, costs: np.ndarray) -> dict[str, Any]:
    reward, cost = float(returns.mean()), costs.mean(axis=0)
    return {
        "seed": lane.seed,
        "limit": list(limit),
        **({"settings": dict(lane.own)} if lane.own else {}),
        "reward": reward,
        "cost": cost.tolist(),
        "normalized_reward": float(normalized_reward(reward, task)),
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
    try:
        return int(json.loads((directory / "result.json").read_text())["episodes_spent"])
    except (OSError, ValueError, KeyError):
        return 0
