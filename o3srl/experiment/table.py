"""Results as a table for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table


def result_table(result: Mapping[str, Any]) -> Table:
    """Return the table of a `result.json`: a row per lane, and mean and deviation per setting."""
    several = len(result["settings"]) > 1
    table = Table(
        title=f"{result['task']}, {result['episodes']} episodes per lane, {result['updates']:,} updates",
        caption="mean ± standard deviation over seeds (population, ddof 0)\n"
        "norm. cost: cost / limit, safe up to 1; of best: reward / best logged return within the limit",
    )
    for name in ("setting", "seed") if several else ("seed",):
        table.add_column(name)
    for name in ("reward", "cost", "limit", "of best", "norm. reward", "norm. cost", ""):
        table.add_column(name, justify="right")
    lanes = iter(result["lanes"])
    for setting in result["settings"]:
        label = [_label(setting)] if several else []
        for seed in setting["seeds"]:
            table.add_row(*label, str(seed), *_lane(next(lanes)))
        table.add_section()
        mean, std = setting["mean"], setting["std"]
        scores = [f"{mean[name]:.2f} ± {std[name]:.2f}" for name in ("normalized_reward", "normalized_cost")]
        table.add_row(*label, "mean", "", "", "", "", *scores, _verdict(mean["normalized_cost"]))
        table.add_section()
    return table


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
