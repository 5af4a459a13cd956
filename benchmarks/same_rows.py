"""Whether the loader returns what a file holds: `python benchmarks/same_rows.py FILE_OR_FOLDER...`.

Every row of every episode of each HDF5 log is compared, bit by bit, with what h5py shows; episodes are cut here at the
flags by themselves, without the loader's code. What the loader flags (stale first observations, actions outside the
box, an unfinished tail) is counted, and that flagged rows are kept out of sampling but not changed is checked too.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np

from o3srl.data import load, unpack
from o3srl.types import Data

COLUMNS = {
    "observations": "obs", "actions": "action", "rewards": "reward", "costs": "cost",
    "next_observations": "next_obs", "terminals": "terminal", "timeouts": "timeout",
}  # fmt: skip


class Seen(NamedTuple):
    """Of a file: rows and finished episodes that were compared, what was flagged, and what differs."""

    rows: int
    episodes: int
    stale: int
    outside: int
    unfinished: int
    differences: list[str]


def compare(path: Path) -> Seen:
    """Return what the loader makes of a file beside what h5py shows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = load(path)
    with h5py.File(path) as file:
        shown = {name: np.asarray(file[name]) for name in COLUMNS}
    stop = np.flatnonzero(shown["terminals"].astype(bool) | shown["timeouts"].astype(bool)) + 1
    start = np.concatenate([[0], stop[:-1]])
    outside = int((np.abs(shown["actions"]) > 1 + 1e-5).any(axis=1).sum())
    tail = len(shown["rewards"]) - int(stop[-1])
    differences = [*_rows(data, shown, start, stop), *_flags(data, start, tail, outside)]
    return Seen(len(data.table), len(start), data.info.stale_first_observations, outside, tail, differences)


def _rows(data: Data, shown: dict[str, np.ndarray], start: np.ndarray, stop: np.ndarray) -> list[str]:
    told, returned = [], unpack(np.asarray(data.table), data.info)
    begin, length = np.asarray(data.episodes.start), np.asarray(data.episodes.length)
    if begin.tolist() != start.tolist() or (begin + length).tolist() != stop.tolist():
        return [f"{len(begin)} episodes where the flags make {len(start)}"]
    for index, (first, last) in enumerate([*zip(start, stop, strict=True), (stop[-1], len(data.table))]):
        for name, field in COLUMNS.items():
            ours, theirs = np.asarray(getattr(returned, field))[first:last], shown[name][first:last]
            if ours.tobytes() != np.ascontiguousarray(theirs, np.float32).reshape(ours.shape).tobytes():
                told.append(f"episode {index}: {name}")
        if index < len(start):  # what comes after the last flag is no episode
            sums = [shown[name][first:last].sum(axis=0, dtype=np.float64) for name in ("rewards", "costs")]
            ours = data.episodes.returns[index], np.squeeze(data.episodes.costs[index])
            if not all(np.allclose(a, b, rtol=1e-6) for a, b in zip(sums, ours, strict=True)):
                told.append(f"episode {index}: its sums")
    return told


def _flags(data: Data, start: np.ndarray, tail: int, outside: int) -> list[str]:
    rows, usable = len(data.table), np.asarray(data.usable)
    left_out = np.setdiff1d(np.arange(rows - tail), usable)
    initial = np.setdiff1d(start, left_out)
    expected = {
        "only stale rows are left out": len(left_out) == data.info.stale_first_observations,
        "stale rows begin episodes": np.isin(left_out, start).all(),
        "no row of the tail is sampled": not (usable >= rows - tail).any(),
        "initial states are the sound first rows": np.array_equal(np.asarray(data.initial), initial),
        "actions outside the box are counted": outside == data.info.actions_outside_box,
        "what is flagged is said": len(data.info.findings) >= bool(len(left_out)) + bool(tail) + bool(outside),
    }
    return [f"not so: {what}" for what, holds in expected.items() if not holds]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path, help="HDF5 logs, or folders of them")
    given = parser.parse_args().paths
    files = [file for path in given for file in (sorted(path.glob("*.hdf5")) if path.is_dir() else [path])]
    print(f"{'file':<32}{'rows':>10}{'episodes':>10}{'stale':>8}{'outside':>10}{'tail':>6}  differs")
    total = 0
    for file in files:
        seen = compare(file)
        total += len(seen.differences)
        facts = f"{seen.rows:>10,}{seen.episodes:>10,}{seen.stale:>8,}{seen.outside:>10,}{seen.unfinished:>6,}"
        print(f"{file.parent.name + '/' + file.name:<32}{facts}  {'; '.join(seen.differences[:3]) or '-'}", flush=True)
    print(f"{len(files)} files, {total} differences")
    return 1 if total or not files else 0


if __name__ == "__main__":
    sys.exit(main())
