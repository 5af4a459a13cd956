"""What the built-in tasks promise, measured: `python benchmarks/toy_tasks.py [--plot FILE.png] [--seeds N]`.

Per task: the extremes of its log (the constants of `envs/tasks.py`), its best episodes within the limit, its best
controller within the limit, and what TD3+BC learns from it blind to cost, at a fixed multiplier, and in the game.
A task is fit for use when the blind learner spends at least three times the limit on run and circle, a controller
within the limit earns at least 60 % of what the blind learner does, and the game keeps the limit with at least 80 %
of the best logged episode within it. Takes about two minutes per seed on two cores.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from o3srl import TD3BCConfig, adaptive, exp3, o3srl, plain, td3_bc, train
from o3srl.envs import make, names
from o3srl.envs.toy_data import CREWS, Style, demonstrator, task_data
from o3srl.evaluate import rollout
from o3srl.types import Algorithm, Episodes

LIMIT = 5.0
KEPT = jnp.array([LIMIT])


def best_controller(task: str) -> tuple[float, float, float]:
    """Level, return and cost of the boldest controller without noise whose mean cost keeps the limit."""
    levels = np.linspace(0.3, CREWS[task].boldest, 60)
    ones = jnp.ones(len(levels))
    style = Style(jnp.asarray(levels, jnp.float32), ones, 0.0 * ones, 0.0 * ones)
    policy, environment = demonstrator(task), make(task)
    outcome = jax.vmap(lambda one: rollout(jax.random.PRNGKey(0), policy, one, environment, KEPT, 20))(style)
    returns, costs = np.asarray(outcome.returns.mean(1)), np.asarray(outcome.costs.mean((1, 2)))
    best = int(np.argmax(np.where(costs <= LIMIT, returns, -np.inf)))
    return float(levels[best]), float(returns[best]), float(costs[best])


def learners() -> Iterator[tuple[str, Algorithm]]:
    oracle = td3_bc(TD3BCConfig(hidden=(128, 128)))
    for multiplier in (0.0, 1.8):
        yield f"TD3+BC, multiplier {multiplier}", plain(oracle, multiplier=multiplier, limit=LIMIT, batch_size=256)
    yield "O3SRL", o3srl(oracle, exp3(adaptive(5.0, 5, LIMIT)), limit=LIMIT, batch_size=256)


def report(task: str, updates: int, seeds: int) -> Episodes:
    data = task_data(task)
    returns, costs = np.asarray(data.episodes.returns), np.asarray(data.episodes.costs[:, 0])
    safe = np.sort(returns[costs <= LIMIT])[::-1]
    crashed = int(np.sum(np.asarray(data.episodes.length) < data.info.horizon))
    level, controlled, spent = best_controller(task)
    print(f"{task}: Constants({returns.min():.6g}, {returns.max():.6g}); cost up to {costs.max():.0f}; {crashed} crash")
    print(f"  {len(safe)} of {len(returns)} episodes within {LIMIT:g}; best {safe[0]:.2f}, tenth {safe[9]:.2f}")
    print(f"  best controller within it: level {level:.2f}, return {controlled:.2f}, cost {spent:.2f}")
    for name, algorithm in learners():
        for seed in range(seeds):
            state, _ = train(jax.random.PRNGKey(seed), algorithm, data, updates=updates)
            parameters = algorithm.parameters(state)["last"]
            outcome = rollout(jax.random.PRNGKey(100 + seed), algorithm.policy, parameters, make(task), KEPT, 20)
            earned, cost = float(outcome.returns.mean()), float(outcome.costs.mean())
            print(
                f"  {name}, seed {seed}: return {earned:.2f} ({earned / safe[0]:.2f} of the best logged within the "
                f"limit; the controller has {controlled / earned:.2f} of it), cost {cost:.2f}",
                flush=True,
            )
    return data.episodes


def plot(episodes: dict[str, Episodes], path: str) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(episodes), figsize=(4.5 * len(episodes), 4), layout="constrained")
    for axis, (task, log) in zip(axes, episodes.items(), strict=True):
        axis.scatter(log.costs[:, 0], log.returns, s=6)
        axis.axvline(LIMIT, color="black", linewidth=0.8, linestyle="--")
        axis.set(title=task, xlabel="cost per episode", ylabel="return")
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plot", help="where to draw the cost and return of every logged episode")
    parser.add_argument("--updates", type=int, default=15_000)
    parser.add_argument("--seeds", type=int, default=1, help="0 prints the log's figures only")
    given = parser.parse_args()
    episodes = {task: report(task, given.updates, given.seeds) for task in names()}
    if given.plot:
        plot(episodes, given.plot)


if __name__ == "__main__":
    main()
