"""The whole flow: rows in their order, the JSON contract, reasons, access by name, warnings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import calipers as cal
from calipers.data.objects import empty_predictions
from random_cohorts import random_cohort

ROW_KEYS = [
    *(
        "model",
        "metric",
        "metric_id",
        "class",
        "group",
        "value",
        "low",
        "high",
        "level",
        "method",
        "unit",
        "n_units",
    ),
    *("n_images", "n_references", "n_predictions", "bias", "undefined", "reason"),
]


@pytest.fixture(scope="module")
def cohort() -> cal.Cohort:
    return random_cohort(20, 3, seed=1, models=2, crowd_share=0.1)


@pytest.fixture(scope="module")
def evaluation(cohort: cal.Cohort) -> cal.Evaluation:
    return cal.evaluate(cohort, "coco")


def test_rows_are_models_then_metrics_then_pooled_before_classes(
    evaluation: cal.Evaluation,
) -> None:
    metrics = [
        "AP",
        "AP50",
        "AP75",
        "APs",
        "APm",
        "APl",
        "AR1",
        "AR10",
        "AR100",
        "ARs",
        "ARm",
        "ARl",
    ]
    labels = [None, "class-1", "class-2", "class-3"]
    expected = [
        (model, metric, label)
        for model in ("model-1", "model-2")
        for metric in metrics
        for label in labels
    ]
    assert [(row.model, row.metric, row.label) for row in evaluation.rows] == expected
    assert all(row.group is None for row in evaluation.rows)


def test_rows_follow_the_protocol_when_kinds_alternate(cohort: cal.Cohort) -> None:
    evaluation = cal.evaluate(cohort, "rodeo")
    in_order = list(dict.fromkeys(row.metric for row in evaluation.rows))
    assert in_order == [plan.name for plan in evaluation.protocol.metrics]


def test_the_id_of_a_metric_does_not_depend_on_its_neighbours(
    cohort: cal.Cohort, tmp_path: Path
) -> None:
    kinds = {"AP": "coco101", "VOC": "voc11", "AUC": "every-point", "AP50": "coco101"}
    entries = [
        f'[[metric]]\nname = "{name}"\nkind = "average-precision"\ninterpolation = "{kind}"\n'
        for name, kind in kinds.items()
    ]
    head = 'schema = "calipers.protocol/1"\nname = "mine"\nsource = "me"\n'
    evaluation = cal.evaluate(cohort, cal.Protocol.from_toml(head + "".join(entries)))
    found = {(row.metric, row.metric_id) for row in evaluation.rows}
    assert found == {(name, f"ap.{kind}@1") for name, kind in kinds.items()}
    run = json.loads((evaluation.save(tmp_path / "out") / "run.json").read_text())
    assert run["metric_ids"] == ["ap.coco101@1", "ap.voc11@1", "ap.every-point@1"]


def test_the_document_has_the_keys_of_the_contract(evaluation: cal.Evaluation) -> None:
    document = json.loads(evaluation.to_json())
    assert list(document) == [
        "schema",
        "calipers",
        "protocol",
        "cohort",
        "rows",
        "warnings",
        "statistics",
    ]
    assert document["schema"] == "calipers.evaluation/1"
    assert document["calipers"] == cal.__version__
    assert all(list(row) == ROW_KEYS for row in document["rows"])
    assert document["protocol"]["name"] == "coco"
    assert document["cohort"]["images"] == 20
    assert document["cohort"]["models"].keys() == {"model-1", "model-2"}


def test_an_undefined_value_is_null_with_a_reason(cohort: cal.Cohort) -> None:
    nobody = replace(
        cohort, references=cohort.references.keep(np.zeros(len(cohort.references), bool))
    )
    document = json.loads(cal.evaluate(nobody, "coco").to_json())
    assert {(row["value"], row["reason"]) for row in document["rows"]} == {(None, "no_references")}


def test_reasons_by_metric() -> None:
    cohort = random_cohort(5, 1, seed=1)
    silent = cohort.with_predictions("model-1", empty_predictions(5))
    assert cal.evaluate(silent, "voc2007")["PPV@0.5"].reason == "no_predictions"
    assert cal.evaluate(silent, "voc2007")["sensitivity@0.5"].value == 0.0
    assert cal.evaluate(cohort, "rodeo")["RoDeO/cls"].reason == "single_class"
    nobody = replace(
        cohort, references=cohort.references.keep(np.zeros(len(cohort.references), bool))
    )
    empty = nobody.with_predictions("model-1", empty_predictions(5))
    assert cal.evaluate(empty, "rodeo")["RoDeO"].reason == "no_objects"
    assert cal.evaluate(empty, "voc2007")["PPV@0.5"].reason == "no_objects"


def test_a_class_that_is_only_said_of_objects_of_another_one_has_no_references() -> None:
    there = {"boxes": [[0, 0, 10, 10]], "labels": [0]}
    cohort = cal.Cohort.from_arrays(
        [there], [{**there, "labels": [1], "scores": [1.0]}], classes=("a", "b")
    )
    found = cal.evaluate(cohort, "rodeo").get("RoDeO", label="b")
    assert (found.reason, found.n_references, found.n_predictions) == ("no_references", 0, 1)


def test_a_value_without_an_interval_says_that_none_was_asked_for(cohort: cal.Cohort) -> None:
    evaluation = cal.evaluate(cohort, "coco", ci=False)
    estimate = evaluation["model-1", "AP"]
    assert (estimate.method, estimate.reason) == ("none", "not_requested")
    assert np.isnan([estimate.low, estimate.high, estimate.bias]).all()
    said = evaluation.as_dict()["statistics"]
    assert (said["interval"], said["replicates"], said["beside"]) == (None, 0, [])


def test_an_interval_surrounds_its_value_and_says_how_it_was_made(
    evaluation: cal.Evaluation,
) -> None:
    estimate = evaluation["model-1", "AP"]
    assert estimate.low < estimate.value < estimate.high
    assert (estimate.method, estimate.reason, estimate.level) == ("bootse-t-logit", None, 0.95)


def test_the_document_says_whom_the_intervals_speak_for(
    evaluation: cal.Evaluation, cohort: cal.Cohort
) -> None:
    document = json.loads(evaluation.to_json())
    said, n = document["statistics"], len(set(cohort.group("patient")))
    keys = [
        "unit",
        "n_units",
        "generalises_to",
        "interval",
        "level",
        "replicates",
        "seed",
        "interval_rules",
        "beside",
        "groups",
        "each",
    ]
    assert list(said) == keys
    assert (said["unit"], said["n_units"]) == ("patient", n)
    assert said["generalises_to"] == f"other patients like these {n}"
    assert (said["interval"], said["level"], said["replicates"], said["seed"]) == (
        "bootse-t-logit",
        0.95,
        2000,
        0,
    )
    assert len(said["beside"]) == len(document["rows"])
    estimate = evaluation["model-1", "AP"]
    assert said["beside"][0] == {
        "percentile": list(estimate.percentile),
        "mc_error": list(estimate.mc_error),
        "flags": list(estimate.flags),
        "partial": estimate.partial,
    }


def test_groupings_find_their_rows_again(cohort: cal.Cohort) -> None:
    evaluation = cal.evaluate(
        cohort, "coco", ci=False, by=["centre", "class", "size,class", "centre,size"]
    )
    assert [grouping.by for grouping in evaluation.groupings] == [
        "centre",
        "size,class",
        "centre,size",
    ]
    columns = [
        {tuple(row.group or {}) for row in grouping.rows} for grouping in evaluation.groupings
    ]
    assert columns == [{("centre",)}, {("size",)}, {("centre", "size")}]
    assert sum(len(grouping.rows) for grouping in evaluation.groupings) == sum(
        bool(row.group) for row in evaluation.rows
    )
    first = evaluation.groupings[0]
    table = first.table("AP", None, evaluation.models)
    assert list(table) == sorted(set(cohort.group("centre")))
    for name, (one, other) in table.items():
        assert one is evaluation.get("AP", model="model-1", centre=name)
        assert other is evaluation.get("AP", model="model-2", centre=name)
    values = [row[1].value for row in table.values()]
    summary = first.summary("AP", None, "model-2")
    assert summary.mean == pytest.approx(np.mean(values))
    assert (summary.lowest, summary.highest) == (min(values), max(values))


def test_groupings_asked_for_one_after_the_other_are_those_asked_for_at_once(
    cohort: cal.Cohort,
) -> None:
    plain = cal.evaluate(cohort, "coco", ci=False)
    chained, at_once = (
        plain.by("class", "centre").by("centre", "size"),
        plain.by("class", "centre", "size"),
    )
    assert repr(chained.groups) == repr(at_once.groups)
    assert repr(chained.groupings) == repr(at_once.groupings)
    assert plain.groupings == ()
    assert [row for grouping in chained.groupings for row in grouping.rows] == list(
        chained.rows[len(plain.rows) :]
    )
    by = [summary.by for summary in chained.groups]
    assert list(dict.fromkeys(by)) == ["class", "centre", "size"]


def test_numbers_behind_an_estimate(cohort: cal.Cohort, evaluation: cal.Evaluation) -> None:
    counted = ~cohort.references.ignore
    small = counted & (cohort.references.area <= 1024)
    estimate = evaluation["model-1", "AP"]
    assert estimate.n_images == 20
    assert estimate.n_references == counted.sum()
    assert evaluation["model-1", "APs"].n_references == small.sum()
    of_class = evaluation.get("AP", model="model-1", label="class-2")
    assert of_class.n_references == (counted & (cohort.references.label == 1)).sum()


def test_the_unit_is_the_patient_if_there_are_patients(cohort: cal.Cohort) -> None:
    with_patients = cal.evaluate(cohort, "coco").rows[0].estimate
    assert (with_patients.unit, with_patients.n_units) == (
        "patient",
        len(set(cohort.group("patient"))),
    )
    bare = replace(cohort, images=replace(cohort.images, groups={}))
    without = cal.evaluate(bare, "coco").rows[0].estimate
    assert (without.unit, without.n_units) == ("image", 20)
    by_centre = replace(cal.Protocol.load("coco"), cluster="centre")
    assert cal.evaluate(cohort, by_centre).rows[0].estimate.unit == "centre"
    with pytest.raises(cal.UsageError, match="did you mean 'centre'"):
        cal.evaluate(cohort, replace(by_centre, cluster="sentre"))


def test_access_by_name(evaluation: cal.Evaluation) -> None:
    assert evaluation["model-2", "AP"] is evaluation.get("AP", model="model-2")
    assert float(evaluation["model-2", "AP"]) == evaluation["model-2", "AP"].value
    assert evaluation.models == ("model-1", "model-2")
    assert evaluation.metrics[0] == "AP"


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("AP", "several models: say which, one of model-1, model-2"),
        (("model-3", "AP"), "no model 'model-3'; did you mean 'model-"),
        (("model-1", "AP5"), "no metric 'AP5'; did you mean 'AP"),
    ],
)
def test_wrong_names_are_answered_with_the_nearest_one(
    evaluation: cal.Evaluation, key, words: str
) -> None:
    with pytest.raises(cal.UsageError) as caught:
        evaluation[key]
    assert words in str(caught.value)


def test_wrong_classes_and_groups(evaluation: cal.Evaluation) -> None:
    with pytest.raises(cal.UsageError, match="no class 'class1'; did you mean 'class-1'"):
        evaluation.get("AP", model="model-1", label="class1")
    with pytest.raises(cal.UsageError, match="C1"):
        evaluation.get("AP", model="model-1", centre="C1")


def test_without_classes_there_are_pooled_rows_only(tmp_path: Path) -> None:
    text = """schema = "calipers.protocol/1"\nname = "anything"\nsource = "me"
matching.classes = "ignore"
metric = [{ name = "sensitivity", kind = "sensitivity" }, { name = "RoDeO", kind = "rodeo" }]
report.headline = ["sensitivity", "RoDeO"]"""
    found = cal.evaluate(random_cohort(10, 3, seed=1), cal.Protocol.from_toml(text))
    assert [row.label for row in found.rows if row.metric == "sensitivity"] == [None]
    assert found.metrics_per_class == ("RoDeO",)
    with pytest.raises(cal.UsageError, match="no values per class"):
        found.get("sensitivity", label="class-1")
    assert "sensitivity" in found.report(tmp_path / "page.html").read_text(encoding="utf-8")


def test_one_model_needs_no_name() -> None:
    evaluation = cal.evaluate(random_cohort(5, 2, seed=1), "coco")
    assert evaluation["AP"] is evaluation["model-1", "AP"]
    assert set(evaluation.flat("val/")) >= {"val/AP", "val/AP/class-1"}


def test_flat_has_defined_values_only(evaluation: cal.Evaluation) -> None:
    flat = evaluation.flat()
    assert flat["model-1/AP"] == evaluation["model-1", "AP"].value
    assert (
        flat["model-2/AP/class-3"] == evaluation.get("AP", model="model-2", label="class-3").value
    )
    assert len(flat) == sum(not np.isnan(row.estimate.value) for row in evaluation.rows)


def test_frame(evaluation: cal.Evaluation) -> None:
    pytest.importorskip("pandas")
    frame = evaluation.to_frame()
    assert list(frame.columns) == ROW_KEYS
    assert len(frame) == len(evaluation.rows)


def test_the_seed_is_stored(cohort: cal.Cohort) -> None:
    assert cal.evaluate(cohort, "coco", seed=17).protocol.seed == 17
    assert cal.evaluate(cohort, "coco").protocol.seed == 0


def test_a_cohort_without_models_or_images_is_refused() -> None:
    with pytest.raises(cal.InputError) as caught:
        cal.evaluate(random_cohort(3, 2, seed=1, models=0))
    assert caught.value.rule == "no-predictions"
    with pytest.raises(cal.InputError) as caught:
        cal.evaluate(random_cohort(0, 2, seed=1))
    assert caught.value.rule == "no-images"


@pytest.mark.parametrize("how", ["declared", "box"])
def test_sizes_come_from_the_declared_area_or_the_box(how: str) -> None:
    square = {"boxes": [[0, 0, 40, 40]], "labels": [0]}
    cohort = cal.Cohort.from_arrays(
        [{**square, "area": [900], "width": 100, "height": 100}],
        [{**square, "scores": [0.9]}],
        classes=("a",),
    )
    protocol = replace(cal.Protocol.load("coco"), size_from=how)
    small = {"declared": 1.0, "box": np.nan}[how]
    assert cal.evaluate(cohort, protocol)["APs"].value == pytest.approx(small, nan_ok=True)
    unchanged = replace(protocol, rescale_to=(100.0, 100.0))
    assert cal.evaluate(cohort, unchanged)["APs"].value == pytest.approx(small, nan_ok=True)
    rescaled = replace(protocol, rescale_to=(50.0, 50.0))  # a quarter of the area: small either way
    assert cal.evaluate(cohort, rescaled)["APs"].value == pytest.approx(1.0)


def test_sizes_come_from_the_pixels_of_masks() -> None:
    frame = np.zeros((100, 100), bool)
    frame[10:60, 10:60], frame[15:55, 15:55] = True, False  # 900 pixels in a box of 2,500
    square = {"masks": [frame], "labels": [0], "area": [5000.0]}
    masks = cal.Cohort.from_arrays(
        [square], [{"masks": [frame], "labels": [0], "scores": [0.9]}], classes=("a",)
    )
    protocol = replace(cal.Protocol.load("coco"), size_from="mask")
    assert cal.evaluate(masks, protocol)["APs"].value == pytest.approx(1.0)
    assert cal.evaluate(masks, replace(protocol, size_from="box"))["APm"].value == pytest.approx(
        1.0
    )
    larger = replace(protocol, rescale_to=(200.0, 200.0))  # four times the pixels
    assert np.isnan(cal.evaluate(masks, larger)["APs"].value)
    box = {"boxes": [[10, 10, 60, 60]], "labels": [0], "scores": [0.9]}
    boxed = cal.Cohort.from_arrays([square], [box], classes=("a",))
    assert cal.evaluate(boxed, protocol)["APs"].value == pytest.approx(1.0), (
        "a hit counts, whatever its own size"
    )


def test_rescaling_needs_image_sizes_and_masks_need_masks() -> None:
    square = {"boxes": [[0, 0, 40, 40]], "labels": [0]}
    cohort = cal.Cohort.from_arrays([square], [{**square, "scores": [0.9]}], classes=("a",))
    coco = cal.Protocol.load("coco")
    with pytest.raises(cal.UsageError, match="size of every image"):
        cal.evaluate(cohort, replace(coco, rescale_to=(50.0, 50.0)))
    with pytest.raises(cal.UsageError, match="masks"):
        cal.evaluate(cohort, replace(coco, size_from="mask"))


def warnings_of(cohort: cal.Cohort, protocol: str = "coco") -> str:
    return "\n".join(cal.evaluate(cohort, protocol, ci=False).warnings)


def test_warnings_say_what_a_reader_must_know() -> None:
    cohort = random_cohort(10, 3, seed=2)
    assert "predictions reach outside their image" in warnings_of(cohort)
    cohort = replace(cohort, images=replace(cohort.images, size=np.full((10, 2), np.nan)))
    assert warnings_of(cohort) == ""
    assert "tie" in warnings_of(random_cohort(10, 3, seed=2, tie_levels=2))
    assert "all scores are equal" in warnings_of(random_cohort(10, 3, seed=2, tie_levels=1))
    assert "images have no prediction" in warnings_of(
        cohort.with_predictions("silent", empty_predictions(10))
    )
    assert "RoDeO does not support ignored references" in warnings_of(
        random_cohort(10, 3, seed=2, crowd_share=0.5), "rodeo"
    )
    unscored = replace(cohort.predictions("model-1"), scored=False)
    assert "no scores; all count as 1" in warnings_of(cohort.with_predictions("model-1", unscored))
    wider = replace(cohort, classes=(*cohort.classes, "rare"))
    assert "left out of class means" in warnings_of(wider)
    assert "rare" in warnings_of(wider)


def test_predictions_beyond_the_limit_are_told() -> None:
    many = {
        "boxes": [[0, 0, 10, 10]] * 103,
        "labels": [0] * 103,
        "scores": np.linspace(0.1, 0.9, 103),
    }
    cohort = cal.Cohort.from_arrays(
        [{"boxes": [[0, 0, 10, 10]], "labels": [0]}], [many], classes=("a",)
    )
    assert "model: 3 predictions beyond the best 100" in warnings_of(cohort)


def test_shortcuts_agree_with_the_presets(cohort: cal.Cohort, evaluation: cal.Evaluation) -> None:
    thresholds = np.linspace(0.5, 0.95, 10)
    found = cal.average_precision(cohort, thresholds, model="model-1", area=(0, 1e10))
    assert found == pytest.approx(evaluation["model-1", "AP"].value, abs=1e-15)
    assert (
        cal.average_precision(cohort, 0.5, model="model-2") == evaluation["model-2", "AP50"].value
    )
    rodeo = cal.evaluate(cohort, "rodeo")
    assert cal.rodeo(cohort, "model-2").total == rodeo["model-2", "RoDeO"].value
    assert cal.rodeo(cohort, "model-2").per_class["class-1"].shape == (
        rodeo.get("RoDeO/shape", model="model-2", label="class-1").value
    )


def test_shortcuts_need_one_model(cohort: cal.Cohort) -> None:
    for shortcut in (cal.rodeo, cal.average_precision):
        with pytest.raises(cal.UsageError, match="several models"):
            shortcut(cohort)
        with pytest.raises(cal.UsageError, match="did you mean"):
            shortcut(cohort, model="model-9")
        with pytest.raises(cal.InputError, match="at least one model"):
            shortcut(random_cohort(3, 2, seed=1, models=0))
    with pytest.raises(cal.UsageError, match="tie rule"):
        cal.average_precision(cohort, model="model-1", ties="blocks")
    with pytest.raises(cal.UsageError, match="threshold"):
        cal.average_precision(cohort, (), model="model-1")


def test_too_few_units_are_shown_by_themselves() -> None:
    cohort = cal.demo_cohort()
    few = cal.evaluate(
        cohort, replace(cal.Protocol.load("rodeo"), cluster="centre", replicates=100)
    )
    centres = sorted(set(cohort.group("centre").tolist()))
    assert len(centres) < 5
    assert few["mislabels", "RoDeO"].reason == "too_few_units"
    each = [
        entry
        for entry in few.as_dict()["statistics"]["each"]
        if (entry["model"], entry["metric"]) == ("mislabels", "RoDeO")
    ]
    assert [entry["centre"] for entry in each] == centres
    alone = cohort.take(np.flatnonzero(cohort.group("centre") == centres[0]))
    assert each[0]["value"] == cal.evaluate(alone, "rodeo", ci=False)["mislabels", "RoDeO"].value
    assert few.rows[-1].group is None  # the rows of the contract are not touched


@pytest.mark.parametrize(
    "change",
    [
        {"level": float("nan")},
        {"level": 1.0},
        {"replicates": 10**12},
        {"seed": 2**64},
        {"replicates": 7},
    ],
)
def test_statistics_that_cannot_be_are_usage_errors(change: dict[str, float]) -> None:
    with pytest.raises(cal.UsageError):
        cal.evaluate(cal.demo_cohort(), replace(cal.Protocol.load("rodeo"), **change))


def test_patients_of_several_centres_are_told() -> None:
    cohort = cal.demo_cohort()
    crossed = cohort.with_groups({**cohort.images.groups, "half": np.array(["a", "b"] * 60)})
    told = cal.evaluate(
        crossed, replace(cal.Protocol.load("rodeo"), strata="half", replicates=100)
    ).warnings
    assert any("occur in more than one half" in words for words in told)


def test_wrong_arguments_are_usage_errors() -> None:
    with pytest.raises(cal.UsageError, match="takes a cohort, not str"):
        cal.evaluate("references.json", "coco")  # type: ignore[arg-type]
    with pytest.raises(cal.UsageError, match="a whole number from 0"):
        cal.evaluate(cal.demo_cohort(), "coco", seed=-1)
