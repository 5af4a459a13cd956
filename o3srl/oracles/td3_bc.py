"""TD3+BC (Fujimoto and Gu, 2021, https://arxiv.org/abs/2106.06860), the paper's base learner, as an oracle.

A deterministic actor maximizes the critic of the modified reward and stays near the logged actions; twin critics,
smoothed target actions, a delayed actor. Hyperparameters and the order of updates are those of CORL's version, which
the paper's table repeats.
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
from o3srl.losses import descend, squared_error
from o3srl.nets import Layers
from o3srl.oracles import critic as critics
from o3srl.policy import markov
from o3srl.types import Metrics, Objective, Oracle, Transition, Update, Value


@dataclass(frozen=True)
class TD3BCConfig:
    """TD3+BC; defaults are those of the original paper, which O3SRL repeats."""

    critic: Literal["scalar", "decomposed"] = "scalar"
    """one head for the modified reward (the paper), or one per part: reward and each cost"""
    terminal: Literal["zero", "allowance"] = "zero"
    """what lies behind a terminal: nothing (the paper), or the allowance of the steps that were not lived"""
    discount: float = 0.99
    """gamma"""
    alpha: float = 2.5
    """weight of the critic against the behavior-cloning term"""
    policy_noise: float = 0.2
    """standard deviation of the noise on target actions"""
    noise_clip: float = 0.5
    """largest absolute value of that noise"""
    policy_delay: int = 2
    """critic updates per update of the actor and the targets"""
    tau: float = 0.005
    """rate of the targets' soft update"""
    actor_rate: float = 3e-4
    """Adam's learning rate of the actor"""
    critic_rate: float = 3e-4
    """Adam's learning rate of the critics"""
    hidden: tuple[int, ...] = (256, 256)
    """widths of the hidden layers of actor and critics"""
    precision: nets.Precision = "auto"
    """what the layers compute in (auto: bfloat16 on a GPU, float32 on a CPU); parameters are always float32"""


class TD3BCState(NamedTuple):
    """Layers of the actor and of the twin critics, of their targets, and the optimizers' moments."""

    actor: Layers
    critic: Layers
    actor_target: Layers
    critic_target: Layers
    actor_optimizer: Any
    critic_optimizer: Any


def td3_bc(config: TD3BCConfig = TD3BCConfig()) -> Oracle:
    """Return the oracle; its value is mean over states of min(Q1, Q2)(s, pi(s)).

    One cycle is `policy_delay` critic updates, the last of them followed by the actor and the targets:

        y = r' + gamma (1 - terminal) min_j Qbar_j(s', pibar(s') + noise)
        critic: sum_j mean (Q_j(s, a) - y)^2
        actor:  -alpha mean Q_1(s, pi(s)) / mean |Q_1(s, pi(s))| + mean (pi(s) - a)^2
    """
    heads = {"scalar": critics.scalar, "decomposed": critics.decomposed}[config.critic]()
    compute = nets.compute_type(config.precision)
    actor_adam, critic_adam = optax.adam(config.actor_rate), optax.adam(config.critic_rate)

    act = partial(nets.perceptron, final=jnp.tanh, compute=compute)
    q_value = partial(nets.perceptron, compute=compute)

    def init(key: Array, example: Transition) -> TD3BCState:
        obs_dim, action_dim = example.obs.shape[-1], example.action.shape[-1]
        outputs = heads.outputs(example.cost.shape[-1])
        key_actor, key_critic = jax.random.split(key)
        pi = nets.mlp(key_actor, obs_dim, action_dim, config.hidden)
        q = nets.ensemble(key_critic, 2, obs_dim + action_dim, outputs, config.hidden)
        return TD3BCState(pi, q, pi, q, actor_adam.init(pi), critic_adam.init(q))

    def critic_step(
        key: Array, state: TD3BCState, batch: Transition, objective: Objective
    ) -> tuple[TD3BCState, Metrics]:
        noise = jnp.clip(
            config.policy_noise * jax.random.normal(key, batch.action.shape), -config.noise_clip, config.noise_clip
        )
        next_action = jnp.clip(act(state.actor_target, batch.next_obs) + noise, -1.0, 1.0)
        next_q = nets.each(q_value, state.critic_target, _join(batch.next_obs, next_action))
        following = critics.pessimistic(next_q, heads.weights(objective))
        target = critics.backup(heads, batch, objective, following, config.discount, config.terminal == "allowance")

        def loss(layers: Layers) -> Array:
            return squared_error(nets.each(q_value, layers, _join(batch.obs, batch.action)), target)

        value, q, optimizer = descend(critic_adam, loss, state.critic, state.critic_optimizer)
        return state._replace(critic=q, critic_optimizer=optimizer), {"loss/critic": value}

    def critic_and_actor_step(
        key: Array, state: TD3BCState, batch: Transition, objective: Objective
    ) -> tuple[TD3BCState, Metrics]:
        state, metrics = critic_step(key, state, batch, objective)
        weights = heads.weights(objective)

        def loss(layers: Layers) -> Array:
            action = act(layers, batch.obs)
            q = q_value(nets.member(state.critic, 0), _join(batch.obs, action)) @ weights
            scale = config.alpha / jax.lax.stop_gradient(jnp.mean(jnp.abs(q)) + 1e-8)
            return -scale * jnp.mean(q) + jnp.mean(jnp.square(action - batch.action))

        value, pi, optimizer = descend(actor_adam, loss, state.actor, state.actor_optimizer)
        state = state._replace(
            actor=pi,
            actor_optimizer=optimizer,
            actor_target=nets.polyak(state.actor_target, pi, config.tau),
            critic_target=nets.polyak(state.critic_target, state.critic, config.tau),
        )
        return state, {**metrics, "loss/actor": value}

    def value(key: Array, state: TD3BCState, obs: Array, objective: Objective) -> Value:
        del key
        q = nets.each(q_value, state.critic, _join(obs, act(state.actor, obs)))
        return heads.value(jnp.mean(critics.pessimistic(q, heads.weights(objective)), axis=0), objective)

    cycle: tuple[Update, ...] = (critic_step,) * (config.policy_delay - 1) + (critic_and_actor_step,)
    return Oracle(
        init=init,
        cycle=cycle,
        value=value,
        parameters=lambda state: state.actor,
        policy=markov(act),
        discount=config.discount,
        parts=heads.parts,
    )


def _join(obs: Array, action: Array) -> Array:
    return jnp.concatenate([obs, action], axis=-1)
