"""What holds of the claims of every study."""

from __future__ import annotations

from calipers.studies.framework import StudyResult


def has_verdict(result: StudyResult, name: str, wanted: str) -> None:
    """Check the verdict on a claim, and that its evidence has numbers."""
    claim = result.claim(name)
    assert claim.verdict == wanted, claim.evidence
    assert any(character.isdigit() for character in claim.evidence)
