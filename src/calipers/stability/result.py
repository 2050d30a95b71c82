# SPDX-License-Identifier: Apache-2.0
"""`StabilityResult`, the result of `calipers.stability`: estimates, answers, remarks and sentences.

It holds rows of estimates and the evidence; methods compute everything else (per bag, per pair,
thresholds, leaving out models). `calipers.stability.analyse` makes it.

- `remarks` says what was left out and what may mislead, each with a code and a sentence. Computed
  once, and kept in the result.
- `sentences` is the analysis in words, for a reader who wants to know how far the maps can be
  trusted.
- `document_content` is the JSON contract ``calipers.stability/1``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from calipers.arrays import F64, I64
from calipers.data.bags import Bag, Bags
from calipers.errors import UsageError, did_you_mean, finite, shown, word
from calipers.kernels.ranks import pair_index
from calipers.results.document import Document
from calipers.results.estimate import Estimate, Row, number
from calipers.show.words import (
    flag_text,
    has_interval,
    percent_text,
    plural,
    share_in_words,
    span_text,
    two_decimals,
    value_in_words,
)
from calipers.stability import scores as localizing
from calipers.stability.evidence import ALL_MODELS, BagPairs, StabilityPlan, check_name, pair_scores
from calipers.stability.score_diagnostics import (
    APART,
    ONE_SIDED,
    CallCounts,
    Components,
    LeaveOneOut,
    Paradox,
    ScoreCorrelation,
    UndefinedPairs,
    components,
    correlate,
    correlation,
    leave_one_out,
    paradox,
)
from calipers.stability.scores import (
    AT_THRESHOLD,
    CALLED,
    IDENTICAL,
    LEAST_JACCARD,
    Cases,
    Localization,
    bag_values,
    check_score,
    conventional,
    group_text,
    names_of,
)

# The scores of the short table, from plain ones to those of the literature.
HEADLINE = (
    "called-by-all",
    "called-by-some",
    "APJ",
    "AJ",
    "PAR",
    "NAR",
    "TAR",
    "AC1",
    "Pearson",
    "Spearman",
)

# Limits of the remarks: our judgement.
MANY_UNDEFINED = 0.05
FEW_MODELS = 5
FEWEST_MODELS = 3
FEW_UNITS = 10
FEWEST_UNITS = 5

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
# Limits of PAR, which does not fall with every further model. They are our judgement, so the
# sentence always prints the number too.
MOSTLY, PARTLY = 0.8, 0.5
MOST_IMAGES = 3


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark for the reader; a *flag* is a warning, anything else is a note."""

    code: str
    text: str
    flag: bool = True


@dataclass(frozen=True, repr=False, eq=False)
class StabilityResult(Document):
    """What `calipers.stability` returns.

    ``result["APJ"]`` is the estimate of a score over all models: the mean over bags of the mean
    over pairs of models, with an interval over bags or patients. Its ``n_images`` are the bags that
    were used; of those that have a value, ``n_references`` are the ones that are known to be
    positive and ``n_predictions`` the maps of all models.

    Figures are ``pairs``, ``models``, ``called``, ``bags``, ``images``, ``sweep``, ``scores``,
    ``dice`` and ``auc``, with choices such as ``score="Spearman"``, or ``bag="image 7"`` of
    ``bags`` and ``called``. ``report(path, ...)`` and ``save(folder, ...)`` take the options of
    `calipers.stability.page.write_stability`, such as a folder of pictures, ``images``.
    """

    SCHEMA = "calipers.stability/1"
    FIGURES = "calipers.stability.figures:FIGURES"
    FIRST_FIGURE = "pairs"
    TABLES = "calipers.stability.tables:tables"
    PAGE = "calipers.stability.page:write_stability_page"
    FOLDER = "calipers.stability.page:write_stability"
    NOTEBOOK = "calipers.stability.page:of_stability"

    plan: StabilityPlan
    evidence: BagPairs
    cases: Cases
    stability_rows: tuple[Row, ...]
    localized: Localization
    remarks: tuple[Remark, ...] = ()
    # the maps, for pictures of single bags
    source: Bags | None = field(default=None, repr=False, compare=False)

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models."""
        return self.plan.models

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the bags that were used."""
        return self.plan.ids

    @property
    def n_bags(self) -> int:
        """Bags, used or not."""
        return self.plan.n_bags

    @property
    def n_used(self) -> int:
        """Bags in the stability scores."""
        return len(self.plan.ids)

    @property
    def threshold(self) -> float:
        """At or above it an instance is called positive."""
        return self.plan.threshold

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the scores of all models."""
        return names_of(self.plan)

    @property
    def rows(self) -> tuple[Row, ...]:
        """All estimates: scores, the second summary of undefined pairs, the sweep, then every model
        by itself.
        """
        return (*self.stability_rows, *self.localized.rows)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Remarks on the numbers, in words."""
        return tuple(remark.text for remark in self.remarks)

    @property
    def flags(self) -> tuple[str, ...]:
        """The codes of what may mislead, such as ``kappa-paradox``, ``undefined-pairs``,
        ``few-models``.
        """
        return tuple(remark.code for remark in self.remarks if remark.flag)

    def __getitem__(self, name: str) -> Estimate:
        """Return the estimate of a score over all models."""
        return self.get(name)

    def get(self, metric: str, *, model: str = ALL_MODELS, **group: str | float) -> Estimate:
        """Return one estimate, such as ``get("APJ", threshold=0.3)`` or ``get("DICE", model="seed
        1")``.
        """
        metric, model = word("a score", metric), word("a model", model)
        texts = {name: group_text(value) for name, value in group.items()}
        estimate = self._by_key.get((model, metric, tuple(sorted(texts.items()))))
        if estimate is not None:
            return estimate
        if model not in (ALL_MODELS, *self.models):
            raise UsageError(
                f"no model {model!r}; {did_you_mean(model, (ALL_MODELS, *self.models))}"
            )
        metrics = dict.fromkeys(row.metric for row in self.rows if row.model == model)
        if metric in metrics:
            raise UsageError(f"no row of {metric!r} with {texts or 'no group'}")
        reason = self.localized.missing.get(metric)
        hint = reason.replace("_", " ") if reason else did_you_mean(metric, metrics)
        raise UsageError(f"no score {metric!r} of {model}; {hint}")

    def per_bag(self, name: str) -> F64:
        """Return (n_used,): the mean of a score over the pairs of models on every bag; NaN where it
        is undefined.
        """
        self._check(name)
        return bag_values(self.evidence, name, self._here, self.plan.undefined)

    def sd(self, name: str, ddof: int = 0) -> float:
        """Return the standard deviation over bags; ``ddof`` 0 as the published tables have it."""
        values = self.per_bag(name)
        defined_values = values[~np.isnan(values)]
        return float(defined_values.std(ddof=ddof)) if len(defined_values) > ddof else float("nan")

    def ranked(self, name: str) -> I64:
        """Return the places of the bags that have a value, least stable first; ties in the order of
        the bags.
        """
        values = self.per_bag(name)
        # called-by-some measures disagreement, all other scores agreement
        sign = -1.0 if name == "called-by-some" else 1.0
        bags = np.flatnonzero(~np.isnan(values))
        return bags[np.argsort(sign * values[bags], kind="stable")]

    def per_pair(self, name: str) -> F64:
        """Return (n_models, n_models): the mean of a score over bags for every pair; NaN on the
        diagonal.
        """
        scores = self._pairs(name)
        first, second = pair_index(len(self.models))
        matrix = np.full((len(self.models), len(self.models)), np.nan)
        for p, (i, j) in enumerate(zip(first, second)):
            values = scores[~np.isnan(scores[:, p]), p]
            if len(values):
                matrix[i, j] = matrix[j, i] = values.mean()
        return matrix

    def undefined(self, name: str) -> UndefinedPairs:
        """Return how many pairs and bags have no value, under the convention ``skip``."""
        if word("a score", name) in CALLED:
            return UndefinedPairs.of(name, self.per_bag(name)[:, None])
        return UndefinedPairs.of(name, self._pairs(name, "skip"))

    def with_convention(self, name: str) -> Estimate:
        """Return the estimate in which two maps that call everything alike count as 1: the second
        summary.
        """
        self._check(name)
        return self.get(name, **IDENTICAL) if conventional(name) else self.get(name)

    def leave_one_out(self, name: str) -> LeaveOneOut:
        """Return a score without each model in turn, and its interval over models: what holds for
        other trainings.
        """
        self._pairs(name)
        level, undefined = self.plan.certainty.level, self.plan.undefined
        return leave_one_out(self.evidence, name, self._here, undefined, self.models, level)

    def components(self, name: str) -> Components:
        """Return the variance of a score between bags, between pairs of models, and the rest."""
        return components(name, self._pairs(name))

    def correlation(self, method: str = "spearman") -> ScoreCorrelation:
        """Return the correlations between scores over bags, by ``spearman`` or ``pearson``."""
        word("a correlation", method)
        return correlate(
            self.names, np.stack([self.per_bag(name) for name in self.names], axis=1), method
        )

    def sweep(self, name: str) -> tuple[F64, list[Estimate]]:
        """Return the thresholds of the sweep and the estimates of a score at them."""
        self._check(name)
        if name not in AT_THRESHOLD:
            raise UsageError(f"{name} compares values, not calls: it has no threshold to sweep")
        return np.array(self.plan.sweep), [self.get(name, threshold=t) for t in self.plan.sweep]

    def called(self, threshold: float | None = None) -> CallCounts:
        """Return how many models call an instance positive, at the chosen threshold or one of the
        sweep.
        """
        at = self.threshold if threshold is None else finite("threshold", threshold)
        return CallCounts(at, self.evidence.calls[:, self.evidence.at(at)])

    def bag(self, i: int) -> Bag:
        """Return the maps of all models on the i-th bag that was used; it may be read from disk
        now.
        """
        if self.source is None:
            raise UsageError("this result was made without its maps: run the analysis again")
        # Bags count among those used; the source has the others, too.
        positive = self.source.positive
        numbers = np.arange(len(self.source))
        if self.plan.bags == "positive" and positive is not None:
            numbers = np.flatnonzero(positive)
        if not -len(numbers) <= i < len(numbers):
            raise UsageError(
                f"i is the number of one of {len(numbers)} bags, from 0, not {shown(i)}"
            )
        return self.source[int(numbers[i])]

    def margins(self) -> F64:
        """Return (n_used, n_models): negative less positive calls of every model (n0* - n1*)."""
        return np.asarray(
            self.evidence.n[:, None] - 2 * self.evidence.ones[:, self._here], np.float64
        )

    def paradox(self) -> Paradox:
        """Return on how many pairs prevalence makes AJ and APJ misleading."""
        return paradox(self.evidence, self._here)

    def localization(
        self, pooling: str | None = None, least_jaccard: float = LEAST_JACCARD
    ) -> Localization:
        """Return the models against the reference.

        Parameters
        ----------
        pooling
            How a map becomes a score of its bag, for the AUC, where no bag scores were given:
            ``max``, ``mean``, ``noisy-or``, ``lse``, or that of the analysis (default).
        least_jaccard
            From which Jaccard index on a bag counts as found, for the accuracy.
        """
        least_jaccard = finite("least_jaccard", least_jaccard)
        # The usual one was computed with the result.
        if pooling in (None, self.plan.pooling) and least_jaccard == LEAST_JACCARD:
            return self.localized
        return localizing.localization(self.evidence, self.plan, self.cases, pooling, least_jaccard)

    def sentences(self) -> list[str]:
        """Return the result in words, the verdict first."""
        return sentences(self)

    def __str__(self) -> str:
        from calipers.stability.tables import scores_table

        table = scores_table(self, meanings=False).to_markdown()
        return "\n".join([*self.sentences(), "", table, *self.warnings])

    def _content(self) -> dict[str, Any]:
        return document_content(self)

    @cached_property
    def _by_key(self) -> dict[tuple[str, str, tuple[tuple[str, str], ...]], Estimate]:
        table = {}
        for row in self.rows:
            group = tuple(sorted((row.group or {}).items()))
            table[row.model, row.metric, group] = row.estimate
        return table

    @property
    def _here(self) -> int:
        return self.evidence.at(self.threshold)

    def _check(self, name: str) -> None:
        check_score(word("a score", name))
        if name not in self.names:
            raise UsageError(f"{name} was not computed: run the analysis with kendall=True")

    def _pairs(self, name: str, undefined: str | None = None) -> F64:
        """Return (B, P) scores of the pairs; raise for a number that is not one of pairs."""
        if word("a score", name) in CALLED:
            raise UsageError(f"{name} is a share over all models, not a score of pairs of them")
        check_name(name)
        self._check(name)
        return pair_scores(self.evidence, name, self._here, undefined or self.plan.undefined)


def document_content(result: StabilityResult) -> dict[str, Any]:
    """Return the keys of the JSON contract ``calipers.stability/1``; null for undefined."""
    # leaving out a model and components of variance need scores of pairs
    of_pairs = [name for name in result.names if name not in CALLED]
    return {
        "settings": result.plan.settings(),
        "models": list(result.models),
        "bags": _bags(result),
        "rows": [row.as_dict() for row in result.rows],
        "sd": {name: number(result.sd(name)) for name in result.names},
        "sd_ddof": 0,
        "undefined": [result.undefined(name).as_dict() for name in result.names],
        "leave_one_out": [result.leave_one_out(name).as_dict() for name in of_pairs],
        "components": [result.components(name).as_dict() for name in of_pairs],
        "correlation": [result.correlation(method).as_dict() for method in ("spearman", "pearson")],
        "called": result.called().as_dict(),
        "kappa_paradox": result.paradox().as_dict(),
        "localization": _localization(result),
        "sentences": result.sentences(),
        "flags": list(result.flags),
        "warnings": list(result.warnings),
    }


def _bags(result: StabilityResult) -> dict[str, Any]:
    positive = result.plan.positive
    return {
        "bags": result.n_bags,
        "used": result.n_used,
        "positive": None if positive is None else int(positive.sum()),
        "annotated": int((result.evidence.truth >= 0).sum()),
        "instances": int(result.evidence.n.sum()),
    }


def _localization(result: StabilityResult) -> dict[str, Any]:
    localized = result.localized
    names = [name for name in ("DICE", "Jaccard", "accuracy", "AUC") if localized.has(name)]
    over_models = {
        name: {"mean": number(localized.mean(name)), "sd": number(localized.sd(name))}
        for name in names
    }
    return {
        "bags": len(localized.ids),
        "least_jaccard": localized.least_jaccard,
        "bag_scores": localized.pooling,
        "over_models": over_models,
        "missing": dict(localized.missing),
    }


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
            f"no bag scores were given: the bag AUC uses the {result.localized.pooling_words} of "
            "each map, which is not the model's own score"
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
    # Under another convention undefined pairs have a value already.
    if result.plan.undefined == "skip" and binary.pairs > MANY_UNDEFINED * binary.of_pairs:
        other = result.with_convention("APJ")
        text = (
            f"APJ and AJ are undefined for {binary.pairs} of {binary.of_pairs} pairs of maps "
            f"({percent_text(binary.share)}), which both call nothing or everything positive; "
            f"{binary.bags} of {binary.of_bags} bags have no value. They are skipped; counted as "
            f"agreement, APJ is {two_decimals(other.value)}"
        )
        yield Remark("undefined-pairs", text)
    if ranks.pairs > MANY_UNDEFINED * ranks.of_pairs:
        text = (
            f"{ranks.pairs} of {ranks.of_pairs} pairs have a constant map, for which correlations "
            "are undefined: skipped"
        )
        yield Remark("constant-maps", text)


def _perfection(result: StabilityResult) -> Iterator[Remark]:
    unit = result.plan.units.name
    units, flags = plural(unit), set[str]()
    for row in result.rows:
        # Without an interval there is no mark in the tables that a remark could explain.
        if not row.group and has_interval(row.estimate):
            flags.update(row.estimate.flags)
    if "few_errors" in flags:
        text = (
            f"interval for small counts, because few {units}, or nearly all of them, fall short of "
            "the best value (marked * in tables)"
        )
        yield Remark("near-perfect", text, flag=False)
    if "identical_units" in flags:
        text = f"{flag_text('identical_units', unit)} (marked § in tables)"
        yield Remark("identical-units", text, flag=False)


def _paradox_text(odd: Paradox) -> str:
    """Return the kappa paradox in words."""
    sign = "negative" if odd.prevalence_index < 0 else "positive"
    return (
        f"APJ and AJ may mislead: on {odd.pairs} of {odd.of_pairs} pairs of maps nearly all "
        f"instances are {sign} (|prevalence index| at least {ONE_SIDED:g}) and kappa is at least "
        f"{APART:g} below PABAK. On these pairs, the models call "
        f"{percent_text(odd.total_agreement)} "
        f"of the instances alike, and AJ is {two_decimals(odd.kappa)}. Read PAR, NAR and AC1 "
        "beside them, and do not compare APJ between data sets with different shares of positive "
        "instances"
    )


def number_word(n: int) -> str:
    """Return a small number as a word."""
    return NUMBERS[n] if n < len(NUMBERS) else str(n)


def sentences(result: StabilityResult) -> list[str]:
    """Return the verdict, the numbers behind it, and its limits."""
    return [
        *_same_places(result),
        *_beyond_chance(result),
        *_undefined_sentences(result),
        *_worst_images(result),
        *_against_reference(result),
    ]


def agreement_word(result: StabilityResult) -> str:
    """Return mostly, partly or hardly: how far two models mark the same places; empty if no model
    marks anything.
    """
    share = result["PAR"].value
    if share != share:
        return ""
    if share >= MOSTLY:
        return "mostly"
    return "partly" if share >= PARTLY else "hardly"


def by_chance(result: StabilityResult) -> bool:
    """Return whether APJ (the lower end of its interval, if there is one) is at most 0."""
    apj = result["APJ"]
    # Where there is no interval, the value itself decides.
    lowest = apj.value if apj.low != apj.low else apj.low
    return bool(lowest <= 0)


def _same_places(result: StabilityResult) -> Iterator[str]:
    pair, all_of, some = result["PAR"], result["called-by-all"], result["called-by-some"]
    models, images = number_word(len(result.models)), _images(result)
    verdict = agreement_word(result)
    if not verdict:
        yield (
            f"None of the {models} models marks anything on {images} at the threshold "
            f"{result.threshold:g}."
        )
        return
    chance = ""
    if by_chance(result):
        joined = "and" if verdict == "hardly" else "but"
        chance = f", {joined} agreement beyond chance is not shown"
    yield (
        f"The {models} models {verdict} mark the same places{chance}: of what one model marks on "
        f"an image, another marks {_share_text(pair)}, on average over {images}."
    )
    # Of two models, all and both are the same: the sentence before says it.
    if len(result.models) > 2:
        yield f"Of what at least one of them marks, all {models} mark {_share_text(all_of)}."
    yield (
        f"They disagree on {_share_text(some)} of all places of an image: some models mark them, "
        "others do not."
    )


def _beyond_chance(result: StabilityResult) -> Iterator[str]:
    apj, rank = result["APJ"], result["Spearman"]
    if apj.value == apj.value:
        yield (
            "Corrected for chance, the overlap of two models (APJ: 1 for the same places, 0 for "
            f"chance) is {_value_text(apj)}. {_generalisation(result, apj)}."
        )
    if rank.value == rank.value:
        yield (
            "Without a threshold, the rank correlation of two maps (Spearman: 1 for the same "
            f"order) is {_value_text(rank)}."
        )


def _generalisation(result: StabilityResult, apj: Estimate) -> str:
    """Return to which images and which trainings the score generalises; without an interval, only
    the trainings.
    """
    trainings = _other_trainings(result.leave_one_out("APJ"))
    if apj.low != apj.low:
        return trainings[0].upper() + trainings[1:]
    scope = result.plan.units.generalises_to()
    return f"The interval generalises to {scope}, with these {_models(result)}; {trainings}"


def _other_trainings(jackknife: LeaveOneOut) -> str:
    if jackknife.reason == "constant_input":
        return "leaving out one model changes nothing"
    if jackknife.reason is not None:
        return "it cannot be estimated for other trainings"
    return (
        f"for other trainings it is {span_text(jackknife.low, jackknife.high)}, from leaving out "
        "one model at a time"
    )


def _undefined_sentences(result: StabilityResult) -> Iterator[str]:
    missing = result.undefined("APJ")
    if missing.pairs:
        yield (
            f"For {missing.pairs} of {missing.of_pairs} pairs of maps APJ is undefined, because "
            f"both mark nothing or everything; {missing.bags} of {missing.of_bags} images have no "
            "value at all."
        )


def _worst_images(result: StabilityResult) -> Iterator[str]:
    order = result.ranked("APJ")
    if len(order) > MOST_IMAGES:
        values = result.per_bag("APJ")
        images = ", ".join(
            f"{result.ids[i]} ({two_decimals(values[i])})" for i in order[:MOST_IMAGES]
        )
        yield f"Look first at the images on which they differ most: {images}."


def _against_reference(result: StabilityResult) -> Iterator[str]:
    localized = result.localized
    if localized.has("DICE"):
        dice, values = localized.get("DICE"), localized.of_models("DICE")
        n = len(localized.ids)
        images = "image" if n == 1 else "images"
        text = (
            "Marking the same places is not marking the right ones: against the reference on "
            f"{n} annotated {images} the mean DICE is {_value_text(dice)}, "
            f"from {span_text(np.min(values), np.max(values))} between models"
        )
        # On the annotated bags only, which need not be all that were used.
        of_dice = localized.per_bag("DICE")[0]
        rank_correlation = correlation(result.per_bag("APJ")[localized.places], of_dice)
        if rank_correlation == rank_correlation:
            text += (
                f"; its rank correlation with APJ over images is {two_decimals(rank_correlation)}"
            )
        yield f"{text}."
    if localized.has("AUC"):
        auc = localized.get("AUC")
        yield (
            f"Positive and negative images are separated with a mean AUC of {_value_text(auc)}, "
            f"n = {auc.n_images}."
        )


def _share_text(share: Estimate) -> str:
    return share_in_words(share, "{span} of {units} show no difference")


def _value_text(estimate: Estimate) -> str:
    return value_in_words(estimate, "{span} of {units} are without a fault")


def _images(result: StabilityResult) -> str:
    images = "image" if result.n_used == 1 else "images"
    if result.plan.positive is not None and result.plan.bags == "positive":
        images = f"positive {images}"
    return f"{result.n_used} {images}"


def _models(result: StabilityResult) -> str:
    return f"{number_word(len(result.models))} models"
