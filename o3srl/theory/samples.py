"""Remark 1 and the oracle's error: what n logged steps are worth at each multiplier, under one coverage."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from o3srl.tabular import oracle
from o3srl.tabular.cmdp import CMDP
from o3srl.tabular.log import counts, logged, pessimistic
from o3srl.tabular.play import play
from o3srl.tabular.solve import any_choice, best_response, deterministic, occupancy, place_on, priced, respond, values
from o3srl.theory.equilibrium import ROUNDING, dual, exact_game, rate_and_bound
from o3srl.theory.problems import Problems, gaps
from o3srl.theory.statements import Statement, slope
from o3srl.types import Algorithm

EPISODES = (8, 32, 128, 512)  # of HORIZON steps each
HORIZON = 16
WIDTH = 0.02  # of the confidence interval, in units of H / sqrt(n): below a proof's, which would forbid most actions
ARMS = 5


def models(key: Array, cmdp: CMDP, width: float) -> CMDP:
    """Return the pessimistic models [N] that the first of EPISODES episodes of one log of uniform actions support."""
    even = jnp.ones(cmdp.reward.shape)
    log = logged(key, cmdp, even, EPISODES[-1], HORIZON)
    prefixes = [counts(jax.tree.map(lambda x, n=n: x[:n], log)) for n in EPISODES]
    return jax.vmap(lambda seen: pessimistic(cmdp, seen, width))(jnp.stack(prefixes))


def error(cmdp: CMDP, model: CMDP, multiplier: Array) -> Array:
    """Return [], what the policy that is best in the model loses in truth per step, at a multiplier [M]."""
    choice = best_response(model, priced(model, multiplier), any_choice(cmdp))
    got = values(cmdp, occupancy(cmdp, deterministic(choice, cmdp.reward.shape[1])))
    best = values(cmdp, respond(cmdp, multiplier))
    return (best[0] - best[1:] @ multiplier) - (got[0] - got[1:] @ multiplier)


def remark_1(problems: Problems, few: int = 80) -> tuple[dict[str, Any], list[Statement]]:
    """Return the oracle's error against n for every multiplier of a grid, and the gap of the game on such an oracle."""
    few = min(few, len(problems.limit))
    own = problems.take(np.arange(few))
    grid = own.maximum[:, None] * jnp.linspace(0.0, 1.0, ARMS)

    @jax.jit
    def measure(cmdp: CMDP, grid: Array, keys: Array) -> tuple[CMDP, Array]:
        known = jax.vmap(lambda key, one: models(key, one, WIDTH))(keys, cmdp)
        each = jax.vmap(error, (None, None, 0))  # over multipliers
        each = jax.vmap(each, (None, 0, None))  # over numbers of steps
        return known, jax.vmap(each)(cmdp, known, grid[..., None])

    known, found = measure(own.cmdp, grid, jax.random.split(jax.random.PRNGKey(2), few))
    found = np.asarray(found)  # [problem, n, arm]
    steps = np.asarray(EPISODES) * HORIZON
    lines = found.mean(0)
    fitted = [slope(steps, lines[:, arm]) for arm in range(ARMS)]
    relative = lines / (1.0 + np.asarray(grid).mean(0))
    spread = relative.max(1) / relative.min(1)
    play_numbers, play_said = _game_on_a_log(own, known, steps)
    numbers = {
        "steps": steps.tolist(), "width": WIDTH, "C_share": np.linspace(0.0, 1.0, ARMS).tolist(),
        "error": lines.tolist(), "slope": fitted, "spread_over_multipliers": spread.tolist(), "game": play_numbers,
    }  # fmt: skip
    said = [
        Statement(
            "Remark 1", "one log serves every multiplier: the errors / (1 + lambda) differ by a constant factor", True,
            bool(spread.max() <= 4.0),
            f"factor {spread.min():.2f} to {spread.max():.2f} over {ARMS} multipliers in [0, C], n from {steps[0]} to "
            f"{steps[-1]:,}",
        ),
        Statement(
            "Remark 1", "on random problems the error falls at least as fast as n^-1/2", True, max(fitted) <= -0.4,
            f"fitted slopes {min(fitted):.2f} to {max(fitted):.2f}: gaps between actions make it faster",
        ),
        *play_said,
    ]  # fmt: skip
    return numbers, said


def _game_on_a_log(own: Problems, known: CMDP, steps: np.ndarray, rounds: int = 512) -> tuple[dict[str, Any], Any]:
    count = len(own.limit)
    lanes = own.take(np.repeat(np.arange(count), len(steps)))
    believed = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), known)
    rate, _ = rate_and_bound("ftrl", np.asarray(lanes.maximum), np.asarray(lanes.size), rounds)

    def build(lane: tuple[Problems, CMDP, Array]) -> Algorithm:
        problem, model, rate = lane
        player = dual("ftrl", problem.maximum, rate)
        return exact_game(oracle.best_response(problem.cmdp, model), player, problem.limit)

    history = play(build, (lanes, believed, jnp.asarray(rate)), np.arange(len(rate)), rounds, rounds)
    pair = gaps(lanes, history[-1].average, history[-1].multiplier)
    regret = history[-1].lagrangian - pair.worst
    answered = jnp.asarray(np.stack([played.metrics["game/multiplier"] for played in history], axis=1))
    lost = _best(lanes, answered) - history[-1].lagrangian
    numbers = {
        "rounds": rounds, "gap": pair.total.reshape(count, -1).mean(0).tolist(),
        "regret": regret.reshape(count, -1).mean(0).tolist(), "error": lost.reshape(count, -1).mean(0).tolist(),
    }  # fmt: skip
    said = Statement(
        "Theorem 1", "an oracle with an error: gap <= regret / T + its mean error over the rounds", True,
        bool(np.all(pair.total <= regret + lost + ROUNDING)),
        f"{len(rate)} games, gap / (regret / T + error) {np.max(pair.total / (regret + lost)):.3f} at most",
    )  # fmt: skip
    return numbers, [said]


@jax.jit
def _mean_best(lanes: Problems, answered: Array) -> Array:
    def of_lane(problem: Problems, multipliers: Array) -> Array:
        pairs = problem.path.values[jax.vmap(partial(place_on, problem.path))(multipliers[:, 0])]
        return jnp.mean(pairs[:, 0] - multipliers[:, 0] * (pairs[:, 1] - problem.allowance[0]))

    return jax.vmap(of_lane)(lanes, answered)


def _best(lanes: Problems, answered: Array) -> np.ndarray:
    """Return [L]: the mean over rounds of max_D L(D, multiplier), for multipliers [L, T, 1]."""
    return np.asarray(_mean_best(lanes, answered))


def hard_problem(gap: Array) -> CMDP:
    """Return the CMDP where a coin decides: from state 0 action a leads to the good state with chance 1/2 +- gap / 2.

    The good state earns 1 per step, the bad one 0; both lead back to 0 at once.
    """
    chance = 0.5 + 0.5 * gap * jnp.array([1.0, -1.0])
    coin = jnp.stack([jnp.zeros(2), chance, 1.0 - chance], axis=-1)
    back = jnp.broadcast_to(jax.nn.one_hot(0, 3, dtype=float), (2, 3))
    return CMDP(
        transition=jnp.stack([coin, back, back]),
        reward=jnp.array([[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]),
        cost=jnp.zeros((3, 2, 1)),
        start=jax.nn.one_hot(0, 3, dtype=float),
        discount=jnp.asarray(0.5),
    )


def hardest(seeds: int = 512) -> tuple[dict[str, Any], list[Statement]]:
    """Return the mean error against n where two actions differ by 1 / sqrt(n): the problem that is hard at that n."""
    few = EPISODES[:3]
    steps = np.asarray(few) * HORIZON
    keys = jax.random.split(jax.random.PRNGKey(3), seeds)

    @partial(jax.jit, static_argnames="episodes")
    def measure(gap: Array, episodes: int) -> Array:
        cmdp = hard_problem(gap)

        def of_log(key: Array) -> Array:
            seen = counts(logged(key, cmdp, jnp.ones(cmdp.reward.shape), episodes, HORIZON))
            return error(cmdp, pessimistic(cmdp, seen, 0.0), jnp.zeros(1))

        return jnp.mean(jax.vmap(of_log)(keys))

    found = [float(measure(n**-0.5, episodes)) for n, episodes in zip(steps, few, strict=True)]
    fitted = slope(steps, found)
    numbers = {"steps": steps.tolist(), "error": found, "slope": fitted}
    said = Statement(
        "Remark 1", "over all problems the error falls as n^-1/2, where the problem may be the hardest for its n", True,
        abs(fitted + 0.5) <= 0.1, f"fitted slope {fitted:.3f}, two actions that differ by n^-1/2, {seeds} logs per n",
    )  # fmt: skip
    return numbers, [said]
