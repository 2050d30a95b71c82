# SPDX-License-Identifier: Apache-2.0
"""Formulas such as ``iou ~ size + type + size:type``, the columns they name, and their matrix.

In come a formula and any table (pandas frame, arrow table, mapping of columns, file), out goes the
design matrix with the names of its columns, to the models of `calipers.regression`.

A column of a CSV file is a number if every cell is one, and a text if none is; if it is mixed, the
user has to declare it. Tables in memory and parquet files have types of their own. ``C(age)`` in
the formula makes categories of numbers.

Numbers are used as they are. A category gets a column for each level but the first, which is the
*reference level*: coefficients say how much another level differs from it. Where the term without
the category is not in the model, the category gets a column for every level instead (Wilkinson and
Rogers 1973, as in R).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, Flags
from calipers.errors import InputError, UsageError, did_you_mean, spelled
from calipers.io.tables.table import Cells, FileTable, empty, numbers, texts

TOKEN = re.compile(
    r"\s*(?:C\(\s*(?:`(?P<quoted_category>[^`]+)`|(?P<category>[^\W\d][\w.]*))\s*\)"
    r"|`(?P<quoted>[^`]+)`|(?P<name>[^\W\d][\w.]*)|(?P<number>[01])(?!\w)|(?P<sign>[+\-:]))"
)
KINDS = {"quoted": "name", "quoted_category": "category"}  # of tokens in backquotes
PLAIN = re.compile(r"[^\W\d][\w.]*")
GRAMMAR = (
    "write y ~ a + b + a:b; C(a) makes categories of numbers, -1 removes the intercept, names with "
    "other characters go in `backquotes`"
)

MEMORY = "<table>"

INTERCEPT = "intercept"
Piece = tuple[
    frozenset[str], frozenset[str]
]  # categories against their first level, categories with every level
MOST_CELLS = 10**8  # 800 MB
MOST_EFFECTS = 250  # time grows with their square, and nobody reads more
LARGEST = 1e50  # of a column: products of three columns, squared, are numbers
DEPENDENT = 1e-9  # of a column's length that the columns before it do not explain


@dataclass(frozen=True)
class Formula:
    """A response and the terms that explain it; a term is one column, or several for an
    interaction.
    """

    response: str  # "" if the formula leaves it out
    terms: tuple[tuple[str, ...], ...]  # main effects before interactions
    intercept: bool
    categories: frozenset[str] = frozenset()  # written as C(name): categories, even if numbers

    @classmethod
    def parse(cls, text: str) -> Formula:
        """Return the formula written in ``text``.

        Examples
        --------
        >>> Formula.parse("iou ~ size + type:size + type").terms
        (('size',), ('type',), ('type', 'size'))
        >>> str(Formula.parse("iou ~ size + C(age)"))
        'iou ~ size + C(age)'
        """
        if "|" in text:
            raise UsageError(
                f"random intercepts are not part of the formula {text!r}: "
                "name their columns as groups (--nested; --groups for a table of measurements)"
            )
        left_side, sign, right_side = text.partition("~")
        if not sign or "~" in right_side:
            raise UsageError(f"a formula has one ~, not {text!r}; {GRAMMAR}")
        response = _tokens(left_side, text)
        if len(response) > 1 or (response and response[0][0] != "name"):
            raise UsageError(
                f"one column stands before the ~, not {left_side.strip()!r}; {GRAMMAR}"
            )
        name = response[0][1] if response else ""
        tokens = _tokens(right_side, text)
        terms, intercept = _terms(tokens, text)
        if not terms and not intercept:
            raise UsageError(f"nothing is left to fit in {text!r}; {GRAMMAR}")
        if any(name in term for term in terms):
            raise UsageError(f"{name!r} cannot be its own predictor in {text!r}")
        categories = frozenset(word for kind, word in tokens if kind == "category")
        for word in [word for kind, word in tokens if kind == "name"]:
            if word in categories:
                raise UsageError(
                    f"{word!r} is a number and a category in {text!r}: write one of them"
                )
        # A stable sort: terms of equal length stay in the order of the text, as in R.
        return cls(name, tuple(sorted(terms, key=len)), intercept, categories)

    def spelled_as(self, columns: Iterable[str]) -> Formula:
        """Return the formula with columns of another spelling as the table has them."""
        names = list(columns)
        terms = []
        for term in self.terms:
            terms.append(tuple(spelled(name, names) for name in term))
        categories = frozenset(spelled(name, names) for name in self.categories)
        response = spelled(self.response, names)
        return replace(self, response=response, terms=tuple(terms), categories=categories)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that explain, each once."""
        return tuple(dict.fromkeys(name for term in self.terms for name in term))

    def __str__(self) -> str:
        terms = [":".join(map(self._factor, term)) for term in self.terms]
        if not self.intercept:
            terms.insert(0, "0")
        elif not terms:
            terms = ["1"]
        response = _name_in_formula(self.response) if self.response else ""
        return f"{response} ~ {' + '.join(terms)}".strip()

    def _factor(self, name: str) -> str:
        text = _name_in_formula(name)
        return f"C({text})" if name in self.categories else text


def term_name(term: tuple[str, ...]) -> str:
    """Return a term as it is written in a formula."""
    return ":".join(term)


def _name_in_formula(name: str) -> str:
    return name if PLAIN.fullmatch(name) else f"`{name}`"


def _tokens(text: str, formula: str) -> list[tuple[str, str]]:
    """Return (kind, text) of the parts: name, number or sign."""
    tokens, at = [], 0
    while text[at:].strip():
        match = TOKEN.match(text, at)
        if match is None:
            raise UsageError(
                f"cannot read {text[at:].strip()!r} in the formula {formula!r}; {GRAMMAR}"
            )
        kind = match.lastgroup or ""
        tokens.append((KINDS.get(kind, kind), match[kind]))
        at = match.end()
    return tokens


def _terms(tokens: list[tuple[str, str]], formula: str) -> tuple[list[tuple[str, ...]], bool]:
    """Return the terms of the right-hand side, each once, and whether there is an intercept."""
    terms: dict[frozenset[str], tuple[str, ...]] = {}
    intercept = True
    for sign, part in _summands(tokens, formula):
        kinds = [kind for kind, _ in part]
        if kinds == ["number"]:
            intercept = (part[0][1] == "1") == (sign == "+")
        elif sign == "-" or "number" in kinds:
            raise UsageError(f"only the intercept can be removed, as -1, in {formula!r}")
        else:
            # `a:a` is `a`, and `a:b` is `b:a`.
            names = tuple(dict.fromkeys(name for _, name in part))
            terms.setdefault(frozenset(names), names)
    return list(terms.values()), intercept


def _summands(
    tokens: list[tuple[str, str]], formula: str
) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return (sign, factors) of every summand; signs and factors have to alternate."""
    summands: list[tuple[str, list[tuple[str, str]]]] = []
    expected = "factor"
    if not tokens or tokens[0][0] != "sign":
        tokens = [("sign", "+"), *tokens]
    for kind, text in tokens:
        if kind == "sign" and text != ":" and (expected == "sign" or not summands):
            summands.append((text, []))
            expected = "factor"
        elif kind == "sign" and text == ":" and expected == "sign":
            expected = "factor"
        elif kind != "sign" and expected == "factor" and summands:
            summands[-1][1].append((kind, text))
            expected = "sign"
        else:
            raise UsageError(
                f"{text!r} is not expected at its place in the formula {formula!r}; {GRAMMAR}"
            )
    if expected == "factor":
        raise UsageError(f"the formula {formula!r} is incomplete; {GRAMMAR}")
    return summands


@dataclass(frozen=True)
class Frame:
    """A table, and the declared order of the values of its columns."""

    table: FileTable
    orders: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # columns that are categories, whatever they hold

    @classmethod
    def of(
        cls, source: Any, required: Sequence[str], levels: Mapping[str, Sequence[Any]] | None = None
    ) -> Frame:
        """Return the frame of any table.

        Parameters
        ----------
        required
            The columns that will be used; those of tables in memory are converted, others are not
            looked at.
        levels
            Declares columns as categories, in this order.
        """
        orders_from_levels = {
            name: tuple(map(str, values)) for name, values in (levels or {}).items()
        }
        if isinstance(source, Frame):
            frame = cls(source.table, {**source.orders, **orders_from_levels})
        elif isinstance(source, FileTable):
            frame = cls(source, orders_from_levels)
        else:
            columns, orders = _columns(source, [*required, *orders_from_levels])
            n = len(next(iter(columns.values()), ()))
            frame = cls(
                FileTable(MEMORY, "memory", columns, np.arange(n), False),
                {**orders, **orders_from_levels},
            )
        for name in (*required, *orders_from_levels):
            frame.require(name)
        return frame

    def __len__(self) -> int:
        return len(self.table)

    def require(self, name: str) -> None:
        """Raise if there is no such column."""
        _require(name, self.table.names, self.table.file)

    def declared(self, names: Iterable[str]) -> Frame:
        """Return the frame with columns declared as categories, numbers in ascending order."""
        orders = dict(self.orders)
        for name in names:
            if name in orders:  # the user has said more: in which order
                continue
            levels = sorted(set(self.texts(name)[~empty(self.table.columns[name])].tolist()))
            if all(map(_is_number, levels)):
                levels.sort(key=float)
            orders[name] = tuple(levels)
        return Frame(self.table, orders)

    def is_category(self, name: str) -> bool:
        """Return whether a column holds categories; a mixture of numbers and other texts is an
        error.
        """
        cells = self.table.columns[name]
        if name in self.orders:
            return True
        if isinstance(cells, np.ndarray):
            return False
        # Tables in memory and parquet files say what is text; cells of CSV files are all text.
        if self.table.format != "csv":
            return True
        _, problems = numbers(self.table, name)
        if problems and len(problems) < int((~empty(cells)).sum()):
            row, problem = next(iter(problems.items()))
            usual = f"if these are categories, declare them as levels: C({name}) in the formula"
            hint = problem.hint or usual
            expected = "a number, as in other rows"
            raise self.table.problem(row, name, "type", expected, cells[row], hint).as_error(
                self.table.file
            )
        return bool(problems)

    def numbers(self, name: str) -> F64:
        """Return a column as numbers, NaN where a cell is empty; a text is an error that says
        where.
        """
        cells = self.table.columns[name]
        values, problems = numbers(self.table, name)
        for problem in problems.values():
            raise problem.as_error(self.table.file)
        if (
            not isinstance(cells, np.ndarray)
            and self.table.format != "csv"
            and not empty(cells).all()
        ):
            row = int(np.flatnonzero(~empty(cells))[0])
            raise self.table.problem(row, name, "type", "a number", cells[row]).as_error(
                self.table.file
            )
        infinite = np.flatnonzero(np.isinf(values))
        if len(infinite):
            row = int(infinite[0])
            raise self.table.problem(
                row, name, "non-finite", "a finite number", values[row]
            ).as_error(self.table.file)
        size = np.abs(values[~np.isnan(values)])
        largest = float(size.max(initial=0.0))
        if largest > 0 and not 1 / LARGEST < largest < LARGEST:
            row = int(np.nanargmax(np.abs(values)))
            expected = f"numbers of which the largest is between {1 / LARGEST:g} and {LARGEST:g}"
            hint = f"squares of {name} are beyond what a computer holds: choose another unit"
            raise self.table.problem(row, name, "range", expected, values[row], hint).as_error(
                self.table.file
            )
        return values

    def texts(self, name: str) -> NDArray[np.str_]:
        """Return a column as text, empty where a cell is."""
        return np.array(texts(self.table, name), np.str_)

    def missing(self, name: str, *, as_text: bool = False) -> Flags:
        """Return which cells of a column hold nothing; a number that is NaN is nothing, a text
        ``nan`` is a text.
        """
        if as_text or self.is_category(name):
            return empty(self.table.columns[name])
        return np.isnan(self.numbers(name))

    def rows(self, rows: NDArray[np.int64]) -> Frame:
        """Return the frame with only these rows; errors still name the original ones."""
        return Frame(self.table.rows(rows), self.orders)

    def with_column(self, name: str, cells: Cells, order: tuple[str, ...] | None = None) -> Frame:
        """Return the frame with a column added or replaced; with an ``order`` it is one of
        categories.
        """
        orders = {key: value for key, value in self.orders.items() if key != name}
        table = replace(self.table, columns={**self.table.columns, name: cells})
        return Frame(table, orders if order is None else {**orders, name: order})


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def numeric_column(cells: NDArray[Any]) -> F64 | None:
    """Return a column of text as numbers, NaN where a cell is empty; None if a cell is no number.

    Tables of images are text throughout: an age is a number all the same.
    """
    words = [str(cell).strip() for cell in cells.tolist()]
    present = [word for word in words if word]
    if not present or not all(map(_is_number, present)):
        return None
    return np.array([float(word or "nan") for word in words])


def _require(name: str, names: Sequence[str], file: str) -> None:
    if name not in names:
        hint = did_you_mean(name, names)
        raise InputError(
            f"a column {name!r}", rule="missing-column", file=file, field=name, hint=hint
        )


def column_names(source: Any) -> list[str]:
    """Return the names of the columns of a table, from a file or in memory."""
    if isinstance(source, Frame):
        return list(source.table.names)
    if isinstance(source, FileTable):
        return list(source.names)
    # By what it offers and not by its type: no library of tables is needed for that.
    if isinstance(source, Mapping):
        return list(source)
    if hasattr(source, "column_names") and hasattr(source, "column"):  # arrow
        return list(source.column_names)
    if hasattr(source, "columns") and hasattr(source, "__getitem__"):  # pandas, polars
        return list(source.columns)
    expected = "a pandas frame, an arrow table or a mapping of columns"
    raise InputError(expected, rule="type", file=MEMORY, value=type(source).__name__)


def _columns(
    source: Any, required: Sequence[str]
) -> tuple[dict[str, Cells], dict[str, tuple[str, ...]]]:
    """Return some columns of a table in memory, and the order of those that are declared as
    categories.
    """

    def take(name: str) -> Any:
        return source.column(name).to_pylist() if hasattr(source, "column_names") else source[name]

    names = column_names(source)
    for name in required:
        _require(name, names, MEMORY)
    raw_columns = {name: take(name) for name in dict.fromkeys(required)}
    orders = {}
    for name, column in raw_columns.items():
        if _is_categorical(column):
            orders[name] = tuple(map(str, column.cat.categories))
    columns = {name: _cells(name, column) for name, column in raw_columns.items()}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError("columns of one length", rule="length", file=MEMORY, value=lengths)
    return columns, orders


def _is_categorical(column: Any) -> bool:
    return hasattr(getattr(column, "dtype", None), "categories") and hasattr(column, "cat")


def _cells(name: str, column: Any) -> Cells:
    """Return numbers as an array and anything else as texts; missing values are NaN or an empty
    text.
    """
    # NumPy would read what lies below a mask as if it were data.
    if np.ma.is_masked(column):
        raise InputError(
            "a value for every row, or None",
            rule="type",
            file=MEMORY,
            field=name,
            value="an array with masked entries",
        )
    try:
        array = np.asarray(column)
    except ValueError:
        raise InputError(
            "one value per row", rule="type", file=MEMORY, field=name, value=column
        ) from None
    if array.ndim != 1:
        raise InputError(
            "one value per row", rule="length", file=MEMORY, field=name, value=array.shape
        )
    if array.dtype.kind in "biuf":
        return array.astype(np.float64) if array.dtype.kind in "bf" else array
    cells = array.tolist()
    if array.dtype.kind in "US":
        return [str(cell) for cell in cells]
    present = [cell for cell in cells if not _is_nothing(cell)]
    if all(isinstance(cell, bool | int | float | np.number) for cell in present) and present:
        numbers = np.full(len(cells), np.nan)
        for row, cell in enumerate(cells):
            if not _is_nothing(cell):
                numbers[row] = float(cell)
        return numbers
    # Ids are often a mixture of words and whole numbers; other mixtures are errors.
    if all(isinstance(cell, str | int) for cell in present):
        texts = [str(cell) for cell in cells]
        for row, cell in enumerate(cells):
            if _is_nothing(cell):
                texts[row] = ""
        return texts
    strange = next(cell for cell in present if not isinstance(cell, str))
    raise InputError("numbers or text", rule="column-type", file=MEMORY, field=name, value=strange)


def _is_nothing(cell: Any) -> bool:
    return (
        cell is None
        or (isinstance(cell, float) and cell != cell)
        or type(cell).__name__ in ("NAType", "NaTType")
    )


@dataclass(frozen=True)
class Effect:
    """One column of the design."""

    name: str  # "size[small]"
    term: str  # "size"
    parts: tuple[tuple[str, str | None], ...]  # columns and their levels, None for a number
    reference: str | None = None  # level that a single category is compared with


@dataclass(frozen=True)
class Design:
    """The design matrix with a name for every column."""

    matrix: F64  # (n, p)
    effects: tuple[Effect, ...]
    levels: Mapping[str, tuple[str, ...]]  # of the categories, reference level first

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(effect.name for effect in self.effects)


def design(frame: Frame, formula: Formula) -> Design:
    """Return the design of a formula on a frame without missing values."""
    categories = [name for name in formula.columns if frame.is_category(name)]
    levels = {name: _levels(frame, name) for name in categories}
    # What the model spans so far: it decides whether a category needs a column for every level.
    effects, spanned = [], set[frozenset[str]]()
    if formula.intercept:
        effects.append(Effect(INTERCEPT, INTERCEPT, ()))
        spanned.add(frozenset())
    for term in formula.terms:
        for piece in _coding([name for name in term if name in levels], term, spanned):
            # Before they are made: a column of ids has an effect for every row.
            n_columns = len(effects) + _number_of_effects(piece, levels)
            _check_number(len(frame), n_columns, frame.table.file)
            effects += _piece_effects(term, piece, levels)
    columns = [_column(frame, effect.parts) for effect in effects]
    result = Design(np.column_stack(columns), tuple(effects), levels)
    check_rank(result, frame.table.file)
    return result


def _number_of_effects(piece: Piece, levels: Mapping[str, Sequence[str]]) -> int:
    contrasts, full = piece
    number = math.prod(len(levels[name]) - 1 for name in contrasts)
    return number * math.prod(len(levels[name]) for name in full)


def _check_number(n_rows: int, n_columns: int, file: str) -> None:
    """Raise for more columns than rows, or for a design that takes too much memory or time."""
    if n_rows < n_columns:
        raise InputError(
            f"more rows than the {n_columns} columns of the design",
            rule="too-few-rows",
            file=file,
            value=n_rows,
        )
    if n_columns > MOST_EFFECTS or n_rows * n_columns > MOST_CELLS:
        raise InputError(
            f"a design of at most {MOST_EFFECTS} columns and {MOST_CELLS:,} cells",
            rule="too-large",
            file=file,
            value=f"{n_rows} rows with {n_columns} columns",
            hint="name a column of ids as a group for a random intercept instead",
        )


def _piece_effects(
    term: Sequence[str], piece: Piece, levels: Mapping[str, tuple[str, ...]]
) -> list[Effect]:
    """Return a column for every combination of the levels that a piece of a term codes."""
    contrasted, full = piece
    names: list[str] = []
    choices: list[tuple[str | None, ...]] = []
    for name in term:
        if name not in levels:
            names.append(name)
            choices.append((None,))
        elif name in full:
            names.append(name)
            choices.append(levels[name])
        elif name in contrasted:
            names.append(name)
            choices.append(levels[name][1:])  # the first level is the reference
    reference = None
    if len(names) == 1 and names[0] in contrasted:
        reference = levels[names[0]][0]
    effects = []
    for combination in product(*choices):
        effects.append(_effect(term, tuple(zip(names, combination)), reference))
    return effects


def _coding(
    categories: Sequence[str], term: Sequence[str], spanned: set[frozenset[str]]
) -> list[Piece]:
    """Return the pieces of a term that the model does not span yet.

    The term spans the products of contrasts of every subset of its categories. Two pieces that
    differ in one category are together that category with a column for every level.
    """
    numbers = frozenset(term) - set(categories)
    subsets: list[frozenset[str]] = []
    for size in range(len(categories) + 1):
        subsets += map(frozenset, combinations(categories, size))
    pieces = [(part, frozenset[str]()) for part in subsets if part | numbers not in spanned]
    spanned |= {part | numbers for part in subsets}
    # Joined until no two pieces differ in one category: the fewest pieces, each with its own
    # columns.
    while (pair := _joinable_pieces(pieces)) is not None:
        (few, full), (more, _) = pair
        pieces[pieces.index(pair[1])] = (few, full | (more - few))
        pieces.remove(pair[0])
    return pieces


def _joinable_pieces(pieces: Sequence[Piece]) -> tuple[Piece, Piece] | None:
    """Return two pieces, the second of which has one category more."""
    for small, large in permutations(pieces, 2):
        if small[1] == large[1] and small[0] < large[0] and len(large[0] - small[0]) == 1:
            return small, large
    return None


def hypothetical(frame: Frame, fitted_design: Design, column: str, level: str) -> F64:
    """Return the design matrix as it would be if every row had one level of a category."""
    counterfactual = frame.with_column(column, [level] * len(frame), fitted_design.levels[column])
    return np.column_stack(
        [_column(counterfactual, effect.parts) for effect in fitted_design.effects]
    )


def check_rank(checked_design: Design, file: str) -> None:
    """Raise if a column is a combination of the ones before it, and say of which."""
    matrix = checked_design.matrix
    length = np.linalg.norm(matrix, axis=0)
    # The diagonal of R is what each unit column adds to the span of those before it.
    own = np.abs(np.diag(np.linalg.qr(matrix / np.where(length > 0, length, 1.0), mode="r")))
    if len(matrix) < matrix.shape[1]:
        raise InputError(
            f"more rows than the {matrix.shape[1]} columns of the design",
            rule="too-few-rows",
            file=file,
            value=len(matrix),
        )
    dependent = np.flatnonzero((own < DEPENDENT) | (length == 0))
    if not len(dependent):
        return
    k = int(dependent[0])
    name = checked_design.names[k]
    if length[k] == 0:
        hint = "it is zero in every row: no row has this combination, leave it out or join levels"
    else:
        # The combination that makes up the column, so that the error can name its parts.
        weights = np.linalg.lstsq(matrix[:, :k], matrix[:, k], rcond=None)[0]
        parts = np.flatnonzero(np.abs(weights) * length[:k] > 1e-6 * length[k])
        names = ", ".join(checked_design.names[j] for j in parts)
        hint = f"it is determined by {names}: leave one of them out"
    raise InputError(
        "columns that do not determine each other",
        rule="rank-deficient",
        file=file,
        field=checked_design.effects[k].term,
        value=name,
        hint=hint,
    )


def _levels(frame: Frame, name: str) -> tuple[str, ...]:
    """Return the levels that occur, in the declared order or sorted; the first is the reference."""
    levels = sorted(set(frame.texts(name).tolist()))
    order = frame.orders.get(name)
    if order is not None:
        for value in levels:
            if value not in order:
                row = int(np.flatnonzero(frame.texts(name) == value)[0])
                hint = did_you_mean(value, order)
                problem = frame.table.problem(
                    row, name, "unknown-level", "one of the declared levels", value, hint
                )
                raise problem.as_error(frame.table.file)
        levels = [value for value in dict.fromkeys(order) if value in levels]
    if len(levels) < 2:
        raise InputError(
            "at least two levels",
            rule="one-level",
            file=frame.table.file,
            field=name,
            value=levels,
            hint=f"every row has the same {name}: take it out of the formula",
        )
    return tuple(levels)


def _column(frame: Frame, parts: Sequence[tuple[str, str | None]]) -> F64:
    """Return one column of the design: the product of its numbers and level indicators."""
    column = np.ones(len(frame))
    for name, level in parts:
        column = column * (frame.numbers(name) if level is None else frame.texts(name) == level)
    return column


def _effect(
    term: Sequence[str], parts: tuple[tuple[str, str | None], ...], reference: str | None
) -> Effect:
    names = []
    for column, level in parts:
        names.append(column if level is None else f"{column}[{level}]")
    return Effect(":".join(names) or INTERCEPT, term_name(tuple(term)), parts, reference)
