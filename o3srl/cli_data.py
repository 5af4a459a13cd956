"""The command line on logs: `o3srl data get`, `data info`, `data check`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from o3srl.data import describe, dsrl, load, render
from o3srl.data.describe import LIMITS
from o3srl.envs import tasks
from o3srl.errors import ConfigError
from o3srl.experiment.arguments import parse
from o3srl.experiment.config import RunConfig
from o3srl.experiment.run import load_data
from o3srl.terminal import output, tell
from o3srl.types import Data


@dataclass(frozen=True)
class GetArguments:
    """Fetch DSRL's log of a task from the Hugging Face Hub, unless it is in the Hub's cache already, and check it.

    Then `o3srl train --task TASK` trains on it. docs/data.md says which variables move the cache, name a mirror, or
    forbid the network."""

    task: tyro.conf.Positional[str]
    """a task of Bullet-Safety-Gym or Safety-Gymnasium, as `o3srl tasks` lists them"""
    out: Path | None = None
    """also copy it here (.hdf5)"""


@dataclass(frozen=True)
class InfoArguments:
    """Say what a log holds: episodes, returns, costs, and what is odd about it."""

    log: tyro.conf.Positional[str]
    """a file (.hdf5, .npz), or a task whose log is built in or was fetched"""
    limits: tuple[float, ...] = LIMITS
    """count the episodes within each of these, and tell the best of them"""
    picture: Path | None = None
    """also draw every episode's reward over its cost into this file (.png, .svg, .pdf), which may not exist yet"""


@dataclass(frozen=True)
class CheckArguments:
    """Say whether a log can be trained on, and what is odd about it."""

    log: tyro.conf.Positional[str]
    """a file (.hdf5, .npz), or a task whose log is built in or was fetched"""


def run(words: list[str]) -> int:
    """Run the command that the words after `o3srl data` name."""
    usage = "Usage: o3srl data get TASK | o3srl data info LOG | o3srl data check LOG (each with --help)"
    if not words or words[0] in ("-h", "--help"):
        print(usage)
        return 0
    commands: Mapping[str, Callable[[list[str]], int]] = {"get": _get, "info": _info, "check": _check}
    if words[0] not in commands:
        raise ConfigError(usage)
    return commands[words[0]](words[1:])


def _get(words: list[str]) -> int:
    asked = parse(GetArguments, words, "o3srl data get")
    task = tasks.find(asked.task)
    if asked.out is not None:
        dsrl.refuse_target(asked.out)
    file, data, odd = dsrl.get(task)
    if asked.out is not None:
        dsrl.copy(file, asked.out)
    for sentence in odd:
        tell(output(), sentence, "[yellow]odd:[/] ")
    held = f"{len(data.episodes.start):,} episodes, {len(data.table):,} rows"
    where = "" if asked.out is None else f" --data {asked.out}"
    tell(output(), f"{task.name}: {held}, checked: {asked.out or file}")
    tell(output(), f"Next: o3srl train --task {task.name}{where} --limit 5 --out runs/{task.name}")
    return 0


def _info(words: list[str]) -> int:
    asked = parse(InfoArguments, words, "o3srl data info")
    if asked.picture is not None:
        from o3srl.experiment import picture  # Matplotlib, for this alone

        picture.refuse_picture(asked.picture)
    data = _log(asked.log)
    print(render(describe(data, asked.limits)))
    if asked.picture is not None:
        from o3srl.experiment import picture

        returns, costs = (np.asarray(part, np.float64) for part in data.episodes[2:])
        title = f"{data.info.task or Path(asked.log).name}: {len(returns):,} logged episodes"
        picture.write_scatter(asked.picture, title, returns, costs, asked.limits)
        tell(output(), f"Written: {asked.picture}")
    return 0


def _check(words: list[str]) -> int:
    asked = parse(CheckArguments, words, "o3srl data check")
    data = _log(asked.log)
    for finding in data.info.findings:
        tell(output(), finding, "[yellow]odd:[/] ")
    held = f"{len(data.episodes.start):,} episodes, {len(data.usable):,} usable rows"
    print(f"{asked.log} can be trained on: {held}.")
    return 0


def _log(name: str) -> Data:
    """Return the log of a file, or of a task by its name; what is odd about it is the caller's to tell."""
    path = Path(name)
    word = not path.exists() and not path.suffix and len(path.parts) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_data(RunConfig(task=name)) if word else load(name)
