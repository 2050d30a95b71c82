# SPDX-License-Identifier: Apache-2.0
"""Broken segmentations, collected until it is known which of them matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.tables.delivery import Finding

I64 = NDArray[np.int64]

MOST_PIXELS = 250_000_000  # of one image
IGNORE = "pass --masks ignore to evaluate the boxes only"


@dataclass
class Faults:
    """Broken rules by row, until it is known which of them matter."""

    entries: dict[tuple[str, str, str, bool], list[tuple[int, Any]]] = field(default_factory=dict)

    def add(
        self, rule: str, expected: str, rows: I64, values: Sequence[Any] | NDArray[Any], hint: str = IGNORE, *,
        whole_file: bool = False,
    ) -> None:  # fmt: skip
        """Enter rows that break a rule."""
        if len(rows):
            told = [
                value.tolist() if isinstance(value, np.generic | np.ndarray) else value
                for value in values
            ]
            entries = self.entries.setdefault((rule, expected, hint, whole_file), [])
            entries += zip(rows.tolist(), told)

    @property
    def fatal(self) -> bool:
        """Whether one of them makes the file unusable."""
        return any(whole_file for _, _, _, whole_file in self.entries)

    def extend(self, other: Faults, first: int) -> None:
        """Take over the faults of a piece whose records begin with number ``first``."""
        for key, entries in other.entries.items():
            self.entries.setdefault(key, []).extend((first + row, value) for row, value in entries)

    def only(self, rows: I64) -> Faults:
        """Return the faults of some rows, and those of the whole file."""
        kept = set(rows.tolist())
        found = {
            key: [entry for entry in entries if key[3] or entry[0] in kept]
            for key, entries in self.entries.items()
        }
        return Faults({key: entries for key, entries in found.items() if entries})

    def findings(self) -> list[Finding]:
        """Return the broken rules."""
        return [
            Finding(
                rule,
                "segmentation",
                expected,
                np.array([row for row, _ in entries], np.int64),
                [value for _, value in entries],
                hint,
                whole_file,
            )
            for (rule, expected, hint, whole_file), entries in self.entries.items()
        ]
