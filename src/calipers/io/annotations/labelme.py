# SPDX-License-Identifier: Apache-2.0
"""The format ``labelme``: a folder of LabelMe JSON files, one per image.

A file has ``imageWidth``, ``imageHeight``, ``imagePath`` and a list of ``shapes`` with ``label``,
``shape_type`` and ``points`` in pixels: a rectangle by two corners, a polygon by its corners, a
circle by its centre and a point on it. A painted ``mask`` is a PNG file in base64, with the first
and the last pixel of its rectangle as points. Shapes of one label that share a ``group_id`` are
parts of one object. AnyLabeling writes the same files.

`calipers.io.read` calls `LabelMeReader` for references.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from calipers.errors import InputError
from calipers.io.annotations.annotation_list import (
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

if TYPE_CHECKING:
    from calipers.io.annotations.painted import RowRuns
    from calipers.io.coco.masks import RunLengths

SUFFIX = ".json"
SHAPES = re.compile(r'"shapes"\s*:\s*\[')
# Keys of LabelMe that stand before the shapes, or behind few of them.
COMPANY = re.compile(r'"(?:flags|imagePath|imageHeight|imageData|version)"\s*:')
LISTS = re.compile(r'"(?:annotations|images|categories)"\s*:')
# Kinds of shapes, and how many points they have: exactly or at least.
POINTS = {"rectangle": 2, "circle": 2, "polygon": 3, "oriented_rectangle": 4, "mask": 2}
OUTLINES = ("polygon", "oriented_rectangle")  # whose points are their corners


class LabelMeReader(Reader):
    """A folder of LabelMe files, or one such file.

    Notes
    -----
    An image is called like its JSON file, with its path below the folder. Classes are the labels,
    in alphabetical order. The box of a polygon is the one around its corners, that of a painted
    mask the one around its pixels. Lines and points are refused (``shape-kind``), because they have
    no extent.
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
        shapes = _Shapes(rows)
        images: list[AnnotatedImage] = []
        for source in image_files(file, SUFFIX):
            images.append(_read(source, shapes, len(images)))
        return rows.references(self.name, images, pictured=True)


def _read(source: ImageFile, shapes: _Shapes, image: int) -> AnnotatedImage:
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
    path = document.get("imagePath")
    file_name = ""
    if isinstance(path, str):
        file_name = path.replace("\\", "/").rsplit("/", 1)[-1]
    annotated = AnnotatedImage(source.key, sides[0], sides[1], file_name)
    shapes.read(document["shapes"], image, annotated, source.name)
    return annotated


class _ShapePart(NamedTuple):
    """One shape of an object: an outline, a painted mask, or only a box."""

    box: Box
    rings: Polygons | None = None
    painted: RowRuns | None = None


class _Shapes:
    """The shapes of all files; those of one group in a file become one object."""

    def __init__(self, rows: AnnotationList) -> None:
        self.rows = rows

    def read(self, shapes: list[Any], image: int, annotated: AnnotatedImage, name: str) -> None:
        """Enter all objects of a file in the order of their first shapes."""
        size = (annotated.width, annotated.height)
        groups: dict[tuple[str, object], list[_ShapePart]] = {}
        places: dict[tuple[str, object], RecordPlace] = {}
        for k, shape in enumerate(shapes):
            place = RecordPlace(f"{name}/shapes/{k}", str(shape)[:2000])
            part = self.part(shape, place)
            if part is None:
                continue
            group = shape.get("group_id")
            # Without a group every shape is an object of its own; the group "1" is not the group 1.
            part_of: object = k if group is None else repr(group)
            groups.setdefault((shape["label"], part_of), []).append(part)
            places.setdefault((shape["label"], part_of), place)
        for key, parts in groups.items():
            outline = self.outline(parts, size, places[key])
            if outline is not None:
                box, rings = outline
                self.rows.add(image, key[0], box, places[key], rings=rings)

    def outline(
        self, parts: list[_ShapePart], size: tuple[float, float], place: RecordPlace
    ) -> tuple[Box, Polygons | RunLengths | None] | None:
        """Return the box and the outline of an object, or of the mask that was painted for it."""
        painted = [part.painted for part in parts if part.painted is not None]
        if len(painted) == len(parts):
            return self.rows.painter.mask(painted, size, place, "mask")
        corners, rings = [], []
        for part in parts:
            corners.append(list(part.box))
            rings += part.rings or []
        # A group with a shape that has no outline has none as a whole.
        is_drawn = all(part.rings for part in parts)
        return bounding_box(corners), rings if is_drawn else None

    def part(self, shape: Any, place: RecordPlace) -> _ShapePart | None:
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
        group = shape.get("group_id")
        if group is not None and (isinstance(group, bool) or not isinstance(group, int | str)):
            expected = "a number or a name of a group, or null"
            rows.reject(place, "type", expected, group, field="group_id")
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
        if kind == "mask":
            return self.painted(shape, points, place)
        return _outline(kind, points)

    def painted(
        self, shape: Any, points: list[list[float]], place: RecordPlace
    ) -> _ShapePart | None:
        """Return a painted mask, whose points are the first and the last pixel of its rectangle."""
        from calipers.io.annotations.painted import png_pixels, runs_of_pixels
        from calipers.io.coco.masks import Odd

        pixels = png_pixels(shape.get("mask"))
        if isinstance(pixels, Odd):
            self.rows.painter.refuse(pixels, place, "mask")
            return None
        # LabelMe drops the decimals of the points; at the border of the image the last pixel is the
        # one behind it.
        left, top, right, bottom = (int(points[k // 2][k % 2]) for k in range(4))
        height, width = pixels.shape
        fits = width - (right - left) in (0, 1) and height - (bottom - top) in (0, 1)
        if not fits:
            expected = f"a mask of {right - left + 1} x {bottom - top + 1} pixels, as points say"
            self.rows.reject(place, "mask-size", expected, f"{width} x {height}", field="mask")
            return None
        runs = runs_of_pixels(pixels, left, top)
        if isinstance(runs, Odd):
            self.rows.painter.refuse(runs, place, "mask")
            return None
        box = (float(left), float(top), float(left + width), float(top + height))
        return _ShapePart(box, painted=runs)


def _outline(kind: str, points: list[list[float]]) -> _ShapePart:
    ring = [float(number) for point in points for number in point]
    if kind in OUTLINES:
        return _ShapePart(bounding_box([ring]), [ring])
    if kind == "rectangle":
        return _ShapePart(bounding_box([ring]))
    x, y = ring[:2]
    radius = math.hypot(ring[2] - x, ring[3] - y)
    return _ShapePart((x - radius, y - radius, x + radius, y + radius))


def _is_too_long(kind: str, points: list[Any]) -> bool:
    # AnyLabeling writes rectangles with all four corners.
    return len(points) != POINTS[kind] and not (kind == "rectangle" and len(points) == 4)


def _is_point(point: Any) -> bool:
    return isinstance(point, list) and len(point) == 2 and all(map(is_number, point))
