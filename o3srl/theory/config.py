"""What `o3srl theory` is asked for; nothing here needs JAX, so that what cannot work is refused at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from o3srl.errors import ConfigError
from o3srl.files import refuse_occupied

RESULT = "theory.json"
FIGURES = ("equilibrium", "order", "grid", "samples", "practical", "evaluated")


@dataclass(frozen=True)
class TheoryConfig:
    """Check what the paper states on finite problems with exact answers; write the figures and every number."""

    out: Path = Path("runs/theory")
    """the directory to make"""
    problems: int = 100
    """random CMDPs, of which some parts use the first 20 to 80; with few, means are too noisy for some statements"""
    seed: int = 0
    """of the random CMDPs"""
    overwrite: bool = False
    """replace an earlier result"""


def check(config: TheoryConfig) -> None:
    """Raise for what cannot work, before anything is computed."""
    if config.problems < 2:
        raise ConfigError(f"--problems must be at least 2; got {config.problems}.")
    if not 0 <= config.seed < 2**32:
        raise ConfigError(f"--seed must lie in 0 ... 4294967295; got {config.seed}.")
    own = {RESULT, *(f"{name}.png" for name in FIGURES)}
    refuse_occupied(config.out, own, config.overwrite, "Choose another --out, or replace it with --overwrite.")
