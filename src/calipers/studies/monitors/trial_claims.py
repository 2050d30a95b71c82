# SPDX-License-Identifier: Apache-2.0
"""Claims that are judged trial by trial, and the verdict over all trials."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from calipers.studies.judging import ClaimJudgement, joint_verdict
from calipers.studies.monitors.found import MonitorsRun
from calipers.studies.monitors.trials import Trial

Finding = tuple[Sequence[bool], str]  # what has to hold, and the numbers in words

NOT_JUDGED = (
    "Needs safe and unsafe images, and OOD labels for some images but not for all: --ood COLUMN."
)
MADE_ONLY = "Simulated data: they show that it can happen, not how often."


def not_judged(words: str = NOT_JUDGED) -> ClaimJudgement:
    """Return the judgement of a claim that the run has no numbers for."""
    return ClaimJudgement(None, words, is_tested=False)


def note_of(trials: Iterable[Trial]) -> str:
    """Return the note that results on simulated data need."""
    has_simulated = any(trial.planted_failures is not None for trial in trials)
    return MADE_ONLY if has_simulated else ""


def in_each_trial(
    rule: str = "", *, with_note: bool = True
) -> Callable[[Callable[[Trial], Finding]], Callable[[MonitorsRun], ClaimJudgement]]:
    """Judge a claim by all trials in which both paradigms can be judged; without any it is not
    judged.

    Parameters
    ----------
    rule
        When the claim holds, if that needs a word.
    noted
        Whether results on made data are marked as such.
    """

    def judge_trials(look: Callable[[Trial], Finding]) -> Callable[[MonitorsRun], ClaimJudgement]:
        def judge(run: MonitorsRun) -> ClaimJudgement:
            if not run.comparable_trials:
                return not_judged()
            findings = [look(trial) for trial in run.comparable_trials]
            note = f"{rule} {note_of(run.comparable_trials) if with_note else ''}".strip()
            return ClaimJudgement(
                joint_verdict([flag for flags, _ in findings for flag in flags]),
                _join_words(findings),
                note,
            )

        return judge

    return judge_trials


def _join_words(findings: Iterable[Finding]) -> str:
    return " ".join(words for _, words in findings)
