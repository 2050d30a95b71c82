# SPDX-License-Identifier: Apache-2.0
"""`MonitorEvaluation`, the result of `evaluate_monitor`, and the curves and rankings it gives.

It holds estimates of monitors under model-scope (OMS) and distribution (OOD) labels, and computes
comparisons, rankings, sweeps and curves from its `Basis` when they are asked for. `MonitorCurves`
has the curves of a monitor as points, one per attainable cut: ROC, precision and recall, risk
against coverage. `MonitorRanking` has the order of monitors under OMS labels, under OOD labels and
under every tau, and says whether these orders agree. Tables, figures, words and the page read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from calipers.arguments import names_methods
from calipers.arrays import F64, Flags
from calipers.errors import UsageError, did_you_mean, finite, one_of, word
from calipers.kernels.roc import Cuts, operating
from calipers.monitors.estimates import (
    LOWER_IS_BETTER,
    ChanceTest,
    Disagreement,
    Family,
    MonitorReplicates,
    chance_tests,
    differences,
    draw_replicates,
)
from calipers.monitors.halves import HalvesSummary
from calipers.monitors.labels import (
    OMS,
    OOD,
    PARADIGMS,
    Labelling,
    Monitors,
    Split,
    Threshold,
    tau_text,
)
from calipers.monitors.scope import Scope
from calipers.results.comparison import Difference
from calipers.results.document import Document
from calipers.results.estimate import Estimate, Row, number
from calipers.statistics.estimates import Certainty
from calipers.statistics.ranks import kendall_tau_b
from calipers.statistics.weights import Units

Group = Mapping[str, str]


@dataclass(frozen=True, repr=False, eq=False)
class MonitorEvaluation(Document):
    """The evaluation of one or more monitors.

    Figures are ``auroc``, ``risk``, ``roc-oms``, ``roc-ood``, ``sweep``, ``prevalence`` and
    ``ranking``; of one monitor, named by ``monitor``, ``outcomes`` (out of distribution x unsafe x
    rejected) and ``scores``. ``report(path, ...)`` and ``save(folder, ...)`` take the options of
    `calipers.monitors.page.write_monitors`: with ``cohort`` the page shows the images on which
    monitors err.
    """

    SCHEMA = "calipers.monitor/1"
    FIGURES = "calipers.monitors.figures:FIGURES"
    FIRST_FIGURE = "risk"
    TABLES = "calipers.monitors.tables:tables"
    PAGE = "calipers.monitors.page:write_monitors_page"
    FOLDER = "calipers.monitors.page:write_monitors"
    NOTEBOOK = "calipers.monitors.page:of_monitors"

    monitors: tuple[str, ...]
    scope: Scope  # of the images that are stated
    rows: tuple[Row, ...]
    thresholds: Mapping[str, Threshold | None]
    split: Split  # of all images that were given
    tau: float | None  # of the headline
    taus: tuple[float, ...]  # of the sweep
    disagreement: Disagreement | None  # with OMS and OOD labels
    settings: Mapping[str, Any]
    basis: Basis
    # quantities at a threshold over random halves; empty unless a random half chose it
    halves: tuple[HalvesSummary, ...] = ()

    @property
    def n_images(self) -> int:
        """Images that are stated; those at a threshold may be fewer, see ``n_images`` of the
        estimates.
        """
        return len(self.scope)

    @property
    def paradigms(self) -> tuple[str, ...]:
        """The paradigms that have a headline."""
        return tuple(one.paradigm for one in self.basis.labels if not one.swept)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of all quantities of monitors."""
        return tuple(dict.fromkeys(row.metric for row in self.rows if row.model in self.monitors))

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the numbers, in words."""
        from calipers.monitors.words import remarks

        return tuple(remarks(self))

    @property
    def counts(self) -> dict[str, list[dict[str, Any]]]:
        """Tables of counts by name: ``disagreement``, of OOD x unsafe, then x rejected for every
        monitor.
        """
        return {"disagreement": [] if self.disagreement is None else self.disagreement.records()}

    def get(
        self, metric: str, monitor: str | None = None, paradigm: str = OMS, tau: float | None = None
    ) -> Estimate:
        """Return one estimate.

        Parameters
        ----------
        monitor
            May be left out if there is one.
        paradigm
            ``oms`` or ``ood``.
        tau
            A value of the sweep; None is the headline.
        """
        if word("a quantity", metric) == "prevalence":  # of the images, not of a monitor
            model = self.scope.model
        else:
            model = self._name(monitor)
        group = _group(paradigm, tau)
        for row in self.rows:
            if row.metric == metric and row.model == model and row.group == group:
                return row.estimate
        raise UsageError(self._absent(metric, group))

    def over_halves(
        self, metric: str, monitor: str | None = None, paradigm: str = OMS
    ) -> HalvesSummary | None:
        """Return a quantity at the threshold over random halves; None if no half was drawn."""
        key = (self._name(monitor), one_of("paradigm", paradigm, PARADIGMS), metric)
        for one in self.halves:
            if (one.monitor, one.paradigm, one.metric) == key:
                return one
        return None

    def compare(
        self, a: str, b: str, metric: str = "AUROC", paradigm: str = OMS, tau: float | None = None
    ) -> Difference:
        """Return the difference of two monitors, a minus b, on the same images under the same
        weights.
        """
        group = _group(paradigm, tau)
        names = tuple(self._name(name) for name in (a, b))
        one, other = self._replicates(metric, group, names)
        units = self._units(metric, one.label, group)
        return differences([(one, other)], metric, units, self._level)[0]

    def compare_all(
        self, metric: str = "AUROC", paradigm: str = OMS, tau: float | None = None
    ) -> list[Difference]:
        """Return the differences of all pairs of monitors, corrected by Holm as one family."""
        group = _group(paradigm, tau)
        samples = self._replicates(metric, group)
        units = self._units(metric, self.monitors[0], group)
        return differences(list(combinations(samples, 2)), metric, units, self._level)

    def chance_tests(self, paradigm: str = OMS) -> dict[str, ChanceTest]:
        """Return monitor -> the test of its AUROC against 0.5, corrected for all monitors.

        The best of ten useless monitors looks better than chance in a fifth of all data sets if
        each is tested by itself.
        """
        if paradigm not in self._chance:
            samples = self._replicates("AUROC", _group(paradigm))
            tests = chance_tests(samples, self.basis.units)
            self._chance[paradigm] = {one.monitor: one for one in tests}
        return self._chance[paradigm]

    @cached_property
    def paradigm_gaps(self) -> dict[str, Difference]:
        """Monitor -> AUROC under OOD labels less AUROC under OMS labels, under the same weights."""
        if len(self.paradigms) < 2:
            return {}
        under_ood = self._replicates("AUROC", _group(OOD))
        under_oms = self._replicates("AUROC", _group(OMS))
        pairs = list(zip(under_ood, under_oms))
        # every monitor is compared with itself only: not corrected for multiple tests
        gaps = differences(pairs, "AUROC", self.basis.units, self._level, "none")
        return dict(zip(self.monitors, gaps))

    def ranking(self, metric: str = "AUROC") -> MonitorRanking:
        """Return the order of monitors by a quantity, under both paradigms and every tau at which
        it is stated.
        """
        higher, orders = word("a quantity", metric) not in LOWER_IS_BETTER, []
        for one in self.basis.labels:
            if any(self.basis.find(metric, name, one.group) is None for name in self.monitors):
                continue
            tau = one.tau if one.swept else None
            values = {
                name: self.get(metric, name, one.paradigm, tau).value for name in self.monitors
            }
            # Shares of wins need replicates, which are drawn for the headlines only.
            wins = {} if one.swept else self._wins(metric, one.group)
            orders.append(Order(one.paradigm, tau, values, higher, wins))
        if not orders:
            raise UsageError(self._absent(metric, _group(OMS)))
        return MonitorRanking(metric, tuple(orders))

    def sweep(self, metric: str = "AUROC") -> TauSweep:
        """Return ``AUROC``, ``AUPR``, ``TNR95`` or ``FPR95`` of all monitors over tau."""
        shape = (3, len(self.monitors), len(self.taus))
        values = np.full(shape, np.nan)
        for m, name in enumerate(self.monitors):
            for t, tau in enumerate(self.taus):
                e = self.get(metric, name, OMS, tau)
                values[:, m, t] = e.value, e.low, e.high
        taus = np.array(self.taus)
        return TauSweep(metric, taus, self.scope.prevalence(taus), self.monitors, *values)

    def curves(
        self, monitor: str | None = None, paradigm: str = OMS, tau: float | None = None
    ) -> MonitorCurves:
        """Return the ROC and risk-coverage curves of a monitor."""
        group = _group(paradigm, tau)
        for one in self.basis.labels:
            if one.group == group:
                k = self.basis.monitors.index(monitor)
                return curves_of(
                    self.monitors[k], paradigm, self.basis.monitors.alarm[k], one.positive
                )
        raise UsageError(self._absent("AUROC", group))

    def sentences(self) -> list[str]:
        """Return in words whether the monitors can be trusted."""
        from calipers.monitors.words import sentences

        return sentences(self)

    def _content(self) -> dict[str, Any]:
        from calipers.monitors.words import document_content

        return document_content(self)

    @property
    def _level(self) -> float:
        return self.basis.certainty.level

    def _name(self, monitor: str | None) -> str:
        return self.monitors[self.basis.monitors.index(monitor)]

    @cached_property
    def _chance(self) -> dict[str, dict[str, ChanceTest]]:
        return {}

    @cached_property
    def _cache(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], dict[str, MonitorReplicates]]:
        return {}

    def _replicates(
        self, metric: str, group: Group, names: Sequence[str] | None = None
    ) -> list[MonitorReplicates]:
        """Return a quantity of some monitors, or of all, under the same weights; each is drawn
        once.
        """
        monitors = self.monitors if names is None else names
        key = (word("a quantity", metric), tuple(group.items()))
        cache = self._cache.setdefault(key, {})
        missing = []
        for name in dict.fromkeys(monitors):
            # All places are looked up before any is drawn, so that a wrong name costs no bootstrap.
            place = self.basis.find(metric, name, group)
            if place is None:
                raise UsageError(self._absent(metric, group, name))
            if name not in cache:
                missing.append((name, *place[:3]))
        if missing:
            units = self._units(metric, missing[0][0], group)
            for sample in draw_replicates(missing, units, self.basis.certainty):
                cache[sample.label] = sample
        return [cache[name] for name in monitors]

    def _units(self, metric: str, monitor: str, group: Group) -> Units:
        place = self.basis.find(metric, monitor, group)
        if place is None:
            raise UsageError(self._absent(metric, group))
        return place[3]

    def _wins(self, metric: str, group: Group) -> dict[str, float]:
        """Return the share of replicates in which every monitor is best; empty if intervals were
        not requested.
        """
        if not self.basis.certainty.replicates or len(self.monitors) < 2:
            return {}
        samples = self._replicates(metric, group)
        table = np.stack([one.replicates for one in samples], axis=1)
        return best_shares(self.monitors, table, metric not in LOWER_IS_BETTER)

    def _absent(self, metric: str, group: Group, monitor: str | None = None) -> str:
        metrics = [*self.metrics, "prevalence"]
        if metric not in metrics:
            return f"no quantity {metric!r}; {did_you_mean(metric, metrics)}"
        if "tau" in group:
            taus = ", ".join(tau_text(value) for value in self.taus[:10]) or "none"
            return f"{metric} has no row at tau = {group['tau']}; the sweep has: {taus}"
        if group["paradigm"] == OMS and self.tau is None:
            return (
                f"{metric} under OMS labels depends on tau: give tau to evaluate_monitor, or one "
                "of the sweep here"
            )
        whose = f"{metric} of {monitor}" if monitor else metric
        return f"{whose} has no row for {group['paradigm']}: no such labels, or no threshold"


@dataclass(frozen=True)
class Basis:
    """The evidence behind the rows: the images that are stated, those judged at a threshold, and
    the settings of the bootstrap.
    """

    monitors: Monitors  # on the images that are stated
    labels: tuple[Labelling, ...]
    units: Units
    judged: Flags  # (n,) of these images, those judged at a threshold
    certainty: Certainty
    free: tuple[Family, ...]
    decided: tuple[Family, ...]

    def find(
        self, metric: str, monitor: str, group: Group
    ) -> tuple[Family, int, bool, Units] | None:
        """Return the family and column of a quantity, whether it is 1 minus that column, and its
        units.
        """
        for family in (*self.free, *self.decided):
            place = family.find(metric, group) if family.model == monitor else None
            if place is None:
                continue
            units = self.units
            # Quantities at a threshold belong to the images that were judged, not to those it was
            # chosen on.
            if any(family is one for one in self.decided):
                units = self.units.take(np.flatnonzero(self.judged))
            return family, *place, units
        return None


def headline(labels: Sequence[Labelling], paradigm: str) -> Labelling | None:
    """Return the headline of a paradigm, if there is one."""
    return next((one for one in labels if one.paradigm == paradigm and not one.swept), None)


def threshold_dict(threshold: Threshold | None) -> dict[str, Any] | None:
    """Return a threshold for JSON, on the monitor's own scale."""
    if threshold is None:
        return None
    value = number(threshold.own_value)
    return {"value": value, "rule": threshold.rule, "n_tuning": threshold.n_tuning}


def _group(paradigm: str, tau: float | None = None) -> dict[str, str]:
    one_of("paradigm", paradigm, PARADIGMS)
    if tau is None:
        return {"paradigm": paradigm}
    return {"paradigm": paradigm, "tau": tau_text(finite("tau", tau))}


@names_methods
@dataclass(frozen=True)
class MonitorCurves:
    """The curves of one monitor under one labelling; empty arrays where the images are all of one
    kind.
    """

    monitor: str
    paradigm: str
    threshold: F64  # (g,) falling, on the scale on which high means alarm
    tpr: F64  # (g + 1,) from 0, nothing rejected, to 1
    fpr: F64
    precision: F64  # (g,)
    coverage: F64  # (g,) share of images accepted, rising to 1
    risk: F64  # (g,) share of them on which an alarm is wanted
    best_risk: F64  # at the same coverages, if all other images were accepted first
    prevalence: float  # the risk at full coverage, which a random order has at every coverage


def curves_of(monitor: str, paradigm: str, alarm: F64, positive: Flags) -> MonitorCurves:
    """Return the curves of one monitor."""
    share = float(positive.mean()) if len(positive) else float("nan")
    if not positive.any() or positive.all():
        threshold, tpr, fpr, precision, coverage, risk, best = (np.zeros(0) for _ in range(7))
        return MonitorCurves(
            monitor, paradigm, threshold, tpr, fpr, precision, coverage, risk, best, share
        )
    # Curves are drawn for the images as they are, each with weight one.
    ones = np.ones((1, len(alarm)), np.int64)
    points = operating(alarm, positive, ones)
    tp, fp = points.tp[:, 0], points.fp[:, 0]
    others = int((~positive).sum())
    # Accepting images up to a score rejects all above it, as the threshold before does.
    tp_before = np.concatenate([[0], tp[:-1]])[::-1]
    fp_before = np.concatenate([[0], fp[:-1]])[::-1]
    n_missed = len(alarm) - others - tp_before
    number = n_missed + others - fp_before
    return MonitorCurves(
        monitor=monitor,
        paradigm=paradigm,
        threshold=Cuts.of(alarm).threshold,
        tpr=np.concatenate([[0.0], tp / points.positives]),
        fpr=np.concatenate([[0.0], fp / points.others]),
        precision=tp / (tp + fp),
        coverage=number / len(alarm),
        risk=n_missed / number,
        best_risk=np.maximum(number - others, 0) / number,
        prevalence=share,
    )


@names_methods
@dataclass(frozen=True)
class TauSweep:
    """A quantity of all monitors as a function of tau, with the share of unsafe images."""

    metric: str
    tau: F64  # (T,)
    prevalence: F64  # (T,)
    monitors: tuple[str, ...]
    value: F64  # (M, T)
    low: F64
    high: F64


@dataclass(frozen=True)
class Order:
    """How monitors are ranked under one labelling."""

    paradigm: str
    tau: float | None  # None: the headline
    values: Mapping[str, float]
    higher_is_better: bool
    # share of bootstrap replicates in which a monitor is best; empty without replicates
    wins: Mapping[str, float]

    @property
    def defined(self) -> bool:
        """Whether all monitors have a value."""
        return not any(np.isnan(value) for value in self.values.values())

    @property
    def ranks(self) -> dict[str, int]:
        """Monitor -> rank, 1 is best; equal values share the better one. Empty if a monitor has no
        value.
        """
        if not self.defined:
            return {}
        ranks = {}
        for name, value in self.values.items():
            n_better = sum(self._better(other, value) for other in self.values.values())
            ranks[name] = 1 + n_better
        return ranks

    @property
    def winners(self) -> tuple[str, ...]:
        """The best monitor, or all that share the first place."""
        return tuple(name for name, rank in self.ranks.items() if rank == 1)

    def _better(self, one: float, other: float) -> bool:
        return one > other if self.higher_is_better else one < other

    def as_dict(self) -> dict[str, Any]:
        """Return the order for JSON."""
        return {
            "paradigm": self.paradigm,
            "tau": self.tau,
            "values": {name: number(value) for name, value in self.values.items()},
            "ranks": self.ranks,
            "winners": list(self.winners),
            "wins": dict(self.wins),
        }


@names_methods
@dataclass(frozen=True)
class MonitorRanking:
    """The orders of monitors by one quantity."""

    metric: str
    orders: tuple[Order, ...]

    def order(self, paradigm: str, tau: float | None = None) -> Order | None:
        """Return the order under one labelling, if there is one."""
        return next(
            (one for one in self.orders if (one.paradigm, one.tau) == (paradigm, tau)), None
        )

    @property
    def swept(self) -> tuple[Order, ...]:
        """The orders of the sweep over tau in which all monitors have a value."""
        return tuple(one for one in self.orders if one.tau is not None and one.defined)

    def kendall(self, one: Order | None, other: Order | None) -> float:
        """Return Kendall's tau-b between two orders; NaN if one is missing, or all monitors are
        level in one.
        """
        if one is None or other is None or not (one.defined and other.defined):
            return float("nan")
        first = np.array([one.values[name] for name in one.values])
        second = np.array([other.values[name] for name in one.values])
        # Two orders of quantities that run against each other are compared by quality, not by
        # value.
        sign = 1.0 if one.higher_is_better == other.higher_is_better else -1.0
        return float(kendall_tau_b(sign * first, second[None])[0])

    @property
    def agreement(self) -> float:
        """Kendall's tau-b between the order under OMS labels and that under OOD labels."""
        return self.kendall(self.order(OMS), self.order(OOD))

    @property
    def wins(self) -> dict[str, int]:
        """Monitor -> at how many values of tau it is best, alone or with others."""
        names = self.orders[0].values if self.orders else ()
        counts = dict.fromkeys(names, 0)
        for order in self.swept:
            for name in order.winners:
                counts[name] += 1
        return counts

    def as_dict(self) -> dict[str, Any]:
        """Return the ranking for JSON."""
        return {
            "metric": self.metric,
            "kendall_oms_ood": number(self.agreement),
            "wins_over_tau": self.wins,
            "n_tau": len(self.swept),
            "orders": [one.as_dict() for one in self.orders],
        }


def best_shares(names: Sequence[str], replicates: F64, higher_is_better: bool) -> dict[str, float]:
    """Return the share of replicates (B, M) in which every monitor is best; ties are shared
    equally, undefined replicates left out.
    """
    rows = replicates[~np.isnan(replicates).any(axis=1)]
    if not len(rows):
        return {}
    values = rows if higher_is_better else -rows
    # A replicate in which two monitors are level counts half for each.
    best = values == values.max(axis=1, keepdims=True)
    shares = (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
    return dict(zip(names, shares.tolist()))
