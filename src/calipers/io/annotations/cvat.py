# SPDX-License-Identifier: Apache-2.0
"""The format ``cvat``: the XML files "CVAT for images 1.1" and "CVAT for video 1.1".

The file lists ``labels`` in its ``meta``, and an ``image`` for every picture with ``box``,
``polygon`` and ``mask`` elements in pixels. A box with a ``rotation`` is turned about its centre,
and is an outline then; ellipses are boxes. A mask has run lengths along the rows of its own
rectangle. Tags of whole images are no objects.

A video has a ``track`` for every object instead, with a shape for each frame that shows it; in a
shape with ``outside="1"`` the object has left the picture. How many frames there are, and their
size, is in the ``meta``.

`calipers.io.read` calls `CvatReader` for references.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from calipers.errors import InputError
from calipers.io.annotations.annotation_list import (
    AnnotatedImage,
    AnnotationList,
    Box,
    Polygons,
    RecordPlace,
    as_number,
    bounding_box,
    ellipse_box,
    image_side,
    rotated_corners,
)
from calipers.io.annotations.markup import Element, read_children, root_name
from calipers.io.reader import Options, Reader, ReferenceFile, Sniffed
from calipers.io.source import InputFile

if TYPE_CHECKING:
    from calipers.io.coco.masks import RunLengths

ROOT = "annotations"
BOX = ("xtl", "ytl", "xbr", "ybr")
ELLIPSE = ("cx", "cy", "rx", "ry")
PAINTED = ("left", "top", "width", "height")
MOST_FRAMES = 1_000_000  # eleven hours of video: more is a wrong number in the file
WHOLE = re.compile(r"[0-9]{1,15}")
STEP = re.compile(r"step\s*=\s*(\d{1,7})", re.ASCII)
# What an image may hold beside objects.
NO_OBJECTS = ("attribute", "tag")


class CvatReader(Reader):
    """The XML of CVAT for images, or for video.

    Notes
    -----
    An image is called like its file in CVAT, a frame of a video by its number, ``frame_000012``, as
    CVAT calls it in the other export. Classes come in the order of the project; a file without such
    a list has those of its objects, in alphabetical order. Polylines, points, cuboids and skeletons
    are refused (``shape-kind``), because they have no outline here.
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
        whole = document.rows.references(self.name, document.images, document.classes or None)
        if not document.frames:
            return whole
        columns = {
            "sequence": np.full(len(document.frames), document.title),
            "frame": np.array(list(document.frames), np.int64),
        }
        groups = {**whole.images.groups, **columns}
        return replace(whole, images=replace(whole.images, groups=groups))


class _ImageList:
    """The file while it is read."""

    def __init__(self, file: InputFile, rows: AnnotationList) -> None:
        self.file, self.rows = file, rows
        self.images: list[AnnotatedImage] = []
        self.classes: list[str] = []
        self.others: Counter[str] = Counter()
        self.is_video = False
        self.title = "video"  # of the task
        self.frames: dict[int, int] = {}  # number -> image, of a video
        self.tasks: set[str] = set()  # of the tracks of a project

    def take(self, element: Element) -> None:
        """Take a child of the root."""
        if element.tag == "meta":
            self.take_labels(element)
            self.take_frames(element)
        elif element.tag == "image":
            self.take_image(element)
        elif element.tag == "track":
            self.take_track(element)

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

    def take_frames(self, meta: Element) -> None:
        """Make an image of every frame of a video, whether an object is in it or not."""
        for holder in (meta.child("task"), meta.child("job")):
            if holder is None or holder.text_of("mode") != "interpolation":
                continue
            self.is_video = True
            self.title = holder.text_of("name") or self.title
            sides = holder.child("original_size") or holder
            location = f"line {holder.line}"
            width, height = math.nan, math.nan
            if sides.child("width") is not None:
                width = image_side(sides.number_of("width"), self.file.file, location, "width")
                height = image_side(sides.number_of("height"), self.file.file, location, "height")
            chosen_frames = holder.text_of("frame_filter")
            step = STEP.fullmatch(chosen_frames)
            if chosen_frames and step is None:
                raise InputError(
                    "a frame_filter such as step=2",
                    rule="type",
                    file=self.file.file,
                    location=location,
                    field="frame_filter",
                    value=chosen_frames,
                )
            numbers = range(
                self.whole(holder, "start_frame", 0),
                MOST_FRAMES * MOST_FRAMES,
                max(1, int(step[1])) if step else 1,
            )[: self.whole(holder, "size", 0)]
            for number in numbers:
                self.frames[number] = len(self.images)
                name = f"frame_{number:06d}"
                self.images.append(AnnotatedImage(name, width, height, name))
            return

    def whole(self, element: Element, tag: str, default: int) -> int:
        """Return the whole number in a child, or its default if there is no such child."""
        if element.child(tag) is None:
            return default
        number = element.number_of(tag)
        if number is None or not 0 <= number <= MOST_FRAMES or not number.is_integer():
            raise InputError(
                f"a whole number from 0 to {MOST_FRAMES}",
                rule="type",
                file=self.file.file,
                location=f"line {element.line}",
                field=tag,
                value=element.text_of(tag),
            )
        return int(number)

    def take_track(self, track: Element) -> None:
        """Enter the shapes of an object of a video, one for every frame in which it is seen."""
        self.tasks.add(track.attributes.get("task_id", ""))
        if len(self.frames) < len(self.images) or len(self.tasks) > 1 or not self.is_video:
            raise InputError(
                "the images of a task, or the tracks of one video whose meta says how long it is",
                rule="format",
                file=self.file.file,
                location=f"line {track.line}",
                value="<track>, an object of a video",
                hint='export each video separately as "CVAT for video 1.1", or all as "CVAT for '
                'images 1.1"',
            )
        for shape in track.children:
            outside = shape.attributes.get("outside", "0")
            if shape.tag in NO_OBJECTS or outside == "1":
                continue
            place = RecordPlace(f"line {shape.line}", shape.shortened())
            if outside != "0":
                self.rows.reject(place, "type", "0 or 1 in outside", outside, field="outside")
                continue
            text = shape.attributes.get("frame", "")
            number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
            image = self.frames.get(number, -1)
            if image < 0:
                expected = f"one of the {len(self.frames)} frames of the video"
                self.rows.reject(place, "unknown-image", expected, text, field="frame")
                continue
            shape.attributes.setdefault("label", track.attributes.get("label", ""))
            self.take_shape(image, shape)

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
        outline: tuple[Box, Polygons | RunLengths | None] | None = None
        if element.tag == "box":
            outline = self.box(element, place)
        elif element.tag == "polygon":
            outline = self.polygon(element, place)
        elif element.tag == "ellipse":
            outline = self.ellipse(element, place)
        elif element.tag == "mask":
            outline = self.mask(element, place, self.images[image])
        else:
            self.rows.reject(
                place,
                "shape-kind",
                "a box, a polygon, an ellipse or a mask",
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
        angle = self.angle(element, place)
        if angle is None:
            return None
        if not angle:
            return box, None
        ring = rotated_corners(box, angle, ((x0 + x1) / 2, (y0 + y1) / 2))
        return bounding_box([ring]), [ring]

    def ellipse(self, element: Element, place: RecordPlace) -> tuple[Box, Polygons | None] | None:
        numbers, angle = self.numbers(element, place, ELLIPSE), self.angle(element, place)
        if numbers is None or angle is None:
            return None
        x, y, rx, ry = numbers
        if min(rx, ry) < 0:
            expected = "radii that are not negative"
            self.rows.reject(place, "neg-size", expected, [rx, ry], field="rx")
            return None
        return ellipse_box((x, y), (rx, ry), angle), None

    def angle(self, element: Element, place: RecordPlace) -> float | None:
        """Return by how many degrees a shape is turned; None if it is a broken record."""
        text = element.attributes.get("rotation", "0")
        angle = as_number(text)
        if angle is None or not math.isfinite(angle):
            self.rows.reject(place, "type", "a number in rotation", text, field="rotation")
            return None
        return angle

    def polygon(self, element: Element, place: RecordPlace) -> tuple[Box, Polygons | None] | None:
        points = element.attributes.get("points", "")
        ring: list[float] = []
        for pair in points.split(";"):
            numbers = [as_number(text) for text in pair.split(",")]
            point = [number for number in numbers if number is not None and math.isfinite(number)]
            if len(numbers) != 2 or len(point) != 2:
                self.rows.reject(place, "polygon", "points as x,y;x,y;...", pair, field="points")
                return None
            ring += point
        return bounding_box([ring]), [ring]

    def mask(
        self, element: Element, place: RecordPlace, image: AnnotatedImage
    ) -> tuple[Box, RunLengths | None] | None:
        """Return a painted mask, which has run lengths along the rows of its rectangle."""
        from calipers.io.annotations.painted import Rectangle, runs_of_counts
        from calipers.io.coco.masks import Odd

        numbers = self.numbers(element, place, PAINTED)
        if numbers is None:
            return None
        left, top, width, height = numbers
        # Sizes of frames may be unknown; no comparison with NaN is true.
        is_outside = left + width > image.width or top + height > image.height
        is_outside |= min(numbers) < 0 or max(numbers) > 1e9
        if is_outside or not all(number.is_integer() for number in numbers):
            expected = f"a mask inside of the {image.width:g} x {image.height:g} pixels"
            self.rows.reject(place, "outside", expected, numbers, field="mask")
            return None
        words = element.attributes.get("rle", "").replace(",", " ").split()
        counts = [int(word) for word in words if WHOLE.fullmatch(word)]
        if len(counts) < len(words):
            expected = "whole numbers of pixels, alternately outside and inside"
            self.rows.reject(place, "rle-kind", expected, " ".join(words)[:80], field="rle")
            return None
        part = runs_of_counts(counts, Rectangle(int(left), int(top), int(width), int(height)))
        if isinstance(part, Odd):
            self.rows.painter.refuse(part, place, "rle")
            return None
        return self.rows.painter.mask([part], (image.width, image.height), place, "rle")

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
                f"{self.others['tag']} tags of whole images are not read: they are not objects"
            )
