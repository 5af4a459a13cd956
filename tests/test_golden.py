"""One update of each oracle against the equations written out in numpy, in float64, from fixed weights and batch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from o3srl.nets import member
from o3srl.oracles import BCConfig, IQLConfig, TD3BCConfig, bc, iql, td3_bc
from o3srl.types import Objective, Transition

HIDDEN, BATCH, OBS, ACT, COSTS = (5, 4), 7, 3, 2, 1
OBJECTIVE = Objective(jnp.array([1.5]), jnp.array([0.05]))


def make_batch(seed=0):
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return jnp.asarray(rng.normal(size=shape), jnp.float32)

    flag = jnp.asarray(rng.integers(0, 2, BATCH), jnp.float32)
    action = jnp.tanh(draw(BATCH, ACT))
    cost = jnp.asarray(rng.integers(0, 2, (BATCH, COSTS)), jnp.float32)
    return Transition(draw(BATCH, OBS), action, draw(BATCH), cost, draw(BATCH, OBS), flag, 1 - flag, jnp.zeros(BATCH))


def layers_of(layers):
    """Weights [i, o] and biases [o] in float64."""
    return [(np.asarray(layer.weight, np.float64), np.asarray(layer.bias, np.float64)) for layer in layers]


def forward(layers, x, final=lambda x: x):
    """Output and what backward needs."""
    inputs = []
    for index, (weight, bias) in enumerate(layers):
        inputs.append(x)
        x = x @ weight + bias
        if index < len(layers) - 1:
            x = np.maximum(x, 0.0)
    return final(x), (inputs, x)


def backward(layers, inputs, gradient):
    """Gradients like `layers`, and the gradient [B, i] in the input, from the gradient in the last layer's output."""
    parts = []
    for (weight, _), x in zip(reversed(layers), reversed(inputs), strict=True):
        parts.append((x.T @ gradient, gradient.sum(axis=0)))
        gradient = (gradient @ weight.T) * (x > 0) if x is not inputs[0] else gradient @ weight.T
    return parts[::-1], gradient


def adam(value, gradient, rate):
    """Adam's first step."""
    return value - rate * gradient / (np.abs(gradient) + 1e-8)


def adam_layers(layers, gradients, rate):
    """Adam's first step of every weight and bias."""
    return [
        tuple(adam(p, g, rate) for p, g in zip(layer, gradient, strict=True))
        for layer, gradient in zip(layers, gradients, strict=True)
    ]


def close(layers, expected, atol=2e-6):
    for layer, wanted in zip(layers, expected, strict=True):
        np.testing.assert_allclose(layer.weight, wanted[0], atol=atol)
        np.testing.assert_allclose(layer.bias, wanted[1], atol=atol)


def mixed(target, online):
    """The soft update at tau = 0.005."""
    return [
        tuple(0.995 * t + 0.005 * o for t, o in zip(a, b, strict=True)) for a, b in zip(target, online, strict=True)
    ]


def scaled(layers, factor):
    return jax.tree.map(lambda p: factor * p, layers)


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
    state = state._replace(actor_target=scaled(state.actor, 0.9), critic_target=scaled(state.critic, 1.1))
    key = jax.random.key(2)
    new, metrics = oracle.cycle[1](key, state, batch, OBJECTIVE)

    s, a, s2 = (np.asarray(x, np.float64) for x in (batch.obs, batch.action, batch.next_obs))
    signal, weights, absorbing = heads_of(batch, critic)
    end = np.asarray(batch.terminal, np.float64)[:, None]
    noise = np.clip(0.2 * np.asarray(jax.random.normal(key, batch.action.shape), np.float64), -0.5, 0.5)
    a2 = np.clip(forward(layers_of(state.actor_target), s2, np.tanh)[0] + noise, -1, 1)
    pair2 = np.concatenate([s2, a2], 1)
    q2 = np.stack([forward(layers_of(member(state.critic_target, j)), pair2)[0] for j in (0, 1)])
    beyond = (1 - end) * smaller(q2, weights) + (end * absorbing / 0.01 if terminal == "allowance" else 0.0)
    y = signal + 0.99 * beyond

    pair, loss, critics = np.concatenate([s, a], 1), 0.0, []
    for j in (0, 1):
        layers = layers_of(member(state.critic, j))
        value, (inputs, _) = forward(layers, pair)
        loss += np.square(value - y).sum() / BATCH
        gradient, _ = backward(layers, inputs, 2 * (value - y) / BATCH)
        critics.append(adam_layers(layers, gradient, 3e-4))
        close(member(new.critic, j), critics[j])
        close(member(new.critic_target, j), mixed(layers_of(member(state.critic_target, j)), critics[j]), 1e-6)
    np.testing.assert_allclose(metrics["loss/critic"], loss, rtol=1e-4)

    actor = layers_of(state.actor)
    pi, (inputs, raw) = forward(actor, s, np.tanh)
    first = critics[0]
    value, (critic_inputs, _) = forward(first, np.concatenate([s, pi], 1))
    q = value @ weights
    scale = 2.5 / np.abs(q).mean()
    _, into = backward(first, critic_inputs, np.tile(-scale * weights / BATCH, (BATCH, 1)))
    into = into[:, OBS:] + 2 * (pi - a) / (BATCH * ACT)
    gradient, _ = backward(actor, inputs, into * (1 - np.tanh(raw) ** 2))
    stepped = adam_layers(actor, gradient, 3e-4)
    np.testing.assert_allclose(metrics["loss/actor"], -scale * q.mean() + np.square(pi - a).mean(), rtol=1e-4)
    close(new.actor, stepped)
    close(new.actor_target, mixed(layers_of(state.actor_target), stepped), 1e-6)


def test_td3_bc_delays_its_actor_and_targets():
    oracle = td3_bc(TD3BCConfig(hidden=HIDDEN, policy_delay=3))
    batch = make_batch()
    state = oracle.init(jax.random.key(1), jax.tree.map(lambda x: x[0], batch))
    assert len(oracle.cycle) == 3
    new, _ = oracle.cycle[0](jax.random.key(2), state, batch, OBJECTIVE)
    for name in ("actor", "actor_target", "critic_target"):
        jax.tree.map(np.testing.assert_array_equal, getattr(new, name), getattr(state, name))
    assert not np.array_equal(new.critic[0].weight, state.critic[0].weight)


def test_td3_bc_value_is_the_mean_of_the_smaller_critic_at_its_own_actions():
    for critic in ("scalar", "decomposed"):
        oracle = td3_bc(TD3BCConfig(critic=critic, hidden=HIDDEN))
        batch = make_batch()
        state = oracle.init(jax.random.key(1), jax.tree.map(lambda x: x[0], batch))
        _, weights, _ = heads_of(batch, critic)
        s = np.asarray(batch.obs, np.float64)
        pi = forward(layers_of(state.actor), s, np.tanh)[0]
        pair = np.concatenate([s, pi], 1)
        q = np.stack([forward(layers_of(member(state.critic, j)), pair)[0] for j in (0, 1)])
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
    state = state._replace(
        critic_target=scaled(state.critic, 1.1), actor=state.actor._replace(log_std=jnp.array([0.1, -0.2]))
    )
    new, metrics = oracle.cycle[0](jax.random.key(2), state, batch, OBJECTIVE)

    signal, weights, _ = heads_of(batch, critic)
    s, a, s2 = (np.asarray(x, np.float64) for x in (batch.obs, batch.action, batch.next_obs))
    pair, v_layers = np.concatenate([s, a], 1), layers_of(state.value)
    old = [layers_of(member(state.critic_target, j)) for j in (0, 1)]
    logged = smaller(np.stack([forward(q, pair)[0] for q in old]), weights)
    v, (v_inputs, _) = forward(v_layers, s)
    advantage = (logged - v) @ weights
    side = np.abs(0.7 - (advantage < 0))
    np.testing.assert_allclose(metrics["loss/value"], (side * np.square(logged - v).sum(1)).mean(), rtol=1e-4)
    gradient, _ = backward(v_layers, v_inputs, -2 * side[:, None] * (logged - v) / BATCH)
    close(new.value, adam_layers(v_layers, gradient, 3e-4))

    y = signal + 0.99 * (1 - np.asarray(batch.terminal))[:, None] * forward(v_layers, s2)[0]
    for j in (0, 1):
        layers = layers_of(member(state.critic, j))
        value, (inputs, _) = forward(layers, pair)
        gradient, _ = backward(layers, inputs, (value - y) / BATCH)
        stepped = adam_layers(layers, gradient, 3e-4)
        close(member(new.critic, j), stepped)
        close(member(new.critic_target, j), mixed(old[j], stepped), 1e-6)

    actor = layers_of(state.actor.mean)
    mean, (inputs, raw) = forward(actor, s, np.tanh)
    std = np.exp(np.asarray(state.actor.log_std, np.float64))
    weight = np.minimum(np.exp(3.0 * advantage), 100.0)
    likelihood = (-0.5 * np.square((a - mean) / std) - np.log(std) - 0.5 * np.log(2 * np.pi)).sum(1)
    np.testing.assert_allclose(metrics["loss/actor"], -(weight * likelihood).mean(), rtol=1e-4)
    into = -weight[:, None] * (a - mean) / std**2 / BATCH * (1 - np.tanh(raw) ** 2)
    gradient, _ = backward(actor, inputs, into)
    close(new.actor.mean, adam_layers(actor, gradient, 3e-4))
    spread = -(weight[:, None] * (np.square((a - mean) / std) - 1)).mean(0)
    np.testing.assert_allclose(new.actor.log_std, adam(np.asarray(state.actor.log_std), spread, 3e-4), atol=2e-6)


def test_bc_update():
    oracle = bc(BCConfig(hidden=HIDDEN))
    batch = make_batch()
    state = oracle.init(jax.random.key(1), jax.tree.map(lambda x: x[0], batch))
    new, metrics = oracle.cycle[0](jax.random.key(2), state, batch, OBJECTIVE)
    layers, a = layers_of(state.actor), np.asarray(batch.action, np.float64)
    pi, (inputs, raw) = forward(layers, np.asarray(batch.obs, np.float64), np.tanh)
    np.testing.assert_allclose(metrics["loss/cloning"], np.square(pi - a).mean(), rtol=1e-5)
    gradient, _ = backward(layers, inputs, 2 * (pi - a) / a.size * (1 - np.tanh(raw) ** 2))
    close(new.actor, adam_layers(layers, gradient, 1e-3))
