# SPDX-License-Identifier: Apache-2.0
"""Read a table of ratings: people's verdicts on predictions, beside the localization criteria.

`calipers.agreement.agreement` calls `read_ratings` with a file or with columns from memory and gets
`Ratings`. Columns are found by the user's choice or by their names (`COLUMNS`); the cells of
ratings are two words or the steps of a scale. Every cell is checked, and the result says in words
how the table was interpreted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I64, Flags
from calipers.data.cohort import FileIntake
from calipers.data.look_alikes import note_on_names
from calipers.errors import InputError, UsageError, did_you_mean, spelled
from calipers.io.reader import Problem
from calipers.io.tables.columns import (
    OBJECTS,
    ColumnSpec,
    declare,
    existing_column,
    find_columns,
)
from calipers.io.tables.table import (
    PLAIN_NUMBER,
    YES_NO,
    FileTable,
    codes,
    empty,
    numbers,
    open_table,
    texts,
)

Scale = Literal["nominal", "ordinal", "interval"]
LONGEST_STEP = 30  # digits before or behind the point
SCALES: tuple[Scale, ...] = ("nominal", "ordinal", "interval")

COLUMNS = declare(
    ColumnSpec(
        "rating",
        ("rating", "useful", "usefulness", "verdict"),
        required=True,
        hint="name it with --rating COLUMN",
    ),
    ColumnSpec("rater", ("rater", "rater_id", "reader", "clinician", "annotator", "observer")),
    ColumnSpec("item", ("item", "item_id", "prediction", "prediction_id")),
    replace(OBJECTS["image"], required=False),
    OBJECTS["patient"],
)
# Names of overlaps and distances, as words between hyphens: `biopsy` is no `iop`.
CRITERION = re.compile(
    r"(^|-)(g|c|d|complete-)?iou(-|$)|(^|-)(iop|ior|iobb|dice|hausdorff|overlap|distance)(-|$)|-in-"
)
DISTANCE = re.compile(r"(^|-)distance(-|$)")

USEFUL = {"useful", *(cell for cell, meaning in YES_NO.items() if meaning)}
NOT_USEFUL = {"not useful", "not-useful", "not_useful", "useless", *(YES_NO.keys() - USEFUL)}
TWO = ("not useful", "useful")
MOST_CATEGORIES = 50
LARGEST = 1e50  # of a rating: products of squares are numbers

Problems = dict[int, Problem]  # by row, the first of each


@dataclass(frozen=True, slots=True)
class NameCodes:
    """A column of names as numbers."""

    code: I64  # (n,)
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, slots=True)
class Ratings:
    """One row per rating: the item, the rater, the category, and the criteria of the item."""

    name: str
    code: I64  # (n,) category of each rating
    categories: tuple[str, ...]  # in the order of the scale, if it has one
    values: F64  # (q,) the categories as numbers, else their ranks
    scale: Scale
    useful: Flags | None  # (n,) None if it is unknown which categories count as useful
    criteria: Mapping[str, F64]  # (n,) each
    distances: frozenset[str]  # criteria that are better when small
    item: NameCodes
    rater: NameCodes | None
    image: NameCodes | None
    unit: str  # what is resampled, such as the patient
    units: I64 | None  # (n,) None: every row is a unit
    intake: FileIntake
    understood: tuple[str, ...]  # how the table was read, in words

    def __len__(self) -> int:
        return len(self.code)

    @property
    def repeated(self) -> bool:
        """Whether an item has several ratings, so that raters can be compared."""
        return len(self.item) < len(self)

    def yes_no(self, criterion: str) -> bool:
        """Return whether a criterion takes only the values 0 and 1, and is no distance."""
        if criterion in self.distances:
            return False
        return bool(np.isin(self.criteria[criterion], (0.0, 1.0)).all())


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


def find_rating_columns(table: FileTable, choices: RatingChoices) -> RatingColumns:
    """Return the columns by meaning, and in words how they were interpreted."""
    names = {"rating": choices.rating, "rater": choices.rater, "item": choices.item}
    columns = find_columns(table, COLUMNS, names)
    rating = columns["rating"]
    rater, item, image = (columns.get(name) for name in ("rater", "item", "image"))
    unit, cluster = _cluster(table, choices.cluster, columns)
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
    table: FileTable, choice: str | None, by_meaning: Mapping[str, str]
) -> tuple[str, str | None]:
    """Return the unit in a word and its column: the patient, else the image, else the item.

    Without a column every row is a unit.
    """
    # The largest unit that is known: ratings of one patient depend on each other.
    columns = {word: by_meaning.get(word) for word in ("patient", "image", "item")}
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
    table: FileTable, choices: RatingChoices, other_columns: set[str | None]
) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the columns that are criteria, and those of them that are distances."""
    names: list[str] = []
    named_distances = [spelled(name, table.names) for name in choices.distances]
    if choices.criteria is None:
        for name in table.names:
            is_criterion = CRITERION.search(plain_name(name)) or name in named_distances
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
    # A distance that nobody uses is a slip of the pen.
    for name in named_distances:
        if name not in names:
            suggestion = did_you_mean(name, names or table.names)
            raise UsageError(f"the distance {name!r} is not a criterion; {suggestion}")
    distances = {name for name in names if DISTANCE.search(plain_name(name))}
    return tuple(names), frozenset(distances.union(named_distances))


def _criteria_text(criteria: Sequence[str], distances: frozenset[str]) -> str:
    if not criteria:
        return "no column is a criterion"
    names = []
    for name in criteria:
        names.append(f"{name} (small is good)" if name in distances else name)
    return f"criteria: {', '.join(names)}"


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
    table: FileTable, column: str, choices: RatingChoices
) -> tuple[RatedColumn, dict[int, Problem]]:
    """Return the ratings as categories, and the cells that are empty or none of them."""
    if choices.scale is not None and choices.scale not in SCALES:
        raise UsageError(f"no scale {choices.scale!r}; {did_you_mean(choices.scale, SCALES)}")
    cells = [cell.strip() for cell in texts(table, column)]
    # In the order of the table, so that messages name the first ones.
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
    words, meanings = {}, []
    for cell in distinct:
        if cell.lower() in USEFUL | NOT_USEFUL:
            words[cell] = TWO[cell.lower() in USEFUL]
            if cell != words[cell]:
                meanings.append(f"{cell} is {words[cell]}")
    all_numbers = all(map(PLAIN_NUMBER.match, distinct))
    # Numbers among words: 0 and 1 are steps of a scale if other numbers occur.
    if choices.useful is None and words and (len(words) == len(distinct) or not all_numbers):
        labels = [words.get(cell, cell) for cell in cells]
        return labels, TWO, f"ratings: {', '.join(meanings or TWO)}"
    if all_numbers:
        # 2 and 2.0 are one step. Exact, because floats round: 2^53 and 2^53 + 1 are two.
        steps = {cell: Decimal(cell.strip()) for cell in distinct}
        name_of = {step: _step_name(step) for step in sorted(steps.values())}
        categories = tuple(name_of.values())
        names = {cell: name_of[step] for cell, step in steps.items()}
        labels = [names.get(cell, "") for cell in cells]
        return labels, categories, f"ratings: {' < '.join(categories)}"
    categories = tuple(sorted(distinct))
    return cells, categories, f"ratings: {', '.join(categories)}, in no order"


def _step_name(step: Decimal) -> str:
    """Return a number as people write it; different numbers have different names."""
    short = f"{float(step):g}"
    if Decimal(short) == step:
        return short
    # A number of thousands of digits is better kept as it was written.
    if abs(step.adjusted()) > LONGEST_STEP:
        return str(step)
    text = f"{step:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _problem(
    table: FileTable, column: str, row: int, cell: str, categories: Sequence[str]
) -> Problem:
    if not cell:
        hint = "--lenient leaves such rows out and counts them"
        return table.problem(row, column, "rating-missing", "a rating", "", hint)
    expected = f"one of {', '.join(categories)}"
    options = "--useful VALUE,... or --categories LOWEST,...,HIGHEST"
    hint = f"{did_you_mean(cell, categories)} (other words: {options})"
    return table.problem(row, column, "rating-value", expected, cell, hint)


def _scale(categories: tuple[str, ...], choices: RatingChoices) -> tuple[Scale, F64]:
    """Return the scale, and the categories as numbers (their ranks if they are none)."""
    all_numbers = bool(categories) and all(PLAIN_NUMBER.match(name) for name in categories)
    has_order = all_numbers or choices.categories is not None or categories == TWO
    # Two categories have no partial agreement: every scale is nominal then.
    default: Scale = "ordinal" if has_order and len(categories) > 2 else "nominal"
    scale = choices.scale or default
    if scale == "interval" and not all_numbers and len(categories) > 2:
        raise UsageError("an interval scale needs ratings that are numbers")
    if scale == "ordinal" and not has_order:
        raise UsageError(
            "the order of the ratings is not known: give --categories LOWEST,...,HIGHEST"
        )
    if all_numbers:
        values = np.array(list(map(float, categories)), np.float64)
        largest = np.abs(values).max()
        if scale == "interval" and largest and not 1 / LARGEST <= largest <= LARGEST:
            raise UsageError(
                f"an interval scale needs ratings whose squares are numbers; the largest is "
                f"{largest:g}, give them in another unit"
            )
        return scale, values
    return scale, np.arange(len(categories), dtype=np.float64)


def _useful(code: I64, categories: tuple[str, ...], choices: RatingChoices) -> Flags | None:
    """Return which ratings count as useful; None if neither the user nor the words tell."""
    if choices.useful is not None:
        if not choices.useful:
            raise UsageError("useful names one or more ratings; leave it out if their words tell")
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


def read_ratings(
    source: Any, choices: RatingChoices | None = None, *, lenient: bool = False
) -> Ratings:
    """Read a table with a row per rating.

    Parameters
    ----------
    source
        A file (CSV, TSV or parquet), or columns by name: a mapping of arrays, a pandas frame.
    choices
        Which column is what; what is left out is found by its name.
    lenient
        Set rows aside that lack a rating, a criterion or their unit, or that hold an unexpected
        value, and count them. Otherwise the first hundred of them are the error.
    """
    table, choices = table_of(source), choices or RatingChoices()
    columns = find_rating_columns(table, choices)
    reading, problems = read_scale(table, columns.rating, choices)
    criteria, more = _criterion_columns(table, columns)
    # One problem per row: that of the rating if there is one, then that of a criterion.
    problems = {**_rows_without_names(table, columns), **more, **problems}
    sound_rows = _sound_rows(table, problems, lenient)
    part = table.rows(sound_rows)
    item, rater = _item(part, columns), _name_codes(part, columns.rater)
    _check_rows(part, columns, item, rater)
    criteria = {name: values[sound_rows] for name, values in criteria.items()}
    _check_items(part, item, criteria)
    set_aside = Counter(problem.rule for problem in (*table.problems, *problems.values()))
    notes = [*table.notes, *_look_alikes(part, columns)]
    intake = table.intake("ratings", notes, len(part), set_aside)
    ratings = _assemble(part, columns, reading.take(sound_rows), criteria, intake)
    if not criteria and not ratings.repeated:
        raise InputError(
            "a column of a criterion, or several ratings per item",
            rule="no-criteria",
            file=table.file,
            value=list(table.names),
            hint="name the columns with --criteria COLUMN,... or --item COLUMN",
        )
    return ratings


def table_of(source: Any) -> FileTable:
    """Return a table of ratings from a file, a mapping of columns or a frame."""
    if isinstance(source, FileTable):
        return source
    if isinstance(source, str | PathLike):
        return open_table(fspath(source), ragged=True)
    if not isinstance(source, Mapping) and not hasattr(source, "columns"):
        raise UsageError(
            f"ratings are a file, a mapping of columns or a frame, not {type(source).__name__}"
        )
    names = list(source.columns) if hasattr(source, "columns") else list(source)
    cells = {str(name): _cells(str(name), source[name]) for name in names}
    if len(cells) < len(names):
        (twice, _), *_ = Counter(map(str, names)).most_common(1)
        raise InputError("columns with different names", rule="dup-column", value=twice)
    if len({len(column) for column in cells.values()}) > 1:
        lengths = {name: len(column) for name, column in cells.items()}
        raise InputError("columns of one length", rule="length", value=lengths)
    n = len(next(iter(cells.values()), []))
    return FileTable("<arrays>", "arrays", cells, np.arange(n), by_line=False)


def _cells(name: str, column: Any) -> list[str] | NDArray[Any]:
    """Return numbers as an array and everything else as text; None and NaN are empty cells."""
    # NumPy would read what lies below a mask as if it were data.
    if np.ma.is_masked(column):
        value = "an array with masked entries"
        raise InputError("a value for every row, or None", rule="type", field=name, value=value)
    try:
        array = np.asarray(column)
    except ValueError:
        raise InputError("one value per row", rule="type", field=name, value=column) from None
    if array.ndim != 1:
        raise InputError(
            "one value per row", rule="length", field=name, value=f"an array of shape {array.shape}"
        )
    if array.dtype.kind in "iuf":
        return array
    if array.dtype.kind == "b":
        return array.astype(np.int8)
    cells = []
    for cell in array.tolist():
        if isinstance(cell, list | tuple | dict | np.ndarray):
            raise InputError("one value per row", rule="type", field=name, value=cell)
        # NaN differs from itself, and so does the NaT of pandas; its NA differs from nothing.
        is_missing = cell is None or type(cell).__name__ == "NAType" or cell != cell
        cells.append("" if is_missing else str(cell))
    return cells


def _criterion_columns(
    table: FileTable, columns: RatingColumns
) -> tuple[dict[str, NDArray[np.float64]], Problems]:
    """Return the criteria as numbers, and the rows in which one is missing or no number."""
    criteria: dict[str, NDArray[np.float64]] = {}
    problems: Problems = {}
    hint = (
        "a prediction that touches no reference has an overlap of 0 and a distance larger than any "
        "other"
    )
    for name in columns.criteria:
        cells = table.columns[name]
        # A criterion may say yes or no in words.
        values, bad = numbers(table, name, yes_no=True)
        for row in np.flatnonzero(empty(cells)).tolist():
            expected = "a value of the criterion"
            bad[row] = table.problem(row, name, "criterion-missing", expected, "", hint)
        for row in np.flatnonzero(~np.isfinite(values)).tolist():
            if row not in bad:
                expected = "a finite number"
                bad[row] = table.problem(row, name, "non-finite", expected, cells[row], hint)
        low, high, expected = _value_range(name, name in columns.distances)
        for row in np.flatnonzero((values < low) | (values > high)).tolist():
            if row not in bad:
                percent = "write 0.55 for 55 %"
                bad[row] = table.problem(
                    row, name, "criterion-range", expected, cells[row], percent
                )
        criteria[name] = values
        problems = {**bad, **problems}
    return criteria, problems


def _value_range(name: str, distance: bool) -> tuple[float, float, str]:
    """Return between which numbers a criterion of this name lies, and in words."""
    if distance:
        return 0.0, np.inf, "a distance, which is not negative"
    if "giou" in name.lower() or "ciou" in name.lower():
        return -np.inf, 1.0, "an overlap of at most 1"
    if "iou" in name.lower() or "dice" in name.lower():
        return 0.0, 1.0, "an overlap between 0 and 1"
    return -np.inf, np.inf, "a number"


def _rows_without_names(table: FileTable, columns: RatingColumns) -> Problems:
    """Return the rows without a rater, an item or a unit."""
    problems: Problems = {}
    for name in dict.fromkeys((columns.rater, columns.item, columns.cluster, columns.image)):
        if name is not None:
            for row in np.flatnonzero(empty(table.columns[name])).tolist():
                problems[row] = table.problem(
                    row, name, "missing-group", f"the {name} of every rating", ""
                )
    return problems


def _sound_rows(table: FileTable, problems: Problems, lenient: bool) -> I64:
    """Return the rows without a problem; strict reading raises all problems instead."""
    if not lenient:
        all_problems = [*table.problems, *(problems[row] for row in sorted(problems))]
        table.refuse(all_problems)
    sound_rows = np.setdiff1d(np.arange(len(table)), np.array(list(problems), np.int64))
    if not len(sound_rows):
        raise InputError(
            "at least one rating", rule="no-ratings", file=table.file, value=f"{len(table)} rows"
        )
    return sound_rows


def _name_codes(table: FileTable, column: str | None) -> NameCodes | None:
    if column is None:
        return None
    numbered, names = codes([cell.strip() for cell in texts(table, column)])
    return NameCodes(numbered, tuple(names))


def _look_alikes(table: FileTable, columns: RatingColumns) -> Iterator[str]:
    """Yield the notes on raters, items and units whose names look alike."""
    for column in dict.fromkeys((columns.rater, columns.item, columns.cluster)):
        names = _name_codes(table, column)
        if column is None or names is None:
            continue
        yield from note_on_names(column, names.names)
        cells = dict.fromkeys(texts(table, column))
        n_merged = len(cells) - len(names)
        if n_merged:
            yield (
                f"{column}: {n_merged} of {len(cells)} names differ from another one by blanks at "
                "their ends only, and count as that one"
            )


def _item(table: FileTable, columns: RatingColumns) -> NameCodes:
    """Return the items; without a column every row is one."""
    item_codes = _name_codes(table, columns.item)
    return item_codes or NameCodes(
        np.arange(len(table)), tuple(str(line) for line in table.lines.tolist())
    )


def _check_rows(
    table: FileTable, columns: RatingColumns, item: NameCodes, rater: NameCodes | None
) -> None:
    """Refuse a second rating of one item by one rater, and an item in two units."""
    earlier_pairs: set[tuple[int, int]] = set()
    if rater is not None:
        for row, pair in enumerate(zip(item.code.tolist(), rater.code.tolist())):
            if pair in earlier_pairs:
                name, who = item.names[pair[0]], rater.names[pair[1]]
                expected = f"one rating of {name!r} by {who!r}"
                raise table.error(
                    row, columns.rating, "dup-rating", expected, texts(table, columns.rating)[row]
                )
            earlier_pairs.add(pair)
    for column in dict.fromkeys((columns.cluster, columns.image)):
        if column is not None:
            _one_per_item(table, column, item, [cell.strip() for cell in texts(table, column)])


def _check_items(
    table: FileTable, item: NameCodes, criteria: Mapping[str, NDArray[np.float64]]
) -> None:
    # Criteria belong to the prediction, not to its raters.
    for name, values in criteria.items():
        _one_per_item(table, name, item, values.tolist())


def _one_per_item(table: FileTable, column: str, item: NameCodes, cells: Sequence[Any]) -> None:
    first_values: dict[int, Any] = {}
    for row, (k, cell) in enumerate(zip(item.code.tolist(), cells)):
        if first_values.setdefault(k, cell) != cell:
            expected = f"{first_values[k]!r} as in the other rows of item {item.names[k]!r}"
            hint = "a rating is of one prediction: give each its own name in the column of items"
            raise table.error(row, column, "item-conflict", expected, cell, hint)


def _assemble(
    table: FileTable,
    columns: RatingColumns,
    reading: RatedColumn,
    criteria: Mapping[str, NDArray[np.float64]],
    intake: FileIntake,
) -> Ratings:
    item, unit = _item(table, columns), _name_codes(table, columns.cluster)
    # Several ratings of an item depend on each other, also where nothing says so.
    if unit is None and columns.unit == "item" and len(item) < len(table):
        unit = item
    name = "ratings" if table.format == "arrays" else Path(table.file).stem
    return Ratings(
        name=name,
        code=reading.code,
        categories=reading.categories,
        values=reading.values,
        scale=reading.scale,
        useful=reading.useful,
        criteria=criteria,
        distances=columns.distances,
        item=item,
        rater=_name_codes(table, columns.rater),
        image=_name_codes(table, columns.image),
        unit=columns.unit,
        units=None if unit is None else unit.code,
        intake=intake,
        understood=(*columns.understood, *reading.understood),
    )
