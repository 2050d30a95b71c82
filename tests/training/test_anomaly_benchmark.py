"""The benchmark of anomaly maps, trained in small; kept maps are used again."""

from __future__ import annotations

import pytest

from calipers.studies.anomaly import brain_training as training
from calipers.studies.anomaly.archive import AnomalyArchive
from calipers.studies.anomaly.brain_training import BenchmarkEntry, TrainingEffort, train_benchmarks
from calipers.studies.anomaly.brains import VolumeCounts
from studies.anomaly.test_brains import made_template


@pytest.fixture
def small(monkeypatch) -> None:
    entries = {
        "T1": (BenchmarkEntry("ae", "ae"), BenchmarkEntry("atlas")),
        "MOOD-like": (BenchmarkEntry("fpi-3d", "fpi", 3), BenchmarkEntry("atlas")),
    }
    monkeypatch.setattr(training, "ENTRIES", entries)
    monkeypatch.setattr(training, "QUICK", VolumeCounts(2, 1, 2))
    monkeypatch.setattr(training, "QUICK_EFFORT", TrainingEffort(1, 1))
    monkeypatch.setattr(training, "SLICE_STEP", 8)


@pytest.mark.slow
def test_networks_are_trained_once_and_their_maps_are_kept(small, tmp_path, monkeypatch) -> None:
    seen: list[str] = []
    options = {"seed": 1, "quick": True, "keep": tmp_path, "template": made_template()}
    first = train_benchmarks(progress=lambda what, step, total: seen.append(what), **options)
    assert seen[0] == "T1: ae"
    names = {path.name for path in tmp_path.iterdir()}
    maps = {"T1-ae.npz", "T1-atlas.npz", "MOOD-like-fpi-3d.npz", "MOOD-like-atlas.npz"}
    assert names == {"brains.npz", *maps}
    assert [one.kind for one in first.benchmarks[1].records] == [
        "network on volumes",
        "without a network",
    ]

    def refuse(*arguments) -> None:
        raise AssertionError("nothing is left to train")

    monkeypatch.setattr(training, "_fitted", refuse)
    again = train_benchmarks(progress=lambda what, step, total: None, **options)
    stored = AnomalyArchive.read(tmp_path / "brains.npz")
    for one, other, third in zip(first.benchmarks, again.benchmarks, stored.benchmarks):
        assert one.views == other.views == third.views
        assert one.records == other.records == third.records
