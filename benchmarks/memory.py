"""Memory and speed with a log of the size of DSRL's largest (AntCircle): loading, batches, updates.

    python benchmarks/memory.py --keep /tmp/large.hdf5 --json memory.json

The file is written by one process and used by another, so that the memory of writing is not counted as that of using.
What the program needs by itself (libraries, compiled code, a small log) is measured first and subtracted.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HORIZON = 500
SMALL_ROWS = 100_000
BATCH = 512
DRAWN = 200  # batches per timing
UPDATES = 50  # gradient updates per timing
TURNS = 11
BARS = {"peak_over_arrays": 2.5, "load_seconds": 30.0, "draw_ratio": 1.1, "update_ratio": 1.1}


def main() -> None:
    arguments = parse()
    if arguments.step == "make":
        make(Path(arguments.file), arguments.rows, arguments.obs, arguments.actions)
    elif arguments.step == "use":
        print(json.dumps(use(arguments.file, arguments.small)))
    else:
        compare(arguments)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_900_000)
    parser.add_argument("--obs", type=int, default=34)
    parser.add_argument("--actions", type=int, default=8)
    parser.add_argument("--keep", help="keep the large file here, and use it if it is there already")
    parser.add_argument("--json", help="write the report to this file")
    for name in ("--step", "--file", "--small"):  # how this program calls itself
        parser.add_argument(name, help=argparse.SUPPRESS)
    return parser.parse_args()


def compare(arguments: argparse.Namespace) -> None:
    """Make both files, use them in a fresh process, and report."""
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.hdf5"
        large = Path(arguments.keep) if arguments.keep else Path(folder) / "large.hdf5"
        shape = [f"--obs={arguments.obs}", f"--actions={arguments.actions}"]
        again("--step=make", f"--file={small}", f"--rows={min(SMALL_ROWS, arguments.rows)}", *shape)
        if not large.exists():
            print(f"writing {large.name} with {arguments.rows:,} rows ...", flush=True)
            again("--step=make", f"--file={large}", f"--rows={arguments.rows}", *shape)
        print("loading it and training from it ...", flush=True)
        report = json.loads(again("--step=use", f"--file={large}", f"--small={small}"))
    print(table(report), flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(report, indent=2) + "\n")


def again(*arguments: str) -> str:
    """Run this program in a fresh process and return what it prints.

    A child's peak of memory begins with its parent's, so this process must stay small: it imports no JAX.
    """
    done = subprocess.run([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


# Writing


def make(file: Path, rows: int, obs: int, actions: int) -> None:
    """Write `rows` steps the way DSRL does: one gzip dataset per column in h5py's own chunks, flags as booleans."""
    import h5py

    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f"{file.stem}.unfinished{file.suffix}")
    generator = np.random.default_rng(0)
    row = np.arange(rows)
    last = (row % HORIZON == HORIZON - 1) | (row == rows - 1)
    with h5py.File(unfinished, "w") as root:

        def write(name: str, column: np.ndarray) -> None:
            root.create_dataset(name, data=column, compression="gzip")

        states = generator.standard_normal((rows + 1, obs), np.float32)
        write("observations", states[:-1])
        write("next_observations", np.where(last[:, None], generator.standard_normal(obs, np.float32), states[1:]))
        del states
        write("actions", generator.uniform(-1, 1, (rows, actions)).astype(np.float32))
        write("rewards", generator.uniform(size=rows).astype(np.float32))
        write("costs", (generator.uniform(size=rows) < 0.1).astype(np.float32))
        write("terminals", np.zeros(rows, bool))
        write("timeouts", last)
    unfinished.rename(file)  # so that an interrupted run leaves no half of a file to be used next time


# Using


def use(large: str, small: str) -> dict[str, Any]:
    """Load, check and train from both files, and return what that took."""
    import h5py
    import jax

    from o3srl import data as logs
    from o3srl.train import place

    def load(file: str) -> Any:
        return place(logs.load(file, horizon=HORIZON))

    draw = drawing(jax)
    few = load(small)
    advance_few = training(jax, few)
    timed(lambda: draw(few), advance_few)
    before = resident()
    peak_before = peak()
    began = time.perf_counter()
    many = load(large)
    loaded = time.perf_counter() - began
    peak_loaded = peak()
    advance_many = training(jax, many)
    draws = take_turns(lambda: draw(few), lambda: draw(many))
    updates = take_turns(advance_few, advance_many)
    with h5py.File(large) as root:
        arrays = sum(column.size * column.dtype.itemsize for column in root.values())
        rows, obs = root["observations"].shape
    return {
        "rows": rows,
        "obs": obs,
        "actions": many.info.action_dim,
        "file_bytes": Path(large).stat().st_size,
        "arrays_bytes": arrays,
        "table_bytes": many.table.size * many.table.dtype.itemsize,
        "program_bytes": before,
        "program_peak_bytes": peak_before,
        "peak_raw_bytes": peak(),
        "peak_bytes": peak() - before,
        "peak_over_arrays": round((peak() - before) / arrays, 3),
        "peak_raw_over_arrays": round(peak() / arrays, 3),
        "peak_of_load_over_arrays": round((peak_loaded - before) / arrays, 3),
        "load_seconds": round(loaded, 2),
        **ratio("draw", draws, DRAWN),
        **ratio("update", updates, UPDATES),
        "device": jax.devices()[0].device_kind,
    }


def drawing(jax: Any) -> Callable[[Any], None]:
    """Return what draws DRAWN batches the way a round does, and waits for them."""
    from o3srl import data as logs

    @jax.jit
    def batches(key: Any, data: Any) -> Any:
        def several(_: None, key: Any) -> Any:
            drawn = logs.draw(key, data, (10, BATCH))
            return None, jax.tree.map(lambda column: column.sum(), drawn)  # all of it has to be read

        return jax.lax.scan(several, None, jax.random.split(key, DRAWN // 10))

    key = jax.random.PRNGKey(0)

    def draw(data: Any) -> None:
        nonlocal key
        key, key_draw = jax.random.split(key)
        jax.block_until_ready(batches(key_draw, data))

    return draw


def training(jax: Any, data: Any) -> Callable[[], None]:
    """Return what makes UPDATES gradient updates with the library's engine and waits for them, compiled by then."""
    from o3srl import TD3BCConfig, adaptive, exp3, o3srl, td3_bc
    from o3srl.train import make_engine, make_plan

    dual = exp3(adaptive(5.0, 5, 5.0))
    game = o3srl(td3_bc(TD3BCConfig(hidden=(256, 256))), dual, limit=5.0, batch_size=BATCH)
    engine = make_engine(lambda settings: game, (), game.prepare(data))
    stretch = make_plan(game.phases, UPDATES, UPDATES)[0]
    lanes = engine.start(jax.random.PRNGKey(0)[None])

    def advance() -> None:
        nonlocal lanes
        lanes, _ = engine.advance(lanes, stretch, 0)

    advance()
    return advance


def take_turns(small: Callable[[], None], large: Callable[[], None]) -> list[list[float]]:
    """Return [small, large] seconds of TURNS turns; who begins alternates, so that neither always follows the other."""
    return [timed(small, large) if turn % 2 else timed(large, small)[::-1] for turn in range(TURNS)]


def timed(*works: Callable[[], None]) -> list[float]:
    """Return the seconds that each took, one after another."""
    seconds = []
    for work in works:
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return seconds


def ratio(name: str, turns: list[list[float]], count: int) -> dict[str, float]:
    """Return medians over turns but the first: microseconds from the small and the large file, and of their ratios."""
    kept = turns[1:]
    small, large = (statistics.median(turn[side] for turn in kept) / count * 1e6 for side in (0, 1))
    return {
        f"{name}_small_us": round(small, 1),
        f"{name}_large_us": round(large, 1),
        f"{name}_ratio": round(statistics.median(turn[1] / turn[0] for turn in kept), 3),
    }


def peak() -> int:
    """Return the most bytes that were ever resident; Linux counts in KiB, macOS in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def resident() -> int:
    """Return the bytes that are resident now, where the system says so, else the most that ever were."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * resource.getpagesize() if statm.exists() else peak()


# Saying


def table(report: dict[str, Any]) -> str:
    def row(name: str, value: str, bar: str = "") -> str:
        return f"{name:<42}{value:>14}  {bar}"

    def judged(key: str) -> str:
        return f"bar {BARS[key]:g}: {'met' if report[key] <= BARS[key] else 'MISSED'}"

    def mebi(key: str) -> str:
        return f"{report[key] / 2**20:,.0f} MiB"

    return "\n".join(
        [
            row("rows", f"{report['rows']:,}"),
            row("file", mebi("file_bytes")),
            row("arrays in it", mebi("arrays_bytes")),
            row("program without it", mebi("program_bytes")),
            row("peak, raw", mebi("peak_raw_bytes")),
            row("peak without the program", mebi("peak_bytes")),
            row("peak without the program / arrays", f"{report['peak_over_arrays']:.2f}", judged("peak_over_arrays")),
            row("loading and checking", f"{report['load_seconds']:.1f} s", judged("load_seconds")),
            row("a batch from the small file", f"{report['draw_small_us']:,.1f} us"),
            row("a batch from this file", f"{report['draw_large_us']:,.1f} us"),
            row("their ratio", f"{report['draw_ratio']:.3f}", judged("draw_ratio")),
            row("an update from the small file", f"{report['update_small_us']:,.0f} us"),
            row("an update from this file", f"{report['update_large_us']:,.0f} us"),
            row("their ratio", f"{report['update_ratio']:.3f}", judged("update_ratio")),
        ]
    )


if __name__ == "__main__":
    main()
