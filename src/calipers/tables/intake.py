# SPDX-License-Identifier: Apache-2.0
"""The account of the inputs: per file the records read, used and set aside, hashes and notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class FileIntake:
    """The account of one input: ``read == used + sum(quarantined)`` always holds."""

    file: str
    role: str  # references | predictions of a model | groups
    format: str
    read: int
    used: int
    quarantined: Mapping[str, int] = field(default_factory=dict)  # rule -> records
    sha256: str = ""
    bytes: int = 0
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.read != self.used + sum(self.quarantined.values()):
            raise AssertionError(
                f"{self.file}: {self.read} records read, {self.used} used: the account is off"
            )

    def as_dict(self) -> dict[str, Any]:
        """Return the account for JSON output."""
        return {
            "file": self.file,
            "role": self.role,
            "format": self.format,
            "sha256": self.sha256,
            "bytes": self.bytes,
            "read": self.read,
            "used": self.used,
            "quarantined": dict(self.quarantined),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One record that was set aside in lenient mode."""

    file: str
    location: str
    rule: str
    record: str  # the original text, at most 2 kB


@dataclass(frozen=True, slots=True)
class Intake:
    """The accounts of all inputs of a cohort."""

    files: tuple[FileIntake, ...] = ()
    quarantine: tuple[Quarantined, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of the readers, in file order."""
        return tuple(note for file in self.files for note in file.notes)

    @property
    def quarantined(self) -> int:
        """How many records were set aside, over all files."""
        total = 0
        for file in self.files:
            total += sum(file.quarantined.values())
        return total

    def merge(self, others: Sequence[Intake]) -> Intake:
        """Return the account of this cohort and others together."""
        files = list(self.files)
        quarantine = list(self.quarantine)
        for other in others:
            files += other.files
            quarantine += other.quarantine
        return Intake(tuple(files), tuple(quarantine))
