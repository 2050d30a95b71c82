# SPDX-License-Identifier: Apache-2.0
"""Which column of a table of ratings is what: as the user says, else by its name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from calipers.errors import UsageError, did_you_mean
from calipers.readers.layout import ALIASES
from calipers.readers.table_columns import (
    column_of,
    existing_column,
    find_column,
    missing_column,
)
from calipers.readers.tabular import Table
from calipers.tables.ratings import Scale

RATING = ("rating", "useful", "usefulness", "verdict")
RATER = ("rater", "rater_id", "reader", "clinician", "annotator", "observer")
ITEM = ("item", "item_id", "prediction", "prediction_id")
CRITERION = re.compile(
    r"(^|-)(g|c|d|complete-)?iou(-|$)|(^|-)(iop|ior|iobb|dice|hausdorff|overlap|distance)(-|$)|-in-"
)
DISTANCE = re.compile(r"(^|-)distance(-|$)")


@dataclass(frozen=True)
class RatingChoices:
    """What the user says of a table of ratings; None is left to the names."""

    rating: str | None = None
    criteria: Sequence[str] | None = None
    distances: Sequence[str] = ()
    rater: str | None = None
    item: str | None = None
    cluster: str | None = None
    useful: Sequence[str] | None = None
    categories: Sequence[str] | None = None
    scale: Scale | None = None


@dataclass(frozen=True)
class RatingColumns:
    """The columns of a table by their meaning."""

    rating: str
    criteria: tuple[str, ...]
    distances: frozenset[str]
    rater: str | None
    item: str | None
    image: str | None
    cluster: str | None
    unit: str  # the word for what the cluster holds
    understood: tuple[str, ...]


def find_rating_columns(table: Table, choices: RatingChoices) -> RatingColumns:
    """Return the columns, and in words how they were understood."""
    names = table.names
    rating = find_column(table, "rating", choices.rating, RATING)
    if rating is None:
        raise missing_column(
            table,
            "a column of ratings",
            f"name it with --rating COLUMN, or call it {' or '.join(RATING)}",
        )
    rater = find_column(table, "rater", choices.rater, RATER)
    item = find_column(table, "item", choices.item, ITEM)
    image = column_of(table, ALIASES["image"])
    unit, cluster = _cluster(table, choices.cluster, item, image)
    other_columns = {rating, rater, item, image, cluster}
    criteria, distances = _criteria(table, choices, other_columns)
    unused = [name for name in names if name not in {*other_columns, *criteria}]
    understood = [
        f"rating: {rating}"
        + (f"; rater: {rater}" if rater else "")
        + (f"; item: {item}" if item else ""),
        f"criteria: {_criteria_text(criteria, distances)}"
        if criteria
        else "no column is a criterion",
        f"unit: {unit}" + (f" (column {cluster})" if cluster and cluster != unit else ""),
    ]
    if unused:
        understood.append(f"not used: {', '.join(unused)}")
    return RatingColumns(
        rating, criteria, distances, rater, item, image, cluster, unit, tuple(understood)
    )


def plain_name(name: str) -> str:
    """Return a column name as criteria are written: lower case, words joined by hyphens."""
    return re.sub(r"[\s_]+", "-", name.strip().lower())


def _cluster(
    table: Table, choice: str | None, item: str | None, image: str | None
) -> tuple[str, str | None]:
    """Return the unit in a word and its column: patient if known, else image, else item; None is
    every row.
    """
    patient = column_of(table, ALIASES["patient"])
    columns = {"patient": patient, "image": image, "item": item}
    if choice is not None:
        column = columns.get(choice) if choice not in table.names else None
        if column is None:
            column = existing_column(table, "cluster", choice)
        return next((word for word, name in columns.items() if name == column), column), column
    return next(((word, column) for word, column in columns.items() if column), ("item", None))


def _criteria(
    table: Table, choices: RatingChoices, other_columns: set[str | None]
) -> tuple[tuple[str, ...], frozenset[str]]:
    if choices.criteria is None:
        free = [name for name in table.names if name not in other_columns]
        names = [
            name for name in free if CRITERION.search(plain_name(name)) or name in choices.distances
        ]
    else:
        names = [existing_column(table, "criteria", name) for name in choices.criteria]
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"the criterion {name!r} is named twice")
            if name in other_columns:
                raise UsageError(
                    f"the column {name!r} cannot be a criterion: it is already something else"
                )
    for name in choices.distances:
        if name not in names:
            raise UsageError(
                f"the distance {name!r} is no criterion; {did_you_mean(name, names or table.names)}"
            )
    distances = {name for name in names if DISTANCE.search(plain_name(name))} | set(
        choices.distances
    )
    return tuple(names), frozenset(distances)


def _criteria_text(criteria: Sequence[str], distances: frozenset[str]) -> str:
    return ", ".join(name + (" (small is good)" if name in distances else "") for name in criteria)
