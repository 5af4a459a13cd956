"""Gradient steps on the continuous interval [0, C]: OGD (Zinkevich, 2003) and FTRL with a quadratic regularizer.

The Lagrangian's gradient in the multiplier is minus the violation, so descending it raises the multiplier of a cost
that is violated. Both hear the violation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from o3srl.types import Dual, Metrics, Play, Value


class GradientState(NamedTuple):
    """multiplier [M] to be played next; total [M], the sum of the violations so far."""

    multiplier: Array
    total: Array


def ogd(maximum: ArrayLike = 5.0, rate: ArrayLike = 0.01, start: ArrayLike = 0.0, costs: int = 1) -> Dual:
    """Return online gradient descent: lambda <- clip(lambda + rate violation, 0, C), from `start`."""

    def update(state: GradientState, play: Play, value: Value) -> GradientState:
        assert value.violation is not None  # the game refuses an oracle that cannot tell
        moved = jnp.clip(play.multiplier + rate * value.violation, 0.0, maximum)
        return GradientState(moved, state.total + value.violation)

    return _interval(update, start, costs)


def ftrl(maximum: ArrayLike = 5.0, rate: ArrayLike = 0.01, start: ArrayLike = 0.0, costs: int = 1) -> Dual:
    """Return follow-the-regularized-leader: lambda = clip(start + rate sum of violations, 0, C).

    It minimizes sum_s L(D_s, lambda) + |lambda - start|^2 / (2 rate) over [0, C]. Unlike OGD it remembers violations
    from while it sat at an end of the interval.
    """

    def update(state: GradientState, play: Play, value: Value) -> GradientState:
        del play
        assert value.violation is not None  # the game refuses an oracle that cannot tell
        total = state.total + value.violation
        return GradientState(jnp.clip(start + rate * total, 0.0, maximum), total)

    return _interval(update, start, costs)


def point(multiplier: Array) -> Play:
    """Return the play of a dual without arms: it answers `multiplier` [M] and charges the same."""
    return Play(multiplier, multiplier, jnp.int32(-1), jnp.ones(()))


def no_metrics(state: object) -> Metrics:
    """Return nothing to log: the multiplier that was played says it all."""
    del state
    return {}


def _interval(update: Any, start: ArrayLike, costs: int) -> Dual:
    return Dual(
        init=lambda: GradientState(jnp.full(costs, start, float), jnp.zeros(costs)),
        play=lambda key, state: point(state.multiplier),
        update=update,
        metrics=no_metrics,
        costs=costs,
        parts=True,
    )
