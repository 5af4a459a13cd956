"""Rollouts against a plain loop, and what an episode may not depend on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from o3srl.envs import Environment, make, names
from o3srl.envs.toy_data import Style, demonstrator
from o3srl.evaluate import rollout, trace
from o3srl.types import Policy, Step

LIMIT = jnp.array([5.0])
STYLE = Style(*map(jnp.float32, (1.1, 0.9, 0.1, 0.3)))


def seesaw_reset(key, parameters, limit):
    """Memory: a random phase, the limit, and what has been paid and earned."""
    return jax.random.uniform(key), limit, jnp.zeros_like(limit), jnp.float32(0.0)


def seesaw_act(key, parameters, memory, step):
    phase, limit, paid, earned = memory
    paid, earned = paid + step.cost, earned + step.reward
    action = jnp.tanh(parameters @ step.obs + phase + 0.1 * (limit - paid)[0] + 0.01 * earned)
    return action + 0.1 * jax.random.normal(key, action.shape), (phase, limit, paid, earned)


SEESAW = Policy(seesaw_reset, seesaw_act)  # depends on everything that a policy may see


def fuse_step(state, action):
    """Pay (2, 1) and earn 1 per step until the third, which is terminal; after it the world is broken."""
    state = state + 1
    broken = jnp.where(state > 3, jnp.nan, 1.0)
    return state, broken, broken * jnp.array([2.0, 1.0]), (state == 3).astype(jnp.float32)


FUSE = Environment(lambda key: jnp.int32(0), fuse_step, lambda state: state[None] * 1.0, 10, 1, 2, 2)


def weights(task, seed=0):
    return 0.5 * jax.random.normal(jax.random.key(seed), (2, make(task).obs_dim))


def plain_loop(key, policy, parameters, environment, limit):
    key_world, key_memory, key_act = jax.random.split(key, 3)
    world, memory = environment.reset(key_world), policy.reset(key_memory, parameters, limit)
    act, move, observe = jax.jit(policy.act), jax.jit(environment.step), jax.jit(environment.observe)
    returns, costs, length = 0.0, np.zeros(environment.costs), 0
    step = Step(environment.observe(world), jnp.zeros(()), jnp.zeros(environment.costs))
    for key_step in jax.random.split(key_act, environment.horizon):
        action, memory = act(key_step, parameters, memory, step)
        world, reward, cost, terminal = move(world, action)
        returns, costs, length = returns + float(reward), costs + np.asarray(cost), length + 1
        if terminal:
            break
        step = Step(observe(world), reward, cost)
    return returns, costs, length


@pytest.mark.parametrize("task", names())
def test_rollout_equals_a_plain_loop(task):
    environment, key, parameters = make(task), jax.random.key(1), weights(task)
    outcome = rollout(key, SEESAW, parameters, environment, LIMIT, 2)
    assert (outcome.returns.shape, outcome.costs.shape, outcome.lengths.shape) == ((2,), (2, 1), (2,))
    for number in range(2):
        returns, costs, length = plain_loop(jax.random.fold_in(key, number), SEESAW, parameters, environment, LIMIT)
        np.testing.assert_allclose(outcome.returns[number], returns, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(outcome.costs[number], costs)
        assert outcome.lengths[number] == length


def test_a_terminal_ends_what_counts():
    policy = Policy(lambda key, parameters, limit: (), lambda key, parameters, memory, step: (jnp.zeros(2), memory))
    outcome = rollout(jax.random.key(0), policy, (), FUSE, jnp.zeros(2), 2)
    np.testing.assert_array_equal(outcome.returns, [3.0, 3.0])
    np.testing.assert_array_equal(outcome.costs, [[6.0, 3.0]] * 2)
    np.testing.assert_array_equal(outcome.lengths, [3, 3])
    np.testing.assert_array_equal(
        trace(jax.random.key(0), policy, (), FUSE, jnp.zeros(2)).alive, [True] * 3 + [False] * 7
    )


def test_policy_sees_the_last_step():
    def act(key, parameters, memory, step):
        return jnp.concatenate([step.reward[None], step.cost]), memory

    policy = Policy(lambda key, parameters, limit: (), act)
    steps = trace(jax.random.key(0), policy, (), make("toy-circle"), LIMIT)
    np.testing.assert_array_equal(steps.action[0], [0.0, 0.0])
    np.testing.assert_array_equal(steps.action[1:, 0], steps.reward[:-1])
    np.testing.assert_array_equal(steps.action[1:, 1], steps.cost[:-1, 0])
    np.testing.assert_array_equal(steps.obs[1:], steps.next_obs[:-1])


def test_limit_reaches_the_policy():
    low, high = (
        rollout(jax.random.key(0), SEESAW, weights("toy-run"), make("toy-run"), jnp.array([x]), 2) for x in (0.0, 50.0)
    )
    assert not np.allclose(low.returns, high.returns)


def test_an_episode_is_the_same_beside_any_number_of_others():
    few, many = (rollout(jax.random.key(2), demonstrator_hover, STYLE, make("toy-hover"), LIMIT, n) for n in (5, 20))
    for one, other in zip(few, many, strict=True):
        np.testing.assert_allclose(one, other[:5], rtol=1e-6)
    assert len(np.unique(many.returns)) == 20


demonstrator_hover = demonstrator("toy-hover")


def test_a_lane_alone_equals_the_lane_among_others():
    environment, keys = make("toy-circle"), jax.random.split(jax.random.key(3), 3)
    parameters, limits = (
        jnp.stack([weights("toy-circle", seed) for seed in range(3)]),
        jnp.array([[0.0], [5.0], [20.0]]),
    )

    def lane(key, own, limit):
        return rollout(key, SEESAW, own, environment, limit, 4)

    together = jax.vmap(lane)(keys, parameters, limits)
    for index in range(3):
        alone = lane(keys[index], parameters[index], limits[index])
        for one, other in zip(alone, together, strict=True):
            np.testing.assert_allclose(one, other[index], rtol=1e-4, atol=1e-4)


def test_nothing_is_compiled_twice():
    def run(seed):
        rollout(jax.random.key(seed), SEESAW, weights("toy-run", seed), make("toy-run"), LIMIT + seed, 2)

    run(0)
    before = rollout._cache_size()
    run(1)
    assert rollout._cache_size() == before
