# SPDX-License-Identifier: Apache-2.0
"""Weighted sums of metrics, by which challenges rank: ``0.75*AUROC/case + 0.25*FROC@0.25``.

``weighted-sum``
    the option ``formula`` adds up metrics by their names (`calipers.metrics.metric_names`), each
    with a weight in front of it, ``+`` between them. All terms look at the matching of the
    protocol, and options such as ``silent`` are handed on to the terms that know them. Undefined
    where a term is.

The sum is computed from the same evidence under the same weights as its terms, replicate by
replicate, so its interval knows how the terms vary together; no variances are added. The evidence
is `Matches`: metrics with a matching of their own (RoDeO, error types, voxels, pairs) cannot be
terms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calipers import registry
from calipers.arrays import F64, I64
from calipers.errors import UsageError
from calipers.matching.assign import MatchRecipe
from calipers.matching.matches import Matches
from calipers.metrics.base import (
    DERIVED_OPTION,
    MATCHING_OPTIONS,
    Facts,
    MatchMetric,
    MetricPlan,
    Output,
    check_options,
)
from calipers.metrics.metric_names import named_plan

HANDED_ON = ("silent", "interpolation", "average")  # to the terms that have such an option
LARGEST_WEIGHT = 1e100  # so that no sum of counts becomes infinite
GRAMMAR = 'write formula = "0.75*AUROC/case + 0.25*FROC@0.25"'


@dataclass(frozen=True)
class Term:
    """A metric and its weight."""

    weight: float
    metric: Any  # a MatchMetric, with a value


class WeightedSum(MatchMetric):
    """The sum of metrics times their weights."""

    own_options = ("formula", *HANDED_ON)
    facts = Facts(
        id="weighted-sum@1",
        trials="images",
        word="weighted sums",
        meaning="Other metrics, added up with weights, as challenges rank by them.",
        page="reference/protocol.md#weighted-sums",
    )

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        self.sums: list[list[Term]] = []
        outputs, views = [], []
        for plan in plans:
            check_options(plan, self.own_options, matching=(*MATCHING_OPTIONS, DERIVED_OPTION))
            terms = _terms(plan)
            self.sums.append(terms)
            parts = [view for term in terms for view in term.metric.recipe.views]
            views += parts
            outputs.append(
                Output(plan.name, tuple(dict.fromkeys(parts)), plan.options["max_dets"], {})
            )
        self.outputs = tuple(outputs)
        self.recipe = MatchRecipe(tuple(dict.fromkeys(views)))
        bounds = tuple(_bounds(terms) for terms in self.sums)
        lows, highs = zip(*bounds)
        every = [term.metric.facts for terms in self.sums for term in terms]
        sources: list[str] = []
        for facts in every:
            sources += facts.citations
        costs, class_means = [], []
        for plan, terms in zip(plans, self.sums):
            if _is_cost(plan, terms):
                costs.append(plan.name)
            if _is_class_mean(terms):
                class_means.append(plan.name)
        self.facts = replace(
            self.facts,
            names=self.names,
            per_class=self.per_class,
            # A sum moves in small steps even where a term counts few errors.
            graded=frozenset(self.names),
            bounds=(min(lows), max(highs)),
            bounds_of_names=bounds,
            swap=all(facts.swap for facts in every),
            ranks=any(facts.ranks for facts in every),
            skips_classes=any(facts.skips_classes for facts in every),
            costs=frozenset(costs),
            citations=tuple(dict.fromkeys(sources)),
            class_means=frozenset(class_means),
        )

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names)."""
        columns = []
        for terms in self.sums:
            total = 0.0
            for term in terms:
                total = total + term.weight * term.metric.value(evidence, weights)[:, :, 0]
            columns.append(np.asarray(total))
        return np.stack(columns, axis=2)

    def reasons(self, evidence: Matches) -> Mapping[tuple[int, int], str]:
        """Return why values are undefined: the reason of the first term that is."""
        why: dict[tuple[int, int], str] = {}
        for k, terms in enumerate(self.sums):
            for term in terms:
                for (row, _), reason in term.metric.reasons(evidence).items():
                    why.setdefault((row, k), reason)
        return why

    def counts(self, evidence: Matches, weights: I64) -> I64:
        """Return (1 + n_classes, n_names, 3): the most that is behind any of the terms."""
        columns = []
        for terms in self.sums:
            tables = [term.metric.counts(evidence, weights)[:, 0] for term in terms]
            columns.append(np.max(tables, axis=0))
        return np.stack(columns, axis=1)

    def support(self, evidence: Matches, unit: I64, n_units: int) -> I64:
        """Return the units behind the sum: as few as any term needs, in error for any of them."""
        columns = []
        for terms in self.sums:
            tables = [term.metric.support(evidence, unit, n_units)[:, 0] for term in terms]
            column = np.max(tables, axis=0)
            column[:, 0] = np.min(tables, axis=0)[:, 0]
            columns.append(column)
        return np.stack(columns, axis=1)


def _terms(plan: MetricPlan) -> list[Term]:
    formula = plan.options.get("formula")
    if not isinstance(formula, str) or not formula.strip():
        raise UsageError(f"metric {plan.name!r}: a weighted sum needs its formula; {GRAMMAR}")
    terms = []
    for text in formula.split("+"):
        first, sign, second = text.partition("*")
        weight, name = (first, second) if sign else ("1", first)
        try:
            number = float(weight)
        except ValueError:
            number = float("nan")
        if not np.isfinite(number) or number == 0 or not name.strip():
            raise UsageError(f"metric {plan.name!r}: cannot read {text.strip()!r}; {GRAMMAR}")
        if abs(number) > LARGEST_WEIGHT:
            raise UsageError(
                f"metric {plan.name!r}: weights are at most {LARGEST_WEIGHT:g}, not {number:g}"
            )
        terms.append(Term(number, _metric(plan, name.strip())))
    return terms


def _metric(plan: MetricPlan, name: str) -> Any:
    """Return the metric of one term, with the matching of the sum."""
    part = named_plan(name, plan.options["thresholds"])
    kind = registry.resolve("metric", part.kind)
    matching: dict[str, Any] = {}
    for option in (*MATCHING_OPTIONS, DERIVED_OPTION):
        if option in plan.options:
            matching[option] = plan.options[option]
    for option in HANDED_ON:
        if option in plan.options and option in getattr(kind, "own_options", ()):
            matching[option] = plan.options[option]
    if registry.own_matching(part.kind) or part.kind == plan.kind:
        raise UsageError(f"metric {plan.name!r}: {name} cannot be a term of a weighted sum")
    metric = kind([replace(part, options={**matching, **part.options})])
    if type(metric.recipe) is not MatchRecipe:
        raise UsageError(f"metric {plan.name!r}: {name} cannot be a term of a weighted sum")
    return metric


def _bounds(terms: Sequence[Term]) -> tuple[float, float]:
    """Return between which values a sum lies."""
    low = high = 0.0
    for term in terms:
        ends = [term.weight * bound for bound in term.metric.facts.bounds_of(0)]
        low, high = low + min(ends), high + max(ends)
    return low, high


def _is_cost(plan: MetricPlan, terms: Sequence[Term]) -> bool:
    """Return whether less of a sum is better; a sum in which terms pull apart is an error."""
    signs: set[bool] = set()
    for term in terms:
        lower = term.metric.facts.lower_is_better(term.metric.facts.names[0])
        signs.add(lower == (term.weight > 0))
    if len(signs) > 1:
        raise UsageError(
            f"metric {plan.name!r}: more of one term is better and less of another; give the "
            "latter a negative weight"
        )
    return signs.pop()


def _is_class_mean(terms: Sequence[Term]) -> bool:
    facts = [term.metric.facts for term in terms]
    return bool(all(entry.names[0] in entry.class_means for entry in facts))
