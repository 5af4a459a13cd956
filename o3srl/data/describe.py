"""What a log holds, for people: plain facts, and how they look in a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from o3srl.data.columns import spans_of
from o3srl.errors import ConfigError
from o3srl.types import Data

LIMITS = (0, 5, 10, 20, 40)


def describe(data: Data, limits: Sequence[float] = LIMITS) -> dict[str, Any]:
    """Return the facts about a log as plain numbers, strings and lists.

    Returns and costs are undiscounted sums over finished episodes; one is within a limit when each of its costs is.
    """
    table, info, span = np.asarray(data.table), data.info, spans_of(data.info)
    start, length, returns, costs = (np.asarray(part) for part in data.episodes)
    within = [(costs <= limit).all(axis=1) for limit in limits]
    return {
        "source": info.source,
        "task": info.task,
        "sha256": info.sha256,
        "rows": len(table),
        "usable_rows": len(np.asarray(data.usable)),
        "obs_dim": info.obs_dim,
        "action_dim": info.action_dim,
        "costs": info.costs,
        "horizon": info.horizon,
        "action_low": list(info.action_low),
        "action_high": list(info.action_high),
        "episodes": len(start),
        "length": _spread(length),
        "return": _spread(returns),
        "cost": [_spread(costs[:, index]) for index in range(info.costs)],
        "terminals": int(table[:, span.terminal].sum(dtype=np.float64)),
        "timeouts": int(table[:, span.timeout].sum(dtype=np.float64)),
        "initial_states": len(np.asarray(data.initial)),
        "unfinished_rows": len(table) - int(start[-1] + length[-1]),
        "stale_first_observations": info.stale_first_observations,
        "actions_outside_box": info.actions_outside_box,
        "within": [
            {
                "limit": limit,
                "episodes": int(kept.sum()),
                "best_return": float(returns[kept].max()) if kept.any() else None,
            }
            for limit, kept in zip(limits, within, strict=True)
        ],
        "findings": list(info.findings),
    }


def _spread(values: npt.NDArray[Any]) -> dict[str, float]:
    return {"min": values.min().item(), "median": float(np.median(values)), "max": values.max().item()}


def render(facts: Mapping[str, Any], columns: int = 80) -> str:
    """Return the facts as text that is at most `columns` characters wide."""
    share = facts["actions_outside_box"] / facts["rows"]
    several = facts["costs"] > 1
    lines = [
        ("log", facts["source"]),
        ("task", facts["task"] or "-"),
        ("sha256", facts["sha256"][:16]),
        ("rows", f"{facts['rows']:,}, of which {facts['usable_rows']:,} can be sampled"),
        ("entries", f"{facts['obs_dim']} observation, {facts['action_dim']} action, {facts['costs']} cost"),
        ("action box", _box(facts["action_low"], facts["action_high"])),
        ("outside of it", f"{facts['actions_outside_box']:,} rows ({share:.1%})"),
        ("episodes", f"{facts['episodes']:,}, {facts['terminals']:,} terminals, {facts['timeouts']:,} timeouts"),
        (
            "initial states",
            f"{facts['initial_states']:,}, {facts['stale_first_observations']:,} stale first observations",
        ),
        ("unfinished", f"{facts['unfinished_rows']:,} rows after the last episode"),
        ("horizon", f"{facts['horizon']:,} steps"),
    ]
    text = [_line(name, str(value), columns) for name, value in lines]
    text += ["", f"{'per episode':<16}{'min':>12}{'median':>12}{'max':>12}"]
    named = [("length", facts["length"]), ("return", facts["return"])]
    named += [(f"cost {index + 1}" if several else "cost", spread) for index, spread in enumerate(facts["cost"])]
    text += [
        f"{name:<16}" + "".join(f"{_number(spread[key]):>12}" for key in ("min", "median", "max"))
        for name, spread in named
    ]
    text += ["", f"{'every cost <=' if several else 'cost <=':<16}{'episodes':>12}{'best return':>12}"]
    for row in facts["within"]:
        best = "-" if row["best_return"] is None else _number(row["best_return"])
        text.append(f"{_number(row['limit']):<16}{row['episodes']:>12,}{best:>12}")
    for finding in facts["findings"]:
        text += ["", textwrap.fill(finding, columns, initial_indent="* ", subsequent_indent="  ")]
    return "\n".join(text)


def _line(name: str, value: str, columns: int) -> str:
    return textwrap.fill(value, columns, initial_indent=f"{name:<16}", subsequent_indent=" " * 16)


def _number(value: float) -> str:
    return (
        f"{value:,.0f}"
        if value == round(value) and abs(value) < 1e9
        else f"{value:,.2f}"
        if abs(value) < 1e6
        else f"{value:.3e}"
    )


def _box(low: Sequence[float], high: Sequence[float]) -> str:
    ends = sorted(set(zip(low, high, strict=True)))
    return " x ".join(f"[{a:g}, {b:g}]" for a, b in (ends if len(ends) == 1 else zip(low, high, strict=True)))


def cheapest_warning(data: Data, limit: npt.ArrayLike) -> str | None:
    """Return a sentence when no logged episode keeps the limit [M], in episode units; None when one does."""
    limits = np.atleast_1d(np.asarray(limit, np.float64))
    if limits.shape != (data.info.costs,):
        raise ConfigError(
            f"limit {limit} has {limits.size} entries, but the log has {data.info.costs} cost(s). Give one for each."
        )
    costs = np.asarray(data.episodes.costs)
    if (costs <= limits).all(axis=1).any():
        return None
    cheapest = costs.min(axis=0)
    said = [
        f"limit {bound:g}{f' on cost {index + 1}' if len(limits) > 1 else ''} "
        f"is below the cheapest logged episode ({least:g})"
        for index, (bound, least) in enumerate(zip(limits, cheapest, strict=True))
        if bound < least
    ] or ["no logged episode keeps all the limits at once, though each is kept by some"]
    return f"{' and '.join(said)}: what keeps it must be pieced together from parts of episodes; trust estimates less."
