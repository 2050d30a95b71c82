# SPDX-License-Identifier: Apache-2.0
"""`read_bags`: the maps of several models, from files of any of the kinds, paired by the ids of
their bags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """Pair the maps of several models of the same images; maps are read one image at a time, when
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
        A table with a row per bag and a column per model: what the model says of the whole bag.
    pattern
        Where the name of a bag stands in the paths of a folder, such as ``"{name}_map.nii.gz"``.
    label_pattern
        The same for a folder of masks.
    normalise
        How values become numbers in [0, 1], as `calipers.readers.volumes.as_map` says: ``"uint8"``
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
        ``one-model``, ``no-bags``; ``bags-differ``: a bag that one model has and another has not;
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
    for name, given in (("pattern", pattern), ("label_pattern", label_pattern)):
        if given is not None:
            word(name, given)
    sources: list[ModelMaps] = []
    for name, path in _named(models):
        sources += open_model(path, name, pattern, unit=normalise == "none")
    notes = [note for source in sources for note in source.notes]
    ids, more = check_models(sources)
    first = {bag: sources[0].maps[bag] for bag in ids}
    known = (
        Labels()
        if labels is None
        else read_labels(Path(as_path("labels", labels)), first, label_pattern)
    )
    columns, told = read_groups(groups, ids, known.groups)
    said = (
        None if scores is None else read_scores(scores, ids, [source.model for source in sources])
    )
    notes += [*more, *known.notes, *told]
    return FileBags(
        tuple(sources), ids, known, said, columns, tuple(dict.fromkeys(notes)), normalise
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
        hint = "predictions of boxes become maps beside their references: calipers stability ... --references REFS"
        raise InputError(
            "maps of a model", rule="wrong-role", file=str(path), value="JSON", hint=hint
        )
    if head.startswith(MAGIC) or path.name.lower().endswith(TABLES):
        found = open_table(path, name, unit=unit)
        return [
            one if one.model else ModelMaps(own, one.source, one.maps, one.named, one.notes)
            for one in found
        ]
    return [open_single(path, own)]


def _named(models: Models) -> list[tuple[str, Path]]:
    """Return (name, path) of every model; without a name it is that of the file."""
    if isinstance(models, Mapping):
        return [
            (str(name), Path(as_path(f"model {name!r}", path))) for name, path in models.items()
        ]
    given = [models] if isinstance(models, str | PathLike) else several("models", models)
    pairs = [entry if isinstance(entry, tuple) else ("", entry) for entry in given]
    odd = next((pair for pair in pairs if len(pair) != 2), None)
    if odd is not None:
        raise UsageError(f"a model is a path, or a pair of name and path, not {shown(odd)}")
    return [(str(name), Path(as_path("a model", path))) for name, path in pairs]
