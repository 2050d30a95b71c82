# SPDX-License-Identifier: Apache-2.0
"""Ratings of predictions by people, beside the localization criteria of these predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calipers.tables.intake import FileIntake

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Scale = Literal["nominal", "ordinal", "interval"]
SCALES: tuple[Scale, ...] = ("nominal", "ordinal", "interval")


@dataclass(frozen=True, slots=True)
class NameCodes:
    """A column of names as numbers."""

    code: I64  # (n,)
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, slots=True)
class Ratings:
    """One row per rating: the item, the rater, the category, and the criteria of the item."""

    name: str
    code: I64  # (n,) category of each rating
    categories: tuple[str, ...]  # in the order of the scale, if it has one
    values: F64  # (q,) the categories as numbers, else their ranks
    scale: Scale
    useful: Flags | None  # (n,) None if it is unknown which categories count as useful
    criteria: Mapping[str, F64]  # (n,) each
    distances: frozenset[str]  # criteria that are better when small
    item: NameCodes
    rater: NameCodes | None
    image: NameCodes | None
    unit: str  # what is resampled, such as the patient
    units: I64 | None  # (n,) None: every row is a unit
    intake: FileIntake
    understood: tuple[str, ...]  # how the table was read, in words

    def __len__(self) -> int:
        return len(self.code)

    @property
    def repeated(self) -> bool:
        """Whether an item has several ratings, so that raters can be compared."""
        return len(self.item) < len(self)

    def yes_no(self, criterion: str) -> bool:
        """Return whether a criterion takes only the values 0 and 1, and is no distance."""
        if criterion in self.distances:
            return False
        return bool(np.isin(self.criteria[criterion], (0.0, 1.0)).all())
