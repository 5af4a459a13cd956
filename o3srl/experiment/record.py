"""What a run directory says about a run, read back for people: configuration, log, metrics, timing and result."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from o3srl.errors import RunError
from o3srl.experiment.config import GameConfig, lane_grid
from o3srl.experiment.lanes import Lane, by_setting, with_own
from o3srl.experiment.run import CONFIG, CURVE, EPISODES, RESULT, Plan, read
from o3srl.types import Info

Numbers = npt.NDArray[np.float64]

LEAD = ("updates", "lane", "seed", "frozen_at")


class History(NamedTuple):
    """`metrics.csv`: updates [T]; values {column: [T, L]}, NaN where a lane is frozen or a number is not finite;
    frozen_at [L], -1 for a lane that runs."""

    updates: Numbers
    values: dict[str, Numbers]
    frozen_at: npt.NDArray[np.int64]


class Record(NamedTuple):
    """A run directory as read: plan, facts about the data, `data.json`, history, timing [T, 2] as (updates, seconds),
    and `result.json` and `curve.json` where there are such."""

    directory: Path
    plan: Plan
    info: Info
    version: str
    log: dict[str, Any]
    history: History
    timing: Numbers
    result: dict[str, Any] | None
    curve: dict[str, Any] | None

    @property
    def updates(self) -> int:
        """Gradient updates per lane that the metrics cover."""
        return int(self.history.updates[-1]) if len(self.history.updates) else 0

    @property
    def settings(self) -> list[list[int]]:
        """The lanes of each setting, in the order of the lanes: those that differ by their seed alone."""
        return by_setting(self.plan.lanes)

    @property
    def returns(self) -> Numbers:
        """[E]: rewards of the logged episodes."""
        return np.asarray(self.log["returns"], np.float64)

    @property
    def costs(self) -> Numbers:
        """[E, M]: costs of the logged episodes."""
        return np.asarray(self.log["costs"], np.float64).reshape(len(self.returns), -1)

    def within(self, limit: Sequence[float]) -> npt.NDArray[np.bool_]:
        """[E]: whether a logged episode keeps every limit [M]."""
        return within(self.costs, limit)

    def best_within(self, limit: Sequence[float]) -> int | None:
        """Return which logged episode earns the most of those that keep every limit [M], if any does."""
        return best_within(self.returns, self.costs, limit)


def within(costs: Numbers, limit: Sequence[float]) -> npt.NDArray[np.bool_]:
    """Return [E] whether an episode of costs [E, M] keeps every limit [M]."""
    return np.all(costs <= np.asarray(limit), axis=1)


def best_within(returns: Numbers, costs: Numbers, limit: Sequence[float]) -> int | None:
    """Return which episode, of returns [E] and costs [E, M], earns the most of those that keep every limit [M]."""
    kept = within(costs, limit)
    return int(np.argmax(np.where(kept, returns, -np.inf))) if kept.any() else None


def read_log(directory: Path) -> dict[str, Any]:
    """Return a run directory's `data.json`: facts about the log, its episodes' returns and costs, and warnings."""
    log = _json(directory / EPISODES)
    if log is None:
        raise RunError(
            f"{directory / EPISODES} is missing: the run was killed while it was being made, before it trained at all. "
            f"Start it again with --overwrite, or go on: o3srl resume {directory}"
        )
    return log


def frozen_lanes(directory: Path) -> list[str]:
    """Return a sentence for each lane of a run that left the finite numbers, from the run's own metrics."""
    lanes = read(directory)[0].lanes
    frozen_at = _history(directory / "metrics.csv", len(lanes)).frozen_at
    return [
        f"Lane {index} (seed {lane.seed}) left the finite numbers after {at} updates and was frozen there; its last "
        "finite state is kept. A smaller learning rate or a cost scale nearer to the rewards may help."
        for index, (lane, at) in enumerate(zip(lanes, frozen_at, strict=True))
        if at >= 0
    ]


def read_record(directory: Path) -> Record:
    """Return what the files of a run directory say; metrics, timing and result may be missing or short."""
    plan, info = read(directory)
    return Record(
        directory=directory,
        plan=plan,
        info=info,
        version=str((_json(directory / CONFIG) or {}).get("version", "unknown")),
        log=read_log(directory),
        history=_history(directory / "metrics.csv", len(plan.lanes)),
        timing=_timing(directory / "timing.csv"),
        result=_result(directory / RESULT, plan.lanes),
        curve=_curve(directory / CURVE, plan.lanes),
    )


def marginals(record: Record, lane: int) -> tuple[Numbers, Numbers] | None:
    """Return (multipliers [M, K] in logged units, probabilities [T, M, K]) of a lane's arms, or None without arms.

    A bandit over several costs plays joint arms; what it thinks of one cost's multiplier is the sum over the others'.
    """
    named = [name for name in record.history.values if name.startswith("dual/probability.")]
    config, own = record.plan.algorithm, record.plan.lanes[lane]
    grid = lane_grid(with_own(config, own.own), own.limit)
    if grid is None or not named or not isinstance(config, GameConfig):
        return None
    named.sort(key=lambda name: int(name.rpartition(".")[2]))
    flat = np.stack([record.history.values[name][:, lane] for name in named], axis=1)
    costs, arms, joint = len(own.limit), config.grid.arms, config.dual == "exp3"
    if flat.shape[1] != (arms**costs if joint else costs * arms):
        raise RunError(f"{record.directory / 'metrics.csv'} has {flat.shape[1]} arms; its config.json names others.")
    if not joint:
        return grid * record.plan.run.cost_scale, flat.reshape(-1, costs, arms)
    cube, values = flat.reshape(-1, *[arms] * costs), grid.reshape(*[arms] * costs, costs)
    each: list[Numbers] = []
    multipliers: list[Numbers] = []
    for cost in range(costs):
        each.append(cube.sum(axis=tuple(1 + other for other in range(costs) if other != cost)))
        multipliers.append(np.moveaxis(values[..., cost], cost, 0).reshape(arms, -1)[:, 0])
    return np.stack(multipliers) * record.plan.run.cost_scale, np.stack(each, axis=1)


def _json(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise RunError(f"{path} cannot be read ({error}). No run writes it like that: was it edited?") from None


def _rows(path: Path) -> tuple[list[str], list[list[str]]]:
    # A run that is being written, or was killed, may end in half a line: only whole ones count.
    if not path.exists():
        return [], []
    whole, _, _ = path.read_text().rpartition("\n")
    rows = list(csv.reader(whole.splitlines()))
    return (rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]) if rows else ([], [])


def _history(path: Path, lanes: int) -> History:
    header, rows = _rows(path)
    rows = rows[: len(rows) // lanes * lanes]
    if not rows:
        return History(np.zeros(0), {}, np.full(lanes, -1))
    try:
        table = np.asarray(rows, dtype=np.float64).reshape(-1, lanes, len(header))
        lead = {name: table[..., header.index(name)] for name in LEAD}
    except ValueError as error:
        raise RunError(f"{path} cannot be read as a run's metrics ({error}).") from None
    if not (lead["lane"] == np.arange(lanes)).all():
        raise RunError(f"{path} does not have a row for each of the {lanes} lanes of config.json, in their order.")
    frozen = lead["frozen_at"][-1].astype(np.int64)
    gone = (frozen >= 0) & (lead["updates"] > frozen)
    values = {
        name: np.where(gone | ~np.isfinite(table[..., index]), np.nan, table[..., index])
        for index, name in enumerate(header)
        if name not in LEAD
    }
    return History(lead["updates"][:, 0], values, frozen)


def _timing(path: Path) -> Numbers:
    try:
        return np.asarray(_rows(path)[1], dtype=np.float64).reshape(-1, 2)
    except ValueError as error:
        raise RunError(f"{path} cannot be read as a run's timing ({error}).") from None


def _result(path: Path, lanes: list[Lane]) -> dict[str, Any] | None:
    result = _json(path)
    if result is not None:
        _check_lanes(result, lanes, path, "o3srl evaluate")
    return result


def _curve(path: Path, lanes: list[Lane]) -> dict[str, Any] | None:
    curve = _json(path)
    for point in curve["points"] if curve else []:
        _check_lanes(point, lanes, path, "o3srl evaluate --snapshots")
    return curve


def _check_lanes(result: dict[str, Any], lanes: list[Lane], path: Path, command: str) -> None:
    if [lane.get("seed") for lane in result.get("lanes", [])] != [lane.seed for lane in lanes]:
        raise RunError(
            f"{path} belongs to other lanes than those of config.json. Write it anew: {command} {path.parent}"
        )
