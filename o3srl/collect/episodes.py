"""Whole episodes, one after the other: what is kept of a training, on disk until the log is made of it."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from o3srl.evaluate import Trace
from o3srl.files import write_whole

Numbers = npt.NDArray[Any]


class Episodes(NamedTuple):
    """E finished episodes of N steps in all.

    Fields: obs [N, n], action [N, m] in the environment's own box as executed, reward [N], cost [N, M]; of each
    episode its last observation [E, n], its length [E], and whether it ended in a terminal [E].
    """

    obs: Numbers
    action: Numbers
    reward: Numbers
    cost: Numbers
    last: Numbers
    length: Numbers
    terminal: Numbers

    @property
    def returns(self) -> Numbers:
        """[E], undiscounted."""
        return self._sums(self.reward)

    @property
    def costs(self) -> Numbers:
        """[E, M], undiscounted."""
        return self._sums(self.cost)

    def _sums(self, steps: Numbers) -> Numbers:
        return np.add.reduceat(steps.astype(np.float64), np.cumsum(self.length) - self.length, axis=0)


def of(seen: Trace, actions: Numbers) -> Episodes:
    """Return the episodes of a trace [S, T, ...], with `actions` [S, T, m] as they were executed."""
    alive = np.asarray(seen.alive)
    length = alive.sum(axis=1)
    rows = np.arange(len(length))
    return Episodes(
        obs=np.asarray(seen.obs)[alive],
        action=np.asarray(actions, np.float32)[alive],
        reward=np.asarray(seen.reward, np.float32)[alive],
        cost=np.asarray(seen.cost, np.float32)[alive],
        last=np.asarray(seen.next_obs)[rows, length - 1],
        length=length,
        terminal=np.asarray(seen.terminal)[rows, length - 1] > 0,
    )


def join(parts: Sequence[Episodes]) -> Episodes:
    """Return the episodes of all parts, in order."""
    return Episodes(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def take(episodes: Episodes, chosen: Numbers) -> Episodes:
    """Return the chosen [K] episodes, numbers in increasing order."""
    kept = np.zeros(len(episodes.length), bool)
    kept[chosen] = True
    rows = np.repeat(kept, episodes.length)
    steps = (column[rows] for column in episodes[:4])
    return Episodes(*steps, *(column[kept] for column in episodes[4:]))


def columns(episodes: Episodes) -> dict[str, Numbers]:
    """Return the log under DSRL's names, [N, ...]; an episode that did not end in a terminal ends in a timeout."""
    ends = np.cumsum(episodes.length) - 1
    following = np.roll(episodes.obs, -1, axis=0)
    following[ends] = episodes.last
    last = np.zeros(len(episodes.reward), bool)
    last[ends] = True
    terminals = last.copy()
    terminals[ends] = episodes.terminal
    single = episodes.cost.shape[1] == 1
    return {
        "observations": episodes.obs,
        "next_observations": following,
        "actions": episodes.action,
        "rewards": episodes.reward,
        "costs": episodes.cost[:, 0] if single else episodes.cost,
        "terminals": terminals,
        "timeouts": last & ~terminals,
    }


def save(path: Path, episodes: Episodes) -> None:
    """Write a file of episodes, whole."""
    content = io.BytesIO()
    np.savez(content, **episodes._asdict())
    write_whole(path, content.getvalue())


def restore(path: Path) -> Episodes:
    """Read a file of episodes."""
    with np.load(path, allow_pickle=False) as arrays:
        named: Mapping[str, Numbers] = arrays
        return Episodes(*(named[name] for name in Episodes._fields))
