# SPDX-License-Identifier: Apache-2.0
"""The compiled twin of the kernel for error types, with the signature of its NumPy kernel. Nothing
here computes.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels.route import threads

Array = NDArray[Any]


def error_types(
    native: ModuleType, pairs: Any, objects: Any, background: float, foreground: float
) -> tuple[Array, ...]:
    """Twin of `error_types.error_types`."""
    n_references, n = len(objects.ignored), len(objects.absent)
    reference, prediction = np.empty(n_references, np.int8), np.empty(n, np.int8)
    covered, mended = np.empty(n, np.bool_), np.empty(n, np.bool_)
    partner, similarity = np.empty(n, np.int32), np.empty(n)
    native.error_types(
        _of(pairs.reference, np.int32),
        _of(pairs.prediction, np.int32),
        _of(pairs.similarity, np.float64),
        _of(objects.reference_offsets, np.int64),
        _of(objects.prediction_offsets, np.int64),
        _of(objects.reference_label, np.int32),
        _of(objects.prediction_label, np.int32),
        _of(objects.rank, np.int32),
        _of(objects.absent, np.bool_),
        _of(objects.ignored, np.bool_),
        np.array([background, foreground]),
        reference,
        prediction,
        covered,
        mended,
        partner,
        similarity,
        threads(),
    )
    return reference, prediction, covered, mended, partner, similarity


def _of(array: Array, kind: Any) -> Array:
    return np.ascontiguousarray(array, kind)
