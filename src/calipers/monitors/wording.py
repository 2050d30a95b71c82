# SPDX-License-Identifier: Apache-2.0
"""An evaluation of monitors in sentences, each with its n and its interval.

In comes a `MonitorEvaluation`; its `sentences` and the report call this.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from calipers.monitors.estimating import complement
from calipers.monitors.labellings import OMS, OOD
from calipers.monitors.thresholds import threshold_text
from calipers.results import Estimate
from calipers.results.digits import percent
from calipers.statistics.estimate_words import interval_of, reason_of
from calipers.statistics.weights import plural

if TYPE_CHECKING:
    from calipers.monitors.result import MonitorEvaluation


def sentences(result: MonitorEvaluation) -> list[str]:
    """Return the sentences about every monitor, then about the labels, then about the ranking."""
    texts = []
    for name in result.monitors:
        texts += list(of_monitor(result, name))
    return [*texts, *of_labels(result)]


def of_labels(result: MonitorEvaluation) -> list[str]:
    """Return how far the labels agree, and which monitor is best under which labels."""
    return [*_of_labels(result), *_of_order(result)]


def of_monitor(result: MonitorEvaluation, name: str) -> Iterator[str]:
    """Yield how well a monitor orders images, what it does at its threshold, and how it looks under
    OOD labels.
    """
    if result.tau is None:
        yield from _swept(result, name)
        if OOD in result.paradigms:
            yield _order(
                result.get("AUROC", name, OOD), name, "out of distribution", "in distribution"
            )
        return
    area = result.get("AUROC", name)
    if math.isnan(area.value):
        yield f"{name}: results are undefined, {_reason(area)} among {area.n_images} images."
        return
    yield _order(area, name, "unsafe", "safe")
    threshold = result.thresholds[name]
    if threshold is not None:
        yield from _at_threshold(result, name, threshold_text(threshold))
    if OOD in result.paradigms:
        yield _proxy(result, name)


def _order(area: Estimate, name: str, kind: str, other: str) -> str:
    if math.isnan(area.value):
        return f"{name}: the order of images {kind} and {other} is undefined, {_reason(area)}."
    if math.isnan(area.low):
        verdict = "no interval shows how certain that is"
    elif area.high < 0.5:
        verdict = "it alarms on the wrong images"
    elif area.low <= 0.5:
        verdict = "it is not shown to be better than chance"
    else:
        verdict = "that is better than chance"
    n = area.n_references
    return (
        f"{name} gives an image that is {kind} a higher alarm than one that is {other} in "
        f"{_percent(area)} of pairs ({n} {kind}, {area.n_images - n} {other}): {verdict}."
    )


def _at_threshold(result: MonitorEvaluation, name: str, threshold: str) -> Iterator[str]:
    hit, false = result.get("sensitivity", name), result.get("FPR", name)
    if math.isnan(hit.value):
        yield f"At its threshold, results of {name} are undefined: {_reason(hit)}."
        return
    n = hit.n_references
    miss = complement(hit)
    yield (
        f"Of 100 unsafe images {name} lets {percent(miss.value)} through ({_span(miss)}; {n} "
        f"unsafe images), and it rejects {_percent(false)} of the safe ones "
        f"({false.n_images - n} safe images; {threshold})."
    )
    residual, gain = result.get("RH", name), result.get("SG", name)
    if not math.isnan(residual.value) and result.settings["stakes"] == "labels":
        before, cost = residual.value + gain.value, result.get("AC", name)
        yield (
            f"Of 100 images {percent(before)} are unsafe without the monitor; with it, "
            f"{percent(residual.value)} are still unsafe and accepted ({_span(residual)}), at the "
            f"cost of rejecting safe images, {_percent(cost)} of all images."
        )


def _proxy(result: MonitorEvaluation, name: str) -> str:
    """Return how a monitor looks under OOD labels, compared with OMS labels."""
    oms, ood = result.get("AUROC", name), result.get("AUROC", name, OOD)
    if math.isnan(ood.value):
        return f"Under OOD labels, results of {name} are undefined: {_reason(ood)}."
    e = result.paradigm_gaps[name].estimate
    gap = f"difference {e.value:+.3f}"
    if not math.isnan(e.low):
        gap += f", {interval_of(e)} {e.low:+.3f} to {e.high:+.3f}"
    words = f"{name} is not shown to look better or worse"
    if not math.isnan(e.low) and (e.low > 0 or e.high < 0):
        look = "better" if e.value > 0 else "worse"
        words = f"{name} looks {look} than under OMS labels"
    return f"Under OOD labels {words}: AUROC {ood.value:.3f} instead of {oms.value:.3f} ({gap})."


def _swept(result: MonitorEvaluation, name: str) -> Iterator[str]:
    table = result.sweep("AUROC")
    values = table.value[table.monitors.index(name)]
    defined = np.flatnonzero(~np.isnan(values))
    if not len(defined):
        return

    def value_text(k: int) -> str:
        unsafe = percent(table.prevalence[k])
        return f"{values[k]:.3f} (tau = {table.tau[k]:.3g}, {unsafe} % of images unsafe)"

    ends = f"{table.tau[defined[0]]:.4g} to {table.tau[defined[-1]]:.4g}"
    lowest = value_text(defined[np.argmin(values[defined])])
    highest = value_text(defined[np.argmax(values[defined])])
    yield (
        f"No tau was given. Over {len(defined)} values of tau, {ends}, the AUROC of {name} ranges "
        f"from {lowest} to {highest}."
    )


def _of_labels(result: MonitorEvaluation) -> Iterator[str]:
    if result.disagreement is None:
        return
    ood_safe, unsafe_id, id_unsafe = (
        result.disagreement.share(name) for name in ("OOD-safe", "unsafe-ID", "ID-unsafe")
    )
    if any(math.isnan(share.value) for share in (ood_safe, unsafe_id, id_unsafe)):
        return
    yield (
        f"Of {ood_safe.n_images} images out of distribution {_percent(ood_safe)} are safe; of "
        f"{unsafe_id.n_images} unsafe images {_percent(unsafe_id)} are in distribution."
    )
    if math.isnan(ood_safe.high) or math.isnan(id_unsafe.high):
        verdict = "without intervals, it is not known how well OOD labels predict failures"
    elif 1.0 - ood_safe.high > id_unsafe.high:
        verdict = "OOD labels predict failures in part"
    elif 1.0 - ood_safe.low < id_unsafe.low:
        verdict = "the model fails less often on OOD images than on others"
    else:
        verdict = "OOD labels are not shown to predict the failures of this model"
    yield (
        f"The model fails on {_percent(complement(ood_safe))} of OOD and {_percent(id_unsafe)} of "
        f"other images: {verdict}."
    )


def _of_order(result: MonitorEvaluation) -> Iterator[str]:
    if len(result.monitors) < 2:
        return
    ranking = result.ranking("AUROC")
    oms, ood = ranking.order(OMS), ranking.order(OOD)
    if oms is not None and ood is not None and oms.winners and ood.winners:
        first, second = " and ".join(oms.winners), " and ".join(ood.winners)
        if set(oms.winners) == set(ood.winners):
            text = f"{first} is best by AUROC under both kinds of labels"
        else:
            text = (
                f"{first} is best by AUROC under OMS labels, {second} under OOD labels: choosing "
                "by OOD labels would choose another monitor"
            )
        if not math.isnan(ranking.agreement):
            text += f" (Kendall's tau of the orders {ranking.agreement:.2f})"
        text += "."
        share = oms.wins.get(oms.winners[0], math.nan)
        if len(oms.winners) == 1 and not math.isnan(share):
            text += f" {first} stays first in {percent(share)} % of bootstrap replicates."
        yield text
    if len(ranking.swept) > 1:
        wins = sorted(ranking.wins.items(), key=lambda pair: -pair[1])
        counts = ", ".join(f"{name} at {n}" for name, n in wins if n)
        yield f"Best by AUROC over {len(ranking.swept)} values of tau: {counts}."


def _percent(e: Estimate) -> str:
    if math.isnan(e.value):
        return f"an undefined share ({_reason(e)})"
    return f"{percent(e.value)} % ({_span(e)})"


def _span(e: Estimate) -> str:
    """Return the interval of a share in whole percents; or why there is none."""
    if math.isnan(e.low):
        return f"no interval: {_reason(e)}"
    whose = ""
    if e.method == "clopper-pearson-units" and e.unit != "image":
        whose = f" of the share of {plural(e.unit)}:"
    return f"{interval_of(e)}{whose} {percent(e.low)} to {percent(e.high)}"


def _reason(e: Estimate) -> str:
    words = {
        "no_positives": "no alarm is wanted on any image",
        "single_category": "the images are all of one kind",
        "no_predictions": "nothing is rejected",
    }
    return words.get(str(e.reason), reason_of(e))
