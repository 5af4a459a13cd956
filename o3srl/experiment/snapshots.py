"""Policies on the way: what they act with, kept at even steps of a run, for learning curves in a simulator later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from o3srl import checkpoint
from o3srl.errors import RunError
from o3srl.types import Algorithm, State

FOLDER = "snapshots"


def due(before: int, after: int, total: int, count: int) -> bool:
    """Return whether one of the `count` even parts of `total` updates ended after `before` and up to `after`.

    >>> [due(updates, updates + 10, 100, 4) for updates in range(0, 100, 10)].count(True)
    4
    """
    return after * count // total > before * count // total


def keep(directory: Path, algorithm: Algorithm, state: State, updates: int) -> None:
    """Write every iterate of all lanes' policies as snapshots/UPDATES.safetensors."""
    folder = directory / FOLDER
    folder.mkdir(exist_ok=True)
    checkpoint.save(folder / f"{updates:09d}.safetensors", dict(algorithm.parameters(state)), {"updates": updates})


def kept(directory: Path) -> list[int]:
    """Return after how many updates a run's snapshots were taken, in order."""
    return sorted(int(path.stem) for path in (directory / FOLDER).glob("[0-9]*.safetensors"))


def read(directory: Path, template: Any, updates: int) -> Any:
    """Return {iterate: parameters of all lanes} of one snapshot, of the template's structure and shapes."""
    there = kept(directory)
    if updates not in there:
        known = f"there are those of {', '.join(f'{at:,}' for at in there)} updates" if there else "it kept none"
        raise RunError(
            f"{directory} has no snapshot of {updates:,} updates: {known} (o3srl train --snapshots N keeps N)."
        )
    return checkpoint.restore(directory / FOLDER / f"{updates:09d}.safetensors", template)[0]
