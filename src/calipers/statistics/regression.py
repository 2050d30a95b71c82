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
class RegressionData:
    """The rows that are used as arrays, with notes on the preparation."""

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
    source: Any,
    formula: str,
    groups: Sequence[str],
    *,
    levels: Mapping[str, Sequence[Any]] | None,
    missing: Literal["refuse", "drop"],
    few_groups: int,
    crossed: bool,
    level: float,
) -> RegressionData:
    """Return the arrays behind a formula and groups: response, design, levels, notes."""
    if not 0.0 < level < 1.0:
        raise UsageError(f"a level lies between 0 and 1, such as 0.95, not {level}")
    if missing not in ("refuse", "drop"):
        raise UsageError(f"missing is 'refuse' or 'drop', not {missing!r}")
    model_formula = Formula.parse(formula)
    if not model_formula.response:
        raise UsageError(f"the formula {formula!r} has no response: write it before the ~")
    names = check_groups(groups, model_formula.response)
    frame = Frame.of(source, [model_formula.response, *model_formula.columns, *names], levels)
    frame, n_dropped = complete(frame, model_formula, names, missing)
    # Incomplete rows are gone before the levels are counted.
    y = frame.numbers(model_formula.response)
    if crossed:
        group_levels = [single_level(frame, name) for name in names]
        level_notes: list[str] = []
    else:
        group_levels, level_notes = nested_levels(frame, names)
    structure = resolve(group_levels, model_formula.columns, few_groups, crossed=crossed)
    if structure.fixed is not None:
        # Too few groups for a variance: their column joins the formula as a category.
        group = structure.fixed
        labels = [group.labels[k] for k in group.code.tolist()]
        frame = frame.with_column(group.name, labels, group.labels)
        terms = tuple(sorted((*model_formula.terms, (group.name,)), key=len))
        model_formula = replace(model_formula, terms=terms)
    notes = [f"{n} rows without {name} were left out" for name, n in n_dropped.items()]
    notes += [*level_notes, *structure.notes]
    return RegressionData(
        formula=model_formula,
        groups=names,
        frame=frame,
        y=y,
        design=design(frame, model_formula),
        structure=structure,
        n_dropped=n_dropped,
        notes=tuple(notes),
    )


def complete(
    frame: Frame, formula: Formula, groups: Sequence[str], missing: str
) -> tuple[Frame, dict[str, int]]:
    """Return the rows that have all values, and how many rows lack which column.

    By default such a row is an error.
    """
    if not len(frame):
        raise InputError("rows", rule="too-few-rows", file=frame.table.file, value="only a header")
    counts: dict[str, int] = {}
    is_complete = np.ones(len(frame), np.bool_)
    is_group = dict.fromkeys([formula.response, *formula.columns], False)
    is_group |= dict.fromkeys(groups, True)
    for name, as_text in is_group.items():
        # The response is a number, whatever else its column may look like.
        if name == formula.response:
            empty = np.isnan(frame.numbers(name))
        else:
            empty = frame.missing(name, as_text=as_text)
        lacking = is_complete & empty
        if not lacking.any():
            continue
        if missing == "refuse":
            hint = (
                f"{int(lacking.sum())} rows have no {name}; "
                "missing='drop' (--missing drop) leaves them out"
            )
            row = int(np.flatnonzero(lacking)[0])
            raise frame.table.problem(row, name, "missing-value", "a value", None, hint).as_error(
                frame.table.file
            )
        counts[name] = int(lacking.sum())
        is_complete &= ~lacking
    if not is_complete.any():
        raise InputError(
            "rows without empty cells", rule="too-few-rows", file=frame.table.file, value=counts
        )
    if is_complete.all():
        return frame, counts
    return frame.rows(np.flatnonzero(is_complete)), counts
