# SPDX-License-Identifier: Apache-2.0
"""The cohort of a saved evaluation as two tables of parquet, written and read back bit for bit.

``images.parquet`` has a row per image, ``objects.parquet`` a row per object: for every model its
references, then its predictions. Masks are lists of runs, points are coordinates; facts of the user
keep their kind, which the metadata state. `calipers.evaluation.saved` writes the columns of
`image_columns`, `object_columns`, `fact_columns` and `shape_columns`; `calipers.io.saved.folder`
calls `read_cohort`, which refuses whatever does not agree with the document.

`StoredColumns` reads columns by name and kind, for all tables that Calipers wrote.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calipers.arrays import F64, I64, Column, Flags
from calipers.data.cohort import UNIT, Cohort, Images, Intake
from calipers.data.masks import Masks
from calipers.data.objects import SHAPES, Objects, Predictions, References
from calipers.data.rules import MOST_OBJECTS, Delivery, Source, examine, settle
from calipers.errors import InputError
from calipers.io.reader import text_column
from calipers.io.source import InputFile
from calipers.io.tables.arrow import (
    TEXT,
    arrow_column,
    as_arrow,
    as_text,
    text_column_of,
    with_nulls,
)
from calipers.io.tables.parquet import read_arrow
from calipers.kernels import ragged
from calipers.kernels.runs import sound_runs

HINT = (
    "this is not the table that Calipers wrote: restore the folder from a backup, or evaluate again"
)

STORED = "calipers.shapes"  # key of the metadata: which table has masks, which has points
MASK = ("mask_start", "mask_length", "mask_size")
POINT = ("point_x", "point_y", "point_z")

OBJECTS, IMAGES = "objects.parquet", "images.parquet"
KINDS = ("reference", "prediction")
CORNERS = {2: ("x0", "y0", "x1", "y1"), 3: ("x0", "y0", "z0", "x1", "y1", "z1")}
SIDES = ("width", "height", "depth")
SPACINGS = ("spacing_x", "spacing_y", "spacing_z")
# Prefixes of the users' column names, so that none can be taken for one of ours.
GROUP, FACT = "group_", "fact_"
FACTS = "calipers.facts"  # key of the metadata: which table has which facts, and of which kind

# Columns of references, which are stored once for every model and must be the same each time.
OF_REFERENCES = ("image", "row", "class", "area", "extent", "ignore", "crowd", "place")


@dataclass(frozen=True)
class StoredColumns:
    """Some rows of a table, beginning with the row ``first`` of its file."""

    table: Any  # of arrow
    file: str
    first: int = 0

    @classmethod
    def read(cls, input_file: InputFile) -> StoredColumns:
        """Read a parquet file."""
        return cls(read_arrow(input_file, _different_names), input_file.file)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return list(self.table.column_names)

    def part(self, start: int, n: int) -> StoredColumns:
        """Return ``n`` rows from ``start`` on."""
        return StoredColumns(self.table.slice(start, n), self.file, self.first + start)

    def refuse(
        self, expected: str, rule: str, name: str, bad: Flags | None = None, value: object = None
    ) -> None:
        """Raise if any row is bad, naming the first of them; without ``bad`` raise at once."""
        if bad is not None and not bad.any():
            return
        where = ""
        if bad is not None:
            row = int(np.argmax(bad))
            where = f"row {self.first + row}"
            if value is None and name in self.names:
                value = self.table.column(name)[row].as_py()
        raise InputError(
            expected, rule=rule, file=self.file, location=where, field=name, value=value, hint=HINT
        )

    def numbers(self, name: str, *, missing: bool = False) -> F64:
        """Return finite numbers; null, if some may be missing, is NaN."""
        import pyarrow.types as kinds

        column = self._column(name, "numbers of 64 bits", kinds.is_float64, missing=missing)
        values = np.asarray(column.to_numpy(), np.float64)
        bad = np.isinf(values) if missing else ~np.isfinite(values)
        self.refuse("finite numbers", "non-finite", name, np.asarray(bad))
        return values

    def whole(self, name: str, *, missing: bool = False) -> I64:
        """Return whole numbers that are not negative; null, if some may be missing, is -1."""
        import pyarrow.types as kinds

        column = self._column(name, "whole numbers of 64 bits", kinds.is_int64, missing=missing)
        values = np.asarray(column.fill_null(-1).to_numpy(), np.int64)
        bad = values < (-1 if missing else 0)
        self.refuse("numbers that are not negative", "range", name, np.asarray(bad))
        return values

    def lists(self, name: str) -> tuple[I64, I64]:
        """Return (offsets, values) of lists of whole numbers."""
        import pyarrow.compute as pc
        import pyarrow.types as kinds

        def fits(kind: Any) -> bool:
            return bool(
                (kinds.is_list(kind) or kinds.is_large_list(kind))
                and kinds.is_int64(kind.value_type)
            )

        column = self._column(name, "lists of whole numbers of 64 bits", fits)
        values = pc.list_flatten(column)
        if values.null_count:
            self.refuse("lists without holes", "type", name)
        counts = np.asarray(pc.list_value_length(column).to_numpy(), np.int64)
        return ragged.from_counts(counts), np.asarray(values.to_numpy(), np.int64)

    def flags(self, name: str) -> Flags:
        """Return true or false for every row."""
        import pyarrow.types as kinds

        return np.asarray(self._column(name, "flags", kinds.is_boolean).to_numpy(), np.bool_)

    def texts(self, name: str) -> tuple[list[str], I64]:
        """Return the distinct texts of a column, and the number of its text for every row."""
        import pyarrow as pa
        import pyarrow.types as kinds

        column = self._column(
            name, "text", lambda kind: kinds.is_string(kind) or kinds.is_large_string(kind)
        )
        # Each text once and a number per row: object tables repeat few names many times.
        coded = pa.chunked_array(column.chunks, column.type).combine_chunks().dictionary_encode()
        if isinstance(coded, pa.ChunkedArray):
            coded = coded.unify_dictionaries().combine_chunks()
        return coded.dictionary.to_pylist(), np.asarray(coded.indices.to_numpy(), np.int64)

    def free(self, name: str) -> Column:
        """Return a column of the user: flags, numbers or text, in the kind that it had."""
        import pyarrow.types as kinds

        kind = self._column(name, "flags, numbers or text", lambda kind: True, missing=True).type
        if kinds.is_string(kind) or kinds.is_large_string(kind):
            return texts_column(*self.texts(name))
        # Only kinds that `as_arrow` writes: anything else was not written by Calipers.
        plain = (
            kinds.is_integer(kind)
            or kinds.is_boolean(kind)
            or kinds.is_float32(kind)
            or kinds.is_float64(kind)
        )
        floating = kinds.is_floating(kind)
        # Only floats have a sign for a missing value that NumPy can hold.
        column = self._column(name, "flags, numbers or text", lambda _: plain, missing=floating)
        return np.asarray(column.to_numpy())

    def _column(
        self, name: str, expected: str, fits: Callable[[Any], bool], *, missing: bool = False
    ) -> Any:
        if name not in self.names:
            self.refuse(f"the column {name!r}", "missing-column", "", value=self.names)
        column = self.table.column(name)
        if not fits(column.type):
            self.refuse(expected, "column-type", name, value=str(column.type))
        if column.null_count and not missing:
            self.refuse(
                f"{expected} in every row",
                "type",
                name,
                np.asarray(column.is_null().to_numpy(), np.bool_),
            )
        return column


def texts_column(names: list[str], codes: I64) -> Column:
    """Return the texts of codes as an array."""
    return text_column(names)[codes] if len(codes) else np.array([], np.str_)


def _different_names(schema: Any, file: str) -> None:
    for name in schema.names:
        if schema.names.count(name) > 1:
            raise InputError(
                "unique column names", rule="dup-column", file=file, field=name, hint=HINT
            )


Parts = Mapping[tuple[str, str], StoredColumns]


@dataclass(frozen=True)
class CohortCounts:
    """The counts of the cohort in the document, with which the tables must agree."""

    images: int
    references: int
    dimensions: int
    classes: tuple[str, ...]
    models: Mapping[str, int]
    unscored: frozenset[str]


def read_cohort(
    images: InputFile, objects: InputFile, counts: CohortCounts, intake: Intake
) -> Cohort:
    """Return the cohort of ``images.parquet`` and ``objects.parquet``."""
    image_table = _images(StoredColumns.read(images), counts)
    parts = _parts(StoredColumns.read(objects), counts)
    # References are checked first, then the predictions of every model.
    n_tables = 1 + len(counts.models)
    objects.advance(0, n_tables, step="checking")
    # The references of the first model stand for all; the others are compared with them.
    first = parts[next(iter(counts.models)), KINDS[0]]
    shared = _objects(first, image_table, counts, ("references",))
    references = References(
        **shared,
        facts=_facts(first, ("references",)),
        ignore=first.flags("ignore"),
        crowd=first.flags("crowd"),
    )
    _check_repeated(first, parts, counts)
    models = {}
    for n_done, model in enumerate(counts.models, start=1):
        objects.advance(n_done, n_tables, step="checking")
        part = parts[model, KINDS[1]]
        models[model] = Predictions(
            **_objects(part, image_table, counts, ("models", model), score=part.numbers("score")),
            facts=_facts(part, ("models", model)),
            score=part.numbers("score"),
            scored=model not in counts.unscored,
        )
    objects.advance(n_tables, n_tables, step="checking")
    return Cohort(image_table, counts.classes, references, models, intake)


def image_columns(cohort: Cohort) -> dict[str, Any]:
    """Return one row per image: id, size, spacing and groups; unknown lengths are null."""
    images, d = cohort.images, cohort.dimensions
    columns = {"image": text_column_of(images.ids, np.arange(len(images)))}
    for k in range(d):
        columns[SIDES[k]] = with_nulls(images.size[:, k])
    for k in range(d):
        columns[SPACINGS[k]] = with_nulls(images.spacing[:, k])
    for name, column in images.groups.items():
        columns[GROUP + name], _ = as_arrow(column)
    return columns


def object_columns(cohort: Cohort, table: References | Predictions) -> dict[str, Any]:
    """Return the columns that both kinds of objects have; null where they do not apply."""
    import pyarrow as pa

    ignore: Any = pa.nulls(len(table), pa.bool_())
    crowd, score = ignore, np.full(len(table), np.nan)
    if isinstance(table, Predictions):
        score = table.score
    else:
        ignore, crowd = table.ignore, table.crowd
    corners = {}
    for k, name in enumerate(CORNERS[table.dimensions]):
        corners[name] = with_nulls(table.boxes[:, k])
    return {
        "image": text_column_of(cohort.images.ids, table.image),
        "class": text_column_of(cohort.classes, table.label),
        "score": with_nulls(score),
        **corners,
        "area": with_nulls(table.area),
        "extent": with_nulls(table.extent),
        "ignore": ignore,
        "crowd": crowd,
        "place": with_nulls(table.place.astype(np.int64)),
    }


def fact_columns(tables: Sequence[Objects]) -> dict[str, list[Any]]:
    """Return the facts of several tables as columns with an entry for each table.

    The entry is null where a table has no such fact. A fact of different kinds in two tables is
    written as text; `facts_of` keeps the kinds.
    """
    import pyarrow as pa

    names: dict[str, None] = {}
    for table in tables:
        names.update(dict.fromkeys(table.facts))
    columns: dict[str, list[Any]] = {}
    for name in names:
        arrays = {}
        for k, table in enumerate(tables):
            if name in table.facts:
                arrays[k], _ = as_arrow(table.facts[name])
        kinds = {array.type for array in arrays.values()}
        kind = kinds.pop() if len(kinds) == 1 else pa.string()
        parts = []
        for k, table in enumerate(tables):
            if k not in arrays:
                parts.append(pa.nulls(len(table), kind))
            elif arrays[k].type == kind:
                parts.append(arrays[k])
            else:
                parts.append(as_text(arrays[k]))
        columns[FACT + name] = parts
    return columns


def facts_of(cohort: Cohort) -> dict[str, str]:
    """Return the metadata that says which table has which facts, and of which kind they were."""

    def kinds(table: Objects) -> dict[str, str]:
        return {name: as_arrow(column)[1] for name, column in table.facts.items()}

    models = {name: kinds(predictions) for name, predictions in cohort.models.items()}
    return {FACTS: json.dumps({"references": kinds(cohort.references), "models": models})}


def shapes_of(cohort: Cohort) -> dict[str, str]:
    """Return the metadata that says which tables have masks and points; nothing if none has any."""

    def shape_names(table: Objects) -> list[str]:
        return [name for name in SHAPES if getattr(table, name) is not None]

    models = {name: shape_names(predictions) for name, predictions in cohort.models.items()}
    own = shape_names(cohort.references)
    if not own and not any(models.values()):
        return {}
    return {STORED: json.dumps({"references": own, "models": models})}


def shape_columns(tables: Sequence[Objects]) -> dict[str, list[Any]]:
    """Return the columns of masks and points, with an entry for each table: null where it has none.

    A mask is the list of the first voxels of its runs, the list of their lengths, and the size of
    its image.
    """
    columns: dict[str, list[Any]] = {}
    if any(table.masks is not None for table in tables):
        parts = [_mask_lists(table) for table in tables]
        columns.update(zip(MASK, map(list, zip(*parts))))
    if any(table.points is not None for table in tables):
        for axis, name in enumerate(POINT[: tables[0].dimensions]):
            columns[name] = [_coordinates(table, axis) for table in tables]
    return columns


def _mask_lists(table: Objects) -> list[Any]:
    import pyarrow as pa

    # Large lists count with 64 bits: the runs of a whole data set may exceed 31.
    kind, masks = pa.large_list(pa.int64()), table.masks
    if masks is None:
        return [pa.nulls(len(table), kind)] * len(MASK)
    of_size = masks.dimensions * np.arange(len(masks) + 1)
    lists = (
        (masks.offsets, masks.start),
        (masks.offsets, masks.length),
        (of_size, masks.size.reshape(-1)),
    )
    return [
        pa.LargeListArray.from_arrays(arrow_column(offsets), arrow_column(values))
        for offsets, values in lists
    ]


def _coordinates(table: Objects, axis: int) -> Any:
    import pyarrow as pa

    if table.points is None:
        return pa.nulls(len(table), pa.float64())
    return arrow_column(table.points[:, axis])


def shapes_in(part: StoredColumns, path: tuple[str, ...], dimensions: int) -> dict[str, Any]:
    """Return the masks and points of a table, None for those it lacks.

    ``path`` is where the metadata speak of the table.
    """
    shapes: dict[str, Any] = dict.fromkeys(SHAPES)
    if STORED.encode() not in (part.table.schema.metadata or {}):  # a folder of boxes
        return shapes
    metadata = _shape_metadata(part)
    # Metadata may be anything after a change by hand, so each step down is checked.
    for key in path:
        metadata = metadata.get(key) if isinstance(metadata, dict) else None
    if not isinstance(metadata, list) or not all(name in SHAPES for name in metadata):
        part.refuse("a list of the shapes in the metadata", "missing-key", "", value="/".join(path))
    names = list(metadata or ())
    if "masks" in names:
        shapes["masks"] = _masks(part, dimensions)
    if "points" in names:
        shapes["points"] = _points(part, dimensions)
    return shapes


def _shape_metadata(part: StoredColumns) -> Any:
    try:
        return json.loads(part.table.schema.metadata[STORED.encode()])
    except (ValueError, RecursionError):
        return None


def _masks(part: StoredColumns, dimensions: int) -> Masks:
    offsets, start = part.lists(MASK[0])
    lengths, length = part.lists(MASK[1])
    sides, size = part.lists(MASK[2])
    uneven = np.diff(offsets) != np.diff(lengths)
    part.refuse("as many lengths as starts", "mask-runs", MASK[1], uneven)
    part.refuse(
        f"sizes of {dimensions} numbers", "mask-runs", MASK[2], np.diff(sides) != dimensions
    )
    masks = Masks(offsets, start, length, size.reshape(-1, dimensions))
    wrong = ~sound_runs(masks.offsets, masks.start, masks.length, masks.size)
    part.refuse("runs that ascend, inside of their image and rows", "mask-runs", MASK[0], wrong)
    return masks


def _points(part: StoredColumns, dimensions: int) -> F64:
    return np.stack([part.numbers(name) for name in POINT[:dimensions]], axis=1)


def kinds_of(metadata: Mapping[bytes, bytes] | None) -> Any:
    """Return the kinds of facts in the metadata of a file; None if `facts_of` did not write it."""
    try:
        return json.loads((metadata or {})[FACTS.encode()])
    except (KeyError, ValueError, RecursionError):
        return None


def _images(columns: StoredColumns, counts: CohortCounts) -> Images:
    if len(columns) != counts.images:
        columns.refuse(f"{counts.images} images", "record-count", "", value=len(columns))
    names, codes = columns.texts("image")
    # Texts are numbered once: counting the numbers is faster than comparing texts.
    repeated = np.bincount(codes, minlength=len(names))[codes] > 1
    columns.refuse("one row per image", "dup-image", "image", repeated)
    size = _lengths(columns, SIDES[: counts.dimensions])
    spacing = _lengths(columns, SPACINGS[: counts.dimensions])
    groups = {}
    for name in columns.names:
        if name.startswith(GROUP):
            groups[name.removeprefix(GROUP)] = columns.free(name)
    if UNIT in groups:
        columns.refuse("another name for a group", "group-name", GROUP + UNIT)
    ids = tuple(names[code] for code in codes.tolist())
    return Images(ids, size, spacing, groups)


def _lengths(columns: StoredColumns, sides: tuple[str, ...]) -> F64:
    """Return sizes or spacings, one column per side; null is NaN."""
    lengths = []
    for side in sides:
        values = columns.numbers(side, missing=True)
        columns.refuse("lengths above zero", "image-size", side, np.asarray(values <= 0))
        lengths.append(values)
    return np.stack(lengths, axis=1)


def _parts(columns: StoredColumns, counts: CohortCounts) -> Parts:
    """Return the rows of every model and kind: for each model its references, then predictions."""
    if not counts.models:
        raise InputError("at least one model", rule="no-predictions", file=columns.file, hint=HINT)
    # References are repeated for every model, so that the table can be read on its own.
    total = sum(counts.references + n for n in counts.models.values())
    if len(columns) != total:
        columns.refuse(f"{total} rows", "record-count", "", value=len(columns))
    parts, start = {}, 0
    for model, n_predictions in counts.models.items():
        for kind, n in zip(KINDS, (counts.references, n_predictions)):
            part = columns.part(start, n)
            for name, expected in (("model", model), ("kind", kind)):
                names, codes = part.texts(name)
                bad = np.array([text != expected for text in names], np.bool_)[codes]
                part.refuse(f"{expected!r}", "stored-order", name, bad)
            wrong = part.whole("row") != np.arange(n)
            part.refuse("rows that count the objects of a kind", "stored-order", "row", wrong)
            parts[model, kind] = part
            start += n
    return parts


def _check_repeated(first: StoredColumns, parts: Parts, counts: CohortCounts) -> None:
    """Raise unless the references, which are stored once for every model, are all the same."""
    names = [*OF_REFERENCES, *CORNERS[counts.dimensions], *MASK, *POINT]
    for (model, kind), part in parts.items():
        if kind != KINDS[0] or part is first:
            continue
        for name in names:
            is_stored = name in part.names
            if is_stored and not part.table.column(name).equals(first.table.column(name)):
                expected = "the same references for every model"
                part.refuse(expected, "stored-order", name, value=model)


def _objects(
    part: StoredColumns,
    images: Images,
    counts: CohortCounts,
    path: tuple[str, ...],
    score: F64 | None = None,
) -> dict[str, Any]:
    """Return the columns that references and predictions share, checked like any other input."""
    if len(part) > MOST_OBJECTS:
        part.refuse(f"at most {MOST_OBJECTS} objects", "too-large", "", value=len(part))
    image, label = _image_of(part, images), _label_of(part, counts)
    boxes = np.stack([part.numbers(name) for name in CORNERS[counts.dimensions]], axis=1)
    area, extent = part.numbers("area"), part.numbers("extent")
    # Predictions may be without area, references may not.
    least = "areas above zero" if score is None else "areas that are not negative"
    wrong = np.asarray(extent <= 0 if score is None else extent < 0)
    part.refuse(least, "zero-area", "extent", wrong)
    places = np.arange(part.first, part.first + len(part))
    shapes = shapes_in(part, path, counts.dimensions)
    delivery = Delivery(image, label, boxes, "xyxy", places, score=score, area=area, **shapes)
    # Whether references lie inside their image was checked when they were read, and changes no
    # number here.
    findings = examine(delivery, images.size, "predictions", score_scale="raw", declared=True)
    settle(delivery, findings, Source(part.file, lambda place, field: f"row {place}"))
    return {
        "offsets": ragged.from_owner(image, len(images)),
        "boxes": boxes,
        "extent": extent,
        "label": label.astype(np.int32),
        "place": part.whole("place", missing=True),
        "area": area,
        **shapes,
    }


def _image_of(part: StoredColumns, images: Images) -> I64:
    """Return the image of every object; objects stand in the order of their images."""
    names, codes = part.texts("image")
    index = {name: k for k, name in enumerate(images.ids)}
    image = np.array([index.get(name, -1) for name in names], np.int64)[codes]
    part.refuse("an image of the evaluation", "unknown-image", "image", image < 0)
    # Offsets per image are made from this order, so it cannot be repaired silently.
    falls = np.diff(image, prepend=image[:1]) < 0
    part.refuse("objects in the order of their images", "stored-order", "image", falls)
    return image


def _label_of(part: StoredColumns, counts: CohortCounts) -> I64:
    names, codes = part.texts("class")
    index = {name: k for k, name in enumerate(counts.classes)}
    label = np.array([index.get(name, -1) for name in names], np.int64)[codes]
    part.refuse("a class of the evaluation", "unknown-category", "class", label < 0)
    return label


def _facts(part: StoredColumns, path: tuple[str, ...]) -> dict[str, Column]:
    """Return the further columns of a table, each in the kind that it had."""
    kinds = kinds_of(part.table.schema.metadata)
    for key in path:
        kinds = kinds.get(key) if isinstance(kinds, dict) else None
    if not isinstance(kinds, dict):
        part.refuse("a list of the facts in the metadata", "missing-key", "", value="/".join(path))
    facts = {}
    for name, kind in dict(kinds or {}).items():
        column = part.free(FACT + name)
        if kind != TEXT and column.dtype.kind == "U":
            column = _parse_column(part, FACT + name, column, kind)
        facts[name] = column
    return facts


def _parse_column(part: StoredColumns, name: str, column: Column, kind: Any) -> Column:
    """Return numbers or flags that were stored as text, because another table has text there."""
    try:
        dtype = np.dtype(str(kind))
        if dtype.kind not in "biuf":
            raise ValueError(f"no kind {kind!r}")
        if dtype.kind == "b":
            return np.asarray(column == "True")
        return np.asarray(column.astype(dtype))
    except (ValueError, TypeError, OverflowError):
        part.refuse(f"numbers of the kind {kind!r}", "column-type", name)
        raise
