"""Exponential weights over a grid of multipliers: EXP3 (Auer et al., 2002), the paper's dual, and Hedge.

The dual minimizes the Lagrangian L(lambda) = V_r - lambda . violation, so a multiplier under which L is high loses
probability. EXP3 hears L of one arm; Hedge hears the violation, and so knows L of every arm.

What the oracle answers is a choice of its own (`Mixer`). Algorithm 2 as printed answers the drawn arm and charges the
same arm; the order for which its bound holds answers the mean `p @ grid` and charges an arm drawn independently.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from o3srl.errors import ConfigError
from o3srl.types import Dual, Metrics, Play, Value

Mixer = Callable[[Array, Array, Array], Play]


def sampled(key: Array, probability: Array, grid: Array) -> Play:
    """Return the play that answers a drawn arm and charges the same: probability [K], grid [K, M]."""
    arm = jax.random.categorical(key, jnp.log(probability))
    return Play(grid[arm], grid[arm], arm, probability[arm])


def mean(key: Array, probability: Array, grid: Array) -> Play:
    """Return the play that answers the mean multiplier, probability @ grid, and charges it; no arm is drawn."""
    del key
    multiplier = probability @ grid
    return Play(multiplier, multiplier, jnp.int32(-1), jnp.ones(()))


def independent(key: Array, probability: Array, grid: Array) -> Play:
    """Return the play that answers the mean multiplier, and charges an arm drawn independently of the answer."""
    drawn = sampled(key, probability, grid)
    return drawn._replace(multiplier=probability @ grid)


class WeightsState(NamedTuple):
    """Logarithms of the unnormalized weights: [K] for EXP3, [M, K] for Hedge."""

    log_weights: Array


def exp3(
    grid: ArrayLike,
    rate: ArrayLike = 2e-3,
    mixing: ArrayLike = 0.0,
    mixer: Mixer = sampled,
    offset: ArrayLike = 0.0,
) -> Dual:
    """Return EXP3 over the arms of `grid` [K] or [K, M].

    From P_0 = 1/K, with V the revealed Lagrangian of the charged arm, plus `offset`:

        P_t(lambda) ~ P_{t-1}(lambda) exp(-rate V 1[lambda = lambda_{t-1}] / P_{t-1}(lambda))

    `mixing` in [0, 1) plays (1 - mixing) P + mixing / K instead of P, which bounds the importance weights. An offset
    changes no comparison of arms; the bound on regret wants one by which V is never negative (the paper has none).
    """
    if mixer is mean:
        raise ConfigError(
            "EXP3 learns from the arm that is charged, and `mean` charges none. Use `sampled` (the paper), or "
            "`independent`, which answers the mean and charges a drawn arm; or Hedge, which can play the mean."
        )
    arms = _columns(grid)

    def probability(state: WeightsState) -> Array:
        return jnp.asarray(1.0 - mixing) * jax.nn.softmax(state.log_weights) + jnp.asarray(mixing) / len(arms)

    def play(key: Array, state: WeightsState) -> Play:
        return mixer(key, probability(state), arms)

    def update(state: WeightsState, play: Play, value: Value) -> WeightsState:
        loss = (value.lagrangian + offset) / play.prob * jax.nn.one_hot(play.arm, len(arms))
        return WeightsState(_normalized(state.log_weights - rate * loss))

    def metrics(state: WeightsState) -> Metrics:
        return {"dual/probability": probability(state)}

    return Dual(
        init=lambda: WeightsState(jnp.zeros(len(arms))),
        play=play,
        update=update,
        metrics=metrics,
        costs=arms.shape[1],
        parts=mixer is not sampled,
    )


def hedge(grids: ArrayLike, rate: ArrayLike = 6e-3, mixer: Mixer = mean) -> Dual:
    """Return Hedge with one distribution per cost over `grids` [K], or [M, K] for several costs.

    L is linear in each multiplier, so the loss of arm k for cost i is, up to a constant, -lambda_k violation_i:

        P_t(lambda_k) ~ P_{t-1}(lambda_k) exp(rate lambda_k violation)
    """
    rows = jnp.atleast_2d(jnp.asarray(grids, float))
    costs, arms = rows.shape

    def play(key: Array, state: WeightsState) -> Play:
        probability = jax.nn.softmax(state.log_weights)
        each = jax.vmap(mixer)(jax.random.split(key, costs), probability, rows[..., None])
        return Play(each.multiplier[:, 0], each.charged[:, 0], each.arm, each.prob)

    def update(state: WeightsState, play: Play, value: Value) -> WeightsState:
        del play
        assert value.violation is not None  # the game refuses an oracle that cannot tell
        return WeightsState(_normalized(state.log_weights + rate * rows * value.violation[:, None]))

    def metrics(state: WeightsState) -> Metrics:
        return {"dual/probability": jax.nn.softmax(state.log_weights).reshape(-1)}

    return Dual(
        init=lambda: WeightsState(jnp.zeros((costs, arms))),
        play=play,
        update=update,
        metrics=metrics,
        costs=costs,
        parts=True,
    )


def _columns(grid: ArrayLike) -> Array:
    arms = jnp.asarray(grid, float)
    return arms[:, None] if arms.ndim == 1 else arms


def _normalized(log_weights: Array) -> Array:
    # Only differences matter; keeping the largest at 0 keeps float32 exact over any number of rounds.
    return log_weights - jnp.max(log_weights, axis=-1, keepdims=True)
