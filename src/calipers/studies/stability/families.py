# SPDX-License-Identifier: Apache-2.0
"""Families of models without networks: how repeated trainings may agree and err, data set by data
set.

A model says of an instance sharpness (size - distance / radius), cut off at the bottom, plus
texture, through a sigmoid. Its place has an error that all models share and one of its own. The
recipes are made so that the tables have the shape of the printed ones: what they show is what
scores make of such maps, not how networks behave.
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
SPLIT = 1  # the fold whose test bags the repeated trainings see: fold 2
SHARPNESS = 4.0
SCATTER = 0.3  # share of the lesion that a model misses
MIXED = 0.8  # share of the variance of bag scores that trainings have in common


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the models of one family look at positive bags; lengths in radii of the lesion."""

    size: float  # of what they mark
    wrong: float  # deviation of the error of place that all share
    own: float  # deviation of the error of place of each by itself
    floor: float  # lowest logit away from the lesion
    shared: float  # deviation of texture that all see alike
    noise: float  # deviation of texture of each by itself
    auc: float  # of whole bags
    hard: float = 0.3  # share of bags on which own errors are three times as large


@dataclass(frozen=True, slots=True)
class Images:
    """The bags of a data set."""

    radius: tuple[float, float]  # of lesions, in instances
    # share of bags of which the upper half is padding, and models mark all below
    low_quality: float = 0.0


IMAGES: Mapping[str, Images] = {
    XRAY: Images((3.0, 4.5)),
    MURA: Images((1.8, 3.6)),
    PASCAL: Images((1.6, 3.2), low_quality=0.3),
}
# In the order of OPERATORS: NOR, Mean, LSE r=0.1, LSE r=1, Max.
RECIPES: Mapping[str, tuple[Recipe, ...]] = {
    XRAY: (
        Recipe(1.1, 0.10, 0.15, -2.4, 0.2, 0.6, 0.88),
        Recipe(1.7, 0.20, 0.35, -3.0, 0.6, 0.9, 0.88),
        Recipe(1.5, 0.20, 0.15, -4.0, 0.4, 0.7, 0.91),
        Recipe(1.6, 0.20, 0.28, -3.5, 0.5, 0.8, 0.90),
        Recipe(0.5, 0.20, 0.55, -1.8, 0.2, 0.4, 0.87),
    ),
    MURA: (
        Recipe(1.2, 0.50, 0.45, -3.0, 0.4, 0.7, 0.85),
        Recipe(2.2, 0.60, 1.20, -2.5, 0.9, 1.2, 0.85),
        Recipe(2.2, 0.60, 1.20, -2.5, 0.9, 1.2, 0.85),
        Recipe(1.6, 0.50, 0.60, -3.0, 0.6, 0.8, 0.84),
        Recipe(0.6, 0.50, 0.60, -1.8, 0.2, 0.4, 0.82),
    ),
    PASCAL: (
        Recipe(1.6, 0.40, 0.20, -6.0, 0.8, 0.6, 0.99),
        Recipe(3.2, 0.60, 0.75, -9.0, 1.2, 0.8, 0.99),
        Recipe(3.2, 0.60, 0.75, -9.0, 1.2, 0.8, 0.99),
        Recipe(2.9, 0.60, 0.60, -9.0, 1.2, 0.7, 0.99),
        Recipe(1.1, 0.10, 0.20, -3.0, 0.4, 0.7, 0.99),
    ),
}


def cells() -> list[tuple[str, str]]:
    """Return data set and operator of all families."""
    return [(data, operator) for data in DATA_SETS for operator in OPERATORS]


def recipe(data: str, operator: str) -> Recipe:
    """Return how the models of a family look at bags."""
    return RECIPES[data][OPERATORS.index(operator)]


def made_bags(data: str, operator: str, n: int, seed: int) -> ArrayBags:
    """Return n positive and n negative bags under five trainings; the bags do not depend on the
    operator.
    """
    drawn = _drawn(data, recipe(data, operator), n, MODELS, (seed, data, f"fold {SPLIT}"), operator)
    return ArrayBags.of(
        drawn.maps,
        drawn.labels,
        models=[f"run-{k + 1}" for k in range(MODELS)],
        instances=drawn.inside,
        bag_scores=drawn.scores,
    )


@dataclass(frozen=True)
class Fold:
    """One model of the cross-validation on its own test bags."""

    auc: float
    dice: float
    accuracy: float  # share of positive bags with a Jaccard index of at least 0.1


def folds(data: str, operator: str, n: int, seed: int) -> tuple[Fold, ...]:
    """Return five models, each on other test bags; those of the split are the ones of the repeated
    trainings.
    """
    found = []
    for k in range(FOLDS):
        drawn = _drawn(
            data, recipe(data, operator), n, 1, (seed, data, f"fold {k}"), f"{operator}, whole fold"
        )
        positive = drawn.labels == 1
        dice = _dice(drawn.maps[0, positive], drawn.inside[positive])
        accuracy = np.mean(dice / (2 - dice) >= LEAST_JACCARD)
        found.append(Fold(_auc(drawn.scores[0], positive), float(np.mean(dice)), float(accuracy)))
    return tuple(found)


@dataclass(frozen=True)
class Drawn:
    """Maps of one or more models."""

    maps: F64  # (models, bags, side, side)
    labels: NDArray[np.int64]  # (bags,)
    inside: Flags  # (bags, side, side)
    scores: F64  # (models, bags)


def _drawn(
    data: str, made: Recipe, n: int, models: int, of: tuple[int, str, str], operator: str
) -> Drawn:
    """Return n positive bags and n negative ones."""
    images, (seed, *names) = IMAGES[data], of
    lesions, draws = stream(seed, "stability", *names), stream(seed, "stability", *names, operator)
    radius = lesions.uniform(*images.radius, n)
    centre = lesions.uniform(radius[:, None], SIDE - radius[:, None], (n, 2))
    low_quality = lesions.random(n) < images.low_quality
    centre[low_quality, 0] = SIDE / 2 + centre[low_quality, 0] / 2  # below the padding
    inside = _distance(centre) <= radius[:, None, None]
    logits = _logits(made, centre, radius, models, draws)
    logits[:, low_quality] = _padded(made, models, int(low_quality.sum()), draws)
    empty = made.floor + _texture(made, models, n, draws)
    maps = _sigmoid(np.concatenate([logits, empty], axis=1))
    labels = np.repeat([1, 0], n)
    known = np.concatenate([inside, np.zeros((n, SIDE, SIDE), np.bool_)])
    return Drawn(maps, labels, known, _bag_scores(made, labels, models, draws))


def _logits(made: Recipe, centre: F64, radius: F64, models: int, draws: Generator) -> F64:
    """Return (models, n, side, side): what models say of positive bags."""
    n = len(radius)
    hard = np.where(draws.random(n) < made.hard, 3.0, 1.0)
    wrong = made.wrong * draws.standard_normal((n, 2))
    own = made.own * hard[:, None] * draws.standard_normal((models, n, 2))
    size = made.size * np.exp(0.15 * hard[:, None] * draws.standard_normal((models, n, 1)))
    places = centre + radius[:, None] * (wrong + own)
    away = _distance(places.reshape(-1, 2)).reshape(models, n, SIDE, SIDE) / radius[:, None, None]
    signal = np.maximum(SHARPNESS * (size[..., None] - away), made.floor)
    return np.asarray(signal + _texture(made, models, n, draws))


def _padded(made: Recipe, models: int, n: int, draws: Generator) -> F64:
    """Return what models say of pictures whose upper half is padding: everything below it is
    marked.
    """
    row = np.arange(SIDE)[:, None] + np.zeros(SIDE)
    edge = SIDE * 0.4 + 0.6 * made.size * draws.standard_normal((models, n, 1, 1))
    signal = np.maximum(0.8 * SHARPNESS * (row - edge) / 2, made.floor)
    return np.asarray(np.minimum(signal, SHARPNESS) + _texture(made, models, n, draws))


def _texture(made: Recipe, models: int, n: int, draws: Generator) -> F64:
    shared = made.shared * draws.standard_normal((n, SIDE, SIDE))
    return np.asarray(shared + made.noise * draws.standard_normal((models, n, SIDE, SIDE)))


def _bag_scores(made: Recipe, labels: NDArray[np.int64], models: int, draws: Generator) -> F64:
    """Return (models, bags): normal scores whose area under the ROC curve is that of the recipe,
    whatever maps show.
    """
    from scipy.special import ndtri

    between = np.sqrt(2.0) * ndtri(made.auc)
    common = np.sqrt(MIXED) * draws.standard_normal(len(labels))
    own = np.sqrt(1 - MIXED) * draws.standard_normal((models, len(labels)))
    return _sigmoid(np.asarray(common + own + between * labels))


def _distance(places: F64) -> F64:
    """Return (n, side, side): how far the middle of every instance is from a place (row, column)."""
    at = np.arange(SIDE) + 0.5
    return np.hypot(at[:, None] - places[:, 0, None, None], at - places[:, 1, None, None])


def _dice(values: F64, inside: Flags) -> F64:
    """Return (n,): the DICE coefficients of (n, side, side) maps."""
    called = values >= 0.5
    both = (called & inside).sum(axis=(1, 2))
    return np.asarray(2 * both / (called.sum(axis=(1, 2)) + inside.sum(axis=(1, 2))))


def _auc(scores: F64, positive: Flags) -> float:
    from calipers.kernels.pairwise import midranks

    n, ranks = int(positive.sum()), midranks(scores[None])[0]
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * (len(scores) - n)))


def _sigmoid(logits: F64) -> F64:
    return np.asarray(1.0 / (1.0 + np.exp(-logits)))


def scattered(n: int, seed: int) -> ArrayBags:
    """Return n positive bags in which every model misses some of the lesion and calls as much
    elsewhere, by itself.
    """
    draws = stream(seed, "stability", "scattered")
    inside = np.zeros((n, SIDE * SIDE), np.bool_)
    inside[:, : inside.shape[1] // 4] = True  # places do not matter to any score
    chance = np.where(inside, 1 - SCATTER, SCATTER / 3)
    maps = np.where(draws.random((MODELS, *inside.shape)) < chance, 0.9, 0.1)
    return ArrayBags.of(
        maps, np.ones(n, np.int64), models=[f"run-{k + 1}" for k in range(MODELS)], instances=inside
    )


def identical(bags: ArrayBags) -> ArrayBags:
    """Return the same bags with one model five times: nothing can be more stable."""
    return replace(
        bags, maps=tuple(np.repeat(maps[:1], len(bags.models), axis=0) for maps in bags.maps)
    )
