"""Is a lane the same alone and beside others? Bit for bit on a CPU; to rounding, for a while, on an accelerator.

    python benchmarks/determinism.py [--updates 100 20000] [--lanes 8] [--json FILE]

One lane of the game (EXP3, M = 10, TD3+BC) is trained alone and as the first of several, from the same key. Printed are
the relative difference |alone - among| / |alone| of the state's arrays, and, because rounding differences grow by
themselves, how far the policies' values end apart, against the spread between seeds.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from throughput import log

from o3srl.data import from_arrays
from o3srl.duals import adaptive, exp3
from o3srl.game import o3srl
from o3srl.oracles import TD3BCConfig, td3_bc
from o3srl.train import Chunk, make_engine, make_plan, place, run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, nargs="+", default=[100, 20_000])
    parser.add_argument("--lanes", type=int, default=8)
    parser.add_argument("--hidden", type=int, nargs="+", default=[256, 256])
    parser.add_argument("--json", help="write the figures to this file")
    arguments = parser.parse_args()
    rows = [compare(updates, arguments.lanes, tuple(arguments.hidden)) for updates in arguments.updates]
    for row in rows:
        print(
            f"{row['updates']:>7,} updates: "
            f"largest relative difference of layers {row['layers']['difference']:.2e} ({row['layers']['where']}), "
            f"of all layers together {row['layers_together']:.2e}, "
            f"of optimizer moments {row['moments']['difference']:.2e} ({row['moments']['where']}); "
            f"value alone {row['value_alone']:.4f}, among {row['value_among']:.4f}, "
            f"other seeds {row['value_mean']:.4f} +- {row['value_std']:.4f}",
            flush=True,
        )
    if arguments.json:
        Path(arguments.json).write_text(
            json.dumps({"device": jax.devices()[0].device_kind, "rows": rows}, indent=2) + "\n"
        )


def compare(updates: int, lanes: int, hidden: tuple[int, ...]) -> dict[str, Any]:
    """Return how far a lane alone is from the same lane among others after so many updates."""
    keys = jnp.stack([jax.random.PRNGKey(seed) for seed in range(lanes)])
    among, alone = trained(keys, updates, hidden), trained(keys[:1], updates, hidden)
    found = differences(alone.lanes.state.primal, among.lanes.state.primal)
    layers = [(name, one, other) for name, one, other in found if "optimizer" not in name]
    moments = [(name, one, other) for name, one, other in found if "optimizer" in name]
    values = np.asarray(among.metrics["game/lagrangian"])
    return {
        "updates": updates,
        "lanes": lanes,
        "layers": largest(layers),
        "layers_together": relative(*(np.concatenate(arrays) for arrays in list(zip(*layers, strict=True))[1:])),
        "moments": largest(moments),
        "value_alone": float(alone.metrics["game/lagrangian"][0]),
        "value_among": float(values[0]),
        "value_mean": float(values[1:].mean()),
        "value_std": float(values[1:].std()),
    }


def largest(found: list[tuple[str, np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """Return where the largest relative difference is, and how large."""
    difference, where = max((relative(one, other), where) for where, one, other in found)
    return {"where": where, "difference": difference}


def relative(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.linalg.norm(one - other) / np.linalg.norm(one))


def trained(keys: jax.Array, updates: int, hidden: tuple[int, ...]) -> Chunk:
    """Return the last chunk of a run of the game from these keys."""
    game = o3srl(td3_bc(TD3BCConfig(hidden=hidden, precision="float32")), exp3(adaptive(5.0, 5, 5.0)), limit=5.0)
    data = place(game.prepare(from_arrays(log(), source="synthetic log")))
    engine = make_engine(lambda settings: game, (), data)
    return list(run(engine, make_plan(game.phases, updates, min(updates, 1000)), engine.start(keys)))[-1]


def differences(alone: Any, among: Any) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Return (path, lane alone, lane among others), flat, of each array that is not all zeros."""
    pairs = zip(jax.tree_util.tree_flatten_with_path(alone)[0], jax.tree.leaves(among), strict=True)
    found: list[tuple[str, np.ndarray, np.ndarray]] = []
    for (path, left), right in pairs:
        one, other = (np.asarray(array[0], np.float64).ravel() for array in (left, right))
        if np.any(one):
            found.append((jax.tree_util.keystr(path, simple=True, separator="/"), one, other))
    return found


if __name__ == "__main__":
    main()
