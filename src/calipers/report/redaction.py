# SPDX-License-Identifier: Apache-2.0
"""A page that can leave the hospital: ids and names of files replaced by keyed hashes, nothing to
look them up with.

The key is drawn anew for every page and is not kept: a plain hash of ``P001`` would be found by
trying all numbers. Names of classes and models stay; what readers noted about files is left out,
because it may name them.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from calipers.evaluation import Evaluation
from calipers.report.renaming import renamed
from calipers.tables.intake import FileIntake, Intake

LENGTH = 10  # hexadecimal digits: two of 10,000 names share a hash in 1 of 20,000 pages


@dataclass(frozen=True)
class Mask:
    """Replaces ids, the same id by the same hash. Names of classes, models and columns stay."""

    known: Mapping[str, frozenset[str]] = field(
        default_factory=dict
    )  # what stands in the columns of the images
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    def hashed(self, kind: str, value: str) -> str:
        """Return a name such as ``patient-1f0c2a9b4e``."""
        digest = hmac.new(
            self.key, f"{kind}\0{value}".encode("utf-8", "surrogatepass"), sha256
        ).hexdigest()
        return f"{kind}-{digest[:LENGTH]}"

    def name(self, name: str) -> str:
        """Return a name that stays."""
        return name

    def image(self, name: str) -> str:
        """Return the hash of an image."""
        return self.hashed("image", name)

    def value(self, column: str, value: Any) -> Any:
        """Return the hash of what stands in a column; bins and sizes name nobody, and stay."""
        return (
            self.hashed(column, str(value)) if str(value) in self.known.get(column, ()) else value
        )


def redacted(evaluation: Evaluation) -> Evaluation:
    """Return the evaluation with all ids replaced; numbers, classes and models stay."""
    columns = evaluation.cohort.images.groups
    mask = Mask({name: frozenset(map(str, column.tolist())) for name, column in columns.items()})
    masked, intake = renamed(evaluation, mask), evaluation.cohort.intake
    files = tuple(_file(file, mask) for file in intake.files)
    return replace(masked, cohort=replace(masked.cohort, intake=Intake(files, intake.quarantine)))


def _file(file: FileIntake, mask: Mask) -> FileIntake:
    notes = (
        (f"{len(file.notes)} notes on an input are left out of this page.",) if file.notes else ()
    )
    return replace(file, file=mask.hashed("file", file.file), notes=notes, sha256="")
