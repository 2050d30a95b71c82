# SPDX-License-Identifier: Apache-2.0
"""The data of the study of stability: rules, maps of other networks, printed numbers.

Maps that a user brings are read from a folder DATA SET / OPERATOR / MODEL, with labels beside them.
(Those of our own networks come from `calipers.studies.stability.archive`.) The numbers that the
paper prints are facts to compare with, and to judge those of its sentences by that are about its
own data sets. `calipers.studies.stability.experiments` uses both.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calipers.errors import InputError
from calipers.io.source import hash_file
from calipers.stability.grid import instance_labels
from calipers.stability.read import FileBags, read_bags
from calipers.studies.claim_rules import ClaimRules

FILES = (".npz", ".npy")  # a model in one file
NOT_MODELS = ("masks",)
LAYOUT = (
    "give FOLDER/DATA SET/OPERATOR/MODEL, each model a folder of maps or an .npz, beside "
    "labels.csv or masks"
)

NAN = math.nan
XRAY, MURA, PASCAL = "X-Ray", "MURA", "Pascal VOC"
NOR, MEAN, LSE_SMALL, LSE_ONE, MAX = OPERATORS = ("NOR", "Mean", "LSE, r=0.1", "LSE, r=1", "Max")
RULES = ClaimRules.load("stability/claims.toml")
# Tables II and III: (n00, n01, n10, n11), AJ and APJ as printed.
BINARY = {
    "IIa": ((40, 10, 10, 40), 0.6, 0.43),
    "IIb": ((0, 30, 30, 40), -0.43, -0.18),
    "IIIa": ((20, 20, 20, 40), 0.17, 0.09),
    "IIIb": ((20, 35, 5, 40), 0.24, 0.14),
}
# The row totals of the first classifier (calls 0, calls 1), as printed beside the same tables.
ROW_TOTALS = {"IIa": (50, 50), "IIb": (30, 70), "IIIa": (40, 60), "IIIb": (55, 55)}
# Table IX: what the green and the black dotted line of figure 9 end with.
LAST_STEPS = {"green": (0, 50, 50, 100), "black dotted": (50, 0, 100, 50)}

# Table V: class -> AUC, DICE, accuracy with standard deviations over five folds (its own models,
# not the references).
TABLE_V = {
    XRAY: ((0.90, 0.02), (0.72, 0.07), (0.97, 0.05)),
    MURA: ((0.84, 0.01), (NAN, NAN), (NAN, NAN)),
    PASCAL: ((0.99, 0.01), (0.40, 0.03), (0.82, 0.03)),
}

# The same table, the class that the paper uses for nothing else.
TABLE_V_EFFUSION = ((0.92, 0.01), (0.33, 0.02), (0.74, 0.08))

# Table IV: data set and class -> positive bags, negative bags, annotated bags.
TABLE_IV = {
    (XRAY, "Cardiomegaly"): (2722, 14742, 146),
    (XRAY, "Effusion"): (13056, 37693, 149),
    (MURA, "Shoulder"): (4446, 4211, None),
    (PASCAL, "Cars"): (335, 826, None),
}

# Bags that the text describes: APJ, Spearman, and DICE where it says so.
DESCRIBED_BAGS = {
    "figure 5b (X-Ray)": (0.34, 0.32, 0.70),
    "figure 5c (X-Ray)": (0.17, 0.12, NAN),
    "figure 5d (MURA)": (0.69, 0.73, NAN),
    "figure 5g (Pascal VOC)": (0.46, 0.74, NAN),
}
INTERCHANGEABLE = {("APJ", "AJ"): 0.98, ("Kendall-b", "Spearman"): 0.99}  # section IV-F


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


@dataclass(frozen=True, slots=True)
class PrintedRow:
    """A row of table VII: means, standard deviations where printed, columns of one split."""

    apj: tuple[float, float]
    spearman: tuple[float, float]
    auc: tuple[float, float]
    dice: tuple[float, float]
    split_auc: float
    split_dice: float


@dataclass(frozen=True, slots=True)
class Summary:
    """A row of table VI: mean and standard deviation over bags of APJ, Spearman and DICE."""

    scores: tuple[tuple[float, float], ...]
    bags: int


def _row(*cells: float) -> PrintedRow:
    a, b, c, d = ((cells[k], cells[k + 1]) for k in (0, 2, 4, 6))
    return PrintedRow(a, b, c, d, cells[8], cells[9])


TABLE_VII = {
    (XRAY, NOR): _row(0.42, 0.20, 0.36, 0.20, 0.88, 0.02, 0.75, 0.06, 0.87, 0.72),
    (XRAY, MEAN): _row(0.31, 0.17, 0.52, 0.22, 0.88, 0.03, 0.56, 0.06, 0.88, 0.52),
    (XRAY, LSE_SMALL): _row(0.49, 0.16, 0.68, 0.21, 0.91, 0.01, 0.59, 0.10, 0.89, 0.60),
    (XRAY, LSE_ONE): _row(0.37, 0.18, 0.58, 0.23, 0.90, 0.02, 0.58, 0.10, 0.90, 0.56),
    (XRAY, MAX): _row(0.05, 0.07, 0.15, 0.10, 0.87, 0.02, 0.11, 0.04, 0.87, 0.12),
    (MURA, NOR): _row(0.29, 0.19, 0.44, 0.17, 0.85, 0.01, NAN, NAN, 0.85, NAN),
    (MURA, MEAN): _row(0.12, 0.09, 0.41, 0.14, 0.85, 0.01, NAN, NAN, 0.84, NAN),
    (MURA, LSE_SMALL): _row(0.13, 0.10, 0.40, 0.15, 0.85, 0.01, NAN, NAN, 0.84, NAN),
    (MURA, LSE_ONE): _row(0.29, 0.14, 0.48, 0.14, 0.84, 0.01, NAN, NAN, 0.84, NAN),
    (MURA, MAX): _row(0.11, 0.15, 0.24, 0.12, 0.82, 0.01, NAN, NAN, 0.82, NAN),
    (PASCAL, NOR): _row(0.56, 0.14, 0.82, 0.09, 0.99, 0.00, 0.40, 0.03, 0.98, 0.39),
    (PASCAL, MEAN): _row(0.28, 0.27, 0.82, 0.10, 0.99, 0.00, 0.24, 0.03, 0.99, 0.23),
    (PASCAL, LSE_SMALL): _row(0.29, 0.26, 0.83, 0.10, 0.99, 0.00, 0.24, 0.03, 0.98, 0.03),
    (PASCAL, LSE_ONE): _row(0.36, 0.29, 0.85, 0.09, 0.99, 0.00, 0.26, 0.03, 0.98, 0.25),
    (PASCAL, MAX): _row(0.52, 0.29, 0.64, 0.11, 0.99, 0.00, 0.57, 0.02, 1.00, 0.57),
}
# Table VI: APJ, Spearman, DICE on annotated bags, and how many bags there were (section V-C).
TABLE_VI = {
    XRAY: Summary(((0.53, 0.16), (0.48, 0.17), (0.75, 0.06)), 29),
    PASCAL: Summary(((0.63, 0.14), (0.87, 0.07), (0.38, 0.21)), 41),
}
