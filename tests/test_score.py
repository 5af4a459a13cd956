"""Normalized scores against numbers computed by hand, and the built-in constants against the logs."""

import numpy as np
import pytest

from o3srl.envs import names
from o3srl.envs.score import log_constants, normalized_cost, normalized_reward
from o3srl.envs.tasks import BULLET, SAFETY_GYMNASIUM, TASKS, Constants, find
from o3srl.envs.toy_data import task_data
from o3srl.errors import ConfigError


def constants(task):
    return TASKS[task].constants


def test_reward():
    ball = constants("BallRun")
    assert normalized_reward(350.0, ball) == pytest.approx(0.2488, abs=5e-5)
    scores = normalized_reward([204.28726196289062, 574.6533203125], constants("CarRun"))
    np.testing.assert_allclose(scores, [0.0, 1.0])
    assert normalized_reward(2000.0, ball) > 1.0  # not clipped
    np.testing.assert_allclose(normalized_reward(np.array([100.0, 300.0]), ball).mean(), normalized_reward(200.0, ball))


def test_reward_of_a_task_that_dsrl_does_not_list():
    assert log_constants([4.0, -1.0, 2.0]) == Constants(-1.0, 4.0)
    np.testing.assert_allclose(normalized_reward([-1.0, 4.0], log_constants([4.0, -1.0, 2.0])), [0.0, 1.0])
    assert normalized_reward(5.0, log_constants([3.0, 3.0])) == 2.0  # one return: nothing to divide by


@pytest.mark.parametrize(
    ("cost", "limit", "expected"),
    [
        ([3.0], [5.0], 0.6),
        ([3.0], [0.0], 4.0),
        ([0.0], [0.0], 1.0),
        ([3.0, 8.0], [5.0, 10.0], 0.8),
        ([3.0, 0.0], [5.0, 0.0], 1.0),
        ([[5.0], [10.0]], [5.0], [1.0, 2.0]),
    ],
)
def test_cost(cost, limit, expected):
    np.testing.assert_allclose(normalized_cost(cost, limit), expected)


def test_unknown_task_names_the_nearest():
    with pytest.raises(ConfigError, match="did you mean BallRun"):
        find("ballrun")


@pytest.mark.parametrize("task", names())
def test_built_in_constants_are_those_of_the_log(task):
    returns = np.asarray(task_data(task).episodes.returns)
    np.testing.assert_allclose(
        normalized_reward([returns.min(), returns.max()], constants(task)), [0.0, 1.0], atol=1e-3
    )


def test_every_task_of_dsrl_in_both_simulators_is_listed():
    of = {suite: {name for name, task in TASKS.items() if task.suite == suite} for suite in (BULLET, SAFETY_GYMNASIUM)}
    assert of[BULLET] == {f"{agent}{task}" for agent in ("Ball", "Car", "Drone", "Ant") for task in ("Run", "Circle")}
    navigation = {
        f"{agent}{task}{level}"
        for agent in ("Point", "Car")
        for task in ("Circle", "Goal", "Button", "Push")
        for level in (1, 2)
    }
    velocity = {f"{agent}Velocity" for agent in ("Ant", "HalfCheetah", "Hopper", "Swimmer", "Walker2d")}
    assert of[SAFETY_GYMNASIUM] == navigation | velocity
    assert all(task.constants.min_return < task.constants.max_return for task in TASKS.values())
    assert TASKS["CarCircle"].environment == "SafetyCarCircle-v0"
    assert TASKS["HopperVelocity"].environment == "SafetyHopperVelocity-v1"


@pytest.mark.parametrize("name", ["plant:make", "lab.plant:make", "plant:Plant-v0", "CartPole-v1"])
def test_a_task_of_ones_own_is_named_as_gymnasium_does(name):
    task = find(name)
    assert (task.suite, task.environment, task.sizes, task.constants) == ("own", name, None, None)
