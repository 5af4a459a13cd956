"""Log files as DSRL's are: every row as h5py shows it, what `o3srl data` says of them, and their picture."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from o3srl.cli import main
from o3srl.data import describe, load
from o3srl.errors import ConfigError
from o3srl.experiment import picture
from tests.helpers_data import dsrl_log, make_log, write

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.filterwarnings("ignore::o3srl.data.DataWarning")  # the log is odd on purpose


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A file in DSRL's format with all that its files have in them: twelve episodes, the first costs 0, the last 11."""
    return write(tmp_path_factory.mktemp("logs") / "log.hdf5", dsrl_log())


@pytest.fixture(scope="module")
def same_rows():
    """The program that compares the loader's rows with the file's."""
    spec = importlib.util.spec_from_file_location("same_rows", ROOT / "benchmarks" / "same_rows.py")
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_file_is_as_dsrl_writes_them(file):
    with h5py.File(file) as log:
        assert {column.compression for column in log.values()} == {"gzip"}
        assert {name: str(column.dtype) for name, column in log.items()} == {
            **dict.fromkeys(("observations", "next_observations", "actions", "rewards", "costs"), "float32"),
            **dict.fromkeys(("terminals", "timeouts"), "bool"),
        }
        assert log["observations"].chunks
        assert np.asarray(log["terminals"]).sum() == 1


@pytest.mark.parametrize("slab", [1 << 24, 4096])
def test_every_row_is_as_h5py_shows_it_and_what_is_doubtful_is_counted(file, same_rows, slab, monkeypatch):
    monkeypatch.setattr("o3srl.data.columns.SLAB_BYTES", slab)
    seen = same_rows.compare(file)
    assert seen.differences == []
    assert (seen.rows, seen.episodes, seen.unfinished) == (1183, 12, 33)
    assert seen.stale == 4
    log = dsrl_log()
    assert seen.outside == int((np.abs(log["actions"]) > 1).any(axis=1).sum()) > 100


@pytest.mark.parametrize("name", ["observations", "actions", "costs", "next_observations", "timeouts"])
def test_the_comparison_sees_a_single_changed_value(file, same_rows, name, tmp_path, monkeypatch):
    log = dsrl_log()
    log[name] = log[name].copy()
    row = 499 if name == "timeouts" else 250
    log[name][row] = ~log[name][row] if name == "timeouts" else log[name][row] + 1e-3
    other = write(tmp_path / "other.hdf5", log)
    monkeypatch.setattr(same_rows, "load", lambda path: load(other))
    assert same_rows.compare(file).differences


def test_info_tells_the_numbers(file, capsys):
    assert main(["data", "info", str(file), "--limits", "3", "7.5"]) == 0
    told = capsys.readouterr().out
    data = load(file)
    within = [data.episodes.returns[:count].max() for count in (4, 8)]
    assert re.search(rf"^3 +4 +{within[0]:,.2f}$", told, re.MULTILINE)
    assert re.search(rf"^7.50 +8 +{within[1]:,.2f}$", told, re.MULTILINE)
    for said in ("12, 1 terminals, 11 timeouts", "8, 4 stale first observations", "33 rows after the last episode"):
        assert said in told
    assert describe(data)["actions_outside_box"] == data.info.actions_outside_box > 0
    assert main(["data", "check", str(file)]) == 0
    told = capsys.readouterr().out
    assert told.count("odd:") == len(data.info.findings) == 3
    assert "can be trained on: 12 episodes, 1,146 usable rows" in told
    assert main(["data", "info", "toy-run"]) == 0
    assert "600, " in capsys.readouterr().out
    assert main(["data", "info", "toy-rum"]) == 2
    assert "did you mean toy-run" in capsys.readouterr().err


def test_a_run_carries_the_counts_and_needs_no_client_of_the_hub(file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # importing it would now fail
    small = ["--bc.hidden", "8", "8", "--batch-size", "8", "--updates", "20", "--seeds", "1"]
    assert main(["train", "bc", "--data", str(file), *small, "--out", str(tmp_path / "run")]) == 0
    facts = json.loads((tmp_path / "run" / "data.json").read_text())["facts"]
    info = load(file).info
    assert facts["stale_first_observations"] == info.stale_first_observations == 4
    assert facts["actions_outside_box"] == info.actions_outside_box
    assert json.loads((tmp_path / "run" / "config.json").read_text())["data"]["stale_first_observations"] == 4


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_the_picture_is_written_once_and_the_same(file, suffix, tmp_path, capsys):
    path = tmp_path / f"log{suffix}"
    assert main(["data", "info", str(file), "--picture", str(path)]) == 0
    assert f"Written: {path}" in capsys.readouterr().out
    before = path.read_bytes()
    assert main(["data", "info", str(file), "--picture", str(path)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert path.read_bytes() == before
    if suffix == ".svg":
        assert main(["data", "info", str(file), "--picture", str(tmp_path / "again.svg")]) == 0
        assert (tmp_path / "again.svg").read_bytes() == before


def test_the_picture_has_every_episode_its_limits_and_the_best(tmp_path):
    random = np.random.default_rng(0)
    costs = np.stack([np.arange(50.0), random.uniform(0, 9, 50)], axis=1)
    for count in (1, 2):
        path = tmp_path / f"{count}.svg"
        picture.write_scatter(path, "log", random.normal(size=50), costs[:, :count], [10.0, 20.0, 70.0])
        text = path.read_text()
        dots = [text.count(f'xlink:href="#{marker}"') for marker in set(re.findall(r'xlink:href="#(m\w+)"', text))]
        assert sorted(dots) == [{1: 2, 2: 3}[count], 50 * count]  # the best within each limit in reach, and all
        assert "#b3362b" in text  # the limits
    picture.write_scatter(tmp_path / "log.png", "log", random.normal(size=50), costs[:, :1], [5.0])
    with Image.open(tmp_path / "log.png") as image:
        pixels = np.asarray(image.convert("RGB"))
    assert pixels.shape[0] > 400
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 50


def test_a_picture_that_cannot_be(file, tmp_path, capsys):
    for path, said in ((tmp_path / "x.bmp", ".png"), (tmp_path / "none" / "x.png", "no folder")):
        assert main(["data", "info", str(file), "--picture", str(path)]) == 2
        assert said in capsys.readouterr().err
        assert not path.exists()
    with pytest.raises(ConfigError, match="left alone"):
        picture.refuse_picture(write(tmp_path / "log.npz", make_log()).rename(tmp_path / "log.svg"))
