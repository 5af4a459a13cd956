"""All statements, on a few processes, and where they are written."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import version as package_version
from multiprocessing import get_context
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from o3srl.files import write_json, write_whole
from o3srl.theory import bandit, equilibrium, evaluated, interval, practical, samples
from o3srl.theory.config import RESULT, TheoryConfig
from o3srl.theory.draw import draw
from o3srl.theory.problems import Problems, make
from o3srl.theory.statements import Statement

WORKERS = 4

Experiment = Callable[[Problems], tuple[dict[str, Any], list[Statement]]]

# The longest first, so that the processes end together; `TOLD` is the order of the paper.
EXPERIMENTS: Mapping[str, Experiment] = {
    "order of play": lambda problems: bandit.the_counterexample(),
    "grids": lambda problems: bandit.grids(),
    "practical": practical.practical,
    "evaluated": evaluated.batch_constrained,
    "remark 1": samples.remark_1,
    "theorem 2": bandit.theorem_2,
    "theorem 1": equilibrium.theorem_1,
    "several costs": lambda problems: equilibrium.several_costs(),
    "limits": interval.limits,
    "interval": interval.how_large,
    "hardest": lambda problems: samples.hardest(),
    "stochastic oracle": bandit.stochastic,
    "indices": equilibrium.average_that_belongs,
    "duality": lambda problems: interval.duality(),
}
TOLD = (
    "duality", "interval", "limits", "theorem 1", "several costs", "indices", "remark 1", "hardest", "order of play",
    "theorem 2", "grids", "stochastic oracle", "practical", "evaluated",
)  # fmt: skip


class Worked(NamedTuple):
    """What one experiment found, and how long it took."""

    numbers: dict[str, Any]
    statements: list[Statement]
    seconds: float


class Result(NamedTuple):
    """Fields: statements, in the paper's order; numbers, and seconds with compilation, by experiment."""

    statements: list[Statement]
    numbers: dict[str, Any]
    seconds: dict[str, float]

    @property
    def sound(self) -> bool:
        """Whether every statement turned out as expected."""
        return all(one.holds == one.expected for one in self.statements)


def compute(config: TheoryConfig, report: Callable[[str], None] = lambda name: None) -> Result:
    """Return all statements and numbers, in float64; `report` hears of each experiment that is done.

    The experiments run in processes of their own: two programs with batched linear solves in one process can wait for
    each other's share of XLA's threads forever.
    """
    began = time.perf_counter()
    with jax.enable_x64(True):
        problems = jax.tree.map(np.asarray, make(config.problems, config.seed))
    seconds = {"problems": time.perf_counter() - began}
    found: dict[str, Worked] = {}
    workers = min(WORKERS, os.cpu_count() or 1)
    cache: str | None = jax.config.values["jax_compilation_cache_dir"]
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_prepare, initargs=(cache,)) as pool:
        running = {pool.submit(_work, name, problems): name for name in EXPERIMENTS}
        try:
            for done in as_completed(running):
                found[running[done]] = done.result()
                report(running[done])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return Result(
        statements=[one for name in TOLD for one in found[name].statements],
        numbers={name: found[name].numbers for name in TOLD},
        seconds=seconds | {name: found[name].seconds for name in TOLD},
    )


def _prepare(cache: str | None) -> None:
    if cache is not None:
        jax.config.update("jax_compilation_cache_dir", cache)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def _work(name: str, problems: Problems) -> Worked:
    began = time.perf_counter()
    with jax.enable_x64(True):
        numbers, statements = EXPERIMENTS[name](jax.tree.map(jnp.asarray, problems))
    return Worked(numbers, statements, time.perf_counter() - began)


def write(config: TheoryConfig, result: Result) -> None:
    """Write theory.json and the figures into the directory, each whole."""
    pictures = draw(result.numbers)
    config.out.mkdir(parents=True, exist_ok=True)
    for name, content in pictures.items():
        write_whole(config.out / f"{name}.png", content)
    write_json(config.out / RESULT, _plain({
        "format": 1,
        "version": package_version("o3srl"),
        "config": {**dataclasses.asdict(config), "out": None},
        "statements": [{**one._asdict(), "verdict": one.verdict} for one in result.statements],
        "numbers": result.numbers,
        "seconds": result.seconds,
    }))  # fmt: skip


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {str(key): _plain(entry) for key, entry in value.items()}
        case list() | tuple():
            return [_plain(entry) for entry in value]
        case np.generic():
            return value.item()
        case _:
            return value
