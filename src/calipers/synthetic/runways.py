# SPDX-License-Identifier: Apache-2.0
"""The data of the study of monitors: made-up images under shifts, a detector, and three monitors.

`endoscopy_cohort` and `runway_cohort` return a `ShiftedCohort`, to `experiments`: endoscopy frames
of several classes, of which flat lesions are hard, and landing approaches with one runway per
image, of which far ones are hard. Pictures are drawn when they are asked for. `write_runways`
writes a cohort as the files that a user would have.

The point of these cohorts is that two questions have different, known answers: is an image out of
distribution (OOD), and does the detector fail on it (it is out of the model's scope, OMS)? Three
plain facts make the difference:

- harmless shifts (``sky``, ``tint``) are OOD, and the detector is as good on them as on usual
  images;
- harmful shifts (``fog``, ``blur``, ``night``) are OOD, and the detector often fails;
- hard images (far runways, flat lesions) are in distribution, and the detector often fails all the
  same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import erf
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from calipers.arrays import F64, I64, U8, Column, Flags
from calipers.data.cohort import Cohort
from calipers.errors import UsageError
from calipers.io.tables.table import delimited
from calipers.results.files import write_atomically
from calipers.synthetic.demo import stream

SPLITS = ("fit", "tuning", "test")
FIT_SHARE = 0.3  # of the usual images; shifted ones are never for fitting
TUNING_SHARE = 0.25  # of the images that are not for fitting
SEES_SHIFT, SEES_FAILURE = (
    3.0,
    2.0,
)  # standard deviations between the means of the two groups that a monitor sees
MONITORS = ("shift-detector", "failure-predictor", "random")

CLASSES = ("polyp", "flat-lesion", "instrument", "ulcer")
FLAT = CLASSES.index("flat-lesion")

SIDE = 128
# objects lie in the cells of a grid of 3 x 3, one in each at most, so none touches another
CELLS = 3
# Of the classes, in their order.
COLOURS = np.array([[0.80, 0.35, 0.35], [0.78, 0.48, 0.42], [0.75, 0.78, 0.80], [0.85, 0.75, 0.45]])
STRANGE = np.array([0.20, 0.06, 0.06])
# Shares of a side by which the detector misplaces and missizes a box: the IoU stays above 0.8.
JITTER = 0.05

SIZE = (160, 120)  # width, height
BAND = 16  # rows at the bottom that no runway reaches: what lies there is no runway
GROUND_SPOTS = 6  # places in the band for things that are mistaken for one
SPOT = (14.0, 10.0)
SKY = {"sky": np.array([0.95, 0.62, 0.35])}  # an evening
USUAL_SKY = np.array([0.55, 0.72, 0.92])
GROUND = {"sky": np.array([0.50, 0.38, 0.22])}
USUAL_GROUND = np.array([0.28, 0.42, 0.22])
ASPHALT, PAINT = np.array([0.42, 0.42, 0.44]), np.array([0.92, 0.92, 0.90])

CLASS = "runway"

FAR_SHARE, FAR = 0.3, 4500.0  # metres: from here on a runway is hard to see
NEAREST, FARTHEST = 1000.0, 8000.0
WIDTH, LENGTH, FOCAL, GLIDE = (
    60.0,
    3000.0,
    900.0,
    np.tan(np.radians(3.0)),
)  # metres, metres, pixels, slope
HORIZON = 30.0
AIRPORTS = ("LFAA", "LFBB", "EDCC", "EDDD", "KEEE")


@dataclass(frozen=True, slots=True)
class Shift:
    """A kind of image.

    ``fails`` are the probabilities that the detector fails on an easy and on a hard image;
    ``extra`` is the probability of a false alarm beside whatever else it finds.
    """

    name: str
    share: float  # of all images
    ood: bool
    fails: tuple[float, float]
    extra: float = 0.05


@dataclass(frozen=True)
class ShiftedCohort:
    """A cohort with the model ``detector``, what was planted in it, and the alarms of three
    monitors.

    ``columns`` has one entry per image: ``ood`` (bool), ``shift`` (its name), ``split`` (``fit``,
    ``tuning`` or ``test``), ``hard`` (bool) and ``fails`` (bool: the detector was made to fail).
    They are groups of the cohort too.

    ``alarms`` are normal with deviation 1. ``shift-detector`` lies 3 higher on OOD images and knows
    nothing else; ``failure-predictor`` lies 2 higher where the detector fails and knows nothing
    else; ``random`` knows nothing.
    """

    cohort: Cohort
    columns: Mapping[str, Column]
    alarms: Mapping[str, F64]
    draw: Callable[[int], U8]  # image -> (height, width, 3)
    seed: int

    @property
    def pictures(self) -> Sequence[U8]:
        """The pictures, each drawn when it is asked for."""
        return DrawnPictures(self.cohort.n_images, self.draw)

    def split(self, name: str) -> Flags:
        """Return which images belong to a split."""
        if name not in SPLITS:
            raise UsageError(f"no split {name!r}; known: {', '.join(SPLITS)}")
        return np.asarray(self.columns["split"] == name)

    def expected_auroc(self, monitor: str, paradigm: str, images: Flags | None = None) -> float:
        """Return the expected AUROC of a monitor for ``"ood"`` or ``"oms"`` labels.

        Notes
        -----
        With A = Phi(d / sqrt 2) for a monitor whose own groups lie d apart, and p and q the shares
        of its upper group among the positives and the negatives of the paradigm, it is ``1/2 + (p -
        q) (A - 1/2)``: A for its own labels, one half for ``random``. Positives of ``"oms"`` are
        the images on which the detector fails; the makers of cohorts say for which tau these are
        the images with s < tau. NaN without positives or negatives.
        """
        selection = np.ones(self.cohort.n_images, np.bool_) if images is None else images
        groups = {
            "shift-detector": ("ood", SEES_SHIFT),
            "failure-predictor": ("fails", SEES_FAILURE),
        }
        labels = {"ood": "ood", "oms": "fails"}
        if monitor not in MONITORS or paradigm not in labels:
            raise UsageError(
                f"monitors: {', '.join(MONITORS)}; paradigms: ood, oms; "
                f"got {monitor!r}, {paradigm!r}"
            )
        positive = np.asarray(self.columns[labels[paradigm]], np.bool_)[selection]
        if positive.all() or not positive.any():
            return float("nan")
        if monitor == "random":
            return 0.5
        column, apart = groups[monitor]
        upper = np.asarray(self.columns[column], np.bool_)[selection]
        share = float(upper[positive].mean() - upper[~positive].mean())
        return 0.5 + share * 0.5 * erf(apart / 2.0)  # Phi(d / sqrt 2) - 1/2


@dataclass(frozen=True)
class DrawnPictures(Sequence[U8]):
    """Pictures that are drawn when they are asked for."""

    n: int
    draw: Callable[[int], U8]

    def __len__(self) -> int:
        return self.n

    @overload
    def __getitem__(self, k: int) -> U8: ...

    @overload
    def __getitem__(self, k: slice) -> Sequence[U8]: ...

    def __getitem__(self, k: int | slice) -> U8 | Sequence[U8]:
        """Return one picture, or several of a slice."""
        if isinstance(k, slice):
            return [self.draw(one) for one in range(*k.indices(self.n))]
        if not -self.n <= k < self.n:
            raise IndexError(k)
        return self.draw(int(k) % self.n)


def dealt(shifts: Sequence[Shift], n: int, random: Generator) -> list[Shift]:
    """Return the shift of every image: shares as exact as n admits, in random order."""
    share = np.array([shift.share for shift in shifts])
    # Rounding the running sum keeps the total at n, which rounding each share would not.
    bounds = np.round(np.cumsum(share) / share.sum() * n).astype(np.int64)
    which = np.searchsorted(bounds, np.arange(n), side="right")
    return [shifts[k] for k in random.permutation(which).tolist()]


def dealt_splits(ood: Flags, random: Generator) -> Column:
    """Return the split of every image: some usual images for fitting; of the others a quarter for
    tuning.
    """
    # Both draws for all images, so that one split does not shift the random numbers of the other.
    chance = random.random((2, len(ood)))
    fit = ~ood & (chance[0] < FIT_SHARE)
    return np.where(fit, "fit", np.where(chance[1] < TUNING_SHARE, "tuning", "test"))


def simulated_alarms(ood: Flags, fails: Flags, random: Generator) -> dict[str, F64]:
    """Return the alarms of the three monitors, (n,) each."""
    noise = random.normal(size=(3, len(ood)))
    return {
        "shift-detector": noise[0] + SEES_SHIFT * ood,
        "failure-predictor": noise[1] + SEES_FAILURE * fails,
        "random": noise[2],
    }


def shifted(picture: F64, shift: str, random: Generator) -> F64:
    """Return a (height, width, 3) picture of 0 to 1 under a shift, as it is for other names."""
    if shift == "fog":
        return np.asarray(0.25 * picture + 0.75 * np.array([0.78, 0.80, 0.82]))
    if shift == "blur":
        from scipy.ndimage import gaussian_filter

        return np.asarray(gaussian_filter(picture, (2.5, 2.5, 0.0)))
    if shift == "night":
        return np.asarray(0.15 * picture + random.normal(0.0, 0.03, picture.shape))
    if shift == "tint":
        return np.asarray(picture * np.array([0.75, 1.05, 1.2]))
    return picture


def eight_bits(picture: F64) -> U8:
    """Return a picture of 0 to 1 in eight bits."""
    return np.asarray(np.round(255.0 * np.clip(picture, 0.0, 1.0)), np.uint8)


ENDOSCOPY_SHIFTS = (
    Shift("none", 0.50, ood=False, fails=(0.04, 0.50)),
    Shift("tint", 0.22, ood=True, fails=(0.04, 0.50)),  # harmless: another lamp
    Shift("fog", 0.10, ood=True, fails=(0.50, 0.90)),
    Shift("blur", 0.08, ood=True, fails=(0.35, 0.85)),
    Shift(
        "new-class", 0.10, ood=True, fails=(0.04, 0.50), extra=1.0
    ),  # diverticula, which are called ulcers
)


def endoscopy_cohort(n: int = 600, seed: int = 0, *, frames: int = 5) -> ShiftedCohort:
    """Return n frames with objects of four classes, the predictions of a detector and the alarms of
    three monitors.

    Parameters
    ----------
    frames
        Frames of one patient, at most; the groups ``patient`` tell who. Shifts are dealt frame by
        frame.

    Notes
    -----
    A frame has one to three objects. It is hard if one of them is a flat lesion (one frame in
    four). Where the detector fails it finds none of the objects, and calls one of them by another
    class in half of the cases; else it finds all of them with an IoU of at least 0.8. It adds a
    false alarm with probability 0.05; under ``new-class`` always: a diverticulum, which no class is
    declared for, is called an ulcer.

    =========  =====  ===  ==========  ==========
    shift      share  OOD  fails easy  fails hard
    =========  =====  ===  ==========  ==========
    none       0.50   no   0.04        0.50
    tint       0.22   yes  0.04        0.50
    fog        0.10   yes  0.50        0.90
    blur       0.08   yes  0.35        0.85
    new-class  0.10   yes  0.04        0.50
    =========  =====  ===  ==========  ==========

    Averaged over the classes that are present (or micro-averaged), s is 0 where the detector fails,
    and at least 1/2 (micro: 2/3) elsewhere; so the failures are the frames with s < tau for every
    tau up to 1/2. Averaged over all four declared classes, a failure that misses one class has s =
    3/4, which no tau up to that rejects: the trap of absent classes.
    """
    if n < 1 or frames < 1:
        raise UsageError(
            "an endoscopy cohort has at least one image and one frame per patient, "
            f"got {n} and {frames}"
        )
    kinds = dealt(ENDOSCOPY_SHIFTS, n, stream(seed, "endoscopy shifts"))
    records, predictions, strange = [], [], []
    for k, shift in enumerate(kinds):
        # A stream of its own for every frame: its picture does not depend on how many frames there
        # are.
        random = stream(seed, "endoscopy", str(k))
        cells = random.permutation(CELLS * CELLS)
        hard = bool(random.random() < 0.25)
        record = _endoscopy_record(k, cells, hard, random)
        fails = bool(random.random() < shift.fails[int(hard)])
        record |= {
            "patient": f"P{k // frames:04d}",
            "shift": shift.name,
            "ood": shift.ood,
            "hard": hard,
        }
        records.append(record | {"fails": fails})
        spare = _box(int(cells[-1]), random)
        strange.append(spare if shift.name == "new-class" else None)
        predictions.append(_detected_polyps(records[-1], shift, spare, random))
    cohort = Cohort.from_arrays(records, {"detector": predictions}, classes=CLASSES)
    ood, failing = (np.asarray(cohort.group(name), np.bool_) for name in ("ood", "fails"))
    cohort = cohort.with_groups({"split": dealt_splits(ood, stream(seed, "endoscopy splits"))})
    columns = {
        name: cohort.images.groups[name] for name in ("ood", "shift", "split", "hard", "fails")
    }
    alarms = simulated_alarms(ood, failing, stream(seed, "endoscopy monitors"))

    def draw(k: int) -> U8:
        return _picture(records[k], strange[k], stream(seed, "endoscopy picture", str(k)))

    return ShiftedCohort(cohort, columns, alarms, draw, seed)


def _endoscopy_record(k: int, cells: I64, hard: bool, random: Generator) -> dict[str, Any]:
    others = [c for c in range(len(CLASSES)) if c != FLAT]
    labels = random.choice(others, int(random.integers(1, 4)))
    if hard:
        # One flat lesion makes a frame hard, whatever else is on it.
        labels[0] = FLAT
    boxes = np.array([_box(cell, random) for cell in cells[: len(labels)].tolist()])
    return {
        "image_id": f"frame-{k:05d}",
        "boxes": boxes,
        "labels": labels,
        "width": SIDE,
        "height": SIDE,
    }


def _box(cell: int, random: Generator) -> F64:
    """Return a (4,) box inside of a cell of the grid, away from its edges."""
    step = SIDE / CELLS
    sides = random.uniform(0.35, 0.75, 2) * step
    corner = (
        np.array([cell % CELLS, cell // CELLS]) * step
        + 3.0
        + random.random(2) * (step - 6.0 - sides)
    )
    return np.round(np.concatenate([corner, corner + sides]), 2)


def _detected_polyps(
    record: dict[str, Any], shift: Shift, spare: F64, random: Generator
) -> dict[str, Any]:
    """Return the predictions of the detector on a frame."""
    boxes, labels = np.asarray(record["boxes"]), np.asarray(record["labels"])
    low, high = boxes[:, :2], boxes[:, 2:]
    sides = (high - low) * random.uniform(1.0 - JITTER, 1.0 + JITTER, low.shape)
    centre = (low + high) / 2.0 + (high - low) * random.uniform(-JITTER, JITTER, low.shape)
    moved = np.hstack([centre - sides / 2.0, centre + sides / 2.0])
    score = random.beta(8.0, 2.0, len(labels))
    if record["fails"]:
        n_predicted = int(random.random() < 0.5)
        other_labels = (labels + random.integers(1, len(CLASSES), len(labels))) % len(CLASSES)
        moved, labels, score = (
            moved[:n_predicted],
            other_labels[:n_predicted],
            random.beta(3.0, 4.0, n_predicted),
        )
    if random.random() < shift.extra:
        if shift.name == "new-class":
            label = CLASSES.index("ulcer")
        else:
            label = int(random.integers(len(CLASSES)))
        moved, labels = np.vstack([moved, spare]), np.append(labels, label)
        score = np.append(score, random.beta(2.0, 5.0))
    return {"image_id": record["image_id"], "boxes": moved, "labels": labels, "scores": score}


def _picture(record: dict[str, Any], strange: F64 | None, random: Generator) -> U8:
    """Return a (128, 128, 3) picture: ellipses in the colours of their classes on red ground, lit
    in the middle.
    """
    # Centres of pixels.
    y, x = np.mgrid[:SIDE, :SIDE] + 0.5
    away = np.hypot(x - SIDE / 2.0, y - SIDE / 2.0) / SIDE
    picture = np.array([0.70, 0.33, 0.28]) * (1.15 - 0.7 * away)[..., None]
    things = [(box, COLOURS[label]) for box, label in zip(record["boxes"], record["labels"])]
    for box, colour in [*things, *([] if strange is None else [(strange, STRANGE)])]:
        x0, y0, x1, y1 = np.asarray(box).tolist()
        inside = ((2 * x - x0 - x1) / (x1 - x0)) ** 2 + ((2 * y - y0 - y1) / (y1 - y0)) ** 2 <= 1.0
        picture[inside] = 0.25 * picture[inside] + 0.75 * colour
    picture = picture * random.uniform(0.94, 1.06) + random.normal(0.0, 0.015, picture.shape)
    return eight_bits(shifted(picture, record["shift"], random))


def spot_box(spot: int) -> F64:
    """Return the (4,) box of a spot in the band at the bottom."""
    x = 4.0 + spot * (SIZE[0] - 8.0) / GROUND_SPOTS
    y = SIZE[1] - BAND + 3.0
    return np.array([x, y, x + SPOT[0], y + SPOT[1]])


def draw_runway(corners: F64, shift: str, random: Generator) -> U8:
    """Return a (120, 160, 3) picture.

    Parameters
    ----------
    corners
        (4, 2) near left, near right, far right, far left.
    shift
        ``sky`` changes the colours of sky and ground, ``taxiway`` adds a strip on the first spot,
        `shifted` does the rest.
    """
    width, height = SIZE
    y, x = np.mgrid[:height, :width] + 0.5
    # The far end of the runway lies just below the horizon.
    horizon = float(corners[:, 1].min()) - 4.0
    depth = np.clip((y - horizon) / height, 0.0, 1.0)[..., None]
    sky = (
        SKY.get(shift, USUAL_SKY)
        * (1.0 - 0.25 * np.clip((horizon - y) / height, 0.0, 1.0))[..., None]
    )
    ground = GROUND.get(shift, USUAL_GROUND) * (0.8 + 0.4 * depth)
    texture = random.normal(0.0, 0.035, (height, width, 1)) * (0.3 + depth)
    picture = np.where((y < horizon)[..., None], sky, ground + texture)
    if shift == "taxiway":
        x0, y0, x1, y1 = spot_box(0)
        strip = [[x0, y1], [x1, y1], [x1 - 4.0, y0], [x0 + 4.0, y0]]
        picture[_inside(np.array(strip), x, y)] = ASPHALT * 1.1
    picture[_inside(corners, x, y)] = ASPHALT
    picture[_inside(_centre_line(corners), x, y)] = PAINT
    picture = picture * random.uniform(0.94, 1.06) + random.normal(0.0, 0.01, picture.shape)
    return eight_bits(shifted(picture, shift, random))


def _centre_line(corners: F64) -> F64:
    """Return the corners of a strip along the middle, a twelfth as wide as the runway."""
    near, far = corners[:2], corners[2:]
    parts = [
        near.mean(axis=0) + (near - near.mean(axis=0)) / 12.0,
        far.mean(axis=0) + (far - far.mean(axis=0)) / 12.0,
    ]
    return np.concatenate(parts)


def _inside(corners: F64, x: F64, y: F64) -> Flags:
    """Return which points lie in a convex polygon."""
    following = np.roll(corners, -1, axis=0)
    sides = [
        (bx - ax) * (y - ay) - (by - ay) * (x - ax)
        for (ax, ay), (bx, by) in zip(corners, following)
    ]
    turns = np.stack(sides)
    return np.asarray((turns >= 0).all(axis=0) | (turns <= 0).all(axis=0))


RUNWAY_SHIFTS = (
    Shift("none", 0.50, ood=False, fails=(0.03, 0.40)),
    Shift("sky", 0.20, ood=True, fails=(0.03, 0.40)),  # harmless: another colour of sky and ground
    Shift(
        "taxiway", 0.08, ood=True, fails=(0.03, 0.40), extra=1.0
    ),  # a strange strip, always a false alarm
    Shift("fog", 0.08, ood=True, fails=(0.45, 0.90)),
    Shift("blur", 0.07, ood=True, fails=(0.30, 0.80)),
    Shift("night", 0.07, ood=True, fails=(0.55, 0.90)),
)


def runway_cohort(
    n: int = 600,
    seed: int = 0,
    *,
    shares: Mapping[str, float] | None = None,
    far: float = FAR_SHARE,
) -> ShiftedCohort:
    """Return n images of runways with the predictions of a detector and the alarms of three
    monitors.

    Parameters
    ----------
    shares
        Shift -> share of the images, instead of those of `SHIFTS`; a shift that is not named has
        none.
    far
        Share of runways that are at least 4500 m away, in every shift.

    Notes
    -----
    The detector fails with the probabilities below (near, far runways). If it does not, its box has
    an IoU of at least 0.8 with the reference. If it fails, it finds nothing (in half of the cases)
    or something on the ground that does not touch the runway. Apart from that it adds one false
    alarm with probability 0.05, always under ``taxiway``.

    ========  =====  ===  ==========  ==========
    shift     share  OOD  fails near  fails far
    ========  =====  ===  ==========  ==========
    none      0.50   no   0.03        0.40
    sky       0.20   yes  0.03        0.40
    taxiway   0.08   yes  0.03        0.40
    fog       0.08   yes  0.45        0.90
    blur      0.07   yes  0.30        0.80
    night     0.07   yes  0.55        0.90
    ========  =====  ===  ==========  ==========

    So the F1 of an image, s = 2 TP / (predictions + 1), is 1, 2/3 (a hit and a false alarm) or 0 (a
    failure): images with s < tau are the failures for every tau up to 2/3. With the default shares
    14 % of the usual images fail, 14 % of those with a harmless shift, 33 % of all OOD images. The
    ``shift-detector`` therefore wins by OOD labels (AUROC about 0.98 to 0.58) and the
    ``failure-predictor`` by OMS labels (about 0.92 to 0.63): `expected_auroc` has the exact
    numbers.

    Every image has its own random numbers: its runway does not depend on n.

    Examples
    --------
    >>> from calipers.synthetic.runways import runway_cohort
    >>> runways = runway_cohort(200, seed=1)
    >>> runways.cohort.classes, list(runways.alarms)
    (('runway',), ['shift-detector', 'failure-predictor', 'random'])
    >>> runways.pictures[0].shape
    (120, 160, 3)
    """
    if n < 1 or not 0.0 <= far <= 1.0:
        raise UsageError(
            f"a runway cohort has at least one image and a share of far runways, got {n} and {far}"
        )
    shifts = _shifts(shares)
    kinds = dealt(shifts, n, stream(seed, "runway shifts"))
    records, predictions, corners = [], [], []
    for k, shift in enumerate(kinds):
        random = stream(seed, "runway", str(k))
        hard = bool(random.random() < far)
        fails = bool(random.random() < shift.fails[int(hard)])
        distance = _distance(hard, random)
        quad = _corners(distance, random)
        corners.append(quad)
        records.append(_runway_record(k, quad, distance, shift, hard, fails))
        predictions.append(_detected_runways(records[-1], shift, random))
    cohort = Cohort.from_arrays(records, {"detector": predictions}, classes=(CLASS,))
    groups = cohort.images.groups
    ood, failing = np.asarray(groups["ood"], np.bool_), np.asarray(groups["fails"], np.bool_)
    splits = dealt_splits(ood, stream(seed, "runway splits"))
    cohort = _with_corners(cohort.with_groups({"split": splits}), np.array(corners))
    columns = {
        name: cohort.images.groups[name] for name in ("ood", "shift", "split", "hard", "fails")
    }
    alarms = simulated_alarms(ood, failing, stream(seed, "runway monitors"))

    def draw(k: int) -> NDArray[np.uint8]:
        return draw_runway(corners[k], kinds[k].name, stream(seed, "runway picture", str(k)))

    return ShiftedCohort(cohort, columns, alarms, draw, seed)


def write_runways(
    folder: Path | str, runways: ShiftedCohort | None = None, *, pictures: bool = True
) -> list[Path]:
    """Write a runway cohort as files: ``lard.csv``, ``detector.csv``, ``alarms.csv``, and
    ``images/*.png``.

    Parameters
    ----------
    runways
        What `runway_cohort` returned; None: its defaults.

    Notes
    -----
    ``lard.csv`` is what the format ``lard`` reads: semicolons, corners A to D sorted by row and
    then by column. ``alarms.csv`` has a row per image: the monitors, ``ood``, ``split`` and
    ``shift``. Files that are there are replaced.
    """
    from PIL import Image

    runways = runways or runway_cohort()
    root, cohort = Path(folder), runways.cohort
    if "x_A" not in cohort.references.facts:
        raise UsageError("write_runways writes runway cohorts only")
    root.mkdir(parents=True, exist_ok=True)
    contents = {
        "lard.csv": delimited(_lard(cohort), ";"),
        "detector.csv": delimited(_predictions(cohort)),
        "alarms.csv": delimited(_alarms(runways)),
    }
    paths = []
    for name, content in contents.items():
        write_atomically(root / name, content)
        paths.append(root / name)
    if pictures:
        (root / "images").mkdir(exist_ok=True)
        for k, image in enumerate(cohort.images.ids):
            paths.append(root / image)
            Image.fromarray(runways.draw(k)).save(paths[-1])
    return paths


def _shifts(shares: Mapping[str, float] | None) -> tuple[Shift, ...]:
    if shares is None:
        return RUNWAY_SHIFTS
    by_name = {shift.name: shift for shift in RUNWAY_SHIFTS}
    strange = [name for name in shares if name not in by_name]
    if strange or not sum(shares.values()) > 0.0 or min(shares.values()) < 0.0:
        raise UsageError(
            f"shares are not negative, one is above 0, and are of {', '.join(by_name)}; "
            f"got {dict(shares)}"
        )
    return tuple(replace(by_name[name], share=share) for name, share in shares.items())


def _distance(hard: bool, random: Generator) -> float:
    low, high = (FAR, FARTHEST) if hard else (NEAREST, FAR)
    return float(np.exp(random.uniform(np.log(low), np.log(high))))


def _corners(distance: float, random: Generator) -> F64:
    """Return the (4, 2) corners: seen from the glide path, turned by a roll, moved into the
    picture.
    """
    aside = distance * np.tan(np.radians(random.uniform(-2.5, 2.5)))
    forward = np.array([distance, distance, distance + LENGTH, distance + LENGTH])
    across = np.array([-0.5, 0.5, 0.5, -0.5]) * WIDTH + aside
    points = np.stack([FOCAL * across / forward, FOCAL * GLIDE * distance / forward], axis=1)
    roll = np.radians(random.uniform(-5.0, 5.0))
    turned = points @ np.array([[np.cos(roll), np.sin(roll)], [-np.sin(roll), np.cos(roll)]])
    corners = turned + np.array([SIZE[0] / 2.0, HORIZON + random.uniform(-8.0, 8.0)])
    low, high = np.array([2.0, 2.0]), np.array([SIZE[0] - 2.0, SIZE[1] - BAND - 2.0])
    corners += np.maximum(low - corners.min(axis=0), 0.0)
    corners -= np.maximum(corners.max(axis=0) - high, 0.0)
    return np.asarray(np.round(corners, 2), np.float64)


def _runway_record(
    k: int, quad: F64, distance: float, shift: Shift, hard: bool, fails: bool
) -> dict[str, Any]:
    return {
        "image_id": f"images/{k:05d}.png",
        "boxes": [[*quad.min(axis=0), *quad.max(axis=0)]],
        "labels": [0],
        "width": SIZE[0],
        "height": SIZE[1],
        "airport": AIRPORTS[k % len(AIRPORTS)],
        "slant_distance": round(distance * float(np.hypot(1.0, GLIDE)), 1),
        "shift": shift.name,
        "ood": shift.ood,
        "hard": hard,
        "fails": fails,
    }


def _with_corners(cohort: Cohort, corners: F64) -> Cohort:
    """Return the cohort with the corners as facts of the references, A to D by row and then by
    column as in LARD.
    """
    order = np.array([np.lexsort((quad[:, 0], quad[:, 1])) for quad in corners])
    sorted_corners = np.take_along_axis(corners, order[..., None], axis=1)
    facts = dict(cohort.references.facts)
    for k, name in enumerate("ABCD"):
        for a, axis in enumerate("xy"):
            facts[f"{axis}_{name}"] = sorted_corners[:, k, a]
    return replace(cohort, references=replace(cohort.references, facts=facts))


def _detected_runways(record: dict[str, Any], shift: Shift, random: Generator) -> dict[str, Any]:
    """Return the predictions of the detector on an image."""
    spots = random.permutation(GROUND_SPOTS).tolist()
    boxes: list[F64] = []
    scores: list[float] = []
    if not record["fails"]:
        low, high = np.split(np.array(record["boxes"][0]), 2)
        sides = (high - low) * random.uniform(1.0 - JITTER, 1.0 + JITTER, 2)
        centre = (low + high) / 2.0 + (high - low) * random.uniform(-JITTER, JITTER, 2)
        boxes.append(np.concatenate([centre - sides / 2.0, centre + sides / 2.0]))
        scores.append(float(random.beta(8.0, 2.0)))
    elif random.random() < 0.5:
        boxes.append(spot_box(spots.pop()))
        scores.append(float(random.beta(3.0, 4.0)))
    if random.random() < shift.extra:
        strange = 0 if shift.name == "taxiway" and 0 in spots else spots[-1]
        boxes.append(spot_box(strange))
        scores.append(float(random.beta(2.0, 5.0)))
    order = np.argsort(scores)[::-1]
    return {
        "image_id": record["image_id"],
        "boxes": np.array(boxes).reshape(-1, 4)[order],
        "labels": np.zeros(len(boxes), np.int64),
        "scores": np.array(scores)[order],
    }


def _lard(cohort: Cohort) -> dict[str, list[Any]]:
    groups, size = cohort.images.groups, cohort.images.size.astype(np.int64)
    facts = {name: column.tolist() for name, column in cohort.references.facts.items()}
    return {
        "image": list(cohort.images.ids),
        "height": size[:, 1].tolist(),
        "width": size[:, 0].tolist(),
        "type": ["made-up"] * cohort.n_images,
        "airport": groups["airport"].tolist(),
        "weather": groups["shift"].tolist(),
        "slant_distance": groups["slant_distance"].tolist(),
        **facts,
    }


def _predictions(cohort: Cohort) -> dict[str, list[Any]]:
    table = cohort.models["detector"]
    ids = [cohort.images.ids[k] for k in table.image.tolist()]
    boxes = {name: table.boxes[:, k].tolist() for k, name in enumerate(("x0", "y0", "x1", "y1"))}
    return {"image": ids, "class": [CLASS] * len(table), **boxes, "score": table.score.tolist()}


def _alarms(shifted_cohort: ShiftedCohort) -> dict[str, list[Any]]:
    return {
        "image": list(shifted_cohort.cohort.images.ids),
        **{name: values.tolist() for name, values in shifted_cohort.alarms.items()},
        "ood": shifted_cohort.columns["ood"].astype(np.int64).tolist(),
        "split": shifted_cohort.columns["split"].tolist(),
        "shift": shifted_cohort.columns["shift"].tolist(),
    }
