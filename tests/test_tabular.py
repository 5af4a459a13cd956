"""Finite CMDPs: what they promise, the linear program against the path, oracles in the game, logs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from o3srl import duals
from o3srl.data import DataWarning
from o3srl.errors import ConfigError
from o3srl.game import o3srl
from o3srl.tabular import le, oracle
from o3srl.tabular.cmdp import CMDP, garnet, gridworld, one_state
from o3srl.tabular.gap import equilibrium_gap, lagrangian_range
from o3srl.tabular.log import as_data, counts, environment, logged, pessimistic
from o3srl.tabular.lp import optimum
from o3srl.tabular.play import last_policies, play
from o3srl.tabular.solve import (
    any_choice,
    best_response,
    cost_range,
    deterministic,
    occupancy,
    place_on,
    priced,
    respond,
    trace_path,
    values,
)

KEY = jax.random.PRNGKey(0)


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def some(name):
    return {"garnet": lambda: garnet(KEY, 6, 3), "gridworld": lambda: gridworld(KEY, 3)}[name]()


@pytest.mark.parametrize("name", ["garnet", "gridworld"])
def test_problems_are_cmdps(name):
    cmdp = some(name)
    np.testing.assert_allclose(cmdp.transition.sum(-1), 1.0)
    np.testing.assert_allclose(cmdp.start.sum(), 1.0)
    assert float(cmdp.transition.min()) >= 0.0
    assert cmdp.cost.shape == (*cmdp.reward.shape, 1)
    assert all(leaf.dtype == jnp.float64 for leaf in cmdp)


def test_a_garnet_branches_as_told_and_refuses_what_cannot_be():
    cmdp = garnet(KEY, 8, 2, costs=2, branches=3)
    assert set(np.asarray((cmdp.transition > 0).sum(-1)).ravel()) == {3}
    assert cmdp.cost.shape == (8, 2, 2)
    with pytest.raises(ConfigError, match="branch"):
        garnet(KEY, 4, 2, branches=5)


def test_the_goal_of_a_gridworld_pays_once_and_leads_back():
    cmdp = gridworld(KEY, 3, hazards=1.0, slip=0.0)
    np.testing.assert_array_equal(cmdp.transition[8, :, 0], 1.0)
    np.testing.assert_array_equal(np.flatnonzero(cmdp.reward[:, 0]), [8])
    np.testing.assert_array_equal(np.flatnonzero(cmdp.cost[:, 0, 0]), np.arange(1, 8))
    np.testing.assert_array_equal(cmdp.transition[0].argmax(-1), [1, 3, 0, 0])


def test_an_occupancy_is_the_discounted_sum_of_where_a_policy_goes():
    cmdp = some("garnet")
    policy = jax.random.dirichlet(KEY, jnp.ones(3), (6,))
    rho = occupancy(cmdp, policy)
    follow = np.einsum("sa,san->sn", policy, cmdp.transition)
    at, total = np.asarray(cmdp.start), np.zeros(6)
    for step in range(400):
        total += (1 - 0.9) * 0.9**step * at
        at = at @ follow
    np.testing.assert_allclose(rho, total[:, None] * policy, atol=1e-12)
    np.testing.assert_allclose(rho.sum(), 1.0)
    np.testing.assert_allclose(values(cmdp, rho)[0], (rho * cmdp.reward).sum())


@pytest.mark.parametrize("multiplier", [0.0, 0.4, 3.0])
@pytest.mark.parametrize("name", ["garnet", "gridworld"])
def test_a_best_response_is_a_fixed_point_of_value_iteration(name, multiplier):
    cmdp = some(name)
    price = jnp.array([multiplier])
    v, signal, chances = np.zeros(cmdp.reward.shape[0]), np.asarray(priced(cmdp, price)), np.asarray(cmdp.transition)
    for _ in range(600):
        v = (signal + 0.9 * chances @ v).max(1)
    reward, cost = values(cmdp, respond(cmdp, price))
    np.testing.assert_allclose(reward - multiplier * cost, 0.1 * np.asarray(cmdp.start) @ v, atol=1e-10)


@pytest.mark.parametrize("name", ["garnet", "gridworld"])
def test_the_path_holds_every_best_response(name):
    cmdp = some(name)
    path = trace_path(cmdp, 40)
    assert bool(path.complete)
    assert (np.asarray(path.breakpoint[1:]) >= np.asarray(path.breakpoint[:-1])).all()
    multipliers = jnp.concatenate([jnp.linspace(0.0, 4.0, 41), jnp.array([50.0, 1e4])])
    found = jax.vmap(lambda one: path.values[place_on(path, one)])(multipliers)
    known = jax.jit(jax.vmap(lambda one: values(cmdp, respond(cmdp, one[None]))))(multipliers)
    short = (known - found)[:, 0] - multipliers * (known - found)[:, 1]
    np.testing.assert_allclose(short, 0.0, atol=1e-8)
    low, high = cost_range(path)
    cheapest = best_response(cmdp, -cmdp.cost[..., 0], any_choice(cmdp))
    own = values(cmdp, occupancy(cmdp, deterministic(cheapest, cmdp.reward.shape[1])))
    np.testing.assert_allclose(low, own[1], atol=1e-12)
    assert float(low) <= float(high)


def test_a_path_that_is_too_short_says_so():
    assert not bool(trace_path(some("garnet"), 2).complete)


@pytest.mark.parametrize("share", [0.2, 0.6, 1.4])
@pytest.mark.parametrize("name", ["garnet", "gridworld"])
def test_the_linear_program_agrees_with_the_path(name, share):
    """lambda* is where the path's cost crosses the limit; beyond the best reward's cost the limit is slack."""
    cmdp = some(name)
    path = trace_path(cmdp, 40)
    low, high = cost_range(path)
    allowance = float(low + share * (high - low))
    best = optimum(cmdp, allowance / (1 - float(cmdp.discount)))
    crossing = path.breakpoint[int(np.sum(np.asarray(path.values[:, 1]) > allowance + 1e-12))]
    expected = 0.0 if share > 1 else float(crossing)
    np.testing.assert_allclose(best.multiplier, [expected], atol=1e-8)
    np.testing.assert_allclose(best.slater, allowance - float(low), atol=1e-9)
    # The primal keeps the limit, is a policy's occupancy, and is an equilibrium with lambda*.
    assert best.cost[0] <= allowance + 1e-9
    np.testing.assert_allclose(values(cmdp, jnp.asarray(best.occupancy))[0], best.reward, atol=1e-9)
    at = jnp.array([allowance])
    gap = equilibrium_gap(cmdp, jnp.asarray(best.occupancy), jnp.asarray(best.multiplier), at, 2.0 * expected + 1.0)
    np.testing.assert_allclose(gap.total, 0.0, atol=1e-8)


def test_an_impossible_limit_names_what_would_be_possible():
    cmdp = some("garnet")
    low = float(cost_range(trace_path(cmdp, 40))[0]) / (1 - float(cmdp.discount))
    with pytest.raises(ConfigError, match=f"at least {low:.6g}"):
        optimum(cmdp, low - 0.5)
    optimum(cmdp, low)


def test_several_limits_are_kept_together_or_refused():
    cmdp = garnet(KEY, 6, 3, costs=2)
    even = values(cmdp, occupancy(cmdp, jnp.full((6, 3), 1 / 3)))[1:] / (1 - cmdp.discount)
    best = optimum(cmdp, even)
    assert (best.cost <= np.asarray(even) * 0.1 + 1e-9).all()
    with pytest.raises(ConfigError, match="No policy keeps"):
        optimum(cmdp, [0.0, 0.0])


def test_the_gap_is_zero_at_equilibrium_and_known_by_hand_elsewhere():
    """Actions (0.8, 1) and (0, 0), limit 0.5: at lambda = 0.5 the first is best, worth 0.55; it violates by 0.5."""
    cmdp = one_state([0.8, 0.0], [[1.0], [0.0]])
    limit = jnp.array([0.5])
    half = jnp.array([[0.5, 0.5]])
    np.testing.assert_allclose(equilibrium_gap(cmdp, half, jnp.array([0.8]), limit, 2.0).total, 0.0, atol=1e-12)
    gap = equilibrium_gap(cmdp, jnp.array([[1.0, 0.0]]), jnp.array([0.5]), limit, 2.0)
    np.testing.assert_allclose([gap.best, gap.worst, gap.reward], [0.55, 0.8 - 2 * 0.5, 0.8], atol=1e-12)
    np.testing.assert_allclose(lagrangian_range(cmdp, limit, 2.0), [0.8 - 2 * 0.5, 1.0], atol=1e-12)


def exact(primal, dual, limit, updates=1):
    return o3srl(primal, dual, limit=limit, updates_per_round=updates, batch_size=1)


def stacked(cmdp):
    return jax.tree.map(lambda x: x[None], cmdp)


def test_policy_iteration_and_the_path_play_the_same_game():
    cmdp = some("garnet")
    path = trace_path(cmdp, 40)
    limit = 10 * jnp.mean(jnp.stack(cost_range(path)))[None]
    makers = {
        "policy iteration": lambda one: oracle.best_response(one[0]),
        "path": lambda one: oracle.along(one[0], one[1]),
    }
    found = {}
    for name, make in makers.items():
        build = lambda one, make=make: exact(make(one), duals.ogd(3.0, 0.1), limit)  # noqa: E731
        settings = (stacked(cmdp), stacked(path))
        found[name] = play(build, settings, np.arange(1), 300)[-1]
        last = last_policies(build, settings, found[name])
        np.testing.assert_allclose(last.sum(), 1.0)
    np.testing.assert_allclose(found["policy iteration"].average, found["path"].average, atol=1e-12)
    np.testing.assert_allclose(found["policy iteration"].multiplier, found["path"].multiplier, atol=1e-12)


def test_the_game_runs_in_float64_and_reports_averages_per_step():
    """At a fixed multiplier the average is the best response itself, and what is charged is its Lagrangian."""
    cmdp = some("garnet")
    limit = jnp.array([3.0])
    at = play(lambda one: exact(oracle.best_response(one), duals.fixed(0.7), limit), stacked(cmdp), np.arange(1), 40)[
        -1
    ]
    assert at.average.dtype == jnp.float64
    rho = respond(cmdp, jnp.array([0.7]))
    np.testing.assert_allclose(at.average[0], rho, atol=1e-12)
    reward, cost = values(cmdp, rho)
    np.testing.assert_allclose(at.lagrangian, reward - 0.7 * (cost - 0.3), atol=1e-12)
    np.testing.assert_allclose(at.metrics["game/violation"][:, 0], cost - 0.3, atol=1e-12)


def test_rounds_must_divide_into_their_parts():
    with pytest.raises(ConfigError, match="equal parts"):
        play(
            lambda one: exact(oracle.best_response(one), duals.ogd(), 1.0), stacked(some("garnet")), np.arange(1), 10, 3
        )


def test_a_noisy_value_is_unbiased():
    cmdp = some("garnet")
    from o3srl.types import Objective

    primal = oracle.best_response(cmdp, noisy=True)
    objective = Objective(jnp.array([0.5]), jnp.array([0.2]))
    state = any_choice(cmdp)
    drawn = jax.vmap(lambda key: primal.value(key, state, jnp.zeros((1, 1)), objective))(jax.random.split(KEY, 40_000))
    exactly = oracle.best_response(cmdp).value(KEY, state, jnp.zeros((1, 1)), objective)
    np.testing.assert_allclose(drawn.lagrangian.mean(), exactly.lagrangian, atol=0.08)
    np.testing.assert_allclose(drawn.violation.mean(), exactly.violation[0], atol=0.08)
    assert float(drawn.lagrangian.std()) > 0.5


@pytest.mark.parametrize("temperature", [0.0, 0.05])
def test_many_sweeps_are_a_best_response(temperature):
    """Greedy, they are one; smooth, they lose at most the temperature's ln A per step."""
    cmdp = some("garnet")
    build = lambda one: exact(oracle.sweeps(one, temperature=temperature), duals.fixed(0.7), 3.0, 10)  # noqa: E731
    at = play(build, stacked(cmdp), np.arange(1), 60)[-1]
    got = values(cmdp, last_policies(build, stacked(cmdp), at)[0])
    best = values(cmdp, respond(cmdp, jnp.array([0.7])))
    short = float((best[0] - 0.7 * best[1]) - (got[0] - 0.7 * got[1]))
    assert -1e-12 <= short <= temperature * np.log(3) + 1e-12
    assert (short > 1e-6) == (temperature > 0)


def test_fitted_iteration_and_evaluation_are_what_they_approximate():
    cmdp = some("garnet")
    price = jnp.array([0.7])
    choice = le.fitted_iteration(cmdp, price, 300)
    rho = occupancy(cmdp, deterministic(choice, 3))
    np.testing.assert_allclose(rho, respond(cmdp, price), atol=1e-12)
    np.testing.assert_allclose(le.fitted_evaluation(cmdp, choice, 300), values(cmdp, rho), atol=1e-10)
    short = le.fitted_evaluation(cmdp, choice, 20)
    np.testing.assert_allclose(short, (1 - 0.9**20) * values(cmdp, rho), atol=0.05)
    assert float(jnp.abs(short - values(cmdp, rho)).max()) > 0.01


def test_the_gap_that_le_et_al_see_is_the_gap_of_the_model():
    cmdp = some("garnet")
    rho = respond(cmdp, jnp.array([0.2]))
    allowance, price = jnp.array([0.3]), jnp.array([0.5])
    seen = le.shown_gap(cmdp, values(cmdp, rho), price, allowance, jnp.asarray(2.0), 300)
    np.testing.assert_allclose(seen, equilibrium_gap(cmdp, rho, price, allowance, 2.0).total, atol=1e-10)


def test_a_decomposed_critic_learns_its_policy_by_sweeps():
    cmdp = some("garnet")
    build = lambda one: exact(le.learned(one, one), duals.fixed(0.7), 3.0, 10)  # noqa: E731
    at = play(build, stacked(cmdp), np.arange(1), 60)[-1]
    np.testing.assert_allclose(last_policies(build, stacked(cmdp), at)[0], respond(cmdp, jnp.array([0.7])), atol=1e-12)
    build = lambda one: exact(le.fitted(one, one, 300), duals.fixed(0.7), 3.0)  # noqa: E731
    told = play(build, stacked(cmdp), np.arange(1), 2)[-1]
    np.testing.assert_allclose(told.lagrangian, at.metrics["game/lagrangian"], atol=0.05)


def test_a_log_is_of_its_policy_and_becomes_the_librarys_own_data():
    cmdp = some("garnet")
    rho = jnp.tile(jnp.array([0.0, 0.25, 0.75]), (6, 1))
    log = logged(KEY, cmdp, rho, episodes=200, horizon=20)
    seen = counts(log)
    assert float(seen.sum()) == 4000
    tried = np.asarray(seen.sum(-1))
    assert (tried[:, 0] == 0).all()
    np.testing.assert_allclose(tried[:, 1].sum() / tried.sum(), 0.25, atol=0.03)
    chances = np.asarray(seen[:, 2] / tried[:, 2][:, None])
    np.testing.assert_allclose(chances, cmdp.transition[:, 2], atol=0.12)
    with pytest.warns(DataWarning, match="not always 0 or 1"):
        data = as_data(log)
    assert (data.info.obs_dim, data.info.action_dim, data.info.costs, data.info.horizon) == (6, 3, 1, 20)
    np.testing.assert_allclose(data.episodes.returns, log.reward.sum(1), rtol=1e-5)
    assert environment(cmdp, 20).horizon == 20


def test_the_pessimistic_model_is_below_the_truth_and_tightens():
    cmdp = some("garnet")
    widths = {}
    for episodes in (20, 2000):
        seen = counts(logged(KEY, cmdp, jnp.ones((6, 3)), episodes, 20))
        model = pessimistic(cmdp, seen, 0.2)
        np.testing.assert_allclose(model.transition.sum(-1), 1.0)
        choice = best_response(model, priced(model, jnp.array([0.5])), any_choice(cmdp))
        policy = deterministic(choice, 3)
        believed = values(model, occupancy(model, policy))
        true = values(cmdp, occupancy(cmdp, policy))
        assert float(believed[0]) < float(true[0])
        assert float(believed[1]) > float(true[1])
        widths[episodes] = float(true[0] - believed[0])
    assert widths[2000] < 0.3 * widths[20]


def test_what_was_never_tried_is_never_chosen():
    cmdp = CMDP(
        transition=jnp.ones((1, 2, 1)), reward=jnp.array([[0.1, 1.0]]), cost=jnp.zeros((1, 2, 1)),
        start=jnp.ones(1), discount=jnp.asarray(0.5),
    )  # fmt: skip
    model = pessimistic(cmdp, jnp.array([[[5.0], [0.0]]]), 0.1)
    for multiplier in (0.0, 10.0):
        choice = best_response(model, priced(model, jnp.array([multiplier])), any_choice(cmdp))
        assert int(choice[0]) == 0
