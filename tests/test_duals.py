"""Every dual against hand-computed steps, its bounds, and its regret on adversarial sequences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from o3srl.duals import adaptive, exp3, fixed, ftrl, hedge, joint, ogd, pid, uniform
from o3srl.duals.exponential import independent, mean, sampled
from o3srl.errors import ConfigError
from o3srl.types import Play, Value

GRID = np.array([0.0, 1.0, 5.0])


def play_of(multiplier, arm=-1, prob=1.0):
    value = jnp.atleast_1d(jnp.float32(multiplier))
    return Play(value, value, jnp.int32(arm), jnp.float32(prob))


def heard(lagrangian=0.0, violation=None):
    return Value(jnp.float32(lagrangian), None if violation is None else jnp.atleast_1d(jnp.float32(violation)))


def test_exp3_takes_three_steps_by_hand():
    dual, rate = exp3(GRID, rate=0.5), 0.5
    state, weights = dual.init(), np.zeros(3)
    for arm, value in ((2, 0.4), (0, -0.2), (2, 1.0)):
        p = np.exp(weights) / np.exp(weights).sum()
        state = dual.update(state, play_of(GRID[arm], arm, p[arm]), heard(value))
        weights[arm] -= rate * value / p[arm]
        expected = np.exp(weights) / np.exp(weights).sum()
        np.testing.assert_allclose(dual.metrics(state)["dual/probability"], expected, rtol=1e-5)


def test_exp3_mixes_uniformly():
    dual = exp3(GRID, rate=5.0, mixing=0.3)
    state = dual.update(dual.init(), play_of(5.0, 2, 1 / 3), heard(-100.0))
    np.testing.assert_allclose(dual.metrics(state)["dual/probability"], [0.1, 0.1, 0.8], atol=1e-6)


def test_hedge_takes_three_steps_by_hand_for_each_cost():
    grids = np.array([[0.0, 1.0, 5.0], [0.0, 2.0, 4.0]])
    dual, total = hedge(grids, rate=0.1, mixer=mean), np.zeros(2)
    state = dual.init()
    for violation in ([0.5, -0.5], [1.0, 0.2], [-0.3, 0.9]):
        state = dual.update(state, play_of(0.0), Value(jnp.float32(0.0), jnp.asarray(violation)))
        total += violation
        raw = np.exp(0.1 * grids * total[:, None])
        expected = raw / raw.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(dual.play(jax.random.key(0), state).multiplier, (expected * grids).sum(1), rtol=1e-5)


def test_ogd_and_ftrl_take_three_steps_by_hand_and_differ_at_the_ends():
    descent, leader = ogd(maximum=1.0, rate=0.5, start=0.2), ftrl(maximum=1.0, rate=0.5, start=0.2)
    states = [descent.init(), leader.init()]
    expected = [[0.2, 0.2], [1.0, 1.0], [0.5, 1.0], [0.0, 0.2]]
    key = jax.random.key(0)
    for violation, wanted in zip([4.0, -1.0, -3.0, None], expected, strict=True):
        plays = [dual.play(key, state) for dual, state in zip((descent, leader), states, strict=True)]
        np.testing.assert_allclose([play.multiplier[0] for play in plays], wanted, atol=1e-6)
        if violation is not None:
            states = [
                dual.update(state, play, heard(violation=violation))
                for dual, state, play in zip((descent, leader), states, plays, strict=True)
            ]


def test_pid_follows_the_trace_of_its_baselines():
    # The trace of OSRL's controller for errors 1, -0.5, 2 with gains 0.1, 0.003, 0.001.
    dual = pid()
    state, seen = dual.init(), []
    for error in (1.0, -0.5, 2.0):
        state = dual.update(state, play_of(0.0), heard(violation=error))
        seen.append(float(dual.play(jax.random.key(0), state).multiplier[0]))
    np.testing.assert_allclose(seen, [0.104, 0.0015, 0.21], rtol=1e-5)


def test_pid_is_bounded():
    dual = pid(proportional=10.0, maximum=3.0)
    state = dual.update(dual.init(), play_of(0.0), heard(violation=7.0))
    assert float(dual.play(jax.random.key(0), state).multiplier[0]) == 3.0


def test_fixed_never_moves():
    dual = fixed(1.5, costs=2)
    state = dual.update(dual.init(), play_of(1.5), heard(100.0))
    np.testing.assert_array_equal(dual.play(jax.random.key(0), state).multiplier, [1.5, 1.5])


def test_mixers_answer_and_charge_what_they_say():
    p, grid = jnp.array([0.2, 0.3, 0.5]), jnp.asarray(GRID)[:, None]
    keys = jax.random.split(jax.random.key(1), 4000)
    drawn = jax.vmap(lambda key: sampled(key, p, grid))(keys)
    np.testing.assert_array_equal(drawn.multiplier, drawn.charged)
    np.testing.assert_allclose(np.bincount(drawn.arm, minlength=3) / 4000, p, atol=0.03)
    np.testing.assert_allclose(drawn.prob, p[drawn.arm])
    middle = mean(keys[0], p, grid)
    np.testing.assert_allclose([middle.multiplier, middle.charged], [[2.8], [2.8]], rtol=1e-6)
    apart = jax.vmap(lambda key: independent(key, p, grid))(keys)
    np.testing.assert_allclose(apart.multiplier, 2.8, rtol=1e-6)
    np.testing.assert_allclose(apart.charged[:, 0], GRID[apart.arm])


def test_exp3_refuses_to_play_the_mean():
    with pytest.raises(ConfigError, match="charges none"):
        exp3(GRID, mixer=mean)


def regret(losses, plays):
    return (losses * plays).sum() - losses.sum(axis=0).min()


@pytest.mark.parametrize("adversary", ["alternating", "switch", "random"])
def test_hedge_regret_is_within_its_bound(adversary):
    # Sum of p_t . l_t minus the best arm's, for losses l = -lambda violation in [-C B, C B], is at most
    # rate T (C B)^2 / 2 + ln K / rate.
    rounds, largest, grid = 2000, 0.5, uniform(1.0, 5)
    violation = {
        "alternating": largest * (-1.0) ** np.arange(rounds),
        "switch": np.where(np.arange(rounds) < rounds // 3, largest, -largest),
        "random": np.random.default_rng(0).uniform(-largest, largest, rounds),
    }[adversary]
    rate = np.sqrt(2 * np.log(5) / rounds) / largest
    dual = hedge(grid, rate, mixer=mean)

    def step(state, violation):
        multiplier = dual.play(jax.random.key(0), state).multiplier
        return dual.update(state, play_of(0.0), Value(jnp.float32(0.0), violation[None])), multiplier[0]

    _, played = jax.lax.scan(step, dual.init(), jnp.asarray(violation, jnp.float32))
    losses = -violation[:, None] * grid[None, :]
    suffered = (-violation * np.asarray(played)).sum() - losses.sum(axis=0).min()
    assert suffered <= rate * rounds * largest**2 / 2 + np.log(5) / rate


@pytest.mark.parametrize("make", [ogd, ftrl])
def test_gradient_regret_is_within_its_bound(make):
    # C^2 / (2 rate) + rate T B^2 / 2 for OGD; FTRL's is at most twice the second term larger.
    rounds, largest, maximum = 2000, 0.5, 2.0
    rate = maximum / (largest * np.sqrt(rounds))
    violation = largest * np.sign(np.random.default_rng(1).uniform(-1, 1.2, rounds))
    dual = make(maximum=maximum, rate=rate)

    def step(state, violation):
        play = dual.play(jax.random.key(0), state)
        return dual.update(state, play, Value(jnp.float32(0.0), violation[None])), play.multiplier[0]

    _, played = jax.lax.scan(step, dual.init(), jnp.asarray(violation, jnp.float32))
    suffered = (-violation * np.asarray(played)).sum() - min(0.0, -violation.sum() * maximum)
    assert suffered <= maximum**2 / (2 * rate) + rate * rounds * largest**2


def test_exp3_regret_is_within_its_bound_in_expectation():
    # E sum l_arm - best arm <= rate T K / 2 + ln K / rate for losses in [0, 1]; averaged over 64 runs.
    rounds, arms = 2000, 4
    rate = np.sqrt(2 * np.log(arms) / (rounds * arms))
    losses = np.random.default_rng(2).uniform(size=(rounds, arms)) * [1.0, 0.8, 0.6, 1.0]
    dual = exp3(np.arange(arms, dtype=float), rate)

    def one(key):
        def step(state, x):
            key, loss = x
            play = dual.play(key, state)
            return dual.update(state, play, Value(loss[play.arm], None)), loss[play.arm]

        keys = jax.random.split(key, rounds)
        return jax.lax.scan(step, dual.init(), (keys, jnp.asarray(losses, jnp.float32)))[1].sum()

    suffered = jax.vmap(one)(jax.random.split(jax.random.key(3), 64)).mean() - losses.sum(axis=0).min()
    assert suffered <= rate * rounds * arms / 2 + np.log(arms) / rate


@pytest.mark.parametrize("limit", [0.01, 0.5, 5.0, 40.0])
@pytest.mark.parametrize("arms", [2, 3, 5, 10])
def test_adaptive_grid_is_increasing_from_zero_to_its_maximum(limit, arms):
    grid = adaptive(5.0, arms, limit)
    assert len(grid) == arms
    assert grid[0] == 0.0
    assert grid[-1] == 5.0
    assert (np.diff(grid) > 0).all()


def test_grids_refuse_what_has_no_meaning():
    with pytest.raises(ConfigError, match="limit 0"):
        adaptive(5.0, 5, 0.0)
    for maximum, arms in ((5.0, 1), (0.0, 5), (-1.0, 5), (np.inf, 5)):
        with pytest.raises(ConfigError):
            uniform(maximum, arms)
    with pytest.raises(ConfigError, match="told apart"):
        joint([uniform(5.0, 11)] * 3)


def test_joint_grid_plays_several_costs():
    dual = exp3(joint([uniform(1.0, 2), uniform(4.0, 3)]))
    assert dual.costs == 2
    np.testing.assert_allclose(dual.play(jax.random.key(0), dual.init()).multiplier.shape, (2,))
