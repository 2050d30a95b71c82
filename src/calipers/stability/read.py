# SPDX-License-Identifier: Apache-2.0
"""`read_bags`: read the maps of several models from files of any kind, paired by bag id.

It opens the maps of every model (folders, arrays, or a long table with a row per instance), checks
that all models have the same bags with maps of the same shape in the same place (`check_models`;
the error names the first difference), and adds labels, groups, and the score that every model gives
the whole bag. The result is `FileBags`, a source of bags for `calipers.stability`: all headers are
checked, and values are read one bag at a time.

`calipers.stability.files` opens single files and folders, `calipers.stability.labels` reads labels.
"""

from __future__ import annotations

import math
import os
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from calipers.arrays import F64, I64, Column, Flags
from calipers.data.bags import Bag
from calipers.data.look_alikes import hint_on_names
from calipers.errors import InputError, UsageError, did_you_mean, several, shown, word
from calipers.errors import path as as_path
from calipers.io.archives import is_archive, list_archive
from calipers.io.reader import ImageList, Options
from calipers.io.source import open_regular, require_file
from calipers.io.tables.columns import ColumnSpec, declare, find_columns, missing_column
from calipers.io.tables.objects import add_groups
from calipers.io.tables.table import MAGIC, FileTable, codes, open_table, strict_numbers, texts
from calipers.io.volumes.open import stem_of
from calipers.io.volumes.samples import check_pair
from calipers.io.volumes.values import NORMALISATIONS, as_map
from calipers.io.volumes.volume import Volume, shape_text
from calipers.stability.files import (
    BAG,
    MAPS,
    ModelMaps,
    check_shape,
    located,
    open_folder,
    open_npy,
    open_npz,
    open_single,
    rename_column,
)
from calipers.stability.labels import BagBoxes, Labels, read_labels

# From boxes (n, 4), (width, height) of the image and (rows, columns) of the map to flags.
Rule = Callable[[F64, tuple[float, float], tuple[int, int]], Flags]
GRID = 2  # axes of a map that boxes can be laid on

PathName = str | PathLike[str]
SIDES = 2  # axes of sizes and spacings, which are not used here

# Axes of a map, the most of them first.
PLACES = (("slice", "row", "column"), ("row", "column"), ("instance",))
LONG_TABLE = declare(
    BAG,
    ColumnSpec("value", ("value", "score", "probability"), required=True, kind="number"),
    ColumnSpec("model", ("model",)),
    ColumnSpec("slice", ("slice", "z"), kind="number"),
    ColumnSpec("row", ("row",), kind="number"),
    ColumnSpec("column", ("column", "col"), kind="number"),
    ColumnSpec("instance", ("instance", "instance_id", "patch", "index"), kind="number"),
)
LARGEST = 1 << 31

SHOWN = 3

Models = Mapping[str, PathName] | Sequence[PathName | tuple[str, PathName]] | PathName
TABLES = (".csv", ".tsv", ".txt", ".parquet")
HEAD = 8


@dataclass(frozen=True)
class FileBags:
    """The maps of several models of the same bags, in files; `read_bags` makes it.

    It is a source of bags (`calipers.data.bags.Bags`): the maps of one bag, of all models, are in
    memory at a time.
    """

    sources: tuple[ModelMaps, ...]
    ids: tuple[str, ...]
    labels: Labels = field(default_factory=Labels)
    bag_scores: F64 | None = None  # (n_models, n_bags)
    groups: Mapping[str, Column] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    normalise: str = "none"
    rule: Rule | None = None  # from boxes to instances

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models."""
        return tuple(source.model for source in self.sources)

    @property
    def positive(self) -> Flags | None:
        """(n_bags,) which bags are positive; None without labels."""
        return self.labels.positive

    @property
    def boxes(self) -> Mapping[str, F64]:
        """Bag -> (n, 4) corners of its findings in pixels of its image; (0, 4) for negative bags.

        Positive bags without boxes are left out.
        """
        return {} if self.labels.boxes is None else self.labels.boxes.of

    @property
    def sizes(self) -> Mapping[str, tuple[float, float]]:
        """Bag -> width and height of the image that `boxes` lie on."""
        return {} if self.labels.boxes is None else self.labels.boxes.sizes

    def with_instances(self, rule: Rule) -> FileBags:
        """Return the bags with positive instances from their boxes.

        Parameters
        ----------
        rule
            Called with the (n, 4) boxes, (width, height) of the image and (rows, columns) of the
            map; returns (rows, columns) flags: `calipers.stability.grid.instance_labels` with
            one of its rules.
        """
        for bag in self.boxes:
            volume = self.sources[0].maps[bag]
            if len(_without_single_slice(volume.shape)) != GRID:
                value = f"{len(volume.shape)} axes"
                place = f"model {self.models[0]!r}, bag {bag!r}"
                hint = "boxes need maps of rows and columns; for others, give a folder of masks"
                raise InputError(
                    "maps of two axes",
                    rule="volume-shape",
                    file=volume.file,
                    location=place,
                    value=value,
                    hint=hint,
                )
        return replace(self, rule=rule)

    def __len__(self) -> int:
        """Return the number of bags."""
        return len(self.ids)

    def __getitem__(self, i: int) -> Bag:
        """Read one bag of all models."""
        bag = self.ids[i]
        shape = self.sources[0].maps[bag].shape
        values = np.empty((len(self.sources), math.prod(shape)), np.float64)
        for k, source in enumerate(self.sources):
            values[k] = self._read(source.model, bag, source.maps[bag])
        return Bag(bag, values, shape, self._instances(i, shape))

    def alone(self, i: int) -> FileBags:
        """Return bag i as the only one, for a worker that gets nothing else."""
        bag = self.ids[i]
        sources = []
        for source in self.sources:
            sources.append(replace(source, maps={bag: source.maps[bag]}))
        masks = self.labels.masks
        if masks is not None:
            masks = (masks[i],)
        labels = Labels(boxes=_boxes_of(self.labels.boxes, bag), masks=masks)
        return FileBags(tuple(sources), (bag,), labels, normalise=self.normalise, rule=self.rule)

    def fingerprint(self, i: int) -> str:
        """Return a line that changes when a file of a bag does, or its boxes."""
        bag = self.ids[i]
        words = [bag]
        volumes = [source.maps[bag] for source in self.sources]
        if self.labels.masks is not None:
            volumes.append(self.labels.masks[i])
        for volume in volumes:
            words += volume.trace()
        if bag in self.boxes:
            words.append(f"boxes={self.boxes[bag].tolist()} of {self.sizes[bag]}")
        return " ".join(words)

    def file_bytes(self) -> int:
        """Return the size of all maps in their files."""
        total = 0
        for source in self.sources:
            total += sum(source.maps[bag].bytes for bag in self.ids)
        return total

    def settings(self) -> dict[str, str]:
        """Return what else decides the instances of all bags, for JSON."""
        return {"normalise": self.normalise, "rule": _rule_text(self.rule)}

    def _read(self, model: str, bag: str, volume: Volume) -> F64:
        try:
            return as_map(volume.read(), self.normalise, file=volume.file).ravel()
        except InputError as error:
            raise located(error, model, bag) from None

    def _instances(self, i: int, shape: tuple[int, ...]) -> Flags | None:
        bag = self.ids[i % len(self.ids)]
        if self.labels.masks is not None:
            return self.labels.mask(i)
        if self.rule is None or bag not in self.boxes:
            return None
        # A negative bag: rules need a box, so they are not asked.
        if not len(self.boxes[bag]):
            return np.zeros(math.prod(shape), np.bool_)
        # Without the single slice of a picture that was saved as a volume.
        grid = (shape[-2], shape[-1])
        return np.asarray(self.rule(self.boxes[bag], self.sizes[bag], grid), np.bool_).ravel()


def _boxes_of(boxes: BagBoxes | None, bag: str) -> BagBoxes | None:
    """Return the boxes of one bag; None if nobody knows them."""
    if boxes is None or bag not in boxes.of:
        return None
    return BagBoxes({bag: boxes.of[bag]}, {bag: boxes.sizes[bag]})


def _rule_text(rule: Rule | None) -> str:
    """Return the name and the settings of a rule."""
    if rule is None:
        return "none"
    keywords = getattr(rule, "keywords", {})  # of a functools.partial
    name = getattr(getattr(rule, "func", rule), "__name__", type(rule).__name__)
    return f"{name} {sorted(keywords.items())}"


def _without_single_slice(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape without an axis of one slice: a picture that was saved as a volume."""
    return shape[1:] if len(shape) == GRID + 1 and shape[0] == 1 else shape


def read_bags(
    models: Models,
    labels: PathName | None = None,
    *,
    groups: PathName | None = None,
    scores: PathName | None = None,
    pattern: str | None = None,
    label_pattern: str | None = None,
    normalise: str = "none",
) -> FileBags:
    """Pair the maps of several models of the same images. Maps are read one image at a time, when
    they are used.

    Parameters
    ----------
    models
        Name -> files of a model; or files, which name the models; or pairs (name, files). Files are
        a folder with a file per bag (NIfTI, NRRD, MetaImage, npy, npz, PNG, TIFF); ``.npz`` with an
        array per bag, or with ``maps`` (bags, ...) and ``ids``; ``.npy`` (bags, ...); or a table
        with the columns bag, instance (or row and column) and value, and maybe model.
    labels
        A table with the columns bag and label (0 or 1), further columns as groups, and maybe boxes
        (x0, y0, x1, y1, width, height); or a folder of masks of the shape of the maps; or a
        ``.npy`` array of 0 and 1.
    groups
        A table with a row per bag: patient, centre, any column.
    scores
        A table with a row per bag and a column per model: the model's score of the whole bag.
    pattern
        The paths in a folder with ``{name}`` in place of the id of a bag, such as
        ``"{name}_map.nii.gz"``.
    label_pattern
        The same for a folder of masks.
    normalise
        How values become numbers in [0, 1], as in `calipers.io.volumes.values.as_map`: ``"uint8"``
        for pictures.

    Returns
    -------
    FileBags
        In the order of the bags of the first model.

    Notes
    -----
    Bags are paired by their ids; arrays without ids are paired by position, and then their bags are
    called 0, 1, ... The headers of all maps are checked before any value is read.

    Raises
    ------
    InputError
        ``one-model``, ``no-bags``; ``bags-differ``: a bag that one model has and another lacks;
        ``dup-bag``; ``shape-mismatch``; ``labels-differ``; those of volumes; ``non-finite`` and
        ``score-range`` when a bag is read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from calipers.stability.read import read_bags
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name, values in {"a": [0.1, 0.9], "b": [0.2, 0.7]}.items():
    ...     np.savez(folder / f"{name}.npz", xray1=np.array([values, values]))
    >>> bags = read_bags([folder / "a.npz", folder / "b.npz"])
    >>> bags.models, bags.ids, bags[0].shape
    (('a', 'b'), ('xray1',), (2, 2))
    """
    if normalise not in NORMALISATIONS:
        raise UsageError(
            f"no normalisation {normalise!r}; {did_you_mean(normalise, NORMALISATIONS)}"
        )
    groups = None if groups is None else as_path("groups", groups)
    scores = None if scores is None else as_path("scores", scores)
    if pattern is not None:
        word("pattern", pattern)
    if label_pattern is not None:
        word("label_pattern", label_pattern)
    sources: list[ModelMaps] = []
    # Values are checked with their line where they are numbers in [0, 1] as they stand; a
    # normalisation changes them first.
    for name, path in _names_and_paths(models):
        sources += open_model(path, name, pattern, unit=normalise == "none")
    notes = [note for source in sources for note in source.notes]
    ids, model_notes = check_models(sources)
    bag_labels = Labels()
    if labels is not None:
        maps = {bag: sources[0].maps[bag] for bag in ids}
        bag_labels = read_labels(Path(as_path("labels", labels)), maps, label_pattern)
    columns, group_notes = read_groups(groups, ids, bag_labels.groups)
    bag_scores = None
    if scores is not None:
        bag_scores = read_scores(scores, ids, [source.model for source in sources])
    notes += [*model_notes, *bag_labels.notes, *group_notes]
    return FileBags(
        sources=tuple(sources),
        ids=ids,
        labels=bag_labels,
        bag_scores=bag_scores,
        groups=columns,
        notes=tuple(dict.fromkeys(notes)),
        normalise=normalise,
    )


def open_model(
    path: Path, name: str, pattern: str | None = None, *, unit: bool = True
) -> list[ModelMaps]:
    """Return the maps of a file or folder: of one model, or of those in the column ``model`` of a
    table.

    ``name`` is that of the model; "" takes the name of the file.
    """
    if os.path.isdir(path):  # a name that is too long is no folder
        return [open_folder(path, name or path.resolve().name, pattern)]
    # An archive with a member of this name holds one array of all maps, as npz files do.
    if is_archive(path) and f"{MAPS}.npy" not in list_archive(path).files:
        return [open_folder(path, name or path.stem, pattern)]
    own = name or stem_of(path.name) or path.stem
    require_file(path)
    # By the first bytes and not by the name, which may be anything.
    with open_regular(path, follow=True) as file:
        head = file.read(HEAD)
    if head.startswith(b"\x93NUMPY"):
        return [open_npy(path, own)]
    if head.startswith((b"PK\3\4", b"PK\5\6")):
        return [open_npz(path, own)]
    if head.lstrip()[:1] in (b"{", b"["):
        hint = (
            "to turn predicted boxes into maps, add their references: "
            "calipers stability ... --references REFS"
        )
        raise InputError(
            "maps of a model", rule="wrong-role", file=str(path), value="JSON", hint=hint
        )
    if head.startswith(MAGIC) or path.name.lower().endswith(TABLES):
        models = []
        for maps in open_long_table(path, name, unit=unit):
            models.append(maps if maps.model else replace(maps, model=own))
        return models
    return [open_single(path, own)]


def _names_and_paths(models: Models) -> list[tuple[str, Path]]:
    """Return (name, path) of every model; "" for a model that is named by its file."""
    if isinstance(models, Mapping):
        return [
            (str(name), Path(as_path(f"model {name!r}", path))) for name, path in models.items()
        ]
    entries = [models] if isinstance(models, str | PathLike) else several("models", models)
    pairs = []
    for entry in entries:
        pair = entry if isinstance(entry, tuple) else ("", entry)
        if len(pair) != 2:
            raise UsageError(f"a model is a path, or a pair of name and path, not {shown(pair)}")
        pairs.append(pair)
    return [(str(name), Path(as_path("a model", path))) for name, path in pairs]


def open_long_table(path: Path, model: str, *, unit: bool = True) -> list[ModelMaps]:
    """Return the maps of every model of a table (CSV, TSV or parquet).

    Parameters
    ----------
    model
        The name of the model if the table has no column ``model`` or only one model in it; with
        several models, a prefix of their names, unless it is empty.
    unit
        Whether values outside [0, 1] are errors here, with their line.

    Notes
    -----
    Columns: ``bag`` (or ``image``), ``value`` (or ``score``, ``probability``) and the place:
    ``instance``, or ``row`` and ``column``, or ``slice`` too. Places count from 0 or from 1, and
    every bag has all of them, each once.
    """
    table = open_table(path)
    columns = find_columns(table, LONG_TABLE)
    bag, ids = _names(table, columns["bag"])
    model_code, names = np.zeros(len(table), np.int64), [""]
    if "model" in columns:
        model_code, names = _names(table, columns["model"])
    values = _values(table, columns["value"], unit)
    rows = _sorted_rows(table, _place_columns(table, columns), model_code, bag, values)
    shapes = _shapes(rows, ids)
    maps: list[dict[str, Volume]] = [{} for _ in names]
    # Rows are sorted by model, then by the code of their bag, which counts the ids in order.
    for k, (start, stop) in enumerate(zip(rows.starts.tolist(), rows.stops.tolist())):
        reader = partial(_map_of_rows, rows.values, start, stop, shapes[k])
        volume = Volume(table.file, table.format, shapes[k], np.dtype(np.float64), reader)
        maps[int(rows.model[k])][ids[int(rows.bag[k])]] = volume
    if not names:
        return [ModelMaps(model, table.file, {})]
    models = []
    for k, own_maps in enumerate(maps):
        models.append(ModelMaps(_model_title(model, names, k), table.file, own_maps))
    return models


@dataclass(frozen=True)
class _ScoreRows:
    """The rows in the order of model, bag and place; a map is a stretch of them."""

    table: FileTable
    order: I64  # (n,) row of the table
    starts: I64  # (m,) where every map begins
    stops: I64
    model: I64  # (m,)
    bag: I64  # (m,)
    values: F64  # (n,) in this order
    places: I64  # (n, axes) in this order, counted from 0
    axes: tuple[str, ...]  # columns of the places


def _model_title(prefix: str, names: Sequence[str], k: int) -> str:
    own = names[k]
    if not own or (prefix and len(names) == 1):
        return prefix
    return f"{prefix}/{own}" if prefix else own


def _names(table: FileTable, column: str) -> tuple[I64, list[str]]:
    """Return the (n,) code of the name in every row, and the names; an empty name is an error."""
    # Names are cleaned once each, not once per row.
    raw, cells = codes(texts(table, column))
    clean, names = codes([unicodedata.normalize("NFC", cell.strip()) for cell in cells])
    # Instances of two bags would silently be those of one.
    if len(names) < len(cells):
        k = next(k for k in range(len(cells)) if clean[k] in clean[:k])
        first = int(np.flatnonzero(clean[:k] == clean[k])[0])
        row, hint = int(np.flatnonzero(raw == k)[0]), hint_on_names(cells[first], cells[k])
        raise table.error(row, column, "dup-name", "one spelling of every name", cells[k], hint)
    name_code = clean[raw]
    if "" in names:
        row = int(np.flatnonzero(name_code == names.index(""))[0])
        raise table.error(row, column, "missing-id", f"the {column} of every row", "")
    return name_code, names


def _values(table: FileTable, name: str, unit: bool) -> F64:
    values = strict_numbers(table, name)
    for wrong, rule, expected in (
        (~np.isfinite(values), "non-finite", "a finite value for every instance"),
        (unit & ((values < 0) | (values > 1)), "score-range", "values in [0, 1]"),
    ):
        rows = np.flatnonzero(wrong)
        if len(rows):
            hint = "give probabilities, or 0 and 1" if rule == "score-range" else ""
            cell = texts(table, name)[rows[0]]
            raise table.error(int(rows[0]), name, rule, expected, cell, hint)
    return values


def _place_columns(table: FileTable, columns: Mapping[str, str]) -> tuple[str, ...]:
    for axes in PLACES:
        if set(axes) <= set(columns):
            return tuple(columns[axis] for axis in axes)
    raise missing_column(
        table,
        "a column instance, or columns row and column",
        "a row holds the value of one instance: bag,row,column,value or bag,instance,value",
    )


def _sorted_rows(
    table: FileTable, columns: tuple[str, ...], model: I64, bag: I64, values: F64
) -> _ScoreRows:
    """Return the rows by model, bag and place."""
    places = np.stack([_whole_numbers(table, name) for name in columns], axis=1)
    # Places count from 0 or from 1, and some bag has the first one; `_shapes` checks the rest.
    if len(table):
        places = places - places.min(axis=0)
    order = np.lexsort((*places.T[::-1], bag, model))
    model, bag = model[order], bag[order]
    new = np.flatnonzero((np.diff(model, prepend=-1) != 0) | (np.diff(bag, prepend=-1) != 0))
    stops = np.append(new[1:], len(order)) if len(new) else new
    return _ScoreRows(
        table, order, new, stops, model[new], bag[new], values[order], places[order], columns
    )


def _whole_numbers(table: FileTable, name: str) -> I64:
    values = strict_numbers(table, name)
    rows = np.flatnonzero(~((values >= 0) & (values < LARGEST) & (values == np.floor(values))))
    if len(rows):
        cell = texts(table, name)[rows[0]]
        expected = "a whole number that counts from 0 or 1"
        raise table.error(int(rows[0]), name, "type", expected, cell)
    places = values.astype(np.int64)
    if len(places) and places.min() > 1:
        expected, lowest = "places that count from 0 or 1", int(places.min())
        row = int(places.argmin())
        raise table.error(row, name, "instances", expected, lowest)
    return places


def _shapes(rows: _ScoreRows, ids: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the shape of every map; a place twice, or one that is missing, is an error."""
    if not len(rows.starts):
        return []
    same = np.flatnonzero((np.diff(rows.places, axis=0) == 0).all(axis=1)) + 1
    # The first row of a map may repeat the place of the last row of the map before it.
    same = same[~np.isin(same, rows.starts)]
    if len(same):
        row, name = int(rows.order[same[0]]), rows.axes[-1]
        at = _place_text(rows, rows.places[same[0]])
        expected = f"every instance of a bag once, not {at} twice"
        raise rows.table.error(row, name, "instances", expected)
    sides = np.maximum.reduceat(rows.places, rows.starts, axis=0) + 1
    counts = rows.stops - rows.starts
    # Multiplied as floats: integers up to 2^31 per side may overflow. Rounding sets in above 2^53,
    # far more than the rows of a table, so equality is exact wherever it can hold.
    wrong = np.flatnonzero(sides.astype(np.float64).prod(axis=1) != counts)
    if len(wrong):
        raise _missing_instance(rows, int(wrong[0]), tuple(sides[wrong[0]].tolist()), ids)
    shapes = [tuple(side) for side in sides.tolist()]
    for shape in set(shapes):
        check_shape(shape, 8, rows.table.file)
    return shapes


def _missing_instance(
    rows: _ScoreRows, k: int, shape: tuple[int, ...], ids: Sequence[str]
) -> InputError:
    """Return the error for a bag that lacks an instance, with the first one that it lacks."""
    start, stop = int(rows.starts[k]), int(rows.stops[k])
    flat = np.zeros(stop - start, np.float64)
    for axis, side in enumerate(shape):
        flat = flat * side + rows.places[start:stop, axis]
    gaps = np.flatnonzero(flat != np.arange(stop - start))
    first: list[Any] = []
    position = int(gaps[0]) if len(gaps) else stop - start
    for side in reversed(shape):
        first.insert(0, position % side)
        position //= side
    return InputError(
        f"a value for each of {' x '.join(map(str, shape))} instances",
        rule="instances",
        file=rows.table.file,
        location=f"bag {ids[int(rows.bag[k])]!r}",
        value=f"{stop - start}; the first missing one is {_place_text(rows, first)}, "
        "counted from 0",
        hint="every bag needs a value for each of its instances",
    )


def _place_text(rows: _ScoreRows, place: Any) -> str:
    return ", ".join(f"{name} {int(at)}" for name, at in zip(rows.axes, place))


def _map_of_rows(values: F64, start: int, stop: int, shape: tuple[int, ...]) -> F64:
    return values[start:stop].reshape(shape)


def check_models(sources: Sequence[ModelMaps]) -> tuple[tuple[str, ...], list[str]]:
    """Return the ids of the bags in the order of the first model, and notes; raise at the first
    difference.
    """
    names = [source.model for source in sources]
    twice = next((k for k, name in enumerate(names) if name in names[:k]), None)
    if twice is not None:
        first = sources[names.index(names[twice])].source
        raise UsageError(
            f"two models are called {names[twice]!r}; name them: "
            f"first={first} second={sources[twice].source}"
        )
    if len(sources) < 2:
        raise _too_few(sources)
    # All are compared with the first: equality is transitive, and errors name one pair.
    reference = sources[0]
    notes: list[str] = []
    for source in sources[1:]:
        _check_bags(reference, source)
        notes += _check_maps(reference, source)
        if source.named and list(source.maps) != list(reference.maps):
            notes.append(
                f"the bags of {source.model} are in another order than those of "
                f"{reference.model}; they are paired by their ids"
            )
    if not reference.named and len(reference.maps) > 1:
        notes.append("the maps have no ids: bags are paired by position and are called 0, 1, ...")
    return tuple(reference.maps), notes


def _too_few(sources: Sequence[ModelMaps]) -> InputError:
    """Return the error for a single model, or none."""
    file = "<none>"
    hint = (
        "stability is agreement between models: give the maps of two or more, "
        "or a table with a column model"
    )
    if sources:
        file = sources[0].source
        folders = sorted({bag.split("/")[0] for bag in sources[0].maps if "/" in bag})
        # The user may have passed the folder that contains the folders of the models.
        if len(folders) > 1:
            root = file.rstrip("/")
            hint += (
                "; if its folders are the models, name each: "
                f"{root}/{folders[0]} {root}/{folders[1]} ..."
            )
    return InputError(
        "at least two models",
        rule="one-model",
        file=file,
        value=f"{len(sources)} of them",
        hint=hint,
    )


def _check_bags(reference: ModelMaps, other: ModelMaps) -> None:
    """Raise unless both have the same bags."""
    if reference.named != other.named:
        with_ids, nameless = (reference, other) if reference.named else (other, reference)
        hint = (
            f"save {nameless.source} as an npz with maps and ids, "
            "or as a folder with a file per bag"
        )
        raise InputError(
            f"ids of the bags, as {with_ids.source} has them",
            rule="bags-differ",
            file=nameless.source,
            location=f"model {nameless.model!r}",
            value="maps by position",
            hint=hint,
        )
    absent = [bag for bag in reference.maps if bag not in other.maps]
    extra = [bag for bag in other.maps if bag not in reference.maps]
    if not absent and not extra:
        return
    if not reference.named:
        raise InputError(
            f"{len(reference.maps)} bags, as {reference.source} has",
            rule="bags-differ",
            file=other.source,
            location=f"model {other.model!r}",
            value=f"{len(other.maps)} bags",
            hint=(
                "maps without ids are paired by position, "
                "so every model needs all bags in the same order"
            ),
        )
    value = f"{len(extra)} more"
    if absent:
        value = f"{len(absent)} of them missing, {len(extra)} more"
    examples = [_examples("missing", absent), _examples("only here", extra)]
    raise InputError(
        f"the bags of {reference.source}, model {reference.model!r}",
        rule="bags-differ",
        file=other.source,
        location=f"model {other.model!r}, bag {(absent or extra)[0]!r}",
        value=value,
        hint="; ".join(example for example in examples if example),
    )


def _examples(what: str, bags: Sequence[str]) -> str:
    if not bags:
        return ""
    more = f" and {len(bags) - SHOWN} more" if len(bags) > SHOWN else ""
    return f"{what}: {', '.join(map(repr, bags[:SHOWN]))}{more}"


def _check_maps(reference: ModelMaps, other: ModelMaps) -> list[str]:
    """Raise for the first map that does not lie on the grid of the reference; return notes."""
    without = 0
    for bag, volume in reference.maps.items():
        if other.maps[bag].shape != volume.shape:
            raise _other_shape(reference, other, bag)
        try:
            without += len(check_pair(volume, other.maps[bag])) > 0
        except InputError as error:
            raise located(error, other.model, bag) from None
    if not without:
        return []
    maps = f"{without} of {len(reference.maps)} maps of {reference.model} and {other.model}"
    return [
        f"{maps}: only one of the two has an orientation; "
        "the other is assumed to lie on the same grid"
    ]


def _other_shape(reference: ModelMaps, other: ModelMaps, bag: str) -> InputError:
    first, second = reference.maps[bag], other.maps[bag]
    return InputError(
        f"the shape of the map in {first.file}, {shape_text(first.shape)}",
        rule="shape-mismatch",
        file=second.file,
        location=f"model {other.model!r}, bag {bag!r}",
        value=shape_text(second.shape),
        hint=(
            "instances are compared one by one: "
            "resample the maps of all models to one shape, axes [z, ]y, x"
        ),
    )


def read_groups(
    path: PathName | None, bags: Sequence[str], columns: Mapping[str, Column]
) -> tuple[dict[str, Column], list[str]]:
    """Return ``columns`` with those of a table added, and notes; every bag needs a row."""
    if path is None:
        return dict(columns), []
    table = open_table(fspath(path))
    column = BAG.require(table)
    # The reader of groups looks for the column of images.
    if column.lower() not in ("image", "image_id", "id"):
        table = rename_column(table, column, "image")
    # Sizes and spacings play no part in stability.
    unknown = np.full((len(bags), SIDES), np.nan)
    images = ImageList(list(bags), unknown, unknown, dict(columns))
    images, intake = add_groups(images, table, Options())
    return dict(images.groups), list(intake.notes)


def read_scores(path: PathName, bags: Sequence[str], models: Sequence[str]) -> F64:
    """Return the (n_models, n_bags) scores of whole bags: a row per bag, a column per model."""
    table = open_table(fspath(path))
    rows = _rows(table, bags)
    scores = np.empty((len(models), len(bags)), np.float64)
    for k, model in enumerate(models):
        if model not in table.names:
            raise missing_column(
                table, f"a column {model!r}, the name of a model", did_you_mean(model, table.names)
            )
        values = strict_numbers(table, model)
        wrong = np.flatnonzero(~np.isfinite(values[rows]))
        if len(wrong):
            row = rows[int(wrong[0])]
            raise table.error(
                row, model, "non-finite", "a score of every bag", texts(table, model)[row]
            )
        scores[k] = values[rows]
    return scores


def _rows(table: FileTable, bags: Sequence[str]) -> list[int]:
    """Return the row of every bag; rows of other bags are not an error, a bag without a row is."""
    column = BAG.require(table)
    row_of: dict[str, int] = {}
    for row, name in enumerate(texts(table, column)):
        bag = unicodedata.normalize("NFC", name.strip())
        if bag in row_of:
            raise table.error(row, column, "dup-bag", "one row per bag", name)
        row_of[bag] = row
    absent = [bag for bag in bags if bag not in row_of]
    if absent:
        hint = f"{len(absent)} of {len(bags)} bags have none"
        raise InputError(
            "a score of every bag",
            rule="labels-differ",
            file=table.file,
            location=f"bag {absent[0]!r}",
            hint=hint,
        )
    return [row_of[bag] for bag in bags]
