"""A run on disk: made, trained with checkpoints, stopped, resumed.

A run directory holds `config.json` (written first: configuration, lanes, facts about the data), `data.json` (the
episodes' returns and costs), `metrics.csv` (a row per chunk and lane), `timing.csv`, `state.safetensors`,
and `snapshots/` if asked for. Every file appears whole or not at all; a run that was killed at any moment resumes from
its last checkpoint and ends in the same bits as one that was not.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from o3srl import checkpoint
from o3srl.data import DataWarning, cheapest_warning, describe, load, observation_statistics
from o3srl.envs import tasks
from o3srl.envs.tasks import Task
from o3srl.errors import ConfigError, RunError
from o3srl.experiment import lanes as lane_tools
from o3srl.experiment import snapshots
from o3srl.experiment.codec import decode, encode
from o3srl.experiment.config import TYPES, AlgorithmConfig, RunConfig, build
from o3srl.experiment.lanes import Lane
from o3srl.experiment.metrics import MetricsLog
from o3srl.files import refuse_occupied, write_json
from o3srl.normalize import normalize
from o3srl.train import Build, Chunk, Engine, Lanes, Stretch, make_engine, make_plan, place, total_updates
from o3srl.train import run as run_chunks
from o3srl.types import Algorithm, Data, Info

STATE, CONFIG, EPISODES = "state.safetensors", "config.json", "data.json"
RESULT, CURVE = "result.json", "curve.json"
OWN_FILES = {CONFIG, EPISODES, STATE, "metrics.csv", "timing.csv", snapshots.FOLDER, RESULT, CURVE, "report.html"}


class Plan(NamedTuple):
    """What a run is, before and without its data: its configuration, its own settings, and its lanes."""

    algorithm: AlgorithmConfig
    run: RunConfig
    lanes: list[Lane]


class Run(NamedTuple):
    """A run ready to train: plan, logged data as loaded, first lane's algorithm, engine, and stretches of work."""

    plan: Plan
    data: Data
    algorithm: Algorithm
    engine: Engine
    stretches: list[Stretch]

    @property
    def directory(self) -> Path:
        """Where the run lives."""
        return Path(self.plan.run.out)

    @property
    def updates(self) -> int:
        """Gradient updates of the whole run, per lane."""
        return total_updates(self.stretches)


Reporter = Callable[[Run, Chunk], None]
Stop = Callable[[], bool]


def load_data(run: RunConfig) -> Data:
    """Return the run's log: the file of --data, or else the task's own, which is built in or was fetched."""
    task = tasks.find(run.task) if run.task else None
    file = run.data or (_fetched(task) if task and task.suite != tasks.BUILT_IN else None)
    if file is not None:
        data = load(file, task=run.task, horizon=run.horizon or (task.sizes.horizon if task and task.sizes else None))
        if task:
            tasks.check_fits(data.info, task)
        return data
    if task is None:
        raise ConfigError(
            "There is nothing to train on: name a built-in task (--task toy-circle) or a log (--data FILE)."
        )
    if run.horizon is not None:
        raise ConfigError(f"--horizon belongs to a log of your own (--data); the task {task.name} has its own horizon.")
    from o3srl.envs.toy_data import task_data  # made on the spot

    return task_data(task.name)


def _fetched(task: Task) -> Path:
    from o3srl.data import dsrl  # here, so that a log of one's own needs no client of the Hub

    file = dsrl.cached(task)
    if file is None:
        raise ConfigError(dsrl.missing(task))
    return file


def prepare(plan: Plan) -> Run:
    """Return the run in memory, with everything checked that can be; nothing is written."""
    if not plan.run.out:
        raise ConfigError("Where should the run go? Give --out, for instance --out runs/first.")
    data = load_data(plan.run)
    if len(plan.lanes[0].limit) != data.info.costs:
        given = ",".join(f"{limit:g}" for limit in plan.lanes[0].limit)
        raise ConfigError(
            f"--limit {given} names {len(plan.lanes[0].limit)} cost(s), but the log {data.info.source} has "
            f"{data.info.costs}. Give one limit per cost, joined by commas (--limit 5,10); a space makes another lane."
        )
    builder = make_builder(plan, observation_statistics(data) if plan.run.normalize_observations else None)
    settings = lane_tools.stacked_settings(plan.algorithm, plan.lanes)
    algorithm = first_algorithm(builder, settings)
    stretches = make_plan(algorithm.phases, plan.run.updates, plan.run.chunk_updates)
    engine = make_engine(builder, settings, place(algorithm.prepare(data)))
    return Run(plan, data, algorithm, engine, stretches)


def make_builder(plan: Plan, statistics: tuple[Any, Any] | None) -> Build:
    """Return one lane's settings -> algorithm, on normalized observations where statistics (mean, scale) are given."""

    def builder(settings: Any) -> Algorithm:
        algorithm = build(plan.algorithm, plan.run, settings)
        return algorithm if statistics is None else normalize(algorithm, *statistics)

    return builder


def first_algorithm(builder: Build, settings: Any) -> Algorithm:
    """Return the first lane's algorithm: what all lanes have in common can be read off it."""
    return builder(jax.tree.map(lambda x: x[0], settings))


def start(plan: Plan, report: Reporter, stop: Stop) -> bool:
    """Make the run directory and train; return whether the run finished (False: stopped, with a checkpoint)."""
    refuse_existing(plan.run)
    run = prepare(plan)
    for said in _limit_warnings(run):
        warnings.warn(said[0].upper() + said[1:], DataWarning, stacklevel=2)
    _make_directory(run)
    return _train(run, run.engine.start(lane_tools.keys(plan.lanes)), 0, report, stop)


def resume(directory: Path, updates: int | None, report: Reporter, stop: Stop) -> bool:
    """Train on from the last checkpoint, up to `updates` (by default the run's own number); return as `start` does."""
    plan, recorded = read(directory)
    if updates is not None:
        if updates < plan.run.updates:
            raise ConfigError(
                f"{directory} is a run of {plan.run.updates} updates; --updates {updates} is fewer. "
                "Give a larger number to train on, or none to finish it."
            )
        plan = plan._replace(run=dataclasses.replace(plan.run, updates=updates))
    run = prepare(plan)
    _check_same_phases(run, updates)
    if run.data.info.sha256 != recorded.sha256:
        raise RunError(
            f"The log {run.data.info.source} is not the one that {directory} was started on: its content has another "
            f"hash ({run.data.info.sha256[:12]} instead of {recorded.sha256[:12]}). Put the old file back, or start a "
            "new run."
        )
    keys = lane_tools.keys(plan.lanes)
    if (directory / STATE).exists():
        lanes, facts = checkpoint.restore(directory / STATE, run.engine.shapes(keys))
        done = int(facts["updates"])
    else:
        lanes, done = run.engine.start(keys), 0
    if updates is not None:
        write_json(directory / CONFIG, _config(run))
    if not (directory / EPISODES).exists():  # killed between its first two files
        _write_episodes(run)
    return _train(run, lanes, done, report, stop)


def _check_same_phases(run: Run, updates: int | None) -> None:
    if updates is not None and len({stretch.phase for stretch in run.stretches}) > 1:
        raise ConfigError(
            f"{run.directory} trains in phases that share its updates, so more updates would move their borders: "
            "it cannot be trained on. Start a new run with that number of updates."
        )


def read(directory: Path) -> tuple[Plan, Info]:
    """Return (plan, facts about the data) of a run directory; the plan's `out` is where the directory is now."""
    try:
        content = json.loads((directory / CONFIG).read_text())
        plan = Plan(
            algorithm=decode(content["algorithm"], TYPES),
            run=dataclasses.replace(decode(content["run"], TYPES), out=str(directory)),
            lanes=[_lane(entry) for entry in content["lanes"]],
        )
        facts: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in content["data"].items()}
        return plan, Info(**facts)
    except FileNotFoundError:
        what = "holds no run (no config.json)" if directory.exists() else "does not exist"
        raise RunError(f"{directory} {what}. `o3srl train ... --out {directory}` would make one there.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{directory / CONFIG} cannot be read as a run's configuration ({error!r}).") from None


def _lane(entry: dict[str, Any]) -> Lane:
    own = {path: value for path, value in entry.items() if path not in ("seed", "limit")}
    return Lane(entry["seed"], tuple(entry["limit"]), own)


def refuse_existing(run: RunConfig) -> None:
    """Raise unless the run directory is free, or may be overwritten and holds nothing but a run."""
    if run.out:
        ways_out = f"Go on with it (o3srl resume {run.out}), choose another --out, or replace it with --overwrite."
        refuse_occupied(Path(run.out), OWN_FILES, run.overwrite, ways_out)


def _make_directory(run: Run) -> None:
    if run.directory.exists():
        shutil.rmtree(run.directory)
    run.directory.mkdir(parents=True)
    write_json(run.directory / CONFIG, _config(run))
    _write_episodes(run)


def _write_episodes(run: Run) -> None:
    episodes = run.data.episodes
    facts = {
        "facts": describe(run.data),
        "returns": np.asarray(episodes.returns).tolist(),
        "costs": np.asarray(episodes.costs).tolist(),
        "lengths": np.asarray(episodes.length).tolist(),
        "warnings": _limit_warnings(run),
    }
    write_json(run.directory / EPISODES, facts)


def _limit_warnings(run: Run) -> list[str]:
    return sorted({said for lane in run.plan.lanes if (said := cheapest_warning(run.data, np.asarray(lane.limit)))})


def _config(run: Run) -> dict[str, Any]:
    return {
        "format": 1,
        "version": package_version("o3srl"),
        "algorithm": encode(run.plan.algorithm),
        "run": encode(run.plan.run),
        "lanes": [lane.describe() for lane in run.plan.lanes],
        "data": dataclasses.asdict(run.data.info),
    }


def _train(run: Run, lanes: Lanes, done: int, report: Reporter, stop: Stop) -> bool:
    log = MetricsLog(run.directory, [lane.seed for lane in run.plan.lanes])
    log.cut(done)
    written = time.monotonic()
    for chunk in run_chunks(run.engine, run.stretches, lanes, done):
        log.append(chunk)
        if snapshots.due(chunk.updates - chunk.fresh, chunk.updates, run.updates, run.plan.run.snapshots):
            snapshots.keep(run.directory, run.algorithm, chunk.lanes.state, chunk.updates)
        last = chunk.updates >= run.updates
        asked = stop()
        if last or asked or time.monotonic() - written >= run.plan.run.checkpoint_seconds:
            log.flush()
            checkpoint.save(run.directory / STATE, chunk.lanes, {"updates": chunk.updates})
            written = time.monotonic()
        report(run, chunk)
        if asked and not last:
            return False
    return True
