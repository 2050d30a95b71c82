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
    levels = {name: _levels(frame, name) for name in formula.columns if frame.is_category(name)}
    effects = [Effect(INTERCEPT, INTERCEPT, ())] if formula.intercept else []
    spanned = {frozenset[str]()} if formula.intercept else set[frozenset[str]]()
    for term in formula.terms:
        for contrasted, whole in _coding([name for name in term if name in levels], term, spanned):
            kept = [
                name for name in term if name not in levels or name in contrasted or name in whole
            ]
            shown = [
                levels[n] if n in whole else levels[n][1:] if n in levels else (None,) for n in kept
            ]
            alone = levels[kept[0]][0] if len(kept) == 1 and kept[0] in contrasted else None
            effects += [
                _effect(term, tuple(zip(kept, chosen)), alone) for chosen in product(*shown)
            ]
    columns = [_column(frame, effect.parts) for effect in effects]
    found = Design(np.column_stack(columns), tuple(effects), levels)
    check_rank(found, frame.table.file)
    return found


def _coding(
    categories: Sequence[str], term: Sequence[str], spanned: set[frozenset[str]]
) -> list[Piece]:
    """Return the pieces of a term that the model does not span yet.

    The term spans the products of contrasts of every subset of its categories. Two pieces that
    differ in one category are together that category with a column for every level.
    """
    numbers = frozenset(term) - set(categories)
    subsets = [
        frozenset(part)
        for size in range(len(categories) + 1)
        for part in combinations(categories, size)
    ]
    pieces = [(part, frozenset[str]()) for part in subsets if part | numbers not in spanned]
    spanned |= {part | numbers for part in subsets}
    while (pair := _neighbours(pieces)) is not None:
        (few, whole), (more, _) = pair
        pieces[pieces.index(pair[1])] = (few, whole | (more - few))
        pieces.remove(pair[0])
    return pieces


def _neighbours(pieces: Sequence[Piece]) -> tuple[Piece, Piece] | None:
    """Return two pieces, the second of which has one category more."""
    for small, large in permutations(pieces, 2):
        if small[1] == large[1] and small[0] < large[0] and len(large[0] - small[0]) == 1:
            return small, large
    return None


def hypothetical(frame: Frame, found: Design, column: str, level: str) -> F64:
    """Return the design matrix as it would be if every row had one level of a category."""
    changed = frame.with_column(column, [level] * len(frame), found.levels[column])
    return np.column_stack([_column(changed, effect.parts) for effect in found.effects])


def check_rank(found: Design, file: str) -> None:
    """Raise if a column is a combination of the ones before it, and say of which."""
    matrix = found.matrix
    length = np.linalg.norm(matrix, axis=0)
    own = np.abs(np.diag(np.linalg.qr(matrix / np.where(length > 0, length, 1.0), mode="r")))
    if len(matrix) < matrix.shape[1]:
        raise InputError(
            f"more rows than the {matrix.shape[1]} columns of the design",
            rule="too-few-rows",
            file=file,
            value=len(matrix),
        )
    wrong = np.flatnonzero((own < DEPENDENT) | (length == 0))
    if not len(wrong):
        return
    k = int(wrong[0])
    name = found.names[k]
    if length[k] == 0:
        hint = "it is zero in every row: no row has this combination, leave it out or join levels"
    else:
        weights = np.linalg.lstsq(matrix[:, :k], matrix[:, k], rcond=None)[0]
        of = [
            found.names[j] for j in np.flatnonzero(np.abs(weights) * length[:k] > 1e-6 * length[k])
        ]
        hint = f"it is made of {', '.join(of)}: leave one of them out"
    raise InputError(
        "columns that do not determine each other",
        rule="rank-deficient",
        file=file,
        field=found.effects[k].term,
        value=name,
        hint=hint,
    )


def _levels(frame: Frame, name: str) -> tuple[str, ...]:
    """Return the levels that occur, in the declared order or sorted; the first is the reference."""
    present = sorted(set(frame.texts(name).tolist()))
    declared = frame.orders.get(name)
    if declared is not None:
        for value in present:
            if value not in declared:
                row = int(np.flatnonzero(frame.texts(name) == value)[0])
                hint = did_you_mean(value, declared)
                problem = frame.table.problem(
                    row, name, "unknown-level", "one of the declared levels", value, hint
                )
                raise problem.as_error(frame.table.file)
        present = [value for value in dict.fromkeys(declared) if value in present]
    if len(present) < 2:
        raise InputError(
            "at least two levels",
            rule="one-level",
            file=frame.table.file,
            field=name,
            value=present,
            hint=f"every row has the same {name}: take it out of the formula",
        )
    return tuple(present)


def _column(frame: Frame, parts: Sequence[tuple[str, str | None]]) -> F64:
    column = np.ones(len(frame))
    for name, level in parts:
        column = column * (frame.numbers(name) if level is None else frame.texts(name) == level)
    return column


def _effect(
    term: Sequence[str], parts: tuple[tuple[str, str | None], ...], reference: str | None
) -> Effect:
    name = ":".join(column if level is None else f"{column}[{level}]" for column, level in parts)
    return Effect(name or INTERCEPT, term_name(tuple(term)), parts, reference)
