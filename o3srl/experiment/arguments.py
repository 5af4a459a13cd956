"""Command-line words to a plan: typed configurations by tyro, lanes from settings that were given more than once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import tyro

from o3srl.envs.gym import ENVIRONMENTS
from o3srl.envs.pool import PATIENCE
from o3srl.errors import ConfigError, did_you_mean
from o3srl.experiment import presets
from o3srl.experiment.config import ALGORITHMS, RunConfig, scalars
from o3srl.experiment.lanes import expand
from o3srl.experiment.run import Plan

if TYPE_CHECKING:
    from o3srl.collect.run import Asked

LIMIT = "--limit"

Parsed = TypeVar("Parsed")


@dataclass(frozen=True)
class ResumeArguments:
    """Go on from a run's last checkpoint."""

    directory: tyro.conf.Positional[Path]
    """the run directory"""
    updates: int | None = None
    """train on to this many gradient updates, more than before"""


@dataclass(frozen=True)
class EvaluateArguments:
    """Simulate the policies of a run in its task, print the table, and write result.json into the run directory.

    docs/tasks.md has the tasks, what installs their simulators, and environments of one's own."""

    directory: tyro.conf.Positional[Path]
    """the run directory"""
    episodes: int = 20
    """episodes per lane (DSRL: 20)"""
    limit: str | None = None
    """score by this limit per episode instead of each lane's own; a comma joins several costs"""
    iterate: Literal["last", "exponential", "uniform"] = "last"
    """the last iterate (the paper), or an average of the policy's parameters over the rounds"""
    seed: int = 0
    """of the simulated episodes"""
    snapshots: bool = False
    """evaluate the policies on the way (o3srl train --snapshots N) instead, for learning curves in the report"""
    task: str | None = None
    """simulate in this task instead of the run's own: a name of `o3srl tasks`, MyTask-v0, or my_module:make"""
    environments: int = ENVIRONMENTS
    """environments per lane, which share its episodes; part of what makes the numbers, unlike --processes"""
    processes: int | None = None
    """processes of simulators; by default one per core"""
    patience: float = PATIENCE
    """seconds that one step or reset of a simulator may take before it counts as hanging"""
    render: Path | None = None
    """film the first episode, with what it earns and spends, into this .gif or .mp4 instead"""
    lane: int = 0
    """whose policy is filmed; lanes are counted from 0"""


@dataclass(frozen=True)
class ReportArguments:
    """Write report.html into a run directory: one page that needs nothing from elsewhere."""

    directory: tyro.conf.Positional[Path]
    """the run directory"""


@dataclass(frozen=True)
class CollectArguments:
    """Make a log for a task: train behavior policies at a ladder of cost limits (PPO with a Lagrangian), keep all
    episodes of their training, and choose from them evenly over the plane of cost and return.

    A collection that was stopped goes on when the same command is given again."""

    task: str
    """a name of `o3srl tasks`, or a Gymnasium environment of one's own: MyTask-v0, or my_module:make"""
    out: Path
    """the log to write, in DSRL's format: FILE.hdf5"""
    limits: list[str] = dataclasses.field(default_factory=lambda: ["5", "10", "20", "40", "70", "none"])
    """cost limits per episode, a policy each, which later moves on to the next; `none`: it earns what it can"""
    episodes: int | None = None
    """how many episodes the log shall have (default: as DSRL's of this task, else 1000)"""
    steps: int | None = None
    """steps in the simulator per limit (default: by the task, 400,000 and more)"""
    envelope: str = "task"
    """the best return that the log may hold at a cost: `task` for that of DSRL's log where it is known, `none`, or
    pairs "cost,return cost,return", linear between"""
    environments: int = 16
    """environments that play side by side, an episode each per batch"""
    exploration: float | None = None
    """standard deviation of the first actions in the unit box (default: 0.3 for drones, else 0.6)"""
    seed: int = 0
    """of everything random; the same seed makes the same log"""
    costs: int = 1
    """costs per step, for an environment of one's own"""
    horizon: int | None = None
    """steps of an episode, for an environment of one's own without a time limit"""
    processes: int | None = None
    """processes of simulators; by default one per core"""
    patience: float = PATIENCE
    """seconds that one step or reset of a simulator may take before it counts as hanging"""
    overwrite: bool = False
    """replace FILE.hdf5"""
    keep: bool = False
    """keep all episodes of the training, in FILE.hdf5.collecting, to choose others later without training"""


def asked_of(told: CollectArguments) -> Asked:
    """Return the collection that is asked for, with the task's own defaults where nothing is said."""
    from o3srl.collect import ppo, run

    return run.Asked(
        told.task,
        tuple(run.limit_of(limit) for limit in told.limits),
        run.steps_for(told.task) if told.steps is None else told.steps,
        told.episodes,
        told.environments,
        told.envelope,
        told.seed,
        told.costs,
        told.horizon,
        ppo.PPOConfig(exploration=run.exploration_for(told.task) if told.exploration is None else told.exploration),
    )


def parse(kind: type[Parsed], words: Sequence[str], command: str) -> Parsed:
    """Return the arguments of a command; wrong words end the program with code 2 and say what is right."""
    return tyro.cli(kind, args=words, prog=command, config=(tyro.conf.FlagCreatePairsOff,))


def parse_train(words: Sequence[str]) -> Plan:
    """Return the plan that the words after `o3srl train` describe."""
    name, words = _algorithm(list(words))
    preset, words = _take_flag(words, "--preset")
    run, algorithm = presets.apply(presets.choose(preset, _peek(words, "--task")), RunConfig(), ALGORITHMS[name]())
    words, limits, several = split_lanes(words, list(scalars(algorithm)))
    run, algorithm = _tyro(name, run, algorithm, words)
    return Plan(algorithm, run, expand(algorithm, run, limits, several))


def split_lanes(
    words: list[str], paths: list[str]
) -> tuple[list[str], list[tuple[float, ...]], dict[str, list[float]]]:
    """Return (words, limits, several): the words with one value left of every setting that was given more than once.

    A space makes lanes and a comma joins costs: `--limit 5 10` are two limits, `--limit 5,10` is one for two costs.
    """
    flags = {f"--{path.replace('_', '-')}": path for path in paths}
    kept: list[str] = []
    limits: list[tuple[float, ...]] = []
    several: dict[str, list[float]] = {}
    index = 0
    while index < len(words):
        flag, equals, inline = words[index].partition("=")
        flag = f"--{flag[2:].replace('_', '-')}" if flag.startswith("--") else flag
        index += 1
        if flag != LIMIT and flag not in flags:
            kept.append(words[index - 1])
            continue
        values = [inline] if equals else []
        while index < len(words) and not words[index].startswith("--"):
            values.append(words[index])
            index += 1
        if not values:
            raise ConfigError(f"{flag} needs a value, or several: a space makes lanes.")
        if flag == LIMIT:
            limits = [limit_of(value) for value in values]
            kept += [LIMIT, *values[0].split(",")]
        else:
            kept += [flag, *values[:1]]
            if len(values) > 1:
                several[flags[flag]] = [_number(flag, value) for value in values]
    return kept, limits, several


def limit_of(text: str) -> tuple[float, ...]:
    """Return the limits that a comma joins, one per cost.

    >>> limit_of("5,10")
    (5.0, 10.0)
    """
    return tuple(_number(LIMIT, part) for part in text.split(","))


def _number(flag: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(
            f"{flag} takes numbers; {text!r} is none. A space makes lanes, a comma joins costs."
        ) from None


def _algorithm(words: list[str]) -> tuple[str, list[str]]:
    if not words or words[0].startswith("-"):
        return "o3srl", words
    if words[0] in ALGORITHMS:
        return words[0], words[1:]
    raise ConfigError(
        f"There is no algorithm {words[0]!r}{did_you_mean(words[0], ALGORITHMS)} Known: {', '.join(ALGORITHMS)}."
    )


def _peek(words: list[str], flag: str) -> str | None:
    for index, word in enumerate(words):
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
        if word == flag and index + 1 < len(words):
            return words[index + 1]
    return None


def _take_flag(words: list[str], flag: str) -> tuple[str | None, list[str]]:
    value = _peek(words, flag)
    if value is None:
        return None, words
    if f"{flag}={value}" in words:
        return value, [word for word in words if word != f"{flag}={value}"]
    at = words.index(flag)
    return value, words[:at] + words[at + 2 :]


def _tyro(name: str, run: RunConfig, algorithm: Any, words: list[str]) -> tuple[RunConfig, Any]:
    flat = tyro.conf.arg(name="")
    kind = dataclasses.make_dataclass(
        "Train", [("run", Annotated[RunConfig, flat], run), ("algorithm", Annotated[type(algorithm), flat], algorithm)]
    )
    parsed = tyro.cli(
        kind,
        args=words,
        prog=f"o3srl train {name}",
        description=_description(algorithm),
        config=(tyro.conf.FlagCreatePairsOff,),
    )
    return parsed.run, parsed.algorithm


def _description(algorithm: Any) -> str:
    return (
        f"{(type(algorithm).__doc__ or '').strip()}\n\n"
        "Trains on a log, with a checkpoint to resume from. Every number that may differ between lanes takes several "
        "values: `--limit 5 10 --td3-bc.alpha 1 2.5` are four settings, each with every seed, in one program.\n\n"
        f"Algorithms: {', '.join(ALGORITHMS)} (o3srl train ALGORITHM --help). Presets (--preset): "
        f"{', '.join(presets.PRESETS)}; built-in tasks use quick, logs use paper."
    )
