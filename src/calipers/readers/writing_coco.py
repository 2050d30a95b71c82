# SPDX-License-Identifier: Apache-2.0
"""Write references or predictions as a COCO document; `calipers.readers.writing` calls it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from calipers.kernels import coco_rle
from calipers.readers.writing import delivered_boxes, image_keys
from calipers.tables.cohort import Cohort
from calipers.tables.objects import Objects, Predictions, References

I64 = NDArray[np.int64]
SIDES = ("width", "height", "depth")


def document(cohort: Cohort, table: Objects, box_format: str) -> bytes:
    """Return a COCO document; categories are numbered from 1 in the order of the classes."""
    keys = image_keys(cohort.images.ids)
    contents: dict[str, Any] = {
        "info": {"description": f"written by Calipers, bbox as {box_format}"}
    }
    if isinstance(table, References):
        contents["images"] = _images(cohort, keys)
    boxes = delivered_boxes(cohort, table, box_format).tolist()
    owner, label = table.image.tolist(), table.label.tolist()
    records: list[dict[str, Any]] = [
        {"id": k + 1, "image_id": keys[image], "category_id": code + 1, "bbox": box}
        for k, (image, code, box) in enumerate(zip(owner, label, boxes))
    ]
    details = {**_details(table), **_segmentations(table)}
    for name, column in details.items():
        for record, value in zip(records, column):
            record[name] = value
    for row in _boxes_of_masks(table).tolist():
        del records[row]["bbox"]
    contents["annotations"] = records
    contents["categories"] = [{"id": k + 1, "name": name} for k, name in enumerate(cohort.classes)]
    return msgspec.json.encode(contents)


def _details(table: Objects) -> Mapping[str, list[Any]]:
    if isinstance(table, Predictions):
        return {"score": table.score.tolist()}
    assert isinstance(table, References)
    return {
        "area": table.area.tolist(),
        "iscrowd": table.crowd.astype(int).tolist(),
        "ignore": (table.ignore & ~table.crowd).astype(int).tolist(),
    }


def _segmentations(table: Objects) -> Mapping[str, list[Any]]:
    """Return the masks as compressed run lengths; COCO has no masks of volumes."""
    masks = table.masks
    if masks is None or masks.dimensions != 2:
        return {}
    counts = coco_rle.counts_from_rows(masks.offsets, masks.start, masks.length, masks.size)
    offsets, characters = coco_rle.encode_text(*counts)
    text, ends = characters.tobytes().decode("ascii"), offsets.tolist()
    sizes = masks.size[:, ::-1].tolist()
    run_lengths = [{"size": size, "counts": text[a:b]} for size, a, b in zip(sizes, ends, ends[1:])]
    return {"segmentation": run_lengths}


def _boxes_of_masks(table: Objects) -> I64:
    """Return the predictions whose box and area are those of their mask.

    Written without a box they are read back the same.
    """
    masks = table.masks
    if not isinstance(table, Predictions) or masks is None or masks.dimensions != 2:
        return np.zeros(0, np.int64)
    same = (table.boxes == masks.boxes()).all(axis=1)
    return np.flatnonzero(same & (table.area == masks.voxels) & (table.area != table.extent))


def _images(cohort: Cohort, keys: list[int] | list[str]) -> list[dict[str, Any]]:
    images = cohort.images
    records: list[dict[str, Any]] = [{"id": key} for key in keys]
    for k, name in enumerate(SIDES[: images.size.shape[1]]):
        for record, value in zip(records, images.size[:, k].tolist()):
            if value == value:
                record[name] = int(value) if value.is_integer() else value
    for record, spacing in zip(records, images.spacing):
        if np.isfinite(spacing).all():
            record["spacing"] = spacing.tolist()
    for name, column in images.groups.items():
        word = name if name not in ("id", "spacing", *SIDES) else f"group_{name}"
        for record, value in zip(records, column.tolist()):
            record[word] = value
    return records
