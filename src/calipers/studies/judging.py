# SPDX-License-Identifier: Apache-2.0
"""How claims are judged: a statement beside the function that looks at the numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from calipers.studies.framework import Claim, Statement

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether a statement held (None: in part), by which numbers, and what to make of it."""

    held: bool | None
    evidence: str
    note: str = ""
    tested: bool = True


@dataclass
class Claims(Generic[Found]):
    """Statements with the functions that judge them, in the order of the paper."""

    entries: list[tuple[Statement, Callable[[Found], Judgement]]] = field(default_factory=list)

    def says(
        self, name: str, text: str, where: str
    ) -> Callable[[Callable[[Found], Judgement]], Callable[[Found], Judgement]]:
        """Put a statement before the function that judges it."""

        def kept(judge: Callable[[Found], Judgement]) -> Callable[[Found], Judgement]:
            self.entries.append((Statement(name, text, where), judge))
            return judge

        return kept

    def judged(self, found: Found) -> tuple[Claim, ...]:
        """Return the claims."""
        claims = []
        for said, judge in self.entries:
            verdict = judge(found)
            claims.append(
                Claim(
                    said.name,
                    said.text,
                    said.where,
                    verdict.held,
                    verdict.evidence,
                    verdict.note,
                    verdict.tested,
                )
            )
        return tuple(claims)


def share(flags: Sequence[bool]) -> bool | None:
    """Return True if all hold, False if none does, None (in part) otherwise."""
    return all(flags) if all(flags) or not any(flags) else None


def told(value: float) -> str:
    """Return a number with three digits behind the point; "undefined" for NaN."""
    return "undefined" if math.isnan(value) else f"{value:.3f}"
