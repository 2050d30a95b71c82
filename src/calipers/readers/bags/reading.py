# SPDX-License-Identifier: Apache-2.0
"""`read_bags`: read the maps of several models from files of any kind, paired by bag id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

from calipers.arguments import path as as_path
from calipers.arguments import several, shown, word
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.readers.bags.agreement import check_models
from calipers.readers.bags.arrays import open_npy, open_npz
from calipers.readers.bags.file_bags import FileBags
from calipers.readers.bags.folders import open_folder, open_single
from calipers.readers.bags.labels import Labels, read_labels
from calipers.readers.bags.model_maps import ModelMaps
from calipers.readers.bags.scores import read_groups, read_scores
from calipers.readers.bags.tables import open_table
from calipers.readers.columnar import MAGIC
from calipers.readers.source import open_regular, require_file
from calipers.readers.volumes.opening import stem_of
from calipers.readers.volumes.values import NORMALISATIONS

PathName = str | PathLike[str]
Models = Mapping[str, PathName] | Sequence[PathName | tuple[str, PathName]] | PathName
TABLES = (".csv", ".tsv", ".txt", ".parquet")
HEAD = 8


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
        How values become numbers in [0, 1], as in `calipers.readers.volumes.as_map`: ``"uint8"``
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
    >>> from calipers.readers.bags import read_bags
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
    if path.is_dir():
        return [open_folder(path, name or path.resolve().name, pattern)]
    own = name or stem_of(path.name) or path.stem
    require_file(path)
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
        for maps in open_table(path, name, unit=unit):
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
