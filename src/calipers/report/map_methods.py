# SPDX-License-Identifier: Apache-2.0
"""How maps were judged, for the methods paragraph: levels, objects, the soft IoU, missing
values.
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
