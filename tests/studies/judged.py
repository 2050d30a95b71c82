"""What holds of the claims of every study."""

from __future__ import annotations

from calipers.studies.framework import StudyResult


def verdict_by_numbers(result: StudyResult, name: str) -> str:
    """Return the verdict on a claim; that it has no numbers, if its evidence has none."""
    claim = result.claim(name)
    return (
        claim.verdict
        if any(character.isdigit() for character in claim.evidence)
        else "without numbers"
    )
