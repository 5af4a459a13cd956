"""PPO with a Lagrangian (Ray et al. 2019, "Benchmarking Safe Exploration"): the behavior policies that fill a log.

A Gaussian policy and a critic of reward and costs learn from one batch of whole episodes at a time:

    A = (A_r - sum_i lambda_i A_ci) / (1 + sum_i lambda_i)             each A standardized over the batch
    actor:  -mean min(rho A, clip(rho, 1 - eps, 1 + eps) A)             rho = pi(a | s) / pi_old(a | s)
    critic: mean sum_h (V_h(s) - G_h)^2                                 heads h: reward, each cost
    lambda: a PID controller of the mean episode's cost against the limit (`duals.pid`)

Arrays have axes [S, T]: S episodes of at most T steps, `alive` where a step belongs to its episode.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from o3srl import nets
from o3srl.duals import pid
from o3srl.evaluate import Trace
from o3srl.losses import descend, gaussian_log_likelihood
from o3srl.nets import Layers
from o3srl.types import Metrics, Play, Policy, State, Step, Value

UNIT = 0.1  # of an episode's steps: the costs that a violation is measured in
RARE = 0.05  # least standard deviation that a cost advantage is divided by: a cost that hardly occurs counts little
LEAST_RATE = 0.1  # of the learning rate, at the end
FURTHEST = 10.0  # standard deviations from the mean, beyond which observations are cut off


@dataclass(frozen=True)
class PPOConfig:
    """PPO-Lagrangian; defaults make logs like DSRL's in the tasks of Bullet-Safety-Gym."""

    discount: float = 0.99
    """gamma"""
    trace: float = 0.95
    """lambda of generalized advantage estimation"""
    clip: float = 0.2
    """epsilon, how far the policy's ratio may go"""
    rate: float = 1e-3
    """Adam's learning rate at the start of a rung, where it falls linearly to a tenth"""
    passes: int = 10
    """times that each batch is gone through"""
    parts: int = 8
    """gradient steps per pass"""
    divergence: float = 0.03
    """passes end when the policy has moved this far from the batch's, in nats"""
    exploration: float = 0.6
    """standard deviation of the first actions, in the unit box"""
    hidden: tuple[int, ...] = (64, 64)
    """widths of the hidden layers of policy and critic"""


DEFAULT = PPOConfig()


class Behavior(NamedTuple):
    """What acts: layers of the mean action, log_std [m], and mean [n] and scale [n] of observations."""

    actor: Layers
    log_std: Array
    mean: Array
    scale: Array


class Moments(NamedTuple):
    """Running mean [n] and variance [n] of observations over so many steps []."""

    mean: Array
    variance: Array
    steps: Array


class Learner(NamedTuple):
    """Actor, log_std [m], critic of [1 + M] heads, the optimizer's moments, those of observations, units [1 + M] that
    the critic's values are in, and the controller's state."""

    actor: Layers
    log_std: Array
    critic: Layers
    optimizer: Any
    moments: Moments
    units: Array
    controller: State


class Batch(NamedTuple):
    """Steps with what is needed to learn from them, axes [N]: weight is 1 for a step that was lived, else 0."""

    obs: Array
    action: Array
    log_likelihood: Array
    advantage: Array
    target: Array
    weight: Array


def start(key: Array, obs_dim: int, action_dim: int, costs: int, config: PPOConfig) -> Learner:
    """Return a learner whose mean action is near zero."""
    key_actor, key_critic = jax.random.split(key)
    *below, last = nets.mlp(key_actor, obs_dim, action_dim, config.hidden)
    actor = (*below, nets.Layer(0.01 * last.weight, jnp.zeros_like(last.bias)))
    log_std = jnp.full(action_dim, jnp.log(config.exploration))
    critic = nets.mlp(key_critic, obs_dim, 1 + costs, config.hidden)
    moments = Moments(jnp.zeros(obs_dim), jnp.ones(obs_dim), jnp.float32(0.0))
    optimizer = _optimizer(config.rate).init((actor, log_std, critic))
    return Learner(actor, log_std, critic, optimizer, moments, jnp.zeros(1 + costs), _controller(costs).init())


def behavior(learner: Learner) -> Behavior:
    """Return what of the learner acts."""
    scale = jnp.sqrt(learner.moments.variance + 1e-6)
    return Behavior(learner.actor, learner.log_std, learner.moments.mean, scale)


def sample(key: Array, parameters: Behavior, obs: Array) -> Array:
    """Return actions [..., m] ~ N(mean(obs), exp(log_std)^2) for obs [..., n]; they may leave the unit box."""
    mean = nets.perceptron(parameters.actor, _standard(parameters, obs))
    return mean + jnp.exp(parameters.log_std) * jax.random.normal(key, mean.shape)


def policy() -> Policy:
    """Return `sample` as a policy without memory."""

    def reset(key: Array, parameters: Behavior, limit: Array) -> State:
        del key, parameters, limit
        return ()

    def act(key: Array, parameters: Behavior, memory: State, step: Step) -> tuple[Array, State]:
        return sample(key, parameters, step.obs), memory

    return Policy(reset, act)


@partial(jax.jit, static_argnames="config")
def learn(
    key: Array, learner: Learner, seen: Trace, limit: Array, left: Array, config: PPOConfig
) -> tuple[Learner, Metrics]:
    """Return the learner after one batch of episodes [S, T], sampled by `behavior(learner)`, under limit [M].

    `left` [] is the share of the training that is yet to come.
    """
    seen = _lived(seen)
    parts = jnp.concatenate([seen.reward[..., None], seen.cost], axis=-1)
    units = _units(learner.units, parts, seen.alive, config.discount)
    controller, multiplier, metrics = _answer(learner.controller, seen, limit)
    acting = behavior(learner)

    def values(obs: Array) -> Array:
        return nets.perceptron(learner.critic, _standard(acting, obs))

    gain = partial(advantages, discount=config.discount, decay=config.trace)
    advantage = jax.vmap(gain)(values(seen.obs), values(seen.next_obs), parts / units, seen.terminal, seen.alive)
    batch = Batch(
        obs=_standard(acting, seen.obs),
        action=seen.action,
        log_likelihood=_log_likelihood(learner.actor, learner.log_std, _standard(acting, seen.obs), seen.action),
        advantage=_weigh(advantage, multiplier, seen.alive),
        target=advantage + values(seen.obs),
        weight=seen.alive.astype(jnp.float32),
    )
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), batch)
    learned = _passes(key, learner, flat, jnp.maximum(left, LEAST_RATE) * config.rate, config)
    moments = _more(learner.moments, seen.obs, seen.alive)
    metrics = {**metrics, "deviation": jnp.mean(jnp.exp(learned.log_std))}
    return learned._replace(moments=moments, units=units, controller=controller), metrics


def advantages(
    value: Array, following: Array, parts: Array, terminal: Array, alive: Array, discount: float, decay: float
) -> Array:
    """Return A_t = d_t + gamma lambda A_{t+1}, d_t = x_t + gamma (1 - terminal_t) V(s_{t+1}) - V(s_t), of one episode.

    value, following and parts are [T, h]; terminal and alive [T]; an episode's last step has no A_{t+1}.
    """
    difference = parts + discount * (1.0 - terminal)[:, None] * following - value

    def back(later: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        own, lived = now
        total = jnp.where(lived, own + discount * decay * later, 0.0)
        return total, total

    return jax.lax.scan(back, jnp.zeros(parts.shape[-1]), (difference, alive), reverse=True)[1]


def _lived(seen: Trace) -> Trace:
    """The episodes with zeros behind their ends, where a simulator may have left anything."""

    def masked(x: Array) -> Array:
        return jnp.where(jnp.expand_dims(seen.alive, tuple(range(2, x.ndim))), x, 0)

    return jax.tree.map(masked, seen)


def _weigh(advantage: Array, multiplier: Array, alive: Array) -> Array:
    """(A_r - multiplier . A_c) / (1 + sum multiplier) [S, T], each standardized over the steps that were lived."""
    weight = alive[..., None] / jnp.maximum(jnp.sum(alive), 1)
    mean = jnp.sum(weight * advantage, axis=(0, 1))
    deviation = jnp.sqrt(jnp.sum(weight * jnp.square(advantage - mean), axis=(0, 1)))
    least = jnp.full_like(deviation, RARE).at[0].set(1e-8)
    standard = (advantage - mean) / jnp.maximum(deviation, least)
    return (standard[..., 0] - standard[..., 1:] @ multiplier) / (1.0 + jnp.sum(multiplier))


def _answer(state: State, seen: Trace, limit: Array) -> tuple[State, Array, Metrics]:
    """The controller's answer to the batch's costs; an infinite limit keeps its multiplier at zero."""
    controller = _controller(limit.shape[0])
    cost = jnp.mean(jnp.sum(seen.cost, axis=1), axis=0)
    bounded = jnp.isfinite(limit)
    violation = jnp.where(bounded, (cost - limit) / (UNIT * seen.reward.shape[1]), -1.0)
    nothing = jnp.float32(0.0)
    play = Play(violation, violation, nothing, nothing)  # which the controller does not read
    state = controller.update(state, play, Value(nothing, violation))
    multiplier = controller.play(jax.random.key(0), state).multiplier
    reward = jnp.mean(jnp.sum(seen.reward, axis=1))
    return state, multiplier, {"reward": reward, "cost": cost, "multiplier": multiplier}


def _passes(key: Array, learner: Learner, batch: Batch, rate: Array, config: PPOConfig) -> Learner:
    """Several passes of gradient steps over the batch, which end early when the policy has moved too far."""
    optimizer = _optimizer(rate)
    count = batch.weight.shape[0] // config.parts * config.parts

    def step(carry: tuple[Any, Any], part: Batch) -> tuple[tuple[Any, Any], None]:
        _, weights, state = descend(optimizer, partial(_loss, part, config), *carry)
        return (weights, state), None

    def again(carry: tuple[Any, Any], key_pass: Array) -> tuple[Any, Any]:
        order = jax.random.permutation(key_pass, batch.weight.shape[0])[:count].reshape(config.parts, -1)
        return jax.lax.scan(step, carry, jax.tree.map(lambda x: x[order], batch))[0]

    def passing(carry: tuple[Any, Any], key_pass: Array) -> tuple[tuple[Any, Any], None]:
        (actor, log_std, _), _ = carry
        far = _divergence(actor, log_std, batch) > config.divergence
        return jax.lax.cond(far, lambda carry, _: carry, again, carry, key_pass), None

    carry = ((learner.actor, learner.log_std, learner.critic), learner.optimizer)
    carry, _ = jax.lax.scan(passing, carry, jax.random.split(key, config.passes))
    (actor, log_std, critic), state = carry
    return learner._replace(actor=actor, log_std=log_std, critic=critic, optimizer=state)


def _loss(part: Batch, config: PPOConfig, weights: Any) -> Array:
    actor, log_std, critic = weights
    lived = jnp.maximum(jnp.sum(part.weight), 1.0)
    ratio = jnp.exp(_log_likelihood(actor, log_std, part.obs, part.action) - part.log_likelihood)
    clipped = jnp.clip(ratio, 1.0 - config.clip, 1.0 + config.clip)
    gain = jnp.minimum(ratio * part.advantage, clipped * part.advantage)
    error = jnp.sum(jnp.square(nets.perceptron(critic, part.obs) - part.target), axis=-1)
    return jnp.sum(part.weight * (0.5 * error - gain)) / lived


def _divergence(actor: Layers, log_std: Array, batch: Batch) -> Array:
    """An estimate of KL(old || new): mean (rho - 1 - log rho), which is never negative."""
    log_ratio = _log_likelihood(actor, log_std, batch.obs, batch.action) - batch.log_likelihood
    return jnp.sum(batch.weight * (jnp.expm1(log_ratio) - log_ratio)) / jnp.maximum(jnp.sum(batch.weight), 1.0)


def _units(units: Array, parts: Array, alive: Array, discount: float) -> Array:
    """Root mean squares [1 + M] of discounted sums to come, averaged over batches; the first batch's to begin with."""
    nothing = jnp.zeros_like(parts[0])

    def to_come(own: Array, lived: Array) -> Array:
        return advantages(nothing, nothing, own, jnp.zeros(len(lived)), lived, discount, 1.0)

    weight = alive[..., None] / jnp.maximum(jnp.sum(alive), 1)
    fresh = jnp.sqrt(jnp.sum(weight * jnp.square(jax.vmap(to_come)(parts, alive)), axis=(0, 1)))
    fresh = jnp.maximum(fresh, jnp.ones_like(fresh).at[0].set(1e-6))
    return jnp.where(units == 0.0, fresh, 0.95 * units + 0.05 * fresh)


def _more(moments: Moments, obs: Array, alive: Array) -> Moments:
    """The moments with a batch [S, T, n] counted in (Chan et al. 1979)."""
    weight = alive[..., None].astype(jnp.float32)
    fresh = jnp.sum(weight)
    mean = jnp.sum(weight * obs, axis=(0, 1)) / fresh
    variance = jnp.sum(weight * jnp.square(obs - mean), axis=(0, 1)) / fresh
    steps = moments.steps + fresh
    share, apart = fresh / steps, mean - moments.mean
    both = (1.0 - share) * moments.variance + share * variance + share * (1.0 - share) * jnp.square(apart)
    return Moments(moments.mean + share * apart, both, steps)


def _standard(parameters: Behavior, obs: Array) -> Array:
    return jnp.clip((obs - parameters.mean) / parameters.scale, -FURTHEST, FURTHEST)


def _log_likelihood(actor: Layers, log_std: Array, obs: Array, action: Array) -> Array:
    return gaussian_log_likelihood(action, nets.perceptron(actor, obs), log_std)


def _controller(costs: int) -> Any:
    return pid(proportional=0.5, integral=0.02, derivative=0.0, maximum=20.0, costs=costs)


def _optimizer(rate: Array | float) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(0.5), optax.scale_by_adam(), optax.scale(-rate))
