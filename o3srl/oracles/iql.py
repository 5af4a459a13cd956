"""IQL, implicit Q-learning (Kostrikov et al., 2022, https://arxiv.org/abs/2110.06169), as an oracle.

An expectile of the critic over the logged actions stands for the best action's value, so no unseen action is ever
evaluated; the policy imitates logged actions weighted by their advantage. Hyperparameters and the order of updates
are those of CORL's version.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from o3srl import nets
from o3srl.losses import descend, expectile_error, gaussian_log_likelihood, squared_error
from o3srl.nets import Layers
from o3srl.oracles import critic as critics
from o3srl.policy import markov
from o3srl.types import Metrics, Objective, Oracle, Transition, Value

LOG_STD_RANGE = (-20.0, 2.0)


@dataclass(frozen=True)
class IQLConfig:
    """IQL; defaults are CORL's."""

    critic: Literal["scalar", "decomposed"] = "scalar"
    """one head for the modified reward (the paper), or one per part: reward and each cost"""
    terminal: Literal["zero", "allowance"] = "zero"
    """what lies behind a terminal: nothing (the paper), or the allowance of the steps that were not lived"""
    discount: float = 0.99
    """gamma"""
    expectile: float = 0.7
    """which expectile of Q over the logged actions V is"""
    beta: float = 3.0
    """inverse temperature of the advantage weights"""
    weight_limit: float = 100.0
    """largest advantage weight"""
    tau: float = 0.005
    """rate of the target's soft update"""
    actor_rate: float = 3e-4
    """Adam's learning rate of the actor, which decays along a cosine"""
    critic_rate: float = 3e-4
    """Adam's learning rate of Q and V"""
    decay_updates: int = 1_000_000
    """length of that cosine in updates"""
    hidden: tuple[int, ...] = (256, 256)
    """widths of the hidden layers of actor, Q and V"""
    precision: nets.Precision = "auto"
    """what the layers compute in (auto: bfloat16 on a GPU, float32 on a CPU); parameters are always float32"""


class Actor(NamedTuple):
    """The Gaussian policy: layers of its mean, and log_std [m], the same in all states."""

    mean: Layers
    log_std: Array


class IQLState(NamedTuple):
    """Actor, V, twin Q and its target, and the optimizers' moments."""

    actor: Actor
    value: Layers
    critic: Layers
    critic_target: Layers
    actor_optimizer: Any
    value_optimizer: Any
    critic_optimizer: Any


def iql(config: IQLConfig = IQLConfig()) -> Oracle:
    """Return the oracle; its value is mean over states of V(s).

    One update, from the V and Q of its start, with A = min_j Qbar_j(s, a) - V(s):

        V:     mean |expectile - 1[A < 0]| (Qbar(s, a) - V(s))^2
        Q:     y = r' + gamma (1 - terminal) V(s');  1/2 sum_j mean (Q_j(s, a) - y)^2
        actor: -mean min(exp(beta A), weight_limit) log pi(a | s)
    """
    heads = {"scalar": critics.scalar, "decomposed": critics.decomposed}[config.critic]()
    compute = nets.compute_type(config.precision)
    schedule = optax.cosine_decay_schedule(config.actor_rate, config.decay_updates)
    actor_adam, value_adam, critic_adam = map(optax.adam, (schedule, config.critic_rate, config.critic_rate))
    network = partial(nets.perceptron, compute=compute)

    def init(key: Array, example: Transition) -> IQLState:
        key_actor, key_value, key_critic = jax.random.split(key, 3)
        obs_dim, action_dim = example.obs.shape[-1], example.action.shape[-1]
        outputs = heads.outputs(example.cost.shape[-1])
        actor = Actor(nets.mlp(key_actor, obs_dim, action_dim, config.hidden), jnp.zeros(action_dim))
        v = nets.mlp(key_value, obs_dim, outputs, config.hidden)
        q = nets.ensemble(key_critic, 2, obs_dim + action_dim, outputs, config.hidden)
        return IQLState(actor, v, q, q, actor_adam.init(actor), value_adam.init(v), critic_adam.init(q))

    def update(key: Array, state: IQLState, batch: Transition, objective: Objective) -> tuple[IQLState, Metrics]:
        del key
        pair = jnp.concatenate([batch.obs, batch.action], axis=-1)
        weights = heads.weights(objective)

        following = network(state.value, batch.next_obs)
        logged = critics.pessimistic(nets.each(network, state.critic_target, pair), weights)
        advantage = (logged - network(state.value, batch.obs)) @ weights
        target = critics.backup(heads, batch, objective, following, config.discount, config.terminal == "allowance")

        def value_loss(layers: Layers) -> Array:
            difference = logged - network(layers, batch.obs)
            return expectile_error(difference, advantage, config.expectile)

        def critic_loss(layers: Layers) -> Array:
            return 0.5 * squared_error(nets.each(network, layers, pair), target)

        def actor_loss(actor: Actor) -> Array:
            mean = act(actor, batch.obs)
            log_std = jnp.clip(actor.log_std, *LOG_STD_RANGE)
            weight = jnp.minimum(jnp.exp(config.beta * advantage), config.weight_limit)
            return -jnp.mean(weight * gaussian_log_likelihood(batch.action, mean, log_std))

        loss_value, value, value_optimizer = descend(value_adam, value_loss, state.value, state.value_optimizer)
        loss_critic, critic, critic_optimizer = descend(critic_adam, critic_loss, state.critic, state.critic_optimizer)
        loss_actor, actor, actor_optimizer = descend(actor_adam, actor_loss, state.actor, state.actor_optimizer)
        critic_target = nets.polyak(state.critic_target, critic, config.tau)
        state = IQLState(actor, value, critic, critic_target, actor_optimizer, value_optimizer, critic_optimizer)
        return state, {"loss/value": loss_value, "loss/critic": loss_critic, "loss/actor": loss_actor}

    def value(key: Array, state: IQLState, obs: Array, objective: Objective) -> Value:
        del key
        return heads.value(jnp.mean(network(state.value, obs), axis=0), objective)

    def act(actor: Actor, obs: Array) -> Array:
        return nets.perceptron(actor.mean, obs, final=jnp.tanh, compute=compute)

    return Oracle(
        init=init,
        cycle=(update,),
        value=value,
        parameters=lambda state: state.actor,
        policy=markov(act),
        discount=config.discount,
        parts=heads.parts,
    )
