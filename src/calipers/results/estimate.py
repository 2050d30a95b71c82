# SPDX-License-Identifier: Apache-2.0
"""An estimate: value, interval, n, and the reason if one of them is missing.

`calipers.statistics` makes estimates; every result has them in its rows, and `calipers.show` puts
them into words and tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calipers.arguments import names_fields
from calipers.results.document import estimate_html, estimate_words

REASONS = (
    "no_references",
    "no_predictions",
    "no_objects",
    "no_positives",
    "single_category",
    "single_class",
    "too_few_units",
    "too_few_positives",
    "one_unit",
    "too_many_undefined",
    "constant_input",
    "not_requested",
    "no_sequences",
    "no_frame_rate",
)
KNOWN_REASONS = frozenset(REASONS)  # looked up for every estimate

# Intraclass correlation of errors that is assumed where no error shows it: chosen among .2, .25 and
# .3 as the smallest that still covers about as often; `statistics.few_errors` has a limit to it.
ASSUMED_LIKENESS = 0.25

FLAGS = {
    "few_units": "fewer than 10 units",
    "few_errors": "interval for small counts, because few units, or nearly all, have errors",
    # The next two and "on_bound" are of results of version 0.1.
    "near_perfect": (
        "interval for the share of error-free units, because errors are too few for a bootstrap"
    ),
    "all_wrong": "interval for the share of error-free units, because nothing is right",
    "identical_units": (
        "interval that rests on the number of units alone, because all have the same value"
    ),
    "on_bound": "percentile interval, because many replicates lie on a bound of the metric",
    "independent_objects": "interval that treats objects as independent of each other",
    "rough_metric": (
        "interval by the jackknife, which is unreliable for medians and AP at fixed recalls"
    ),
    "classes_left_out": (
        "in more than 5 % of the bootstrap samples a class has no references and drops out of the "
        "mean"
    ),
    "rare_classes": (
        "the mean includes classes in fewer than 5 units, whose average precision tends to be "
        "too high"
    ),
}


@dataclass(frozen=True, slots=True)
class PopulatedMean:
    """A mean over the classes with references in at least 5 units, where others have fewer."""

    value: float
    low: float
    high: float
    classes: tuple[int, ...]  # rows of the classes in it
    n_left_out: int

    def as_dict(self) -> dict[str, Any]:
        """Return the mean for JSON."""
        return {
            "value": number(self.value),
            "low": number(self.low),
            "high": number(self.high),
            "n_classes": len(self.classes),
            "n_left_out": self.n_left_out,
        }


@names_fields
@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric's value with its interval and the numbers behind it.

    NaN means undefined, and then ``reason`` says why; in JSON it is null.
    """

    value: float
    low: float
    high: float
    level: float  # of the interval, such as 0.95
    method: str  # of the interval; "none" if there is none
    unit: str  # what was resampled: image, patient, centre
    n_units: int
    n_images: int
    n_references: int  # counted ones: not ignored, of that class and size
    n_predictions: int
    bias: float  # of the bootstrap
    undefined: int  # replicates without a value
    reason: str | None  # why value or interval is missing: one of REASONS
    # the percentile interval, which most papers use, for comparison
    percentile: tuple[float, float] = (math.nan, math.nan)
    # standard error of the bounds from the number of replicates
    mc_error: tuple[float, float] = (math.nan, math.nan)
    flags: tuple[str, ...] = ()  # cautions about the interval: see FLAGS
    partial: int = 0  # replicates in which a mean over classes lost one of them
    populated: PopulatedMean | None = None  # of a mean over classes, some of which are rare

    def __post_init__(self) -> None:
        if self.reason is None:
            if math.isnan(self.value):
                raise AssertionError("an undefined value needs a reason")
        elif self.reason not in KNOWN_REASONS:
            raise AssertionError(f"{self.reason!r} is not one of the reasons")

    def __float__(self) -> float:
        return self.value

    def _repr_html_(self) -> str:
        return estimate_html(self)

    def __str__(self) -> str:
        if math.isnan(self.value):
            return f"undefined ({estimate_words(self)}), n = {_count(self.n_images, 'image')}"
        counts = f"{_count(self.n_images, 'image')}, {_count(self.n_references, 'reference')}"
        return f"{estimate_words(self)}, n = {counts}"


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


@names_fields
@dataclass(frozen=True, slots=True)
class Row:
    """One estimate and what it is an estimate of."""

    model: str
    metric: str
    metric_id: str
    label: str | None  # the class, None = pooled; written as "class"
    group: Mapping[str, str] | None  # {"centre": "C1", "size": "small"}
    estimate: Estimate

    def as_dict(self) -> dict[str, Any]:
        """Return the row of the JSON contract: keys in a fixed order, NaN as None."""
        e = self.estimate
        return {
            "model": self.model,
            "metric": self.metric,
            "metric_id": self.metric_id,
            "class": self.label,
            "group": None if self.group is None else dict(self.group),
            "value": number(e.value),
            "low": number(e.low),
            "high": number(e.high),
            "level": e.level,
            "method": e.method,
            "unit": e.unit,
            "n_units": e.n_units,
            "n_images": e.n_images,
            "n_references": e.n_references,
            "n_predictions": e.n_predictions,
            "bias": number(e.bias),
            "undefined": e.undefined,
            "reason": e.reason,
        }


def number(value: float) -> float | None:
    """Return a float for JSON: None instead of NaN and infinities, which JSON does not have."""
    return float(value) if math.isfinite(value) else None
