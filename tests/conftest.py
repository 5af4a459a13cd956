"""Fixtures that many tests share: a small log of a planar walk, as arrays and as `Data`."""

import os

import jax
import numpy as np
import pytest

from o3srl.data import from_arrays


def walk(episodes=8, length=20, obs_dim=3, action_dim=2, costs=1, seed=0):
    """A log in DSRL's names: random actions move the observation, reward is progress, cost is being far out.

    Every fourth episode ends in a terminal, the others in a timeout.
    """
    rng = np.random.default_rng(seed)
    rows = {name: [] for name in ("observations", "actions", "rewards", "costs", "next_observations")}
    for _ in range(episodes):
        obs = rng.normal(size=obs_dim) * 0.1
        for _ in range(length):
            action = rng.uniform(-1, 1, action_dim)
            following = 0.9 * obs + 0.1 * np.resize(action, obs_dim)
            rows["observations"].append(obs)
            rows["actions"].append(action)
            rows["rewards"].append(action[0])
            rows["costs"].append([float(abs(following[0]) > 0.15 * (1 + index)) for index in range(costs)])
            rows["next_observations"].append(following)
            obs = following
    arrays = {name: np.asarray(values, np.float32) for name, values in rows.items()}
    if costs == 1:
        arrays["costs"] = arrays["costs"][:, 0]
    last = np.arange(episodes * length) % length == length - 1
    fourth = np.arange(episodes * length) // length % 4 == 0
    return {**arrays, "terminals": last & fourth, "timeouts": last & ~fourth}


@pytest.fixture(scope="session")
def log():
    """A small log with one cost."""
    return from_arrays(walk())


@pytest.fixture(scope="session")
def log_two_costs():
    """A small log with two costs."""
    return from_arrays(walk(costs=2))


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """One cache for all tests of a session: a user's is neither needed nor touched."""
    return tmp_path_factory.getbasetemp().parent / "o3srl-cache"


@pytest.fixture(scope="session", autouse=True)
def _compile_once(cache):
    # Most of what these tests wait for is compilation, and many of them compile the same.
    jax.config.update("jax_compilation_cache_dir", str(cache / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    # Read once, where the Hub's client is first imported: whatever a user has fetched is not there for a test.
    os.environ["HF_HOME"] = str(cache / "huggingface")


@pytest.fixture(autouse=True)
def _own_cache(cache, monkeypatch):
    monkeypatch.setenv("O3SRL_CACHE", str(cache))
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(cache / "compiled"))
