# SPDX-License-Identifier: Apache-2.0
"""Synthetic landing approaches: one runway per image, far ones are hard, some shifts harmful."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from calipers.errors import UsageError
from calipers.results.delimited import delimited
from calipers.results.files import write_atomically
from calipers.synthetic.anatomy import stream
from calipers.synthetic.runway_pictures import BAND, GROUND_SPOTS, SIZE, draw_runway, spot_box
from calipers.synthetic.shifts import Shift, ShiftedCohort, dealt, dealt_splits, simulated_alarms
from calipers.tables import Cohort

F64 = NDArray[np.float64]

CLASS = "runway"
SHIFTS = (
    Shift("none", 0.50, ood=False, fails=(0.03, 0.40)),
    Shift("sky", 0.20, ood=True, fails=(0.03, 0.40)),  # harmless: another colour of sky and ground
    Shift(
        "taxiway", 0.08, ood=True, fails=(0.03, 0.40), extra=1.0
    ),  # a strange strip, always a false alarm
    Shift("fog", 0.08, ood=True, fails=(0.45, 0.90)),
    Shift("blur", 0.07, ood=True, fails=(0.30, 0.80)),
    Shift("night", 0.07, ood=True, fails=(0.55, 0.90)),
)
FAR_SHARE, FAR = 0.3, 4500.0  # metres: from here on a runway is hard to see
NEAREST, FARTHEST = 1000.0, 8000.0
WIDTH, LENGTH, FOCAL, GLIDE = (
    60.0,
    3000.0,
    900.0,
    np.tan(np.radians(3.0)),
)  # metres, metres, pixels, slope
HORIZON = 30.0
JITTER = 0.05  # of the sides: a hit has an IoU of at least 0.8
AIRPORTS = ("LFAA", "LFBB", "EDCC", "EDDD", "KEEE")


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
        records.append(_record(k, quad, distance, shift, hard, fails))
        predictions.append(_detected(records[-1], shift, random))
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
        return SHIFTS
    by_name = {shift.name: shift for shift in SHIFTS}
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


def _record(
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


def _detected(record: dict[str, Any], shift: Shift, random: Generator) -> dict[str, Any]:
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
