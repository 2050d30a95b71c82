# SPDX-License-Identifier: Apache-2.0
"""`Cohort.from_arrays`: build a checked cohort from lists with one mapping per image.

`cohort_from_arrays` takes the references and the predictions of every model, pairs them by image,
turns their columns into a `Delivery` each and lets `data.rules` check it: the same rules and names
of errors as for files. Boxes, masks and points are checked for their form here; an error names the
record and the entry, such as ``references[3]['labels'][0]``.

The functions on masks and points of a record (`masks_of`, `points_of`, `has`, `count`) stand at the
end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, UNEQUAL, host_array
from calipers.data.cohort import SAME_SPACING, UNIT, Cohort, FileIntake, Images, Intake
from calipers.data.group_columns import group_column
from calipers.data.masks import Masks, no_masks
from calipers.data.objects import BOX_FORMATS, Predictions
from calipers.data.rules import (
    Delivery,
    Role,
    Source,
    as_predictions,
    as_references,
    examine,
    settle,
)
from calipers.errors import InputError, did_you_mean
from calipers.kernels import ragged
from calipers.kernels.runs import sound_runs

SHOWN = 10  # distinct values in a message
Record = Mapping[str, Any]

# Keys of a record: one entry per object, then the shapes, then one per image.
PER_OBJECT = {
    "references": ("labels", "ignore", "crowd", "area"),
    "predictions": ("labels", "scores"),
}
SHAPES = ("boxes", "masks", "points")
FLAGS = ("ignore", "crowd")  # columns that may hold yes and no
SIDES = ("width", "height", "depth")
PER_IMAGE = ("image_id", "width", "height", "depth", "spacing")
RESERVED = {
    *SHAPES,
    *PER_OBJECT["references"],
    *PER_OBJECT["predictions"],
    *PER_IMAGE,
}  # never group columns
OPTIONAL = ("ignore", "crowd", "area")
Records = Sequence[Mapping[str, Any]]


def cohort_from_arrays(
    references: Records,
    predictions: Records | Mapping[str, Records] | None,
    classes: tuple[str, ...],
    box_format: str,
    score_scale: str,
) -> Cohort:
    """Build a checked cohort; see `Cohort.from_arrays`."""
    _check_options(classes, box_format, score_scale)
    _check_records(references, "references")
    for name, records in _models(predictions).items():
        _check_records(records, f"predictions[{name!r}]")
    ids = _ids(references, "references")
    dimensions = _dimensions(references, predictions)
    images = _images(references, ids, dimensions)
    form = (box_format, dimensions)
    delivery = _delivery(
        references, range(len(ids)), "references", "references", len(classes), form
    )
    # Before the check: rules on boxes beyond the image need the sizes that only masks know.
    _learn_sizes(images, delivery)
    settle(delivery, examine(delivery, images.size, "references"), _source("references"))
    files = [_intake("references", "references", references, len(delivery))]
    models: dict[str, Predictions] = {}
    for name, records in _models(predictions).items():
        index = _pair(records, ids, name)
        where = f"predictions[{name!r}]"
        _check_same_images(records, index, images, where)
        boxes = _delivery(records, index, "predictions", where, len(classes), form)
        _learn_sizes(images, boxes)
        findings = examine(boxes, images.size, "predictions", score_scale=score_scale)
        settle(boxes, findings, _source(where))
        models[name] = as_predictions(boxes, images.size)
        files.append(_intake("predictions", f"predictions of {name}", records, len(boxes)))
    return Cohort(
        images, classes, as_references(delivery, images.size), models, Intake(tuple(files))
    )


def _check_options(classes: tuple[str, ...], box_format: str, score_scale: str) -> None:
    if box_format not in BOX_FORMATS:
        hint = did_you_mean(box_format, BOX_FORMATS)
        raise InputError(
            "a known box format", rule="box-format", field="box_format", value=box_format, hint=hint
        )
    if score_scale not in ("unit", "raw"):
        raise InputError(
            "'unit' or 'raw'", rule="score-scale", field="score_scale", value=score_scale
        )
    if not classes or any(not isinstance(name, str) for name in classes):
        raise InputError(
            "at least one class name, all text", rule="classes", field="classes", value=classes
        )
    if len(set(classes)) < len(classes):
        raise InputError("unique class names", rule="dup-category", field="classes", value=classes)


def _check_records(records: object, where: str) -> None:
    # A string is a sequence too, and every letter would be a record.
    if not isinstance(records, Sequence) or isinstance(records, str):
        raise InputError(
            "a list with one mapping per image", rule="type", location=where, value=records
        )
    for k, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise InputError(
                "a mapping with boxes and labels",
                rule="type",
                location=f"{where}[{k}]",
                value=record,
            )


def _models(predictions: Records | Mapping[str, Records] | None) -> Mapping[str, Records]:
    if predictions is None:
        return {}
    if isinstance(predictions, Mapping):
        return predictions
    return {"model": predictions}


def _ids(records: Records, where: str) -> list[str]:
    # Half of the ids would pair some records by name and others by place.
    has_id = ["image_id" in record for record in records]
    if any(has_id) and not all(has_id):
        k = has_id.index(False)
        raise InputError(
            "image_id in every record or in none", rule="missing-id", location=f"{where}[{k}]"
        )
    ids = [str(record.get("image_id", k)) for k, record in enumerate(records)]
    earlier_ids: set[str] = set()
    for k, name in enumerate(ids):
        if name in earlier_ids:
            raise InputError(
                "unique image ids",
                rule="dup-image",
                location=f"{where}[{k}]",
                field="image_id",
                value=name,
            )
        earlier_ids.add(name)
    return ids


def _pair(records: Records, ids: Sequence[str], model: str) -> Sequence[int]:
    """Return the image of every prediction record: by ``image_id`` if given, else by position."""
    where = f"predictions[{model!r}]"
    names = _ids(records, where)
    if not any("image_id" in record for record in records):
        if len(records) != len(ids):
            raise InputError(
                f"{len(ids)} records, one per image of the references",
                rule="image-count",
                location=where,
                value=len(records),
                hint="give every record an image_id if the lists do not have the same length",
            )
        return range(len(ids))
    index = {name: k for k, name in enumerate(ids)}
    for k, name in enumerate(names):
        if name not in index:
            hint = "every predicted image must be in the references, if need be with no boxes"
            raise InputError(
                "an image of the references",
                rule="unknown-image",
                location=f"{where}[{k}]",
                value=name,
                hint=hint,
            )
    return [index[name] for name in names]


def _dimensions(references: Records, predictions: Records | Mapping[str, Records] | None) -> int:
    """Return 2 or 3, as the first image with boxes or masks says; 2 if there are none.

    Boxes of six numbers and masks of three axes are 3D.
    """
    # The first object decides; a later one of other dimensions is an error with its place.
    for records in [references, *_models(predictions).values()]:
        for record in records:
            dimensions = _record_dimensions(record)
            if dimensions is not None:
                return dimensions
    return 2


def _record_dimensions(record: Mapping[str, Any]) -> int | None:
    """Return 2 or 3, as the boxes of a record say, else its masks; None if it has neither."""
    if not has(record, "boxes"):
        from_masks = dimensions_of(record)
        if from_masks is not None:
            return from_masks
    try:
        boxes = host_array(record.get("boxes", ()))
    except ValueError:  # rows of different length: `_boxes` will say where
        return 2
    if boxes.ndim != 2 or not len(boxes):
        return None
    return 3 if boxes.shape[1] == 6 else 2


def _images(records: Records, ids: Sequence[str], dimensions: int) -> Images:
    size, spacing = _measures(records, "references", dimensions)
    names: dict[str, None] = {}  # of groups, in the order in which they occur
    for record in records:
        names.update(dict.fromkeys(name for name in record if name not in RESERVED))
    groups = {name: _group(records, name) for name in names}
    return Images(tuple(ids), size, spacing, groups)


def _measures(
    records: Records, where: str, dimensions: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sizes and spacings that records state, NaN where they state nothing."""
    size = np.full((len(records), dimensions), np.nan)
    spacing = np.full((len(records), dimensions), np.nan)
    for k, record in enumerate(records):
        for axis, side in enumerate(SIDES[:dimensions]):
            if record.get(side) is not None:
                size[k, axis] = _lengths(record[side], side, (), f"{where}[{k}]")
        if record.get("spacing") is not None:
            spacing[k] = _lengths(record["spacing"], "spacing", (dimensions,), f"{where}[{k}]")
    return size, spacing


def _check_same_images(records: Records, index: Sequence[int], images: Images, where: str) -> None:
    """Raise if predictions state another size or spacing of an image: their boxes have another
    scale.
    """
    size, spacing = _measures(records, where, images.size.shape[1])
    for name, measure, expected, tolerance in (
        ("size", size, images.size, 0.0),
        ("spacing", spacing, images.spacing, SAME_SPACING),
    ):
        of_image = expected[np.asarray(index, np.int64)]
        is_known = ~np.isnan(measure) & ~np.isnan(of_image)
        differs = (is_known & ~np.isclose(measure, of_image, rtol=tolerance, atol=0)).any(axis=1)
        if differs.any():
            k = int(differs.argmax())
            raise InputError(
                f"the {name} of image {images.ids[index[k]]!r} in the references, "
                f"{of_image[k].tolist()}",
                rule="size-conflict",
                location=f"{where}[{k}]",
                field=name,
                value=measure[k].tolist(),
                hint="boxes on resized or resampled images have to be scaled back",
            )


def _learn_sizes(images: Images, delivery: Delivery) -> None:
    """Fill in image sizes that nobody declared: the first mask of an image knows its own."""
    # Only what is unknown: a declared size that differs is for the rules to report.
    if delivery.masks is not None and len(delivery):
        image, first = np.unique(delivery.image, return_index=True)
        is_known = ~np.isnan(images.size[image])
        images.size[image] = np.where(is_known, images.size[image], delivery.masks.size[first])


def _lengths(value: Any, name: str, shape: tuple[int, ...], where: str) -> NDArray[np.float64]:
    """Return lengths above zero, or NaN for unknown ones."""
    expected = f"{shape[0]} numbers above zero" if shape else "a number above zero"
    try:
        lengths = host_array(value, np.float64)
    except ValueError:
        lengths = np.zeros(())
    if (
        lengths.shape != shape
        or not (np.isnan(lengths) | ((lengths > 0) & np.isfinite(lengths))).all()
    ):
        raise InputError(expected, rule="image-size", location=where, field=name, value=value)
    return lengths


def _group(records: Records, name: str) -> NDArray[Any]:
    if name == UNIT:
        hint = "the key of an image is 'image_id'; call a group something else"
        raise InputError(
            "another name for a group",
            rule="group-name",
            location="references",
            field=name,
            hint=hint,
        )
    # A column with holes would make one large group of all that lack it.
    missing = [k for k, record in enumerate(records) if name not in record]
    if missing:
        raise InputError(
            f"the group column {name!r} in every record",
            rule="missing-group",
            location=f"references[{missing[0]}]",
        )
    return group_column([record[name] for record in records], "references", name)


def _delivery(
    records: Records,
    index: Iterable[int],
    role: Role,
    where: str,
    n_classes: int,
    form: tuple[str, int],
) -> Delivery:
    """Return the objects of all records as columns; ``index`` is the image of every record."""
    box_format, dimensions = form
    masks = masks_of(records, where, dimensions)
    # Boxes may be left out if there are masks: then they are the boxes around the masks.
    from_masks = masks is not None and not any(has(record, "boxes") for record in records)
    if from_masks:
        box_format = "xyxy"
    names = _column_names(records, role)
    columns: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
    counts = []
    for k, record in enumerate(records):
        place = f"{where}[{k}]"
        if masks is not None:
            _check_masks(record, masks[k], place, from_masks=from_masks)
        if masks is not None and from_masks:
            boxes = masks[k].boxes()
        else:
            boxes = _boxes(record, place, dimensions)
        n = len(boxes)
        counts.append(n)
        for name in names:
            if name == "boxes":
                columns[name].append(boxes)
            elif name == "points":
                columns[name].append(points_of(record.get(name, ()), n, place, dimensions))
            else:
                value = record.get(name, _default(name, n))
                columns[name].append(_column(value, name, n, place))
    stacked = {name: np.concatenate(parts) for name, parts in columns.items() if parts}
    label = stacked.get("labels", np.zeros(0))
    _check_labels(label, counts, where, n_classes)
    number = np.repeat(np.arange(len(counts)), counts)
    return Delivery(
        image=np.repeat(np.fromiter(index, np.int64, len(counts)), counts),
        label=label.astype(np.int64),
        boxes=stacked.get("boxes", np.zeros((0, 2 * dimensions))),
        box_format=box_format,
        # The record in the upper 32 bits, the object in the lower ones: `_source` takes them apart.
        place=(number << 32) | ragged.positions(np.array(counts, np.int64)),
        score=_as_type(stacked.get("scores"), np.float64),
        area=_as_type(stacked.get("area"), np.float64),
        ignore=_as_type(stacked.get("ignore"), np.bool_),
        crowd=_as_type(stacked.get("crowd"), np.bool_),
        masks=None if masks is None else Masks.concat(masks),
        points=stacked.get("points"),
    )


def _column_names(records: Records, role: Role) -> list[str]:
    """Return the columns of a delivery; optional ones only if a record has them."""
    names = ["boxes"]
    if any(has(record, "points") for record in records):
        names.append("points")
    for name in PER_OBJECT[role]:
        if name not in OPTIONAL or any(name in record for record in records):
            names.append(name)
    return names


def _default(name: str, n: int) -> list[float] | None:
    """Return the n entries of a record that lacks an optional column; None if it must not."""
    if name not in OPTIONAL:
        return None
    return [np.nan if name == "area" else False] * n


def _as_type(column: NDArray[Any] | None, dtype: type[np.generic]) -> NDArray[Any] | None:
    return None if column is None else column.astype(dtype)


def _check_masks(record: Mapping[str, Any], masks: Masks, where: str, *, from_masks: bool) -> None:
    """Every image with objects has masks if one has, one for each of them; likewise boxes."""
    keys = {key for key in ("labels", "boxes", "masks") if has(record, key)}
    for key in ("masks",) if from_masks else ("masks", "boxes"):
        if keys and key not in keys:
            hint = f"{key} are for all images that have objects, or for none"
            raise InputError(
                f"the key {key!r}, as other images have",
                rule="missing-key",
                location=where,
                hint=hint,
            )
    key_of_count = "labels" if from_masks else "boxes"
    n = count(record.get(key_of_count))
    if n != len(masks):
        expected = f"{n} masks, one for each of the {key_of_count}"
        raise InputError(expected, rule="length", location=where, field="masks", value=len(masks))


def _boxes(record: Mapping[str, Any], where: str, dimensions: int) -> NDArray[np.float64]:
    if "boxes" not in record:
        raise InputError("the key 'boxes'", rule="missing-key", location=where, value=list(record))
    try:
        boxes = host_array(record["boxes"], np.float64)
    except ValueError:
        raise InputError(
            "numbers", rule="type", location=where, field="boxes", value=record["boxes"]
        ) from None
    if boxes.size == 0:
        return np.zeros((0, 2 * dimensions))
    if boxes.ndim != 2 or boxes.shape[1] != 2 * dimensions:
        raise InputError(
            f"boxes of shape (n, {2 * dimensions})",
            rule="box-shape",
            location=where,
            field="boxes",
            value=boxes.shape,
        )
    return boxes


def _column(value: Any, name: str, n: int, where: str) -> NDArray[Any]:
    if value is None:
        if n == 0:
            return np.zeros(0)
        raise InputError(f"the key {name!r}", rule="missing-key", location=where)
    try:
        column = host_array(value, flags=name in FLAGS)
    except ValueError:
        raise InputError("numbers", rule="type", location=where, field=name, value=value) from None
    # An empty list has the shape (0,) whatever it stands for.
    if column.shape != (n,) and not (column.size == 0 and n == 0):
        raise InputError(
            f"{n} entries, one per box",
            rule="length",
            location=where,
            field=name,
            value=column.shape,
        )
    # Complex numbers and spans of time are numbers to NumPy, but have no order or no unit here.
    kinds = "biuf" if name in FLAGS else "iuf"
    if n and column.dtype.kind not in kinds:
        raise InputError("numbers", rule="type", location=where, field=name, value=value)
    if name in FLAGS and not np.isin(column, (0, 1)).all():
        raise InputError("0 or 1", rule=f"{name}-flag", location=where, field=name, value=value)
    return column.reshape(n)


def _check_labels(label: NDArray[Any], counts: Sequence[int], where: str, n_classes: int) -> None:
    # Floats that are whole are fine: many tools deliver labels as such.
    bad = np.flatnonzero((label < 0) | (label >= n_classes) | (label != np.floor(label)))
    if len(bad):
        offsets = ragged.from_counts(np.array(counts, np.int64))
        k = int(np.searchsorted(offsets, bad[0], side="right")) - 1
        raise InputError(
            f"a whole number from 0 to {n_classes - 1}, an index into classes",
            rule="label-range",
            location=f"{where}[{k}]['labels'][{int(bad[0] - offsets[k])}]",
            field="labels",
            value=label[bad[0]].item(),
        )


def _intake(role: Role, title: str, records: Records, n: int) -> FileIntake:
    return FileIntake("<arrays>", title, "arrays", n, n, notes=tuple(_notes(records, role)))


def _notes(records: Records, role: Role) -> Iterator[str]:
    """Name the keys that are not used; further keys of references are group columns."""
    keys_in_use = {*SHAPES, *PER_OBJECT[role], *PER_IMAGE}
    n_images: Counter[str] = Counter()
    for record in records:
        n_images.update(name for name, value in record.items() if value is not None)
    for name, n in n_images.items():
        if name not in keys_in_use and (role == "predictions" or name in RESERVED):
            yield f"{name} given for {n} images; not used for {role}"


def _source(name: str) -> Source:
    # Rules use the names of files; messages use the keys of the caller.
    names = {"bbox": "boxes", "score": "scores"}

    def locate(place: int, field: str) -> str:
        return f"{name}[{place >> 32}]['{names.get(field, field)}'][{place & 0xFFFFFFFF}]"

    return Source("<arrays>", locate)


def has(record: Record, key: str) -> bool:
    """Return whether a record has something under a key: not None, and not of length 0."""
    return count(record.get(key)) > 0


def count(value: Any) -> int:
    """Return how many entries a value has: 0 for None, 1 for what has no length."""
    try:
        return 0 if value is None else len(value)
    except Exception:  # libraries have errors of their own
        return 1


def dimensions_of(record: Record) -> int | None:
    """Return 2 or 3 as the masks of a record say; None if it has none."""
    if not has(record, "masks"):
        return None
    masks = record["masks"]
    if isinstance(masks, Masks):
        return masks.dimensions
    try:
        return 3 if np.ndim(masks[0]) == 3 else 2
    # No list of arrays: `masks_of` will say where. Libraries have errors of their own.
    except Exception:
        return 2


def masks_of(records: Sequence[Record], where: str, dimensions: int) -> list[Masks] | None:
    """Return the masks of every record; None if no record has the key."""
    if all(record.get("masks") is None for record in records):
        return None
    masks = []
    for k, record in enumerate(records):
        if has(record, "masks"):
            masks.append(_masks(record["masks"], f"{where}[{k}]", dimensions))
        else:
            masks.append(no_masks(dimensions))
    return masks


def _masks(value: Any, where: str, dimensions: int) -> Masks:
    masks = value
    if not isinstance(masks, Masks):
        masks = Masks.from_dense(_stack(value, where, dimensions))
    if masks.dimensions != dimensions:
        raise InputError(
            f"{dimensions}D masks",
            rule="mask-shape",
            location=where,
            field="masks",
            value=f"{masks.dimensions}D masks",
        )
    empty = np.flatnonzero(masks.voxels == 0)
    if len(empty):
        raise InputError(
            "a mask with at least one pixel",
            rule="empty-mask",
            location=f"{where}['masks'][{int(empty[0])}]",
            field="masks",
            hint="remove the object, or give it its pixels",
        )
    unsound = np.flatnonzero(~sound_runs(masks.offsets, masks.start, masks.length, masks.size))
    if len(unsound):
        raise InputError(
            "runs that ascend, inside of their image and rows",
            rule="mask-runs",
            location=f"{where}['masks'][{int(unsound[0])}]",
            field="masks",
            hint="Masks.from_dense makes such runs from arrays",
        )
    return masks


def _stack(value: Any, where: str, dimensions: int) -> NDArray[Any]:
    """Return the (n, [d, ]h, w) array of 0 and 1."""
    expected = "masks of shape (n, height, width)"
    if dimensions == 3:
        expected = "masks of shape (n, depth, height, width)"
    try:
        array = host_array(value, flags=True)
    except ValueError as error:
        rule, reason = "type", str(error)
        if reason == UNEQUAL:
            rule, reason = "mask-shape", f"{count(value)} arrays of different shapes"
        raise InputError(expected, rule=rule, location=where, field="masks", value=reason) from None
    if array.dtype.kind not in "biuf":
        raise InputError(
            "arrays of 0 and 1", rule="type", location=where, field="masks", value=value
        )
    if array.ndim != dimensions + 1:
        raise InputError(
            expected, rule="mask-shape", location=where, field="masks", value=array.shape
        )
    _check_values(array, where)
    return array


def _check_values(array: NDArray[Any], where: str) -> None:
    if array.dtype == np.bool_:
        return
    odd = (array != 0) & (array != 1)
    if odd.any():
        k = int(np.argwhere(odd)[0, 0])
        values = np.unique(array[k])
        message = ", ".join(map(str, values[:SHOWN].tolist()))
        if len(values) > SHOWN:
            message += ", ..."
        raise InputError(
            "a mask of 0 and 1",
            rule="mask-values",
            location=f"{where}['masks'][{k}]",
            field="masks",
            value=f"values {message}",
            hint="say which values are the object, such as array > 0; "
            "Masks.from_labels splits a label map",
        )


def points_of(value: Any, n: int, where: str, dimensions: int) -> F64:
    """Return the (n, d) points of a record."""
    try:
        points = host_array(value, np.float64)
    except ValueError:
        raise InputError(
            "numbers", rule="type", location=where, field="points", value=value
        ) from None
    if points.size == 0 and n == 0:
        return np.zeros((0, dimensions))
    if points.shape != (n, dimensions):
        expected = f"points of shape ({n}, {dimensions}), one per object"
        raise InputError(
            expected, rule="point-shape", location=where, field="points", value=points.shape
        )
    odd = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if len(odd):
        place = f"{where}['points'][{int(odd[0])}]"
        raise InputError(
            "finite coordinates",
            rule="non-finite",
            location=place,
            field="points",
            value=points[odd[0]],
        )
    return points
