"""The report of a run: one sound page, from the run directory's files alone."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest

from o3srl.errors import RunError
from o3srl.experiment.codec import encode
from o3srl.experiment.config import AlgorithmConfig, GameConfig, GridConfig, PlainBCConfig, PlainTD3BCConfig, RunConfig
from o3srl.experiment.lanes import Lane, expand
from o3srl.experiment.plot import curves
from o3srl.experiment.record import marginals, read_record
from o3srl.experiment.report import write_report

VOID = {"meta", "br", "hr", "img", "input", "link"}
PLAIN_COLUMNS = ("loss/actor", "loss/critic")


class Page(HTMLParser):
    """Checks that tags balance; keeps ids, attributes, and the text of each table row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.rows: list[list[str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value) for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id" and value]

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.rows and self.open and {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def make_run(
    directory: Path,
    algorithm: AlgorithmConfig | None = None,
    *,
    limits: tuple[tuple[float, ...], ...] = ((5.0,), (20.0,)),
    several: dict[str, list[float]] | None = None,
    chunks: int = 6,
    frozen: dict[int, int] | None = None,
    task: str | None = "toy-circle",
) -> list[Lane]:
    """Write a run directory in the documented format, without a result."""
    algorithm = algorithm or GameConfig()
    run = RunConfig(
        task=task, data=None if task else "/logs/some <log>.hdf5", out=str(directory), limit=limits[0], updates=6000
    )
    lanes, costs = expand(algorithm, run, list(limits), several), len(limits[0])
    rng = np.random.default_rng(0)
    info = {
        "obs_dim": 4, "action_dim": 2, "costs": costs, "horizon": 100, "action_low": [-1.0, -1.0],
        "action_high": [1.0, 1.0], "task": task, "source": run.data or task, "sha256": "ab" * 32, "findings": [],
    }  # fmt: skip
    directory.mkdir(parents=True)
    config = {"format": 1, "version": "0.1.0", "algorithm": encode(algorithm), "run": encode(run)}
    content = {**config, "lanes": [lane.describe() for lane in lanes], "data": info}
    (directory / "config.json").write_text(json.dumps(content))
    episode_costs = rng.gamma(2.0, 9.0, (300, costs)).round()
    returns = 100 * episode_costs.sum(axis=1) / (20 + episode_costs.sum(axis=1)) * rng.uniform(0.4, 1.0, 300)
    spread = {"min": 0.0, "median": 18.0, "max": 90.0}
    facts = {
        **info, "rows": 30_000, "usable_rows": 29_900, "episodes": 300, "terminals": 0, "timeouts": 300,
        "length": spread, "return": spread, "cost": [spread] * costs,
        "findings": ["12 rows hold an action outside [-1, 1]."],
    }  # fmt: skip
    log = {
        "facts": facts,
        "returns": returns.tolist(),
        "costs": episode_costs.tolist(),
        "warnings": ["limit 5 is <low>."],
    }
    (directory / "data.json").write_text(json.dumps(log))
    if chunks:
        _write_metrics(directory, algorithm, lanes, chunks, frozen or {}, rng)
    return lanes


def _write_metrics(
    directory: Path, algorithm: Any, lanes: list[Lane], chunks: int, frozen: dict[int, int], rng: Any
) -> None:
    costs, arms = len(lanes[0].limit), 0
    columns = list(PLAIN_COLUMNS)
    if isinstance(algorithm, GameConfig):
        arms = algorithm.grid.arms**costs if algorithm.dual == "exp3" else costs * algorithm.grid.arms
        vectors = [f"game/{name}.{cost}" for name in ("multiplier", "violation") for cost in range(costs)]
        columns = [*(f"dual/probability.{arm}" for arm in range(arms)), "game/lagrangian", *vectors, *columns]
    weights = np.zeros((len(lanes), max(arms, 1)))
    with (directory / "metrics.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["updates", "lane", "seed", "frozen_at", *columns])
        for chunk in range(1, chunks + 1):
            weights += rng.normal(0.05 * np.arange(weights.shape[1]), 0.25, weights.shape)
            for index, lane in enumerate(lanes):
                at = frozen.get(index, -1)
                at = at if chunk * 1000 > at else -1
                share = np.exp(weights[index]) / np.exp(weights[index]).sum()
                shares = share if getattr(algorithm, "dual", "") != "hedge" else share * costs
                rest = rng.normal(0.5 / chunk, 0.1, len(columns) - arms)
                rest[1 : 1 + costs] = np.abs(rest[1 : 1 + costs])
                rest[-1] = 200 * np.exp(-chunk) + rng.uniform(1, 2)
                row = ["nan"] * len(columns) if at >= 0 else [*(f"{p:.6g}" for p in shares[:arms]), *rest]
                writer.writerow([chunk * 1000, index, lane.seed, at, *row])
    timing = "".join(f"{chunk * 1000},{10.0 if chunk == 1 else 2.0:.4f}\n" for chunk in range(1, chunks + 1))
    (directory / "timing.csv").write_text("updates,seconds\n" + timing)


def add_result(directory: Path, lanes: list[Lane], updates: int = 6000) -> dict[str, Any]:
    """Write a result.json as `o3srl evaluate` does."""
    rng = np.random.default_rng(1)
    groups: dict[tuple[Any, ...], list[int]] = {}
    results: list[dict[str, Any]] = []
    for index, lane in enumerate(lanes):
        groups.setdefault(lane.setting, []).append(index)
        limit = np.asarray(lane.limit)
        costs = rng.gamma(4.0, limit / 4.6, (20, len(limit)))
        returns = 40 + 0.6 * costs[:, 0] + rng.normal(0, 3, 20)
        results.append(
            {
                "seed": lane.seed, "limit": list(lane.limit), "reward": returns.mean(),
                "cost": costs.mean(axis=0).tolist(),
                "normalized_reward": returns.mean() / 90, "normalized_cost": float((costs.mean(axis=0) / limit).max()),
                "returns": returns.tolist(), "costs": costs.tolist(),
            }
        )  # fmt: skip
    names = ("normalized_reward", "normalized_cost")
    settings = [
        {
            "limit": results[members[0]]["limit"],
            "seeds": [lanes[index].seed for index in members],
            "mean": {name: float(np.mean([results[index][name] for index in members])) for name in names},
            "std": {name: float(np.std([results[index][name] for index in members])) for name in names},
        }
        for members in groups.values()
    ]
    result = {
        "task": "toy-circle", "episodes": 20, "updates": updates, "iterate": "last", "seed": 0, "episodes_spent": 120,
        "lanes": results, "mean": settings[0]["mean"], "std": settings[0]["std"], "settings": settings,
    }  # fmt: skip
    (directory / "result.json").write_text(json.dumps(result))
    return result


def page_of(directory: Path) -> tuple[str, Page]:
    text = write_report(directory).read_text()
    return text, Page(text)


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A run of two settings with three seeds each, its result, and its report."""
    directory = tmp_path_factory.mktemp("runs") / "x"
    result = add_result(directory, make_run(directory))
    write_report(directory)
    return directory, result


def test_page_is_whole_sound_and_needs_nothing_from_elsewhere(evaluated: tuple[Path, dict[str, Any]]) -> None:
    text = (evaluated[0] / "report.html").read_text()
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>")
    for tag, name, value in page.attributes:
        assert tag not in ("script", "link", "iframe", "img", "object")
        assert not name.startswith("on")
        if name in ("src", "href", "xlink:href", "action"):
            assert value is not None
            assert value.startswith("#")
            assert value[1:] in page.ids
    assert all(target.startswith("#") and target[1:] in page.ids for target in re.findall(r"url\(([^)]*)\)", text))
    assert not re.search(r"https?:|@import|@font-face|DejaVu", text)
    assert len(page.ids) == len(set(page.ids))
    assert {"verdict", "results", "training", "arms", "log", "configuration"} <= set(page.ids)
    assert not {"frozen", "unfinished", "unevaluated"} & set(page.ids)
    assert text.count("<svg") == text.count('<svg role="img" aria-label="')
    assert "&lt;low&gt;" in text
    assert "3,000 updates per second over all lanes" in text  # six lanes, 1,000 updates in 2 s
    assert "took 20 s in all" in text
    assert "12 rows hold an action outside [-1, 1]." in text
    defined = set(re.findall(r"(--[a-z0-9-]+):", text))
    assert set(re.findall(r"var\((--[a-z0-9-]+)\)", text)) <= defined
    assert not re.search(r"#[abc][0-9a-f]{3}01", text)


def test_table_holds_the_results(evaluated: tuple[Path, dict[str, Any]]) -> None:
    directory, result = evaluated
    page = Page((directory / "report.html").read_text())
    rows = [row for row in page.rows if row and row[0] in ("limit 5", "limit 20") and len(row) == 8]
    single = [row for row in rows if row[1] != "mean"]
    assert len(single) == 6
    for row, lane in zip(single, result["lanes"], strict=True):
        assert row[1] == str(lane["seed"])
        assert row[2:4] == [f"{lane['reward']:.2f}", f"{lane['cost'][0]:.2f}"]
        assert float(row[4]) == lane["limit"][0]
        assert row[5:7] == [f"{lane[name]:.2f}" for name in ("normalized_reward", "normalized_cost")]
        assert row[7] == ("safe" if lane["normalized_cost"] <= 1 else "over")
    for row, setting in zip([row for row in rows if row[1] == "mean"], result["settings"], strict=True):
        for text, name in zip(row[5:7], ("normalized_reward", "normalized_cost"), strict=True):
            assert text == f"{setting['mean'][name]:.2f} ± {setting['std'][name]:.2f}"
    over = sum(setting["mean"]["normalized_cost"] > 1 for setting in result["settings"])
    assert (directory / "report.html").read_text().count('<tr class="mean unsafe">') == over


def test_equal_files_give_equal_bytes(evaluated: tuple[Path, dict[str, Any]]) -> None:
    directory, _ = evaluated
    first = (directory / "report.html").read_bytes()
    with matplotlib.rc_context({"svg.fonttype": "path", "axes.facecolor": "red", "font.size": 30}):
        before = dict(matplotlib.rcParams)
        assert write_report(directory).read_bytes() == first
        assert dict(matplotlib.rcParams) == before


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    make_run(tmp_path / "x")
    assert f"o3srl evaluate {tmp_path / 'x'}" in page_of(tmp_path / "x")[0]
    make_run(tmp_path / "file", task=None)
    text, page = page_of(tmp_path / "file")
    assert "without a task" in text
    assert "some &lt;log&gt;.hdf5" in text
    assert "results" not in page.ids
    make_run(tmp_path / "bare", chunks=0)
    text, page = page_of(tmp_path / "bare")
    assert "no metrics yet" in text
    assert not {"training", "arms", "results"} & set(page.ids)


def test_torn_metrics_count_up_to_the_last_whole_chunk(tmp_path: Path) -> None:
    make_run(tmp_path / "x")
    path = tmp_path / "x" / "metrics.csv"
    path.write_text(path.read_text()[:-30])
    text, _ = page_of(tmp_path / "x")
    assert "stands at 5,000 of 6,000 updates" in text
    assert f"o3srl resume {tmp_path / 'x'}" in text


def test_frozen_lanes_are_told_first(tmp_path: Path) -> None:
    lanes = make_run(tmp_path / "x", frozen={4: 2000})
    add_result(tmp_path / "x", lanes)
    text, page = page_of(tmp_path / "x")
    assert "Lane 4 (limit 20, seed 20) was frozen after 2,000 updates" in text
    assert text.index('id="frozen"') < text.index('id="verdict"')
    assert ["limit 20", "20 frozen"] in [row[:2] for row in page.rows]
    history = read_record(tmp_path / "x").history
    assert np.isfinite(history.values["loss/actor"][:, 4]).tolist() == [True, True, False, False, False, False]


@pytest.mark.parametrize("algorithm", [PlainTD3BCConfig(), PlainBCConfig()])
def test_plain_algorithms_have_no_arms(tmp_path: Path, algorithm: AlgorithmConfig) -> None:
    lanes = make_run(tmp_path / "x", algorithm)
    add_result(tmp_path / "x", lanes)
    text, page = page_of(tmp_path / "x")
    assert "arms" not in page.ids
    assert "#arms" not in text
    assert "Multiplier" not in text


def test_several_costs_show_one_distribution_each(tmp_path: Path) -> None:
    grid = GridConfig(arms=3)
    for dual in ("exp3", "hedge"):
        directory = tmp_path / dual
        lanes = make_run(directory, GameConfig(dual=dual, grid=grid), limits=((5.0, 10.0),))
        add_result(directory, lanes)
        found = marginals(read_record(directory), 0)
        assert found is not None
        multipliers, probability = found
        assert multipliers.shape == (2, 3)
        np.testing.assert_allclose(multipliers[:, [0, -1]], [[0.0, 5.0]] * 2)
        assert multipliers[0, 1] > multipliers[1, 1] > 0  # a looser limit draws the inner arms toward 0
        assert probability.shape == (6, 2, 3)
        text, _ = page_of(directory)
        assert "limits 5 and 10: multiplier of cost 2" in text
        assert "Violation, cost 2" in text
    joint = read_record(tmp_path / "exp3")
    flat = np.stack([joint.history.values[f"dual/probability.{arm}"][:, 0] for arm in range(9)], axis=1)
    found = marginals(joint, 0)
    assert found is not None
    np.testing.assert_allclose(found[1][:, 0], flat.reshape(-1, 3, 3).sum(axis=2))
    np.testing.assert_allclose(found[1][:, 1], flat.reshape(-1, 3, 3).sum(axis=1))


def test_many_lanes_and_own_settings(tmp_path: Path) -> None:
    lanes = make_run(
        tmp_path / "x", limits=((5.0,), (20.0,)), several={"grid.maximum": [2.0, 5.0], "exp3.rate": [0.002, 0.02]}
    )
    assert len(lanes) == 24
    add_result(tmp_path / "x", lanes)
    text, page = page_of(tmp_path / "x")
    assert "limit 20, grid.maximum 5, exp3.rate 0.02" in text
    assert ["grid.maximum", "2, 5 (by lane)", "5"] in page.rows
    assert ["limit", "5 | 20 (by lane)", "5"] in page.rows


def test_foreign_directories_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="does not exist"):
        write_report(tmp_path / "nowhere")
    (tmp_path / "other").mkdir()
    with pytest.raises(RunError, match="holds no run"):
        write_report(tmp_path / "other")
    lanes = make_run(tmp_path / "x")
    add_result(tmp_path / "x", lanes[:-1])
    with pytest.raises(RunError, match="other lanes"):
        write_report(tmp_path / "x")
    (tmp_path / "x" / "result.json").write_text("{")
    with pytest.raises(RunError, match="cannot be read"):
        write_report(tmp_path / "x")
    (tmp_path / "x" / "data.json").unlink()
    with pytest.raises(RunError, match="--overwrite"):
        write_report(tmp_path / "x")


def test_long_runs_give_short_curves() -> None:
    updates, values = np.arange(1.0, 20_001), np.random.default_rng(0).normal(size=(20_000, 2))
    assert len(curves("x", "long", updates, values, [[0, 1]])) < 60_000


def test_configuration_marks_what_differs(tmp_path: Path) -> None:
    config = GameConfig()
    make_run(tmp_path / "x", dataclasses.replace(config, td3_bc=dataclasses.replace(config.td3_bc, hidden=(32, 32))))
    _, page = page_of(tmp_path / "x")
    assert ["td3_bc.hidden", "32, 32", "256, 256"] in page.rows
    assert ["td3_bc.tau", "0.005", ""] in page.rows
    assert ["updates", "6,000", "100,000"] in page.rows
