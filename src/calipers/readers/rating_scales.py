# SPDX-License-Identifier: Apache-2.0
"""Interpret the cells of a rating column: two words, or the steps of a scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, UsageError, did_you_mean
from calipers.readers.parts import Problem
from calipers.readers.rating_columns import RatingChoices
from calipers.readers.tabular import PLAIN_NUMBER, Table, texts
from calipers.tables.ratings import SCALES, Scale

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

USEFUL = {"useful", "1", "yes", "true", "y"}
NOT_USEFUL = {"not useful", "not-useful", "not_useful", "useless", "0", "no", "false", "n"}
TWO = ("not useful", "useful")
MOST_CATEGORIES = 50


@dataclass(frozen=True)
class RatedColumn:
    """The column as numbers of categories."""

    code: I64  # (n,) -1 where a cell is a problem
    categories: tuple[str, ...]
    values: F64
    scale: Scale
    useful: Flags | None
    understood: tuple[str, ...]

    def take(self, rows: I64) -> RatedColumn:
        """Return some rows."""
        useful = None if self.useful is None else self.useful[rows]
        return replace(self, code=self.code[rows], useful=useful)


def read_scale(
    table: Table, column: str, choices: RatingChoices
) -> tuple[RatedColumn, dict[int, Problem]]:
    """Return the ratings as categories, and the cells that are empty or none of them."""
    if choices.scale is not None and choices.scale not in SCALES:
        raise UsageError(f"no scale {choices.scale!r}; {did_you_mean(choices.scale, SCALES)}")
    cells = [cell.strip() for cell in texts(table, column)]
    distinct = list(dict.fromkeys(cell for cell in cells if cell))
    labels, categories, note = _categories(cells, distinct, choices)
    index = {category: k for k, category in enumerate(categories)}
    code = np.array([index.get(label, -1) for label in labels], np.int64)
    problems = {}
    for row in np.flatnonzero(code < 0).tolist():
        problems[row] = _problem(table, column, row, cells[row], categories)
    if len(categories) > MOST_CATEGORIES:
        hint = "is this a column of ratings? Name it with --rating"
        expected = f"at most {MOST_CATEGORIES} different ratings"
        raise InputError(
            expected,
            rule="rating-value",
            file=table.file,
            field=column,
            value=len(categories),
            hint=hint,
        )
    scale, values = _scale(categories, choices)
    useful = _useful(code, categories, choices)
    return RatedColumn(code, categories, values, scale, useful, (note, f"scale: {scale}")), problems


def _categories(
    cells: Sequence[str], distinct: Sequence[str], choices: RatingChoices
) -> tuple[Sequence[str], tuple[str, ...], str]:
    """Return the label of every row, the categories in order, and a note on them."""
    if choices.categories is not None:
        categories = tuple(choices.categories)
        if len(set(categories)) < max(len(categories), 2):
            raise UsageError(
                f"categories are two or more different names, got {', '.join(categories)!r}"
            )
        return cells, categories, f"ratings: {' < '.join(categories)}"
    words = {}
    for cell in distinct:
        if cell.lower() in USEFUL | NOT_USEFUL:
            words[cell] = TWO[cell.lower() in USEFUL]
    all_numbers = all(PLAIN_NUMBER.match(cell) for cell in distinct)
    if choices.useful is None and words and (len(words) == len(distinct) or not all_numbers):
        meanings = [f"{cell} is {word}" for cell, word in words.items() if cell != word]
        labels = [words.get(cell, cell) for cell in cells]
        return labels, TWO, f"ratings: {', '.join(meanings or TWO)}"
    if all_numbers:
        steps = {cell: float(cell) for cell in distinct}  # 2 and 2.0 are one step
        categories = tuple(f"{step:g}" for step in sorted(set(steps.values())))
        names = {cell: f"{step:g}" for cell, step in steps.items()}
        labels = [names.get(cell, "") for cell in cells]
        return labels, categories, f"ratings: {' < '.join(categories)}"
    categories = tuple(sorted(distinct))
    return cells, categories, f"ratings: {', '.join(categories)}, in no order"


def _problem(table: Table, column: str, row: int, cell: str, categories: Sequence[str]) -> Problem:
    if not cell:
        hint = "--lenient leaves such rows out and counts them"
        return table.problem(row, column, "rating-missing", "a rating", "", hint)
    expected = f"one of {', '.join(categories)}"
    options = "--useful VALUE,... or --categories LOWEST,...,HIGHEST"
    hint = f"{did_you_mean(cell, categories)} Other words: {options}"
    return table.problem(row, column, "rating-value", expected, cell, hint)


def _scale(categories: tuple[str, ...], choices: RatingChoices) -> tuple[Scale, F64]:
    """Return the scale, and the categories as numbers (their ranks if they are none)."""
    all_numbers = bool(categories) and all(PLAIN_NUMBER.match(name) for name in categories)
    has_order = all_numbers or choices.categories is not None or categories == TWO
    default: Scale = "ordinal" if has_order and len(categories) > 2 else "nominal"
    scale = choices.scale or default
    if scale == "interval" and not all_numbers and len(categories) > 2:
        raise UsageError("an interval scale needs ratings that are numbers")
    if scale == "ordinal" and not has_order:
        raise UsageError(
            "the order of the ratings is not known: give --categories LOWEST,...,HIGHEST"
        )
    if all_numbers:
        return scale, np.array(list(map(float, categories)), np.float64)
    return scale, np.arange(len(categories), dtype=np.float64)


def _useful(code: I64, categories: tuple[str, ...], choices: RatingChoices) -> Flags | None:
    """Return which ratings count as useful; None if neither the user nor the words tell."""
    if choices.useful is not None:
        for name in choices.useful:
            if name not in categories:
                suggestion = did_you_mean(name, categories)
                raise UsageError(
                    f"no rating is {name!r}, so it cannot count as useful; {suggestion}"
                )
        return np.isin(code, [categories.index(name) for name in choices.useful])
    words = [category.lower() for category in categories]
    if not set(words) <= USEFUL | NOT_USEFUL:
        return None
    return np.isin(code, [k for k, word in enumerate(words) if word in USEFUL])
