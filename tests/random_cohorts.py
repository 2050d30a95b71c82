"""Random cohorts for property and parity tests: overlaps, ties, crowds, models, 2D or 3D."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator, Philox

from calipers.arrays import F64, I64
from calipers.data.cohort import Cohort, FileIntake, Images, Intake
from calipers.data.objects import Predictions, References, to_corners
from calipers.data.rules import Delivery, as_predictions, as_references
from calipers.errors import UsageError
from calipers.kernels import ragged

SOURCE = "<random>"
COPIES = (0.15, 0.60, 0.18, 0.07)  # probability that a reference gets 0, 1, 2, 3 predictions
NOISE = 1.5  # mean number per image of predictions that belong to no reference
RIGHT_CLASS = 0.85
OVERLAPPING = 0.35  # share of references that lie on their neighbour
EXACT = 0.05  # share of copies that are not moved at all


@dataclass(frozen=True, slots=True)
class _CohortPlan:
    n_classes: int
    sides: F64  # (2|3,) pixels of every image
    objects: float
    grid: float | None
    tie_levels: int | None


def random_cohort(
    n_images: int,
    n_classes: int,
    seed: int,
    *,
    models: int = 1,
    objects: float = 4.0,
    empty_share: float = 0.15,
    crowd_share: float = 0.0,
    ignore_share: float = 0.0,
    tie_levels: int | None = None,
    grid: float | None = None,
    declared_areas: bool = False,
    dimensions: int = 2,
    size: int = 320,
) -> Cohort:
    """Return a cohort of random boxes with predictions that are jittered copies, wrong classes and
    noise.

    Parameters
    ----------
    models
        How many models, named ``model-1``, ``model-2``, ...
    objects
        Mean number of references on an image that has any.
    empty_share
        Share of images without references; models predict on them all the same.
    crowd_share, ignore_share
        Share of references that are crowds, or ignored.
    tie_levels
        Number of different scores, to provoke ties; None for continuous scores.
    grid
        Coordinates are multiples of this many pixels, to provoke ties in overlap; None for
        continuous ones.
    declared_areas
        Declare areas that differ from the area of the box, as masks would.
    dimensions
        2 or 3.
    size
        Side of every image in pixels.

    Examples
    --------
    >>> from random_cohorts import random_cohort
    >>> cohort = random_cohort(50, 3, seed=0, models=2, tie_levels=10)
    >>> cohort.n_images, cohort.classes, list(cohort.models)
    (50, ('class-1', 'class-2', 'class-3'), ['model-1', 'model-2'])
    """
    _check(n_images, n_classes, (empty_share, crowd_share, ignore_share), dimensions, tie_levels)
    random = Generator(Philox(key=np.array([seed, n_images], np.uint64)))
    plan = _CohortPlan(n_classes, np.full(dimensions, float(size)), objects, grid, tie_levels)
    images = _images(n_images, plan, random)
    references = _references(images, plan, empty_share, random)
    n = len(references)
    references = _with_flags(references, crowd_share, ignore_share, declared_areas, random)
    files = [FileIntake(SOURCE, "references", "random", n, n)]
    predictions = {}
    for k in range(1, models + 1):
        name = f"model-{k}"
        predictions[name] = _predictions(references, images, plan, random)
        n = len(predictions[name])
        files.append(FileIntake(SOURCE, f"predictions of {name}", "random", n, n))
    classes = tuple(f"class-{k}" for k in range(1, n_classes + 1))
    return Cohort(images, classes, references, predictions, Intake(tuple(files)))


def _check(
    n_images: int,
    n_classes: int,
    shares: tuple[float, ...],
    dimensions: int,
    tie_levels: int | None,
) -> None:
    if n_images < 0 or n_classes < 1:
        raise UsageError(
            "a random cohort needs n_images >= 0 and n_classes >= 1, "
            f"got {n_images} and {n_classes}"
        )
    if not all(0.0 <= share <= 1.0 for share in shares):
        raise UsageError(f"shares lie between 0 and 1, got {shares}")
    if dimensions not in (2, 3):
        raise UsageError(f"dimensions is 2 or 3, got {dimensions}")
    if tie_levels is not None and tie_levels < 1:
        raise UsageError(f"tie_levels is at least 1, got {tie_levels}")


def _images(n: int, plan: _CohortPlan, random: Generator) -> Images:
    dimensions = len(plan.sides)
    patients = random.integers(0, max(1, (2 * n) // 3), n)
    groups = {
        "patient": np.array([f"P{k + 1}" for k in patients.tolist()], np.str_),
        "centre": np.array(
            [f"C{k + 1}" for k in (patients % 3).tolist()], np.str_
        ),  # a patient has one centre
    }
    ids = tuple(f"image-{k}" for k in range(n))
    return Images(ids, np.tile(plan.sides, (n, 1)), np.full((n, dimensions), np.nan), groups)


def _references(
    images: Images, plan: _CohortPlan, empty_share: float, random: Generator
) -> References:
    counts = random.poisson(max(plan.objects - 1.0, 0.0), len(images)) + 1
    counts = np.where(random.random(len(images)) < empty_share, 0, counts)
    n = int(counts.sum())
    centres, sides = _noise(n, plan, random)
    near = (ragged.positions(counts) > 0) & (random.random(n) < OVERLAPPING)
    previous = np.maximum(np.arange(n) - 1, 0)
    offset = random.uniform(-0.6, 0.6, centres.shape)
    centres = np.where(near[:, None], centres[previous] + offset * sides[previous], centres)
    # Uneven on purpose: with many classes, some are rare and some have no reference at all.
    label = (plan.n_classes * random.random(n) ** 1.5).astype(np.int64)
    image = np.repeat(np.arange(len(images)), counts)
    return as_references(_delivery(image, label, centres, sides, plan, inside=True), images.size)


def _with_flags(
    references: References,
    crowd_share: float,
    ignore_share: float,
    declared_areas: bool,
    random: Generator,
) -> References:
    n = len(references)
    crowd, ignore = random.random(n) < crowd_share, random.random(n) < ignore_share
    area = references.extent * random.uniform(0.3, 1.0, n) if declared_areas else references.extent
    return replace(references, crowd=crowd, ignore=ignore | crowd, area=area)


def _predictions(
    references: References, images: Images, plan: _CohortPlan, random: Generator
) -> Predictions:
    n_images, dimensions = len(images), references.dimensions
    copies = random.choice(len(COPIES), len(references), p=COPIES)
    low, high = np.split(np.repeat(references.boxes, copies, axis=0), 2, axis=1)
    moved = int(copies.sum())
    # Small and large displacements alike, so that overlaps spread over the whole range of
    # thresholds.
    displacement = np.exp(random.uniform(np.log(0.01), np.log(0.3), moved)) * (
        random.random(moved) >= EXACT
    )
    sides = (high - low) * np.exp(
        random.normal(0.0, 1.0, (moved, dimensions)) * displacement[:, None]
    )
    centres = (low + high) / 2.0 + random.normal(0.0, 1.0, (moved, dimensions)) * displacement[
        :, None
    ] * (high - low)
    label = np.repeat(references.label.astype(np.int64), copies)
    label = np.where(
        random.random(moved) < RIGHT_CLASS, label, random.integers(0, plan.n_classes, moved)
    )
    score = 0.9 * random.beta(3.0, 2.0, moved) + 0.1 * (1.0 - displacement)

    extra = random.poisson(NOISE, n_images)
    n_extra = int(extra.sum())
    elsewhere, extent = _noise(n_extra, plan, random)
    image = np.concatenate(
        [np.repeat(references.image, copies), np.repeat(np.arange(n_images), extra)]
    )
    label = np.concatenate([label, random.integers(0, plan.n_classes, n_extra)])
    score = np.concatenate([score, random.beta(2.0, 3.0, n_extra)])
    # Random order within an image, so that ties in score are not sorted by origin.
    order = np.lexsort([random.random(len(image)), image])
    delivery = _delivery(
        image[order],
        label[order],
        np.concatenate([centres, elsewhere])[order],
        np.concatenate([sides, extent])[order],
        plan,
        score=_tied(score[order], plan.tie_levels),
    )
    return as_predictions(delivery, images.size)


def _noise(n: int, plan: _CohortPlan, random: Generator) -> tuple[F64, F64]:
    """Return (n, 2|3) centres anywhere and sides from a fiftieth to two thirds of the image."""
    scale = np.exp(random.uniform(np.log(0.02), np.log(0.66), (n, 1)))
    sides = scale * random.uniform(0.7, 1.3, (n, len(plan.sides))) * plan.sides
    return random.uniform(0.0, 1.0, (n, len(plan.sides))) * plan.sides, np.minimum(
        sides, 0.9 * plan.sides
    )


def _tied(score: F64, levels: int | None) -> F64:
    if levels is None:
        return score
    return np.asarray((np.minimum(np.floor(score * levels), levels - 1) + 0.5) / levels)


def _delivery(
    image: I64,
    label: I64,
    centres: F64,
    sides: F64,
    plan: _CohortPlan,
    *,
    score: F64 | None = None,
    inside: bool = False,
) -> Delivery:
    corners, _ = to_corners(np.concatenate([centres, sides], axis=1), "cxcywh")
    if inside:
        low, high = np.split(corners, 2, axis=1)
        shift = np.maximum(-low, 0.0) - np.maximum(high - plan.sides, 0.0)
        corners = np.concatenate([low + shift, high + shift], axis=1)
    if plan.grid is not None:
        low, high = np.split(np.round(corners / plan.grid), 2, axis=1)
        low, high = low * plan.grid, high * plan.grid
        if inside:
            high = np.minimum(high, np.floor(plan.sides / plan.grid) * plan.grid)
            low = np.minimum(low, high - plan.grid)
        corners = np.concatenate([low, np.maximum(high, low + plan.grid)], axis=1)
    return Delivery(
        image=image,
        label=label,
        boxes=corners,
        box_format="xyxy",
        place=np.arange(len(image)),
        score=score,
    )
