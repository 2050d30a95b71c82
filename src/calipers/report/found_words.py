# SPDX-License-Identifier: Apache-2.0
"""When a reference counts as found, in words for readers who do not know the criteria."""

from __future__ import annotations

from calipers import registry
from calipers.matches import View
from calipers.plots.words import hit_rule

OVER_BOTH = "the {area} it shares with {what} is {share} of the {area} both cover together"

# Criterion -> how a reference is found. {share} is "at least 50 %", {amount} "at least 0.5" or "at
# most 10".
WORDS = {
    "box-iou": OVER_BOTH.replace("{what}", "a predicted box"),
    "giou": (
        "a predicted box is close enough to its box, with a generalised IoU (1 for the same box) "
        "of {amount}"
    ),
    "ciou": (
        f"{OVER_BOTH.replace('{what}', 'a predicted box')}, after the box is moved onto its centre"
    ),
    "complete-iou": (
        "a predicted box has its place, size and form, with a complete IoU (1 for the same box) of "
        "{amount}"
    ),
    "iop": "{share} of a predicted box lies inside its box",
    "ior": "a predicted box covers {share} of its box",
    "hausdorff": (
        "a predicted box has its size and form, with a Hausdorff similarity (1 for the same box) "
        "of "
        "{amount}"
    ),
    "mask-iou": OVER_BOTH.replace("{what}", "a predicted shape"),
    "dice": "a predicted shape overlaps it, with a Dice score (1 for the same shape) of {amount}",
    "hull-iou": (
        f"{OVER_BOTH.replace('{what}', 'a predicted shape')}, with the dents of both filled"
    ),
    "boundary-iou": (
        "the part that its rim shares with the rim of a predicted shape is {share} of what both "
        "rims cover"
    ),
    "any-overlap": "a prediction overlaps it at all",
    "centre-distance": "the centre of a prediction is {amount} {pixels} away from its centre",
    "centre-distance-mm": "the centre of a prediction is {amount} mm away from its centre",
    "centre-distance-relative": (
        "the centre of a prediction is {amount} times its own size away from its centre"
    ),
    "point-in-box": "the centre of a prediction lies in its box",
    "point-in-mask": "the centre of a prediction lies in it",
    "point-in-hull": "the centre of a prediction lies in it, with its dents filled",
}


def counts_as_found(view: View, dimensions: int) -> str:
    """Return when a reference counts as found, with the name of the criterion in brackets."""
    criterion = registry.resolve("criterion", view.criterion)
    if criterion.distance:
        least = "less than" if view.strict else "at most"
    else:
        least = "more than" if view.strict or not view.threshold else "at least"
    area, pixels = "area", "pixels"
    if dimensions == 3:
        area, pixels = "volume", "voxels"
    rule = WORDS[view.criterion].format(
        share=f"{least} {100 * view.threshold:g} %",
        amount=f"{least} {view.threshold:g}",
        area=area,
        pixels=pixels,
    )
    of_class = "" if view.within_class else ", whatever the class"
    return f"A reference counts as found if {rule} ({hit_rule(view)}){of_class}."
