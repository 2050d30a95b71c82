"""The metric of the RSNA pneumonia challenge as its text has it: boxes of one class, image by
image, in plain loops.
"""

from __future__ import annotations

from reference.boxes import iou

Box = list[float]
THRESHOLDS = [0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75]


def image_score(references: list[Box], predictions: list[tuple[float, Box]]) -> float | None:
    """Return the score of one image; None if it has neither boxes nor predictions."""
    if not references and not predictions:
        return None
    scores = []
    for threshold in THRESHOLDS:
        free, hits = list(references), 0
        for _, box in sorted(predictions, key=lambda entry: -entry[0]):
            # The free box that it covers best, if it covers it well enough.
            best = max(free, key=lambda other: iou(other, box), default=None)
            if best is not None and iou(best, box) > threshold:
                free.remove(best)
                hits += 1
        scores.append(hits / (len(predictions) + len(references) - hits))
    return sum(scores) / len(scores)


def score(images: list[tuple[list[Box], list[tuple[float, Box]]]]) -> float:
    """Return the mean over the images that have a score."""
    scores = [image_score(*image) for image in images]
    defined = [value for value in scores if value is not None]
    return sum(defined) / len(defined) if defined else float("nan")
