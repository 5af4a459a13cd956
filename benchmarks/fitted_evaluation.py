"""How true values in the loop are, with networks: `python benchmarks/fitted_evaluation.py [--updates N] [--seeds N]`.

TD3+BC on the log of a gridworld with hazards, whose states and actions are one-hot, so that the true average of reward
and cost of every policy on the way is known by a linear solve. The multiplier is moved by online gradient descent,
on what a fitted evaluation says (scalar critic) or on what the oracle's own decomposed critic says. Printed for
every tenth of the run: the mean over seeds of the policy's true cost over its allowance, of how far the value that
the dual was told is from it, and the updates per second (compilation included in the first tenth). About a minute per
seed on two cores.
"""

from __future__ import annotations

import argparse
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from o3srl import duals, feedback
from o3srl.data import DataWarning
from o3srl.game import o3srl
from o3srl.oracles import TD3BCConfig, td3_bc
from o3srl.tabular.cmdp import CMDP, gridworld
from o3srl.tabular.log import as_data, logged
from o3srl.tabular.lp import optimum
from o3srl.tabular.solve import cost_range, deterministic, occupancy, trace_path, values
from o3srl.train import make_engine, make_plan, place, raw_key, run
from o3srl.types import Algorithm, Step

HIDDEN = (64, 64)
DISCOUNT = 0.9


def problem() -> tuple[CMDP, float]:
    """The gridworld, and a limit on its discounted cost halfway between the least and that of the best reward."""
    cmdp = gridworld(jax.random.PRNGKey(1), size=4, discount=DISCOUNT)
    low, high = cost_range(trace_path(cmdp, 60))
    return cmdp, float(low + high) / 2 / (1 - DISCOUNT)


def games(limit: float) -> dict[str, Algorithm]:
    fitted = feedback.fitted(feedback.FittedConfig(hidden=HIDDEN))
    shared = {"limit": limit, "batch_size": 128, "prepare": lambda data: data}
    scalar = TD3BCConfig(discount=DISCOUNT, hidden=HIDDEN)
    parts = TD3BCConfig(critic="decomposed", discount=DISCOUNT, hidden=HIDDEN)
    dual = duals.ogd(maximum=2.0, rate=0.01)
    return {
        "scalar critic, fitted evaluation": o3srl(td3_bc(scalar), dual, fitted, **shared),
        "decomposed critic, its own values": o3srl(td3_bc(parts), dual, feedback.at_initial_states(), **shared),
    }


def true_values(cmdp: CMDP, game: Algorithm, parameters: object) -> Array:
    """The averages per step [1 + M] of the policy that always takes the largest entry of its action."""
    states, actions, costs = cmdp.cost.shape

    def act(obs: Array) -> Array:
        step = Step(obs, jnp.zeros(()), jnp.zeros(costs))
        return game.policy.act(jax.random.PRNGKey(0), parameters, (), step)[0]

    choice = jnp.argmax(jax.vmap(act)(jnp.eye(states)), axis=1)
    return values(cmdp, occupancy(cmdp, deterministic(choice, actions)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    cmdp, limit = problem()
    allowance = limit * (1 - DISCOUNT)
    best = optimum(cmdp, limit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        log = as_data(logged(jax.random.PRNGKey(2), cmdp, jnp.ones(cmdp.reward.shape), 400, 50))
    print(f"optimum: reward {best.reward:.4f}, cost {best.cost[0]:.4f} (allowed {allowance:.4f}), per step")
    for name, game in games(limit).items():
        engine = make_engine(lambda settings, game=game: game, (), place(game.prepare(log)))
        lanes = engine.start(jnp.stack([raw_key(seed) for seed in range(given.seeds)]))
        measure = jax.jit(jax.vmap(lambda state, game=game: true_values(cmdp, game, game.parameters(state)["last"])))
        print(f"{name}\n  updates  reward  cost over allowance  |told - true|  multiplier  updates/s")
        for chunk in run(engine, make_plan(game.phases, given.updates, given.updates // 10), lanes):
            true = np.asarray(measure(chunk.lanes.state))
            over = true[:, 1] - allowance
            told = chunk.metrics["game/violation"][:, 0]
            off, price = np.abs(told - over).mean(), chunk.metrics["game/multiplier"].mean()
            speed = given.seeds * chunk.fresh / chunk.seconds
            row = f"  {chunk.updates:>7,}  {true[:, 0].mean():.4f}  {over.mean():>19.4f}  {off:>13.4f}"
            print(f"{row}  {price:>10.3f}  {speed:>9,.0f}", flush=True)


if __name__ == "__main__":
    main()
