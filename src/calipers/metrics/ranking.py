# SPDX-License-Identifier: Apache-2.0
"""Metrics on the ranking of predictions by score: average precision, average recall, FROC, curves.

*Average precision* per class and threshold, then the mean over thresholds and over the classes that
have references (COCO leaves the others out). Interpolations:

``coco101``
    mean of the interpolated precision at recall 0, .01, ..., 1; equals pycocotools.
``voc11``
    the same at 0, .1, ..., 1 (VOC 2007).
``every-point``
    area under the interpolated curve (VOC 2010 and later).
``tie-aware``
    sum of recall gain x precision over distinct scores, without interpolation; independent of the
    order of equal scores.

``ties = "coco"`` walks through equal scores in input order, ``ties = "block"`` takes them as one
operating point.

*FROC*: sensitivity at a given number of false alarms per image, and the mean over several such
points. The value at x is the highest sensitivity of an attainable operating point with at most x
false alarms per image; equal scores are one operating point. Option ``rates`` lists the points
(default 1/8 ... 8, whose mean is the FROC score of LUNA16 and others). Pooled values rank the
predictions of all classes together. ``interpolation = "linear"`` draws straight lines between the
operating points instead, as MONAI's ``compute_froc_score`` and CAMELYON16 do: a sensitivity that no
score cut may reach.

*Curves* are families of numbers: a point of a curve is a metric like any other, and gets its
interval likewise. They are drawn, not listed in protocols. The mean of `PrecisionCurve` over 101
recalls is the average precision (``coco101``); a point of `FrocCurve` is the FROC at that rate.

The evidence is `Matches`; `kernels.curves` does the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from calipers.arrays import F64, I64
from calipers.errors import UsageError, did_you_mean
from calipers.kernels import curves
from calipers.matching.assign import MatchRecipe
from calipers.matching.matches import COUNTED, HITS, Matches, View
from calipers.metrics.base import Facts, MatchMetric, MetricPlan, Output, check_choice, class_mean
from calipers.metrics.counts import ratio

Setting = tuple[int, str, str]  # max_dets, ties, interpolation

INTERPOLATIONS = ("coco101", "voc11", "every-point", "tie-aware")
# linspace, as in pycocotools: k / 100 differs from it in the last bits.
RECALLS = {"coco101": np.linspace(0.0, 1.0, 101), "voc11": np.linspace(0.0, 1.0, 11)}
COCO = "Lin TY, et al. Microsoft COCO: common objects in context. ECCV 2014, 740-755."
VOC = (
    "Everingham M, et al. The Pascal visual object classes (VOC) challenge. Int J Comput Vis "
    "2010;88:303-338."
)
SOURCES = {"voc11": VOC, "every-point": VOC}  # of the interpolations; the others come from COCO

# How far intervals of means over thresholds reach beyond the bootstrap's bias. They were 1.5 to 4.4
# times as biased as their replicates in 15 simulated designs; intervals covered them in .84 to .93
# of the cases without this, in .92 to .97 with it.
BIAS_REACH = 2.0
# Of a mean over classes at one threshold: a class in few units has an AP that is too high
# (`validation.choices_classes`).
BIAS_REACH_OF_CLASSES = 1.0

# Setio et al. 2017 (LUNA16).
RATES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
FROC_INTERPOLATIONS = ("steps", "linear")


class AveragePrecision(MatchMetric):
    """The area under the precision-recall curve, in four interpolations."""

    own_options = ("interpolation",)
    facts = Facts(
        id="ap@1",
        short={"AP": {}, "mAP": {}},
        over_thresholds=True,
        swap=False,
        ranks=True,
        skips_classes=True,
        meaning=(
            "Precision along the ranking by score, averaged over recall; mean over the classes "
            "that have references. False alarms with low scores cost little; a right place with a "
            "wrong class counts for nothing."
        ),
        page="explanation/average-precision.md",
    )

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        for output in self.outputs:
            name = output.options.get("interpolation", "coco101")
            if name not in INTERPOLATIONS:
                hint = did_you_mean(name, INTERPOLATIONS)
                raise UsageError(f"metric {output.name!r}: no interpolation {name!r}; {hint}")
        interpolations = [_setting(output)[2] for output in self.outputs]
        self.facts = replace(
            self.facts,
            ids=tuple(f"ap.{interpolation}@1" for interpolation in interpolations),
            class_means=frozenset(self.names),
            # Few hits at high thresholds, and interpolation takes the best precision of them.
            bias_reach=dict.fromkeys(self.facts.graded, BIAS_REACH),
            mean_bias_reach=dict.fromkeys(self.names, BIAS_REACH_OF_CLASSES),
            less_than_share=frozenset(self.names),
            citations=tuple(dict.fromkeys(SOURCES.get(name, COCO) for name in interpolations)),
            # Interpolation at fixed recalls moves in steps.
            rough=frozenset(
                name for name, kind in zip(self.names, interpolations) if kind in RECALLS
            ),
        )

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names)."""
        # Views that share a setting are computed in one go, each once for all outputs.
        views_of: dict[Setting, dict[int, None]] = {}
        requests = [(_setting(output), evidence.indices(output.views)) for output in self.outputs]
        for setting, views in requests:
            views_of.setdefault(setting, {}).update(dict.fromkeys(views))
        tables = {}
        for setting, distinct in views_of.items():
            values = _average_precisions(evidence, weights, list(distinct), setting)
            tables[setting] = {view: k for k, view in enumerate(distinct)}, values
        columns = []
        for setting, views in requests:
            place, values = tables[setting]
            places = [place[view] for view in views]
            if values.shape[2] > 1:
                columns.append(_mean_of_views([values[:, k] for k in places]))
            else:
                columns.append(np.take(values.swapaxes(0, 1), places, axis=0).mean(axis=0))
        return class_mean(np.stack(columns, axis=2))

    def precisions(self, evidence: Matches, output: Output, weights: I64) -> F64:
        """Return (R, n_views, n_classes, n_recalls): the array that pycocotools calls
        ``precision``.
        """
        max_dets, ties, interpolation = _setting(output)
        problem = evidence.curves(
            evidence.indices(output.views), weights, max_dets, blocks=ties == "block"
        )
        weight = problem.ordered_weights()
        positives = evidence.reference_totals(weights)[:, :, COUNTED]
        precisions = []
        for view in problem.views:
            fates = problem.table.fates[view][problem.ranked.order]
            curve = curves.curve(fates, problem.ranked, weight)
            needed = curves.needed_hits(positives[:, view], RECALLS[interpolation])
            precisions.append(curves.precision_at(curve, needed))
        return np.stack(precisions, axis=1)


def _setting(output: Output) -> Setting:
    interpolation = output.options.get("interpolation", "coco101")
    return (
        output.max_dets,
        # The sum over distinct scores makes sense only if ties are one point.
        "block" if interpolation == "tie-aware" else output.options["ties"],
        interpolation,
    )


def _average_precisions(evidence: Matches, weights: I64, views: list[int], setting: Setting) -> F64:
    """Return (R, n_views, K) of views that share how predictions are ranked and averaged."""
    max_dets, ties, interpolation = setting
    problem = evidence.curves(views, weights, max_dets, blocks=ties == "block")
    positives = evidence.reference_totals(weights)[:, problem.views, COUNTED]
    enveloped = interpolation != "tie-aware"
    return curves.average_precision(
        problem, positives, RECALLS.get(interpolation), enveloped=enveloped
    )


def _mean_of_views(views: Sequence[F64]) -> F64:
    """Return (R, K): the mean over views of (R, K) each, K > 1, with the bits of `numpy.mean`.

    The views are added up where they lie: the classes of a replicate lie apart in memory, and to
    bring thousands of them together costs ten times as much.
    """
    total = views[0].copy(order="K")
    for of_view in views[1:]:
        total += of_view
    total /= len(views)
    # As `numpy.mean` leaves it: how classes are added up depends on where they lie.
    return np.ascontiguousarray(total)


class SizeMeanPrecision(MatchMetric):
    """The mean of the average precisions of several ranges of sizes, such as all, small, medium and
    large, option ``over_sizes``: each range counts equally, one without references is left out.
    """

    own_options = ("interpolation", "over_sizes")
    facts = Facts(
        id="size-mean-ap@1",
        swap=False,
        ranks=True,
        skips_classes=True,
        word="mean of average precisions",
        meaning=(
            "The mean of the average precisions of several ranges of sizes: a rare size counts as "
            "much as a frequent one."
        ),
        page="explanation/average-precision.md",
    )

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        self.parts: list[AveragePrecision] = []
        for plan in plans:
            sizes = plan.options.get("over_sizes")
            if not isinstance(sizes, tuple) or not sizes:
                raise UsageError(
                    f"metric {plan.name!r}: over_sizes is a list of names of [sizes], such as "
                    '["small", "large"]'
                )
            options = {key: value for key, value in plan.options.items() if key != "over_sizes"}
            of_sizes = []
            for k, size in enumerate(sizes):
                of_sizes.append(replace(plan, name=str(k), options={**options, "size": size}))
            self.parts.append(AveragePrecision(of_sizes))
        views = [view for part in self.parts for view in part.recipe.views]
        self.recipe = MatchRecipe(tuple(dict.fromkeys([*self.recipe.views, *views])))
        names = frozenset(self.names)
        rough = frozenset().union(*(part.facts.rough for part in self.parts))
        self.facts = replace(
            self.facts,
            class_means=names,
            graded=names,
            rough=names if rough else frozenset(),
            citations=self.parts[0].facts.citations,
        )

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names)."""
        columns = []
        for part in self.parts:
            # The sizes are the names of a part; their mean is the first row of `class_mean`.
            of_sizes = np.moveaxis(part.value(evidence, weights), 2, 1)
            columns.append(class_mean(of_sizes)[:, 0])
        return np.stack(columns, axis=2)

    def reasons(self, evidence: Matches) -> Mapping[tuple[int, int], str]:
        """Return why values are undefined: no size has a reference."""
        values = self.value(evidence, np.ones((1, evidence.n_images), np.int64))[0]
        rows, names = np.nonzero(np.isnan(values))
        return dict.fromkeys(zip(rows.tolist(), names.tolist()), "no_references")


class AverageRecall(MatchMetric):
    """The largest recall reached with at most ``max_dets`` predictions per image and class, mean
    over thresholds.
    """

    tried = judged = ("references",)
    facts = Facts(
        id="ar.coco@1",
        short={"AR": {}},
        over_thresholds=True,
        skips_classes=True,
        meaning=(
            "The share of references that the best predictions of each image reach, averaged over "
            "thresholds and classes."
        ),
        citations=(COCO,),
        page="explanation/average-precision.md",
    )

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        self.facts = replace(self.facts, class_means=frozenset(self.names))

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names)."""
        positives = evidence.reference_totals(weights)[:, :, COUNTED]
        columns = []
        for output in self.outputs:
            # Only hits are asked for: that spares counting the many that hit nothing.
            totals = evidence.prediction_totals(weights, output.max_dets, only_hits=True)
            recalls = []  # view by view: all together, of thousands of classes, leave the caches
            for view in evidence.indices(output.views):
                hits = totals[:, view, HITS].astype(np.float64)
                recalls.append(ratio(hits, positives[:, view]))
            if evidence.n_classes > 1:
                columns.append(_mean_of_views(recalls))
            else:  # NumPy adds up the views of one class pairwise
                columns.append(np.stack(recalls, axis=1).mean(axis=1))
        return class_mean(np.stack(columns, axis=2))


class Froc(MatchMetric):
    """Sensitivity at fixed false-alarm rates."""

    own_options: tuple[str, ...] = ("rates", "interpolation")
    facts = Facts(
        id="froc@1",
        short={"FROC": {}},
        synonyms={"CPM": "FROC"},
        swap=False,
        ranks=True,
        word="FROC",
        meaning="Sensitivity at fixed numbers of false alarms per image, averaged over them.",
        citations=(
            "Setio AAA, et al. Validation, comparison, and combination of algorithms for automatic "
            "detection of pulmonary nodules in computed tomography images: the LUNA16 challenge. "
            "Med Image Anal 2017;42:1-13.",
        ),
        claim="rates",
        page="explanation/froc.md",
    )

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        for output in self.outputs:
            rates = output.options.get("rates", RATES)
            is_list = isinstance(rates, list | tuple) and len(rates) > 0
            if not is_list or not all(
                isinstance(rate, int | float) and not isinstance(rate, bool) and rate >= 0
                for rate in rates
            ):
                raise UsageError(
                    f"metric {output.name!r}: rates is a list of false alarms per image, at least "
                    f"0 each, got {rates!r}"
                )
            check_choice(output, "interpolation", FROC_INTERPOLATIONS)
        ids = ["froc.linear@1" if _is_linear(output) else "froc@1" for output in self.outputs]
        self.facts = replace(self.facts, ids=tuple(ids))

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names)."""
        columns = []
        for output in self.outputs:
            rates = np.array(output.options.get("rates", RATES), np.float64)
            values = [self._view(evidence, view, output, weights, rates) for view in output.views]
            columns.append(np.mean(values, axis=0))
        return np.stack(columns, axis=2)

    def _view(self, evidence: Matches, view: View, output: Output, weights: I64, rates: F64) -> F64:
        """Return (R, 1 + n_classes): mean sensitivity over the rates; all classes ranked together,
        then each alone.
        """
        index, max_dets = evidence.index(view), output.max_dets
        positives = evidence.reference_totals(weights)[:, index, COUNTED]
        n_images = evidence.image_totals(weights)[:, None]
        n_alarms = allowed_alarms(n_images, rates)
        columns = []
        # pooled values rank all classes together, which is not the mean over classes
        for pooled, total in ((True, positives.sum(axis=1, keepdims=True)), (False, positives)):
            problem = evidence.curves([index], weights, max_dets, blocks=True, pooled=pooled)
            if _is_linear(output):
                mean_hits = curves.interpolated_hits(problem, index, n_images * rates).mean(axis=2)
            else:
                mean_hits = curves.hits_at(problem, n_alarms)[:, 0].mean(axis=2)
            columns.append(ratio(mean_hits, total))
        return np.concatenate(columns, axis=1)


def _is_linear(output: Output) -> bool:
    return bool(output.options.get("interpolation") == "linear")


def allowed_alarms(n_images: I64, rates: F64) -> F64:
    """Return (R, n): the most false alarms k with ``k / n_images <= rate``; 0.29 x 100 is a little
    less than 29.
    """
    n = np.maximum(n_images, 1)
    most = np.floor(n * rates)
    most = np.where(most / n > rates, most - 1, most)
    return np.where((most + 1) / n <= rates, most + 1, most)


class FrocCurve(Froc):
    """Sensitivity at many rates of false alarms, all classes ranked together."""

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        self.rates = np.array([output.options["rates"][0] for output in self.outputs], np.float64)
        self.facts = replace(self.facts, per_class=False)

    @classmethod
    def of(cls, view: View, rates: Sequence[float]) -> FrocCurve:
        """Return the curve of a view at some rates."""
        return cls([plan_of(view, f"FROC@{rate:g}", rates=(rate,)) for rate in rates])

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1, n_rates)."""
        output = self.outputs[0]
        index = evidence.index(output.views[0])
        positives = evidence.reference_totals(weights)[:, index, COUNTED].sum(axis=1)[:, None, None]
        problem = evidence.curves([index], weights, output.max_dets, blocks=True, pooled=True)
        n_alarms = allowed_alarms(evidence.image_totals(weights)[:, None], self.rates)
        hits = curves.hits_at(problem, n_alarms)[:, 0]
        return ratio(hits.astype(np.float64), np.broadcast_to(positives, hits.shape))


class PrecisionCurve(MatchMetric):
    """Interpolated precision at many recalls, mean over the classes that have references."""

    own_options: tuple[str, ...] = ("recall",)
    facts = Facts(id="precision@1", swap=False)

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        self.recalls = np.array([output.options["recall"] for output in self.outputs], np.float64)
        self.facts = replace(self.facts, per_class=False)

    @classmethod
    def of(cls, view: View, recalls: Sequence[float], ties: str = "block") -> PrecisionCurve:
        """Return the curve of a view at some recalls."""
        return cls(
            [plan_of(view, f"precision@{recall:g}", recall=recall, ties=ties) for recall in recalls]
        )

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1, n_recalls)."""
        output = self.outputs[0]
        index = evidence.index(output.views[0])
        problem = evidence.curves(
            [index], weights, output.max_dets, blocks=output.options["ties"] == "block"
        )
        positives = evidence.reference_totals(weights)[:, index, COUNTED]
        precisions = curves.precisions(problem, positives, self.recalls)
        return class_mean(np.where(positives[:, :, None] > 0, precisions, np.nan))[:, :1]


def plan_of(view: View, name: str, **options: object) -> MetricPlan:
    """Return the plan of one number that looks at matches through ``view``."""
    matching = {
        "criterion": view.criterion,
        "assignment": view.assignment,
        "thresholds": (view.threshold,),
        "size": view.size,
        "max_dets": view.max_dets,
        "match_dets": view.max_dets,
        "classes": "within" if view.within_class else "ignore",
        "strict": view.strict,
        "score_cut": view.score_cut,
        "duplicates": view.duplicates,
        "ties": "block",
    }
    return MetricPlan(name, "curve", {**matching, **options})
