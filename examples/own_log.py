"""From a log of your own to a policy, without a simulator: `python examples/own_log.py`.

The log is a heater's: 200 nights of 48 half hours, run by thermostats of different thrift. An observation is the room's
and the outside temperature and the time; the action is the heater's power in kW, from 0 to 3; the reward is comfort,
between 0 and 1; the cost is energy in kWh. The question: how warm can a night be for 20 kWh?

The simulation below only stands for the world that such a log comes from. Training never sees it; it is asked once at
the end, where you would let the policy control the heater.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import o3srl
from o3srl.cli import main as command

STEPS, LIMIT, POWER = 48, 20.0, 3.0  # half hours per night; kWh per night; kW

Control = Callable[[np.ndarray], float]


class Night(NamedTuple):
    """One episode, row by row, under the names that a log needs."""

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    costs: np.ndarray
    next_observations: np.ndarray


def night(rng: np.random.Generator, control: Control) -> Night:
    """Simulate a night: the room leaks to the outside, the heater warms it, comfort falls off around 21 degrees."""
    room, outside = rng.uniform(12.0, 18.0), rng.uniform(0.0, 10.0)
    rows = []
    for step in range(STEPS):
        obs = np.array([room / 20.0, outside / 20.0, step / STEPS])
        power = float(np.clip(control(obs), 0.0, POWER))
        room += 0.04 * (outside - room) + 0.7 * power
        following = np.array([room / 20.0, outside / 20.0, (step + 1) / STEPS])
        rows.append((obs, [power], np.exp(-(((room - 21.0) / 4.0) ** 2)), 0.5 * power, following))
    return Night(*(np.asarray(column, np.float32) for column in zip(*rows, strict=True)))


def thermostat(rng: np.random.Generator) -> Control:
    """Return a controller that holds some temperature, more or less exactly."""
    goal, gain, noise = rng.uniform(10.0, 22.0), rng.uniform(0.2, 1.0), rng.uniform(0.2, 0.6)
    return lambda obs: gain * (goal - 20.0 * obs[0]) + 0.06 * (goal - 20.0 * obs[1]) + noise * rng.normal()


def write_log(path: Path, nights: int = 200) -> None:
    """Save the nights one after another; the recording ends each of them, not the world, so that is a timeout."""
    rng = np.random.default_rng(0)
    logged = [night(rng, thermostat(rng)) for _ in range(nights)]
    columns = {name: np.concatenate([getattr(one, name) for one in logged]) for name in Night._fields}
    last = np.arange(nights * STEPS) % STEPS == STEPS - 1
    np.savez(path, **columns, timeouts=last, terminals=np.zeros_like(last), action_low=[0.0], action_high=[POWER])


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=20_000, help="gradient updates, a multiple of 10")
    updates = str(parser.parse_args(arguments).updates)
    warnings.simplefilter("ignore", o3srl.data.DataWarning)  # the findings are printed below instead
    with tempfile.TemporaryDirectory() as folder:
        log, out = Path(folder) / "heater.npz", Path(folder) / "run"
        write_log(log)
        data = o3srl.data.load(log)  # every check happens here; what is odd about the log is in its findings
        print(o3srl.data.render(o3srl.data.describe(data)))

        # A critic of parts knows the cost apart from the reward, so gradient descent can move the multiplier by it; the
        # limit is spread over the night's 48 steps, and what counts is the cost from where a night begins.
        words = "--td3-bc.critic decomposed --dual ogd --gradient.rate 0.1 --allowance episodic --feedback initial"
        words += f" --td3-bc.discount 0.95 --td3-bc.hidden 64 64 --batch-size 128 --seeds 0 --limit {LIMIT:g}"
        assert command(["train", "--data", str(log), *words.split(), "--updates", updates, "--out", str(out)]) == 0
        policy = o3srl.load(out)

    rng = np.random.default_rng(1)
    kept = [night(rng, lambda obs: float(policy(obs)[0])) for _ in range(10)]
    comfort = float(np.mean([one.rewards.sum() for one in kept]))
    energy = float(np.mean([one.costs.sum() for one in kept]))
    within = np.asarray(data.episodes.costs)[:, 0] <= LIMIT
    logged = float(np.mean(np.asarray(data.episodes.returns)[within]))
    print(f"\nthe policy's nights: comfort {comfort:.1f} for {energy:.1f} kWh")
    print(f"logged nights within {LIMIT:g} kWh: comfort {logged:.1f} on average")
    return {"comfort": comfort, "energy": energy, "logged": logged}


if __name__ == "__main__":
    main()
