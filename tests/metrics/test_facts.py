"""What metrics say of themselves, against what they do."""

from __future__ import annotations

import numpy as np
import pytest

from cases import cohort_of, metric_of, values_of


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("average-precision", {}),
        ("average-recall", {}),
        ("accuracy", {}),
        ("accuracy", {"average": "pooled"}),
        ("sensitivity", {}),
        ("sensitivity", {"average": "classes"}),
        ("ppv", {"average": "classes"}),
        ("f-beta", {}),
        ("false-alarms", {}),
        ("count", {"of": "TP"}),
        ("froc", {}),
        ("rodeo", {}),
    ],
    ids=str,
)
def test_facts_say_which_pooled_values_are_means_over_classes(kind: str, options: dict[str, str]) -> None:
    metric = metric_of(kind, **options)
    values = values_of(metric, cohort_of("plain", seed=21, n_images=40))[:, 0]
    assert (abs(np.nanmean(values[1:]) - values[0]) < 1e-12) == ("m" in metric.facts.class_means)


@pytest.mark.parametrize(
    ("interpolation", "rough"), [("coco101", True), ("voc11", True), ("every-point", False), ("tie-aware", False)]
)
def test_only_average_precision_at_fixed_recalls_is_rough(interpolation: str, rough: bool) -> None:
    facts = metric_of("average-precision", interpolation=interpolation).facts
    assert facts.rough == (frozenset(facts.names) if rough else frozenset())
