# SPDX-License-Identifier: Apache-2.0
"""The format ``label-volumes``: label images or volumes as references and as predictions.

A file per image, in any format of `calipers.io.volumes`, says with a whole number for every voxel
what is there; 0 is background. The values are classes, whose connected components are objects, or
instances, each an object (``labels`` of `calipers.read`). Objects come with masks, boxes around
them, and the spacing of their volume. Scores of predictions come from a table
(`calipers.io.volumes.object_scores`); without one they have none.

References and predictions are paired by the names of their files and must lie on one grid, as for
maps (`calipers.io.volumes.pairing`). `calipers.io.read` calls `LabelVolumesReader`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from calipers.arrays import F64, I64, Array
from calipers.data.masks import Masks, no_masks
from calipers.data.rules import Delivery, Finding, Source
from calipers.errors import InputError, raise_problems
from calipers.io.archives import ARCHIVES, list_archive
from calipers.io.reader import (
    ImageList,
    Key,
    ObjectPart,
    Options,
    Reader,
    ReferenceFile,
    ReferenceIndex,
    Sniffed,
)
from calipers.io.source import ANNOTATION_SUFFIXES, InputFile, InputFolder

if TYPE_CHECKING:
    from calipers.io.volumes.volume import Volume

CLASS = "lesion"  # of objects whose values are no classes
# A data set of nnU-Net: what describes it, and where its labels are.
MOST_CLASSES = 256  # more values in a data set are instances
MANY_VALUES, SHORT_RUN = 64, 1.5  # values, and voxels of a run, from which labels are none
ALLOWING = "--missing-volumes empty (missing_volumes='empty') counts them as images without objects"
TEXTS = (*ANNOTATION_SUFFIXES, ".parquet", ".tsv")  # never volumes


class LabelVolumesReader(Reader):
    """Label images or volumes.

    Notes
    -----
    An image is called like its file, with its path below the folder and without extension. With
    ``labels="classes"`` classes are the values, and an object is a connected component (neighbours
    by a corner are connected) of one value.
    """

    name = "label-volumes"
    inputs = ("folder", "file")

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise files with the extension of an image or volume."""
        names: Sequence[str] = [file.file]
        if isinstance(file, InputFolder):
            names = list(file.files)
        elif file.file.lower().endswith(ARCHIVES) and not file.member:
            names = list(list_archive(Path(file.file)).files)
        names = [name.lower() for name in names if not name.lower().endswith(TEXTS)]
        if not names:
            return None
        from calipers.io.volumes.open import extensions

        if not any(name.endswith(extensions()) for name in names):
            return None
        return Sniffed(self.name, "unknown", "its files are images or volumes")

    def references(self, file: InputFile, options: Options) -> ReferenceFile:
        """Read images, classes and objects."""
        from calipers.io.volumes.samples import case_notes

        volumes = _open_all(file, "references", options.reference_pattern, options)
        file.notes.extend(case_notes(volumes))
        rows = LabelRows(options)
        for name, volume in volumes.items():
            rows.add(len(rows.images), name, volume)
        values = sorted(set(rows.values))
        classes, class_keys = _classes(values, options, file)
        keys: Sequence[Key] = rows.values
        if options.labels == "classes" and all(rows.segment_names):
            classes, class_keys = _segment_classes(rows, file)
            keys = rows.segment_names
        elif options.labels == "classes":
            classes, class_keys = _named_classes(values, classes, class_keys, file)
        labels = np.array([class_keys[key] for key in keys], np.int64)
        images = _image_list(volumes)
        part = rows.part(file, labels, images.size.shape[1])
        return ReferenceFile(images, classes, class_keys, part, self.name)

    def predictions(
        self, file: InputFile, index: ReferenceIndex, options: Options
    ) -> Mapping[str, ObjectPart]:
        """Read the objects of one model."""
        volumes = _open_all(file, "predictions", options.pattern, options)
        paired = _Paired.of(volumes, index, options, file)
        rows = LabelRows(options)
        for name, volume in paired.volumes.items():
            rows.add(paired.images[name], name, volume)
        labels, notes, findings = _labels(rows, index)
        # Without a table the predictions have no scores, and whoever needs some says so.
        scores = None
        if options.scores is not None:
            scores, score_notes = _scores(rows, options)
            notes += score_notes
        findings += _unknown_images(rows, index)
        part = rows.part(file, labels, index.dimensions)
        return {
            "": replace(
                part,
                delivery=replace(part.delivery, score=scores),
                findings=findings,
                notes=[*part.notes, *paired.notes, *notes],
            )
        }


def _open_all(
    file: InputFile, role: str, pattern: str | None, options: Options
) -> Mapping[str, Volume]:
    """Return the headers of all volumes by the name of their image; all problems are raised
    together.
    """
    from calipers.io.volumes.open import open_volume
    from calipers.io.volumes.pairing import list_samples
    from calipers.io.volumes.placing import placed

    samples = list_samples(Path(file.file), role, pattern)
    grids: Mapping[str, str] = {}
    if options.geometry is not None:
        grids = list_samples(Path(options.geometry), "images").files
    volumes: dict[str, Volume] = {}
    problems: list[InputError] = []
    for name, path in samples.files.items():
        try:
            volume = open_volume(path, role="labels", segment=options.segment)
            if name in grids:
                volume = placed(volume, open_volume(grids[name], role="image"))
            first = next(iter(volumes.values()), volume)
            if volume.dimensions != first.dimensions:
                raise InputError(
                    f"{first.dimensions} axes, as {first.file} has",
                    rule="volume-shape",
                    file=volume.file,
                    value=f"{volume.dimensions} axes",
                    hint="evaluate 2D and 3D images separately",
                )
            volumes[name] = volume
        except InputError as error:
            problems.append(error)
    raise_problems(problems)
    file.notes.extend(note for note in samples.notes if note not in file.notes)
    return volumes


def _named_classes(
    values: Sequence[int], classes: tuple[str, ...], keys: dict[Key, int], file: InputFile
) -> tuple[tuple[str, ...], dict[Key, int]]:
    """Return the classes by the names of a ``dataset.json``, which lists them all; without one as
    they are.
    """
    from calipers.io.volumes.dataset_json import read_names

    dataset = read_names(Path(file.file))
    if dataset is None:
        return classes, keys
    numbers = sorted(number for number in dataset.names if number != 0)
    unnamed = [value for value in values if value not in numbers]
    if unnamed or not numbers:
        note = f"{dataset.file.file} does not name the values {unnamed[:5]}: its names are not used"
        file.notes.extend([note])
        return classes, keys
    file.notes.extend([dataset.note])
    return tuple(dataset.names[k] for k in numbers), {number: k for k, number in enumerate(numbers)}


def _segment_classes(rows: LabelRows, file: InputFile) -> tuple[tuple[str, ...], dict[Key, int]]:
    """Return the labels of DICOM segments as classes, in the order of their numbers.

    Files number their segments each for itself, so a number is a class only if it has one label in
    all of them.
    """
    if not rows.values:
        return (CLASS,), {}
    labels: dict[int, set[str]] = {}
    order: dict[str, int] = {}
    for value, name in zip(rows.values, rows.segment_names):
        labels.setdefault(value, set()).add(name)
        order[name] = min(value, order.get(name, value))
    classes = tuple(sorted(order, key=lambda name: (order[name], name)))
    keys: dict[Key, int] = {name: k for k, name in enumerate(classes)}
    for value, names in labels.items():
        if len(names) == 1:
            keys[value] = keys[next(iter(names))]
    file.notes.extend(["classes are the labels of the segments"])
    return classes, keys


@dataclass
class LabelRows:
    """The objects of all volumes, in the order of the volumes."""

    options: Options
    images: list[int] = field(default_factory=list)  # of every volume
    names: list[str] = field(default_factory=list)  # of every volume
    volumes: list[Volume] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)  # objects of every volume
    masks: list[Masks] = field(default_factory=list)
    values: list[int] = field(default_factory=list)  # of every object
    # of every object: the label of its segment, empty for volumes without such names
    segment_names: list[str] = field(default_factory=list)

    def add(self, image: int, name: str, volume: Volume) -> None:
        """Read a volume, and keep its objects; ``image`` is -1 if nobody knows it."""
        from calipers.io.volumes.values import as_labels

        voxels = as_labels(_whole_voxels(volume), "instances", file=volume.file)
        if self.options.labels == "instances":
            masks = Masks.from_labels(voxels)
            values = np.unique(voxels[voxels != 0]).astype(np.int64)
        else:
            if self.options.labels == "nonzero":
                voxels = np.asarray(voxels != 0, np.uint8)
            masks, values = Masks.from_classes(voxels)
            _refuse_scores(masks, values, volume)
        self.images.append(image)
        self.names.append(name)
        self.volumes.append(volume)
        self.counts.append(len(values))
        self.masks.append(masks)
        self.values += values.tolist()
        self.segment_names += [volume.names.get(value, "") for value in values.tolist()]

    @property
    def owner(self) -> I64:
        """(n,) the volume of every object."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def part(self, file: InputFile, labels: I64, dimensions: int) -> ObjectPart:
        """Return all objects with masks, and with the boxes around these."""
        masks = no_masks(dimensions)
        if self.values:
            masks = Masks.concat([part for part in self.masks if len(part)])
        owner = self.owner
        image = np.array(self.images, np.int64)[owner]
        names, values = self.names, self.values
        places = np.arange(len(values))

        def locate(place: int, _: str) -> str:
            return f"{names[owner[place]]} value {values[place]}"

        facts = {"value": np.array(values, np.int64)}
        delivery = Delivery(image, labels, masks.boxes(), "xyxy", places, facts=facts)
        if self.options.masks != "ignore":
            delivery = replace(delivery, masks=masks)
        notes = _counted([note for volume in self.volumes for note in volume.notes])
        return ObjectPart(
            delivery,
            Source(file.file, locate, lambda place: locate(place, "")),
            notes=notes,
            contents=_contents(self.volumes),
        )


def _whole_voxels(volume: Volume) -> Array:
    """Return the voxels; scores instead of labels are told from broken ones."""
    voxels = volume.read()
    if voxels.dtype.kind == "f" and voxels.size:
        low, high = float(voxels.min()), float(voxels.max())
        if low >= 0 and high <= 1 and bool(((voxels > 0) & (voxels < 1)).any()):
            raise InputError(
                "label values, which are whole numbers",
                rule="mask-values",
                file=volume.file,
                value=f"scores from {low:.3g} to {high:.3g}",
                hint="maps of scores are evaluated by calipers maps REFS PREDS",
            )
    return voxels


def _refuse_scores(masks: Masks, values: I64, volume: Volume) -> None:
    """Raise if values change from voxel to voxel, as whole scores and pixels do."""
    n_values = len(np.unique(values))
    if n_values > MANY_VALUES and masks.length.mean() < SHORT_RUN:
        raise InputError(
            "label values, which are equal over an object",
            rule="mask-values",
            file=volume.file,
            value=f"{n_values} values that change from voxel to voxel",
            hint="these are scores, or an image: are references and predictions swapped? Maps of "
            "scores are evaluated by calipers maps REFS PREDS",
        )


def _counted(notes: Sequence[str]) -> list[str]:
    """Return every note once, with how many volumes have it."""
    counts: dict[str, int] = {}
    for note in notes:
        counts[note] = counts.get(note, 0) + 1
    return [f"{note} (volumes: {n})" for note, n in counts.items()]


def _contents(volumes: Sequence[Volume]) -> tuple[str, int]:
    """Return the hash over names and contents of all files, and their size."""
    lines = [f"{os.path.basename(volume.file)} {volume.sha256}\n" for volume in volumes]
    digest = hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape"))
    return digest.hexdigest(), sum(volume.bytes for volume in volumes)


def _image_list(volumes: Mapping[str, Volume]) -> ImageList:
    headers = tuple(volumes.values())
    size = np.array([volume.size for volume in headers], np.float64)
    spacing = np.full(size.shape, np.nan)
    for k, volume in enumerate(headers):
        if volume.spacing is not None:
            spacing[k] = volume.spacing
    return ImageList(list(volumes), size, spacing, {}, headers=headers)


def _classes(
    values: Sequence[int], options: Options, file: InputFile
) -> tuple[tuple[str, ...], dict[Key, int]]:
    """Return the classes, and value -> class."""
    if options.labels != "classes":
        return (CLASS,), dict.fromkeys(values, 0)
    if len(values) > MOST_CLASSES:
        raise InputError(
            f"at most {MOST_CLASSES} classes",
            rule="mask-values",
            file=file.file,
            value=f"{len(values)} values",
            hint="if every value is an object, pass --labels instances (labels='instances')",
        )
    if not values:
        # Volumes without any object are images without findings.
        return (CLASS,), {}
    return tuple(map(str, values)), {value: k for k, value in enumerate(values)}


def _labels(rows: LabelRows, index: ReferenceIndex) -> tuple[I64, list[str], list[Finding]]:
    """Return the class of every predicted object, notes, and the objects of unknown classes."""
    values = rows.values
    if rows.options.labels != "classes" or not values:
        return _only_class(rows, index), [], []
    keys: Mapping[Key, int] = index.class_keys or {}
    if not keys:
        keys = {name: k for k, name in enumerate(index.classes)}
    # Where the references have labels of segments, the number of a segment says nothing.
    is_named = any(isinstance(key, str) for key in index.class_keys or ())
    labels = []
    for value, name in zip(values, rows.segment_names):
        number = keys.get(value, keys.get(str(value), -1))
        if name and is_named:
            number = -1
        if name in index.classes:
            number = index.classes.index(name)
        labels.append(number)
    distinct = sorted(set(values))
    # One value and one class: which number a tool writes for "something" says nothing.
    if len(distinct) == 1 and len(index.classes) == 1 and labels[0] < 0:
        note = f"the only value {distinct[0]} is read as the only class {index.classes[0]!r}"
        return np.zeros(len(values), np.int64), [note], []
    column = np.array(labels, np.int64)
    unknown = np.flatnonzero(column < 0)
    if not len(unknown):
        return column, [], []
    finding = Finding(
        "unknown-category",
        "class",
        "a value that is a class of the references",
        unknown,
        [values[row] for row in unknown.tolist()],
        hint=f"the references have {', '.join(map(str, list(keys)[:10]))}; if every value is an "
        "object, pass --labels instances; if all values are one class, --labels nonzero",
    )
    return column, [], [finding]


def _only_class(rows: LabelRows, index: ReferenceIndex) -> I64:
    if len(index.classes) > 1 and rows.values:
        raise InputError(
            "values that are classes, because the references have several",
            rule="unknown-category",
            file=rows.volumes[0].file,
            value=f"--labels {rows.options.labels}",
            hint="leave --labels out, or give references of one class",
        )
    return np.zeros(len(rows.values), np.int64)


def _unknown_images(rows: LabelRows, index: ReferenceIndex) -> list[Finding]:
    from calipers.io.tables.objects import unknown_names

    owner = rows.owner
    image = np.array(rows.images, np.int64)[owner]
    names = [rows.names[k] for k in owner.tolist()]
    return unknown_names(image, names, "image", "unknown-image", index.as_text)


def _scores(rows: LabelRows, options: Options) -> tuple[F64, list[str]]:
    from calipers.io.volumes.object_scores import read_scores

    assert isinstance(options.scores, str | os.PathLike)
    table = read_scores(options.scores)
    scores = np.ones(len(rows.values))
    values, owner = np.array(rows.values, np.int64), rows.owner
    for k, name in enumerate(rows.names):
        mine = owner == k
        if mine.any():
            scores[mine] = table.of(name, values[mine])
    return scores, table.notes()


@dataclass(frozen=True)
class _Paired:
    """The images of predicted volumes."""

    images: Mapping[str, int]  # name of a volume -> image, -1 if nobody knows it
    volumes: Mapping[str, Volume]  # on the grids of their images
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls, volumes: Mapping[str, Volume], index: ReferenceIndex, options: Options, file: InputFile
    ) -> _Paired:
        """Pair volumes with the images of the references, and compare their grids."""
        headers = index.image_list.headers
        if headers:
            return cls._with_volumes(volumes, index, options, file)
        from calipers.io.annotations.annotation_list import ImageNames
        from calipers.io.volumes.open import stem_of

        names = ImageNames(index, file.file)
        # Ids may be names of volumes, whose suffixes are not those of pictures.
        stems = {stem_of(key) or key: k for k, key in enumerate(index.image_list.ids)}
        images = {name: stems.get(name, names.find(name)) for name in volumes}
        for name, volume in volumes.items():
            _check_size(volume, index, images[name])
        return cls(images, volumes, ())

    @classmethod
    def _with_volumes(
        cls, volumes: Mapping[str, Volume], index: ReferenceIndex, options: Options, file: InputFile
    ) -> _Paired:
        from calipers.io.volumes.pairing import SampleList, paired_names
        from calipers.io.volumes.placing import (
            can_place,
            check_place,
            is_cut,
            is_on_grid,
            placed,
            regridded,
            with_place_hint,
        )
        from calipers.io.volumes.samples import check_pair

        headers = index.image_list.headers
        ids = index.image_list.ids
        # Two single files have been paired by the user, whatever they are called.
        if len(headers) == len(volumes) == 1 and not isinstance(file, InputFolder):
            names = dict.fromkeys(volumes, ids[0])
        else:
            names = {name: name for name in volumes}
            references = SampleList("", {key: head.file for key, head in zip(ids, headers)})
            predicted = SampleList(
                file.file, {name: volume.file for name, volume in volumes.items()}
            )
            model = os.path.basename(file.file.rstrip("/")) or file.file
            _, name_notes = paired_names(
                references, {model: predicted}, options.missing_volumes, ALLOWING
            )
            file.notes.extend(note for note in name_notes if note not in file.notes)
        images: dict[str, int] = {}
        on_grid: dict[str, Volume] = {}
        problems: list[InputError] = []
        notes: list[str] = []
        for name, volume in volumes.items():
            images[name] = index.as_text[names[name]]
            grid = headers[images[name]]
            try:
                is_placed = options.place is not None and can_place(volume, grid)
                if is_placed and not is_on_grid(volume, grid):
                    notes += check_place(volume, grid, options.place or "nearest")
                    if is_cut(volume, grid):
                        raise InputError(
                            "a place within the slices that its reference stores",
                            rule="shape-mismatch",
                            file=volume.file,
                            value="slices beyond them, whose objects would be cut off",
                            hint=_grid_hint(grid),
                        )
                    on_grid[name] = regridded(volume, grid)
                    continue
                on_grid[name] = placed(volume, grid)
                notes += check_pair(grid, on_grid[name])
            except InputError as error:
                # Labels are not resampled: values in between mean nothing.
                if "--resize" in error.hint:
                    error = error.with_hint(error.rule, _grid_hint(grid))
                problems.append(with_place_hint(error, volume, grid))
        raise_problems(problems)
        return cls(images, on_grid, tuple(_counted(notes)))


def _grid_hint(grid: Volume) -> str:
    if grid.sparse:
        return (
            "the references do not store empty slices: give the folder of the images, or that of "
            "these predictions, --geometry FOLDER (geometry=...), which says how large volumes are"
        )
    return "save the predictions on the grid of their references"


def _check_size(volume: Volume, index: ReferenceIndex, image: int) -> None:
    """Raise if a volume has another shape than its image, as far as that is known."""
    from calipers.io.volumes.volume import shape_text

    if volume.dimensions != index.dimensions:
        raise InputError(
            f"{index.dimensions} axes, as the boxes of the references have",
            rule="box-shape",
            file=volume.file,
            value=f"{volume.dimensions} axes",
        )
    if image < 0:
        return
    size = index.size[image]
    if np.isfinite(size).all() and tuple(size.tolist()) != volume.size:
        sides = tuple(int(side) for side in size[::-1])
        raise InputError(
            f"the shape of its image, {shape_text(sides)}",
            rule="shape-mismatch",
            file=volume.file,
            value=shape_text(volume.shape),
        )
