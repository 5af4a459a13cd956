"""The training engine: lanes, chunks, and nothing that knows of files.

A *lane* is one key and one setting of scalar hyperparameters. Lanes share the data and one compiled program. On an
accelerator they are vectorized, and sharded where there are several devices; on a CPU, where vectorized lanes are
slower than one after another, each runs by itself, which also makes a lane's bits independent of its neighbors.

Work is done in chunks of a fixed number of steps. A lane whose chunk ends in a number that is not finite goes back to
where that chunk began and is frozen; the others go on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from o3srl.errors import ConfigError
from o3srl.types import Algorithm, Data, Phase, State

Settings = Any  # a pytree of arrays with a leading lane axis; () where lanes differ by their keys alone
Build = Callable[[Any], Algorithm]  # from one lane's settings, without the lane axis

CHUNK_UPDATES = 1000


class Lanes(NamedTuple):
    """All lanes, each array with a leading axis [L]: key [L, 2]; state; frozen_at [L], the updates after which a lane
    was last finite, or -1 for a lane that runs."""

    key: Array
    state: State
    frozen_at: Array


class Chunk(NamedTuple):
    """What a chunk of training hands out: updates done per lane, and by this chunk; lanes; metrics {name: [L, ...]} as
    means over the chunk; and the seconds that it took."""

    updates: int
    fresh: int
    lanes: Lanes
    metrics: dict[str, np.ndarray]
    seconds: float


class Stretch(NamedTuple):
    """Chunks of one size in one phase: phase index, steps per chunk, updates per chunk, and how many chunks."""

    phase: int
    steps: int
    updates: int
    chunks: int


class Engine(NamedTuple):
    """start: (keys [L, 2]) -> Lanes; shapes: the same, as shapes and types alone, at no cost; advance: (lanes, stretch,
    updates done) -> (lanes, metrics {name: [L, ...]})."""

    start: Callable[[Array], Lanes]
    shapes: Callable[[Array], Lanes]
    advance: Callable[[Lanes, Stretch, int], tuple[Lanes, dict[str, np.ndarray]]]


def train(
    key: Array, algorithm: Algorithm, data: Data, *, updates: int, chunk_updates: int = CHUNK_UPDATES
) -> tuple[State, dict[str, np.ndarray]]:
    """Return (state, metrics {name: [chunks, ...]}) after `updates` gradient updates of one lane.

    `algorithm.parameters(state)["last"]` are what `algorithm.policy` acts with. Runs on disk, with lanes, progress
    and resume, are `o3srl.experiment.run`'s.
    """
    engine = make_engine(lambda settings: algorithm, (), place(algorithm.prepare(data)))
    plan = make_plan(algorithm.phases, updates, chunk_updates)
    history = list(run(engine, plan, engine.start(jnp.asarray(key)[None])))
    last = history[-1].lanes
    if int(last.frozen_at[0]) >= 0:
        raise FloatingPointError(f"Training left the finite numbers after {int(last.frozen_at[0])} updates.")
    metrics = {name: np.stack([chunk.metrics[name][0] for chunk in history]) for name in history[0].metrics}
    return jax.tree.map(lambda x: x[0], last.state), metrics


def run(engine: Engine, plan: list[Stretch], lanes: Lanes, done: int = 0) -> Iterator[Chunk]:
    """Yield a Chunk after each chunk of what `done` updates leave of `plan`."""
    for stretch in remaining(plan, done):
        for _ in range(stretch.chunks):
            began = time.perf_counter()
            lanes, metrics = engine.advance(lanes, stretch, done)
            done += stretch.updates
            yield Chunk(done, stretch.updates, lanes, metrics, time.perf_counter() - began)


def total_updates(plan: list[Stretch]) -> int:
    """Return the gradient updates of a whole plan, per lane."""
    return sum(stretch.updates * stretch.chunks for stretch in plan)


def raw_key(seed: int) -> Array:
    """Return a seed's key as raw numbers, uint32 [2], which a checkpoint can hold."""
    return jax.random.key_data(jax.random.key(seed, impl="threefry2x32"))


def remaining(plan: list[Stretch], done: int) -> list[Stretch]:
    """Return what is left of a plan after `done` updates; a chunk that they cover in part becomes a shorter one."""
    left: list[Stretch] = []
    for stretch in plan:
        covered = min(done, stretch.updates * stretch.chunks)
        done -= covered
        whole, part = divmod(covered, stretch.updates)
        each = stretch.updates // stretch.steps
        if part:
            left.append(
                stretch._replace(steps=(stretch.updates - part) // each, updates=stretch.updates - part, chunks=1)
            )
        if stretch.chunks - whole - bool(part):
            left.append(stretch._replace(chunks=stretch.chunks - whole - bool(part)))
    return left


def make_plan(phases: tuple[Phase, ...], updates: int, chunk_updates: int = CHUNK_UPDATES) -> list[Stretch]:
    """Return how `updates` gradient updates divide into phases and chunks of about `chunk_updates`.

    A number of updates that would leave a partial step is refused with the next one that fits.
    """
    plan: list[Stretch] = []
    for index, phase in enumerate(phases):
        total = phase.share * updates
        steps = round(total / phase.updates)
        if updates < 1 or abs(steps * phase.updates - total) > 1e-6:
            unit = _round_of(phases)
            fits = max(1, math.ceil(updates / unit)) * unit
            raise ConfigError(
                f"{updates} updates leave a partial round: they come in rounds of {unit}. "
                f"The next number that fits is {fits} (--updates {fits})."
            )
        plan += _divide(index, phase.updates, steps, max(1, chunk_updates // phase.updates))
    return plan


def _round_of(phases: tuple[Phase, ...]) -> int:
    # The fewest updates of which every phase's share is whole steps: the least common multiple of updates / share.
    each = [Fraction(phase.updates) / Fraction(phase.share).limit_denominator(1000) for phase in phases]
    return math.lcm(*(part.numerator for part in each)) // math.gcd(*(part.denominator for part in each))


def _divide(index: int, updates: int, steps: int, target: int) -> list[Stretch]:
    # One size of chunk means one program to compile: take the largest divisor, unless all divisors are small.
    size = max(d for d in range(1, min(target, steps) + 1) if steps % d == 0)
    if size < target // 4:
        size = min(target, steps)
    plan = [Stretch(index, size, size * updates, steps // size)]
    rest = steps % size
    return plan if not rest else [*plan, Stretch(index, rest, rest * updates, 1)]


def place(data: Data) -> Data:
    """Return the data on the default device, once for all lanes; on a CPU the table itself, not a copy of it."""
    return jax.device_put(data)


def make_engine(build: Build, settings: Settings, data: Data, *, vectorize: bool | None = None) -> Engine:
    """Return the engine for lanes whose algorithms are `build(one lane's settings)`.

    `vectorize` defaults to whether the device is an accelerator. Algorithms are built inside the traced function,
    so that hyperparameters may differ between lanes.
    """

    def start_one(key: Array, settings: Any, data: Data) -> Lanes:
        key, key_init = jax.random.split(key)
        return Lanes(key, build(settings).init(key_init, data), jnp.int32(-1))

    def advance_one(lane: Lanes, settings: Any, data: Data, done: Array, phase: int, steps: int) -> Any:
        current = build(settings).phases[phase]

        def step(carry: tuple[Array, State], _: None) -> Any:
            key, state = carry
            key, key_sample, key_step = jax.random.split(key, 3)
            state, metrics = current.step(key_step, state, current.sample(key_sample, data))
            return (key, state), dict(metrics)

        (key, state), metrics = jax.lax.scan(step, (lane.key, lane.state), None, length=steps)
        moved = Lanes(key, state, lane.frozen_at)
        stopped = lane._replace(frozen_at=jnp.where(lane.frozen_at >= 0, lane.frozen_at, done))
        runs = (lane.frozen_at < 0) & _all_finite(state)
        lane = jax.tree.map(lambda new, old: jnp.where(runs, new, old), moved, stopped)
        return lane, jax.tree.map(lambda m: jnp.mean(m, axis=0), metrics)

    if vectorize is None:
        vectorize = jax.default_backend() != "cpu"
    start, advance = (_vectorized if vectorize else _one_by_one)(start_one, advance_one, settings, data)

    def shapes(keys: Array) -> Lanes:
        return jax.eval_shape(jax.vmap(start_one, in_axes=(0, 0, None)), keys, settings, data)

    return Engine(start, shapes, advance)


def _vectorized(start_one: Any, advance_one: Any, settings: Settings, data: Data) -> tuple[Any, Any]:
    start_all = jax.jit(jax.vmap(start_one, in_axes=(0, 0, None)))

    def advance_all(lanes: Lanes, settings: Any, data: Data, done: Array, phase: int, steps: int) -> Any:
        return jax.vmap(lambda lane, setting: advance_one(lane, setting, data, done, phase, steps))(lanes, settings)

    advance_all = jax.jit(advance_all, static_argnums=(4, 5))

    @cache  # settings and data are placed once, not at every chunk
    def placed(count: int) -> tuple[Settings, Data]:
        return spread(settings, count), spread(data, count, everywhere=True)

    def start(keys: Array) -> Lanes:
        return start_all(spread(keys, len(keys)), *placed(len(keys)))

    def advance(lanes: Lanes, stretch: Stretch, done: int) -> tuple[Lanes, dict[str, np.ndarray]]:
        count = len(lanes.key)
        own, shared = placed(count)
        lanes, metrics = advance_all(spread(lanes, count), own, shared, jnp.int32(done), stretch.phase, stretch.steps)
        return lanes, jax.device_get(metrics)

    return start, advance


def _one_by_one(start_one: Any, advance_one: Any, settings: Settings, data: Data) -> tuple[Any, Any]:
    start_one = jax.jit(start_one)
    advance_one = jax.jit(advance_one, static_argnums=(4, 5))

    def of(lane: int, tree: Any) -> Any:
        return jax.tree.map(lambda x: np.asarray(x)[lane], tree)

    def start(keys: Array) -> Lanes:
        return _stack([start_one(keys[lane], of(lane, settings), data) for lane in range(len(keys))])

    def advance(lanes: Lanes, stretch: Stretch, done: int) -> tuple[Lanes, dict[str, np.ndarray]]:
        results = [
            advance_one(of(lane, lanes), of(lane, settings), data, jnp.int32(done), stretch.phase, stretch.steps)
            for lane in range(len(lanes.key))
        ]
        return _stack([lane for lane, _ in results]), _stack([metrics for _, metrics in results])

    return start, advance


def spread(tree: Any, count: int, *, everywhere: bool = False) -> Any:
    """Return arrays [L, ...] of `count` lanes with that axis spread over the devices, or, everywhere, whole on each.

    As many devices are used as divide the number of lanes.
    """
    devices = jax.local_devices()
    used = max(n for n in range(1, len(devices) + 1) if count % n == 0)
    if used == 1:
        return tree
    mesh = jax.sharding.Mesh(np.asarray(devices[:used]), ("lanes",))
    axes = jax.sharding.PartitionSpec() if everywhere else jax.sharding.PartitionSpec("lanes")
    return jax.device_put(tree, jax.sharding.NamedSharding(mesh, axes))


def _stack(trees: list[Any]) -> Any:
    # In numpy: on a CPU that copies once, and compiles nothing where jnp.stack would compile once per shape.
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def _all_finite(state: State) -> Array:
    inexact = [leaf for leaf in jax.tree.leaves(state) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in inexact]))
