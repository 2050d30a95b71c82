# SPDX-License-Identifier: Apache-2.0
"""Do the values of label volumes name classes, or do they number the objects of a volume?

Both look the same: 0, 1, 2, 3 in a file of whole numbers. Read as classes, numbered objects have a
class by chance, and predictions meet hardly a reference of their own class. So both readings are
carried out, and the predictions tell which is right: with numbered objects nearly every reference
is met better than with classes (`calipers.doctor.trial.convincing`); with classes nothing changes,
because each class meets itself in both readings.

Where a value has several connected components in a volume of the references, it is a class: nobody
gives two objects one number. Where both sides number their objects in the same order, overlaps tell
little; then values that predictions have and references lack are explained by numbers if every
volume has the values 1, 2, ... up to its own last one, which a volume without the first class would
not.

If only one side numbers its objects, its numbers mean nothing to the other, and all values are one
finding: `unclassed_objects` of predictions, `numbered_references`. Values may also be the scores of
candidates, as from 1 to 5: then the high ones lie on references, and the low ones beside
(`whole_scores`). `calipers.doctor.volumes.volume_folders` calls all four.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import fspath
from typing import Any

import numpy as np

from calipers.arrays import F64
from calipers.data.cohort import Cohort
from calipers.doctor.class_agreement import targets
from calipers.doctor.findings import Symptom, few
from calipers.doctor.input_files import open_inputs, read_parts
from calipers.doctor.map_scores import agreement_with_error
from calipers.doctor.remedies import Inputs
from calipers.doctor.trial import (
    HIT,
    LEAST_SHARE,
    RawPredictions,
    convincing,
    overlaps,
    sample_of,
    share_met,
)
from calipers.errors import CalipersError
from calipers.io.read import read_all
from calipers.io.reader import Options, ReferenceIndex
from calipers.show.words import count_text, percent_text

CLASSES, INSTANCES, NONZERO = "classes", "instances", "nonzero"
BY_CHANCE = 0.6  # of the references that are met, so many may be of the right class by chance
FEWEST_MORE = 2  # references that are met only if all values are one finding
LEAST_OVERLAP = 0.1  # IoU from which a candidate lies on a reference: blobs are coarse
FEWEST_VALUES, CLEARLY = 2, 3.0  # of candidates on references; standard errors above chance
MANY_LENGTHS = 3  # files that count to so many different last values number objects


def numbered_objects(
    inputs: Inputs, reading: Mapping[str, Any], values: Sequence[tuple[int, ...]]
) -> Symptom | None:
    """Return the finding that values number objects; None if they do not, or nothing tells.

    ``reading`` are the keywords of `calipers.read` by which the volumes are paired, ``values``
    those of every file, references and predictions, but 0.
    """
    if reading.get("labels", CLASSES) != CLASSES or not inputs.predictions:
        return None
    as_classes, as_instances = (_read(inputs, reading, labels) for labels in (CLASSES, INSTANCES))
    if as_classes is None or as_instances is None or len(as_classes.classes) < 2:
        return None
    # Each value is one object in every volume, so references are the same in both readings.
    if not _same_references(as_classes, as_instances):
        return None
    # Strict reading by classes fails where predictions have a value that references lack.
    lengths = _counted_lengths(values)
    is_refused = bool(as_classes.intake.quarantined)
    is_counted = len(lengths) >= (2 if is_refused else MANY_LENGTHS)
    shares = []
    for model in as_instances.models:
        sample = RawPredictions.of(as_instances.models[model])
        before, n = np.zeros(len(as_instances.references)), len(sample)
        # A model whose objects all have unknown classes is left out of the reading by classes.
        if model in as_classes.models:
            before = overlaps(as_classes, RawPredictions.of(as_classes.models[model]))
        after = overlaps(as_instances, sample)
        share_after, share_before = share_met(after, n), share_met(before, n)
        # A model that confuses classes in some volumes still has most of them right.
        is_by_chance = convincing(before, after, n) and share_before <= BY_CHANCE * share_after
        if not is_by_chance and not (is_counted and share_after >= share_before):
            return None
        shares.append((share_after, share_before))
    after_share, before_share = np.mean(shares, axis=0).tolist()
    numbers = ", ".join(as_classes.classes[:3])
    return Symptom(
        "label-instances",
        "error",
        fspath(inputs.references),
        f"values such as {numbers} number the objects of a volume: {percent_text(after_share)} of "
        "the references are matched if they are read as objects, "
        f"{percent_text(before_share)} as classes",
        len(as_instances.references),
        len(as_instances.references),
        "pass --labels instances",
        few([f"value {name}" for name in as_classes.classes]),
        {"labels": INSTANCES},
    )


def unclassed_objects(
    inputs: Inputs, reading: Mapping[str, Any], values: Sequence[tuple[int, ...]]
) -> Symptom | None:
    """Return the finding that predictions number their objects, beside references with classes.

    ``values`` are those of every file of predictions. Nothing tells the class of such an object, so
    that all values are one finding.
    """
    lengths = _counted_lengths(values)
    if reading.get("labels", CLASSES) != CLASSES or len(lengths) < 2:
        return None
    as_classes, as_one = (_read(inputs, reading, labels) for labels in (CLASSES, NONZERO))
    if as_classes is None or as_one is None or not as_classes.intake.quarantined:
        return None
    shares = _met_as_one(as_classes, as_one, against_one=len(as_classes.classes) == 1)
    if shares is None:
        return None
    after_share, before_share = shares
    n_classes = len(as_classes.classes)
    return Symptom(
        "label-instances",
        "error",
        ", ".join(fspath(path) for path in inputs.predictions.values()),
        f"values number the objects of a volume up to {max(lengths)}, and the references have "
        f"{count_text('class', n_classes)}: {percent_text(after_share)} of the "
        "references are matched if all values are one finding, "
        f"{percent_text(before_share)} as classes",
        len(values),
        len(values),
        "pass --labels nonzero, or save the class of every object as its value",
        reading={"labels": NONZERO},
    )


def numbered_references(
    inputs: Inputs, reading: Mapping[str, Any], values: Sequence[tuple[int, ...]]
) -> Symptom | None:
    """Return the finding that references number their objects, beside predictions of one value.

    ``values`` are those of every file of references.
    """
    lengths = _counted_lengths(values)
    if reading.get("labels", CLASSES) != CLASSES or len(lengths) < 2:
        return None
    meanings = (CLASSES, INSTANCES, NONZERO)
    as_classes, as_instances, as_one = (_read(inputs, reading, labels) for labels in meanings)
    if as_classes is None or as_instances is None or as_one is None:
        return None
    # A value with several components in a volume is a class.
    if not _same_references(as_classes, as_instances):
        return None
    for predictions in as_classes.models.values():
        if len(np.unique(predictions.label)) > 1:
            return None
    shares = _met_as_one(as_classes, as_one, against_one=True)
    if shares is None:
        return None
    after_share, before_share = shares
    return Symptom(
        "label-instances",
        "error",
        fspath(inputs.references),
        f"values number the objects of a volume up to {max(lengths)}, and predictions have one "
        f"value: {percent_text(after_share)} of the references are matched if all values are one "
        f"finding, {percent_text(before_share)} as classes",
        len(values),
        len(values),
        "pass --labels nonzero",
        reading={"labels": NONZERO},
    )


def whole_scores(inputs: Inputs, reading: Mapping[str, Any]) -> Symptom | None:
    """Return the finding that the values of predictions are scores of candidates, beside references
    of one class; None if they are not, or nothing tells.

    Objects of several values lie on references, and these have higher values than those beside: a
    class among others would lie on them with its own value only.
    """
    if reading.get("labels", CLASSES) != CLASSES:
        return None
    opened, _, inputs = open_inputs(replace(inputs, reading=reading))
    try:
        references = read_all(inputs.references, None, None, inputs.options).cohort
    except CalipersError:
        return None
    if len(references.classes) != 1:
        return None
    n_objects = 0
    shares = []
    for name, path in inputs.predictions.items():
        for *_, part in read_parts(name, path, opened.index, inputs.options.of_predictions()):
            sample = sample_of(part)
            value = _values_of(sample, opened.index)
            rows, target = targets(references, sample, LEAST_OVERLAP)
            on, beside = value[rows[target >= 0]], value[rows[target < 0]]
            agreement, error = agreement_with_error(on, beside)
            if len(np.unique(on)) < FEWEST_VALUES or agreement <= 0.5 + CLEARLY * error:
                return None
            shares.append(agreement)
            n_objects += len(value)
    return Symptom(
        "whole-scores",
        "error",
        ", ".join(fspath(path) for path in inputs.predictions.values()),
        "values are no classes of the references, and objects on references have higher ones than "
        f"those beside in {percent_text(min(shares))} of the pairs of one of each: scores of "
        "candidates",
        n_objects,
        n_objects,
        "evaluate them as detection maps: calipers maps with --preset picai --normalise odds",
    )


def _values_of(sample: RawPredictions, index: ReferenceIndex) -> F64:
    """Return the value of every object: that of its class, or the name of an unknown one."""
    of_label = {label: key for key, label in (index.class_keys or {}).items()}
    names = []
    for row, label in enumerate(sample.label.tolist()):
        names.append(sample.label_names.get(row, of_label.get(label, np.nan)))
    return np.array([float(str(name)) for name in names])


def _met_as_one(
    as_classes: Cohort, as_one: Cohort, *, against_one: bool
) -> tuple[float, float] | None:
    """Return the shares of the references that are met if all values are one finding, and if they
    are classes; None unless the first is clearly larger for every model.

    ``against_one`` says that the side without numbers has one value only. Then every first object
    has it by chance, and further numbers that meet something are clear enough.
    """
    shares = []
    for model in as_one.models:
        sample = RawPredictions.of(as_one.models[model])
        best = overlaps(as_one, sample)
        n_met, n_met_before = int((best >= HIT).sum()), 0
        share_after, share_before = share_met(best, len(sample)), 0.0
        if model in as_classes.models:
            sample = RawPredictions.of(as_classes.models[model])
            best = overlaps(as_classes, sample)
            n_met_before = int((best >= HIT).sum())
            share_before = share_met(best, len(sample))
        is_clear = share_after >= LEAST_SHARE and share_before <= BY_CHANCE * share_after
        if against_one:
            is_clear |= n_met - n_met_before >= FEWEST_MORE
        if not is_clear:
            return None
        shares.append((share_after, share_before))
    after_share, before_share = np.mean(shares, axis=0).tolist()
    return after_share, before_share


def _read(inputs: Inputs, reading: Mapping[str, Any], labels: str) -> Cohort | None:
    """Return the cohort with one meaning of the values, as far as it can be read."""
    keywords = {**reading, "labels": labels, "lenient": True, "inspecting": True}
    try:
        options = Options.from_keywords(**keywords)
        return read_all(inputs.references, inputs.predictions, inputs.groups, options).cohort
    except CalipersError:
        return None


def _counted_lengths(values: Sequence[tuple[int, ...]]) -> set[int]:
    """Return how far the files count, if all have the values 1, 2, ... to a last one; else none."""
    lengths = set()
    for own_values in values:
        if own_values != tuple(range(1, len(own_values) + 1)):
            return set()
        if own_values:
            lengths.add(len(own_values))
    return lengths


def _same_references(a: Cohort, b: Cohort) -> bool:
    if not np.array_equal(a.references.offsets, b.references.offsets):
        return False
    return bool(np.array_equal(a.references.boxes, b.references.boxes))
