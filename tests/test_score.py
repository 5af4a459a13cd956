"""Normalized scores against numbers computed by hand, and the built-in constants against the logs."""

import numpy as np
import pytest

from o3srl.envs import names
from o3srl.envs.score import CONSTANTS, normalized_cost, normalized_reward
from o3srl.envs.toy_data import task_data
from o3srl.errors import ConfigError


def test_reward():
    assert normalized_reward(350.0, "BallRun") == pytest.approx(0.2488, abs=5e-5)
    np.testing.assert_allclose(normalized_reward([204.28726196289062, 574.6533203125], "CarRun"), [0.0, 1.0])
    assert normalized_reward(2000.0, "BallRun") > 1.0  # not clipped
    np.testing.assert_allclose(
        normalized_reward(np.array([100.0, 300.0]), "BallRun").mean(), normalized_reward(200.0, "BallRun")
    )


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
        normalized_reward(0.0, "ballrun")


@pytest.mark.parametrize("task", names())
def test_built_in_constants_are_those_of_the_log(task):
    returns = np.asarray(task_data(task).episodes.returns)
    np.testing.assert_allclose(normalized_reward([returns.min(), returns.max()], task), [0.0, 1.0], atol=1e-3)


def test_constants_are_ordered():
    assert len(CONSTANTS) == len(names()) + 15
    assert all(low < high for low, high in CONSTANTS.values())
