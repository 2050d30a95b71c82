# SPDX-License-Identifier: Apache-2.0
"""The design matrix of a formula: numbers as they are, categories against their first level.

A category gets a column for each level but the first, which is the *reference level*: coefficients
say how much another level differs from it. Where the term without the category is not in the model,
the category gets a column for every level instead (Wilkinson and Rogers 1973, as in R).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, product

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, did_you_mean
from calipers.statistics.formula import Formula, term_name
from calipers.statistics.frames import Frame

F64 = NDArray[np.float64]
INTERCEPT = "intercept"
Piece = tuple[
    frozenset[str], frozenset[str]
]  # categories against their first level, categories with every level
DEPENDENT = 1e-9  # of a column's length that the columns before it do not explain


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
    effects, spanned = [], set[frozenset[str]]()
    if formula.intercept:
        effects.append(Effect(INTERCEPT, INTERCEPT, ()))
        spanned.add(frozenset())
    for term in formula.terms:
        for piece in _coding([name for name in term if name in levels], term, spanned):
            effects += _piece_effects(term, piece, levels)
    columns = [_column(frame, effect.parts) for effect in effects]
    result = Design(np.column_stack(columns), tuple(effects), levels)
    check_rank(result, frame.table.file)
    return result


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
    while (pair := _neighbours(pieces)) is not None:
        (few, full), (more, _) = pair
        pieces[pieces.index(pair[1])] = (few, full | (more - few))
        pieces.remove(pair[0])
    return pieces


def _neighbours(pieces: Sequence[Piece]) -> tuple[Piece, Piece] | None:
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
        weights = np.linalg.lstsq(matrix[:, :k], matrix[:, k], rcond=None)[0]
        parts = np.flatnonzero(np.abs(weights) * length[:k] > 1e-6 * length[k])
        names = ", ".join(checked_design.names[j] for j in parts)
        hint = f"it is made of {names}: leave one of them out"
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
