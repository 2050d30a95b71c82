"""Error types by hand: one image for each kind, what mending it gains, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.metrics.error_types import COUNTS, GAINS
from cases import metric_of
from evaluated import evaluated_demo
from kernel_routes import native_by_default

# `parity/test_routes.py` holds every metric and every strategy to the same bits on both routes.
pytestmark = native_by_default

HERE, THERE = [0, 0, 10, 10], [50, 50, 60, 60]
NEAR = [0, 0, 10, 4]  # IoU .4 with HERE
NOTHING: dict[str, Any] = {"boxes": [], "labels": []}


def real(*objects: tuple[list[int], int], **more: Any) -> dict[str, Any]:
    return {"boxes": [box for box, _ in objects], "labels": [label for _, label in objects], **more}


def said(*objects: tuple[list[int], int, float]) -> dict[str, Any]:
    return {
        **real(*((box, label) for box, label, _ in objects)),
        "scores": [score for _, _, score in objects],
    }


def evaluated(references: list[Any], predictions: list[Any], **options: Any) -> cal.Evaluation:
    cohort = cal.Cohort.from_arrays(references, predictions, classes=("a", "b"))
    return cal.evaluate(cohort, "tide", ci=False, **options)


def counts(ev: cal.Evaluation) -> dict[str, int]:
    """The kinds that there are, with how many."""
    return {of: int(value) for of in COUNTS if (value := ev[f"errors/{of}"].value)}


def gains(ev: cal.Evaluation) -> dict[str, float]:
    return {of: round(value, 6) for of in GAINS if (value := ev[f"dAP/{of}"].value)}


def test_a_wrong_class_is_mended_into_a_hit_of_the_other_class() -> None:
    ev = evaluated([real((HERE, 0))], [said((HERE, 1, 0.9))])
    assert counts(ev) == {"cls": 1}
    # Before: class a has AP 0, class b has a prediction and no reference: AP 0. After: a has 1 and
    # b has gone.
    assert gains(ev) == {"cls": 1.0}
    assert ev.get("dAP/cls", label="a").value == pytest.approx(1.0)
    assert ev.get("errors/cls", label="b").value == 1
    assert ev.get("errors/cls", label="a").value == 0


def test_a_place_that_is_roughly_right_is_mended_into_a_hit() -> None:
    ev = evaluated([real((HERE, 0))], [said((NEAR, 0, 0.9))])
    assert counts(ev) == {"loc": 1}
    assert gains(ev) == {"loc": 1.0}


def test_both_wrong_goes_and_leaves_a_reference_that_is_missed() -> None:
    ev = evaluated([real((HERE, 0), (THERE, 0))], [said((NEAR, 1, 0.9), (THERE, 0, 0.8))])
    assert counts(ev) == {"both": 1, "miss": 1}
    # AP of a is 51 of 101 recalls, of b 0; without the mistake b goes; without the missed reference
    # a has 1.
    half = 51 / 101
    assert gains(ev) == {
        "both": round(half - half / 2, 6),
        "miss": round((1 - half) / 2, 6),
        "fn": round((1 - half) / 2, 6),
    }


def test_a_second_prediction_on_one_reference_goes() -> None:
    ev = evaluated(
        [real((HERE, 0), (THERE, 0))],
        [said((HERE, 0, 0.9), ([0, 0, 10, 9], 0, 0.8), (THERE, 0, 0.7))],
    )
    assert counts(ev) == {"dup": 1}
    whole = (51 + 50 * 2 / 3) / 101
    assert gains(ev) == {"dup": round(1 - whole, 6), "fp": round(1 - whole, 6)}


def test_a_prediction_on_nothing_goes() -> None:
    ev = evaluated([real((HERE, 0))], [said((HERE, 0, 0.8), (THERE, 0, 0.9))])
    assert counts(ev) == {"bkg": 1}
    assert gains(ev) == {"bkg": 0.5, "fp": 0.5}


def test_a_reference_that_nobody_came_near_goes() -> None:
    ev = evaluated([real((HERE, 0), (THERE, 0))], [said((HERE, 0, 0.8))])
    assert counts(ev) == {"miss": 1}
    assert gains(ev) == {"miss": round(50 / 101, 6), "fn": round(50 / 101, 6)}


def test_a_false_alarm_on_an_image_without_references_is_told_apart() -> None:
    ev = evaluated([real((HERE, 0)), NOTHING], [said((HERE, 0, 0.8)), said((THERE, 0, 0.9))])
    assert counts(ev) == {"bkg": 1, "empty": 1}
    assert gains(ev) == {"bkg": 0.5, "fp": 0.5, "empty": 0.5}


def test_the_first_rule_that_holds_decides() -> None:
    # Its own class at exactly .5, which is taken: a place, not a double; another class in the same
    # place does not help.
    half = [0, 0, 10, 5]
    ev = evaluated(
        [real((HERE, 0), (HERE, 1))], [said((HERE, 0, 0.9), (half, 0, 0.8), (HERE, 1, 0.7))]
    )
    assert counts(ev) == {"loc": 1}


def test_of_several_mistakes_on_one_reference_only_the_best_is_mended() -> None:
    ev = evaluated([real((HERE, 0))], [said((NEAR, 0, 0.9), (HERE, 1, 0.8))])
    assert counts(ev) == {"cls": 1, "loc": 1}
    (place, name) = ev.errors().rows()
    assert str(ev.errors()) == "2 mistakes (rows(), to_frame(), write())\n  model: cls 1, loc 1"
    assert (place["kind"], place["mendable"]) == ("loc", True)
    assert (name["kind"], name["mendable"]) == ("cls", False)
    assert ev.get("dAP/loc", label="a").value == pytest.approx(1.0)
    assert ev.get("dAP/cls", label="a").value == 0.0


def test_a_mistake_in_an_ignored_region_is_named_but_costs_nothing() -> None:
    references = [real((HERE, 0), (THERE, 0), ignore=[False, True])]
    ev = evaluated(references, [said((HERE, 0, 0.8), ([51, 51, 56, 56], 0, 0.9))])
    assert counts(ev) == {"bkg": 1}
    assert gains(ev) == {}
    assert [row["ignored"] for row in ev.errors().rows()] == [True]


def test_the_limit_of_predictions_is_one_of_the_image() -> None:
    metric = metric_of("error-types", count="bkg", max_dets=2)
    cohort = cal.Cohort.from_arrays(
        [real((HERE, 0))],
        [said((THERE, 0, 0.9), (THERE, 1, 0.8), (THERE, 1, 0.7))],
        classes=("a", "b"),
    )
    found = metric.value(metric.recipe.collect(cohort, "model"), np.ones((1, 1), np.int64))
    assert found[0, :, 0].tolist() == [2, 1, 1]


def test_references_as_predictions_have_nothing_to_gain() -> None:
    cohort = cal.demo_cohort()
    perfect = cal.corrupt(cohort, "position-noise", sigma=0.0, name="perfect")
    ev = cal.evaluate(perfect, "tide", ci=False)
    for name in ev.metrics[1:]:
        for label in (None, *cohort.classes):
            assert ev.get(name, model="perfect", label=label).value == 0


def test_a_gain_without_references_is_undefined_and_a_count_is_not() -> None:
    ev = evaluated([NOTHING], [said((HERE, 0, 0.9))])
    assert math.isnan(ev["dAP/bkg"].value)
    assert ev["dAP/bkg"].reason == "no_references"
    assert counts(ev) == {"bkg": 1, "empty": 1}
    nothing = evaluated([NOTHING], [NOTHING])
    assert nothing["dAP/bkg"].reason == "no_objects"
    assert counts(nothing) == {}
    assert len(nothing.errors()) == 0


def test_groups_and_intervals() -> None:
    tide = replace(cal.Protocol.load("tide"), replicates=300)
    ev = evaluated_demo(tide, by=["centre"])
    found = ev["mislabels", "dAP/cls"]
    assert found.low < found.value < found.high
    of_groups = [
        row
        for row in ev.rows
        if row.group and row.metric == "errors/cls" and row.model == "mislabels"
    ]
    centres = [row.estimate.value for row in of_groups if row.label is None]
    assert sum(centres) == ev["mislabels", "errors/cls"].value
    verdict = ev.compare("mislabels", "overpredicts", metrics=["dAP/cls"]).get("dAP/cls").verdict
    assert verdict == "b_better"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "the error type is missing"),
        ({"gain": "cls", "count": "cls"}, "not both"),
        ({"gain": "clss"}, "did you mean 'cls'"),
        ({"count": "fp"}, "no count of 'fp'"),
        ({"gain": "cls", "background": 0.6}, "0 < background < foreground <= 1"),
        ({"gain": "cls", "background": 0.0}, "above 0"),
        ({"gain": "cls", "foreground": 1.5}, "foreground <= 1"),
        ({"gain": "cls", "criterion": "centre-distance"}, "an overlap from 0 to 1"),
        ({"gain": "cls", "criterion": "point-in-box"}, "an overlap from 0 to 1"),
        ({"gain": "cls", "assignment": "optimal"}, "has its own matching"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(cal.UsageError, match=message):
        metric_of("error-types", **options)


def test_a_name_that_says_something_else_is_refused() -> None:
    text = (
        'schema = "calipers.protocol/1"\nname = "t"\nsource = "t"\n[[metric]]\nname = "dAP/cls"\n'
    )
    with pytest.raises(cal.UsageError, match="its name says 'cls'"):
        cal.Protocol.from_toml(text + 'kind = "error-types"\ngain = "loc"')


@pytest.mark.parametrize("criterion", ["ciou", "iop", "ior"])
def test_other_overlaps_have_kinds_too(criterion: str) -> None:
    metric = metric_of("error-types", count="loc", criterion=criterion)
    cohort = cal.demo_cohort()
    found = metric.recipe.collect(cohort, "overpredicts")
    assert (found.prediction_kind == 1).any()
    assert (found.prediction_kind > 1).any()


def test_the_table_links_every_mistake_to_its_objects() -> None:
    ev = cal.evaluate(
        cal.demo_cohort(), "overview", ci=False
    )  # without the metric: found when asked for
    rows = ev.errors("overpredicts").rows()
    references, predictions = ev.cohort.references, ev.cohort.models["overpredicts"]
    assert {row["model"] for row in rows} == {"overpredicts"}
    for row in rows:
        if row["kind"] == "miss":
            assert row["prediction"] is None
            assert ev.cohort.images.ids[references.image[row["reference"]]] == row["image"]
            continue
        k = row["prediction"]
        assert ev.cohort.images.ids[predictions.image[k]] == row["image"]
        assert row["score"] == predictions.score[k]
        assert row["class"] == ev.cohort.classes[predictions.label[k]]
        assert (row["reference"] is None) == (row["kind"] == "bkg")
        if row["kind"] == "cls":
            assert row["class"] != row["reference_class"]
            assert row["similarity"] >= 0.5
    assert len(ev.errors()) == sum(len(ev.errors(model)) for model in ev.models)
    with pytest.raises(cal.UsageError, match="no model 'overpredict'"):
        ev.errors("overpredict")


def test_the_table_is_saved_with_the_results_that_have_the_metric(tmp_path: Any) -> None:
    cohort = cal.demo_cohort()
    ev = cal.evaluate(cohort, "tide", ci=False)
    folder = ev.save(tmp_path / "tide")
    lines = (folder / "errors.csv").read_text().splitlines()
    assert len(lines) == 1 + len(ev.errors())
    assert lines[0].startswith("model,image,kind,prediction,reference,similarity,score")
    again = cal.open_evaluation(folder)
    assert again["mislabels", "dAP/cls"] == ev["mislabels", "dAP/cls"]
    assert not (
        cal.evaluate(cohort, "coco", ci=False).save(tmp_path / "coco") / "errors.csv"
    ).exists()


def test_the_matching_of_a_protocol_is_no_option() -> None:
    text = (
        'schema = "calipers.protocol/1"\nname = "t"\nsource = "t"\n[[metric]]\nname = "dAP/cls"\n'
    )
    with pytest.raises(cal.UsageError, match="has no option 'matching'"):
        cal.Protocol.from_toml(text + 'kind = "error-types"\nmatching = "box-iou"')
