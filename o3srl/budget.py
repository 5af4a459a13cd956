"""From an episode's limit to the allowance per step: the one place where the two units meet.

`limit` is in episode units (an undiscounted sum over an episode) at every interface; an allowance is what one step
may cost, so that `c - allowance` sums to zero on budget.
"""

from __future__ import annotations

from typing import TypeVar

from jax import Array

Limit = TypeVar("Limit", Array, float)


def discounted(limit: Limit, discount: float, horizon: int) -> Limit:
    """Return the paper's allowance, (1 - gamma) limit, whose discounted sum over an endless episode is the limit.

    Over an episode of T steps it allows (1 - gamma) limit T, which is looser than the limit when T > 1/(1 - gamma).
    """
    del horizon
    return (1.0 - discount) * limit


def episodic(limit: Limit, discount: float, horizon: int) -> Limit:
    """Return the allowance that an evaluation measures, limit / T, whose sum over an episode's T steps is the limit."""
    del discount
    return limit / horizon


def discounted_threshold(limit: Limit, discount: float, horizon: int) -> Limit:
    """Return limit (1 - gamma^T) / ((1 - gamma) T): the constant cost limit / T per step, discounted over T steps.

    The threshold of OSRL's BCQ-Lag, BEAR-Lag, CPQ and COptiDICE; a value, not an allowance per step.

    >>> round(discounted_threshold(5.0, 0.99, 200), 4)
    2.1651
    """
    return limit * (1.0 - discount**horizon) / ((1.0 - discount) * horizon)
