# SPDX-License-Identifier: Apache-2.0
"""Remarks on a stability analysis, each with a code and a sentence: what was left out, what may
mislead. Computed once by `stability` and kept in the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calipers.results.digits import percent, two_decimals
from calipers.stability.paradox import APART, ONE_SIDED, Paradox
from calipers.statistics.weights import plural

if TYPE_CHECKING:
    from calipers.stability.result import StabilityResult

MANY_UNDEFINED = 0.05
FEW_MODELS = 5
FEWEST_MODELS = 3
FEW_UNITS = 10
FEWEST_UNITS = 5


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark for the reader; a *flag* is a warning, anything else is a note."""

    code: str
    text: str
    flag: bool = True


def remarks(result: StabilityResult) -> Iterator[Remark]:
    """Yield the remarks on a result: first what was left out, then what may mislead."""
    yield from (Remark("note", note, flag=False) for note in result.plan.notes)
    yield from _sizes(result)
    yield from _undefined(result)
    odd = result.paradox()
    if odd.flagged:
        yield Remark("kappa-paradox", _paradox_text(odd))
    yield from _perfection(result)
    if result.localized.has("AUC") and result.localized.pooling != "given":
        text = (
            f"no bag scores were given: the bag AUC uses the {result.localized.pooling} of each "
            "map, which is not the model's own score"
        )
        yield Remark("pooled-bags", text, flag=False)
    text = (
        "APJ and AJ (Cohen's kappa) carry the same information, APJ = AJ / (2 - AJ): they are one "
        "finding, not two"
    )
    yield Remark("one-finding", text, flag=False)


def _sizes(result: StabilityResult) -> Iterator[Remark]:
    number, units = len(result.models), result.plan.units
    if number < FEWEST_MODELS:
        yield Remark(
            "few-models", "two models are one pair: they do not show how other trainings would vary"
        )
    elif number < FEW_MODELS:
        yield Remark(
            "few-models",
            f"only {number} models: the interval for other trainings comes from {number} values "
            "and is rough",
        )
    unit = plural(units.name)
    if units.number < FEWEST_UNITS:
        yield Remark("few-bags", f"{units.number} {unit}: too few for an interval over {unit}")
    elif units.number < FEW_UNITS:
        yield Remark("few-bags", f"{units.number} {unit}: intervals over so few are rough")


def _undefined(result: StabilityResult) -> Iterator[Remark]:
    binary, ranks = result.undefined("APJ"), result.undefined("Spearman")
    if result.plan.undefined == "skip" and binary.pairs > MANY_UNDEFINED * binary.of_pairs:
        other = result.with_convention("APJ")
        text = (
            f"APJ and AJ are undefined for {binary.pairs} of {binary.of_pairs} pairs of maps "
            f"({percent(binary.share)} %), which both call nothing or everything positive; "
            f"{binary.bags} of {binary.of_bags} bags have no value. They are skipped; counted as "
            f"agreement, APJ is {other.value:.2f}"
        )
        yield Remark("undefined-pairs", text)
    if ranks.pairs > MANY_UNDEFINED * ranks.of_pairs:
        text = (
            f"{ranks.pairs} of {ranks.of_pairs} pairs have a constant map, for which correlations "
            "are undefined: skipped"
        )
        yield Remark("constant-maps", text)


def _perfection(result: StabilityResult) -> Iterator[Remark]:
    flags: set[str] = set()
    for row in result.rows:
        if not row.group:
            flags.update(row.estimate.flags)
    if "near_perfect" in flags:
        text = (
            "where fewer than 5 images (or patients) fall short of the best value, the bootstrap "
            "is not reliable: the interval is the exact binomial (Clopper-Pearson) interval of the "
            "share that does not fall short (clopper-pearson-units, marked * in tables)"
        )
        yield Remark("near-perfect", text, flag=False)
    if "identical_units" in flags:
        text = (
            "an interval of zero width means that all images (or patients) have the same value, "
            "not that the value is certain"
        )
        yield Remark("identical-units", text, flag=False)


def _paradox_text(odd: Paradox) -> str:
    """Return the kappa paradox in words."""
    sign = "negative" if odd.prevalence_index < 0 else "positive"
    return (
        f"APJ and AJ may mislead: on {odd.pairs} of {odd.of_pairs} pairs of maps nearly all "
        f"instances are {sign} (|prevalence index| at least {ONE_SIDED:g}) and kappa is at least "
        f"{APART:g} below PABAK. On these pairs, the models call {percent(odd.total_agreement)} % "
        f"of the instances alike, and AJ is {two_decimals(odd.kappa)}. Read PAR, NAR and AC1 "
        "beside them, and do not compare APJ between data sets with different shares of positive "
        "instances"
    )
