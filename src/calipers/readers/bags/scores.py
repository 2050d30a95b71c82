# SPDX-License-Identifier: Apache-2.0
"""Read tables with a row per bag: groups, and the score that every model gives the whole bag."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from os import PathLike, fspath

import numpy as np

from calipers.errors import InputError, did_you_mean, raise_problems
from calipers.readers.bags.columns import BAG, rename_column, require_column
from calipers.readers.grouping import add_groups
from calipers.readers.parts import ImageList, Options
from calipers.readers.plain import read_plain
from calipers.readers.table_columns import column_of, missing_column
from calipers.readers.tabular import Table, numbers, texts
from calipers.tables.bags import F64, Column

PathName = str | PathLike[str]
SIDES = 2  # axes of sizes and spacings, which are not used here


def read_groups(
    path: PathName | None, bags: Sequence[str], columns: Mapping[str, Column]
) -> tuple[dict[str, Column], list[str]]:
    """Return ``columns`` with those of a table added, and notes; every bag needs a row."""
    if path is None:
        return dict(columns), []
    table, opened = read_plain(fspath(path))
    column = column_of(table, BAG)
    if column is not None and column.lower() not in ("image", "image_id", "id"):
        table = rename_column(table, column, "image")
    unknown = np.full((len(bags), SIDES), np.nan)
    images = ImageList(list(bags), unknown, unknown, dict(columns))
    images, intake = add_groups(images, table, opened, Options())
    return dict(images.groups), list(intake.notes)


def read_scores(path: PathName, bags: Sequence[str], models: Sequence[str]) -> F64:
    """Return the (n_models, n_bags) scores of whole bags: a row per bag, a column per model."""
    table, _ = read_plain(fspath(path))
    rows = _rows(table, bags)
    scores = np.empty((len(models), len(bags)), np.float64)
    for k, model in enumerate(models):
        if model not in table.names:
            raise missing_column(
                table, f"a column {model!r}, the name of a model", did_you_mean(model, table.names)
            )
        values, bad = numbers(table, model)
        raise_problems([problem.as_error(table.file) for problem in bad.values()])
        wrong = np.flatnonzero(~np.isfinite(values[rows]))
        if len(wrong):
            row = rows[int(wrong[0])]
            problem = table.problem(
                row, model, "non-finite", "a score of every bag", texts(table, model)[row]
            )
            raise problem.as_error(table.file)
        scores[k] = values[rows]
    return scores


def _rows(table: Table, bags: Sequence[str]) -> list[int]:
    """Return the row of every bag; rows of other bags are not an error, a bag without a row is."""
    column = require_column(table, BAG, "bag")
    row_of: dict[str, int] = {}
    for row, name in enumerate(texts(table, column)):
        bag = unicodedata.normalize("NFC", name.strip())
        if bag in row_of:
            raise table.problem(row, column, "dup-bag", "one row per bag", name).as_error(
                table.file
            )
        row_of[bag] = row
    absent = [bag for bag in bags if bag not in row_of]
    if absent:
        hint = f"{len(absent)} of {len(bags)} bags have none"
        raise InputError(
            "a score of every bag",
            rule="labels-differ",
            file=table.file,
            location=f"bag {absent[0]!r}",
            hint=hint,
        )
    return [row_of[bag] for bag in bags]
