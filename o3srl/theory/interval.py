"""The interval [0, C], strong duality and Slater's condition: how large C must be; limits slack, tight, impossible."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from o3srl.errors import ConfigError
from o3srl.tabular import oracle
from o3srl.tabular.cmdp import one_state
from o3srl.tabular.gap import lagrangian
from o3srl.tabular.lp import optimum
from o3srl.tabular.play import play
from o3srl.tabular.solve import respond, values
from o3srl.theory.equilibrium import ROUNDING, dual, exact_game, rate_and_bound
from o3srl.theory.problems import Problems, gaps, limited
from o3srl.theory.statements import Statement
from o3srl.types import Algorithm

SHARES = (0.25, 0.5, 0.75, 0.9, 1.1, 1.5, 2.0, 4.0)  # C / lambda*
ROUNDS = 4_096


def played(problems: Problems, rounds: int = ROUNDS) -> Any:
    """Return the gap of FTRL's averages on every problem after so many rounds, with their reward and violation."""
    rate, _ = rate_and_bound("ftrl", np.asarray(problems.maximum), np.asarray(problems.size), rounds)

    def build(own: tuple[Problems, Array]) -> Algorithm:
        problem, rate = own
        return exact_game(oracle.along(problem.cmdp, problem.path), dual("ftrl", problem.maximum, rate), problem.limit)

    at = play(build, (problems, jnp.asarray(rate)), np.arange(len(rate)), rounds)[-1]
    return gaps(problems, at.average, at.multiplier)


def how_large(problems: Problems, few: int = 20) -> tuple[dict[str, Any], list[Statement]]:
    """Return the violation at equilibrium against C / lambda*, and what bounds C without knowing lambda*."""
    few = min(few, len(problems.limit))
    own = problems.take(np.repeat(np.arange(few), len(SHARES)))
    ratio = np.tile(SHARES, few)
    own = own.with_maximum(own.multiplier * ratio)
    at = played(own)
    shape = (few, len(SHARES))
    violation = at.violation[:, 0].reshape(shape) / np.asarray(own.allowance[:, 0]).reshape(shape)
    short = 1.0 - at.reward.reshape(shape) / np.asarray(own.reward).reshape(shape)
    below, above = np.asarray(SHARES) < 1.0, np.asarray(SHARES) > 1.0
    room = np.asarray(own.maximum - own.multiplier)
    slater = (np.asarray(problems.reward) - np.asarray(problems.safest)) / np.asarray(problems.slater)
    loose = slater / np.asarray(problems.multiplier)
    numbers = {
        "C_over_multiplier": list(SHARES), "rounds": ROUNDS, "violation_of_limit": violation.mean(0).tolist(),
        "reward_short": short.mean(0).tolist(), "slater_bound_over_multiplier": loose.tolist(),
    }  # fmt: skip
    said = [
        Statement(
            "Section 3.1", "any C > 0 will do", False, bool(np.all(violation[:, below] <= 0.01)),
            f"at C = {SHARES[0]:g} to {SHARES[3]:g} lambda* the equilibrium's cost is over the limit by "
            f"{violation[:, below].min():.0%} to {violation[:, below].max():.0%}",
        ),
        Statement(
            "Section 3.1", "any C > lambda* will do (exact penalty): violation <= gap / (C - lambda*)", True,
            bool(np.all((at.violation[:, 0] * room <= at.total + ROUNDING)[room > 0.0])),
            f"over the limit by {violation[:, above].max():.1%} at most at T = {ROUNDS:,}, and less as T grows",
        ),
        Statement(
            "Section 3.1", "lambda* <= (best reward - reward of the safest policy) / Slater's constant", True,
            bool(np.all(loose >= 1.0 - ROUNDING)),
            f"over {len(loose)} problems the bound is {np.median(loose):.1f} times lambda* (median), "
            f"{loose.min():.2f} at least, {loose.max():.1f} at most",
        ),
    ]  # fmt: skip
    return numbers, said


def limits(problems: Problems, few: int = 20) -> tuple[dict[str, Any], list[Statement]]:
    """Return what happens at limits that are slack, that only the safest policies keep, and that none keeps."""
    few = min(few, len(problems.limit))
    cmdp = jax.tree.map(lambda x: x[:few], problems.cmdp)
    cmdp = jax.tree.map(lambda x: jnp.concatenate([x, x]), cmdp)
    both = limited(cmdp, jnp.repeat(jnp.array([1.3, 0.02]), few))
    at = played(both)
    halves = {"slack": slice(few), "tight": slice(few, 2 * few)}
    found = {name: jax.tree.map(lambda x, half=half: x[half], (both, at)) for name, half in halves.items()}
    numbers: dict[str, Any] = {
        name: {
            "multiplier": np.asarray(one.multiplier).tolist(), "gap": at.total.tolist(),
            "slater": np.asarray(one.slater).tolist(), "reward_short": (np.asarray(one.reward) - at.reward).tolist(),
            "violation": at.violation[:, 0].tolist(),
        }
        for name, (one, at) in found.items()
    }  # fmt: skip
    bound = {
        name: rate_and_bound("ftrl", np.asarray(one.maximum), np.asarray(one.size), ROUNDS)[1]
        for name, (one, _) in found.items()
    }
    try:
        impossible = (float(problems.path.values[0, -1, 1]) - 0.05) / (1.0 - float(cmdp.discount[0]))
        optimum(jax.tree.map(lambda x: x[0], cmdp), impossible)
        refused = ""
    except ConfigError as error:
        refused = str(error)
    numbers["impossible"] = refused
    said = [
        Statement(
            "limits", f"{name}: the gap is below the bound, reward and violation are within it", True,
            bool(
                np.all(at.total <= bound[name] + ROUNDING)
                and np.all(np.asarray(one.reward) - at.reward <= bound[name] + ROUNDING)
                and np.all(at.violation[:, 0] * np.asarray(one.maximum - one.multiplier) <= bound[name] + ROUNDING)
            ),
            f"lambda* {float(one.multiplier.min()):.2f} to {float(one.multiplier.max()):.2f}, gap "
            f"{at.total.max():.4f} at most, bound {bound[name].min():.4f} at least",
        )
        for name, (one, at) in found.items()
    ]  # fmt: skip
    said.append(Statement("limits", "a limit that no policy keeps is refused by name", True, bool(refused), refused))
    return numbers, said


def duality() -> tuple[dict[str, Any], list[Statement]]:
    """Return the smallest counterexamples to what Section 3.1 says of the dual's solutions and Slater's condition."""
    cmdp = one_state([0.8, 0.0], [[1.0], [0.0]])
    best = optimum(cmdp, 0.5)
    allowance = jnp.full(1, 0.5)

    def dual_value(multiplier: float) -> float:
        at = jnp.full(1, multiplier)
        return float(lagrangian(values(cmdp, respond(cmdp, at)), at, allowance))

    star = float(best.multiplier[0])
    at_star, at_one = dual_value(star), dual_value(1.0)
    steep: list[dict[str, float]] = []
    for excess in (1e-1, 1e-2, 1e-3, 1e-4):
        # Every member has a policy with V_c <= limit, none has one with V_c < limit, and lambda* = 1 / sqrt(excess).
        found = optimum(one_state([0.0, excess**0.5], [[0.5], [0.5 + excess]]), 0.5)
        steep.append({"excess": excess, "multiplier": float(found.multiplier[0]), "slater": found.slater})
    largest = steep[-1]["multiplier"]
    told = ", ".join(f"{one['multiplier']:.3g}" for one in steep)
    numbers = {"multiplier": star, "dual_at_multiplier": at_star, "dual_at_one": at_one, "no_slack": steep}
    said = [
        Statement(
            "Section 3.1", "strong duality: min over lambda of max over D equals the optimum", True,
            abs(at_star - best.reward) <= ROUNDING, f"dual {at_star:.4f}, primal {best.reward:.4f}",
        ),
        Statement(
            "Section 3.1", "if lambda* > 0 then (D*, 1) solves the dual too", False, at_one <= at_star + ROUNDING,
            f"lambda* = {star:.2f} gives {at_star:.2f}, lambda = 1 gives {at_one:.2f}",
        ),
        Statement(
            "Section 3.1", "a policy with V_c <= limit (not <) makes some C suffice for a family of problems", False,
            largest < 10.0,
            f"with no slack lambda* is {told} as a step's excess goes "
            "from 1e-1 to 1e-4",
        ),
    ]  # fmt: skip
    return numbers, said
