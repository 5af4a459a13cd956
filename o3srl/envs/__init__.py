"""Environments by name; nothing that trains, exports or estimates off-policy imports from here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from o3srl.envs.toy import TASKS, Environment
from o3srl.errors import ConfigError, did_you_mean

__all__ = ["Environment", "look_up", "make", "names"]

Entry = TypeVar("Entry")


def look_up(table: Mapping[str, Entry], task: str) -> Entry:
    """Return the table's entry for a task; an unknown one is a ConfigError that names the nearest and the whole list.

    >>> look_up({"toy-run": 1, "BallRun": 2}, "toy-rum")
    Traceback (most recent call last):
    o3srl.errors.ConfigError: There is no task 'toy-rum' here; did you mean toy-run? Known: toy-run, BallRun.
    """
    if task in table:
        return table[task]
    raise ConfigError(f"There is no task {task!r} here{did_you_mean(task, table)} Known: {', '.join(table)}.")


def make(task: str) -> Environment:
    """Return a built-in task; the same name always gives the same record.

    >>> make("toy-circle").horizon
    100
    """
    return look_up(TASKS, task)


def names() -> tuple[str, ...]:
    """Return the built-in tasks.

    >>> names()
    ('toy-run', 'toy-circle', 'toy-hover')
    """
    return tuple(TASKS)
