"""Logged data for the built-in tasks, made on the spot by controllers of graded boldness.

Six hundred episodes per task cover the plane of cost and return as DSRL's training trajectories do (Liu et al. 2024,
https://arxiv.org/abs/2306.09303): careful ones up to the edge of the cost, bold ones beyond it, and sloppy ones
anywhere. A controller sees observations only, so the log is Markov in what a learner sees; its actions carry smooth
noise and are logged as clipped to the box. The log is a function of the task and the seed, and is kept in a cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import io
import os
import sys
import zipfile
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from o3srl import evaluate
from o3srl.data import from_arrays
from o3srl.envs import look_up, make, toy
from o3srl.evaluate import Trace, trace
from o3srl.files import write_whole
from o3srl.types import Data, Policy, Step

CAREFUL, BOLD, SLOPPY = 330, 150, 120  # episodes of each kind
SMOOTHNESS = 0.5  # autocorrelation of the action noise from step to step
COLUMNS: tuple[str, ...] = ("observations", "next_observations", "actions", "rewards", "costs", "terminals", "timeouts")


class Style(NamedTuple):
    """How a controller behaves; array fields, one entry per episode when stacked.

    Fields: level: what it aims at as a multiple of where the cost begins; skill: how tightly it controls, 1 being
    well; aim: how far to the side it aims, in m; noise: standard deviation of its action noise.
    """

    level: Array
    skill: Array
    aim: Array
    noise: Array


Controller = Callable[[Array, Style], Array]


def _run_controller(obs: Array, style: Style) -> Array:
    """Hold a forward speed, on a line along the road."""
    side, speed_x, speed_y = obs
    wanted = style.level * toy.RUN_SPEED
    forward = toy.DRAG * wanted + 4.0 * style.skill * (wanted - speed_x)
    sideward = 3.0 * style.skill * (style.aim - side) - 2.0 * style.skill * speed_y
    return jnp.stack([forward, sideward]) / toy.RUN_FORCE


def _circle_controller(obs: Array, style: Style) -> Array:
    """Follow an ellipse as high as the circle and as wide as the level says, at the speed that its bends allow."""
    position, velocity = obs[:2] - jnp.stack([style.aim, 0.0]), obs[2:]
    axes = jnp.stack([style.level * toy.CIRCLE_WALL, toy.CIRCLE_RADIUS])
    phase = jnp.arctan2(position[1] / axes[1], position[0] / axes[0])
    around = jnp.stack([jnp.cos(phase), jnp.sin(phase)])
    along = axes * jnp.stack([-around[1], around[0]])
    stretch = jnp.linalg.norm(along)
    tangent, inward = along / stretch, jnp.stack([-along[1], along[0]]) / stretch
    bend = axes[0] * axes[1] / stretch**3
    speed = style.skill * jnp.minimum(2.4, jnp.sqrt(3.5 / bend))
    wanted = speed * tangent + 2.0 * (axes * around - position)
    force = toy.DRAG * wanted + speed**2 * bend * inward + 4.0 * (wanted - velocity)
    return force / toy.CIRCLE_FORCE


def _hover_controller(obs: Array, style: Style) -> Array:
    """Hold a height above a spot on the ground."""
    error = jnp.stack([style.aim, style.level * toy.HOVER_CEILING]) - obs[:2]
    force = 4.0 * style.skill * error - 3.0 * style.skill * obs[2:]
    return (force + jnp.array([0.0, toy.HOVER_GRAVITY])) / toy.HOVER_FORCE


class _Crew(NamedTuple):
    """Who logs a task: boldest is the highest level, sloppiest the lowest, aside the farthest that the sloppy aim."""

    controller: Controller
    boldest: float
    sloppiest: float
    aside: float


CREWS = {
    "toy-run": _Crew(_run_controller, boldest=1.5, sloppiest=0.1, aside=1.5),
    "toy-circle": _Crew(_circle_controller, boldest=1.35, sloppiest=0.3, aside=0.5),
    "toy-hover": _Crew(_hover_controller, boldest=1.7, sloppiest=-0.4, aside=1.0),
}


def demonstrator(task: str) -> Policy:
    """Return the task's controller as a policy: its parameters are a Style of scalars, its memory is its noise [2].

    a = clip(controller(obs) + noise n), n' = rho n + sqrt(1 - rho^2) normal.
    """
    controller = look_up(CREWS, task).controller

    def reset(key: Array, parameters: Style, limit: Array) -> Array:
        del parameters, limit
        return jax.random.normal(key, (2,))

    def act(key: Array, parameters: Style, memory: Array, step: Step) -> tuple[Array, Array]:
        action = jnp.clip(controller(step.obs, parameters) + parameters.noise * memory, -1.0, 1.0)
        fresh = jax.random.normal(key, (2,))
        return action, SMOOTHNESS * memory + (1.0 - SMOOTHNESS**2) ** 0.5 * fresh

    return Policy(reset, act)


def styles(key: Array, task: str) -> Style:
    """Draw the styles [600] that log a task: careful ones, crowded toward where cost begins, then bold and sloppy."""
    crew = look_up(CREWS, task)
    total = CAREFUL + BOLD + SLOPPY
    key_level, key_skill, key_aim, key_noise = jax.random.split(key, 4)
    kind = jnp.repeat(jnp.arange(3), jnp.array([CAREFUL, BOLD, SLOPPY]), total_repeat_length=total)
    draw = jax.random.uniform(key_level, (total,))
    levels = jnp.stack(
        [
            0.3 + 0.7 * jnp.cbrt(draw),
            1.0 + (crew.boldest - 1.0) * draw,
            crew.sloppiest + (crew.boldest - crew.sloppiest) * draw,
        ]
    )

    def between(key_use: Array, low: tuple[float, ...], high: tuple[float, ...]) -> Array:
        return jax.random.uniform(key_use, (total,), minval=jnp.array(low)[kind], maxval=jnp.array(high)[kind])

    return Style(
        level=levels[kind, jnp.arange(total)],
        skill=between(key_skill, (0.8, 0.8, 0.2), (1.0, 1.0, 0.9)),
        aim=between(key_aim, (-0.05, -0.05, -crew.aside), (0.05, 0.05, crew.aside)),
        noise=between(key_noise, (0.2, 0.2, 0.3), (0.5, 0.5, 0.7)),
    )


@partial(jax.jit, static_argnames="task")
def _record(key: Array, task: str) -> Trace:
    """Every episode, [600, T, ...]."""
    environment, policy = make(task), demonstrator(task)
    key_styles, key_episodes = jax.random.split(key)
    crew = styles(key_styles, task)

    def episode(key_episode: Array, style: Style) -> Trace:
        return trace(key_episode, policy, style, environment, jnp.zeros(environment.costs))

    return jax.vmap(episode)(jax.random.split(key_episodes, len(crew.level)), crew)


def _generate(task: str, seed: int) -> dict[str, np.ndarray]:
    """The log, one episode after another, each cut after its terminal, which is then no timeout."""
    with jax.default_device(jax.local_devices(backend="cpu")[0]):  # the same bits, and so the same hash, everywhere
        steps = jax.device_get(_record(jax.random.key(seed), task))
    alive, terminals = steps.alive, steps.terminal > 0
    timeouts = np.zeros_like(alive)
    timeouts[:, -1] = ~terminals[:, -1]
    columns = (steps.obs, steps.next_obs, steps.action, steps.reward, steps.cost[..., 0], terminals, timeouts)
    return {name: column[alive] for name, column in zip(COLUMNS, columns, strict=True)}


def cache_directory() -> Path:
    """Return where logs are kept: $O3SRL_CACHE, else $XDG_CACHE_HOME/o3srl, else ~/.cache/o3srl."""
    if own := os.environ.get("O3SRL_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "o3srl"


def cache_file(task: str, seed: int) -> Path:
    """Return the log's file; its name carries a digest of the code that makes it, so no edit can meet an old log."""
    code = "".join(inspect.getsource(module) for module in (toy, evaluate, sys.modules[__name__]))
    return cache_directory() / f"{task}-{seed}-{hashlib.sha256(code.encode()).hexdigest()[:12]}.npz"


def _read(path: Path) -> dict[str, np.ndarray] | None:
    """The cached log, or None where there is none or it is damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in COLUMNS}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return None


def _write(path: Path, arrays: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    np.savez(content, **arrays)
    write_whole(path, content.getvalue())


def logged_arrays(task: str, seed: int = 0) -> dict[str, np.ndarray]:
    """Return a task's log under DSRL's names, from the cache or made on the spot (a few seconds).

    observations and next_observations [N, n], actions [N, m], rewards and costs [N] are float32, terminals and
    timeouts [N] bool.
    """
    look_up(CREWS, task)
    path = cache_file(task, seed)
    arrays = _read(path)
    if arrays is None:
        arrays = _generate(task, seed)
        with contextlib.suppress(OSError):  # a place that cannot be written costs seconds next time, not this run
            _write(path, arrays)
    return arrays


def task_data(task: str, seed: int = 0) -> Data:
    """Return a task's log, checked and on the device."""
    source = f"{task}, built in, seed {seed}"
    return from_arrays(logged_arrays(task, seed), source=source, task=task, horizon=make(task).horizon)
