# SPDX-License-Identifier: Apache-2.0
"""Claims of a paper: each statement stands next to the function that judges it.

A claims module of a study creates a `Claims` and decorates one function per statement with
`Claims.statement`. The function receives the numbers of a run and returns a `ClaimJudgement`; the
study calls `Claims.judge_all` to get all verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from calipers.studies.framework import Claim, Statement

Run = TypeVar("Run")  # the class with the numbers of a run; each study has its own


@dataclass(frozen=True, slots=True)
class ClaimJudgement:
    """Whether a statement held (None: in part), the numbers, and how to read them."""

    outcome: bool | None
    evidence: str
    note: str = ""
    is_tested: bool = True


@dataclass
class Claims(Generic[Run]):
    """Statements with the functions that judge them, in the order of the paper."""

    entries: list[tuple[Statement, Callable[[Run], ClaimJudgement]]] = field(default_factory=list)

    def statement(
        self, name: str, text: str, where: str
    ) -> Callable[[Callable[[Run], ClaimJudgement]], Callable[[Run], ClaimJudgement]]:
        """Register the decorated function as the judge of a statement."""

        def register(judge: Callable[[Run], ClaimJudgement]) -> Callable[[Run], ClaimJudgement]:
            self.entries.append((Statement(name, text, where), judge))
            return judge

        return register

    def judge_all(self, run: Run) -> tuple[Claim, ...]:
        """Judge every statement by the numbers of a run."""
        claims = []
        for statement, judge in self.entries:
            judgement = judge(run)
            claims.append(
                Claim(
                    statement.name,
                    statement.text,
                    statement.where,
                    judgement.outcome,
                    judgement.evidence,
                    judgement.note,
                    judgement.is_tested,
                )
            )
        return tuple(claims)


def joint_verdict(flags: Sequence[bool]) -> bool | None:
    """Return True if all flags are true, False if none is, and None (in part) otherwise."""
    if all(flags):
        return True
    return None if any(flags) else False


def number_text(value: float) -> str:
    """Return a number with three decimals, or "undefined" for NaN."""
    return "undefined" if math.isnan(value) else f"{value:.3f}"
