"""Loss functions, means over a batch and sums over an ensemble; targets get no gradient. And one step down a loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import optax
from jax import Array

Weights = TypeVar("Weights")


def descend(
    optimizer: optax.GradientTransformation, loss: Callable[[Weights], Array], parameters: Weights, state: Any
) -> tuple[Array, Weights, Any]:
    """Return (loss [], parameters, optimizer state) after one step down the gradient of `loss(parameters)`."""
    value, gradient = jax.value_and_grad(loss)(parameters)
    change, state = optimizer.update(gradient, state)
    return value, jax.tree.map(jnp.add, parameters, change), state


def squared_error(prediction: Array, target: Array) -> Array:
    """Return mean_b sum_h (prediction - target)^2, summed over leading axes that only the prediction has.

    Shapes: prediction [..., B, h]; target [B, h]; result [].

    >>> float(squared_error(jnp.array([[[1.0]], [[3.0]]]), jnp.array([[2.0]])))
    2.0
    """
    assert prediction.shape[-2:] == target.shape, (prediction.shape, target.shape)
    error = prediction - jax.lax.stop_gradient(target)
    return jnp.sum(jnp.square(error)) / target.shape[0]


def expectile_error(difference: Array, advantage: Array, expectile: float) -> Array:
    """Return mean_b |expectile - 1[advantage < 0]| sum_h difference^2, the asymmetric regression of IQL's V.

    Shapes: difference [B, h], target minus prediction; advantage [B], whose sign chooses the side.

    >>> float(expectile_error(jnp.array([[1.0], [-1.0]]), jnp.array([1.0, -1.0]), 0.7))
    0.5
    """
    assert difference.shape[:-1] == advantage.shape, (difference.shape, advantage.shape)
    weight = jnp.abs(expectile - (advantage < 0.0).astype(difference.dtype))
    return jnp.mean(weight * jnp.sum(jnp.square(difference), axis=-1))


def gaussian_log_likelihood(x: Array, mean: Array, log_std: Array) -> Array:
    """Return sum_i log N(x_i; mean_i, exp(log_std_i)^2) over the last axis: [..., m] -> [...]."""
    standardized = (x - mean) * jnp.exp(-log_std)
    return jnp.sum(-0.5 * jnp.square(standardized) - log_std - 0.5 * jnp.log(2.0 * jnp.pi), axis=-1)
