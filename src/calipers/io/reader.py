# SPDX-License-Identifier: Apache-2.0
"""What a format is to Calipers: a `Reader`, the options it gets and the parts it returns.

A format is one file with a `Reader` in it, and one line in `calipers.registry`; a package of others
declares its own as an entry point of the group ``calipers.readers``. `calipers.io.read` opens a
file, chooses the reader (the one that the user named, else the first that recognises the file),
calls it, and hands the parts to `calipers.io.assemble`, which applies the rules. So a reader only
says what stands in a file: it never decides whether a box is acceptable.

References define images and classes (`ReferenceFile`); predictions are resolved against them
(`ReferenceIndex`). Objects of either role are an `ObjectPart`: a `calipers.data.rules.Delivery`
with a row per object, the place of every row in the file, and the records that could not even be
put into columns (`Problem`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

import numpy as np

from calipers import registry
from calipers.arrays import F64, I64, Column, Flags
from calipers.data.cohort import UNIT
from calipers.data.objects import BOX_FORMATS
from calipers.data.rules import Delivery, Finding, Role, Source
from calipers.errors import InputError, PluginError, UsageError, did_you_mean, flag, real, word
from calipers.io.consensus import Readings
from calipers.io.source import HEAD, InputFile, InputFolder, Progress

if TYPE_CHECKING:
    from calipers.io.volumes.volume import Volume

Key = int | str  # an id as the file types it: 1 and "1" are different images

MASK_CHOICES = ("auto", "required", "ignore")
OUTSIDE_CHOICES = ("keep", "clip", "refuse")
# What the values of label volumes are; what to do where a reference has no predicted volume.
LABEL_MEANINGS = ("classes", "instances", "nonzero")
MISSING_VOLUMES = ("error", "empty")
PLACES = ("nearest",)  # how label volumes are put on another grid
SIDES = ("width", "height", "depth")  # of images, in the order of the axes
# Characters of a cell in an array of fixed width.
LONGEST_TEXT = 4096
GROUP_UNIT = f"group_{UNIT}"  # name for a group column that is called like the image itself


# Options that the record of a run repeats, by the role of the file.
OF_BOTH = (
    "columns",
    "lenient",
    "allow_loss",
    "outside",
    "masks",
    "ids_as_strings",
    "labels",
    "segment",
    "geometry",
    "where",
    "all_images",
)
OF_REFERENCES = ("coco_ignore", "readers", "reader_overlap", "reference_pattern")
OF_PREDICTIONS = ("score_scale", "scores", "pattern", "missing_volumes", "place")


def plain_value(value: Any) -> Any:
    """Return a choice as JSON holds it: paths are texts, lists and mappings keep their order."""
    if isinstance(value, Mapping):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, PathLike):
        return str(value)
    if isinstance(value, tuple | list):
        return [plain_value(item) for item in value]
    return value


class ReadOptions(TypedDict, total=False):
    """The keywords that `read` and `explain` share; `read` explains them."""

    format: str | None
    box_format: str | tuple[str | None, str | None] | None
    columns: Mapping[str, str] | None
    score_scale: str
    ids_as_strings: bool
    masks: str
    coco_ignore: bool
    outside: str
    allow_loss: float
    readers: str | None
    reader_overlap: float
    labels: str
    scores: str | PathLike[str] | Mapping[str, str | PathLike[str]] | None
    segment: int | None
    pattern: str | None
    reference_pattern: str | None
    missing_volumes: str
    geometry: str | PathLike[str] | None
    place: str | None
    where: str | None
    all_images: bool


@dataclass(frozen=True)
class Options:
    """The choices of a user that reach the format readers."""

    format: str | None = None
    box_format: str | None = None  # of the file that is being read
    prediction_box_format: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    lenient: bool = False
    score_scale: str = "unit"
    ids_as_strings: bool = False
    masks: str = "auto"
    coco_ignore: bool = True
    outside: str = "keep"  # boxes that reach beyond their image
    # Share of the references, or of the records of a model, that lenient reading may set aside.
    allow_loss: float = 0.5
    readers: str | None = None  # the rule for several readers of an image
    reader_overlap: float = 0.5  # IoU from which their boxes are one finding
    labels: str = "classes"  # the meaning of the values of label volumes
    # The table with the scores of predicted label volumes: one, or one per model.
    scores: str | PathLike[str] | Mapping[str, str | PathLike[str]] | None = None
    segment: int | None = None  # of DICOM segmentations
    pattern: str | None = None  # the names of predicted volumes
    reference_pattern: str | None = None
    missing_volumes: str = "error"  # references without a predicted volume
    geometry: str | PathLike[str] | None = None  # images on whose grids segmentations lie
    place: str | None = None  # how predicted volumes on another grid are put on their references'
    where: str | None = None  # COLUMN=VALUE of the images that are evaluated; None: all
    # Whether images count, too, that only the table of groups names, or without one predictions.
    all_images: bool = False
    inspecting: bool = False  # nothing is evaluated: no loss is too large to be told
    progress: Progress | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        # Formats of other packages are looked up only if the name is none of ours.
        if self.format not in (None, *registry.FORMATS):
            _check_option("format", self.format, sorted(registry.known("format")))
        for box_format in (self.box_format, self.prediction_box_format):
            _check_option("box_format", box_format, BOX_FORMATS)
        _check_option("score_scale", self.score_scale, ("unit", "raw"))
        _check_option("masks", self.masks, MASK_CHOICES)
        flag("coco_ignore", self.coco_ignore)
        flag("all_images", self.all_images)
        _check_option("outside", self.outside, OUTSIDE_CHOICES)
        _check_option("labels", self.labels, LABEL_MEANINGS)
        _check_option("missing_volumes", self.missing_volumes, MISSING_VOLUMES)
        if self.place is not None:
            _check_option("place", self.place, PLACES)
        if not 0.0 <= real("allow_loss", self.allow_loss) <= 1.0:
            raise UsageError(f"allow_loss is a share from 0 to 1, got {self.allow_loss!r}")
        if not 0.0 < real("reader_overlap", self.reader_overlap) <= 1.0:
            raise UsageError(
                f"reader_overlap is an IoU above 0, at most 1, got {self.reader_overlap!r}"
            )
        if self.readers is not None:
            word("readers", self.readers)
        if self.where is not None and "=" not in word("where", self.where).strip("="):
            raise UsageError(f"where is COLUMN=VALUE, such as split=test, not {self.where!r}")

    @classmethod
    def from_keywords(
        cls,
        *,
        lenient: bool,
        columns: Mapping[str, str] | None = None,
        box_format: str | tuple[str | None, str | None] | None = None,
        **others: Any,
    ) -> Options:
        """Return the options behind the keywords of `read`."""
        # One name holds for both roles; a pair is (references, predictions).
        sides = box_format if isinstance(box_format, tuple) else (box_format, box_format)
        if len(sides) != 2:
            raise UsageError(
                "box_format is one name, or one for references and one for predictions, "
                f"not {sides!r}"
            )
        return cls(
            lenient=lenient,
            columns=dict(columns or {}),
            box_format=sides[0],
            prediction_box_format=sides[1],
            **others,
        )

    def record(self, role: Role, box_format: str) -> dict[str, Any]:
        """Return the choices by which a file of this role was read, for the record of a run.

        ``box_format`` is the one that was used, whoever chose it.
        """
        choices: dict[str, Any] = {"box_format": box_format}
        for name in (*OF_BOTH, *(OF_REFERENCES if role == "references" else OF_PREDICTIONS)):
            choices[name] = plain_value(getattr(self, name))
        return choices

    def of_predictions(self) -> Options:
        """Return the options for reading predictions."""
        return replace(self, box_format=self.prediction_box_format)

    def of_model(self, model: str, models: Sequence[str]) -> Options:
        """Return the options for reading one model: those with its own table of scores."""
        if not isinstance(self.scores, Mapping):
            return self
        for name in self.scores:
            if name not in models:
                raise UsageError(
                    f"there is a table of scores for {name!r}, which is not a model; "
                    + did_you_mean(name, models)
                )
        return replace(self, scores=self.scores.get(model))


@dataclass(frozen=True)
class Problem:
    """One record that could not even be put into columns."""

    rule: str
    location: str
    field: str
    expected: str
    value: object = None
    hint: str = ""
    record: str = ""  # original text
    origin: str = ""  # names the record, where the beginning of the location does not

    def as_error(self, file: str) -> InputError:
        """Return the problem as the error that strict reading raises."""
        return InputError(
            self.expected,
            rule=self.rule,
            file=file,
            location=self.location,
            field=self.field,
            value=self.value,
            hint=self.hint,
        )


@dataclass(frozen=True)
class ImageList:
    """The images in the order of the cohort, with the ids as the file types them."""

    keys: Sequence[Key]
    size: F64
    spacing: F64
    groups: dict[str, Column]
    notes: tuple[str, ...] = ()
    headers: tuple[Volume, ...] = ()  # of images that are volumes: where their voxels lie

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The ids as text, which is how a cohort holds them."""
        return tuple(map(str, self.keys))

    def with_further(self, names: Iterable[str]) -> ImageList:
        """Return the images with those of other names behind them, of which no more is known."""
        if self.headers:
            raise UsageError("all_images is not for label volumes: an empty volume declares one")
        own_names = {*self.ids, *map(str, self.groups.get("file_name", np.zeros(0)).tolist())}
        further = [name for name in dict.fromkeys(names) if name and name not in own_names]
        if not further:
            return self
        keys: list[Key] = list(further)
        # Files of numbers mean numbers.
        if self.keys and all(isinstance(key, int) for key in self.keys):
            keys = [int(name) if name.isascii() and name.isdigit() else name for name in further]
        n = len(further)
        groups = {}
        for column, values in self.groups.items():
            cells = further if column == "file_name" else [""] * n
            groups[column] = text_column([*map(str, values.tolist()), *cells])
        unknown = np.full((n, self.size.shape[1]), np.nan)
        return replace(
            self,
            keys=[*self.keys, *keys],
            size=np.concatenate([self.size, unknown]),
            spacing=np.concatenate([self.spacing, unknown]),
            groups=groups,
        )


@dataclass(frozen=True)
class ObjectPart:
    """The objects of one role from one file.

    ``delivery`` may hold -1 as image or label where ``findings`` say why; ``problems`` are records
    without a row in it. ``n_records`` counts both. The arrays are given away: boxes are
    overwritten.
    """

    delivery: Delivery
    source: Source
    findings: list[Finding] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    n_dropped: int = 0  # records behind `problems`
    # Hash and number of the bytes that were read, where those of the input do not cover them.
    contents: tuple[str, int] | None = None
    # Whether nothing but the order of the records says on which images they are.
    in_order: bool = False

    @property
    def n_records(self) -> int:
        """The number of records in the file."""
        return len(self.delivery) + self.n_dropped


@dataclass(frozen=True)
class ReferenceFile:
    """A file of references: images, classes, objects."""

    images: ImageList
    classes: tuple[str, ...]
    class_keys: Mapping[Key, int] | None  # category id -> class, if the format has such ids
    part: ObjectPart
    format: str
    readings: Readings | None = None  # who read which image, if the file says so
    # Whether the format says that an image which is not listed has no objects, and may have
    # predictions, as a scan without nodules.
    omits_empty: bool = False
    # Pictures without annotations, which are images only if the options say so (``all_images``).
    unlisted: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReferenceIndex:
    """Images and classes of the references, by which predictions are resolved."""

    images: Mapping[Key, int]
    image_list: ImageList
    classes: tuple[str, ...]
    class_keys: Mapping[Key, int] | None

    @property
    def size(self) -> F64:
        """(n_images, 2|3) sizes in pixels, NaN where unknown."""
        return self.image_list.size

    @property
    def dimensions(self) -> int:
        """2 or 3."""
        return int(self.size.shape[1])

    def other_sizes(self, images: I64, sizes: F64) -> Flags:
        """Return which sides of images, (n, axes), differ from those of the references.

        ``sizes`` are what predictions state, NaN where they state nothing; an image of -1 is none.
        """
        expected = self.size[images, : sizes.shape[1]]
        is_known = (images >= 0)[:, None] & np.isfinite(expected) & np.isfinite(sizes)
        return np.asarray(is_known & (expected != sizes))

    def size_conflict(
        self, image: int, axis: int, length: float, file: str, location: str
    ) -> InputError:
        """Return the error for predictions on a resized image: their boxes have another scale."""
        side = SIDES[axis]
        return InputError(
            f"{self.size[image, axis]:g}, the {side} of image {self.image_list.ids[image]!r} in "
            "the references",
            rule="size-conflict",
            file=file,
            location=location,
            field=side,
            value=length,
            hint="boxes on resized images have to be scaled back",
        )

    @cached_property
    def as_text(self) -> Mapping[Key, int]:
        """The images by the text of their id."""
        return {name: k for k, name in enumerate(self.image_list.ids)}

    @cached_property
    def file_names(self) -> Mapping[Key, int]:
        """The images by the name of their file, if they have one; names of several images are left
        out, because they name none of them.
        """
        names = self._names
        return {name: k for k, name in enumerate(names) if name not in self.shared_file_names}

    @cached_property
    def shared_file_names(self) -> frozenset[str]:
        """The names of files that several images have."""
        counts = Counter(self._names)
        return frozenset(name for name, n in counts.items() if n > 1)

    @cached_property
    def _names(self) -> list[str]:
        names = self.image_list.groups.get("file_name")
        return [] if names is None else list(map(str, names.tolist()))

    def file_name_of(self, image: int) -> str | None:
        """Return the name of the file of an image."""
        return self._names[image] if self._names else None

    def by_file_name(self, names: Iterable[str], file: str, field: str) -> Mapping[Key, int]:
        """Return the images by the name of their file, for predictions that use these names.

        Raises
        ------
        InputError
            Several images of the references have one of the names.
        """
        shared = next((name for name in names if name in self.shared_file_names), None)
        if shared is not None:
            raise InputError(
                "names of files that belong to one image",
                rule="dup-file-name",
                file=file,
                field=field,
                value=shared,
                hint="several images of the references have this file_name: "
                "name the images of the predictions by their ids",
            )
        return self.file_names


@dataclass(frozen=True, slots=True)
class Sniffed:
    """What a file seems to be."""

    format: str
    role: str  # references | predictions | groups | unknown
    reason: str


class Reader(ABC):
    """A format of references and predictions.

    ``docs/how-to/formats.md`` has a whole one as example.
    """

    name: ClassVar[str]  # what --format calls it
    roles: ClassVar[tuple[Role, ...]] = ("references", "predictions")
    several_models: ClassVar[bool] = False  # whether a file may hold the predictions of several
    holds_both: ClassVar[bool] = False  # whether references and predictions may be in one file
    by_line: ClassVar[bool] = False  # whether the first lines of a file are such a file, too
    # What it reads: one file, or a folder of files, which comes as an `InputFolder`.
    inputs: ClassVar[tuple[str, ...]] = ("file",)
    # The preset by which the challenge behind these references is judged; empty: none is.
    preset: ClassVar[str] = ""
    # Whether some who write this format leave out images without objects, and others do not.
    may_omit_empty: ClassVar[bool] = False
    # Files that complete a list if they lie beside it; then the folder is the whole input.
    companions: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def sniff(self, file: InputFile) -> Sniffed | None:
        """Return what the file is if its beginning shows this format, else None.

        Called for every file whose format nobody named, so it looks at the beginning only. A folder
        comes only to readers of folders, as an `InputFolder`.
        """

    def references(self, file: InputFile, options: Options) -> ReferenceFile:
        """Read images, classes and objects."""
        raise self._lacks("references")

    def predictions(
        self, file: InputFile, index: ReferenceIndex, options: Options
    ) -> Mapping[str, ObjectPart]:
        """Read the predictions of every model in the file; "" for a model that it does not name.

        Without `several_models` this is one model, and the file is read only when its turn comes.
        """
        raise self._lacks("predictions")

    def _lacks(self, role: Role) -> PluginError:
        """Return the error for a role that this reader declares and does not read."""
        reader = type(self)
        return PluginError(
            f"the reader of the format {self.name!r} ({reader.__module__}:{reader.__qualname__}) "
            f"declares the role {role!r} and has no method {role}()"
            f"\n  hint: write the method, or leave {role!r} out of roles"
        )


def readers(file: InputFile | None = None) -> Iterator[Reader]:
    """Yield the readers of all formats in the order in which they are asked, each loaded then.

    With a single file, only those whose format it may have by its marks (`registry.MARKS`).
    """
    ends = b""
    if file is not None and not isinstance(file, InputFolder):
        size = len(file.data)
        ends = bytes(file.data[:HEAD]) + bytes(file.data[max(HEAD, size - HEAD) : size])
    for name in registry.known("format"):
        marks = registry.MARKS.get(name)
        if not ends or marks is None or any(mark in ends for mark in marks):
            yield reader_of(name)


def reader_of(name: str) -> Reader:
    """Return the reader of a format."""
    reader: Reader = registry.reader("format", name, Reader)
    return reader


def text_column(cells: Sequence[Any]) -> Column:
    """Return values as an array; values of mixed kinds become text."""
    values: list[Any] = list(cells)
    kinds = {type(value) for value in values}
    # Numbers stay numbers; 1 and 1.0 in one column are no mixture.
    if kinds == {int, float}:
        kinds = {float}
    if len(kinds) > 1:
        texts = []
        for value in values:
            texts.append("" if value is None else str(value))
        values = texts
        kinds = {str}
    # NumPy gives all cells the width of the longest: one giant text would fill the memory.
    if kinds == {str} and max(map(len, values)) > LONGEST_TEXT:
        return np.array(values, dtype=object)
    # NumPy would make objects or floats of them; as text, ids keep their digits.
    if kinds == {int} and any(abs(value) >= 1 << 63 for value in values):
        return np.array(list(map(str, values)))
    return np.array(values)


def _check_option(name: str, value: str | None, names: Sequence[str]) -> None:
    if value is not None and value not in names:
        hint = did_you_mean(str(value), names)
        rule = name.replace("_", "-")
        raise InputError(
            f"one of {', '.join(names)}",
            rule=rule,
            file="<options>",
            field=name,
            value=value,
            hint=hint,
        )
