# SPDX-License-Identifier: Apache-2.0
"""The order of the models of an evaluation in one metric, and how stable it is.

`Evaluation.rank` calls `rank`: evidence and units of the evaluation come in, a `Ranking` goes out;
the definitions are in `statistics.ranks`. Models are ranked by the metric on the whole data set, or
case by case, where the metric is computed on every unit alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64
from calipers.errors import UsageError
from calipers.evaluation.compare import (
    check_choice,
    chosen_metrics,
    n_replicates,
    narrowed,
    units_to_compare,
)
from calipers.evaluation.result import Evaluation
from calipers.metrics.base import Evidence, Metric
from calipers.results.comparison import Ranking
from calipers.statistics import ranks
from calipers.statistics.comparison import Evidences, SharedDraws, alone, bootstrapped, left_out
from calipers.statistics.estimates import Progress, block_counter
from calipers.statistics.support import FEWEST_UNITS
from calipers.statistics.weights import BLOCK, Units, bootstrap

REPLICATES = 1000  # at most, unless asked for: ranks are whole numbers and settle early
WORST = "worst"
TOO_FEW = ("one_unit", "too_few_units")


def rank(
    evaluation: Evaluation,
    metric: str | None = None,
    *,
    label: str | None = None,
    method: str = ranks.DATA_SET,
    quantile: float = 0.05,
    missing: str | None = None,
    replicates: int | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Ranking:
    """Rank the models of an evaluation; see `Evaluation.rank`."""
    _check(method, missing, quantile)
    protocol, models = evaluation.protocol, evaluation.models
    if len(models) < 2:
        raise UsageError("a ranking needs two models or more")
    name = chosen_metrics(protocol, None if metric is None else [metric])[0]
    (only,) = narrowed(protocol, [name])
    units, number = (
        units_to_compare(evaluation),
        n_replicates(replicates, min(REPLICATES, protocol.replicates)),
    )
    field = _Field(
        evaluation=evaluation,
        metric=only,
        row=_row(evaluation, only, label),
        units=units,
        replicates=number if units.freedom + 1 >= FEWEST_UNITS else 0,
        rule=ranks.Rule(method, not only.facts.lower_is_better(name), quantile, protocol.level),
        fill=missing == WORST,
        jobs=jobs,
        progress=progress,
    )
    return field.ranked(label)


def _check(method: str, missing: str | None, quantile: float) -> None:
    check_choice("method", method, ranks.METHODS)
    check_choice("missing", missing, (None, WORST))
    if not 0.0 <= quantile <= 1.0:
        raise UsageError(f"a quantile lies between 0 and 1, not {quantile}")


class _Account(NamedTuple):
    """How many cases were ranked, left out and filled."""

    n_cases: int = 0
    left_out: int = 0
    filled: int = 0


@dataclass(frozen=True)
class _Field:
    """The models, metric, units and rule of one ranking."""

    evaluation: Evaluation
    metric: Metric[Any]
    row: int  # 0 is pooled, classes follow
    units: Units
    replicates: int
    rule: ranks.Rule
    fill: bool  # whether an undefined value of a single model counts as the worst
    jobs: int  # threads that resample
    progress: Progress | None

    def ranked(self, label: str | None) -> Ranking:
        """Return the ranking with replicates, tests and agreement."""
        models, level = self.evaluation.models, self.evaluation.protocol.level
        standing, account = (
            self.of_values() if self.rule.method == ranks.DATA_SET else self.of_cases()
        )
        number = self.units.number
        reason = ranks.missing_reason(
            min(number, account.n_cases or number), standing, self.units.freedom
        )
        undefined = len(standing.replicates) - len(ranks.defined_ranks(standing))
        if reason is not None:
            standing = standing._replace(replicates=np.zeros((0, len(models))))
        if reason in TOO_FEW:  # many cases in few units are no independent witnesses either
            standing = standing._replace(p=np.full_like(standing.p, np.nan))
        tau, same_winner = ranks.agreement(standing, level)
        pairs, family = ranks.significance_map(models, standing, level)
        return Ranking(
            metric=self._name,
            metric_id=self.metric.facts.id_of(0),
            label=label,
            method=self.rule.method,
            higher_is_better=self.rule.higher_is_better,
            unit=self.units.name,
            n_units=self.units.number,
            n_images=self.evaluation.cohort.n_images,
            n_cases=account.n_cases,
            left_out=account.left_out,
            filled=account.filled,
            level=level,
            replicates=self.replicates,
            undefined=undefined,
            seed=self.evaluation.protocol.seed,
            places=ranks.places(models, standing, level),
            tau=tau,
            winner_kept=same_winner,
            test=standing.test,
            correction="holm",
            family=family,
            pairs=pairs,
            reason=reason,
        )

    def of_values(self) -> tuple[ranks.RankedScores, _Account]:
        """Return the standing by the metric on all images."""
        ones = np.ones((1, self.evaluation.cohort.n_images), np.int64)
        tables, seed = self._tables(), self.evaluation.protocol.seed
        theta = np.array([self.metric.value(table, ones)[0, self.row, 0] for table in tables])
        undefined = np.isnan(theta)
        if undefined.any() and not self.fill:
            who = [self.evaluation.models[k] for k in np.flatnonzero(undefined).tolist()]
            raise UsageError(
                f"{self._name} is undefined for {', '.join(who)}: "
                "no rank, unless missing is 'worst'"
            )
        by_key: list[Evidences] = [{self.metric.recipe.key: table} for table in tables]
        columns = [np.zeros((0, len(tables)))]
        if self.replicates:
            values_of_models = bootstrapped(
                [self.metric],
                by_key,
                self.units,
                self.replicates,
                seed,
                rows=self.row + 1,
                progress=block_counter(self.progress, -(-self.replicates // BLOCK)),
                workers=self.jobs,
            )
            columns = [values[0][:, self.row, :1] for values in values_of_models]
        replicates = np.concatenate(columns, axis=1)
        if self.fill:
            theta, replicates = self._filled(theta), self._filled(replicates)
        higher = self.rule.higher_is_better
        number, freedom = self.units.number, self.units.freedom
        without = None
        if self.replicates:
            without = left_out(
                [self.metric], by_key, self.units, rows=self.row + 1, workers=self.jobs
            )
        if without is not None:
            values = np.stack([of_model[0][:, self.row, 0] for of_model in without], axis=1)
            values = self._filled(values) if self.fill else values
            facts = self.metric.facts
            draws = SharedDraws(self.units, seed, values, facts.names[0] in facts.rough)
        else:
            draws = SharedDraws(self.units, seed)
        standing = ranks.standing_of_values(
            theta, replicates, number, higher_is_better=higher, freedom=freedom, draws=draws
        )
        return standing, _Account(filled=int(undefined.sum()))

    def of_cases(self) -> tuple[ranks.RankedScores, _Account]:
        """Return the standing by the metric on every unit alone."""
        columns = []
        for table in self._tables():
            of_units = alone(self.metric, table, self.units, rows=self.row + 1)
            columns.append(of_units[:, self.row, 0])
        values = np.stack(columns, axis=1)
        missing = np.isnan(values)
        cases_with_value = np.flatnonzero(
            ~missing.all(axis=1)
        )  # where it is undefined for all it says nothing about any
        if not len(cases_with_value):
            raise UsageError(
                f"{self._name} is undefined on every single {self.units.name}: rank by the data set"
            )
        filled = int(missing[cases_with_value].sum())
        if filled and not self.fill:
            lacking = np.flatnonzero(missing[cases_with_value].any(axis=0))
            who = [self.evaluation.models[k] for k in lacking.tolist()]
            n = int(missing[cases_with_value].any(axis=1).sum())
            raise UsageError(
                f"{self._name} is undefined for {', '.join(who)} on {n} of "
                f"{len(cases_with_value)} cases: rank by the data set, or set missing to 'worst'"
            )
        cases = self._filled(values[cases_with_value])
        standing = ranks.standing_of_cases(cases, self._case_weights(cases_with_value), self.rule)
        return standing, _Account(
            len(cases_with_value), len(values) - len(cases_with_value), filled
        )

    def _case_weights(self, rows: NDArray[np.int64]) -> Iterator[NDArray[Any]]:
        """Yield blocks (R, K) of bootstrap weights of the cases: all images of a drawn unit have
        the same.
        """
        # One image of a unit is enough: all of them have its weight.
        image = np.unique(self.units.code, return_index=True)[1][rows]
        if self.replicates:
            for weights in bootstrap(self.units, self.replicates, self.evaluation.protocol.seed):
                yield weights[:, image]

    def _filled(self, values: F64) -> F64:
        """Return the values with the worst possible or else the worst observed where undefined."""
        higher = self.rule.higher_is_better
        worst = self.metric.facts.bounds[0 if higher else 1]
        if math.isinf(worst):
            worst = 0.0
            if not np.isnan(values).all():
                worst = float((np.nanmin if higher else np.nanmax)(values))
        return np.where(np.isnan(values), worst, values)

    def _tables(self) -> list[Evidence]:
        """Return the evidence of every model that the metric looks at."""
        evidence, key = self.evaluation.evidence, self.metric.recipe.key
        return [evidence[model, key] for model in self.evaluation.models]

    @property
    def _name(self) -> str:
        return self.metric.facts.names[0]


def _row(evaluation: Evaluation, metric: Metric[Any], label: str | None) -> int:
    """Return the row of the values that belongs to a class."""
    if label is None:
        return 0
    check_choice("class", label, evaluation.cohort.classes)
    if not metric.facts.per_class:
        raise UsageError(
            f"{metric.facts.names[0]!r} has no values per class: its matching ignores classes"
        )
    return 1 + evaluation.cohort.classes.index(label)
