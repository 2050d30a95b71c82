"""Metrics that are asked for by name: what the name says, and what no name says."""

from __future__ import annotations

from typing import Any

import pytest

import calipers as cal
from calipers import registry
from calipers.evaluation.protocol import Protocol, presets
from calipers.metrics.metric_names import hint_among, named_plan, short_names
from evaluated import evaluated_demo

COCO = Protocol.load("coco").thresholds


@pytest.mark.parametrize(
    ("name", "kind", "options"),
    [
        ("AP@0.4", "average-precision", {"thresholds": [0.4]}),
        ("AP", "average-precision", {}),
        ("mAP@0.1:0.3", "average-precision", {"thresholds": [0.1, 0.15, 0.2, 0.25, 0.3]}),
        ("mAP@0.5:0.95", "average-precision", {"thresholds": list(COCO)}),
        ("FROC@1", "froc", {"rates": [1.0], "thresholds": [0.5]}),
        ("FROC", "froc", {"thresholds": [0.5]}),
        ("F1@0.5", "f-beta", {"beta": 1, "thresholds": [0.5]}),
        (
            "F2@iop:0.25#0.3",
            "f-beta",
            {"beta": 2, "criterion": "iop", "thresholds": [0.25], "score_cut": 0.3},
        ),
        ("PPV@point-in-mask", "ppv", {"criterion": "point-in-mask", "thresholds": [0.5]}),
        ("F1/image@centre", "instance-f1", {"criterion": "point-in-hull", "thresholds": [0.5]}),
        (
            "F1@center-distance:20",
            "f-beta",
            {"beta": 1, "criterion": "centre-distance", "thresholds": [20.0]},
        ),
        ("FP/image@0.3", "false-alarms", {"thresholds": [0.3]}),
        ("RoDeO/loc", "rodeo", {"part": "localization"}),
        ("AUROC/case", "case-auroc", {"thresholds": [0.5]}),
        ("Dice@0.5", "voxel-dice", {"at": 0.5}),
        ("Dice@fpr:0.05", "voxel-dice", {"at": "fpr:0.05"}),
        ("AP/sample", "voxel-average-precision", {"level": "sample"}),
    ],
)
def test_a_name_says_what_is_computed(name: str, kind: str, options: dict[str, Any]) -> None:
    plan = named_plan(name, COCO)
    assert (plan.name, plan.kind) == (name, kind)
    assert set(plan.options) == set(options)
    for key, value in options.items():
        assert plan.options[key] == (pytest.approx(value) if key == "thresholds" else value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("APP@0.5", "no metric 'APP@0.5'; did you mean 'AP'"),
        ("recall@0.5", "did you mean 'sensitivity@0.5'"),
        ("precision@iop:0.3#0.2", "did you mean 'PPV@iop:0.3#0.2'"),
        ("map50", "did you mean 'mAP50'"),
        ("froc", "did you mean 'FROC'"),
        ("fppi@0.5", "did you mean 'FP/image@0.5'"),
        ("AP@", "a threshold is missing"),
        ("AP@x", "no criterion 'x'"),
        ("AP@0.7:0.5", "does not ascend"),
        ("AP@0.1:0.2:0.3", "two ends of a range"),
        ("FROC@1:2", "one number stands behind"),
        ("AP@0.5x", "expected a number, got '0.5x'"),
        ("F1@0.5#high", "expected a number, got 'high'"),
        ("RoDeO@0.5", "has no threshold"),
    ],
)
def test_what_no_name_says_is_refused(name: str, said: str) -> None:
    with pytest.raises(cal.UsageError, match=said):
        named_plan(name, COCO)


def test_a_word_of_others_for_a_metric_is_no_name_of_another() -> None:
    names = set(short_names())
    for kind in registry.METRICS:
        for word, own in registry.resolve("metric", kind).facts.synonyms.items():
            assert own in names
            assert word not in names


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("AP50", "did you mean 'AP@0.5'?"),
        ("ap75", "did you mean 'AP75'?"),
        ("AP@0.75", "did you mean 'AP75'?"),
        ("Recall@0.5", "did you mean 'sensitivity@0.5'?"),
        ("precision@0.5", "known: AP@0.5, AP75, sensitivity@0.5, FROC"),
    ],
)
def test_a_hint_names_a_metric_that_is_there(name: str, hint: str) -> None:
    assert hint_among(name, ["AP@0.5", "AP75", "sensitivity@0.5", "FROC"]) == hint


def test_names_mean_what_they_mean_in_presets() -> None:
    """A metric of a preset that is asked for by its name elsewhere is computed alike there."""
    known, n = short_names(), 0
    for preset in presets():
        protocol = Protocol.load(preset)
        for plan, resolved in zip(protocol.metrics, protocol.resolved()):
            word = plan.name.partition("@")[0].partition("#")[0]
            if word not in known or known[word][0] != plan.kind or "@" not in plan.name:
                continue
            named = named_plan(plan.name, protocol.thresholds)
            for key, value in named.options.items():
                if key in ("thresholds", "rates"):
                    written = resolved.options.get(key, value)
                    assert list(value) == pytest.approx(list(written)), (preset, plan.name)
                elif key != "criterion":
                    assert resolved.options.get(key, value) == value
            n += 1
    assert n > 60


def test_a_protocol_with_other_metrics() -> None:
    protocol = Protocol.load("coco").with_metrics(["AP50", "AP@0.4", "s=0.5*AP + 0.5*F1@0.3"])
    assert [plan.name for plan in protocol.metrics] == ["AP50", "AP@0.4", "s"]
    assert (protocol.name, protocol.headline) == ("coco, metrics chosen", ("AP50", "AP@0.4", "s"))
    assert Protocol.from_toml(protocol.to_toml()) == protocol
    evaluation = evaluated_demo(protocol, ci=False)
    full = evaluated_demo("coco", ci=False)
    assert evaluation["mislabels", "AP50"].value == full["mislabels", "AP50"].value
    same = Protocol.load("coco")
    assert same.with_metrics([plan.name for plan in same.metrics]) is same
    with pytest.raises(cal.InputError, match="unique metric names"):
        same.with_metrics(["AP@0.4", "AP@0.4"])
    with pytest.raises(cal.InputError, match="thresholds of at most 1"):
        same.with_metrics(["AP@40"])


def test_the_names_of_coco_are_thresholds() -> None:
    """Also as terms of a weighted sum, which know no protocol."""
    for name, same in (("AP50", "AP@0.5"), ("AP75", "AP@0.75"), ("mAP30", "mAP@0.3")):
        plan, other = named_plan(name, (0.5,)), named_plan(same, (0.5,))
        assert (plan.kind, plan.options) == (other.kind, other.options)
    for name in ("AP5", "AP05", "AP500", "F150"):
        with pytest.raises(cal.UsageError, match="no metric"):
            named_plan(name, (0.5,))


def test_centre_may_be_spelled_center() -> None:
    """Also where a protocol compares the name of a metric with what it computes."""
    values = []
    for name in ("F1@center-distance:20", "F1@centre-distance:20"):
        protocol = Protocol.load("overview").with_metrics([name])
        values.append(evaluated_demo(protocol, ci=False).rows[0].estimate.value)
    assert values[0] == values[1] > 0
