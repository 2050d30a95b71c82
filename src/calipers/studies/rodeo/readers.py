# SPDX-License-Identifier: Apache-2.0
"""Real predictors for table 1: radiologists of VinDr-CXR against each other.

The paper evaluates a trained CheXNet. Radiologists who read the same images are predictors too, and
need no training: of the three readers with the most images in common each is the reference in turn,
and the other two are models. Their boxes are in the table that torchxrayvision installs
(``vinbigdata-train.csv.gz``, Nguyen et al. 2022; non-commercial terms), which is read where it is
and never shipped. All boxes of readers have score 1, so AP depends on how equal scores are treated;
both ways are shown.

`reader_cohorts` returns the images, `reader_table` what RoDeO and mAP say; `study.run` adds them if
the package is there.
"""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from calipers.data.cohort import Cohort
from calipers.errors import InputError
from calipers.evaluation.evaluate import evaluate
from calipers.evaluation.protocol import Protocol
from calipers.show.table import Cell, Table
from calipers.show.words import join
from calipers.studies.kept_archives import package_table
from calipers.studies.rodeo.experiments import HEAD, MEAN_AP, RODEO

PACKAGE, VINDR = "torchxrayvision==1.5.7", "vinbigdata-train.csv.gz"
NO_FINDING = "No finding"
IN_ORDER = "mAP in input order"
DECIDES = ("RoDeO", MEAN_AP, IN_ORDER)  # metrics by which one reader is the better one
N_READERS = 3
QUICK_IMAGES = 300
MISSING = (
    "Radiologists as predictors are left out: pip install --no-deps torchxrayvision==1.5.7 adds "
    "the table of VinDr-CXR (non-commercial terms), which the study then reads."
)
CITATION = (
    "Nguyen HQ, et al. VinDr-CXR: an open dataset of chest X-rays with radiologist's annotations. "
    "Scientific Data 9, 2022, 429. Cohen JP, et al. TorchXRayVision. MIDL 2022."
)
PARTS = {"RoDeO": "total", "RoDeO/loc": "localization", "RoDeO/shape": "shape"}
PARTS["RoDeO/cls"] = "classification"

# image -> reader -> rows of that reader
Readings = dict[str, dict[str, list[dict[str, str]]]]


def vindr_table() -> Path | None:
    """Return the table of an installed torchxrayvision, which is not imported."""
    spec = find_spec("torchxrayvision")
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(next(iter(spec.submodule_search_locations))) / "data" / VINDR
    return path if path.is_file() else None


def reader_cohorts(path: Path, *, quick: bool) -> dict[str, Cohort]:
    """Return the images of the three readers with the most images in common, by the reference."""
    with package_table(path, "the table of VinDr-CXR", PACKAGE):
        return _cohorts(path, quick)


def _cohorts(path: Path, quick: bool) -> dict[str, Cohort]:
    readings = _readings(path)
    trios = Counter(tuple(sorted(own)) for own in readings.values())
    complete = {trio: n for trio, n in trios.items() if len(trio) == N_READERS}
    if not complete:
        raise InputError(
            "images that the same three readers read",
            rule="too-few-readers",
            file=str(path),
            hint="torchxrayvision 1.5.7 has the table that is expected",
        )
    trio = max(sorted(complete), key=complete.__getitem__)
    images = sorted(name for name, own in readings.items() if tuple(sorted(own)) == trio)
    if quick:
        images = images[:QUICK_IMAGES]
    classes = sorted(_classes(readings, images))
    number = {name: k for k, name in enumerate(classes)}
    objects: dict[str, list[dict[str, Any]]] = {}
    for reader in trio:
        objects[reader] = [_objects(readings[image][reader], number) for image in images]
    cohorts = {}
    for reference in trio:
        records = []
        predictions: dict[str, list[dict[str, Any]]] = {}
        for image, own in zip(images, objects[reference]):
            records.append({"image_id": image, **own})
        for reader in trio:
            if reader != reference:
                predictions[reader] = [
                    {"image_id": image, **own, "scores": [1.0] * len(own["labels"])}
                    for image, own in zip(images, objects[reader])
                ]
        cohorts[reference] = Cohort.from_arrays(records, predictions, classes=classes)
    return cohorts


def _readings(path: Path) -> Readings:
    readings: Readings = {}
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        rows = csv.DictReader(stream)
        expected = {"image_id", "class_name", "rad_id", "x_min", "y_min", "x_max", "y_max"}
        absent = expected - set(rows.fieldnames or ())
        if absent:
            raise InputError(
                f"the columns {', '.join(sorted(absent))}",
                rule="missing-column",
                file=str(path),
                hint="torchxrayvision 1.5.7 has the table that is expected",
            )
        for row in rows:
            readings.setdefault(row["image_id"], {}).setdefault(row["rad_id"], []).append(row)
    return readings


def _classes(readings: Readings, images: list[str]) -> set[str]:
    names = set()
    for image in images:
        for rows in readings[image].values():
            names |= {row["class_name"] for row in rows}
    return names - {NO_FINDING}


def _objects(rows: list[dict[str, str]], number: dict[str, int]) -> dict[str, Any]:
    """Return the boxes of a reader; a box without an area, which nobody can have meant, is none."""
    boxes, labels = [], []
    for row in rows:
        if row["class_name"] == NO_FINDING:
            continue
        x0, y0, x1, y1 = (float(row[name]) for name in ("x_min", "y_min", "x_max", "y_max"))
        if x1 > x0 and y1 > y0:
            boxes.append((x0, y0, x1, y1))
            labels.append(number[row["class_name"]])
    return {"boxes": boxes, "labels": labels}


def reader_protocol(replicates: int) -> Protocol:
    """Return RoDeO with its parts, and mAP with equal scores as one step and in input order."""
    blocks = []
    for name in RODEO:
        blocks.append(f'[[metric]]\nname = "{name}"\nkind = "rodeo"\npart = "{PARTS[name]}"')
    blocks.append(f'[[metric]]\nname = "{MEAN_AP}"\nkind = "average-precision"')
    blocks.append(f'[[metric]]\nname = "{IN_ORDER}"\nkind = "average-precision"\nties = "coco"')
    statistics = f"[statistics]\nreplicates = {replicates}\n"
    return Protocol.from_toml(HEAD + statistics + "\n".join(blocks))


def reader_table(cohorts: Mapping[str, Cohort], *, seed: int, quick: bool) -> Table:
    """Return RoDeO and mAP of all readers, with intervals, and whether they agree on the order."""
    names = (*RODEO, MEAN_AP, IN_ORDER)
    rows: list[tuple[Cell, ...]] = []
    orders = []
    for reference, cohort in cohorts.items():
        evaluation = evaluate(cohort, reader_protocol(200 if quick else 1000), seed=seed)
        estimates = {}
        for row in evaluation.rows:
            if row.label is None:
                estimates[row.model, row.metric] = row.estimate
        best: dict[str, list[str]] = {}
        for name in DECIDES:
            values = {reader: estimates[reader, name].value for reader in cohort.models}
            best.setdefault(max(values, key=values.__getitem__), []).append(name)
        for reader in cohort.models:
            cells: list[Cell] = [reference, reader]
            cells += [estimates[reader, name] for name in names]
            rows.append(tuple(cells))
        words = ", ".join(f"{reader} by {join(own)}" for reader, own in best.items())
        orders.append(f"Against {reference}: {words}.")
    first = next(iter(cohorts.values()))
    note = (
        f"{first.n_images} images of VinDr-CXR, read by the same three radiologists, each of whom "
        f"is the reference in turn; {len(first.classes)} classes. 95 % intervals by resampling "
        "images. No reader is the truth here: whoever marks as the reference does scores high."
    )
    better = f"Who is the better one of two readers? {' '.join(orders)}"
    return Table(
        ("reference", "reader", *names),
        tuple(rows),
        name="table-1-readers",
        title="As table 1, for radiologists against each other",
        notes=(note, better),
    )
