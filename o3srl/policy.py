"""Policies, as records; and wrappers of them."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from o3srl.types import Parameters, Policy, State, Step


def markov(act: Callable[[Parameters, Array], Array]) -> Policy:
    """Return the memoryless policy of `act(parameters, obs [..., n]) -> action [..., m]`, clipped to the unit box."""

    def reset(key: Array, parameters: Parameters, limit: Array) -> State:
        del key, parameters, limit
        return ()

    def step(key: Array, parameters: Parameters, memory: State, step: Step) -> tuple[Array, State]:
        del key
        return jnp.clip(act(parameters, step.obs), -1.0, 1.0), memory

    return Policy(reset, step)
