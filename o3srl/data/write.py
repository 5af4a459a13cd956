"""Logs as files."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from o3srl.files import write_whole


def write_hdf5(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write a log in DSRL's format: one flat dataset per name, compressed with gzip. The file appears whole."""
    import h5py

    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=np.ascontiguousarray(array), compression="gzip" if array.ndim else None)
    write_whole(path, content.getvalue())
