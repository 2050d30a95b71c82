# SPDX-License-Identifier: Apache-2.0
"""Results as bytes and back: trees of dataclasses, tuples, mappings, arrays and plain values.

`store` writes what comes out to disk, and reads it again, also on other machines. Arrays become
members of an npz archive; everything else is one JSON text beside them. Nothing is pickled: a file
can make objects of the dataclasses and named tuples of this package, and nothing else.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np

PACKAGE = __name__.partition(".")[0]
TREE = "tree"  # the member of the archive that holds the JSON text


def encoded(value: Any) -> bytes:
    """Return a value as bytes.

    Raises
    ------
    TypeError
        For a value that is none of the kinds above.
    """
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    tree = json.dumps(_packed(value, arrays), separators=(",", ":"))
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **{TREE: np.array(tree)}, **arrays)
    return buffer.getvalue()


def decoded(data: bytes) -> Any:
    """Return the value that `encoded` was given.

    Raises
    ------
    ValueError
        If the bytes are something else.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        tree = json.loads(str(arrays.pop(TREE)))
        return _unpacked(tree, arrays)
    except Exception as error:  # a damaged archive fails in many ways
        raise ValueError(f"no result of {PACKAGE}: {error}") from None


def _packed(value: Any, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    """Return a JSON value; arrays go into ``arrays`` and leave their name.

    Lists and objects are always marked with their kind, so that no content can look like a mark.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        name = f"a{len(arrays)}"
        arrays[name] = np.asarray(value)
        # Scalars of NumPy come back as such: sums of them have other types than those of Python.
        return ["array" if isinstance(value, np.ndarray) else "scalar", name]
    if isinstance(value, Mapping):
        pairs = [[_packed(key, arrays), _packed(entry, arrays)] for key, entry in value.items()]
        return ["mapping", pairs]
    if is_dataclass(value) and not isinstance(value, type):
        entries = {}
        for field in fields(value):
            if field.init:
                entries[field.name] = _packed(getattr(value, field.name), arrays)
        return ["object", _class_name(type(value)), entries]
    if isinstance(value, tuple | list):
        entries_of = [_packed(entry, arrays) for entry in value]
        if hasattr(value, "_fields"):
            return ["named", _class_name(type(value)), entries_of]
        return ["tuple" if isinstance(value, tuple) else "list", entries_of]
    raise TypeError(f"a {type(value).__name__} cannot be stored")


def _unpacked(tree: Any, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Any:
    if not isinstance(tree, list):
        return tree
    kind, *rest = tree
    if kind == "array":
        return arrays[rest[0]]
    if kind == "scalar":
        return arrays[rest[0]][()]
    if kind == "mapping":
        return {_unpacked(key, arrays): _unpacked(entry, arrays) for key, entry in rest[0]}
    if kind in ("tuple", "list"):
        entries = [_unpacked(entry, arrays) for entry in rest[0]]
        return tuple(entries) if kind == "tuple" else entries
    kind_of = _class(rest[0])
    if kind == "named":
        return kind_of(*[_unpacked(entry, arrays) for entry in rest[1]])
    if kind == "object":
        return kind_of(**{name: _unpacked(entry, arrays) for name, entry in rest[1].items()})
    raise ValueError(f"unknown kind {kind!r}")


def _class_name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _class(name: str) -> Any:
    """Return a dataclass or named tuple of this package by its name."""
    module, _, attribute = name.partition(":")
    if module.partition(".")[0] != PACKAGE:
        raise ValueError(f"{name} is not of {PACKAGE}")
    kind = getattr(import_module(module), attribute)
    is_named_tuple = isinstance(kind, type) and hasattr(kind, "_fields")
    if not (is_named_tuple or (isinstance(kind, type) and is_dataclass(kind))):
        raise ValueError(f"{name} is not a dataclass")
    return kind
