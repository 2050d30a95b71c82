"""The scope of a model: the score of every image, its labels, and what must be said of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.monitors.scope import Scope, mean_f1
from reference import monitors as slow

BOX = [10.0, 10.0, 20.0, 20.0]
FAR = [50.0, 50.0, 60.0, 60.0]


def cohort(
    references: list[tuple[list[list[float]], list[int]]],
    predictions: list[tuple[list[list[float]], list[int]]],
    classes: tuple[str, ...] = ("a", "b"),
) -> cal.Cohort:
    real = [{"boxes": boxes, "labels": labels} for boxes, labels in references]
    said = [
        {"boxes": b, "labels": k, "scores": np.linspace(0.9, 0.5, len(k))} for b, k in predictions
    ]
    return cal.Cohort.from_arrays(real, said, classes=classes, box_format="xyxy")


def test_an_image_is_judged_class_by_class() -> None:
    images = cohort(
        [([BOX], [0]), ([BOX], [0]), ([], []), ([], []), ([BOX, FAR], [0, 1])],
        [([BOX], [0]), ([], []), ([], []), ([FAR], [1]), ([BOX, FAR, FAR], [0, 0, 1])],
    )
    assert cal.scope_scores(images).score.tolist() == pytest.approx(
        [1.0, 0.5, 1.0, 0.5, (2 / 3 + 1) / 2]
    )
    present = cal.scope_scores(images, classes="present").score
    assert present.tolist() == pytest.approx([1.0, 0.0, 1.0, 0.0, (2 / 3 + 1) / 2])
    micro = cal.scope_scores(images, classes="micro").score
    assert micro.tolist() == pytest.approx([1.0, 0.0, 1.0, 0.0, 4 / 5])


def test_one_runway_per_image_scores_two_by_one_more_than_its_predictions() -> None:
    predictions = [([FAR] * n + [BOX] * hit, [0] * (n + hit)) for n in range(4) for hit in (0, 1)]
    runways = cohort([([BOX], [0])] * len(predictions), predictions, classes=("runway",))
    expected = [2 / (n + hit + 1) if hit else 0.0 for n in range(4) for hit in (0, 1)]
    assert cal.scope_scores(runways).score.tolist() == pytest.approx(expected)


def test_the_threshold_of_the_overlap_is_met_by_equality() -> None:
    half = cohort([([[0, 0, 10, 10]], [0])], [([[0, 0, 10, 5]], [0])], classes=("a",))
    assert cal.scope_scores(half, 0.5).score.tolist() == [1.0]
    assert cal.scope_scores(half, 0.51).score.tolist() == [0.0]


def test_predictions_are_used_once_unless_the_printed_rule_is_asked_for() -> None:
    near = cohort([([BOX, [11.0, 10.0, 21.0, 20.0]], [0, 0])], [([BOX], [0])], classes=("a",))
    assert cal.scope_scores(near).score.tolist() == pytest.approx([2 / 3])
    printed = cal.scope_scores(near, assignment="per-reference-argmax")
    assert printed.score.tolist() == pytest.approx([2 / 3])
    assert printed.settings["assignment"] == "per-reference-argmax"


def test_more_than_a_hundred_predictions_all_count() -> None:
    crowd = cohort([([BOX], [0])], [([BOX] + [FAR] * 299, [0] * 300)], classes=("a",))
    assert cal.scope_scores(crowd).score.tolist() == pytest.approx([2 / 301])


def test_a_score_cut_leaves_predictions_out() -> None:
    images = cohort([([BOX], [0])], [([BOX, FAR], [0, 0])], classes=("a",))
    assert cal.scope_scores(images, score_cut=0.7).score.tolist() == [1.0]
    assert cal.scope_scores(images).score.tolist() == pytest.approx([2 / 3])


@pytest.mark.parametrize("classes", ["declared", "present", "micro"])
def test_counts_become_scores_as_in_the_slow_twin(classes: str) -> None:
    rng = np.random.default_rng(4)
    real, said = rng.integers(0, 4, (200, 5)), rng.integers(0, 4, (200, 5))
    hits = np.minimum(rng.integers(0, 4, (200, 5)), np.minimum(real, said))
    expected = slow.mean_f1(hits.tolist(), said.tolist(), real.tolist(), classes)
    np.testing.assert_allclose(
        mean_f1(*(t.astype(float) for t in (hits, said, real)), classes), expected, atol=1e-14
    )


def test_the_mean_score_is_the_class_mean_of_the_preset() -> None:
    demo = cal.demo_cohort()
    for model in demo.models:
        ev = cal.evaluate(demo, "oms", ci=False)
        rows = [ev.get("F1/image@0.5", model=model, label=name).value for name in demo.classes]
        assert cal.scope_scores(demo, model=model).score.mean() == pytest.approx(
            np.mean(rows), abs=1e-12
        )
        micro = cal.scope_scores(demo, model=model, classes="micro").score.mean()
        assert micro == pytest.approx(ev.get("F1/image@0.5", model=model).value, abs=1e-12)


def test_rodeo_of_an_image_uses_the_weight_of_the_data_set() -> None:
    demo = cal.demo_cohort()
    scope = cal.scope_scores(demo, model="mislabels", score="rodeo")
    empty = (scope.n_references == 0) & (scope.n_predictions == 0)
    assert empty.any()
    assert (scope.score[empty] == 1.0).all()
    assert ((scope.score >= 0) & (scope.score <= 1)).all()


def test_a_metric_of_a_protocol_is_the_metric_on_the_image_alone() -> None:
    demo = cal.demo_cohort()
    scope = cal.scope_scores(demo, model="misses-small", score="F1/image@0.5", protocol="oms")
    micro = cal.scope_scores(demo, model="misses-small", classes="micro")
    np.testing.assert_allclose(scope.score, micro.score, atol=1e-12)


def test_a_metric_that_is_undefined_on_an_image_names_it() -> None:
    with pytest.raises(cal.InputError, match="scope-undefined"):
        cal.scope_scores(
            cohort([([], [])], [([BOX], [0])]), score="sensitivity@0.5", protocol="oms"
        )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"score": "mF2"}, "did you mean 'mF1'"),
        ({"score": "FP/image@0.5", "protocol": "oms"}, "better when small"),
        ({"classes": "all"}, "no classes 'all'"),
        ({"criterion": "box-iuo"}, "box-iou"),
        ({"iou": float("nan")}, "finite"),
        ({"model": "none"}, "no model 'none'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(cal.UsageError, match=said):
        cal.scope_scores(cohort([([BOX], [0])], [([BOX], [0])]), **options)


def test_unsafe_is_below_tau_and_not_at_it() -> None:
    scope = Scope.from_values([0.2, 0.5, 0.8])
    assert scope.unsafe(0.5).tolist() == [True, False, False]
    assert scope.prevalence([0.0, 0.5, 0.51, 2.0]).tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert scope.taus().tolist() == [0.5, 0.8]
    assert np.asarray(scope).tolist() == [0.2, 0.5, 0.8]


def test_a_sweep_of_many_scores_is_thinned_evenly_over_images() -> None:
    scope = Scope.from_values(np.linspace(0, 1, 1000) ** 3)
    taus = scope.taus()
    assert len(taus) == 50
    assert taus[-1] == 1.0
    assert np.ptp(np.diff(scope.prevalence(taus))) < 0.003


def test_a_tau_in_the_trap_is_warned_of() -> None:
    images = cohort([([BOX], [0])] * 30, [([BOX], [0])] * 15 + [([], [])] * 15)
    scope = cal.scope_scores(images)
    assert scope.score.tolist() == [1.0] * 15 + [0.5] * 15
    assert not scope.unsafe(0.5).any()
    trap, nobody = scope.warnings(0.5)
    assert "1 - 1/C = 0.5" in trap
    assert "no image is unsafe" in nobody
    assert scope.warnings(0.6) == ()
    assert cal.scope_scores(images, classes="present").warnings(0.5) == ()


def test_few_unsafe_images_are_warned_of() -> None:
    assert (
        "only 3 of 50 images are unsafe"
        in Scope.from_values([0.0] * 3 + [1.0] * 47).warnings(1.0)[0]
    )
    assert "all 3 images are unsafe" in Scope.from_values([0.0] * 3).warnings(1.0)[0]


def test_labels_make_a_scope_of_0_and_1() -> None:
    scope = Scope.from_labels([1, 2, 3, 3], [1, 2, 2, 1], images=["w", "x", "y", "z"])
    assert scope.score.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert (scope.binary, scope.n_classes, scope.images) == (True, 3, ("w", "x", "y", "z"))


@pytest.mark.parametrize(
    ("predicted", "truth", "rule"),
    [
        ([1, 2], [1], "length"),
        (["1"], [1], "type"),
        ([1.0, float("nan")], [1.0, 2.0], "missing-label"),
        (["a", ""], ["a", "b"], "missing-label"),
    ],
)
def test_columns_of_labels_that_do_not_fit_are_refused(
    predicted: Any, truth: Any, rule: str
) -> None:
    with pytest.raises(cal.InputError) as caught:
        Scope.from_labels(predicted, truth)
    assert caught.value.rule == rule


@pytest.mark.parametrize(
    ("score", "images", "rule"),
    [
        ([0.5, np.nan], None, "non-finite"),
        ([0.5], ["a", "b"], "length"),
        ([0.5, 0.5], ["a", "a"], "dup-image"),
        ([[0.5]], None, "type"),
        (["x"], None, "type"),
        ([], None, "no-images"),
    ],
)
def test_scores_that_are_none_are_refused(score: Any, images: Any, rule: str) -> None:
    with pytest.raises(cal.InputError) as caught:
        Scope.from_values(score, images)
    assert caught.value.rule == rule


def test_the_table_is_written_and_read_again(tmp_path: Path) -> None:
    scope = cal.scope_scores(cal.demo_cohort(), model="misses-small")
    lines = scope.write(tmp_path / "scope.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 121
    assert lines[0].startswith("image,score,n_references,n_predictions,patient")
    import pyarrow.parquet as pq

    table = pq.read_table(scope.write(tmp_path / "scope.parquet"))
    assert table["score"].to_pylist() == scope.score.tolist()
    with pytest.raises(cal.UsageError, match="parquet"):
        scope.write(tmp_path / "scope.xlsx")


def test_some_images_are_taken_with_all_that_belongs_to_them() -> None:
    scope = cal.scope_scores(cal.demo_cohort(), model="misses-small")
    part = scope.take(np.array([5, 2]))
    assert part.images == (scope.images[5], scope.images[2])
    assert part.groups["patient"].tolist() == scope.groups["patient"][[5, 2]].tolist()
    assert scope.take(scope.score < 1).score.max() < 1
