"""Updates per second of O3SRL over TD3+BC: the library's own engine against plain eager PyTorch, on this machine.

    python benchmarks/throughput.py --lanes 1 3 24 64 --batch 512 1024 --json throughput.json

Everything that is compared, matrix products too, runs in one process and takes turns (A B A B ...), and medians over
turns are reported, so that whatever else the machine does meets all alike. Compilation is outside of the times, in a
column of its own. Rows are printed, and written to the JSON file, as they are known.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # PyTorch needs some of the accelerator's memory too

import jax
import jax.numpy as jnp
import numpy as np

from o3srl.data import from_arrays
from o3srl.duals import adaptive, exp3
from o3srl.game import o3srl
from o3srl.oracles import TD3BCConfig, td3_bc
from o3srl.train import CHUNK_UPDATES, make_engine, make_plan, place
from o3srl.types import Data

OBS, ACTIONS, ROWS, HORIZON = 7, 2, 100_000, 200
HIDDEN = 256
LIMIT = 5.0
UPDATES_PER_ROUND = 10
POLICY_DELAY = 2
CPU_CHUNK_UPDATES = 100  # a chunk of 1000 would last longer than a turn there; its overhead is below a thousandth
TURNS = 5
HEADER = f"{'implementation':<16}{'lanes':>6}{'batch':>7}  {'precision':<10}{'updates/s':>11}{'compile s':>11}"


class Contestant(NamedTuple):
    """Something to be timed: `block` does `work` and waits for it: updates summed over lanes, or GFLOP of a product."""

    row: dict[str, Any]
    block: Callable[[], None]
    work: float


def main() -> None:
    arguments = parse()
    on_cpu = jax.default_backend() == "cpu"
    chunk = arguments.updates_per_chunk or (CPU_CHUNK_UPDATES if on_cpu else CHUNK_UPDATES)
    device = jax.devices()[0].device_kind if not on_cpu else f"{platform.machine()}, {os.cpu_count()} CPU cores"
    print(f"{device}; {versions()}", flush=True)
    if load := busy():
        print(f"The machine is busy (load {load:.1f} before the start): these figures say little.", flush=True)
    torch = import_torch(on_cpu)
    arrays = log()
    data = place(from_arrays(arrays, source="synthetic log", horizon=HORIZON))
    print(HEADER, flush=True)
    report: dict[str, Any] = {"device": device, "load_before": load, "versions": versions(), "rows": []}
    for batch in arguments.batch:
        reference = [*theirs(torch, arrays, batch), *products(torch)]
        for row in measured(contestants(data, batch, arguments, chunk), reference, arguments.seconds):
            add(report, row, arguments.json)
            if row["implementation"] != "product":
                print(line(row), flush=True)
    print(summary(report), flush=True)


def add(report: dict[str, Any], row: dict[str, Any], path: str | None) -> None:
    """Put a row into the report, and write what is known so far, so that a stopped run loses nothing."""
    kept = report.setdefault("products", []) if row["implementation"] == "product" else report["rows"]
    kept.append(row)
    report.update(shares(report["rows"], report.get("products", [])))
    report["flops_per_update"] = {str(row["batch"]): flops_per_update(row["batch"]) for row in report["rows"]}
    if path:
        Path(path).write_text(json.dumps(report, indent=2) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lanes", type=int, nargs="+", default=[1, 3, 24, 64])
    parser.add_argument("--batch", type=int, nargs="+", default=[512, 1024])
    parser.add_argument("--precision", nargs="+", default=["float32"], choices=["float32", "bfloat16"])
    parser.add_argument("--updates-per-chunk", type=int, help="default: the library's, or fewer on a CPU")
    parser.add_argument("--seconds", type=float, default=5.0, help="about how long each row is timed")
    parser.add_argument("--json", help="write the report to this file")
    return parser.parse_args()


def import_torch(on_cpu: bool) -> Any:
    """Return PyTorch where it can stand for the same device as JAX's, or None, saying why."""
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed: its rows are left out.", flush=True)
        return None
    import torch

    if not on_cpu and not torch.cuda.is_available():
        print("PyTorch does not see the accelerator: its rows are left out.", flush=True)
        return None
    return torch


def log() -> dict[str, np.ndarray]:
    """Return ROWS logged steps as DSRL's columns: a damped random walk in episodes of HORIZON; a step in ten costs."""
    generator = np.random.default_rng(0)
    episodes = ROWS // HORIZON
    walk = np.empty((episodes, HORIZON + 1, OBS), np.float32)
    walk[:, 0] = generator.normal(size=(episodes, OBS))
    for step in range(HORIZON):
        walk[:, step + 1] = 0.95 * walk[:, step] + 0.3 * generator.normal(size=(episodes, OBS))
    count = episodes * HORIZON
    return {
        "observations": walk[:, :-1].reshape(count, OBS),
        "next_observations": walk[:, 1:].reshape(count, OBS),
        "actions": generator.uniform(-1, 1, (count, ACTIONS)).astype(np.float32),
        "rewards": generator.uniform(0, 1, count).astype(np.float32),
        "costs": (generator.uniform(size=count) < 0.1).astype(np.float32),
        "terminals": np.zeros(count, bool),
        "timeouts": np.tile(np.arange(HORIZON) == HORIZON - 1, episodes),
    }


# What is timed


def contestants(data: Data, batch: int, arguments: argparse.Namespace, chunk: int) -> Iterator[Contestant]:
    """Yield warmed-up games of one batch size."""
    for precision in arguments.precision:
        for lanes in arguments.lanes:
            yield ours(data, lanes, batch, precision, chunk)


def ours(data: Data, lanes: int, batch: int, precision: Literal["float32", "bfloat16"], chunk: int) -> Contestant:
    """Return lanes of the game in the engine that a user's run takes."""
    oracle = td3_bc(TD3BCConfig(hidden=(HIDDEN, HIDDEN), policy_delay=POLICY_DELAY, precision=precision))
    dual = exp3(adaptive(5.0, 5, LIMIT))
    game = o3srl(oracle, dual, limit=LIMIT, updates_per_round=UPDATES_PER_ROUND, batch_size=batch)
    engine = make_engine(lambda settings: game, (), game.prepare(data))
    stretch = make_plan(game.phases, chunk, chunk)[0]
    state = engine.start(jax.random.split(jax.random.PRNGKey(0), lanes))

    def block() -> None:
        nonlocal state
        state, _ = engine.advance(state, stretch, 0)  # it hands metrics to the host, and so waits for the chunk

    first, second = timed(block), timed(block)
    row = {"implementation": "o3srl", "lanes": lanes, "batch": batch, "precision": precision}
    return Contestant({**row, "compile_seconds": round(max(0.0, first - second), 2)}, block, lanes * stretch.updates)


def theirs(torch: Any, arrays: dict[str, np.ndarray], batch: int) -> Iterator[Contestant]:
    """Yield the PyTorch reference, if there is one, on the same device, with the same TF32 as JAX's default on a GPU.

    It runs seeds one after another, so it has one row.
    """
    if torch is None:
        return
    import pytorch_td3_bc as reference

    device = torch.device("cpu" if jax.default_backend() == "cpu" else "cuda")
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    settings = reference.Settings(batch_size=batch, hidden=HIDDEN, updates_per_round=UPDATES_PER_ROUND, limit=LIMIT)
    data = reference.to_device(arrays, device)
    learner = reference.make_learner(OBS, ACTIONS, settings, device)
    generator = np.random.default_rng(0)
    updates = 2 * UPDATES_PER_ROUND

    def block() -> None:
        reference.train(learner, data, updates, settings, generator)
        if device.type == "cuda":
            torch.cuda.synchronize()

    block()
    row = {"implementation": "pytorch", "lanes": 1, "batch": batch, "precision": "float32", "compile_seconds": 0.0}
    yield Contestant(row, block, updates)


def measured(games: Iterable[Contestant], reference: list[Contestant], seconds: float) -> Iterator[dict[str, Any]]:
    """Yield each game's row with its median rate over TURNS turns of about seconds / TURNS, then the reference's.

    All of the reference takes part in every turn of every game.
    """
    references: list[list[float]] = [[] for _ in reference]
    for game in games:
        rates: list[float] = []
        for _ in range(TURNS):
            rates.append(turn(game, seconds / TURNS))
            for contestant, seen in zip(reference, references, strict=True):
                seen.append(turn(contestant, seconds / TURNS / 2))
        yield rated(game, rates)
    for contestant, seen in zip(reference, references, strict=True):
        yield rated(contestant, seen)


def rated(contestant: Contestant, rates: list[float]) -> dict[str, Any]:
    """Return the contestant's row with the median and the extremes of its turns."""
    spread = {"slowest": round(min(rates), 1), "fastest": round(max(rates), 1)}
    return {**contestant.row, "updates_per_second": round(statistics.median(rates), 1), **spread}


def turn(contestant: Contestant, seconds: float) -> float:
    """Return work per second over as many blocks as begin within `seconds`, at least one."""
    began, blocks = time.perf_counter(), 0
    while not blocks or time.perf_counter() - began < seconds:
        contestant.block()
        blocks += 1
    return blocks * contestant.work / (time.perf_counter() - began)


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


# What is counted


def flops_per_update(batch: int) -> float:
    """Return the floating-point operations of one update on average: about 1.59 MFLOP per sample.

    Counted are multiplications and additions of matrix products, the least that the equations need (2 i o per sample
    for a layer from i to o); biases, activations, Adam, and targets are below one per cent of that and left out.

    - Every update: target actor forward; two target critics forward; two critics forward and backward. A backward pass
      is as much again for the weights' gradients, and for the inputs' except into the first layer, whose input is data.
    - Every POLICY_DELAY-th: actor forward and backward, as above; through one critic forward, and back to the action:
      the inputs' gradients alone, and of the first layer only the action's columns.
    - Every round: the feedback, actor and two critics forward.
    """

    def forward(inputs: int, outputs: int) -> int:
        return 2 * (inputs * HIDDEN + HIDDEN * HIDDEN + HIDDEN * outputs)

    actor, critic = forward(OBS, ACTIONS), forward(OBS + ACTIONS, 1)
    into_critic, into_actor = 2 * (OBS + ACTIONS) * HIDDEN, 2 * OBS * HIDDEN
    every = actor + 2 * critic + 2 * (3 * critic - into_critic)
    delayed = (3 * actor - into_actor) + critic + (critic - into_actor)
    per_round = actor + 2 * critic
    return batch * (every + delayed / POLICY_DELAY + per_round / UPDATES_PER_ROUND)


def products(torch: Any) -> Iterator[Contestant]:
    """Yield large matrix products of JAX and PyTorch, in GFLOP.

    `float32` is true single precision. On a GPU float32 arrays are multiplied in TF32 by JAX's default (10 bits of
    mantissa), which is another, faster, unit: `tf32` is measured apart.
    """
    on_cpu = jax.default_backend() == "cpu"
    size = 2048 if on_cpu else 4096
    for name, jax_name, torch_name in (("float32", "highest", "highest"), ("tf32", "default", "high")):
        if name == "tf32" and on_cpu:
            continue
        blocks = [jax_product(size, jax_name)]
        if torch is not None:
            blocks.append(torch_product(torch, size, torch_name))
        for block in blocks:
            block()
            yield Contestant({"implementation": "product", "precision": name}, block, 4 * 2 * size**3 / 1e9)


def jax_product(size: int, precision: str) -> Callable[[], None]:
    """Return what makes four products and waits for them."""
    multiply = jax.jit(lambda a, b: jnp.matmul(a, b, precision=precision))
    a, b = jax.random.normal(jax.random.PRNGKey(0), (2, size, size))

    def block() -> None:
        jax.block_until_ready([multiply(a, b) for _ in range(4)])

    return block


def torch_product(torch: Any, size: int, precision: str) -> Callable[[], None]:
    """Return what makes four products and waits for them, with the precision set for that long alone."""
    on_cpu = jax.default_backend() == "cpu"
    a, b = torch.randn(2, size, size, device="cpu" if on_cpu else "cuda")

    def block() -> None:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(precision)
        for _ in range(4):
            a @ b
        if not on_cpu:
            torch.cuda.synchronize()
        torch.set_float32_matmul_precision(before)

    return block


def shares(rows: list[dict[str, Any]], multiplied: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the rates of matrix products, and the game's share of them with one lane, batch 512 and float32."""
    rates = {
        name: max((row["updates_per_second"] for row in multiplied if row["precision"] == name), default=None)
        for name in ("float32", "tf32")
    }
    wanted = {"implementation": "o3srl", "lanes": 1, "batch": 512, "precision": "float32"}
    found = [row["updates_per_second"] for row in rows if wanted.items() <= row.items()]

    def share(name: str) -> float | None:
        return round(found[0] * flops_per_update(512) / 1e9 / rates[name], 3) if found and rates[name] else None

    return {
        "share_of_sgemm": share("float32"),
        "share_of_tf32": share("tf32"),
        "sgemm_gflops": rates["float32"],
        "tf32_gflops": rates["tf32"],
    }


# What is said


def busy() -> float | None:
    """Return the load average of the last minute if other programs would disturb the times, else None."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return round(load, 2) if load > 0.25 * (os.cpu_count() or 1) else None


def versions() -> dict[str, str]:
    names = ("jax", "jaxlib", "equinox", "optax", "numpy", "torch")
    return {"python": platform.python_version(), **dict(installed(names))}


def installed(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        if importlib.util.find_spec(name) is not None:
            yield name, importlib.metadata.version(name)


def line(row: dict[str, Any]) -> str:
    return (
        f"{row['implementation']:<16}{row['lanes']:>6}{row['batch']:>7}  {row['precision']:<10}"
        f"{row['updates_per_second']:>11,.0f}{row['compile_seconds']:>11.1f}"
    )


def summary(report: dict[str, Any]) -> str:
    said = [f"A large float32 matrix product: {report['sgemm_gflops']:,.0f} GFLOP/s."]
    if report["tf32_gflops"]:
        said.append(f"In TF32, which the float32 rows use on this device: {report['tf32_gflops']:,.0f} GFLOP/s.")
    if report["share_of_sgemm"]:
        said.append(f"One lane at batch 512 in float32 runs at {report['share_of_sgemm']:.0%} of the former.")
    for row in report["rows"]:
        if row["implementation"] == "pytorch":
            same = {"implementation": "o3srl", "lanes": 1, "batch": row["batch"], "precision": "float32"}
            for our in (r for r in report["rows"] if same.items() <= r.items()):
                times = our["updates_per_second"] / row["updates_per_second"]
                said.append(f"One lane at batch {row['batch']} is {times:.2f} times as fast as eager PyTorch.")
    return "\n".join(said)


if __name__ == "__main__":
    main()
