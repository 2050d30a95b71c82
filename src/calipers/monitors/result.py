# SPDX-License-Identifier: Apache-2.0
"""`MonitorEvaluation`: what is known of monitors, under model-scope and under distribution labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean
from calipers.monitors.alarms import Monitors
from calipers.monitors.estimating import Family
from calipers.monitors.labellings import OMS, PARADIGMS, Labelling, tau_text
from calipers.monitors.scope_result import Scope
from calipers.monitors.thresholds import Split, Threshold
from calipers.results import Estimate, Row
from calipers.statistics.estimates import Certainty
from calipers.statistics.weights import Units

if TYPE_CHECKING:
    import pandas as pd

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]

SCHEMA = "calipers.monitor/1"


@dataclass(frozen=True)
class Basis:
    """What stands behind the rows: the images that are judged, and how."""

    monitors: Monitors  # on the images below
    labels: tuple[Labelling, ...]
    units: Units
    judged: Flags  # (n,) of these images, those judged at a threshold
    certainty: Certainty
    free: tuple[Family, ...]
    decided: tuple[Family, ...]


@dataclass(frozen=True)
class MonitorEvaluation:
    """Everything that was found of one or more monitors."""

    monitors: tuple[str, ...]
    scope: Scope  # of the images that are judged
    rows: tuple[Row, ...]
    thresholds: Mapping[str, Threshold | None]
    split: Split  # of all images that were given
    tau: float | None  # of the headline
    taus: tuple[float, ...]  # of the sweep
    settings: Mapping[str, Any]
    warnings: tuple[str, ...]
    basis: Basis

    @property
    def n_images(self) -> int:
        """Images that are judged; those at a threshold may be fewer, see ``n_images`` of the estimates."""
        return len(self.scope)

    @property
    def paradigms(self) -> tuple[str, ...]:
        """The paradigms that have a headline."""
        return tuple(one.paradigm for one in self.basis.labels if not one.swept)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of all quantities of monitors."""
        return tuple(dict.fromkeys(row.metric for row in self.rows if row.model in self.monitors))

    def get(self, metric: str, monitor: str | None = None, paradigm: str = OMS, tau: float | None = None) -> Estimate:
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
        if paradigm not in PARADIGMS:
            raise UsageError(f"no paradigm {paradigm!r}; {did_you_mean(paradigm, PARADIGMS)}")
        name = self.basis.monitors.names[self.basis.monitors.index(monitor)]
        model = self.scope.model if metric == "prevalence" else name
        group = {"paradigm": paradigm, **({} if tau is None else {"tau": tau_text(tau)})}
        for row in self.rows:
            if row.model == model and row.metric == metric and row.group == group:
                return row.estimate
        raise UsageError(self._absent(metric, group))

    def _absent(self, metric: str, group: Mapping[str, str]) -> str:
        known = [*self.metrics, "prevalence"]
        if metric not in known:
            return f"no quantity {metric!r}; {did_you_mean(metric, known)}"
        if "tau" in group:
            shown = ", ".join(tau_text(value) for value in self.taus[:10]) or "none"
            return f"{metric} has no row at tau = {group['tau']}; the sweep has: {shown}"
        if group["paradigm"] == OMS and self.tau is None:
            return (
                f"{metric} under OMS labels depends on tau: give tau to evaluate_monitor, or ask for one of the sweep"
            )
        return f"{metric} has no row for {group['paradigm']}: no such labels were given"

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON document of the contract ``calipers.monitor/1``."""
        from calipers import __version__

        return {
            "schema": SCHEMA,
            "calipers": __version__,
            "settings": dict(self.settings),
            "monitors": list(self.monitors),
            "rows": [row.as_dict() for row in self.rows],
            "warnings": list(self.warnings),
        }

    def to_json(self) -> str:
        """Return the document as JSON text in ASCII; null for undefined."""
        import json

        return json.dumps(self.as_dict(), allow_nan=False)

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a pandas frame (extra ``frames``)."""
        from calipers.results.frames import frame

        return frame([row.as_dict() for row in self.rows])


def headline(labels: Sequence[Labelling], paradigm: str) -> Labelling | None:
    """Return the headline of a paradigm, if there is one."""
    return next((one for one in labels if one.paradigm == paradigm and not one.swept), None)
