"""One update of each oracle against the equations written out in numpy, in float64, from fixed weights and batch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from o3srl.oracles import BCConfig, IQLConfig, TD3BCConfig, bc, iql, td3_bc
from o3srl.types import Objective, Transition

HIDDEN, BATCH, OBS, ACT, COSTS = (5, 4), 7, 3, 2, 1
OBJECTIVE = Objective(jnp.array([1.5]), jnp.array([0.05]))


def make_batch(seed=0):
    rng = np.random.default_rng(seed)
    draw = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.float32)  # noqa: E731
    flag = jnp.asarray(rng.integers(0, 2, BATCH), jnp.float32)
    action = jnp.tanh(draw(BATCH, ACT))
    cost = jnp.asarray(rng.integers(0, 2, (BATCH, COSTS)), jnp.float32)
    return Transition(
        draw(BATCH, OBS), action, draw(BATCH), cost, draw(BATCH, OBS), flag, 1 - flag, jnp.zeros(BATCH)
    )


def layers_of(vector, sizes):
    """Weights [o, i] and biases [o] in the order of the flat vector."""
    vector, layers, at = np.asarray(vector, np.float64), [], 0
    for i, o in zip(sizes[:-1], sizes[1:], strict=True):
        weight, bias = vector[at : at + i * o].reshape(o, i), vector[at + i * o : at + i * o + o]
        layers.append((weight, bias))
        at += i * o + o
    assert at == len(vector)
    return layers


def forward(layers, x, final=lambda x: x):
    """Output and what backward needs."""
    inputs = []
    for index, (weight, bias) in enumerate(layers):
        inputs.append(x)
        x = x @ weight.T + bias
        if index < len(layers) - 1:
            x = np.maximum(x, 0.0)
    return final(x), (inputs, x)


def backward(layers, inputs, gradient):
    """Gradient [P] in the parameters and [B, i] in the input, from the gradient in the last layer's output."""
    parts = []
    for (weight, _), x in zip(reversed(layers), reversed(inputs), strict=True):
        parts.append(np.concatenate([(gradient.T @ x).reshape(-1), gradient.sum(axis=0)]))
        gradient = (gradient @ weight) * (x > 0) if x is not inputs[0] else gradient @ weight
    return np.concatenate(parts[::-1]), gradient


def adam(vector, gradient, rate):
    """Adam's first step."""
    return np.asarray(vector, np.float64) - rate * gradient / (np.abs(gradient) + 1e-8)


def heads_of(batch, critic):
    multiplier, allowance = float(OBJECTIVE.multiplier[0]), float(OBJECTIVE.allowance[0])
    r, c = np.asarray(batch.reward, np.float64), np.asarray(batch.cost[:, 0], np.float64)
    if critic == "scalar":
        return (r - multiplier * (c - allowance))[:, None], np.ones(1), np.array([multiplier * allowance])
    return np.stack([r, allowance - c], 1), np.array([1.0, multiplier]), np.array([0.0, allowance])


def smaller(q, weights):
    return np.where(((q[0] @ weights) <= (q[1] @ weights))[:, None], q[0], q[1])


@pytest.mark.parametrize("critic", ["scalar", "decomposed"])
@pytest.mark.parametrize("terminal", ["zero", "allowance"])
def test_td3_bc_update(critic, terminal):
    oracle = td3_bc(TD3BCConfig(critic=critic, terminal=terminal, hidden=HIDDEN))
    batch = make_batch()
    state = oracle.init(jax.random.key(1), jax.tree.map(lambda x: x[0], batch))
    # Targets that differ from the networks, so that a mix-up of the two shows.
    state = state._replace(actor_target=state.actor * 0.9, critic_target=state.critic * 1.1)
    key = jax.random.key(2)
    new, metrics = oracle.cycle[1](key, state, batch, OBJECTIVE)

    outputs = 1 if critic == "scalar" else 2
    actor_sizes, critic_sizes = (OBS, *HIDDEN, ACT), (OBS + ACT, *HIDDEN, outputs)
    s, a, s2 = (np.asarray(x, np.float64) for x in (batch.obs, batch.action, batch.next_obs))
    signal, weights, absorbing = heads_of(batch, critic)
    end = np.asarray(batch.terminal, np.float64)[:, None]
    noise = np.clip(0.2 * np.asarray(jax.random.normal(key, batch.action.shape), np.float64), -0.5, 0.5)
    a2 = np.clip(forward(layers_of(state.actor_target, actor_sizes), s2, np.tanh)[0] + noise, -1, 1)
    pair2 = np.concatenate([s2, a2], 1)
    q2 = np.stack([forward(layers_of(q, critic_sizes), pair2)[0] for q in state.critic_target])
    beyond = (1 - end) * smaller(q2, weights) + (end * absorbing / 0.01 if terminal == "allowance" else 0.0)
    y = signal + 0.99 * beyond

    pair, loss, critics = np.concatenate([s, a], 1), 0.0, []
    for q in state.critic:
        layers = layers_of(q, critic_sizes)
        value, (inputs, _) = forward(layers, pair)
        loss += np.square(value - y).sum() / BATCH
        gradient, _ = backward(layers, inputs, 2 * (value - y) / BATCH)
        critics.append(adam(q, gradient, 3e-4))
    np.testing.assert_allclose(metrics["loss/critic"], loss, rtol=1e-4)
    np.testing.assert_allclose(new.critic, np.stack(critics), atol=2e-6)

    actor = layers_of(state.actor, actor_sizes)
    pi, (inputs, raw) = forward(actor, s, np.tanh)
    first = layers_of(critics[0], critic_sizes)
    value, (critic_inputs, _) = forward(first, np.concatenate([s, pi], 1))
    q = value @ weights
    scale = 2.5 / np.abs(q).mean()
    _, into = backward(first, critic_inputs, np.tile(-scale * weights / BATCH, (BATCH, 1)))
    into = into[:, OBS:] + 2 * (pi - a) / (BATCH * ACT)
    gradient, _ = backward(actor, inputs, into * (1 - np.tanh(raw) ** 2))
    stepped = adam(state.actor, gradient, 3e-4)
    np.testing.assert_allclose(metrics["loss/actor"], -scale * q.mean() + np.square(pi - a).mean(), rtol=1e-4)
    np.testing.assert_allclose(new.actor, stepped, atol=2e-6)
    np.testing.assert_allclose(new.actor_target, 0.995 * np.asarray(state.actor_target) + 0.005 * stepped, atol=1e-6)
    np.testing.assert_allclose(
        new.critic_target, 0.995 * np.asarray(state.critic_target) + 0.005 * np.stack(critics), atol=1e-6
    )


def test_td3_bc_delays_its_actor_and_targets():
    oracle = td3_bc(TD3BCConfig(hidden=HIDDEN, policy_delay=3))
    batch = make_batch()
    state = oracle.init(jax.random.key(1), jax.tree.map(lambda x: x[0], batch))
    assert len(oracle.cycle) == 3
    new, _ = oracle.cycle[0](jax.random.key(2), state, batch, OBJECTIVE)
    for name in ("actor", "actor_target", "critic_target"):
        np.testing.assert_array_equal(getattr(new, name), getattr(state, name))
    assert not np.array_equal(new.critic, state.critic)


def test_td3_bc_value_is_the_mean_of_the_smaller_critic_at_its_own_actions():
    for critic in ("scalar", "decomposed"):
        oracle = td3_bc(TD3BCConfig(critic=critic, hidden=HIDDEN))
        batch = make_batch()
        state = oracle.init(jax.random.key(1), jax.tree.map(lambda x: x[0], batch))
        _, weights, _ = heads_of(batch, critic)
        s = np.asarray(batch.obs, np.float64)
        pi = forward(layers_of(state.actor, (OBS, *HIDDEN, ACT)), s, np.tanh)[0]
        sizes = (OBS + ACT, *HIDDEN, len(weights))
        q = np.stack([forward(layers_of(q, sizes), np.concatenate([s, pi], 1))[0] for q in state.critic])
        mean = smaller(q, weights).mean(axis=0)
        value = oracle.value(jax.random.key(0), state, batch.obs, OBJECTIVE)
        np.testing.assert_allclose(value.lagrangian, mean @ weights, rtol=1e-4)
        if critic == "decomposed":
            np.testing.assert_allclose(value.violation, -mean[1:], rtol=1e-4)
        else:
            assert value.violation is None


@pytest.mark.parametrize("critic", ["scalar", "decomposed"])
def test_iql_update(critic):
    oracle = iql(IQLConfig(critic=critic, hidden=HIDDEN))
    batch = make_batch(3)
    state = oracle.init(jax.random.key(1), jax.tree.map(lambda x: x[0], batch))
    state = state._replace(critic_target=state.critic * 1.1, actor=state.actor._replace(log_std=jnp.array([0.1, -0.2])))
    new, metrics = oracle.cycle[0](jax.random.key(2), state, batch, OBJECTIVE)

    signal, weights, _ = heads_of(batch, critic)
    outputs = len(weights)
    sizes, value_sizes, actor_sizes = (OBS + ACT, *HIDDEN, outputs), (OBS, *HIDDEN, outputs), (OBS, *HIDDEN, ACT)
    s, a, s2 = (np.asarray(x, np.float64) for x in (batch.obs, batch.action, batch.next_obs))
    pair, v_layers = np.concatenate([s, a], 1), layers_of(state.value, value_sizes)
    logged = smaller(np.stack([forward(layers_of(q, sizes), pair)[0] for q in state.critic_target]), weights)
    v, (v_inputs, _) = forward(v_layers, s)
    advantage = (logged - v) @ weights
    side = np.abs(0.7 - (advantage < 0))
    np.testing.assert_allclose(metrics["loss/value"], (side * np.square(logged - v).sum(1)).mean(), rtol=1e-4)
    gradient, _ = backward(v_layers, v_inputs, -2 * side[:, None] * (logged - v) / BATCH)
    np.testing.assert_allclose(new.value, adam(state.value, gradient, 3e-4), atol=2e-6)

    y = signal + 0.99 * (1 - np.asarray(batch.terminal))[:, None] * forward(v_layers, s2)[0]
    for q, stepped in zip(state.critic, new.critic, strict=True):
        layers = layers_of(q, sizes)
        value, (inputs, _) = forward(layers, pair)
        gradient, _ = backward(layers, inputs, (value - y) / BATCH)
        np.testing.assert_allclose(stepped, adam(q, gradient, 3e-4), atol=2e-6)
    np.testing.assert_allclose(
        new.critic_target, 0.995 * np.asarray(state.critic_target) + 0.005 * np.asarray(new.critic), atol=1e-6
    )

    actor = layers_of(state.actor.network, actor_sizes)
    mean, (inputs, raw) = forward(actor, s, np.tanh)
    std = np.exp(np.asarray(state.actor.log_std, np.float64))
    weight = np.minimum(np.exp(3.0 * advantage), 100.0)
    likelihood = (-0.5 * np.square((a - mean) / std) - np.log(std) - 0.5 * np.log(2 * np.pi)).sum(1)
    np.testing.assert_allclose(metrics["loss/actor"], -(weight * likelihood).mean(), rtol=1e-4)
    into = -weight[:, None] * (a - mean) / std**2 / BATCH * (1 - np.tanh(raw) ** 2)
    gradient, _ = backward(actor, inputs, into)
    np.testing.assert_allclose(new.actor.network, adam(state.actor.network, gradient, 3e-4), atol=2e-6)
    spread = -(weight[:, None] * (np.square((a - mean) / std) - 1)).mean(0)
    np.testing.assert_allclose(new.actor.log_std, adam(state.actor.log_std, spread, 3e-4), atol=2e-6)


def test_bc_update():
    oracle = bc(BCConfig(hidden=HIDDEN))
    batch = make_batch()
    state = oracle.init(jax.random.key(1), jax.tree.map(lambda x: x[0], batch))
    new, metrics = oracle.cycle[0](jax.random.key(2), state, batch, OBJECTIVE)
    layers, a = layers_of(state.actor, (OBS, *HIDDEN, ACT)), np.asarray(batch.action, np.float64)
    pi, (inputs, raw) = forward(layers, np.asarray(batch.obs, np.float64), np.tanh)
    np.testing.assert_allclose(metrics["loss/cloning"], np.square(pi - a).mean(), rtol=1e-5)
    gradient, _ = backward(layers, inputs, 2 * (pi - a) / a.size * (1 - np.tanh(raw) ** 2))
    np.testing.assert_allclose(new.actor, adam(state.actor, gradient, 1e-3), atol=2e-6)
