# SPDX-License-Identifier: Apache-2.0
"""From a table and a formula to arrays: what the linear and the logistic model share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, UsageError
from calipers.statistics.design import Design, design
from calipers.statistics.formula import Formula
from calipers.statistics.frames import Frame
from calipers.statistics.nesting import (
    Structure,
    check_groups,
    nested_levels,
    resolve,
    single_level,
)

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Prepared:
    """Arrays of the rows that are used, and what was decided on the way."""

    formula: Formula
    groups: tuple[str, ...]
    frame: Frame  # the rows that are used
    y: F64
    design: Design
    structure: Structure
    n_dropped: Mapping[str, int]
    notes: tuple[str, ...]

    @property
    def file(self) -> str:
        """Where the table came from."""
        return self.frame.table.file


def prepare(
    given: Any,
    formula: str,
    groups: Sequence[str],
    *,
    levels: Mapping[str, Sequence[Any]] | None,
    missing: Literal["refuse", "drop"],
    few_groups: int,
    crossed: bool,
    level: float,
) -> Prepared:
    """Return the arrays behind a formula and groups."""
    if not 0.0 < level < 1.0:
        raise UsageError(f"a level lies between 0 and 1, such as 0.95, not {level}")
    if missing not in ("refuse", "drop"):
        raise UsageError(f"missing is 'refuse' or 'drop', not {missing!r}")
    parsed = Formula.parse(formula)
    if not parsed.response:
        raise UsageError(f"the formula {formula!r} has no response: write it before the ~")
    names = check_groups(groups, parsed.response)
    frame = Frame.of(given, [parsed.response, *parsed.columns, *names], levels)
    frame, n_dropped = complete(frame, parsed, names, missing)
    y = frame.numbers(parsed.response)
    made, said = (
        ([single_level(frame, n) for n in names], []) if crossed else nested_levels(frame, names)
    )
    structure = resolve(made, parsed.columns, few_groups, crossed=crossed)
    notes = [f"{n} rows without {name} were left out" for name, n in n_dropped.items()]
    if structure.fixed is not None:
        fixed = structure.fixed
        frame = frame.with_column(
            fixed.name, [fixed.labels[k] for k in fixed.code.tolist()], fixed.labels
        )
        terms = tuple(sorted((*parsed.terms, (fixed.name,)), key=len))
        parsed = replace(parsed, terms=terms)
    notes += [*said, *structure.notes]
    return Prepared(
        parsed, names, frame, y, design(frame, parsed), structure, n_dropped, tuple(notes)
    )


def complete(
    frame: Frame, formula: Formula, groups: Sequence[str], missing: str
) -> tuple[Frame, dict[str, int]]:
    """Return the rows that have all values, and how many lack which; by default such a row is an
    error.
    """
    if not len(frame):
        raise InputError("rows", rule="too-few-rows", file=frame.table.file, value="only a header")
    counts: dict[str, int] = {}
    kept = np.ones(len(frame), np.bool_)
    used = dict.fromkeys([formula.response, *formula.columns], False) | dict.fromkeys(groups, True)
    for name, is_group in used.items():
        # The response is a number, whatever else its column may look like.
        empty = (
            np.isnan(frame.numbers(name))
            if name == formula.response
            else frame.missing(name, as_text=is_group)
        )
        lacking = kept & empty
        if not lacking.any():
            continue
        if missing == "refuse":
            hint = f"{int(lacking.sum())} rows have no {name}; missing='drop' (--missing drop) leaves them out"
            row = int(np.flatnonzero(lacking)[0])
            raise frame.table.problem(row, name, "missing-value", "a value", None, hint).as_error(
                frame.table.file
            )
        counts[name] = int(lacking.sum())
        kept &= ~lacking
    if not kept.any():
        raise InputError(
            "rows without empty cells", rule="too-few-rows", file=frame.table.file, value=counts
        )
    return (frame if kept.all() else frame.rows(np.flatnonzero(kept))), counts
