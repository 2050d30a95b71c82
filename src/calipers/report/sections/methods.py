# SPDX-License-Identifier: Apache-2.0
"""A paragraph on methods that is ready for a paper, with its citations."""

from __future__ import annotations

import math
from collections.abc import Iterator

from calipers.evaluation import Evaluation
from calipers.findings import speaks_for
from calipers.plots.curves import BAND_METHOD, BAND_REPLICATES
from calipers.plots.words import has_intervals, hit_rule
from calipers.protocol_schema import NO_LIMIT
from calipers.report.context import Context
from calipers.report.grids import beside_table
from calipers.report.map_methods import map_sentences
from calipers.report.markup import details, paragraph, text
from calipers.report.words import intervals_in_words, join, meanings, plural
from calipers.statistics.weights import plural as named_plural

CITATIONS = {
    "coco": "Lin TY, et al. Microsoft COCO: common objects in context. ECCV 2014, 740-755.",
    "voc": (
        "Everingham M, et al. The Pascal visual object classes (VOC) challenge. Int J Comput Vis "
        "2010;88:303-338."
    ),
    "froc": "Setio AAA, et al. Validation, comparison, and combination of algorithms for automatic "
    "detection of "
    "pulmonary nodules in computed tomography images: the LUNA16 challenge. Med Image Anal "
    "2017;42:1-13.",
    "rodeo": "Meissen F, et al. Robust detection outcome: a metric for pathology detection in "
    "medical images. "
    "MIDL 2023.",
    "panoptic": "Kirillov A, et al. Panoptic segmentation. CVPR 2019, 9404-9413.",
    "picai": "Saha A, et al. Artificial intelligence and radiologists in prostate cancer detection "
    "on MRI (PI-CAI): an "
    "international, paired, non-inferiority, confirmatory study. Lancet Oncol 2024;25:879-887.",
    "tide": (
        "Bolya D, et al. TIDE: a general toolbox for identifying object detection errors. ECCV "
        "2020, 558-573."
    ),
    "bootstrap": "Efron B, Tibshirani RJ. An introduction to the bootstrap. Chapman and Hall 1993.",
    "clusters": "Field CA, Welsh AH. Bootstrapping clustered data. J R Stat Soc B 2007;69:369-390.",
    "clopper-pearson": "Clopper CJ, Pearson ES. The use of confidence or fiducial limits "
    "illustrated in the case of "
    "the binomial. Biometrika 1934;26:404-413.",
    "permutation": "Phipson B, Smyth GK. Permutation p-values should never be zero. Stat Appl "
    "Genet Mol Biol "
    "2010;9:39.",
    "holm": (
        "Holm S. A simple sequentially rejective multiple test procedure. Scand J Stat "
        "1979;6:65-70."
    ),
    "ranking": "Wiesenfarth M, et al. Methods and open-source toolkit for analyzing and "
    "visualizing challenge results. "
    "Sci Rep 2021;11:2369.",
    "soft-iou": "Zimmerer D, Maier-Hein K. Revisiting anomaly localization metrics. 2024.",
    "aupro": "Bergmann P, et al. The MVTec anomaly detection dataset: a comprehensive real-world "
    "dataset for "
    "unsupervised anomaly detection. Int J Comput Vis 2021;129:1038-1059.",
    "reloaded": "Maier-Hein L, et al. Metrics reloaded: recommendations for image analysis "
    "validation. Nat Methods "
    "2024;21:195-212.",
}
OF_KIND = {
    "average-recall": "coco",
    "froc": "froc",
    "rodeo": "rodeo",
    "panoptic-quality": "panoptic",
    "picai-score": "picai",
    "error-types": "tide",
    "soft-instance-iou": "soft-iou",
    "instance-f1": "soft-iou",
    "aupro": "aupro",
}
VOC = ("voc11", "every-point")  # interpolations of the average precision
WORDS = {
    "froc": "FROC",
    "rodeo": "RoDeO",
    "ppv": "positive predictive value",
    "f-beta": "F scores",
    "false-alarms": "false alarms per image",
    "count": "counts",
    "instance-f1": "F1 per image",
    "instance-iou": "instance IoU",
    "case-auroc": "AUROC of images",
    "picai-score": "the PI-CAI score",
    "error-types": "error types (TIDE)",
    "soft-instance-iou": "soft instance IoU",
    "voxel-average-precision": "average precision of voxels",
    "voxel-auroc": "AUROC of voxels",
    "voxel-dice": "Dice of voxels",
    "voxel-iou": "IoU of voxels",
    "aupro": "AUPRO",
}


def section(page: Context) -> str:
    """Return the paragraph, its citations, the meaning of the metrics, and details of the
    intervals.
    """
    ev, cite = page.evaluation, _Citations()
    words = " ".join(_sentences(page, cite))
    citations = "".join(f"<li>{text(CITATIONS[key])}</li>" for key in cite.keys)
    meaning = ""
    for names, meaning_words in meanings(ev):
        meaning += f"<dt>{text(names)}</dt><dd>{text(meaning_words)}</dd>"
    parts = [
        f'<p id="methods-text">{text(words)}</p>',
        f'<ol class="citations">{citations}</ol>',
        details("What the metrics mean", f"<dl>{meaning}</dl>"),
    ]
    if has_intervals(ev):
        inner = paragraph(intervals_in_words(ev)) + beside_table(ev)
        parts.append(
            details("Beside the intervals: percentile interval, bias, Monte-Carlo error", inner)
        )
    return "\n".join(parts)


class _Citations:
    """Numbers citations in the order in which they are first named."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def __call__(self, *keys: str) -> str:
        for key in keys:
            if key not in self.keys:
                self.keys.append(key)
        return "[" + ", ".join(str(self.keys.index(key) + 1) for key in keys) + "]"


def _sentences(page: Context, cite: _Citations) -> Iterator[str]:
    from calipers import __version__

    ev = page.evaluation
    cohort, n_ignored = ev.cohort, int(ev.cohort.references.ignore.sum())
    ignored = f" ({n_ignored} of them ignored: neither found nor missed)" if n_ignored else ""
    yield (
        f"We evaluated {plural('model', len(ev.models))} on {plural('image', cohort.n_images)} "
        f"with "
        f"{plural('reference', len(cohort.references))} of "
        f"{plural('class', len(cohort.classes))}{ignored} with Calipers {__version__}, protocol "
        f"{ev.protocol.name!r}."
    )
    yield from map_sentences(ev)
    yield from _matching(ev)
    metric_names = []
    for kind in _kinds(ev):
        name = WORDS.get(kind, kind.replace("-", " "))
        metric_names.append(f"{name}{_source(ev, kind, cite)}")
    yield f"We report {join(metric_names)}; on the choice of metrics see {cite('reloaded')}."
    yield from _certainty(page, cite)
    yield from _comparing(page, cite)


def _kinds(ev: Evaluation) -> list[str]:
    return list(dict.fromkeys(plan.kind for plan in ev.protocol.metrics))


def _source(ev: Evaluation, kind: str, cite: _Citations) -> str:
    """Return the citations of a kind of metric; nothing for plain ones."""
    keys = [OF_KIND[kind]] if kind in OF_KIND else []
    if kind == "average-precision":
        for plan in ev.protocol.metrics:
            if plan.kind == kind:
                keys.append("voc" if plan.options.get("interpolation") in VOC else "coco")
    return f" {cite(*dict.fromkeys(keys))}" if keys else ""


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
    if "rodeo" in _kinds(ev):
        yield "RoDeO pairs boxes by its own rule."


def _certainty(page: Context, cite: _Citations) -> Iterator[str]:
    """Yield where the intervals come from, or why there are none."""
    ev = page.evaluation
    statistics = ev.statistics
    if not has_intervals(ev):
        reason = speaks_for(statistics, [row.estimate for row in ev.rows])
        yield reason or "No confidence intervals were computed."
        return
    units = named_plural(statistics["unit"])
    sources = ("bootstrap",) if statistics["unit"] == "image" else ("bootstrap", "clusters")
    yield (
        f"{100 * statistics['level']:g} % confidence intervals come from "
        f"{statistics['replicates']} bootstrap replicates, resampled by {statistics['unit']} "
        f"(n = {statistics['n_units']}){_sampling_words(ev)} ({statistics['interval']}, seed "
        f"{statistics['seed']}) {cite(*sources)}; they generalise to "
        f"{statistics['generalises_to']}."
    )
    if page.at_one is not None and (
        statistics["replicates"] > BAND_REPLICATES or statistics["interval"] != BAND_METHOD
    ):
        number = min(statistics["replicates"], BAND_REPLICATES)
        yield f"Bands of curves are pointwise {BAND_METHOD} intervals from {number} replicates."
    if any(row.estimate.method == "clopper-pearson-units" for row in ev.rows):
        yield (
            f"Where fewer than five {units}, and fewer than half of them, had an error, or all of "
            "them had one, the interval is the Clopper-Pearson interval of the share of "
            f"{units} without error {cite('clopper-pearson')}."
        )


def _sampling_words(ev: Evaluation) -> str:
    """Return how units were drawn, if there are strata or nested units."""
    cluster, strata = ev.protocol.cluster, ev.protocol.strata
    if strata is not None:
        return f", drawn inside every {strata}"
    if not isinstance(cluster, str) and len(cluster) > 1:
        return f", and {named_plural(cluster[1])} inside each"
    return ""


def _comparing(page: Context, cite: _Citations) -> Iterator[str]:
    """Yield which models were compared, by which tests, and how the tests were corrected."""
    units, comparison = named_plural(page.evaluation.statistics["unit"]), page.comparison
    if comparison is not None:
        tests = sorted({row.test for row in comparison.rows})
        keys = [key for key in ("permutation", "holm") if key in (*tests, comparison.correction)]
        sources = f" {cite(*keys)}" if keys else ""
        all_pairs = len({row.model_a for row in comparison.rows}) > 1
        who = "The model that came first was compared with each of the others"
        if all_pairs or len(page.evaluation.models) == 2:
            who = "Models were compared"
        yield (
            f"{who} on the same {units} by {join(tests)} tests of the paired differences, "
            f"corrected "
            f"for {plural('test', comparison.family)} ({comparison.correction}){sources}."
        )
    if page.duel is not None and page.duel.family:
        n_tests = plural("test", page.duel.family)
        yield (
            "At one false alarm per image the best model was compared with the others; this family "
            f"of tests was corrected separately ({n_tests})."
        )
    if page.ranking is not None:
        yield (
            "The stability of the ranking was judged by ranking the bootstrap replicates "
            f"{cite('ranking')}."
        )
