# SPDX-License-Identifier: Apache-2.0
"""A page that can leave the hospital: ids and names of files replaced by keyed hashes, nothing to look them up with.

The key is drawn anew for every page and is not kept: a plain hash of ``P001`` would be found by trying all numbers.
Names of classes and models stay; what readers noted about files is left out, because it may name them.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

import numpy as np

from calipers.evaluation import Evaluation
from calipers.results import Row
from calipers.tables import Cohort
from calipers.tables.intake import FileIntake, Intake

LENGTH = 10  # hexadecimal digits: two of 10,000 names share a hash in 1 of 20,000 pages


@dataclass(frozen=True)
class Mask:
    """Replaces names, the same name by the same hash."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    def name(self, kind: str, value: str) -> str:
        """Return a name such as ``patient-1f0c2a9b``."""
        found = hmac.new(self.key, f"{kind}\0{value}".encode("utf-8", "surrogatepass"), sha256).hexdigest()
        return f"{kind}-{found[:LENGTH]}"


def redacted(evaluation: Evaluation, mask: Mask | None = None) -> Evaluation:
    """Return the evaluation with all ids replaced; numbers, classes and models stay."""
    mask = mask or Mask()
    groups = evaluation.cohort.images.groups
    known = {name: {str(value) for value in column.tolist()} for name, column in groups.items()}
    rows = tuple(_row(row, known, mask) for row in evaluation.rows)
    groupings = tuple(
        replace(grouping, rows=tuple(_row(row, known, mask) for row in grouping.rows))
        for grouping in evaluation.groupings
    )
    return replace(evaluation, cohort=_cohort(evaluation.cohort, mask), rows=rows, groupings=groupings)


def _row(row: Row, known: Mapping[str, set[str]], mask: Mask) -> Row:
    """Return the row with the values of its group replaced, if they stand in a column: bins and sizes name nobody."""
    if row.group is None:
        return row
    group = {n: mask.name(n, value) if value in known.get(n, ()) else value for n, value in row.group.items()}
    return replace(row, group=group)


def _cohort(cohort: Cohort, mask: Mask) -> Cohort:
    groups = {
        name: np.array([mask.name(name, str(value)) for value in column.tolist()], object)
        for name, column in cohort.images.groups.items()
    }
    ids = tuple(mask.name("image", image) for image in cohort.images.ids)
    files = tuple(_file(file, mask) for file in cohort.intake.files)
    return replace(
        cohort, images=replace(cohort.images, ids=ids, groups=groups), intake=Intake(files, cohort.intake.quarantine)
    )


def _file(file: FileIntake, mask: Mask) -> FileIntake:
    left = (f"{len(file.notes)} notes on an input are left out of this page.",) if file.notes else ()
    return replace(file, file=mask.name("file", file.file), notes=left, sha256="")
