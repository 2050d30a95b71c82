# SPDX-License-Identifier: Apache-2.0
"""Bags: images on which several models, trained alike, score the same instances.

`calipers.stability` evaluates them; they come from arrays or from files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]
Column = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Bag:
    """One image under all models."""

    id: str
    values: F64  # (n_models, n_instances), in [0, 1]
    shape: tuple[int, ...]  # of the map: (n,), (rows, columns) or (slices, rows, columns)
    # (n_instances,) which are positive in the reference; None: not annotated
    instances: Flags | None = None


class Bags(Protocol):
    """A source of bags, read one at a time: a folder of volumes need not fit into memory."""

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models, at least two."""
        ...

    @property
    def ids(self) -> tuple[str, ...]:
        """One name per bag."""
        ...

    @property
    def groups(self) -> Mapping[str, Column]:
        """Columns such as patient or centre, one entry per bag."""
        ...

    @property
    def positive(self) -> Flags | None:
        """(n_bags,) which bags have something to find; None if there are no labels."""
        ...

    @property
    def bag_scores(self) -> F64 | None:
        """(n_models, n_bags) the score of every model for the whole bag; None if not given."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """How the input was interpreted and what was left out, in words."""
        ...

    def __len__(self) -> int:
        """Return the number of bags."""
        ...

    def __getitem__(self, i: int) -> Bag:
        """Return one bag; it may be read from disk now."""
        ...
