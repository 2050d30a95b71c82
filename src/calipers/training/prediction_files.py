# SPDX-License-Identifier: Apache-2.0
"""The files that `calipers predict` writes for the other verbs.

`write_maps` writes maps as bags: ``subset-1.npz`` with ``maps`` (images, rows, columns) and
``ids``, ``scores.csv`` with the probability that an image is positive, and ``labels.csv``, for
`calipers stability`. `write_boxes` writes boxes in the format of COCO, ``subset-1.json``, and
``references.json``, for `calipers fuse` and `calipers evaluate`. `save_images` writes the pictures
as the networks saw them.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from calipers.arrays import F32, F64
from calipers.io.tables.table import delimited
from calipers.io.write import write
from calipers.results.files import write_atomically
from calipers.training.datasets.frames import Frames
from calipers.training.detector import DetectedBoxes, cohort_of
from calipers.training.models import REFERENCES_FILE


def write_maps(stage: Path, frames: Frames, outputs: Mapping[str, tuple[F32, F64]]) -> None:
    """Write maps and log odds of every model."""
    ids = bag_names(frames.images.ids)
    scores: dict[str, list[float]] = {}
    for name, (maps, odds) in outputs.items():
        write_atomically(stage / f"{name}.npz", _npz(maps, ids))
        scores[name] = expit(odds).tolist()
    write_atomically(stage / "scores.csv", delimited({"bag": ids, **scores}))
    if frames.images.classes:
        write_atomically(stage / "labels.csv", delimited(label_columns(frames, ids)))


def write_boxes(
    stage: Path,
    frames: Frames,
    classes: Sequence[str],
    outputs: Mapping[str, Sequence[DetectedBoxes]],
) -> None:
    """Write the boxes of every model, and the references."""
    if not frames.images.classes:
        frames = replace(frames, images=replace(frames.images, classes=tuple(classes)))
    cohort = cohort_of(frames, np.arange(len(frames)), outputs)
    write(cohort, stage / REFERENCES_FILE)
    for name in outputs:
        write(cohort, stage / f"{name}.json", what=name)


def write_references(stage: Path, frames: Frames) -> None:
    """Write what is known about the images."""
    write(cohort_of(frames, np.arange(len(frames)), {}), stage / REFERENCES_FILE)


def npy_bytes(values: NDArray[Any]) -> bytes:
    """Return an array as the content of a .npy file."""
    sink = io.BytesIO()
    np.save(sink, values, allow_pickle=False)
    return sink.getvalue()


def write_alarms(path: Path, frames: Frames, alarms: Mapping[str, F64]) -> None:
    """Write a table for `calipers monitor`: a row per image, a column per monitor."""
    columns: dict[str, list[Any]] = {"image": list(frames.images.ids)}
    for name, values in alarms.items():
        columns[name] = values.tolist()
    write_atomically(path, delimited(columns))


def bag_names(ids: Sequence[str]) -> list[str]:
    """Return the ids as bags are called in files: text without line breaks."""
    return [" ".join(name.split()) for name in ids]


def label_columns(frames: Frames, ids: Sequence[str]) -> dict[str, list[Any]]:
    """Return the columns of ``labels.csv``: a row per image, or per box of an image."""
    images = frames.images
    names = ("bag", "label", "patient", "x0", "y0", "x1", "y1", "width", "height")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for i, bag in enumerate(ids):
        own = images.boxes[i]
        boxes = [[None] * 4] if own is None or not len(own) else own.tolist()
        side = frames.extent(i)
        for box in boxes:
            cells = (bag, int(images.positive[i]), images.patients[i], *box, side, side)
            for name, cell in zip(names, cells):
                columns[name].append(cell)
    # Without a single box the columns would only say that nobody drew any.
    if all(cell is None for cell in columns["x0"]):
        columns = {name: columns[name] for name in ("bag", "label", "patient")}
    if images.patients == images.ids:
        del columns["patient"]
    return columns


def _npz(maps: F32, ids: Sequence[str]) -> bytes:
    sink = io.BytesIO()
    np.savez_compressed(sink, maps=maps, ids=np.array(ids))
    return sink.getvalue()


def save_images(stage: Path, frames: Frames) -> None:
    """Write the pictures as the networks saw them."""
    from PIL import Image

    (stage / "images").mkdir()
    for i, name in enumerate(bag_names(frames.images.ids)):
        # A name may hold folders; the pictures lie side by side.
        flat = name.replace("/", "_").replace("\\", "_").removesuffix(".png")
        Image.fromarray(frames.pixels[i]).save(stage / "images" / f"{flat}.png")
