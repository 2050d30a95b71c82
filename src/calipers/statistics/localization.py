# SPDX-License-Identifier: Apache-2.0
"""Three models of one detector's localization: best overlap, overlap of hits, probability of a hit.

IoU is bounded and has many zeros, the misses. A linear model of it mixes two questions, so the two
parts always stand beside it: how good is the overlap of what was hit, and how probable is a hit?
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np

from calipers.errors import InputError, UsageError
from calipers.matches import View
from calipers.statistics.formula import Formula
from calipers.statistics.logistic import LogisticModel, logistic_model
from calipers.statistics.mixed import MixedModel, mixed_model
from calipers.statistics.reference_table import CUTS, SIZES, reference_table
from calipers.tables import Cohort

RESPONSE = "iou"
PARTS = ("best", "matched", "hit")
USUAL = ("centre", "patient", "image")
Fitted = TypeVar("Fitted", MixedModel, LogisticModel)


@dataclass(frozen=True)
class LocalizationModels:
    """Three fits of one model: best overlap with 0 for misses, overlap of the hits, probability of
    a hit.
    """

    model: str
    best: MixedModel
    matched: MixedModel | None  # None: see problems
    hit: LogisticModel | None
    problems: Mapping[str, str]  # why a part could not be fitted
    n_references: int
    n_ignored: int

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return the fits for JSON; a part that could not be fitted says why."""
        dicts = []
        for part in PARTS:
            fit = getattr(self, part)
            if fit is None:
                facts = {"kind": "none", "problem": self.problems[part]}
            else:
                facts = fit.as_dict()
            dicts.append({"model": self.model, "part": part, **facts})
        return dicts


def localization_models(
    cohort: Cohort,
    model: str,
    formula: str = "iou ~ size",
    groups: Sequence[str] | None = None,
    *,
    view: View | None = None,
    cuts: tuple[float, float] = CUTS,
    levels: Mapping[str, Sequence[Any]] | None = None,
    missing: Literal["refuse", "drop"] = "refuse",
    level: float = 0.95,
    **options: Any,
) -> LocalizationModels:
    """Fit the three models of one detector's localization.

    Parameters
    ----------
    formula
        ``"iou ~ size + type"``; the columns are those of `reference_table`.
    groups
        Outermost first; by default those of centre, patient and image that the cohort has.
    view, cuts
        As in `reference_table`.
    level, levels, missing, options
        As in `calipers.mixed_model`; sizes are compared with large ones unless ``levels`` says
        otherwise.

    Examples
    --------
    >>> from calipers.synthetic import demo_cohort
    >>> models = localization_models(demo_cohort(), "misses-small", cuts=(400, 2500))
    >>> [round(fit["size[small]"].value, 2) for fit in (models.best, models.matched)]
    [-0.81, -0.0]
    """
    table = reference_table(cohort, model, view, cuts=cuts)
    if groups is None:
        groups = [name for name in USUAL if name in table]
    model_formula = Formula.parse(formula)
    if model_formula.response not in ("", RESPONSE):
        raise UsageError(
            f"the response of references is {RESPONSE}, not {model_formula.response!r}: "
            "write ~ size + type"
        )
    of_iou, of_hit = (str(replace(model_formula, response=name)) for name in (RESPONSE, "hit"))
    shared: dict[str, Any] = {
        "level": level,
        "levels": {"size": SIZES, **(levels or {})},
        "missing": missing,
    }
    with _of_model(model):
        best = mixed_model(table, of_iou, groups, **shared, **options)
    hits = np.flatnonzero(table["hit"] == 1.0)
    rows = {name: column[hits] for name, column in table.items()}
    rows[RESPONSE] = rows["iou_matched"]
    few = {name: options[name] for name in ("few_groups",) if name in options}
    matched, unmatched = _tried(lambda: mixed_model(rows, of_iou, groups, **shared, **options))
    hit, unhit = _tried(lambda: logistic_model(table, of_hit, groups, **shared, **few))
    problems = {} if matched is not None else {"matched": f"{len(hits)} hits: {unmatched}"}
    problems |= {} if hit is not None else {"hit": unhit}
    n = len(table[RESPONSE])
    return LocalizationModels(model, best, matched, hit, problems, n, len(cohort.references) - n)


@contextmanager
def _of_model(model: str) -> Iterator[None]:
    """Name the model in errors: there are several, and the table is none that anybody wrote."""
    try:
        yield
    except InputError as error:
        raise InputError(
            error.expected,
            rule=error.rule,
            file=f"model {model}",
            field=error.field,
            value=error.value,
            hint=error.hint,
        ) from None


def _tried(fit: Callable[[], Fitted]) -> tuple[Fitted | None, str]:
    """Return a fit, or None and why there is none."""
    try:
        return fit(), ""
    except InputError as error:
        return None, f"expected {error.expected} ({error.field or error.rule})"
