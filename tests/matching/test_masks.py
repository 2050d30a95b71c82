"""Criteria for masks against the twins, in 2D and 3D; discs and balls whose overlap is known;
boxes, crowds, errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from calipers import registry
from calipers.data.cohort import Cohort
from calipers.errors import UsageError
from calipers.kernels import ragged
from calipers.matching import assign
from calipers.matching.criteria import PairTable
from calipers.matching.matches import View
from cases import MODEL, NEED_MASKS, cohort_of, masked, references_as_predictions
from reference import masks as slow


def hull_of(mask: np.ndarray, known: dict[bytes, np.ndarray] = {}) -> np.ndarray:  # noqa: B006
    """Return the hull of the twin; an object is in many pairs."""
    key = mask.tobytes() + bytes(mask.shape)
    if key not in known:
        known[key] = slow.hull(mask)
    return known[key]


AREAS: dict[str, Callable[..., float]] = {
    "mask-iou": slow.iou,
    "dice": slow.dice,
    "hull-iou": lambda t, p: slow.iou(hull_of(t), hull_of(p)),
    "boundary-iou": slow.boundary_iou,
    "any-overlap": slow.iou,
}


def all_pairs(cohort: Cohort) -> PairTable:
    predictions = cohort.predictions(MODEL)
    counts = np.diff(cohort.references.offsets)[predictions.image]
    reference = ragged.spans(cohort.references.offsets[predictions.image], counts)
    return PairTable(cohort, predictions, reference, np.repeat(np.arange(len(predictions)), counts))


def similarity(name: str, pairs: PairTable) -> np.ndarray:
    return registry.resolve("criterion", name).similarity(pairs)


def coarse(kind: str, seed: int) -> Cohort:
    """Return discs and balls of few voxels: the twins look at each of them."""
    return masked(cohort_of(kind, seed, n_images=4), cell=64.0 if "volumes" in kind else 20.0)


def of_two(reference: np.ndarray, prediction: np.ndarray, **more) -> Cohort:
    """Return a cohort of one image with one reference and one prediction."""
    return Cohort.from_arrays(
        [{"masks": reference[None], "labels": [0], **more}],
        {MODEL: [{"masks": prediction[None], "labels": [0], "scores": [0.5]}]},
        classes=("a",),
    )


def test_every_criterion_for_areas_has_a_twin() -> None:
    assert {*AREAS, "point-in-mask", "point-in-hull"} == {*NEED_MASKS, "any-overlap"}


@pytest.mark.parametrize("kind", ["plain", "crowded images", "volumes"])
@pytest.mark.parametrize("name", AREAS)
def test_similarity_equals_the_twin(name: str, kind: str) -> None:
    for seed in range(2):
        pairs = all_pairs(coarse(kind, seed))
        ours, theirs = pairs.cohort.references.masks, pairs.predictions.masks
        expected = [
            AREAS[name](ours.dense(r), theirs.dense(p))
            for r, p in zip(pairs.reference, pairs.prediction)
        ]
        np.testing.assert_allclose(similarity(name, pairs), expected, rtol=1e-14)


@pytest.mark.parametrize("kind", ["plain", "crowds", "volumes"])
@pytest.mark.parametrize("name", AREAS)
@pytest.mark.parametrize("within_class", [True, False])
@pytest.mark.parametrize("boxes", [False, True])
def test_candidates_are_all_pairs_that_overlap(
    name: str, kind: str, within_class: bool, boxes: bool
) -> None:
    cohort = coarse(kind, 5)
    if boxes:
        cohort = replace(cohort, models={MODEL: replace(cohort.predictions(MODEL), masks=None)})
    pairs, criterion = all_pairs(cohort), registry.resolve("criterion", name)
    value = np.where(
        cohort.references.crowd[pairs.reference],
        criterion.crowd(pairs),
        criterion.similarity(pairs),
    )
    near = value > 0
    if within_class:
        near &= (
            cohort.references.label[pairs.reference] == pairs.predictions.label[pairs.prediction]
        )
    found = assign.match(cohort, MODEL, [View(criterion=name, within_class=within_class)]).pairs
    assert found.reference.tolist() == pairs.reference[near].tolist()
    assert found.prediction.tolist() == pairs.prediction[near].tolist()
    np.testing.assert_array_equal(found.similarity, value[near])


@pytest.mark.parametrize("name", AREAS)
def test_an_object_is_like_nothing_as_much_as_itself(name: str) -> None:
    for kind in ("plain", "volumes"):
        cohort = references_as_predictions(coarse(kind, 6))
        n = np.arange(len(cohort.references))
        np.testing.assert_array_equal(
            similarity(name, PairTable(cohort, cohort.predictions(MODEL), n, n)), 1.0
        )


def test_a_crowd_is_what_covers_the_prediction() -> None:
    reference, prediction = np.zeros((2, 8, 8), bool)
    reference[:, :6], prediction[2:4, 4:8] = True, True
    cohort = of_two(reference, prediction, crowd=[1])
    found = assign.match(cohort, MODEL, [View(criterion="mask-iou")]).pairs
    assert found.similarity.tolist() == [0.5]


def ball(shape: tuple[int, ...], centre: tuple[float, ...], radius: float) -> np.ndarray:
    """Return the voxels whose centres lie in a disc (ball); centre as x, y[, z]."""
    grid = np.indices(shape)[::-1] + 0.5
    return ((grid - np.array(centre).reshape(-1, *(1,) * len(shape))) ** 2).sum(axis=0) <= radius**2


def lens(radius: float, distance: float, dimensions: int) -> float:
    """Return the area (volume) that two discs (balls) of one radius share."""
    if dimensions == 3:
        return np.pi * (4 * radius + distance) * (2 * radius - distance) ** 2 / 12
    angle = 2 * np.arccos(distance / (2 * radius))
    return radius**2 * (angle - np.sin(angle))


@pytest.mark.parametrize(
    ("dimensions", "radius", "tolerance"), [(2, 60.0, 0.004), (3, 30.0, 0.004)]
)
@pytest.mark.parametrize("step", [0.3, 0.7, 1.2])
def test_discs_and_balls_overlap_as_geometry_says(
    dimensions: int, radius: float, tolerance: float, step: float
) -> None:
    """A border voxel is in or out; the errors of many of them nearly cancel."""
    size, distance = int(4 * radius), step * radius
    one = (2 * radius - distance / 2, *(2 * radius + 0.3,) * (dimensions - 1))
    other = (2 * radius + distance / 2, *(2 * radius + 0.3,) * (dimensions - 1))
    shape = (size,) * dimensions
    pairs = all_pairs(of_two(ball(shape, one, radius), ball(shape, other, radius)))
    whole = np.pi * radius**2 if dimensions == 2 else 4 / 3 * np.pi * radius**3
    common = lens(radius, distance, dimensions)
    assert similarity("mask-iou", pairs)[0] == pytest.approx(
        common / (2 * whole - common), abs=tolerance
    )
    assert similarity("dice", pairs)[0] == pytest.approx(common / whole, abs=tolerance)
    assert similarity("hull-iou", pairs)[0] == similarity("mask-iou", pairs)[0], "they are convex"


@pytest.mark.parametrize("name", AREAS)
@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_frame_does_not_matter(name: str, dimensions: int) -> None:
    random = np.random.default_rng(18)
    shape = (30, 24, 20)[-dimensions:]
    blobs = [
        ball(shape, tuple(random.uniform(8, 11, dimensions)), 6) & (random.random(shape) < 0.9)
        for _ in range(2)
    ]
    value = similarity(name, all_pairs(of_two(*blobs)))[0]
    assert 0 < value < 1
    axes = tuple(random.permutation(dimensions))
    depth = max(1, round(0.02 * float(np.linalg.norm(shape))))
    for change in (
        lambda a: a.transpose(axes),
        np.flip,
        lambda a: a[..., ::-1],
        lambda a: np.roll(a, 2, axis=tuple(range(dimensions))),
    ):
        moved = all_pairs(of_two(*(np.ascontiguousarray(change(blob)) for blob in blobs)))
        assert similarity(name, moved)[0] == pytest.approx(value, rel=1e-14)
    if depth == 1 or name != "boundary-iou":  # the band is a share of the diagonal
        padded = all_pairs(of_two(*(np.pad(blob, 1) for blob in blobs)))
        assert similarity(name, padded)[0] == pytest.approx(value, rel=1e-14)


def boxed(reference: np.ndarray, box: list[float]) -> PairTable:
    cohort = Cohort.from_arrays(
        [{"masks": reference[None], "labels": [0]}],
        {MODEL: [{"boxes": [box], "labels": [0], "scores": [0.5]}]},
        classes=("a",),
    )
    return all_pairs(cohort)


def test_a_predicted_box_against_a_mask_by_hand() -> None:
    corner = np.zeros((6, 6), bool)
    corner[:4, :4] = np.tri(4, dtype=bool)  # 10 voxels, a triangle
    pairs = boxed(corner, [0.5, 0.0, 2.5, 4.0])  # columns 0.5-1, 1-2, 2-2.5 of 4, 3 and 2 voxels
    assert similarity("mask-iou", pairs)[0] == 6.0 / (10 + 8 - 6)
    assert similarity("dice", pairs)[0] == 12.0 / 18
    assert similarity("any-overlap", pairs)[0] > 0
    shoe = np.array([[1, 0, 0, 1], [1, 0, 0, 1], [1, 1, 1, 1]], bool)
    pairs = boxed(shoe, [1, 0, 3, 2])  # in the gap of the shoe
    assert similarity("mask-iou", pairs)[0] == similarity("any-overlap", pairs)[0] == 0
    assert similarity("hull-iou", pairs)[0] == 4 / 12


def test_the_band_of_a_box_is_that_of_its_pixels() -> None:
    random = np.random.default_rng(19)
    for shape in ((90, 110), (40, 60, 70)):
        for _ in range(5):
            low = random.integers(0, np.array(shape) // 2)
            high = low + random.integers(1, np.array(shape) // 2)
            filled, other = np.zeros(shape, bool), random.random(shape) < 0.995
            filled[tuple(slice(a, b) for a, b in zip(low, high))] = True
            as_box = boxed(other, [*low[::-1].tolist(), *high[::-1].tolist()])
            as_mask = all_pairs(of_two(other, filled))
            expected = similarity("boundary-iou", as_mask)[0]
            assert similarity("boundary-iou", as_box)[0] == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("name", [name for name in AREAS if name != "boundary-iou"])
def test_a_box_of_whole_pixels_is_a_mask(name: str) -> None:
    for kind in ("plain", "volumes"):
        cohort = coarse(kind, 8)
        predictions = cohort.predictions(MODEL)
        filled = []
        for box, image in zip(predictions.boxes.astype(int), predictions.image):
            low, high = np.split(box, 2)
            array = np.zeros(cohort.images.size[image].astype(int)[::-1], bool)
            array[tuple(slice(a, b) for a, b in zip(low[::-1], high[::-1]))] = True
            filled.append(array)
        masks = type(predictions.masks).from_dense(filled)
        found = [
            similarity(
                name, all_pairs(replace(cohort, models={MODEL: replace(predictions, masks=shape)}))
            )
            for shape in (None, masks)
        ]
        np.testing.assert_allclose(found[0], found[1], rtol=1e-13)


@pytest.mark.parametrize("name", NEED_MASKS)
def test_references_without_masks_are_an_error_that_says_what_to_do(name: str) -> None:
    cohort = cohort_of("plain", 1)
    with pytest.raises(UsageError, match="box-iou") as caught:
        assign.match(cohort, MODEL, [View(criterion=name)])
    assert name in str(caught.value)
    nobody = replace(
        cohort, references=cohort.references.keep(np.zeros(len(cohort.references), bool))
    )
    assert not len(assign.match(nobody, MODEL, [View(criterion=name)]).pairs.reference)


@pytest.mark.parametrize("name", ["mask-iou", "any-overlap"])
def test_masks_of_one_image_on_two_grids_are_an_error(name: str) -> None:
    cohort = coarse("plain", 2)
    theirs = cohort.predictions(MODEL)
    other = replace(theirs, masks=replace(theirs.masks, size=theirs.masks.size + 1))
    with pytest.raises(UsageError, match="differ in size") as caught:
        assign.match(replace(cohort, models={MODEL: other}), MODEL, [View(criterion=name)])
    assert "16 x 16" in str(caught.value)
    assert "17 x 17" in str(caught.value)


def test_boxes_that_were_given_do_not_hide_masks() -> None:
    reference, prediction = np.zeros((2, 9, 9), bool)
    reference[2:5, 2:5] = prediction[2:5, 2:5] = True
    cohort = of_two(reference, prediction, boxes=[[6, 6, 8, 8]])
    assert assign.match(cohort, MODEL, [View(criterion="mask-iou")]).pairs.similarity.tolist() == [
        1.0
    ]


def test_any_overlap_is_that_of_boxes_where_references_have_no_masks() -> None:
    cohort = coarse("plain", 3)
    bare = replace(cohort, references=replace(cohort.references, masks=None))
    found = assign.match(bare, MODEL, [View(criterion="any-overlap")]).pairs
    boxes = assign.match(bare, MODEL, [View(criterion="box-iou")]).pairs
    np.testing.assert_array_equal(found.similarity, boxes.similarity)
