"""What one sees while a run trains: a bar in a terminal, a line now and then elsewhere; and a polite Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from o3srl.experiment.run import Reporter, Stop
from o3srl.train import Chunk

if TYPE_CHECKING:
    from o3srl.collect.run import Progress as Climb

PLAIN_LINES = 10  # how many lines a run prints where there is no terminal


@contextmanager
def reporting(console: Console) -> Generator[Reporter]:
    """Yield the reporter of one run's chunks: a bar and a line of facts below it, or plain lines without a terminal."""
    with _telling(console, "training", "updates", "compiling ...", PLAIN_LINES) as tell:
        yield lambda run, chunk: tell(chunk.updates, run.updates, facts(chunk, len(run.plan.lanes)))


@contextmanager
def collecting(console: Console, limits: Sequence[float], steps: int) -> Generator[Callable[[Climb], None]]:
    """Yield the reporter of a collection's batches: a bar over the steps of all limits, or lines without a terminal."""
    with _telling(console, "collecting", "steps", "starting the simulators ...", 2 * len(limits)) as tell:

        def report(at: Climb) -> None:
            done = at.rung * steps + min(at.steps, steps)
            cost, multiplier = (",".join(f"{x:.3g}" for x in at.metrics[name]) for name in ("cost", "multiplier"))
            limit = "no limit" if np.isinf(at.limit) else f"limit {at.limit:g}"
            said = f"{limit}  reward {at.metrics['reward']:.4g}  cost {cost}  multiplier {multiplier}"
            tell(done, len(limits) * steps, f"{said}  exploration {at.metrics['deviation']:.2f}")

        yield report


@contextmanager
def simulating(console: Console) -> Generator[Callable[[int, int], None]]:
    """Yield the reporter of simulated episodes, (ended, of how many): a bar that goes away, or nothing."""
    bar = _bar(console, "simulating", "episodes", transient=True)
    job = bar.add_task("simulating", total=None, visible=False)
    if not console.is_terminal:
        yield lambda ended, total: None
        return
    with bar:
        yield lambda ended, total: bar.update(job, completed=ended, total=total, visible=True)


@contextmanager
def counting(console: Console, doing: str, total: int, what: str) -> Generator[Callable[[str], None]]:
    """Yield a function that hears of each part that is done, by name: a bar, or a line each without a terminal."""
    if not console.is_terminal:
        yield lambda name: console.print(f"{doing}: {name} is done", highlight=False)
        return
    bar = Progress(
        TextColumn(doing), BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn(what + ","),
        TimeElapsedColumn(), console=console,
    )  # fmt: skip
    with bar:
        job = bar.add_task(doing, total=total)
        yield lambda name: bar.advance(job)


@contextmanager
def _telling(
    console: Console, doing: str, what: str, first: str, lines: int
) -> Generator[Callable[[int, int, str], None]]:
    """Yield what shows (done, of how many, facts): a bar with the facts below, or so many lines without a terminal."""
    bar, below = _bar(console, doing, what), Text(first)
    job = bar.add_task(doing, total=None)
    told = -1

    def tell(done: int, total: int, said: str) -> None:
        nonlocal told
        bar.update(job, completed=done, total=total)
        below.plain = said
        if not console.is_terminal and done * lines // total > told:
            told = done * lines // total
            console.print(f"{done:>10,} of {total:,} {what}   {said}", highlight=False, soft_wrap=True)

    if not console.is_terminal:
        yield tell
        return
    with Live(Group(bar, below), console=console, refresh_per_second=4):
        yield tell


def _bar(console: Console, doing: str, what: str, *, transient: bool = False) -> Progress:
    return Progress(
        TextColumn(doing), BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn(f"{what},"),
        TimeRemainingColumn(compact=True), TextColumn("left"), console=console, transient=transient,
    )  # fmt: skip


def facts(chunk: Chunk, lanes: int) -> str:
    """Return speed, mean multiplier, value and violation (where known) of a chunk, as one short line."""
    parts = [f"{lanes * chunk.fresh / max(chunk.seconds, 1e-9):,.0f} updates/s"]
    for name, label in (
        ("game/multiplier", "multiplier"),
        ("game/lagrangian", "value"),
        ("game/violation", "violation"),
    ):
        if name in chunk.metrics:
            mean = np.mean(chunk.metrics[name].reshape(lanes, -1), axis=0)
            parts.append(f"{label} {','.join(f'{entry:.3g}' for entry in mean)}")
    frozen = int(np.sum(np.asarray(chunk.lanes.frozen_at) >= 0))
    if frozen:
        parts.append(f"{frozen} lane(s) frozen")
    return "  ".join(parts)


@contextmanager
def stoppable(console: Console, unit: str = "chunk, with a checkpoint") -> Generator[Stop]:
    """Yield a question: was the run asked to stop? Ctrl-C (or SIGTERM) asks; a second Ctrl-C does not wait.

    `unit` is after what it stops.
    """
    asked = False

    def ask(signum: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        console.print(f"Stopping after this {unit}. Ctrl-C again stops at once.")

    old = {kind: signal.signal(kind, ask) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for kind, handler in old.items():
            signal.signal(kind, handler)
