"""What a log must be before a row of it is used: every check at the door, each with its remedy.

The checks of names, types and shapes need no row; those of values run on each slab while it is read, and only a
failure reads the column again, to count. A message names the source, the column, the row (counted from 0) and the fix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from o3srl.data.columns import BOX, NAMES, Column, Rows
from o3srl.errors import DataError, names_like

LARGEST = 1e18  # its square, which a loss takes, is still finite in float32
LARGEST_INTEGER = 1 << 24  # the largest up to which float32 holds every integer


class Sizes(NamedTuple):
    """Rows N, observation entries n, action entries m, costs M."""

    rows: int
    obs: int
    action: int
    costs: int


class Rule(NamedTuple):
    """What no value of a column may be: `bad` marks such values, `what` names them, `fix` says what to do."""

    bad: Callable[[Rows], Rows]
    what: str
    fix: str


FINITE = Rule(
    lambda block: ~np.isfinite(block),
    "of NaN or infinity",
    "Find out where they come from, then drop the episodes that hold them",
)
BOUNDED = Rule(
    lambda block: (block > _bound(block)) | (block < -_bound(block)),
    f"beyond what float32 can be trained with (integers up to {LARGEST_INTEGER:,}, floats up to {LARGEST:g})",
    "An integer that wrapped around or a missing value written as a huge number looks like this: rescale the column, "
    "or drop the episodes that hold them",
)
NONNEGATIVE = Rule(
    lambda block: block < 0,
    "below zero",
    "A cost is an amount that a budget limits: clip it with np.maximum(costs, 0) if negative entries mean nothing, "
    "flip its sign if it was logged as a penalty, or shift it by its minimum and raise the limit by as much per step",
)
BINARY = Rule(
    lambda block: (block != 0) & (block != 1),
    "other than 0 and 1",
    "A flag is 1 at the last row of an episode and 0 elsewhere",
)
RULES: dict[str, tuple[Rule, ...]] = {"costs": (NONNEGATIVE,), "terminals": (BINARY,), "timeouts": (BINARY,)}


def _bound(block: Rows) -> float:
    return LARGEST_INTEGER if block.dtype.kind in "iu" else LARGEST


def counted(count: int, noun: str) -> str:
    """Return the count with its noun.

    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(names: Iterable[str], most: int = 12) -> str:
    """Return the names in a sentence, the first `most` of them."""
    names = sorted(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) + more) or "nothing"


def near(name: str, names: Iterable[str]) -> str:
    """Return ' (did you mean ...?)' with the nearest of the names, or nothing."""
    found = names_like(name, names, most=2, cutoff=0.4)
    return f" (did you mean {' or '.join(map(repr, found))}?)" if found else ""


def sizes(source: str, columns: Mapping[str, Column]) -> Sizes:
    """Return the sizes of a log whose names, types and shapes are all in order; a DataError says what is not."""
    _names(source, columns)
    for name, column in columns.items():
        if name in NAMES or name in BOX:
            _numeric(source, name, column)
    for name in NAMES.keys() & columns.keys():
        _rank(source, name, columns[name].shape)
    _lengths(source, columns)
    shapes = {name: columns[name].shape for name in NAMES if name in columns}
    rows, obs = shapes["observations"]
    if not rows:
        raise DataError(
            f"{source}: every column has zero rows, so there is nothing to learn from. Log at least an episode."
        )
    if "next_observations" in shapes and shapes["next_observations"][1] != obs:
        raise DataError(
            f"{source}: 'next_observations' has {shapes['next_observations'][1]} entries per row but 'observations' "
            f"has {obs}. Both must describe the same state in the same order."
        )
    costs = shapes["costs"]
    return Sizes(rows, obs, shapes["actions"][1], costs[1] if len(costs) == 2 else 1)


def _names(source: str, columns: Mapping[str, Column]) -> None:
    missing = [name for name in NAMES if name not in columns and name != "next_observations"]
    if not missing:
        return
    unknown = [name for name in columns if name not in NAMES]
    said = ", nor ".join(f"'{name}'{near(name, unknown)}" for name in missing)
    remedies = {
        "timeouts": " If no episode ended by a time limit, add timeouts of zeros.",
        "terminals": " If the world never ended an episode, add terminals of zeros.",
        "costs": " If nothing is constrained, add costs of zeros.",
    }
    raise DataError(
        f"{source}: there is no column {said}. It holds {listed(columns)}; a log needs {listed(NAMES)} "
        f"(next_observations may be left out).{''.join(remedies.get(name, '') for name in missing)}"
    )


def _numeric(source: str, name: str, column: Column) -> None:
    if column.dtype.kind not in "biuf":
        raise DataError(
            f"{source}: column '{name}' is of type {column.dtype}, but only numbers can be learned from. "
            f"Convert it to float32; columns of Python objects are never unpickled."
        )


def _rank(source: str, name: str, shape: tuple[int, ...]) -> None:
    ranks = NAMES[name].ranks
    flat = name in ("rewards", "terminals", "timeouts")
    if len(shape) in ranks and all(shape[1:]) and not (flat and shape[1:] not in ((), (1,))):
        return
    wanted = {2: "[rows, entries]", 1: "[rows]"}
    expected = "[rows]" if flat else " or ".join(wanted[rank] for rank in ranks)
    fix = "Flatten what a row holds into one vector" if len(shape) > 2 else "Reshape it, array.reshape(rows, -1)"
    if name == "actions" and len(shape) == 1:
        fix += "; actions are continuous vectors, also where they have one entry (discrete actions are not supported)"
    raise DataError(
        f"{source}: column '{name}' has shape {list(shape)} but must be {expected}, without empty axes. {fix}."
    )


def _lengths(source: str, columns: Mapping[str, Column]) -> None:
    lengths = {name: columns[name].shape[0] for name in NAMES if name in columns}
    if len(set(lengths.values())) == 1:
        return
    said = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
    others = {length for name, length in lengths.items() if name not in ("observations", "next_observations")}
    extra = lengths["observations"] - lengths["actions"]
    if len(others) == 1 and extra > 0:
        ends = _flagged(columns)
        if extra in (1, ends, ends + 1):
            raise DataError(
                f"{source}: 'observations' has {counted(extra, 'row')} more than 'actions' ({said}), "
                f"{'one' if extra == 1 else 'as many as there are episodes'}: each episode seems to hold its last "
                "observation as well, T+1 rows against T. Cut every episode's observations in two, observations = "
                "episode[:-1] and next_observations = episode[1:], so that every column has one row per action."
            )
    raise DataError(f"{source}: the columns differ in length ({said}). Every column needs one row per logged step.")


def _flagged(columns: Mapping[str, Column]) -> int:
    pairs = zip(columns["terminals"].slabs(), columns["timeouts"].slabs(), strict=False)
    return sum(int(np.count_nonzero(np.ravel(a) + np.ravel(b))) for a, b in pairs if np.size(a) == np.size(b))


def values(source: str, name: str, column: Column, block: Rows) -> None:
    """Raise a DataError if a slab [rows, entries] of the column holds what must not be there."""
    for rule in (FINITE, BOUNDED, *RULES.get(name, ())):
        with np.errstate(over="ignore", invalid="ignore"):
            if rule.bad(block).any():
                raise DataError(_survey(source, name, column, rule))


def _survey(source: str, name: str, column: Column, rule: Rule) -> str:
    """Return the complaint, with the count over the whole column and the first row."""
    count, row, where = 0, 0, ""
    for slab in column.slabs():
        block = slab.reshape(len(slab), -1)
        bad = rule.bad(block)
        if bad.any() and not count:
            at, entry = (int(index) for index in np.argwhere(bad)[0])
            where = f"row {row + at:,}{f', entry {entry}' if block.shape[1] > 1 else ''}: {block[at, entry]}"
        count += int(bad.sum())
        row += len(block)
    return f"{source}: column '{name}' holds {counted(count, 'value')} {rule.what}, the first at {where}. {rule.fix}."


def box(source: str, action_dim: int, low: Any, high: Any) -> tuple[Rows, Rows] | None:
    """Return the environment's action box, low [m] and high [m] in float64, or None where none is given."""
    if low is None and high is None:
        return None
    if low is None or high is None:
        missing = BOX[0] if low is None else BOX[1]
        raise DataError(f"{source}: the action box has no '{missing}'. Give both of its ends, or neither for [-1, 1].")
    ends: list[Rows] = []
    for name, value in zip(BOX, (low, high), strict=True):
        try:
            end = np.asarray(value, np.float64).reshape(-1)
            ends.append(np.broadcast_to(end, (action_dim,)))
        except (TypeError, ValueError):
            raise DataError(
                f"{source}: '{name}' must be a number or one number per action entry ({action_dim}), not {value!r:.60}."
            ) from None
    if not all(np.isfinite(end).all() for end in ends) or not (ends[0] < ends[1]).all():
        raise DataError(
            f"{source}: the action box from {ends[0].tolist()} to {ends[1].tolist()} must be finite, and each low end "
            "below its high end. Give the bounds that the environment declares for its actions."
        )
    return ends[0], ends[1]
