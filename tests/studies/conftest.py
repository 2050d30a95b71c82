"""One quick run of the study of RoDeO, for all tests that only read it."""

from __future__ import annotations

import pytest

from calipers.studies.framework import StudyResult, run_study


@pytest.fixture(scope="session")
def rodeo() -> StudyResult:
    return run_study("rodeo", quick=True, runs=3)
