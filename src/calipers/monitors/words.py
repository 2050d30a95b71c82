# SPDX-License-Identifier: Apache-2.0
"""An evaluation of monitors in words, and its files: warnings, sentences, JSON, rows, images.

A `MonitorEvaluation` comes in. `MonitorEvaluation.warnings` calls `remarks`, on labels, thresholds,
scores and intervals; `MonitorEvaluation.sentences` and the page call `sentences`, each with its n
and its interval. `document_content` is the JSON document behind `MonitorEvaluation.as_dict`, and
`table_files` gives the rows and one row per image, which the page writes beside itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from calipers.data.look_alikes import NARROWER, note_on_names
from calipers.io.tables.table import delimited
from calipers.monitors.estimates import FEWEST_WANTED, complement
from calipers.monitors.labels import OMS, OOD, threshold_text
from calipers.monitors.result import headline, threshold_dict
from calipers.monitors.scope import FEW, MOST_TAUS
from calipers.results.estimate import Estimate
from calipers.show.words import (
    ci_text,
    digits,
    flag_text,
    join,
    number_text,
    p_text,
    percent_number,
    percent_text,
    plural,
    reason_text,
    signed_text,
    span_text,
    two_decimals,
)
from calipers.statistics.clusters import group_columns, note_on_groups, spread_of

if TYPE_CHECKING:
    from calipers.monitors.result import MonitorEvaluation

MOST_SPREAD = 0.1  # of a sensitivity over random halves: more is worth a warning
# Above this share few thresholds are attainable, and the curves have corners.
HEAVY = 0.5  # share of images that share their score with another one
FEWEST_VALUES = 5
BACKWARDS = 0.3  # AUROC below which the direction is questioned where there is no interval

# Images with a wanted alarm, and the others.
KINDS = {OMS: ("unsafe", "safe"), OOD: ("out of distribution", "in distribution")}

DOCUMENT, ROWS, IMAGES = "monitor.json", "monitor.csv", "images.csv"
# One quantity of order, one at a fixed sensitivity, one of risk: more rankings would say the same.
RANKED = ("AUROC", "FPR95", "AURC")


def remarks(result: MonitorEvaluation) -> list[str]:
    """Return the warnings of an evaluation, those on labels first."""
    return [
        *_on_labels(result),
        *_on_thresholds(result),
        *_on_scores(result),
        *_on_intervals(result),
        *_on_groups(result),
        *_on_names(result),
    ]


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
            yield _order(result, name, OOD)
        return
    area = result.get("AUROC", name)
    if math.isnan(area.value):
        yield f"{name}: results are undefined, {_reason(area)} among {area.n_images} images."
        return
    yield _order(result, name, OMS)
    threshold = result.thresholds[name]
    if threshold is not None:
        yield from _at_threshold(result, name, threshold_text(threshold))
    if OOD in result.paradigms:
        yield _proxy(result, name)


def document_content(result: MonitorEvaluation) -> dict[str, Any]:
    """Return the keys of the JSON contract ``calipers.monitor/1``."""
    taus = np.array(result.taus)
    comparisons, rankings, chance = [], [], []
    if result.settings["replicates"]:
        for paradigm in result.paradigms:
            tests = result.chance_tests(paradigm).values()
            chance += [test.as_dict(paradigm) for test in tests]
    if len(result.monitors) > 1:
        for paradigm in result.paradigms:
            comparisons += [row.as_dict() for row in result.compare_all("AUROC", paradigm)]
        for metric in RANKED:
            if _has_ranking(result, metric):
                rankings.append(result.ranking(metric).as_dict())
    return {
        "settings": dict(result.settings),
        "monitors": list(result.monitors),
        "model": result.scope.model,
        "n_images": result.n_images,
        "n_judged": int(result.basis.judged.sum()),
        "n_tuning": int(result.split.tuning.sum()),
        "tau": result.tau,
        "taus": list(result.taus),
        "prevalence": result.scope.prevalence(taus).tolist(),
        "thresholds": {name: threshold_dict(result.thresholds[name]) for name in result.monitors},
        "rows": [row.as_dict() for row in result.rows],
        "tables": result.counts,
        "comparisons": comparisons,
        "rankings": rankings,
        "chance": chance,
        "halves": [one.as_dict() for one in result.halves],
        "sentences": result.sentences(),
        "warnings": list(result.warnings),
    }


def image_columns(result: MonitorEvaluation) -> dict[str, list[Any]]:
    """Return one row per image: its score, its labels, and every monitor's alarm and decision."""
    columns: dict[str, list[Any]] = {
        name: column.tolist() for name, column in result.scope.as_table().items()
    }
    for paradigm, name in ((OMS, "unsafe"), (OOD, "ood")):
        labels = headline(result.basis.labels, paradigm)
        if labels is not None:
            columns[name] = labels.positive.tolist()
    # Images that thresholds were chosen on are in the table too, but their decisions do not count.
    columns["judged"] = result.basis.judged.tolist()
    monitors = result.basis.monitors
    for name, alarm, higher in zip(monitors.names, monitors.alarm, monitors.higher_is_alarm):
        # On the monitor's own scale, as the user gave it.
        columns[f"alarm {name}"] = (alarm if higher else -alarm).tolist()
        threshold = result.thresholds[name]
        if threshold is not None and threshold.exists:
            columns[f"rejected {name}"] = threshold.rejected(alarm).tolist()
    return columns


def table_files(result: MonitorEvaluation) -> dict[str, bytes]:
    """Return the contents of the tables by the names of their files: the rows, and one row per
    image.
    """
    rows = [row.as_dict() for row in result.rows]
    for row in rows:
        row["group"] = "; ".join(f"{name}={value}" for name, value in (row["group"] or {}).items())
    columns = {}
    for name in rows[0]:
        columns[name] = [row[name] for row in rows]
    return {
        ROWS: delimited(columns).encode("utf-8", "replace"),
        IMAGES: delimited(image_columns(result)).encode("utf-8", "replace"),
    }


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
            f"with {scope.n_classes} declared classes, at tau up to {digits(limit, 4)} an image on "
            "which the only object is missed counts as safe"
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
        yield from _on_spread(result)
    yield from result.split.notes
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


def _on_spread(result: MonitorEvaluation) -> Iterator[str]:
    """Warn of sensitivities that depend on which half chose the threshold."""
    for name in result.monitors:
        hit = result.over_halves("sensitivity", name, result.paradigms[0])
        if hit is not None and hit.high - hit.low > MOST_SPREAD:
            yield (
                f"{name}: its sensitivity at the threshold depends on the half that chose it, "
                f"{span_text(hit.low, hit.high)} in nine of ten of {hit.n_halves} halves "
                f"(mean {two_decimals(hit.mean)}); tuning images of your own would settle it"
            )


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
        # With an interval the whole of it must lie below chance; without one only a clear case
        # counts.
        clearly = area.value < BACKWARDS if math.isnan(area.high) else area.high < 0.5
        if clearly:
            labels = "unsafe" if paradigm == OMS else "OOD"
            yield (
                f"{name}: AUROC is {number_text(area.value)}, below 0.5 ({labels} images get lower "
                f"alarms): if low scores mean alarm, set higher_is_alarm={not higher}"
            )
            return


def _on_intervals(result: MonitorEvaluation) -> Iterator[str]:
    flags = {flag for row in result.rows for flag in row.estimate.flags}
    unit, n = result.basis.units.name, result.basis.units.number
    if not result.settings["replicates"]:
        yield "intervals were not requested"
    elif n < FEWEST_VALUES:
        yield f"{n} {plural(unit)} are too few for intervals"
    if any(row.estimate.reason == "too_few_positives" for row in result.rows):
        yield (
            f"FPR95 has no interval below {FEWEST_WANTED} images on which an alarm is wanted: its "
            "threshold rests on the few of them with the lowest scores, and the value is optimistic"
        )
    if "few_units" in flags:
        yield f"with {n} {plural(unit)} only, the intervals of some values are rough"
    if "few_errors" in flags:
        yield f"{flag_text('few_errors', unit)} (marked * in tables)"


def _on_groups(result: MonitorEvaluation) -> Iterator[str]:
    """Warn if AUROC varies more over centres than over the units that were drawn."""
    groups, units = result.scope.groups, result.basis.units
    spreads = []
    for column in group_columns(groups, units):
        for name in result.monitors:
            for paradigm in result.paradigms[:1]:
                place = result.basis.find("AUROC", name, {"paradigm": paradigm})
                assert place is not None
                case = place[0].narrowed(place[1]).case
                estimate = result.get("AUROC", name, paradigm)
                spreads.append(spread_of(case, 0, estimate, column, groups[column]))
    note = note_on_groups(spreads, units)
    if note is not None:
        yield note[0].lower() + note[1:].removesuffix(".")


def _on_names(result: MonitorEvaluation) -> Iterator[str]:
    """Warn of names that look alike: of the units and of the monitors."""
    units, groups = result.basis.units, result.scope.groups
    for name in (units.name, units.parent_name):
        if name in groups:
            yield from note_on_names(name, groups[name].tolist(), NARROWER)
    yield from note_on_names("monitor", result.monitors)


def _order(result: MonitorEvaluation, name: str, paradigm: str) -> str:
    kind, other = KINDS[paradigm]
    area = result.get("AUROC", name, paradigm)
    if math.isnan(area.value):
        return f"{name}: the order of images {kind} and {other} is undefined, {_reason(area)}."
    n = area.n_references
    return (
        f"{name} gives an image that is {kind} a higher alarm than one that is {other} in "
        f"{_percent(area)} of pairs ({n} {kind}, {area.n_images - n} {other}): "
        f"{_chance_words(result, name, paradigm)}."
    )


def beats_chance(result: MonitorEvaluation, name: str, paradigm: str = OMS) -> bool:
    """Return whether a monitor is shown to be better than chance, also as one of several."""
    area = result.get("AUROC", name, paradigm)
    if math.isnan(area.low) or area.low <= 0.5:
        return False
    if len(result.monitors) == 1:
        return True
    return result.chance_tests(paradigm)[name].p_adjusted < 1.0 - area.level


def _chance_words(result: MonitorEvaluation, name: str, paradigm: str) -> str:
    area, n_monitors = result.get("AUROC", name, paradigm), len(result.monitors)
    if math.isnan(area.low):
        return "no interval shows how certain that is"
    if area.high < 0.5:
        return "it alarms on the wrong images"
    if area.low <= 0.5:
        return "it is not shown to be better than chance"
    if beats_chance(result, name, paradigm):
        return "that is better than chance"
    p = result.chance_tests(paradigm)[name].p_adjusted
    return (
        f"alone it would be better than chance; as one of {n_monitors} monitors it is not shown "
        f"({p_text(p)} for the largest of {n_monitors})"
    )


def _at_threshold(result: MonitorEvaluation, name: str, threshold: str) -> Iterator[str]:
    # What passes is stated, not what is caught: that is the risk that remains.
    hit, false = result.get("sensitivity", name), result.get("FPR", name)
    if math.isnan(hit.value):
        yield f"At its threshold, results of {name} are undefined: {_reason(hit)}."
        return
    yield from _over_halves(result, name)
    n = hit.n_references
    miss = complement(hit)
    # Several halves were stated before: this is the one whose decisions are shown.
    start = "In the first half, of" if result.halves else "Of"
    yield (
        f"{start} 100 unsafe images {name} lets {percent_number(miss.value)} through "
        f"({_span(miss)}; {n} unsafe images), and it rejects {_percent(false)} of the safe ones "
        f"({false.n_images - n} safe images; {threshold})."
    )
    residual, gain = result.get("RH", name), result.get("SG", name)
    if not math.isnan(residual.value) and result.settings["stakes"] == "labels":
        before, cost = residual.value + gain.value, result.get("AC", name)
        yield (
            f"Of 100 images {percent_number(before)} are unsafe without the monitor; with it, "
            f"{percent_number(residual.value)} are still unsafe and accepted ({_span(residual)}). "
            f"Safe images that it rejects are {_percent(cost)} of all images."
        )


def _from_to(low: float, high: float) -> str:
    """Return ``87 to 100`` of hundred, or one number if both ends read the same."""
    ends = (percent_number(low), percent_number(high))
    return " to ".join(dict.fromkeys(ends))


def _over_halves(result: MonitorEvaluation, name: str) -> Iterator[str]:
    """Yield what the threshold does on average over random halves, and how far that varies."""
    hit, false = result.over_halves("sensitivity", name), result.over_halves("FPR", name)
    if hit is None or false is None or math.isnan(hit.mean):
        return
    misses = _from_to(1.0 - hit.high, 1.0 - hit.low)
    rejects = _from_to(false.low, false.high)
    yield (
        f"Of 100 unsafe images {name} lets {percent_number(1.0 - hit.mean)} through on average "
        f"over {hit.n_halves} random halves that choose its threshold ({misses} in nine of ten "
        f"halves), and it rejects {percent_number(false.mean)} of 100 safe ones ({rejects})."
    )


def _proxy(result: MonitorEvaluation, name: str) -> str:
    """Return how a monitor looks under OOD labels, compared with OMS labels."""
    oms, ood = result.get("AUROC", name), result.get("AUROC", name, OOD)
    if math.isnan(ood.value):
        return f"Under OOD labels, results of {name} are undefined: {_reason(ood)}."
    e = result.paradigm_gaps[name].estimate
    gap = f"difference {signed_text(e.value)}"
    if not math.isnan(e.low):
        gap += f", {ci_text(e.level, f'{signed_text(e.low)} to {signed_text(e.high)}')}"
    words = f"{name} is not shown to look better or worse"
    if not math.isnan(e.low) and (e.low > 0 or e.high < 0):
        look = "better" if e.value > 0 else "worse"
        words = f"{name} looks {look} than under OMS labels"
    values = f"AUROC {number_text(ood.value)} instead of {number_text(oms.value)}"
    return f"Under OOD labels {words}: {values} ({gap})."


def _swept(result: MonitorEvaluation, name: str) -> Iterator[str]:
    table = result.sweep("AUROC")
    values = table.value[table.monitors.index(name)]
    defined = np.flatnonzero(~np.isnan(values))
    if not len(defined):
        return

    def value_text(k: int) -> str:
        unsafe = f"{percent_text(table.prevalence[k])} of images unsafe"
        return f"{number_text(values[k])} (tau = {digits(table.tau[k], 3)}, {unsafe})"

    ends = f"{digits(table.tau[defined[0]], 4)} to {digits(table.tau[defined[-1]], 4)}"
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
    # The failure rate on OOD images is 1 - OOD-safe; the bounds of the two shares are compared.
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
        have = "has" if len(oms.winners) == 1 else "have"
        if set(oms.winners) == set(ood.winners):
            text = f"{first} {have} the highest AUROC under both kinds of labels"
        else:
            text = (
                f"{first} {have} the highest AUROC under OMS labels, {second} under OOD labels: "
                "choosing by OOD labels would choose another monitor"
            )
        if not math.isnan(ranking.agreement):
            text += f" (Kendall's tau of the orders {two_decimals(ranking.agreement)})"
        text += "."
        # Only a single winner can stay first.
        if len(oms.winners) == 1 and result.settings["replicates"]:
            text += _lead(result, first)
        yield text
    if len(ranking.swept) > 1:
        wins = sorted(ranking.wins.items(), key=lambda pair: -pair[1])
        counts = join([f"for {name} at {n}" for name, n in wins if n])
        yield f"The AUROC is highest {counts} of {len(ranking.swept)} values of tau."


def _lead(result: MonitorEvaluation, first: str) -> str:
    """Return whether the monitor with the highest AUROC is shown to be better than all others."""
    rivals = []
    # All pairs are one family, because which monitor leads was seen in the same data.
    for d in result.compare_all("AUROC", OMS):
        if first in (d.model_a, d.model_b) and not d.p_adjusted < 1.0 - d.estimate.level:
            rivals.append(d.model_b if d.model_a == first else d.model_a)
    if not rivals:
        return f" Under OMS labels {first} is better than every other monitor (all pairs tested)."
    return f" Under OMS labels {first} is not shown to be better than {join(rivals)}."


def _percent(e: Estimate) -> str:
    if math.isnan(e.value):
        return f"an undefined share ({_reason(e)})"
    return f"{percent_text(e.value)} ({_span(e)})"


def _span(e: Estimate) -> str:
    """Return the interval of a share in whole percents; or why there is none."""
    if math.isnan(e.low):
        return f"no interval: {_reason(e)}"
    return ci_text(e.level, f"{percent_number(e.low)} to {percent_number(e.high)}")


def _reason(e: Estimate) -> str:
    words = {
        "no_positives": "no alarm is wanted on any image",
        "single_category": "the images are all of one kind",
        "no_predictions": "nothing is rejected",
    }
    return words.get(str(e.reason), reason_text(e.reason))


def _has_ranking(result: MonitorEvaluation, metric: str) -> bool:
    """Return whether all monitors have a quantity under any labels."""
    for labels in result.basis.labels:
        if all(result.basis.find(metric, name, labels.group) for name in result.monitors):
            return True
    return False


def command_line_warning(warning: str) -> str:
    """Return a warning with the options of the command line instead of the keywords of Python."""
    # Results speak to Python users; here the same advice must name an option.
    warning = re.sub(
        r"^(.*?): (AUROC is .*) set higher_is_alarm=False$",
        r"\1: \2 pass --lower-is-alarm \1",
        warning,
    )
    warning = re.sub(
        r"if low scores mean alarm, set higher_is_alarm=True$",
        "leave out --lower-is-alarm",
        warning,
    )
    return warning.replace("classes='present'", "--classes present")
