# SPDX-License-Identifier: Apache-2.0
"""One monitor in figures: what it does with images of every kind, and where its alarm scores lie."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from numpy.typing import NDArray

from calipers.monitors.labellings import OMS, OOD
from calipers.monitors.result import MonitorEvaluation, headline
from calipers.monitors.thresholds import threshold_text
from calipers.plots.figures import Axis, Bars, Histogram
from calipers.plots.words import named, percent

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]

BINS = 24
WORDS = {OMS: ("safe", "unsafe"), OOD: ("in distribution", "out of distribution")}
IMAGES = {
    OMS: ("safe images", "unsafe images"),
    OOD: ("images in distribution", "images out of distribution"),
}
KINDS = {OMS: ("safe", "unsafe"), OOD: ("not OOD", "OOD")}  # short words, for the bars
FATES = ("accepted, rightly", "rejected, rightly", "accepted by mistake", "rejected by mistake")
SLOTS = (2, 0, 1, 5)


def outcomes(found: MonitorEvaluation, monitor: str) -> Bars:
    """Return how many images of every kind the monitor accepts and rejects: OOD x unsafe x rejected
    as bars.

    An alarm is wanted on unsafe images; without OMS labels on those out of distribution.
    """
    labels = {
        one.paradigm: one.positive
        for p in (OOD, OMS)
        if (one := headline(found.basis.labels, p)) is not None
    }
    rejected = rejected_by(found, monitor)
    if rejected is None or not labels:
        return Bars(
            f"{named(monitor)} has no threshold: nothing is accepted or rejected",
            Axis("images", names=("none",)),
            Axis("number of images", 0.0, 1.0),
            FATES,
            np.zeros((4, 1)),
            stacked=True,
            slots=SLOTS,
        )
    judged = found.basis.judged
    kinds = list(product((False, True), repeat=len(labels)))
    of_kind = [
        np.all([flags == side for flags, side in zip(labels.values(), kind)], axis=0)
        for kind in kinds
    ]
    wanted = labels.get(OMS, labels.get(OOD))
    assert wanted is not None
    fates = [~rejected & ~wanted, rejected & wanted, ~rejected & wanted, rejected & ~wanted]
    heights = np.array(
        [[int((here & fate & judged).sum()) for here in of_kind] for fate in fates], np.float64
    )
    sizes = heights.sum(axis=0).astype(np.int64).tolist()
    said = [", ".join(KINDS[p][side] for p, side in zip(labels, kind)) for kind in kinds]
    names = tuple(f"{words} ({n})" for words, n in zip(said, sizes))
    threshold = found.thresholds[monitor]
    note = f"{int(judged.sum())} images judged; {threshold_text(threshold, others_of(found))}."
    return Bars(
        _lost(
            found, monitor, wanted & judged, rejected, labels.get(OOD) if OMS in labels else None
        ),
        Axis(
            "kind of image" + (" (OOD: out of distribution)" if OOD in labels else ""), names=names
        ),
        Axis("number of images", 0.0),
        FATES,
        heights,
        stacked=True,
        slots=SLOTS,
        note=note,
    )


def _lost(
    found: MonitorEvaluation, monitor: str, wanted: Flags, rejected: Flags, ood: Flags | None
) -> str:
    n, passed = int(wanted.sum()), wanted & ~rejected
    words = "unsafe images" if OMS in found.paradigms else "images out of distribution"
    told = f"{named(monitor)} lets {int(passed.sum())} of {n} {words} through"
    if ood is None or not passed.any():
        return told
    return f"{told}, {int((passed & ~ood).sum())} of them in distribution"


def scores(found: MonitorEvaluation, monitor: str) -> Histogram:
    """Return where the alarm scores of safe and unsafe images lie, on the monitor's own scale, with
    its threshold.
    """
    k = found.monitors.index(monitor)
    basis = found.basis.monitors
    own = basis.alarm[k] if basis.higher_is_alarm[k] else -basis.alarm[k]
    labels = headline(found.basis.labels, OMS) or headline(found.basis.labels, OOD)
    edges = _edges(own)
    threshold = found.thresholds[monitor]
    cut = threshold.own_value if threshold is not None and threshold.exists else math.nan
    if labels is None:
        series, kinds = ["all images"], [np.ones(len(own), np.bool_)]
        title = f"Alarm scores of {named(monitor)}; without a tau no image is safe or unsafe"
    else:
        series, kinds = list(IMAGES[labels.paradigm]), [~labels.positive, labels.positive]
        title = _apart(found, monitor, labels.paradigm)
    counts = np.array([_shares(own[kind], edges) for kind in kinds])
    direction = "high" if basis.higher_is_alarm[k] else "low"
    numbers = ", ".join(f"{int(kind.sum())} {name}" for name, kind in zip(series, kinds))
    line = "" if math.isnan(cut) else f" The line: {threshold_text(threshold, others_of(found))}."
    return Histogram(
        title,
        Axis(f"alarm score of {named(monitor)} ({direction} = alarm)"),
        Axis("share of the images of a kind"),
        edges,
        tuple(series),
        counts,
        cut=cut if edges[0] <= cut <= edges[-1] else math.nan,
        slots=(2, 1)[: len(series)],
        note=f"{numbers}.{line}",
    )


def others_of(found: MonitorEvaluation) -> str:
    """Return the images by which thresholds are chosen, those on which no alarm is wanted, in
    words.
    """
    return IMAGES[OMS if OMS in found.paradigms else OOD][0]


def _apart(found: MonitorEvaluation, monitor: str, paradigm: str) -> str:
    area = found.get("AUROC", monitor, paradigm).value
    if math.isnan(area):
        return f"Alarm scores of {named(monitor)}; the images are all of one kind"
    return (
        f"{named(monitor)}: {IMAGES[paradigm][1]} have the higher alarm in {percent(area)} of pairs"
    )


def _edges(values: F64) -> F64:
    low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, BINS + 1)


def _shares(values: F64, edges: F64) -> F64:
    counts = np.histogram(values, edges)[0]
    return np.asarray(counts / max(len(values), 1), np.float64)


def rejected_by(found: MonitorEvaluation, monitor: str) -> Flags | None:
    """Return (n,) which images a monitor rejects; None if it has no threshold."""
    threshold = found.thresholds[monitor]
    if threshold is None or not threshold.exists:
        return None
    return threshold.rejected(found.basis.monitors.alarm[found.monitors.index(monitor)])
