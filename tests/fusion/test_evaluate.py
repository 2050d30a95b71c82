"""The evaluation of an ensemble: the numbers as by hand, paired, with every member left out."""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from calipers.fusion.evaluate import evaluate_fusion
from calipers.fusion.fuse import carry_out
from calipers.fusion.recipe import FusionRecipe
from calipers.fusion.result import FusionDocument, FusionEvaluation
from calipers.fusion.tables import values_table
from calipers.fusion.words import sentences

METRIC = "AP50"


@pytest.fixture(scope="module")
def evaluation() -> FusionEvaluation:
    demo = cal.demo_cohort()
    fusion = carry_out(demo, FusionRecipe.load("endocv2022"))
    protocol = cal.Protocol.load("coco")
    return evaluate_fusion(demo, fusion, protocol, name="all", metrics=[METRIC])


def test_values_are_those_of_an_evaluation(evaluation: FusionEvaluation) -> None:
    cohort = cal.fuse(cal.demo_cohort(), name="all")
    plain = cal.evaluate(cohort, "coco")
    assert [row.model for row in evaluation.rows] == list(cohort.models)
    for row in evaluation.rows:
        assert row.estimate.value == plain[row.model, METRIC].value
        assert (row.estimate.low, row.estimate.high) == (
            plain[row.model, METRIC].low,
            plain[row.model, METRIC].high,
        )


def test_differences_are_paired_and_of_one_family(evaluation: FusionEvaluation) -> None:
    cohort = cal.fuse(cal.demo_cohort(), name="all")
    plain = cal.evaluate(cohort, "coco", ci=False).compare("all", metrics=[METRIC])
    assert [row.model_b for row in evaluation.members] == list(cal.demo_cohort().models)
    for row in evaluation.members:
        alone = plain.get(METRIC, b=row.model_b)
        assert row.estimate.value == alone.estimate.value
        assert row.estimate.low == pytest.approx(alone.estimate.low)
        assert row.family == 6


def test_the_contribution_is_the_ensemble_minus_the_one_without(
    evaluation: FusionEvaluation,
) -> None:
    demo = cal.demo_cohort()
    whole = next(row.estimate.value for row in evaluation.rows if row.model == "all")
    for member in demo.models:
        others = [name for name in demo.models if name != member]
        reduced = cal.fuse(demo, members=others, name="less")
        value = cal.evaluate(reduced, "coco", ci=False)["less", METRIC].value
        row = evaluation.contribution(member, METRIC)
        assert row.value_b == value
        assert row.estimate.value == pytest.approx(whole - value)
        assert np.isfinite([row.estimate.low, row.estimate.high, row.p_adjusted]).all()


def document(evaluation: FusionEvaluation) -> FusionDocument:
    fusion = carry_out(cal.demo_cohort(), FusionRecipe.load("endocv2022"))
    return FusionDocument(fusion, "all", "fused.json", evaluation=evaluation)


def test_the_ensemble_stands_out_among_the_curves(evaluation: FusionEvaluation) -> None:
    curves = document(evaluation).figure("pr")
    assert {line.name: line.slot for line in curves.lines} == {
        "mislabels": 1,
        "overpredicts": 2,
        "misses-small": 3,
        "all": 0,
    }
    assert all(line.low is not None for line in curves.lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("calipers.fusion.figures.MOST_BANDS", 3)
        curves = document(evaluation).figure("pr")
    assert [line.name for line in curves.lines if line.low is not None] == ["all"]
    assert curves.note.startswith("The band is that of the ensemble.")


def test_ensembles_without_a_member_have_no_notes() -> None:
    outside = {"boxes": [[-5.0, 0, 5, 5]], "scores": [0.5], "labels": [0]}
    size = {"width": 10, "height": 10}
    references = [{"boxes": [[0.0, 0, 5, 5]], "labels": [0], **size}] * 4
    cohort = cal.Cohort.from_arrays(
        references, {"a": [outside] * 4, "b": [outside] * 4}, classes=("x",)
    )
    fusion = carry_out(cohort, FusionRecipe.load("nms"))
    ours = evaluate_fusion(cohort, fusion, cal.Protocol.load("coco"), name="all", metrics=[METRIC])
    note = "4 of 4 predictions reach outside their image"
    assert any(text.startswith(f"without a: {note}") for text in ours.evaluation.warnings)
    told = [text.split(":")[0] for text in ours.warnings if note in text]
    assert told == ["a", "b", "all"]


def test_a_metric_of_which_less_is_better_has_a_unit_and_says_so() -> None:
    demo = cal.demo_cohort()
    frames = [f"v{k % 10}" for k in range(demo.n_images)]
    videos = demo.with_groups({"sequence": frames})
    fusion = carry_out(videos, FusionRecipe.load("nms"), ["overpredicts", "mislabels"])
    protocol = cal.Protocol.load("giana2021")
    ours = evaluate_fusion(videos, fusion, protocol, name="all", metrics=["latency@0.5"])
    notes = values_table(ours).notes
    assert notes[1:] == ("Higher is better, except for latency@0.5.", "latency@0.5 is in frames.")
    first = sentences(FusionDocument(fusion, "all", "fused.json", evaluation=ours))[0]
    assert " frames" in first
    assert "*" not in first


def test_a_single_member_has_no_contribution() -> None:
    demo = cal.demo_cohort()
    fusion = carry_out(demo, FusionRecipe.load("nms"), ["overpredicts"])
    alone = evaluate_fusion(demo, fusion, cal.Protocol.load("coco"), name="nms", metrics=[METRIC])
    assert alone.without == {}
    assert [row.model for row in alone.rows] == ["overpredicts", "nms"]


def test_the_table_goes_metric_by_metric() -> None:
    demo = cal.demo_cohort()
    fusion = carry_out(demo, FusionRecipe.load("nms"))
    protocol = cal.Protocol.load("coco")
    metrics = ["AP50", "AP75"]
    evaluation = evaluate_fusion(demo, fusion, protocol, name="all", metrics=metrics)
    rows = [row[:2] for row in values_table(evaluation).rows]
    models = [*demo.models, "all"]
    assert rows == [(metric, model) for metric in metrics for model in models]
