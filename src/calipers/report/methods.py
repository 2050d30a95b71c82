# SPDX-License-Identifier: Apache-2.0
"""How maps were judged, for the methods paragraph: levels, objects, the soft IoU, missing
values.

Words that all pages share: meanings of metrics, intervals, reasons, names and counts.

A paragraph on methods that is ready for a paper, with its citations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from calipers.evaluation.figures import BAND_METHOD, BAND_REPLICATES, has_intervals, hit_rule
from calipers.evaluation.figures_maps import measures
from calipers.evaluation.result import Evaluation
from calipers.evaluation.schema import NO_LIMIT
from calipers.evaluation.tables import intervals_table
from calipers.metrics.maps import MapSettings
from calipers.report.context import Context
from calipers.show.html import details, paragraph, table_block, text
from calipers.show.words import count_text, join, speaks_for
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
}
NEIGHBOURS["faces", 3] = "6"


def map_sentences(ev: Evaluation) -> Iterator[str]:
    """Yield how maps were judged; nothing without maps."""
    if not ev.cohort.maps:
        return
    yield from _objects(ev)
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
        rule = f"{100 * settings.rate:g} % of the voxels outside references are called"
    words = f"from the threshold on at which {rule}"
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
        "1 if there are none and nothing is called."
    )


MEANINGS = {
    "average-precision": (
        "Precision along the ranking by score, averaged over recall; mean over the classes that "
        "have references. False alarms with low scores cost little; a right place with a wrong "
        "class counts for nothing."
    ),
    "average-recall": (
        "The share of references that the best predictions of each image reach, averaged over "
        "thresholds and classes."
    ),
    "froc": "Sensitivity at fixed numbers of false alarms per image, averaged over them.",
    "sensitivity": "The share of references that were found.",
    "ppv": "The share of predictions that are right.",
    "f-beta": "Sensitivity and PPV in one number; beta above 1 gives sensitivity more weight.",
    "accuracy": (
        "Right calls among all, including images without the class: high even without any "
        "prediction when findings are rare."
    ),
    "false-alarms": "Predictions that are wrong, including duplicates, per image.",
    "count": "A plain count.",
    "rodeo": (
        "Robust Detection Outcome: every box is paired with its most plausible partner, then "
        "judged "
        "in three parts, place (loc), shape and class (cls); the total is their harmonic mean. "
        "Missed and surplus boxes lower all parts."
    ),
    "panoptic-quality": (
        "Recognition quality (RQ) is F1, segmentation quality (SQ) is the mean overlap of the "
        "hits, "
        "and panoptic quality (PQ) is their product."
    ),
    "instance-f1": (
        "F1 of the objects of each image, averaged over images; an image without references and "
        "predictions counts 1, so normal images without a false alarm raise it. Pooled: F1 of all "
        "objects."
    ),
    "instance-iou": (
        "The overlap that references reach with their prediction, 0 for missed ones; or of the "
        "hits "
        "only."
    ),
    "centre-distance": "How far the hits are from the centre of their reference.",
    "case-auroc": (
        "Whether the highest score of an image separates images with references from those "
        "without: "
        "the share of such pairs of images in the right order."
    ),
    "picai-score": "The mean of the average precision of objects and the AUROC of images.",
    "error-types": (
        "Error types of TIDE: dAP is the average precision gained if one kind of mistake were "
        "fixed, errors is their number: wrong class (cls), place roughly right (loc), both, second "
        "prediction on one reference (dup), prediction on nothing (bkg), reference that no "
        "prediction comes near (miss), all false alarms (fp), all references that were not found "
        "(fn), false alarms on images without references (empty). Gains do not add up."
    ),
    "voxel-average-precision": (
        "Of all voxels ranked by score: the precision at every reference voxel, averaged. Over the "
        "data set all voxels are one ranking; each sample or slice has its own, and those without "
        "references have no value. Large references count most."
    ),
    "voxel-auroc": (
        "The probability that a reference voxel scores higher than another one. Near 1 for almost "
        "any model if references are small: the easy background counts most."
    ),
    "aupro": (
        "The mean share of every reference that is called, as a function of the share of other "
        "voxels that are called, up to 0.3 of them: all references count the same, whatever their "
        "size."
    ),
    "voxel-dice": (
        "Twice the number of called reference voxels, over the number of called plus reference "
        "voxels: at the threshold that is best on these very images, which is optimistic, or at a "
        "given one."
    ),
    "voxel-iou": (
        "The number of called reference voxels, over the number of voxels that are called or "
        "belong to references; Dice / (2 - Dice)."
    ),
    "soft-instance-iou": (
        "For every reference, without a threshold: the score inside it, over the mean of its size "
        "and of all score on it and the background; then the mean per image. At alpha 0.5 this is "
        "a "
        "soft Dice, so the soft Jaccard stands beside it. Faint scores all over the background "
        "lower it. An image without references has 1 if nothing is called, and less with every "
        "score."
    ),
}


def intervals_in_words(evaluation: Evaluation) -> str:
    """Return how the intervals were computed, as a paragraph for a paper."""
    statistics = evaluation.statistics
    unit, units = statistics["unit"], named_plural(statistics["unit"])
    words = [
        f"{100 * statistics['level']:g} % confidence intervals come from "
        f"{statistics['replicates']} bootstrap replicates, resampled by {unit} "
        f"(n = {statistics['n_units']}, seed {statistics['seed']}); they generalise to "
        f"{statistics['generalises_to']}."
    ]
    if statistics["interval"] == "bootse-t-logit":
        strata = evaluation.protocol.strata
        less = "one" if strata is None else f"one per {strata}"
        words.append(
            "Each is a t interval around the value, with the standard deviation of its replicates "
            "as standard error, on the scale of the metric (logit between 0 and 1, log from 0 on); "
            f"its degrees of freedom are the number of {units} less {less}."
        )
    else:
        words.append(f"Kind of interval: {statistics['interval']}.")
    words.append(
        f"There is no interval for fewer than 5 {units}, or if more than 5 % of the replicates "
        f"have "
        f"no value. With fewer than 5 {units} in error, and fewer than half of them, it is the "
        f"Clopper-Pearson interval of the share of {units} without error, and marked."
    )
    return " ".join(words)


def meanings(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    """Yield (names, what they mean), one entry per kind of metric."""
    kinds: dict[str, list[str]] = {}
    for plan in evaluation.protocol.metrics:
        kinds.setdefault(plan.kind, []).append(plan.name)
    for kind, names in kinds.items():
        if kind in MEANINGS:
            yield ", ".join(names), MEANINGS[kind]


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


def methods_section(page: Context) -> str:
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
        inner = paragraph(intervals_in_words(ev)) + table_block(intervals_table(ev))
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
        f"We evaluated {count_text('model', len(ev.models))} on {count_text('image', cohort.n_images)} "
        f"with "
        f"{count_text('reference', len(cohort.references))} of "
        f"{count_text('class', len(cohort.classes))}{ignored} with Calipers {__version__}, protocol "
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
            f"for {count_text('test', comparison.family)} ({comparison.correction}){sources}."
        )
    if page.duel is not None and page.duel.family:
        n_tests = count_text("test", page.duel.family)
        yield (
            "At one false alarm per image the best model was compared with the others; this family "
            f"of tests was corrected separately ({n_tests})."
        )
    if page.ranking is not None:
        yield (
            "The stability of the ranking was judged by ranking the bootstrap replicates "
            f"{cite('ranking')}."
        )
