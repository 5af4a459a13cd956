"""The practical variant: M truncated sweeps, begun where the last round ended, and the last iterate as the result."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from o3srl import duals
from o3srl.tabular import oracle
from o3srl.tabular.play import last_policies, play
from o3srl.tabular.solve import values
from o3srl.theory.equilibrium import exact_game
from o3srl.theory.problems import Problems
from o3srl.theory.statements import Statement
from o3srl.types import Algorithm

SWEEPS = (1, 10)  # M; the paper uses 10 gradient updates
TEMPERATURES = (0.0, 0.005)
ROUNDS, RATE = 8_192, 0.1


class Lane(NamedTuple):
    """A problem, and the temperature [] of the oracle on it."""

    problem: Problems
    temperature: Array


def practical(problems: Problems) -> tuple[dict[str, Any], list[Statement]]:
    """Return return and violation of last and averaged iterates, for each M, greedy and smooth."""
    count = len(problems.limit)
    number = np.tile(np.arange(count), len(TEMPERATURES))
    heat = np.repeat(TEMPERATURES, count)
    lanes = Lane(problems.take(number), jnp.asarray(heat))
    numbers: dict[str, Any] = {"rounds": ROUNDS, "rate": RATE, "problems": count, "cases": []}
    said: list[Statement] = []
    for sweeps in SWEEPS:

        def build(lane: Lane, sweeps: int = sweeps) -> Algorithm:
            primal = oracle.sweeps(lane.problem.cmdp, temperature=lane.temperature)
            return exact_game(primal, duals.ftrl(lane.problem.maximum, RATE), lane.problem.limit, sweeps)

        at = play(build, lanes, np.arange(len(heat)), ROUNDS)[-1]
        final = last_policies(build, lanes, at)
        for temperature in TEMPERATURES:
            mine = heat == temperature
            for iterate, rho in (("last", final), ("average", at.average)):
                found = _score(lanes.problem.take(mine), rho[mine])
                case = {"sweeps": sweeps, "temperature": temperature, "iterate": iterate, **found}
                numbers["cases"].append(case)
                said.append(_statement(case))
    return numbers, said


def _score(problems: Problems, rho: Array) -> dict[str, list[float]]:
    got = np.asarray(jax.vmap(values)(problems.cmdp, rho))
    allowance = np.asarray(problems.allowance[:, 0])
    return {
        "reward_short": (1.0 - got[:, 0] / np.asarray(problems.reward)).tolist(),
        "violation_of_limit": (got[:, 1] / allowance - 1.0).tolist(),
    }


def _statement(case: dict[str, Any]) -> Statement:
    short, over = np.asarray(case["reward_short"]), np.asarray(case["violation_of_limit"])
    within = (short <= 0.01) & (over <= 0.01)
    greedy = case["temperature"] == 0.0
    kind = "greedy" if greedy else f"temperature {case['temperature']:g}"
    return Statement(
        "Section 4.1", f"M = {case['sweeps']}, {kind}, {case['iterate']} iterate: return and cost within 1 %",
        not (greedy and case["iterate"] == "last"), bool(within.all()),
        f"{within.sum()} of {len(within)} problems; return short by {np.median(short):.2%} (median), {short.max():.2%} "
        f"(most), cost over by {np.median(over):.2%}, {over.max():.2%}",
    )  # fmt: skip
