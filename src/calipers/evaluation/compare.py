# SPDX-License-Identifier: Apache-2.0
"""Differences between the models of an evaluation: pairs x metrics, tested, corrected, described.

`Evaluation.compare` calls `compare`; the page calls `compare_together`. The evidence was collected
by the evaluation; here it is only weighted again. All tests of one call are one family for the
correction, whatever is shown of them later: whoever compares the leader with the others has chosen
it on the data, and all pairs belong to the family.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations, count
from typing import Any

import numpy as np

from calipers.arrays import F64
from calipers.data.cohort import ORIGINAL, OTHERS
from calipers.errors import UsageError, did_you_mean
from calipers.evaluation.protocol import Protocol
from calipers.evaluation.result import Evaluation, cohort_counts
from calipers.metrics.base import Evidence, Metric
from calipers.results.comparison import Comparison, Difference, smallest_p
from calipers.results.estimate import Estimate
from calipers.show.comparison_tables import Manner, describe
from calipers.show.words import digits, interval_text, number_text, plural, signed_text
from calipers.statistics import comparison as paired
from calipers.statistics.comparison import CORRECTIONS, adjusted
from calipers.statistics.intervals import FEW_UNITS, Interval, check_replicates
from calipers.statistics.support import FEWEST_UNITS
from calipers.statistics.weights import Units

NAN = float("nan")
ALL = "all"


def compare(
    evaluation: Evaluation,
    a: str | None = None,
    b: str | None = None,
    *,
    metrics: Sequence[str] | None = None,
    margin: float | Mapping[str, float] | None = None,
    test: str | None = None,
    correction: str | None = None,
    replicates: int | None = None,
    per_class: bool = False,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Compare models on the same images; see `Evaluation.compare`."""
    check_choice("test", test, (None, *paired.TESTS))
    protocol = evaluation.protocol
    names = chosen_metrics(protocol, metrics)
    _check_margin(margin, names)
    work = _ComparisonWork(
        evaluation=evaluation,
        pairs=_pairs(evaluation, a, b),
        metrics=tuple(narrowed(protocol, names)),
        test=test or paired.BOOTSTRAP,
        margin=margin,
        units=units_to_compare(evaluation),
        replicates=n_replicates(replicates, protocol.replicates),
        n_rows=1 + len(evaluation.cohort.classes) if per_class else 1,
        jobs=jobs,
        progress=progress,
    )
    (comparison,) = _compared([work], _correction(correction, work.test))
    return comparison


def compare_together(
    questions: Sequence[tuple[Evaluation, Sequence[str], Sequence[str]]],
    progress: Callable[[int, int], None] | None = None,
) -> list[Comparison]:
    """Return a comparison per question, all tests of all of them corrected as one family.

    Parameters
    ----------
    questions
        (evaluation, its metrics, its models); all pairs of the models are tested, the earlier one
        as ``a``. The evaluations are of the same images and units, so that replicates are shared.
    progress
        Called with (blocks done, blocks in all), for every question.
    """
    works = []
    for evaluation, metrics, models in questions:
        protocol = evaluation.protocol
        works.append(
            _ComparisonWork(
                evaluation=evaluation,
                pairs=tuple(combinations(models, 2)),
                metrics=tuple(narrowed(protocol, chosen_metrics(protocol, metrics))),
                test=paired.BOOTSTRAP,
                margin=None,
                units=units_to_compare(evaluation),
                replicates=n_replicates(None, protocol.replicates),
                n_rows=1,
                jobs=1,
                progress=progress,
            )
        )
    return _compared(works, _correction(None, paired.BOOTSTRAP))


def _correction(correction: str | None, test: str) -> str:
    """Return the correction of a comparison: the default of its test if none is named."""
    if correction is None:
        return paired.MAX_T if test == paired.BOOTSTRAP else "holm"
    check_choice("correction", correction, CORRECTIONS)
    if correction == paired.MAX_T and test != paired.BOOTSTRAP:
        raise UsageError(
            f"max-t is a correction of bootstrap tests, and the test is a {test}: "
            "choose the correction holm, or the test bootstrap"
        )
    return correction


def _compared(works: Sequence[_ComparisonWork], correction: str) -> list[Comparison]:
    """Return a comparison per piece of work, corrected together."""
    tests_of_work = [work.tested_rows() for work in works]
    tests = list(chain.from_iterable(tests_of_work))
    units, level = works[0].units, works[0].evaluation.protocol.level
    p_adjusted, family = _adjusted(tests, correction, units)
    comparisons = []
    start = 0
    for work, own in zip(works, tests_of_work):
        values = p_adjusted[start : start + len(own)]
        start += len(own)
        manners = work.manners()
        rows = []
        for test, p in zip(own, values):
            row = _corrected(test.row, p, correction, family, level)
            rows.append(replace(row, sentence=describe(row, manners[row.metric])))
        comparisons.append(_comparison(work, tuple(rows), correction, family))
    return comparisons


def _comparison(
    work: _ComparisonWork, rows: tuple[Difference, ...], correction: str, family: int
) -> Comparison:
    """Return the result of one piece of work, with its warnings."""
    evaluation = work.evaluation
    protocol = evaluation.protocol
    comparison = Comparison(
        rows=rows,
        level=protocol.level,
        replicates=work.replicates,
        seed=protocol.seed,
        unit=work.units.name,
        n_units=work.units.number,
        generalises_to=work.units.generalises_to(),
        correction=correction,
        family=family,
        protocol=protocol.as_dict(),
        cohort=cohort_counts(evaluation.cohort),
        ranking=None,
        warnings=(),
    )
    warnings = (
        *_warnings(comparison, work.mixed()),
        *_hopeless(comparison, work.units),
        *evaluation.warnings,
    )
    return replace(comparison, warnings=warnings)


@dataclass(frozen=True, slots=True)
class _TestedRow:
    """A difference that is not yet corrected, its t, and where its replicates come from."""

    row: Difference
    steps: float
    freedom: float
    replicates: Callable[[], F64]  # (B,), computed again when asked for: there may be many rows


@dataclass(frozen=True)
class _ComparisonWork:
    """The pairs, metrics, units and settings of one comparison."""

    evaluation: Evaluation
    pairs: tuple[tuple[str, str], ...]
    metrics: tuple[Metric[Any], ...]
    test: str
    margin: float | Mapping[str, float] | None
    units: Units
    replicates: int
    n_rows: int  # 1 for the pooled row alone
    jobs: int  # threads that resample
    progress: Callable[[int, int], None] | None

    def tested_rows(self) -> list[_TestedRow]:
        """Return the rows of every pair, in the order of the metrics, not yet corrected."""
        # Work is done metric by metric; rows come out in the order of the evaluation.
        order = {name: k for k, name in enumerate(self.evaluation.metrics)}
        result: list[_TestedRow] = []
        for tests in self._tests_of_pairs():
            result += sorted(tests, key=lambda test: order[test.row.metric])
        return result

    def _tests_of_pairs(self) -> Iterator[list[_TestedRow]]:
        """Yield the rows of every pair."""
        models = tuple(dict.fromkeys(model for pair in self.pairs for model in pair))
        seed, after_block = self.evaluation.protocol.seed, self._counter()
        evidence = {model: self._evidence(model) for model in models}
        # With too few units there is no interval, and nothing needs to be drawn.
        number = self.replicates if self.units.number >= FEWEST_UNITS else 1
        replicates = paired.bootstrapped(
            self.metrics,
            list(evidence.values()),
            self.units,
            number,
            seed,
            rows=self.n_rows,
            progress=after_block,
            workers=self.jobs,
        )
        of_model = dict(zip(models, replicates))
        without = paired.left_out(
            self.metrics, list(evidence.values()), self.units, rows=self.n_rows, workers=self.jobs
        )
        left_out = dict(zip(models, without or []))
        for a, b in self.pairs:
            trades: list[F64 | None] = [None] * len(self.metrics)
            if self.test == paired.PERMUTATION:
                values = paired.traded(
                    self.metrics,
                    evidence[a],
                    evidence[b],
                    self.units,
                    self.replicates,
                    seed,
                    rows=self.n_rows,
                    progress=after_block,
                    workers=self.jobs,
                )
                trades = list(map(flat, values))
            tests: list[_TestedRow] = []
            for k, metric in enumerate(self.metrics):
                sides = (of_model[a][k], of_model[b][k])
                beside = flat(left_out[a][k] - left_out[b][k]) if left_out else None
                tests += self._tests_of(metric, (a, b), sides, trades[k], beside)
            yield tests

    def _tests_of(
        self,
        metric: Metric[Any],
        pair: tuple[str, str],
        sides: tuple[F64, F64],
        trades: F64 | None,
        left_out: F64 | None,
    ) -> Iterator[_TestedRow]:
        """Yield the rows of one metric and pair: pooled, then the classes.

        ``sides`` are the replicates (B, rows, names) of both models, ``left_out`` the differences
        without one unit each.
        """
        facts, tables = metric.facts, [self._evidence(model)[metric.recipe.key] for model in pair]
        ones = np.ones((1, tables[0].n_images), np.int64)
        a, b = (metric.value(table, ones)[0, : self.n_rows] for table in tables)
        counts = [metric.counts(table, ones[0]) for table in tables]
        d = (a - b).ravel()
        # Both models see the same draws, so the difference of two replicates is paired.
        replicates = flat(sides[0] - sides[1])
        level = self.evaluation.protocol.level
        span = facts.bounds[1] - facts.bounds[0]
        seed = self.evaluation.protocol.seed
        in_steps = np.array([name in facts.rough for name in facts.names])
        tests = paired.judge(
            d,
            replicates,
            trades,
            self.units,
            level,
            span=span,
            seed=seed,
            left_out=left_out,
            in_steps=np.tile(in_steps, len(a)),
        )
        for at, (r, k) in enumerate(np.ndindex(a.shape)):
            if r and not facts.per_class:
                continue
            name, interval = facts.names[k], tests.intervals[at]
            # A difference is undefined if either value is; then the value's own reason is the
            # better one.
            if d[at] != d[at]:
                interval = replace(interval, reason=_why_undefined(metric, tables, (r, k)))
            n_images, n_references = (int(number) for number in counts[0][r, k, :2])
            # Images and references are the same for both models, predictions are not.
            n_predictions = int(counts[0][r, k, 2] + counts[1][r, k, 2])
            higher = not facts.lower_is_better(name)
            estimate = self._estimate(
                float(d[at]), interval, (n_images, n_references, n_predictions)
            )
            row = Difference(
                metric=name,
                metric_id=facts.id_of(k),
                label=self.evaluation.cohort.classes[r - 1] if r else None,
                model_a=pair[0],
                model_b=pair[1],
                value_a=float(a[r, k]),
                value_b=float(b[r, k]),
                estimate=estimate,
                p=float(tests.p[at]),
                p_adjusted=NAN,
                p_share=float(tests.p_share[at]),
                test=self.test,
                correction="none",
                family=0,
                # The better of the two, if the test says so: see _corrected.
                verdict=("b_better", "a_better")[bool(d[at] > 0) == higher],
                margin=self._margin(name),
                margin_verdict=self._margin_verdict(name, interval, higher),
                trades_undefined=int(tests.trades_undefined[at]),
                sentence="",
            )
            of_row = partial(_paired, *sides, r, k)
            yield _TestedRow(row, float(tests.steps[at]), float(tests.freedom[at]), of_row)

    def _margin_verdict(self, name: str, interval: Interval, higher: bool) -> str | None:
        """Return what an interval says about the margin of a metric, if it has one."""
        margin = self._margin(name)
        if margin is None:
            return None
        return paired.against_margin(interval.low, interval.high, margin, higher_is_better=higher)

    def _estimate(self, value: float, interval: Interval, counts: tuple[int, int, int]) -> Estimate:
        units = (self.units.name, self.units.number)
        return interval.around(value, self.evaluation.protocol.level, units, counts)

    def mixed(self) -> list[str]:
        """Return the metrics for which a requested permutation mixes two scales of scores."""
        if self.test != paired.PERMUTATION:
            return []
        names: list[str] = []
        for metric in self.metrics:
            if not metric.facts.swap:
                names += metric.facts.names
        return names

    def manners(self) -> dict[str, Manner]:
        """Return how the numbers of every metric are written."""
        manners = {}
        for metric in self.metrics:
            for name in metric.facts.names:
                higher = not metric.facts.lower_is_better(name)
                manners[name] = Manner.of(metric.facts.bounds, higher)
        return manners

    def _margin(self, name: str) -> float | None:
        return self.margin.get(name) if isinstance(self.margin, Mapping) else self.margin

    def _evidence(self, model: str) -> paired.Evidences:
        """Return the evidence of a model that the metrics look at, by the key of its recipe."""
        evidence: dict[Hashable, Evidence] = {}
        for metric in self.metrics:
            key = metric.recipe.key
            evidence[key] = self.evaluation.evidence[model, key]
        return evidence

    def _counter(self) -> Callable[[], None]:
        """Return the function that is called after every block of weights."""
        total = paired.n_blocks(paired.BOOTSTRAP, self.units, self.replicates)
        if self.test == paired.PERMUTATION:
            total += len(self.pairs) * paired.n_blocks(self.test, self.units, self.replicates)
        numbers = count(1)

        def after_block() -> None:
            if self.progress is not None:
                self.progress(min(next(numbers), total), total)

        return after_block


def flat(values: F64) -> F64:
    """Return (B, rows x names)."""
    return values.reshape(len(values), -1)


def chosen_metrics(protocol: Protocol, metrics: Sequence[str] | None) -> tuple[str, ...]:
    """Return the metrics to compare: the named ones, all for ``["all"]``, the protocol's headline
    if none is named.
    """
    every = tuple(plan.name for plan in protocol.metrics)
    if metrics is None:
        return protocol.headline or every
    if list(metrics) == [ALL]:
        return every
    if not metrics:
        raise UsageError("no metric to compare: name one, or leave metrics out for the headline")
    return tuple(plan.name for plan in protocol.only(list(metrics)).metrics)


def narrowed(protocol: Protocol, names: Sequence[str]) -> list[Metric[Any]]:
    """Return the protocol's metrics with only some of their outputs; they look at the same
    evidence.
    """
    plans = {plan.name: plan for plan in protocol.resolved()}
    metrics = []
    for metric in protocol.compile():
        selection = [plans[name] for name in metric.facts.names if name in names]
        if selection:
            metrics.append(type(metric)(selection))
    return metrics


def units_to_compare(evaluation: Evaluation) -> Units:
    """Return the units of the protocol; a single one cannot say anything about others."""
    units = evaluation.units
    if units.number < 2:
        raise UsageError(
            f"models are compared over units, and there is one {units.name} only: "
            "choose another cluster, such as image"
        )
    return units


def n_replicates(replicates: int | None, default: int) -> int:
    """Return the number of replicates, refusing so few that a tail has none."""
    number = default if replicates is None else replicates
    check_replicates(number)
    return number


def check_choice(what: str, choice: str | None, choices: Sequence[str | None]) -> None:
    """Raise for an option that does not exist."""
    if choice not in choices:
        words = [name for name in choices if name]
        raise UsageError(f"no {what} {choice!r}; {did_you_mean(str(choice), words)}")


def _pairs(evaluation: Evaluation, a: str | None, b: str | None) -> tuple[tuple[str, str], ...]:
    """Return the pairs of models: the two named ones, one against all others, or all."""
    models = evaluation.models
    if len(models) < 2:
        raise UsageError("a comparison needs two models or more; use evaluate for a single one")
    for name in (a, b):
        if name is not None:
            check_choice("model", name, models)
    if a is None and b is not None:
        raise UsageError("b is compared with a: give a too")
    if a is not None and a == b:
        raise UsageError(f"{a!r} is compared with itself")
    if a is None:
        return tuple(combinations(models, 2))
    if b is not None:
        return ((a, b),)
    return tuple((a, other) for other in models if other != a)


def _check_margin(margin: float | Mapping[str, float] | None, names: Sequence[str]) -> None:
    if margin is None:
        return
    margins: Mapping[str, Any] = margin if isinstance(margin, Mapping) else {"": margin}
    for name, value in margins.items():
        if name and name not in names:
            raise UsageError(f"margin: {name!r} is not compared; {did_you_mean(name, names)}")
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 0 < value < math.inf
        ):
            raise UsageError(
                f"a margin is a number above 0 in units of the metric, such as 0.02, not {value!r}"
            )


def _adjusted(
    tests: Sequence[_TestedRow], correction: str, units: Units
) -> tuple[list[float], int]:
    """Return the adjusted p values, and the size of the family."""
    p = np.array([test.row.p for test in tests])
    if correction != paired.MAX_T:
        values, family = adjusted(p, correction)
        return values.tolist(), family
    steps = np.array([test.steps for test in tests])
    freedom = np.array([test.freedom for test in tests])
    values = paired.step_down(
        p, steps, lambda k: tests[k].replicates(), units.freedom, effective=freedom
    )
    return values.tolist(), int((~np.isnan(p)).sum())


def _corrected(row: Difference, p: float, correction: str, family: int, level: float) -> Difference:
    """Return a row with its adjusted p value and the verdict that follows from it."""
    # Verdicts follow the adjusted p values: the raw ones overstate many comparisons.
    verdict = row.verdict if p < 1.0 - level else "no_difference_shown"
    if math.isnan(p):
        verdict = "undefined"
    return replace(row, p_adjusted=p, correction=correction, family=family, verdict=verdict)


def _paired(one: F64, other: F64, row: int, name: int) -> F64:
    """Return the replicates (B,) of a difference."""
    return one[:, row, name] - other[:, row, name]


def _why_undefined(metric: Metric[Any], tables: Sequence[Evidence], place: tuple[int, int]) -> str:
    """Return the reason of the first model that has no value there."""
    reasons = [metric.reasons(table).get(place) for table in tables]
    return next((reason for reason in reasons if reason is not None), "no_objects")


def _warnings(c: Comparison, mixed: Sequence[str]) -> Iterator[str]:
    """Yield what a reader of the differences must know.

    ``mixed`` metrics are permuted although they rank by score.
    """
    name, least = plural(c.unit), smallest_p(c.n_units)
    if c.n_units < FEWEST_UNITS:
        yield f"{c.n_units} {name} are too few for intervals; no p value can be below {least:g}."
    elif c.n_units < FEW_UNITS:
        yield (
            f"{c.n_units} {name} are few: intervals are wide, "
            f"and no p value can be below {digits(least, 3)}."
        )
    if c.untested:
        yield (
            f"{c.untested} of {len(c.rows)} differences have no p value; "
            f"the family of the correction has {c.family}."
        )
    if mixed:
        yield (
            f"The permutation mixes the scores of two models ({', '.join(mixed)}): its null "
            "hypothesis is that they are interchangeable."
        )


def _hopeless(c: Comparison, units: Units) -> Iterator[str]:
    """Yield the tests whose smallest p value does not survive Holm's correction, which multiplies
    it by the family.
    """
    # Few units are adjusted by max-t as Holm does.
    few = c.n_units < paired.JOINT_UNITS
    by_holm = c.correction == "holm" or (c.correction == paired.MAX_T and few)
    for test in paired.TESTS if by_holm else ():
        least = paired.least_p(test, units, c.replicates)
        tested = any(row.test == test and not math.isnan(row.p) for row in c.rows)
        by_units = least == smallest_p(c.n_units)
        if not tested or c.family * least < 1.0 - c.level or (by_units and c.family == 1):
            continue  # a single test of few units has its own sentence
        if by_units:
            scarce, remedy = f"{c.n_units} {plural(c.unit)}", "Test less."
        else:
            scarce, remedy = f"{c.replicates} replicates", "Give more, or test less."
        tests = "1 test" if c.family == 1 else f"{c.family} tests"
        yield (
            f"{scarce} are too few for {tests}: the smallest p value of a {test}, "
            f"{digits(least, 2)}, is {digits(min(1.0, c.family * least), 2)} after Holm if it "
            f"comes first. {remedy}"
        )


def yardstick_metric(protocol: Protocol) -> str | None:
    """Return the metric by which models and readers are compared, None if there is none.

    Readers have no scores, so it must not rank; and it must punish misses and false alarms alike,
    which F1 does.
    """
    for metric in protocol.compile():
        both_sides = getattr(metric, "judged", ()) == ("references", "predictions")
        for name in metric.facts.names:
            if both_sides and not metric.facts.ranks and not metric.facts.lower_is_better(name):
                return name
    return None


def reader_sentences(evaluation: Evaluation, margin: float | None = None) -> list[str]:
    """Return, for every model, whether it agrees with the readers as they agree with each other.

    Only for cohorts in which every reader is the reference in turn (``readers="each"``), else
    nothing. A model agrees *as well as* readers do only if the interval of the difference rules out
    a deficit of ``margin``, and *better* only if it rules out none at all.
    """
    if OTHERS not in evaluation.models or ORIGINAL not in evaluation.cohort.images.groups:
        return []
    metric = yardstick_metric(evaluation.protocol)
    if metric is None:
        return ["No metric of the protocol suits readers, who have no scores: add F1@0.5."]
    sentences = []
    for model in evaluation.models:
        if model != OTHERS:
            row = compare(evaluation, model, OTHERS, metrics=[metric]).rows[0]
            sentences.append(_reader_sentence(model, row, margin))
    return sentences


def _reader_sentence(model: str, row: Difference, margin: float | None) -> str:
    values = (
        f"{row.metric} {number_text(row.value_a)} of {model} against the readers, "
        f"{number_text(row.value_b)} of the readers against each other"
    )
    e = row.estimate_for(model)
    if math.isnan(e.low):
        return f"{values}; without an interval of the difference nothing more can be said."
    interval = interval_text(e.low, e.high, signed_text)
    values = f"{values}; difference {signed_text(e.value)} {interval}"
    if e.low > 0:
        return f"{model} agrees with the readers better than they agree with each other: {values}."
    if e.high < 0:
        return (
            f"{model} agrees with the readers less well than they agree with each other: {values}."
        )
    if margin is not None and e.low > -margin:
        return (
            f"{model} agrees with the readers as well as they agree with each other, within a "
            f"margin of {margin:g}: {values}."
        )
    missing = "a margin would be needed" if margin is None else f"the margin is {margin:g}"
    return (
        f"It is not shown that {model} agrees with the readers as well as they agree with each "
        f"other ({missing}): {values}."
    )
