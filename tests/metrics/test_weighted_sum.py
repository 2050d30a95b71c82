"""Weighted sums: the value, the interval of the sum of replicates, and what cannot be added."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import calipers as cal
from calipers.evaluation.protocol import Protocol
from calipers.statistics.weights import bootstrap
from cases import cohort_of, metric_of, values_of
from evaluated import evaluated_demo


def node21(replicates: int = 200) -> Protocol:
    return replace(Protocol.load("node21"), replicates=replicates)


def test_the_score_of_node21_is_the_sum_of_its_parts() -> None:
    for kind in ("plain", "tied scores", "one class"):
        evaluation = cal.evaluate(cohort_of(kind, 3, n_images=40), node21(), ci=False)
        for label in (None, *evaluation.cohort.classes):
            parts = [
                evaluation.get(name, label=label).value for name in ("AUROC/case", "FROC@0.25")
            ]
            value = evaluation.get("score", label=label).value
            assert value == pytest.approx(0.75 * parts[0] + 0.25 * parts[1], nan_ok=True)


def test_the_interval_comes_from_the_sums_of_the_replicates() -> None:
    """Not from added variances: both terms see the same draws."""
    evaluation = evaluated_demo(node21())
    (by_kind,) = [m for m in evaluation.protocol.compile() if m.facts.names == ("score",)]
    evidence = next(
        table
        for (model, key), table in evaluation.evidence.items()
        if model == "overpredicts" and key == by_kind.recipe.key
    )
    others = {m.facts.names[0]: m for m in evaluation.protocol.compile()}
    weights = np.concatenate(list(bootstrap(evaluation.units, 200, 0)))
    auroc = others["AUROC/case"].value(evidence, weights)[:, 0, 0]
    froc = others["FROC@0.25"].value(evidence, weights)[:, 0, 0]
    sums = 0.75 * auroc + 0.25 * froc
    np.testing.assert_allclose(by_kind.value(evidence, weights)[:, 0, 0], sums)
    percentile = evaluation["overpredicts", "score"].percentile
    np.testing.assert_allclose(percentile, np.quantile(sums, [0.025, 0.975]))


def test_bounds_and_direction_follow_the_terms() -> None:
    gain = metric_of("weighted-sum", formula="0.75*AUROC/case + 0.25*FROC@0.25").facts
    assert (gain.bounds_of(0), gain.lower_is_better("m")) == ((0.0, 1.0), False)
    mixed = metric_of("weighted-sum", formula="AP + -0.2*FP/image").facts
    assert (mixed.bounds_of(0), mixed.lower_is_better("m")) == ((-np.inf, 1.0), False)
    cost = metric_of("weighted-sum", formula="2*FP/image").facts
    assert (cost.bounds_of(0), cost.lower_is_better("m")) == ((0.0, np.inf), True)


def test_options_are_handed_on_to_the_terms_that_know_them() -> None:
    cohort = cohort_of("mostly empty", 4, n_images=40)
    for silent in ("zero", "lowest"):
        alone = metric_of("case-auroc", silent=silent)
        summed = metric_of("weighted-sum", formula="1*AUROC/case", silent=silent)
        np.testing.assert_array_equal(values_of(alone, cohort), values_of(summed, cohort))


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("", "needs its formula"),
        ("0.5*", r"cannot read '0.5\*'"),
        ("x*AP", r"cannot read 'x\*AP'"),
        ("0*AP", r"cannot read '0\*AP'"),
        ("1e308*AP + 1e308*AP@0.5", r"weights are at most 1e\+100"),
        ("0.5*AP +", "cannot read ''"),
        ("0.5*APP", "did you mean 'AP'"),
        ("0.5*RoDeO", "RoDeO cannot be a term"),
        ("0.5*PQ@0.5", "PQ@0.5 cannot be a term"),
        ("AP + FP/image", "give the latter a negative weight"),
    ],
)
def test_what_cannot_be_added_is_refused(formula: str, said: str) -> None:
    with pytest.raises(cal.UsageError, match=said):
        metric_of("weighted-sum", formula=formula)
