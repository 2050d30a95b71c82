# SPDX-License-Identifier: Apache-2.0
"""Warnings of an evaluation, and the notes below its tables.

From a cohort, protocol, evidence and rows to sentences: cut predictions, tied scores, missing
intervals, what the marks behind intervals mean. `Evaluation.warnings`, tables and pages call it.
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
    warnings = [
        *_notes(cohort),
        *_quarantine(cohort),
        *_classes(cohort, metrics),
        *_models(cohort, protocol, metrics),
        *map_warnings(cohort, protocol, metrics),
    ]
    for (model, _), table in evidence.items():
        if isinstance(table, Matches):
            warnings += [*_cut(model, table), *_far(model, table)]
    return tuple(dict.fromkeys(warnings))


def interval_warnings(rows: Sequence[Row], *, ci: bool) -> tuple[str, ...]:
    """Return what must be known of the intervals, each with the number of rows it concerns."""
    estimates = [row.estimate for row in rows if row.estimate.value == row.estimate.value]
    if not ci or not estimates:
        return ()

    def among(number: int) -> str:
        if number == len(estimates) > 1:
            return f"all {number} rows"
        return f"{number} of {len(estimates)} rows"

    warnings, one = [], estimates[0]
    for flag in FLAGS:
        number = sum(flag in estimate.flags for estimate in estimates)
        if number:
            warnings.append(f"Intervals of {among(number)}: {_of_flag(flag, one)}.")
    for reason, (_, words) in NO_INTERVAL.items():
        number = sum(estimate.reason == reason for estimate in estimates)
        if number:
            warnings.append(f"No interval for {among(number)}: {_of_units(words, one)}.")
    undefined = [e.undefined for e in estimates if e.undefined > 0 and e.method != "none"]
    if undefined:
        warnings.append(
            f"Intervals of {among(len(undefined))} leave out replicates without a value, "
            f"at most {max(undefined)} of them."
        )
    return tuple(warnings)


def unit_warnings(units: Units, *, ci: bool) -> tuple[str, ...]:
    """Return a warning if units of one name lie in several parents."""
    if not ci or not units.n_split:
        return ()
    inner, outer = units.name, units.parent_name
    if units.nested:
        inner, outer = outer, inner
    return (
        f"{units.n_split} {plural(inner)} occur in more than one {outer}; they count as different "
        "ones in each, which is wrong if they are the same.",
    )


def group_warnings(rows: Sequence[Row], metrics: Sequence[str]) -> tuple[str, ...]:
    """Return which metrics have no values by size."""
    with_sizes = {row.metric for row in rows if row.group is not None and "size" in row.group}
    without = [metric for metric in metrics if with_sizes and metric not in with_sizes]
    if not without:
        return ()
    return (
        f"By size there is no {', '.join(without)}: such a matching knows no sizes, "
        "or has a size of its own.",
    )


def speaks_for(statistics: Mapping[str, Any], estimates: Sequence[Estimate]) -> str:
    """Return the sentence below a table: what its intervals generalise to, or why it has none.

    Empty if no intervals were requested. ``statistics`` is that of the evaluation.
    """
    valued = [estimate for estimate in estimates if estimate.value == estimate.value]
    if statistics["interval"] is None or not valued:
        return ""
    if any(estimate.low == estimate.low for estimate in valued):
        return (
            f"{100 * statistics['level']:g} % confidence intervals, resampled by "
            f"{statistics['unit']} (n = {statistics['n_units']}); "
            f"valid for {statistics['generalises_to']}."
        )
    reason = valued[0].reason
    if reason not in NO_INTERVAL:
        return ""
    return f"No intervals: {_of_units(NO_INTERVAL[reason][1], valued[0])}."


def without_interval(estimate: Estimate) -> str:
    """Return in few words why a value has no interval; empty if it has one, or if none was asked
    for.
    """
    if estimate.low == estimate.low or estimate.reason not in NO_INTERVAL:
        return ""
    return _of_units(NO_INTERVAL[estimate.reason][0], estimate)


def lower_is_better(protocol: Protocol) -> set[str]:
    """Return the names of the metrics of which less is better."""
    names: set[str] = set()
    for metric in protocol.compile():
        if not metric.facts.higher_is_better:
            names.update(metric.facts.names)
    for plan in protocol.metrics:
        if plan.options.get("of") in ("FP", "FN"):
            names.add(plan.name)
    return names


def same_for_all(estimates: Sequence[Estimate]) -> bool:
    """Return whether one note on missing intervals holds for all values, so that it is said once.

    That is: all values have an interval, or none has, for one reason.
    """
    defined = [estimate for estimate in estimates if estimate.value == estimate.value]
    return len({without_interval(estimate) for estimate in defined}) <= 1


def marks_of(estimate: Estimate) -> str:
    """Return the marks behind an interval; `legend` explains them."""
    if estimate.low != estimate.low:
        return ""
    return "".join(mark for flag, mark in MARKS.items() if flag in estimate.flags)


def legend(estimates: Sequence[Estimate]) -> list[str]:
    """Return a line for every mark that these estimates have."""
    marks = "".join(map(marks_of, estimates))
    lines = []
    for flag, mark in MARKS.items():
        if mark in marks:
            lines.append(f"{mark} {_of_flag(flag, estimates[0])}")
    return lines


def _of_flag(flag: str, estimate: Estimate) -> str:
    return FLAGS[flag].replace("units", plural(estimate.unit))


def _of_units(words: str, estimate: Estimate) -> str:
    return words.format(unit=estimate.unit, units=plural(estimate.unit))


def _notes(cohort: Cohort) -> Iterator[str]:
    """Yield the notes of the readers, each with its file.

    What `_models` reports under the name of the model is not repeated.
    """
    for file in cohort.intake.files:
        repeated = SAID_OF_MODELS if file.role.startswith("predictions") else ()
        source = file.role if file.file == ARRAYS else Path(file.file).name
        for note in file.notes:
            if not any(words in note for words in repeated):
                yield f"{source}: {note}"


def _quarantine(cohort: Cohort) -> Iterator[str]:
    """Yield how many records of every file were set aside, by rule."""
    for file in cohort.intake.files:
        if file.quarantined:
            rules = ", ".join(f"{rule} {n}" for rule, n in file.quarantined.items())
            aside = sum(file.quarantined.values())
            name = Path(file.file).name
            yield f"{name}: {aside} of {file.read} records were set aside ({rules})."


def _classes(cohort: Cohort, metrics: list[Metric[Any]]) -> Iterator[str]:
    """Yield which classes class means leave out, and how many references RoDeO leaves out."""
    labels = cohort.references.label[~cohort.references.ignore]
    absent = np.flatnonzero(np.bincount(labels, minlength=len(cohort.classes)) == 0)
    if len(absent) and any(metric.facts.id.startswith(("ap@", "ar.")) for metric in metrics):
        names = ", ".join(cohort.classes[c] for c in absent[:5])
        if len(absent) > 5:
            names += ", ..."
        yield f"Classes without references are left out of class means ({len(absent)}): {names}."
    ignored = int(cohort.references.ignore.sum())
    if ignored and any(metric.facts.id.startswith("rodeo") for metric in metrics):
        yield f"RoDeO knows no ignored references: {ignored} were left out."


def _models(cohort: Cohort, protocol: Protocol, metrics: list[Metric[Any]]) -> Iterator[str]:
    """Yield warnings on the predictions of every model: empty images, repeats, ties."""
    ranks = any(metric.facts.id.startswith(("ap@", "froc")) for metric in metrics)
    for model, predictions in cohort.models.items():
        silent = int((np.diff(predictions.offsets) == 0).sum())
        if silent > SHARE * cohort.n_images:
            yield f"{model}: {silent} of {cohort.n_images} images have no prediction."
        outside = int(outside_image(predictions.boxes, cohort.images.size[predictions.image]).sum())
        if outside:
            yield (
                f"{model}: {outside} of {len(predictions)} predictions reach outside their image; "
                "kept as they are."
            )
        yield from _repeated(model, predictions)
        if not ranks or not len(predictions):
            continue
        distinct = len(np.unique(predictions.score))
        if not predictions.scored:
            yield (
                f"{model}: has no scores; all count as 1, "
                "and rankings depend on nothing but the tie rule."
            )
        elif distinct == 1 and len(predictions) > 1:
            yield (
                f"{model}: all scores are equal, so average precision depends on the tie rule "
                f"({protocol.ties})."
            )
        elif distinct < SHARE * len(predictions):
            tied = 1 - distinct / len(predictions)
            yield (
                f"{model}: {tied:.0%} of the scores repeat another one; "
                f"ties are handled as '{protocol.ties}'."
            )


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
    """Yield how many predictions repeat another one exactly."""
    if not 1 < len(predictions) <= MOST_COMPARED:
        return
    columns = [predictions.image, predictions.label, predictions.score, *predictions.boxes.T]
    if predictions.masks is not None:  # different masks may have one box
        columns += [predictions.masks.voxels, *predictions.masks.centroids().T]
    order = np.lexsort(columns)
    is_repeat = np.ones(len(order) - 1, np.bool_)
    for column in columns:
        is_repeat &= column[order][1:] == column[order][:-1]
    if is_repeat.any():
        number = int(is_repeat.sum())
        yield f"{model}: {number} of {len(predictions)} predictions repeat another one exactly."


def _cut(model: str, matches: Matches) -> Iterator[str]:
    """Yield how many predictions the limit per image and class left out."""
    limit = matches.views[0].max_dets
    cut = int((matches.rank >= limit).sum())
    if cut:
        yield (
            f"{model}: {cut} predictions beyond the best {limit} of their image and class "
            "were left out."
        )
