# SPDX-License-Identifier: Apache-2.0
"""What the doctor says: a finding with its code, count, examples and fix, and how it is printed.

The checks of `calipers.doctor.symptoms` (predictions), `calipers.doctor.reference_checks` and
`calipers.doctor.volumes.volume_folders` yield `Symptom`s; `conclusion` ends every examination.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from calipers.arrays import F64
from calipers.data.cohort import Cohort
from calipers.doctor.trial import RawPredictions, share_met
from calipers.errors import InputError, InputProblems
from calipers.show.words import percent_text

Level = Literal["error", "warning", "note"]
MOST_EXAMPLES = 5
LONGEST = 100  # characters of an example
SENT_HERE = "; calipers doctor compares the names"


@dataclass(frozen=True)
class Symptom:
    """One finding: what it is, how many, examples, and what to do about it."""

    code: str
    level: Level
    about: str  # a file
    message: str
    count: int
    total: int
    hint: str = ""
    examples: tuple[str, ...] = ()
    # The fix: keywords of `calipers.read` that do it, and the predictions as they should be.
    reading: Mapping[str, Any] = field(default_factory=dict)
    remedy: RawPredictions | None = field(default=None, repr=False)
    cohort: Cohort | None = field(default=None, repr=False)  # with references as they should be

    @property
    def is_rewritten(self) -> bool:
        """Whether no option reads the file rightly, so that the predictions must be rewritten."""
        return self.remedy is not None and not self.reading

    def lines(self) -> Iterator[str]:
        """Yield the finding for a terminal: the hint first, then what was seen, then examples."""
        yield f"  {self.code} ({self.level}) in {self.about}"
        if self.hint:
            yield f"    fix        {self.hint}"
        yield f"    seen       {self.message}; {self.count} of {self.total}"
        for k, example in enumerate(self.examples):
            label = "" if k else "examples"
            yield f"    {label:<10} {example}"

    def as_dict(self) -> dict[str, Any]:
        """Return the finding for JSON output."""
        return {
            "code": self.code,
            "level": self.level,
            "file": self.about,
            "message": self.message,
            "count": self.count,
            "total": self.total,
            "hint": self.hint,
            "examples": list(self.examples),
        }


def conclusion(findings: Sequence[Symptom], commands: Sequence[str]) -> list[str]:
    """Return the lines that end every checkup: the findings, and the command that works."""
    lines: list[str] = []
    if findings:
        lines += ["", f"Findings       {len(findings)}"]
        for symptom in findings:
            lines += symptom.lines()
    if commands:
        lines += ["", "The command that works"]
        lines += [f"  {command}" for command in commands]
    elif any(symptom.level == "error" for symptom in findings):
        lines += ["", "No command evaluates these files as they are: see the findings."]
    return lines


def few(values: Sequence[object] | set[Any]) -> tuple[str, ...]:
    """Return the first examples as text, each once."""
    texts = dict.fromkeys(str(value) for value in values)
    return tuple(text[:LONGEST] for text in list(texts)[:MOST_EXAMPLES])


def gain_text(before: F64, after: F64, sample: RawPredictions) -> str:
    """Return the shares of references that are met with a fix and without it, as text."""
    n = len(sample)
    return (
        f": {percent_text(share_met(after, n))} of the references are matched with the fix, "
        f"{percent_text(share_met(before, n))} without"
    )


def refusal(error: InputError, file: str) -> Symptom:
    """Return an error as a finding."""
    message = f"expected {error.expected}"
    problems = error.problems if isinstance(error, InputProblems) else (error,)
    count = error.total if isinstance(error, InputProblems) else 1
    examples = few([f"{each.location} {each.value}".strip() for each in problems if each.value])
    # Messages of other commands send their readers here.
    hint = error.hint.removesuffix(SENT_HERE)
    return Symptom(error.rule, "error", file, message, count, count, hint, examples)
