"""Frozen dataclasses to JSON and back, with type tags: what `config.json` holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from o3srl.errors import RunError


def encode(value: Any) -> Any:
    """Return `value` as JSON types; a dataclass becomes a dictionary whose "type" is its name.

    >>> from o3srl.oracles import BCConfig
    >>> encode(BCConfig(hidden=(32,)))["hidden"]
    [32]
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    return value


def decode(content: Any, types: Mapping[str, type]) -> Any:
    """Return what `encode` wrote, given the dataclasses by name; an unknown type or field is an error."""
    if isinstance(content, list):
        return tuple(decode(item, types) for item in content)
    if not isinstance(content, dict):
        return content
    entries = dict(content)
    name = entries.pop("type", None)
    if name not in types:
        raise RunError(f"The configuration holds a {name!r}, which this version of o3srl does not know.")
    try:
        return types[name](**{key: decode(item, types) for key, item in entries.items()})
    except TypeError as error:
        raise RunError(f"The configuration's {name} does not fit this version of o3srl: {error}.") from None


def replace_at(config: Any, path: str, value: Any) -> Any:
    """Return a copy of nested dataclasses with the field at a dotted path replaced."""
    name, _, rest = path.partition(".")
    inner = replace_at(getattr(config, name), rest, value) if rest else value
    return dataclasses.replace(config, **{name: inner})
