# SPDX-License-Identifier: Apache-2.0
"""`fuse`: the predictions of the models of a cohort become those of an ensemble, by a recipe.

A `Cohort` and a `FusionRecipe` come in. `fuse` returns the cohort with one model more; `carry_out`
also says how many boxes each step left and what is worth knowing about the members, for ``calipers
fuse`` and `calipers.fusion.evaluate`.

A cohort has one list of images and one of classes, so that members cannot disagree about their
names. What is still refused: scores outside [0, 1], members that share no image, and members that
share no class. A member without boxes counts as a model that found nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from calipers.arguments import names_arguments
from calipers.arrays import F64, Array, Column, joined
from calipers.data.cohort import Cohort
from calipers.data.objects import Predictions
from calipers.errors import InputError, UsageError, did_you_mean, several, word
from calipers.fusion.pool import BoxPool, checked_weights
from calipers.fusion.recipe import FusionRecipe, RecipeStep
from calipers.kernels import ragged
from calipers.show.words import count_text


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
    for name, table in zip(names, tables):
        _check_scores(name, table)
    accounts, notes = _accounts(names, tables)
    pools = _pools(tables)
    counts = [StepCount("members", sum(map(len, pools)))]
    for step in recipe.steps:
        if step.pools and len(pools) != 1:
            pools = [_together(pools, weights)]
        pools = [_after(step, pool) for pool in pools]
        counts.append(StepCount(str(step), sum(map(len, pools))))
    if len(pools) > 1:
        raise UsageError(
            f"recipe {recipe.name!r} leaves {len(pools)} members apart: add a step that fuses, "
            "or pool = true to a suppression"
        )
    predictions = _predictions(pools[0].best_first(), tables, moved=recipe.moves)
    return Fusion(recipe, accounts, predictions, tuple(counts), tuple(notes))


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
                f"recipe {recipe.name!r} has a weight for {name!r}, which is no model; "
                f"{did_you_mean(name, cohort.models)}"
            )
    return checked_weights([recipe.weights.get(name, 1.0) for name in names], len(names))


def _check_scores(name: str, table: Predictions) -> None:
    """Raise unless scores can be averaged: those of different scales mean different things."""
    wrong = np.flatnonzero((table.score < 0) | (table.score > 1))
    if len(wrong):
        raise InputError(
            "scores in [0, 1], because members are averaged by them",
            rule="score-range",
            location=f"predictions of {name!r}",
            field="score",
            value=float(table.score[wrong[0]]),
            hint=f"{count_text('score', len(wrong))} of {len(table)}: turn them into probabilities",
        )


def _accounts(
    names: Sequence[str], tables: Sequence[Predictions]
) -> tuple[tuple[MemberCount, ...], list[str]]:
    """Return what every member brings, and notes; members with nothing in common are an error."""
    members, notes = [], []
    images = [np.flatnonzero(np.diff(table.offsets)) for table in tables]
    classes = [np.flatnonzero(np.bincount(table.label)) for table in tables]
    for k, (name, table) in enumerate(zip(names, tables)):
        if not _has_common(k, images):
            raise _apart("different-images", "images", names[k])
        if not _has_common(k, classes):
            raise _apart("different-classes", "classes", names[k])
        members.append(MemberCount(name, len(table), len(images[k]), len(classes[k])))
        if not len(table):
            notes.append(f"{name!r} has no boxes: it counts as a model that found nothing")
        elif not table.scored:
            notes.append(f"{name!r} has no scores: all of them count as 1")
    return tuple(members), notes


def _has_common(k: int, sets: Sequence[Column]) -> bool:
    """Return whether a member shares an image (a class) with another one; who has no boxes
    contradicts nobody.
    """
    others = [own for j, own in enumerate(sets) if j != k and len(own)]
    if not len(sets[k]) or not others:
        return True
    return bool(np.isin(sets[k], np.concatenate(others)).any())


def _apart(rule: str, things: str, name: str) -> InputError:
    return InputError(
        f"members with boxes on the same {things}",
        rule=rule,
        location=f"predictions of {name!r}",
        value=f"no {things} in common with the other members",
        hint="check that all files are about the same data set and use the same names",
    )


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
                model=np.zeros(len(table), np.int64),
                weights=np.ones(1),
                row=np.arange(first, first + len(table)),
            )
        )
        first += len(table)
    return pools


def _together(pools: Sequence[BoxPool], weights: F64) -> BoxPool:
    """Return the boxes of all members, image by image, members in their order."""
    n_images, n_pools = len(pools[0].offsets) - 1, len(pools)
    counts = np.stack([np.diff(pool.offsets) for pool in pools], axis=1)  # (n_images, n_pools)
    # Where the boxes of an image begin in each member, and the members one below the other.
    base = ragged.from_counts(np.array([len(pool) for pool in pools]))
    starts = np.stack([pool.offsets[:-1] for pool in pools], axis=1) + base[:-1]
    order = ragged.spans(starts.ravel(), counts.ravel())

    def column(name: str) -> Array:
        return np.take(joined(pools, name), order, axis=0)

    return BoxPool(
        offsets=ragged.from_counts(counts.sum(axis=1)),
        label=column("label"),
        boxes=column("boxes"),
        extent=column("extent"),
        score=column("score"),
        model=np.repeat(np.tile(np.arange(n_pools), n_images), counts.ravel()),
        weights=weights,
        row=column("row"),
    )


def _after(step: RecipeStep, pool: BoxPool) -> BoxPool:
    """Return the boxes that a step leaves."""
    options = step.options
    if step.kind == "nms":
        return _of_one_model(pool.weighted().suppressed(options["iou_threshold"]))
    if step.kind == "soft-nms":
        lowered = pool.weighted().softly_suppressed(
            options["method"],
            options["iou_threshold"],
            options["sigma"],
            options["skip_threshold"],
        )
        return _of_one_model(lowered)
    if step.kind == "non-maximum-weighted":
        return _of_one_model(
            pool.merged_about_best(options["iou_threshold"], options["skip_threshold"])
        )
    if step.kind == "weighted-boxes-fusion":
        return _of_one_model(
            pool.fused(options["iou_threshold"], options["skip_threshold"], options["confidence"])
        )
    if step.kind == "resize":
        return pool.resized(options["factor"], options["score_above"])
    if step.kind == "top-k":
        return pool.best(options["k"])
    return pool.keep(pool.score >= options["least"])


def _of_one_model(pool: BoxPool) -> BoxPool:
    """Return the boxes as those of the ensemble: weights of members were used."""
    return replace(pool, model=np.zeros(len(pool), np.int64), weights=np.ones(1))


def _predictions(pool: BoxPool, tables: Sequence[Predictions], *, moved: bool) -> Predictions:
    """Return the boxes as a table; if none moved, with what else their members say about them."""
    scored = any(table.scored for table in tables)
    place = np.arange(len(pool))
    if not moved:
        rows = _rows_of(tables, pool)
        return replace(rows, score=pool.score, place=place, scored=scored)
    return Predictions(
        offsets=pool.offsets,
        boxes=pool.boxes,
        extent=pool.extent,
        label=pool.label,
        place=place,
        facts={},
        area=pool.extent,
        score=pool.score,
        scored=scored,
    )


def _rows_of(tables: Sequence[Predictions], pool: BoxPool) -> Predictions:
    """Return the rows of a pool from the tables one below the other."""
    ends = np.cumsum([len(table) for table in tables])
    is_left = np.zeros(ends[-1], np.bool_)
    is_left[pool.row] = True
    # Only rows that are left are put together: after a suppression they are few.
    parts = []
    for table, flags in zip(tables, np.split(is_left, ends[:-1])):
        parts.append(table.keep(flags))
    place = np.cumsum(is_left) - 1
    return Predictions.concat(parts).rows(place[pool.row], pool.offsets)
