# SPDX-License-Identifier: Apache-2.0
"""The criteria of rated predictions: what every criterion says about a prediction that a clinician
rated.

`criteria_of` computes them for all predictions of a model; `rated_predictions` adds them as columns
to a table that says who rated which prediction how. `calipers.agreement` then compares the two, so
that a user brings references, predictions and ratings, and no criterion. ``calipers agreement REFS
PREDS RATINGS`` calls it.

The value of a prediction is its best over all references of its image that count: the largest
overlap, the smallest distance, and for a yes-or-no criterion whether any reference fulfils it.
Without a reference on the image, overlaps are 0 and a yes-or-no criterion is not fulfilled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calipers import registry
from calipers.agreement.read import table_of
from calipers.arrays import F64, I64, Column
from calipers.data.cohort import Cohort
from calipers.errors import InputError, UsageError
from calipers.io.tables.columns import OBJECTS, ColumnSpec, declare, find_columns
from calipers.io.tables.table import FileTable, texts
from calipers.matching.assign import candidate_pairs
from calipers.matching.criteria import Criterion

# Those of the study of variability in polyp detection, as far as the shapes are known.
BY_BOXES = ("box-iou", "any-overlap", "point-in-box")
BY_MASKS = ("mask-iou", "hull-iou", "point-in-mask", "point-in-hull")
WHICH = declare(
    ColumnSpec("prediction", ("prediction", "prediction_id", "item", "item_id")),
    replace(OBJECTS["image"], required=False),
)
RULE = "unknown-prediction"
COUNTED = "predictions are counted from 0 in the order of their file"


def rated_predictions(
    cohort: Cohort,
    ratings: Any,
    *,
    model: str | None = None,
    criteria: Sequence[str] | None = None,
    classes: str = "ignore",
) -> FileTable:
    """Return a table of ratings with the criteria of every rated prediction, as columns.

    Parameters
    ----------
    ratings
        A table with a row per rating (a file, a mapping of columns or a frame). Its column
        ``prediction`` says which prediction was rated: its number in the file, counted from 0. It
        may be left out where every rated ``image`` has one prediction.
    model
        May be left out when the cohort has one.
    criteria
        Names of criteria; by default those of boxes, and of masks where the references have them.
    classes
        ``ignore`` compares with references of any class, ``within`` with those of the same class.

    Returns
    -------
    FileTable
        The columns of the ratings, those of the images that they lack (patient, centre, ...), and a
        column per criterion: `calipers.agreement` takes it as it is.
    """
    name = cohort.model_named(model)
    table = table_of(ratings)
    rows = _rated_rows(cohort, name, table)
    images = cohort.models[name].image[rows]
    columns: dict[str, Any] = dict(table.columns)
    own = {column.strip().lower() for column in columns}
    further: dict[str, Column] = {"image": np.array(cohort.images.ids), **cohort.images.groups}
    for column, values in further.items():
        if column not in own:
            columns[column] = [str(value) for value in values[images].tolist()]
    values_of = criteria_of(cohort, name, criteria, classes=classes)
    for criterion, values in values_of.items():
        if criterion in own:
            raise UsageError(
                f"the ratings already have a column {criterion!r}: remove it, or leave out the "
                "references and predictions"
            )
        columns[criterion] = values[rows]
    return replace(table, columns=columns)


def criteria_of(
    cohort: Cohort,
    model: str,
    criteria: Sequence[str] | None = None,
    *,
    classes: str = "ignore",
) -> dict[str, F64]:
    """Return criterion -> (n_predictions,) values of the predictions of a model."""
    if classes not in ("ignore", "within"):
        raise UsageError(f"classes is ignore or within, not {classes!r}")
    n_classes = len(cohort.classes) if classes == "within" else 0
    values = {}
    for word in criteria if criteria is not None else default_criteria(cohort):
        name = registry.check("criterion", word)
        criterion: Criterion = registry.resolve("criterion", name)
        values[name] = _best(cohort, model, criterion, n_classes)
    return values


def default_criteria(cohort: Cohort) -> tuple[str, ...]:
    """Return the criteria that the shapes of the references allow."""
    if cohort.references.masks is None:
        return BY_BOXES
    return (*BY_BOXES, *BY_MASKS)


def _best(cohort: Cohort, model: str, criterion: Criterion, n_classes: int) -> F64:
    predictions, references = cohort.models[model], cohort.references
    pairs = candidate_pairs(cohort, predictions, criterion, n_classes)
    # Ignored references decide nothing, so they make no prediction right either.
    is_counted = ~(references.ignore | references.crowd)[pairs.reference]
    best = np.full(len(predictions), criterion.none)
    np.maximum.at(best, pairs.prediction[is_counted], pairs.similarity[is_counted])
    if criterion.yes_no:
        return (best > criterion.none).astype(np.float64)
    if not criterion.distance:
        return best
    if np.isinf(best).any():
        image = cohort.images.ids[predictions.image[int(np.isinf(best).argmax())]]
        raise UsageError(
            f"{criterion.name} needs a reference on every image with a prediction; image {image!r} "
            "has none: leave this criterion out"
        )
    return -best


def _rated_rows(cohort: Cohort, model: str, table: FileTable) -> I64:
    """Return the row of the rated prediction of every rating."""
    columns = find_columns(table, WHICH, {})
    image = columns.get("image")
    if "prediction" in columns:
        rows = _by_number(cohort, model, table, columns["prediction"])
        if image is not None:
            _check_images(cohort, model, table, image, rows)
        return rows
    if image is None:
        raise InputError(
            "a column prediction, or image",
            rule="missing-column",
            file=table.file,
            value=list(table.names),
            hint=f"say which prediction was rated: {COUNTED}",
        )
    return _by_image(cohort, model, table, image)


def _by_number(cohort: Cohort, model: str, table: FileTable, column: str) -> I64:
    for file in cohort.intake.files:
        if file.role == f"predictions of {model}" and file.read != file.used:
            raise UsageError(
                f"{file.read - file.used} predictions of {model} were set aside, so their numbers "
                "are not those of the file: mend the file, or rate what is left"
            )
    # Rows are in the order of the images; users count in the order of their file.
    file_order = np.argsort(cohort.models[model].place, kind="stable").tolist()
    row_of = {str(number): row for number, row in enumerate(file_order)}
    expected = f"the number of a prediction of {model}, from 0 to {len(file_order) - 1}"
    rows = np.empty(len(table), np.int64)
    for k, cell in enumerate(texts(table, column)):
        number = cell.strip().removesuffix(".0")
        if number not in row_of:
            raise table.error(k, column, RULE, expected, cell, COUNTED)
        rows[k] = row_of[number]
    return rows


def _check_images(cohort: Cohort, model: str, table: FileTable, column: str, rows: I64) -> None:
    """Raise if a rating names another image than its prediction has."""
    ids = cohort.images.ids
    for k, cell in enumerate(texts(table, column)):
        image = ids[cohort.models[model].image[rows[k]]]
        if cell.strip() != image:
            expected = f"image {image!r}, on which the rated prediction lies"
            raise table.error(k, column, RULE, expected, cell, COUNTED)


def _by_image(cohort: Cohort, model: str, table: FileTable, column: str) -> I64:
    predictions = cohort.models[model]
    number_of = {name: k for k, name in enumerate(cohort.images.ids)}
    hint = f"add a column prediction: {COUNTED}"
    rows = np.empty(len(table), np.int64)
    for k, cell in enumerate(texts(table, column)):
        image = number_of.get(cell.strip())
        if image is None:
            raise table.error(k, column, RULE, "an image of the references", cell)
        n = int(predictions.offsets[image + 1] - predictions.offsets[image])
        if n != 1:
            expected = f"an image with one prediction of {model}"
            raise table.error(k, column, RULE, expected, f"{cell} has {n}", hint)
        rows[k] = predictions.offsets[image]
    return rows
