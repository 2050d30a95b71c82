# SPDX-License-Identifier: Apache-2.0
"""One row per reference: how well a model placed it, and everything that is known about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers import registry
from calipers.assignment import match
from calipers.criteria import Criterion
from calipers.errors import UsageError
from calipers.kernels import matching
from calipers.matches import Matches, View
from calipers.tables import Cohort

F64 = NDArray[np.float64]
SIZES = ("large", "medium", "small")  # the first is the one that others are compared with
CUTS = (100.0**2, 200.0**2)  # pixels of area: small is below the first, large above the second


def reference_table(
    cohort: Cohort, model: str, view: View | None = None, *, cuts: tuple[float, float] = CUTS
) -> dict[str, NDArray[Any]]:
    """Return the table of references under one model, as columns.

    Parameters
    ----------
    view
        Criterion, assignment, threshold and class rule; box IoU at 0.5 if left out. The criterion
        has to be an overlap between 0 and 1.
    cuts
        Areas that separate small from medium and medium from large.

    Returns
    -------
    dict
        ``iou``: the best overlap with any prediction of its class, 0 if there is none.
        ``iou_matched``: the overlap with its assigned prediction, NaN if it was missed. ``hit``: 1
        or 0. ``class``, ``area``, ``size``, ``image``, then the groups of the image and the facts
        of the reference. Ignored references are not in the table.

    Examples
    --------
    >>> from calipers.synthetic import demo_cohort
    >>> table = reference_table(demo_cohort(), "misses-small")
    >>> len(table["iou"]), int(table["hit"].sum())
    (189, 94)
    """
    if not 0.0 < cuts[0] < cuts[1]:
        raise UsageError(f"two areas separate the sizes, the smaller first, not {cuts}")
    view = View() if view is None else replace(view, size=(0.0, float("inf")))
    criterion: Criterion = registry.resolve("criterion", view.criterion)
    if criterion.distance or criterion.yes_no or criterion.none != 0.0:
        raise UsageError(
            f"the criterion {view.criterion!r} is not an overlap between 0 and 1: "
            "use box-iou, ciou, iop or ior"
        )
    matches = match(cohort, model, [view])
    references = cohort.references
    rows = np.flatnonzero(~(references.ignore | references.crowd))
    image = references.image[rows]
    area = references.area[rows]
    table: dict[str, NDArray[Any]] = {
        "iou": _best(matches, view, len(references))[rows],
        "iou_matched": _matched_overlap(matches, len(references))[rows],
        "hit": (matches.reference_fate[0] == matching.HIT)[rows].astype(np.float64),
        "class": np.array(cohort.classes)[references.label[rows]],
        "area": area,
        "size": np.select([area < cuts[0], area > cuts[1]], ["small", "large"], "medium"),
        "image": np.array(cohort.images.ids)[image],
    }
    further = {name: column[image] for name, column in cohort.images.groups.items()}
    further |= {name: column[rows] for name, column in references.facts.items()}
    own_names = tuple(table)
    for name, column in further.items():
        # A group of the cohort may carry the name of one of our own columns.
        table[f"group_{name}" if name in own_names else name] = column
    return table


def _best(matches: Matches, view: View, n: int) -> F64:
    """Return the largest overlap of every reference with a prediction that takes part, 0 if there
    is none.
    """
    # Predictions beyond the limit or below the cut do not exist for the protocol.
    there = (matches.rank < view.max_dets) & (matches.score >= view.score_cut)
    pairs = matches.pairs
    selection = there[pairs.prediction]
    best = np.zeros(n)
    np.maximum.at(best, pairs.reference[selection], pairs.similarity[selection])
    return best


def _matched_overlap(matches: Matches, n: int) -> F64:
    hits = np.flatnonzero(matches.prediction_fate[0] == matching.HIT)
    overlap = np.full(n, np.nan)
    overlap[matches.partner[hits]] = matches.similarity[hits]
    return overlap
