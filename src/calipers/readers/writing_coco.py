# SPDX-License-Identifier: Apache-2.0
"""COCO documents of references and predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from calipers.readers.writing import delivered_boxes, image_keys
from calipers.tables.cohort import Cohort
from calipers.tables.objects import Objects, Predictions, References

SIDES = ("width", "height", "depth")


def document(cohort: Cohort, table: Objects, box_format: str) -> bytes:
    """Return a COCO document; categories are numbered from 1 in the order of the classes."""
    keys = image_keys(cohort.images.ids)
    found: dict[str, Any] = {"info": {"description": f"written by Calipers, bbox as {box_format}"}}
    if isinstance(table, References):
        found["images"] = _images(cohort, keys)
    boxes = delivered_boxes(cohort, table, box_format).tolist()
    owner, label = table.image.tolist(), table.label.tolist()
    records = [
        {"id": k + 1, "image_id": keys[image], "category_id": code + 1, "bbox": box}
        for k, (image, code, box) in enumerate(zip(owner, label, boxes))
    ]
    for name, column in _details(table).items():
        for record, value in zip(records, column):
            record[name] = value
    found["annotations"] = records
    found["categories"] = [{"id": k + 1, "name": name} for k, name in enumerate(cohort.classes)]
    return msgspec.json.encode(found)


def _details(table: Objects) -> Mapping[str, list[Any]]:
    if isinstance(table, Predictions):
        return {"score": table.score.tolist()}
    assert isinstance(table, References)
    return {
        "area": table.area.tolist(),
        "iscrowd": table.crowd.astype(int).tolist(),
        "ignore": (table.ignore & ~table.crowd).astype(int).tolist(),
    }


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
