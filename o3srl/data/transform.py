"""What is done to a log before it is learned from, each an explicit step; the table itself stays as logged."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from o3srl.data.columns import chunks, spans_of
from o3srl.data.findings import warn
from o3srl.errors import ConfigError
from o3srl.types import Data


def clip_rewards(data: Data, percentile: float = 99.0, target: float = 0.9) -> Data:
    """Set r' = clip(r, -r_clip, r_clip) * target / r_clip, r_clip being the percentile of |r| over all rows (paper).

    Where r_clip is 0, rewards are sparse: the largest |r| takes its place, with a finding.
    """
    if not 0 < percentile <= 100 or not 0 < target < np.inf:
        raise ConfigError(
            f"rewards cannot be clipped at percentile {percentile:g} to {target:g}: the percentile must lie "
            "above 0 and up to 100 (the paper's is 99), the target above 0 (0.9)."
        )
    size = np.abs(np.asarray(data.table)[:, spans_of(data.info).reward])
    clip, said = float(np.percentile(size.astype(np.float64), percentile)), ""
    if clip == 0:
        clip = float(size.max())
        said = (
            f"Rewards are sparse: the {percentile:g}th percentile of |r| is 0, so they are scaled by the "
            f"largest |r|, {clip:g}."
            if clip
            else "Every reward is 0, so rewards are not scaled."
        )
    if said:
        warn(data.info.source, (said,), stacklevel=2)
        data = data._replace(info=dataclasses.replace(data.info, findings=(*data.info.findings, said)))
    bound: Any = np.float32(clip or np.inf)
    factor: Any = np.float32(target / clip if clip else 1)
    return data._replace(scaling=data.scaling._replace(clip=bound, reward=factor))


def scale_costs(data: Data, scale: npt.ArrayLike) -> Data:
    """Set c' = c * scale, one positive scale or one per cost [M]; limits and multipliers stay in logged units."""
    factor: Any = np.asarray(scale, np.float32)
    if factor.shape not in ((), (data.info.costs,)) or not (np.isfinite(factor) & (factor > 0)).all():
        raise ConfigError(
            f"cost_scale {scale} must be a positive number, or one for each of {data.info.costs} cost(s). Give 1 "
            "to keep costs as logged."
        )
    return data._replace(scaling=data.scaling._replace(cost=factor))


def observation_statistics(data: Data) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return the mean [n] and the standard deviation + 1e-3 [n] of the observations of usable rows.

    The 1e-3 keeps an entry that never moves from being divided by zero: normalized = (obs - mean) / std.
    """
    table, usable = np.asarray(data.table), np.asarray(data.usable)
    obs = spans_of(data.info).obs
    parts = list(chunks(len(usable), table.shape[1] * 8))
    mean = np.sum([table[usable[part], obs].sum(axis=0, dtype=np.float64) for part in parts], axis=0) / len(usable)
    square = np.sum([np.square(table[usable[part], obs] - mean).sum(axis=0) for part in parts], axis=0) / len(usable)
    return mean.astype(np.float32), (np.sqrt(square) + 1e-3).astype(np.float32)
