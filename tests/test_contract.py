# SPDX-License-Identifier: Apache-2.0
"""The interface that users rely on: names, arguments, words of the command line, keys of JSON.

These calls are written as users have them in their scripts. A change that breaks one of them breaks
theirs: it needs a line in the changelog, and a reason.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.cli.main import VERBS

N = 12
REFERENCES: list[dict[str, Any]] = [
    {
        "boxes": np.array([[4.0, 4.0, 20.0, 24.0]]),
        "labels": np.array([k % 2]),
        "image_id": f"i{k}",
        "ignore": [False],
        "crowd": [False],
        "area": [320.0],
        "patient": f"p{k}",
        "centre": f"c{k % 2}",
        "scanner": "s",
        "width": 64,
        "height": 64,
        "spacing": (1.0, 1.0),
    }
    for k in range(N)
]
PREDICTIONS: list[dict[str, Any]] = [
    {
        "boxes": [[5.0, 4.0, 20.0, 24.0], [30.0, 30.0, 50.0, 50.0]],
        "labels": [k % 2, 0],
        "scores": [0.5 + 0.02 * k, 0.1],
        "image_id": f"i{k}",
    }
    for k in range(N)
]
ROW = [
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
    "n_images",
    "n_references",
    "n_predictions",
    "bias",
    "undefined",
    "reason",
]
COCO = ["AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl"]
CORRUPTIONS = {
    "position-noise": "sigma",
    "position-bias": "bias",
    "shape-noise": "sigma",
    "size-noise": "sigma",
    "aspect-noise": "sigma",
    "class-underprediction": "p",
    "class-overprediction": "p",
    "box-overprediction": "mean",
    "class-confusion": "p",
    "random-boxes": "size",
}
LATER = {"recommend", "explore", "cite"}  # verbs that are planned
PROMISED = [
    "demo",
    "inspect",
    "evaluate",
    "compare",
    "sweep",
    "multiverse",
    "corrupt",
    "stability",
    "maps",
    "monitor",
    "fuse",
    "boxes",
    "mixed",
    "agreement",
    "check",
    "verify",
    "merge",
    "convert",
    "report",
    "study",
    "train",
    "predict",
]


def cohort(models: Any = PREDICTIONS) -> cal.Cohort:
    return cal.Cohort.from_arrays(REFERENCES, models, classes=("a", "b"), box_format="xyxy")


@pytest.fixture(scope="module")
def two() -> cal.Evaluation:
    models = {"ours": PREDICTIONS, "theirs": PREDICTIONS[:6] + [_none(k) for k in range(6, N)]}
    return cal.evaluate(cohort(models), protocol="coco", seed=0, ci=True)


def _none(k: int) -> dict[str, Any]:
    return {"boxes": [], "labels": [], "scores": [], "image_id": f"i{k}"}


def test_models_of_arrays_have_their_names() -> None:
    assert list(cohort().models) == ["model"]
    assert list(cohort(None).models) == []
    assert list(cohort({"a": PREDICTIONS, "b": PREDICTIONS}).models) == ["a", "b"]
    raw = [{**record, "scores": [7.0, -2.0]} for record in PREDICTIONS]
    made = cal.Cohort.from_arrays(REFERENCES, raw, classes=("a", "b"), score_scale="raw")
    assert made.models["model"].score.max() == 7.0


def test_images_are_paired_by_id() -> None:
    turned = cal.evaluate(cohort(PREDICTIONS[::-1]), "coco", ci=False)
    assert turned["AP"].value == cal.evaluate(cohort(), "coco", ci=False)["AP"].value


def test_an_evaluation_answers(two: cal.Evaluation, tmp_path: Path) -> None:
    assert list(dict.fromkeys(row.metric for row in two.rows)) == COCO
    assert two["ours", "AP50"].value >= two["theirs", "AP50"].value
    one = cal.evaluate(cohort(), protocol="coco", seed=0, ci=True)
    assert one["AP"].low <= one["AP"].value <= one["AP"].high
    with pytest.raises(cal.UsageError, match="several models"):
        two["AP"]
    assert two.get("AP", model="ours", label="a").n_references == N // 2
    assert two.by("centre") is not None
    grouped = cal.evaluate(cohort(), "coco", by=["centre"], ci=False)
    assert grouped.get("AP", centre="c0").n_images == N // 2
    assert two.compare("ours", "theirs") is not None
    assert json.loads(two.to_json())["schema"] == "calipers.evaluation/1"
    assert "val/ours/AP" in two.flat("val/")
    assert Path(two.report(tmp_path / "out.html")).stat().st_size > 10_000
    pytest.importorskip("pandas")
    assert len(two.to_frame()) == len(two.rows)


def test_rows_have_their_keys_in_this_order(two: cal.Evaluation) -> None:
    document = json.loads(two.to_json())
    assert list(document)[:6] == ["schema", "calipers", "protocol", "cohort", "rows", "warnings"]
    for row in document["rows"]:
        assert list(row) == ROW
    assert document["rows"][0]["class"] is None
    assert document["rows"][0]["group"] is None


def test_metrics_have_functions_of_their_own() -> None:
    result = cal.rodeo(cohort())
    parts = (result.total, result.localization, result.shape, result.classification)
    assert all(isinstance(part, float) for part in parts)
    assert set(result.per_class) == {"a", "b"}
    value = cal.average_precision(
        cohort(), iou=(0.5,), interpolation="coco101", area=None, max_dets=100
    )
    assert value == pytest.approx(cal.evaluate(cohort(), "coco", ci=False)["AP50"].value)


@pytest.mark.parametrize(("kind", "parameter"), CORRUPTIONS.items())
def test_oracles(kind: str, parameter: str) -> None:
    made = cal.corrupt(cohort(None), kind, **{parameter: 0.5}, seed=0)
    assert list(made.models) == [f"{kind}({parameter}=0.5)"]
    assert list(cal.corrupt(cohort(None), kind, name="x", **{parameter: 0.5}).models) == ["x"]


def test_repeated_trainings() -> None:
    maps = np.random.default_rng(0).random((3, 10, 64))
    assert isinstance(cal.stability(maps, labels=None, threshold=0.5)["APJ"], cal.Estimate)
    ragged = [np.random.default_rng(k).random((3, 20 + k)) for k in range(8)]
    assert cal.stability(ragged)["APJ"].n_images == 8
    assert cal.agreement_scores(40, 10, 10, 40)["APJ"] == pytest.approx(0.4286, abs=1e-4)


def test_maps() -> None:
    labels = np.zeros((16, 16), int)
    labels[4:9, 4:9] = 1
    perfect = cal.soft_instance_iou(labels.astype(float), labels, alpha=0.5, variant="tversky")
    assert perfect == pytest.approx(1.0)
    pairs = ((labels * 0.9, labels) for _ in range(3))  # an iterable
    assert cal.evaluate_maps(pairs, ci=False)["AP/dataset"].value == 1.0
    maps = np.zeros((2, 1, 32, 32))
    maps[:, 0, 4:9, 4:9] = 1.0
    assert cal.boxes_from_heatmaps(maps, classes=("a",)) is not None


def test_monitors() -> None:
    scope = cal.scope_scores(cohort(), iou=0.5)
    result = cal.evaluate_monitor({"m": np.arange(float(N))}, scope, tau=0.5, ood=None)
    assert result.monitors == ("m",)


@pytest.mark.parametrize(
    "fuse", [cal.weighted_boxes_fusion, cal.nms, cal.soft_nms, cal.non_maximum_weighted]
)
def test_fusion_of_arrays(fuse: Any) -> None:
    boxes = [np.array([[0, 0, 0.5, 0.5]]), np.array([[0, 0, 0.52, 0.5]])]
    fused = fuse(boxes, [np.array([0.9]), np.array([0.8])], [np.array([0]), np.array([0])])
    assert [len(part) for part in fused] == [len(fused[0])] * 3


def test_fusion_of_cohorts() -> None:
    models = {"x": PREDICTIONS, "y": PREDICTIONS}
    assert len(cal.fuse(cohort(models), recipe="endocv2022").models) == 3
    options = {"weights": None, "iou_threshold": 0.5, "skip_threshold": 0.0, "confidence": "avg"}
    boxes = [np.array([[0, 0, 0.5, 0.5]])] * 2
    _, scores, _ = cal.weighted_boxes_fusion(
        boxes, [np.array([0.9]), np.array([0.8])], [np.array([0])] * 2, **options
    )
    assert scores == pytest.approx([0.85])


def test_choices_and_mixed_models_exist() -> None:
    for function in (cal.sweep, cal.multiverse, cal.mixed_model):
        assert callable(function)


def test_notebooks_show_results(two: cal.Evaluation) -> None:
    for result in (two, two["ours", "AP"], two.cohort, two.compare("ours", "theirs")):
        assert "<" in (result._repr_html_() or "")


def test_verbs() -> None:
    assert set(PROMISED) <= set(VERBS)
    assert not LATER & set(VERBS), "move the verb from LATER to PROMISED"


def test_common_options_of_the_command_line() -> None:
    from calipers.cli.evaluate import evaluate

    options = {option for parameter in evaluate.params for option in parameter.opts}
    promised = (
        "-o --preset --protocol --by --cluster --format --box-format --seed --jobs --engine "
        "--scheduler --strict --quiet --json --force --images --redact --part"
    )
    assert set(promised.split()) <= options


def test_reading_takes_predictions_and_groups_by_name(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("image,class,x0,y0,x1,y1\nx,a,0,0,5,5\n")
    (tmp_path / "p.csv").write_text("image,class,x0,y0,x1,y1,score\nx,a,0,0,5,5,0.5\n")
    (tmp_path / "g.csv").write_text("image,patient\nx,P1\n")
    files = {"ours": str(tmp_path / "p.csv")}
    read = cal.read(tmp_path / "r.csv", predictions=files, groups=tmp_path / "g.csv", format="csv")
    assert list(read.models) == ["ours"]
    assert list(read.images.groups) == ["patient"]


def test_names_of_metrics() -> None:
    assert {"RoDeO", "RoDeO/loc", "RoDeO/shape", "RoDeO/cls", "mAP@0.1:0.7"} <= _shown("rodeo")
    counts = {"sensitivity@0.5", "PPV@0.5", "F1@0.5", "FP/image@0.5", "FROC", "AP@0.5"}
    assert counts <= _shown("overview")
    errors = {f"dAP/{kind}" for kind in ("cls", "loc", "both", "dup", "bkg", "miss")}
    assert errors <= _shown("tide")
    of_maps = (
        "AP/dataset AP/sample AP/slice AUROC/dataset Dice IoU AUPRO softIoU F1@0.5 F1@0.01 "
        "F1@centre"
    )
    assert set(of_maps.split()) <= {plan.name for plan in cal.Protocol.load("anomaly").metrics}
    repeated = cal.stability(np.random.default_rng(0).random((3, 10, 64)))
    for name in [
        "PJ",
        "PO",
        "APO",
        "HAPJ",
        "APJ",
        "AJ",
        "TAR",
        "PAR",
        "NAR",
        "Pearson",
        "Spearman",
        "Kendall-b",
        "Kendall-a",
    ]:
        assert repeated[name].n_images == 10
    ood = np.arange(N) % 2 == 0
    scope = cal.scope_scores(cohort(), iou=0.5)
    watched = cal.evaluate_monitor({"m": np.arange(float(N))}, scope, tau=0.9, ood=ood)
    assert {"AUROC", "AUPR", "FPR95", "MCC", "AURC", "E-AURC", "SG", "RH", "AC"} <= {
        row.metric for row in watched.rows
    }
    paradigms = {(row.group or {}).get("paradigm") for row in watched.rows}
    assert {"oms", "ood"} <= paradigms


def _shown(preset: str) -> set[str]:
    return set(cal.evaluate(cohort(), preset, ci=False).metrics)
