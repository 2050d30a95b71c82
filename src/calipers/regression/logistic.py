# SPDX-License-Identifier: Apache-2.0
"""Logistic regression with standard errors by cluster, and the localization models of a detector.

- `logistic_model` fits the probability of a hit. Coefficients are those of rows taken as
  independent; standard errors allow rows of one patient or centre to depend on each other in any
  way (sandwich estimator). `AdjustedProbability` says the effects as probabilities.
- `reference_table` makes one row per reference: how well a model placed it, and everything that is
  known about it.
- `localization_models` fits three models of one detector's localization: best overlap, overlap of
  hits, probability of a hit. IoU is bounded and has many zeros, the misses. A linear model of it
  mixes two questions, so the two parts always stand beside it: how good is the overlap of what was
  hit, and how probable is a hit?

Called by the ``mixed`` command.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from calipers import registry
from calipers.arrays import F64
from calipers.data.cohort import Cohort
from calipers.errors import InputError, UsageError, did_you_mean, spelled
from calipers.kernels import assignment, mixed
from calipers.matching.assign import match
from calipers.matching.criteria import Criterion
from calipers.matching.matches import Matches, View
from calipers.regression.design import Formula, hypothetical, numeric_column
from calipers.regression.mixed import MixedModel, mixed_model
from calipers.regression.model import (
    Coefficient,
    CoefficientSupport,
    RegressionData,
    coefficients,
    prepare,
    quantile,
)
from calipers.results.document import Document
from calipers.results.estimate import number
from calipers.show.words import (
    ci_text,
    count_text,
    percent_span,
    percent_text,
    plural,
)
from calipers.statistics.support import FEWEST_UNITS

NAN = float("nan")
# standard error in logits per standard deviation of a column: the coefficient has no finite value
RUNAWAY = 20.0

SIZES = ("large", "medium", "small")  # the first is the one that others are compared with
CUTS = (100.0**2, 200.0**2)  # pixels of area: small is below the first, large above the second

RESPONSE = "iou"
PARTS = ("best", "matched", "hit")
USUAL = ("centre", "patient", "image")
IDENTITIES = (*USUAL, "class")  # names, even if they are written as numbers


@dataclass(frozen=True, slots=True)
class AdjustedProbability:
    """The probability if every row had one level of a category and kept all its other columns."""

    column: str
    level: str
    value: float
    low: float
    high: float
    n_rows: int  # that really have this level
    reason: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "column": self.column,
            "level": self.level,
            "value": number(self.value),
            "low": number(self.low),
            "high": number(self.high),
            "n_rows": self.n_rows,
            "reason": self.reason,
        }


@dataclass(frozen=True, repr=False, eq=False)
class LogisticModel(Document):
    """A fitted logistic regression; coefficients are logarithms of odds ratios."""

    TABLES = "calipers.regression.tables:tables"
    ROW = "coefficient"

    formula: str
    response: str
    level: float
    coefficients: tuple[Coefficient, ...]
    probabilities: tuple[AdjustedProbability, ...]
    unit: str  # clusters of the standard errors
    n_units: int
    n_rows: int
    n_positive: int
    n_dropped: Mapping[str, int]
    deviance: float
    converged: bool
    notes: tuple[str, ...]

    def __getitem__(self, name: str) -> Coefficient:
        """Return a coefficient, such as ``model["size[small]"]``."""
        for coefficient in self.coefficients:
            if coefficient.name == name:
                return coefficient
        raise UsageError(
            f"no coefficient {name!r}; {did_you_mean(name, [c.name for c in self.coefficients])}"
        )

    def odds_ratio(self, name: str) -> tuple[float, float, float]:
        """Return the odds ratio of a coefficient and its interval."""
        one = self[name]
        return math.exp(one.value), math.exp(one.low), math.exp(one.high)

    def sentences(self) -> tuple[str, ...]:
        """Say the adjusted probabilities in words."""
        return tuple(_sentence(self, one) for one in self.probabilities)

    @property
    def rows(self) -> tuple[Coefficient, ...]:
        """A row per coefficient."""
        return self.coefficients

    def _content(self) -> dict[str, Any]:
        return {
            "kind": "logistic",
            "formula": self.formula,
            "response": self.response,
            "level": self.level,
            "unit": self.unit,
            "n_units": self.n_units,
            "n_rows": self.n_rows,
            "n_positive": self.n_positive,
            "n_dropped": dict(self.n_dropped),
            "coefficients": self._records(),
            "probabilities": [one.as_dict() for one in self.probabilities],
            "deviance": number(self.deviance),
            "converged": self.converged,
            "sentences": list(self.sentences()),
            "notes": list(self.notes),
        }


def logistic_model(
    frame: Any,
    formula: str,
    groups: Sequence[str],
    *,
    level: float = 0.95,
    levels: Mapping[str, Sequence[Any]] | None = None,
    missing: Literal["refuse", "drop"] = "refuse",
    few_groups: int = FEWEST_UNITS,
) -> LogisticModel:
    """Fit a logistic regression with standard errors by cluster.

    Parameters
    ----------
    frame, formula, levels, missing, few_groups
        As in `calipers.mixed_model`; the response is 0 or 1.
    groups
        Outermost first. Clusters are the outermost groups of which there are at least
        ``few_groups``; fewer ones become a fixed effect.

    Notes
    -----
    Coefficients are those of rows taken as independent; the standard errors allow rows of one
    cluster to depend on each other in any way. The sandwich estimator is corrected for few clusters
    (CR2), and intervals use the t distribution with the degrees of freedom that the estimated
    variance has for that coefficient (Bell and McCaffrey), which are few for what differs between
    few clusters. A coefficient is undefined (``single_category``) where all rows of a level have
    the same outcome.
    """
    data = prepare(
        frame,
        formula,
        groups,
        levels=levels,
        missing=missing,
        few_groups=few_groups,
        crossed=False,
        level=level,
    )
    y = data.y
    _check_binary(data)
    if data.structure.levels:
        outer = data.structure.levels[0]
        code, unit, n_units = outer.code, outer.name, len(outer)
    else:
        code, unit, n_units = np.arange(len(y)), "row", len(y)
    # That note is about least squares, which is not used here.
    notes = [note for note in data.notes if "least squares" not in note]
    fit, spread, undefined, fit_notes = _fit_logistic(data, code)
    supports = []
    for is_undefined, contrast in zip(undefined.tolist(), np.eye(len(undefined))):
        reason = "single_category" if is_undefined else _too_few(n_units)
        supports.append(_support(spread, contrast, (unit, n_units), reason))
    values = np.where(undefined, NAN, fit.beta)
    rows = coefficients(
        data.design.effects, values, spread.covariance, supports, level=level, n_rows=len(y)
    )
    return LogisticModel(
        formula=str(data.formula),
        response=data.formula.response,
        level=level,
        coefficients=rows,
        probabilities=_probabilities(data, fit, spread, (unit, n_units), level),
        unit=unit,
        n_units=n_units,
        n_rows=len(y),
        n_positive=int(y.sum()),
        n_dropped=data.n_dropped,
        deviance=fit.deviance,
        converged=fit.converged,
        notes=(*notes, *fit_notes),
    )


def _fit_logistic(
    data: RegressionData, code: NDArray[np.int64]
) -> tuple[mixed.LogisticFit, mixed.Sandwich, NDArray[np.bool_], list[str]]:
    """Return the fit, its covariance by cluster, which coefficients are undefined, and notes."""
    y, x = data.y, data.design.matrix
    # The kernel would climb without end: no coefficient is finite.
    if len(np.unique(y)) == 1:
        fit = mixed.LogisticFit(
            np.full(x.shape[1], NAN), np.full((x.shape[1],) * 2, NAN), y, 0.0, True
        )
        notes = [f"every {data.formula.response} is {y[0]:g}: there is nothing to explain"]
        nothing = np.zeros((0, x.shape[1], x.shape[1]))
        spread = mixed.Sandwich(fit.bread, fit.bread, nothing[:, 0], nothing, 0.5)
        return fit, spread, np.ones(x.shape[1], np.bool_), notes
    fit = mixed.fit_logistic(x, y)
    undefined = _is_unbounded(x, fit.bread)
    weight = fit.probability * (1.0 - fit.probability)
    spread = mixed.sandwich(x, y - fit.probability, weight, fit.bread, code)
    return fit, spread, undefined, _separation_notes(data, undefined)


def _support(
    spread: mixed.Sandwich, contrast: F64, units: tuple[str, int], reason: str | None
) -> CoefficientSupport:
    """Return what the standard error of a combination of coefficients rests on."""
    df = NAN if reason is not None else spread.freedom(contrast)
    # A single cluster that decides alone leaves nothing to estimate a variance from.
    if reason is None and math.isnan(df):
        reason = "too_few_units"
    return CoefficientSupport("sandwich-t", df, *units, reason)


def _check_binary(data: RegressionData) -> None:
    invalid = np.flatnonzero((data.y != 0.0) & (data.y != 1.0))
    if len(invalid):
        row, name = int(invalid[0]), data.formula.response
        problem = data.frame.table.problem(
            row, name, "binary-response", "0 or 1", float(data.y[row])
        )
        raise problem.as_error(data.file)
    if len(data.y) <= data.design.matrix.shape[1]:
        expected = f"more rows than the {data.design.matrix.shape[1]} coefficients"
        raise InputError(expected, rule="too-few-rows", file=data.file, value=len(data.y))


def _too_few(n_units: int) -> str | None:
    """Return why standard errors by cluster are impossible, or None."""
    if n_units >= FEWEST_UNITS:
        return None
    return "one_unit" if n_units == 1 else "too_few_units"


def _is_unbounded(x: F64, bread: F64) -> NDArray[np.bool_]:
    """Return which coefficients have no finite value: the data carry no information on them."""
    # In separated data the estimate grows without limit, and its standard error with it.
    scale = x.std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    return np.asarray(~(np.sqrt(np.maximum(np.diag(bread), 0.0)) * scale < RUNAWAY))


def _separation_notes(data: RegressionData, undefined: NDArray[np.bool_]) -> list[str]:
    """Name the levels in which every row has the same outcome."""
    notes = []
    for column, levels in data.design.levels.items():
        texts = data.frame.texts(column)
        for one in levels:
            outcomes = data.y[texts == one]
            if undefined.any() and len(set(outcomes.tolist())) == 1:
                notes.append(
                    f"all {len(outcomes)} rows with {column} {one} have "
                    f"{data.formula.response} {outcomes[0]:g}: odds ratios with it are undefined"
                )
    return notes


def _probabilities(
    data: RegressionData,
    fit: mixed.LogisticFit,
    spread: mixed.Sandwich,
    units: tuple[str, int],
    level: float,
) -> tuple[AdjustedProbability, ...]:
    """Return the adjusted probability of every level of every category of the formula."""
    probabilities = []
    for column, levels in data.design.levels.items():
        if data.structure.fixed is not None and column == data.structure.fixed.name:
            continue
        texts = data.frame.texts(column)
        for one in levels:
            n = int((texts == one).sum())
            if np.isnan(fit.beta).any():
                only = float(data.y[0])
                probabilities.append(
                    AdjustedProbability(column, one, only, NAN, NAN, n, "single_category")
                )
                continue
            # Every row as it is but for this category: the mean over them is the adjusted
            # probability.
            x = hypothetical(data.frame, data.design, column, one)
            p = 1.0 / (1.0 + np.exp(-np.clip(x @ fit.beta, -mixed.STEEPEST, mixed.STEEPEST)))
            value, slope = float(p.mean()), (x * (p * (1.0 - p))[:, None]).mean(axis=0)
            # At the ends of the scale the logit has no finite interval.
            at_end = not 1e-6 < value < 1 - 1e-6
            reason = _too_few(units[1]) or ("single_category" if at_end else None)
            support = _support(spread, slope, units, reason)
            low, high = NAN, NAN
            if support.reason is None:
                variance = float(slope @ spread.covariance @ slope)
                low, high = _probability_interval(value, variance, support, level)
            probabilities.append(
                AdjustedProbability(column, one, value, low, high, n, support.reason)
            )
    return tuple(probabilities)


def _probability_interval(
    value: float, variance: float, support: CoefficientSupport, level: float
) -> tuple[float, float]:
    """Return the interval of a probability, taken on the logit scale."""
    # Delta method: the derivative of the logit is 1 / (p (1 - p)).
    half = quantile(level, support.df) * math.sqrt(max(variance, 0.0)) / (value * (1.0 - value))
    logit = math.log(value / (1.0 - value))
    return 1.0 / (1.0 + math.exp(-(logit - half))), 1.0 / (1.0 + math.exp(-(logit + half)))


def _sentence(model: LogisticModel, one: AdjustedProbability) -> str:
    level = f"{one.column} {one.level}"
    if one.reason == "single_category":
        # The fitted probability is 0 or 1 but for the steps of the fit: the counts are exact.
        n_positive = round(one.value) * one.n_rows
        rows = count_text("row", one.n_rows)
        return f"{model.response}: {n_positive} of {rows} with {level} (no interval)."
    text = f"{model.response}: {percent_text(one.value)} with {level}"
    if math.isnan(one.low):
        return f"{text} ({one.n_rows} rows, no interval)."
    between = ci_text(model.level, percent_span(one.low, one.high))
    return f"{text} ({between}; {model.n_units} {plural(model.unit)})."


def reference_table(
    cohort: Cohort, model: str, view: View | None = None, *, cuts: tuple[float, float] = CUTS
) -> dict[str, NDArray[Any]]:
    """Return the table of references under one model, as columns.

    Parameters
    ----------
    view
        Criterion, assignment, threshold and class rule; box IoU at 0.5 if left out. The criterion
        has to be an overlap between 0 and 1.
    cuts
        Areas that separate small from medium and medium from large.

    Returns
    -------
    dict
        ``iou``: the best overlap with any prediction of its class, 0 if there is none.
        ``iou_matched``: the overlap with its assigned prediction, NaN if it was missed. ``hit``: 1
        or 0. ``class``, ``area``, ``size``, ``image``, then the groups of the image and the facts
        of the reference. Ignored references are not in the table.

    Examples
    --------
    >>> from calipers.synthetic.demo import demo_cohort
    >>> table = reference_table(demo_cohort(), "misses-small")
    >>> len(table["iou"]), int(table["hit"].sum())
    (189, 94)
    """
    if not 0.0 < cuts[0] < cuts[1]:
        raise UsageError(f"two areas separate the sizes, the smaller first, not {cuts}")
    # All sizes: the sizes are columns of the table, not a filter.
    view = View() if view is None else replace(view, size=(0.0, float("inf")))
    criterion: Criterion = registry.resolve("criterion", view.criterion)
    if criterion.distance or criterion.yes_no or criterion.none != 0.0:
        raise UsageError(
            f"the criterion {view.criterion!r} is not an overlap between 0 and 1: "
            "use box-iou, ciou, iop or ior"
        )
    matches = match(cohort, model, [view])
    references = cohort.references
    rows = np.flatnonzero(~(references.ignore | references.crowd))
    image = references.image[rows]
    area = references.area[rows]
    table: dict[str, NDArray[Any]] = {
        "iou": _best_overlap(matches, view, len(references))[rows],
        "iou_matched": _matched_overlap(matches, len(references))[rows],
        "hit": (matches.reference_fate[0] == assignment.HIT)[rows].astype(np.float64),
        "class": np.array(cohort.classes)[references.label[rows]],
        "area": area,
        "size": np.select([area < cuts[0], area > cuts[1]], ["small", "large"], "medium"),
        "image": np.array(cohort.images.ids)[image],
    }
    further = {name: column[image] for name, column in cohort.images.groups.items()}
    further |= {name: column[rows] for name, column in references.facts.items()}
    own_names = tuple(table)
    for name, column in further.items():
        # A group of the cohort may carry the name of one of our own columns.
        table[f"group_{name}" if name in own_names else name] = column
    return table


def _best_overlap(matches: Matches, view: View, n: int) -> F64:
    """Return the largest overlap of every reference with a prediction that takes part, 0 if there
    is none.
    """
    # Predictions beyond the limit or below the cut do not exist for the protocol.
    there = (matches.rank < view.max_dets) & (matches.score >= view.score_cut)
    pairs = matches.pairs
    selection = there[pairs.prediction]
    best = np.zeros(n)
    np.maximum.at(best, pairs.reference[selection], pairs.similarity[selection])
    return best


def _matched_overlap(matches: Matches, n: int) -> F64:
    hits = np.flatnonzero(matches.prediction_fate[0] == assignment.HIT)
    overlap = np.full(n, np.nan)
    overlap[matches.partner[hits]] = matches.similarity[hits]
    return overlap


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
        ``"iou ~ size + type"``; the columns are those of `reference_table`. A column of images
        whose cells are numbers, such as an age, is a number; ``C(age)`` makes categories of it.
    groups
        Outermost first; by default those of centre, patient and image that the cohort has.
    view, cuts
        As in `reference_table`.
    level, levels, missing, options
        As in `calipers.mixed_model`; sizes are compared with large ones unless ``levels`` says
        otherwise.

    Examples
    --------
    >>> from calipers.synthetic.demo import demo_cohort
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
    model_formula = model_formula.spelled_as(table)
    groups = [spelled(name, table) for name in groups]
    table |= _typed_columns(table, model_formula, {*groups, *(levels or {})})
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
    # The same formula for the hits, with the overlap of the assigned prediction as response.
    rows[RESPONSE] = rows["iou_matched"]
    few = {name: options[name] for name in ("few_groups",) if name in options}
    matched, unmatched = _fit_or_reason(
        lambda: mixed_model(rows, of_iou, groups, **shared, **options)
    )
    hit, unhit = _fit_or_reason(lambda: logistic_model(table, of_hit, groups, **shared, **few))
    problems = {} if matched is not None else {"matched": f"{len(hits)} hits: {unmatched}"}
    problems |= {} if hit is not None else {"hit": unhit}
    n = len(table[RESPONSE])
    return LocalizationModels(model, best, matched, hit, problems, n, len(cohort.references) - n)


def _typed_columns(
    table: Mapping[str, NDArray[Any]], formula: Formula, declared: Collection[str]
) -> dict[str, NDArray[Any]]:
    """Return the columns of the formula that are numbers written as text, or names as numbers.

    Groups and columns with declared levels stay as they are.
    """
    columns: dict[str, NDArray[Any]] = {}
    for name in formula.columns:
        if name not in table or name in declared or name in formula.categories:
            continue
        numeric = table[name].dtype.kind in "biuf"
        if name in IDENTITIES:
            columns[name] = table[name].astype(str)
        elif not numeric:
            column = numeric_column(table[name])
            columns[name] = table[name] if column is None else column
    return columns


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


def _fit_or_reason(fit: Callable[[], Fitted]) -> tuple[Fitted | None, str]:
    """Return a fit, or None and why there is none."""
    try:
        return fit(), ""
    except InputError as error:
        return None, f"expected {error.expected} ({error.field or error.rule})"
