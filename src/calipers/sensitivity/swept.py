# SPDX-License-Identifier: Apache-2.0
"""The result of a sweep: values of metrics over one or two choices, as rows, frame, JSON or figure.

`calipers.sensitivity.sweeps` makes it; the terminal, the page and notebooks show it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean
from calipers.results.document import Document
from calipers.results.estimate import number
from calipers.sensitivity.choices import Value, is_corruption, label_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from calipers.plots.figures import Figure

F64 = NDArray[np.float64]

SCHEMA = "calipers.sweep/1"
ORACLE = "oracle"
CLAIM = re.compile(r"@[0-9.]+$")


@dataclass(frozen=True, slots=True)
class SweepAxis:
    """One choice and its values."""

    name: str
    values: tuple[Value, ...]

    @property
    def label(self) -> str:
        """The choice in words."""
        return label_of(self.name)

    @property
    def numeric(self) -> bool:
        """Whether the values are numbers, so that a line may join them."""
        return all(not isinstance(value, str) for value in self.values)


@dataclass(frozen=True)
class Sweep(Document):
    """Values of metrics over one or two choices, with bands."""

    axes: tuple[SweepAxis, ...]
    models: tuple[str, ...]
    metrics: tuple[str, ...]
    value: F64  # (models, metrics, points of axis 0[, points of axis 1])
    low: F64  # of the same shape; NaN without a band
    high: F64
    runs: int  # of an oracle; 1 if nothing was random
    band: str  # what low and high are
    protocol: str
    n_images: int
    n_references: int
    seed: int
    lower: tuple[str, ...] = ()  # metrics of which less is better
    bounded: tuple[str, ...] = ()  # metrics that lie between 0 and 1

    @property
    def of_oracle(self) -> bool:
        """Whether the strength of a corruption was swept."""
        return any(is_corruption(axis.name) for axis in self.axes)

    def metric_label(self, metric: str) -> str:
        """Return the name of a metric, without a threshold that the sweep replaces.

        AP@0.5 swept over thresholds is called AP.
        """
        if any(axis.name == "threshold" for axis in self.axes):
            return CLAIM.sub("", metric)
        return metric

    def line(self, metric: str, model: str | None = None) -> tuple[F64, F64, F64]:
        """Return value, low and high of one metric and model along the axes."""
        if model is None and len(self.models) == 1:
            model = self.models[0]
        for what, name, names in (("model", model, self.models), ("metric", metric, self.metrics)):
            if name not in names:
                raise UsageError(
                    f"no {what} {name!r} in this sweep; {did_you_mean(str(name), names)}"
                )
        place = self.models.index(str(model)), self.metrics.index(metric)
        return self.value[place], self.low[place], self.high[place]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per model, metric and point."""
        rows = []
        lengths = [len(axis.values) for axis in self.axes]
        for m, k, *point in np.ndindex(len(self.models), len(self.metrics), *lengths):
            place = (m, k, *point)
            row: dict[str, Any] = {"model": self.models[m], "metric": self.metrics[k]}
            for axis, i in zip(self.axes, point):
                row[axis.name] = axis.values[i]
            row["value"] = number(float(self.value[place]))
            row["low"] = number(float(self.low[place]))
            row["high"] = number(float(self.high[place]))
            rows.append(row)
        return rows

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a pandas frame (extra ``frames``)."""
        from calipers.results.frames import frame

        return frame(self.rows())

    def as_dict(self) -> dict[str, Any]:
        """Return the document ``calipers.sweep/1``."""
        from calipers import __version__

        return {
            "schema": SCHEMA,
            "calipers": __version__,
            "axes": [
                {"name": axis.name, "label": axis.label, "values": list(axis.values)}
                for axis in self.axes
            ],
            "models": list(self.models),
            "metrics": list(self.metrics),
            "runs": self.runs,
            "band": self.band,
            "seed": self.seed,
            "protocol": self.protocol,
            "cohort": {"images": self.n_images, "references": self.n_references},
            "rows": self.rows(),
        }

    def figure(self, metric: str | None = None, *, model: str | None = None) -> Figure:
        """Return the sweep as a figure: data, with a title that states the finding.

        Parameters
        ----------
        metric
            The first one if left out. An oracle over one number shows all of them, unless one is
            named.
        model
            Where only one can be shown: the first if left out. One choice shows all models.

        See Also
        --------
        calipers.plots.sweeps.sweep_figure
        """
        from calipers.plots.sweeps import sweep_figure

        return sweep_figure(self, metric, model=model)

    def plot(
        self, ax: Axes | None = None, metric: str | None = None, *, model: str | None = None
    ) -> Axes:
        """Draw the figure with matplotlib (extra ``mpl``) and return its axes, which notebooks
        show.
        """
        from calipers.plots.mpl import draw

        return draw(self.figure(metric, model=model), ax)

    def _repr_html_(self) -> str:
        from calipers.report.small import of_sweep

        return of_sweep(self)
