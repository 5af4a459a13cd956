"""Checkpoints: a pytree of arrays as one safetensors file, written whole, read back only into its own shape."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from o3srl.errors import RunError
from o3srl.files import write_whole

FORMAT = "o3srl-checkpoint-1"


def save(path: Path, tree: Any, facts: Mapping[str, Any]) -> None:
    """Write the arrays of `tree`, named by their path in it, and `facts` (JSON) as the file's metadata."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    # One entry of metadata, because several would come in any order, and equal states should be equal files.
    arrays = {_name(keys): np.asarray(jax.device_get(leaf), order="C") for keys, leaf in leaves}
    write_whole(path, to_bytes(arrays, metadata={FORMAT: json.dumps(dict(facts))}))


def restore(path: Path, template: Any) -> tuple[Any, dict[str, Any]]:
    """Return (tree, facts) from a file that `save` wrote from a tree of `template`'s structure, shapes and types."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    try:
        with safe_open(path, framework="numpy") as file:
            metadata: dict[str, str] = file.metadata() or {}
            if FORMAT not in metadata:
                raise RunError(
                    f"{path} is not a checkpoint of o3srl: it does not say {FORMAT!r}. Was it put there by hand?"
                )
            # The file itself cannot be iterated over.
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise RunError(f"There is no checkpoint at {path}.") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise RunError(
            f"The checkpoint {path} cannot be read ({error}); it is truncated or damaged. "
            "Checkpoints are written whole, so something else changed the file. Restore it from a copy, or start over."
        ) from None
    return jax.tree.unflatten(structure, _match(path, leaves, arrays)), json.loads(metadata[FORMAT])


def _match(path: Path, leaves: list[tuple[Any, Any]], arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    names = [_name(keys) for keys, _ in leaves]
    if set(names) != set(arrays):
        odd = sorted(set(names) ^ set(arrays))
        raise RunError(
            f"The checkpoint {path} belongs to another configuration or version: {len(odd)} entries differ, among "
            f"them {odd[0]}. Resume with the version and configuration that wrote it."
        )
    for name, (_, leaf) in zip(names, leaves, strict=True):
        found = arrays[name]
        if found.shape != leaf.shape or found.dtype != leaf.dtype:
            raise RunError(
                f"The checkpoint {path} belongs to another configuration: {name} is {found.dtype}{list(found.shape)}, "
                f"but {leaf.dtype}{list(leaf.shape)} is expected."
            )
    return [arrays[name] for name in names]


def _name(keys: Any) -> str:
    return jax.tree_util.keystr(keys, simple=True, separator="/") or "value"
