"""Named sets of defaults: what a task is trained with unless a flag says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from o3srl.errors import ConfigError
from o3srl.experiment.codec import replace_at
from o3srl.experiment.config import AlgorithmConfig, RunConfig

Preset = Mapping[str, Any]  # dotted path in the run's or the algorithm's configuration to its value

PAPER: Preset = {}  # the fields' own defaults are the paper's

# Small networks for small tasks: two cores train three seeds in about two minutes.
QUICK: Preset = {
    "updates": 20_000,
    "batch_size": 256,
    "td3_bc.hidden": (128, 128),
    "iql.hidden": (128, 128),
    "bc.hidden": (128, 128),
}

PRESETS: Mapping[str, Preset] = {"paper": PAPER, "quick": QUICK}


def choose(name: str | None, task: str | None) -> Preset:
    """Return the preset by name; without one, `quick` for the built-in tasks and `paper` otherwise."""
    if name is None:
        name = "quick" if (task or "").startswith("toy-") else "paper"
    if name not in PRESETS:
        raise ConfigError(f"There is no preset {name!r}; there are {', '.join(PRESETS)} (--preset).")
    return PRESETS[name]


def apply(preset: Preset, run: RunConfig, algorithm: AlgorithmConfig) -> tuple[RunConfig, AlgorithmConfig]:
    """Return both configurations with the preset's values put in where they have such a field."""
    for path, value in preset.items():
        if hasattr(run, path):
            run = replace_at(run, path, value)
        elif hasattr(algorithm, path.partition(".")[0]):
            algorithm = replace_at(algorithm, path, value)
    return run, algorithm
