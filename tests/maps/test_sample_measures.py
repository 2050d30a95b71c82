"""What is measured on one map: histograms with shares of regions, sums per sample and slice."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.kernels import voxels
from calipers.maps.examine import MapView, expanded, histogram, references_of, soft_measures, sums
from calipers.metrics.maps import MapSettings, Measure


def view_of(scores: np.ndarray, labels: np.ndarray) -> MapView:
    masks = references_of(labels, MapSettings(), instances=False).masks
    return MapView(scores, labels != 0, expanded(masks), masks.voxels)


LABELS = np.array([[1, 1, 0, 0, 1], [0, 0, 0, 0, 0]])
SCORES = np.array([[0.8, 0.4, 0.4, 0.1, 0.4], [0.0, 0.0, 0.0, 0.0, 0.8]])


def test_voxels_are_counted_by_score() -> None:
    found = histogram(view_of(SCORES, LABELS))
    assert found.bin.tolist() == voxels.bins_of(np.array([0.0, 0.1, 0.4, 0.8])).tolist()
    assert found.positives.tolist() == [0, 0, 2, 1]
    assert found.negatives.tolist() == [4, 1, 1, 1]
    assert found.overlap.tolist() == [
        0.0,
        0.0,
        1.5,
        0.5,
    ]  # half of the first region and all of the second, then half
    assert found.lowest.tolist() == found.highest.tolist() == [0.0, 0.1, 0.4, 0.8]


def test_shares_are_whole_multiples_of_a_small_step() -> None:
    labels = np.ones((1, 7), int)
    found = histogram(view_of(np.arange(1, 8)[None] / 8.0, labels))
    assert (found.overlap * 2.0**32 == np.round(found.overlap * 2.0**32)).all()
    assert found.overlap.sum() == pytest.approx(1.0, abs=1e-8)


def test_a_threshold_leaves_numerator_and_denominator() -> None:
    for level in ("dataset", "batch"):
        measures = [Measure(quantity, level, 0.4) for quantity in ("Dice", "IoU")]
        found = sums(view_of(SCORES, LABELS), measures, "z")
        assert found[f"Dice/{level}@0.4"] == (6.0, 8.0)
        assert found[f"IoU/{level}@0.4"] == (3.0, 5.0)


def test_a_sample_without_objects_has_no_value_but_a_soft_one() -> None:
    view = view_of(SCORES, np.zeros_like(LABELS))
    measures = [Measure("AP", "sample"), Measure("AUROC", "slice"), Measure("softIoU", "sample")]
    found = sums(view, measures, "z")
    assert found["AP/sample"] == found["AUROC/slice"] == (0.0, 0.0)
    assert found["softIoU/sample@tversky,0.5"] == (
        pytest.approx(1e-5 / (0.5 * SCORES.sum() + 1e-5)),
        1.0,
    )
    assert len(soft_measures(view, measures[2])) == 0


def test_a_soft_value_that_is_undefined_is_not_counted() -> None:
    nothing = view_of(np.zeros(LABELS.shape), LABELS)
    assert sums(nothing, [Measure("softIoU", "sample", alpha=1.0, variant="printed")], "z") == {
        "softIoU/sample@printed,1": (0.0, 0.0)
    }


@pytest.mark.parametrize(("axis", "number"), [("x", 4), ("y", 3), ("z", 2)])
def test_slices_with_something_to_find_are_counted(axis: str, number: int) -> None:
    labels = np.zeros((5, 6, 7), int)
    labels[1:3, 1:4, 1:5] = 1
    found = sums(
        view_of(np.random.default_rng(0).random(labels.shape), labels),
        [Measure("AP", "slice")],
        axis,
    )
    assert found["AP/slice"][1] == number


def test_measures_do_not_change_what_others_see() -> None:
    """In any order the values are the same: sorting in place must not reach the map."""
    random = np.random.default_rng(1)
    scores, labels = random.random((12, 12)), (random.random((12, 12)) < 0.2).astype(int)
    measures = [
        Measure(quantity, "sample")
        for quantity in ("AP", "AUROC", "AUPRO", "Dice", "IoU", "softIoU")
    ]
    before = scores.copy()
    one, other = (sums(view_of(scores, labels), order, "z") for order in (measures, measures[::-1]))
    assert one == other
    assert (scores == before).all()
    for measure in measures:
        assert sums(view_of(scores, labels), [measure], "z") == {measure.key: one[measure.key]}
