"""Criteria for points: places of objects in boxes, masks and hulls, and their distances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import calipers as cal
from calipers import Protocol, registry
from calipers.data.cohort import Cohort
from calipers.matching import assign
from calipers.matching.criteria import PairTable
from calipers.matching.matches import View
from cases import MODEL, cohort_of, masked
from reference import masks as slow

SHOE = np.array([[1, 0, 0, 1], [1, 0, 0, 1], [1, 1, 1, 1]], bool)  # its centroid is (2, 1.75)


def pair_of(reference: np.ndarray, point: list[float], **more) -> PairTable:
    """Return the pair of a mask and of a prediction that says a point."""
    d = reference.ndim
    cohort = Cohort.from_arrays(
        [{"masks": reference[None], "labels": [0], **more}],
        {
            MODEL: [
                {"boxes": [[0] * d + [1] * d], "points": [point], "labels": [0], "scores": [0.5]}
            ]
        },
        classes=("a",),
    )
    nothing = np.zeros(1, np.int64)
    return PairTable(cohort, cohort.predictions(MODEL), nothing, nothing)


def similarity(name: str, pairs: PairTable) -> float:
    return float(registry.resolve("criterion", name).similarity(pairs)[0])


@pytest.mark.parametrize(
    ("point", "inside"),
    [
        ([0.5, 0.5], ("box", "mask", "hull")),
        ([2.0, 1.0], ("box", "hull")),  # in the gap of the shoe
        ([3.0, 0.0], ("box", "mask", "hull")),  # on the border: the voxel that begins there
        ([4.0, 1.0], ("box",)),  # the far border is of the box, the voxel there is not of the mask
        ([4.5, 1.0], ()),
        ([-0.5, 1.0], ()),
    ],
)
def test_points_by_hand(point: list[float], inside: tuple[str, ...]) -> None:
    pairs = pair_of(SHOE, point)
    expected = 1 / (1 + np.hypot(point[0] - 2, point[1] - 1.75))
    for shape in ("box", "mask", "hull"):
        found = similarity(f"point-in-{shape}", pairs)
        assert found == (pytest.approx(expected) if shape in inside else 0.0), shape


@pytest.mark.parametrize("kind", ["plain", "volumes"])
def test_points_in_masks_and_hulls_equal_the_twin(kind: str) -> None:
    for seed in range(3):
        cohort = masked(cohort_of(kind, seed, n_images=4), cell=64.0 if kind == "volumes" else 20.0)
        predictions = cohort.predictions(MODEL)
        random = np.random.default_rng(seed)
        low, high = np.split(predictions.boxes, 2, axis=1)
        points = low + random.uniform(-0.2, 1.2, low.shape) * (high - low)
        told = replace(predictions, points=points)
        found = [(r, p) for p in range(len(told)) for r in range(len(cohort.references))]
        found = [(r, p) for r, p in found if cohort.references.image[r] == told.image[p]]
        reference, prediction = np.array(found).T
        pairs = PairTable(cohort, told, reference, prediction)
        for name, form in (("point-in-mask", lambda mask: mask), ("point-in-hull", slow.hull)):
            inside = registry.resolve("criterion", name).similarity(pairs) > 0
            shapes = [form(cohort.references.masks.dense(r)) for r in range(len(cohort.references))]
            assert inside.tolist() == [
                slow.contains(shapes[r], points[p].tolist()) for r, p in found
            ]


def test_distances_are_those_of_points_where_there_are_some() -> None:
    pairs = pair_of(SHOE, [5.0, 4.5], spacing=(2.0, 3.0), points=[[2.0, 0.5]])
    assert similarity("centre-distance", pairs) == -5.0
    assert similarity("centre-distance-mm", pairs) == -np.hypot(6, 12)
    assert similarity("centre-distance-relative", pairs) == pytest.approx(-np.hypot(3 / 4, 4 / 3))


def test_without_points_masks_are_at_their_centroids_and_boxes_at_their_centres() -> None:
    pairs = pair_of(SHOE, [5.0, 4.5])
    bare = replace(pairs.predictions, points=None)
    other = PairTable(pairs.cohort, bare, pairs.reference, pairs.prediction)
    assert similarity("centre-distance", other) == pytest.approx(-np.hypot(1.5, 1.25))


def test_masks_have_the_same_places_as_arrays_and_as_maps() -> None:
    mask, shifted = np.zeros((2, 20, 20), bool)
    mask[2:5, 2:12], mask[5:9, 2:4] = True, True
    shifted[3:9, 4:7] = True
    cohort = Cohort.from_arrays(
        [{"masks": mask[None], "labels": [0]}],
        {MODEL: [{"masks": shifted[None], "labels": [0], "scores": [1.0]}]},
        classes=("a",),
    )
    text = """
        schema = "calipers.protocol/1"
        name = "centres"
        source = "made for this test"
        [matching]
        criterion = "centre-distance"
        thresholds = 5.0
        [[metric]]
        name = "distance"
        kind = "centre-distance"
    """
    protocol = Protocol.from_toml(text)
    of_arrays = cal.evaluate(cohort, protocol, ci=False)["distance"].value
    maps = Protocol.from_toml(text + "[maps]\n")
    of_maps = cal.evaluate_maps([(shifted.astype(float), mask)], maps, ci=False)["distance"].value
    assert of_arrays == of_maps > 0


def test_of_several_references_that_hold_the_point_the_nearest_is_hit() -> None:
    large, small = np.zeros((2, 20, 20), bool)
    large[:, :], small[12:18, 12:18] = True, True
    cohort = Cohort.from_arrays(
        [{"masks": [large, small], "labels": [0, 0]}],
        {MODEL: [{"boxes": [[13, 13, 15, 15]], "labels": [0], "scores": [0.5]}]},
        classes=("a",),
    )
    for name in ("point-in-mask", "point-in-hull", "point-in-box"):
        assert assign.match(cohort, MODEL, [View(criterion=name)]).partner.tolist() == [1]


def test_a_volume_has_points_too() -> None:
    hollow = np.ones((5, 5, 5), bool)
    hollow[1:4, 1:4, 1:4] = False
    pairs = pair_of(hollow, [2.5, 2.5, 2.5])
    assert similarity("point-in-box", pairs) == similarity("point-in-hull", pairs) == 1.0
    assert similarity("point-in-mask", pairs) == 0.0
