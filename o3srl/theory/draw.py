"""The figures of `o3srl theory`, as PNG."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, PercentFormatter

from o3srl.experiment.plot import FEW
from o3srl.theory.config import FIGURES

Numbers = Mapping[str, Any]

COLORS = [light for light, _ in FEW]
STYLE: dict[str, Any] = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#e4e7eb",
    "axes.axisbelow": True, "lines.linewidth": 1.6, "lines.markersize": 4, "legend.frameon": False,
    "axes.titlesize": 10, "axes.titlelocation": "left",
}  # fmt: skip
PANEL = (4.3, 3.3)  # inches
MARKS = "os^Dv*"


def draw(numbers: Numbers) -> dict[str, bytes]:
    """Return every figure's PNG by its name, from the numbers of all experiments."""
    return {name: _png(PANELS[name], numbers) for name in FIGURES}


def _png(panels: Sequence[Callable[[Axes, Numbers], None]], numbers: Numbers) -> bytes:
    with style.context(["default", STYLE]):
        figure = Figure(figsize=(PANEL[0] * len(panels), PANEL[1]), layout="constrained")
        every = np.atleast_1d(figure.subplots(1, len(panels)))
        for axes, panel in zip(every, panels, strict=True):
            panel(axes, numbers)
        content = io.BytesIO()
        figure.savefig(content, format="png", dpi=110, metadata={"Software": None})
    return content.getvalue()


def _line(axes: Axes, x: Any, y: Any, index: int, label: str, **own: Any) -> None:
    color, marker = COLORS[index % len(COLORS)], MARKS[index % len(MARKS)]
    look: dict[str, Any] = {"color": color, "marker": marker, "label": label, **own}
    axes.plot(x, y, **look)


def _bound(axes: Axes, x: Any, y: Any, index: int, label: str | None = None) -> None:
    axes.plot(x, y, color=COLORS[index % len(COLORS)], linestyle=(0, (4, 3)), linewidth=1.1, label=label)


def _logs(axes: Axes, x: str, y: str, title: str, ticks: Sequence[int] | None = None, room: float = 0.45) -> None:
    axes.set(xscale="log", yscale="log", xlabel=x, ylabel=y, title=title)
    if ticks is not None:
        axes.set_xticks(list(ticks), [f"{tick:,}" for tick in ticks])
        axes.xaxis.set_minor_formatter(NullFormatter())
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** room)  # for the legend, above the lines
    axes.legend(fontsize=8, loc="upper right")


def _theorem_1(axes: Axes, numbers: Numbers) -> None:
    found = numbers["theorem 1"]
    rounds = found["rounds"]
    for index, (name, label) in enumerate((("ogd", "OGD"), ("hedge", "Hedge, arms 0 and C"))):
        _line(axes, rounds, found[name]["gap"], index, f"{label}: slope {found[name]['slope']:.2f}")
        _bound(axes, rounds, found[name]["bound"], index, f"{label}: bound")
    _logs(axes, "rounds T", "gap, mean over problems", "Theorem 1 (FTRL lies on OGD)", rounds[::2])


def _last(axes: Axes, numbers: Numbers) -> None:
    found = numbers["theorem 1"]
    for index, (name, label) in enumerate((("ogd", "OGD"), ("hedge", "Hedge"))):
        _line(axes, found["rounds"], found[name]["gap"], index, f"{label}, average")
        _line(axes, found["rounds"], found[name]["last"], index, f"{label}, last policy", linestyle=":", mfc="white")
    _logs(axes, "rounds T", "gap, mean over problems", "Exact oracle: the last policy does not converge",
          found["rounds"][::2])  # fmt: skip


def _order(axes: Axes, numbers: Numbers) -> None:
    found = numbers["order of play"]
    index = 0
    for case, arms in (("twenty arms", 20), ("two arms", 2)):
        for order, label in (("printed", "as printed"), ("independent", "independent charge")):
            _line(axes, found["rounds"], np.mean(found[case][order], axis=1), index, f"K = {arms}, {label}")
            index += 1
    _logs(axes, "rounds T", "gap, mean over seeds", "Algorithm 2 on one state", found["rounds"])


def _rates(axes: Axes, numbers: Numbers) -> None:
    found = numbers["grids"]["rates"]
    labels = {
        "cube, projected": "EXP3, K = T^(1/3), projected", "ten": "EXP3, K = 10", "two": "EXP3, K = 2",
        "full information": "Hedge, full information",
    }  # fmt: skip
    for index, (name, label) in enumerate(labels.items()):
        _line(axes, found["rounds"], found["gap"][name], index, f"{label}: {found['slope'][name]:.2f}")
    _logs(axes, "rounds T", "gap, mean over problems", "Independent charge: slopes", found["rounds"])


def _arms(axes: Axes, numbers: Numbers) -> None:
    found = numbers["grids"]["arms"]
    arms = found["arms"]
    _line(axes, arms, found["projected"], 0, "projected onto the grid")
    _line(axes, arms, found["gap"], 1, "not projected")
    _bound(axes, arms, found["grid"], 0, "grid part of the bound, BC / (2(K - 1))")
    _bound(axes, arms, found["regret"], 1, "regret part, G sqrt(2 K ln K / T)")
    _logs(axes, "arms K", "gap, mean over problems", f"EXP3 at T = {found['rounds']:,}", arms)


def _interval(axes: Axes, numbers: Numbers) -> None:
    found = numbers["interval"]
    _line(axes, found["C_over_multiplier"], found["violation_of_limit"], 0, "cost over the limit")
    _line(axes, found["C_over_multiplier"], np.negative(found["reward_short"]), 1, "reward over the optimum")
    axes.axvline(1.0, color="#5b6470", linewidth=1.0, linestyle=(0, (4, 3)))
    axes.axhline(0.0, color="#5b6470", linewidth=0.8)
    axes.set(xscale="log", xlabel="C / lambda*", ylabel="mean over problems", title="The interval [0, C]")
    axes.set_xticks([0.25, 0.5, 1.0, 2.0, 4.0], ["0.25", "0.5", "1", "2", "4"])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.legend(fontsize=8)


def _errors(axes: Axes, numbers: Numbers) -> None:
    found, hard = numbers["remark 1"], numbers["hardest"]
    every = np.asarray(found["error"])
    for index, share in enumerate(found["C_share"]):
        _line(axes, found["steps"], every[:, index], index, _multiplier(share))
    _line(axes, hard["steps"], hard["error"], 5, f"hardest: slope {hard['slope']:.2f}", linestyle=":")
    _logs(axes, "logged steps n", "error of the oracle per step", "Remark 1: one log, every multiplier", found["steps"])


def _multiplier(share: float) -> str:
    return {0.0: "lambda = 0", 1.0: "lambda = C"}.get(share, f"lambda = {share:g} C")


def _on_a_log(axes: Axes, numbers: Numbers) -> None:
    found = numbers["remark 1"]
    game = found["game"]
    for index, (name, label) in enumerate((
        ("gap", "gap"), ("error", "mean error of the oracle"), ("regret", "measured regret / T"),
    )):  # fmt: skip
        _line(axes, found["steps"], game[name], index, label)
    _bound(axes, found["steps"], np.add(game["error"], game["regret"]), 0, "error + regret")
    title = f"Theorem 1 on a log, T = {game['rounds']}"
    _logs(axes, "logged steps n", "mean over problems", title, found["steps"])


def _practical(axes: Axes, numbers: Numbers) -> None:
    shown = [("last", 0.0, "greedy, last"), ("average", 0.0, "greedy, average"), ("last", None, "smooth, last")]
    ten = [case for case in numbers["practical"]["cases"] if case["sweeps"] == 10]
    for index, (iterate, temperature, label) in enumerate(shown):
        case = next(
            case for case in ten
            if case["iterate"] == iterate and ((case["temperature"] == 0.0) == (temperature == 0.0))
        )  # fmt: skip
        axes.scatter(
            case["violation_of_limit"], np.negative(case["reward_short"]), s=14, alpha=0.7, color=COLORS[index],
            marker=MARKS[index], linewidth=0, label=label, zorder=2 + index,
        )  # fmt: skip
    axes.axvline(0.0, color="#5b6470", linewidth=1.0, linestyle=(0, (4, 3)))
    axes.axhline(0.0, color="#5b6470", linewidth=1.0, linestyle=(0, (4, 3)))
    axes.set(xlabel="cost over the limit", ylabel="reward over the optimum", title="The practical variant, M = 10")
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.legend(fontsize=8)


def _sweeps(axes: Axes, numbers: Numbers) -> None:
    for index, (name, way) in enumerate(numbers["evaluated"]["ways"].items()):
        _line(axes, way["sweeps"], way["gap"], index, name, marker="")
    _logs(axes, "sweeps over the log", "gap, mean over problems", "Equal logs: work for a gap")


def _seconds(axes: Axes, numbers: Numbers) -> None:
    for index, (name, way) in enumerate(numbers["evaluated"]["ways"].items()):
        taken = np.asarray(way["rounds"]) * way["seconds_per_round_and_problem"]
        _line(axes, taken, way["gap"], index, name, marker="")
    _logs(axes, "seconds per problem", "gap, mean over problems", "The same, in time")


def _evaluation(axes: Axes, numbers: Numbers) -> None:
    for index, (name, way) in enumerate(numbers["evaluated"]["ways"].items()):
        _line(axes, way["rounds"], way["evaluation_error"], index, name, marker="")
    axes.set(xlabel="round", ylabel="|value - truth| in cost", title="Evaluation error over the rounds", ylim=(0, None))
    axes.legend(fontsize=8)


PANELS: Mapping[str, Sequence[Callable[[Axes, Numbers], None]]] = {
    "equilibrium": (_theorem_1, _last),
    "order": (_order, _rates),
    "grid": (_arms, _interval),
    "samples": (_errors, _on_a_log),
    "practical": (_practical,),
    "evaluated": (_sweeps, _seconds, _evaluation),
}
