"""Object stability: hand-made images, a twin of loops, and what must never change."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

import calipers as cal
from calipers.errors import InputError, UsageError
from calipers.matching.matches import View
from calipers.stability.objects import ObjectMetric, ObjectSums, object_stability
from calipers.stability.objects_evidence import ObjectPairs, Strata, collect
from cases import cohort_of, masked
from reference.object_stability import summary
from seeds import seeds

A, B, C, D = ([x, 0, x + 10, 10] for x in (0, 20, 40, 60))
FAR = [80, 80, 90, 90]
VIEW = View(assignment="by-overlap", max_dets=2**31 - 1, score_cut=0.0)


def made(references, models, *, classes=("x",), **more):
    """Return a cohort; images are lists of boxes, or of (box, class)."""

    def image(boxes, scores=False):
        pairs = [entry if isinstance(entry, tuple) else (entry, 0) for entry in boxes]
        found = {
            "boxes": np.array([b for b, _ in pairs], float).reshape(-1, 4),
            "labels": [c for _, c in pairs],
        }
        return found | ({"scores": [0.9] * len(pairs)} if scores else {"width": 100, "height": 100})

    said = {name: [image(boxes, True) for boxes in images] for name, images in models.items()}
    given = [
        image(boxes) | {key: values[k] for key, values in more.items()}
        for k, boxes in enumerate(references)
    ]
    return cal.Cohort.from_arrays(given, said, classes=classes)


@pytest.fixture
def hand():
    """Three references, three models: A by all, B by two, C by none;
    FAR is a false alarm that two models share.
    """
    return made(
        [[A, B, C], []],
        {"m1": [[A, B, FAR], []], "m2": [[A, B, FAR], []], "m3": [[A, D], [A]]},
    )


def test_every_reference_is_counted_by_who_finds_it(hand):
    found = object_stability(hand, ci=False)
    assert [(row.k, row.references) for row in found.found_by()] == [(0, 1), (1, 0), (2, 1), (3, 1)]
    for kind in ("all", "some", "none"):
        assert found[f"found-by-{kind}"].value == pytest.approx(1 / 3)
    assert [row.share.value for row in found.found_by()] == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3])


def test_false_alarms_of_several_models_share_a_place(hand):
    found = object_stability(hand, ci=False)
    # FAR by two models; D on the first and A on the second image by one.
    assert [(row.k, row.places) for row in found.false_alarms_by()] == [(1, 2), (2, 1), (3, 0)]
    assert found["false-alarms-shared"].value == pytest.approx(1 / 3)


def test_agreement_is_the_mean_over_images_of_the_mean_over_pairs(hand):
    found = object_stability(hand, ci=False)
    # First image: m1-m2 3 couples of 6 predictions, m1-m3 and m2-m3 one of 5. Second: m1-m2 silent,
    # the others 0 of 1.
    first = (1 + 2 / 5 + 2 / 5) / 3
    assert found.per_image["agreement"].tolist() == pytest.approx([first, 0.0])
    assert found["agreement"].value == pytest.approx(first / 2)
    assert found["agreement-with-silence"].value == pytest.approx((first + 1 / 3) / 2)
    assert found.undefined == (1, 6, 0)
    assert found["mean-iou"].value == 1.0
    assert found["mean-iou"].n_images == 1
    assert found.sd("agreement") == pytest.approx(np.std([first, 0.0], ddof=1))
    assert found.per_pair == pytest.approx(
        np.array([[np.nan, 1, 0.2], [1, np.nan, 0.2], [0.2, 0.2, np.nan]]), nan_ok=True
    )


def test_an_image_on_which_all_are_silent_has_no_agreement():
    found = object_stability(made([[A], [A]], {"a": [[A], []], "b": [[A], []]}), ci=False)
    assert np.isnan(found.per_image["agreement"][1])
    assert found["agreement"].value == 1.0
    assert found["agreement"].n_images == 1
    assert found.undefined == (1, 2, 1)
    assert any("both predict nothing" in said for said in found.warnings)


def test_identical_models_agree_fully():
    cohort = cohort_of("crowded images", 3, n_images=30)
    one = cohort.models["model-1"]
    found = object_stability(replace(cohort, models={"a": one, "b": one, "c": one}), replicates=100)
    assert found["agreement"].value == 1.0
    assert found["mean-iou"].value == 1.0
    assert found["found-by-some"].value == 0.0
    assert found["false-alarms-shared"].value == 1.0
    assert found.disputed() == ()
    assert found["agreement"].low < 1.0  # 1 is what was seen, not what is sure


def test_models_that_say_different_things_do_not_agree():
    found = object_stability(made([[A]], {"a": [[A]], "b": [[B]]}), ci=False)
    assert found["agreement"].value == 0.0
    assert found["mean-iou"].reason == "no_objects"
    assert found["found-by-some"].value == 1.0


def test_classes_are_told_apart_and_have_their_own_rows():
    cohort = made(
        [[(A, 0), (B, 1)]], {"a": [[(A, 0), (B, 1)]], "b": [[(A, 1), (B, 1)]]}, classes=("x", "y")
    )
    found = object_stability(cohort, ci=False)
    assert found["agreement"].value == 0.5
    assert found.get("agreement", label="x").value == 0.0
    assert found.get("agreement", label="y").value == pytest.approx(2 / 3)
    assert found.get("found-by-all", label="y").value == 1.0
    assert found.get("found-by-some", label="x").value == 1.0
    assert found.get("false-alarms-shared", label="y").value == 0.0
    assert found.get("false-alarms-shared", label="x").reason == "no_objects"


def test_sizes_part_references_and_couples():
    small, large = [0, 0, 4, 4], [20, 20, 60, 60]
    cohort = made([[small, large]], {"a": [[small, large]], "b": [[large]]})
    found = object_stability(cohort, sizes=(100,), ci=False)
    assert found.get("agreement", size="small").value == 0.0
    assert found.get("agreement", size="large").value == 1.0
    assert found.get("found-by-some", size="small").value == 1.0
    assert found.get("found-by-all", size="large").n_references == 1


def test_a_couple_has_the_mean_size_of_its_two_predictions():
    ten, nine = [0, 0, 10, 10], [0, 0, 10, 9]  # areas 100 and 90: together 95
    found = object_stability(made([[]], {"a": [[ten]], "b": [[nine]]}), sizes=(96,), ci=False)
    assert found.get("agreement", size="small").value == 1.0
    assert found.get("agreement", size="large").reason == "no_objects"


def test_sizes_are_thirds_of_the_references_if_nobody_says():
    found = object_stability(cohort_of("plain", 1, n_images=60, models=2), ci=False)
    n = [found.get("found-by-all", size=size).n_references for size in ("small", "medium", "large")]
    assert sum(n) == found["found-by-all"].n_references
    assert max(n) - min(n) <= 1


def test_equal_sizes_are_not_parted():
    found = object_stability(made([[A, B]], {"a": [[A]], "b": [[B]]}), ci=False)
    assert not [row for row in found.rows if "size" in (row.group or {})]


def test_ignored_references_and_crowds_are_left_out_and_counted():
    references = [
        {
            "boxes": [A, B, C],
            "labels": [0, 0, 0],
            "ignore": [False, True, False],
            "crowd": [False, False, True],
        }
    ]
    said = {"boxes": [A, B, C], "labels": [0, 0, 0], "scores": [0.9, 0.8, 0.7]}
    cohort = cal.Cohort.from_arrays(references, {"a": [said], "b": [said]}, classes=("x",))
    found = object_stability(cohort, ci=False)
    assert found["found-by-all"].n_references == 1
    assert found.as_dict()["ignored_references"] == 2
    assert (
        found.false_alarms_by()[1].places == 0
    )  # what lies on ignored references is no false alarm
    assert found["agreement"].value == 1.0  # and still something both say
    assert "2 references left out: ignored, or crowds" in found.warnings


def test_predictions_below_the_cut_are_left_out_and_counted(hand):
    found = object_stability(hand, score_cut=0.95, ci=False)
    assert found["found-by-none"].value == 1.0
    assert found["agreement"].reason == "no_predictions"
    assert "3 predictions of m1 left out: score below 0.95" in found.warnings
    assert found.below == {"m1": 3, "m2": 3, "m3": 3}
    assert found.sentences()[1] == "No model predicts anything: agreement is undefined."


def test_duplicates_are_no_false_alarms():
    found = object_stability(made([[A]], {"a": [[A, A]], "b": [[A]]}), ci=False)
    assert len(found.evidence.places) == 0
    assert found.as_dict()["duplicates"] == [1, 0]
    assert found["agreement"].value == pytest.approx(2 / 3)


def test_a_place_counts_a_model_once():
    near = [x + 1 for x in FAR]
    found = object_stability(made([[]], {"a": [[FAR, near]], "b": [[FAR]]}), ci=False)
    assert [(row.k, row.places) for row in found.false_alarms_by()] == [(1, 0), (2, 1)]
    assert any("several false alarms of one model" in said for said in found.warnings)


@pytest.mark.parametrize(
    "kind", ["plain", "tied scores", "integer grid", "crowded images", "many classes", "volumes"]
)
@pytest.mark.parametrize("seed", seeds(6, default=2))  # the twin takes nearly all of the time
@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8])
def test_numbers_are_those_of_the_twin(kind, seed, threshold):
    cohort = cohort_of(kind, seed, models=3)
    found = object_stability(cohort, threshold=threshold, ci=False)
    twin = summary(cohort, list(cohort.models), threshold)
    for name in ("agreement", "agreement-with-silence", "mean-iou"):
        assert found[name].value == pytest.approx(twin[name], abs=1e-12, nan_ok=True), name
    assert [row.references for row in found.found_by()] == twin["found"]
    assert [row.places for row in found.false_alarms_by()] == twin["places"]


@pytest.mark.parametrize("most", [1, 40])
def test_blocks_change_nothing(monkeypatch, most):
    cohort = cohort_of("ignored", 5, models=4)
    whole = object_stability(cohort, replicates=100)
    monkeypatch.setattr(sys.modules[collect.__module__], "AT_ONCE", most)
    parts = object_stability(cohort, replicates=100)
    assert parts.to_json() == whole.to_json()


def test_the_order_of_models_does_not_matter():
    cohort = cohort_of("plain", 2, n_images=30, models=4)
    names = list(cohort.models)
    one, other = (
        object_stability(cohort, models=order, replicates=100) for order in (names, names[::-1])
    )
    for name in ("agreement", "mean-iou", "found-by-some", "false-alarms-shared"):
        assert one[name].value == pytest.approx(other[name].value, abs=1e-12)
        assert one[name].low == pytest.approx(other[name].low, abs=1e-12)


def test_weights_are_repetitions():
    cohort = cohort_of("many classes", 4, models=3)
    evidence = collect(cohort, list(cohort.models), VIEW)
    weights = np.random.default_rng(1).integers(0, 4, evidence.n_images)
    repeated = evidence.take(np.repeat(np.arange(evidence.n_images), weights))
    metric = ObjectMetric(3)
    weighed = metric.value(ObjectSums.of(evidence, Strata.classes(evidence)), weights[None])
    alone = metric.value(
        ObjectSums.of(repeated, Strata.classes(repeated)), np.ones((1, repeated.n_images), np.int64)
    )
    assert weighed == pytest.approx(alone, abs=1e-12, nan_ok=True)
    counts = metric.counts(
        ObjectSums.of(repeated, Strata.classes(repeated)), np.ones(repeated.n_images, np.int64)
    )
    assert (
        metric.counts(ObjectSums.of(evidence, Strata.classes(evidence)), weights)[:, :, 0]
        == counts[:, :, 0]
    ).all()


def test_evidence_can_be_parted_and_joined():
    cohort = cohort_of("plain", 4, models=2)
    evidence = collect(cohort, list(cohort.models), VIEW)
    half = evidence.n_images // 2
    joined = ObjectPairs.concat(
        [evidence.take(np.arange(half)), evidence.take(np.arange(half, evidence.n_images))]
    )
    for table in ("references", "places", "predictions", "couples"):
        for column in getattr(joined, table)._columns():
            assert (
                getattr(getattr(joined, table), column) == getattr(getattr(evidence, table), column)
            ).all()


@pytest.mark.parametrize(
    "criterion", ["iop", "ior", "point-in-box", "centre-distance-relative", "giou", "any-overlap"]
)
def test_neither_of_two_models_is_the_reference(criterion):
    """A box in a larger one is covered by it, but does not cover it: both directions must hold."""
    cohort = cohort_of("plain", 7, models=2)
    names = list(cohort.models)
    one, other = (
        object_stability(cohort, criterion, models=order, ci=False)
        for order in (names, names[::-1])
    )
    assert one["agreement"].value == other["agreement"].value
    assert one["mean-iou"].value == pytest.approx(other["mean-iou"].value)


def test_a_small_box_in_a_large_one_is_not_the_same_thing():
    inside, around = [40, 40, 50, 50], [0, 0, 100, 100]
    assert (
        object_stability(made([[]], {"a": [[inside]], "b": [[around]]}), "iop", ci=False)[
            "agreement"
        ].value
        == 0.0
    )


@pytest.mark.parametrize(
    "assignment", ["by-score", "by-overlap", "optimal", "many-to-one", "per-reference-argmax"]
)
def test_every_assignment_works(assignment):
    found = object_stability(cohort_of("ignored", 1, models=3), assignment=assignment, ci=False)
    assert 0 < found["agreement"].value < 1
    assert sum(row.references for row in found.found_by()) == found["found-by-all"].n_references


def test_optimal_makes_at_least_as_many_couples():
    cohort = cohort_of("crowded images", 8, models=3)
    greedy, best = (
        object_stability(cohort, threshold=0.2, assignment=a, ci=False)
        for a in ("by-overlap", "optimal")
    )
    assert len(best.evidence.couples) >= len(greedy.evidence.couples)


@pytest.mark.parametrize("criterion", ["mask-iou", "dice", "hull-iou", "point-in-mask"])
def test_masks_are_compared_with_masks(criterion):
    cohort = masked(cohort_of("plain", 2, models=3))
    found = object_stability(cohort, criterion, ci=False)
    assert 0 < found["agreement"].value < 1
    assert 0 < found["mean-iou"].value <= 1


def test_models_without_masks_are_named():
    cohort = masked(cohort_of("plain", 2, models=2))
    boxes = replace(cohort.models["model-2"], masks=None)
    with pytest.raises(UsageError, match="model-1, model-2 cannot be compared with each other"):
        object_stability(cohort.with_predictions("model-2", boxes), "mask-iou", ci=False)


def test_no_images_are_refused():
    cohort = cohort_of("plain", 1, models=2).take([])
    with pytest.raises(InputError, match="at least one image"):
        object_stability(cohort)


def test_one_model_is_refused():
    cohort = cohort_of("plain", 1)
    with pytest.raises(InputError, match=r"two or more models.*model-1") as error:
        object_stability(cohort)
    assert error.value.rule == "one-model"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"criterion": "box-iuo"}, "did you mean 'box-iou'"),
        ({"assignment": "by-chance"}, "no assignment 'by-chance'"),
        ({"threshold": 1.5}, "between 0 and 1, got 1.5"),
        ({"threshold": "much"}, "threshold is a number"),
        ({"threshold": float("nan")}, "threshold is a finite number"),
        ({"criterion": "centre-distance", "threshold": -1}, "at least 0"),
        ({"score_cut": None}, "score_cut is a number"),
        ({"models": ["model-1", "model-3"]}, "no model 'model-3'"),
        ({"models": ["model-1", "model-1"]}, "'model-1' is named twice"),
        ({"models": "model-1"}, "takes several names"),
        ({"sizes": (5, 2)}, "ascending order"),
        ({"level": 2}, "a level lies between 0 and 1"),
        ({"replicates": 3}, "at least 100 replicates"),
        ({"cluster": "patiend"}, "cluster"),
    ],
)
def test_bad_choices_are_refused(given, message):
    with pytest.raises(UsageError, match=message):
        object_stability(cohort_of("plain", 1, models=2), **given)


def test_intervals_are_over_patients_and_depend_on_the_seed_only():
    cohort = cohort_of("plain", 3, n_images=40, models=3)
    cohort = cohort.with_groups({"patient": np.arange(40) // 2})
    one, again = (object_stability(cohort, replicates=200, seed=5) for _ in range(2))
    assert one.to_json() == again.to_json()
    assert (one["agreement"].unit, one["agreement"].n_units) == ("patient", 20)
    assert one["agreement"].low < one["agreement"].value < one["agreement"].high
    assert object_stability(cohort, cluster="image", replicates=200)["agreement"].n_units == 40


def test_leaving_out_models(hand):
    found = object_stability(hand, ci=False)
    without = found.leave_one_out("agreement")
    assert without.without["m3"] == 1.0  # m1 and m2 alone: the second image has no value
    assert without.without["m1"] == pytest.approx(0.2)
    spread = np.array([0.2, 0.2, 1.0])
    assert without.standard_error == pytest.approx(
        np.sqrt(2 / 3 * ((spread - spread.mean()) ** 2).sum())
    )
    assert found.leave_one_out("found-by-all").without == pytest.approx(
        {"m1": 1 / 3, "m2": 1 / 3, "m3": 2 / 3}
    )
    assert np.isnan(found.leave_one_out("found-by-all").standard_error)
    with pytest.raises(UsageError, match="did you mean 'agreement'"):
        found.leave_one_out("agreemnt")


def test_two_models_cannot_do_without_one(hand):
    found = object_stability(hand, models=["m1", "m2"], ci=False)
    assert found.leave_one_out().reason == "too_few_units"
    assert "both models find 67 %" in found.sentences()[0]


def test_disputed_images_name_their_references(hand):
    (worst,) = object_stability(hand, ci=False).disputed(5)
    assert (worst.image, worst.n_references) == (hand.images.ids[0], 3)
    (reference,) = worst.references
    assert (reference.row, reference.label) == (1, "x")
    assert (reference.found_by, reference.missed_by) == (("m1", "m2"), ("m3",))


def test_the_most_disputed_image_comes_first():
    cohort = made([[A], [A, B], [A]], {"a": [[A], [A, B], []], "b": [[A, D], [], [A]]})
    assert [len(image.references) for image in object_stability(cohort, ci=False).disputed()] == [
        2,
        1,
    ]


def test_the_document_holds_everything(hand):
    found = object_stability(hand, replicates=100)
    document = json.loads(found.to_json())
    assert document["schema"] == "calipers.object-stability/1"
    assert document["models"] == ["m1", "m2", "m3"]
    assert len(document["rows"]) == len(found.rows)
    assert document["disputed"][0]["disputed"][0]["found_by"] == ["m1", "m2"]
    assert document["sentences"] == found.sentences()
    assert document["warnings"] == list(found.warnings)
    assert {row["reason"] for row in document["rows"] if row["low"] is None} == {"too_few_units"}
    pytest.importorskip("pandas")
    assert len(found.to_frame()) == len(found.rows)


def test_words(hand):
    said = object_stability(hand, ci=False).sentences()
    assert (
        said[0]
        == "Of 3 references, all 3 models find 33 %, some but not all find 33 %, and none finds 33 "
        "%."
    )
    assert said[1].startswith(
        "Two models agree on 30 % of what they predict, correct or not (mean over 2 images"
    )
    assert said[3] == "Of 3 places with a false alarm, at least two models share 33 %."
    assert said[-1] == f"Most disputed references: {hand.images.ids[0]} (1 of 3)."


def test_nothing_at_all_is_said_in_words():
    found = object_stability(made([[], []], {"a": [[], []], "b": [[], []]}), replicates=100)
    assert found.sentences() == [
        "There are no counted references, so what the models find cannot be compared.",
        "No model predicts anything: agreement is undefined.",
        "No model raises a false alarm.",
    ]
    assert found["agreement"].reason == "no_predictions"
    assert found["found-by-all"].reason == "no_references"
    json.loads(found.to_json())
    assert found["agreement-with-silence"].value == 1.0


def test_unknown_numbers_are_refused(hand):
    found = object_stability(hand, ci=False)
    with pytest.raises(UsageError, match="did you mean 'agreement'"):
        found["agreemant"]
    with pytest.raises(UsageError, match="not for small"):
        found.get("agreement", label="small")


def test_progress_is_told_to_the_end():
    steps = []
    object_stability(
        cohort_of("plain", 1, models=2), replicates=128, progress=lambda *step: steps.append(step)
    )
    assert steps == [(1, 3), (2, 3), (3, 3)]
