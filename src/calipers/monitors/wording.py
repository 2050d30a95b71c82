# SPDX-License-Identifier: Apache-2.0
"""Can I trust this monitor? The answer in plain sentences, each with its n and its interval."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from calipers.monitors.estimating import flipped
from calipers.monitors.labellings import OMS, OOD
from calipers.monitors.thresholds import in_words
from calipers.results import Estimate
from calipers.results.digits import percent
from calipers.statistics.estimate_words import interval_of, reason_of
from calipers.statistics.weights import plural

if TYPE_CHECKING:
    from calipers.monitors.result import MonitorEvaluation


def sentences(found: MonitorEvaluation) -> list[str]:
    """Return what is known of every monitor, then what of the labels, then who is best."""
    said = []
    for name in found.monitors:
        said += list(of_monitor(found, name))
    return [*said, *of_labels(found)]


def of_labels(found: MonitorEvaluation) -> list[str]:
    """Return how far labels agree, and who is best under which."""
    return [*_of_labels(found), *_of_order(found)]


def of_monitor(found: MonitorEvaluation, name: str) -> Iterator[str]:
    """Yield how well a monitor orders images, what it does at its threshold, and how it looks under
    OOD labels.
    """
    if found.tau is None:
        yield from _swept(found, name)
        if OOD in found.paradigms:
            yield _order(
                found.get("AUROC", name, OOD), name, "out of distribution", "in distribution"
            )
        return
    area = found.get("AUROC", name)
    if math.isnan(area.value):
        yield f"{name}: nothing can be said, {_reason(area)} among {area.n_images} images."
        return
    yield _order(area, name, "unsafe", "safe")
    threshold = found.thresholds[name]
    if threshold is not None:
        yield from _at_threshold(found, name, in_words(threshold))
    if OOD in found.paradigms:
        yield _proxy(found, name)


def _order(area: Estimate, name: str, wanted: str, other: str) -> str:
    if math.isnan(area.value):
        return f"{name}: no order of images {wanted} and {other} can be stated, {_reason(area)}."
    if math.isnan(area.low):
        verdict = "how sure that is, is not known"
    elif area.high < 0.5:
        verdict = "it alarms on the wrong images"
    elif area.low <= 0.5:
        verdict = "it is not shown to be better than chance"
    else:
        verdict = "that is better than chance"
    n = area.n_references
    return (
        f"{name} gives an image that is {wanted} a higher alarm than one that is {other} in {_percent(area)} of pairs "
        f"({n} {wanted}, {area.n_images - n} {other}): {verdict}."
    )


def _at_threshold(found: MonitorEvaluation, name: str, threshold: str) -> Iterator[str]:
    hit, false = found.get("sensitivity", name), found.get("FPR", name)
    if math.isnan(hit.value):
        yield f"At its threshold nothing can be said of {name}: {_reason(hit)}."
        return
    n = hit.n_references
    passed = flipped(hit)
    yield (
        f"Of 100 unsafe images {name} lets {percent(passed.value)} through ({_span(passed)}; {n} unsafe images), and "
        f"it rejects {_percent(false)} of the safe ones ({false.n_images - n} safe images; {threshold})."
    )
    left, gain = found.get("RH", name), found.get("SG", name)
    if not math.isnan(left.value) and found.settings["stakes"] == "labels":
        before = left.value + gain.value
        yield (
            f"Of 100 images {percent(before)} are unsafe without the monitor, and with it "
            f"{percent(left.value)} still are unsafe and accepted ({_span(left)}), at the "
            f"price of {_percent(found.get('AC', name))} of all images that are safe and rejected."
        )


def _proxy(found: MonitorEvaluation, name: str) -> str:
    """Return how a monitor looks under OOD labels beside OMS labels."""
    oms, ood = found.get("AUROC", name), found.get("AUROC", name, OOD)
    if math.isnan(ood.value):
        return f"Under OOD labels nothing can be said of {name}: {_reason(ood)}."
    e = found.paradigm_gaps[name].estimate
    look = "better" if e.value > 0 else "worse"
    shown = not math.isnan(e.low) and (e.low > 0 or e.high < 0)
    gap = f"difference {e.value:+.3f}"
    gap += "" if math.isnan(e.low) else f", {interval_of(e)} {e.low:+.3f} to {e.high:+.3f}"
    words = (
        f"{name} looks {look} than under OMS labels"
        if shown
        else f"{name} is not shown to look better or worse"
    )
    return f"Under OOD labels {words}: AUROC {ood.value:.3f} instead of {oms.value:.3f} ({gap})."


def _swept(found: MonitorEvaluation, name: str) -> Iterator[str]:
    table = found.sweep("AUROC")
    values = table.value[table.monitors.index(name)]
    known = np.flatnonzero(~np.isnan(values))
    if not len(known):
        return
    ends = " to ".join(f"{table.tau[k]:.4g}" for k in known[[0, -1]])
    span = " to ".join(
        f"{values[k]:.3f} (tau = {table.tau[k]:.3g}, {percent(table.prevalence[k])} % of images unsafe)"
        for k in (known[np.argmin(values[known])], known[np.argmax(values[known])])
    )
    yield f"No tau was given. Over {len(known)} values of tau, {ends}, the AUROC of {name} runs from {span}."


def _of_labels(found: MonitorEvaluation) -> Iterator[str]:
    if found.disagreement is None:
        return
    safe, inside, bad = (
        found.disagreement.share(name) for name in ("OOD-safe", "unsafe-ID", "ID-unsafe")
    )
    if any(math.isnan(share.value) for share in (safe, inside, bad)):
        return
    yield (
        f"Of {safe.n_images} images out of distribution {_percent(safe)} are safe; of {inside.n_images} unsafe images "
        f"{_percent(inside)} are in distribution."
    )
    if math.isnan(safe.high) or math.isnan(bad.high):
        verdict = "how far OOD labels stand for failures is not known"
    elif 1.0 - safe.high > bad.high:
        verdict = "OOD labels stand for failures in part, and no further than that"
    elif 1.0 - safe.low < bad.low:
        verdict = "OOD labels point away from the failures of this model"
    else:
        verdict = "OOD labels are not shown to say anything about the failures of this model"
    yield f"The model fails on {_percent(flipped(safe))} of OOD and {_percent(bad)} of other images: {verdict}."


def _of_order(found: MonitorEvaluation) -> Iterator[str]:
    if len(found.monitors) < 2:
        return
    ranking = found.ranking("AUROC")
    oms, ood = ranking.order(OMS), ranking.order(OOD)
    if oms is not None and ood is not None and oms.winners and ood.winners:
        same = set(oms.winners) == set(ood.winners)
        first, second = " and ".join(oms.winners), " and ".join(ood.winners)
        told = (
            f"{first} is best by AUROC under both kinds of labels"
            if same
            else (
                f"{first} is best by AUROC under OMS labels, {second} under OOD labels: choosing by OOD labels would "
                "choose another monitor"
            )
        )
        agreement = (
            ""
            if math.isnan(ranking.agreement)
            else f" (Kendall's tau of the orders {ranking.agreement:.2f})"
        )
        share = oms.wins.get(oms.winners[0], math.nan)
        luck = (
            ""
            if math.isnan(share)
            else f" {first} stays first in {percent(share)} % of bootstrap replicates."
        )
        yield f"{told}{agreement}.{luck if len(oms.winners) == 1 else ''}"
    if len(ranking.swept) > 1:
        wins = sorted(ranking.wins.items(), key=lambda pair: -pair[1])
        told = ", ".join(f"{name} at {n}" for name, n in wins if n)
        yield f"Best by AUROC over {len(ranking.swept)} values of tau: {told}."


def _percent(e: Estimate) -> str:
    if math.isnan(e.value):
        return f"an unknown share ({_reason(e)})"
    return f"{percent(e.value)} % ({_span(e)})"


def _span(e: Estimate) -> str:
    """Return the interval of a share in whole percents; or why there is none."""
    if math.isnan(e.low):
        return (
            "interval not asked for"
            if e.reason == "not_requested"
            else f"no interval: {_reason(e)}"
        )
    whose = (
        f" of the share of {plural(e.unit)}:"
        if e.method == "clopper-pearson-units" and e.unit != "image"
        else ""
    )
    return f"{interval_of(e)}{whose} {percent(e.low)} to {percent(e.high)}"


def _reason(e: Estimate) -> str:
    words = {
        "no_positives": "no alarm is wanted on any image",
        "single_category": "the images are all of one kind",
        "no_predictions": "nothing is rejected",
    }
    return words.get(str(e.reason), reason_of(e))
