"""Errors that a user can act on: one paragraph that says what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def names_like(word: str, known: Iterable[str], most: int = 3, cutoff: float = 0.6) -> list[str]:
    """Return the known names that a word may have been meant for, nearest first, whatever their case.

    >>> names_like("Toy-Rum", ["toy-run", "BallRun"])
    ['toy-run']
    """
    folded = {name.lower(): name for name in known}
    return [folded[name] for name in difflib.get_close_matches(word.lower(), folded, n=most, cutoff=cutoff)]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" with the names like the word, or a full stop."""
    near = names_like(word, known)
    return f"; did you mean {' or '.join(near)}?" if near else "."


class O3SRLError(Exception):
    """Base of every error that names its own remedy; the command line prints it without a traceback."""


class DataError(O3SRLError):
    """A log that cannot be trained on: names the file, the column, the row and the fix."""


class DownloadError(O3SRLError):
    """A log that cannot be fetched: names the file, where it should come from, and the ways out."""


class ConfigError(O3SRLError):
    """Settings that cannot work, alone or together: names the flag and the ways out."""


class RunError(O3SRLError):
    """A run directory or checkpoint that is missing, foreign, truncated or in the way."""


class SimulatorError(O3SRLError):
    """A simulator that is not installed, crashed, hangs, or cannot be used: names the task, the seed and the remedy."""
