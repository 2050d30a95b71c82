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
        self,
        rule: str,
        expected: str,
        rows: I64,
        values: Sequence[Any] | NDArray[Any],
        hint: str = IGNORE,
        *,
        whole_file: bool = False,
    ) -> None:
        """Enter rows that break a rule."""
        if not len(rows):
            return
        entries = self.entries.setdefault((rule, expected, hint, whole_file), [])
        for row, value in zip(rows.tolist(), values):
            if isinstance(value, np.generic | np.ndarray):
                value = value.tolist()
            entries.append((row, value))

    @property
    def fatal(self) -> bool:
        """Whether one of them makes the file unusable."""
        return any(whole_file for _, _, _, whole_file in self.entries)

    def extend(self, other: Faults, first: int) -> None:
        """Add the faults of a piece whose records begin with number ``first``."""
        for key, entries in other.entries.items():
            self.entries.setdefault(key, []).extend((first + row, value) for row, value in entries)

    def only(self, rows: I64) -> Faults:
        """Return the faults of some rows, and those of the whole file."""
        wanted_rows = set(rows.tolist())
        faults = Faults()
        for key, entries in self.entries.items():
            whole_file = key[3]
            selection = [entry for entry in entries if whole_file or entry[0] in wanted_rows]
            if selection:
                faults.entries[key] = selection
        return faults

    def findings(self) -> list[Finding]:
        """Return the broken rules."""
        findings = []
        for (rule, expected, hint, whole_file), entries in self.entries.items():
            rows = np.array([row for row, _ in entries], np.int64)
            values = [value for _, value in entries]
            findings.append(Finding(rule, "segmentation", expected, rows, values, hint, whole_file))
        return findings
