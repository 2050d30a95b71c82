# SPDX-License-Identifier: Apache-2.0
"""Warnings about an evaluation of monitors: labels, thresholds, scores, intervals.

In comes a `MonitorEvaluation`; `MonitorEvaluation.warnings` calls `remarks`.
"""

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


def remarks(result: MonitorEvaluation) -> list[str]:
    """Return the warnings of an evaluation, those on labels first."""
    return [
        *_on_labels(result),
        *_on_thresholds(result),
        *_on_scores(result),
        *_on_intervals(result),
    ]


def _on_labels(result: MonitorEvaluation) -> Iterator[str]:
    if result.tau is not None:
        for warning in result.scope.warnings(result.tau):
            if result.scope.binary:  # the user never chose a tau: do not speak of one
                warning = warning.replace(f"at tau = {result.tau:g} ", "")
            yield warning
    elif result.taus:
        yield "no tau was given: under OMS labels, only the sweep over tau is stated"
        yield from _on_small_taus(result)
    if len(result.taus) == MOST_TAUS and len(np.unique(result.scope.score)) > MOST_TAUS + 1:
        yield (
            f"s has more than {MOST_TAUS} values: the sweep takes {MOST_TAUS} of them, spread "
            "evenly over the images"
        )
    ood = headline(result.basis.labels, OOD)
    if ood is not None:
        n, n_ood = len(ood.positive), int(ood.positive.sum())
        if n_ood in (0, n):
            subject = "no image is" if n_ood == 0 else "every image is"
            yield f"{subject} out of distribution: results under OOD labels are undefined"
        elif min(n_ood, n - n_ood) < FEW:
            few, kind = min((n_ood, "out of"), (n - n_ood, "in"))
            yield (
                f"only {few} of {n} images are {kind} distribution: every number about them is "
                "rough"
            )


def _on_small_taus(result: MonitorEvaluation) -> Iterator[str]:
    """Warn of values of tau at which an image whose only object is missed still counts as safe."""
    scope = result.scope
    limit = 1 - 1 / scope.n_classes
    traps = [tau for tau in result.taus if len(scope.warnings(tau)) and tau <= limit]
    if traps and scope.settings.get("classes") == "declared" and scope.n_classes > 1:
        yield (
            f"with {scope.n_classes} declared classes, at tau up to {limit:.4g} an image on which "
            "the only object is missed counts as safe"
        )


def _on_thresholds(result: MonitorEvaluation) -> Iterator[str]:
    judged = int(result.basis.judged.sum())
    if result.split.random:
        units = plural(result.basis.units.name)
        yield (
            f"no tuning images were given: thresholds are chosen on a random half of the {units} "
            f"({result.n_images - judged} images, seed {result.settings['seed']}), and numbers at "
            f"a threshold are computed on the other half ({judged} images)"
        )
    alarm = result.basis.monitors.alarm[:, result.basis.judged]
    for name, scores in zip(result.monitors, alarm):
        threshold = result.thresholds[name]
        if threshold is None:
            continue
        if not threshold.exists:
            yield f"{name}: the tuning images are all of one kind, so no threshold can be chosen"
            continue
        n_rejected = int(threshold.rejected(scores).sum())
        if n_rejected in (0, len(scores)):
            which = "none" if n_rejected == 0 else "all"
            yield f"{name}: its threshold rejects {which} of {len(scores)} images; MCC is undefined"


def _on_scores(result: MonitorEvaluation) -> Iterator[str]:
    monitors = result.basis.monitors
    for k, name in enumerate(result.monitors):
        alarm = monitors.alarm[k]
        values, counts = np.unique(alarm, return_counts=True)
        if len(values) == 1:
            yield (
                f"{name} gives the same score to all {len(alarm)} images: AUROC is 0.5 and FPR95 "
                "is 1"
            )
        elif not monitors.switches[k] and counts[counts > 1].sum() > HEAVY * len(alarm):
            tied = int(counts[counts > 1].sum())
            yield (
                f"{name}: {tied} of {len(alarm)} images share their score with another one "
                f"({len(values)} different scores); ties are one operating point, and few "
                "thresholds are attainable"
            )
        yield from _on_direction(result, name, monitors.higher_is_alarm[k])


def _on_direction(result: MonitorEvaluation, name: str, higher: bool) -> Iterator[str]:
    for paradigm in result.paradigms:
        area = result.get("AUROC", name, paradigm)
        clearly = area.value < BACKWARDS if math.isnan(area.high) else area.high < 0.5
        if clearly:
            labels = "unsafe" if paradigm == OMS else "OOD"
            yield (
                f"{name}: AUROC is {area.value:.3f}, below 0.5 ({labels} images get lower alarms): "
                f"if low scores mean alarm, say higher_is_alarm={not higher}"
            )
            return


def _on_intervals(result: MonitorEvaluation) -> Iterator[str]:
    flags = {flag for row in result.rows for flag in row.estimate.flags}
    unit, n = result.basis.units.name, result.basis.units.number
    if not result.settings["replicates"]:
        yield "intervals were not requested"
    elif n < FEWEST_VALUES:
        yield f"{n} {plural(unit)} are too few for intervals"
    if "few_units" in flags:
        yield f"few units behind some values ({n} {plural(unit)} in all): their intervals are rough"
    if flags & {"near_perfect", "all_wrong"}:
        yield (
            "where fewer than 5 units are in error, or all of them, the interval is the exact "
            "Clopper-Pearson interval of the share of units without error (clopper-pearson-units)"
        )
