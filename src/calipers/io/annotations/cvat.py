# SPDX-License-Identifier: Apache-2.0
"""The format ``cvat``: the XML file that CVAT calls "CVAT for images 1.1".

The file lists ``labels`` in its ``meta``, and an ``image`` for every picture with ``box`` and
``polygon`` elements in pixels. A box with a ``rotation`` is turned about its centre, and is an
outline then; ellipses are boxes. Tags of whole images are no objects.

`calipers.io.read` calls `CvatReader` for references.
"""

from __future__ import annotations

import math
from collections import Counter

from calipers.errors import InputError
from calipers.io.annotations.markup import Element, read_children, root_name
from calipers.io.annotations.rows import (
    AnnotatedImage,
    AnnotationList,
    Box,
    Polygons,
    RecordPlace,
    as_number,
    bounding_box,
    image_side,
    rotated_corners,
)
from calipers.io.reader import Options, Reader, ReferenceFile, Sniffed
from calipers.io.source import InputFile

ROOT = "annotations"
BOX = ("xtl", "ytl", "xbr", "ybr")
ELLIPSE = ("cx", "cy", "rx", "ry")
# What an image may hold beside objects.
NO_OBJECTS = ("attribute", "tag")


class CvatReader(Reader):
    """The XML of CVAT for images.

    Notes
    -----
    An image is called like its file in CVAT. Classes come in the order of the project; a file
    without such a list has those of its objects, in alphabetical order. Polylines, points, cuboids,
    skeletons and painted masks are refused (``shape-kind``), because they have no outline here.
    """

    name = "cvat"
    roles = ("references",)

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise the root."""
        if root_name(file.head) != ROOT:
            return None
        return Sniffed(self.name, "references", f"its XML begins with <{ROOT}>, as in CVAT")

    def references(self, file: InputFile, options: Options) -> ReferenceFile:
        """Read the images one by one."""
        document = _ImageList(file, AnnotationList(file, options))
        read_children(file, ROOT, document.take)
        document.close()
        return document.rows.references(self.name, document.images, document.classes or None)


class _ImageList:
    """The file while it is read."""

    def __init__(self, file: InputFile, rows: AnnotationList) -> None:
        self.file, self.rows = file, rows
        self.images: list[AnnotatedImage] = []
        self.classes: list[str] = []
        self.others: Counter[str] = Counter()

    def take(self, element: Element) -> None:
        """Take a child of the root."""
        if element.tag == "meta":
            self.take_labels(element)
        elif element.tag == "image":
            self.take_image(element)
        elif element.tag == "track":
            raise InputError(
                "images",
                rule="format",
                file=self.file.file,
                location=f"line {element.line}",
                value="<track>, the tracks of a video",
                hint='export the task as "CVAT for images 1.1"',
            )

    def take_labels(self, meta: Element) -> None:
        """Read the classes of the task, job or project; parts of skeletons are none of them."""
        for holder in meta.children:
            labels = holder.child("labels")
            if labels is None:
                continue
            for label in labels.every("label"):
                name = label.text_of("name")
                if name and not label.text_of("parent"):
                    self.classes.append(name)
        self.classes = list(dict.fromkeys(self.classes))

    def take_image(self, element: Element) -> None:
        location = f"line {element.line}"
        name = element.attributes.get("name", "")
        if not name:
            raise InputError(
                "an image with a name",
                rule="missing-id",
                file=self.file.file,
                location=location,
                field="name",
            )
        width = image_side(element.number("width"), self.file.file, location, "width")
        height = image_side(element.number("height"), self.file.file, location, "height")
        image = len(self.images)
        self.images.append(AnnotatedImage(name, width, height, name))
        for child in element.children:
            if child.tag in NO_OBJECTS:
                self.others[child.tag] += 1
            else:
                self.take_shape(image, child)

    def take_shape(self, image: int, element: Element) -> None:
        place = RecordPlace(f"line {element.line}", element.shortened())
        label = element.attributes.get("label", "")
        if not label:
            self.rows.reject(place, "class-missing", "a class in label", field="label")
            return
        outline: tuple[Box, Polygons | None] | None = None
        if element.tag == "box":
            outline = self.box(element, place)
        elif element.tag == "polygon":
            outline = self.polygon(element, place)
        elif element.tag == "ellipse":
            outline = self.ellipse(element, place)
        else:
            self.rows.reject(
                place,
                "shape-kind",
                "a box, a polygon or an ellipse",
                element.tag,
                field="label",
                hint="--lenient sets such shapes aside",
            )
        if outline is not None:
            box, rings = outline
            self.rows.add(image, label, box, place, rings=rings)

    def box(self, element: Element, place: RecordPlace) -> tuple[Box, Polygons | None] | None:
        corners = self.numbers(element, place, BOX)
        if corners is None:
            return None
        x0, y0, x1, y1 = corners
        box = (x0, y0, x1, y1)
        angle = as_number(element.attributes.get("rotation", "0"))
        if angle is None:
            self.rows.reject(place, "type", "a number in rotation", element.attributes["rotation"])
            return None
        if not angle:
            return box, None
        ring = rotated_corners(box, angle, ((x0 + x1) / 2, (y0 + y1) / 2))
        return bounding_box([ring]), [ring]

    def ellipse(self, element: Element, place: RecordPlace) -> tuple[Box, Polygons | None] | None:
        numbers = self.numbers(element, place, ELLIPSE)
        if numbers is None:
            return None
        x, y, rx, ry = numbers
        angle = math.radians(element.number("rotation") or 0.0)
        # The half sides of the box around an ellipse that is turned about its centre.
        half_width = math.hypot(rx * math.cos(angle), ry * math.sin(angle))
        half_height = math.hypot(rx * math.sin(angle), ry * math.cos(angle))
        return (x - half_width, y - half_height, x + half_width, y + half_height), None

    def polygon(self, element: Element, place: RecordPlace) -> tuple[Box, Polygons | None] | None:
        points = element.attributes.get("points", "")
        ring: list[float] = []
        for pair in points.split(";"):
            texts = pair.split(",")
            for text in texts:
                number = as_number(text)
                if len(texts) == 2 and number is not None and math.isfinite(number):
                    ring.append(number)
            if len(texts) != 2 or len(ring) % 2:
                self.rows.reject(place, "polygon", "points as x,y;x,y;...", pair, field="points")
                return None
        return bounding_box([ring]), [ring]

    def numbers(
        self, element: Element, place: RecordPlace, names: tuple[str, ...]
    ) -> list[float] | None:
        numbers = []
        for name in names:
            number = element.number(name)
            if number is None:
                self.rows.reject(
                    place, "type", f"a number in {name}", element.attributes.get(name), field=name
                )
                return None
            numbers.append(number)
        return numbers

    def close(self) -> None:
        """Say what was not read."""
        if self.others["tag"]:
            self.rows.notes.append(
                f"{self.others['tag']} tags of whole images are not read: they are no objects"
            )
