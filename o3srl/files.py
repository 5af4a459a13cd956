"""Files that appear whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a crash at any moment leaves the old content or the new: aside, flushed, renamed."""
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(aside, 0o644)
        os.replace(aside, path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise


def write_json(path: Path, content: Any) -> None:
    """Write JSON, indented, as a whole file; a number that is not finite is an error."""
    write_whole(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())
