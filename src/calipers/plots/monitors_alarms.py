# SPDX-License-Identifier: Apache-2.0
"""Figures of one monitor: what it does with images of every kind, and its alarm scores."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from numpy.typing import NDArray

from calipers.monitors.labellings import OMS, OOD
from calipers.monitors.result import MonitorEvaluation, headline
from calipers.monitors.thresholds import threshold_text
from calipers.plots.figures import Axis, Bars, Histogram
from calipers.plots.words import percent, short_name

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


def outcomes(result: MonitorEvaluation, monitor: str) -> Bars:
    """Return how many images of every kind the monitor accepts and rejects.

    There is a bar for every combination of OOD and unsafe. Unsafe images need an alarm; without OMS
    labels, images out of distribution do.
    """
    labels: dict[str, Flags] = {}
    for paradigm in (OOD, OMS):
        labelling = headline(result.basis.labels, paradigm)
        if labelling is not None:
            labels[labelling.paradigm] = labelling.positive
    rejected = rejected_by(result, monitor)
    if rejected is None or not labels:
        return Bars(
            f"{short_name(monitor)} has no threshold: nothing is accepted or rejected",
            Axis("images", names=("none",)),
            Axis("number of images", 0.0, 1.0),
            FATES,
            np.zeros((4, 1)),
            stacked=True,
            slots=SLOTS,
        )
    judged = result.basis.judged
    needs_alarm = labels[OMS] if OMS in labels else labels[OOD]
    fates = [
        ~rejected & ~needs_alarm,
        rejected & needs_alarm,
        ~rejected & needs_alarm,
        rejected & ~needs_alarm,
    ]
    kinds = list(product((False, True), repeat=len(labels)))
    heights = np.zeros((len(fates), len(kinds)))
    names = []
    for k, kind in enumerate(kinds):
        here = judged
        for flags, side in zip(labels.values(), kind):
            here = here & (flags == side)
        heights[:, k] = [(here & fate).sum() for fate in fates]
        words = ", ".join(KINDS[paradigm][side] for paradigm, side in zip(labels, kind))
        names.append(f"{words} ({int(heights[:, k].sum())})")
    label = "kind of image (OOD: out of distribution)" if OOD in labels else "kind of image"
    ood = labels.get(OOD) if OMS in labels else None
    threshold = threshold_text(result.thresholds[monitor], others_of(result))
    return Bars(
        _outcomes_title(result, monitor, needs_alarm & judged, rejected, ood),
        Axis(label, names=tuple(names)),
        Axis("number of images", 0.0),
        FATES,
        heights,
        stacked=True,
        slots=SLOTS,
        note=f"{int(judged.sum())} images judged; {threshold}.",
    )


def _outcomes_title(
    result: MonitorEvaluation, monitor: str, needs_alarm: Flags, rejected: Flags, ood: Flags | None
) -> str:
    n, passed = int(needs_alarm.sum()), needs_alarm & ~rejected
    words = "unsafe images" if OMS in result.paradigms else "images out of distribution"
    text = f"{short_name(monitor)} lets {int(passed.sum())} of {n} {words} through"
    if ood is None or not passed.any():
        return text
    return f"{text}, {int((passed & ~ood).sum())} of them in distribution"


def scores(result: MonitorEvaluation, monitor: str) -> Histogram:
    """Return the alarm scores of safe and unsafe images, on the monitor's own scale, with its
    threshold.
    """
    k = result.monitors.index(monitor)
    basis = result.basis.monitors
    # Alarms are stored so that high means alarm; some monitors count the other way.
    values, direction = basis.alarm[k], "high"
    if not basis.higher_is_alarm[k]:
        values, direction = -values, "low"
    labels = headline(result.basis.labels, OMS) or headline(result.basis.labels, OOD)
    if labels is None:
        series, kinds = ["all images"], [np.ones(len(values), np.bool_)]
        title = f"Alarm scores of {short_name(monitor)}; without a tau no image is safe or unsafe"
    else:
        series, kinds = list(IMAGES[labels.paradigm]), [~labels.positive, labels.positive]
        title = _scores_title(result, monitor, labels.paradigm)
    edges = _edges(values)
    counts = np.array([_shares(values[kind], edges) for kind in kinds])
    numbers = ", ".join(f"{int(kind.sum())} {name}" for name, kind in zip(series, kinds))
    note, line_at = f"{numbers}.", math.nan
    threshold = result.thresholds[monitor]
    if threshold is not None and threshold.exists and not math.isnan(threshold.own_value):
        note += f" The line: {threshold_text(threshold, others_of(result))}."
        if edges[0] <= threshold.own_value <= edges[-1]:
            line_at = threshold.own_value
    return Histogram(
        title,
        Axis(f"alarm score of {short_name(monitor)} ({direction} = alarm)"),
        Axis("share of the images of a kind"),
        edges,
        tuple(series),
        counts,
        cut=line_at,
        slots=(2, 1)[: len(series)],
        note=note,
    )


def others_of(result: MonitorEvaluation) -> str:
    """Return the name of the images that need no alarm; thresholds are set by them."""
    return IMAGES[OMS if OMS in result.paradigms else OOD][0]


def _scores_title(result: MonitorEvaluation, monitor: str, paradigm: str) -> str:
    area = result.get("AUROC", monitor, paradigm).value
    if math.isnan(area):
        return f"Alarm scores of {short_name(monitor)}; the images are all of one kind"
    images = IMAGES[paradigm][1]
    return f"{short_name(monitor)}: {images} have the higher alarm in {percent(area)} of pairs"


def _edges(values: F64) -> F64:
    low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, BINS + 1)


def _shares(values: F64, edges: F64) -> F64:
    counts = np.histogram(values, edges)[0]
    return np.asarray(counts / max(len(values), 1), np.float64)


def rejected_by(result: MonitorEvaluation, monitor: str) -> Flags | None:
    """Return (n,) which images a monitor rejects; None if it has no threshold."""
    threshold = result.thresholds[monitor]
    if threshold is None or not threshold.exists:
        return None
    return threshold.rejected(result.basis.monitors.alarm[result.monitors.index(monitor)])
