# SPDX-License-Identifier: Apache-2.0
"""`MonitorEvaluation`: what is known of monitors, under model-scope and under distribution labels."""

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
from calipers.monitors.pairs import LOWER_IS_BETTER, Drawn, differences, drawn
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
    """What stands behind the rows: the images that are stated, those judged at a threshold, and
    how.
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
        """Return where a quantity is: its family, its column, whether as 1 minus it, and the units
        behind it.
        """
        for families, own in ((self.free, False), (self.decided, True)):
            for family in families:
                place = family.find(metric, group) if family.model == monitor else None
                if place is not None:
                    return (
                        family,
                        *place,
                        self.units.take(np.flatnonzero(self.judged)) if own else self.units,
                    )
        return None


@dataclass(frozen=True)
class MonitorEvaluation(RowsDocument):
    """Everything that was found of one or more monitors."""

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
        """What a reader of the numbers must know."""
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
        model = (
            self.scope.model if word("a quantity", metric) == "prevalence" else self._name(monitor)
        )
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
        one, other = self._drawn(metric, group, names)
        return differences(
            [(one, other)], metric, self._units(metric, one.label, group), self._level
        )[0]

    def compare_all(
        self, metric: str = "AUROC", paradigm: str = OMS, tau: float | None = None
    ) -> list[Difference]:
        """Return the differences of all pairs of monitors, corrected by Holm as one family."""
        group = _group(paradigm, tau)
        found = self._drawn(metric, group)
        units = self._units(metric, self.monitors[0], group)
        return differences(list(combinations(found, 2)), metric, units, self._level)

    @cached_property
    def paradigm_gaps(self) -> dict[str, Difference]:
        """Monitor -> AUROC under OOD labels less AUROC under OMS labels, under the same weights."""
        if len(self.paradigms) < 2:
            return {}
        pairs = list(zip(self._drawn("AUROC", _group(OOD)), self._drawn("AUROC", _group(OMS))))
        made = differences(pairs, "AUROC", self.basis.units, self._level, "none")
        return dict(zip(self.monitors, made))

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
            orders.append(
                Order(
                    one.paradigm,
                    tau,
                    values,
                    higher,
                    {} if one.swept else self._wins(metric, one.group),
                )
            )
        if not orders:
            raise UsageError(self._absent(metric, _group(OMS)))
        return MonitorRanking(metric, tuple(orders))

    def sweep(self, metric: str = "AUROC") -> TauSweep:
        """Return a quantity of all monitors over tau: ``AUROC``, ``AUPR``, ``TNR95`` or ``FPR95``."""
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
                    self.monitors[k], paradigm, self.basis.monitors.alarm[k], one.wanted
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
        """Draw a figure with matplotlib (extra ``mpl``) and return its axes, which notebooks show."""
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
            How it was asked for; shown in the page.
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
    def _known(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], dict[str, Drawn]]:
        return {}

    def _drawn(self, metric: str, group: Group, names: Sequence[str] | None = None) -> list[Drawn]:
        """Return a quantity of some monitors, or of all, under the same weights; each is drawn
        once.
        """
        asked, drawing = self.monitors if names is None else names, []
        key = (word("a quantity", metric), tuple(group.items()))
        known = self._known.setdefault(key, {})
        for name in dict.fromkeys(asked):
            found = self.basis.find(metric, name, group)
            if found is None:
                raise UsageError(self._absent(metric, group, name))
            drawing += [] if name in known else [(name, *found[:3])]
        if drawing:
            made = drawn(drawing, self._units(metric, drawing[0][0], group), self.basis.certainty)
            known.update((one.label, one) for one in made)
        return [known[name] for name in asked]

    def _units(self, metric: str, monitor: str, group: Group) -> Units:
        found = self.basis.find(metric, monitor, group)
        if found is None:
            raise UsageError(self._absent(metric, group))
        return found[3]

    def _wins(self, metric: str, group: Group) -> dict[str, float]:
        """Return how often every monitor is best among the replicates; nothing if intervals were
        not asked for.
        """
        if not self.basis.certainty.replicates or len(self.monitors) < 2:
            return {}
        found = self._drawn(metric, group)
        table = np.stack([one.replicates for one in found], axis=1)
        return best_shares(self.monitors, table, metric not in LOWER_IS_BETTER)

    def _absent(self, metric: str, group: Group, monitor: str | None = None) -> str:
        known = [*self.metrics, "prevalence"]
        if metric not in known:
            return f"no quantity {metric!r}; {did_you_mean(metric, known)}"
        if "tau" in group:
            shown = ", ".join(tau_text(value) for value in self.taus[:10]) or "none"
            return f"{metric} has no row at tau = {group['tau']}; the sweep has: {shown}"
        if group["paradigm"] == OMS and self.tau is None:
            return f"{metric} under OMS labels depends on tau: give tau to evaluate_monitor, or one of the sweep here"
        whose = f"{metric} of {monitor}" if monitor else metric
        return f"{whose} has no row for {group['paradigm']}: no such labels, or no threshold"


def headline(labels: Sequence[Labelling], paradigm: str) -> Labelling | None:
    """Return the headline of a paradigm, if there is one."""
    return next((one for one in labels if one.paradigm == paradigm and not one.swept), None)


def threshold_dict(found: Threshold | None) -> dict[str, Any] | None:
    """Return a threshold for JSON, on the monitor's own scale."""
    if found is None:
        return None
    return {"value": number(found.given), "rule": found.rule, "n_tuning": found.n_tuning}


def _group(paradigm: str, tau: float | None = None) -> dict[str, str]:
    one_of("paradigm", paradigm, PARADIGMS)
    return {"paradigm": paradigm, **({} if tau is None else {"tau": tau_text(finite("tau", tau))})}
