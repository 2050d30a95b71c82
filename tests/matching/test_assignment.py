"""Fates and partners against the twins, for every strategy, criterion and kind of cohort."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calipers import registry
from calipers.data.cohort import Cohort
from calipers.errors import InputError
from calipers.kernels.assignment import FALSE_ALARM, HIT, IGNORED, MISSED
from calipers.matching import assign
from calipers.matching.assign import MatchRecipe, match
from calipers.matching.matches import FATES, View
from cases import KINDS, MODEL, NEED_MASKS, cohort_of, masked
from kernel_routes import native_by_default
from reference import boxes
from reference.matching import STRATEGIES, Rule, best_total, fates
from reference.plain import Thing, things
from seeds import batches, looped

# `parity/test_routes.py` holds every metric and every strategy to the same bits on both routes.
pytestmark = native_by_default

SIZES = [(0.0, float("inf")), (0.0, 1024.0), (1024.0, 9216.0)]
THRESHOLDS = (0.1, 0.5, 0.75)


def iou_or_crowd(reference: Thing, prediction: Thing) -> float:
    return (boxes.iop if reference.crowd else boxes.iou)(reference.box, prediction.box)


def assert_fates_are(cohort: Cohort, view: View, rule: Rule, matches=None, k: int = 0) -> None:
    matches = matches or match(cohort, MODEL, [view])
    expected = fates(*things(cohort, MODEL), view.assignment, rule)
    said = [FATES[fate] for fate in matches.prediction_fate[k].tolist()]
    assert said == [expected.prediction[row] for row in range(len(said))]
    said = [FATES[fate] for fate in matches.reference_fate[k].tolist()]
    assert said == [expected.reference[row] for row in range(len(said))]
    if k == 0:
        got = {row: int(p) for row, p in enumerate(matches.partner) if p >= 0}
        assert got == expected.partner


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seeds", batches(4, default=1))
def test_fates_equal_the_twin_in_every_view(strategy: str, kind: str, seeds: range) -> None:
    for seed in seeds:
        cohort = cohort_of(kind, seed)
        views = [
            View(assignment=strategy, threshold=t, size=size) for size in SIZES for t in THRESHOLDS
        ]
        matches = match(cohort, MODEL, views)
        for k, view in enumerate(views):
            rule = Rule(iou_or_crowd, lambda s, t=view.threshold: s >= t, view.size)
            assert_fates_are(cohort, view, rule, matches, k)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", ["grid and ties", "crowds", "crowded images", "volumes on a grid"])
def test_limits_cuts_and_class_rule(strategy: str, kind: str) -> None:
    for seed in range(4):
        cohort = cohort_of(kind, seed)
        for max_dets, cut, within in (
            (1, -np.inf, True),
            (2, 0.4, True),
            (3, 0.3, False),
            (100, -np.inf, False),
        ):
            view = View(
                assignment=strategy,
                threshold=0.3,
                max_dets=max_dets,
                score_cut=cut,
                within_class=within,
            )
            rule = Rule(
                iou_or_crowd,
                lambda s: s >= 0.3,
                max_dets=max_dets,
                score_cut=cut,
                within_class=within,
            )
            assert_fates_are(cohort, view, rule)


@pytest.mark.parametrize(
    ("criterion", "threshold", "similarity", "admissible"),
    [
        ("giou", -0.2, boxes.giou, lambda s: s >= -0.2),
        ("ciou", 0.4, boxes.centred_iou, lambda s: s >= 0.4),
        ("iop", 0.25, boxes.iop, lambda s: s >= 0.25),
        ("ior", 0.25, boxes.ior, lambda s: s >= 0.25),
        ("any-overlap", 0.5, boxes.iou, lambda s: s > 0),
        ("centre-distance", 20.0, lambda t, p: -boxes.centre_distance(t, p), lambda s: s >= -20),
        (
            "centre-distance-relative",
            0.5,
            lambda t, p: -boxes.relative_distance(t, p),
            lambda s: s >= -0.5,
        ),
        (
            "point-in-box",
            0.5,
            lambda t, p: (
                1 / (1 + boxes.centre_distance(t, p)) if boxes.contains_centre(t, p) else 0.0
            ),
            lambda s: s > 0,
        ),
    ],
)
@pytest.mark.parametrize("strategy", ["by-score", "by-overlap"])
def test_every_criterion_decides_fates(
    criterion, threshold, similarity, admissible, strategy
) -> None:
    for kind in ("plain", "ignored", "volumes"):
        cohort = cohort_of(kind, seed=5)
        rule = Rule(lambda t, p: similarity(t.box, p.box), admissible)
        assert_fates_are(
            cohort, View(criterion=criterion, assignment=strategy, threshold=threshold), rule
        )


@pytest.mark.parametrize(
    "kind", ["plain", "grid and ties", "integer grid", "ignored", "crowded images", "volumes"]
)
@pytest.mark.parametrize("seeds", batches(5, default=2))
def test_optimal_finds_most_pairs_then_the_largest_total(kind: str, seeds: range) -> None:
    for seed in seeds:
        cohort = cohort_of(kind, seed, n_images=6)
        for threshold in (0.1, 0.4):
            view = View(assignment="optimal", threshold=threshold)
            matches = match(cohort, MODEL, [view])
            rule = Rule(iou_or_crowd, lambda s, t=threshold: s >= t)
            references, predictions = things(cohort, MODEL)
            for image in range(cohort.n_images):
                for label in range(len(cohort.classes)):
                    refs = [
                        r
                        for r in references
                        if (r.image, r.label) == (image, label) and rule.counted(r)
                    ]
                    preds = [p for p in predictions if (p.image, p.label) == (image, label)]
                    if max(len(refs), len(preds)) > 6 or min(len(refs), len(preds)) > 4:
                        continue
                    rows = [p.row for p in preds if matches.prediction_fate[0, p.row] == HIT]
                    n, total = best_total(refs, preds, rule)
                    assert len(rows) == n
                    assert matches.similarity[rows].sum() == pytest.approx(total, abs=1e-12)


def test_optimal_uses_no_reference_twice_and_ignored_ones_last() -> None:
    for seed in range(10):
        cohort = cohort_of("ignored", seed)
        matches = match(cohort, MODEL, [View(assignment="optimal", threshold=0.2)])
        partners = matches.partner[matches.partner >= 0]
        assert len(set(partners.tolist())) == len(partners)
        to_ignored = np.isin(matches.partner, np.flatnonzero(cohort.references.ignore))
        assert (matches.prediction_fate[0][to_ignored] == IGNORED).all()


def two_on_one(**options) -> Cohort:
    boxes_ = [[0, 0, 10, 10]]
    references = [{"boxes": boxes_, "labels": [0], **options}]
    predictions = [
        {"boxes": [[0, 0, 10, 9], [0, 0, 10, 10]], "labels": [0, 0], "scores": [0.9, 0.8]}
    ]
    return Cohort.from_arrays(references, {MODEL: predictions}, classes=("a",))


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("by-score", ["hit", "duplicate"]),
        ("by-overlap", ["duplicate", "hit"]),
        ("optimal", ["duplicate", "hit"]),
        ("per-reference-argmax", ["duplicate", "hit"]),
        ("many-to-one", ["hit", "duplicate"]),
    ],
)
def test_two_predictions_on_one_reference(strategy: str, expected: list[str]) -> None:
    matches = match(two_on_one(), MODEL, [View(assignment=strategy)])
    assert [FATES[fate] for fate in matches.prediction_fate[0]] == expected


@pytest.mark.parametrize(
    "strategy", ["by-score", "by-overlap", "optimal", "per-reference-argmax", "many-to-one"]
)
def test_forgiven_duplicates_do_not_count(strategy: str) -> None:
    view = View(assignment=strategy, duplicates="forgiven")
    found = [FATES[fate] for fate in match(two_on_one(), MODEL, [view]).prediction_fate[0]]
    assert sorted(found) == ["hit", "ignored"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_forgiven_duplicates_equal_the_twin(strategy: str) -> None:
    for kind in KINDS:
        cohort = cohort_of(kind, seed=6)
        rule = Rule(iou_or_crowd, lambda s: s >= 0.2, duplicates="forgiven")
        assert_fates_are(
            cohort, View(assignment=strategy, threshold=0.2, duplicates="forgiven"), rule
        )


@pytest.mark.parametrize("strategy", ["by-score", "by-overlap", "optimal", "many-to-one"])
def test_a_crowd_takes_everybody_and_nobody_counts(strategy: str) -> None:
    matches = match(two_on_one(crowd=[True]), MODEL, [View(assignment=strategy)])
    assert matches.prediction_fate[0].tolist() == [IGNORED, IGNORED]
    assert matches.reference_fate[0].tolist() == [IGNORED]


def test_an_ignored_reference_takes_one() -> None:
    matches = match(two_on_one(ignore=[True]), MODEL, [View()])
    assert matches.prediction_fate[0].tolist() == [IGNORED, FALSE_ALARM]


def test_threshold_is_reached_by_equality_unless_strict_and_never_at_zero() -> None:
    cohort = Cohort.from_arrays(
        [{"boxes": [[0, 0, 10, 10], [50, 0, 60, 10]], "labels": [0, 0]}],
        {
            MODEL: [
                {"boxes": [[0, 0, 10, 5], [60, 0, 70, 10]], "labels": [0, 0], "scores": [0.9, 0.8]}
            ]
        },
        classes=("a",),
    )
    views = [View(threshold=0.5), View(threshold=0.5, strict=True), View(threshold=0.0)]
    matches = match(cohort, MODEL, views)
    assert matches.prediction_fate.tolist() == [
        [HIT, FALSE_ALARM],
        [FALSE_ALARM, FALSE_ALARM],
        [HIT, FALSE_ALARM],  # boxes that only touch have an IoU of 0
    ]
    assert matches.reference_fate[2].tolist() == [HIT, MISSED]


def test_distance_limit_is_closed_and_zero_is_reached() -> None:
    cohort = Cohort.from_arrays(
        [{"boxes": [[0, 0, 10, 10]], "labels": [0]}, {"boxes": [[0, 0, 10, 10]], "labels": [0]}],
        {
            MODEL: [
                {"boxes": [[3, 4, 13, 14]], "labels": [0], "scores": [0.9]},
                {"boxes": [[1, 1, 9, 9]], "labels": [0], "scores": [0.9]},
            ]
        },
        classes=("a",),
    )
    limits = [(5.0, False), (5.0, True), (0.0, False)]
    views = [
        View(criterion="centre-distance", threshold=limit, strict=strict)
        for limit, strict in limits
    ]
    assert (match(cohort, MODEL, views).prediction_fate == HIT).tolist() == [
        [True, True],
        [False, True],
        [False, True],
    ]


def test_a_sparse_search_finds_the_same_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    cohort = cohort_of("many classes", seed=3)
    dense = match(cohort, MODEL, [View()])
    monkeypatch.setattr("calipers.kernels.boxes.DENSE_CELLS", 0)
    sparse = match(cohort, MODEL, [View()])
    np.testing.assert_array_equal(dense.prediction_fate, sparse.prediction_fate)
    np.testing.assert_array_equal(dense.pairs.reference, sparse.pairs.reference)


@pytest.mark.parametrize("criterion", ["box-iou", "centre-distance", "centre-distance-relative"])
def test_an_image_with_many_pairs_is_compared_in_pieces(
    monkeypatch: pytest.MonkeyPatch, criterion: str
) -> None:
    """Fates do not depend on the pieces, and pairs that no view admits are not kept."""
    cohort = cohort_of("plain", seed=3)
    limit = 0.5 if criterion != "centre-distance" else 20.0
    views = [View(criterion=criterion, threshold=limit)]
    whole = match(cohort, MODEL, views)
    possible = np.diff(cohort.references.offsets) * np.diff(cohort.predictions(MODEL).offsets)
    assert len(whole.pairs.similarity) < possible.sum()
    # the image with most pairs is one too many, but not all of its pairs are candidates
    most = int(possible.max()) - 1
    near = np.bincount(cohort.predictions(MODEL).image[whole.pairs.prediction])
    assert near.max() <= most
    monkeypatch.setattr(assign, "MOST_PAIRS", most)
    pieces = match(cohort, MODEL, views)
    for name in ("reference_fate", "prediction_fate", "partner", "similarity"):
        assert np.array_equal(getattr(pieces, name), getattr(whole, name), equal_nan=True)
    for name in ("reference", "prediction", "similarity"):
        assert np.array_equal(getattr(pieces.pairs, name), getattr(whole.pairs, name))


@looped("kind", ["plain", "crowds", "integer grid", "crowded images", "volumes on a grid"])
@pytest.mark.parametrize("name", registry.CRITERIA)
def test_a_sweep_finds_the_candidates_of_all_pairs(name: str, kind: str) -> None:
    """To the bit and in the same order, with classes and without."""
    cohort = cohort_of(kind, seed=5)
    if name in NEED_MASKS:
        cohort = masked(cohort)
    images = replace(cohort.images, spacing=np.full_like(cohort.images.size, 0.7))
    cohort = replace(cohort, images=images)
    criterion = registry.resolve("criterion", name)
    limit = {"centre-distance": 30.0, "centre-distance-mm": 20.0}.get(name, 0.5)
    least = -limit if criterion.distance else 0.0
    for n_classes in (0, len(cohort.classes)):
        arguments = (cohort, cohort.predictions(MODEL), criterion, n_classes)
        whole = assign.candidate_pairs(*arguments, least=least)
        if criterion.reach is None:  # every two objects are candidates
            continue
        rows, columns = whole.reference, whole.prediction
        pairs = assign._near_pairs(*arguments, limit)
        blocks = [assign._compared(*arguments[:3], *block) for block in pairs]
        reference, prediction, similarity = (np.concatenate(column) for column in zip(*blocks))
        near = similarity >= least
        assert np.array_equal(reference[near], rows)
        assert np.array_equal(prediction[near], columns)
        assert np.array_equal(similarity[near], whole.similarity)


def slide(n: int, corners: Callable[[Any], Any]) -> Cohort:
    """One image of n references and n predictions; ``corners`` makes (n, 2) low corners."""
    sides = []
    for seed in range(2):
        low = corners(np.random.default_rng(seed).random((n, 2)))
        boxes_of_side = np.concatenate([low, low + 12.0], axis=1)
        sides.append({"boxes": boxes_of_side, "labels": np.zeros(n, int), "image_id": "slide"})
    scored = {**sides[1], "scores": np.linspace(0, 1, n)}
    return Cohort.from_arrays([sides[0]], {MODEL: [scored]}, classes=("cell",))


@pytest.mark.parametrize("criterion", ["box-iou", "centre-distance-relative", "point-in-box"])
@pytest.mark.parametrize(
    "corners",
    [
        pytest.param(lambda share: share * 5000, id="everywhere"),
        pytest.param(lambda share: share * [0, 1e6], id="in a column"),
        pytest.param(lambda share: share * [1e6, 0], id="in a row"),
    ],
)
def test_a_slide_of_many_objects_takes_seconds(criterion: str, corners: Any) -> None:
    """All 144 million pairs took a minute."""
    cohort = slide(12_000, corners)
    began = time.process_time()
    matches = match(cohort, MODEL, [View(criterion=criterion)])
    assert time.process_time() - began < 2
    assert 0 < len(matches.pairs.similarity) < 1_000_000


def test_too_many_pairs_to_compare_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assign, "MOST_PAIRS", 1000)
    monkeypatch.setattr(assign, "MOST_COMPARED", 1000)
    with pytest.raises(InputError, match="that overlap along an axis") as error:
        match(slide(100, lambda share: share), MODEL, [View(criterion="point-in-box")])
    assert error.value.rule == "too-large"


@pytest.mark.parametrize("criterion", ["box-iou", "giou", "centre-distance"])
def test_an_image_with_too_many_pairs_is_refused(
    monkeypatch: pytest.MonkeyPatch, criterion: str
) -> None:
    n = 30
    one = {"boxes": np.tile([[10.0, 10, 20, 20]], (n, 1)), "labels": np.zeros(n, int)}
    cohort = Cohort.from_arrays(
        [{**one, "image_id": "slide"}],
        {MODEL: [{**one, "scores": np.linspace(0, 1, n), "image_id": "slide"}]},
        classes=("cell",),
    )
    monkeypatch.setattr(assign, "MOST_PAIRS", n * n)
    assert (match(cohort, MODEL, [View(criterion=criterion)]).prediction_fate == HIT).any()
    monkeypatch.setattr(assign, "MOST_PAIRS", n * n - 1)
    with pytest.raises(InputError, match="slide") as error:
        match(cohort, MODEL, [View(criterion=criterion)])
    assert error.value.rule == "too-large"


def test_recipes_merge_only_when_one_matching_serves_both() -> None:
    one, two = (
        MatchRecipe((View(threshold=0.5),)),
        MatchRecipe((View(threshold=0.7, size=(0.0, 5.0)),)),
    )
    assert one.key == two.key
    assert one.merge(two).merge(one).views == (*one.views, *two.views)
    for other in (
        View(criterion="iop"),
        View(assignment="optimal"),
        View(max_dets=1),
        View(score_cut=0.1),
    ):
        assert MatchRecipe((other,)).key != one.key
