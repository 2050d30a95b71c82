# SPDX-License-Identifier: Apache-2.0
"""The result of an evaluation: rows of estimates, with the evidence behind them.

`calipers.evaluation.evaluate` makes it; comparison, ranking, groups, figures, page and folder start
from it. Pages compute nothing themselves: what they show beyond the rows is asked for here
(`matches`, `at_one_alarm`) and computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calipers.arguments import names_fields
from calipers.data.cohort import Cohort
from calipers.errors import UsageError, did_you_mean, spelled
from calipers.evaluation.collect import (
    estimated_rows,
    evidence_of,
    matches_of,
    units_for,
    with_areas,
)
from calipers.evaluation.protocol import Protocol
from calipers.evaluation.warnings import (
    cluster_warnings,
    group_warnings,
    interval_warnings,
    name_warnings,
    unit_warnings,
    warnings_of,
)
from calipers.io.source import Progress
from calipers.matching.matches import Matches
from calipers.metrics.base import Evidence, MetricPlan
from calipers.metrics.metric_names import hint_among
from calipers.results.document import Document
from calipers.results.estimate import Estimate, Row, number
from calipers.results.files import Slices
from calipers.show.words import count_text
from calipers.statistics.support import FEWEST_UNITS
from calipers.statistics.weights import Units

if TYPE_CHECKING:
    from calipers.data.maps import Sample
    from calipers.evaluation.saved import ErrorTable
    from calipers.results.comparison import (
        ColumnSummary,
        Comparison,
        GroupedRows,
        GroupSummary,
        Ranking,
    )
    from calipers.results.requirements import Outcome, Requirements

# 1: version 0.1, with bounds on error-free units near perfection; 2: Wilson's interval there; 3:
# Jeffreys' interval there, AP over thresholds reaches further down, none of width 0; 4: Jeffreys'
# interval of rates too, t only for what clustering adds, gains have the gamma interval; 5: more
# errors never raise a lower bound (`statistics.few_errors`); 6: gains have the mid-p gamma interval
# as long as errors are not many, with other costs; 7: it takes less where errors gather in units or
# are misplaced, and stands for areas (AUROC, AUPR, best F1), which fall short by such a sum; 8:
# means of AP over classes reach by their bias, those of AP over thresholds are narrower.
INTERVAL_RULES = 9
ONE_ALARM = "FROC@1"
ALARMS = "FP/image"


@names_fields
@dataclass(frozen=True, repr=False, eq=False)
class Evaluation(Document):
    """What `calipers.evaluation.evaluate` returns.

    ``figure`` and ``plot`` know the figures of `calipers.evaluation.catalogue`, such as ``"froc"``,
    ``"pr"``, or ``"classes"`` with ``metric="AP@0.5"``. ``report(path, ...)`` writes the page with
    the options of `calipers.report.page.write_report`, and ``save(folder, ...)`` numbers, cohort
    and page with those of `calipers.report.page.write_results`; `calipers.open_evaluation` makes
    the evaluation of such a folder again.

    Examples
    --------
    >>> import calipers as cal
    >>> ev = cal.evaluate(cal.demo_cohort())
    >>> ev.models
    ('mislabels', 'overpredicts', 'misses-small')
    >>> float(ev["overpredicts", "AP50"]) > float(ev["mislabels", "AP50"])
    True
    """

    SCHEMA = "calipers.evaluation/1"
    FIGURES = "calipers.evaluation.catalogue:FIGURES"
    FIRST_FIGURE = "froc"
    PAGE = "calipers.report.page:write_report"
    FOLDER = "calipers.report.page:write_results"
    TABLES = "calipers.evaluation.tables:tables"

    protocol: Protocol
    cohort: Cohort
    rows: tuple[Row, ...]
    evidence: Mapping[tuple[str, tuple[Any, ...]], Evidence]
    ci: bool  # whether intervals were asked for
    groups: tuple[
        GroupSummary, ...
    ] = ()  # of all groupings, in the order in which they were asked for
    groupings: tuple[
        GroupedRows, ...
    ] = ()  # without that by class alone, whose rows are those of the evaluation
    load_sample: Callable[[int], Sample] | None = field(
        default=None, compare=False, repr=False
    )  # of an image, anew
    slices: Slices | None = field(
        default=None, compare=False, repr=False
    )  # pictures that were kept for the page
    # The units of the evaluation that this one renames: draws follow their order, which new names
    # would change, and with it every interval.
    bootstrap_units: Units | None = field(default=None, compare=False, repr=False)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for readers of the numbers; computed on first access."""
        return self.look_for_warnings()

    def look_for_warnings(self, progress: Progress | None = None) -> tuple[str, ...]:
        """Return the warnings, and keep them as `warnings`; ``progress`` is called with (name of
        the step, work done, work in all) while misread boxes are looked for.
        """
        warnings = (
            *warnings_of(self.cohort, self.protocol, self.evidence, progress),
            *name_warnings(self.cohort, self.units, self.rows),
            *interval_warnings(self.rows, ci=self.ci),
            *group_warnings(self.rows, self.metrics),
            *unit_warnings(self.units, ci=self.ci),
            *self._cluster_warnings(),
        )
        vars(self)["warnings"] = warnings
        return warnings

    def _cluster_warnings(self) -> tuple[str, ...]:
        """Return a warning if the first headline metric varies over centres that were not drawn."""
        name = self.headline[0]
        for metric in self.protocol.compile():
            if self.ci and name in metric.facts.names:
                parts = self.evidence, self.rows, self.units
                return cluster_warnings(self.cohort, metric, name, *parts)
        return ()

    @property
    def statistics(self) -> dict[str, Any]:
        """Unit, method, level and seed of the intervals, and what they generalise to."""
        units, p = self.units, self.protocol
        replicates = p.replicates if self.ci else 0
        return {
            "unit": units.name,
            "n_units": units.number,
            "generalises_to": units.generalises_to(),
            "interval": p.interval if replicates else None,
            "level": p.level,
            "replicates": replicates,
            "seed": p.seed,
            "interval_rules": INTERVAL_RULES,
        }

    @cached_property
    def units(self) -> Units:
        """The units that are resampled."""
        return (
            units_for(self.cohort, self.protocol)
            if self.bootstrap_units is None
            else self.bootstrap_units
        )

    @cached_property
    def each(self) -> tuple[Row, ...]:
        """The pooled values of every unit by itself, where there are too few of them for an
        interval; else nothing.
        """
        name, number_of_units = self.units.name, self.units.number
        if (
            not self.ci
            or not 1 < number_of_units < FEWEST_UNITS
            or name not in self.cohort.images.groups
        ):
            return ()
        alone = replace(self, ci=False, rows=(), groups=(), groupings=()).by(name)
        return alone.groupings[0].rows

    @property
    def models(self) -> tuple[str, ...]:
        """The models, in display order."""
        return tuple(self.cohort.models)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics, in the order of the protocol."""
        return tuple(plan.name for plan in self.protocol.metrics)

    def _size(self) -> str:
        metrics = count_text("metric", len(self.metrics))
        classes = count_text("class", len(self.cohort.classes))
        images = count_text("image", self.cohort.n_images)
        return f"{metrics} of the protocol {self.protocol.name}, {classes}, {images}"

    @property
    def headline(self) -> tuple[str, ...]:
        """The metrics that come first."""
        return self.protocol.headline or self.metrics[:4]

    @cached_property
    def models_by_value(self) -> tuple[str, ...]:
        """The models from best to worst by the first headline metric; those without a value come
        last.
        """
        metric = self.headline[0]
        sign = 1.0 if metric in self.protocol.lower_is_better else -1.0

        def place(model: str) -> tuple[bool, float]:
            value = self.get(metric, model=model).value
            if value != value:  # NaN
                return True, 0.0
            return False, sign * value

        return tuple(sorted(self.models, key=place))

    def leading(self, most: int) -> tuple[str, ...]:
        """Return the ``most`` best models, in display order."""
        best_models = set(self.models_by_value[:most])
        return tuple(model for model in self.models if model in best_models)

    def matches(self, model: str) -> Matches:
        """Return who was matched with whom, under the matching of the protocol: the matches that
        are shown and saved.
        """
        if model not in self.models:
            raise UsageError(f"no model {model!r}; {did_you_mean(str(model), self.models)}")
        if model not in self._matches:
            view = self.protocol.matching
            self._matches[model] = matches_of(self.cohort, view, self.evidence, model)
        return self._matches[model]

    @cached_property
    def _matches(self) -> dict[str, Matches]:
        return {}

    @cached_property
    def at_one_alarm(self) -> Evaluation | None:
        """The sensitivity at one false alarm per image, and the false alarms of all predictions;
        None without scores.
        """
        if not all(predictions.scored for predictions in self.cohort.models.values()):
            return None
        at = {"thresholds": (self.protocol.matching.threshold,)}
        plans = (
            MetricPlan(ONE_ALARM, "froc", {"rates": (1.0,), **at}),
            MetricPlan(ALARMS, "false-alarms", at),  # of all predictions, whatever their score
        )
        protocol = replace(self.protocol, metrics=plans, headline=(ONE_ALARM,))
        cohort = with_areas(self.cohort, protocol)
        evidence = evidence_of(cohort, protocol.compile(), self.evidence)
        rows = estimated_rows(cohort, protocol, evidence, ci=self.ci, units=self.units)
        return Evaluation(
            protocol, self.cohort, tuple(rows), evidence, self.ci, bootstrap_units=self.units
        )

    @cached_property
    def metrics_per_class(self) -> tuple[str, ...]:
        """The metrics that have values per class: all whose matching looks at classes."""
        with_classes = {row.metric for row in self.rows if row.label is not None}
        return tuple(metric for metric in self.metrics if metric in with_classes)

    def __getitem__(self, key: str | tuple[str, str]) -> Estimate:
        """Return the pooled estimate: ``ev["AP"]`` with one model, ``ev["ours", "AP"]`` with
        several.
        """
        model, metric = (None, key) if isinstance(key, str) else key
        return self.get(metric, model=model)

    def get(
        self, metric: str, *, model: str | None = None, label: str | None = None, **group: str
    ) -> Estimate:
        """Return one estimate; unknown names are errors that name the nearest one.

        Parameters
        ----------
        label
            A class; None is the pooled estimate.
        group
            Such as ``centre="C1"``.
        """
        if model is None:
            if len(self.models) != 1:
                raise UsageError(f"several models: say which, one of {', '.join(self.models)}")
            model = self.models[0]
        if metric not in self.metrics:
            raise UsageError(f"no metric {metric!r}; {hint_among(str(metric), self.metrics)}")
        choices = [("model", model, self.models)]
        if label is not None:
            choices.append(("class", label, self.cohort.classes))
        for what, name, names in choices:
            if name not in names:
                raise UsageError(f"no {what} {name!r}; {did_you_mean(str(name), names)}")
        columns = self.cohort.images.groups
        group = {spelled(column, columns): value for column, value in group.items()}
        estimate = self._estimates.get((model, metric, label, frozenset(group.items())))
        if estimate is not None:
            return estimate
        if label is not None and metric not in self.metrics_per_class:
            raise UsageError(f"{metric!r} has no values per class: its matching ignores classes")
        raise UsageError(f"no group {group} in this evaluation")

    @cached_property
    def _estimates(self) -> dict[tuple[Any, ...], Estimate]:
        estimates = {}
        for row in self.rows:
            group = frozenset((row.group or {}).items())
            estimates[row.model, row.metric, row.label, group] = row.estimate
        return estimates

    def _content(self) -> dict[str, Any]:
        each = []
        for row in self.each:
            value = number(row.estimate.value)
            entry = {"model": row.model, "metric": row.metric, "value": value}
            each.append({**(row.group or {}), **entry})
        return {
            "protocol": self.protocol.as_dict(),
            "cohort": cohort_counts(self.cohort),
            "rows": self._records(),
            "warnings": list(self.warnings),
            "statistics": {
                **self.statistics,
                "beside": [beside(row.estimate) for row in self.rows if self.ci],
                "groups": [summary.as_dict() for summary in self.groups],
                "each": each,
            },
        }

    def flat(self, prefix: str = "") -> dict[str, float]:
        """Return name -> value for loggers, such as ``{"val/AP": 0.41, "val/AP/nodule": 0.3}``, if
        defined.
        """
        several = len(self.models) > 1
        values = {}
        for row in self.rows:
            parts = [row.metric]
            if several:
                parts.insert(0, row.model)
            if row.label is not None:
                parts.append(row.label)
            if row.group is None and row.estimate.value == row.estimate.value:
                values[prefix + "/".join(parts)] = row.estimate.value
        return values

    def compare(
        self,
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
        """Compare models on the same images: differences with intervals, tests, and what they say
        in words.

        Parameters
        ----------
        a, b
            Two models; with ``a`` alone it is compared with every other one, with neither all pairs
            are.
        metrics
            Names; the headline of the protocol if left out, ``["all"]`` for all. The fewer
            there are, the less the correction costs.
        margin
            The largest difference that does not matter, in units of the metric: one number, or one
            per metric.
        test
            ``"bootstrap"`` (if left out), whose verdict agrees with the interval, or
            ``"permutation"``.
        correction
            ``"max-t"``, ``"holm"``, ``"bh"`` or ``"none"``, over all tests of the comparison; if
            left out, max-t for the bootstrap and Holm for the permutation.
        replicates
            Of bootstrap and permutation; those of the protocol if left out.
        per_class
            Compare the classes too; they join the family of tests.
        jobs
            Threads that resample; results do not depend on it.
        progress
            Called with (blocks done, blocks in all).

        Examples
        --------
        >>> import calipers as cal
        >>> ev = cal.evaluate(cal.demo_cohort(), "overview")
        >>> comparison = ev.compare("mislabels", "overpredicts", metrics=["sensitivity@0.5"])
        >>> comparison.get("sensitivity@0.5").verdict
        'b_better'
        """
        from calipers.evaluation.compare import compare

        return compare(
            self,
            a,
            b,
            metrics=metrics,
            margin=margin,
            test=test,
            correction=correction,
            replicates=replicates,
            per_class=per_class,
            jobs=jobs,
            progress=progress,
        )

    def rank(
        self,
        metric: str | None = None,
        *,
        label: str | None = None,
        method: str = "data-set",
        quantile: float = 0.05,
        missing: str | None = None,
        replicates: int | None = None,
        jobs: int = 1,
        progress: Callable[[int, int], None] | None = None,
    ) -> Ranking:
        """Rank the models in one metric, and say how stable the ranking is.

        Parameters
        ----------
        metric
            The first of the headline if left out.
        label
            A class; None is the pooled metric.
        method
            ``data-set`` ranks the metric itself; ``mean-then-rank``, ``median-then-rank``,
            ``quantile-then-rank``, ``rank-then-mean``, ``rank-then-median`` and ``test-then-rank``
            look at single units.
        quantile
            Of ``quantile-then-rank``.
        missing
            ``"worst"`` gives a model without a value the worst one; if left out, that is an error.
        replicates
            Of the bootstrap; at most 1000 if left out.
        jobs
            Threads that resample; results do not depend on it.
        progress
            Called with (blocks done, blocks in all).

        Examples
        --------
        >>> import calipers as cal
        >>> cal.evaluate(cal.demo_cohort(), "overview").rank("AP@0.5").models
        ('overpredicts', 'misses-small', 'mislabels')
        """
        from calipers.evaluation.rank import rank

        return rank(
            self,
            metric,
            label=label,
            method=method,
            quantile=quantile,
            missing=missing,
            replicates=replicates,
            jobs=jobs,
            progress=progress,
        )

    def by(self, *groupings: str) -> Evaluation:
        """Return the evaluation with further rows per group, such as ``ev.by("centre")`` or
        ``ev.by("centre,size")``.

        A grouping crosses columns of the images, bins of a number (``"age=40:60"``), ``size`` and
        ``class``. Each also gives a `GroupSummary` of mean, standard deviation and range over its
        groups.
        """
        from calipers.evaluation.groups import grouped

        return grouped(self, groupings)

    def summary(self, over: str, *, by: str | None = None) -> ColumnSummary:
        """Return mean, standard deviation and range over the groups of one column, for every value
        of the other columns of a grouping, with the images and the prevalence of each group.

        Parameters
        ----------
        over
            A column of a grouping, such as ``"centre"``: its groups count equally.
        by
            The grouping; the first one with this column if left out.

        Examples
        --------
        >>> import calipers as cal
        >>> ev = cal.evaluate(cal.demo_cohort(), "endocv2022", by="centre,size", ci=False)
        >>> table = ev.summary("centre")
        >>> [group.n_images for group in table.groups]
        [35, 48, 15, 22]
        """
        from calipers.evaluation.groups import summarised

        return summarised(self, over, by)

    def errors(self, model: str | None = None) -> ErrorTable:
        """Return every mistake of a model, or of all models, with its kind and the objects behind
        it.

        Kinds are those of the metric ``error-types``: cls, loc, both, dup, bkg, miss; with the
        limits of the protocol's own metric of that kind, else with the protocol's criterion and
        threshold.

        Examples
        --------
        >>> import calipers as cal
        >>> ev = cal.evaluate(cal.demo_cohort(), "tide", ci=False)
        >>> sorted({row["kind"] for row in ev.errors("misses-small").rows()})
        ['bkg', 'both', 'cls', 'loc', 'miss']
        """
        from calipers.evaluation.saved import error_table

        return error_table(self, model)

    def check(self, requirements: str | Path | Requirements) -> tuple[Outcome, ...]:
        """Judge the rows by acceptance limits, from a TOML file or a `Requirements`; see `calipers
        check`.

        Each outcome says ``met``, ``not met``, or ``not shown`` with its reason; what is not shown
        is not met.
        """
        from calipers.results.requirements import Requirements, check

        if not isinstance(requirements, Requirements):
            requirements = Requirements.load(requirements)
        return check(self._records(), requirements, bounds=self.protocol.bounds)


def beside(estimate: Estimate) -> dict[str, Any]:
    """Return the facts beside an interval: percentile interval, Monte-Carlo error, flags; and the
    mean over the well-populated classes, where a mean has rare ones too.
    """
    facts = {
        "percentile": [number(value) for value in estimate.percentile],
        "mc_error": [number(value) for value in estimate.mc_error],
        "flags": list(estimate.flags),
        "partial": estimate.partial,
    }
    if estimate.populated is not None:
        facts["populated"] = estimate.populated.as_dict()
    return facts


def cohort_counts(cohort: Cohort) -> dict[str, Any]:
    """Return the counts of a cohort for JSON output: what was read, used and set aside."""
    return {
        "images": cohort.n_images,
        "references": len(cohort.references),
        "ignored": int(cohort.references.ignore.sum()),
        "classes": list(cohort.classes),
        "dimensions": cohort.dimensions,
        "groups": {
            name: len(set(column.tolist())) for name, column in cohort.images.groups.items()
        },
        "models": {name: len(predictions) for name, predictions in cohort.models.items()},
        "unscored": [name for name, predictions in cohort.models.items() if not predictions.scored],
        "files": [file.as_dict() for file in cohort.intake.files],
    }
