"""What one sees while a run trains: a bar in a terminal, a line now and then elsewhere; and a polite Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from o3srl.experiment.run import Reporter, Run, Stop
from o3srl.train import Chunk

PLAIN_LINES = 10  # how many lines a run prints where there is no terminal


@contextmanager
def reporting(console: Console) -> Generator[Reporter]:
    """Yield the reporter of one run's chunks: a bar and a line of facts below it, or plain lines without a terminal."""
    bar = Progress(
        TextColumn("training"), BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn("updates,"),
        TimeRemainingColumn(compact=True), TextColumn("left"), console=console,
    )  # fmt: skip
    job = bar.add_task("training", total=None)
    below = Text("compiling ...")
    told = -1

    def report(run: Run, chunk: Chunk) -> None:
        nonlocal told
        total = run.updates
        line = facts(chunk, len(run.plan.lanes))
        bar.update(job, completed=chunk.updates, total=total)
        below.plain = line
        if not console.is_terminal and chunk.updates * PLAIN_LINES // total > told:
            told = chunk.updates * PLAIN_LINES // total
            console.print(f"{chunk.updates:>9,} of {total:,} updates   {line}", highlight=False, soft_wrap=True)

    if not console.is_terminal:
        yield report
        return
    with Live(Group(bar, below), console=console, refresh_per_second=4):
        yield report


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
def stoppable(console: Console) -> Generator[Stop]:
    """Yield a question: was the run asked to stop? Ctrl-C (or SIGTERM) asks; a second Ctrl-C does not wait."""
    asked = False

    def ask(signum: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        console.print("Stopping after this chunk, with a checkpoint. Ctrl-C again stops at once.")

    old = {kind: signal.signal(kind, ask) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for kind, handler in old.items():
            signal.signal(kind, handler)
