"""Runs on a file, simulated by `o3srl evaluate`: results, learning curves, what is refused; and the list of tasks."""

import json

import numpy as np
import pytest

from o3srl.cli import main
from o3srl.envs import interpreters
from o3srl.envs.tasks import TASKS
from o3srl.errors import RunError
from o3srl.experiment import evaluation
from o3srl.experiment.evaluation import Evaluation, evaluate
from o3srl.experiment.report import write_report
from o3srl.experiment.table import curve_table, result_table
from tests import plant
from tests.conftest import walk
from tests.test_gym import HERE

SMALL = [
    "--bc.hidden",
    "8",
    "8",
    "--batch-size",
    "8",
    "--seeds",
    "1",
    "2",
    "--updates",
    "40",
    "--chunk-updates",
    "10",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on a log in the plant's own box, that kept two snapshots."""
    folder = tmp_path_factory.mktemp("runs")
    arrays, box = walk(), plant.Plant.action_space
    middle, half = (box.high + box.low) / 2, (box.high - box.low) / 2
    arrays["actions"] = (middle + half * arrays["actions"]).astype(np.float32)
    np.savez(folder / "log.npz", **arrays, action_low=box.low, action_high=box.high)
    words = ["--data", str(folder / "log.npz"), "--task", "plant:Plant", "--horizon", "20", "--snapshots", "2"]
    assert main(["train", "bc", *SMALL, *words, "--limit", "5", "10", "--out", str(folder / "run")]) == 0
    return folder / "run"


@pytest.fixture(autouse=True)
def beside_the_plant(monkeypatch):
    monkeypatch.chdir(HERE)
    monkeypatch.delenv(interpreters.VARIABLE, raising=False)


def read(path):
    return json.loads(path.read_text())


def test_evaluate_scores_by_the_runs_own_log(run, capsys):
    assert main(["evaluate", str(run), "--episodes", "4"]) == 0
    first = read(run / "result.json")
    returns = read(run / "data.json")["returns"]
    low, high = min(returns), max(returns)
    assert first["constants"] == {"min_return": low, "max_return": high, "source": "the run's log"}
    assert [len(lane["returns"]) for lane in first["lanes"]] == [4] * 4
    for lane in first["lanes"]:
        assert lane["reward"] == pytest.approx(np.mean(lane["returns"]))
        assert lane["normalized_reward"] == pytest.approx((lane["reward"] - low) / (high - low))
        assert lane["normalized_cost"] == pytest.approx(lane["cost"][0] / lane["limit"][0])
    assert "the extreme returns of the run's log" in capsys.readouterr().out
    assert main(["evaluate", str(run), "--episodes", "4", "--processes", "1"]) == 0
    again = read(run / "result.json")
    assert again.pop("episodes_spent") == first.pop("episodes_spent") + 16
    assert again == first
    assert "NaN" not in write_report(run).read_text()


def test_snapshots_become_learning_curves_and_are_not_evaluated_twice(run, capsys, monkeypatch):
    (run / "curve.json").unlink(missing_ok=True)
    words = ["evaluate", str(run), "--snapshots", "--episodes", "3"]
    assert main(words) == 0
    curve = read(run / "curve.json")
    assert [point["updates"] for point in curve["points"]] == [20, 40]
    told = capsys.readouterr().out
    assert "40" in told
    assert "limit=5" in told
    result = evaluate(run, Evaluation(episodes=3))
    assert curve["points"][-1]["lanes"] == result["lanes"]  # the last snapshot is the last checkpoint
    assert result["episodes_spent"] == curve["episodes_spent"] + 12
    asked = []
    genuine = evaluation.simulate

    def counted(*arguments):
        asked.append(1)
        return genuine(*arguments)

    monkeypatch.setattr(evaluation, "simulate", counted)
    assert main(words) == 0
    assert asked == []
    half = {**curve, "points": curve["points"][1:]}
    (run / "curve.json").write_text(json.dumps(half))
    assert main(words) == 0
    assert len(asked) == 1
    assert read(run / "curve.json")["points"] == curve["points"]
    assert main([*words, "--seed", "7"]) == 0  # another question: all anew
    assert len(asked) == 3
    assert read(run / "curve.json")["points"] != curve["points"]


@pytest.mark.parametrize(("cost", "style"), [(0.99, "bold"), (1.0, "bold"), (1.01, "grey50")])
def test_means_are_bold_where_safe_and_grey_where_not(run, cost, style):
    result = evaluate(run, Evaluation(episodes=1))
    for setting in result["settings"]:
        setting["mean"]["normalized_cost"] = cost
    rows = result_table(result).rows
    assert [row.style for row in rows][2::3] == [style] * 2
    assert [row.style for row in curve_table({**result, "points": [result]}).rows] == [style] * 2


def test_the_report_shows_learning_curves(run):
    assert main(["evaluate", str(run), "--snapshots", "--episodes", "3"]) == 0
    text = write_report(run).read_text()
    assert "Learning curves" in text
    assert "Normalized cost of each lane over updates" in text
    (run / "curve.json").unlink()
    assert "Learning curves" not in write_report(run).read_text()


def test_evaluation_in_another_task_than_the_runs(run, capsys):
    assert main(["evaluate", str(run), "--episodes", "2", "--task", "plant:Six"]) == 0
    assert read(run / "result.json")["task"] == "plant:Six"
    assert main(["evaluate", str(run), "--task", "toy-circle"]) == 2
    assert "does not belong to the task toy-circle" in capsys.readouterr().err


def test_faults_leave_the_last_result_as_it_was(run, capsys):
    assert main(["evaluate", str(run), "--episodes", "2"]) == 0
    before = (run / "result.json").read_bytes()
    for words, said in (
        (["--task", "plant:hanging", "--patience", "2"], "has not answered for 2 s"),
        (["--task", "plant:absent"], "no function 'absent'"),
        (["--task", "nowhere:make"], "nowhere.py"),
        (["--task", "BalRun"], "did you mean BallRun"),
        (["--environments", "0"], "--environments"),
        (["--processes", "0"], "--processes"),
        (["--patience", "0"], "--patience"),
        (["--seed", "-1"], "--seed"),
        (["--limit", "5,10"], "1 cost(s)"),
    ):
        capsys.readouterr()
        assert main(["evaluate", str(run), *words]) == 2
        errors = capsys.readouterr().err
        assert said in errors
        assert errors.strip().count("\n") == 0
    assert (run / "result.json").read_bytes() == before


def test_a_run_without_snapshots_has_no_curve(tmp_path):
    np.savez(tmp_path / "log.npz", **walk())
    words = ["--data", str(tmp_path / "log.npz"), "--task", "plant:Plant", "--out", str(tmp_path / "run")]
    assert main(["train", "bc", *SMALL, *words]) == 0
    with pytest.raises(RunError, match="--snapshots N"):
        evaluation.evaluate_snapshots(tmp_path / "run", Evaluation())


def test_training_in_a_simulators_task_needs_its_log(tmp_path, capsys):
    assert main(["train", "--task", "BallRun", "--out", str(tmp_path / "run")]) == 2
    assert "--data FILE" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_tasks_lists_them_all(capsys, monkeypatch):
    monkeypatch.setattr(interpreters, "find", lambda name: None)
    assert main(["tasks"]) == 0
    told = capsys.readouterr().out
    assert all(task in told for task in TASKS)
    assert told.count("--override") == 2
    assert "its simulator is missing" in told
    monkeypatch.setattr(interpreters, "find", lambda name: "/usr/bin/python")
    assert main(["tasks"]) == 0
    told = capsys.readouterr().out
    assert "missing" not in told
    assert "its simulator is here" in told
    assert main(["tasks", "all"]) == 2
