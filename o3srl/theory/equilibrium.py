"""Theorem 1: the general framework with an exact oracle and a no-regret dual, on one cost and on several."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from o3srl import duals
from o3srl.game import o3srl
from o3srl.tabular import oracle
from o3srl.tabular.cmdp import CMDP, garnet
from o3srl.tabular.lp import optimum
from o3srl.tabular.play import Played, last_policies, play
from o3srl.tabular.solve import any_choice, best_response, deterministic, occupancy, values
from o3srl.theory.problems import Problems, gaps
from o3srl.theory.statements import Statement, slope
from o3srl.types import Algorithm, Dual

ROUNDS = (32, 64, 128, 256, 512, 1024, 2048)
NAMES = ("ftrl", "ogd", "hedge")
ROUNDING = 1e-9
SHARE = 0.1  # of the range of L: a bound above it could hardly be missed


def rate_and_bound(name: str, maximum: Any, size: Any, rounds: Any, arms: int = 2, costs: int = 1) -> tuple[Any, Any]:
    """Return (the rate that the regret bound is least for, that bound divided by T), from C, the largest |violation| B.

    FTRL and OGD: C^2 / (2 rate) + rate T B^2 / 2 per cost;  Hedge: ln K / rate + rate T (C B)^2 / 8 per cost.
    """
    if name == "hedge":
        scale = maximum * size
        return np.sqrt(8.0 * np.log(arms) / rounds) / scale, costs * scale * np.sqrt(np.log(arms) / (2.0 * rounds))
    return maximum / size / np.sqrt(rounds), costs * maximum * size / np.sqrt(rounds)


def dual(name: str, maximum: Array, rate: Array, costs: int = 1) -> Dual:
    """Return a full-information dual on [0, C]^M; Hedge has the two arms 0 and C, whose mixtures are all of [0, C]."""
    if name == "hedge":
        return duals.hedge(jnp.tile(jnp.stack([jnp.zeros_like(maximum), maximum]), (costs, 1)), rate)
    return {"ftrl": duals.ftrl, "ogd": duals.ogd}[name](maximum, rate, costs=costs)


def exact_game(primal: Any, player: Dual, limit: Array, updates: int = 1) -> Algorithm:
    """Return the library's game on a finite problem: one update of an exact oracle is its whole answer."""
    return o3srl(primal, player, limit=limit, updates_per_round=updates, batch_size=1)


class Curves(NamedTuple):
    """Of one dual: gap, regret and bound [L, T] after each of ROUNDS, each with the rate for it, as averages per step;
    last [L, T], the gap of the last policy with the average multiplier; reward and violation [L] at the last T."""

    gap: np.ndarray
    regret: np.ndarray
    bound: np.ndarray
    last: np.ndarray
    reward: np.ndarray
    violation: np.ndarray


def curves(problems: Problems, name: str, rounds: tuple[int, ...] = ROUNDS) -> Curves:
    """Return what a dual reaches on every problem; lanes differ in problem and in the T that their rate is for."""
    count = len(problems.limit)
    lanes = problems.take(np.repeat(np.arange(count), len(rounds)))
    horizon = np.tile(rounds, count)
    rate, bound = rate_and_bound(name, np.asarray(lanes.maximum), np.asarray(lanes.size), horizon)

    def build(own: tuple[Problems, Array]) -> Algorithm:
        problem, rate = own
        return exact_game(oracle.along(problem.cmdp, problem.path), dual(name, problem.maximum, rate), problem.limit)

    settings = (lanes, jnp.asarray(rate))
    history = play(build, settings, np.arange(len(horizon)), rounds[-1], rounds[-1] // rounds[0])
    shape = (count, len(rounds))
    out = {field: np.zeros(shape) for field in ("gap", "regret", "last", "reward", "violation")}
    for place, total in enumerate(rounds):
        at = next(played for played in history if played.rounds == total)
        pair = gaps(lanes, at.average, at.multiplier)
        column = np.s_[:, place]
        out["gap"][column] = pair.total.reshape(shape)[column]
        out["regret"][column] = (at.lagrangian - pair.worst).reshape(shape)[column]
        final = last_policies(build, settings, at)
        out["last"][column] = gaps(lanes, final, at.multiplier).total.reshape(shape)[column]
        out["reward"][column] = pair.reward.reshape(shape)[column]
        out["violation"][column] = pair.violation[:, 0].reshape(shape)[column]
    return Curves(
        out["gap"], out["regret"], bound.reshape(shape), out["last"], out["reward"][:, -1], out["violation"][:, -1]
    )


def theorem_1(problems: Problems) -> tuple[dict[str, Any], list[Statement]]:
    """Return the numbers and statements of Theorem 1 with FTRL, OGD and Hedge."""
    numbers: dict[str, Any] = {"rounds": list(ROUNDS)}
    said: list[Statement] = []
    span = np.asarray(problems.span)[:, None]
    for name in NAMES:
        c = curves(problems, name)
        sharp = c.bound <= SHARE * span
        lines = {"gap": c.gap.mean(0), "bound": c.bound.mean(0), "last": c.last.mean(0), "regret": c.regret.mean(0)}
        fitted = slope(ROUNDS, lines["gap"])
        tightest = float((c.bound / span)[:, -1].max())
        checked = int(sharp.sum())
        numbers[name] = {key: line.tolist() for key, line in lines.items()}
        numbers[name] |= {"slope": fitted, "bound_over_range": tightest, "runs_where_it_could_fail": checked}
        said += [
            Statement(
                "Definition 3", f"{name}: measured regret is below its bound", True,
                bool(np.all(c.regret <= c.bound + ROUNDING)),
                f"{c.regret.size} runs, {checked} with the bound under 10 % of the range of L; at T = {ROUNDS[-1]} the "
                f"bound is {tightest:.1%} of it at most, regret / bound {np.max(c.regret / c.bound):.2f} at most",
            ),
            Statement(
                "Theorem 1", f"{name}: the whole gap is below measured regret / T", True,
                bool(np.all(c.gap <= c.regret + ROUNDING)),
                f"gap / regret {np.max(c.gap / np.maximum(c.regret, 1e-12)):.3f} at most",
            ),
            Statement(
                "Theorem 1", f"{name}: the gap falls as T^-1/2", True, abs(fitted + 0.5) <= 0.1,
                f"fitted slope {fitted:.3f}",
            ),
            _worth(problems, name, c),
        ]  # fmt: skip
    return numbers, said


def _worth(problems: Problems, name: str, c: Curves) -> Statement:
    # At an epsilon-equilibrium on [0, C] the reward is within epsilon of the optimum, and the violation within
    # epsilon / (C - lambda*).
    epsilon = c.gap[:, -1]
    short = np.asarray(problems.reward) - c.reward
    room = epsilon / np.asarray(problems.maximum - problems.multiplier)
    return Statement(
        "what it is worth", f"{name}: reward within the gap of the optimum, violation within gap / (C - lambda*)", True,
        bool(np.all(short <= epsilon + ROUNDING) and np.all(c.violation <= room + ROUNDING)),
        f"reward short by {short.max():.4f}, violation {c.violation.max():.4f} at most",
    )  # fmt: skip


def average_that_belongs(problems: Problems, rounds: int = 256) -> tuple[dict[str, Any], list[Statement]]:
    """Return the numbers of Theorem 1 read with the indices as printed, where lambda_t has already seen D_t.

    With lambda_t = argmin_lambda sum_{s <= t} L(D_s, lambda) (OGD's limit of a large rate, FTRL at rate infinity), the
    regret of the printed definition, sum_t L(D_t, lambda_t) - min, is never positive, yet the gap is.
    """
    lanes = problems.take(np.arange(len(problems.limit)))
    rate = jnp.full(len(lanes.limit), 1e9)

    def build(own: tuple[Problems, Array]) -> Algorithm:
        problem, rate = own
        return exact_game(oracle.along(problem.cmdp, problem.path), dual("ftrl", problem.maximum, rate), problem.limit)

    history = play(build, (lanes, rate), np.arange(len(rate)), rounds, rounds)
    answered = np.stack([played.metrics["game/multiplier"][:, 0] for played in history])
    violation = np.stack([played.metrics["game/violation"][:, 0] for played in history])
    own = np.stack([played.metrics["game/lagrangian"] for played in history])
    leader = np.where(violation.sum(0) > 0.0, np.asarray(lanes.maximum), 0.0)
    following = np.concatenate([answered[1:], leader[None]])
    at = gaps(lanes, history[-1].average, history[-1].multiplier)
    printed = (own + (answered - following) * violation).mean(0) - at.worst
    belongs = own.mean(0) - at.worst
    numbers = {
        "rounds": rounds, "gap": float(at.total.mean()), "regret_as_printed": float(printed.mean()),
        "regret_of_answered": float(belongs.mean()),
    }  # fmt: skip
    said = [
        Statement(
            "Algorithm 1", "with the printed indices (lambda_t after D_t) the gap is below that regret / T", False,
            bool(np.all(at.total <= printed + ROUNDING)),
            f"mean gap {at.total.mean():.3f}, mean regret as printed {printed.mean():.4f} (never positive)",
        ),
        Statement(
            "Algorithm 1", "with lambda_{t-1}, which D_t answered, the gap is below regret / T", True,
            bool(np.all(at.total <= belongs + ROUNDING)),
            f"mean gap {at.total.mean():.3f}, mean regret {belongs.mean():.3f}",
        ),
    ]  # fmt: skip
    return numbers, said


class Several(NamedTuple):
    """Problems with M costs, stacked: as `Problems`, with lambda* [L, M]."""

    cmdp: CMDP
    limit: Array
    allowance: Array
    maximum: Array
    multiplier: Array
    reward: Array


def several(count: int, costs: int, seed: int = 1) -> Several:
    """Return random CMDPs with several costs, each limit at a quarter between what the safest policy can and 1/2."""
    keys = jax.random.split(jax.random.PRNGKey(seed), count)
    cmdp = jax.jit(jax.vmap(lambda key: garnet(key, costs=costs)))(keys)

    def uniform_cost(one: CMDP) -> Array:
        return values(one, occupancy(one, jnp.full(one.reward.shape, 1.0 / one.reward.shape[1])))[1:]

    def together(one: CMDP) -> Array:
        # The costs of the policy that is cheapest in their sum: keeping all of them at once is possible there.
        choice = best_response(one, -one.cost.sum(-1), any_choice(one))
        return values(one, occupancy(one, deterministic(choice, one.reward.shape[1])))[1:]

    low, even = jax.jit(jax.vmap(together))(cmdp), jax.jit(jax.vmap(uniform_cost))(cmdp)
    allowance = low + 0.25 * jnp.maximum(even - low, 0.04)
    limit = allowance / (1.0 - cmdp.discount)[:, None]
    best = [optimum(jax.tree.map(lambda x, lane=lane: x[lane], cmdp), limit[lane]) for lane in range(count)]
    multiplier = jnp.asarray(np.stack([one.multiplier for one in best]))
    maximum = jnp.maximum(2.0 * jnp.max(multiplier, axis=1), 0.5)
    return Several(cmdp, limit, allowance, maximum, multiplier, jnp.asarray([one.reward for one in best]))


def several_costs(
    count: int = 20, costs: int = 2, rounds: int = 1024, names: tuple[str, ...] = NAMES
) -> tuple[dict[str, Any], list[Statement]]:
    """Return the numbers and statements of Theorem 1 with several costs, the oracle answering by policy iteration."""
    problems = several(count, costs)
    numbers: dict[str, Any] = {"costs": costs, "rounds": rounds}
    said: list[Statement] = []
    for name in names:
        rate, bound = rate_and_bound(name, np.asarray(problems.maximum), 1.0, rounds, costs=costs)

        def build(own: tuple[Several, Array], name: str = name) -> Algorithm:
            problem, rate = own
            return exact_game(
                oracle.best_response(problem.cmdp), dual(name, problem.maximum, rate, costs), problem.limit
            )

        at: Played = play(build, (problems, jnp.asarray(rate)), np.arange(count), rounds, costs=costs)[-1]
        pair = gaps(problems, at.average, at.multiplier)
        regret = at.lagrangian - pair.worst
        short = np.asarray(problems.reward) - pair.reward
        numbers[name] = {"gap": pair.total.tolist(), "regret": regret.tolist(), "bound": bound.tolist()}
        good = (pair.total <= regret + ROUNDING) & (regret <= bound + ROUNDING) & (short <= pair.total + ROUNDING)
        one = Statement(
            "Theorem 1", f"{name}, {costs} costs: gap <= regret / T <= bound, reward within the gap", True,
            bool(np.all(good)),
            f"{count} problems, T = {rounds}: gap {pair.total.max():.4f} at most, bound {bound.min():.3f} at least, "
            f"gap / bound {np.max(pair.total / bound):.2f}, violation {pair.violation.max():.4f} at most",
        )  # fmt: skip
        said.append(one)
    return numbers, said
