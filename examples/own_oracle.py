"""An oracle of your own in the game: `python examples/own_oracle.py`.

The game asks three things of an offline RL algorithm: how to begin, how to take a gradient update on the reward of the
day (`objective.reward(batch)` in the place of `batch.reward`), and how well its policy then does. Here it is a small
advantage-weighted actor-critic (after AWAC, Nair et al. 2020, https://arxiv.org/abs/2006.09359).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from o3srl import adaptive, exp3, nets, o3srl, plain, train
from o3srl.envs import make
from o3srl.envs.toy_data import task_data
from o3srl.evaluate import rollout
from o3srl.losses import descend
from o3srl.nets import Layers
from o3srl.policy import markov
from o3srl.types import Algorithm, Metrics, Objective, Oracle, Transition, Value

TASK, LIMIT = "toy-circle", 5.0


class WeightedState(NamedTuple):
    """Layers of the actor, the twin critics and their targets, and the optimizer's moments: arrays and nothing else."""

    actor: Layers
    critic: Layers
    target: Layers
    optimizer: Any


def weighted(rate: float = 1e-3, tau: float = 0.01, discount: float = 0.99, beta: float = 1.0) -> Oracle:
    """Return the oracle; with Q = min(Q1, Q2), and A = Q(s, a) - Q(s, pi(s)) over its standard deviation in the batch:

    y = r' + gamma (1 - terminal) Qbar(s', pi(s'))
    critic: sum_j mean (Q_j(s, a) - y)^2
    actor:  sum softmax(beta A) |pi(s) - a|^2
    """
    adam, hidden = optax.adam(rate), (64, 64)

    def act(actor: Layers, obs: Array) -> Array:
        return nets.perceptron(actor, obs, final=jnp.tanh)

    def both(critic: Layers, obs: Array, action: Array) -> Array:
        pair = jnp.concatenate([obs, action], axis=-1)
        return nets.each(nets.perceptron, critic, pair)[..., 0]

    def q(critic: Layers, obs: Array, action: Array) -> Array:
        return jnp.min(both(critic, obs, action), axis=0)

    def init(key: Array, example: Transition) -> WeightedState:
        n, m = example.obs.shape[-1], example.action.shape[-1]
        key_actor, key_critic = jax.random.split(key)
        actor = nets.mlp(key_actor, n, m, hidden)
        critic = nets.ensemble(key_critic, 2, n + m, 1, hidden)
        return WeightedState(actor, critic, critic, adam.init((actor, critic)))

    def update(
        key: Array, state: WeightedState, batch: Transition, objective: Objective
    ) -> tuple[WeightedState, Metrics]:
        del key  # this oracle draws nothing
        following = q(state.target, batch.next_obs, act(state.actor, batch.next_obs))
        target = objective.reward(batch) + discount * (1.0 - batch.terminal) * following
        own = q(state.critic, batch.obs, act(state.actor, batch.obs))
        advantage = q(state.critic, batch.obs, batch.action) - own
        weight = jax.nn.softmax(beta * advantage / (jnp.std(advantage) + 1e-6))

        def loss(layers: tuple[Layers, Layers]) -> Array:
            actor, critic = layers
            away = jnp.sum(jnp.square(act(actor, batch.obs) - batch.action), axis=-1)
            error = jnp.square(both(critic, batch.obs, batch.action) - target)
            return jnp.sum(jnp.mean(error, axis=-1)) + jnp.sum(weight * away)

        value, (actor, critic), moments = descend(adam, loss, (state.actor, state.critic), state.optimizer)
        return WeightedState(actor, critic, nets.polyak(state.target, critic, tau), moments), {"loss/sum": value}

    def value(key: Array, state: WeightedState, obs: Array, objective: Objective) -> Value:
        del key, objective
        return Value(jnp.mean(q(state.critic, obs, act(state.actor, obs))), None)  # one number, so no violation

    return Oracle(
        init=init,
        cycle=(update,),
        value=value,
        parameters=lambda state: state.actor,
        policy=markov(act),
        discount=discount,
        parts=False,
    )


def outcome(algorithm: Algorithm, updates: int) -> tuple[float, float]:
    """Return (mean return, mean cost) of twenty simulated episodes after training."""
    state, _ = train(jax.random.PRNGKey(0), algorithm, task_data(TASK), updates=updates)
    parameters = algorithm.parameters(state)["last"]
    done = rollout(jax.random.PRNGKey(1), algorithm.policy, parameters, make(TASK), jnp.array([LIMIT]), 20)
    return float(done.returns.mean()), float(done.costs.mean())


def main(arguments: Sequence[str] | None = None) -> dict[str, tuple[float, float]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=5000, help="gradient updates, a multiple of 10")
    updates = parser.parse_args(arguments).updates
    algorithms = {
        "alone, blind to cost": plain(weighted(), batch_size=128),
        f"in the game, limit {LIMIT:g}": o3srl(weighted(), exp3(adaptive(5.0, 5, LIMIT)), limit=LIMIT, batch_size=128),
    }
    results = {name: outcome(algorithm, updates) for name, algorithm in algorithms.items()}
    for name, (earned, cost) in results.items():
        print(f"{name}: return {earned:.1f}, cost {cost:.1f}")
    return results


if __name__ == "__main__":
    main()
