# SPDX-License-Identifier: Apache-2.0
"""`MonitorEvaluation`, the result of `evaluate_monitor`: estimates of monitors under model-scope
(OMS) and distribution (OOD) labels, and methods for comparisons, rankings, sweeps and curves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import finite, one_of, word
from calipers.errors import UsageError, did_you_mean
from calipers.monitors.alarms import Monitors
from calipers.monitors.curves import MonitorCurves, TauSweep, curves_of
from calipers.monitors.disagreement import Disagreement
from calipers.monitors.estimating import Family
from calipers.monitors.labellings import OMS, OOD, PARADIGMS, Labelling, tau_text
from calipers.monitors.orders import MonitorRanking, Order, best_shares
from calipers.monitors.pairs import LOWER_IS_BETTER, MonitorReplicates, differences, draw_replicates
from calipers.monitors.scope_result import Scope
from calipers.monitors.thresholds import Split, Threshold
from calipers.results import Estimate, Row
from calipers.results.difference import Difference
from calipers.results.document import RowsDocument
from calipers.results.estimate import number
from calipers.statistics.estimates import Certainty
from calipers.statistics.weights import Units
from calipers.tables import Cohort

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calipers.plots.figures import Figure

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]
Group = Mapping[str, str]

SCHEMA = "calipers.monitor/1"


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
            if any(family is one for one in self.decided):
                units = self.units.take(np.flatnonzero(self.judged))
            return family, *place, units
        return None


@dataclass(frozen=True)
class MonitorEvaluation(RowsDocument):
    """The evaluation of one or more monitors."""

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
        from calipers.monitors.remarks import remarks

        return tuple(remarks(self))

    @property
    def tables(self) -> dict[str, list[dict[str, Any]]]:
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
        from calipers.monitors.wording import sentences

        return sentences(self)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON document of the contract ``calipers.monitor/1``."""
        from calipers.monitors.saving import document

        return document(self)

    def figure(self, name: str, monitor: str | None = None) -> Figure:
        """Return a figure as data.

        Parameters
        ----------
        name
            ``auroc``, ``risk``, ``roc-oms``, ``roc-ood``, ``sweep``, ``prevalence`` or ``ranking``;
            of one monitor ``outcomes`` (out of distribution x unsafe x rejected) or ``scores``.
        monitor
            May be left out if there is one, and for figures of all.
        """
        from calipers.plots.monitors import figure

        return figure(self, name, monitor)

    def plot(self, name: str = "risk", monitor: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw a figure with matplotlib (extra ``mpl``) and return its axes."""
        from calipers.plots.mpl import draw

        return draw(self.figure(name, monitor), ax)

    def _repr_html_(self) -> str:
        from calipers.report.small import of_monitors

        return of_monitors(self)

    def save(
        self,
        folder: str | Path,
        *,
        force: bool = False,
        cohort: Cohort | None = None,
        images: str | Path | None = None,
        command: Sequence[str] = (),
    ) -> Path:
        """Write the result into a folder, all of it or nothing, and return its page.

        These are ``monitor.html``, ``monitor.json``, ``monitor.csv`` (rows), ``images.csv`` (one
        row per image) and the figures.

        Parameters
        ----------
        folder
            New or empty.
        force
            Allow a folder that holds something; an earlier result in it is replaced, other files
            stay.
        cohort
            The images with references and predictions: the page then shows those on which monitors
            err.
        images
            A folder with their pictures; without it the marks stand on empty frames.
        command
            The command line of the evaluation, shown on the page.
        """
        from calipers.report.monitors import write_monitors

        pictures = None if images is None else Path(images)
        return write_monitors(
            self, Path(folder), force=force, command=command, cohort=cohort, images=pictures
        )

    @property
    def _level(self) -> float:
        return self.basis.certainty.level

    def _name(self, monitor: str | None) -> str:
        return self.monitors[self.basis.monitors.index(monitor)]

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
