# SPDX-License-Identifier: Apache-2.0
"""`fuse`: the predictions of the models of a cohort become those of an ensemble, by a recipe.

A `Cohort` and a `FusionRecipe` come in. `fuse` returns the cohort with one model more; `carry_out`
also says how many boxes each step left and what is worth knowing about the members, for ``calipers
fuse`` and `calipers.fusion.evaluate`.

A cohort has one list of images and one of classes, so that members cannot disagree about their
names. What is still refused: scores outside [0, 1], members that share no image, and members that
share no class. A member without boxes counts as a model that found nothing.

`fit_calibration` fits the curves of the steps that calibrate, on the cohort of a tuning split: at
each such step, on the boxes that the steps before it leave.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from calipers.arguments import names_arguments
from calipers.arrays import F64, Flags
from calipers.data.cohort import Cohort
from calipers.data.objects import Predictions
from calipers.data.rules import are_percentages
from calipers.errors import InputError, UsageError, did_you_mean, several, word
from calipers.evaluation.collect import collect
from calipers.fusion.calibrate import WHY_NOT, ScoreCurve, fit_curve
from calipers.fusion.fusion_methods import checked_weights, shares_of, softly_suppressed
from calipers.fusion.recipe import FusionRecipe, RecipeStep
from calipers.kernels import boxes as kernels
from calipers.kernels.assignment import HIT, IGNORED
from calipers.kernels.boxes import BoxPool, overlapping
from calipers.matching.assign import MatchRecipe
from calipers.matching.matches import Matches, View
from calipers.show.words import count_text

ENSEMBLE = "ensemble"  # the name of the boxes of all members together
FEW_IMAGES = 0.5  # of those on which others have boxes: fewer are worth a note
MOST_NAMED = 5  # classes in a note
SAME_PLACE = 0.5  # IoU from which boxes of two members are those of one object


@dataclass(frozen=True)
class StepCount:
    """How many boxes there were after a step."""

    step: str
    boxes: int


@dataclass(frozen=True)
class MemberCount:
    """What a member brings."""

    model: str
    boxes: int
    images: int  # on which it has boxes
    classes: int  # of which it has boxes


@dataclass(frozen=True)
class Fusion:
    """The predictions of an ensemble and how they came about."""

    recipe: FusionRecipe
    members: tuple[MemberCount, ...]
    predictions: Predictions
    counts: tuple[StepCount, ...]
    notes: tuple[str, ...]


@names_arguments
def fuse(
    cohort: Cohort,
    recipe: str | Path | FusionRecipe = "endocv2022",
    *,
    members: Sequence[str] | None = None,
    name: str | None = None,
) -> Cohort:
    """Fuse the predictions of several models by a recipe, and add the ensemble as a model.

    Parameters
    ----------
    cohort
        Its models are the members.
    recipe
        A built-in name (``endocv2022``, ``nms``, ``nmw``, ``soft-nms``, ``wbf``), the path of a
        TOML file, or a `calipers.fusion.recipe.FusionRecipe`.
    members
        Names of the models that are fused. Default: those of the recipe, else all.
    name
        Name of the ensemble. Default: that of the recipe.

    Notes
    -----
    With steps that only choose boxes or change scores, predictions keep their masks and further
    columns; fused and resized boxes are boxes only.

    Examples
    --------
    >>> import calipers as cal
    >>> cohort = cal.fuse(cal.demo_cohort(), "endocv2022")
    >>> "endocv2022" in cohort.models
    True
    """
    plan = FusionRecipe.load(recipe)
    title = plan.name if name is None else word("the name of an ensemble", name)
    if title in cohort.models:
        raise UsageError(f"the cohort already has a model {title!r}: give the ensemble a name")
    return cohort.with_predictions(title, carry_out(cohort, plan, members).predictions)


def carry_out(cohort: Cohort, recipe: FusionRecipe, members: Sequence[str] | None = None) -> Fusion:
    """Return the ensemble of a recipe with its account."""
    names = chosen_members(cohort, recipe, members)
    weights = _weights(cohort, recipe, names)
    tables = [cohort.predictions(name) for name in names]
    for name in names:
        _check_scores(cohort, name)
    # Signs of files about other images or with other names.
    with_boxes = np.stack([np.diff(table.offsets) > 0 for table in tables])
    with_class = np.stack([_has_class(table, len(cohort.classes)) for table in tables])
    _check_common(cohort, names, with_boxes, with_class)
    accounts, notes = _accounts(names, tables, with_boxes, with_class)
    notes += _notes_on_gaps(names, with_boxes, with_class, cohort.classes)
    bench = _Bench.of(names, tables, weights)
    counts = [StepCount("members", len(bench))]
    for step in recipe.steps:
        bench = bench.after(step, recipe.name)
        counts.append(StepCount(str(step), len(bench)))
    if len(bench.pools) > 1:
        raise UsageError(
            f"recipe {recipe.name!r} leaves {len(bench.pools)} members apart: add a step that "
            "fuses, or pool = true to a suppression"
        )
    predictions = _predictions(kernels.best_first(bench.pools[0]), tables, moved=recipe.moves)
    notes += _notes_on_curves(recipe)
    notes += _notes_on_masks(names, tables, recipe)
    return Fusion(recipe, accounts, predictions, tuple(counts), tuple(notes))


def fit_calibration(
    cohort: Cohort, recipe: FusionRecipe, members: Sequence[str] | None = None
) -> FusionRecipe:
    """Return the recipe with the curves of its calibrations fitted on a cohort.

    Parameters
    ----------
    cohort
        The tuning split: images that the ensemble is not judged on. A box is a hit if it is one in
        a matching by score at the ``iou_threshold`` of the step, within classes; ignored boxes are
        left out.
    """
    names = chosen_members(cohort, recipe, members)
    tables = [cohort.predictions(name) for name in names]
    for name in names:
        _check_scores(cohort, name)
    bench = _Bench.of(names, tables, _weights(cohort, recipe, names))
    steps = []
    for step in recipe.steps:
        if step.needs_curves:
            step = step.with_options(curves=_curves(cohort, step, bench))
        bench = bench.after(step, recipe.name)
        steps.append(step)
    return replace(recipe, steps=tuple(steps))


@dataclass(frozen=True)
class _Bench:
    """The boxes that a recipe works on: a pool per member, or one of all of them."""

    names: tuple[str, ...]  # of the pools
    pools: tuple[BoxPool, ...]
    weights: F64  # of the members, for the step that brings them together

    @classmethod
    def of(cls, names: Sequence[str], tables: Sequence[Predictions], weights: F64) -> _Bench:
        return cls(tuple(names), tuple(_pools(tables)), weights)

    def __len__(self) -> int:
        return sum(map(len, self.pools))

    def after(self, step: RecipeStep, recipe: str) -> _Bench:
        """Return what a step leaves."""
        if step.pools:
            # The boxes of an ensemble have the weights of its members in their scores.
            weights = self.weights if len(self.pools) > 1 else np.ones(1)
            return replace(self, names=(ENSEMBLE,), pools=(_fused(step, self.pools, weights),))
        pools = []
        for name, pool in zip(self.names, self.pools):
            if step.needs_curves:
                pool = _calibrated(step, name, pool, recipe)
            elif step.kind != "calibrate":
                pool = _after(step, pool)
            pools.append(pool)
        return replace(self, pools=tuple(pools))


def _curves(cohort: Cohort, step: RecipeStep, bench: _Bench) -> dict[str, ScoreCurve]:
    """Return the curve of every pool, fitted on its boxes as they are before the step."""
    view = View(threshold=step.options["iou_threshold"], max_dets=sys.maxsize)
    curves = {}
    for name, pool in zip(bench.names, bench.pools):
        alone = replace(cohort, models={name: _table(pool, scored=True)}, maps={})
        matches = collect(alone, {name: (name, MatchRecipe((view,)))})[name]
        assert isinstance(matches, Matches)
        fate = matches.prediction_fate[0]
        valid = fate != IGNORED
        hit = fate[valid] == HIT
        curves[name] = fit_curve(matches.score[valid], hit, step.options["method"])
    return curves


def _calibrated(step: RecipeStep, name: str, pool: BoxPool, recipe: str) -> BoxPool:
    curves = step.options["curves"]
    if name not in curves:
        raise UsageError(
            f"recipe {recipe!r} calibrates scores, but has no curve for {name!r}: fit it on a "
            "tuning split (--tuning, or fit_calibration in Python)"
        )
    return replace(pool, score=curves[name](pool.score))


def _notes_on_curves(recipe: FusionRecipe) -> list[str]:
    """Return which scores a calibration leaves as they are, and why."""
    notes = []
    for step in recipe.steps:
        for name, curve in step.options.get("curves", {}).items():
            if step.needs_curves and curve.reason:
                why = WHY_NOT[curve.reason]
                notes.append(
                    f"{name!r} could not be calibrated on the tuning split, because {why}: its "
                    "scores stay as they are"
                )
    return notes


def _notes_on_masks(
    names: Sequence[str], tables: Sequence[Predictions], recipe: FusionRecipe
) -> list[str]:
    """Return whose masks are lost because boxes move."""
    owners, silent = [], 0
    for name, table in zip(names, tables):
        silent += not len(table)
        if len(table) and table.masks is not None:
            owners.append(name)
    if not owners or not recipe.moves:
        return []
    has_all = len(owners) + silent == len(names) > 1
    whose = "all members" if has_all else ", ".join(map(repr, owners))
    return [
        f"masks of {whose} are not fused, only their boxes: recipe {recipe.name!r} moves boxes; "
        "one that only chooses, such as nms, keeps masks"
    ]


def chosen_members(
    cohort: Cohort, recipe: FusionRecipe, members: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the names of the members: those that were asked for, those of the recipe, or all."""
    names = recipe.members if members is None else tuple(several("members", members))
    if names is None:
        names = tuple(cohort.models)
    if not names:
        raise InputError(
            "at least one model", rule="no-predictions", hint="give predictions of the members"
        )
    for name in names:
        cohort.predictions(name)
    if len(set(names)) < len(names):
        raise UsageError(f"each member once, not {', '.join(names)}")
    return tuple(names)


def _weights(cohort: Cohort, recipe: FusionRecipe, names: tuple[str, ...]) -> F64:
    for name in recipe.weights:
        if name not in cohort.models:
            raise UsageError(
                f"recipe {recipe.name!r} has a weight for {name!r}, which is not a model; "
                f"{did_you_mean(name, cohort.models)}"
            )
    return checked_weights([recipe.weights.get(name, 1.0) for name in names], len(names))


def _check_scores(cohort: Cohort, name: str) -> None:
    """Raise unless scores can be averaged: those of different scales mean different things."""
    table = cohort.predictions(name)
    if not len(table) or (table.score.min() >= 0 and table.score.max() <= 1):
        return
    wrong = np.flatnonzero((table.score < 0) | (table.score > 1))
    remedy = "turn them into probabilities"
    if are_percentages(table.score):
        remedy = "these look like percentages, divide them by 100"
    if len(wrong):
        raise InputError(
            "scores in [0, 1], because members are averaged by them",
            rule="score-range",
            file=_file_of(cohort, name),
            location=f"predictions of {name!r}",
            field="score",
            value=float(table.score[wrong[0]]),
            hint=f"{count_text('score', len(wrong))} of {len(table)}: {remedy}",
        )


def _file_of(cohort: Cohort, name: str) -> str:
    """Return the file that the predictions of a member were read from."""
    for intake in cohort.intake.files:
        if intake.role == f"predictions of {name}":
            return intake.file
    return "<arrays>"


def _has_class(table: Predictions, n_classes: int) -> Flags:
    """Return (n_classes,) of which classes a member has boxes."""
    label = table.label
    if not len(label) or label.min() < label.max():
        return np.bincount(label, minlength=n_classes) > 0
    one = np.zeros(n_classes, np.bool_)
    one[label[0]] = True  # the usual case, in which counting takes longer
    return one


def _check_common(
    cohort: Cohort, names: Sequence[str], with_boxes: Flags, with_class: Flags
) -> None:
    """Raise if a member was run on other images, or has other numbers for the same classes.

    A member that alone knows its classes need not share an image with the others, and one that has
    no boxes contradicts nobody.
    """
    for k, name in enumerate(names):
        shares_class = _shares(with_class, k)
        if shares_class is None:
            continue
        if shares_class and not _shares(with_boxes, k):
            raise InputError(
                "members with boxes on the same images",
                rule="different-images",
                file=_file_of(cohort, name),
                location=f"predictions of {name!r}",
                value="no images in common with the other members",
                hint="run all members on the same images",
            )
        if not shares_class and _is_misnamed(cohort, names, k):
            raise InputError(
                "members that name the classes of boxes at the same place alike",
                rule="different-classes",
                file=_file_of(cohort, name),
                location=f"predictions of {name!r}",
                value="most boxes lie on those that other members give another class",
                hint="compare the numbers or names of its classes with those of the others",
            )


def _shares(owns: Flags, k: int) -> bool | None:
    """Return whether member k has something that another member has too; None where it, or all
    others, have nothing at all.
    """
    others = np.delete(owns, k, axis=0).any(axis=0)
    if not owns[k].any() or not others.any():
        return None
    return bool((owns[k] & others).any())


def _is_misnamed(cohort: Cohort, names: Sequence[str], k: int) -> bool:
    """Return whether most boxes of a member lie on boxes of others, which have other classes."""
    own = cohort.predictions(names[k])
    is_met = np.zeros(len(own), np.bool_)
    mine = (own.offsets, own.label, own.boxes, own.extent)
    for name in (*names[:k], *names[k + 1 :]):
        other = cohort.predictions(name)
        theirs = (other.offsets, other.label, other.boxes, other.extent)
        rows, _, iou = overlapping(mine, theirs, np.zeros(len(own), np.bool_), 0)
        is_met[rows[iou >= SAME_PLACE]] = True
    return bool(is_met.mean() > 0.5)


def _accounts(
    names: Sequence[str], tables: Sequence[Predictions], with_boxes: Flags, with_class: Flags
) -> tuple[tuple[MemberCount, ...], list[str]]:
    """Return what every member brings, and notes on those that bring no boxes or no scores."""
    members, notes = [], []
    for k, (name, table) in enumerate(zip(names, tables)):
        n_images, n_classes = int(with_boxes[k].sum()), int(with_class[k].sum())
        members.append(MemberCount(name, len(table), n_images, n_classes))
        if not len(table):
            notes.append(f"{name!r} has no boxes: it counts as a model that found nothing")
        elif not table.scored:
            notes.append(f"{name!r} has no scores: all of them count as 1")
    return tuple(members), notes


def _notes_on_gaps(
    names: Sequence[str], with_boxes: Flags, with_class: Flags, classes: Sequence[str]
) -> list[str]:
    """Return which members are silent where others are not, and which alone know a class."""
    notes = []
    for k, name in enumerate(names):
        others = np.arange(len(names)) != k
        anywhere = with_boxes[others].any(axis=0)
        n_others, n_own = int(anywhere.sum()), int((anywhere & with_boxes[k]).sum())
        if with_boxes[k].any() and n_own < FEW_IMAGES * n_others:
            notes.append(
                f"{name!r} has boxes on {n_own} of the {count_text('image', n_others)} on which "
                "other members have some: elsewhere it counts as a model that found nothing"
            )
        alone = np.flatnonzero(with_class[k] & ~with_class[others].any(axis=0))
        if len(alone) and with_boxes[others].any():
            words = ", ".join(classes[c] for c in alone[:MOST_NAMED])
            notes.append(f"only {name!r} has boxes of {count_text('class', len(alone))}: {words}")
    return notes


def _pools(tables: Sequence[Predictions]) -> list[BoxPool]:
    """Return the boxes of every member; their rows are those of all tables one below the other."""
    pools, first = [], 0
    for table in tables:
        pools.append(
            BoxPool(
                offsets=table.offsets,
                label=table.label,
                boxes=table.boxes,
                extent=table.extent,
                score=table.score,
                first_row=first,
            )
        )
        first += len(table)
    return pools


def _fused(step: RecipeStep, pools: Sequence[BoxPool], weights: F64) -> BoxPool:
    """Return the boxes of a step that compares those of all pools."""
    options = step.options
    threshold = options["iou_threshold"]
    if step.kind == "nms":
        return kernels.suppressed(pools, shares_of(weights), threshold)
    if step.kind == "soft-nms":
        return softly_suppressed(
            pools,
            weights,
            options["method"],
            threshold,
            options["sigma"],
            options["skip_threshold"],
        )
    if step.kind == "non-maximum-weighted":
        return kernels.merged_about_best(
            pools, shares_of(weights), threshold, options["skip_threshold"]
        )
    return kernels.fused(
        pools, weights, threshold, options["skip_threshold"], options["confidence"]
    )


def _after(step: RecipeStep, pool: BoxPool) -> BoxPool:
    """Return the boxes that a step leaves of one pool."""
    options = step.options
    if step.kind in ("nms", "soft-nms"):
        return _fused(step, (pool,), np.ones(1))
    if step.kind == "resize":
        factors = np.where(pool.score > options["score_above"], options["factor"], 1.0)
        return pool.with_boxes(kernels.resized(pool.boxes, factors))
    if step.kind == "top-k":
        return pool.keep(kernels.best_rows(pool.offsets, pool.score, options["k"]))
    return pool.keep(pool.score >= options["least"])


def _predictions(pool: BoxPool, tables: Sequence[Predictions], *, moved: bool) -> Predictions:
    """Return the boxes as a table; if none moved, with what else their members say about them."""
    scored = any(table.scored for table in tables)
    if moved or all(_is_boxes_alone(table) for table in tables):
        return _table(pool, scored=scored)
    rows = _rows_of(tables, pool)
    return replace(rows, score=pool.score, place=np.arange(len(pool)), scored=scored)


def _is_boxes_alone(table: Predictions) -> bool:
    """Return whether a table says nothing but what a pool holds."""
    has_more = table.masks is not None or table.points is not None or bool(table.facts)
    has_area = table.area is not table.extent and not np.array_equal(table.area, table.extent)
    return not has_more and not has_area


def _table(pool: BoxPool, *, scored: bool) -> Predictions:
    """Return the boxes alone as a table."""
    return Predictions(
        offsets=pool.offsets,
        boxes=pool.boxes,
        extent=pool.extent,
        label=pool.label,
        place=np.arange(len(pool)),
        facts={},
        area=pool.extent,
        score=pool.score,
        scored=scored,
    )


def _rows_of(tables: Sequence[Predictions], pool: BoxPool) -> Predictions:
    """Return the rows of a pool from the tables one below the other."""
    ends = np.cumsum([len(table) for table in tables])
    is_left = np.zeros(ends[-1], np.bool_)
    is_left[pool.rows] = True
    # Only rows that are left are put together: after a suppression they are few.
    parts = []
    for table, flags in zip(tables, np.split(is_left, ends[:-1])):
        parts.append(table.keep(flags))
    place = np.empty(len(is_left), np.int64)
    place[is_left] = np.arange(len(pool))
    return Predictions.concat(parts).rows(place[pool.rows], pool.offsets)
