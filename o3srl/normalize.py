"""Observation normalization, as a wrapper of any algorithm; its statistics travel with the policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from o3srl.types import Algorithm, Data, Metrics, Parameters, Phase, Policy, Sample, State, Step


class Normalized(NamedTuple):
    """mean [n] and scale [n] of the log's observations, and what they surround: a state, or a policy's parameters."""

    mean: Array
    scale: Array
    inner: Any


def normalize(algorithm: Algorithm, mean: ArrayLike, scale: ArrayLike) -> Algorithm:
    """Return the algorithm on observations (obs - mean) / scale, both [n]; `data.observation_statistics` gives them."""
    mean, scale = jnp.asarray(mean, jnp.float32), jnp.asarray(scale, jnp.float32)

    def init(key: Array, data: Data) -> Normalized:
        return Normalized(mean, scale, algorithm.init(key, data))

    def wrap(phase: Phase) -> Phase:
        def step(key: Array, state: Normalized, sample: Sample) -> tuple[Normalized, Metrics]:
            batches = sample.batches._replace(
                obs=_standard(state, sample.batches.obs), next_obs=_standard(state, sample.batches.next_obs)
            )
            inner, metrics = phase.step(key, state.inner, Sample(batches, _standard(state, sample.initial)))
            return state._replace(inner=inner), metrics

        return phase._replace(step=step)

    def parameters(state: Normalized) -> Mapping[str, Parameters]:
        return {name: state._replace(inner=inner) for name, inner in algorithm.parameters(state.inner).items()}

    return algorithm._replace(
        init=init,
        phases=tuple(wrap(phase) for phase in algorithm.phases),
        policy=_standardized(algorithm.policy),
        parameters=parameters,
    )


def _standardized(policy: Policy) -> Policy:
    def reset(key: Array, parameters: Normalized, limit: Array) -> State:
        return policy.reset(key, parameters.inner, limit)

    def act(key: Array, parameters: Normalized, memory: State, step: Step) -> tuple[Array, State]:
        return policy.act(key, parameters.inner, memory, step._replace(obs=_standard(parameters, step.obs)))

    return Policy(reset, act)


def _standard(state: Normalized, obs: Array) -> Array:
    return (obs - state.mean) / state.scale
