# SPDX-License-Identifier: Apache-2.0
"""How claims are judged: a statement beside the function that looks at the numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from calipers.studies.framework import Claim, Statement

Run = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class ClaimJudgement:
    """Whether a statement held (None: in part), by which numbers, and what to make of it."""

    outcome: bool | None
    evidence: str
    note: str = ""
    is_tested: bool = True


@dataclass
class Claims(Generic[Run]):
    """Statements with the functions that judge them, in the order of the paper."""

    entries: list[tuple[Statement, Callable[[Run], ClaimJudgement]]] = field(default_factory=list)

    def says(
        self, name: str, text: str, where: str
    ) -> Callable[[Callable[[Run], ClaimJudgement]], Callable[[Run], ClaimJudgement]]:
        """Put a statement before the function that judges it."""

        def kept(judge: Callable[[Run], ClaimJudgement]) -> Callable[[Run], ClaimJudgement]:
            self.entries.append((Statement(name, text, where), judge))
            return judge

        return kept

    def judge_all(self, found: Run) -> tuple[Claim, ...]:
        """Return the claims."""
        claims = []
        for said, judge in self.entries:
            verdict = judge(found)
            claims.append(
                Claim(
                    said.name,
                    said.text,
                    said.where,
                    verdict.outcome,
                    verdict.evidence,
                    verdict.note,
                    verdict.is_tested,
                )
            )
        return tuple(claims)


def joint_verdict(flags: Sequence[bool]) -> bool | None:
    """Return True if all hold, False if none does, None (in part) otherwise."""
    return all(flags) if all(flags) or not any(flags) else None


def number_text(value: float) -> str:
    """Return a number with three digits behind the point; "undefined" for NaN."""
    return "undefined" if math.isnan(value) else f"{value:.3f}"
