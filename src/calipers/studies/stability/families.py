# SPDX-License-Identifier: Apache-2.0
"""Simulated families of models: how repeated trainings may agree and err, for each data set.

The logit of an instance is sharpness (size - distance / radius), cut off at the bottom, plus
texture; a sigmoid turns it into a probability. The marked place has an error that all models share
and one of their own. The recipes were chosen so that the tables resemble the printed ones: they
show what scores make of such maps, not how networks behave.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from calipers.stability.localization import LEAST_JACCARD
from calipers.studies.stability.printed import DATA_SETS, MURA, OPERATORS, PASCAL, XRAY
from calipers.synthetic.anatomy import stream
from calipers.tables.array_bags import ArrayBags

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]

SIDE, MODELS, FOLDS = 16, 5, 5
MODEL_NAMES = [f"run-{k + 1}" for k in range(MODELS)]
SPLIT = 1  # the fold whose test bags the repeated trainings see: fold 2
SHARPNESS = 4.0
SCATTER = 0.3  # share of the lesion that a model misses
MIXED = 0.8  # share of the variance of bag scores that trainings have in common


@dataclass(frozen=True, slots=True)
class FamilyRecipe:
    """Parameters of the models of one family on positive bags; lengths in radii of the lesion."""

    size: float  # of what they mark
    wrong: float  # deviation of the error of place that all share
    own: float  # deviation of the error of place of each by itself
    floor: float  # lowest logit away from the lesion
    shared: float  # deviation of texture that all see alike
    noise: float  # deviation of texture of each by itself
    auc: float  # of whole bags
    hard: float = 0.3  # share of bags on which own errors are three times as large


@dataclass(frozen=True, slots=True)
class LesionStatistics:
    """The lesions in the bags of a data set."""

    radius: tuple[float, float]  # of lesions, in instances
    # share of bags of which the upper half is padding, and models mark all below
    low_quality: float = 0.0


IMAGES: Mapping[str, LesionStatistics] = {
    XRAY: LesionStatistics((3.0, 4.5)),
    MURA: LesionStatistics((1.8, 3.6)),
    PASCAL: LesionStatistics((1.6, 3.2), low_quality=0.3),
}
# In the order of OPERATORS: NOR, Mean, LSE r=0.1, LSE r=1, Max.
RECIPES: Mapping[str, tuple[FamilyRecipe, ...]] = {
    XRAY: (
        FamilyRecipe(1.1, 0.10, 0.15, -2.4, 0.2, 0.6, 0.88),
        FamilyRecipe(1.7, 0.20, 0.35, -3.0, 0.6, 0.9, 0.88),
        FamilyRecipe(1.5, 0.20, 0.15, -4.0, 0.4, 0.7, 0.91),
        FamilyRecipe(1.6, 0.20, 0.28, -3.5, 0.5, 0.8, 0.90),
        FamilyRecipe(0.5, 0.20, 0.55, -1.8, 0.2, 0.4, 0.87),
    ),
    MURA: (
        FamilyRecipe(1.2, 0.50, 0.45, -3.0, 0.4, 0.7, 0.85),
        FamilyRecipe(2.2, 0.60, 1.20, -2.5, 0.9, 1.2, 0.85),
        FamilyRecipe(2.2, 0.60, 1.20, -2.5, 0.9, 1.2, 0.85),
        FamilyRecipe(1.6, 0.50, 0.60, -3.0, 0.6, 0.8, 0.84),
        FamilyRecipe(0.6, 0.50, 0.60, -1.8, 0.2, 0.4, 0.82),
    ),
    PASCAL: (
        FamilyRecipe(1.6, 0.40, 0.20, -6.0, 0.8, 0.6, 0.99),
        FamilyRecipe(3.2, 0.60, 0.75, -9.0, 1.2, 0.8, 0.99),
        FamilyRecipe(3.2, 0.60, 0.75, -9.0, 1.2, 0.8, 0.99),
        FamilyRecipe(2.9, 0.60, 0.60, -9.0, 1.2, 0.7, 0.99),
        FamilyRecipe(1.1, 0.10, 0.20, -3.0, 0.4, 0.7, 0.99),
    ),
}


def cells() -> list[tuple[str, str]]:
    """Return the pairs of data set and operator that have a family."""
    return [(data, operator) for data in DATA_SETS for operator in OPERATORS]


def recipe_of(data: str, operator: str) -> FamilyRecipe:
    """Return the recipe of a family."""
    return RECIPES[data][OPERATORS.index(operator)]


def simulate_bags(data: str, operator: str, n: int, seed: int) -> ArrayBags:
    """Return n positive and n negative bags under five trainings; all operators share the bags."""
    simulated_maps = _simulate(
        data, recipe_of(data, operator), n, MODELS, (seed, data, f"fold {SPLIT}"), operator
    )
    return ArrayBags.of(
        simulated_maps.maps,
        simulated_maps.labels,
        models=MODEL_NAMES,
        instances=simulated_maps.inside,
        bag_scores=simulated_maps.scores,
    )


@dataclass(frozen=True)
class Fold:
    """One model of the cross-validation on its own test bags."""

    auc: float
    dice: float
    accuracy: float  # share of positive bags with a Jaccard index of at least 0.1


def folds(data: str, operator: str, n: int, seed: int) -> tuple[Fold, ...]:
    """Return five models, each on its own test bags.

    The fold `SPLIT` has the test bags of the repeated trainings.
    """
    result = []
    for k in range(FOLDS):
        simulated_maps = _simulate(
            data,
            recipe_of(data, operator),
            n,
            1,
            (seed, data, f"fold {k}"),
            f"{operator}, whole fold",
        )
        positive = simulated_maps.labels == 1
        dice = _dice(simulated_maps.maps[0, positive], simulated_maps.inside[positive])
        # DICE / (2 - DICE) is the Jaccard index.
        accuracy = np.mean(dice / (2 - dice) >= LEAST_JACCARD)
        result.append(
            Fold(_auc(simulated_maps.scores[0], positive), float(np.mean(dice)), float(accuracy))
        )
    return tuple(result)


@dataclass(frozen=True)
class SimulatedMaps:
    """Simulated maps of one or more models."""

    maps: F64  # (models, bags, side, side)
    labels: NDArray[np.int64]  # (bags,)
    inside: Flags  # (bags, side, side)
    scores: F64  # (models, bags)


def _simulate(
    data: str,
    recipe: FamilyRecipe,
    n: int,
    models: int,
    stream_names: tuple[int, str, str],
    operator: str,
) -> SimulatedMaps:
    """Return n positive bags and n negative ones."""
    images, (seed, *names) = IMAGES[data], stream_names
    # Lesions have a stream of their own, so that all operators see the same bags.
    lesions, draws = stream(seed, "stability", *names), stream(seed, "stability", *names, operator)
    radius = lesions.uniform(*images.radius, n)
    centre = lesions.uniform(radius[:, None], SIDE - radius[:, None], (n, 2))
    low_quality = lesions.random(n) < images.low_quality
    centre[low_quality, 0] = SIDE / 2 + centre[low_quality, 0] / 2  # below the padding
    inside = _distance(centre) <= radius[:, None, None]
    logits = _logits(recipe, centre, radius, models, draws)
    logits[:, low_quality] = _padded_logits(recipe, models, int(low_quality.sum()), draws)
    empty = recipe.floor + _texture(recipe, models, n, draws)
    maps = _sigmoid(np.concatenate([logits, empty], axis=1))
    labels = np.repeat([1, 0], n)
    every_inside = np.concatenate([inside, np.zeros((n, SIDE, SIDE), np.bool_)])
    return SimulatedMaps(maps, labels, every_inside, _bag_scores(recipe, labels, models, draws))


def _logits(recipe: FamilyRecipe, centre: F64, radius: F64, models: int, draws: Generator) -> F64:
    """Return (models, n, side, side): logits of positive bags."""
    n = len(radius)
    # Own errors are larger on hard bags, for all models alike.
    hard = np.where(draws.random(n) < recipe.hard, 3.0, 1.0)
    wrong = recipe.wrong * draws.standard_normal((n, 2))
    own = recipe.own * hard[:, None] * draws.standard_normal((models, n, 2))
    size = recipe.size * np.exp(0.15 * hard[:, None] * draws.standard_normal((models, n, 1)))
    places = centre + radius[:, None] * (wrong + own)
    away = _distance(places.reshape(-1, 2)).reshape(models, n, SIDE, SIDE) / radius[:, None, None]
    signal = np.maximum(SHARPNESS * (size[..., None] - away), recipe.floor)
    return np.asarray(signal + _texture(recipe, models, n, draws))


def _padded_logits(recipe: FamilyRecipe, models: int, n: int, draws: Generator) -> F64:
    """Return logits of pictures with an upper half of padding: models mark everything below."""
    row = np.arange(SIDE)[:, None] + np.zeros(SIDE)
    edge = SIDE * 0.4 + 0.6 * recipe.size * draws.standard_normal((models, n, 1, 1))
    signal = np.maximum(0.8 * SHARPNESS * (row - edge) / 2, recipe.floor)
    return np.asarray(np.minimum(signal, SHARPNESS) + _texture(recipe, models, n, draws))


def _texture(recipe: FamilyRecipe, models: int, n: int, draws: Generator) -> F64:
    shared = recipe.shared * draws.standard_normal((n, SIDE, SIDE))
    return np.asarray(shared + recipe.noise * draws.standard_normal((models, n, SIDE, SIDE)))


def _bag_scores(
    recipe: FamilyRecipe, labels: NDArray[np.int64], models: int, draws: Generator
) -> F64:
    """Return (models, bags): normal scores with the AUC of the recipe, independent of the maps."""
    from scipy.special import ndtri

    # Two normal distributions of variance 1 that are d apart have an AUC of Phi(d / sqrt 2).
    separation = np.sqrt(2.0) * ndtri(recipe.auc)
    common = np.sqrt(MIXED) * draws.standard_normal(len(labels))
    own = np.sqrt(1 - MIXED) * draws.standard_normal((models, len(labels)))
    return _sigmoid(np.asarray(common + own + separation * labels))


def _distance(places: F64) -> F64:
    """Return (n, side, side): distance of every instance's centre from a place (row, column)."""
    at = np.arange(SIDE) + 0.5
    return np.hypot(at[:, None] - places[:, 0, None, None], at - places[:, 1, None, None])


def _dice(values: F64, inside: Flags) -> F64:
    """Return (n,): the DICE coefficients of (n, side, side) maps."""
    positive = values >= 0.5
    overlap = (positive & inside).sum(axis=(1, 2))
    return np.asarray(2 * overlap / (positive.sum(axis=(1, 2)) + inside.sum(axis=(1, 2))))


def _auc(scores: F64, positive: Flags) -> float:
    from calipers.kernels.pairwise import midranks

    n, ranks = int(positive.sum()), midranks(scores[None])[0]
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * (len(scores) - n)))


def _sigmoid(logits: F64) -> F64:
    return np.asarray(1.0 / (1.0 + np.exp(-logits)))


def scattered_bags(n: int, seed: int) -> ArrayBags:
    """Return n positive bags in which every model independently misses a part of the lesion and
    calls as much elsewhere.
    """
    draws = stream(seed, "stability", "scattered")
    inside = np.zeros((n, SIDE * SIDE), np.bool_)
    inside[:, : inside.shape[1] // 4] = True  # places do not matter to any score
    chance = np.where(inside, 1 - SCATTER, SCATTER / 3)
    maps = np.where(draws.random((MODELS, *inside.shape)) < chance, 0.9, 0.1)
    return ArrayBags.of(maps, np.ones(n, np.int64), models=MODEL_NAMES, instances=inside)


def identical_bags(bags: ArrayBags) -> ArrayBags:
    """Return the bags with the first model repeated, which is perfectly stable."""
    n = len(bags.models)
    return replace(bags, maps=tuple(np.repeat(maps[:1], n, axis=0) for maps in bags.maps))
