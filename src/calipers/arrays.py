# SPDX-License-Identifier: Apache-2.0
"""The types of arrays, declared once, and how columns of several parts become one.

Shapes and units are said where an array is used. Evidence and tables of objects are collected in
blocks of images; their ``concat`` puts the columns of the blocks one below the other with `joined`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]  # coordinates, scores, similarities, estimates
F32 = NDArray[np.float32]  # maps as they are stored
I64 = NDArray[np.int64]  # offsets, rows, weights
I32 = NDArray[np.int32]  # class codes, ranks
I8 = NDArray[np.int8]  # fates
U8 = NDArray[np.uint8]  # pixels, bits
U64 = NDArray[np.uint64]  # hashes, packed bits
Flags = NDArray[np.bool_]
Array = NDArray[Any]  # any number type; the function says which
Column = NDArray[Any]  # one entry per row: text codes or numbers


def joined(parts: Sequence[object], name: str, axis: int = 0) -> Any:
    """Return the arrays ``name`` of all parts, one below the other."""
    return np.concatenate([getattr(part, name) for part in parts], axis=axis)


def joined_columns(parts: Sequence[object], names: Iterable[str]) -> dict[str, Any]:
    """Return name -> the arrays of that name of all parts, as keywords of a constructor."""
    return {name: joined(parts, name) for name in names}
