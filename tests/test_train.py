"""The engine, on algorithms small enough to know what they should do."""

import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from o3srl.errors import ConfigError
from o3srl.train import Stretch, make_engine, make_plan, place, remaining, run, train
from o3srl.types import Algorithm, Phase


def growing(factor=1.0, shares=(1.0,), updates=2):
    """State x is multiplied by the lane's factor, and collects one random number per step."""

    def phase(index, share):
        def step(key, state, sample):
            state = {"x": state["x"] * factor, "noise": state["noise"] + sample, "phase": jnp.int32(index)}
            return state, {"x": state["x"]}

        return Phase(lambda key, data: jax.random.normal(key), step, updates, share)

    return Algorithm(
        prepare=lambda data: data,
        init=lambda key, data: {"x": jnp.float32(1.0), "noise": jax.random.normal(key), "phase": jnp.int32(-1)},
        phases=tuple(phase(index, share) for index, share in enumerate(shares)),
        policy=None,
        parameters=lambda state: {"last": state},
    )


def keys(*seeds):
    return jnp.stack([jax.random.PRNGKey(seed) for seed in seeds])


def trained(build, settings, seeds, log, updates=40, chunk=10, **options):
    engine = make_engine(build, settings, place(log), **options)
    phases = build(jax.tree.map(lambda x: x[0], settings)).phases
    return list(run(engine, make_plan(phases, updates, chunk), engine.start(keys(*seeds))))


@pytest.mark.parametrize("vectorize", [True, False])
def test_a_lane_that_leaves_the_finite_numbers_is_frozen_where_it_last_was_finite(log, vectorize):
    factors = jnp.array([1.0, 1e5, 2.0])
    chunks = trained(growing, factors, [0, 1, 2], log, vectorize=vectorize)
    last = chunks[-1].lanes
    # 1e5 per step of 2 updates: 5 steps a chunk, so the second chunk passes 3e38 and is undone.
    np.testing.assert_array_equal(last.frozen_at, [-1, 10, -1])
    np.testing.assert_allclose(last.state["x"], [1.0, 1e25, 2.0**20], rtol=1e-5)
    assert np.isfinite(last.state["noise"]).all()
    # The lane's key stands still with it, the others' go on.
    np.testing.assert_array_equal(last.key[1], chunks[0].lanes.key[1])
    assert not np.array_equal(last.key[0], chunks[0].lanes.key[0])


def test_vectorized_lanes_equal_lanes_one_after_another(log):
    factors = jnp.array([0.5, 1.0, 1.1])
    for one, other in zip(
        trained(growing, factors, [3, 4, 5], log, vectorize=True),
        trained(growing, factors, [3, 4, 5], log, vectorize=False),
        strict=True,
    ):
        np.testing.assert_array_equal(one.lanes.key, other.lanes.key)
        np.testing.assert_allclose(one.lanes.state["noise"], other.lanes.state["noise"], rtol=1e-6)
        np.testing.assert_allclose(one.metrics["x"], other.metrics["x"], rtol=1e-6)


def test_train_refuses_to_return_what_is_not_finite(log):
    with pytest.raises(FloatingPointError, match="after 10 updates"):
        train(keys(0)[0], growing(1e5), log, updates=40, chunk_updates=10)


def test_metrics_are_means_over_the_chunk(log):
    _, metrics = train(keys(0)[0], growing(2.0), log, updates=8, chunk_updates=4)
    np.testing.assert_allclose(metrics["x"], [3.0, 12.0])


def test_phases_share_the_updates(log):
    chunks = trained(lambda _: growing(shares=(0.25, 0.75)), jnp.zeros(1), [0], log)
    assert [int(chunk.lanes.state["phase"][0]) for chunk in chunks] == [0, 1, 1, 1]
    assert [chunk.updates for chunk in chunks] == [10, 20, 30, 40]


def test_going_on_from_the_middle_gives_the_same_bits(log):
    engine = make_engine(lambda _: growing(1.5), jnp.zeros(2), place(log))
    plan = make_plan(growing().phases, 40, 10)
    whole = list(run(engine, plan, engine.start(keys(0, 1))))
    rest = list(run(engine, plan, whole[1].lanes, whole[1].updates))
    assert [chunk.updates for chunk in rest] == [30, 40]
    jax.tree.map(np.testing.assert_array_equal, rest[-1].lanes, whole[-1].lanes)


@pytest.mark.parametrize(
    ("updates", "chunk", "expected"),
    [
        (40, 10, [Stretch(0, 5, 10, 4)]),
        (40, 16, [Stretch(0, 5, 10, 4)]),
        (2, 1000, [Stretch(0, 1, 2, 1)]),
        (2 * 97, 20, [Stretch(0, 10, 20, 9), Stretch(0, 7, 14, 1)]),
    ],
)
def test_plans_divide_into_chunks(updates, chunk, expected):
    plan = make_plan(growing().phases, updates, chunk)
    assert plan == expected
    assert sum(stretch.updates * stretch.chunks for stretch in plan) == updates


@pytest.mark.parametrize(
    ("done", "expected"),
    [
        (0, [Stretch(0, 5, 10, 4), Stretch(1, 3, 6, 2)]),
        (10, [Stretch(0, 5, 10, 3), Stretch(1, 3, 6, 2)]),
        (14, [Stretch(0, 3, 6, 1), Stretch(0, 5, 10, 2), Stretch(1, 3, 6, 2)]),
        (40, [Stretch(1, 3, 6, 2)]),
        (44, [Stretch(1, 1, 2, 1), Stretch(1, 3, 6, 1)]),
        (52, []),
        (60, []),
    ],
)
def test_what_remains_of_a_plan(done, expected):
    plan = [Stretch(0, 5, 10, 4), Stretch(1, 3, 6, 2)]
    assert remaining(plan, done) == expected


@pytest.mark.parametrize(("updates", "fits"), [(41, 42), (1, 2), (0, 2), (-5, 2)])
def test_a_partial_round_is_refused_with_the_next_that_fits(updates, fits):
    with pytest.raises(ConfigError, match=f"--updates {fits}"):
        make_plan(growing().phases, updates)


def test_a_partial_round_over_phases_is_refused_too():
    with pytest.raises(ConfigError, match="--updates 16"):
        make_plan(growing(shares=(0.25, 0.75)).phases, 12)


SHARDED = """
import jax, jax.numpy as jnp, json, numpy as np
from o3srl.train import make_engine, make_plan, place, run
from tests.conftest import walk
from tests.test_train import growing, keys
from o3srl.data import from_arrays
assert len(jax.devices()) == 4
log = from_arrays(walk())
out = {}
for lanes in (8, 6, 5):
    factors = jnp.linspace(0.5, 1.5, lanes)
    engine = make_engine(growing, factors, place(log), vectorize=True)
    chunks = list(run(engine, make_plan(growing().phases, 40, 10), engine.start(keys(*range(lanes)))))
    used = len(chunks[-1].lanes.state["x"].sharding.device_set)
    alone = make_engine(growing, factors, place(log), vectorize=False)
    expected = list(run(alone, make_plan(growing().phases, 40, 10), alone.start(keys(*range(lanes)))))[-1]
    np.testing.assert_allclose(chunks[-1].lanes.state["noise"], expected.lanes.state["noise"], rtol=1e-6)
    np.testing.assert_allclose(chunks[-1].lanes.state["x"], expected.lanes.state["x"], rtol=1e-6)
    out[lanes] = used
print(json.dumps(out))
"""


def test_lanes_shard_over_devices():
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", SHARDED], env={**os.environ, **flags}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {"8": 4, "6": 3, "5": 1}
