"""Networks as pytrees of layers, and the functions that begin and apply them.

Layers begin as Equinox's linear ones do (which is PyTorch's way: weights and biases uniform in +-1/sqrt(fan in)). Who
applies a network reads its sizes off its layers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

Activation = Callable[[Array], Array]
Precision = Literal["auto", "float32", "bfloat16"]


class Layer(NamedTuple):
    """x -> x @ weight + bias: weight [i, o], bias [o]; an ensemble's have a leading axis of members."""

    weight: Array
    bias: Array


Layers = tuple[Layer, ...]


def mlp(key: Array, inputs: int, outputs: int, hidden: tuple[int, ...]) -> Layers:
    """Return the layers that a `perceptron` from `inputs` over `hidden` to `outputs` begins with, in float32."""
    sizes = (inputs, *hidden, outputs)
    keys = jax.random.split(key, len(sizes) - 1)
    begun = [eqx.nn.Linear(i, o, key=k) for i, o, k in zip(sizes[:-1], sizes[1:], keys, strict=True)]
    return tuple(Layer(jnp.transpose(linear.weight), _bias(linear)) for linear in begun)


def ensemble(key: Array, members: int, inputs: int, outputs: int, hidden: tuple[int, ...]) -> Layers:
    """Return the layers of independent `mlp`s, with a leading axis [members]."""
    return jax.vmap(lambda own: mlp(own, inputs, outputs, hidden))(jax.random.split(key, members))


def perceptron(layers: Layers, x: Array, *, final: Activation = lambda x: x, compute: Any = jnp.float32) -> Array:
    """Return what the layers make of x [..., i]: [..., o], with ReLU between them and `final` after the last.

    The layers run in `compute`, and the output is float32.
    """
    x = x.astype(compute)
    cast = jax.tree.map(lambda p: p.astype(compute), layers)
    for layer in cast[:-1]:
        x = jax.nn.relu(x @ layer.weight + layer.bias)
    return final((x @ cast[-1].weight + cast[-1].bias).astype(jnp.float32))


def compute_type(precision: Precision) -> Any:
    """Return the dtype that layers run in: `auto` is bfloat16 on an accelerator, which is made for it, else float32.

    >>> print(compute_type("bfloat16"))
    bfloat16
    """
    if precision == "auto":
        precision = "float32" if jax.default_backend() == "cpu" else "bfloat16"
    return jnp.dtype(precision)


def each(apply: Callable[[Layers, Array], Array], layers: Layers, x: Array) -> Array:
    """Return what every member of an ensemble makes of the same x: [members, ..., o].

    One batched product where the accelerator likes that, separate products on a CPU, where XLA runs batched ones on
    a single thread.
    """
    members = layers[0].weight.shape[0]

    def separate(layers: Layers, x: Array) -> Array:
        return jnp.stack([apply(member(layers, index), x) for index in range(members)])

    def batched(layers: Layers, x: Array) -> Array:
        # An input of each member's own keeps the member axis first in every product, so none needs a transpose.
        return jax.vmap(apply)(layers, jnp.broadcast_to(x, (members, *x.shape)))

    return jax.lax.platform_dependent(layers, x, cpu=separate, default=batched)


def member(layers: Layers, index: int) -> Layers:
    """Return one member's layers of an ensemble's."""
    return jax.tree.map(lambda p: p[index], layers)


def polyak(target: Layers, online: Layers, rate: float) -> Layers:
    """Return rate * online + (1 - rate) * target: the soft update of a target network."""
    return jax.tree.map(lambda t, o: rate * o + (1.0 - rate) * t, target, online)


def _bias(linear: eqx.nn.Linear) -> Array:
    assert linear.bias is not None
    return linear.bias
