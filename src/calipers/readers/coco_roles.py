# SPDX-License-Identifier: Apache-2.0
"""Checks of the role of a COCO document, and notes on its masks, areas and images."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError
from calipers.readers.coco_columns import ObjectColumns
from calipers.readers.jsoncareful import CarefulDocument
from calipers.readers.parts import Options
from calipers.readers.source import InputFile
from calipers.tables.delivery import Delivery

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
AREA_TOLERANCE = 0.01
MASK_AREA_TOLERANCE = 0.1  # COCO declares the area of the polygon, not its pixels
KEY = re.compile(rb'"(\w+)"\s*:', re.ASCII)
SCORED = re.compile(rb'"score"\s*:')
HEAD = 2000
MASK = b'"segmentation"'
NO_MASK = re.compile(rb'"segmentation"\s*:\s*(?:\[\s*\]|null)')


def require_references(input_file: InputFile, is_list: bool, keys: list[str]) -> None:
    """Refuse a document that cannot be references."""
    if is_list:
        keys_in_records = dict.fromkeys(KEY.findall(input_file.data[:HEAD]))
        value = "a list"
        if keys_in_records:
            value += f" of records with {b', '.join(keys_in_records).decode('ascii')}"
        raise InputError(
            "a COCO document with images, annotations and categories",
            rule="wrong-role",
            file=input_file.file,
            value=value,
            hint="a list of results holds predictions: are the two files swapped?",
        )
    missing = [name for name in ("images", "annotations", "categories") if name not in keys]
    if missing:
        hint = ""
        if "annotations" in keys and SCORED.search(input_file.data):
            hint = "annotations with scores are predictions: are the two files swapped?"
        raise InputError(
            f"the keys images, annotations and categories ({', '.join(missing)} missing)",
            rule="wrong-role",
            file=input_file.file,
            value=keys[:20],
            hint=hint,
        )


def no_predictions_error(input_file: InputFile, keys: list[str]) -> InputError:
    """Return the error for a document that cannot be predictions."""
    return InputError(
        "a COCO results list, or a document with scored annotations",
        rule="wrong-role",
        file=input_file.file,
        value=keys[:20],
    )


def no_scores_error(input_file: InputFile, document: CarefulDocument) -> InputError:
    """Return the error for objects without any score."""
    if document.is_list:
        return InputError(
            "a score in every record",
            rule="score-missing",
            file=input_file.file,
            value="no record has one",
        )
    return InputError(
        "annotations with scores",
        rule="wrong-role",
        file=input_file.file,
        value=document.keys[:20],
        hint="these look like references: are the two files swapped?",
    )


def subset_notes(
    input_file: InputFile,
    declared: list[dict[str, Any]] | None,
    columns: ObjectColumns,
    options: Options,
) -> list[str]:
    """Check that predictions that list their images list all of them.

    An image that the model never saw is not a miss, so strict reading refuses a shorter list.
    """
    if declared is None:
        return []
    ids: list[Any] = [image.get("id") for image in declared]
    listed_ids = set(map(str, ids)) if columns.as_text else set(ids)
    missing = [key for key in columns.index["image_id"] if key not in listed_ids]
    if not missing:
        return []
    message = (
        f"the predictions list {len(listed_ids)} images, "
        f"{len(missing)} images of the references are not among them"
    )
    if options.lenient:
        return [message + "; all their references count as missed"]
    hint = "; evaluate on matching references, or pass --lenient to count them as missed"
    raise InputError(
        "all images of the references",
        rule="subset",
        file=input_file.file,
        location="/images",
        value=missing[0],
        hint=message + hint,
    )


def count_masks(text: bytes) -> int:
    """Count the annotations that have a mask."""
    n = text.count(MASK)
    return n - len(NO_MASK.findall(text)) if n else 0


def mask_notes(n: int) -> list[str]:
    """Say that masks are not used."""
    return [f"masks present in {n} annotations, only boxes are used"] if n else []


def area_notes(delivery: Delivery) -> list[str]:
    """Count the declared areas that differ from the box area, or clearly from the mask area."""
    if delivery.area is None or not delivery.box_format.startswith("xywh"):
        return []
    with np.errstate(invalid="ignore", over="ignore"):
        if delivery.masks is not None:
            own: F64 | I64 = delivery.masks.voxels
            tolerance, what = MASK_AREA_TOLERANCE, "the area of the mask by more than 10 %"
        else:
            own = np.prod(delivery.boxes[:, delivery.boxes.shape[1] // 2 :], axis=1)
            tolerance, what = AREA_TOLERANCE, "the box area by more than 1 %"
        n = int((np.abs(delivery.area - own) > tolerance * np.abs(own)).sum())
    if not n:
        return []
    declared = "the declared area decides in size cuts"
    return [f"declared area differs from {what} in {n} annotations; {declared}"]
