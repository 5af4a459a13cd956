"""Three built-in tasks in pure JAX, small enough that training and evaluation take seconds on a processor.

All move one point mass with drag by a force in the unit box, for T = 100 steps of 0.1 s, under one cost of 0 or 1 per
step, and in all of them the reward pulls toward the cost. They follow the tasks of Bullet-Safety-Gym
(https://github.com/SvenGronauer/Bullet-Safety-Gym) in spirit: `toy-run` is fast along a road with a speed limit,
`toy-circle` circles between two walls that cut the circle, `toy-hover` climbs under gravity toward a target above a
ceiling, and the ground ends the episode. Starts are random, the motion is deterministic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from o3srl.types import State

HORIZON = 100  # steps
SECONDS = 0.1  # per step
DRAG = 1.0  # 1/s: speeds settle within about ten steps

RUN_FORCE = 3.0  # m/s^2 at full action: a top speed of 3 m/s
RUN_SPEED = 2.0  # m/s: faster is a cost
RUN_ROAD = 1.0  # m: farther to either side is a cost
RUN_EFFORT = 0.08  # m: what a step at full action is worth

CIRCLE_FORCE = 4.0  # m/s^2 at full action: about 2.5 m/s around the circle
CIRCLE_RADIUS = 2.0  # m: where circling pays most
CIRCLE_WALL = 1.5  # m: beyond it, to either side in x, is a cost

HOVER_FORCE = 4.0  # m/s^2 at full action
HOVER_GRAVITY = 2.0  # m/s^2: half the force holds the height
HOVER_TARGET = 2.0  # m: the height that pays most
HOVER_CEILING = 1.2  # m: higher is a cost


class Environment(NamedTuple):
    """A simulated task, for one episode at a time; vmap it for more.

    Fields: reset: (key) -> state, at random; step: (state, action [m] in the unit box) -> (state, reward [], cost [M],
    terminal [], 1 where the world ended); observe: (state) -> obs [n]; horizon: the time limit T in steps; obs_dim
    (n), action_dim (m) and costs (M) are sizes.
    """

    reset: Callable[[Array], State]
    step: Callable[[State, Array], tuple[State, Array, Array, Array]]
    observe: Callable[[State], Array]
    horizon: int
    obs_dim: int
    action_dim: int
    costs: int


class Point(NamedTuple):
    """A point mass: position [2] in m, velocity [2] in m/s."""

    position: Array
    velocity: Array


def move(point: Point, force: Array) -> Point:
    """Return the point a step later: v' = v + dt (force - drag v), p' = p + dt v'; force [2] in m/s^2."""
    velocity = point.velocity + SECONDS * (force - DRAG * point.velocity)
    return Point(point.position + SECONDS * velocity, velocity)


def _start(key: Array, center: tuple[float, float], spread: tuple[float, float], speed: float) -> Point:
    """A point within `spread` of `center` and within `speed` of rest, uniform in both."""
    key_position, key_velocity = jax.random.split(key)
    offset = jax.random.uniform(key_position, (2,), minval=-1.0, maxval=1.0) * jnp.array(spread)
    velocity = jax.random.uniform(key_velocity, (2,), minval=-speed, maxval=speed)
    return Point(jnp.array(center) + offset, velocity)


def _flag(condition: Array) -> Array:
    return condition.astype(jnp.float32)


def _observe(point: Point) -> Array:
    return jnp.concatenate([point.position, point.velocity])


def _box(action: Array) -> Array:
    return jnp.clip(action, -1.0, 1.0)


def run_reset(key: Array) -> Point:
    """Start at rest or nearly so, near the middle of the road."""
    return _start(key, (0.0, 0.0), (0.0, 0.3), 0.2)


def run_step(point: Point, action: Array) -> tuple[Point, Array, Array, Array]:
    """Reward: x' - x - effort |a|^2 in m. Cost: |y'| > road or |v'| > speed limit. It never ends early."""
    push = _box(action)
    new = move(point, RUN_FORCE * push)
    reward = new.position[0] - point.position[0] - RUN_EFFORT * (push @ push)
    over = (jnp.abs(new.position[1]) > RUN_ROAD) | (jnp.linalg.norm(new.velocity) > RUN_SPEED)
    return new, reward, _flag(over)[None], jnp.float32(0.0)


def run_observe(point: Point) -> Array:
    """Return (y, v_x, v_y) [3]: how far the run has come matters to nothing."""
    return _observe(point)[1:]


def circle_reset(key: Array) -> Point:
    """Start at rest or nearly so, near the middle of the circle."""
    return _start(key, (0.0, 0.0), (0.3, 0.3), 0.2)


def circle_step(point: Point, action: Array) -> tuple[Point, Array, Array, Array]:
    """Reward: (x v_y - y v_x)' / (1 + | |p'| - radius |), counterclockwise. Cost: |x'| > wall. It never ends early."""
    new = move(point, CIRCLE_FORCE * _box(action))
    (x, y), (speed_x, speed_y) = new
    reward = (x * speed_y - y * speed_x) / (1.0 + jnp.abs(jnp.hypot(x, y) - CIRCLE_RADIUS))
    return new, reward, _flag(jnp.abs(x) > CIRCLE_WALL)[None], jnp.float32(0.0)


def hover_reset(key: Array) -> Point:
    """Start in the air, well below the ceiling, nearly at rest."""
    return _start(key, (0.0, 0.7), (0.4, 0.2), 0.2)


def hover_step(point: Point, action: Array) -> tuple[Point, Array, Array, Array]:
    """Reward: max(0, 1 - (z'/target - 1)^2) / (1 + |x'|). Cost: z' > ceiling. Terminal: z' <= 0, the ground."""
    new = move(point, HOVER_FORCE * _box(action) - jnp.array([0.0, HOVER_GRAVITY]))
    x, height = new.position
    near = jnp.maximum(0.0, 1.0 - (height / HOVER_TARGET - 1.0) ** 2)
    return new, near / (1.0 + jnp.abs(x)), _flag(height > HOVER_CEILING)[None], _flag(height <= 0.0)


# Made once, so that a function that is compiled for a task finds the same record again.
TASKS = {
    "toy-run": Environment(run_reset, run_step, run_observe, HORIZON, obs_dim=3, action_dim=2, costs=1),
    "toy-circle": Environment(circle_reset, circle_step, _observe, HORIZON, obs_dim=4, action_dim=2, costs=1),
    "toy-hover": Environment(hover_reset, hover_step, _observe, HORIZON, obs_dim=4, action_dim=2, costs=1),
}
