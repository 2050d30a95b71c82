# SPDX-License-Identifier: Apache-2.0
"""Samples: an image or volume with its reference labels and the maps of the models, one shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Sample:
    """One sample in memory. Readers deliver arrays as ``[z, ]y, x`` in C order."""

    name: str
    labels: Array  # 0 = background; what other values mean is for the evaluation to say
    maps: Mapping[str, Array]  # model -> scores, of the shape of the labels
    spacing: tuple[float, ...] | None = None  # mm per voxel along x, y[, z]
    groups: Mapping[str, Any] = field(default_factory=dict)  # patient, centre, any column
    image: Array | None = None  # what the pictures of the report show below the maps

    @property
    def dimensions(self) -> int:
        """2 or 3."""
        return self.labels.ndim

    @property
    def size(self) -> NDArray[np.int64]:
        """Width, height[, depth]."""
        return np.array(self.labels.shape[::-1], np.int64)
