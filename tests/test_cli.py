"""The command line: the contract of its words, and bad input, which is one paragraph, code 2, and costs nothing."""

import json
import shlex
import subprocess
import sys

import numpy as np
import pytest

from o3srl import __version__
from o3srl.cli import main
from o3srl.errors import ConfigError
from o3srl.experiment.arguments import parse_train, split_lanes
from o3srl.experiment.config import GameConfig, PlainBCConfig
from tests.conftest import walk

TINY = ["--td3-bc.hidden", "16", "16", "--batch-size", "16", "--seeds", "1", "2", "--updates", "20"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Logs, good and bad, under the names that the cases below use."""
    path = tmp_path_factory.mktemp("logs")
    good = walk()
    np.savez(path / "good.npz", **good)
    np.savez(path / "two.npz", **walk(costs=2))
    np.savez(path / "no_costs.npz", **{name: value for name, value in good.items() if name != "costs"})
    np.savez(path / "short.npz", **{**good, "rewards": good["rewards"][:-1]})
    spoiled = good["rewards"].copy()
    spoiled[17] = np.nan
    np.savez(path / "nan.npz", **{**good, "rewards": spoiled})
    np.savez(path / "negative.npz", **{**good, "costs": good["costs"] - 1})
    (path / "text.hdf5").write_text("not a log")
    return path


BAD = {
    "missing file": (["--data", "{logs}/god.npz"], ["god.npz", "good.npz"]),
    "missing key": (["--data", "{logs}/no_costs.npz"], ["no_costs.npz", "costs"]),
    "wrong shape": (["--data", "{logs}/short.npz"], ["rewards", "159"]),
    "nan": (["--data", "{logs}/nan.npz"], ["rewards", "17"]),
    "negative cost": (["--data", "{logs}/negative.npz"], ["costs", "negative"]),
    "not hdf5": (["--data", "{logs}/text.hdf5"], ["text.hdf5"]),
    "negative limit": (["--data", "{logs}/good.npz", "--limit", "-1"], ["--limit", "-1"]),
    "limit that is no number": (["--data", "{logs}/good.npz", "--limit", "five"], ["--limit", "five"]),
    "adaptive grid at limit 0": (["--data", "{logs}/good.npz", "--limit", "0"], ["--grid.kind uniform"]),
    "two limits for one cost": (["--data", "{logs}/good.npz", "--limit", "5,10"], ["2 cost(s)", "has 1"]),
    "one limit for two costs": (["--data", "{logs}/two.npz", "--limit", "5"], ["1 cost(s)", "has 2"]),
    "limits of different lengths": (["--data", "{logs}/good.npz", "--limit", "5", "5,10"], ["same number"]),
    "unknown task": (["--task", "toy-cicle"], ["toy-circle"]),
    "nothing to train on": ([], ["--task", "--data"]),
    "partial round": (["--data", "{logs}/good.npz", "--updates", "15"], ["--updates 20"]),
    "no updates": (["--data", "{logs}/good.npz", "--updates", "0"], ["--updates"]),
    "seed twice": (["--data", "{logs}/good.npz", "--seeds", "1", "1"], ["--seeds", "twice"]),
    "blind critic": (["--data", "{logs}/good.npz", "--dual", "hedge"], ["--td3-bc.critic decomposed"]),
    "one arm": (["--data", "{logs}/good.npz", "--grid.arms", "1"], ["--grid.arms"]),
    "no grid": (["--data", "{logs}/good.npz", "--grid.maximum", "0"], ["--grid.maximum"]),
    "discount of one": (["--data", "{logs}/good.npz", "--td3-bc.discount", "1"], ["--td3-bc.discount"]),
    "log of another task": (
        ["--data", "{logs}/good.npz", "--task", "toy-circle"],
        ["does not belong", "3 observations"],
    ),
    "cost scale": (["--data", "{logs}/good.npz", "--cost-scale", "0"], ["cost"]),
    "unknown preset": (["--data", "{logs}/good.npz", "--preset", "fast"], ["quick"]),
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_input_is_one_paragraph_with_code_2_and_nothing_written(case, folder, tmp_path, capsys):
    words, said = BAD[case]
    words = [word.format(logs=folder) for word in words]
    assert main(["train", *TINY, *words, "--out", str(tmp_path / "run")]) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("Error: ")
    assert "Traceback" not in errors
    assert errors.strip().count("\n") == 0
    for part in said:
        assert part in errors
    assert not list(tmp_path.iterdir())


def test_an_existing_directory_is_refused_before_anything_is_loaded(tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    assert main(["train", "--data", "absent.npz", "--out", str(tmp_path / "mine")]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "mine" / "notes.txt").read_text() == "keep"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trian"], "train"),
        (["train", "o3srll"], "o3srl"),
        (["resume", "{tmp}/absent"], "does not exist"),
        (["resume", "{tmp}"], "no config.json"),
        (["evaluate", "{tmp}/absent"], "does not exist"),
        (["report", "{tmp}/absent"], "does not exist"),
        (["data", "info", "{tmp}/absent.npz"], "absent.npz"),
        (["data", "look", "x"], "info"),
    ],
)
def test_other_commands_refuse_too(words, said, tmp_path, capsys):
    assert main([word.format(tmp=tmp_path) for word in words]) == 2
    assert said in capsys.readouterr().err


def test_an_unknown_flag_names_the_like(capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(["train", "--task", "toy-circle", "--out", "x", "--updtes", "10"])
    assert exit_info.value.code == 2
    assert "--updates" in capsys.readouterr().err


def test_debug_shows_the_traceback():
    with pytest.raises(ConfigError):
        main(["train", "--task", "nowhere", "--out", "x", "--debug"])


def test_help_and_version(capsys):
    assert main([]) == 0
    assert "o3srl train" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == __version__
    with pytest.raises(SystemExit) as exit_info:
        main(["train", "--help"])
    assert exit_info.value.code == 0
    text = capsys.readouterr().out
    for flag in (
        "--limit",
        "--seeds",
        "--td3-bc.alpha",
        "--exp3.rate",
        "--grid.maximum",
        "--overwrite",
        "(the paper: 5)",
    ):
        assert flag in text


def test_it_starts_as_a_module():
    done = subprocess.run([sys.executable, "-m", "o3srl", "tasks"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "toy-hover" in done.stdout


def test_lanes_from_words():
    given = "--limit 5 10 --td3-bc.alpha 1 2.5 --exp3_rate 3 --seeds 1 2 --grid.maximum=4"
    words, limits, several = split_lanes(shlex.split(given), ["td3_bc.alpha", "exp3.rate", "grid.maximum"])
    assert " ".join(words) == "--limit 5 --td3-bc.alpha 1 --exp3_rate 3 --seeds 1 2 --grid.maximum 4"
    assert limits == [(5.0,), (10.0,)]
    assert several == {"td3_bc.alpha": [1.0, 2.5]}
    assert split_lanes(["--limit", "5,10"], [])[:2] == (["--limit", "5", "10"], [(5.0, 10.0)])


def test_presets_are_the_defaults_and_flags_win():
    paper = parse_train(["--data", "x.npz", "--out", "y"])
    assert (paper.run.updates, paper.run.batch_size) == (100_000, 512)
    assert paper.run.seeds == (10, 20, 30)
    assert isinstance(paper.algorithm, GameConfig)
    assert paper.algorithm.td3_bc.hidden == (256, 256)
    quick = parse_train(["--task", "toy-run", "--out", "y", "--batch-size", "64"])
    assert isinstance(quick.algorithm, GameConfig)
    assert quick.algorithm.td3_bc.hidden == (128, 128)
    assert quick.run.batch_size == 64
    named = parse_train(["bc", "--task", "toy-run", "--out", "y", "--preset", "paper"])
    assert isinstance(named.algorithm, PlainBCConfig)
    assert named.algorithm.bc.hidden == (256, 256)


@pytest.mark.parametrize("algorithm", ["o3srl", "td3-bc", "iql", "bc"])
def test_every_algorithm_trains_evaluates_and_reports(algorithm, tmp_path, capsys):
    out = tmp_path / "run"
    hidden = {"o3srl": "td3-bc"}.get(algorithm, algorithm)
    small = [f"--{hidden}.hidden", "16", "16", "--batch-size", "16", "--seeds", "1", "2", "--updates", "20"]
    assert main(["train", algorithm, "--task", "toy-run", "--out", str(out), *small]) == 0
    assert main(["evaluate", str(out), "--episodes", "3"]) == 0
    assert "norm. reward" in capsys.readouterr().out
    result = json.loads((out / "result.json").read_text())
    assert set(result) >= {"task", "episodes", "lanes", "mean", "std"}
    assert result["episodes_spent"] == 6
    for lane, seed in zip(result["lanes"], (1, 2), strict=True):
        assert lane["seed"] == seed
        assert lane["limit"] == [5.0]
        assert len(lane["returns"]) == len(lane["costs"]) == 3
        assert lane["reward"] == pytest.approx(np.mean(lane["returns"]))
        assert lane["cost"] == pytest.approx(np.mean(lane["costs"], axis=0).tolist())
        assert lane["best_logged"] is not None
        assert lane["normalized_cost"] == pytest.approx(lane["cost"][0] / 5.0)
    scores = [lane["normalized_reward"] for lane in result["lanes"]]
    assert result["mean"]["normalized_reward"] == pytest.approx(np.mean(scores))
    assert result["std"]["normalized_reward"] == pytest.approx(np.std(scores))
    assert main(["evaluate", str(out), "--episodes", "3", "--limit", "10"]) == 0
    again = json.loads((out / "result.json").read_text())
    assert again["lanes"][0]["normalized_cost"] == pytest.approx(result["lanes"][0]["cost"][0] / 10.0)
    assert again["episodes_spent"] == 12
    assert main(["report", str(out)]) == 0
    assert (out / "report.html").stat().st_size > 10_000


def test_a_run_on_a_file_cannot_be_simulated(folder, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["train", "--data", str(folder / "good.npz"), "--out", str(out), *TINY]) == 0
    assert main(["evaluate", str(out)]) == 2
    assert "nothing to simulate" in capsys.readouterr().err


def test_limit_0_trains_on_a_uniform_grid_and_says_what_it_means(folder, tmp_path, capsys):
    words = [
        "--limit",
        "0",
        "--grid.kind",
        "uniform",
        "--data",
        str(folder / "good.npz"),
        "--out",
        str(tmp_path / "run"),
    ]
    assert main(["train", *TINY, *words]) == 0
    assert "cheapest" in capsys.readouterr().err


def test_data_info_and_check(folder, capsys):
    assert main(["data", "info", str(folder / "good.npz")]) == 0
    assert "episodes" in capsys.readouterr().out
    assert main(["data", "check", str(folder / "good.npz")]) == 0
    assert "can be trained on" in capsys.readouterr().out
    assert main(["data", "check", str(folder / "nan.npz")]) == 2
