"""Options of metrics on maps: what a plan may ask for, and keys that say everything."""

from __future__ import annotations

from typing import Any

import pytest

import calipers as cal
from calipers import registry
from calipers.metrics.maps import MapMetric, Measure
from map_cases import every_level, map_protocol


def compiled(kind: str, name: str = "m", **options: Any) -> Measure:
    (metric,) = map_protocol({name: {"kind": kind, **options}}).compile()
    (measure,) = metric.measures  # type: ignore[attr-defined]
    return measure


def test_defaults() -> None:
    assert compiled("voxel-average-precision") == Measure("AP", "dataset")
    assert compiled("aupro") == Measure("AUPRO", "dataset", limit=0.3)
    assert compiled("voxel-dice") == Measure("Dice", "dataset", "best")
    assert compiled("soft-instance-iou") == Measure(
        "softIoU", "sample", alpha=0.5, variant="tversky"
    )


def test_keys_differ_exactly_where_measures_differ() -> None:
    metrics = map_protocol(every_level()).compile()
    measures = [measure for metric in metrics for measure in getattr(metric, "measures", ())]
    assert len({measure.key for measure in measures}) == len(set(measures))
    kinds = [registry.resolve("metric", kind) for kind in registry.known("metric")]
    quantities = {kind.quantity for kind in kinds if issubclass(kind, MapMetric)}
    assert {measure.quantity for measure in measures} == quantities


def test_what_a_threshold_is() -> None:
    assert compiled("voxel-dice", at=0.25).threshold == 0.25
    assert compiled("voxel-dice", at=1).threshold == 1.0
    assert compiled("voxel-dice", at="fpr:0.05").rate == 0.05
    assert compiled("voxel-dice").threshold is None
    assert compiled("voxel-dice").rate is None
    assert compiled("voxel-dice").pooled
    assert not compiled("voxel-dice", at=0.5).pooled
    assert compiled("voxel-iou", "IoU@fpr:0.1", at="fpr:0.1").pooled
    assert not compiled("voxel-auroc", level="sample").pooled


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        (
            "voxel-auroc",
            {"level": "voxel"},
            "level is one of dataset, sample, slice, batch, not 'voxel'",
        ),
        ("aupro", {"level": "slice"}, "level is one of dataset, sample"),
        ("soft-instance-iou", {"level": "dataset"}, "level is one of sample"),
        ("aupro", {"limit": 0.0}, "limit is above 0"),
        ("aupro", {"limit": 1.5}, r"limit lies in \[0, 1\]"),
        ("aupro", {"limit": -0.5}, "limit"),
        ("soft-instance-iou", {"alpha": 2.0}, r"alpha lies in \[0, 1\]"),
        ("soft-instance-iou", {"variant": "dice"}, "variant is one of tversky, jaccard, printed"),
        ("voxel-dice", {"at": "worst"}, "at is a score, 'best' or 'fpr:0.05'"),
        ("voxel-dice", {"at": "fpr:"}, "at is a score"),
        ("voxel-dice", {"at": 0.0}, "at is a score"),
        ("voxel-dice", {"at": 1.5}, "at is a score"),
        ("voxel-dice", {"at": True}, "at is a score"),
        ("voxel-dice", {"limit": 0.3}, "limit"),
        ("voxel-auroc", {"at": 0.5}, "at"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    kind: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises((cal.UsageError, cal.InputError), match=words):
        compiled(kind, **options)


def test_a_name_that_claims_a_threshold_has_it() -> None:
    assert compiled("voxel-dice", "Dice@0.5", at=0.5).threshold == 0.5
    with pytest.raises(cal.UsageError, match=r"claims 0\.5, but its option at is best"):
        compiled("voxel-dice", "Dice@0.5")
    with pytest.raises(cal.UsageError, match=r"claims 0\.5, but its option at is 0\.4"):
        compiled("voxel-dice", "Dice@0.5", at=0.4)
