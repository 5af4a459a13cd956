"""Collecting a log: the behavior policies learn, what is kept is what was lived, and a crash costs a stint at most."""

import dataclasses
import math
from pathlib import Path

import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from o3srl import data
from o3srl.cli import main
from o3srl.collect import episodes as stored
from o3srl.collect import ppo, thin
from o3srl.collect.play import Simulators, stage
from o3srl.collect.run import Asked, collect, limit_of, working
from o3srl.envs import interpreters
from o3srl.envs.tasks import find
from o3srl.errors import ConfigError
from o3srl.evaluate import Trace
from o3srl.policy import in_box
from tests import plant

HERE = Path(__file__).resolve().parent
SMALL = Asked(
    "toy-hover", limits=(5.0, math.inf), steps=1000, episodes=12, environments=4, ppo=ppo.PPOConfig(hidden=(8, 8))
)


@pytest.fixture
def beside_the_plant(monkeypatch):
    monkeypatch.chdir(HERE)
    monkeypatch.delenv(interpreters.VARIABLE, raising=False)


def read(path):
    with h5py.File(path) as file:
        return {name: file[name][...] for name in file}


# The behavior policies


def test_advantages_are_discounted_sums_of_differences():
    random = np.random.default_rng(0)
    steps, lived, discount, decay = 7, 5, 0.9, 0.8
    value, following, parts = random.normal(size=(3, steps, 2))
    terminal, alive = np.zeros(steps), np.arange(steps) < lived
    terminal[lived - 1] = 1.0
    expected = np.zeros((steps, 2))
    for t in range(lived):
        for later in range(t, lived):
            difference = parts[later] + discount * (1 - terminal[later]) * following[later] - value[later]
            expected[t] += (discount * decay) ** (later - t) * difference
    found = ppo.advantages(value, following, parts, terminal, alive, discount, decay)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_what_lies_behind_an_end_changes_nothing():
    random = np.random.default_rng(1)
    alive = np.arange(6)[None] < np.array([[6], [3]])
    seen = Trace(
        obs=random.normal(size=(2, 6, 3)), action=random.normal(size=(2, 6, 2)), reward=random.normal(size=(2, 6)),
        cost=random.uniform(size=(2, 6, 1)), next_obs=random.normal(size=(2, 6, 3)), terminal=np.zeros((2, 6)),
        alive=alive,
    )  # fmt: skip
    seen = jax.tree.map(lambda x: jnp.asarray(x, x.dtype if x.dtype == bool else jnp.float32), seen)
    rubbish = jax.tree.map(
        lambda x: jnp.where(jnp.expand_dims(alive, tuple(range(2, x.ndim))), x, jnp.nan), seen._replace(alive=())
    )
    config = ppo.PPOConfig(hidden=(8,), parts=2)
    learner = ppo.start(jax.random.key(0), 3, 2, 1, config)
    clean = ppo.learn(jax.random.key(1), learner, seen, jnp.array([1.0]), 1.0, config)
    spoiled = ppo.learn(jax.random.key(1), learner, rubbish._replace(alive=seen.alive), jnp.array([1.0]), 1.0, config)
    jax.tree.map(np.testing.assert_array_equal, clean, spoiled)


def test_observation_moments_are_those_of_all_steps():
    random = np.random.default_rng(2)
    config = ppo.PPOConfig(hidden=(4,), parts=1)
    learner = ppo.start(jax.random.key(0), 2, 1, 1, config)
    batches = [3.0 + random.normal(size=(2, 5, 2)) * [1.0, 4.0] for _ in range(3)]
    for obs in batches:
        flat = np.zeros((2, 5), np.float32)
        seen = Trace(obs, flat[..., None], flat, flat[..., None], obs, flat, np.ones((2, 5), bool))
        learner, _ = ppo.learn(jax.random.key(1), learner, seen, jnp.array([1.0]), 1.0, config)
    every = np.concatenate(batches).reshape(-1, 2)
    np.testing.assert_allclose(learner.moments.mean, every.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(learner.moments.variance, every.var(axis=0), rtol=1e-4)


def test_a_policy_learns_to_earn_and_another_to_keep_its_limit(tmp_path):
    told = {5.0: [], math.inf: []}

    def report(progress):
        told[progress.limit].append((float(progress.metrics["reward"]), float(progress.metrics["cost"][0])))

    asked = Asked("toy-hover", limits=(5.0, math.inf), steps=40_000, episodes=200)
    collect(asked, tmp_path / "log.hdf5", report=report)
    begun = np.mean(told[5.0][:3], axis=0)
    careful, bold = (np.mean(told[limit][-5:], axis=0) for limit in (5.0, math.inf))
    assert careful[0] > begun[0] + 30
    assert careful[1] <= 5.0
    assert bold[0] > careful[0] + 5
    assert bold[1] > 50


# What is kept


def test_simulated_episodes_are_kept_as_they_were_lived(beside_the_plant):
    # The plant refuses actions outside of its box, costs one step in three or so, ends in terminals and in timeouts.
    task, seeds = find("plant:Plant"), np.arange(5, dtype=np.uint32)
    learner = ppo.start(jax.random.key(0), plant.OBS, plant.ACTION, 1, ppo.PPOConfig(exploration=2.0))
    with stage(task, seeds, Simulators(horizon=8, processes=2)) as place:
        seen = place.play(jax.random.key(1), seeds, ppo.behavior(learner))
    kept = stored.of(seen, in_box(seen.action, place.low, place.high))
    assert kept.length.max() <= 8
    assert kept.length.min() < 8
    environment = plant.Plant()
    begin = 0
    for number, length in enumerate(kept.length):
        rows = slice(begin, begin + length)
        assert (kept.action[rows] >= environment.action_space.low).all()
        assert (kept.action[rows] <= environment.action_space.high).all()
        np.testing.assert_array_equal(seen.obs[number, 1:length], seen.next_obs[number, : length - 1])
        np.testing.assert_array_equal(kept.cost[rows, 0], seen.next_obs[number, :length, 0] > 0.3)
        begin += length
    columns = stored.columns(kept)
    ends = np.cumsum(kept.length) - 1
    np.testing.assert_array_equal(np.flatnonzero(columns["terminals"] | columns["timeouts"]), ends)
    assert not (columns["terminals"] & columns["timeouts"]).any()
    assert columns["terminals"].any()
    np.testing.assert_array_equal(columns["next_observations"], seen.next_obs[seen.alive])
    np.testing.assert_allclose(kept.returns, seen.reward.sum(axis=1), rtol=1e-5)


def test_the_same_seeds_play_the_same_episodes_over_any_number_of_processes(beside_the_plant):
    seeds = np.arange(3, 8, dtype=np.uint32)
    learner = ppo.start(jax.random.key(0), plant.OBS, plant.ACTION, 1, ppo.PPOConfig())

    def played(processes):
        with stage(find("plant:Plant"), seeds, Simulators(horizon=9, processes=processes)) as place:
            return place.play(jax.random.key(1), seeds, ppo.behavior(learner))

    jax.tree.map(np.testing.assert_array_equal, played(1), played(2))


def test_a_log_with_its_own_box_can_be_trained_on(tmp_path, beside_the_plant):
    asked = dataclasses.replace(SMALL, task="plant:Plant", steps=150, horizon=8, episodes=10)
    out = tmp_path / "plant.hdf5"
    collected = collect(asked, out, processes=1)
    log = data.load(out)
    assert len(log.episodes.length) == 10
    np.testing.assert_allclose(log.info.action_low, plant.Plant.action_space.low)
    np.testing.assert_allclose(log.info.action_high, plant.Plant.action_space.high)
    assert log.info.findings == ()
    np.testing.assert_allclose(np.asarray(log.episodes.returns), collected.returns[collected.chosen], rtol=1e-5)
    np.testing.assert_array_equal(np.asarray(log.episodes.costs)[:, 0], collected.cost[collected.chosen])


def test_two_costs_are_kept_apart(tmp_path, beside_the_plant):
    asked = dataclasses.replace(SMALL, task="plant:Two", steps=100, horizon=8, costs=2)
    collect(asked, tmp_path / "two.hdf5", processes=1)
    costs = read(tmp_path / "two.hdf5")["costs"]
    assert costs.shape[1] == 2
    assert set(costs[:, 0]) == {0.0, 1.0}
    assert len(set(costs[:, 1])) > 2


def test_a_collection_is_the_same_twice_and_after_it_was_stopped(tmp_path):
    whole, broken = tmp_path / "whole.hdf5", tmp_path / "broken.hdf5"
    undisturbed, heard = [], []
    collect(SMALL, whole, report=undisturbed.append)
    stops = 0
    while collect(SMALL, broken, report=heard.append, stop=lambda: len(heard) in (8, 17, 29)) is None:
        assert working(broken).is_dir()
        assert not broken.exists()
        stops += 1
    assert stops == 3
    assert len(undisturbed) < len(heard) < 29 + len(undisturbed)  # it did not begin anew after the last
    first, second = read(whole), read(broken)
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
    assert not working(broken).exists()


def test_kept_episodes_can_be_chosen_from_again_without_training(tmp_path):
    out = tmp_path / "log.hdf5"
    collect(SMALL, out, keep=True)
    batches = []
    again = dataclasses.replace(SMALL, episodes=5, envelope="0,1000 50,1000")
    collected = collect(again, out, overwrite=True, keep=True, report=batches.append)
    assert batches == []
    assert len(collected.chosen) == 5
    assert collected.cost[collected.chosen].max() <= 50
    log = read(out)
    assert (log["terminals"] | log["timeouts"]).sum() == 5


# The choice


def test_cells_are_filled_evenly_and_who_earns_more_than_all_cheaper_ones_is_there():
    random = np.random.default_rng(0)
    cost = np.concatenate([random.uniform(0, 1, 2000), random.uniform(0, 100, 500)])
    returns = random.uniform(0, 10, 2500) + 0.02 * cost
    chosen = thin.choose(0, cost, returns, 200, None)
    assert len(chosen) == len(set(chosen)) == 200
    assert list(chosen) == sorted(chosen)
    front = [number for number in range(2500) if (returns[cost <= cost[number]] <= returns[number]).all()]
    assert len(front) > 5
    assert set(front) <= set(chosen)
    others = np.setdiff1d(chosen, front)
    counts, _, _ = np.histogram2d(
        cost[others], returns[others], bins=thin.CELLS, range=((0, cost.max()), (0, returns.max()))
    )
    assert counts.max() <= 3  # although 2000 of 2500 lie in one column of twenty
    np.testing.assert_array_equal(chosen, thin.choose(0, cost, returns, 200, None))
    assert set(chosen) != set(thin.choose(1, cost, returns, 200, None))


def test_nothing_above_the_envelope_is_chosen_and_its_reach_is_told():
    cost, returns = np.array([0.0, 10.0, 20.0, 30.0, 99.0]), np.array([5.0, 9.0, 30.0, 17.0, 1.0])
    envelope = ((0.0, 10.0), (40.0, 20.0))
    assert thin.choose(0, cost, returns, 9, envelope).tolist() == [0, 1, 3]
    share, at = thin.reach(cost[[0, 1, 3]], returns[[0, 1, 3]], envelope)
    assert (share, at) == pytest.approx((5.0 / 12.4, 9.6))  # up to 9.6, the envelope allows 10 + 9.6 / 4


@pytest.mark.parametrize("text", ["", "1", "5,1 5,2", "0,nan", "a,b", "10,1 0,2"])
def test_an_envelope_that_is_none_is_refused(text):
    with pytest.raises(ConfigError, match="is no envelope"):
        thin.parse(text)


# Bad input


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"task": "toy-rum"}, "did you mean toy-run"),
        ({"limits": (-1.0,)}, "--limits"),
        ({"limits": ()}, "--limits"),
        ({"steps": 0}, "--steps"),
        ({"episodes": 0}, "--episodes"),
        ({"envelope": "x"}, "--envelope"),
    ],
)
def test_what_cannot_be_collected_is_refused_and_nothing_is_written(tmp_path, change, words):
    with pytest.raises(ConfigError, match=words):
        collect(dataclasses.replace(SMALL, **change), tmp_path / "log.hdf5")
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_exists_and_another_collection_are_not_overwritten(tmp_path):
    out = tmp_path / "log.hdf5"
    out.write_text("mine")
    with pytest.raises(ConfigError, match="--overwrite"):
        collect(SMALL, out)
    assert out.read_text() == "mine"
    other = tmp_path / "other.hdf5"
    assert collect(SMALL, other, stop=lambda: True) is None
    with pytest.raises(ConfigError, match="begun with seed = 0, not 1"):
        collect(dataclasses.replace(SMALL, seed=1), other)
    with pytest.raises(ConfigError, match="no folder"):
        collect(SMALL, tmp_path / "nowhere" / "log.hdf5")
    with pytest.raises(ConfigError, match=r"end in \.hdf5"):
        collect(SMALL, tmp_path / "log.csv")
    with pytest.raises(ConfigError, match="neither"):
        limit_of("few")


def test_an_environment_without_a_time_limit_is_asked_for_one(tmp_path, beside_the_plant):
    with pytest.raises(ConfigError, match="--horizon"):
        collect(dataclasses.replace(SMALL, task="plant:Plant"), tmp_path / "log.hdf5")
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_a_log_and_says_how_to_train_on_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["collect", "--task", "toy-run", "--out", "log.hdf5", "--limits", "5", "none", "--steps", "1600"]
    words += ["--episodes", "20"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "o3srl train --task toy-run --data log.hdf5" in said
    assert "20 of 32 episodes" in said
    assert main(["data", "check", "log.hdf5"]) == 0
    assert main(words) == 2
    assert "--overwrite" in capsys.readouterr().err
