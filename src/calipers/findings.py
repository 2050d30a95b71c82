# SPDX-License-Identifier: Apache-2.0
"""What a reader of the numbers must know, in words: cut predictions, tied scores, and what
intervals speak for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calipers.map_findings import map_warnings
from calipers.matches import Matches
from calipers.metrics.contract import Evidence, Metric
from calipers.protocol import Protocol
from calipers.results import Estimate, Row
from calipers.results.estimate import FLAGS
from calipers.statistics.weights import Units, plural
from calipers.tables import Cohort, Predictions
from calipers.tables.checks import outside_image

SHARE = 0.5
ARRAYS = "<arrays>"  # in place of a file
NEAR = 0.1  # IoU
MOST_COMPARED = 500_000  # predictions
MARKS = {
    "near_perfect": "*",
    "all_wrong": "∘",
    "few_units": "†",
    "on_bound": "‡",
    "identical_units": "§",
    "independent_objects": "¶",
    "rough_metric": "‖",
    "classes_left_out": "◊",
}
NO_INTERVAL = {  # reason -> beside the value, and as a clause
    "one_unit": ("one {unit} only", "there is only one {unit}"),
    "too_few_units": ("too few {units}", "fewer than 5 {units} stand behind them"),
    "too_many_undefined": ("often undefined", "more than 5 % of the replicates have no value"),
    "constant_input": (
        "no such interval",
        "the replicates do not vary in the way that this kind of interval needs",
    ),
}
SAID_OF_MODELS = (
    "scores are equal",
    "scores are tied",
    "reach outside",
    "images without prediction",
)


def warnings_of(
    cohort: Cohort,
    protocol: Protocol,
    evidence: Mapping[tuple[str, tuple[Any, ...]], Evidence],
) -> tuple[str, ...]:
    """Return the warnings of an evaluation, without repetition."""
    metrics = protocol.compile()
    found = [
        *_notes(cohort),
        *_quarantine(cohort),
        *_classes(cohort, metrics),
        *_models(cohort, protocol, metrics),
        *map_warnings(cohort, protocol, metrics),
    ]
    for (model, _), table in evidence.items():
        if isinstance(table, Matches):
            found += [*_cut(model, table), *_far(model, table)]
    return tuple(dict.fromkeys(found))


def interval_warnings(rows: Sequence[Row], *, ci: bool) -> tuple[str, ...]:
    """Return what must be known of the intervals, each thing said once with how many rows it
    concerns.
    """
    estimates = [row.estimate for row in rows if row.estimate.value == row.estimate.value]
    if not ci or not estimates:
        return ()

    def among(number: int) -> str:
        return (
            f"all {number} rows"
            if number == len(estimates) > 1
            else f"{number} of {len(estimates)} rows"
        )

    found, one = [], estimates[0]
    for flag in FLAGS:
        number = sum(flag in estimate.flags for estimate in estimates)
        if number:
            found.append(f"Intervals of {among(number)}: {_of_flag(flag, one)}.")
    for reason, (_, words) in NO_INTERVAL.items():
        number = sum(estimate.reason == reason for estimate in estimates)
        if number:
            found.append(f"No interval for {among(number)}: {_of_units(words, one)}.")
    partly = sum(estimate.undefined > 0 and estimate.method != "none" for estimate in estimates)
    if partly:
        most = max(estimate.undefined for estimate in estimates if estimate.method != "none")
        found.append(
            f"Intervals of {among(partly)} leave out replicates without a value, at most {most} of them."
        )
    return tuple(found)


def unit_warnings(units: Units, *, ci: bool) -> tuple[str, ...]:
    """Return what must be known of the units."""
    if not ci or not units.n_split:
        return ()
    inner, outer = (
        (units.parent_name, units.name) if units.nested else (units.name, units.parent_name)
    )
    told = f"{units.n_split} {plural(inner)} occur in more than one {outer}"
    return (f"{told}; they count as different ones in each, which is wrong if they are the same.",)


def group_warnings(rows: Sequence[Row], metrics: Sequence[str]) -> tuple[str, ...]:
    """Return which metrics have no values by size."""
    seen = {row.metric for row in rows if row.group is not None and "size" in row.group}
    without = [metric for metric in metrics if seen and metric not in seen]
    if not without:
        return ()
    return (
        f"By size there is no {', '.join(without)}: such a matching knows no sizes, or has a size of its own.",
    )


def speaks_for(statistics: Mapping[str, Any], estimates: Sequence[Estimate]) -> str:
    """Return the sentence below a table: whom its intervals speak for, or why it has none; empty if
    none were asked.

    ``statistics`` is that of the evaluation.
    """
    valued = [estimate for estimate in estimates if estimate.value == estimate.value]
    if statistics["interval"] is None or not valued:
        return ""
    if any(estimate.low == estimate.low for estimate in valued):
        over = f"{statistics['n_units']} {plural(statistics['unit'])}"
        return f"{100 * statistics['level']:g} % intervals over {over}: they speak for {statistics['generalises_to']}."
    reason = valued[0].reason
    return (
        f"No intervals: {_of_units(NO_INTERVAL[reason][1], valued[0])}."
        if reason in NO_INTERVAL
        else ""
    )


def without_interval(estimate: Estimate) -> str:
    """Return in few words why a value has no interval; empty if it has one, or if none was asked
    for.
    """
    if estimate.low == estimate.low or estimate.reason not in NO_INTERVAL:
        return ""
    return _of_units(NO_INTERVAL[estimate.reason][0], estimate)


def lower_is_better(protocol: Protocol) -> set[str]:
    """Return the names of the metrics of which less is better."""
    facts = [metric.facts for metric in protocol.compile()]
    found = {name for fact in facts if not fact.higher_is_better for name in fact.names}
    wrong = ("FP", "FN")
    return found | {plan.name for plan in protocol.metrics if plan.options.get("of") in wrong}


def same_for_all(estimates: Sequence[Estimate]) -> bool:
    """Return whether all values have an interval, or none has for one reason, so that it need not
    be said of each.
    """
    return (
        len(
            {
                without_interval(estimate)
                for estimate in estimates
                if estimate.value == estimate.value
            }
        )
        <= 1
    )


def marks_of(estimate: Estimate) -> str:
    """Return the marks behind an interval; `legend` explains them."""
    return "".join(
        mark
        for flag, mark in MARKS.items()
        if flag in estimate.flags and estimate.low == estimate.low
    )


def legend(estimates: Sequence[Estimate]) -> list[str]:
    """Return what the marks of these estimates mean, a line each."""
    shown = {mark for estimate in estimates for mark in marks_of(estimate)}
    return [
        f"{mark} {_of_flag(flag, estimates[0])}" for flag, mark in MARKS.items() if mark in shown
    ]


def _of_flag(flag: str, estimate: Estimate) -> str:
    return FLAGS[flag].replace("units", plural(estimate.unit))


def _of_units(words: str, estimate: Estimate) -> str:
    return words.format(unit=estimate.unit, units=plural(estimate.unit))


def _notes(cohort: Cohort) -> Iterator[str]:
    """Yield what the readers noted, with the file; what `_models` says with the name of the model
    is not said twice.
    """
    for file in cohort.intake.files:
        again = SAID_OF_MODELS if file.role.startswith("predictions") else ()
        for note in file.notes:
            if not any(words in note for words in again):
                yield f"{file.role if file.file == ARRAYS else Path(file.file).name}: {note}"


def _quarantine(cohort: Cohort) -> Iterator[str]:
    for file in cohort.intake.files:
        if file.quarantined:
            rules = ", ".join(f"{rule} {n}" for rule, n in file.quarantined.items())
            aside = sum(file.quarantined.values())
            yield f"{Path(file.file).name}: {aside} of {file.read} records were set aside ({rules})."


def _classes(cohort: Cohort, metrics: list[Metric[Any]]) -> Iterator[str]:
    counted = cohort.references.label[~cohort.references.ignore]
    absent = np.flatnonzero(np.bincount(counted, minlength=len(cohort.classes)) == 0)
    if len(absent) and any(metric.facts.id.startswith(("ap@", "ar.")) for metric in metrics):
        names = ", ".join(cohort.classes[c] for c in absent[:5]) + (
            ", ..." if len(absent) > 5 else ""
        )
        yield f"Classes without references are left out of class means ({len(absent)}): {names}."
    ignored = int(cohort.references.ignore.sum())
    if ignored and any(metric.facts.id.startswith("rodeo") for metric in metrics):
        yield f"RoDeO knows no ignored references: {ignored} were left out."


def _models(cohort: Cohort, protocol: Protocol, metrics: list[Metric[Any]]) -> Iterator[str]:
    ranks = any(metric.facts.id.startswith(("ap@", "froc")) for metric in metrics)
    for model, predictions in cohort.models.items():
        silent = int((np.diff(predictions.offsets) == 0).sum())
        if silent > SHARE * cohort.n_images:
            yield f"{model}: {silent} of {cohort.n_images} images have no prediction."
        outside = int(outside_image(predictions.boxes, cohort.images.size[predictions.image]).sum())
        if outside:
            yield f"{model}: {outside} of {len(predictions)} predictions reach outside their image; kept as they are."
        yield from _repeated(model, predictions)
        if not ranks or not len(predictions):
            continue
        distinct = len(np.unique(predictions.score))
        if not predictions.scored:
            yield f"{model}: has no scores; all count as 1, and rankings depend on nothing but the tie rule."
        elif distinct == 1 and len(predictions) > 1:
            yield f"{model}: all scores are equal, so average precision depends on the tie rule ({protocol.ties})."
        elif distinct < SHARE * len(predictions):
            tied = 1 - distinct / len(predictions)
            yield f"{model}: {tied:.0%} of the scores repeat another one; ties are handled as '{protocol.ties}'."


def _far(model: str, matches: Matches) -> Iterator[str]:
    """Shapes that never meet a reference of their class point to a wrong box format, axis order or
    class numbering.
    """
    if (
        matches.views[0].criterion not in ("box-iou", "mask-iou")
        or not len(matches.score)
        or not len(matches.reference_label)
    ):
        return
    if matches.pairs.similarity.max(initial=0.0) < NEAR:
        yield (
            f"{model}: no prediction overlaps a reference of its class by an IoU of {NEAR:g}; "
            "are box format, axis order and classes right?"
        )


def _repeated(model: str, predictions: Predictions) -> Iterator[str]:
    if not 1 < len(predictions) <= MOST_COMPARED:
        return
    columns = [predictions.image, predictions.label, predictions.score, *predictions.boxes.T]
    if predictions.masks is not None:  # different masks may have one box
        columns += [predictions.masks.voxels, *predictions.masks.centroids().T]
    order = np.lexsort(columns)
    same = np.ones(len(order) - 1, np.bool_)
    for column in columns:
        same &= column[order][1:] == column[order][:-1]
    if same.any():
        yield f"{model}: {int(same.sum())} of {len(predictions)} predictions repeat another one exactly."


def _cut(model: str, matches: Matches) -> Iterator[str]:
    limit = matches.views[0].max_dets
    cut = int((matches.rank >= limit).sum())
    if cut:
        yield f"{model}: {cut} predictions beyond the best {limit} of their image and class were left out."
