# SPDX-License-Identifier: Apache-2.0
"""Reads maps of networks from a folder DATA SET / OPERATOR / MODEL, with labels beside them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calipers.errors import InputError
from calipers.readers.bags import FileBags, read_bags
from calipers.readers.source import hash_file
from calipers.stability.instances import instance_labels

FILES = (".npz", ".npy")  # a model in one file
NOT_MODELS = ("masks",)
LAYOUT = (
    "give FOLDER/DATA SET/OPERATOR/MODEL, each model a folder of maps or an .npz, beside "
    "labels.csv or masks"
)


@dataclass(frozen=True)
class NetworkMaps:
    """The contents of a folder: bags by data set and operator, input files, and notes."""

    bags: Mapping[tuple[str, str], FileBags]
    inputs: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]


def read_maps(folder: str | Path) -> NetworkMaps:
    """Open the maps of a folder; headers are checked now, values are read when they are used.

    Notes
    -----
    Beside the models of an operator may stand ``labels.csv`` (or ``masks``), else those of its data
    set are used; and ``scores.csv`` with what each model says of whole bags. Folders whose name
    begins with a dot are passed over.
    """
    root = Path(folder)
    if not root.is_dir():
        raise InputError("a folder of maps", rule="not-a-folder", file=str(root), hint=LAYOUT)
    bags: dict[tuple[str, str], FileBags] = {}
    inputs: list[Mapping[str, Any]] = []
    notes: list[str] = []
    for data in _folders(root):
        for operator in _folders(data):
            models = _models(operator)
            if len(models) < 2:
                raise InputError(
                    "two models or more", rule="one-model", file=str(operator), hint=LAYOUT
                )
            beside = _beside(operator, data)
            model_paths = {path.stem: path for path in models}
            file_bags = read_bags(model_paths, beside.get("labels"), scores=beside.get("scores"))
            key = (data.name, operator.name)
            bags[key] = file_bags.with_instances(instance_labels) if file_bags.boxes else file_bags
            inputs += map(_entry, (*models, *beside.values()))
            notes += [f"{data.name}, {operator.name}: {note}" for note in file_bags.notes]
    if not bags:
        raise InputError(
            "maps of data sets and operators", rule="no-bags", file=str(root), hint=LAYOUT
        )
    # Labels of a data set serve several operators and are listed once.
    unique = {str(entry["file"]): entry for entry in inputs}
    return NetworkMaps(bags, tuple(unique.values()), tuple(notes))


def _folders(place: Path) -> list[Path]:
    folders = []
    for path in place.iterdir():
        is_hidden = path.name.startswith(".")
        if path.is_dir() and not is_hidden and path.name not in NOT_MODELS:
            folders.append(path)
    return sorted(folders)


def _models(operator: Path) -> list[Path]:
    files = [path for path in operator.iterdir() if path.suffix.lower() in FILES]
    return sorted([*_folders(operator), *files])


def _beside(operator: Path, data: Path) -> dict[str, Path]:
    """Return the paths of labels and scores for `read_bags`; labels of the data set are the
    fallback.
    """
    paths = {}
    # Labels of the operator come first, those of the data set are the fallback.
    places = (operator / "labels.csv", operator / "masks", data / "labels.csv", data / "masks")
    labels = next((path for path in places if path.exists()), None)
    if labels is not None:
        paths["labels"] = labels
    if (operator / "scores.csv").is_file():
        paths["scores"] = operator / "scores.csv"
    return paths


def _entry(path: Path) -> dict[str, Any]:
    """Return file, bytes and hash; for a folder, over all its files sorted by name."""
    if path.is_file():
        return {"file": str(path), "bytes": path.stat().st_size, "sha256": hash_file(path)}
    files = sorted(file for file in path.rglob("*") if file.is_file())
    hashes = "".join(f"{file.relative_to(path).as_posix()}\0{hash_file(file)}\n" for file in files)
    size = sum(file.stat().st_size for file in files)
    return {"file": str(path), "bytes": size, "sha256": hashlib.sha256(hashes.encode()).hexdigest()}
