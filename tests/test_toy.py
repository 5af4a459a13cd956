"""The built-in tasks: dynamics by hand, costs and terminals, and the logs made from them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from o3srl.envs import Environment, make, names, toy_data
from o3srl.envs.toy import Point
from o3srl.envs.toy_data import COLUMNS, cache_directory, cache_file, logged_arrays, task_data
from o3srl.errors import ConfigError

TASKS = names()


def point(x, y, speed_x, speed_y):
    return Point(jnp.array([x, y], jnp.float32), jnp.array([speed_x, speed_y], jnp.float32))


def episode_sums(arrays):
    ends = np.flatnonzero(arrays["terminals"] | arrays["timeouts"])
    starts = np.r_[0, ends[:-1] + 1]
    lengths = ends - starts + 1
    return np.add.reduceat(arrays["rewards"], starts), np.add.reduceat(arrays["costs"], starts), lengths


def test_run_by_hand():
    # v' = (1, 0.5) + 0.1 (3 (1, -0.5) - (1, 0.5)) = (1.2, 0.3); p' = (0, 0.2) + 0.1 v'
    new, reward, cost, terminal = make("toy-run").step(point(0, 0.2, 1, 0.5), jnp.array([1.0, -0.5]))
    np.testing.assert_allclose(new.velocity, [1.2, 0.3], rtol=1e-6)
    np.testing.assert_allclose(new.position, [0.12, 0.23], rtol=1e-6)
    np.testing.assert_allclose(reward, 0.12 - 0.08 * 1.25, rtol=1e-5)
    assert cost.tolist() == [0.0]
    assert float(terminal) == 0.0
    np.testing.assert_allclose(make("toy-run").observe(new), [0.23, 1.2, 0.3], rtol=1e-6)


def test_circle_by_hand():
    # v' = (0, 2) + 0.1 (4 (-1, 0.25) - (0, 2)) = (-0.4, 1.9); p' = (1, 0) + 0.1 v' = (0.96, 0.19)
    new, reward, cost, _ = make("toy-circle").step(point(1, 0, 0, 2), jnp.array([-1.0, 0.25]))
    np.testing.assert_allclose(new.velocity, [-0.4, 1.9], rtol=1e-6)
    np.testing.assert_allclose(new.position, [0.96, 0.19], rtol=1e-6)
    momentum = 0.96 * 1.9 + 0.19 * 0.4
    np.testing.assert_allclose(reward, momentum / (1 + abs(np.hypot(0.96, 0.19) - 2)), rtol=1e-5)
    assert cost.tolist() == [0.0]


def test_hover_by_hand():
    # half the force balances gravity: only drag acts; p' = (0.5, 1) + 0.1 (0, 0.9)
    new, reward, cost, terminal = make("toy-hover").step(point(0.5, 1, 0, 1), jnp.array([0.0, 0.5]))
    np.testing.assert_allclose(new.velocity, [0.0, 0.9], atol=1e-6)
    np.testing.assert_allclose(new.position, [0.5, 1.09], rtol=1e-6)
    np.testing.assert_allclose(reward, (1 - (1.09 / 2 - 1) ** 2) / 1.5, rtol=1e-5)
    assert cost.tolist() == [0.0]
    assert float(terminal) == 0.0


@pytest.mark.parametrize(
    ("task", "start", "expected"),
    [
        ("toy-run", (0, 0, 2.3, 0), 1.0),  # too fast after the step's drag
        ("toy-run", (0, 0, 2.1, 0), 0.0),
        ("toy-run", (0, 0, 1.6, -1.6), 1.0),  # the limit is on the whole speed
        ("toy-run", (0, 1.01, 0, 0), 1.0),
        ("toy-run", (0, -1.01, 0, 0), 1.0),
        ("toy-circle", (1.51, 0, 0, 0), 1.0),
        ("toy-circle", (-1.51, 0, 0, 0), 1.0),
        ("toy-circle", (1.49, 3, 0, 0), 0.0),
        ("toy-hover", (0, 1.3, 0, 0), 1.0),
        ("toy-hover", (0, 1.1, 0, 0), 0.0),
    ],
)
def test_cost_of_where_the_step_leads(task, start, expected):
    _, _, cost, terminal = make(task).step(point(*start), jnp.zeros(2))
    assert cost.tolist() == [expected]
    assert float(terminal) == 0.0


def test_only_the_ground_is_terminal():
    assert float(make("toy-hover").step(point(0, 0.05, 0, -1), jnp.zeros(2))[3]) == 1.0
    for task in ("toy-run", "toy-circle"):
        assert float(make(task).step(point(0, -5, 0, -1), jnp.zeros(2))[3]) == 0.0


def test_actions_are_clipped_to_the_box():
    for task in TASKS:
        step, start = make(task).step, point(0, 1, 0, 0)
        for inside, outside in zip(
            step(start, jnp.array([1.0, -1.0])), step(start, jnp.array([7.0, -3.0])), strict=True
        ):
            jax.tree.map(np.testing.assert_array_equal, inside, outside)


@pytest.mark.parametrize("task", TASKS)
def test_resets_differ_and_stay_in_bounds(task):
    environment = make(task)
    starts = jax.vmap(environment.reset)(jax.random.split(jax.random.key(0), 200))
    assert float(jnp.abs(starts.velocity).max()) <= 0.2
    center = jnp.array([0.0, 0.7 if task == "toy-hover" else 0.0])
    assert float(jnp.abs(starts.position - center).max()) <= 0.4
    assert len(np.unique(starts.velocity, axis=0)) == 200
    _, _, cost, terminal = jax.vmap(lambda start: environment.step(start, jnp.zeros(2)))(starts)
    assert float(cost.max()) == float(terminal.max()) == 0.0


def test_records():
    for task in TASKS:
        environment = make(task)
        assert isinstance(environment, Environment)
        assert environment is make(task)  # so that nothing is compiled twice
        assert environment.observe(environment.reset(jax.random.key(0))).shape == (environment.obs_dim,)


def test_unknown_task_names_the_nearest():
    with pytest.raises(ConfigError, match=r"'toy-cirlce'.*did you mean toy-circle\?.*toy-run, toy-circle, toy-hover"):
        make("toy-cirlce")
    with pytest.raises(ConfigError, match=r"'zzz' here\. Known"):
        make("zzz")


@pytest.mark.parametrize("task", TASKS)
def test_log_format(task):
    arrays, environment = logged_arrays(task), make(task)
    assert tuple(arrays) == COLUMNS
    rows = len(arrays["rewards"])
    assert arrays["observations"].shape == arrays["next_observations"].shape == (rows, environment.obs_dim)
    assert arrays["actions"].shape == (rows, environment.action_dim)
    assert {arrays[name].dtype for name in COLUMNS[:5]} == {np.dtype(np.float32)}
    assert arrays["terminals"].dtype == arrays["timeouts"].dtype == np.dtype(bool)
    assert np.abs(arrays["actions"]).max() == 1.0
    assert set(np.unique(arrays["costs"])) == {0.0, 1.0}
    assert all(np.isfinite(column).all() for column in arrays.values())

    _, _, lengths = episode_sums(arrays)
    ends = np.cumsum(lengths) - 1
    assert len(lengths) == 600
    assert lengths.sum() == rows
    assert (lengths[arrays["timeouts"][ends]] == environment.horizon).all()
    assert not (arrays["terminals"] & arrays["timeouts"]).any()
    assert (arrays["terminals"].sum() > 20) == (task == "toy-hover")
    inside = np.setdiff1d(np.arange(rows), ends)
    np.testing.assert_array_equal(arrays["next_observations"][inside], arrays["observations"][inside + 1])


@pytest.mark.parametrize("task", TASKS)
def test_log_tempts_and_shows_a_way_out(task):
    returns, costs, _ = episode_sums(logged_arrays(task))
    safe = np.sort(returns[costs <= 5])[::-1]
    boldest = returns > np.quantile(returns, 0.95)
    assert len(safe) >= 200
    assert safe[0] >= 0.6 * returns.max()
    assert safe[20] >= 0.85 * safe[0]  # the best is no lucky outlier
    assert costs[boldest].mean() >= 15
    assert returns[boldest].min() >= 1.1 * safe[0]


def test_log_is_deterministic_in_its_seed():
    first, again, other = (toy_data._generate("toy-hover", seed) for seed in (0, 0, 1))
    for name in COLUMNS:
        np.testing.assert_array_equal(first[name], again[name])
    assert not np.array_equal(first["rewards"], other["rewards"])


def test_task_data_is_the_log():
    data, (returns, costs, lengths) = task_data("toy-hover"), episode_sums(logged_arrays("toy-hover"))
    assert (data.info.task, data.info.horizon, data.info.costs, data.info.findings) == ("toy-hover", 100, 1, ())
    np.testing.assert_allclose(data.episodes.returns, returns, rtol=1e-5)
    np.testing.assert_array_equal(data.episodes.costs[:, 0], costs)
    np.testing.assert_array_equal(data.episodes.length, lengths)


@pytest.fixture
def counted(monkeypatch, tmp_path):
    """A fresh cache and a log of one row that counts how often it is made."""
    made = []

    def generate(task, seed):
        made.append(seed)
        return {name: np.full(1, seed, np.float32) for name in COLUMNS}

    monkeypatch.setenv("O3SRL_CACHE", str(tmp_path / "deep" / "cache"))
    monkeypatch.setattr(toy_data, "_generate", generate)
    return made


def test_cache_is_read_and_whole(counted):
    first, second = logged_arrays("toy-run"), logged_arrays("toy-run")
    assert counted == [0]
    assert tuple(first) == tuple(second) == COLUMNS
    assert [path.name for path in cache_directory().iterdir()] == [cache_file("toy-run", 0).name]
    assert logged_arrays("toy-run", seed=1)["rewards"] == [1.0]


@pytest.mark.parametrize("damage", ["cut", "empty", "garbage", "flipped", "column"])
def test_damaged_cache_is_made_again(counted, damage):
    logged_arrays("toy-run")
    path = cache_file("toy-run", 0)
    content = path.read_bytes()
    flipped = content.replace(np.zeros(1, np.float32).tobytes() + b"PK", b"\x01\x02\x03\x04PK", 1)
    assert flipped != content
    texts = {"cut": content[: len(content) // 2], "empty": b"", "garbage": b"not a log", "flipped": flipped}
    if damage == "column":
        np.savez(path, observations=np.zeros(1))
    else:
        path.write_bytes(texts[damage])
    assert tuple(logged_arrays("toy-run")) == COLUMNS
    assert counted == [0, 0]
    logged_arrays("toy-run")
    assert counted == [0, 0]


def test_failed_write_leaves_nothing(counted, monkeypatch):
    def fail(*_):
        raise OSError("no space")

    monkeypatch.setattr("os.replace", fail)
    assert tuple(logged_arrays("toy-run")) == COLUMNS  # the log is there, only not kept
    assert list(cache_directory().iterdir()) == []


def test_cache_name_follows_the_code(monkeypatch):
    before = cache_file("toy-run", 0).name
    monkeypatch.setattr(toy_data.inspect, "getsource", lambda module: "changed")
    assert cache_file("toy-run", 0).name != before


def test_cache_directory(monkeypatch, tmp_path):
    monkeypatch.delenv("O3SRL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "o3srl"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == tmp_path / ".cache" / "o3srl"
