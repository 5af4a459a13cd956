"""Figures as SVG text for a page: colors are the page's own variables, so that one picture serves light and dark.

Every color that is drawn here stands for a CSS variable and is replaced by it in the end: `--a0`, `--a1` ... are the
settings, `--b0` ... the arms, and those of `Inks` are the page's. Letters stay text, in the page's own font.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

Numbers = npt.NDArray[np.float64]

MINUS = "\N{MINUS SIGN}"  # as wide as a digit
MARKERS, GLYPHS = "os^Dv", "●■▲◆▼"  # a second sign besides the color, in a figure and in a legend
MOST_POINTS = 400  # of a curve: a panel is hardly more pixels wide
PANEL, SCATTER = (5.0, 3.1), (5.0, 3.9)  # inches of 72 units

# Wong's palette (https://doi.org/10.1038/nmeth.1618), darkened or lightened to stand out on white and on near-black.
FEW = (
    ("#0072b2", "#5ab0e8"), ("#d55e00", "#ff9248"), ("#008a66", "#36cfa0"),
    ("#b0478a", "#ea9aca"), ("#a87500", "#f0bc42"), ("#5b6470", "#b4bcc8"),
)  # fmt: skip


class Inks(NamedTuple):
    """Colors by what they are for."""

    ink: str
    muted: str
    rule: str
    paper: str
    over: str


LIGHT = Inks(ink="#1b2027", muted="#5c6672", rule="#e1e5ea", paper="#ffffff", over="#b3362b")
VARIABLES = Inks(*(f"#c{index:03x}01" for index in range(len(Inks._fields))))
INK, MUTED, PAPER = VARIABLES.ink, VARIABLES.muted, VARIABLES.paper


def style_in(inks: Inks) -> list[Any]:
    """Return the style of every figure, in these colors."""
    ink, muted, rule = inks.ink, inks.muted, inks.rule
    return ["default", {
        "font.size": 11, "text.color": ink, "axes.edgecolor": muted, "axes.labelcolor": muted, "xtick.color": muted,
        "ytick.color": muted, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
        "grid.color": rule, "grid.linewidth": 0.8, "axes.axisbelow": True, "axes.linewidth": 0.8, "axes.xmargin": 0.02,
        "xtick.major.size": 0, "ytick.major.size": 0, "xtick.minor.size": 0, "ytick.minor.size": 0,
        "lines.linewidth": 1.2,
    }]  # fmt: skip


class Dots(NamedTuple):
    """Points of one color and sign: cost [N], reward [N], and the setting they belong to (None: of no setting)."""

    cost: Numbers
    reward: Numbers
    setting: int | None = None


class Cloud(NamedTuple):
    """A scatter of reward over cost: faint dots below strong ones, limits as lines, the best logged as stars."""

    faint: Sequence[Dots]
    strong: Sequence[Dots]
    limits: Sequence[float]
    best: Sequence[Dots]


def palette(count: int) -> list[tuple[str, str]]:
    """Return (on light, on dark) colors of the settings: told apart up to six, a sequence beyond."""
    return list(FEW[:count]) if count <= len(FEW) else _shades("viridis", (0.05, 0.85), (0.4, 1.0), count)


def shades(count: int) -> list[tuple[str, str]]:
    """Return (on light, on dark) colors of the arms: the larger the multiplier, the stronger."""
    return _shades("YlGnBu", (0.2, 0.9), (0.85, 0.2), count)


def _shades(name: str, light: tuple[float, float], dark: tuple[float, float], count: int) -> list[tuple[str, str]]:
    picked = matplotlib.colormaps[name]
    ends = zip(np.linspace(*light, count), np.linspace(*dark, count), strict=True)
    return [(to_hex(picked(a)), to_hex(picked(b))) for a, b in ends]


def number(value: float) -> str:
    """Return a number for people: separated thousands, about three digits after them.

    >>> [number(value) for value in (12345.678, 3.14159, 0.0012345, 20.0, 1e9)]
    ['12,346', '3.14', '0.00123', '20', '1,000,000,000']
    """
    if value == round(value) or abs(value) >= 1000:
        text = f"{value:,.0f}" if abs(value) < 1e12 else f"{value:.3g}"
    else:
        text = f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"
    return text if "e" in text else text.replace("-", MINUS)


def exact(value: Any) -> str:
    """Return a setting for people, with all its digits.

    >>> [exact(value) for value in (None, True, 100_000, 3e-4, 20.0, (1024, 256), "exp3")]
    ['none', 'yes', '100,000', '0.0003', '20', '1024, 256', 'exp3']
    """
    match value:
        case None | "":
            return "none"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.10g}" if value == 0.0 or 1e-4 <= abs(value) < 1e10 else f"{value:g}"
        case tuple() | list():
            entries: Sequence[Any] = value
            return ", ".join(exact(entry).replace(",", "") for entry in entries)
        case _:
            return str(value)


def curves(
    name: str,
    label: str,
    updates: Numbers,
    values: Numbers,
    settings: list[list[int]],
    *,
    line: float | None = None,
    wide: bool = False,
) -> str:
    """Return the SVG of values [T, L] over updates [T]: a thin line per lane, and the mean of each setting's lanes.

    `name` makes the ids of this figure its own; `line` is a height that must not be passed for long; `wide` allows a
    logarithmic axis for positive values that span orders of magnitude.
    """
    updates, values = _thinned(updates), _thinned(values)
    mark = "o" if len(updates) < 3 else ""
    faint = 0.45 if values.shape[1] <= 12 else 0.25

    def draw(axes: Axes) -> None:
        for index, lanes in enumerate(settings):
            look: dict[str, Any] = {"color": _setting(index), "marker": mark, "markersize": 3.5, "clip_on": not mark}
            if len(lanes) > 1:
                axes.plot(updates, values[:, lanes], linewidth=0.8, alpha=faint, **look)
            axes.plot(updates, mean_of_known(values[:, lanes], axis=1), linewidth=1.7, **look)
            _mark_ends(axes, updates, values[:, lanes], _setting(index))
        if line is not None:
            axes.axhline(line, color=INK, linewidth=1.0, linestyle=(0, (4, 3)))
        seen = values[np.isfinite(values)]
        if wide and len(seen) and seen.min() > 0 and seen.max() > 50 * seen.min():
            axes.set_yscale("log")
            axes.yaxis.set_minor_formatter(NullFormatter())
            axes.yaxis.set_major_formatter(FuncFormatter(_tick))
        else:
            axes.yaxis.set_major_locator(MaxNLocator(5))
        _over_updates(axes, updates)

    return _svg(draw, name, label, PANEL)


def arms(name: str, label: str, updates: Numbers, probability: Numbers) -> str:
    """Return the SVG of stacked probabilities [T, K] over updates [T]; every dual starts from equal ones."""
    count = probability.shape[1]
    known = np.isfinite(probability).all(axis=1)
    x = np.concatenate([[0.0], _thinned(updates[known])])
    y = np.concatenate([np.full((1, count), 1.0 / count), _thinned(probability[known])])

    def draw(axes: Axes) -> None:
        colors = [f"#b{arm:03x}01" for arm in range(count)]
        axes.stackplot(x, y.T, colors=colors, edgecolor=PAPER, linewidth=0.8 if count <= 20 else 0.0)
        axes.set_ylim(0.0, 1.0)
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.grid(visible=False)
        _over_updates(axes, x)

    return _svg(draw, name, label, PANEL)


def scatter(name: str, label: str, cloud: Cloud) -> str:
    """Return the SVG of reward over cost."""
    return _svg(lambda axes: draw_cloud(axes, cloud, VARIABLES), name, label, SCATTER)


def draw_cloud(axes: Axes, cloud: Cloud, inks: Inks) -> None:
    """Draw reward over cost: faint and strong dots, a line per limit, and a star for the best logged."""
    for dots in cloud.faint:
        color = inks.muted if dots.setting is None else _setting(dots.setting)
        axes.plot(dots.cost, dots.reward, linestyle="", marker="o", markersize=3.2, color=color, alpha=0.32, mew=0)
    for dots in cloud.strong:
        index = dots.setting or 0
        sign: dict[str, Any] = {
            "marker": MARKERS[index % len(MARKERS)],
            "markersize": 8.5,
            "markeredgecolor": inks.paper,
        }
        axes.plot(dots.cost, dots.reward, linestyle="", color=_setting(index), **sign)
    for dots in cloud.best:
        sign = {"marker": "*", "markersize": 15, "markerfacecolor": inks.paper, "markeredgecolor": inks.ink}
        axes.plot(dots.cost, dots.reward, linestyle="", clip_on=False, zorder=5, **sign)
    right = max([axes.get_xlim()[1], *(1.12 * limit for limit in cloud.limits)])
    left = min(axes.get_xlim()[0], -0.02 * right)
    axes.set_xlim(left, right)
    _draw_limits(axes, cloud.limits, right, inks.over)
    axes.set_xlabel("cost of an episode")
    axes.set_ylabel("reward of an episode")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5))
        axis.set_major_formatter(FuncFormatter(_tick))


def _draw_limits(axes: Axes, limits: Sequence[float], right: float, color: str) -> None:
    for limit in limits:
        axes.axvline(limit, color=color, linewidth=1.3, linestyle=(0, (4, 3)), zorder=1.5)
        if len(limits) <= 6:
            text = f"limit {_tick(limit)}" if len(limits) == 1 else _tick(limit)
            where: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
            axes.annotate(text, (limit, 1.0), xytext=(0, 3), ha="center", va="bottom", color=color, **where)
    if len(limits) == 1:
        axes.axvspan(limits[0], right, color=color, alpha=0.07, linewidth=0, zorder=0.5)


def _mark_ends(axes: Axes, updates: Numbers, values: Numbers, color: str) -> None:
    # A lane that ends before the others was frozen: a cross says where.
    for lane in values.T:
        known = np.flatnonzero(np.isfinite(lane))
        if len(known) and known[-1] < len(lane) - 1:
            axes.plot(updates[known[-1]], lane[known[-1]], marker="x", markersize=7, mew=2, color=color)


def _over_updates(axes: Axes, updates: Numbers) -> None:
    axes.set_xlim(0.0, updates[-1] if len(updates) and updates[-1] > 0 else 1.0)
    axes.set_xlabel("updates")
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(_tick))
    axes.yaxis.set_major_formatter(FuncFormatter(_tick))


def _tick(value: float, position: int | None = None) -> str:
    del position
    return f"{value:,.6g}".replace("-", MINUS) if abs(value) < 1e6 else number(value)


def _setting(index: int) -> str:
    return f"#a{index % 4096:03x}01"


def mean_of_known(values: Numbers, axis: int) -> Numbers:
    """Return the mean of the finite values along an axis, NaN where there are none."""
    return np.ma.filled(np.ma.masked_invalid(values).mean(axis=axis), np.nan)


def _thinned(values: Numbers) -> Numbers:
    # Means of neighbors rather than a choice among them, so that a spike is not missed.
    size = -(-len(values) // MOST_POINTS)
    if size <= 1:
        return values
    return np.stack([mean_of_known(part, axis=0) for part in np.array_split(values, -(-len(values) // size))])


def _svg(draw: Callable[[Axes], None], name: str, label: str, size: tuple[float, float]) -> str:
    text = io.StringIO()
    with style.context([*style_in(VARIABLES), {"svg.fonttype": "none", "svg.hashsalt": name}]):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.add_subplot())
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(text, format="svg", transparent=True, metadata=nothing)
    return _inline(text.getvalue(), name, label)


def _inline(text: str, name: str, label: str) -> str:
    # The prolog, the global style and unused ids would not be sound inside a page; the font is the page's.
    text = text[text.index("<svg") :]
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", text, flags=re.DOTALL)
    text = re.sub(r"\s*font-family: [^;\"]*;?", "", text).replace("xlink:href", "href")
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', text))
    text = re.sub(r' id="([^"]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", text)
    text = re.sub(r'(url\(|href=")#', rf"\g<1>#{name}-", text)
    text = re.sub(r"#([ab])([0-9a-f]{3})01\b", lambda m: f"var(--{m[1]}{int(m[2], 16)})", text)
    text = re.sub(r"#c([0-9a-f]{3})01\b", lambda m: f"var(--{Inks._fields[int(m[1], 16)]})", text)
    opening = f'<svg role="img" aria-label="{html.escape(label)}" viewBox='
    return re.sub(r'^<svg[^>]*viewBox=("[^"]+")[^>]*>', lambda m: f"{opening}{m[1]}>", text).strip()
