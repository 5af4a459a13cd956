"""Train in Python, simulate the result, and take a policy out of a run directory: `python examples/train_and_load.py`.

Everything happens on `toy-circle`, whose log is made on the spot. With a few thousand updates the numbers only show
that the parts fit together; `--updates 20000` is what the task deserves.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp

import o3srl
from o3srl import TD3BCConfig, adaptive, exp3, td3_bc
from o3srl.cli import main as command
from o3srl.envs import make
from o3srl.envs.toy_data import task_data
from o3srl.evaluate import Outcome, rollout

TASK, LIMIT = "toy-circle", 5.0


def in_memory(updates: int) -> Outcome:
    """Train one lane on arrays in memory; return twenty simulated episodes."""
    data = task_data(TASK)
    oracle = td3_bc(TD3BCConfig(hidden=(64, 64)))
    game = o3srl.o3srl(oracle, exp3(adaptive(5.0, 5, LIMIT)), limit=LIMIT, batch_size=128)
    state, metrics = o3srl.train(jax.random.PRNGKey(0), game, data, updates=updates)
    parameters = game.parameters(state)["last"]
    outcome = rollout(jax.random.PRNGKey(1), game.policy, parameters, make(TASK), jnp.array([LIMIT]), 20)
    print(f"mean multiplier of the last chunk: {metrics['game/multiplier'][-1, 0]:.2f}")
    print(f"return {outcome.returns.mean():.1f}, cost {outcome.costs.mean():.1f} of {LIMIT:g}")
    return outcome


def on_disk(updates: int, directory: Path) -> float:
    """Train two lanes into a run directory, load the second one's policy, and play one episode with it by hand."""
    words = f"--task {TASK} --limit {LIMIT:g} --seeds 10 20 --updates {updates} --td3-bc.hidden 64 64 --batch-size 128"
    assert command(["train", *words.split(), "--out", str(directory)]) == 0

    policy = o3srl.load(directory, lane=1)
    environment = make(TASK)
    world, earned = environment.reset(jax.random.PRNGKey(2)), 0.0
    policy.reset()
    for _ in range(environment.horizon):
        action = policy(environment.observe(world))  # a raw observation in, an action in the environment's own box out
        world, reward, _, _ = environment.step(world, jnp.asarray(action))
        earned += float(reward)
    print(f"one episode with the loaded policy: return {earned:.1f}")
    return earned


def main(arguments: Sequence[str] | None = None) -> tuple[Outcome, float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=2000, help="gradient updates, a multiple of 10")
    parser.add_argument("--out", type=Path, help="where the run directory goes; by default it is thrown away")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        return in_memory(asked.updates), on_disk(asked.updates, asked.out or Path(folder) / "run")


if __name__ == "__main__":
    main()
