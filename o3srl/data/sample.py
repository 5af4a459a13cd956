"""Batches from the table, on the device: one random index per row, one gather.

Inside jit; the data is an argument that all lanes share, so `jax.vmap(draw, (0, None, None))` over keys copies nothing.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from o3srl.data.columns import spans_of, unpack
from o3srl.types import Data, Scaling, Transition


def draw(key: Array, data: Data, shape: tuple[int, ...]) -> Transition:
    """Return transitions with leading axes `shape`, drawn i.i.d. with replacement from the usable rows.

    Actions are clipped to the unit box, and r' = clip(r, -clip, clip) * reward, c' = c * cost by the data's scaling.
    """
    rows = _take(data.table, _draw_rows(key, data.usable, shape, len(data.table)))
    return scaled(unpack(rows, data.info), data.scaling)


def draw_initial(key: Array, data: Data, shape: tuple[int, ...]) -> Array:
    """Return observations [*shape, n], drawn i.i.d. with replacement from the initial rows."""
    rows = _take(data.table, _draw_rows(key, data.initial, shape, len(data.table)))
    return rows[..., spans_of(data.info).obs]


def scaled(batch: Transition, scaling: Scaling) -> Transition:
    """Return the batch as it is learned from: actions in the unit box, rewards and costs scaled."""
    return batch._replace(
        action=jnp.clip(batch.action, -1.0, 1.0),
        reward=jnp.clip(batch.reward, -scaling.clip, scaling.clip) * scaling.reward,
        cost=batch.cost * scaling.cost,
    )


def _draw_rows(key: Array, rows: Array, shape: tuple[int, ...], total: int) -> Array:
    drawn = jax.random.randint(key, shape, 0, rows.shape[0], dtype=jnp.int32)
    # Where every row may be drawn, the drawn number is the row: one random access to memory less.
    return drawn if rows.shape[0] == total else _take(rows, drawn)


def _take(array: Array, index: Array) -> Array:
    return jnp.asarray(array).at[index].get(mode="promise_in_bounds")  # indices come from checks and randint's bounds
