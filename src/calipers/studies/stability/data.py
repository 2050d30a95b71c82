# SPDX-License-Identifier: Apache-2.0
"""The data of the study of stability: maps of networks, printed numbers, simulated families.

Maps are read from a folder DATA SET / OPERATOR / MODEL, with labels beside them. The numbers that
the paper prints are facts to compare with, and to judge its sentences by.

Simulated families of models say how repeated trainings may agree and err, for each data set. The
logit of an instance is sharpness (size - distance / radius), cut off at the bottom, plus texture; a
sigmoid turns it into a probability. The marked place has an error that all models share and one of
their own. The recipes were chosen so that the tables resemble the printed ones: they show what
scores make of such maps, not how networks behave. `calipers.studies.stability.experiments` uses
both.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from calipers.arrays import F64, Flags
from calipers.data.bags import ArrayBags
from calipers.errors import InputError
from calipers.io.source import hash_file
from calipers.stability.grid import instance_labels
from calipers.stability.read import FileBags, read_bags
from calipers.stability.scores import LEAST_JACCARD
from calipers.synthetic.demo import stream

FILES = (".npz", ".npy")  # a model in one file
NOT_MODELS = ("masks",)
LAYOUT = (
    "give FOLDER/DATA SET/OPERATOR/MODEL, each model a folder of maps or an .npz, beside "
    "labels.csv or masks"
)

NAN = math.nan
XRAY, MURA, PASCAL = "X-Ray", "MURA", "Pascal VOC"
NOR, MEAN, LSE_SMALL, LSE_ONE, MAX = OPERATORS = ("NOR", "Mean", "LSE, r=0.1", "LSE, r=1", "Max")
DATA_SETS = (XRAY, MURA, PASCAL)
# Tables II and III: (n00, n01, n10, n11), AJ and APJ as printed.
BINARY = {
    "IIa": ((40, 10, 10, 40), 0.6, 0.43),
    "IIb": ((0, 30, 30, 40), -0.43, -0.18),
    "IIIa": ((20, 20, 20, 40), 0.17, 0.09),
    "IIIb": ((20, 35, 5, 40), 0.24, 0.14),
}
# The row totals of the first classifier (calls 0, calls 1), as printed beside the same tables.
ROW_TOTALS = {"IIa": (50, 50), "IIb": (30, 70), "IIIa": (40, 60), "IIIb": (55, 55)}
# Table IX: what the green and the black dotted line of figure 9 end with.
LAST_STEPS = {"green": (0, 50, 50, 100), "black dotted": (50, 0, 100, 50)}

# Table V: class -> AUC, DICE, accuracy with standard deviations over five folds (its own models,
# not the references).
TABLE_V = {
    XRAY: ((0.90, 0.02), (0.72, 0.07), (0.97, 0.05)),
    MURA: ((0.84, 0.01), (NAN, NAN), (NAN, NAN)),
    PASCAL: ((0.99, 0.01), (0.40, 0.03), (0.82, 0.03)),
}

# Bags that the text describes: APJ, Spearman, and DICE where it says so.
DESCRIBED_BAGS = {
    "figure 5b (X-Ray)": (0.34, 0.32, 0.70),
    "figure 5c (X-Ray)": (0.17, 0.12, NAN),
    "figure 5d (MURA)": (0.69, 0.73, NAN),
    "figure 5g (Pascal VOC)": (0.46, 0.74, NAN),
}
INTERCHANGEABLE = {("APJ", "AJ"): 0.98, ("Kendall-b", "Spearman"): 0.99}  # section IV-F
SIDE, MODELS, FOLDS = 16, 5, 5
MODEL_NAMES = [f"run-{k + 1}" for k in range(MODELS)]
SPLIT = 1  # the fold whose test bags the repeated trainings see: fold 2
SHARPNESS = 4.0
SCATTER = 0.3  # share of the lesion that a model misses
MIXED = 0.8  # share of the variance of bag scores that trainings have in common


@dataclass(frozen=True)
class NetworkMaps:
    """The contents of a folder: bags by data set and operator, input files, and notes."""

    bags: Mapping[tuple[str, str], FileBags]
    inputs: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]


def read_maps(folder: str | Path) -> NetworkMaps:
    """Open the maps of a folder; headers are checked now, values are read when they are used.

    Notes
    -----
    Beside the models of an operator may stand ``labels.csv`` (or ``masks``), else those of its data
    set are used; and ``scores.csv`` with what each model says of whole bags. Folders whose name
    begins with a dot are passed over.
    """
    root = Path(folder)
    if not root.is_dir():
        raise InputError("a folder of maps", rule="not-a-folder", file=str(root), hint=LAYOUT)
    bags: dict[tuple[str, str], FileBags] = {}
    inputs: list[Mapping[str, Any]] = []
    notes: list[str] = []
    for data in _folders(root):
        for operator in _folders(data):
            models = _models(operator)
            if len(models) < 2:
                raise InputError(
                    "two models or more", rule="one-model", file=str(operator), hint=LAYOUT
                )
            beside = _beside(operator, data)
            model_paths = {path.stem: path for path in models}
            file_bags = read_bags(model_paths, beside.get("labels"), scores=beside.get("scores"))
            key = (data.name, operator.name)
            bags[key] = file_bags.with_instances(instance_labels) if file_bags.boxes else file_bags
            inputs += map(_entry, (*models, *beside.values()))
            notes += [f"{data.name}, {operator.name}: {note}" for note in file_bags.notes]
    if not bags:
        raise InputError(
            "maps of data sets and operators", rule="no-bags", file=str(root), hint=LAYOUT
        )
    # Labels of a data set serve several operators and are listed once.
    unique = {str(entry["file"]): entry for entry in inputs}
    return NetworkMaps(bags, tuple(unique.values()), tuple(notes))


def _folders(place: Path) -> list[Path]:
    folders = []
    for path in place.iterdir():
        is_hidden = path.name.startswith(".")
        if path.is_dir() and not is_hidden and path.name not in NOT_MODELS:
            folders.append(path)
    return sorted(folders)


def _models(operator: Path) -> list[Path]:
    files = [path for path in operator.iterdir() if path.suffix.lower() in FILES]
    return sorted([*_folders(operator), *files])


def _beside(operator: Path, data: Path) -> dict[str, Path]:
    """Return the paths of labels and scores for `read_bags`; labels of the data set are the
    fallback.
    """
    paths = {}
    # Labels of the operator come first, those of the data set are the fallback.
    places = (operator / "labels.csv", operator / "masks", data / "labels.csv", data / "masks")
    labels = next((path for path in places if path.exists()), None)
    if labels is not None:
        paths["labels"] = labels
    if (operator / "scores.csv").is_file():
        paths["scores"] = operator / "scores.csv"
    return paths


def _entry(path: Path) -> dict[str, Any]:
    """Return file, bytes and hash; for a folder, over all its files sorted by name."""
    if path.is_file():
        return {"file": str(path), "bytes": path.stat().st_size, "sha256": hash_file(path)}
    files = sorted(file for file in path.rglob("*") if file.is_file())
    hashes = "".join(f"{file.relative_to(path).as_posix()}\0{hash_file(file)}\n" for file in files)
    size = sum(file.stat().st_size for file in files)
    return {"file": str(path), "bytes": size, "sha256": hashlib.sha256(hashes.encode()).hexdigest()}


@dataclass(frozen=True, slots=True)
class PrintedRow:
    """A row of table VII: means, standard deviations where printed, columns of one split."""

    apj: tuple[float, float]
    spearman: tuple[float, float]
    auc: tuple[float, float]
    dice: tuple[float, float]
    split_auc: float
    split_dice: float


@dataclass(frozen=True, slots=True)
class Summary:
    """A row of table VI: mean and standard deviation over bags of APJ, Spearman and DICE."""

    scores: tuple[tuple[float, float], ...]
    bags: int


def _row(*cells: float) -> PrintedRow:
    a, b, c, d = ((cells[k], cells[k + 1]) for k in (0, 2, 4, 6))
    return PrintedRow(a, b, c, d, cells[8], cells[9])


TABLE_VII = {
    (XRAY, NOR): _row(0.42, 0.20, 0.36, 0.20, 0.88, 0.02, 0.75, 0.06, 0.87, 0.72),
    (XRAY, MEAN): _row(0.31, 0.17, 0.52, 0.22, 0.88, 0.03, 0.56, 0.06, 0.88, 0.52),
    (XRAY, LSE_SMALL): _row(0.49, 0.16, 0.68, 0.21, 0.91, 0.01, 0.59, 0.10, 0.89, 0.60),
    (XRAY, LSE_ONE): _row(0.37, 0.18, 0.58, 0.23, 0.90, 0.02, 0.58, 0.10, 0.90, 0.56),
    (XRAY, MAX): _row(0.05, 0.07, 0.15, 0.10, 0.87, 0.02, 0.11, 0.04, 0.87, 0.12),
    (MURA, NOR): _row(0.29, 0.19, 0.44, 0.17, 0.85, 0.01, NAN, NAN, 0.85, NAN),
    (MURA, MEAN): _row(0.12, 0.09, 0.41, 0.14, 0.85, 0.01, NAN, NAN, 0.84, NAN),
    (MURA, LSE_SMALL): _row(0.13, 0.10, 0.40, 0.15, 0.85, 0.01, NAN, NAN, 0.84, NAN),
    (MURA, LSE_ONE): _row(0.29, 0.14, 0.48, 0.14, 0.84, 0.01, NAN, NAN, 0.84, NAN),
    (MURA, MAX): _row(0.11, 0.15, 0.24, 0.12, 0.82, 0.01, NAN, NAN, 0.82, NAN),
    (PASCAL, NOR): _row(0.56, 0.14, 0.82, 0.09, 0.99, 0.00, 0.40, 0.03, 0.98, 0.39),
    (PASCAL, MEAN): _row(0.28, 0.27, 0.82, 0.10, 0.99, 0.00, 0.24, 0.03, 0.99, 0.23),
    (PASCAL, LSE_SMALL): _row(0.29, 0.26, 0.83, 0.10, 0.99, 0.00, 0.24, 0.03, 0.98, 0.03),
    (PASCAL, LSE_ONE): _row(0.36, 0.29, 0.85, 0.09, 0.99, 0.00, 0.26, 0.03, 0.98, 0.25),
    (PASCAL, MAX): _row(0.52, 0.29, 0.64, 0.11, 0.99, 0.00, 0.57, 0.02, 1.00, 0.57),
}
# Table VI: APJ, Spearman, DICE on annotated bags, and how many bags there were (section V-C).
TABLE_VI = {
    XRAY: Summary(((0.53, 0.16), (0.48, 0.17), (0.75, 0.06)), 29),
    PASCAL: Summary(((0.63, 0.14), (0.87, 0.07), (0.38, 0.21)), 41),
}


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
    from calipers.kernels.ranks import midranks

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
