"""Runs on disk: resume bit for bit after kill -9, stop, extension, foreign files, and what a run leaves behind."""

import csv
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import o3srl as package
from o3srl import checkpoint
from o3srl.cli import main
from o3srl.errors import ConfigError, RunError
from o3srl.experiment import run as runs
from o3srl.experiment import snapshots
from o3srl.experiment.restore import restore
from tests.conftest import walk

SMALL = shlex.split("--td3-bc.hidden 16 16 --batch-size 16 --seeds 1 2 --chunk-updates 20 --limit 5")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "walk.npz"
    np.savez(path, **walk())
    return path


@pytest.fixture(scope="module")
def finished(file, tmp_path_factory):
    """An undisturbed run of 100 updates."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    assert train(file, out, 100) == 0
    return out


def train(file, out, updates, *more):
    return main(["train", "--data", str(file), "--out", str(out), "--updates", str(updates), *SMALL, *more])


def same_run(left, right):
    assert (left / "metrics.csv").read_bytes() == (right / "metrics.csv").read_bytes()
    assert (left / "state.safetensors").read_bytes() == (right / "state.safetensors").read_bytes()


def rows(out):
    with (out / "metrics.csv").open() as opened:
        return list(csv.DictReader(opened))


def test_a_run_leaves_what_it_says(finished):
    assert {path.name for path in finished.iterdir()} == {
        "config.json", "data.json", "metrics.csv", "timing.csv", "state.safetensors"
    }  # fmt: skip
    config = json.loads((finished / "config.json").read_text())
    assert config["algorithm"]["type"] == "GameConfig"
    assert config["lanes"] == [{"seed": 1, "limit": [5.0]}, {"seed": 2, "limit": [5.0]}]
    assert len(config["data"]["sha256"]) == 64
    assert [(row["updates"], row["lane"]) for row in rows(finished)] == [
        (str(updates), str(lane)) for updates in range(20, 101, 20) for lane in (0, 1)
    ]
    assert len((finished / "timing.csv").read_text().splitlines()) == 6


def test_a_longer_run_resumed_equals_one_of_that_length(file, finished, tmp_path):
    short = tmp_path / "short"
    assert train(file, short, 60) == 0
    assert main(["resume", str(short), "--updates", "100"]) == 0
    same_run(short, finished)
    assert json.loads((short / "config.json").read_text())["run"]["updates"] == 100
    assert main(["resume", str(short)]) == 0  # nothing left to do
    same_run(short, finished)


def test_a_run_goes_on_from_the_middle_of_a_chunk(file, finished, tmp_path):
    """30 updates are a chunk of their own in a run of 30, and end inside the second chunk of a run of 100."""
    short = tmp_path / "short"
    assert train(file, short, 30, "--chunk-updates", "20") == 0
    assert main(["resume", str(short), "--updates", "100"]) == 0
    assert (short / "state.safetensors").read_bytes() == (finished / "state.safetensors").read_bytes()
    assert [row["updates"] for row in rows(short)[::2]] == ["10", "20", "30", "40", "60", "80", "100"]


def test_rows_after_the_checkpoint_are_cut(file, finished, tmp_path):
    """What was appended after the last checkpoint, half a row included, is written again and not twice."""
    torn = tmp_path / "torn"
    assert train(file, torn, 60) == 0
    with (torn / "metrics.csv").open("a") as opened:
        opened.write((torn / "metrics.csv").read_text().splitlines()[-1].replace("60,", "80,", 1) + "\n100,0,1,-1,0.")
    assert main(["resume", str(torn), "--updates", "100"]) == 0
    same_run(torn, finished)


def test_without_a_checkpoint_a_run_starts_over(file, finished, tmp_path):
    early = tmp_path / "early"
    assert train(file, early, 100) == 0
    (early / "state.safetensors").unlink()
    (early / "data.json").unlink()
    assert main(["resume", str(early)]) == 0
    same_run(early, finished)
    assert (early / "data.json").exists()


def test_a_request_to_stop_leaves_a_checkpoint(file, finished, tmp_path):
    stopped, seen = tmp_path / "stopped", []
    plan, _ = runs.read(finished)
    plan = plan._replace(run=package.experiment.config.dataclasses.replace(plan.run, out=str(stopped)))
    done = runs.start(plan, lambda run, chunk: seen.append(chunk.updates), lambda: len(seen) >= 1)
    assert not done
    assert seen == [20, 40]
    assert main(["resume", str(stopped)]) == 0
    same_run(stopped, finished)


def kill_and_resume(file, out, updates, kills, seed, env):
    """Train in processes of which `kills` are killed, each a random moment after the run got to a random place."""
    draw = random.Random(seed)
    flags = [*SMALL, "--checkpoint-seconds", "0", "--data", str(file), "--out", str(out), "--updates", str(updates)]
    for place in sorted(draw.uniform(0.0, 0.7) for _ in range(kills)):
        words = ["resume", str(out)] if (out / "config.json").exists() else ["train", *flags]
        process = subprocess.Popen([sys.executable, "-m", "o3srl", *words], env=env, stdout=subprocess.DEVNULL)
        while process.poll() is None and reached(out) < place * updates:
            time.sleep(0.01)
        time.sleep(draw.uniform(0.0, 0.1))
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = subprocess.run([sys.executable, "-m", "o3srl", "resume", str(out)], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def reached(out):
    """The updates of the last whole row of a run's metrics."""
    try:
        lines = (out / "metrics.csv").read_text().splitlines(keepends=True)
    except FileNotFoundError:
        return 0
    whole = [line for line in lines[1:] if line.endswith("\n")]
    return int(whole[-1].split(",", 1)[0]) if whole else 0


@pytest.mark.parametrize(("kills", "updates"), [(3, 10_000), pytest.param(20, 60_000, marks=pytest.mark.slow)])
def test_kill_9_at_random_moments_changes_no_bit(file, tmp_path, cache, kills, updates):
    env = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(cache / "compiled")}
    kill_and_resume(file, tmp_path / "killed", updates, kills, seed=5, env=env)
    assert train(file, tmp_path / "whole", updates) == 0
    same_run(tmp_path / "killed", tmp_path / "whole")


def test_ctrl_c_stops_with_a_checkpoint_and_code_130(file, tmp_path, cache):
    out = tmp_path / "stopped"
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "o3srl",
            "train",
            "--data",
            str(file),
            "--out",
            str(out),
            *SMALL,
            "--updates",
            "1000000",
        ],
        env={**os.environ, "JAX_COMPILATION_CACHE_DIR": str(cache / "compiled")},
        stdout=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 100
    while not (out / "metrics.csv").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert f"o3srl resume {out}" in output
    assert restore(out).updates > 0


def test_a_policy_comes_back_from_the_directory_alone(finished, tmp_path):
    policy = package.load(finished)
    action = policy(np.array([0.1, -0.2, 0.3]))
    assert action.shape == (2,)
    assert np.abs(action).max() <= 1.0
    np.testing.assert_array_equal(policy(np.array([0.1, -0.2, 0.3])), action)
    other = package.load(finished, lane=1, iterate="uniform")
    assert not np.array_equal(other(np.array([0.1, -0.2, 0.3])), action)
    with pytest.raises(ConfigError, match=r"\[3\]"):
        policy(np.zeros(4))
    with pytest.raises(ConfigError, match="2 lane"):
        package.load(finished, lane=2)
    with pytest.raises(ConfigError, match="exponential"):
        package.load(finished, iterate="best")


def test_snapshots_are_the_policies_on_the_way(file, finished, tmp_path):
    out = tmp_path / "run"
    assert train(file, out, 100, "--snapshots", "3") == 0
    assert (out / "state.safetensors").read_bytes() == (finished / "state.safetensors").read_bytes()
    assert snapshots.kept(out) == [40, 80, 100]
    obs = np.array([0.1, -0.2, 0.3])
    last = package.load(out)(obs)
    np.testing.assert_array_equal(package.load(out, updates=100)(obs), last)
    assert not np.array_equal(package.load(out, updates=40)(obs), last)
    assert train(file, tmp_path / "short", 40) == 0
    np.testing.assert_array_equal(package.load(tmp_path / "short")(obs), package.load(out, updates=40)(obs))
    with pytest.raises(RunError, match="40, 80, 100"):
        package.load(out, updates=60)
    with pytest.raises(RunError, match="kept none"):
        package.load(finished, updates=60)


def test_actions_come_back_in_the_environments_own_box(tmp_path):
    arrays = walk()
    arrays["actions"] = 2.0 + 3.0 * arrays["actions"]
    np.savez(tmp_path / "box.npz", **arrays, action_low=np.full(2, -1.0), action_high=np.full(2, 5.0))
    assert train(tmp_path / "box.npz", tmp_path / "run", 20) == 0
    saved = restore(tmp_path / "run")
    policy = package.load(tmp_path / "run")
    inner = policy(np.zeros(3))
    assert saved.info.action_high == (5.0, 5.0)
    assert ((inner >= -1.0) & (inner <= 5.0)).all()
    assert ((inner - 2.0) / 3.0 <= 1.0).all()


def test_lanes_are_seeds_times_settings(file, tmp_path):
    words = ["--limit", "5", "10", "--td3-bc.alpha", "1", "2.5", "--grid.maximum", "2"]
    assert train(file, tmp_path / "run", 20, *words) == 0
    plan, _ = runs.read(tmp_path / "run")
    assert [(lane.seed, lane.limit, dict(lane.own)) for lane in plan.lanes] == [
        (seed, (limit,), {"td3_bc.alpha": alpha}) for limit in (5.0, 10.0) for alpha in (1.0, 2.5) for seed in (1, 2)
    ]
    # A lane among others is that lane alone, to the bit.
    assert train(file, tmp_path / "alone", 20, "--limit", "10", "--td3-bc.alpha", "1", "--grid.maximum", "2") == 0
    among, alone = restore(tmp_path / "run"), restore(tmp_path / "alone")
    import jax

    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[4:6], b), among.lanes, alone.lanes)


def test_normalized_observations_travel_with_the_policy(file, tmp_path):
    assert train(file, tmp_path / "run", 20, "--normalize-observations") == 0
    saved = restore(tmp_path / "run")
    logged = walk()["observations"]
    np.testing.assert_allclose(saved.lanes.state.mean[0], logged.mean(0), atol=1e-4)
    np.testing.assert_allclose(saved.lanes.state.scale[0], logged.std(0) + 1e-3, atol=1e-4)
    assert package.load(tmp_path / "run")(np.zeros(3)).shape == (2,)


@pytest.mark.parametrize("damage", ["truncated", "foreign", "empty", "other shapes"])
def test_a_damaged_checkpoint_is_an_error_that_says_so(file, finished, tmp_path, damage):
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in finished.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    state = copy / "state.safetensors"
    if damage == "truncated":
        state.write_bytes(state.read_bytes()[:-100])
    elif damage == "foreign":
        from safetensors.numpy import save_file

        save_file({"x": np.zeros(3)}, state)
    elif damage == "empty":
        state.write_bytes(b"")
    else:
        saved = restore(finished)
        checkpoint.save(state, saved.lanes._replace(key=np.zeros((7, 2), np.uint32)), {"updates": 1})
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    with pytest.raises(RunError):
        restore(copy)
    assert main(["resume", str(copy)]) == 2
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


def test_another_log_than_the_one_started_on_is_refused(tmp_path):
    path = tmp_path / "log.npz"
    np.savez(path, **walk())
    assert train(path, tmp_path / "run", 20) == 0
    np.savez(path, **walk(seed=1))
    with pytest.raises(RunError, match="another hash"):
        runs.resume(tmp_path / "run", 40, lambda *_: None, lambda: False)


def test_overwrite_replaces_a_run_and_nothing_else(file, tmp_path):
    out = tmp_path / "run"
    assert train(file, out, 20) == 0
    assert train(file, out, 20) == 2
    assert train(file, out, 40, "--overwrite") == 0
    (out / "thesis.tex").write_text("mine")
    assert train(file, out, 20, "--overwrite") == 2
    assert (out / "thesis.tex").read_text() == "mine"
    assert Path(out / "state.safetensors").exists()
