"""Frames with a strip below that tells reward and cost so far, and films of them as files."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from o3srl.errors import ConfigError
from o3srl.files import refuse_file, write_whole

Numbers = npt.NDArray[Any]
Frame = npt.NDArray[np.uint8]

STRIP, MARGIN = 64, 12  # pixels
WIDTH = 480  # at least; narrower frames are enlarged
PAPER, INK, MUTED, OVER, FINE = "#ffffff", "#22262b", "#6b7280", "#c0392b", "#0072b2"
KINDS = (".gif", ".mp4")


class Account(NamedTuple):
    """What an episode yields: reward [T] and cost [T, M] of each step; limit [M] per episode; title: whose."""

    reward: Numbers
    cost: Numbers
    limit: Numbers
    title: str


def with_account(frames: Sequence[Frame], account: Account, every: int = 1) -> list[Any]:
    """Return pictures of frames with what was earned and spent until each: before any step, and `every` so many."""
    earned = np.concatenate([[0.0], np.cumsum(account.reward)])
    spent = np.concatenate([np.zeros((1, account.cost.shape[1])), np.cumsum(account.cost, axis=0)])
    costly = np.concatenate([[False], account.cost.sum(axis=1) > 0])
    return [
        _picture(frame, account, step, float(earned[step]), spent[step], bool(costly[step]))
        for step, frame in zip(range(0, len(earned), every), frames, strict=True)
    ]


def write(path: Path, pictures: Sequence[Any], per_second: float) -> None:
    """Write a film, .gif or .mp4 (which takes ffmpeg), whole."""
    if path.suffix.lower() == ".gif":
        with tempfile.TemporaryDirectory() as folder:
            aside = Path(folder) / "film.gif"
            small = [picture.quantize(64, method=Image.Quantize.MEDIANCUT) for picture in pictures]
            small[0].save(aside, save_all=True, append_images=small[1:], duration=1000.0 / per_second, loop=0)
            write_whole(path, aside.read_bytes())
        return
    with tempfile.TemporaryDirectory() as folder:
        for number, picture in enumerate(pictures):
            picture.save(Path(folder) / f"{number:06d}.png")
        aside = Path(folder) / "film.mp4"
        words = ["ffmpeg", "-loglevel", "error", "-framerate", f"{per_second:g}", "-i", f"{folder}/%06d.png"]
        words += ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p", str(aside)]
        made = subprocess.run(words, capture_output=True, text=True, check=False)
        if made.returncode:
            raise ConfigError(f"ffmpeg could not write {path}: {made.stderr.strip()}. A .gif needs no ffmpeg.")
        write_whole(path, aside.read_bytes())


def check(path: Path) -> None:
    """Raise unless a film can be written there; before anything is simulated."""
    refuse_file("--render", path, KINDS)
    if path.suffix.lower() == ".mp4" and shutil.which("ffmpeg") is None:
        raise ConfigError("An .mp4 takes ffmpeg, which is not installed here. Install it, or render a .gif.")


def _picture(frame: Frame, account: Account, step: int, earned: float, spent: Numbers, costly: bool) -> Any:
    picture = Image.fromarray(frame)
    if picture.width < WIDTH:
        picture = picture.resize((WIDTH, round(picture.height * WIDTH / picture.width)), Image.Resampling.LANCZOS)
    whole = Image.new("RGB", (picture.width, picture.height + STRIP), PAPER)
    whole.paste(picture)
    pen = ImageDraw.Draw(whole)
    if costly:
        pen.rectangle([0, 0, picture.width - 1, picture.height - 1], outline=OVER, width=5)
    top, half = picture.height, picture.width // 2
    pen.text((MARGIN, top + 8), f"reward {earned:,.1f}", font=font(17), fill=INK)
    told = f"{account.title}   step {step}"
    pen.text((MARGIN, top + 36), told, font=font(13), fill=MUTED)
    limit = ", ".join(f"{one:g}" for one in account.limit)
    over = bool((spent > account.limit).any())
    cost = ", ".join(f"{one:g}" for one in np.round(spent, 1))
    pen.text((half, top + 8), f"cost {cost} of {limit}", font=font(17), fill=OVER if over else INK)
    _bar(pen, (half, top + 38), picture.width - half - MARGIN, _share(spent, account.limit), over)
    return whole


def _share(spent: Numbers, limit: Numbers) -> float:
    """The largest share of a limit that is spent; of limit 0, anything is all."""
    shares = np.where(limit > 0, spent / np.where(limit > 0, limit, 1.0), (spent > 0) * 1.0)
    return float(min(shares.max(), 1.0))


def _bar(pen: Any, corner: tuple[int, int], width: int, share: float, over: bool) -> None:
    x, y = corner
    pen.rectangle([x, y, x + width, y + 12], outline=MUTED)
    if share > 0:
        pen.rectangle([x, y, x + round(share * width), y + 12], fill=OVER if over else FINE)


@cache
def font(size: int) -> Any:
    """Return the font that films are lettered in, so many pixels high."""
    # matplotlib, which draws the reports, brings a font along, so that films look the same everywhere.
    import matplotlib

    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), size)
