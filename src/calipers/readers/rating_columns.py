# SPDX-License-Identifier: Apache-2.0
"""Find the columns of a table of ratings: as the user names them, else by their names."""

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
    """The user's choices for a table of ratings; None: decided by the column names."""

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
    """Return the columns by meaning, and in words how they were interpreted."""
    rating = find_column(table, "rating", choices.rating, RATING)
    if rating is None:
        hint = f"name it with --rating COLUMN, or call it {' or '.join(RATING)}"
        raise missing_column(table, "a column of ratings", hint)
    rater = find_column(table, "rater", choices.rater, RATER)
    item = find_column(table, "item", choices.item, ITEM)
    image = column_of(table, ALIASES["image"])
    unit, cluster = _cluster(table, choices.cluster, item, image)
    other_columns = {rating, rater, item, image, cluster}
    criteria, distances = _criteria(table, choices, other_columns)
    roles = f"rating: {rating}"
    if rater:
        roles += f"; rater: {rater}"
    if item:
        roles += f"; item: {item}"
    unit_text = f"unit: {unit}"
    if cluster and cluster != unit:
        unit_text += f" (column {cluster})"
    understood = [roles, _criteria_text(criteria, distances), unit_text]
    unused = [name for name in table.names if name not in {*other_columns, *criteria}]
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
    """Return the unit in a word and its column: the patient, else the image, else the item.

    Without a column every row is a unit.
    """
    patient = column_of(table, ALIASES["patient"])
    columns = {"patient": patient, "image": image, "item": item}
    if choice is None:
        for word, column in columns.items():
            if column:
                return word, column
        return "item", None
    chosen_column = None
    if choice not in table.names:
        chosen_column = columns.get(choice)
    if chosen_column is None:
        chosen_column = existing_column(table, "cluster", choice)
    for word, column in columns.items():
        if column == chosen_column:
            return word, chosen_column
    return chosen_column, chosen_column


def _criteria(
    table: Table, choices: RatingChoices, other_columns: set[str | None]
) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the columns that are criteria, and those of them that are distances."""
    names: list[str] = []
    if choices.criteria is None:
        for name in table.names:
            is_criterion = CRITERION.search(plain_name(name)) or name in choices.distances
            if is_criterion and name not in other_columns:
                names.append(name)
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
            suggestion = did_you_mean(name, names or table.names)
            raise UsageError(f"the distance {name!r} is no criterion; {suggestion}")
    distances = {name for name in names if DISTANCE.search(plain_name(name))}
    return tuple(names), frozenset(distances.union(choices.distances))


def _criteria_text(criteria: Sequence[str], distances: frozenset[str]) -> str:
    if not criteria:
        return "no column is a criterion"
    names = []
    for name in criteria:
        names.append(f"{name} (small is good)" if name in distances else name)
    return f"criteria: {', '.join(names)}"
