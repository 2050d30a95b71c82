# SPDX-License-Identifier: Apache-2.0
"""The types of arrays, declared once. Shapes and units are said where an array is used."""

from __future__ import annotations

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
