# SPDX-License-Identifier: Apache-2.0
"""The format ``labelme``: a folder of LabelMe JSON files, one per image.

A file has ``imageWidth``, ``imageHeight``, ``imagePath`` and a list of ``shapes`` with ``label``,
``shape_type`` and ``points`` in pixels: a rectangle by two corners, a polygon by its corners, a
circle by its centre and a point on it. Shapes of one label that share a ``group_id`` are parts of
one object. AnyLabeling writes the same files.

`calipers.io.read` calls `LabelMeReader` for references.
"""

from __future__ import annotations

import math
import re
from typing import Any

from calipers.errors import InputError
from calipers.io.annotations.rows import (
    AnnotatedImage,
    AnnotationList,
    Box,
    ImageFile,
    Polygons,
    RecordPlace,
    bounding_box,
    first_file,
    image_files,
    image_side,
    is_number,
)
from calipers.io.reader import Options, Reader, ReferenceFile, Sniffed
from calipers.io.source import HEAD, InputFile

SUFFIX = ".json"
SHAPES = re.compile(r'"shapes"\s*:\s*\[')
# Keys of LabelMe that stand before the shapes, or behind few of them.
COMPANY = re.compile(r'"(?:flags|imagePath|imageHeight|imageData|version)"\s*:')
LISTS = re.compile(r'"(?:annotations|images|categories)"\s*:')
# Kinds of shapes, and how many points they have: exactly or at least.
POINTS = {"rectangle": 2, "circle": 2, "polygon": 3}


class LabelMeReader(Reader):
    """A folder of LabelMe files, or one such file.

    Notes
    -----
    An image is called like its JSON file, with its path below the folder. Classes are the labels,
    in alphabetical order. The box of a polygon is the one around its corners. Lines and points are
    refused (``shape-kind``), because they have no extent.
    """

    name = "labelme"
    roles = ("references",)
    inputs = ("folder", "file")

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise an object with shapes."""
        first = first_file(file, SUFFIX)
        if first is None or first.head[:1] != "{":
            return None
        # The picture itself may stand before the shapes, as text of any length.
        tail = first.data[-HEAD:].decode("utf-8", "replace")
        ends = first.head + tail
        if LISTS.search(ends) or not SHAPES.search(ends) or not COMPANY.search(ends):
            return None
        return Sniffed(self.name, "references", "its JSON has shapes, as LabelMe files have")

    def references(self, file: InputFile, options: Options) -> ReferenceFile:
        """Read every file as one image."""
        rows = AnnotationList(file, options)
        images: list[AnnotatedImage] = []
        for source in image_files(file, SUFFIX):
            images.append(_read(source, rows, len(images)))
        return rows.references(self.name, images)


def _read(source: ImageFile, rows: AnnotationList, image: int) -> AnnotatedImage:
    from calipers.io.coco.walk import read_value

    file = source.file
    document = read_value(file)
    if not isinstance(document, dict) or not isinstance(document.get("shapes"), list):
        raise InputError(
            "a LabelMe object with a list of shapes",
            rule="format",
            file=file.file,
            hint="remove files of other formats from the folder",
        )
    sides = []
    for key in ("imageWidth", "imageHeight"):
        value = document.get(key)
        side = value if is_number(value) else None
        # LabelMe itself writes null if it never saw the picture.
        sides.append(math.nan if value is None else image_side(side, file.file, f"/{key}", key))
    _Shapes(rows, image, source.name).read(document["shapes"])
    path = document.get("imagePath")
    file_name = ""
    if isinstance(path, str):
        file_name = path.replace("\\", "/").rsplit("/", 1)[-1]
    return AnnotatedImage(source.key, sides[0], sides[1], file_name)


class _Shapes:
    """The shapes of one file; those of one group become one object."""

    def __init__(self, rows: AnnotationList, image: int, name: str) -> None:
        self.rows, self.image, self.name = rows, image, name

    def read(self, shapes: list[Any]) -> None:
        """Enter all objects in the order of their first shapes."""
        groups: dict[tuple[str, object], list[tuple[Box, Polygons | None]]] = {}
        places: dict[tuple[str, object], RecordPlace] = {}
        for k, shape in enumerate(shapes):
            place = RecordPlace(f"{self.name}/shapes/{k}", str(shape)[:2000])
            outline = self.outline(shape, place)
            if outline is None:
                continue
            group = shape.get("group_id")
            # Without a group every shape is an object of its own.
            part_of: object = k if group is None else str(group)
            groups.setdefault((shape["label"], part_of), []).append(outline)
            places.setdefault((shape["label"], part_of), place)
        for key, outlines in groups.items():
            self.add(key[0], outlines, places[key])

    def add(
        self, label: str, outlines: list[tuple[Box, Polygons | None]], place: RecordPlace
    ) -> None:
        corners = []
        rings: Polygons = []
        for (x0, y0, x1, y1), own_rings in outlines:
            corners.append([x0, y0, x1, y1])
            rings += own_rings or []
        box = bounding_box(corners)
        # A group with a shape that has no outline has none as a whole.
        whole = all(own_rings for _, own_rings in outlines)
        self.rows.add(self.image, label, box, place, rings=rings if whole else None)

    def outline(self, shape: Any, place: RecordPlace) -> tuple[Box, Polygons | None] | None:
        rows = self.rows
        if not isinstance(shape, dict):
            rows.reject(place, "type", "an object", shape, field="shapes")
            return None
        if not isinstance(shape.get("label"), str) or not shape["label"]:
            rows.reject(place, "class-missing", "a label", shape.get("label"), field="label")
            return None
        # Files of early versions have polygons only, and do not say so.
        kind = shape.get("shape_type", "polygon")
        if not isinstance(kind, str) or kind not in POINTS:
            rows.reject(
                place,
                "shape-kind",
                f"one of the shapes {', '.join(POINTS)}",
                kind,
                field="shape_type",
                hint="--lenient sets such shapes aside",
            )
            return None
        points = shape.get("points")
        if not isinstance(points, list) or not all(map(_is_point, points)):
            rows.reject(place, "type", "points as [[x, y], ...]", points, field="points")
            return None
        least = POINTS[kind]
        if len(points) < least or (kind != "polygon" and _is_too_long(kind, points)):
            expected = f"{least} points" + (" or more" if kind == "polygon" else "")
            rows.reject(place, "box-shape", expected, len(points), field="points")
            return None
        return _outline(kind, points)


def _outline(kind: str, points: list[list[float]]) -> tuple[Box, Polygons | None]:
    ring = [float(number) for point in points for number in point]
    if kind == "polygon":
        return bounding_box([ring]), [ring]
    if kind == "rectangle":
        return bounding_box([ring]), None
    x, y = ring[:2]
    radius = math.hypot(ring[2] - x, ring[3] - y)
    return (x - radius, y - radius, x + radius, y + radius), None


def _is_too_long(kind: str, points: list[Any]) -> bool:
    # AnyLabeling writes rectangles with all four corners.
    return len(points) != POINTS[kind] and not (kind == "rectangle" and len(points) == 4)


def _is_point(point: Any) -> bool:
    return isinstance(point, list) and len(point) == 2 and all(map(is_number, point))
