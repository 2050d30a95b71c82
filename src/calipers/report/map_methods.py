# SPDX-License-Identifier: Apache-2.0
"""The sentences on maps in the paragraph on methods: levels, objects, the soft IoU, and what has no
value.
"""

from __future__ import annotations

from collections.abc import Iterator

from calipers.evaluation import Evaluation
from calipers.metrics.map_settings import MapSettings
from calipers.plots.voxels import measures
from calipers.report.words import join

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
    all_measures = [measure for _, measure in measures(ev)]
    voxel_measures = [measure for measure in all_measures if measure.quantity != "softIoU"]
    levels = [
        words
        for level, words in LEVELS.items()
        if any(measure.level == level for measure in voxel_measures)
    ]
    if levels:
        undefined = any(measure.level in ("sample", "slice") for measure in voxel_measures)
        rest = (
            "; images or slices without references have no value and were left out of means"
            if undefined
            else ""
        )
        yield f"Metrics on voxels are stated {join(levels)}{rest}."
    yield from _soft(ev)


def _objects(ev: Evaluation) -> Iterator[str]:
    settings, d = ev.protocol.maps or MapSettings(), ev.cohort.dimensions
    neighbours = NEIGHBOURS[settings.connectivity, d]
    threshold = settings.threshold
    if not isinstance(threshold, str):
        where = f"of at least {threshold:g}"
    else:
        share = (
            f"{100 * settings.rate:g} % of the voxels outside of references are called"
            if settings.rate
            else ""
        )
        where = f"from the threshold on at which {share or 'the pooled Dice is best'}"
        where += f", found on {settings.tuning}, which was left out" if settings.tuning else ""
    least = f", of at least {settings.least} voxels," if settings.least > 1 else ""
    yield (
        f"Predicted objects{least} are connected components ({neighbours} neighbours) of the "
        f"{'voxels' if d == 3 else 'pixels'} with a score {where}; the score of an object is the "
        f"{'largest' if settings.score == 'max' else 'mean'} score of its {'voxels' if d == 3 else 'pixels'}."
    )


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
            "jaccard": f"(TP + e) / (TP + {2 * measure.alpha:g} FP + {2 - 2 * measure.alpha:g} FN + e), with TP = Σpy, "
            "FP = Σp(1-y), FN = Σ(1-p)y",
            "printed": f"{a} Σpy / Σ(0.5 p + {b} y)",
        }[measure.variant]
        dice = (
            ", which is a soft Dice"
            if measure.variant == "tversky" and measure.alpha == 0.5
            else ""
        )
        yield f"{name} of a reference is {formula}{dice}."
    yield (
        "Sums run over the reference and the background, other references left out, with scores p, membership y and "
        "e = 0.00001; the value of an image is the mean over its references, and 1 if there is none and nothing is "
        "called."
    )
