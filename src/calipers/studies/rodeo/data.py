# SPDX-License-Identifier: Apache-2.0
"""The data of the study of RoDeO: boxes of ChestX-ray8 or simulated ones, examples, table 1.

Options come in; `study_data` returns the test half of the images, which the oracles corrupt: boxes
from the list of ChestX-ray8, or simulated boxes like them. What needs no cohort is here too: the
four pairs of boxes of figure 1, with the value of every metric beside the printed one (`examples`,
`figure_1`, `examples_table`); similarities of two boxes, computed exactly (`figure_2`,
`figure_6`); and table 1 as printed in the paper, with a check of its totals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator, Philox

from calipers.arrays import F64, I64
from calipers.data.cohort import Cohort
from calipers.errors import InputError, UsageError
from calipers.evaluation.evaluate import evaluate
from calipers.io.read import read
from calipers.kernels import boxes
from calipers.kernels import boxes as overlap
from calipers.pictures.pixels import Pixels, encode
from calipers.show.figures import Axis, BoxMark, Contour, Curves, Line, Overlay
from calipers.show.table import Cell, Table
from calipers.studies.framework import StudyFigure, StudyOptions
from calipers.studies.rodeo.experiments import RODEO, protocol
from calipers.synthetic.demo import (
    EFFUSION,
    NODULE,
    CentreLook,
    draw_phantom,
    patient_anatomy,
    stream,
)

SIDE = 1024.0  # pixels
IMAGES, QUICK_IMAGES = 880, 400
# Keys of the random streams; they keep the draws independent of each other and of the oracles.
SPLIT, SIMULATION = 0x73706C, 0x6D6164
SEVERAL = (0.894, 0.094, 0.012)  # shares of images with 1, 2, 3 classes
REPEATED = 0.175  # probability that an image belongs to the same patient as the one before

Corners = tuple[float, float, float, float]  # x0, y0, x1, y1

DRAWN_SIDE = 256  # pixels of the drawn chest of figure 1
METRICS = ("accuracy@0.5", "AP@0.5", *RODEO)

THRESHOLDS = np.linspace(0.1, 0.7, 7)
TENTHS = tuple(k / 10 for k in range(1, 10))
SMALL, USUAL = 0.1, 0.25  # sides of references, in fractions of the image

# Per class: RoDeO/cls, RoDeO/loc, RoDeO/shape, RoDeO, accuracy@0.3, mAP, in percent (Meissen et
# al., table 1).
PRINTED = {
    "Atelectasis": (21.6, 17.3, 6.9, 28.4, 37.1, 2.0),
    "Cardiomegaly": (55.7, 70.4, 45.8, 55.6, 86.2, 31.7),
    "Effusion": (21.9, 15.5, 9.2, 13.7, 33.4, 5.1),
    "Infiltration": (11.0, 15.9, 8.1, 10.8, 31.6, 3.0),
    "Mass": (10.6, 11.4, 4.3, 7.2, 59.4, 1.6),
    "Nodule": (16.9, 3.0, 0.8, 1.9, 55.7, 0.0),
    "Pneumonia": (9.2, 38.3, 19.2, 16.0, 71.6, 2.1),
    "Pneumothorax": (26.6, 14.3, 12.5, 16.0, 65.8, 1.0),
    "Total": (19.8, 19.9, 10.9, 15.6, 55.1, 5.8),
}
# Average precision with equal scores in input order, read off the figures in the repository of the
# authors (github.com/FeliMe/RoDeO, assets), for the IoU thresholds 0.1, 0.3 and 0.5: about 0.005.
AUTHORS_AP: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "figure-4": {
        "x": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
        "0.1": (0.60, 0.46, 0.35, 0.26, 0.13, 0.0),
        "0.3": (0.19, 0.165, 0.12, 0.09, 0.045, 0.0),
        "0.5": (0.035, 0.035, 0.025, 0.025, 0.01, 0.0),
    },
    "figure-5": {
        "x": (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0),
        "0.1": (0.60, 0.53, 0.455, 0.375, 0.35, 0.315, 0.29),
        "0.3": (0.19, 0.20, 0.22, 0.19, 0.195, 0.18, 0.175),
        "0.5": (0.04, 0.05, 0.055, 0.06, 0.065, 0.065, 0.065),
    },
}
ROUNDING = 0.05  # percent: half of the last printed digit


@dataclass(frozen=True, slots=True)
class BoxStatistics:
    """Statistics of the boxes of a class in ChestX-ray8, rounded, in fractions of the image."""

    name: str
    share: float  # of the boxes
    # horizontal distance of the centre from the middle, to either side: mean and SD
    aside: tuple[float, float]
    height: tuple[float, float]  # of the centre: mean and SD
    log_width: tuple[float, float]
    log_height: tuple[float, float]
    correlation: float  # of the logarithms of the sides


FINDINGS = (
    BoxStatistics(
        "Atelectasis", 0.183, (0.20, 0.08), (0.57, 0.12), (-1.71, 0.55), (-2.12, 0.51), 0.33
    ),
    BoxStatistics(
        "Cardiomegaly", 0.148, (0.08, 0.04), (0.57, 0.06), (-0.76, 0.11), (-1.00, 0.15), 0.48
    ),
    BoxStatistics(
        "Effusion", 0.155, (0.27, 0.08), (0.56, 0.12), (-1.66, 0.54), (-1.40, 0.72), 0.24
    ),
    BoxStatistics(
        "Infiltration", 0.125, (0.16, 0.08), (0.53, 0.12), (-1.39, 0.49), (-1.34, 0.47), 0.55
    ),
    BoxStatistics("Mass", 0.086, (0.19, 0.08), (0.45, 0.12), (-2.00, 0.58), (-1.88, 0.60), 0.84),
    BoxStatistics("Nodule", 0.080, (0.24, 0.08), (0.48, 0.15), (-2.70, 0.31), (-2.73, 0.33), 0.86),
    BoxStatistics(
        "Pneumonia", 0.122, (0.17, 0.07), (0.56, 0.10), (-1.42, 0.44), (-1.32, 0.46), 0.63
    ),
    BoxStatistics(
        "Pneumothorax", 0.101, (0.21, 0.07), (0.32, 0.19), (-1.76, 0.52), (-1.67, 0.74), 0.46
    ),
)


@dataclass(frozen=True)
class StudyData:
    """The references that the oracles corrupt, and their source."""

    cohort: Cohort  # the test half
    other: Cohort  # the other half
    source: str
    all_images: int
    inputs: tuple[Mapping[str, Any], ...] = ()


def study_data(options: StudyOptions) -> StudyData:
    """Return the test half of the user's data, or of a simulated cohort."""
    if options.data is None:
        if options.predictions:
            raise UsageError(
                "--predictions need the data set they belong to: pass its boxes with --data"
            )
        cohort = simulate_cohort(QUICK_IMAGES if options.quick else IMAGES, options.seed)
        words = "Boxes simulated by Calipers with the statistics of ChestX-ray8"
        return _take_test_half(cohort, words, options.seed)
    cohort = read(options.data, dict(options.predictions) or None)
    _check(cohort, str(options.data))
    half = _take_test_half(cohort, f"Boxes of {Path(options.data).name}", options.seed)
    inputs = []
    for file in cohort.intake.files:
        inputs.append({"file": file.file, "bytes": file.bytes, "sha256": file.sha256})
    return replace(half, inputs=tuple(inputs))


def _check(cohort: Cohort, file: str) -> None:
    """Raise an error for data that the experiments cannot use."""
    if len(cohort.classes) < 2:
        raise InputError(
            "boxes of two classes or more", rule="one-class", file=file, value=cohort.classes[0]
        )
    if cohort.references.dimensions != 2 or not np.isfinite(cohort.images.size).all():
        hint = "random boxes are placed in the image, so sizes are needed; COCO files have them"
        raise InputError("images in 2D with known sizes", rule="size-unknown", file=file, hint=hint)
    if len(cohort.references) < 20:
        raise InputError(
            "20 boxes or more", rule="too-few-boxes", file=file, value=len(cohort.references)
        )


def _take_test_half(cohort: Cohort, words: str, seed: int) -> StudyData:
    rows = test_half(cohort, seed)
    half = cohort.take(rows)
    other = cohort.take(np.setdiff1d(np.arange(cohort.n_images), rows))
    unit = "patient" if "patient" in cohort.images.groups else "image"
    source = (
        f"{words}: {cohort.n_images} images, {len(cohort.references)} boxes, "
        f"{len(cohort.classes)} classes; the oracles ran on the test half, {half.n_images} images "
        f"with {len(half.references)} boxes, drawn by {unit}."
    )
    return StudyData(half, other, source, cohort.n_images)


def test_half(cohort: Cohort, seed: int) -> I64:
    """Return the images of the test half; no patient is in both halves.

    Patients come in random order, and each goes to the test half while that is no larger than half
    of the images.
    """
    groups = cohort.images.groups
    # Without patients every image is a unit of its own.
    names = groups["patient"] if "patient" in groups else np.arange(cohort.n_images)
    _, owner, sizes = np.unique(names, return_inverse=True, return_counts=True)
    random = Generator(Philox(key=np.array([seed, SPLIT], np.uint64)))
    selection, total = np.zeros(len(sizes), np.bool_), 0
    for patient in random.permutation(len(sizes)).tolist():
        if total + int(sizes[patient]) <= cohort.n_images // 2:
            selection[patient] = True
            total += int(sizes[patient])
    return np.flatnonzero(selection[owner])


test_half.__test__ = False  # type: ignore[attr-defined]  # pytest would collect it by its name


def simulate_cohort(n_images: int, seed: int) -> Cohort:
    """Simulate images with one box per finding; places, sides, classes and patients are
    distributed as in ChestX-ray8.

    Examples
    --------
    >>> from calipers.studies.rodeo.data import simulate_cohort
    >>> cohort = simulate_cohort(100, seed=0)
    >>> cohort.n_images, len(cohort.classes)
    (100, 8)
    """
    random = Generator(Philox(key=np.array([seed, SIMULATION], np.uint64)))
    shares = np.array([finding.share for finding in FINDINGS])
    patient = np.cumsum(random.random(n_images) >= REPEATED)
    records = []
    for k in range(n_images):
        several = 1 + int(random.choice(len(SEVERAL), p=SEVERAL))
        labels = random.choice(len(FINDINGS), several, replace=False, p=shares / shares.sum())
        boxes = [_box(FINDINGS[label], random) for label in labels.tolist()]
        facts = {
            "image_id": f"made-{k:04d}",
            "width": SIDE,
            "height": SIDE,
            "patient": f"P{int(patient[k]):04d}",
        }
        records.append({"boxes": np.array(boxes), "labels": labels, **facts})
    return Cohort.from_arrays(records, classes=[finding.name for finding in FINDINGS])


def _box(finding: BoxStatistics, random: Generator) -> F64:
    """Return a box inside the image, x0 y0 x1 y1 in pixels."""
    first, other = random.standard_normal(2)
    r = finding.correlation
    # A normal pair with correlation r (Cholesky factor of a 2 x 2 correlation matrix).
    second = r * first + np.sqrt(1.0 - r * r) * other
    sides = np.exp(
        [
            finding.log_width[0] + finding.log_width[1] * first,
            finding.log_height[0] + finding.log_height[1] * second,
        ]
    )
    sides = np.clip(sides, 0.02, 0.9)
    aside = random.normal(*finding.aside) * (1.0 if random.random() < 0.5 else -1.0)
    centre = np.array([0.5 + aside, random.normal(*finding.height)])
    centre = np.clip(centre, sides / 2.0, 1.0 - sides / 2.0)
    return np.concatenate([centre - sides / 2.0, centre + sides / 2.0]) * SIDE


CLASSES = tuple(finding.name for finding in FINDINGS)


@dataclass(frozen=True, slots=True)
class ExamplePair:
    """A reference, a prediction, and what the paper prints about such a pair, in percent."""

    reference: Corners
    box: Corners
    label: str
    predicted: str
    printed: Mapping[str, float]
    finding: int | None = None  # what the drawn chest shows at the reference


# The sub-scores are those that figure 1 of the paper prints. The IoU of the first two pairs is the
# largest that is possible with them.
PAIRS = {
    "Right box, wrong class": ExamplePair(
        (656.0, 278.0, 784.0, 422.0),
        (666.5, 278.0, 810.0, 422.0),
        "Nodule",
        "Mass",
        {"IoU": 81.5, "RoDeO/loc": 98.6, "RoDeO/shape": 89.2, "RoDeO/cls": 0.0, "RoDeO": 0.0}
        | {"accuracy@0.5": 75.0, "AP@0.5": 0.0},
        NODULE,
    ),
    "Partly overlapping box": ExamplePair(
        (620.0, 450.0, 920.0, 750.0),
        (620.0, 168.2, 920.0, 712.8),
        "Effusion",
        "Effusion",
        {"IoU": 47.5, "RoDeO/loc": 82.2, "RoDeO/shape": 55.1, "RoDeO/cls": 100.0, "RoDeO": 74.4}
        | {"accuracy@0.5": 87.5, "AP@0.5": 0.0},
        EFFUSION,
    ),
    "Box too large": ExamplePair(
        (196.0, 673.0, 244.0, 727.0),
        (172.0, 646.0, 268.0, 754.0),
        "Pneumothorax",
        "Pneumothorax",
        {"IoU": 25.0, "RoDeO/loc": 100.0, "RoDeO/shape": 25.0, "RoDeO/cls": 100.0, "RoDeO": 50.0}
        | {"accuracy@0.5": 87.5, "AP@0.5": 0.0},
    ),
    "Wrong place, wrong class": ExamplePair(
        (610.0, 627.0, 740.0, 753.0),
        (167.0, 338.0, 223.5, 380.0),
        "Pneumonia",
        "Atelectasis",
        {"IoU": 0.0, "RoDeO/loc": 0.0, "RoDeO/shape": 14.5, "RoDeO/cls": 0.0, "RoDeO": 0.0}
        | {"accuracy@0.5": 75.0, "AP@0.5": 0.0},
    ),
}
# What the rule about a right box with a wrong class is applied to: nothing but the class is wrong.
EXACT = "Box exactly right, wrong class"


@dataclass(frozen=True, slots=True)
class Example:
    """A pair, and the value of every metric."""

    pair: ExamplePair
    values: dict[str, float]  # IoU first


def examples() -> dict[str, Example]:
    """Return the four pairs of figure 1, and one whose box is exactly right.

    Each is evaluated as a data set of one image with eight classes.
    """
    first = PAIRS["Right box, wrong class"]
    pairs = {**PAIRS, EXACT: replace(first, box=first.reference, printed={})}
    result = {}
    for name, pair in pairs.items():
        labels = [CLASSES.index(pair.label)], [CLASSES.index(pair.predicted)]
        reference = {"boxes": [pair.reference], "labels": labels[0], "width": SIDE, "height": SIDE}
        prediction = {"boxes": [pair.box], "labels": labels[1], "scores": [1.0]}
        cohort = Cohort.from_arrays([reference], [prediction], classes=CLASSES)
        rows = evaluate(cohort, protocol(), ci=False).rows
        pooled = {row.metric: row.estimate.value for row in rows if row.label is None}
        values = {metric: pooled[metric] for metric in METRICS}
        result[name] = Example(pair, {"IoU": _iou(pair.reference, pair.box), **values})
    return result


def examples_table(pairs: Mapping[str, Example]) -> Table:
    """Return every value of figure 1, ours and printed."""
    rows: list[tuple[Cell, ...]] = []
    for name in PAIRS:
        example = pairs[name]
        for metric, printed in example.pair.printed.items():
            value = 100.0 * example.values[metric]
            rows.append((name, metric, value, printed))
    note = (
        "In percent. The boxes were chosen to give the printed sub-scores. IoU, RoDeO/loc and "
        "RoDeO/shape as printed for the first two pairs cannot come from one pair of boxes by "
        "equation 2: with these two sub-scores the IoU is at most about 76 and 45."
    )
    return Table(
        ("pair", "metric", "here", "printed"),
        tuple(rows),
        name="table-figure-1",
        kinds=("name", "name", "tenths", "tenths"),
        title="Figure 1, here and as printed",
        notes=(note,),
    )


def _iou(first: Corners, second: Corners) -> float:
    a, b = np.array(first)[:, None], np.array(second)[:, None]
    areas = [np.prod(overlap.sides(boxes), axis=0) for boxes in (a, b)]
    return float(overlap.iou(a, b, *areas)[0])


def figure_1(pairs: Mapping[str, Example]) -> StudyFigure:
    """Return the four pairs as overlays, with their values below."""
    panels = tuple(_panel(name, pairs[name]) for name in PAIRS)
    caption = (
        "Boxes on drawn chests, chosen so that the sub-scores of RoDeO are those that the paper "
        "prints in its figure; the reference is solid, the prediction dashed. Of the findings only "
        "the nodule and the effusion are drawn. The table Figure 1, here and as printed has both "
        "values of every metric: all agree but the IoU of the first two pairs, which the printed "
        "sub-scores do not allow. Every pair is evaluated as a data set of one image with eight "
        "declared classes. Accuracy counts the six or seven classes that are rightly absent as "
        "true negatives, which is why it is 0.75 or more even for a useless prediction."
    )
    title = (
        "A right box with a wrong name gets high marks for place and shape, and nothing in total"
    )
    return StudyFigure("figure-1", title, caption, panels, rows=(4,))


def _panel(name: str, example: Example) -> Overlay:
    pair = example.pair
    note = "; ".join(f"{metric} {value:.2f}" for metric, value in example.values.items())
    marks = (
        BoxMark("reference", pair.reference, f"reference: {pair.label}"),
        BoxMark("false alarm", pair.box, f"prediction: {pair.predicted}"),
    )
    picture = _chest(pair.reference, pair.finding)
    return Overlay(name, (SIDE, SIDE), marks, picture=picture, note=note)


@cache
def _chest(reference: Corners, finding: int | None) -> str:
    """Return a drawn chest with a finding where the reference is, or without one."""
    size = DRAWN_SIDE
    is_drawn = finding is not None
    box = np.array([reference] if is_drawn else []).reshape(-1, 4) * size / SIDE
    pixels = draw_phantom(
        (size, size),
        patient_anatomy(0, "rodeo"),
        box,
        np.array([finding] if is_drawn else [], np.int64),
        look=CentreLook(),
        random=stream(0, "rodeo", "figure-1"),
    )
    return encode(Pixels(pixels, size, size)).data


def iou_at(dx: F64, dy: F64) -> F64:
    """Return the IoU of two equal squares whose centres are (dx, dy) sides apart."""
    across, down = np.broadcast_arrays(np.asarray(dx, np.float64), np.asarray(dy, np.float64))
    x, y = across.ravel(), down.ravel()
    # The kernel takes boxes as (4, n): x0, y0, x1, y1.
    ones = np.ones_like(x)
    a = np.stack([0.0 * x, 0.0 * x, ones, ones])
    b = np.stack([x, y, x + 1.0, y + 1.0])
    return boxes.iou(a, b, ones, ones).reshape(across.shape)


def ap_at(dx: F64, dy: F64, threshold: float) -> F64:
    """Return the AP of one pair at an IoU threshold: all or nothing."""
    return (iou_at(dx, dy) >= threshold).astype(np.float64)


def map_at(dx: F64, dy: F64) -> F64:
    """Return the mean AP of one pair over the thresholds 0.1 to 0.7."""
    values = [ap_at(dx, dy, float(threshold)) for threshold in THRESHOLDS]
    return np.asarray(np.mean(values, axis=0))


def loc_at(dx: F64, dy: F64) -> F64:
    """Return RoDeO/loc of one pair."""
    return np.asarray(2.0 ** -(np.asarray(dx) ** 2 + np.asarray(dy) ** 2))


def shape_similarities(reference: float, width: F64, height: F64) -> tuple[F64, F64]:
    """Return centred IoU and Hausdorff similarity of a square and boxes of other sides; fractions
    of the image.
    """
    n = len(width)
    a = np.stack([np.zeros(n), np.zeros(n), np.full(n, reference), np.full(n, reference)])
    b = np.stack([np.zeros(n), np.zeros(n), width, height])
    return boxes.centred_iou(a, b), boxes.hausdorff_similarity(a, b, np.ones((2, n)))


def figure_2() -> StudyFigure:
    """Return the four metrics over the offset of the centres."""
    at = np.round(np.arange(-1.5, 1.5001, 0.05), 10)
    dx, dy = np.meshgrid(at, at)
    metrics = {
        "AP@0.5": ap_at(dx, dy, 0.5),
        "mAP@0.1:0.7": map_at(dx, dy),
        "IoU": iou_at(dx, dy),
        "RoDeO/loc": loc_at(dx, dy),
    }
    x, y = Axis("offset in x (sides)"), Axis("offset in y (sides)")
    # mAP over seven thresholds moves in steps of 1/7, so its contour levels lie between the steps.
    levels = {"AP@0.5": (0.5,), "mAP@0.1:0.7": (0.2, 0.5, 0.8)}
    panels = tuple(
        Contour(name, x, y, at, at, v, "value", levels.get(name, TENTHS), 0.0, 1.0, square=True)
        for name, v in metrics.items()
    )
    title = (
        "Overlap ends one side away, and sooner on the diagonal; RoDeO/loc is the same in all "
        "directions"
    )
    caption = (
        "One reference and one prediction of its size and class, on a grid of 61 by 61 offsets, "
        "computed exactly. AP of a single pair is all or nothing; its mean over IoU thresholds "
        "0.1 to 0.7 has seven steps."
    )
    return StudyFigure("figure-2", title, caption, panels, rows=(4,))


def figure_6() -> StudyFigure:
    """Return centred IoU and Hausdorff similarity over size and over aspect."""
    sides = np.round(np.arange(0.02, 1.0001, 0.01), 10)
    size = _similarity_lines(sides, shape_similarities(USUAL, sides, sides))
    aspect = np.geomspace(1 / 8, 8, 97)
    same_area = shape_similarities(USUAL, USUAL * np.sqrt(aspect), USUAL / np.sqrt(aspect))
    ratio = _similarity_lines(aspect, same_area)
    factor = np.geomspace(0.25, 4.0, 97)
    relative = []
    for k, side in enumerate((SMALL, USUAL)):
        values = shape_similarities(side, side * factor, side * factor)
        relative += _similarity_lines(factor, values, f", side {side:g}", 2 * k)
    similarity = Axis("similarity", 0.0, 1.0)
    octaves = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    panels = (
        Curves("Size, same aspect", Axis("side (of the image)", 0.0, 1.0), similarity, tuple(size)),
        Curves(
            "Aspect, same area",
            Axis("width / height", log=True, ticks=octaves),
            similarity,
            tuple(ratio),
        ),
        Curves(
            "Size in multiples of the reference",
            Axis("side / side of the reference", log=True, ticks=octaves[1:-1]),
            similarity,
            tuple(relative),
        ),
    )
    title = (
        "Centred IoU depends on the ratio of the sides; the Hausdorff similarity on their "
        "difference in the image"
    )
    caption = (
        f"A square reference with a side of {USUAL:g} of the image, except in the last panel, "
        f"which adds one of {SMALL:g}; both boxes on one centre; Hausdorff distances in fractions "
        "of the image. Computed exactly. The last panel is not in the paper: with centred IoU, "
        "both references share one curve."
    )
    return StudyFigure("figure-6", title, caption, panels)


def _similarity_lines(
    x: F64, values: tuple[F64, F64], suffix: str = "", first_slot: int = 0
) -> list[Line]:
    """Return the lines of the two similarities that `shape_similarities` returns."""
    centred, hausdorff = values
    return [
        Line(f"centred IoU{suffix}", x, centred, slot=first_slot),
        Line(f"Hausdorff{suffix}", x, hausdorff, slot=first_slot + 1),
    ]


def harmonic(*parts: float) -> float:
    """Return the harmonic mean of numbers above 0."""
    return len(parts) / sum(1.0 / part for part in parts)


def off_by_rounding(row: tuple[float, ...]) -> bool:
    """Return whether the printed total can be the harmonic mean of parts rounded to one decimal."""
    cls, loc, shape = row[:3]
    ends = []
    for a, b, c in product((-ROUNDING, ROUNDING), repeat=3):
        ends.append(harmonic(cls + a, loc + b, shape + c))
    return min(ends) - ROUNDING <= row[3] <= max(ends) + ROUNDING
