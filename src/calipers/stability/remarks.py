# SPDX-License-Identifier: Apache-2.0
"""What a reader of a stability analysis must know: every remark has a code and says it in words."""

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
    """Something to know; a *flag* warns, anything else is a note."""

    code: str
    text: str
    flag: bool = True


def remarks(result: StabilityResult) -> Iterator[Remark]:
    """Yield what must be known of a result: what was left out first, then what may mislead."""
    yield from (Remark("note", note, flag=False) for note in result.plan.notes)
    yield from _sizes(result)
    yield from _undefined(result)
    odd = result.paradox()
    if odd.flagged:
        yield Remark("kappa-paradox", _told(odd))
    yield from _perfection(result)
    if result.localized.has("AUC") and result.localized.pooling != "given":
        how = result.localized.pooling
        told = f"no bag scores were given: the bag AUC uses the {how} of each map, which is not what the model says"
        yield Remark("pooled-bags", told, flag=False)
    told = (
        "APJ and AJ (Cohen's kappa) say the same of two models in other numbers, APJ = AJ / (2 - AJ): they are one "
        "finding, not two"
    )
    yield Remark("one-finding", told, flag=False)


def _sizes(result: StabilityResult) -> Iterator[Remark]:
    number, units = len(result.models), result.plan.units
    if number < FEWEST_MODELS:
        yield Remark(
            "few-models", "two models are one pair: nothing can be said of other trainings"
        )
    elif number < FEW_MODELS:
        yield Remark(
            "few-models",
            f"only {number} models: the interval for other trainings comes from {number} values and is rough",
        )
    if units.number < FEWEST_UNITS:
        told = f"{units.number} {plural(units.name)}: too few for an interval over {plural(units.name)}"
        yield Remark("few-bags", told)
    elif units.number < FEW_UNITS:
        yield Remark(
            "few-bags", f"{units.number} {plural(units.name)}: intervals over so few are rough"
        )


def _undefined(result: StabilityResult) -> Iterator[Remark]:
    binary, ranks = result.undefined("APJ"), result.undefined("Spearman")
    if result.plan.undefined == "skip" and binary.pairs > MANY_UNDEFINED * binary.of_pairs:
        other = result.with_convention("APJ")
        told = (
            f"APJ and AJ are undefined for {binary.pairs} of {binary.of_pairs} pairs of maps "
            f"({percent(binary.share)} %), which both call nothing or everything positive; {binary.bags} of "
            f"{binary.of_bags} bags have no value. They are skipped; counted as agreement, APJ is {other.value:.2f}"
        )
        yield Remark("undefined-pairs", told)
    if ranks.pairs > MANY_UNDEFINED * ranks.of_pairs:
        told = f"{ranks.pairs} of {ranks.of_pairs} pairs have a constant map, which has no correlation: skipped"
        yield Remark("constant-maps", told)


def _perfection(result: StabilityResult) -> Iterator[Remark]:
    flags = {flag for row in result.rows if not row.group for flag in row.estimate.flags}
    if "near_perfect" in flags:
        told = (
            "where fewer than 5 images (or patients) fall short of the best value, resampling says too little: the "
            "interval is the exact binomial (Clopper-Pearson) one of the share that does not fall short "
            "(clopper-pearson-units, marked * in tables)"
        )
        yield Remark("near-perfect", told, flag=False)
    if "identical_units" in flags:
        told = "an interval of no width means that all images (or patients) are alike, not that the value is certain"
        yield Remark("identical-units", told, flag=False)


def _told(odd: Paradox) -> str:
    """Return the paradox of kappa in words."""
    which = "negative" if odd.prevalence_index < 0 else "positive"
    return (
        f"APJ and AJ may mislead: on {odd.pairs} of {odd.of_pairs} pairs of maps nearly all instances are {which} "
        f"(|prevalence index| at least {ONE_SIDED:g}) and kappa is at least {APART:g} below PABAK. On these, models "
        f"call {percent(odd.total_agreement)} % of the instances alike, and AJ is {two_decimals(odd.kappa)}. Read "
        "PAR, NAR and AC1 beside them, and do not compare APJ between data sets with other shares of positive instances"
    )
