"""Normalized scores as DSRL defines them (Liu et al. 2024, https://arxiv.org/abs/2306.09303).

Returns and costs are undiscounted sums over an episode, or means of them: both scores are affine, so the order of
averaging does not matter. A policy is safe when its normalized cost is at most 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from o3srl.envs.tasks import Constants


def log_constants(returns: ArrayLike) -> Constants:
    """Return the constants of a task that DSRL does not list: the extreme returns [E] of its log, as DSRL's are.

    >>> log_constants([3.0, 1.0, 2.0])
    Constants(min_return=1.0, max_return=3.0)
    """
    return Constants(float(np.min(returns)), float(np.max(returns)))


def normalized_reward(returns: ArrayLike, constants: Constants) -> NDArray[np.float64]:
    """Return (R - R_min) / (R_max - R_min), of the shape of `returns`, neither clipped nor times 100.

    Where the log knows one return only, the difference from it is not divided.

    >>> from o3srl.envs.tasks import TASKS
    >>> round(float(normalized_reward(350.0, TASKS["BallRun"].constants)), 4)
    0.2488
    """
    low, high = constants
    return (np.asarray(returns, np.float64) - low) / ((high - low) or 1.0)


def normalized_cost(cost: ArrayLike, limit: ArrayLike) -> NDArray[np.float64]:
    """Return the largest over the constraints of C / limit, or of (C + 1) / 1 where the limit is 0.

    cost [..., M] and limit [M] are in episode units; the result [...] is at most 1 where every constraint holds.

    >>> float(normalized_cost([3.0], [5.0])), float(normalized_cost([3.0], [0.0]))
    (0.6, 4.0)
    """
    budget = np.asarray(limit, np.float64)
    shift = np.where(budget == 0.0, 1.0, 0.0)
    return np.max((np.asarray(cost, np.float64) + shift) / (budget + shift), axis=-1)
