# SPDX-License-Identifier: Apache-2.0
"""Error types: the kinds of mistakes of a model, and the average precision each costs (TIDE).

``dAP/cls dAP/loc dAP/both dAP/dup dAP/bkg dAP/miss``
    average precision gained if every mistake of one kind were mended and nothing else: a wrong
    class, a place that is roughly right, both wrong, a second prediction on one reference, a
    prediction on nothing, a reference that nobody came near. `kernels.error_types` says who is
    what, `metrics.errors_gains` what mending does. The gains do not add up: mending one kind makes
    others matter more or less.
``dAP/fp``, ``dAP/fn``, ``dAP/empty``
    gained without any false alarm, without any reference that is not found, and without the false
    alarms on images that have no reference. The last one is not of TIDE.
``errors/cls`` to ``errors/miss``
    how many mistakes there are of a kind. In an ignored region a mistake is counted too, as the
    authors' code does, though it costs nothing.
``errors/empty``
    false alarms on images without references, those in ignored regions left out; they are among
    ``errors/bkg``.

A gain is undefined without references; a count only without images. Per class: the gain in the
class's own AP, the mistakes whose prediction is of the class, the missed references of the class.

References
----------
Bolya et al., TIDE: A General Toolbox for Identifying Object Detection Errors, ECCV 2020.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers import registry
from calipers.criteria import Criterion
from calipers.errors import UsageError, did_you_mean
from calipers.kernels.error_types import CLS, RIGHT
from calipers.matches import View
from calipers.metrics.contract import Facts, MetricPlan, UnitMarks, check_number, check_options
from calipers.metrics.errors_evidence import ErrorRecipe, Mistakes
from calipers.metrics.errors_gains import COUNTS, GAINS, KINDS, counts, gains, object_weights

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

OPTIONS = ("gain", "count", "criterion", "background", "foreground", "max_dets")
FROM_PROTOCOL = ("score_cut", "ties", "matching")
FAMILIES = {"dAP": ("gain", GAINS), "errors": ("count", COUNTS)}


@dataclass(frozen=True)
class ErrorQuantity:
    """One number of the family: ``gain`` or ``count``, and of what."""

    what: str
    of: str


class ErrorTypes:
    """What each kind of mistake costs, and how many there are."""

    own_matching = True
    defaults = FROM_PROTOCOL

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        for plan in plans:
            check_options(plan, (*OPTIONS, *FROM_PROTOCOL))
            check_number(plan, "background", above=0.0)
            check_number(plan, "foreground", above=0.0)
        recipes = {_recipe(plan) for plan in plans}
        if len(recipes) > 1:
            names = ", ".join(plan.name for plan in plans)
            raise UsageError(f"{names}: error types must share their limits and criterion")
        self.recipe = next(iter(recipes))
        _check(plans[0].name, self.recipe)
        self.plans = tuple(plans)
        self.quantities = tuple(_quantity(plan) for plan in plans)
        costs = set()
        for plan, quantity in zip(plans, self.quantities):
            if quantity.what == "gain":
                costs.add(plan.name)
        self.facts = Facts(
            id="error-types@1",
            names=tuple(plan.name for plan in plans),
            ids=tuple(f"error-types.{one.what}.{one.of}@1" for one in self.quantities),
            bounds=(0.0, float("inf")),  # no mistake at all is the best there is
            higher_is_better=False,
            per_class=self.recipe.within_class,
            swap=False,
            class_means=frozenset(costs),
            rough=frozenset(costs),
        )

    def value(self, evidence: Mistakes, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names)."""
        tables: dict[tuple[str, bool], F64] = {}
        columns = []
        for quantity, plan in zip(self.quantities, self.plans):
            key = quantity.what, plan.options.get("ties", "coco") == "block"
            if key not in tables:
                tables[key] = _table(evidence, weights, *key)
            kinds = GAINS if quantity.what == "gain" else COUNTS
            columns.append(tables[key][:, :, kinds.index(quantity.of)])
        return np.stack(columns, axis=2)

    def reasons(self, evidence: Mistakes) -> Mapping[tuple[int, int], str]:
        """Return why values are undefined: no references, or nothing at all."""
        weights = np.ones(evidence.n_images, np.int64)
        table, values = self.counts(evidence, weights), self.value(evidence, weights[None])[0]
        why = {}
        for row, k in np.argwhere(np.isnan(values)).tolist():
            why[row, k] = "no_references" if table[row, k, 2] else "no_objects"
        return why

    def counts(self, evidence: Mistakes, weights: I64) -> I64:
        """Return (1 + n_classes, n_names, 3): images, counted references, counted predictions."""
        table = np.zeros((1 + evidence.n_classes, len(self.plans), 3), np.int64)
        table[:, :, 0] = weights.sum()
        for side, column in enumerate(object_weights(evidence, weights[None]), start=1):
            table[1:, :, side] = column[0][:, None]
        table[0, :, 1:] = table[1:, :, 1:].sum(axis=0)
        return table

    def support(self, evidence: Mistakes, unit: I64, n_units: int) -> I64:
        """Return (1 + n_classes, n_names, 3): units with references, with any object, with such a
        mistake.

        To a count every unit matters.
        """
        of_reference, of_prediction = (
            unit[evidence.reference_image],
            unit[evidence.prediction_image],
        )

        def units(references: Flags, predictions: Flags, *, both_classes: bool = False) -> I64:
            marks = UnitMarks(n_units, evidence.n_classes)
            marks.add(of_reference[references], evidence.reference_label[references])
            marks.add(of_prediction[predictions], evidence.prediction_label[predictions])
            if both_classes:
                rows = np.flatnonzero(predictions & (evidence.prediction_kind == CLS))
                marks.add(of_prediction[rows], evidence.reference_label[evidence.partner[rows]])
            return marks.counts()

        real, nobody = evidence.counted_references, np.zeros(len(evidence.score), np.bool_)
        needed = units(real, nobody)
        tried = units(real, evidence.prediction_kind != 0)
        every = np.full_like(needed, n_units)
        table = np.zeros((1 + evidence.n_classes, len(self.plans), 3), np.int64)
        for k, quantity in enumerate(self.quantities):
            gain = quantity.what == "gain"
            wrong = units(*_mistaken(evidence, quantity.of), both_classes=gain)
            columns = [needed, tried, wrong] if gain else [every, every, wrong]
            table[:, k] = np.stack(columns, axis=1)
        return table


def _table(evidence: Mistakes, weights: I64, what: str, blocks: bool) -> F64:
    """Return (R, 1 + n_classes, ...): all gains, or all counts, which are undefined without
    images.
    """
    if what == "gain":
        return gains(evidence, weights, blocks=blocks)
    some = np.asarray(weights.any(axis=1))
    return np.where(some[:, None, None], counts(evidence, weights), np.nan)


def _mistaken(evidence: Mistakes, of: str) -> tuple[Flags, Flags]:
    """Return which references and which predictions are mistakes of a kind."""
    kind, real = evidence.prediction_kind, evidence.counted_references
    nobody, none = np.zeros(len(real), np.bool_), np.zeros(len(kind), np.bool_)
    if of == "miss":
        return np.asarray(evidence.reference_kind == KINDS["miss"]), none
    if of == "fn":
        return real & (evidence.reference_kind != RIGHT), none
    if of == "fp":
        return nobody, evidence.counted_predictions & (kind != RIGHT)
    return nobody, evidence.false_on_empty if of == "empty" else np.asarray(kind == KINDS[of])


def _quantity(plan: MetricPlan) -> ErrorQuantity:
    """Return the quantity of a plan, from its option or from its name, which must not contradict
    each other.
    """
    name, _, part = plan.name.partition("#")[0].partition("/")
    family = FAMILIES.get(name)
    options = [(what, plan.options[what]) for what in ("gain", "count") if what in plan.options]
    if len(options) > 1:
        raise UsageError(f"metric {plan.name!r}: set gain or count, not both")
    if options:
        what, of = options[0]
    elif family:
        what, of = family[0], part
    else:
        raise UsageError(
            f"metric {plan.name!r} (error-types): the error type is missing; call it dAP/cls or "
            "errors/cls, or set gain or count"
        )
    kinds = GAINS if what == "gain" else COUNTS
    if of not in kinds:
        raise UsageError(
            f"metric {plan.name!r}: no {what} of {of!r}; {did_you_mean(str(of), kinds)}"
        )
    if family and (what, of) != (family[0], part):
        raise UsageError(
            f"metric {plan.name!r}: its name says {part!r}, its options say {what} of {of!r}"
        )
    return ErrorQuantity(what, of)


def _recipe(plan: MetricPlan) -> ErrorRecipe:
    options = plan.options
    view = options.get("matching", View())
    if not isinstance(view, View):
        raise UsageError(
            f"metric {plan.name!r} (error-types) has no option 'matching'; set "
            f"{', '.join(OPTIONS[2:])}"
        )
    limit = options.get("max_dets", view.max_dets)
    return ErrorRecipe(
        criterion=registry.check("criterion", options.get("criterion", view.criterion)),
        background=float(options.get("background", 0.1)),
        foreground=float(options.get("foreground", view.threshold)),
        max_dets=sys.maxsize if limit == float("inf") else int(limit),
        score_cut=options.get("score_cut", float("-inf")),
        within_class=view.within_class,
        strict=view.strict,
    )


def _check(name: str, recipe: ErrorRecipe) -> None:
    """Raise for limits in the wrong order, and for a criterion that is no overlap from 0 to 1."""
    if not recipe.background < recipe.foreground <= 1:
        raise UsageError(
            f"metric {name!r}: needs 0 < background < foreground <= 1, got {recipe.background:g} "
            f"and {recipe.foreground:g}; foreground is the threshold of the matching unless it is "
            "set"
        )
    criterion: Criterion = registry.resolve("criterion", recipe.criterion)
    if criterion.distance or criterion.yes_no or criterion.none != 0:
        raise UsageError(
            f"metric {name!r}: needs a criterion that measures an overlap from 0 to 1, such as "
            f"box-iou or mask-iou, not {recipe.criterion}"
        )
