"""Results, learning curves and tasks as tables for the terminal.

As in the paper, what is safe is bold and what is not is grey, where a table tells means over seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from o3srl.data import dsrl
from o3srl.envs import interpreters
from o3srl.envs.tasks import BUILT_IN, SUITES, TASKS

if TYPE_CHECKING:
    from o3srl.collect.run import Collected

SAFE, UNSAFE = "bold", "grey50"


def result_table(result: Mapping[str, Any]) -> Table:
    """Return the table of a `result.json`: a row per lane, and mean and deviation per setting."""
    several, constants = len(result["settings"]) > 1, result["constants"]
    low, high = constants["min_return"], constants["max_return"]
    table = Table(
        title=f"{result['task']}, {result['episodes']} episodes per lane, {result['updates']:,} updates",
        caption="mean ± standard deviation over seeds (population, ddof 0), bold where safe, grey where not\n"
        "norm. cost: cost / limit, safe up to 1; of best: reward / best logged return within the limit\n"
        f"norm. reward: 0 at {low:g}, 1 at {high:g}, the extreme returns of {constants['source']}",
    )
    for name in ("setting", "seed") if several else ("seed",):
        table.add_column(name)
    for name in ("reward", "cost", "limit", "of best", "norm. reward", "norm. cost", ""):
        table.add_column(name, justify="right")
    lanes = iter(result["lanes"])
    for setting in result["settings"]:
        label = [_label(setting)] if several else []
        for seed in setting["seeds"]:
            lane = next(lanes)
            table.add_row(*label, str(seed), *_lane(lane), style="" if _safe(lane) else UNSAFE)
        table.add_section()
        mean = setting["mean"]
        verdict = _verdict(mean["normalized_cost"])
        table.add_row(*label, "mean", "", "", "", "", *_scores(setting), verdict, style=_style(mean))
        table.add_section()
    return table


def curve_table(curve: Mapping[str, Any]) -> Table:
    """Return the table of a `curve.json`: a row per snapshot and setting."""
    several = len(curve["points"][0]["settings"]) > 1
    table = Table(
        title=f"{curve['task']}, {curve['episodes']} episodes per lane and snapshot",
        caption="mean ± standard deviation over seeds (population, ddof 0), bold where safe, grey where not",
    )
    for name in ("updates", *(["setting"] if several else []), "norm. reward", "norm. cost", ""):
        table.add_column(name, justify="left" if name == "setting" else "right")
    for point in curve["points"]:
        for setting in point["settings"]:
            label, verdict = [_label(setting)] if several else [], _verdict(setting["mean"]["normalized_cost"])
            cells = (f"{point['updates']:,}", *label, *_scores(setting), verdict)
            table.add_row(*cells, style=_style(setting["mean"]))
    return table


def task_tables() -> list[tuple[Table, str]]:
    """Return (table of the named tasks, what installs it or "") of each simulator."""
    tables: list[tuple[Table, str]] = []
    for suite, (title, module) in SUITES.items():
        listed = [task for task in TASKS.values() if task.suite == suite]
        if not listed:
            continue
        there = not module or interpreters.find(module) is not None
        state = "" if not module else ": its simulator is here" if there else ": [yellow]its simulator is missing[/]"
        table = Table(title=f"{title}{state}", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        for name in ("task", "obs", "action", "costs", "steps", "least\nreturn", "greatest\nreturn", "log"):
            table.add_column(name, justify="left" if name == "task" else "right", no_wrap=name == "task")
        for task in listed:
            returns = [f"{value:,.2f}" for value in task.constants or ()]
            logged = "here" if suite == BUILT_IN or dsrl.cached(task) else "-"
            table.add_row(task.name, *(str(size) for size in task.sizes or ()), *returns, logged)
        tables.append((table, "" if there else f"To install it: {interpreters.remedy(suite)}"))
    return tables


def _scores(setting: Mapping[str, Any]) -> list[str]:
    mean, std = setting["mean"], setting["std"]
    return [f"{mean[name]:.2f} ± {std[name]:.2f}" for name in ("normalized_reward", "normalized_cost")]


def _safe(scores: Mapping[str, Any]) -> bool:
    return scores["normalized_cost"] <= 1.0


def _style(scores: Mapping[str, Any]) -> str:
    return SAFE if _safe(scores) else UNSAFE


def _lane(lane: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"{lane['reward']:.2f}",
        ", ".join(f"{cost:.2f}" for cost in lane["cost"]),
        ", ".join(f"{limit:g}" for limit in lane["limit"]),
        "-" if not lane["best_logged"] else f"{lane['reward'] / lane['best_logged']:.0%}",
        f"{lane['normalized_reward']:.2f}",
        f"{lane['normalized_cost']:.2f}",
        _verdict(lane["normalized_cost"]),
    )


def _verdict(normalized_cost: float) -> str:
    return "[green]safe[/]" if normalized_cost <= 1.0 else "[red]over[/]"


def _label(setting: Mapping[str, Any]) -> str:
    own = [f"{path}={value:g}" for path, value in setting.items() if path not in ("limit", "seeds", "mean", "std")]
    return ", ".join([f"limit={','.join(f'{limit:g}' for limit in setting['limit'])}", *own])


def collected_table(collected: Collected, limits: Sequence[float]) -> Table:
    """Return the table of a collection: per limit of the ladder, what of the log lies within it."""
    from o3srl.collect import thin

    envelope = collected.envelope
    cost, returns = collected.cost[collected.chosen], collected.returns[collected.chosen]
    table = Table(title=f"{len(cost):,} of {len(collected.cost):,} episodes")
    for name in ("within", "episodes", "best return", *(["envelope"] if envelope else [])):
        table.add_column(name, justify="right")
    for limit in sorted(limits):
        inside = cost <= limit
        row = [f"{limit:g}".replace("inf", "any cost"), f"{inside.sum():,}"]
        row.append(f"{returns[inside].max():.5g}" if inside.any() else "-")
        if envelope is not None:
            row.append(f"{thin.greatest(envelope, limit):.5g}")
        table.add_row(*row)
    return table


def collected_notes(collected: Collected) -> list[str]:
    """Return what else is to be said of a collection: how far its envelope is reached."""
    from o3srl.collect import thin

    if collected.envelope is None:
        return []
    cost, returns = collected.cost[collected.chosen], collected.returns[collected.chosen]
    share, at = thin.reach(cost, returns, collected.envelope)
    return [f"The envelope is reached to {share:.1%} or more up to every cost; least up to {at:.3g}."]


def finite(limits: Sequence[float]) -> list[float]:
    """Return the limits of a ladder that are limits."""
    return [limit for limit in limits if limit < float("inf")]
