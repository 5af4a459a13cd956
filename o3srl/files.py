"""Files that appear whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO


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
