# SPDX-License-Identifier: Apache-2.0
"""Objects that a reader meets one by one, in many small files, as the columns of one input.

The readers of this package enter every object (`AnnotationList.add`) or the reason why it is none
(`AnnotationList.reject`) with its place, such as ``labels/a.txt:3``; `AnnotationList.references`
and `AnnotationList.predictions` return the parts that `calipers.io.assemble` expects. Outlines are
drawn as those of COCO files are, by the same code.

`ImageNames` finds the image that predictions mean by the name of a file.

Readers are loaded to recognise files of all formats, so this module is kept quick to import: small
records are named tuples, and drawing is imported when there is something to draw.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calipers.arrays import F64, Column
from calipers.data.rules import Delivery, Finding, Role, Source
from calipers.errors import InputError
from calipers.io.consensus import READER_FACT
from calipers.io.reader import (
    ImageList,
    Key,
    ObjectPart,
    Options,
    Problem,
    ReferenceFile,
    ReferenceIndex,
)
from calipers.io.source import InputFile, InputFolder, list_files

if TYPE_CHECKING:
    from calipers.io.annotations.painted import Painter
    from calipers.io.coco.masks import MaskColumns, RunLengths

Box = tuple[float, float, float, float]
Polygons = list[list[float]]  # rings of x, y, x, y, ..., as in `calipers.io.coco.masks`
NAN = math.nan
# Suffixes by which a file is a picture.
VOLUME_SUFFIXES = (".nii.gz", ".nii", ".mha", ".mhd", ".nrrd")
PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp", ".gif", ".dcm")

# Folders beside each other of annotations and of pictures, which are no part of an image's name.
PICTURE_FOLDERS = ("images", "image", "imgs", "img", "jpegimages", "pictures", "frames")
ANNOTATION_FOLDERS = ("annotations", "annotation", "labels", "labelme", "json", "xml", "ann")
ANNOTATION_ENDINGS = (".json", ".xml")
# Pictures that tools draw from annotations; the pictures themselves are called without this.
DRAWN = re.compile(r"(?i)[_-](masks?|labels?|viz|vis|overlay|seg|gt|pseudo|color)$")
LEAST_PICTURED = 0.5  # share of the annotated images whose pictures are there


class AnnotatedImage(NamedTuple):
    """An image that a file of references lists."""

    key: str
    width: float = NAN
    height: float = NAN
    file_name: str = ""


class ImageFile(NamedTuple):
    """A file that describes one image, which is called after it."""

    file: InputFile
    key: str  # its path below the folder without suffix
    name: str  # its path below the folder; empty if it is the input itself


class RecordPlace(NamedTuple):
    """Where a record is, and its original text."""

    location: str
    text: str = ""


class _Entry(NamedTuple):
    image: int
    image_name: str
    label: Key
    box: Box
    place: RecordPlace
    score: float
    ignore: bool
    rings: Polygons | RunLengths | None
    reader: str


@dataclass
class AnnotationList:
    """The objects of one input, in the order in which they were met."""

    file: InputFile
    options: Options
    entries: list[_Entry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    refused_places: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    # Files of a folder that were read although the hash of the folder leaves their contents out.
    further_files: list[str] = field(default_factory=list)

    @cached_property
    def painter(self) -> Painter:
        """Who makes masks of what was painted, within the limits of the input."""
        from calipers.io.annotations.painted import Painter

        return Painter(self)

    def add(
        self,
        image: int,
        label: Key,
        box: Box,
        place: RecordPlace,
        *,
        image_name: str = "",
        score: float = NAN,
        ignore: bool = False,
        rings: Polygons | RunLengths | None = None,
        reader: str = "",
    ) -> None:
        """Enter an object; ``image`` is -1 if the references have no image of that name.

        ``rings`` are its outline in pixels, or the run lengths of a painted mask; None for an
        object that is only a box. ``reader`` drew it, where an image may have several readers.
        """
        self.entries.append(
            _Entry(image, image_name, label, box, place, score, ignore, rings, reader)
        )

    def reject(
        self,
        place: RecordPlace,
        rule: str,
        expected: str,
        value: object = None,
        *,
        field: str = "bbox",
        hint: str = "",
    ) -> None:
        """Enter a record that is no object."""
        self.refused_places.add(place.location)
        self.problems.append(
            Problem(rule, place.location, field, expected, value, hint, place.text, place.location)
        )

    def references(
        self,
        format: str,
        images: Sequence[AnnotatedImage],
        classes: Sequence[str] | None = None,
        *,
        box_format: str = "xyxy",
        numbered: bool = False,
        pictured: bool = False,
    ) -> ReferenceFile:
        """Return everything as references.

        Parameters
        ----------
        classes
            As the input declares them; None: the labels of its objects in alphabetical order.
        numbered
            Whether labels are the numbers of classes, counted from 0.
        pictured
            Whether pictures without a file of annotations are looked for: they are images without
            objects if the options say so (``all_images``), and counted in a note.
        """
        unlisted = self._unlisted(images) if pictured else []
        if self.options.all_images:
            images = [*images, *unlisted]
        image_list = _image_list(self.file, images)
        if classes is None:
            classes = sorted({str(entry.label) for entry in self.entries})
        if numbered:
            index: dict[Key, int] = {k: k for k in range(len(classes))}
        else:
            index = {name: k for k, name in enumerate(classes)}
        part = self._part(image_list.size, index, box_format, "references")
        class_keys = index if numbered else None
        names = tuple(image.key for image in unlisted)
        return ReferenceFile(image_list, tuple(classes), class_keys, part, format, unlisted=names)

    def _unlisted(self, images: Sequence[AnnotatedImage]) -> list[AnnotatedImage]:
        """Return the pictures in the folder, or in the one beside it, without annotations."""
        if not isinstance(self.file, InputFolder):
            return []
        pictures = _pictures(self.file)
        listed = {_image_name(image.key) for image in images}
        listed |= {_image_name(without_suffix(image.file_name)) for image in images}
        n_pictured = sum(_image_name(image.key) in pictures for image in images)
        # Pictures of other names say nothing about the images.
        if n_pictured < LEAST_PICTURED * len(images):
            return []
        bare = []
        for name, path in pictures.items():
            if name not in listed and DRAWN.sub("", name) not in listed:
                bare.append((name, path))
        if not bare:
            return []
        note = f"{len(bare)} pictures have no annotations"
        if not self.options.all_images:
            self.notes.append(
                f"{note} and are not evaluated: --all-images (all_images=True) counts them as "
                "images without objects"
            )
            return [AnnotatedImage(name) for name, _ in bare]
        from calipers.io.volumes.pictures import picture_size

        self.notes.append(f"{note}: images without objects")
        unlisted = []
        for name, path in bare:
            width, height = picture_size(Path(path)) or (NAN, NAN)
            unlisted.append(AnnotatedImage(name, width, height, Path(path).name))
        return unlisted

    def predictions(
        self, index: ReferenceIndex, labels: Mapping[Key, int], *, box_format: str = "xyxy"
    ) -> ObjectPart:
        """Return everything as predictions; ``labels`` gives the classes of the references."""
        if index.dimensions != 2:
            raise InputError(
                f"{index.dimensions}D boxes, as in the references",
                rule="box-shape",
                file=self.file.file,
                value="2D boxes",
            )
        part = self._part(index.size, labels, box_format, "predictions")
        scores = np.array([entry.score for entry in self.entries])
        return replace(part, delivery=replace(part.delivery, score=scores))

    def _part(
        self, sizes: F64, labels: Mapping[Key, int], box_format: str, role: Role
    ) -> ObjectPart:
        entries = self.entries
        image = np.array([entry.image for entry in entries], np.int64)
        label = np.array([labels.get(entry.label, -1) for entry in entries], np.int64)
        boxes = np.array([entry.box for entry in entries], np.float64).reshape(-1, 4)
        delivery = Delivery(image, label, boxes, box_format, np.arange(len(entries)))
        if role == "references":
            flags = np.array([entry.ignore for entry in entries], np.bool_)
            delivery = replace(delivery, ignore=flags)
        readers = [entry.reader for entry in entries]
        if any(readers):
            delivery = replace(delivery, facts={READER_FACT: np.array(readers)})
        source = Source(
            self.file.file,
            lambda place, _: entries[place].place.location,
            lambda place: entries[place].place.text,
        )
        findings = self._unknown(delivery, labels, role, len(sizes))
        if self.options.masks != "ignore":
            drawing = self._drawing(sizes)
            findings += drawing.findings()
            self.notes += drawing.notes()
            masks = drawing.masks() if drawing.present else None
            delivery = replace(delivery, masks=masks)
        contents = None
        if self.further_files and isinstance(self.file, InputFolder):
            contents = self.file.contents_with(self.further_files)
        n_refused = len(self.refused_places)
        return ObjectPart(
            delivery, source, findings, self.problems, self.notes, n_refused, contents
        )

    def _unknown(
        self, delivery: Delivery, labels: Mapping[Key, int], role: Role, n_images: int
    ) -> list[Finding]:
        """Return the objects whose image or class nobody lists."""
        if (delivery.image >= 0).all() and (delivery.label >= 0).all():
            return []
        from calipers.io.tables.objects import unknown_names

        image_names = [entry.image_name for entry in self.entries]
        class_names = [str(entry.label) for entry in self.entries]
        rule = "dangling" if role == "references" else "unknown-category"
        return [
            *unknown_names(delivery.image, image_names, "image", "unknown-image", range(n_images)),
            *unknown_names(delivery.label, class_names, "class", rule, labels),
        ]

    def _drawing(self, sizes: F64) -> MaskColumns:
        """Draw the outlines; without the sizes of all images only boxes are used."""
        from calipers.io.coco.masks import MaskColumns

        choice = self.options.masks
        rings: list[Polygons | RunLengths | None] = [entry.rings for entry in self.entries]
        image = np.array([entry.image for entry in self.entries], np.int64)
        has_rings = np.array([bool(outline) for outline in rings], np.bool_)
        unsized = np.isnan(sizes[image]).any(axis=1) & (image >= 0) & has_rings
        if choice == "auto" and unsized.any():
            self.notes.append(
                f"outlines of {int(unsized.sum())} objects cannot be drawn, because the size of "
                "their image is not known; only boxes are used"
            )
            rings = [None] * len(rings)
        drawing = MaskColumns(choice, sizes, self.file.size)
        drawing.add(rings, image, np.zeros(len(rings), np.bool_))
        return drawing


def _image_list(file: InputFile, images: Sequence[AnnotatedImage]) -> ImageList:
    if not images:
        raise InputError("at least one image", rule="no-images", file=file.file)
    keys = [image.key for image in images]
    names = set[str]()
    for key in keys:
        if key in names:
            raise InputError(
                "every image once", rule="dup-image", file=file.file, field="image", value=key
            )
        names.add(key)
    size = np.array([(image.width, image.height) for image in images], np.float64)
    groups: dict[str, Column] = {}
    if all(image.file_name for image in images):
        groups["file_name"] = np.array([image.file_name for image in images])
    return ImageList(keys, size, np.full((len(images), 2), NAN), groups)


def _pictures(folder: InputFolder) -> dict[str, str]:
    """Return the pictures of a folder by the names of their images: those in folders of pictures,
    else those beside annotations, else those in the folder of pictures beside the folder itself.
    """
    files: Mapping[str, str] = folder.files
    names = folder.ending(*PICTURE_SUFFIXES)
    inside = [name for name in names if _is_in(name, PICTURE_FOLDERS)]
    if not inside:
        # Elsewhere there are masks, or previews of the data set.
        places = {name.rpartition("/")[0] for name in folder.ending(*ANNOTATION_ENDINGS)}
        inside = [name for name in names if name.rpartition("/")[0] in places]
    place = Path(folder.file).resolve()
    if not names and place.name.lower() in ANNOTATION_FOLDERS:
        beside = [place.parent / entry for entry in sorted(os.listdir(place.parent))]
        folders = [path for path in beside if path.name.lower() in PICTURE_FOLDERS]
        if len(folders) == 1 and folders[0].is_dir():
            files = list_files(folders[0]).files
            inside = [name for name in files if name.lower().endswith(PICTURE_SUFFIXES)]
    return {_image_name(without_suffix(name)): files[name] for name in inside}


def _is_in(name: str, folders: Sequence[str]) -> bool:
    return any(part.lower() in folders for part in name.split("/")[:-1])


def _image_name(path: str) -> str:
    """Return the name of an image without folders that only say what its files are."""
    *folders, last = path.split("/")
    others = (*PICTURE_FOLDERS, *ANNOTATION_FOLDERS)
    return "/".join([*(part for part in folders if part.lower() not in others), last])


def bounding_box(rings: Polygons) -> Box:
    """Return the corners of the box around all rings."""
    xs: list[float] = []
    ys: list[float] = []
    for ring in rings:
        xs += ring[0::2]
        ys += ring[1::2]
    return min(xs), min(ys), max(xs), max(ys)


def rotated_corners(box: Box, angle: float, about: tuple[float, float]) -> list[float]:
    """Return the corners of a box, turned clockwise by degrees about a point, as x, y, x, y, ..."""
    x0, y0, x1, y1 = box
    cosine, sine = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    ring = []
    for x, y in ((x0, y0), (x1, y0), (x1, y1), (x0, y1)):
        dx, dy = x - about[0], y - about[1]
        # The y axis of pictures points down, so this turns clockwise on the screen.
        ring += [about[0] + dx * cosine - dy * sine, about[1] + dx * sine + dy * cosine]
    return ring


def ellipse_box(centre: tuple[float, float], radii: tuple[float, float], angle: float) -> Box:
    """Return the box around an ellipse that is turned by degrees about its centre."""
    (x, y), (rx, ry) = centre, radii
    cosine, sine = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    half_width, half_height = math.hypot(rx * cosine, ry * sine), math.hypot(rx * sine, ry * cosine)
    return x - half_width, y - half_height, x + half_width, y + half_height


def as_number(text: str) -> float | None:
    """Return a number in plain ASCII digits; None if the text is no such number."""
    # Python's float also accepts digits of other scripts and underscores; we do not.
    if not text.isascii() or "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def numbered_lines(file: InputFile) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the words of every line that is not blank."""
    try:
        text = file.data[:].decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            "text in UTF-8", rule="encoding", file=file.file, value=str(error)
        ) from None
    for number, line in enumerate(text.split("\n"), 1):
        words = line.split()
        if words:
            yield number, words


def is_number(value: Any) -> bool:
    """Return whether a JSON value is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 1e300


def image_side(value: float | None, file: str, location: str, field: str) -> float:
    """Return the side of an image in pixels, or raise."""
    if value is None or not 0 < value < 1e9 or not float(value).is_integer():
        raise InputError(
            "a size in whole pixels above zero",
            rule="image-size",
            file=file,
            location=location,
            field=field,
            value=value,
        )
    return float(value)


def first_file(file: InputFile, suffix: str) -> InputFile | None:
    """Return the first file of a folder with that suffix, by which a format is recognised; a file
    is its own first one.
    """
    if not isinstance(file, InputFolder):
        return file
    names = file.ending(suffix)
    return file.open(names[0]) if names else None


def image_files(file: InputFile, suffix: str) -> Iterator[ImageFile]:
    """Yield the files with that suffix, of which each describes one image; a file is its own only
    one.
    """
    if isinstance(file, InputFolder):
        for name in file.ending(suffix):
            yield ImageFile(file.open(name), name[: -len(suffix)], name)
        return
    name = file.file.replace("\\", "/").rsplit("/", 1)[-1]
    key = name[: -len(suffix)] if name.lower().endswith(suffix) else name
    yield ImageFile(file, key, "")


def without_suffix(name: str) -> str:
    """Return the name of a picture or volume without its suffix; other dots belong to the name."""
    lower = name.lower()
    suffixes = (*PICTURE_SUFFIXES, *VOLUME_SUFFIXES)
    suffix = next((suffix for suffix in suffixes if lower.endswith(suffix)), "")
    return name[: len(name) - len(suffix)]


class ImageNames:
    """The images of the references by all names that a file of predictions may use for them.

    A name is tried as it is, then without its suffix, then without its folders, then without both;
    on each step names that several images share name none of them. Two names of one file that
    would both be the same image are an error: they may well be images of two patients.
    """

    def __init__(self, index: ReferenceIndex, file: str) -> None:
        self.file = file
        self.names_in_use: dict[int, str] = {}
        self.described: set[int] = set()  # images that `only` was asked for
        self.steps: list[dict[str, int]] = []
        file_names = index.image_list.groups.get("file_name")
        for shorten in _SHORTENERS:
            names: dict[str, int] = {}
            for k, key in enumerate(index.image_list.ids):
                own_names = {shorten(key)}
                if file_names is not None:
                    own_names.add(shorten(str(file_names[k])))
                for name in own_names:
                    names[name] = -1 if name in names else k
            self.steps.append(names)

    def find(self, name: str) -> int:
        """Return the number of an image, -1 if there is none or if several have the name."""
        for shorten, names in zip(_SHORTENERS, self.steps):
            image = names.get(shorten(name))
            if image is not None:
                break
        else:
            return -1
        if image < 0:
            return image
        # With or without suffix it is the same name; in another folder it is another one.
        stem = without_suffix(name)
        if self.names_in_use.setdefault(image, stem) != stem:
            raise InputError(
                "one name of each image of the references",
                rule="dup-file-name",
                file=self.file,
                value=[self.names_in_use[image], stem],
                hint="name images as the references do, with their folders",
            )
        return image

    def only(self, name: str, location: str) -> int:
        """Return the number of an image that the file describes in one place; raise if this is the
        second one.
        """
        image = self.find(name)
        if image in self.described:
            raise InputError(
                "every image once",
                rule="dup-image",
                file=self.file,
                location=location,
                value=name,
            )
        if image >= 0:
            self.described.add(image)
        return image


def _as_it_is(name: str) -> str:
    return name


def _last_part(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def _stem(name: str) -> str:
    return without_suffix(_last_part(name))


_SHORTENERS = (_as_it_is, without_suffix, _last_part, _stem)
