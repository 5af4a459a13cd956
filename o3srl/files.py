"""Files that appear whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from o3srl.errors import ConfigError, RunError


@contextmanager
def aside(path: Path) -> Generator[BinaryIO]:
    """Yield a file that becomes `path` where the block ends well: flushed and renamed, so that a crash at any moment
    leaves the old content or the new."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: bytes) -> None:
    """Write a file as `aside` does."""
    with aside(path) as file:
        file.write(content)


def write_json(path: Path, content: Any) -> None:
    """Write JSON, indented, as a whole file; a number that is not finite is an error."""
    write_whole(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def refuse_file(flag: str, path: Path, kinds: Sequence[str], *, overwrite: bool | None = None) -> None:
    """Raise unless `path`, given with `flag`, may be written: of one of the kinds, in a folder, over nothing.

    `overwrite` is what was said where that flag is there: True allows what exists, False is told of it.
    """
    if path.suffix.lower() not in kinds:
        raise ConfigError(f"{flag} {path}: let its name end in {' or '.join(kinds)}.")
    if (path.exists() or path.is_symlink()) and not overwrite:
        way = "remove it first" if overwrite is None else "replace it with --overwrite"
        raise ConfigError(f"{flag} {path} exists already, and is left alone. Name another file, or {way}.")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"{flag} {path}: there is no folder {path.parent}. Make it, or name another.")


def refuse_occupied(directory: Path, own: Collection[str], overwrite: bool, ways_out: str) -> None:
    """Raise unless a directory is free, or may be overwritten and holds nothing but files of the names in `own`.

    Names that begin with a dot do not count; `ways_out` is the sentence that says what else one can do.
    """
    if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        return
    if not overwrite:
        raise RunError(f"{directory} exists already. {ways_out}")
    foreign = sorted({path.name for path in directory.iterdir()} - set(own)) if directory.is_dir() else ["a file"]
    foreign = [name for name in foreign if not name.startswith(".")]
    if foreign:
        raise RunError(f"{directory} holds things that no run wrote ({foreign[0]}), so --overwrite leaves it alone.")
