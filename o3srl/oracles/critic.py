"""What a critic learns: the value of the modified reward as one number, or of its parts.

The Lagrangian is linear, L = V_r - lambda . (V_c - kappa). A *scalar* critic (the paper's) has one head, the value of
r' = r - lambda . (c - allowance), and re-learns it whenever the multiplier moves. A *decomposed* critic has one head
per part of (r, allowance - c); only decisions use `q @ weights`, so a new multiplier counts at once and the violation
is known. Both go through the same update code by way of this record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from o3srl.types import Objective, Transition, Value


class Heads(NamedTuple):
    """The heads of a critic, h of them.

    Fields: outputs: (M) -> h; signals: (batch, objective) -> [B, h], what each head accumulates; weights:
    (objective) -> [h], so that the value of r' is q @ weights; absorbing: (objective) -> [h], what an absorbing end
    earns per step; value: (mean [h], objective) -> Value; parts: whether V_r and V_c are known apart.
    """

    outputs: Callable[[int], int]
    signals: Callable[[Transition, Objective], Array]
    weights: Callable[[Objective], Array]
    absorbing: Callable[[Objective], Array]
    value: Callable[[Array, Objective], Value]
    parts: bool


def scalar() -> Heads:
    """Return the paper's critic: one head, the value of the modified reward."""
    return Heads(
        outputs=lambda costs: 1,
        signals=lambda batch, objective: objective.reward(batch)[..., None],
        weights=lambda objective: jnp.ones(1),
        absorbing=lambda objective: (objective.multiplier @ objective.allowance)[None],
        value=lambda mean, objective: Value(mean[0], None),
        parts=False,
    )


def decomposed() -> Heads:
    """Return the critic of parts: heads (V_r, allowance_i / (1 - gamma) - V_c_i), weights (1, multiplier)."""
    return Heads(
        outputs=lambda costs: 1 + costs,
        signals=lambda batch, objective: objective.parts(batch),
        weights=lambda objective: objective.weights,
        absorbing=lambda objective: jnp.concatenate([jnp.zeros(1), objective.allowance]),
        value=lambda mean, objective: Value(mean @ objective.weights, -mean[1:]),
        parts=True,
    )


def pessimistic(q: Array, weights: Array) -> Array:
    """Return, per sample, the whole vector of the member whose q @ weights is smaller: [2, B, h] -> [B, h]."""
    if q.shape[-1] == 1:  # the weight of a single head is 1
        return jnp.minimum(q[0], q[1])
    score = q @ weights
    return jnp.where((score[0] <= score[1])[:, None], q[0], q[1])


def backup(
    heads: Heads, batch: Transition, objective: Objective, following: Array, discount: float, end: bool
) -> Array:
    """Return the target: signal + gamma * (following value, or what lies behind a terminal) [B, h].

    A terminal ends the backup, a timeout does not. Behind a terminal lies zero, or, with `end`, the absorbing
    value multiplier . allowance / (1 - gamma): V(r') = V_r - lambda . (V_c - kappa) holds exactly only then, because
    a zero forfeits the allowance of the steps that were not lived and so taxes an early end.
    """
    terminal = batch.terminal[:, None]
    beyond = (1.0 - terminal) * following
    if end:
        beyond = beyond + terminal * heads.absorbing(objective) / (1.0 - discount)
    return heads.signals(batch, objective) + discount * beyond
