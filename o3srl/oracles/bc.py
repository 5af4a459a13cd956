"""Behavior cloning: imitate the logged actions. It has no critic, so it trains by `plain(...)` alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import optax
from jax import Array

from o3srl import nets
from o3srl.losses import descend
from o3srl.nets import Layers
from o3srl.policy import markov
from o3srl.types import Metrics, Objective, Oracle, Transition


@dataclass(frozen=True)
class BCConfig:
    """Behavior cloning; defaults are OSRL's."""

    rate: float = 1e-3
    """Adam's learning rate"""
    discount: float = 0.99
    """gamma, which cloning does not use; others read it off the oracle"""
    hidden: tuple[int, ...] = (256, 256)
    """widths of the hidden layers"""
    precision: nets.Precision = "auto"
    """what the layers compute in (auto: bfloat16 on a GPU, float32 on a CPU); parameters are always float32"""


class BCState(NamedTuple):
    """Layers of the actor, and its optimizer's moments."""

    actor: Layers
    optimizer: Any


def bc(config: BCConfig = BCConfig()) -> Oracle:
    """Return the oracle whose actor minimizes mean (pi(s) - a)^2 over batch and action dimensions."""
    adam = optax.adam(config.rate)

    act = partial(nets.perceptron, final=jnp.tanh, compute=nets.compute_type(config.precision))

    def init(key: Array, example: Transition) -> BCState:
        actor = nets.mlp(key, example.obs.shape[-1], example.action.shape[-1], config.hidden)
        return BCState(actor, adam.init(actor))

    def update(key: Array, state: BCState, batch: Transition, objective: Objective) -> tuple[BCState, Metrics]:
        del key, objective

        def loss(actor: Layers) -> Array:
            return jnp.mean(jnp.square(act(actor, batch.obs) - batch.action))

        value, actor, optimizer = descend(adam, loss, state.actor, state.optimizer)
        return BCState(actor, optimizer), {"loss/cloning": value}

    return Oracle(
        init=init,
        cycle=(update,),
        value=None,
        parameters=lambda state: state.actor,
        policy=markov(act),
        discount=config.discount,
        parts=False,
    )
