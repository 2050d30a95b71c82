# SPDX-License-Identifier: Apache-2.0
"""The format ``voc``: a folder of Pascal VOC or ImageNet XML files, one per image.

The format is that of the Pascal VOC challenge (Everingham et al. 2010), which ImageNet shares: an
``annotation`` with ``filename``, ``size`` and an ``object`` per finding, whose ``bndbox`` counts
pixels from 1 and includes both ends (``xyxy-inclusive``). Objects that are ``difficult`` are
ignored: they may be matched and are never counted.

`calipers.io.read` calls `VocReader` for references. Predictions on them come in another format.
"""

from __future__ import annotations

from calipers.errors import InputError
from calipers.io.annotations.annotation_list import (
    AnnotatedImage,
    AnnotationList,
    ImageFile,
    RecordPlace,
    first_file,
    image_files,
    image_side,
)
from calipers.io.annotations.markup import Element, read_children, root_name
from calipers.io.reader import Options, Reader, ReferenceFile, Sniffed
from calipers.io.source import InputFile

ROOT = "annotation"
SUFFIX = ".xml"
FOLDER = "Annotations"  # of the XML files in a VOC data set
SIDES = ("xmin", "ymin", "xmax", "ymax")
INCLUSIVE = "xyxy-inclusive"
ONCE = ("filename", "size")  # children of the root of which there is one


class VocReader(Reader):
    """A folder of Pascal VOC or ImageNet XML files, or one such file.

    Notes
    -----
    An image is called like its XML file, with its path below the folder; the part ``Annotations``
    is left out of it. Classes are those of the objects, in alphabetical order. Parts of objects
    (``part``) are no objects.
    """

    name = "voc"
    roles = ("references",)
    inputs = ("folder", "file")

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise the root of the first XML file."""
        first = first_file(file, SUFFIX)
        if first is None or root_name(first.head) != ROOT:
            return None
        return Sniffed(self.name, "references", f"its XML begins with <{ROOT}>, as in Pascal VOC")

    def references(self, file: InputFile, options: Options) -> ReferenceFile:
        """Read every XML file as one image."""
        rows = AnnotationList(file, options)
        images: list[AnnotatedImage] = []
        for source in image_files(file, SUFFIX):
            images.append(_Document(source, rows, len(images)).read())
        box_format = options.box_format or INCLUSIVE
        if box_format == INCLUSIVE:
            _note_zeros(rows)
        return rows.references(self.name, images, box_format=box_format, pictured=True)


def _note_zeros(rows: AnnotationList) -> None:
    """Say if boxes begin at 0, which pixels that count from 1 do not do."""
    n = sum(1 for entry in rows.entries if min(entry.box[:2]) == 0)
    if n:
        rows.notes.append(
            f"{n} of {len(rows.entries)} boxes begin at 0, and VOC counts pixels from 1: if the "
            "tool that wrote them counts from 0 pass --box-format xyxy"
        )


class _Document:
    """One XML file while it is read."""

    def __init__(self, source: ImageFile, rows: AnnotationList, image: int) -> None:
        self.source, self.file, self.rows, self.image = source, source.file, rows, image
        self.file_name = ""
        self.width = self.height = float("nan")
        self.tags: set[str] = set()  # of the children of the root so far

    def read(self) -> AnnotatedImage:
        """Enter the objects, and return the image."""
        read_children(self.file, ROOT, self.take)
        parts = self.source.key.split("/")
        if FOLDER in parts[:-1]:
            parts.remove(FOLDER)
        return AnnotatedImage("/".join(parts), self.width, self.height, self.file_name)

    def take(self, element: Element) -> None:
        """Take a child of the root."""
        if element.tag in ONCE and element.tag in self.tags:
            raise self.repeated(element, element.tag)
        self.tags.add(element.tag)
        if element.tag == "filename":
            self.file_name = element.text
        elif element.tag == "size":
            self.take_size(element)
        elif element.tag == "object":
            self.take_object(element)

    def take_size(self, element: Element) -> None:
        tag = element.repeated("width", "height")
        if tag is not None:
            raise self.repeated(element, tag)
        sides = {name: element.number_of(name) for name in ("width", "height")}
        # Tools that do not know the size write zeros.
        if set(sides.values()) == {0.0}:
            return
        location = f"line {element.line}"
        self.width = image_side(sides["width"], self.file.file, location, "width")
        self.height = image_side(sides["height"], self.file.file, location, "height")

    def take_object(self, element: Element) -> None:
        location = f"line {element.line}"
        if self.source.name:
            location = f"{self.source.name}:{element.line}"
        place = RecordPlace(location, element.shortened())
        rows = self.rows
        bounds = element.child("bndbox")
        tag = element.repeated("name", "bndbox", "difficult")
        if tag is None and bounds is not None:
            tag = bounds.repeated(*SIDES)
        if tag is not None:
            rows.reject(place, "dup-key", f"one <{tag}> in an object", field=tag)
            return
        label = element.text_of("name")
        if not label:
            rows.reject(place, "class-missing", "a class in <name>", field="name")
            return
        if bounds is None:
            rows.reject(place, "box-shape", "a box in <bndbox>", field="bndbox")
            return
        box = []
        for side in SIDES:
            number = bounds.number_of(side)
            if number is None:
                rows.reject(place, "type", f"a number in <{side}>", bounds.text_of(side))
                return
            box.append(number)
        flag = element.text_of("difficult").lower()
        if flag not in ("", "0", "1", "true", "false"):
            rows.reject(place, "ignore-flag", "0 or 1 in <difficult>", flag, field="difficult")
            return
        x0, y0, x1, y1 = box
        ignore = flag in ("1", "true")
        rows.add(self.image, label, (x0, y0, x1, y1), place, ignore=ignore)

    def repeated(self, element: Element, tag: str) -> InputError:
        """Return the error of an element that stands twice where only one would be read."""
        return InputError(
            f"one <{tag}>",
            rule="dup-key",
            file=self.file.file,
            location=f"line {element.line}",
            field=tag,
        )
