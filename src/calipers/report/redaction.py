# SPDX-License-Identifier: Apache-2.0
"""A page that can leave the hospital: ids and file names are replaced by keyed hashes.

The key is drawn anew for every page and is not stored: a plain hash of ``P001`` could be found by
trying all numbers. Names of classes and models stay; notes on input files are left out, because
they may name patients.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from calipers.evaluation import Evaluation
from calipers.report.renaming import rename_all
from calipers.tables.intake import FileIntake, Intake

LENGTH = 10  # hexadecimal digits: two of 10,000 names share a hash in 1 of 20,000 pages


@dataclass(frozen=True)
class Mask:
    """Replaces ids, the same id by the same hash. Names of classes, models and columns stay."""

    # the values in the columns of the images, which may be ids
    values: Mapping[str, frozenset[str]] = field(default_factory=dict)
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    def hashed(self, kind: str, value: str) -> str:
        """Return a name such as ``patient-1f0c2a9b4e``."""
        message = f"{kind}\0{value}".encode("utf-8", "surrogatepass")
        digest = hmac.new(self.key, message, sha256).hexdigest()
        return f"{kind}-{digest[:LENGTH]}"

    def name(self, name: str) -> str:
        """Return a name that stays."""
        return name

    def image(self, name: str) -> str:
        """Return the hash of an image."""
        return self.hashed("image", name)

    def value(self, column: str, value: Any) -> Any:
        """Return the hash of a value in a column; bins and sizes identify nobody and stay."""
        if str(value) in self.values.get(column, ()):
            return self.hashed(column, str(value))
        return value


def redact_ids(evaluation: Evaluation) -> Evaluation:
    """Return the evaluation with all ids replaced; numbers, classes and models stay."""
    columns = evaluation.cohort.images.groups
    mask = Mask({name: frozenset(map(str, column.tolist())) for name, column in columns.items()})
    masked, intake = rename_all(evaluation, mask), evaluation.cohort.intake
    files = tuple(_file(file, mask) for file in intake.files)
    return replace(masked, cohort=replace(masked.cohort, intake=Intake(files, intake.quarantine)))


def _file(file: FileIntake, mask: Mask) -> FileIntake:
    notes: tuple[str, ...] = ()
    if file.notes:
        notes = (f"{len(file.notes)} notes on an input are left out of this page.",)
    # The hash of a file would let anybody who has the file recognise it.
    return replace(file, file=mask.hashed("file", file.file), notes=notes, sha256="")
