"""`metrics.csv` and `timing.csv`: a row per chunk and lane, appended, and cut back to the checkpoint on resume.

Timing is kept apart from the metrics, so that a resumed run's metrics equal those of an undisturbed one bit for bit.
"""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import numpy as np

from o3srl.files import write_whole
from o3srl.train import Chunk


class MetricsLog:
    """The two growing tables of a run directory."""

    def __init__(self, directory: Path, seeds: list[int]) -> None:
        self.metrics, self.timing, self.seeds = directory / "metrics.csv", directory / "timing.csv", seeds

    def cut(self, done: int) -> None:
        """Leave only whole rows of the first `done` updates: what came after the checkpoint will come again."""
        for path in (self.metrics, self.timing):
            if not path.exists():
                continue
            lines = path.read_text().splitlines(keepends=True)
            kept = [line for line in lines[1:] if line.endswith("\n") and int(line.split(",", 1)[0]) <= done]
            write_whole(path, "".join([*lines[:1], *kept] if kept else []).encode())

    def append(self, chunk: Chunk) -> None:
        """Append one row per lane, and one of timing."""
        columns, rows = table(chunk)
        lead = [[chunk.updates, lane, seed] for lane, seed in enumerate(self.seeds)]
        named = ["updates", "lane", "seed", "frozen_at", *columns]
        frozen = np.asarray(chunk.lanes.frozen_at).tolist()
        _append(self.metrics, named, [[*a, f, *row] for a, f, row in zip(lead, frozen, rows, strict=True)])
        _append(self.timing, ["updates", "seconds"], [[chunk.updates, f"{chunk.seconds:.4f}"]])

    def flush(self) -> None:
        """Make sure that what was appended is on the disk."""
        for path in (self.metrics, self.timing):
            with path.open("rb") as file:
                os.fsync(file.fileno())


def table(chunk: Chunk) -> tuple[list[str], list[list[str]]]:
    """Return (columns, rows [L]) of a chunk's metrics; a vector becomes columns name.0, name.1 and so on."""
    columns: list[str] = []
    values: list[np.ndarray] = []
    for name in sorted(chunk.metrics):
        metric = np.asarray(chunk.metrics[name])
        flat = metric.reshape(len(metric), -1)
        columns += [name] if metric.ndim == 1 else [f"{name}.{index}" for index in range(flat.shape[1])]
        values.append(flat)
    joined = np.concatenate(values, axis=1)
    return columns, [[str(value) for value in row] for row in joined]  # the shortest text that reads back the same


def _append(path: Path, header: list[str], rows: list[list[object]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if not path.exists() or path.stat().st_size == 0:
        writer.writerow(header)
    writer.writerows(rows)
    with path.open("a") as file:
        file.write(text.getvalue())
