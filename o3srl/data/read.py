"""Logs in files: `load` finds the format by the suffix and hands its columns over to `build`.

A format is a reader: path -> context manager over its columns, which are read by slabs while the file is open. Whatever
a library raises on foreign bytes becomes one DataError that names the file; nothing is ever unpickled.
"""

from __future__ import annotations

import contextlib
import math
import os
import zipfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from o3srl.data.build import build
from o3srl.data.check import near
from o3srl.data.columns import BOX, NAMES, Column, Rows, array_column, chunks, row_bytes
from o3srl.errors import DataError
from o3srl.types import Data

Reader = Callable[[Path], AbstractContextManager[Mapping[str, Column]]]

MAGIC = {
    b"\x89HDF\r\n\x1a\n": "an HDF5 file (rename it to .hdf5)",
    b"PK": "a zip archive (rename it to .npz if NumPy wrote it)",
    b"\x93NUMPY": "a single .npy array (save all columns with np.savez)",
    b"\x1f\x8b": "a gzip file (unpack it first)",
    b"version https://git-lfs": "a Git LFS pointer (fetch the file itself with git lfs pull)",
    b"<": "a web page (an error page of the download, perhaps)",
}


def load(
    path: str | os.PathLike[str],
    *,
    task: str | None = None,
    horizon: int | None = None,
    action_low: Any = None,
    action_high: Any = None,
) -> Data:
    """Return the checked log that a file holds: DSRL's HDF5 (.hdf5, .h5), or the same names in NumPy's .npz.

    `task` names the task that the log belongs to; horizon is the time limit in steps, the longest logged episode by
    default; action_low and action_high are the environment's own action box, else what the file holds, else [-1, 1].
    Arrays are as in `from_arrays`.
    """
    file = Path(path).expanduser()
    reader = _reader(file)
    with reader(file) as columns:
        box = (action_low, action_high)
        return build(columns, source=str(path), task=task, horizon=horizon, box=box, stacklevel=2)


def _reader(file: Path) -> Reader:
    """Return the reader for an existing file, or say what is there instead."""
    supported = ", ".join(sorted(READERS))
    if not file.exists():
        folder = file.parent
        if not folder.is_dir():
            raise DataError(f"{file}: there is no such file, nor its folder. Give the path of a log ({supported}).")
        others = [other.name for other in folder.iterdir()]
        raise DataError(f"{file}: there is no such file in that folder{near(file.name, others)}. Logs are {supported}.")
    if file.is_dir():
        logs = sorted(other.name for other in file.iterdir() if other.suffix.lower() in READERS)
        held = f"It holds {', '.join(logs[:8])}: name one of them." if logs else f"Name a log in it ({supported})."
        raise DataError(f"{file}: this is a directory, not a log. {held}")
    if file.suffix.lower() not in READERS:
        raise DataError(
            f"{file}: the format '{file.suffix}' is not supported, only {supported}. Save the columns with np.savez, "
            "or give them to o3srl.data.from_arrays."
        )
    return READERS[file.suffix.lower()]


@contextmanager
def _foreign(file: Path, kind: str) -> Generator[None]:
    """Turn whatever a library raises on the file's bytes into a DataError."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # corrupt bytes raise OSError, ValueError, zlib.error, struct.error, MemoryError, ...
        said = (str(error).splitlines() or [""])[0]
        raise DataError(
            f"{file}: it cannot be read as {kind} ({type(error).__name__}: {said:.160}).{_looks(file, kind)} It may be "
            "truncated or damaged: get it anew, and compare its size with the original's."
        ) from error


def _looks(file: Path, kind: str) -> str:
    with contextlib.suppress(OSError), file.open("rb") as stream:
        head = stream.read(32)
        if not head:
            return " It is empty."
        for magic, words in MAGIC.items():
            if head.startswith(magic) and kind.lower() not in words.lower():
                return f" It looks like {words}."
    return ""


@contextmanager
def _hdf5(file: Path) -> Generator[Mapping[str, Column]]:
    """Open DSRL's format: flat datasets; the action box may also be attributes of the root."""
    import h5py  # here, so that the other formats do without it

    with contextlib.ExitStack() as stack:
        with _foreign(file, "HDF5"):
            root = stack.enter_context(h5py.File(file, "r"))
            columns = {name: array_column(np.asarray(root.attrs[name])) for name in BOX if name in root.attrs}
            for name in root:
                item: Any = root[name]
                if isinstance(item, h5py.Dataset):
                    columns[str(name)] = _dataset(file, str(name), item)
                elif isinstance(item, h5py.Group):  # for the sentence that lists what is there
                    columns |= {f"{name}/{inner}": array_column(np.zeros(0)) for inner in (*item,) or ("",)}
        yield columns


def _dataset(file: Path, name: str, data: Any) -> Column:
    """Return the column that an HDF5 dataset is, after a look whether all of it was ever written."""
    if data.shape is None:
        raise DataError(f"{file}: column '{name}' has no data space. Write an array to it.")
    if name in NAMES and data.size and not data.is_virtual and not data.external:
        holes = not data.id.get_storage_size()
        if data.chunks:
            grid = [-(-length // chunk) for length, chunk in zip(data.shape, data.chunks, strict=True)]
            holes = data.id.get_num_chunks() < math.prod(grid)
        if holes:
            raise DataError(
                f"{file}: part of column '{name}' was never written (it would read as zeros): the program "
                "that logged it was stopped, perhaps. Cut the file to the rows that were written, or log anew."
            )

    def slabs() -> Iterator[Rows]:
        # whole chunks, so that each is decompressed once
        for part in chunks(data.shape[0], row_bytes(data.shape, data.dtype), data.chunks[0] if data.chunks else 1):
            with _foreign(file, "HDF5"):
                slab = data[part]
            yield slab

    return Column(data.shape, data.dtype, slabs if data.shape else lambda: iter((np.asarray(data[()]),)))


@contextmanager
def _npz(file: Path) -> Generator[Mapping[str, Column]]:
    """Open what np.savez or np.savez_compressed wrote."""
    with contextlib.ExitStack() as stack:
        with _foreign(file, "npz"):
            archive = stack.enter_context(zipfile.ZipFile(file))
            members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
            columns = {member.filename[:-4]: _member(file, archive, member) for member in members}
        yield columns


def _header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read:
        raise ValueError(f"array format {version}")
    return read[version](stream)


def _member(file: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Column:
    """Return the column that a .npy member is; its header is read now, its rows are streamed later."""
    with archive.open(member) as stream:
        shape, fortran, dtype = _header(stream)
        size = row_bytes((1, *shape), dtype)
        if dtype.kind != "O" and (min(shape, default=0) < 0 or stream.tell() + size != member.file_size):
            raise ValueError(f"{member.filename} declares {size} bytes that it does not hold")

    def slabs() -> Iterator[Rows]:
        with contextlib.ExitStack() as stack:
            with _foreign(file, "npz"):
                stream = stack.enter_context(archive.open(member))
                whole = np.lib.format.read_array(stream, allow_pickle=False) if fortran or not shape else None
                if whole is None:
                    _header(stream)
            if whole is not None:
                yield from array_column(whole).slabs()
                return
            for part in chunks(shape[0], row_bytes(shape, dtype)):
                with _foreign(file, "npz"):  # with the last byte the archive compares its checksum
                    count = part.stop - part.start
                    slab = np.frombuffer(stream.read(count * row_bytes(shape, dtype)), dtype).reshape(count, *shape[1:])
                yield slab

    return Column(shape, dtype, slabs)


READERS: dict[str, Reader] = {".hdf5": _hdf5, ".h5": _hdf5, ".npz": _npz}
