"""The lanes of a run: seeds times every combination of the settings that were given more than once."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from o3srl.errors import ConfigError
from o3srl.experiment.codec import replace_at
from o3srl.experiment.config import AlgorithmConfig, RunConfig, check, lane_grid, scalars
from o3srl.train import raw_key


@dataclass(frozen=True)
class Lane:
    """One lane: its seed, its limit per cost, and the scalar hyperparameters it has of its own, by dotted path."""

    seed: int
    limit: tuple[float, ...]
    own: Mapping[str, float] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        """Return the lane as JSON types."""
        return {"seed": self.seed, "limit": list(self.limit), **self.own}

    @property
    def setting(self) -> tuple[Any, ...]:
        """What the lane shares with the lanes that differ from it by their seed alone."""
        return (self.limit, *sorted(self.own.items()))


def expand(
    config: AlgorithmConfig,
    run: RunConfig,
    limits: list[tuple[float, ...]] | None = None,
    several: Mapping[str, list[float]] | None = None,
) -> list[Lane]:
    """Return the lanes, settings outermost and seeds innermost, after checking each.

    `limits` are the limits to combine (by default the run's own); `several` holds scalar hyperparameters by path.
    """
    limits, several = limits or [run.limit], several or {}
    unknown = set(several) - set(scalars(config))
    if unknown:
        raise ConfigError(f"{', '.join(sorted(unknown))} cannot differ between lanes: only scalar hyperparameters can.")
    if len({len(limit) for limit in limits}) > 1:
        raise ConfigError("Every --limit must name the same number of costs: lanes share one program.")
    lanes: list[Lane] = []
    for limit, values in itertools.product(limits, itertools.product(*several.values())):
        own = dict(zip(several, values, strict=True))
        check(with_own(config, own), replace(run, limit=limit))
        lane_grid(with_own(config, own), limit)
        lanes += [Lane(seed, limit, own) for seed in run.seeds]
    return lanes


def by_setting(lanes: list[Lane]) -> list[list[int]]:
    """Return which lanes each setting has, in the order of the lanes: those that differ by their seed alone."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, lane in enumerate(lanes):
        groups.setdefault(lane.setting, []).append(index)
    return list(groups.values())


def with_own(config: AlgorithmConfig, own: Mapping[str, float]) -> AlgorithmConfig:
    """Return the configuration with a lane's own hyperparameters put in."""
    for path, value in own.items():
        config = replace_at(config, path, value)
    return config


def stacked_settings(config: AlgorithmConfig, lanes: list[Lane]) -> dict[str, Array]:
    """Return what `config.build` takes, with a leading lane axis: limit [L, M], grid [L, ..], own scalars [L]."""
    settings = {"limit": np.asarray([lane.limit for lane in lanes])}
    grids = [lane_grid(with_own(config, lane.own), lane.limit) for lane in lanes]
    if grids[0] is not None:
        settings["grid"] = np.stack([grid for grid in grids if grid is not None])
    for path in lanes[0].own:
        settings[path] = np.asarray([lane.own[path] for lane in lanes])
    return {name: jnp.asarray(value, jnp.float32) for name, value in settings.items()}


def keys(lanes: list[Lane]) -> Array:
    """Return one raw key per lane, [L, 2], from its seed alone: a lane's luck does not depend on its neighbors."""
    return jnp.stack([raw_key(lane.seed) for lane in lanes])
