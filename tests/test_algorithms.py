"""What every algorithm must do: one table, the same checks for each row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from o3srl import budget, checkpoint, duals, feedback
from o3srl.data import observation_statistics
from o3srl.duals import exponential
from o3srl.game import o3srl
from o3srl.normalize import normalize
from o3srl.oracles import BCConfig, IQLConfig, TD3BCConfig, bc, iql, td3_bc
from o3srl.plain import plain
from o3srl.train import make_engine, make_plan, place, run, train
from o3srl.types import Step

SMALL = {"hidden": (16, 16)}
GRID = duals.adaptive(5.0, 5, 5.0)
OPTIONS = {"batch_size": 16}


def scalar():
    return td3_bc(TD3BCConfig(**SMALL))


def parts():
    return td3_bc(TD3BCConfig(critic="decomposed", **SMALL))


def standardized(log):
    return normalize(o3srl(scalar(), duals.exp3(GRID), limit=5.0, **OPTIONS), *observation_statistics(log))


ALGORITHMS = {
    "o3srl": lambda log: o3srl(scalar(), duals.exp3(GRID), limit=5.0, **OPTIONS),
    "o3srl, M = 1": lambda log: o3srl(scalar(), duals.exp3(GRID), limit=5.0, updates_per_round=1, **OPTIONS),
    "o3srl, M = 3": lambda log: o3srl(scalar(), duals.exp3(GRID), limit=5.0, updates_per_round=3, **OPTIONS),
    "o3srl, iql": lambda log: o3srl(iql(IQLConfig(**SMALL)), duals.exp3(GRID), limit=5.0, **OPTIONS),
    "o3srl, decomposed iql": lambda log: o3srl(
        iql(IQLConfig(critic="decomposed", **SMALL)), duals.hedge(GRID), limit=5.0, **OPTIONS
    ),
    "o3srl, mean hedge": lambda log: o3srl(
        parts(), duals.hedge(GRID, mixer=exponential.mean), feedback.at_initial_states(), limit=5.0,
        allowance=budget.episodic, **OPTIONS,
    ),
    "o3srl, independent exp3": lambda log: o3srl(
        parts(), duals.exp3(GRID, mixer=exponential.independent), limit=5.0, **OPTIONS
    ),
    "o3srl, ogd": lambda log: o3srl(parts(), duals.ogd(), limit=5.0, **OPTIONS),
    "o3srl, ftrl": lambda log: o3srl(parts(), duals.ftrl(), limit=5.0, **OPTIONS),
    "o3srl, pid": lambda log: o3srl(parts(), duals.pid(), limit=5.0, **OPTIONS),
    "o3srl, fixed": lambda log: o3srl(scalar(), duals.fixed(1.0), limit=5.0, **OPTIONS),
    "o3srl, bfloat16": lambda log: o3srl(
        td3_bc(TD3BCConfig(precision="bfloat16", **SMALL)), duals.exp3(GRID), limit=5.0, **OPTIONS
    ),
    "o3srl, fitted evaluation": lambda log: o3srl(
        scalar(), duals.ogd(), feedback.fitted(feedback.FittedConfig(**SMALL)), limit=5.0, **OPTIONS
    ),
    "o3srl, normalized": standardized,
    "td3-bc": lambda log: plain(scalar(), **OPTIONS),
    "iql": lambda log: plain(iql(IQLConfig(**SMALL)), **OPTIONS),
    "bc": lambda log: plain(bc(BCConfig(**SMALL)), **OPTIONS),
}  # fmt: skip


@pytest.fixture(params=list(ALGORITHMS))
def algorithm(request, log):
    return ALGORITHMS[request.param](log)


def trained(algorithm, log, seeds, chunks=2):
    data = place(algorithm.prepare(log))
    engine = make_engine(lambda settings: algorithm, (), data)
    updates = algorithm.phases[0].updates
    plan = make_plan(algorithm.phases, 2 * chunks * updates, 2 * updates)
    keys = jnp.stack([jax.random.key_data(jax.random.key(seed)) for seed in seeds])
    return list(run(engine, plan, engine.start(keys)))


def same(left, right):
    jax.tree.map(np.testing.assert_array_equal, left, right)


def test_conformance(algorithm, log, tmp_path):
    """One pass checks it all, because compiling is what takes the time."""
    chunks = trained(algorithm, log, [7])
    first, last = chunks[0].lanes, chunks[-1].lanes

    # State is arrays only, of a fixed structure, all finite, and something was learned.
    assert all(isinstance(leaf, jax.Array | np.ndarray) for leaf in jax.tree.leaves(last))
    assert jax.tree.structure(first) == jax.tree.structure(last)
    assert int(last.frozen_at[0]) == -1
    parameters = algorithm.parameters(last.state)
    before = jax.tree.leaves(algorithm.parameters(first.state)["last"])
    assert any(not np.array_equal(a, b) for a, b in zip(before, jax.tree.leaves(parameters["last"]), strict=True))
    assert set(parameters) == {"last", "exponential", "uniform"}

    # The same bits again, and beside other lanes.
    same(trained(algorithm, log, [7])[-1].lanes, last)
    among = trained(algorithm, log, [1, 7, 2])[-1].lanes
    same(jax.tree.map(lambda x: x[1:2], among), last)

    # A checkpoint gives back the same bits.
    checkpoint.save(tmp_path / "state.safetensors", last, {"updates": 3})
    restored, facts = checkpoint.restore(tmp_path / "state.safetensors", last)
    assert facts == {"updates": 3}
    same(restored, last)

    # The policy acts within the unit box, for one state and under vmap.
    one = jax.tree.map(lambda x: x[0], parameters["last"])
    key, limit = jax.random.key(0), jnp.array([5.0])
    memory = algorithm.policy.reset(key, one, limit)
    obs = 100.0 * jax.random.normal(key, (32, log.info.obs_dim))

    def act(obs):
        return algorithm.policy.act(key, one, memory, Step(obs, jnp.zeros(()), jnp.zeros(1)))[0]

    actions = jax.vmap(act)(obs)
    assert actions.shape == (32, log.info.action_dim)
    assert np.abs(actions).max() <= 1.0
    np.testing.assert_allclose(act(obs[3]), actions[3], atol=1e-6)


@pytest.mark.parametrize("name", ["o3srl", "o3srl, mean hedge", "td3-bc"])
def test_one_trace(name, log):
    """A second chunk of the same size compiles nothing."""
    algorithm, traces = ALGORITHMS[name](log), []

    def build(settings):
        traces.append(1)
        return algorithm

    engine = make_engine(build, (), place(algorithm.prepare(log)))
    chunks = run(engine, make_plan(algorithm.phases, 60, 20), engine.start(jnp.zeros((2, 2), jnp.uint32)))
    next(chunks)
    after_first = len(traces)
    list(chunks)
    assert len(traces) == after_first


@pytest.mark.parametrize("critic", ["scalar", "decomposed"])
@pytest.mark.parametrize(
    "make", [lambda c: td3_bc(TD3BCConfig(critic=c, **SMALL)), lambda c: iql(IQLConfig(critic=c, **SMALL))]
)
def test_zero_multiplier_is_the_plain_oracle(make, critic, log):
    """With the multiplier at 0 the game's oracle learns what it would alone, whatever its critic keeps besides."""
    key = jax.random.key_data(jax.random.key(3))
    oracle = make(critic)
    game = o3srl(oracle, duals.fixed(0.0), limit=5.0, **OPTIONS)
    alone = plain(oracle, limit=5.0, **OPTIONS)
    data = place(game.prepare(log))
    sample = game.phases[0].sample(key, data)
    state_game, state_alone = game.init(key, data), alone.init(key, data)
    state_alone = state_alone._replace(primal=state_game.primal)
    # The game splits its key for play, learning and value; the oracle alone gets the one for learning.
    key_round = jax.random.split(key, 1)[0]
    key_learn = jax.random.split(key_round, 3)[1]
    new_game, _ = jax.jit(game.phases[0].step)(key, state_game, sample)
    new_alone, _ = jax.jit(alone.phases[0].step)(key_learn, state_alone, sample)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), new_game.primal, new_alone.primal)


def test_train_returns_state_and_metrics(log):
    state, metrics = train(jax.random.PRNGKey(0), ALGORITHMS["o3srl"](log), log, updates=40, chunk_updates=20)
    assert int(state.averages.rounds) == 4
    assert metrics["game/multiplier"].shape == (2, 1)
    assert metrics["dual/probability"].shape == (2, 5)
