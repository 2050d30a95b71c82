"""What counts as found, for every criterion."""

from __future__ import annotations

import pytest

from calipers import registry
from calipers.matching.matches import View
from calipers.report.verdict import WORDS, counts_as_found


def test_every_criterion_has_words():
    assert list(WORDS) == registry.known("criterion")


@pytest.mark.parametrize("criterion", registry.known("criterion"))
@pytest.mark.parametrize("dimensions", [2, 3])
def test_a_sentence_is_whole_and_names_the_criterion(criterion, dimensions):
    found = counts_as_found(View(criterion, threshold=0.5), dimensions)
    assert found.startswith("A reference counts as found if ")
    assert found.endswith(").")
    assert f"({criterion}" in found
    assert not set("{}") & set(found)


@pytest.mark.parametrize(
    ("view", "dimensions", "words"),
    [
        (
            View("box-iou", threshold=0.5),
            2,
            "the area it shares with a predicted box is at least 50 % of the area both cover "
            "together (box-iou >= 0.5).",
        ),
        (
            View("mask-iou", threshold=0.0),
            3,
            "the volume it shares with a predicted shape is more than 0 % of the volume both cover "
            "together (mask-iou > 0).",
        ),
        (
            View("iop", threshold=0.75, strict=True),
            2,
            "more than 75 % of a predicted box lies inside its box (iop > 0.75).",
        ),
        (
            View("centre-distance", threshold=10, within_class=False),
            2,
            "the centre of a prediction is at most 10 pixels away from its centre (centre-distance "
            "<= 10), whatever the class.",
        ),
        (View("point-in-mask"), 2, "the centre of a prediction lies in it (point-in-mask)."),
    ],
)
def test_by_hand(view, dimensions, words):
    assert counts_as_found(view, dimensions) == f"A reference counts as found if {words}"
