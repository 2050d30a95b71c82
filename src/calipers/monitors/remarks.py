# SPDX-License-Identifier: Apache-2.0
"""What a reader of the numbers about monitors must know."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from calipers.monitors.labellings import OMS, OOD
from calipers.monitors.result import headline
from calipers.monitors.scope_result import FEW, MOST_TAUS
from calipers.statistics.weights import plural

if TYPE_CHECKING:
    from calipers.monitors.result import MonitorEvaluation

F64 = NDArray[np.float64]

HEAVY = 0.5  # share of images that share their score with another one
FEWEST_VALUES = 5
BACKWARDS = 0.3  # AUROC below which the direction is questioned where there is no interval


def remarks(found: MonitorEvaluation) -> list[str]:
    """Return the warnings of an evaluation, those on labels first."""
    return [*_on_labels(found), *_on_thresholds(found), *_on_scores(found), *_on_intervals(found)]


def _on_labels(found: MonitorEvaluation) -> Iterator[str]:
    if found.tau is not None:
        if not found.scope.binary:
            yield from found.scope.warnings(found.tau)
        else:
            yield from (
                said.replace(f"at tau = {found.tau:g} ", "")
                for said in found.scope.warnings(found.tau)
            )
    elif found.taus:
        yield "no tau was given: nothing is stated under OMS labels but the sweep over tau"
        trap = [
            tau
            for tau in found.taus
            if len(found.scope.warnings(tau)) and tau <= 1 - 1 / found.scope.n_classes
        ]
        if trap and found.scope.settings.get("classes") == "declared" and found.scope.n_classes > 1:
            yield (
                f"with {found.scope.n_classes} declared classes, at tau up to {1 - 1 / found.scope.n_classes:.4g} an "
                "image on which the only object is missed counts as safe"
            )
    if len(found.taus) == MOST_TAUS and len(np.unique(found.scope.score)) > MOST_TAUS + 1:
        yield f"s has more than {MOST_TAUS} values: the sweep takes {MOST_TAUS} that spread evenly over the images"
    ood = headline(found.basis.labels, OOD)
    if ood is not None:
        n, k = len(ood.wanted), int(ood.wanted.sum())
        if k in (0, n):
            yield f"{'no' if k == 0 else 'every'} image is out of distribution: nothing can be said under OOD labels"
        elif min(k, n - k) < FEW:
            few, kind = min((k, "out of"), (n - k, "in"))
            yield f"only {few} of {n} images are {kind} distribution: every number about them is rough"


def _on_thresholds(found: MonitorEvaluation) -> Iterator[str]:
    judged = int(found.basis.judged.sum())
    if found.split.random:
        units = plural(found.basis.units.name)
        yield (
            f"no tuning images were named: thresholds are chosen on a random half of the {units} "
            f"({found.n_images - judged} images, seed {found.settings['seed']}), and numbers at a threshold are of the "
            f"other half ({judged} images)"
        )
    alarm = found.basis.monitors.alarm[:, found.basis.judged]
    for name, scores in zip(found.monitors, alarm):
        threshold = found.thresholds[name]
        if threshold is None:
            continue
        if not threshold.known:
            yield f"{name}: the tuning images are all of one kind, so that no threshold can be chosen"
            continue
        rejected = int(threshold.rejected(scores).sum())
        if rejected in (0, len(scores)):
            what = "nothing" if rejected == 0 else "everything"
            yield f"{name}: its threshold rejects {what} of {len(scores)} images; MCC is undefined"


def _on_scores(found: MonitorEvaluation) -> Iterator[str]:
    monitors = found.basis.monitors
    for k, name in enumerate(found.monitors):
        alarm = monitors.alarm[k]
        values, counts = np.unique(alarm, return_counts=True)
        if len(values) == 1:
            yield f"{name} gives the same score to all {len(alarm)} images: AUROC is 0.5 and FPR95 is 1"
        elif not monitors.switches[k] and counts[counts > 1].sum() > HEAVY * len(alarm):
            tied = int(counts[counts > 1].sum())
            yield (
                f"{name}: {tied} of {len(alarm)} images share their score with another one ({len(values)} different "
                "scores); ties are one operating point, and few thresholds are attainable"
            )
        yield from _on_direction(found, name, monitors.higher_is_alarm[k])


def _on_direction(found: MonitorEvaluation, name: str, higher: bool) -> Iterator[str]:
    for paradigm in found.paradigms:
        area = found.get("AUROC", name, paradigm)
        clearly = area.value < BACKWARDS if math.isnan(area.high) else area.high < 0.5
        if clearly:
            labels = "unsafe" if paradigm == OMS else "OOD"
            yield (
                f"{name}: AUROC is {area.value:.3f}, below 0.5 ({labels} images get lower alarms): if low scores mean "
                f"alarm, say higher_is_alarm={not higher}"
            )
            return


def _on_intervals(found: MonitorEvaluation) -> Iterator[str]:
    flags = {flag for row in found.rows for flag in row.estimate.flags}
    unit, n = found.basis.units.name, found.basis.units.number
    if not found.settings["replicates"]:
        yield "intervals were not asked for"
    elif n < FEWEST_VALUES:
        yield f"{n} {plural(unit)} are too few for intervals"
    if "few_units" in flags:
        yield f"few units behind some values ({n} {plural(unit)} in all): their intervals are rough"
    if flags & {"near_perfect", "all_wrong"}:
        yield (
            "where fewer than 5 units are in error, or all of them, the interval is the Clopper-Pearson bound on the "
            "share of units without error (clopper-pearson-units)"
        )
