"""Normalized scores as DSRL defines them (Liu et al. 2024, https://arxiv.org/abs/2306.09303).

Returns and costs are undiscounted sums over an episode, or means of them: both scores are affine, so the order of
averaging does not matter. A policy is safe when its normalized cost is at most 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from o3srl.envs import look_up


class Constants(NamedTuple):
    """The extreme episode returns of a task's log."""

    min_return: float
    max_return: float


# DSRL's are copied from dsrl/infos.py of https://github.com/liuzuxin/DSRL, where AntRun's minimum repeats another
# task's, which changes no score. The built-in tasks' are of their logs with seed 0 and are printed by
# `python benchmarks/toy_tasks.py --seeds 0`.
CONSTANTS = {
    "toy-run": Constants(-3.58544, 18.4852),
    "toy-circle": Constants(23.5188, 390.986),
    "toy-hover": Constants(1.44269, 92.1396),
    "BallRun": Constants(26.339754104614258, 1327.445556640625),
    "CarRun": Constants(204.28726196289062, 574.6533203125),
    "DroneRun": Constants(10.557029724121094, 682.8330078125),
    "AntRun": Constants(0.001767391717990563, 955.4818725585938),
    "BallCircle": Constants(0.38312244415283203, 881.46337890625),
    "CarCircle": Constants(3.484419822692871, 534.3060913085938),
    "DroneCircle": Constants(207.794189453125, 996.38916015625),
    "AntCircle": Constants(0.0177031010389328, 460.7091979980469),
    "PointCircle1": Constants(20.067626953125, 61.72819519042969),
    "PointCircle2": Constants(20.478347778320312, 54.02184295654297),
    "AntVelocity": Constants(6.1519012451171875, 2976.276611328125),
    "HalfCheetahVelocity": Constants(5.7509765625, 2806.93310546875),
    "HopperVelocity": Constants(37.05154800415039, 1911.396728515625),
    "SwimmerVelocity": Constants(0.07114458084106445, 238.95831298828125),
    "Walker2dVelocity": Constants(18.668498992919922, 3418.223876953125),
}


def normalized_reward(returns: ArrayLike, task: str) -> NDArray[np.float64]:
    """Return (R - R_min) / (R_max - R_min), of the shape of `returns`, neither clipped nor times 100.

    >>> round(float(normalized_reward(350.0, "BallRun")), 4)
    0.2488
    """
    low, high = look_up(CONSTANTS, task)
    return (np.asarray(returns, np.float64) - low) / (high - low)


def normalized_cost(cost: ArrayLike, limit: ArrayLike) -> NDArray[np.float64]:
    """Return the largest over the constraints of C / limit, or of (C + 1) / 1 where the limit is 0.

    cost [..., M] and limit [M] are in episode units; the result [...] is at most 1 where every constraint holds.

    >>> float(normalized_cost([3.0], [5.0])), float(normalized_cost([3.0], [0.0]))
    (0.6, 4.0)
    """
    budget = np.asarray(limit, np.float64)
    shift = np.where(budget == 0.0, 1.0, 0.0)
    return np.max((np.asarray(cost, np.float64) + shift) / (budget + shift), axis=-1)
