# SPDX-License-Identifier: Apache-2.0
"""Synthetic endoscopy frames of several classes: flat lesions are hard, some shifts harmful."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from calipers.errors import UsageError
from calipers.synthetic.anatomy import stream
from calipers.synthetic.shifts import (
    Shift,
    ShiftedCohort,
    dealt,
    dealt_splits,
    eight_bits,
    shifted,
    simulated_alarms,
)
from calipers.tables import Cohort

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]

CLASSES = ("polyp", "flat-lesion", "instrument", "ulcer")
FLAT = CLASSES.index("flat-lesion")
SHIFTS = (
    Shift("none", 0.50, ood=False, fails=(0.04, 0.50)),
    Shift("tint", 0.22, ood=True, fails=(0.04, 0.50)),  # harmless: another lamp
    Shift("fog", 0.10, ood=True, fails=(0.50, 0.90)),
    Shift("blur", 0.08, ood=True, fails=(0.35, 0.85)),
    Shift(
        "new-class", 0.10, ood=True, fails=(0.04, 0.50), extra=1.0
    ),  # diverticula, which are called ulcers
)
SIDE = 128
# objects lie in the cells of a grid of 3 x 3, one in each at most, so none touches another
CELLS = 3
COLOURS = np.array([[0.80, 0.35, 0.35], [0.78, 0.48, 0.42], [0.75, 0.78, 0.80], [0.85, 0.75, 0.45]])
STRANGE = np.array([0.20, 0.06, 0.06])
JITTER = 0.05


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
    kinds = dealt(SHIFTS, n, stream(seed, "endoscopy shifts"))
    records, predictions, strange = [], [], []
    for k, shift in enumerate(kinds):
        random = stream(seed, "endoscopy", str(k))
        cells = random.permutation(CELLS * CELLS)
        hard = bool(random.random() < 0.25)
        record = _record(k, cells, hard, random)
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
        predictions.append(_detected(records[-1], shift, spare, random))
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


def _record(k: int, cells: I64, hard: bool, random: Generator) -> dict[str, Any]:
    others = [c for c in range(len(CLASSES)) if c != FLAT]
    labels = random.choice(others, int(random.integers(1, 4)))
    if hard:
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


def _detected(
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
