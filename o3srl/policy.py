"""Policies, as records; and wrappers of them."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
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


def in_box(action: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return actions [..., m], clipped to the unit box, in the environment's own: low + (a + 1) / 2 (high - low).

    >>> in_box([0.5, -3.0], [0.0, 0.0], [4.0, 4.0]).tolist()
    [3.0, 0.0]
    """
    bottom = np.asarray(low, np.float64)
    return bottom + (np.clip(action, -1.0, 1.0) + 1.0) / 2.0 * (np.asarray(high, np.float64) - bottom)
