"""Which episodes make the log: spread over the plane of cost and return, under an envelope.

DSRL (Liu et al. 2024, https://arxiv.org/abs/2306.09303) thins the training episodes of its behavior policies on a grid
over cost and return, so that no region outweighs the others. An *envelope* is the best return that a log may hold at a
cost; it makes a log as hard as a published one, however good one's own behavior policies became.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from o3srl.errors import ConfigError

Numbers = npt.NDArray[Any]
Envelope = tuple[tuple[float, float], ...]  # (cost, best return), linear between

CELLS = 20  # of the grid, along each axis

# The best return at each cost in DSRL's logs, read off its published plots of cost and return.
PUBLISHED: dict[str, Envelope] = {
    "BallRun": ((0, 450), (20, 450), (80, 1330)),
    "CarRun": ((0, 570), (40, 575)),
    "DroneRun": ((0, 420), (20, 420), (100, 665), (140, 683)),
    "AntRun": ((0, 690), (60, 700), (140, 850), (150, 955)),
    "BallCircle": ((0, 600), (5, 675), (20, 720), (40, 800), (60, 881), (80, 881)),
    "CarCircle": ((0, 430), (5, 440), (25, 475), (45, 480), (50, 515), (75, 534), (100, 534)),
    "DroneCircle": ((0, 675), (20, 690), (50, 840), (80, 880), (85, 996), (100, 996)),
    "AntCircle": ((0, 260), (25, 280), (60, 330), (100, 420), (150, 460), (200, 440)),
}


def parse(text: str) -> Envelope:
    """Return the envelope that `cost,return` pairs name.

    >>> parse("0,450 20,450 80,1330")
    ((0.0, 450.0), (20.0, 450.0), (80.0, 1330.0))
    """
    try:
        knots = tuple((float(cost), float(best)) for cost, best in (pair.split(",") for pair in text.split()))
    except ValueError:
        knots = ()
    costs = [cost for cost, _ in knots]
    if not knots or costs != sorted(set(costs)) or not np.isfinite(knots).all():
        raise ConfigError(
            f"--envelope {text!r} is no envelope: give pairs cost,return with increasing costs, in quotes, "
            'such as "0,450 20,450 80,1330"; or none.'
        )
    return knots


def best(envelope: Envelope, cost: Numbers) -> Numbers:
    """Return the envelope's return at each cost [E].

    >>> best(((0, 450), (20, 450), (80, 1330)), np.array([10.0, 50.0])).tolist()
    [450.0, 890.0]
    """
    costs, returns = np.asarray(envelope, float).T
    return np.interp(cost, costs, returns)


def greatest(envelope: Envelope, limit: float) -> float:
    """Return the most that an episode may earn at any cost up to a limit.

    >>> greatest(((0, 450), (20, 450), (80, 1330)), 50.0)
    890.0
    """
    costs = [min(cost, limit) for cost, _ in envelope]
    return float(best(envelope, np.array([*costs, min(limit, envelope[-1][0])])).max())


def choose(seed: int, cost: Numbers, returns: Numbers, count: int, envelope: Envelope | None) -> Numbers:
    """Return the numbers, in order, of at most `count` episodes of those with cost [E] and returns [E].

    Episodes above the envelope, or beyond its largest cost, are no candidates. Of each cell of the grid as many are
    taken at random as of any other, as far as it has them; but those that earn more than every cheaper one come first.
    """
    allowed = np.ones(len(cost), bool)
    if envelope is not None:
        allowed = (returns <= best(envelope, cost)) & (cost <= envelope[-1][0])
    candidates = np.flatnonzero(allowed)
    if len(candidates) <= count:
        return candidates
    column, row = _cell(cost[candidates]), _cell(returns[candidates])
    rank = np.random.default_rng(seed).permutation(len(candidates)).astype(float)
    front = _front(cost[candidates], returns[candidates])
    # An episode's turn is how many of its cell come before it: taking all first turns, then all second ... fills the
    # cells evenly.
    turn = np.empty(len(candidates), int)
    order = np.lexsort((rank, column * CELLS + row))
    cells = (column * CELLS + row)[order]
    begins = np.flatnonzero(np.r_[True, cells[1:] != cells[:-1]])
    turn[order] = np.arange(len(order)) - np.repeat(begins, np.diff(np.r_[begins, len(order)]))
    turn[front] = -1
    return np.sort(candidates[np.lexsort((rank, turn))[:count]])


def reach(cost: Numbers, returns: Numbers, envelope: Envelope) -> tuple[float, float]:
    """Return (share, cost) where the log falls shortest of its envelope.

    The share is (best return of the episodes up to a cost) / (best of the envelope up to that cost), over a hundred
    costs from the cheapest episode's to the envelope's last.
    """
    at = np.linspace(max(envelope[0][0], float(cost.min())), envelope[-1][0], 101)
    own = np.array([returns[cost <= limit].max() for limit in at])
    shares = own / np.array([greatest(envelope, limit) for limit in at])
    where = int(np.argmin(shares))
    return float(shares[where]), float(at[where])


def _cell(values: Numbers) -> Numbers:
    """Each value's place along an axis of CELLS from the least to the greatest."""
    low, high = values.min(), values.max()
    return np.minimum(((values - low) / max(high - low, 1e-12) * CELLS).astype(int), CELLS - 1)


def _front(cost: Numbers, returns: Numbers) -> Numbers:
    """The numbers of the episodes that earn more than every cheaper one."""
    order = np.lexsort((-returns, cost))
    before = np.r_[-np.inf, np.maximum.accumulate(returns[order])[:-1]]
    return order[returns[order] > before]
