"""What the rows of a table say about each other: where episodes begin, which first observations are stale, and so on.

All of it by slabs of rows, in NumPy on the host.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from o3srl.data.columns import Rows, Spans, chunks

STALE = 1.5  # times the largest step inside the file's episodes
ROUNDOFF = 1e-6  # of the largest |observation|: what float32 arithmetic may leave of nothing
OUTSIDE = 1.0 + 1e-5  # an action that was rescaled onto the box's face is not outside


class Bounds(NamedTuple):
    """Finished episodes: start [E] and length [E] in rows, `end` is the row after the last of them."""

    start: Rows
    length: Rows
    end: int


class Motion(NamedTuple):
    """Per observation entry: largest [n] is the largest |next_obs - obs| inside episodes, magnitude [n] of |obs|."""

    largest: Rows
    magnitude: Rows


def ends(table: Rows, span: Spans) -> Rows:
    """Return [N] whether a row is its episode's last, by either flag."""
    return (table[:, span.terminal] > 0) | (table[:, span.timeout] > 0)


def bounds(last: Rows) -> Bounds:
    """Return the finished episodes, given [N] whether a row is its episode's last."""
    stop = np.flatnonzero(last) + 1
    start = np.concatenate([np.zeros(1, stop.dtype), stop])[:-1]
    return Bounds(start, stop - start, int(stop[-1]) if len(stop) else 0)


def motion(table: Rows, span: Spans) -> Motion:
    """Return how far observations move in one step inside the file's episodes, that is after an episode's first."""
    size = span.obs.stop
    largest, magnitude = np.zeros(size, np.float32), np.zeros(size, np.float32)
    for part in chunks(*_slab(table)):
        rows = table[part]
        step = np.abs(rows[:, span.next_obs] - rows[:, span.obs])
        step[rows[:, span.first] > 0] = 0
        largest = np.maximum(largest, step.max(axis=0))
        magnitude = np.maximum(magnitude, np.abs(rows[:, span.obs]).max(axis=0))
    return Motion(largest, magnitude)


def stale(table: Rows, span: Spans, start: Rows, moved: Motion) -> Rows:
    """Return the rows among `start` [E] whose observation is left over from elsewhere.

    Such a row's step |next_obs - obs| exceeds, in some entry, 1.5 times the largest inside the file's episodes. An
    entry that never moves inside an episode tells nothing: it may rightly change once, as an is-first flag does.
    """
    judged = moved.largest > ROUNDOFF * moved.magnitude
    found = [np.zeros(0, start.dtype)]
    for part in chunks(*_slab(table, len(start))):
        rows = table[start[part]]
        step = np.abs(rows[:, span.next_obs] - rows[:, span.obs])
        found.append(start[part][(judged & (step > STALE * moved.largest)).any(axis=1)])
    return np.concatenate(found)


def disagreements(table: Rows, span: Spans, last: Rows, moved: Motion) -> Rows:
    """Return the rows inside an episode whose next_obs is not the next row's obs."""
    found = [np.zeros(0, np.int64)]
    for part in chunks(*_slab(table, len(table) - 1)):
        following = table[part.start + 1 : part.stop + 1, span.obs]
        apart = np.abs(table[part, span.next_obs] - following) > ROUNDOFF * moved.magnitude
        found.append(part.start + np.flatnonzero(apart.any(axis=1) & ~last[part]))
    return np.concatenate(found)


def outside(table: Rows, span: Spans) -> int:
    """Return how many rows hold an action with an entry outside the unit box."""
    parts = chunks(*_slab(table))
    return sum(int((np.abs(table[part, span.action]) > OUTSIDE).any(axis=1).sum()) for part in parts)


def _slab(table: Rows, rows: int | None = None) -> tuple[int, int]:
    return (len(table) if rows is None else rows), table.shape[1] * table.itemsize
