# SPDX-License-Identifier: Apache-2.0
"""A paragraph on methods that is ready for a paper, with its citations."""

from __future__ import annotations

from collections.abc import Iterator

from calipers.report.context import Context
from calipers.report.grids import beside_table
from calipers.report.markup import details, paragraph, text
from calipers.report.words import intervals_in_words, join, meanings, plural
from calipers.statistics.weights import plural as named_plural

CITATIONS = {
    "coco": "Lin TY, et al. Microsoft COCO: common objects in context. ECCV 2014, 740-755.",
    "voc": "Everingham M, et al. The Pascal visual object classes (VOC) challenge. Int J Comput Vis 2010;88:303-338.",
    "froc": "Setio AAA, et al. Validation, comparison, and combination of algorithms for automatic detection of "
    "pulmonary nodules in computed tomography images: the LUNA16 challenge. Med Image Anal 2017;42:1-13.",
    "rodeo": "Meissen F, et al. Robust detection outcome: a metric for pathology detection in medical images. "
    "MIDL 2023.",
    "bootstrap": "Efron B, Tibshirani RJ. An introduction to the bootstrap. Chapman and Hall 1993.",
    "clusters": "Field CA, Welsh AH. Bootstrapping clustered data. J R Stat Soc B 2007;69:369-390.",
    "clopper-pearson": "Clopper CJ, Pearson ES. The use of confidence or fiducial limits illustrated in the case of "
    "the binomial. Biometrika 1934;26:404-413.",
    "wilson": "Wilson EB. Probable inference, the law of succession, and statistical inference. J Am Stat Assoc "
    "1927;22:209-212.",
    "permutation": "Phipson B, Smyth GK. Permutation p-values should never be zero. Stat Appl Genet Mol Biol "
    "2010;9:39.",
    "holm": "Holm S. A simple sequentially rejective multiple test procedure. Scand J Stat 1979;6:65-70.",
    "ranking": "Wiesenfarth M, et al. Methods and open-source toolkit for analyzing and visualizing challenge results. "
    "Sci Rep 2021;11:2369.",
    "reloaded": "Maier-Hein L, et al. Metrics reloaded: recommendations for image analysis validation. Nat Methods "
    "2024;21:195-212.",
}
OF_KIND = {"average-precision": "coco", "average-recall": "coco", "froc": "froc", "rodeo": "rodeo"}
WORDS = {
    "froc": "FROC",
    "rodeo": "RoDeO",
    "ppv": "positive predictive value",
    "f-beta": "F scores",
    "false-alarms": "false alarms per image",
    "count": "counts",
}


def section(page: Context) -> str:
    """Return the paragraph, the list of citations, what the metrics mean, and what stands beside the intervals."""
    ev, cited = page.evaluation, _Cited()
    words = " ".join(_sentences(page, cited))
    listed = "".join(f"<li>{text(CITATIONS[key])}</li>" for key in cited.keys)
    meaning = "".join(f"<dt>{text(names)}</dt><dd>{text(said)}</dd>" for names, said in meanings(ev))
    parts = [
        f'<p id="methods-text">{text(words)}</p>',
        f'<ol class="citations">{listed}</ol>',
        details("What the metrics mean", f"<dl>{meaning}</dl>"),
    ]
    if ev.ci:
        inner = paragraph(intervals_in_words(ev)) + beside_table(ev)
        parts.append(details("Beside the intervals: percentile interval, bias, Monte-Carlo error", inner))
    return "\n".join(parts)


class _Cited:
    """Numbers citations in the order in which they are first named."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def __call__(self, *keys: str) -> str:
        for key in keys:
            if key not in self.keys:
                self.keys.append(key)
        return "[" + ", ".join(str(self.keys.index(key) + 1) for key in keys) + "]"


def _sentences(page: Context, cite: _Cited) -> Iterator[str]:
    from calipers import __version__

    ev = page.evaluation
    cohort, view = ev.cohort, ev.protocol.matching
    yield (
        f"We evaluated {plural('model', len(ev.models))} on {plural('image', cohort.n_images)} with "
        f"{plural('reference', len(cohort.references))} of {plural('class', len(cohort.classes))} with Calipers "
        f"{__version__}, protocol {ev.protocol.name!r}."
    )
    sign = "more than" if view.strict else "at least"
    within = "of the same class " if view.within_class else "of any class "
    yield (
        f"A prediction counted as a hit if its {view.criterion} with a reference {within}was {sign} "
        f"{view.threshold:g} (assignment {view.assignment}, at most {view.max_dets} predictions per image and class)."
    )
    kinds = dict.fromkeys(plan.kind for plan in ev.protocol.metrics)
    words = {kind: WORDS.get(kind, kind.replace("-", " ")) for kind in kinds}
    named = [f"{words[kind]} {cite(OF_KIND[kind])}" for kind in kinds if kind in OF_KIND]
    named += [words[kind] for kind in kinds if kind not in OF_KIND]
    yield f"We report {join(named)}, as metrics that fit the question {cite('reloaded')}."
    yield from _certainty(page, cite)


def _certainty(page: Context, cite: _Cited) -> Iterator[str]:
    said = page.evaluation.statistics
    if said["interval"] is None:
        yield "No intervals were computed."
        return
    units = named_plural(said["unit"])
    sources = ("bootstrap",) if said["unit"] == "image" else ("bootstrap", "clusters")
    yield (
        f"{100 * said['level']:g} % confidence intervals come from {said['replicates']} bootstrap replicates over "
        f"{said['n_units']} {units} ({said['interval']}, seed {said['seed']}) {cite(*sources)}; where fewer than five "
        f"{units} had an error, the interval is Clopper and Pearson's for the share of {units} without error "
        f"{cite('clopper-pearson')}."
    )
    if page.comparison is not None:
        tests = sorted({row.test for row in page.comparison.rows})
        marks = cite("permutation", "holm") if page.comparison.correction == "holm" else cite("permutation")
        yield (
            f"Models were compared on the same {units} by {join(tests)} tests of the paired differences, corrected for "
            f"{page.comparison.family} tests ({page.comparison.correction}) {marks}."
        )
    if len(page.evaluation.models) > 2:
        yield f"How firmly the order stands was judged by ranking the bootstrap replicates {cite('ranking')}."
