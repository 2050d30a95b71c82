"""From examined samples to a cohort: objects, columns, and histograms that stay small."""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from calipers.metrics.soft_iou import soft_instance_ious
from map_cases import random_samples


def test_the_cohort_has_what_samples_had() -> None:
    samples = random_samples(3, 5, models=("a", "b"), dimensions=3)
    for sample in samples:
        sample["spacing"] = (0.5, 1.0, 2.0)
    samples[2].pop("spacing")
    cohort = cal.evaluate_maps(samples, ci=False, label="metastasis").cohort
    assert cohort.classes == ("metastasis",)
    assert cohort.images.ids == ("s0", "s1", "s2", "s3", "s4")
    assert list(cohort.models) == list(cohort.maps) == ["a", "b"]
    assert cohort.images.size.astype(int).tolist() == [
        list(s["labels"].shape[::-1]) for s in samples
    ]
    assert cohort.images.spacing[0].tolist() == [0.5, 1.0, 2.0]
    assert np.isnan(cohort.images.spacing[2]).all()
    assert cohort.images.groups["patient"].tolist() == ["p0", "p0", "p1", "p1", "p2"]
    assert cohort.references.area.tolist() == cohort.references.facts["voxels"].tolist()
    assert {"softIoU/sample@tversky,0.5 of a", "softIoU/sample@tversky,0.5 of b"} <= set(
        cohort.references.facts
    )


def test_columns_are_numbers_where_all_are() -> None:
    samples = [
        {**sample, "age": 40 + k, "site": k if k else "x"}
        for k, sample in enumerate(random_samples(1, 3))
    ]
    samples[1].pop("centre")
    groups = cal.evaluate_maps(samples, ci=False).cohort.images.groups
    assert groups["age"].tolist() == [40, 41, 42]
    assert groups["site"].tolist() == ["x", "1", "2"]
    assert groups["centre"].tolist() == ["south", "", "south"]


def test_soft_values_of_objects_are_facts_of_the_references() -> None:
    samples = random_samples(2, 4)
    cohort = cal.evaluate_maps(samples, ci=False).cohort
    found = cohort.references.facts["softIoU/sample@tversky,0.5"]
    for k, sample in enumerate(samples):
        rows = slice(cohort.references.offsets[k], cohort.references.offsets[k + 1])
        expected = soft_instance_ious(sample["maps"]["model"], sample["labels"])
        assert found[rows] == pytest.approx(expected)


def test_histograms_stay_as_small_as_they_must(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = random_samples(4, 8, steps=0, side=40, dimensions=2)
    fine = cal.evaluate_maps(samples, ci=False).cohort.maps["model"].histograms
    monkeypatch.setattr("calipers.maps.examine.MOST_ENTRIES", 500)
    coarse = cal.evaluate_maps(samples, ci=False).cohort.maps["model"].histograms
    assert fine.shift == 0 < coarse.shift
    assert len(coarse.bin) <= 250 < len(fine.bin)
    joined = fine.coarsened(coarse.shift)
    for name in ("offsets", "bin", "positives", "negatives"):
        np.testing.assert_array_equal(getattr(coarse, name), getattr(joined, name))
    np.testing.assert_allclose(coarse.overlap, joined.overlap, atol=1e-12)
