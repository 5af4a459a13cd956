"""Networks as pairs of pure functions over a pytree of layers.

Layers begin as Equinox's linear ones do (which is PyTorch's way: weights and biases uniform in +-1/sqrt(fan in)); what
the rest of the library sees is `init` and `apply`, and parameters that are arrays alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

Activation = Callable[[Array], Array]


class Layer(NamedTuple):
    """x -> x @ weight + bias: weight [i, o], bias [o]; an ensemble's have a leading axis of members."""

    weight: Array
    bias: Array


Layers = tuple[Layer, ...]


class Network(NamedTuple):
    """init: (key) -> layers; apply: (layers, input [..., i]) -> output [..., o]."""

    init: Callable[[Array], Layers]
    apply: Callable[[Layers, Array], Array]


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

    def init(key: Array) -> Layers:
        keys = jax.random.split(key, len(sizes) - 1)
        begun = [eqx.nn.Linear(i, o, key=k) for i, o, k in zip(sizes[:-1], sizes[1:], keys, strict=True)]
        return tuple(Layer(jnp.transpose(linear.weight), _bias(linear)) for linear in begun)

    return Network(init, lambda layers, x: perceptron(layers, x, final=final, compute=compute))


def perceptron(layers: Layers, x: Array, *, final: Activation = lambda x: x, compute: Any = jnp.float32) -> Array:
    """Return what an `mlp` with these layers makes of x [..., i]: [..., o]."""
    x = x.astype(compute)
    cast = jax.tree.map(lambda p: p.astype(compute), layers)
    for layer in cast[:-1]:
        x = jax.nn.relu(x @ layer.weight + layer.bias)
    return final((x @ cast[-1].weight + cast[-1].bias).astype(jnp.float32))


def ensemble(network: Network, members: int) -> Network:
    """Return independent copies of a network: layers with a leading axis [members], output [members, ..., o].

    One batched product where the accelerator likes that, separate products on a CPU, where XLA runs batched ones on
    a single thread.
    """

    def init(key: Array) -> Layers:
        return jax.vmap(network.init)(jax.random.split(key, members))

    def separate(layers: Layers, x: Array) -> Array:
        return jnp.stack([network.apply(member(layers, index), x) for index in range(members)])

    def batched(layers: Layers, x: Array) -> Array:
        # An input of each member's own keeps the member axis first in every product, so none needs a transpose.
        return jax.vmap(network.apply)(layers, jnp.broadcast_to(x, (members, *x.shape)))

    def apply(layers: Layers, x: Array) -> Array:
        return jax.lax.platform_dependent(layers, x, cpu=separate, default=batched)

    return Network(init, apply)


def member(layers: Layers, index: int) -> Layers:
    """Return one member's layers of an ensemble's."""
    return jax.tree.map(lambda p: p[index], layers)


def polyak(target: Layers, online: Layers, rate: float) -> Layers:
    """Return rate * online + (1 - rate) * target: the soft update of a target network."""
    return jax.tree.map(lambda t, o: rate * o + (1.0 - rate) * t, target, online)


def _bias(linear: eqx.nn.Linear) -> Array:
    assert linear.bias is not None
    return linear.bias
