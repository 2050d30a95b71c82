"""Box criteria against the twins, pair by pair, in 2D and 3D; and their meaning on boxes drawn by
hand.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calipers import registry
from calipers.data.cohort import Cohort
from calipers.errors import UsageError
from calipers.matching.criteria import Criterion, PairTable
from cases import MODEL, NEED_MASKS, cohort_of
from random_cohorts import random_cohort
from reference import boxes
from seeds import batches

SPACING = (0.7, 1.3, 2.5)
TWINS = {
    "box-iou": boxes.iou,
    "giou": boxes.giou,
    "ciou": boxes.centred_iou,
    "complete-iou": boxes.complete_iou,
    "iop": boxes.iop,
    "ior": boxes.ior,
    "hausdorff": lambda t, p: boxes.hausdorff(t, p, [320.0] * 3),
    "centre-distance": lambda t, p: -boxes.centre_distance(t, p),
    "centre-distance-mm": lambda t, p: -boxes.centre_distance(t, p, list(SPACING)),
    "centre-distance-relative": lambda t, p: -boxes.relative_distance(t, p),
    "any-overlap": boxes.iou,
    "point-in-box": lambda t, p: boxes.contains_centre(t, p) / (1 + boxes.centre_distance(t, p)),
}


def all_pairs(cohort: Cohort) -> PairTable:
    predictions = cohort.predictions(MODEL)
    found = [
        (r, p)
        for p in range(len(predictions))
        for r in range(len(cohort.references))
        if cohort.references.image[r] == predictions.image[p]
    ]
    reference, prediction = np.array(found, np.int64).reshape(-1, 2).T
    return PairTable(cohort, predictions, reference, prediction)


def with_spacing(cohort: Cohort) -> Cohort:
    spacing = np.tile(SPACING[: cohort.dimensions], (cohort.n_images, 1))
    return replace(cohort, images=replace(cohort.images, spacing=spacing))


def test_every_criterion_has_a_twin() -> None:
    assert {*TWINS, *NEED_MASKS} == set(registry.CRITERIA)


@pytest.mark.parametrize("kind", ["plain", "integer grid", "volumes", "volumes on a grid"])
@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("seeds", batches(5, default=2))
def test_similarity_equals_the_twin(name: str, kind: str, seeds: range) -> None:
    for seed in seeds:
        cohort = with_spacing(cohort_of(kind, seed))
        pairs = all_pairs(cohort)
        found = registry.resolve("criterion", name).similarity(pairs)
        truth = [
            TWINS[name](tuple(cohort.references.boxes[r]), tuple(pairs.predictions.boxes[p]))
            for r, p in zip(pairs.reference, pairs.prediction)
        ]
        np.testing.assert_allclose(found, truth, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", TWINS)
def test_a_box_is_like_nothing_as_much_as_itself(name: str) -> None:
    cohort = with_spacing(random_cohort(10, 2, seed=3))
    n = np.arange(len(cohort.references))
    same = PairTable(cohort, cohort.references, n, n)  # type: ignore[arg-type]
    best = registry.resolve("criterion", name).similarity(same)
    np.testing.assert_allclose(best, 0.0 if "distance" in name else 1.0, atol=1e-12)


def pair_of(t: list[float], p: list[float], **image) -> PairTable:
    cohort = Cohort.from_arrays(
        [{"boxes": [t], "labels": [0], **image}],
        {MODEL: [{"boxes": [p], "labels": [0], "scores": [1.0]}]},
        classes=("a",),
    )
    return all_pairs(cohort)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("box-iou", 25 / 175),
        ("giou", 25 / 175 - 50 / 225),
        ("ciou", 1.0),
        ("complete-iou", 25 / 175 - 50 / 450),
        ("iop", 0.25),
        ("ior", 0.25),
        ("hausdorff", 1.0),
        ("centre-distance", -np.sqrt(50)),
        ("centre-distance-mm", -5 * np.sqrt(5)),
        ("centre-distance-relative", -np.sqrt(0.5)),
        ("point-in-box", 1 / (1 + np.sqrt(50))),  # the border belongs to the box
    ],
)
def test_two_squares_that_overlap_in_a_quarter(name: str, expected: float) -> None:
    pairs = pair_of([0, 0, 10, 10], [5, 5, 15, 15], width=40, height=40, spacing=(1, 2))
    assert registry.resolve("criterion", name).similarity(pairs)[0] == pytest.approx(
        expected, abs=1e-15
    )


def test_two_gaps_never_make_an_overlap() -> None:
    pairs = pair_of([0, 0, 10, 10], [20, 20, 30, 30])
    for name in ("box-iou", "iop", "ior", "any-overlap", "point-in-box"):
        assert registry.resolve("criterion", name).similarity(pairs)[0] == 0.0


def test_hausdorff_of_centred_boxes_by_hand() -> None:
    pairs = pair_of([0, 0, 10, 10], [10, 10, 16, 12], width=100, height=50)
    found = registry.resolve("criterion", "hausdorff").similarity(pairs)[0]
    assert found == pytest.approx(1 - np.hypot(0.02, 0.08))


@pytest.mark.parametrize(
    ("name", "missing"), [("hausdorff", "size"), ("centre-distance-mm", "spacing")]
)
def test_a_missing_image_size_or_spacing_is_named(name: str, missing: str) -> None:
    pairs = pair_of([0, 0, 10, 10], [5, 5, 15, 15], image_id="scan-7")
    with pytest.raises(UsageError, match="scan-7") as caught:
        registry.resolve("criterion", name).similarity(pairs)
    assert missing in str(caught.value)


@pytest.mark.parametrize("name", ["any-overlap", "point-in-box"])
def test_yes_or_no_criteria_have_no_threshold(name: str) -> None:
    criterion: Criterion = registry.resolve("criterion", name)
    assert criterion.cutoff(0.5) == criterion.cutoff(0.0) == np.nextafter(0.0, 1.0)


def test_cutoffs() -> None:
    iou, distance = (
        registry.resolve("criterion", "box-iou"),
        registry.resolve("criterion", "centre-distance"),
    )
    assert iou.cutoff(0.5) == 0.5
    assert iou.cutoff(0.5, strict=True) > 0.5
    assert iou.cutoff(0.0) > 0.0
    assert distance.cutoff(5.0) == -5.0
    assert distance.cutoff(5.0, strict=True) > -5.0
    assert distance.cutoff(0.0) == 0.0
