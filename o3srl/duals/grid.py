"""Grids of multipliers: the arms of a discrete dual, as arrays [K] for one cost or [K^M, M] for several.

Built on the host from concrete numbers, so that what cannot work is refused before anything is compiled.
"""

from __future__ import annotations

import numpy as np

from o3srl.errors import ConfigError

REFERENCE_LIMIT = 5.0  # the paper's
SHRINK_POWER = 0.3  # the paper's
LOWEST_LIMIT = 0.5  # below it the largest inner arm, C/2 (5 / limit)^0.3, would pass C
LARGEST_JOINT_GRID = 1_000


def uniform(maximum: float, arms: int) -> np.ndarray:
    """Return [K] evenly spaced multipliers from 0 to C = `maximum`, both included.

    >>> uniform(5.0, 5).tolist()
    [0.0, 1.25, 2.5, 3.75, 5.0]
    """
    _check(maximum, arms)
    return np.linspace(0.0, maximum, arms)


def adaptive(maximum: float, arms: int, limit: float) -> np.ndarray:
    """Return the paper's [K] multipliers: 0, then geomspace(C/10, C/2, K - 2) (5 / limit)^0.3, then C = `maximum`.

    A looser limit draws the inner arms toward 0; a limit under 0.5 counts as 0.5, which keeps them below C.

    >>> adaptive(5.0, 5, limit=5.0).round(2).tolist()
    [0.0, 0.5, 1.12, 2.5, 5.0]
    """
    _check(maximum, arms)
    if limit <= 0.0:
        raise ConfigError(
            "The adaptive grid is not defined at limit 0: it scales its arms by (5 / limit)^0.3. "
            "Use the uniform grid instead (--grid.kind uniform)."
        )
    shrink = (REFERENCE_LIMIT / max(limit, LOWEST_LIMIT)) ** SHRINK_POWER
    inner = np.geomspace(maximum / 10.0, maximum / 2.0, arms - 2) * shrink
    return np.concatenate([[0.0], inner, [maximum]])


def joint(grids: list[np.ndarray]) -> np.ndarray:
    """Return the arms of a bandit over several costs, [K_1 ... K_M, M]: every combination of the grids' multipliers.

    >>> joint([np.array([0.0, 1.0]), np.array([0.0, 2.0])]).tolist()
    [[0.0, 0.0], [0.0, 2.0], [1.0, 0.0], [1.0, 2.0]]
    """
    arms = int(np.prod([len(grid) for grid in grids]))
    if arms > LARGEST_JOINT_GRID:
        raise ConfigError(
            f"A bandit over {len(grids)} costs would have {arms} arms; {LARGEST_JOINT_GRID} is the most that can be "
            "told apart. Use fewer arms per cost (--grid.arms), or a full-information dual, which plays one "
            "multiplier per cost (--dual hedge)."
        )
    return np.stack(np.meshgrid(*grids, indexing="ij"), axis=-1).reshape(-1, len(grids))


def _check(maximum: float, arms: int) -> None:
    if arms < 2:
        raise ConfigError(f"A grid of multipliers needs at least 2 arms, 0 and its maximum; got {arms} (--grid.arms).")
    if not maximum > 0.0 or not np.isfinite(maximum):
        raise ConfigError(f"A grid's largest multiplier must be a positive number; got {maximum} (--grid.maximum).")
