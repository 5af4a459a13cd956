"""The game: rounds as the paper has them, what cannot work together, units, several costs, averages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from o3srl import budget, duals, feedback, rounds
from o3srl.data import from_arrays, scale_costs
from o3srl.duals import exponential
from o3srl.errors import ConfigError
from o3srl.game import o3srl
from o3srl.oracles import TD3BCConfig, bc, td3_bc
from o3srl.train import train
from o3srl.types import Objective, Oracle, Transition, Value
from tests.conftest import walk

SMALL = {"hidden": (16, 16)}
SCALAR, PARTS = TD3BCConfig(**SMALL), TD3BCConfig(critic="decomposed", **SMALL)
GRID = duals.adaptive(5.0, 5, 5.0)
KEY = jax.random.PRNGKey(0)


def recorder(turns):
    """An oracle that learns nothing: its state counts updates and remembers the positions in the cycle."""

    def update(position):
        def step(key, state, batch, objective):
            trail = state["trail"].at[state["count"]].set(position)
            return {**state, "trail": trail, "count": state["count"] + 1, "last": objective.multiplier}, {}

        return step

    return Oracle(
        init=lambda key, example: {
            "trail": jnp.full(64, -1), "count": jnp.int32(0), "last": jnp.zeros(1), "p": jnp.zeros(2)
        },
        cycle=tuple(update(position) for position in range(turns)),
        value=lambda key, state, obs, objective: Value(100.0 + objective.multiplier[0], -objective.multiplier),
        parameters=lambda state: state["p"],
        policy=None,
        discount=0.99,
        parts=True,
    )  # fmt: skip


@pytest.mark.parametrize("turns", [1, 2, 3])
@pytest.mark.parametrize("updates_per_round", [1, 2, 3, 10])
def test_every_update_takes_its_turn(turns, updates_per_round, log):
    algorithm = o3srl(recorder(turns), duals.exp3(GRID), limit=5.0, updates_per_round=updates_per_round, batch_size=4)
    step = algorithm.phases[0]
    assert step.updates % turns == 0
    assert step.updates % updates_per_round == 0
    state, _ = train(KEY, algorithm, log, updates=step.updates * 2, chunk_updates=1)
    trail = state.primal["trail"][: step.updates * 2]
    np.testing.assert_array_equal(trail, np.arange(step.updates * 2) % turns)
    assert int(state.primal["count"]) == step.updates * 2
    assert int(state.averages.rounds) == step.updates * 2 // updates_per_round


def test_a_round_is_charged_in_units_of_a_step(log):
    """The value is divided by H = 100 before the dual hears it; the charged multiplier is the one valued."""
    algorithm = o3srl(recorder(1), duals.fixed(2.0), limit=5.0, batch_size=4)
    _, metrics = train(KEY, algorithm, log, updates=10)
    np.testing.assert_allclose(metrics["game/lagrangian"], 1.02, rtol=1e-6)
    np.testing.assert_allclose(metrics["game/violation"], -0.02, rtol=1e-6)


def test_independent_charge_answers_the_mean_and_values_the_drawn_arm(log):
    dual = duals.exp3(np.array([0.0, 4.0]), rate=0.0, mixer=exponential.independent)
    algorithm = o3srl(recorder(1), dual, limit=5.0, batch_size=4)
    state, metrics = train(KEY, algorithm, log, updates=200, chunk_updates=10)
    np.testing.assert_allclose(state.primal["last"], 2.0)
    assert set(np.round(metrics["game/lagrangian"], 4)) == {1.0, np.float32(1.04)}


def test_allowances():
    assert budget.discounted(5.0, 0.99, 200) == pytest.approx(0.05)
    assert budget.episodic(5.0, 0.99, 200) == pytest.approx(0.025)
    assert budget.discounted_threshold(10.0, 0.99, 300) == pytest.approx(3.1699, abs=1e-4)
    assert budget.discounted_threshold(7.0, 0.99, 1) == pytest.approx(7.0)


@pytest.mark.parametrize(("allowance", "expected"), [(budget.discounted, 0.05), (budget.episodic, 0.25)])
def test_the_limit_becomes_an_allowance_of_the_logged_horizon(allowance, expected, log):
    algorithm = o3srl(td3_bc(SCALAR), duals.exp3(GRID), limit=5.0, allowance=allowance)
    data = algorithm.prepare(log)
    np.testing.assert_allclose(algorithm.init(KEY, data).allowance, [expected], rtol=1e-6)
    # Scaled costs scale the allowance with them.
    np.testing.assert_allclose(algorithm.init(KEY, scale_costs(data, 4.0)).allowance, [4 * expected], rtol=1e-6)


def test_multiplier_and_violation_are_reported_in_logged_units(log):
    plain_log = o3srl(recorder(1), duals.fixed(2.0), limit=5.0, prepare=lambda data: data, batch_size=4)
    scaled = o3srl(recorder(1), duals.fixed(2.0), limit=5.0, prepare=lambda data: scale_costs(data, 4.0), batch_size=4)
    _, logged = train(KEY, plain_log, log, updates=10)
    _, quarter = train(KEY, scaled, log, updates=10)
    np.testing.assert_allclose(quarter["game/multiplier"], 4 * logged["game/multiplier"])
    np.testing.assert_allclose(quarter["game/violation"], logged["game/violation"] / 4)


def test_the_objective_is_linear_in_its_parts():
    batch = Transition(*(jnp.zeros(()),) * 8)._replace(
        reward=jnp.array([1.0, 2.0]), cost=jnp.array([[0.0, 1.0], [3.0, 0.0]])
    )
    objective = Objective(jnp.array([2.0, 0.5]), jnp.array([0.1, 0.2]))
    expected = [1.0 - 2.0 * (0.0 - 0.1) - 0.5 * (1.0 - 0.2), 2.0 - 2.0 * (3.0 - 0.1) - 0.5 * (0.0 - 0.2)]
    np.testing.assert_allclose(objective.reward(batch), expected, rtol=1e-6)
    np.testing.assert_allclose(objective.parts(batch) @ objective.weights, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "dual",
    [duals.hedge(GRID), duals.ogd(), duals.ftrl(), duals.pid(), duals.exp3(GRID, mixer=exponential.independent)],
)
def test_a_dual_that_needs_the_parts_is_refused_to_a_scalar_critic(dual):
    with pytest.raises(ConfigError, match="decomposed"):
        o3srl(td3_bc(SCALAR), dual, limit=5.0)
    o3srl(td3_bc(PARTS), dual, limit=5.0)


def test_an_oracle_without_a_critic_is_refused():
    with pytest.raises(ConfigError, match="plain"):
        o3srl(bc(), duals.exp3(GRID), limit=5.0)


def test_costs_and_multipliers_must_be_as_many(log, log_two_costs):
    algorithm = o3srl(td3_bc(SCALAR), duals.exp3(GRID), limit=5.0)
    with pytest.raises(ConfigError, match=r"2 cost\(s\)"):
        algorithm.init(KEY, log_two_costs)


@pytest.mark.parametrize(
    ("config", "dual"),
    [
        (SCALAR, duals.exp3(duals.joint([GRID, GRID]))),
        (PARTS, duals.hedge(np.stack([GRID, GRID]), mixer=exponential.mean)),
        (PARTS, duals.ogd(costs=2)),
        (SCALAR, duals.fixed(1.0, costs=2)),
    ],
)
def test_two_costs_train(config, dual, log_two_costs):
    algorithm = o3srl(td3_bc(config), dual, limit=jnp.array([5.0, 2.0]), batch_size=16)
    state, metrics = train(KEY, algorithm, log_two_costs, updates=40)
    assert metrics["game/multiplier"].shape == (1, 2)
    np.testing.assert_allclose(state.allowance, [0.05, 0.02], rtol=1e-6)


def test_averages_are_what_they_say(log):
    parameters = [jnp.float32(value) for value in (1.0, 4.0, 1.0)]
    averages = rounds.start_averages(jnp.float32(0.0), jnp.zeros(1))
    for value in parameters:
        averages = rounds.update_averages(averages, value, jnp.array([value]), 0.5)
    assert float(averages.uniform) == pytest.approx(2.0)
    assert float(averages.exponential) == pytest.approx(0.125 * 1.0 + 0.25 * 4.0 + 0.5 * 1.0)
    assert float(averages.multiplier[0]) == pytest.approx(2.0)


def test_feedback_reads_the_states_it_says(log):
    seen = {}

    def value(key, state, obs, objective):
        seen["obs"] = obs
        return Value(jnp.float32(0.0), None)

    oracle = recorder(1)._replace(value=value, parts=False)
    sample = rounds.draw(KEY, log, updates=3, batch_size=5)
    objective = Objective(jnp.zeros(1), jnp.zeros(1))
    feedback.at_batch_states().reveal(KEY, (), oracle, (), sample, objective)
    np.testing.assert_array_equal(seen["obs"], sample.batches.obs[-1])
    feedback.at_initial_states().reveal(KEY, (), oracle, (), sample, objective)
    np.testing.assert_array_equal(seen["obs"], sample.initial)


def probe(episodes=400):
    """One step, two kinds of action: a[0] > 0 earns 1 and costs 1, else nothing happens."""
    rng = np.random.default_rng(0)
    arrays = {name: value[:episodes] for name, value in walk(episodes=1, length=episodes).items()}
    bold = rng.uniform(size=episodes) < 0.5
    arrays["actions"] = np.stack([np.where(bold, 0.5, -0.5), np.zeros(episodes)], 1).astype(np.float32)
    arrays["rewards"] = arrays["costs"] = bold.astype(np.float32)
    arrays["terminals"], arrays["timeouts"] = np.ones(episodes, bool), np.zeros(episodes, bool)
    return from_arrays(arrays)


@pytest.mark.parametrize(("multiplier", "side"), [(0.0, 1.0), (5.0, -1.0)])
@pytest.mark.parametrize("critic", ["scalar", "decomposed"])
@pytest.mark.filterwarnings("ignore::o3srl.data.DataWarning")
def test_probe_the_multiplier_decides(multiplier, side, critic):
    """Reward 0.9 against multiplier * (1 - allowance): at 0 the bold action is right, at 5 the other."""
    config = TD3BCConfig(critic=critic, hidden=(32, 32), actor_rate=3e-3, critic_rate=3e-3)
    algorithm = o3srl(td3_bc(config), duals.fixed(multiplier), limit=0.1, batch_size=64)
    data = probe()
    state, _ = train(KEY, algorithm, data, updates=400)
    obs = jnp.asarray(data.table[:64, :3])
    from o3srl.types import Step

    def act(one):
        step = Step(one, jnp.zeros(()), jnp.zeros(1))
        return algorithm.policy.act(KEY, algorithm.parameters(state)["last"], (), step)[0][0]

    assert np.mean(np.sign(jax.vmap(act)(obs)) == side) > 0.95
