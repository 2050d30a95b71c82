# SPDX-License-Identifier: Apache-2.0
"""The difference of two models in one metric, with its interval, its test, and what they say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calipers.results.estimate import Estimate, number

VERDICTS = ("a_better", "b_better", "no_difference_shown", "undefined")
MARGIN_VERDICTS = (
    "equivalent",
    "a_superior",
    "b_superior",
    "a_not_inferior",
    "b_not_inferior",
    "not_shown",
)


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric of two models on the same images; the estimate is that of a minus b."""

    metric: str
    metric_id: str
    label: str | None  # the class, None = pooled; written as "class"
    model_a: str
    model_b: str
    value_a: float
    value_b: float
    estimate: Estimate
    p: float
    p_adjusted: float
    p_share: float  # from the share of bootstrap replicates on the other side of 0
    test: str  # bootstrap or permutation
    correction: str
    family: int  # number of tests that were corrected together
    verdict: str  # one of VERDICTS
    margin: float | None
    margin_verdict: str | None  # one of MARGIN_VERDICTS; None without a margin
    trades_undefined: int  # permutations without a value
    sentence: str

    def as_dict(self) -> dict[str, Any]:
        """Return the row of the JSON contract: keys in a fixed order, NaN as None."""
        e = self.estimate
        return {
            "metric": self.metric,
            "metric_id": self.metric_id,
            "class": self.label,
            "model_a": self.model_a,
            "model_b": self.model_b,
            "value_a": number(self.value_a),
            "value_b": number(self.value_b),
            "difference": number(e.value),
            "low": number(e.low),
            "high": number(e.high),
            "level": e.level,
            "method": e.method,
            "unit": e.unit,
            "n_units": e.n_units,
            "n_images": e.n_images,
            "p": number(self.p),
            "p_adjusted": number(self.p_adjusted),
            "test": self.test,
            "correction": self.correction,
            "family": self.family,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "undefined": e.undefined,
            "reason": e.reason,
            "n_references": e.n_references,
            "n_predictions": e.n_predictions,
            "bias": number(e.bias),
            "percentile_low": number(e.percentile[0]),
            "percentile_high": number(e.percentile[1]),
            "p_share": number(self.p_share),
            "margin": self.margin,
            "margin_verdict": self.margin_verdict,
            "trades_undefined": self.trades_undefined,
            "flags": list(e.flags),
        }
