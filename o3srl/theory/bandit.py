"""Theorem 2: EXP3 on a grid of multipliers; the order of play that it needs, what the grid costs, and noise."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from o3srl import duals
from o3srl.duals.exponential import Mixer, independent, sampled
from o3srl.tabular import oracle
from o3srl.tabular.play import Played, play
from o3srl.theory.equilibrium import SHARE, curves, exact_game
from o3srl.theory.problems import Problems, counterexample, gaps, two_actions
from o3srl.theory.statements import Statement, slope
from o3srl.types import Algorithm, Play

MISSED, KEPT = 0.3, 0.02  # the gap that the printed order exceeds, and that independent charge stays below
COUNTED = (2_000, 20_000, 200_000)  # rounds of the counterexample
FEWEST, ARMS, SEEDS = 2, 10, 3
ROUNDS = 24_576
CUBES = {216: 6, 1_728: 12, 13_824: 24}  # T: K = T^(1/3), as Remark 3 has it
LADDER = np.linspace(0.3, 1.7, 12)  # rewards, and so the lambda*, of problems with two actions
GRIDS, GRID_ROUNDS = (2, 4, 6, 12, 24), 6_912


class Lane(NamedTuple):
    """A problem, and how EXP3 plays it: rate [], offset []."""

    problem: Problems
    rate: Array
    offset: Array


def best_rate(arms: int, rounds: Any, span: Any) -> Any:
    """Return sqrt(2 ln K / (K T)) / G, for values in a range of G: what makes EXP3's bound least."""
    return np.sqrt(2.0 * np.log(arms) / (arms * np.asarray(rounds))) / span


def regret_bound(arms: int, rounds: Any, span: Any) -> Any:
    """Return G sqrt(2 K ln K / T): EXP3's expected regret per round, for values in [0, G] after its offset."""
    return span * np.sqrt(2.0 * arms * np.log(arms) / np.asarray(rounds))


def with_ends(arms: int) -> np.ndarray:
    """Return K arms from 0 to 1, both included, as shares of C."""
    return duals.uniform(1.0, arms)


def as_printed(arms: int) -> np.ndarray:
    """Return the K arms of Theorem 2, as shares of C: steps of 1/K from 0, so that C is not among them."""
    return np.arange(arms) / arms


def bandit_game(own: Lane, shares: np.ndarray, mixer: Mixer, noisy: bool = False) -> Algorithm:
    """Return the library's game with EXP3 over the arms shares * C."""
    problem = own.problem
    player = duals.exp3(problem.maximum * jnp.asarray(shares), own.rate, mixer=mixer, offset=own.offset)
    return exact_game(oracle.along(problem.cmdp, problem.path, noisy=noisy), player, problem.limit)


def run(
    lanes: Problems, rounds: np.ndarray, shares: np.ndarray, mixer: Mixer, *, chunks: int, noisy: bool = False
) -> tuple[list[Played], np.ndarray]:
    """Return (where the lanes stand after each chunk of max(rounds), span G [L]).

    Each lane's rate is for its own rounds [L].
    Exact values lie in the range of L; of noisy ones it is known only that a step's are in [-C (1 - a), 1 + C a].
    """
    span, lowest = np.asarray(lanes.span), np.asarray(lanes.lowest)
    if noisy:
        maximum, allowed = np.asarray(lanes.maximum), np.asarray(lanes.allowance[:, 0])
        span, lowest = 1.0 + maximum, -maximum * (1.0 - allowed)
    own = Lane(lanes, jnp.asarray(best_rate(len(shares), rounds, span)), jnp.asarray(-lowest))
    seeds = np.arange(len(rounds))
    history = play(lambda lane: bandit_game(lane, shares, mixer, noisy), own, seeds, int(rounds.max()), chunks)
    return history, span


def projected(multiplier: Array, maximum: Array, shares: np.ndarray) -> Array:
    """Return the arm [L, 1] nearest to each lane's average multiplier [L, 1]: the paper's last step."""
    arms = maximum[:, None] * jnp.asarray(shares)
    nearest = jnp.argmin(jnp.abs(arms - multiplier), axis=1)
    return jnp.take_along_axis(arms, nearest[:, None], axis=1)


class Case(NamedTuple):
    """A way to play the counterexample: arms as shares of C; scale, what divides the rate sqrt(2 ln K / (K T))."""

    shares: np.ndarray
    scale: float


# The grid and the rate of the paper's proof, whose losses are taken to lie within H = 1; and the ends of [0, C] alone,
# with the rate for the range 1 + C of these losses.
CASES = {"twenty arms": Case(as_printed(20), 1.0), "two arms": Case(with_ends(2), 3.0)}
ORDERS = ("printed", "independent")


class Ordered(NamedTuple):
    """The counterexample, the rate [] on it, and whether [] the arm that is charged is drawn independently."""

    problem: Problems
    rate: Array
    apart: Array


def order_of_play(case: str, rounds: tuple[int, ...] = COUNTED, seeds: int = SEEDS) -> dict[str, np.ndarray]:
    """Return {order: gap [T, seeds]} on the counterexample after each of `rounds`, each with the rate for it."""
    shares, scale = CASES[case]
    total = np.tile(np.repeat(rounds, seeds), 2)
    apart = np.repeat([False, True], len(rounds) * seeds)
    lanes = counterexample().take(np.zeros(len(total), int))

    def build(own: Ordered) -> Algorithm:
        def mixer(key: Array, probability: Array, grid: Array) -> Play:
            plays = independent(key, probability, grid), sampled(key, probability, grid)
            return jax.tree.map(partial(jnp.where, own.apart), *plays)

        return bandit_game(Lane(own.problem, own.rate, jnp.zeros(())), shares, mixer)

    settings = Ordered(lanes, jnp.asarray(best_rate(len(shares), total, scale)), jnp.asarray(apart))
    history = play(build, settings, np.arange(len(total)), rounds[-1], rounds[-1] // rounds[0])
    found = [_gap_at(history, one, lanes) for one in rounds]
    return {
        order: np.stack([gap[(total == one) & (apart == flag)] for one, gap in zip(rounds, found, strict=True)])
        for order, flag in zip(ORDERS, (False, True), strict=True)
    }


def the_counterexample() -> tuple[dict[str, Any], list[Statement]]:
    """Return the numbers of the printed order and of independent charge on one state."""
    numbers: dict[str, Any] = {"rounds": list(COUNTED), "seeds": SEEDS}
    said: list[Statement] = []
    for case, (shares, _) in CASES.items():
        found = order_of_play(case)
        bound = regret_bound(len(shares), COUNTED[-1], 3.0)
        numbers[case] = {order: gap.tolist() for order, gap in found.items()} | {"bound": float(bound)}
        printed, apart = found["printed"], found["independent"]
        said += [
            Statement(
                "Theorem 2", f"the printed order, {case}: the gap is below the bound at T = {COUNTED[-1]:,}", False,
                bool(np.any(printed[-1] <= max(MISSED, bound)) or np.any(printed[-1] <= printed[0])),
                f"gap {printed[0].mean():.2f}, {printed[1].mean():.2f}, {printed[-1].mean():.2f} at T = "
                f"{', '.join(f'{one:,}' for one in COUNTED)}; the bound is {bound:.3f}",
            ),
            Statement(
                "Theorem 2", f"independent charge, {case}: the gap is below the bound at T = {COUNTED[-1]:,}", True,
                bool(np.all(apart[-1] <= min(KEPT, bound))), f"gap {apart[-1].max():.4f} at most",
            ),
        ]  # fmt: skip
    return numbers, said


def theorem_2(problems: Problems) -> tuple[dict[str, Any], list[Statement]]:
    """Return the numbers of EXP3 with independent charge on every problem, with several seeds."""
    number = np.repeat(np.arange(len(problems.limit)), SEEDS)
    lanes, shares = problems.take(number), with_ends(ARMS)
    history, span = run(lanes, np.full(len(number), ROUNDS), shares, independent, chunks=1)
    at = history[-1]
    gap = gaps(lanes, at.average, at.multiplier).total
    snapped = gaps(lanes, at.average, projected(at.multiplier, lanes.maximum, shares)).total
    regret = regret_bound(ARMS, ROUNDS, span)
    whole = regret + np.asarray(lanes.maximum * lanes.size) / (2 * (ARMS - 1))
    share = whole / span
    numbers: dict[str, Any] = {
        "arms": ARMS, "seeds": SEEDS, "rounds": ROUNDS, "gap": gap.tolist(), "projected": snapped.tolist(),
        "bound": regret.tolist(), "bound_projected": whole.tolist(),
    }  # fmt: skip
    said = [
        Statement(
            "Theorem 2", "independent charge: gap <= G sqrt(2 K ln K / T), the average multiplier not projected", True,
            bool(np.all(gap <= regret)), f"{len(gap)} runs, gap / bound {(gap / regret).max():.2f} at most",
        ),
        Statement(
            "Theorem 2", "the same, projected: gap <= G sqrt(2 K ln K / T) + B C / (2 (K - 1))", True,
            bool(np.all(snapped <= whole) and np.all(share <= SHARE)),
            f"gap / bound {(snapped / whole).max():.2f} at most; K = {ARMS}, T = {ROUNDS:,}: the bound is "
            f"{share.max():.1%} of the range of L at most",
        ),
    ]  # fmt: skip
    return numbers, said


class Ladder(NamedTuple):
    """Mean gaps on problems of two actions with EXP3, by (arms, rounds): as is, and projected onto the grid."""

    plain: dict[tuple[int, int], float]
    projected: dict[tuple[int, int], float]


def climb() -> Ladder:
    """Return the gaps of every number of arms at every T that `grids` tells of."""
    wanted: dict[int, set[int]] = {arms: {GRID_ROUNDS} for arms in GRIDS}
    for total, arms in CUBES.items():
        wanted[arms] = wanted.get(arms, set()) | {total}
    for arms in (FEWEST, ARMS):
        wanted[arms] = wanted.get(arms, set()) | set(CUBES)
    number = np.repeat(np.arange(len(LADDER)), SEEDS)
    family = two_actions(LADDER)
    ladder = Ladder({}, {})
    for arms, totals in wanted.items():
        every = np.repeat(sorted(totals), len(number))
        lanes = family.take(np.tile(number, len(totals)))
        history, _ = run(lanes, every, with_ends(arms), independent, chunks=max(totals) // min(totals))
        for total in totals:
            at = next(played for played in history if played.rounds == total)
            arm = projected(at.multiplier, lanes.maximum, with_ends(arms))
            ladder.plain[arms, total] = float(gaps(lanes, at.average, at.multiplier).total[every == total].mean())
            ladder.projected[arms, total] = float(gaps(lanes, at.average, arm).total[every == total].mean())
    return ladder


def grids() -> tuple[dict[str, Any], list[Statement]]:
    """Return how the gap moves with T and with K on problems of two actions, projected onto the grid and not."""
    ladder = climb()
    by_rounds, said = _rates(ladder)
    by_arms, more = _against_arms(ladder)
    return {"rates": by_rounds, "arms": by_arms}, said + more


def _rates(ladder: Ladder) -> tuple[dict[str, Any], list[Statement]]:
    totals = list(CUBES)
    found = {
        "ten": [ladder.plain[ARMS, total] for total in totals],
        "two": [ladder.plain[FEWEST, total] for total in totals],
        "cube": [ladder.plain[arms, total] for total, arms in CUBES.items()],
        "cube, projected": [ladder.projected[arms, total] for total, arms in CUBES.items()],
        "full information": curves(two_actions(LADDER), "hedge", tuple(totals)).gap.mean(0).tolist(),
    }
    fitted = {name: slope(totals, line) for name, line in found.items()}
    numbers = {"rounds": totals, "cube_arms": list(CUBES.values()), "gap": found, "slope": fitted}
    last = f"gap {found['two'][-1]:.4f} at T = {totals[-1]:,} against {found['cube, projected'][-1]:.4f}"
    said = [
        Statement(
            "Theorem 2", "a fixed number of arms, not projected: the gap falls as T^-1/2", True,
            max(abs(fitted[name] + 0.5) for name in ("two", "ten")) <= 0.1,
            f"fitted slopes {fitted['ten']:.3f} (K = {ARMS}), {fitted['two']:.3f} (K = {FEWEST})",
        ),
        Statement(
            "Remark 3", "K = T^(1/3), projected onto the grid: the gap falls as T^-1/3", True,
            abs(fitted["cube, projected"] + 1 / 3) <= 0.1, f"fitted slope {fitted['cube, projected']:.3f}",
        ),
        Statement(
            "Remark 3", "a grid costs the rate: with arms one has T^-1/3, not T^-1/2", False,
            found["two"][-1] >= found["cube, projected"][-1],
            f"arms 0 and C, not projected: slope {fitted['two']:.3f}, {last} with K = {CUBES[totals[-1]]}, projected",
        ),
    ]  # fmt: skip
    return numbers, said


def _against_arms(ladder: Ladder) -> tuple[dict[str, Any], list[Statement]]:
    family = two_actions(LADDER)
    size = float((family.maximum * family.size).mean())
    lines = {
        "gap": [ladder.plain[arms, GRID_ROUNDS] for arms in GRIDS],
        "projected": [ladder.projected[arms, GRID_ROUNDS] for arms in GRIDS],
        "regret": [float(regret_bound(arms, GRID_ROUNDS, np.asarray(family.span)).mean()) for arms in GRIDS],
        "grid": [size / (2 * (arms - 1)) for arms in GRIDS],
    }
    whole = np.asarray(lines["regret"]) + np.asarray(lines["grid"])
    said = Statement(
        "Theorem 2", "against K: the gap rises with K, projecting adds what the grid leaves, all below the bound", True,
        bool(np.all(np.asarray(lines["projected"]) <= whole) and np.all(np.diff(lines["gap"]) > 0.0)),
        f"at T = {GRID_ROUNDS:,}, K = {', '.join(map(str, GRIDS))}: gap {_row(lines['gap'])}, projected "
        f"{_row(lines['projected'])}",
    )  # fmt: skip
    return {"arms": list(GRIDS), "rounds": GRID_ROUNDS, **lines}, [said]


def _row(line: list[float]) -> str:
    return ", ".join(f"{one:.3f}" for one in line)


def stochastic(problems: Problems, few: int = 20, seeds: int = 8) -> tuple[dict[str, Any], list[Statement]]:
    """Return the numbers of the stochastic oracle, whose V~ is r' of one step drawn from the policy's occupancy."""
    few = min(few, len(problems.limit))
    number = np.repeat(np.arange(few), seeds)
    lanes, rounds = problems.take(number), np.full(few * seeds, ROUNDS)
    history, span = run(lanes, rounds, with_ends(2), independent, chunks=1, noisy=True)
    gap = gaps(lanes, history[-1].average, history[-1].multiplier).total.reshape(few, seeds)
    bound = regret_bound(2, rounds, span).reshape(few, seeds)
    share = bound.reshape(-1) / np.asarray(lanes.span)
    over = int((gap > bound).sum())
    numbers = {"rounds": ROUNDS, "gap": gap.tolist(), "bound": bound[:, 0].tolist(), "single_runs_over": over}
    said = Statement(
        "Definition 4", "V~ from a single step, K = 2: mean gap over seeds <= (1 + C) sqrt(2 K ln K / T)", True,
        bool(np.all(gap.mean(1) <= bound[:, 0]) and np.all(share <= SHARE)),
        f"{few} problems, {seeds} seeds: mean gap / bound {(gap.mean(1) / bound[:, 0]).max():.2f} at most; the bound "
        f"is {share.max():.1%} of the range of L at most. It is one on expectation: {over} of {gap.size} single "
        "runs are over it",
    )  # fmt: skip
    return numbers, [said]


def _gap_at(history: list[Played], total: int, lanes: Problems) -> np.ndarray:
    at = next(played for played in history if played.rounds == total)
    return np.asarray(gaps(lanes, at.average, at.multiplier).total)
