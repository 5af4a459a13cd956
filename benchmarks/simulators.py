"""How long an evaluation takes, and how much of it is the simulator: `python benchmarks/simulators.py [TASK ...]`.

Plays the episodes of untrained policies of the paper's size (two hidden layers of 256), as `o3srl evaluate` does, and
prints per task the seconds in all, those of starting processes and making environments, those of waiting for the
simulators, and steps per second. Episodes that end early (Ant, Drone, Hopper, Walker2d) count with the steps they had.
Twice with equal seeds must give equal numbers, which is checked too.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from o3srl import rounds, td3_bc
from o3srl.envs import gym, pool
from o3srl.envs.tasks import Task, find
from o3srl.evaluate import Outcome
from o3srl.types import Info


def policies(task: Task, lanes: int) -> tuple[Info, Any, Any]:
    """Facts about a log of the task, the policy, and what each lane acts with."""
    assert task.sizes is not None
    obs_dim, action_dim, costs, horizon = task.sizes
    box = (1.0,) * action_dim
    info = Info(obs_dim, action_dim, costs, horizon, tuple(-x for x in box), box, task.name, "none", "")
    oracle = td3_bc()
    states = jax.vmap(lambda key: oracle.init(key, rounds.example(info)))(jax.random.split(jax.random.key(0), lanes))
    return info, oracle.policy, oracle.parameters(states)


def play(task: Task, lanes: int, episodes: int, processes: int | None) -> tuple[Outcome, dict[str, float]]:
    """The outcome, and where the seconds went."""
    info, policy, parameters = policies(task, lanes)
    spent = {"start": 0.0, "simulator": 0.0}
    starting, ticking = pool.Pool.__init__, pool.Pool.tick

    def timed(name: str, work: Any) -> Any:
        def run(*arguments: Any) -> Any:
            began = time.perf_counter()
            result = work(*arguments)
            spent[name] += time.perf_counter() - began
            return result

        return run

    pool.Pool.__init__, pool.Pool.tick = timed("start", starting), timed("simulator", ticking)
    try:
        began = time.perf_counter()
        settings = gym.Settings(processes=processes)
        outcome = gym.simulate(policy, parameters, jnp.full((lanes, 1), 5.0), task, info, episodes, settings)
        return outcome, {"all": time.perf_counter() - began, **spent}
    finally:
        pool.Pool.__init__, pool.Pool.tick = starting, ticking


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=["BallCircle", "AntCircle"])
    parser.add_argument("--lanes", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--processes", type=int)
    asked = parser.parse_args()
    print(f"{asked.lanes} lanes x {asked.episodes} episodes, {asked.processes or pool.cores()} processes")
    for name in asked.tasks:
        task = find(name)
        outcome, spent = play(task, asked.lanes, asked.episodes, asked.processes)
        again, _ = play(task, asked.lanes, asked.episodes, asked.processes)
        same = all(np.array_equal(one, other) for one, other in zip(outcome, again, strict=True))
        steps = int(np.sum(outcome.lengths))
        share = spent["simulator"] / spent["all"]
        print(
            f"{name}: {spent['all']:.1f} s, of which {spent['start']:.1f} s to start and {spent['simulator']:.1f} s "
            f"({share:.0%}) in the simulator; {steps:,} steps, {steps / spent['all']:,.0f} per second; "
            f"again with the same seed: {'the same bits' if same else 'DIFFERENT'}"
        )


if __name__ == "__main__":
    main()
