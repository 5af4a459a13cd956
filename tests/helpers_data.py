"""Valid logs to break: a smooth walk with rewards, binary costs and both flags, about which no check complains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

Log = dict[str, Any]


def make_log(
    lengths: tuple[int, ...] = (6, 4, 6), *, obs: int = 3, action: int = 2, costs: int = 0, seed: int = 0
) -> Log:
    """Return a log of these episode lengths, all ended by timeout but those that are shorter than the longest.

    `costs` is 0 for a cost of shape [N], else M for [N, M].
    """
    random = np.random.default_rng(seed)
    rows = sum(lengths)
    stop = np.cumsum(lengths) - 1
    timeouts = np.zeros(rows, bool)
    timeouts[stop] = np.asarray(lengths) == max(lengths)
    terminals = np.zeros(rows, bool)
    terminals[stop] = ~timeouts[stop]
    # steps between 0.7 and 1 in size: none is 1.5 times another
    walks = [
        np.cumsum(random.uniform(0.7, 1, (length + 1, obs)) * random.choice([-1, 1], obs), 0) for length in lengths
    ]
    cost = (np.arange(rows * max(1, costs)) % 3 == 0).astype(np.float32)
    return {
        "observations": np.concatenate([walk[:-1] for walk in walks]).astype(np.float32),
        "next_observations": np.concatenate([walk[1:] for walk in walks]).astype(np.float32),
        "actions": random.uniform(-0.9, 0.9, (rows, action)).astype(np.float32),
        "rewards": random.normal(size=rows).astype(np.float32),
        "costs": cost.reshape(rows, costs) if costs else cost,
        "terminals": terminals,
        "timeouts": timeouts,
    }


def changed(log: Log, name: str, row: Any, value: Any) -> Log:
    """Return the log with one value of one column changed."""
    column = np.array(log[name], np.result_type(log[name], np.float32))
    column[row] = value
    return {**log, name: column}


def without(log: Log, *names: str) -> Log:
    """Return the log without these columns."""
    return {name: column for name, column in log.items() if name not in names}


def dsrl_log(episodes: int = 12, length: int = 100, *, obs: int = 7, action: int = 2) -> Log:
    """Return a log that has in it what DSRL's files have, of BallRun's sizes unless others are given.

    A third of the episodes begins with a stale observation, one ends in a terminal, some actions are outside the box,
    and a third of an episode follows the last flag. An episode costs 1 more than the one before it.
    """
    lengths = (*[length] * (episodes - 1), length // 2, length // 3)
    log = make_log(lengths, obs=obs, action=action)
    start = np.cumsum(lengths) - lengths
    log["observations"][start[1:-1:3]] += 1000.0
    log["actions"][::7, 0] *= 4.0
    log["terminals"][-1] = False
    costs = np.zeros(sum(lengths), np.float32)
    for episode, first in enumerate(start):
        costs[first : first + episode] = 1.0
    return {**log, "costs": costs}


def write(path: Path, log: Log, **attributes: Any) -> Path:
    """Write the log in the format of the path's suffix, and return the path; attributes are for HDF5."""
    if path.suffix == ".npz":
        np.savez(path, **log)
        return path
    with h5py.File(path, "w") as file:
        for name, column in log.items():
            column = np.asarray(column)
            file.create_dataset(name, data=column, compression="gzip" if column.size else None)
        file.attrs.update(attributes)
    return path
