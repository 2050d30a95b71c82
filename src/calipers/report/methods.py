# SPDX-License-Identifier: Apache-2.0
"""The methods section of the page: a paragraph that is ready for a paper, with its citations.

`report.page` calls `methods_section` with the context of the page and gets HTML. The paragraph says
how many images and models there are, how maps became objects and predictions hits, which metrics
are reported, where intervals come from and how models were compared. Below it stand the citations,
what every metric means, and how intervals were computed in detail.

Words, meanings and citations of metrics come from the metrics themselves
(`calipers.metrics.base.Facts`); this module only knows the sources of the statistics.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain

from calipers.evaluation.figures import BAND_METHOD, BAND_REPLICATES, has_intervals, hit_rule
from calipers.evaluation.figures_maps import measures
from calipers.evaluation.protocol_schema import NO_LIMIT
from calipers.evaluation.result import Evaluation
from calipers.evaluation.tables import intervals_table
from calipers.metrics.maps import MapSettings
from calipers.report.context import Context
from calipers.results.estimate import ASSUMED_LIKENESS
from calipers.show.html import details, paragraph, table_block, text
from calipers.show.words import count_text, join, level_text, speaks_for
from calipers.show.words import plural as named_plural

LEVELS = {
    "dataset": "over all voxels of all images together",
    "sample": "as the mean over images",
    "slice": "as the mean over slices",
    "batch": "as the mean over batches",
}
NEIGHBOURS = {
    ("full", 2): "8",
    ("full", 3): "26",
    ("edges", 2): "8",
    ("edges", 3): "18",
    ("faces", 2): "4",
    ("faces", 3): "6",
}
BOOTSTRAP = "Efron B, Tibshirani RJ. An introduction to the bootstrap. Chapman and Hall 1993."
CLUSTERS = "Field CA, Welsh AH. Bootstrapping clustered data. J R Stat Soc B 2007;69:369-390."
OF_GAINS = (
    "Gains of AP, and what AUROC, AUPR and the best F1 fall short of 1, have the mid-p gamma "
    "interval (Fay MP, Kim S. Biom J 2017) up to an effective number of 30 errors."
)
CLOPPER_PEARSON = (
    "Clopper CJ, Pearson ES. The use of confidence or fiducial limits illustrated in the case of "
    "the binomial. Biometrika 1934;26:404-413."
)
RANKING = (
    "Wiesenfarth M, et al. Methods and open-source toolkit for analyzing and visualizing challenge "
    "results. Sci Rep 2021;11:2369."
)
RELOADED = (
    "Maier-Hein L, et al. Metrics reloaded: recommendations for image analysis validation. Nat "
    "Methods 2024;21:195-212."
)
TESTS = {  # tests and corrections of tests
    "max-t": (
        "Westfall PH, Young SS. Resampling-based multiple testing: examples and methods for "
        "p-value adjustment. Wiley 1993."
    ),
    "permutation": (
        "Phipson B, Smyth GK. Permutation p-values should never be zero. Stat Appl Genet Mol Biol "
        "2010;9:39."
    ),
    "holm": (
        "Holm S. A simple sequentially rejective multiple test procedure. Scand J Stat "
        "1979;6:65-70."
    ),
}


def methods_section(page: Context) -> str:
    """Return the paragraph, its citations, the meaning of the metrics, and details of the
    intervals.
    """
    ev, cite = page.evaluation, _Citations()
    words = " ".join(_sentences(page, cite))
    citations = "".join(f"<li>{text(source)}</li>" for source in cite.sources)
    meaning = ""
    for names, meaning_words in meanings(ev):
        meaning += f"<dt>{text(names)}</dt><dd>{text(meaning_words)}</dd>"
    parts = [
        f'<p id="methods-text">{text(words)}</p>',
        f'<ol class="citations">{citations}</ol>',
        details("What the metrics mean", f"<dl>{meaning}</dl>"),
    ]
    if has_intervals(ev):
        inner = paragraph(intervals_in_words(ev)) + table_block(intervals_table(ev))
        parts.append(
            details("Beside the intervals: percentile interval, bias, Monte-Carlo error", inner)
        )
    return "\n".join(parts)


class _Citations:
    """Numbers citations in the order in which they are first named."""

    def __init__(self) -> None:
        self.sources: list[str] = []

    def __call__(self, *sources: str) -> str:
        """Return the numbers of some sources in brackets."""
        numbers = []
        for source in sources:
            # A source that was named before keeps its number.
            if source not in self.sources:
                self.sources.append(source)
            numbers.append(str(self.sources.index(source) + 1))
        return f"[{', '.join(numbers)}]"


def _sentences(page: Context, cite: _Citations) -> Iterator[str]:
    from calipers import __version__

    ev = page.evaluation
    cohort, n_ignored = ev.cohort, int(ev.cohort.references.ignore.sum())
    ignored = f" ({n_ignored} of them ignored: neither found nor missed)" if n_ignored else ""
    yield (
        f"We evaluated {count_text('model', len(ev.models))} on "
        f"{count_text('image', cohort.n_images)} with "
        f"{count_text('reference', len(cohort.references))} of "
        f"{count_text('class', len(cohort.classes))}{ignored} with Calipers {__version__}, "
        f"protocol {ev.protocol.name!r}."
    )
    yield from map_sentences(ev)
    yield from _matching(ev)
    metric_names = []
    for kind, facts in ev.protocol.facts_of_kinds().items():
        name = facts[0].word or kind.replace("-", " ")
        sources = dict.fromkeys(chain.from_iterable(one.citations for one in facts))
        metric_names.append(f"{name} {cite(*sources)}" if sources else name)
    yield f"We report {join(metric_names)}; on the choice of metrics see {cite(RELOADED)}."
    yield from _certainty(page, cite)
    yield from _comparing(page, cite)


def map_sentences(ev: Evaluation) -> Iterator[str]:
    """Yield how maps were judged; nothing without maps."""
    if not ev.cohort.maps:
        return
    yield from _objects(ev)
    # The soft IoU is always the mean of an image, and has a sentence of its own.
    levels_used = {measure.level for _, measure in measures(ev) if measure.quantity != "softIoU"}
    levels = [words for level, words in LEVELS.items() if level in levels_used]
    if levels:
        rest = ""
        if levels_used & {"sample", "slice"}:
            rest = "; images or slices without references have no value and are left out of means"
        yield f"Metrics on voxels are computed {join(levels)}{rest}."
    yield from _soft(ev)


def _objects(ev: Evaluation) -> Iterator[str]:
    settings, d = ev.protocol.maps or MapSettings(), ev.cohort.dimensions
    neighbours = NEIGHBOURS[settings.connectivity, d]
    pixels = "voxels" if d == 3 else "pixels"
    score = "largest" if settings.score == "max" else "mean"
    least = f", of at least {settings.least} voxels," if settings.least > 1 else ""
    yield (
        f"Predicted objects{least} are connected components ({neighbours} neighbours) of the "
        f"{pixels} with a score {_from_threshold(settings)}; the score of an object is the {score} "
        f"score of its {pixels}."
    )


def _from_threshold(settings: MapSettings) -> str:
    """Return from which score on voxels belong to an object."""
    if not isinstance(settings.threshold, str):
        return f"of at least {settings.threshold:g}"
    rule = "the pooled Dice is best"
    if settings.rate:
        rule = f"{level_text(settings.rate)} of the voxels outside references are called positive"
    words = f"of at least the threshold at which {rule}"
    if settings.tuning:
        words += f", chosen on {settings.tuning}, which was left out"
    return words


def _soft(ev: Evaluation) -> Iterator[str]:
    """Yield the formula of the soft IoU, and that its usual form is a Dice."""
    soft_measures = {
        name: measure for name, measure in measures(ev) if measure.quantity == "softIoU"
    }
    if not soft_measures:
        return
    for name, measure in soft_measures.items():
        a = f"{measure.alpha:g}"
        b = f"{1 - measure.alpha:g}"
        formula = {
            "tversky": f"(Σpy + e) / ({a} Σp + {b} Σy + e)",
            "jaccard": (
                f"(TP + e) / (TP + {2 * measure.alpha:g} FP + {2 - 2 * measure.alpha:g} FN + e), "
                "with TP = Σpy, FP = Σp(1-y), FN = Σ(1-p)y"
            ),
            "printed": f"{a} Σpy / Σ(0.5 p + {b} y)",
        }[measure.variant]
        dice = ""
        if measure.variant == "tversky" and measure.alpha == 0.5:
            dice = ", which is a soft Dice"
        yield f"{name} of a reference is {formula}{dice}."
    yield (
        "Sums run over the reference and the background, without other references, with scores p, "
        "membership y and e = 0.00001; the value of an image is the mean over its references, and "
        "1 if there are none and nothing is called positive."
    )


def _matching(ev: Evaluation) -> Iterator[str]:
    """Yield when a prediction is a hit, and which predictions are left out."""
    view, thresholds = ev.protocol.matching, ev.protocol.thresholds
    rule = f"assignment {view.assignment}"
    if view.max_dets != NO_LIMIT:
        rule += f", at most {view.max_dets} predictions per image and class"
    if view.score_cut != -math.inf:
        rule += f", scores of at least {view.score_cut:g}"
    same = "the same" if view.within_class else "any"
    yield (
        f"A prediction counted as a hit of a reference of {same} class at {hit_rule(view)} "
        f"({rule})."
    )
    if len(thresholds) > 1:
        span = f"{len(thresholds)} thresholds from {min(thresholds):g} to {max(thresholds):g}"
        yield f"Metrics without a threshold of their own are means over {span}."
    for facts in ev.protocol.facts_of_kinds().values():
        if facts[0].matching:
            yield facts[0].matching


def _certainty(page: Context, cite: _Citations) -> Iterator[str]:
    """Yield where the intervals come from, or why there are none."""
    ev = page.evaluation
    statistics = ev.statistics
    if not has_intervals(ev):
        reason = speaks_for(statistics, [row.estimate for row in ev.rows])
        yield reason or "No confidence intervals were computed."
        return
    units = named_plural(statistics["unit"])
    # Only where images are resampled one by one is it the plain bootstrap.
    sources = (BOOTSTRAP,) if statistics["unit"] == "image" else (BOOTSTRAP, CLUSTERS)
    yield (
        f"{level_text(statistics['level'])} confidence intervals come from "
        f"{statistics['replicates']} bootstrap replicates, resampled by {statistics['unit']} "
        f"(n = {statistics['n_units']}){_sampling_words(ev)} ({statistics['interval']}, seed "
        f"{statistics['seed']}) {cite(*sources)}; they generalise to "
        f"{statistics['generalises_to']}."
    )
    # Bands are said apart only where they differ from the other intervals.
    if page.at_one is not None and (
        statistics["replicates"] > BAND_REPLICATES or statistics["interval"] != BAND_METHOD
    ):
        number = min(statistics["replicates"], BAND_REPLICATES)
        yield f"Bands of curves are pointwise {BAND_METHOD} intervals from {number} replicates."
    if any("few_errors" in row.estimate.flags for row in ev.rows):
        yield _few_errors_in_words(units)
    if any(row.estimate.method == "gamma-t" for row in ev.rows):
        yield OF_GAINS
    if any(row.estimate.method == "clopper-pearson-units" for row in ev.rows):
        yield f"{_of_units_in_words(units)} {cite(CLOPPER_PEARSON)}."


def _few_errors_in_words(units: str) -> str:
    """Return what stands for the bootstrap where errors are few."""
    return (
        f"Where few {units}, or nearly all of them, had an error, the interval is Jeffreys' "
        "interval for a proportion (for rates: for a Poisson rate), with the effective sample size "
        "implied by the bootstrap standard error; where no error was observed, the intraclass "
        f"correlation of errors within {units} was assumed to be {ASSUMED_LIKENESS:g}, up to a "
        f"limit. A further error in another of the {units} never moves the bound that allows for "
        "more errors towards fewer errors."
    )


def _of_units_in_words(units: str) -> str:
    """Return what results of version 0.1 have instead."""
    return (
        f"Where fewer than five {units}, and fewer than half of them, had an error, or all of "
        f"them had one, the interval is the Clopper-Pearson interval of the share of {units} "
        "without error"
    )


def _sampling_words(ev: Evaluation) -> str:
    """Return how units were drawn, if there are strata or nested units."""
    cluster, strata = ev.protocol.cluster, ev.protocol.strata
    if strata is not None:
        return f", drawn within each {strata}"
    if not isinstance(cluster, str) and len(cluster) > 1:
        return f", each with all its {named_plural(cluster[1])}"
    return ""


def _comparing(page: Context, cite: _Citations) -> Iterator[str]:
    """Yield which models were compared, by which tests, and how the tests were corrected."""
    units, comparison = named_plural(page.evaluation.statistics["unit"]), page.comparison
    if comparison is not None:
        tests = sorted({row.test for row in comparison.rows})
        names = (*tests, comparison.correction)
        papers = [source for name, source in TESTS.items() if name in names]
        sources = f" {cite(*papers)}" if papers else ""
        at_one = ""
        if page.duel is not None:
            at_one = " and in the sensitivity at one false alarm per image"
        yield (
            f"All pairs of models were compared in the headline metrics{at_one}, on the same "
            f"{units}, by {join(tests)} tests of the paired differences. All of these tests are "
            f"one family, corrected for {count_text('test', comparison.family)} "
            f"({comparison.correction}){sources}."
        )
    if page.ranking is not None:
        yield (
            "The stability of the ranking was judged by ranking the bootstrap replicates "
            f"{cite(RANKING)}."
        )


def meanings(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    """Yield (names, what they mean), one entry per kind of metric."""
    names: dict[str, list[str]] = {}
    for plan in evaluation.protocol.metrics:
        names.setdefault(plan.kind, []).append(plan.name)
    for kind, facts in evaluation.protocol.facts_of_kinds().items():
        if facts[0].meaning:
            yield ", ".join(names[kind]), facts[0].meaning


def intervals_in_words(evaluation: Evaluation) -> str:
    """Return how the intervals were computed, as a paragraph for a paper."""
    statistics = evaluation.statistics
    unit, units = statistics["unit"], named_plural(statistics["unit"])
    words = [
        f"{level_text(statistics['level'])} confidence intervals come from "
        f"{statistics['replicates']} bootstrap replicates, resampled by {unit} "
        f"(n = {statistics['n_units']}, seed {statistics['seed']}); they generalise to "
        f"{statistics['generalises_to']}."
    ]
    if statistics["interval"] == "bootse-t-logit":
        strata = evaluation.protocol.strata
        less = "one" if strata is None else f"one per {strata}"
        words.append(
            "Each is a t interval around the value, with the standard deviation of its replicates "
            "as standard error, on the scale of the metric (logit between 0 and 1, log above 0); "
            f"its degrees of freedom are the number of {units} less {less}."
        )
    else:
        words.append(f"Kind of interval: {statistics['interval']}.")
    words.append(
        f"There is no interval for fewer than 5 {units}, or if more than 5 % of the replicates "
        "have no value."
    )
    estimates = [row.estimate for row in evaluation.rows]
    if any("few_errors" in estimate.flags for estimate in estimates):
        words.append(f"{_few_errors_in_words(units)} These intervals are marked *.")
    if any(estimate.method == "gamma-t" for estimate in estimates):
        words.append(OF_GAINS)
    if any(estimate.method == "clopper-pearson-units" for estimate in estimates):
        words.append(f"{_of_units_in_words(units)}.")
    return " ".join(words)
