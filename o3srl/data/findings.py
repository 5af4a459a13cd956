"""What a checked log has to be known for: one sentence per finding, each with what was done about it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from o3srl.data import rows as look
from o3srl.data.check import counted, listed
from o3srl.data.columns import Rows, Spans


class DataWarning(UserWarning):
    """A log can be trained on, but something about it has to be known; `Data.info.findings` says the same."""


class Seen(NamedTuple):
    """What building the table showed: the table [N, width] and its spans; last [N] row of an episode; bounds of the
    finished episodes; motion; stale [S] rows; how many rows' actions are outside the box; unknown column names;
    whether next_obs was derived; whether a box was given."""

    table: Rows
    span: Spans
    last: Rows
    bounds: look.Bounds
    motion: look.Motion
    stale: Rows
    outside: int
    unknown: Sequence[str]
    derived: bool
    boxed: bool


def warn(source: str, findings: Sequence[str], *, stacklevel: int) -> None:
    """Give one DataWarning that sums up the findings, if there are any."""
    if findings:
        said = " ".join(f"({number}) {sentence}" for number, sentence in enumerate(findings, 1))
        noun = counted(len(findings), "finding")
        warnings.warn(f"{source}: {noun}: {said}", DataWarning, stacklevel=stacklevel + 1)


def findings(seen: Seen) -> tuple[str, ...]:
    """Return the sentences, those that matter most to training first."""
    parts = (_observations(seen), _flags(seen), _actions(seen), _signals(seen), _names(seen))
    return tuple(sentence for part in parts for sentence in part)


def _observations(seen: Seen) -> Iterator[str]:
    episodes = len(seen.bounds.start)
    if seen.derived:
        yield (
            "There is no column 'next_observations': it was taken from the following row's observation, so the "
            "last row of an episode that ended by timeout has none and is left out of sampling; at a terminal the "
            "row's own observation stands in its place, where no backup reads it."
        )
    if len(seen.stale):
        yield (
            f"{len(seen.stale):,} of {counted(episodes, 'episode')} begin with an observation that seems "
            f"left over from elsewhere (its step is more than {look.STALE} times the largest inside the episodes; the "
            f"first is row {seen.stale[0]:,}): such rows are kept as logged, but left out of sampling and of the "
            "initial states."
        )
    inside = len(seen.last) - 1 - int(np.count_nonzero(seen.last[:-1]))
    apart = look.disagreements(seen.table, seen.span, seen.last, seen.motion)
    if not len(apart):
        return
    said = (
        f"In {len(apart):,} of {counted(inside, 'row')} inside episodes next_observations is not the following row's "
        f"observation (first at row {apart[0]:,})"
    )
    if 2 * len(apart) > inside:
        yield (
            f"{said}: the rows look shuffled. Each is still a sound transition to learn from, but episodes, "
            "their returns and costs, the horizon and the initial states mean nothing; log the rows in their order."
        )
    else:
        yield f"{said}: a flag may be missing there, and two episodes counted as one. The rows are sampled as logged."


def _flags(seen: Seen) -> Iterator[str]:
    length = seen.bounds.length
    terminal, timeout = (seen.table[:, flag] > 0 for flag in (seen.span.terminal, seen.span.timeout))
    tail, longest = len(seen.last) - seen.bounds.end, int(length.max())
    if tail:
        longer = f" It is longer than any finished episode ({longest:,}): are flags missing?" if tail > longest else ""
        yield (
            f"{counted(tail, 'row')} after the last flag (from row {seen.bounds.end:,}) belong to an "
            f"unfinished episode: kept, but left out of sampling and of the episodes.{longer}"
        )
    if both := int(np.count_nonzero(terminal & timeout)):
        yield f"{counted(both, 'row')} carry both flags: a terminal wins, so no value is backed up from beyond it."
    capped = int(np.count_nonzero(length[terminal[seen.bounds.start + length - 1]] == longest))
    if longest > 1 and capped > 1 and 2 * capped > len(length) and not timeout.any():
        yield (
            f"{capped:,} of {counted(len(length), 'episode')} end in a terminal after exactly {longest:,} "
            "steps, and there is no timeout: if that is a time limit, it belongs in 'timeouts', for backups stop at a "
            "terminal."
        )
    single = int(np.count_nonzero(length == 1))
    if 2 * single > len(length):
        yield f"{single:,} of {counted(len(length), 'episode')} have a single step: are the flags inverted?"


def _actions(seen: Seen) -> Iterator[str]:
    if beyond := seen.outside:
        remedy = "" if seen.boxed else " If the environment's own box is another, give action_low and action_high."
        yield (
            f"{counted(beyond, 'row')} ({beyond / len(seen.table):.1%}) hold an action outside "
            f"{'the given box' if seen.boxed else '[-1, 1]'}: kept as logged, clipped where they are sampled.{remedy}"
        )


def _signals(seen: Seen) -> Iterator[str]:
    reward = seen.table[:, seen.span.reward]
    if len(reward) > 1 and reward.min() == reward.max():
        yield f"Every reward is {reward[0]:g}: no policy can earn more than another per step."
    cost = seen.table[:, seen.span.cost]
    for index in range(cost.shape[1]):
        name = "cost" if cost.shape[1] == 1 else f"cost {index + 1} of {cost.shape[1]}"
        column = cost[:, index]
        if not column.any():
            yield f"Every {name} is zero: the log does not show what to avoid."
        elif other := int(np.count_nonzero((column != 0) & (column != 1))):
            yield (
                f"The {name} is not always 0 or 1 (another value in {counted(other, 'row')}, up to {column.max():g}): "
                "limits are in its units, summed over an episode."
            )


def _names(seen: Seen) -> Iterator[str]:
    if seen.unknown:
        yield f"Not used: {listed(seen.unknown)}."
