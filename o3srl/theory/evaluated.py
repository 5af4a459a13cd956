"""Le et al. (2019) beside O3SRL, on equal logs: what evaluation in the loop costs, and how its error behaves."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from o3srl import duals
from o3srl.duals.exponential import independent
from o3srl.tabular import le
from o3srl.tabular.cmdp import CMDP
from o3srl.tabular.log import counts, logged, pessimistic
from o3srl.tabular.play import Played, play
from o3srl.tabular.solve import values
from o3srl.theory.bandit import best_rate
from o3srl.theory.equilibrium import dual, exact_game
from o3srl.theory.problems import Problems, gaps
from o3srl.theory.statements import Statement, slope
from o3srl.types import Algorithm

ROUNDS, CHECKS = 2_048, 64
FIT = 50  # sweeps of one fit from zero: gamma^50 = 0.005
SWEEPS = 10  # M, of a round of O3SRL
EPISODES, HORIZON = 128, 16
STOP = 0.02  # omega, per step


class Lane(NamedTuple):
    """A problem, the empirical model of its log, and the rates [] of OGD and of EXP3 on it."""

    problem: Problems
    model: CMDP
    rate: Array
    bandit_rate: Array


class Way(NamedTuple):
    """A way to play: its game, and the sweeps over the log that one round takes."""

    build: Any
    sweeps: int


def _le(lane: Lane) -> Algorithm:
    player = dual("ogd", lane.problem.maximum, lane.rate)
    return exact_game(le.fitted(lane.problem.cmdp, lane.model, FIT), player, lane.problem.limit)


def _decomposed(lane: Lane) -> Algorithm:
    player = dual("ogd", lane.problem.maximum, lane.rate)
    return exact_game(le.learned(lane.problem.cmdp, lane.model), player, lane.problem.limit, SWEEPS)


def _bandit(lane: Lane) -> Algorithm:
    grid = lane.problem.maximum * jnp.array([0.0, 1.0])
    player = duals.exp3(grid, lane.bandit_rate, mixer=independent, offset=lane.problem.maximum)
    return exact_game(le.learned(lane.problem.cmdp, lane.model), player, lane.problem.limit, SWEEPS)


WAYS = {
    "Le et al.": Way(_le, le.LOOP_FITS * FIT),
    "O3SRL, decomposed, OGD": Way(_decomposed, SWEEPS),
    "O3SRL, decomposed, EXP3": Way(_bandit, SWEEPS),
}


def batch_constrained(problems: Problems, few: int = 20) -> tuple[dict[str, Any], list[Statement]]:
    """Return gap against sweeps and seconds, and evaluation error against rounds, of three ways to play."""
    few = min(few, len(problems.limit))
    own = problems.take(np.arange(few))
    models = _models(own.cmdp, jax.random.split(jax.random.PRNGKey(4), few))
    maximum = np.asarray(own.maximum)
    lanes = Lane(
        own, models, jnp.asarray(maximum / np.sqrt(ROUNDS) / np.asarray(own.size)),
        jnp.asarray(best_rate(2, ROUNDS, 1.0 + maximum)),
    )  # fmt: skip
    numbers: dict[str, Any] = {"fit": FIT, "updates": SWEEPS, "steps": EPISODES * HORIZON, "problems": few, "ways": {}}
    seen: dict[str, list[Played]] = {}
    for name, way in WAYS.items():
        seen[name] = play(way.build, lanes, np.arange(few), ROUNDS, CHECKS)
        numbers["ways"][name] = _watched(seen[name], lanes, way.sweeps)
    said = [*_costs(numbers), *_errors(numbers), _stop(seen["Le et al."], lanes, numbers)]
    return numbers, said


@jax.jit
def _models(cmdp: CMDP, keys: Array) -> CMDP:
    def one(cmdp: CMDP, key: Array) -> CMDP:
        return pessimistic(cmdp, counts(logged(key, cmdp, jnp.ones(cmdp.reward.shape), EPISODES, HORIZON)), 0.0)

    return jax.vmap(one)(cmdp, keys)


def _watched(history: list[Played], lanes: Lane, sweeps: int) -> dict[str, Any]:
    # The evaluation error is of the policies of one part: its true averages against what the values said, in cost.
    rounds = np.asarray([played.rounds for played in history])
    sums = np.stack([_true_cost(lanes.problem.cmdp, played.average) * played.rounds for played in history])
    true = np.diff(sums, axis=0, prepend=0.0) / np.diff(rounds, prepend=0)[:, None]
    told = np.stack([played.metrics["game/violation"][:, 0] for played in history]) + np.asarray(
        lanes.problem.allowance[:, 0]
    )
    gap = np.stack([gaps(lanes.problem, played.average, played.multiplier).total for played in history])
    each = np.median([played.seconds for played in history[1:]]) / (rounds[0] * len(lanes.rate))
    return {
        "rounds": rounds.tolist(), "sweeps": (rounds * sweeps).tolist(), "gap": gap.mean(1).tolist(),
        "evaluation_error": np.abs(told - true).mean(1).tolist(), "seconds_per_round_and_problem": float(each),
    }  # fmt: skip


def _true_cost(cmdp: CMDP, rho: Array) -> np.ndarray:
    return np.asarray(jax.vmap(values)(cmdp, rho))[:, 1]


def _costs(numbers: dict[str, Any]) -> list[Statement]:
    ways = numbers["ways"]
    target = 1.2 * max(way["gap"][-1] for name, way in ways.items() if "EXP3" not in name)
    reached = {
        name: next((n for n, gap in zip(way["sweeps"], way["gap"], strict=True) if gap <= target), None)
        for name, way in ways.items()
    }
    numbers |= {"target": float(target), "sweeps_to_target": reached}
    slow, quick = reached["Le et al."], reached["O3SRL, decomposed, OGD"]
    ratio = slow / quick if slow and quick else float("nan")
    time = (
        ways["Le et al."]["seconds_per_round_and_problem"]
        / ways["O3SRL, decomposed, OGD"]["seconds_per_round_and_problem"]
    )
    return [
        Statement(
            "Appendix B", "evaluation and oracle calls in the loop cost Le et al. more work for the same gap", True,
            bool(ratio > 1.0),
            f"{slow:,} against {quick:,} sweeps to a gap of {target:.4f}, {ratio:.0f} times as many; a round takes "
            f"{time:.1f} times as long",
        )
    ]  # fmt: skip


def _errors(numbers: dict[str, Any]) -> list[Statement]:
    ways = numbers["ways"]
    growth = {name: slope(way["rounds"], np.maximum(way["evaluation_error"], 1e-12)) for name, way in ways.items()}
    numbers["growth"] = growth
    own = ways["Le et al."]["evaluation_error"]
    last, first = float(np.mean(own[-CHECKS // 4 :])), float(np.mean(own[: CHECKS // 4]))
    return [
        Statement(
            "Section 4", "evaluation in every round compounds its error over the rounds (Le et al.)", False,
            bool(last > 2.0 * first),
            f"mean error in cost {first:.4f} over the first quarter of the rounds, {last:.4f} over the last; with the "
            f"critic's own values {np.mean(ways['O3SRL, decomposed, OGD']['evaluation_error'][-CHECKS // 4 :]):.4f}",
        )
    ]  # fmt: skip


def _stop(history: list[Played], lanes: Lane, numbers: dict[str, Any]) -> Statement:
    # Where the loop would have stopped, and what the pair is worth there in the model that it knows.
    told = np.cumsum([_told(played, lanes) for played in history], axis=0)
    rounds, shown, in_model = [], [], []
    check = jax.jit(jax.vmap(le.shown_gap, in_axes=(0, 0, 0, 0, 0, None)), static_argnums=5)
    for index, played in enumerate(history):
        average = jnp.asarray(told[index] / (index + 1))
        shown.append(np.asarray(check(
            lanes.model, average, played.multiplier, lanes.problem.allowance, lanes.problem.maximum, FIT
        )))  # fmt: skip
        rounds.append(played.rounds)
        in_model.append(gaps(lanes.problem, played.average, played.multiplier).total)
    seen, true = np.stack(shown), np.stack(in_model)
    first = np.argmax(seen <= STOP, axis=0)
    stopped = (seen <= STOP).any(axis=0)
    at_stop = true[first, np.arange(true.shape[1])]
    numbers["stop"] = {
        "omega": STOP, "rounds": np.asarray(rounds)[first].tolist(), "stopped": stopped.tolist(),
        "true_gap": at_stop.tolist(), "shown": seen.mean(1).tolist(),
    }  # fmt: skip
    return Statement(
        "Le et al.", f"the loop sees its duality gap fall below {STOP} and stops", True, bool(stopped.all()),
        f"after {np.asarray(rounds)[first].min()} to {np.asarray(rounds)[first].max()} rounds, "
        f"{le.LOOP_FITS} fits each; the true gap is then {at_stop.mean():.3f} (mean), {at_stop.max():.3f} (most), "
        "for the log is finite",
    )  # fmt: skip


def _told(played: Played, lanes: Lane) -> np.ndarray:
    # OGD charges what it answers: the reward is L + multiplier * violation, as means over a part; the product's mean is
    # not known, but the multiplier hardly moves within one.
    violation = played.metrics["game/violation"][:, 0]
    reward = played.metrics["game/lagrangian"] + played.metrics["game/multiplier"][:, 0] * violation
    return np.stack([reward, violation + np.asarray(lanes.problem.allowance[:, 0])], axis=1)
