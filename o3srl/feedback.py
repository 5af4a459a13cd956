"""What a round of the game reveals to the dual, in units of an average per step.

An oracle values its policy as a discounted sum; here, and nowhere else, that is divided by H = 1/(1 - gamma), so that
losses are about [-1, 1] whatever the discount.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from o3srl import nets
from o3srl.losses import descend, squared_error
from o3srl.nets import Layers
from o3srl.oracles import critic as critics
from o3srl.types import Data, Feedback, Objective, Oracle, Parameters, Sample, State, Step, Transition, Value


def at_batch_states() -> Feedback:
    """Return the paper's feedback: the oracle's value at the states of the round's last batch, divided by H.

    It averages over the states that the log visits, also those that only unsafe behavior reaches.
    """
    return _from_critic(lambda sample: sample.batches.obs[-1])


def at_initial_states() -> Feedback:
    """Return the oracle's value at logged initial states, divided by H: what the limit is about, on fewer states."""
    return _from_critic(lambda sample: sample.initial)


@dataclass(frozen=True)
class FittedConfig:
    """Fitted Q evaluation of the policy in every round; the step sizes are those of TD3+BC's critic."""

    passes: int = 1
    """how often a round's batches are gone through; its own updates do not count among the run's"""
    rate: float = 3e-4
    """Adam's learning rate"""
    tau: float = 0.005
    """rate of the target's soft update"""
    hidden: tuple[int, ...] = (256, 256)
    """widths of the hidden layers"""


class FittedState(NamedTuple):
    """Layers of the evaluation and of its target, and the optimizer's moments."""

    q: Layers
    target: Layers
    optimizer: Any


def fitted(config: FittedConfig = FittedConfig()) -> Feedback:
    """Return the feedback of Le et al. (2019, https://arxiv.org/abs/1903.08738): fitted evaluation, at initial states.

    A network of its own learns what the policy of the round earns and costs, from where the last round left it:

        y = (r, allowance - c) + gamma (1 - terminal) Qbar(s', pi(s')),   Q: sum_h mean (Q_h(s, a) - y_h)^2

    So the violation is known also with an oracle whose critic is scalar, at the price of as many more updates.
    """
    heads, adam = critics.decomposed(), optax.adam(config.rate)

    def init(key: Array, data: Data) -> FittedState:
        info = data.info
        q = nets.mlp(key, info.obs_dim + info.action_dim, heads.outputs(info.costs), config.hidden)
        return FittedState(q, q, adam.init(q))

    def reveal(
        key: Array, state: FittedState, oracle: Oracle, primal: State, sample: Sample, objective: Objective
    ) -> tuple[FittedState, Value]:
        parameters = oracle.parameters(primal)
        key_learn, key_value = jax.random.split(key)

        def q_of_policy(key: Array, layers: Layers, obs: Array) -> Array:
            return nets.perceptron(layers, jnp.concatenate([obs, _actions(key, oracle, parameters, obs)], axis=-1))

        def update(state: FittedState, xs: tuple[Array, Transition]) -> tuple[FittedState, None]:
            key, batch = xs
            following = q_of_policy(key, state.target, batch.next_obs)
            target = critics.backup(heads, batch, objective, following, oracle.discount, end=False)

            def loss(layers: Layers) -> Array:
                return squared_error(nets.perceptron(layers, jnp.concatenate([batch.obs, batch.action], -1)), target)

            _, q, optimizer = descend(adam, loss, state.q, state.optimizer)
            return FittedState(q, nets.polyak(state.target, q, config.tau), optimizer), None

        for key_pass in jax.random.split(key_learn, config.passes):
            keys = jax.random.split(key_pass, sample.batches.reward.shape[0])
            state, _ = jax.lax.scan(update, state, (keys, sample.batches))
        mean = jnp.mean(q_of_policy(key_value, state.q, sample.initial), axis=0)
        return state, jax.tree.map(lambda v: v * (1.0 - oracle.discount), heads.value(mean, objective))

    return Feedback(init, reveal, parts=True)


def _actions(key: Array, oracle: Oracle, parameters: Parameters, obs: Array) -> Array:
    """Return what the policy does at the first step of an episode that begins at each of obs [B, n]: [B, m]."""

    def act(key: Array, one: Array) -> Array:
        nothing = jnp.zeros(0)
        memory = oracle.policy.reset(key, parameters, nothing)
        return oracle.policy.act(key, parameters, memory, Step(one, jnp.zeros(()), nothing))[0]

    return jax.vmap(act)(jax.random.split(key, obs.shape[0]), obs)


def _from_critic(states: Callable[[Sample], Array]) -> Feedback:
    def init(key: Array, data: Data) -> State:
        del key, data
        return ()

    def reveal(
        key: Array, state: State, oracle: Oracle, primal: State, sample: Sample, objective: Objective
    ) -> tuple[State, Value]:
        assert oracle.value is not None  # the game refuses an oracle without a critic
        value = oracle.value(key, primal, states(sample), objective)
        return state, jax.tree.map(lambda v: v * (1.0 - oracle.discount), value)

    return Feedback(init, reveal)
