# SPDX-License-Identifier: Apache-2.0
"""Tables with a row per bag: groups, and what every model says of the whole bag."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from os import PathLike, fspath

import numpy as np

from calipers.errors import InputError, did_you_mean, raise_problems
from calipers.readers.bags.columns import BAG, renamed, require_column
from calipers.readers.grouping import add_groups
from calipers.readers.parts import ImageList, Options
from calipers.readers.plain import read_plain
from calipers.readers.table_columns import column_of, missing_column
from calipers.readers.tabular import Table, numbers, texts
from calipers.tables.bags import F64, Column

PathName = str | PathLike[str]
SIDES = 2  # axes of sizes and spacings, which are not used here


def read_groups(
    path: PathName | None, bags: Sequence[str], known: Mapping[str, Column]
) -> tuple[dict[str, Column], list[str]]:
    """Return the columns of a table beside those that are known, and notes; every bag needs a row."""
    if path is None:
        return dict(known), []
    table, opened = read_plain(fspath(path))
    column = column_of(table, BAG)
    if column is not None and column.lower() not in ("image", "image_id", "id"):
        table = renamed(table, column, "image")
    unknown = np.full((len(bags), SIDES), np.nan)
    images = ImageList(list(bags), unknown, unknown, dict(known))
    found, intake = add_groups(images, table, opened, Options())
    return dict(found.groups), list(intake.notes)


def read_scores(path: PathName, bags: Sequence[str], models: Sequence[str]) -> F64:
    """Return the (n_models, n_bags) scores of whole bags: a row per bag, a column per model."""
    table, _ = read_plain(fspath(path))
    rows = _rows(table, bags)
    found = np.empty((len(models), len(bags)), np.float64)
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
        found[k] = values[rows]
    return found


def _rows(table: Table, bags: Sequence[str]) -> list[int]:
    """Return the row of every bag; rows of other bags are not an error, a bag without a row is."""
    column = require_column(table, BAG, "bag")
    at: dict[str, int] = {}
    for row, name in enumerate(texts(table, column)):
        bag = unicodedata.normalize("NFC", name.strip())
        if bag in at:
            raise table.problem(row, column, "dup-bag", "one row per bag", name).as_error(
                table.file
            )
        at[bag] = row
    lost = next((bag for bag in bags if bag not in at), None)
    if lost is not None:
        hint = f"{sum(bag not in at for bag in bags)} of {len(bags)} bags have none"
        raise InputError(
            "a score of every bag",
            rule="labels-differ",
            file=table.file,
            location=f"bag {lost!r}",
            hint=hint,
        )
    return [at[bag] for bag in bags]
