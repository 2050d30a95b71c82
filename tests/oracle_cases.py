"""Cohorts for oracles, and what became of their boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import calipers as cal

F64 = NDArray[np.float64]
CLASSES = ("a", "b", "c", "d")


@lru_cache(maxsize=8)
def one_box_each(n: int, *, dimensions: int = 2, n_classes: int = 4, seed: int = 0) -> cal.Cohort:
    """Return n images of 200 pixels a side with one box each, of many sizes: whatever is matched is
    matched right.
    """
    random = np.random.default_rng(seed)
    side = random.uniform(10.0, 60.0, (n, dimensions))
    low = random.uniform(0.0, 140.0, (n, dimensions))
    boxes = np.concatenate([low, low + side], axis=1)
    labels = random.integers(0, n_classes, n)
    names = [f"class {k}" for k in range(n_classes)]
    return of_boxes(
        [([box], [label]) for box, label in zip(boxes, labels)], names, size=(200.0,) * dimensions
    )


def of_boxes(
    images: Sequence[tuple[Any, Any]],
    classes: Sequence[str] = CLASSES,
    size: Sequence[float] = (100.0, 50.0),
) -> cal.Cohort:
    """Return a cohort of (boxes, labels) per image, all of one size."""
    d = len(size)
    frame = dict(zip(("width", "height", "depth"), size))
    records = [
        {"boxes": np.array(b, float).reshape(-1, 2 * d), "labels": found, **frame}
        for b, found in images
    ]
    return cal.Cohort.from_arrays(records, classes=classes)


def ignoring(cohort: cal.Cohort, flags: Sequence[bool]) -> cal.Cohort:
    """Return the cohort with some references ignored."""
    return replace(cohort, references=replace(cohort.references, ignore=np.array(flags)))


def said(cohort: cal.Cohort) -> Any:
    """Return the predictions of the last model."""
    return list(cohort.models.values())[-1]


def centres(table: Any) -> F64:
    """Return (n, d) the centres of boxes."""
    low, high = np.split(table.boxes, 2, axis=1)
    return (low + high) / 2


def sides(table: Any) -> F64:
    """Return (n, d) the sides of boxes."""
    low, high = np.split(table.boxes, 2, axis=1)
    return high - low
