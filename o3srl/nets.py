"""Networks as pairs of pure functions over one flat parameter vector.

Layers are Equinox's (whose initialization is PyTorch's: weights and biases uniform in +-1/sqrt(fan in)); what the
rest of the library sees is `init` and `apply`, and parameters that are a single array: one fused Adam step, one
fused Polyak step, and a checkpoint with one entry per network.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

Activation = Callable[[Array], Array]


class Network(NamedTuple):
    """init: (key) -> parameters [P]; apply: (parameters [P], input [..., i]) -> output [..., o]."""

    init: Callable[[Array], Array]
    apply: Callable[[Array, Array], Array]


def mlp(
    inputs: int,
    outputs: int,
    hidden: tuple[int, ...],
    *,
    final: Activation = lambda x: x,
    compute: Any = jnp.float32,
) -> Network:
    """Return a perceptron with ReLU between its layers and `final` after the last.

    Parameters are kept in float32; the layers run in `compute`, and the output is float32.
    """
    sizes = (inputs, *hidden, outputs)

    def make(key: Array) -> tuple[eqx.nn.Linear, ...]:
        keys = jax.random.split(key, len(sizes) - 1)
        return tuple(eqx.nn.Linear(i, o, key=k) for i, o, k in zip(sizes[:-1], sizes[1:], keys, strict=True))

    flatten, unflatten = flattening(make)

    def apply(parameters: Array, x: Array) -> Array:
        layers = unflatten(parameters.astype(compute))
        x = x.astype(compute)
        for layer in layers[:-1]:
            x = jax.nn.relu(_affine(layer, x))
        return final(_affine(layers[-1], x).astype(jnp.float32))

    return Network(init=lambda key: flatten(make(key)), apply=apply)


def _affine(layer: eqx.nn.Linear, x: Array) -> Array:
    return x @ layer.weight.T + layer.bias


def output_width(parameters: int, inputs: int, hidden: tuple[int, ...]) -> int:
    """Return the output width of an `mlp` that has this many parameters, so that a flat vector says its own shape.

    >>> output_width((7 + 1) * 32 + (32 + 1) * 2, inputs=7, hidden=(32,))
    2
    """
    sizes = (inputs, *hidden)
    before = sum((i + 1) * o for i, o in zip(sizes[:-1], sizes[1:], strict=True))
    return (parameters - before) // (sizes[-1] + 1)


def ensemble(network: Network, members: int) -> Network:
    """Return independent copies of a network: parameters [members, P], output [members, ..., o].

    One batched product where the accelerator likes that, separate products on a CPU, where XLA runs batched ones on
    a single thread.
    """

    def init(key: Array) -> Array:
        return jax.vmap(network.init)(jax.random.split(key, members))

    def separate(parameters: Array, x: Array) -> Array:
        return jnp.stack([network.apply(parameters[member], x) for member in range(members)])

    def batched(parameters: Array, x: Array) -> Array:
        return jax.vmap(network.apply, in_axes=(0, None))(parameters, x)

    def apply(parameters: Array, x: Array) -> Array:
        return jax.lax.platform_dependent(parameters, x, cpu=separate, default=batched)

    return Network(init, apply)


def flattening(make: Callable[[Array], Any]) -> tuple[Callable[[Any], Array], Callable[[Array], Any]]:
    """Return (flatten, unflatten) between the modules that `make(key)` builds and one vector [P].

    The gradient of `unflatten` is one concatenation; left to itself, JAX would pad and add once per leaf.
    """
    template = jax.eval_shape(make, jax.ShapeDtypeStruct((2,), jnp.uint32))
    leaves, structure = jax.tree.flatten(template)
    shapes = [leaf.shape for leaf in leaves]
    offsets = [0]
    for shape in shapes:
        offsets.append(offsets[-1] + math.prod(shape))

    def join(parts: list[Array]) -> Array:
        return jnp.concatenate([part.reshape(-1) for part in parts])

    @jax.custom_vjp
    def split(vector: Array) -> list[Array]:
        return [vector[start : start + math.prod(s)].reshape(s) for start, s in zip(offsets, shapes, strict=False)]

    split.defvjp(lambda vector: (split(vector), None), lambda _, gradients: (join(gradients),))

    def flatten(modules: Any) -> Array:
        return join(jax.tree.leaves(modules))

    def unflatten(vector: Array) -> Any:
        return jax.tree.unflatten(structure, split(vector))

    return flatten, unflatten


def polyak(target: Array, online: Array, rate: float) -> Array:
    """Return rate * online + (1 - rate) * target: the soft update of a target network."""
    return rate * online + (1.0 - rate) * target
