# SPDX-License-Identifier: Apache-2.0
"""From paths to a checked cohort: open the files, choose a reader for each, read, assemble.

`read` is the front door of the library and of every verb that takes references and predictions.
Formats are plug-ins (`calipers.io.reader`): nothing here knows any of them. `sniff` tells which
format a file has and why; `explain` says in words how all inputs are interpreted, before any number
is computed from them. `read_all` does the work of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from os import PathLike, fspath
from pathlib import Path
from typing import Unpack

import numpy as np

from calipers import errors, registry
from calipers.arguments import names_arguments
from calipers.data.cohort import Cohort, FileIntake
from calipers.errors import InputError, InputProblems, UsageError, raise_problems
from calipers.io.assemble import Assembled, assemble, fit_dimensions
from calipers.io.consensus import require_rule
from calipers.io.reader import (
    ObjectPart,
    Options,
    Reader,
    ReadOptions,
    ReferenceFile,
    ReferenceIndex,
    Sniffed,
    reader_of,
    readers,
)
from calipers.io.source import (
    PICKLES,
    InputFile,
    InputFolder,
    Progress,
    first_lines,
    model_name,
    open_input,
    open_source,
)

PathName = str | PathLike[str]
Predictions = PathName | Mapping[str, PathName] | Sequence[PathName] | None
PendingModel = tuple[InputFile, str, str, Callable[[], ObjectPart]]

GZIP, ZIP = b"\x1f\x8b", b"PK\3\4"  # with which compressed files and archives begin
# Data sets with a thousand classes exist; nobody reads them in a terminal.
SHOWN_CLASSES = 30


@names_arguments
def read(
    references: PathName,
    predictions: Predictions = None,
    *,
    groups: PathName | None = None,
    format: str | None = None,
    box_format: str | tuple[str | None, str | None] | None = None,
    columns: Mapping[str, str] | None = None,
    lenient: bool = False,
    score_scale: str = "unit",
    ids_as_strings: bool = False,
    masks: str = "auto",
    coco_ignore: bool = True,
    outside: str = "keep",
    allow_loss: float = 0.5,
    readers: str | None = None,
    reader_overlap: float = 0.5,
    labels: str = "classes",
    scores: PathName | Mapping[str, PathName] | None = None,
    segment: int | None = None,
    pattern: str | None = None,
    reference_pattern: str | None = None,
    missing_volumes: str = "error",
    geometry: PathName | None = None,
    place: str | None = None,
    where: str | None = None,
    all_images: bool = False,
    progress: Progress | None = None,
) -> Cohort:
    """Read references and the predictions of any number of models.

    Parameters
    ----------
    references
        COCO JSON, delimited text, the list of a data set (such as those of NIH, VinDr-CXR, RSNA or
        LUNA16), parquet, or the files of an annotation tool: a YOLO, Pascal VOC or LabelMe folder,
        CVAT XML, Label Studio JSON; or a folder of label images or volumes.
    predictions
        One file (or folder), several files (a model is named after its file), or
        ``{"model": file}``. A table with a column ``model`` may hold several models.
    groups
        A table with one row per image: a column ``image``, ``image_id``, ``id`` or ``file_name``,
        and any further ones. ``width``, ``height``, ``depth`` and ``spacing_x`` ... fill sizes and
        spacings.
    format
        ``"coco"``, ``"csv"`` (also semicolons and tabs), ``"parquet"``,
        ``"json-rows"``, ``"yolo"``,
        ``"label-studio"``, ``"label-volumes"``, ``"dicom-sr"``, ``"vindr"``, ``"rsna"``,
        ``"openimages"``, ``"luna16"``, ``"nndetection"``, ``"siim"``, ``"text-boxes"``;
        ``"voc-results"``,
        ``"torchvision"``, ``"ultralytics"``, ``"detectron2"`` and ``"grand-challenge"``
        (predictions only); or ``"nih"``, ``"lard"``, ``"lidc"``, ``"polypgen"``,
        ``"deeplesion"``, ``"node21"``, ``"voc"``, ``"cvat"`` and ``"labelme"`` (references only),
        or a format of another installed package; None: detected from the first bytes.
    box_format
        One of `calipers.data.objects.BOX_FORMATS`, or two of them: for references and for
        predictions. None: what the format or the column names say.
    columns
        ``{"image": "name in the file", ...}`` for tables.
    lenient
        Set broken records aside and account for them, instead of refusing the file.
    score_scale
        ``"unit"``: scores lie in [0, 1]. ``"raw"``: any finite score.
    ids_as_strings
        Treat the ids 1 and "1" as equal.
    masks
        How the segmentations of COCO files are used. ``"auto"``: they are read if every annotation
        of a file has one, else a note counts them. ``"required"``: an annotation without one is
        broken. ``"ignore"``: only boxes are read. A record without a box gets the box of its mask,
        unless masks are ignored.
    coco_ignore
        Whether ``"ignore": 1`` of a COCO annotation is obeyed, with a note. False: it is
        overwritten by ``iscrowd``, as pycocotools does.
    outside
        What becomes of boxes that reach more than a pixel beyond their image. ``"keep"``: they stay
        as they are, and a note counts them. ``"clip"``: they are cut at the border, and counted.
        ``"refuse"``: they are broken.
    allow_loss
        The share of the references, or of the records of one model, that lenient reading may set
        aside. Beyond it, or with nothing left, reading fails.
    readers
        What to make of several readers of one image (a column ``reader``, ``rad_id`` or
        ``annotator``): ``"any"`` keeps what one of them marks, ``"majority"`` what more than half
        of the readers of the image mark, a name what this reader marks, on the images that they
        read, ``"each"`` makes every reader the reference in turn, with the other readers as one
        more model (group ``reader``). None: several readers of one image are refused.
    reader_overlap
        The IoU from which boxes of one class and of different readers are one finding, whose box is
        the mean of theirs.
    labels
        The meaning of the values of label volumes. ``"classes"``: a value is a class, and its
        connected components are objects. ``"instances"``: a value is an object. ``"nonzero"``: all
        values but 0 are one class.
    scores
        A table with the scores of predicted label volumes, or ``{"model": table}``: the columns
        ``image``, ``label`` (the value; without it the score is that of all objects of the image)
        and ``score``. Without a table all scores are 1.
    segment
        The only segment of DICOM segmentations that is read.
    pattern, reference_pattern
        The names of predicted and of reference volumes with ``{name}`` in place of what pairs them.
    missing_volumes
        What to do where a reference has no predicted volume: ``"error"``, or ``"empty"``: nothing
        was predicted there.
    geometry
        The folder of the images, by whose grids DICOM segmentations are placed that lack empty
        slices.
    place
        ``"nearest"``: predicted label volumes may lie on other grids than their references (crops,
        turned or shifted volumes), and are put on those by the affines of both. None: that is an
        error.
    where
        Evaluate only images with a value of a column, such as ``"split=test"``; references and
        predictions on other images are left out. None: all images. Without a column ``folder`` that
        is the first folder in the name of an image: ``"folder=val"``.
    all_images
        Whether images that only the table of groups names, or without such a table only the
        predictions, are evaluated, too: as images without references, for formats that list only
        images with some. Beside files of LabelMe and Pascal VOC these are the pictures without a
        file of annotations.
    progress
        Called with (name of the step, work done, work in all) while files are read.

    Raises
    ------
    InputError
        A broken rule, with file, place, value and a hint; several at once as `InputProblems`.

    Notes
    -----
    For every file ``read == used + quarantined`` holds in ``cohort.intake``.
    """
    options = Options.from_keywords(
        lenient=lenient,
        format=format,
        box_format=box_format,
        columns=columns,
        score_scale=score_scale,
        ids_as_strings=ids_as_strings,
        masks=masks,
        coco_ignore=coco_ignore,
        outside=outside,
        allow_loss=allow_loss,
        readers=readers,
        reader_overlap=reader_overlap,
        labels=labels,
        scores=scores,
        segment=segment,
        pattern=pattern,
        reference_pattern=reference_pattern,
        missing_volumes=missing_volumes,
        geometry=geometry,
        place=place,
        where=where,
        all_images=all_images,
        progress=progress,
    )
    cohort = read_all(references, predictions, groups, options).cohort
    if progress is not None:
        progress("reading", 1, 1)  # nothing is left to be done
    return cohort


@names_arguments
def sniff(path: Path | str) -> Sniffed:
    """Guess the format and the role of a file or an annotation folder from its beginning.

    Raises
    ------
    InputError
        The file is missing, empty, or in no known format.
    """
    return sniff_file(open_input(errors.path("path", path)))


@names_arguments
def explain(
    references: PathName,
    predictions: Predictions = None,
    *,
    groups: PathName | None = None,
    lenient: bool = True,
    **options: Unpack[ReadOptions],
) -> str:
    """Describe the inputs: files, formats, images, objects, classes, groups, records set aside.

    The options are those of `read`, except that reading is lenient unless told otherwise, so that
    all problems of a file are counted together; what makes a whole file unusable still raises.
    """
    return describe(
        read_all(
            references,
            predictions,
            groups,
            Options.from_keywords(lenient=lenient, inspecting=True, **options),
        )
    )


def sniff_file(file: InputFile) -> Sniffed:
    """Guess the format and the role of an opened file or folder."""
    kind = _kind_of(file)
    if kind == "file" and file.file.lower().endswith(PICKLES):
        raise InputError(
            "a file of data",
            rule="pickle",
            file=file.file,
            value="a pickle",
            hint="a pickle can run any program: detectron2 writes coco_instances_results.json "
            "beside it; of torchvision, save the lists boxes, labels and scores as JSON",
        )
    if kind == "file" and not file.head:
        raise InputError("content", rule="empty-file", file=file.file, value="only white space")
    folder_formats = []
    # The order of the registry: formats with an unmistakable mark come before tables.
    for reader in readers(file):
        if "folder" in reader.inputs:
            folder_formats.append(reader.name)
        if kind not in reader.inputs:
            continue
        with registry.blaming("format", reader.name):
            sniffed = reader.sniff(file)
        if sniffed is not None:
            return sniffed
    if kind == "folder":
        raise InputError(
            "a file, or a folder of a known format",
            rule="not-a-file",
            file=file.file,
            value="; ".join(["a folder without such files", *file.notes]),
            hint="give one file, or the folder that holds the annotation files; folders are of the "
            f"formats {', '.join(folder_formats)}",
        )
    names = ", ".join(sorted(registry.known("format")))
    hint = f"name the format with format=... (--format); known: {names}"
    if file.file.lower().endswith((".yaml", ".yml")):
        hint = "for a YOLO data set, give the folder of its labels, such as labels/val"
    if bytes(file.data[:2]) == GZIP:
        hint = "unpack the file first"
    if bytes(file.data[:4]) == ZIP:
        hint = "several files are in the archive: unpack it, and give the folder"
    raise InputError(
        "a known format",
        rule="format",
        file=file.file,
        value=file.data[:20],
        hint=hint,
    )


def read_all(
    references: PathName, predictions: Predictions, groups: PathName | None, options: Options
) -> Assembled:
    """Read everything; the result also says in which box format each file was read."""
    paths = named_paths(predictions)
    opened = open_references(references, groups, options)
    if options.all_images and groups is None:
        opened = with_predicted_images(opened, paths, options)
    pending = _pending(opened, paths, options)
    _distinct([model for _, model, _, _ in pending])
    return assemble((opened.input_file, opened.file), pending, opened.groups, options)


def _pending(
    opened: OpenReferences, paths: Sequence[tuple[str | None, PathName]], options: Options
) -> list[PendingModel]:
    """Return the models of all files."""
    pending: list[PendingModel] = []
    of_predictions = options.of_predictions()
    names = [model or model_name(fspath(path)) for model, path in paths]
    for name, (model, path) in zip(names, paths):
        pending += pending_models(model, path, opened.index, of_predictions.of_model(name, names))
    return pending


def with_predicted_images(
    opened: OpenReferences, paths: Sequence[tuple[str | None, PathName]], options: Options
) -> OpenReferences:
    """Add the images that only predictions name, as images without references.

    A model of which no image is listed adds none: it calls them otherwise, and its predictions are
    refused as ever. Where the pictures are there, they say which images there are.
    """
    if opened.file.unlisted:
        return opened
    if not paths:
        raise UsageError(
            "all images of what? Give predictions, or a table of images: --groups (groups=...)"
        )
    names: dict[str, None] = {}
    for _, _, _, read_part in _pending(opened, paths, options):
        part = read_part()
        if (part.delivery.image < 0).all():
            continue
        for finding in part.findings:
            # The id "1" beside the id 1 is no further image.
            if finding.rule == "unknown-image":
                names.update(dict.fromkeys(map(str, finding.values)))
    file = opened.file
    images = file.images.with_further(names)
    if len(images.keys) == len(file.images.keys):
        return opened
    n_further = len(images.keys) - len(file.images.keys)
    note = f"images known from predictions only, which have no references: {n_further}"
    part = replace(file.part, notes=[*file.part.notes, note])
    return replace(opened, file=replace(file, images=images, part=part))


@dataclass(frozen=True)
class OpenReferences:
    """References as their reader returned them, before any rule, with the groups of images."""

    input_file: InputFile
    file: ReferenceFile
    groups: FileIntake | None

    @cached_property
    def index(self) -> ReferenceIndex:
        """The images and classes, by which predictions are resolved."""
        keys = self.file.images.keys
        images = dict(zip(keys, range(len(keys))))
        return ReferenceIndex(images, self.file.images, self.file.classes, self.file.class_keys)


def open_references(
    references: PathName, groups: PathName | None, options: Options
) -> OpenReferences:
    """Read images, classes, groups and the objects of the references, which no rule has seen."""
    input_file = open_input(errors.path("references", references), options.progress)
    file = _read_references(input_file, options)
    require_rule(file.readings, options.readers, input_file.file)
    images = fit_dimensions(file.images, file.part.delivery.boxes.shape[1] // 2)
    intake = None
    is_named = file.readings is not None and options.readers not in (None, "any", "majority")
    if options.all_images and is_named:
        raise UsageError(
            "who read the images that the references do not list is not known: choose the rule any "
            "or majority for several readers"
        )
    if groups is not None:
        # Imported only with a table of groups: the readers of tables are slow to load.
        from calipers.io.tables.objects import add_groups
        from calipers.io.tables.table import open_table

        table = open_table(open_source(errors.path("groups", groups), options.progress))
        images, intake = add_groups(images, table, options)
    # After the groups, so that a wrong table is named before a missing class.
    _require_classes(file, input_file)
    return OpenReferences(input_file, replace(file, images=images), intake)


def named_paths(predictions: Predictions) -> list[tuple[str | None, PathName]]:
    """Return (model, file); None means that the file names the model."""
    if predictions is None:
        return []
    if isinstance(predictions, Mapping):
        return list(predictions.items())
    if isinstance(predictions, str | PathLike):
        return [(None, predictions)]
    return [(None, path) for path in predictions]


def _kind_of(file: InputFile) -> str:
    return "folder" if isinstance(file, InputFolder) else "file"


def _choose_reader(file: InputFile, name: str | None) -> Reader:
    """Return the reader of the named format, else of the one that the file seems to have."""
    reader = reader_of(name or sniff_file(file).format)
    kind = _kind_of(file)
    if kind not in reader.inputs:
        rules = {"folder": "not-a-file", "file": "not-a-folder"}
        raise InputError(
            f"a {reader.inputs[0]}, which is what the format {reader.name} is",
            rule=rules[kind],
            file=file.file,
            value=f"a {kind}",
            hint="leave --format out to let the format be detected",
        )
    return reader


def _read_references(file: InputFile, options: Options) -> ReferenceFile:
    reader = _choose_reader(file, options.format)
    if "references" not in reader.roles:
        raise InputError(
            "references",
            rule="wrong-role",
            file=file.file,
            value=f"a file of predictions ({reader.name})",
        )
    with registry.blaming("format", reader.name):
        references = reader.references(file, options)
        if not isinstance(references, ReferenceFile):
            raise TypeError(f"references() gave {type(references).__name__}, no ReferenceFile")
    return references


def pending_models(
    model: str | None,
    path: PathName,
    index: ReferenceIndex,
    options: Options,
    *,
    most: int | None = None,
) -> list[PendingModel]:
    """Return the models of a file.

    A file of one model is read later, one at a time; a file that may hold several is read now,
    because it names them. With ``most`` only so many bytes of a table are read.
    """
    file = open_input(errors.path("predictions", path), options.progress)
    name = options.format
    # The lists of data sets have no scores, so a named list format is that of the references; so is
    # a format of folders if this is a file, and the other way round.
    if name is not None:
        named_reader = reader_of(name)
        if "predictions" not in named_reader.roles or _kind_of(file) not in named_reader.inputs:
            name = None
    reader = _choose_reader(file, name)
    if "predictions" not in reader.roles:
        raise InputError(
            "predictions, which have scores",
            rule="score-missing",
            file=file.file,
            value=f"a list of references ({reader.name})",
        )
    if most is not None and reader.by_line:
        file = first_lines(file, most)
    stem = model_name(fspath(path))
    if not reader.several_models:

        def later() -> ObjectPart:
            return _read_predictions(reader, file, index, options)[""]

        return [(file, model or stem, reader.name, later)]
    parts = _read_predictions(reader, file, index, options)
    pending: list[PendingModel] = []
    for own_name, part in parts.items():
        # A name that the user gave comes before those in the file; several models share it as a
        # prefix.
        title = own_name
        if model is not None:
            title = f"{model}/{own_name}" if len(parts) > 1 else model
        pending.append((file, title or stem, reader.name, partial(_same, part)))
    return pending


def _read_predictions(
    reader: Reader, file: InputFile, index: ReferenceIndex, options: Options
) -> Mapping[str, ObjectPart]:
    with registry.blaming("format", reader.name):
        parts = reader.predictions(file, index, options)
        for part in parts.values():
            if not isinstance(part, ObjectPart):
                raise TypeError(f"predictions() gave {type(part).__name__}, no ObjectPart")
        if not reader.several_models and list(parts) != [""]:
            raise TypeError("predictions() names models, but several_models is False")
    return parts


def _same(part: ObjectPart) -> ObjectPart:
    return part


def _require_classes(file: ReferenceFile, input_file: InputFile) -> None:
    if not file.classes:
        # Where every row is broken, that is the reason for the missing class.
        problems = file.part.problems
        errors_of_rows = [
            problem.as_error(input_file.file) for problem in problems[: InputProblems.SHOWN]
        ]
        raise_problems(errors_of_rows, len(problems))
        raise InputError(
            "at least one class",
            rule="no-classes",
            file=input_file.file,
            hint="declare it: a COCO category, or a row of the table with nothing but a class",
        )


def _distinct(models: Sequence[str]) -> None:
    twice = next((model for k, model in enumerate(models) if model in models[:k]), None)
    if twice is not None:
        raise UsageError(
            f"two models are called {twice!r}; name them: {{'first': path, 'second': path}}"
        )


def describe(assembled: Assembled) -> str:
    """Describe files that have been read."""
    cohort = assembled.cohort
    lines: list[str] = []
    for file, box_format in zip(cohort.intake.files, assembled.box_formats):
        lines += [*_file(file, box_format), ""]
    lines += [*_images(cohort), *_classes(cohort)]
    if n_broken := cohort.intake.quarantined:
        records = "record" if n_broken == 1 else "records"
        lines += ["", f"Strict reading refuses these inputs: {n_broken} broken {records}."]
    return "\n".join(lines) + "\n"


def _file(file: FileIntake, box_format: str) -> Iterator[str]:
    yield _safe(f"{file.file}: {file.role}")
    yield f"  format       {file.format}" + (f", boxes as {box_format}" if box_format else "")
    yield f"  size         {file.bytes:,} bytes, sha256 {file.sha256[:16]}..."
    yield f"  records      {file.read} read = {file.used} used + {file.read - file.used} set aside"
    for rule, count in file.quarantined.items():
        yield f"    {rule:<20} {count}"
    for note in file.notes:
        yield _safe(f"  note         {note}")


def _images(cohort: Cohort) -> Iterator[str]:
    # Counted per image: a size with one side missing is as good as none.
    n_sized = int(np.isfinite(cohort.images.size).all(axis=1).sum())
    n_spaced = int(np.isfinite(cohort.images.spacing).all(axis=1).sum())
    n_with_references = int((np.diff(cohort.references.offsets) > 0).sum())
    counts = f"{cohort.n_images}, {n_with_references} with references"
    yield f"Images         {counts}; {cohort.dimensions}D"
    yield f"  size known   {n_sized} of {cohort.n_images}"
    yield f"  spacing      known for {n_spaced} of {cohort.n_images}"
    for name, column in cohort.images.groups.items():
        yield _safe(f"  {name:<12} {len(set(column.tolist()))} different values")


def _classes(cohort: Cohort) -> Iterator[str]:
    tables = {"references": cohort.references, **cohort.models}
    counts = {}
    sizes = []
    masked = []
    for name, table in tables.items():
        counts[name] = np.bincount(table.label, minlength=len(cohort.classes))
        sizes.append(_safe(f"{len(table)} {name}"))
        if table.masks is not None and len(table):
            masked.append(name)
    yield "Objects        " + ", ".join(sizes)
    if masked:
        yield _safe("  with masks   " + ", ".join(masked))
    n_ignored, n_crowd = int(cohort.references.ignore.sum()), int(cohort.references.crowd.sum())
    if n_ignored:
        yield f"  ignored      {n_ignored} references, {n_crowd} of them crowds"
    yield f"Classes        {len(cohort.classes)}"
    for k, name in enumerate(cohort.classes[:SHOWN_CLASSES]):
        shares = ", ".join(_safe(f"{column[k]} {table}") for table, column in counts.items())
        yield _safe(f"  {name:<20} ") + shares
    if len(cohort.classes) > SHOWN_CLASSES:
        yield f"  ... and {len(cohort.classes) - SHOWN_CLASSES} more"


def _safe(text: str) -> str:
    """Escape control characters and override marks, which a terminal would obey."""
    signs = []
    for sign in text:
        signs.append(sign if sign.isprintable() else f"\\u{ord(sign):04x}")
    return "".join(signs)
