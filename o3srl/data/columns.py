"""Where each column lies in the table: a row holds a whole transition, so that one take gathers a batch.

Also what a source of a log has to hand over, a `Column` per name, and how work is cut into slabs of rows: a log may be
as large as half of the memory, so nothing here or after it makes a second array of the table's size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from o3srl.types import Info, Transition

Rows = npt.NDArray[Any]

SLAB_BYTES = 1 << 24  # 16 MiB: large enough for full speed, small enough that temporaries do not matter


class Column(NamedTuple):
    """One named array of a log, not yet read: shape and dtype are known at once, `slabs` reads it from row 0 on."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    slabs: Callable[[], Iterator[Rows]]


class Spans(NamedTuple):
    """Which columns of the table each field of a Transition takes: an index where it is a scalar, else a slice."""

    obs: slice
    action: slice
    reward: int
    cost: slice
    next_obs: slice
    terminal: int
    timeout: int
    first: int


class Named(NamedTuple):
    """How a log names a column: its field in the table and the ranks that it may have."""

    field: str
    ranks: tuple[int, ...]


NAMES = {
    "observations": Named("obs", (2,)),
    "actions": Named("action", (2,)),
    "rewards": Named("reward", (1, 2)),
    "costs": Named("cost", (1, 2)),
    "next_observations": Named("next_obs", (2,)),
    "terminals": Named("terminal", (1, 2)),
    "timeouts": Named("timeout", (1, 2)),
}
BOX = ("action_low", "action_high")


def spans(obs_dim: int, action_dim: int, costs: int) -> Spans:
    """Return where the fields lie, in the order obs [n], action [m], reward, cost [M], next_obs [n], three flags."""
    action = obs_dim
    reward = action + action_dim
    following = reward + 1 + costs
    flags = following + obs_dim
    return Spans(
        obs=slice(0, action),
        action=slice(action, reward),
        reward=reward,
        cost=slice(reward + 1, following),
        next_obs=slice(following, flags),
        terminal=flags,
        timeout=flags + 1,
        first=flags + 2,
    )


def spans_of(info: Info) -> Spans:
    """Return where the fields of this log's table lie."""
    return spans(info.obs_dim, info.action_dim, info.costs)


def width(info: Info) -> int:
    """Return how many columns the table has: 2 n + m + M + 4."""
    return spans_of(info).first + 1


def unpack(rows: Any, info: Info) -> Transition:
    """Return the Transition that table rows [..., width] hold, by slicing their last axis; NumPy or JAX arrays."""
    return Transition(*(rows[..., span] for span in spans_of(info)))


def chunks(rows: int, row_bytes: int, multiple: int = 1) -> Iterator[slice]:
    """Yield slices that cover `rows` in slabs of about SLAB_BYTES, each a multiple of `multiple` rows but the last."""
    size = max(1, SLAB_BYTES // max(1, row_bytes * multiple)) * multiple
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def row_bytes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Return the bytes of one row of an array of this shape."""
    return math.prod(shape[1:]) * dtype.itemsize


def array_column(array: Rows) -> Column:
    """Return the column that an array in memory is."""

    def slabs() -> Iterator[Rows]:
        for part in chunks(array.shape[0], row_bytes(array.shape, array.dtype)):
            yield array[part]

    return Column(array.shape, array.dtype, slabs if array.ndim else lambda: iter((array,)))
