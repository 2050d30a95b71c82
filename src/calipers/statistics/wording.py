# SPDX-License-Identifier: Apache-2.0
"""Sentences on differences between models, with care: no difference shown is not equality."""

from __future__ import annotations

import math
from dataclasses import dataclass

from calipers.results.difference import Difference
from calipers.statistics.comparison import smallest_p
from calipers.statistics.weights import plural

CORRECTED = {"holm": "Holm", "bh": "Benjamini-Hochberg"}
SMALLEST_SHOWN = 0.001


@dataclass(frozen=True, slots=True)
class Manner:
    """How the numbers of a metric are written: in points or plain, and which way is better."""

    points: bool  # as points of 100, for metrics that are shares
    higher_is_better: bool

    @classmethod
    def of(cls, bounds: tuple[float, float], higher_is_better: bool) -> Manner:
        """Return the manner of a metric with these bounds."""
        return cls(math.isfinite(bounds[0]) and math.isfinite(bounds[1]), higher_is_better)

    def amount(self, value: float) -> str:
        """Return a difference as a number, without its unit."""
        return f"{100 * value:.1f}" if self.points else f"{value:.3g}"

    def unit(self, value: float) -> str:
        """Return ``points`` or nothing."""
        if not self.points:
            return ""
        return " point" if self.amount(value).lstrip("-") == "1.0" else " points"


def describe(d: Difference, manner: Manner) -> str:
    """Return one or a few sentences on a difference between two models."""
    where = d.metric if d.label is None else f"{d.metric} of {d.label}"
    if not manner.higher_is_better:
        where += " (lower is better)"
    e = d.estimate
    if math.isnan(e.value):
        values = ((d.model_a, d.value_a), (d.model_b, d.value_b))
        blank = " and ".join(model for model, value in values if math.isnan(value))
        return (
            f"{d.model_a} and {d.model_b} cannot be compared in {where}: "
            f"undefined for {blank} ({_words(e.reason)})."
        )
    turned = d.verdict == "b_better"  # the better model comes first, and the numbers follow it
    first, second = (d.model_b, d.model_a) if turned else (d.model_a, d.model_b)
    one, other = (d.value_b, d.value_a) if turned else (d.value_a, d.value_b)
    if d.verdict in ("a_better", "b_better"):
        claim = f"{first} is better than {second} in {where}"
    elif d.verdict == "no_difference_shown":
        claim = f"No difference between {first} and {second} in {where} is shown"
    else:
        claim = f"{first} and {second} in {where}, without a test"
    value = -e.value if turned else e.value
    text = f"{claim}: {one:.3f} against {other:.3f}, a difference of "
    text += f"{manner.amount(value)}{manner.unit(value)} ({_evidence(d, manner, turned)})."
    return " ".join([text, *_cautions(d), *_margin(d, manner)])


def _evidence(d: Difference, manner: Manner, turned: bool) -> str:
    """Return interval, p value and number of units of a difference."""
    e = d.estimate
    parts = []
    if math.isnan(e.low):
        parts.append(f"no interval: {_words(e.reason)}")
    else:
        low, high = (-e.high, -e.low) if turned else (e.low, e.high)
        parts.append(f"{100 * e.level:g} % interval {manner.amount(low)} to {manner.amount(high)}")
    if not math.isnan(d.p):
        text = p_value(d.p_adjusted)
        if d.correction in CORRECTED and d.family > 1:
            text += f", {CORRECTED[d.correction]} over {d.family}"
        parts.append(text)
    parts.append(f"{e.n_units} {e.unit if e.n_units == 1 else plural(e.unit)}")
    return "; ".join(parts)


def _cautions(d: Difference) -> list[str]:
    """Return sentences on p values that cannot be small and on intervals of width 0."""
    e, least = d.estimate, smallest_p(d.estimate.n_units)
    cautions = []
    if not math.isnan(d.p) and least >= 1.0 - e.level:
        still = ", also where the interval leaves 0 out" if e.low > 0.0 or e.high < 0.0 else ""
        cautions.append(
            f"With {e.n_units} {plural(e.unit)} no p value can be below {least:g}{still}."
        )
    if "identical_units" in e.flags:
        cautions.append("All replicates agree; an interval of width 0 is no certainty.")
    return cautions


def _margin(d: Difference, manner: Manner) -> list[str]:
    if d.margin is None:
        return []
    within = f"{manner.amount(d.margin)}{manner.unit(d.margin)}"
    if math.isnan(d.estimate.low):
        return [f"Without an interval the margin of {within} cannot be judged."]
    if d.margin_verdict == "equivalent":
        return [f"Equivalent within {within}: the whole interval lies inside."]
    if d.margin_verdict == "not_shown":
        return [f"Neither equivalence nor non-inferiority within {within} is shown."]
    one, other = (
        (d.model_a, d.model_b) if str(d.margin_verdict).startswith("a_") else (d.model_b, d.model_a)
    )
    if str(d.margin_verdict).endswith("superior"):
        return [f"{one} is superior to {other} by more than {within}."]
    return [f"{one} is not inferior to {other} by {within} or more; equivalence is not shown."]


def p_value(p: float) -> str:
    """Return ``p = 0.02`` with two significant digits, or ``p < 0.001``."""
    return f"p < {SMALLEST_SHOWN:g}" if p < SMALLEST_SHOWN else f"p = {p:.2g}"


def _words(reason: str | None) -> str:
    return str(reason).replace("_", " ")
