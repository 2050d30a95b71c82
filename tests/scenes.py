"""Small cohorts of which every fate is known by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from calipers.evaluation.protocol import Protocol
from calipers.pictures.pixels import PictureError, read_pixels

Objects = Sequence[tuple[float, ...]]  # place on a line, score
PROTOCOL = """
schema = "calipers.protocol/1"
name = "plain"
source = "a test"
[matching]
assignment = "{assignment}"
classes = "{classes}"
{further}
[[metric]]
name = "F1@0.5"
kind = "f-beta"
beta = 1
"""


def protocol(assignment: str = "by-score", classes: str = "within", further: str = "") -> Protocol:
    return Protocol.from_toml(
        PROTOCOL.format(assignment=assignment, classes=classes, further=further)
    )


def box(place: float) -> list[float]:
    """A box of 10 x 10 at a place on the diagonal; places that differ by 20 have nothing to do with
    each other.
    """
    return [place, place, place + 10.0, place + 10.0]


def scene(
    references: Sequence[Sequence[float]],
    models: dict[str, Sequence[Objects]],
    how: Protocol | None = None,
    **facts: Any,
) -> cal.Evaluation:
    """Evaluate images with references at places, and predictions as (place, score)."""
    real = [
        {
            "image_id": f"i{k}",
            "boxes": [box(p) for p in places],
            "labels": [0] * len(places),
            "width": 200,
            "height": 100,
        }
        for k, places in enumerate(references)
    ]
    for record in real:
        record.update(facts)
    said = {
        model: [
            {
                "boxes": [box(p) for p, _ in found],
                "labels": [0] * len(found),
                "scores": [s for _, s in found],
            }
            for found in images
        ]
        for model, images in models.items()
    }
    cohort = cal.Cohort.from_arrays(real, said, classes=("nodule", "mass"))
    return cal.evaluate(cohort, how or protocol(), ci=False)


def refused(path: Path, **options: float) -> PictureError:
    """Return the error with which a file is refused."""
    with pytest.raises(PictureError) as caught:
        read_pixels(path, **options)
    return caught.value
