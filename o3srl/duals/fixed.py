"""A multiplier that never moves: the paper's fixed-lambda ablation, and ordinary offline RL at zero."""

from __future__ import annotations

import jax.numpy as jnp
from jax.typing import ArrayLike

from o3srl.duals.gradient import no_metrics, point
from o3srl.types import Dual


def fixed(multiplier: ArrayLike = 0.0, costs: int = 1) -> Dual:
    """Return the dual that always plays `multiplier` [] or [M]."""
    value = jnp.broadcast_to(jnp.asarray(multiplier, float), (costs,))
    return Dual(
        init=lambda: (),
        play=lambda key, state: point(value),
        update=lambda state, play, value: state,
        metrics=no_metrics,
        costs=costs,
        parts=False,
    )
