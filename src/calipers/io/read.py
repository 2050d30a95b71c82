# SPDX-License-Identifier: Apache-2.0
"""Guess the format of a file from its first bytes, with the reason in words.

`read`: from paths to a checked cohort. Finds the formats, calls their readers, assembles.

`explain`: say how the inputs are interpreted, before any number is computed from them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Unpack

import numpy as np

from calipers.data.cohort import Cohort, FileIntake
from calipers.errors import InputError, UsageError
from calipers.io.assemble import (
    ONLY_OF_REFERENCES,
    Assembled,
    Key,
    ObjectPart,
    Options,
    ReadOptions,
    ReferenceFile,
    ReferenceIndex,
    assemble,
    fit_dimensions,
    text_index,
)
from calipers.io.source import InputFile, open_source
from calipers.io.tables.objects import add_groups, predictions_from, references_from
from calipers.io.tables.table import Table

HEAD = 1 << 16


@dataclass(frozen=True, slots=True)
class Sniffed:
    """What a file seems to be."""

    format: str
    role: str  # references | predictions | groups | unknown
    reason: str


def sniff(path: Path | str) -> Sniffed:
    """Guess the format and the role of a file from its beginning.

    Raises
    ------
    InputError
        The file is missing, empty, or of no format that is known.
    """
    return sniff_file(open_source(path))


def sniff_file(input_file: InputFile) -> Sniffed:
    """Guess the format and the role of an opened file."""
    from calipers.io.tables.objects import is_lard
    from calipers.io.tables.table import MAGIC, NIH_HEADER

    head = input_file.data[:HEAD]
    if head[:4] == MAGIC:
        return Sniffed("parquet", "unknown", "it begins with PAR1")
    text = head.decode("utf-8", "replace").lstrip()
    if text[:1] == "[":
        return Sniffed("coco", "predictions", "it is a JSON list, as COCO results are")
    if text[:1] == "{":
        return _document(text, input_file)
    if not text:
        raise InputError(
            "content", rule="empty-file", file=input_file.file, value="only white space"
        )
    if Path(input_file.file).suffix.lower() == ".json":
        return Sniffed(
            "coco", "unknown", "it is called .json, although it does not begin like JSON"
        )
    if NIH_HEADER.match(text):
        return Sniffed("nih", "references", "its header is the one of the NIH list of boxes")
    if is_lard(text.split("\n", 1)[0]):
        return Sniffed(
            "lard", "references", "its header has the four corners of the LARD list of runways"
        )
    return _delimited(text, input_file, Path(input_file.file).suffix.lower())


def _document(text: str, input_file: InputFile) -> Sniffed:
    size = len(input_file.data)
    tail = input_file.data[max(0, size - HEAD) : size].decode("utf-8", "replace")
    reason = "it is a JSON object, as COCO documents are"
    if re.search(r'"score"\s*:', text + tail):
        return Sniffed("coco", "predictions", reason + ", with scores")
    return Sniffed("coco", "references", reason)


def _delimited(text: str, input_file: InputFile, suffix: str) -> Sniffed:
    from calipers.io.tables.columns import ALIASES, BOX_NAMES
    from calipers.io.tables.table import DELIMITERS

    header = text.split("\n", 1)[0]
    names = {name.strip().strip('"').lower() for name in re.split("[,;\t]", header)}
    has_boxes = len(names & BOX_NAMES) >= 4
    known_names = {"id"}.union(*ALIASES.values())
    is_table = has_boxes or names & known_names or suffix in (".csv", ".tsv", ".txt")
    if not is_table or not any(sign in header for sign in DELIMITERS):
        raise InputError(
            "COCO JSON, delimited text, the NIH or LARD list or parquet",
            rule="format",
            file=input_file.file,
            value=input_file.data[:20],
            hint="name the format with format=... (--format)",
        )
    if names & set(ALIASES["score"]):
        return Sniffed("csv", "predictions", "it is delimited text with a score column")
    if has_boxes:
        return Sniffed("csv", "references", "it is delimited text with a box in every row")
    return Sniffed("csv", "groups", "it is delimited text without boxes")


PathName = str | PathLike[str]
Predictions = PathName | Mapping[str, PathName] | Sequence[PathName] | None
PendingModel = tuple[InputFile, str, str, Callable[[], ObjectPart]]


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
) -> Cohort:
    """Read references and the predictions of any number of models.

    Parameters
    ----------
    references
        COCO JSON, delimited text, the NIH list of boxes, the LARD list of runways, or parquet.
    predictions
        One file, several files (the model is named like the file), or ``{"model": file}``. A table
        with a column ``model`` may hold several models.
    groups
        A table with one row per image: a column ``image``, ``image_id``, ``id`` or ``file_name``,
        and any further ones. ``width``, ``height``, ``depth`` and ``spacing_x`` ... fill sizes and
        spacings.
    format
        ``"coco"``, ``"csv"`` (also semicolons and tabs), ``"parquet"``, or ``"nih"`` and ``"lard"``
        (references only); None: judged from the first bytes.
    box_format
        One of `calipers.data.objects.BOX_FORMATS`, or two of them: for references and for predictions.
        None: what the format or the column names say.
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
    )
    return read_all(references, predictions, groups, options).cohort


def read_all(
    references: PathName, predictions: Predictions, groups: PathName | None, options: Options
) -> Assembled:
    """Read everything; the result also says in which box format each file was read."""
    paths = named_paths(predictions)
    input_file = open_source(fspath(references))
    file = _read_references(input_file, options)
    images = fit_dimensions(file.images, file.part.delivery.boxes.shape[1] // 2)
    intake = None
    if groups is not None:
        groups_file = open_source(fspath(groups))
        images, intake = add_groups(images, read_groups_table(groups_file), groups_file, options)
    _require_classes(file, input_file)
    file = replace(file, images=images)
    index = _reference_index(file)
    pending: list[PendingModel] = []
    for model, path in paths:
        pending += _pending_models(model, path, index, options.of_predictions())
    _distinct([model for _, model, _, _ in pending])
    return assemble((input_file, file), pending, intake, options)


def named_paths(predictions: Predictions) -> list[tuple[str | None, PathName]]:
    """Return (model, file); None means that the file names the model."""
    if predictions is None:
        return []
    if isinstance(predictions, Mapping):
        return list(predictions.items())
    if isinstance(predictions, str | PathLike):
        return [(None, predictions)]
    return [(None, path) for path in predictions]


def format_of(input_file: InputFile, options: Options) -> str:
    """Return the format that the user named, else the one that the file seems to have."""
    return options.format or sniff_file(input_file).format


def _read_references(input_file: InputFile, options: Options) -> ReferenceFile:
    kind = format_of(input_file, options)
    if kind == "coco":
        from calipers.io.coco.document import read_references

        return read_references(input_file, options)
    if kind == "lard":
        from calipers.io.tables.objects import read_lard

        return read_lard(input_file, options)
    _boxes_only(input_file, kind, options)
    return references_from(_table(input_file, kind), options)


def _pending_models(
    model: str | None, path: PathName, index: ReferenceIndex, options: Options
) -> list[PendingModel]:
    """Return the models of a file.

    COCO files are read later, one at a time; a table is read now, because it may hold several
    models.
    """
    input_file = open_source(fspath(path))
    # The lists of data sets have no scores, so a named list format is that of the references.
    if options.format in ONLY_OF_REFERENCES:
        options = replace(options, format=None)
    kind = format_of(input_file, options)
    stem = Path(fspath(path)).stem
    if kind == "coco":
        from calipers.io.coco.document import read_predictions

        return [
            (input_file, model or stem, kind, lambda: read_predictions(input_file, index, options))
        ]
    _boxes_only(input_file, kind, options)
    index = replace(index, images=index.as_text)
    parts = predictions_from(_table(input_file, kind), index, options)
    pending: list[PendingModel] = []
    for name, part in parts.items():
        title = name
        if model is not None:
            title = f"{model}/{name}" if len(parts) > 1 else model
        pending.append((input_file, title or stem, kind, lambda part=part: part))  # type: ignore[misc]
    return pending


def _boxes_only(input_file: InputFile, format: str, options: Options) -> None:
    """Raise if masks are required: tables hold boxes only."""
    if options.masks == "required":
        hint = "masks are read from COCO JSON; pass --masks auto to evaluate the boxes"
        raise InputError(
            "masks",
            rule="mask-missing",
            file=input_file.file,
            value=f"a table ({format})",
            hint=hint,
        )


def _table(input_file: InputFile, format: str) -> Table:
    if format == "parquet":
        from calipers.io.tables import table

        return table.read_columnar(input_file)
    from calipers.io.tables import table

    if format == "coco":
        raise InputError(
            "a table (csv, tsv or parquet)", rule="format", file=input_file.file, value="JSON"
        )
    return table.read_nih(input_file) if format == "nih" else table.read_delimited(input_file)


def read_groups_table(input_file: InputFile) -> Table:
    """Return a table of groups: delimited text or parquet."""
    return _table(input_file, _table_format(input_file))


def _table_format(input_file: InputFile) -> str:
    from calipers.io.tables.table import MAGIC

    if input_file.data[:1] in (b"{", b"["):
        return "coco"
    return "parquet" if input_file.data[:4] == MAGIC else "csv"


def _reference_index(file: ReferenceFile) -> ReferenceIndex:
    images = file.images
    names = images.groups.get("file_name")
    file_names: dict[Key, int] = {}
    if names is not None:
        file_names = {str(name): k for k, name in enumerate(names.tolist())}
    return ReferenceIndex(
        images={key: k for k, key in enumerate(images.keys)},
        as_text=text_index(images),
        classes=file.classes,
        class_keys=file.class_keys,
        file_names=file_names,
        size=images.size,
    )


def _require_classes(file: ReferenceFile, input_file: InputFile) -> None:
    if not file.classes:
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


SHOWN_CLASSES = 30


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
        read_all(references, predictions, groups, Options.from_keywords(lenient=lenient, **options))
    )


def describe(assembled: Assembled) -> str:
    """Describe files that have been read."""
    cohort = assembled.cohort
    lines: list[str] = []
    for file, box_format in zip(cohort.intake.files, assembled.box_formats):
        lines += [*_file(file, box_format), ""]
    lines += [*_images(cohort), *_classes(cohort)]
    if cohort.intake.quarantined:
        lines += [
            "",
            f"Strict reading refuses these inputs: {cohort.intake.quarantined} broken records.",
        ]
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
