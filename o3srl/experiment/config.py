"""What a run is, as frozen dataclasses: every hyperparameter a field with its meaning, and how an algorithm is built.

The scalar hyperparameters may differ between the lanes of a run; everything else is the same for all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from jax import Array

from o3srl import budget, duals
from o3srl.data import clip_rewards, scale_costs
from o3srl.duals import exponential
from o3srl.errors import ConfigError
from o3srl.experiment.codec import replace_at
from o3srl.feedback import FittedConfig, at_batch_states, at_initial_states, fitted
from o3srl.game import o3srl
from o3srl.oracles import BCConfig, IQLConfig, TD3BCConfig, bc, iql, td3_bc
from o3srl.plain import plain
from o3srl.types import Algorithm, Dual, Feedback, Oracle


@dataclass(frozen=True)
class GridConfig:
    """The arms of EXP3 and Hedge; the maximum also bounds the multiplier of OGD, FTRL and PID."""

    kind: Literal["adaptive", "uniform"] = "adaptive"
    """adaptive: more arms near zero the looser the limit (the paper); uniform: evenly spaced"""
    maximum: float = 5.0
    """C, the largest multiplier (the paper: 5)"""
    arms: int = 5
    """K, the number of arms per cost (the paper: 5)"""


@dataclass(frozen=True)
class EXP3Config:
    """EXP3, the paper's bandit."""

    rate: float = 2e-3
    """learning rate eta (the paper: 2e-3)"""
    mixing: float = 0.0
    """share of uniform exploration, in [0, 1)"""
    play: Literal["sampled", "independent"] = "sampled"
    """sampled: answer and charge one drawn arm (the paper); independent: answer the mean, charge a drawn arm"""


@dataclass(frozen=True)
class HedgeConfig:
    """Hedge, full information about the violation."""

    rate: float = 6e-3
    """learning rate"""
    play: Literal["sampled", "mean", "independent"] = "mean"
    """sampled: answer and charge a drawn arm; mean: the mean multiplier; independent: answer the mean, charge an arm"""


@dataclass(frozen=True)
class GradientConfig:
    """OGD and FTRL."""

    rate: float = 0.01
    """step size"""
    start: float = 0.0
    """the first multiplier"""


@dataclass(frozen=True)
class PIDConfig:
    """PID control of the multiplier; defaults are OSRL's."""

    proportional: float = 0.1
    """gain on the violation"""
    integral: float = 0.003
    """gain on its sum"""
    derivative: float = 0.001
    """gain on its rise"""


@dataclass(frozen=True)
class FixedConfig:
    """A multiplier that never moves."""

    multiplier: float = 0.0
    """its value, for rewards as scaled and costs as logged times --cost-scale"""


@dataclass(frozen=True)
class GameConfig:
    """O3SRL: an offline RL oracle against a no-regret learner of the multiplier."""

    oracle: Literal["td3-bc", "iql"] = "td3-bc"
    """the offline RL algorithm"""
    dual: Literal["exp3", "hedge", "ogd", "ftrl", "pid", "fixed"] = "exp3"
    """the learner of the multiplier; all but exp3 and fixed need a decomposed critic"""
    feedback: Literal["batch", "initial", "fitted"] = "batch"
    """where a round's value is read: at the batch's states (the paper), at logged initial states, or there from an
    evaluation that is fitted to the policy (Le et al.)"""
    allowance: Literal["discounted", "episodic"] = "discounted"
    """the limit per step: (1 - gamma) limit (the paper), or limit / T, what an evaluation measures"""
    updates_per_round: int = 10
    """M, gradient updates between two answers of the dual (the paper: 10)"""
    average_updates: int = 4000
    """how many updates the exponential average of the policy looks back"""
    td3_bc: TD3BCConfig = field(default_factory=TD3BCConfig)
    iql: IQLConfig = field(default_factory=IQLConfig)
    grid: GridConfig = field(default_factory=GridConfig)
    exp3: EXP3Config = field(default_factory=EXP3Config)
    hedge: HedgeConfig = field(default_factory=HedgeConfig)
    gradient: GradientConfig = field(default_factory=GradientConfig)
    pid: PIDConfig = field(default_factory=PIDConfig)
    fixed: FixedConfig = field(default_factory=FixedConfig)
    fitted: FittedConfig = field(default_factory=FittedConfig)


@dataclass(frozen=True)
class PlainTD3BCConfig:
    """TD3+BC alone, at a multiplier that never moves."""

    td3_bc: TD3BCConfig = field(default_factory=TD3BCConfig)
    fixed: FixedConfig = field(default_factory=FixedConfig)


@dataclass(frozen=True)
class PlainIQLConfig:
    """IQL alone, at a multiplier that never moves."""

    iql: IQLConfig = field(default_factory=IQLConfig)
    fixed: FixedConfig = field(default_factory=FixedConfig)


@dataclass(frozen=True)
class PlainBCConfig:
    """Behavior cloning of the whole log."""

    bc: BCConfig = field(default_factory=BCConfig)


AlgorithmConfig = GameConfig | PlainTD3BCConfig | PlainIQLConfig | PlainBCConfig

ALGORITHMS: Mapping[str, type] = {
    "o3srl": GameConfig,
    "td3-bc": PlainTD3BCConfig,
    "iql": PlainIQLConfig,
    "bc": PlainBCConfig,
}


@dataclass(frozen=True)
class RunConfig:
    """What is trained on what, for how long, and where the result goes."""

    task: str | None = None
    """a task (`o3srl tasks`, or your own: MyTask-v0, my_module:make), for its simulator, and its log if built in"""
    data: str | None = None
    """a log: DSRL-format .hdf5, or .npz with the same names"""
    out: str = ""
    """the run directory to make"""
    limit: tuple[float, ...] = (5.0,)
    """cost limit per episode (undiscounted sum); several values make lanes (5 10), a comma joins costs (5,10)"""
    seeds: tuple[int, ...] = (10, 20, 30)
    """one lane each (the paper: 10 20 30)"""
    updates: int = 100_000
    """gradient updates per lane (the paper: 100,000)"""
    batch_size: int = 512
    """transitions per update (the paper: 512, or 1024 on four tasks)"""
    reward_percentile: float = 99.0
    """rewards are clipped at this percentile of |r| and scaled to 0.9 there (the paper: 99)"""
    cost_scale: float = 1.0
    """costs are multiplied by this; brings a log's own costs near the size of its scaled rewards"""
    normalize_observations: bool = False
    """train on (obs - mean) / (std + 1e-3) of the log"""
    horizon: int | None = None
    """steps of an episode; by default the task's, else the longest logged episode"""
    chunk_updates: int = 1000
    """about how many updates lie between two rows of metrics; part of the run: it decides where numbers are checked"""
    checkpoint_seconds: float = 30.0
    """at least so long between two checkpoints; the last chunk always writes one"""
    snapshots: int = 0
    """how many policies to keep on the way, evenly spaced, for learning curves in a simulator later"""
    overwrite: bool = False
    """replace an existing run directory"""


TYPES: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        *ALGORITHMS.values(), RunConfig, TD3BCConfig, IQLConfig, BCConfig,
        GridConfig, EXP3Config, HedgeConfig, GradientConfig, PIDConfig, FixedConfig, FittedConfig,
    )
}  # fmt: skip


def build(config: AlgorithmConfig, run: RunConfig, settings: Mapping[str, Any]) -> Algorithm:
    """Return one lane's algorithm.

    `settings` holds what the lane has of its own: "limit" [M], "grid" [..] where there is one, and the scalar
    hyperparameters that differ between lanes, by their dotted paths in `config`.
    """
    for path, value in settings.items():
        if path not in ("limit", "grid"):
            config = replace_at(config, path, value)
    shared: dict[str, Any] = {
        "limit": settings["limit"],
        "batch_size": run.batch_size,
        "prepare": lambda data: scale_costs(clip_rewards(data, run.reward_percentile), run.cost_scale),
    }
    match config:
        case GameConfig():
            return o3srl(
                _oracle(config),
                _dual(config, settings),
                _feedback(config),
                allowance={"discounted": budget.discounted, "episodic": budget.episodic}[config.allowance],
                updates_per_round=config.updates_per_round,
                average_updates=config.average_updates,
                **shared,
            )
        case PlainTD3BCConfig():
            return plain(td3_bc(config.td3_bc), multiplier=config.fixed.multiplier, **shared)
        case PlainIQLConfig():
            return plain(iql(config.iql), multiplier=config.fixed.multiplier, **shared)
        case PlainBCConfig():
            return plain(bc(config.bc), **shared)


def _oracle(config: GameConfig) -> Oracle:
    return td3_bc(config.td3_bc) if config.oracle == "td3-bc" else iql(config.iql)


def _feedback(config: GameConfig) -> Feedback:
    match config.feedback:
        case "batch":
            return at_batch_states()
        case "initial":
            return at_initial_states()
        case "fitted":
            return fitted(config.fitted)


def _dual(config: GameConfig, settings: Mapping[str, Any]) -> Dual:
    costs: int = settings["limit"].shape[-1]
    mixers = {"sampled": exponential.sampled, "mean": exponential.mean, "independent": exponential.independent}
    grid: Array = settings.get("grid", np.zeros(0))
    match config.dual:
        case "exp3":
            return duals.exp3(grid, config.exp3.rate, config.exp3.mixing, mixers[config.exp3.play])
        case "hedge":
            return duals.hedge(grid, config.hedge.rate, mixers[config.hedge.play])
        case "ogd":
            return duals.ogd(config.grid.maximum, config.gradient.rate, config.gradient.start, costs)
        case "ftrl":
            return duals.ftrl(config.grid.maximum, config.gradient.rate, config.gradient.start, costs)
        case "pid":
            gains = config.pid
            return duals.pid(gains.proportional, gains.integral, gains.derivative, config.grid.maximum, costs)
        case "fixed":
            return duals.fixed(config.fixed.multiplier, costs)


def lane_grid(config: AlgorithmConfig, limit: tuple[float, ...]) -> np.ndarray | None:
    """Return the arms of one lane: [K^M, M] jointly for EXP3, [M, K] for Hedge, None for a dual without arms."""
    if not isinstance(config, GameConfig) or config.dual not in ("exp3", "hedge"):
        return None
    grid = config.grid
    if grid.kind == "adaptive":
        each = [duals.adaptive(grid.maximum, grid.arms, one) for one in limit]
    else:
        each = [duals.uniform(grid.maximum, grid.arms) for _ in limit]
    return duals.joint(each) if config.dual == "exp3" else np.stack(each)


def check(config: AlgorithmConfig, run: RunConfig) -> None:
    """Raise a ConfigError for numbers that no run can use, by the name of their flag."""
    positive = {"--updates": run.updates, "--batch-size": run.batch_size, "--chunk-updates": run.chunk_updates}
    for flag, value in positive.items():
        if value < 1:
            raise ConfigError(f"{flag} must be at least 1; got {value}.")
    if run.snapshots < 0:
        raise ConfigError(f"--snapshots must not be negative; got {run.snapshots}.")
    if not run.seeds:
        raise ConfigError("--seeds needs at least one seed.")
    if len(set(run.seeds)) < len(run.seeds):
        raise ConfigError(f"--seeds names a seed twice: {' '.join(map(str, run.seeds))}. Equal seeds give equal lanes.")
    if any(not 0 <= seed < 2**32 for seed in run.seeds):
        raise ConfigError("--seeds must lie in 0 ... 4294967295.")
    if not 0.0 < run.reward_percentile <= 100.0:
        raise ConfigError(f"--reward-percentile must be in (0, 100]; got {run.reward_percentile}.")
    for path, value in scalars(config).items():
        _check_scalar(f"--{path.replace('_', '-')}", path.rpartition(".")[2], value)
    for one in run.limit:
        if not np.isfinite(one) or one < 0:
            raise ConfigError(f"--limit must be a number of at least 0; got {one}.")


def _check_scalar(flag: str, name: str, value: float) -> None:
    if not np.isfinite(value):
        raise ConfigError(f"{flag} must be a finite number; got {value}.")
    if value < 0:
        raise ConfigError(f"{flag} must not be negative; got {value}.")
    if name in ("discount", "mixing") and value >= 1:
        raise ConfigError(f"{flag} must be below 1; got {value}.")
    if name in ("tau", "expectile") and value > 1:
        raise ConfigError(f"{flag} must be at most 1; got {value}.")


def scalars(config: Any, prefix: str = "") -> dict[str, float]:
    """Return the floating-point fields of nested dataclasses by their dotted paths: what may differ between lanes."""
    found: dict[str, float] = {}
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        path = f"{prefix}{item.name}"
        if dataclasses.is_dataclass(value):
            found.update(scalars(value, f"{path}."))
        elif isinstance(value, float):
            found[path] = value
    return found
