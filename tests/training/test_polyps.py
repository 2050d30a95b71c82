"""The detectors of the study of polyps: from drawn frames to an archive that needs no PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.studies.polyps.archive import open_archive
from training.needs import NEEDS_TORCH

pytest.importorskip("torch", reason=NEEDS_TORCH)
from calipers.studies.polyps import detectors
from calipers.studies.polyps.detectors import DetectorKind, train_detectors


@pytest.fixture
def small_plan(monkeypatch) -> None:
    kinds = (DetectorKind("tiny", side=32, width=32, external=True),)
    monkeypatch.setattr(detectors, "KINDS", kinds)
    monkeypatch.setattr(detectors, "QUICK_SHARE", 0.02)
    monkeypatch.setattr(detectors, "QUICK_EPOCHS", 1)


@pytest.mark.slow
def test_a_training_ends_in_an_archive_and_is_not_repeated(tmp_path, small_plan) -> None:
    archive = train_detectors(tmp_path, seed=0, quick=True)
    assert archive.members == {
        "tiny": [
            f"tiny/fold-{fold}-{kind}" for fold in (1, 2) for kind in ("light", "heavy", "external")
        ]
    }
    assert set(archive.cohort.group("centre").tolist()) == {f"C{k}" for k in range(1, 7)}
    assert archive.facts["command"].startswith("calipers study polyps --train --keep")
    weights = tmp_path / "tiny" / "fold-1-light" / "weights.pt"
    before = weights.stat().st_mtime_ns
    again = train_detectors(tmp_path, seed=0, quick=True)
    assert weights.stat().st_mtime_ns == before
    opened = open_archive(tmp_path / "polyps.npz")
    for name, table in again.cohort.models.items():
        assert np.array_equal(table.boxes, opened.cohort.models[name].boxes)
