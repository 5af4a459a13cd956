"""A picture of every task, as its camera sees it, for the documentation.

    python benchmarks/task_pictures.py --out docs/pictures/tasks.png [--tasks BallRun CarRun ...]

Tasks whose simulator is not installed here are left out, and so are those that cannot be seen; it says which.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image, ImageDraw

from o3srl.envs import make
from o3srl.envs.pool import RESET, STEP, Pool
from o3srl.envs.tasks import BUILT_IN, Task, find
from o3srl.envs.toy_data import Style, demonstrator
from o3srl.errors import O3SRLError
from o3srl.evaluate import trace
from o3srl.film import scene
from o3srl.film.strip import font
from o3srl.policy import in_box

# The built-in tasks, and those of the paper.
TASKS = (
    "toy-run", "toy-circle", "toy-hover",
    "BallRun", "CarRun", "DroneRun", "AntRun", "BallCircle", "CarCircle", "DroneCircle", "AntCircle",
    "PointCircle1", "PointCircle2",
    "AntVelocity", "HalfCheetahVelocity", "HopperVelocity", "SwimmerVelocity", "Walker2dVelocity",
)  # fmt: skip
TILE, LABEL, ACROSS, GAP = (240, 180), 22, 6, 6  # pixels; tiles in a row
STEPS = 12  # after the reset, with no force or little


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    arguments = parser.parse_args()
    tiles: list[Any] = []
    for name in arguments.tasks:
        try:
            tiles.append(tile(name, look(find(name))))
        except O3SRLError as error:
            print(f"{name} is left out: {error}", flush=True)
    sheet(tiles).quantize(256).save(arguments.out, optimize=True)
    print(f"{len(tiles)} tasks: {arguments.out}, {arguments.out.stat().st_size / 1000:,.0f} kB")


def look(task: Task) -> np.ndarray:
    """Return what the task looks like a moment after its start."""
    if task.suite == BUILT_IN:
        style = Style(*(jnp.float32(value) for value in (0.9, 1.0, 0.0, 0.2)))
        steps = trace(jax.random.key(0), demonstrator(task.name), style, make(task.name), jnp.zeros(1))
        return scene.drawn(task.name, np.asarray(steps.obs)[:50])[-1]
    with Pool(task, 1, [0], processes=1, camera=True) as pool:
        still = in_box(np.zeros((1, len(pool.facts.low))), pool.facts.low, pool.facts.high)
        pool.tick(np.array([RESET], np.uint8), np.zeros(1, np.uint32), still)
        for _ in range(STEPS):
            pool.tick(np.array([STEP], np.uint8), np.zeros(1, np.uint32), still)
        return pool.picture(0)


def tile(name: str, seen: np.ndarray) -> Any:
    """Return a picture of the tile's size, cut to its shape, with its name below."""
    picture = Image.fromarray(seen)
    width, height = picture.size
    scale = max(TILE[0] / width, TILE[1] / height)
    picture = picture.resize((round(width * scale), round(height * scale)), Image.Resampling.LANCZOS)
    left, top = (picture.width - TILE[0]) // 2, (picture.height - TILE[1]) // 2
    whole = Image.new("RGB", (TILE[0], TILE[1] + LABEL), "white")
    whole.paste(picture.crop((left, top, left + TILE[0], top + TILE[1])))
    ImageDraw.Draw(whole).text((TILE[0] / 2, TILE[1] + 3), name, font=font(14), fill="#22262b", anchor="ma")
    return whole


def sheet(tiles: list[Any]) -> Any:
    """Return the tiles in rows."""
    rows = -(-len(tiles) // ACROSS)
    size = (ACROSS * (TILE[0] + GAP) - GAP, rows * (TILE[1] + LABEL + GAP) - GAP)
    whole = Image.new("RGB", size, "white")
    for number, each in enumerate(tiles):
        row, column = divmod(number, ACROSS)
        whole.paste(each, (column * (TILE[0] + GAP), row * (TILE[1] + LABEL + GAP)))
    return whole


if __name__ == "__main__":
    main()
