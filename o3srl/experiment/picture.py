"""The episodes of a log as a picture in a file: what each earned, over what it cost."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from matplotlib import style
from matplotlib.figure import Figure

from o3srl.experiment.plot import LIGHT, SCATTER, Cloud, Dots, Numbers, draw_cloud, style_in
from o3srl.experiment.record import best_within
from o3srl.files import refuse_file, write_whole

FORMATS = (".png", ".svg", ".pdf")


def refuse_picture(path: Path) -> None:
    """Raise unless a picture may be written to `path`: of a known format, in a folder that is there, over nothing."""
    refuse_file("--picture", path, FORMATS)


def write_scatter(path: Path, title: str, returns: Numbers, costs: Numbers, limits: Sequence[float]) -> None:
    """Write the scatter of returns [E] over costs [E, M], a panel per cost, with the limits and the best within each.

    A limit holds for each of the costs, as in `o3srl.data.describe`; one far beyond every episode is not drawn.
    """
    width, height = SCATTER
    count = costs.shape[1]
    with style.context([*style_in(LIGHT), {"svg.hashsalt": title}]):
        figure = Figure(figsize=(width * count, height), layout="constrained")
        figure.suptitle(f"{title}\nlines: limits; stars: the best within each", fontsize=10)
        for index in range(count):
            axes = figure.add_subplot(1, count, index + 1)
            reached = [limit for limit in limits if limit <= costs[:, index].max()] or [min(limits)]
            chosen = [best_within(returns, costs, [limit] * count) for limit in reached]
            best = [Dots(costs[[row], index], returns[[row]]) for row in dict.fromkeys(chosen) if row is not None]
            draw_cloud(axes, Cloud([Dots(costs[:, index], returns)], [], reached, best), LIGHT)
            axes.set_xlabel(f"cost{'' if count == 1 else f' {index + 1}'} of an episode")
        content = io.BytesIO()
        nothing = {"Date": None} if path.suffix.lower() == ".svg" else {}
        figure.savefig(content, format=path.suffix[1:].lower(), dpi=160, metadata=nothing)
    write_whole(path, content.getvalue())
