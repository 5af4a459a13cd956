"""Broken logs: each gives a DataError or a Data that says what the file says, never another exception."""

from __future__ import annotations

import contextlib
import functools
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from o3srl.data import DataWarning, from_arrays, load, unpack
from o3srl.data.columns import NAMES
from o3srl.errors import DataError
from o3srl.types import Data
from tests.helpers_data import changed, make_log, without, write

SUFFIXES = (".hdf5", ".npz")
LOG = make_log((5, 3, 5))
ROWS = 13
fuzz = settings(max_examples=120, derandomize=True, deadline=None, database=None)


@functools.cache
def valid_bytes(suffix: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return write(Path(folder) / f"log{suffix}", LOG).read_bytes()


def contents(path: Path) -> dict:
    """Return what a file says, read by the libraries' own plain means."""
    if path.suffix == ".npz":
        with np.load(path) as file:
            return {name: file[name] for name in file.files if name in NAMES}
    with h5py.File(path) as file:
        return {name: np.asarray(file[name]) for name in file if name in NAMES}


def assert_says(data, log):
    """Assert that the data is what the log's arrays say, by a plain loop over its rows."""
    rows = unpack(np.asarray(data.table), data.info)
    assert all(np.isfinite(part).all() for part in rows)
    for name, column in log.items():
        logged = np.asarray(column, np.float32).reshape(len(column), -1)
        np.testing.assert_array_equal(getattr(rows, NAMES[name].field).reshape(logged.shape), logged)
    start, episodes = 0, []
    for row in range(len(rows.reward)):
        assert rows.first[row] == (row == start)
        if rows.terminal[row] or rows.timeout[row]:
            episodes.append((start, row + 1))
            start = row + 1
    assert data.episodes.start.tolist() == [begin for begin, _ in episodes]
    assert data.episodes.length.tolist() == [end - begin for begin, end in episodes]
    for number, (begin, end) in enumerate(episodes):
        total = rows.reward[begin:end].astype(float).sum(), rows.cost[begin:end].astype(float).sum(0)
        np.testing.assert_allclose(data.episodes.returns[number], total[0], rtol=1e-5)
        np.testing.assert_allclose(data.episodes.costs[number], total[1], rtol=1e-5)
    usable, initial = set(data.usable.tolist()), set(data.initial.tolist())
    assert initial
    assert initial <= usable <= set(range(episodes[-1][1]))
    assert len(usable) == len(data.usable)
    assert (rows.cost >= 0).all()


def taken(take: Callable[[], Data], source: str) -> Data | None:
    """Return what `take` gives, or None if it is a clean DataError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            return take()
    except DataError as error:
        clean = str(error).startswith(source) and "\n" not in str(error) and len(str(error)) < 1500
        if not clean:
            raise
        return None


def check(path: Path) -> None:
    """Load the file; if that goes well, hold it against what the file says."""
    data = taken(lambda: load(path), str(path))
    if data is not None:
        assert_says(data, contents(path))


@st.composite
def broken_bytes(draw):
    """Bytes of a valid file that were cut, flipped, blanked or swapped."""
    suffix = draw(st.sampled_from(SUFFIXES))
    content = bytearray(valid_bytes(suffix))
    place = st.integers(0, len(content) - 1)
    for _ in range(draw(st.integers(0, 4))):
        content[draw(place)] = draw(st.integers(0, 255))
    match draw(st.sampled_from(("keep", "cut", "blank", "magic", "behead", "grow"))):
        case "cut":
            del content[draw(place) :]
        case "blank":
            start = draw(place)
            content[start : start + 64] = bytes(len(content[start : start + 64]))
        case "magic":
            content[:8] = draw(st.binary(min_size=8, max_size=8))
        case "behead":
            del content[: draw(place)]
        case "grow":
            content += draw(st.binary(max_size=64))
        case _:
            pass
    return suffix, bytes(content)


@fuzz
@given(broken_bytes())
def test_damaged_bytes(broken):
    suffix, content = broken
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"log{suffix}"
        path.write_bytes(content)
        check(path)


VALUES = st.sampled_from([np.nan, np.inf, -np.inf, -1.0, 0.5, 2.0, 1e7, 1e19, 1e39, -0.0])
TYPES = ("f2", ">f4", "f8", "i1", "u1", ">i8", "u8", "c8", "U4", "S3", "M8[s]", "?", [("x", "f4")])
SHAPES = (
    (ROWS,),
    (ROWS, 1),
    (ROWS, 2),
    (ROWS, 3),
    (ROWS, 0),
    (ROWS + 1,),
    (ROWS + 3, 3),
    (0,),
    (0, 3),
    (),
    (ROWS, 2, 2),
)


@st.composite
def broken_logs(draw):
    """A valid log, one to three columns of which were dropped, renamed, retyped, reshaped, or filled with nonsense."""
    log = dict(LOG)
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(NAMES)))
        if name not in log or log[name].dtype.kind not in "bf" or not log[name].ndim or not log[name].size:
            continue
        match draw(st.sampled_from(("drop", "rename", "type", "shape", "value", "value", "flags", "objects", "roll"))):
            case "drop":
                log = without(log, name)
            case "rename":
                log[draw(st.sampled_from((name[:-1], name.upper(), "x")))] = log.pop(name)
            case "type":
                with contextlib.suppress(TypeError, ValueError), np.errstate(all="ignore"):
                    log[name] = np.asarray(log[name]).astype(draw(st.sampled_from(TYPES)))
            case "shape":
                log[name] = np.zeros(draw(st.sampled_from(SHAPES)), np.float32)
            case "value":
                with np.errstate(over="ignore"):
                    log = changed(log, name, draw(st.integers(0, len(log[name]) - 1)), draw(VALUES))
            case "flags":
                log[name] = np.array(draw(st.lists(st.booleans(), min_size=ROWS, max_size=ROWS)))
            case "objects":
                log[name] = np.array([{}] * ROWS, object)
            case _:
                log[name] = np.roll(log[name], draw(st.integers(1, ROWS)), axis=0)
    return log


@fuzz
@given(broken_logs(), st.sampled_from(SUFFIXES))
def test_broken_columns(log, suffix):
    data = taken(lambda: from_arrays(log), "arrays: ")
    if data is not None:
        assert_says(data, {name: column for name, column in log.items() if name in NAMES})
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(TypeError, ValueError):
        path = write(Path(folder) / f"log{suffix}", log)  # h5py cannot write every type
        check(path)


@fuzz
@given(st.lists(st.booleans(), min_size=ROWS, max_size=ROWS), st.lists(st.booleans(), min_size=ROWS, max_size=ROWS))
def test_any_flags(terminals, timeouts):
    for log in (LOG, without(LOG, "next_observations")):
        log = {**log, "terminals": np.array(terminals), "timeouts": np.array(timeouts)}
        data = taken(lambda log=log: from_arrays(log), "arrays: no ")
        if data is not None:
            assert_says(data, log)
