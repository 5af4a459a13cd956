"""Simulators in processes: what they yield equals a plain loop, on nothing but the seed; and they never stay behind."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import psutil
import pytest

from o3srl.envs import gym, interpreters
from o3srl.envs.gym import Settings, episode_seeds, simulate
from o3srl.envs.pool import Pool
from o3srl.envs.tasks import find
from o3srl.errors import ConfigError, SimulatorError
from o3srl.policy import in_box
from o3srl.train import raw_key
from o3srl.types import Info, Step
from tests import plant
from tests.test_evaluate import SEESAW

HERE = Path(__file__).resolve().parent
LANES, EPISODES = 3, 7
LIMITS = np.array([[5.0], [1.0], [20.0]], np.float32)
WEIGHTS = 0.5 * jax.random.normal(jax.random.key(0), (LANES, plant.ACTION, plant.OBS))


def facts(costs=1, **more):
    box = plant.Plant.action_space
    known = {"horizon": 10, "action_low": tuple(box.low.tolist()), "action_high": tuple(box.high.tolist()), **more}
    return Info(plant.OBS, plant.ACTION, costs, task=None, source="none", sha256="", **known)


@pytest.fixture(autouse=True)
def beside_the_plant(monkeypatch):
    """Where plant.py lies, its simulator is found; and no interpreter of the user's own is asked."""
    monkeypatch.chdir(HERE)
    monkeypatch.delenv(interpreters.VARIABLE, raising=False)


@pytest.fixture(autouse=True)
def nobody_stays():
    """Every test leaves as many processes as it found."""
    yield
    assert [child for child in psutil.Process().children() if "worker.py" in " ".join(child.cmdline())] == []


def play(task="plant:Plant", weights=WEIGHTS, limits=LIMITS, info=None, episodes=EPISODES, **settings):
    return simulate(SEESAW, weights, limits, find(task), info or facts(), episodes, Settings(**settings))


def plain_loop(weights, limit, seed, number, horizon=10):
    """One episode by the plainest means."""
    environment = plant.Plant()
    act = jax.jit(SEESAW.act)
    key_memory, key_act = jax.random.split(jax.random.fold_in(raw_key(seed), number))
    own = int(episode_seeds(seed, number + 1)[number])
    random.seed(own)
    np.random.seed(own)  # noqa: NPY002
    obs, _ = environment.reset(seed=own)
    memory, step = SEESAW.reset(key_memory, weights, limit), Step(jnp.asarray(obs), jnp.float32(0.0), jnp.zeros(1))
    returns, costs = 0.0, 0.0
    for count in range(horizon):
        action, memory = act(jax.random.fold_in(key_act, count), weights, memory, step)
        moved = in_box(action, environment.action_space.low, environment.action_space.high).astype(np.float32)
        obs, reward, terminal, truncated, info = environment.step(moved)
        returns, costs = returns + reward, costs + info["cost"]
        if terminal or truncated:
            break
        step = Step(jnp.asarray(obs, jnp.float32), jnp.float32(reward), jnp.asarray([info["cost"]], jnp.float32))
    return returns, costs, count + 1


def test_outcome_equals_a_plain_loop_episode_by_episode():
    """Memory, limit, last reward and cost reach the policy; the box is the environment's; episodes end as they do."""
    outcome = play(seed=4)
    assert (outcome.returns.shape, outcome.costs.shape) == ((LANES, EPISODES), (LANES, EPISODES, 1))
    for lane in range(LANES):
        for number in range(EPISODES):
            returns, costs, length = plain_loop(WEIGHTS[lane], jnp.asarray(LIMITS[lane]), 4, number)
            np.testing.assert_allclose(outcome.returns[lane, number], returns, rtol=1e-4, atol=1e-4)
            assert outcome.costs[lane, number, 0] == costs
            assert outcome.lengths[lane, number] == length
    assert len(np.unique(outcome.lengths)) > 3
    assert outcome.lengths.max() == 10  # the log's horizon, where the environment would have gone on


def test_equal_seeds_give_equal_bits_whoever_does_the_work():
    once = play()
    for processes in (1, 2, 4):
        for one, other in zip(once, play(processes=processes), strict=True):
            np.testing.assert_array_equal(one, other)
    assert not np.array_equal(once.returns, play(seed=1).returns)


def test_an_episode_is_the_same_beside_any_number_of_others():
    whole = play()
    np.testing.assert_allclose(whole.returns, play(environments=1).returns, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(whole.returns[:, :2], play(episodes=2).returns, rtol=1e-4, atol=1e-4)
    alone = play(weights=WEIGHTS[1:2], limits=LIMITS[1:2])
    np.testing.assert_allclose(whole.returns[1:2], alone.returns, rtol=1e-4, atol=1e-4)


def test_six_entries_or_printing_make_no_difference():
    once = play(episodes=3)
    for task in ("plant:Six", "plant:Chatty"):
        np.testing.assert_array_equal(once.returns, play(task, episodes=3).returns)
        np.testing.assert_array_equal(once.costs, play(task, episodes=3).costs)


def test_two_costs():
    limits = np.array([[5.0, 1.0]] * LANES, np.float32)
    outcome = play("plant:Two", info=facts(costs=2), limits=limits)
    assert outcome.costs.shape == (LANES, EPISODES, 2)
    assert (outcome.costs.max((0, 1)) > 0).all()


FAULTS = {
    "plant:crashing": ["died by SIGABRT", "in step"],
    "plant:leaving": ["died with exit code 3", "out of fuel"],
    "plant:complaining": ["ValueError: the valve is stuck"],
    "plant:hanging": ["has not answered for 2 s", "in hang"],
    "plant:Silent": ['info["cost"]'],
    "plant:Two": ["2 cost(s), but the log has 1"],
    "plant:Old": ["(obs, info)"],
    "plant:Foggy": ["not finite"],
    "plant:Grid": ["a box with one axis"],
    "plant:Plnt": ["no function 'Plnt'"],
    "plant:OBS": ["no function 'OBS'"],
}


@pytest.mark.parametrize("task", list(FAULTS))
def test_a_fault_is_told_with_task_and_seed_at_once(task):
    began = time.monotonic()
    with pytest.raises(SimulatorError) as error:
        play(task, patience=2.0 if task == "plant:hanging" else 20.0, processes=2)
    assert time.monotonic() - began < 20.0
    said = str(error.value)
    assert "\n" not in said
    for part in (f"The simulator of {task} ", *FAULTS[task]):
        assert part in said
    assert any(f"seed {seed}." in said for seed in episode_seeds(0, EPISODES))


def test_the_faulty_episode_is_the_one_that_is_named():
    seeds = [11, 22, 33]
    with Pool(find("plant:complaining"), 1, seeds, processes=1) as pool:
        act = np.full((3, 2), 1.0)
        pool.tick(np.array([2, 2, 2], np.uint8), np.asarray(seeds, np.uint32), act)
        pool.tick(np.array([1, 0, 1], np.uint8), np.asarray(seeds, np.uint32), act)
        pool.tick(np.array([0, 1, 0], np.uint8), np.asarray(seeds, np.uint32), act)
        with pytest.raises(SimulatorError, match=r"seed 22\."):
            pool.tick(np.array([0, 1, 0], np.uint8), np.asarray(seeds, np.uint32), act)


def test_slow_is_not_hanging():
    """Patience is for one operation, not for all that a process has to do in a tick."""
    count, patience = 8, 1.5
    with Pool(find("plant:Slow"), 1, [1] * count, processes=1, patience=patience) as pool:
        began = time.monotonic()
        pool.tick(np.full(count, 2, np.uint8), np.ones(count, np.uint32), np.ones((count, 2)))
        assert time.monotonic() - began > patience


def test_a_process_that_stands_still_is_ended_too():
    with Pool(find("plant:Plant"), 1, [1], processes=1, patience=0.5) as pool:
        pool._processes[0].popen.send_signal(signal.SIGSTOP)
        with pytest.raises(SimulatorError, match=r"has not answered for 0\.5 s"):
            pool.tick(np.full(1, 2, np.uint8), np.ones(1, np.uint32), np.ones((1, 2)))


ORPHAN = """
import numpy as np
from o3srl.envs.pool import Pool
from o3srl.envs.tasks import find
pool = Pool(find("plant:hanging"), 1, [1, 2], processes=2)
print(*(process.popen.pid for process in pool._processes), flush=True)
for todo in (2, 1, 1):
    pool.tick(np.full(2, todo, np.uint8), np.ones(2, np.uint32), np.ones((2, 2)))
"""


def test_simulators_that_hang_end_with_the_one_who_asked():
    process = subprocess.Popen([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    children = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
    time.sleep(1.0)  # by now they hang
    assert len(children) == 2
    assert all(child.is_running() for child in children)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    gone, alive = psutil.wait_procs(children, timeout=10.0)
    assert (len(gone), alive) == (2, [])


def test_an_interruption_ends_them_too(monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(gym._Board, "note", interrupted)
    with pytest.raises(KeyboardInterrupt):
        play("plant:hanging")


@pytest.mark.parametrize(
    ("info", "said"),
    [
        (
            {"action_low": (-1.0, -1.0), "action_high": (1.0, 1.0)},
            r"\[-1, -1\] to \[1, 1\], leaves .* \[0, -2\] to \[4, 2\]",
        ),
        ({"obs_dim": 4}, "4 observation and 2 action"),
    ],
)
def test_a_run_of_another_task_is_refused(info, said):
    wrong = facts()
    wrong = type(wrong)(**{**{name: getattr(wrong, name) for name in wrong.__dataclass_fields__}, **info})
    with pytest.raises(SimulatorError, match=said):
        play(info=wrong)


def test_missing_simulators_are_told_with_what_installs_them(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(interpreters, "find", lambda name: None)
    with pytest.raises(
        SimulatorError, match=r"AntVelocity.*safety_gymnasium.*make simulators.*--override .*overrides.txt"
    ):
        interpreters.interpreter(find("AntVelocity"))
    brings = "pip install 'o3srl\\[bullet\\]'" if sys.version_info < (3, 12) else "uv venv --python 3.11"
    with pytest.raises(SimulatorError, match=brings):
        interpreters.interpreter(find("BallRun"))
    with pytest.raises(SimulatorError, match=r"wher?e plant\.py lies"):
        interpreters.interpreter(find("plant:make"))


def test_which_interpreter(monkeypatch, tmp_path):
    assert interpreters.find("plant") == sys.executable
    monkeypatch.chdir(tmp_path)
    assert interpreters.find("plant") is None
    python = tmp_path / ".simulators" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    (tmp_path / "plant.py").write_text("")
    monkeypatch.setattr(interpreters, "_imports", lambda name: False)
    assert interpreters.find("plant") == str(python)
    assert interpreters.find("no_such_module") is None
    monkeypatch.setenv(interpreters.VARIABLE, sys.executable)
    assert interpreters.find("plant") == sys.executable
    monkeypatch.setenv(interpreters.VARIABLE, str(tmp_path / "absent"))
    with pytest.raises(SimulatorError, match="no such file"):
        interpreters.find("plant")


def test_the_files_that_install_simulators_are_where_the_command_says():
    words = interpreters.command().split()
    for flag in ("--override", "-r"):
        assert os.path.exists(words[words.index(flag) + 1])


def test_names():
    with pytest.raises(ConfigError, match="did you mean BallRun"):
        find("BalRun")
    assert find("SafetyAntRun-v0") is find("AntRun")
