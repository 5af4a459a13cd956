"""The built-in tasks as pictures, drawn from observations: where costs begin is red."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from o3srl.envs import look_up, toy

Numbers = npt.NDArray[Any]
Frame = npt.NDArray[np.uint8]
Point = tuple[float, float]

SIZE = (480, 360)  # pixels
FINER = 2  # drawn so many times larger and shrunk, so that edges are smooth
PAPER, INK, FAINT, OVER, BODY, TRAIL = "#f7f7f4", "#3a4048", "#dcdcd6", "#f3d3d3", "#0072b2", "#7fb3d5"
DANGER, GOAL = "#c0392b", "#008a66"
BODY_RADIUS = 0.09  # m


class View(NamedTuple):
    """What of the plane is seen: its center in m, and pixels per m."""

    center: Point
    scale: float

    def at(self, point: Any) -> Point:
        """Return the pixel of a point in m."""
        x, y = (float(entry) for entry in point)
        width, height = SIZE
        across = width / 2 + (x - self.center[0]) * self.scale
        down = height / 2 - (y - self.center[1]) * self.scale
        return FINER * across, FINER * down


def drawn(task: str, obs: Numbers) -> list[Frame]:
    """Return a frame per observation [T, n] of one episode of a built-in task."""
    picture = look_up(_PICTURES, task)
    place = _road(obs) if task == "toy-run" else obs[:, :2]
    return [picture(place[: step + 1]) for step in range(len(obs))]


def _road(obs: Numbers) -> Numbers:
    """Positions [T, 2] on the road: an observation has only y, so x is the sum of what the speeds make of it."""
    along = toy.SECONDS * np.cumsum(obs[:, 1])
    return np.stack([along - along[0], obs[:, 0]], axis=1)


def _run(place: Numbers) -> Frame:
    view = View((float(place[-1][0]) + 1.0, 0.0), 90.0)
    pen, done = _canvas(OVER)
    left, right = place[-1][0] - 5.0, place[-1][0] + 5.0
    _area(pen, view, (left, -toy.RUN_ROAD), (right, toy.RUN_ROAD), PAPER)
    for side in (-toy.RUN_ROAD, toy.RUN_ROAD):
        _line(pen, view, [(left, side), (right, side)], DANGER, 2)
    for mark in range(int(np.floor(left)), int(np.ceil(right)) + 1):
        _line(pen, view, [(mark, -0.04), (mark + 0.4, -0.04)], FAINT, 3)
    return done(view, place)


def _circle(place: Numbers) -> Frame:
    view = View((0.0, 0.0), 68.0)
    pen, done = _canvas(PAPER)
    for side in (-1.0, 1.0):
        _area(pen, view, (side * toy.CIRCLE_WALL, -9.0), (side * 9.0, 9.0), OVER)
        _line(pen, view, [(side * toy.CIRCLE_WALL, -9.0), (side * toy.CIRCLE_WALL, 9.0)], DANGER, 2)
    _ring(pen, view, (0.0, 0.0), toy.CIRCLE_RADIUS, GOAL)
    return done(view, place)


def _hover(place: Numbers) -> Frame:
    view = View((0.0, 1.2), 110.0)
    pen, done = _canvas(PAPER)
    _area(pen, view, (-9.0, toy.HOVER_CEILING), (9.0, 9.0), OVER)
    _line(pen, view, [(-9.0, toy.HOVER_CEILING), (9.0, toy.HOVER_CEILING)], DANGER, 2)
    _area(pen, view, (-9.0, -9.0), (9.0, 0.0), FAINT)
    _line(pen, view, [(-9.0, 0.0), (9.0, 0.0)], INK, 2)
    _ring(pen, view, (0.0, toy.HOVER_TARGET), 0.12, GOAL)
    return done(view, place)


_PICTURES: dict[str, Callable[[Numbers], Frame]] = {"toy-run": _run, "toy-circle": _circle, "toy-hover": _hover}


def _canvas(color: str) -> tuple[Any, Callable[[View, Numbers], Frame]]:
    """A pen on an empty picture, and what draws the body with its trail and returns the frame."""
    width, height = SIZE
    picture = Image.new("RGB", (FINER * width, FINER * height), color)
    pen = ImageDraw.Draw(picture)

    def done(view: View, place: Numbers) -> Frame:
        if len(place) > 1:
            _line(pen, view, list(place), TRAIL, 2)
        x, y = place[-1]
        low, high = view.at((x - BODY_RADIUS, y + BODY_RADIUS)), view.at((x + BODY_RADIUS, y - BODY_RADIUS))
        pen.ellipse([low, high], fill=BODY, outline=INK, width=FINER)
        return np.asarray(picture.resize(SIZE, Image.Resampling.LANCZOS))

    return pen, done


def _area(pen: Any, view: View, corner: Point, other: Point, color: str) -> None:
    (x0, y0), (x1, y1) = view.at(corner), view.at(other)
    pen.rectangle([min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)], fill=color)


def _line(pen: Any, view: View, points: list[Any], color: str, width: int) -> None:
    pen.line([view.at(point) for point in points], fill=color, width=FINER * width, joint="curve")


def _ring(pen: Any, view: View, center: Point, radius: float, color: str) -> None:
    x, y = center
    pen.ellipse([view.at((x - radius, y + radius)), view.at((x + radius, y - radius))], outline=color, width=2 * FINER)
