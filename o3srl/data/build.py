"""From the columns of a log to `Data`: one pass per column into the table, then what the rows say about each other.

The table is the only array of the log's size that is made here; columns are read, checked, hashed and stored by slabs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from o3srl.data import check
from o3srl.data import rows as look
from o3srl.data.columns import BOX, NAMES, Column, Rows, Spans, array_column, chunks, spans
from o3srl.data.findings import Seen, findings, warn
from o3srl.errors import ConfigError, DataError
from o3srl.types import Data, Episodes, Info, Scaling


def from_arrays(
    arrays: Mapping[str, Any],
    *,
    source: str = "arrays",
    task: str | None = None,
    horizon: int | None = None,
    action_low: Any = None,
    action_high: Any = None,
) -> Data:
    """Return the checked log that arrays in memory are.

    `arrays` holds observations [N, n], actions [N, m], rewards [N], costs [N] or [N, M], next_observations [N, n] (may
    be left out), terminals [N] and timeouts [N], flat over episodes in their order. action_low and action_high are
    the environment's own box, [-1, 1] by default; horizon is its time limit in steps.
    """
    columns: dict[str, Column] = {}
    for name, value in arrays.items():
        try:
            columns[str(name)] = array_column(np.asarray(value))
        except Exception as error:  # anything may be handed over, and what its conversion raises is its own affair
            raise DataError(
                f"{source}: column '{name}' is not an array ({error}). Give a rectangular numeric array."
            ) from None
    box = (action_low, action_high)
    return build(columns, source=source, task=task, horizon=horizon, box=box, stacklevel=2)


def build(
    columns: Mapping[str, Column],
    *,
    source: str,
    task: str | None,
    horizon: int | None,
    box: tuple[Any, Any],
    stacklevel: int,
) -> Data:
    """Return the checked log that these columns are, and warn of what it has to be known for."""
    sizes = check.sizes(source, columns)
    low, high = (_end(columns, name, end) for name, end in zip(BOX, box, strict=True))
    ends = check.box(source, sizes.action, low, high)
    span = spans(sizes.obs, sizes.action, sizes.costs)
    table = _empty(source, sizes.rows, span)
    digest = _fill(table, span, source, columns, ends)
    last = look.ends(table, span)
    bounds = _finished(source, last)
    horizon = _horizon(bounds, horizon)
    table[:, span.first] = np.concatenate([[True], last[:-1]])
    derived = "next_observations" not in columns
    if derived:
        _derive(table, span, last)
    moved = look.motion(table, span)
    stale = look.stale(table, span, bounds.start, moved)
    usable, initial, substitute = _rows(source, table, span, bounds, stale, derived)
    unknown = [name for name in columns if name not in NAMES and name not in BOX]
    outside = look.outside(table, span)
    seen = Seen(table, span, last, bounds, moved, stale, outside, unknown, derived, ends is not None)
    said = substitute + findings(seen)
    warn(source, said, stacklevel=stacklevel + 1)
    low, high = ends or (np.full(sizes.action, -1.0), np.full(sizes.action, 1.0))
    info = Info(
        obs_dim=sizes.obs,
        action_dim=sizes.action,
        costs=sizes.costs,
        horizon=horizon,
        action_low=tuple(low.tolist()),
        action_high=tuple(high.tolist()),
        task=task,
        source=source,
        sha256=digest,
        findings=said,
        stale_first_observations=len(stale),
        actions_outside_box=outside,
    )
    return _data(table, span, bounds, usable, initial, info)


def _empty(source: str, rows: int, span: Spans) -> Rows:
    width = span.first + 1
    try:
        # XLA works on a host array in place where it begins at a multiple of 64 bytes; any other is copied, twice.
        raw = np.empty(rows * width * 4 + 64, np.uint8)
        begin = -raw.ctypes.data % 64
        return raw[begin : begin + rows * width * 4].view(np.float32).reshape(rows, width)
    except (MemoryError, ValueError):  # what a damaged file declares may be anything
        raise DataError(f"{source}: {rows:,} rows do not fit into this machine's memory. Give fewer rows.") from None


def _finished(source: str, last: Rows) -> look.Bounds:
    bounds = look.bounds(last)
    if not bounds.end:
        raise DataError(
            f"{source}: no row of 'terminals' or 'timeouts' is set, so no episode is finished and none of its sums are "
            "known. Set one of them at each episode's last row: terminals where the world ended, timeouts where only "
            "the recording did."
        )
    return bounds


def _end(columns: Mapping[str, Column], name: str, given: Any) -> Any:
    """One end of the action box: what the caller gives, else what the log holds, else None."""
    if given is not None or name not in columns:
        return given
    return np.concatenate([np.ravel(slab) for slab in columns[name].slabs()] or [np.zeros(0)])


def _fill(table: Rows, span: Spans, source: str, columns: Mapping[str, Column], box: tuple[Rows, Rows] | None) -> str:
    """Read every column into the table, check it, and return the sha256 of the logged content.

    The hash is over names, shapes and float32 values in the order of NAMES, so that it is the same from every format.
    """
    total = hashlib.sha256()
    for name, (field, _) in NAMES.items():
        if name not in columns:
            continue
        target = table[:, getattr(span, field)].reshape(len(table), -1)  # of a basic slice, so still a view
        digest = hashlib.sha256()
        row = 0
        for slab in columns[name].slabs():
            block = slab.reshape(len(slab), -1)
            check.values(source, name, columns[name], block)
            single = np.ascontiguousarray(block, "<f4")
            digest.update(single.data)
            target[row : row + len(block)] = _unit(single, box) if box and field == "action" else single
            row += len(block)
        if row != len(table):
            raise DataError(
                f"{source}: column '{name}' ends at row {row:,} of {len(table):,}. The file is truncated; get it anew."
            )
        total.update(f"{name} {list(target.shape)} {digest.hexdigest()}\n".encode())
    if box:
        total.update(f"box {box[0].tolist()} {box[1].tolist()}\n".encode())
    return total.hexdigest()


def _unit(actions: Rows, box: tuple[Rows, Rows]) -> Rows:
    """Return 2 (a - low) / (high - low) - 1: the unit box stands for the environment's own."""
    low, high = box
    if (low == -1).all() and (high == 1).all():
        return actions  # to the bit as logged
    return 2 * (actions.astype(np.float64) - low) / (high - low) - 1


def _derive(table: Rows, span: Spans, last: Rows) -> None:
    """Set next_obs to the following row's obs, and to the row's own where an episode or the log ends."""
    for part in chunks(len(table) - 1, table.shape[1] * table.itemsize):
        # a copy, for NumPy would otherwise copy the whole table, unsure whether source and target overlap
        table[part, span.next_obs] = table[part.start + 1 : part.stop + 1, span.obs].copy()
    stop = np.append(np.flatnonzero(last), len(table) - 1)
    table[stop, span.next_obs] = table[stop, span.obs]


def _rows(
    source: str, table: Rows, span: Spans, bounds: look.Bounds, stale: Rows, derived: bool
) -> tuple[Rows, Rows, tuple[str, ...]]:
    """Return the usable rows [U], the initial rows [I], and what has to be said of them."""
    usable = np.ones(len(table), bool)
    usable[bounds.end :] = False
    usable[stale] = False
    if derived:
        usable &= (table[:, span.terminal] > 0) | (table[:, span.timeout] == 0)
    initial, said = bounds.start[usable[bounds.start]], ()
    if not len(initial):
        # the step out of a stale observation is right, so the second row is where such an episode is known to be
        second = bounds.start[bounds.length > 1] + 1
        initial = second[usable[second]]
        said = ("No episode begins with a usable observation: the second ones serve as initial states.",)
    if not len(initial):
        raise DataError(
            f"{source}: no row can be sampled: every episode is too short or begins with a doubtful observation. Log "
            "'next_observations', and longer episodes."
        )
    return np.flatnonzero(usable), initial, said


def _horizon(bounds: look.Bounds, given: int | None) -> int:
    longest = int(bounds.length.max())
    if given is None:
        return longest
    if given < longest:
        raise ConfigError(
            f"horizon {given} is shorter than the longest logged episode, {longest} steps. Give the environment's time "
            "limit in steps, or leave horizon out to take the longest episode."
        )
    return given


def _data(table: Rows, span: Spans, bounds: look.Bounds, usable: Rows, initial: Rows, info: Info) -> Data:
    finished = table[: bounds.end]
    sums: Any = np.add.reduceat(finished[:, span.reward], bounds.start, dtype=np.float64)
    costs: Any = np.add.reduceat(finished[:, span.cost], bounds.start, axis=0, dtype=np.float64)
    start: Any = bounds.start.astype(np.int32)
    length: Any = bounds.length.astype(np.int32)
    one: Any = np.float32(1)
    everything: Any = table
    rows: Any = usable.astype(np.int32)
    firsts: Any = initial.astype(np.int32)
    endless: Any = np.float32(np.inf)
    return Data(
        table=everything,
        episodes=Episodes(start, length, sums.astype(np.float32), costs.astype(np.float32)),
        usable=rows,
        initial=firsts,
        scaling=Scaling(clip=endless, reward=one, cost=one),
        info=info,
    )
