"""The constrained optimum of a finite CMDP by linear programming over occupancies, with its dual solution.

    maximize  r . rho   subject to   c_i . rho <= allowance_i,
    sum_a rho(s, a) - gamma sum_{s', a'} P(s | s', a') rho(s', a') = (1 - gamma) mu(s),   rho >= 0

Numbers are averages per step: the limit of a discounted sum, divided by H, is the allowance.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from o3srl.errors import ConfigError
from o3srl.tabular.cmdp import CMDP

Numbers = npt.NDArray[np.float64]


class Optimum(NamedTuple):
    """Fields: reward, the average per step of the best policy within the limits; cost [M]; occupancy [S, A] of that
    policy, D*; multiplier [M], lambda*; slater, by how much per step all limits can be kept at once (0: just kept);
    safest, the average reward of the policy that keeps them by so much."""

    reward: float
    cost: Numbers
    occupancy: Numbers
    multiplier: Numbers
    slater: float
    safest: float


def optimum(cmdp: CMDP, limit: npt.ArrayLike) -> Optimum:
    """Return the optimum of one CMDP under a limit [M] on each discounted sum of costs, as the paper's problem has it.

    Limits that no policy keeps are an error that names the nearest that can be kept together.
    """
    discount = float(cmdp.discount)
    reward, cost = np.asarray(cmdp.reward, float), np.asarray(cmdp.cost, float)
    states, actions, costs = cost.shape
    allowance = np.broadcast_to((1.0 - discount) * np.asarray(limit, float), (costs,))
    outflow = np.kron(np.eye(states), np.ones(actions))
    inflow = np.asarray(cmdp.transition, float).reshape(states * actions, states).T
    balance, inject = outflow - discount * inflow, (1.0 - discount) * np.asarray(cmdp.start, float)
    spent = cost.reshape(-1, costs).T

    wide = np.append(np.zeros(states * actions), -1.0)
    kept = _solve(
        wide, np.c_[spent, np.ones(costs)], allowance, np.c_[balance, np.zeros(states)], inject, free_last=True
    )
    slater = -kept.fun
    if slater < -1e-9:
        more = -slater / (1.0 - discount)
        raise ConfigError(
            f"No policy keeps the limits {_told(limit)}: all of them would have to be larger by {more:.6g}. "
            f"Give limits of at least {_told(allowance / (1.0 - discount) + more)}."
        )
    best = _solve(-reward.reshape(-1), spent, np.maximum(allowance, allowance - slater), balance, inject)
    rho = best.x.reshape(states, actions)
    return Optimum(
        reward=float(-best.fun),
        cost=spent @ best.x,
        occupancy=rho,
        multiplier=-np.asarray(best.ineqlin.marginals),
        slater=float(slater),
        safest=float(reward.reshape(-1) @ kept.x[:-1]),
    )


def _solve(
    objective: Numbers, upper: Numbers, bound: Numbers, equal: Numbers, to: Numbers, free_last: bool = False
) -> Any:
    from scipy.optimize import linprog

    box: list[tuple[float | None, None]] = [(0.0, None)] * len(objective)
    if free_last:
        box[-1] = (None, None)
    found = linprog(objective, A_ub=upper, b_ub=bound, A_eq=equal, b_eq=to, bounds=box, method="highs")
    if found.status != 0:
        raise ConfigError(f"The linear program of this CMDP has no solution ({found.message}).")
    return found


def _told(limit: npt.ArrayLike) -> str:
    return ", ".join(f"{one:.6g}" for one in np.atleast_1d(np.asarray(limit, float)))
