# SPDX-License-Identifier: Apache-2.0
"""`read`: from paths to a checked cohort. Finds the formats, calls their readers, assembles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path

from calipers.errors import InputError, UsageError
from calipers.readers.assemble import Assembled, assemble, fit_dimensions, text_index
from calipers.readers.grouping import add_groups
from calipers.readers.parts import (
    ONLY_OF_REFERENCES,
    Key,
    ObjectPart,
    Options,
    ReferenceFile,
    ReferenceIndex,
)
from calipers.readers.sniffing import sniff_file
from calipers.readers.source import InputFile, open_source
from calipers.readers.tabular import Table
from calipers.readers.tabular_roles import predictions_from, references_from
from calipers.tables.cohort import Cohort

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
        One of `calipers.tables.BOX_FORMATS`, or two of them: for references and for predictions.
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
        from calipers.readers.coco import read_references

        return read_references(input_file, options)
    if kind == "lard":
        from calipers.readers.lard import read_lard

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
        from calipers.readers.coco import read_predictions

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
        from calipers.readers import columnar

        return columnar.read_table(input_file)
    from calipers.readers import delimited

    if format == "coco":
        raise InputError(
            "a table (csv, tsv or parquet)", rule="format", file=input_file.file, value="JSON"
        )
    return delimited.read_nih(input_file) if format == "nih" else delimited.read_table(input_file)


def read_groups_table(input_file: InputFile) -> Table:
    """Return a table of groups: delimited text or parquet."""
    return _table(input_file, _table_format(input_file))


def _table_format(input_file: InputFile) -> str:
    from calipers.readers.columnar import MAGIC

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
