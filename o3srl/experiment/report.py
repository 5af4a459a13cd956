"""`report.html`: one page about a run, written from its directory's files alone, that needs nothing from elsewhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from o3srl.experiment import plot
from o3srl.experiment.config import ALGORITHMS, GameConfig, PlainBCConfig
from o3srl.experiment.plot import Cloud, Dots, exact, number
from o3srl.experiment.record import Record, marginals, read_record
from o3srl.files import write_whole

NAMES = {
    "o3srl": "O3SRL", "td3-bc": "TD3+BC", "iql": "IQL", "bc": "Behavior cloning", "exp3": "EXP3", "hedge": "Hedge",
    "ogd": "online gradient descent", "ftrl": "FTRL", "pid": "PID", "fixed": "a fixed multiplier",
}  # fmt: skip
TITLES = {
    "game/lagrangian": (
        "Value",
        "What the critic expects of the policy per step: reward minus multiplier times violation, as trained on.",
    ),
    "game/violation": (
        "Violation",
        "Expected cost minus what is allowed, per step, in the log's units of cost. Above the dashed zero the policy "
        "is thought to cost too much.",
    ),
    "game/multiplier": ("Multiplier", "The price of one unit of cost, in the log's units."),
}
MOST_ARMS_PANELS = 12
MOST_ARMS_NAMED = 8


class Figure(NamedTuple):
    """A picture with its title and what to know of it; `keys` are (color variable, text) pairs of a legend."""

    title: str
    svg: Markup
    note: str = ""
    keys: Sequence[tuple[str, str]] = ()


def write_report(directory: Path) -> Path:
    """Write `report.html` into a run directory, from its files, and return its path; equal files give equal bytes."""
    path = directory / "report.html"
    write_whole(path, render(read_record(directory)).encode())
    return path


def render(record: Record) -> str:
    """Return the page."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(number=number, exact=exact)
    settings = record.settings
    labels = [setting_label(record, lanes[0]) for lanes in settings]
    arm_count = max((found[0].shape[1] for lanes in settings if (found := marginals(record, lanes[0]))), default=0)
    return environment.get_template("report.html.jinja").render(
        record=record,
        algorithm=_algorithm(record),
        subject=record.plan.run.task or Path(record.info.source).name,
        labels=labels,
        glyphs=plot.GLYPHS,
        inks=plot.LIGHT._asdict(),
        colors={"a": plot.palette(len(settings)), "b": plot.shades(arm_count)},
        frozen=[
            {"lane": index, "seed": lane.seed, "label": setting_label(record, index), "at": int(at)}
            for index, (lane, at) in enumerate(zip(record.plan.lanes, record.history.frozen_at, strict=True))
            if at >= 0
        ],
        outcome=_outcome(record, labels),
        learning=_learning(record),
        curves=_curves(record),
        arms=_arms(record, labels),
        log=_log(record),
        configuration=_configuration(record),
        speed=_speed(record),
    )


def setting_label(record: Record, index: int) -> str:
    """Return what tells a lane's setting from the others: its limit, and its own hyperparameters."""
    lane = record.plan.lanes[index]
    own = [f"{path} {exact(value)}" for path, value in lane.own.items()]
    return ", ".join([_limit_label(lane.limit), *own])


def _limit_label(limit: Sequence[float]) -> str:
    return f"limit{'s' if len(limit) > 1 else ''} {' and '.join(map(exact, limit))}"


def _algorithm(record: Record) -> str:
    config = record.plan.algorithm
    if isinstance(config, GameConfig):
        return f"O3SRL: {NAMES[config.oracle]} against {NAMES[config.dual]}"
    name = next(name for name, kind in ALGORITHMS.items() if kind is type(config))
    if isinstance(config, PlainBCConfig):
        return NAMES[name]
    return f"{NAMES[name]} alone, multiplier {exact(config.fixed.multiplier)}"


def _outcome(record: Record, labels: list[str]) -> dict[str, Any] | None:
    result = record.result
    if result is None:
        return None
    lanes = result["lanes"]
    settings: list[dict[str, Any]] = []
    for index, (members, scores) in enumerate(zip(record.settings, result["settings"], strict=True)):
        own = [lanes[lane] for lane in members]
        settings.append(
            {
                "label": labels[index],
                "color": index,
                "lanes": [{"index": lane, **lanes[lane]} for lane in members],
                "mean": scores["mean"],
                "std": scores["std"],
                "reward": float(np.mean([lane["reward"] for lane in own])),
                "cost": np.mean([lane["cost"] for lane in own], axis=0).tolist(),
                "limit": own[0]["limit"],
                "trained": None if own[0]["limit"] == list(record.plan.lanes[members[0]].limit) else labels[index],
                "within": sum(lane["normalized_cost"] <= 1.0 for lane in own),
            }
        )
    return {
        "settings": settings,
        "safe": sum(setting["mean"]["normalized_cost"] <= 1.0 for setting in settings),
        "figures": _outcome_figures(record, settings),
        **{key: result[key] for key in ("mean", "std", "episodes", "updates", "iterate", "seed", "episodes_spent")},
    }


def _outcome_figures(record: Record, settings: list[dict[str, Any]]) -> list[Figure]:
    # A panel per limit and cost: what is compared in one panel is judged by one line.
    figures: list[Figure] = []
    for limit in dict.fromkeys(tuple(setting["limit"]) for setting in settings):
        inside = [setting for setting in settings if tuple(setting["limit"]) == limit]
        best = record.best_within(limit)
        for cost, bound in enumerate(limit):
            faint, strong = _outcome_dots(inside, cost)
            title = f"Reward and cost, {_limit_label(limit)}" + (f": cost {cost + 1}" if len(limit) > 1 else "")
            svg = plot.scatter(
                f"outcome{len(figures)}",
                f"Scatter of reward over cost per lane, against the limit {exact(bound)}; the table has the numbers.",
                Cloud(faint, strong, [bound], best=[] if best is None else [_dot(record, best, cost)]),
            )
            figures.append(Figure(title, Markup(svg)))
    return figures


def _learning(record: Record) -> dict[str, Any] | None:
    """Simulated scores of the policies on the way, over updates."""
    curve = record.curve
    if not curve or not curve["points"]:
        return None
    updates = np.asarray([point["updates"] for point in curve["points"]], np.float64)
    figures: list[Figure] = []
    for name, title, line in (
        ("normalized_reward", "Normalized reward", None),
        ("normalized_cost", "Normalized cost", 1.0),
    ):
        values = np.asarray([[lane[name] for lane in point["lanes"]] for point in curve["points"]], np.float64)
        label = f"{title} of each lane over updates, simulated."
        svg = plot.curves(f"learning{len(figures)}", label, updates, values, record.settings, line=line)
        figures.append(Figure(title, Markup(svg), "" if line is None else "Safe is on and below the dashed line."))
    return {"figures": figures, **{key: curve[key] for key in ("task", "episodes", "iterate", "seed")}}


def _outcome_dots(settings: list[dict[str, Any]], cost: int) -> tuple[list[Dots], list[Dots]]:
    faint: list[Dots] = []
    strong: list[Dots] = []
    for setting in settings:
        lanes, color = setting["lanes"], setting["color"]
        episodes = np.concatenate([np.asarray(lane["costs"])[:, cost] for lane in lanes])
        faint.append(Dots(episodes, np.concatenate([np.asarray(lane["returns"]) for lane in lanes]), color))
        means = np.asarray([lane["cost"][cost] for lane in lanes])
        strong.append(Dots(means, np.asarray([lane["reward"] for lane in lanes]), color))
    return faint, strong


def _curves(record: Record) -> list[Figure]:
    history, costs, figures = record.history, record.info.costs, list[Figure]()
    order = [*TITLES, "loss"]

    def place(column: str) -> tuple[int, str]:
        group = next((known for known in order if column.startswith(known)), "")
        return (order.index(group) if group else len(order)), column

    for column in sorted(history.values, key=place):
        if column.startswith("dual/probability."):
            continue
        stem, _, index = column.rpartition(".")
        group, name = (stem if index.isdigit() else column).split("/", 1)
        title, note = TITLES.get(f"{group}/{name}", (f"{group.capitalize()}: {name.replace('_', ' ')}", ""))
        if index.isdigit() and costs > 1:
            title = f"{title}, cost {int(index) + 1}"
        values, label = history.values[column], f"{title} of each lane over updates. {note}"
        svg = plot.curves(
            f"curve{len(figures)}", label, history.updates, values, record.settings,
            line=0.0 if name == "violation" else None, wide=group == "loss",
        )  # fmt: skip
        figures.append(Figure(title, Markup(svg), note))
    return figures if len(history.updates) else []


def _arms(record: Record, labels: list[str]) -> list[Figure]:
    figures: list[Figure] = []
    for label, lanes in zip(labels, record.settings, strict=True):
        found = [arms for lane in lanes if (arms := marginals(record, lane)) is not None]
        if not found or len(figures) >= MOST_ARMS_PANELS:
            break
        multipliers = found[0][0]
        mean = plot.mean_of_known(np.stack([arms[1] for arms in found]), axis=0)
        for cost, values in enumerate(multipliers):
            title = label if len(multipliers) == 1 else f"{label}: multiplier of cost {cost + 1}"
            known = mean[np.isfinite(mean[:, cost]).all(axis=1), cost]
            last = known[-1] if len(known) else np.full(len(values), 1.0 / len(values))
            keys = [(f"--b{arm}", f"{number(float(values[arm]))}: {last[arm]:.1%}") for arm in _most_likely(last)]
            svg = plot.arms(
                f"arms{len(figures)}", f"Probability of each multiplier over updates, {title}.", record.history.updates,
                mean[:, cost],
            )  # fmt: skip
            note = "" if len(keys) == len(values) else f"The {len(keys)} likeliest of {len(values)} arms are named."
            figures.append(Figure(title, Markup(svg), note, keys))
    return figures


def _most_likely(probability: plot.Numbers) -> list[int]:
    likeliest = np.argsort(-probability, kind="stable")[:MOST_ARMS_NAMED]
    return sorted(likeliest.tolist(), reverse=True)  # as stacked: the largest multiplier on top


def _log(record: Record) -> dict[str, Any]:
    limits = list(dict.fromkeys(lane.limit for lane in record.plan.lanes))
    returns, costs = record.returns, record.costs
    step = -(-len(returns) // 2000)
    figures: list[Figure] = []
    chosen: list[dict[str, Any]] = []
    for limit in limits:
        best, within = record.best_within(limit), int(record.within(limit).sum())
        chosen.append(
            {
                "label": _limit_label(limit),
                "within": within,
                "share": within / max(1, len(returns)),
                "row": best,
                "best": None if best is None else float(returns[best]),
                "cost": [] if best is None else costs[best].tolist(),
            }
        )
    for cost in range(costs.shape[1]):
        name = "cost" if costs.shape[1] == 1 else f"cost {cost + 1}"
        svg = plot.scatter(
            f"log{cost}",
            f"Scatter of the logged episodes: reward over {name}, with the limits and the best episode within each.",
            Cloud(
                faint=[Dots(costs[::step, cost], returns[::step])],
                strong=[],
                limits=list(dict.fromkeys(limit[cost] for limit in limits)),
                best=[_dot(record, one["row"], cost) for one in chosen if one["row"] is not None],
            ),
        )
        figures.append(Figure(f"Logged episodes: reward and {name}", Markup(svg)))
    return {"figures": figures, "chosen": chosen, "step": step, "facts": record.log["facts"]}


def _dot(record: Record, episode: int, cost: int) -> Dots:
    return Dots(record.costs[episode, cost : cost + 1], record.returns[episode : episode + 1])


def _configuration(record: Record) -> list[dict[str, Any]]:
    lanes, run = record.plan.lanes, record.plan.run
    varied = {path: ", ".join(dict.fromkeys(exact(lane.own[path]) for lane in lanes)) for path in lanes[0].own}
    limits = dict.fromkeys(lane.limit for lane in lanes)
    by_lane = {"limit": " | ".join(exact(limit) for limit in limits)} if len(limits) > 1 else {}
    rows = [row for row in _rows(run, type(run)(), by_lane) if row["name"] != "out"]
    config = record.plan.algorithm
    return [
        {"title": "Run", "rows": rows},
        {"title": "Algorithm", "rows": _rows(config, type(config)(), varied)},
    ]


def _rows(config: Any, default: Any, by_lane: Mapping[str, str], prefix: str = "") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for item in dataclasses.fields(config):
        path, value, usual = prefix + item.name, getattr(config, item.name), getattr(default, item.name)
        if dataclasses.is_dataclass(value):
            rows += _rows(value, usual, by_lane, f"{path}.")
        else:
            text = f"{by_lane[path]} (by lane)" if path in by_lane else exact(value)
            changed = path in by_lane or value != usual
            rows.append({"name": path, "value": text, "default": exact(usual) if changed else None})
    return rows


def _speed(record: Record) -> dict[str, str] | None:
    if not len(record.timing):
        return None
    updates, seconds = record.timing.T
    rates = len(record.plan.lanes) * np.diff(updates, prepend=0.0) / np.maximum(seconds, 1e-4)
    hours, rest = divmod(round(seconds.sum()), 3600)
    parts = [(hours, "h"), (rest // 60, "min"), (rest % 60, "s")]
    spent = " ".join(f"{amount} {unit}" for amount, unit in parts if amount) or "under 1 s"
    return {"rate": number(float(np.round(np.median(rates)))), "total": spent}
