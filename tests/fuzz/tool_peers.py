"""Independent readers of what annotation tools write: LabelMe, Label Studio, label pictures, DICOM
reports, LIDC, nnDetection and PolypGen; see `fuzz.peers`.
"""

from __future__ import annotations

import base64
import io
import itertools
import json
import math
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from PIL import Image
from scipy import ndimage

from fuzz import volumes
from fuzz.peers import Disagreement, Row, cells, lines_of, number, plain

SUFFIXES = ("rectanglelabels", "polygonlabels", "ellipselabels", "brushlabels", "labels")


def _real(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(value)
    return float(value)


def _around(points: Any) -> tuple[float, ...]:
    if not points or any(len(point) != 2 for point in points):
        raise ValueError(points)
    x, y = [_real(point[0]) for point in points], [_real(point[1]) for point in points]
    return min(x), min(y), max(x), max(y)


def _of_pixels(inside: np.ndarray, left: int = 0, top: int = 0) -> tuple[float, ...]:
    y, x = np.nonzero(inside)
    box = (x.min() + left, y.min() + top, x.max() + 1 + left, y.max() + 1 + top)
    return tuple(map(float, box))


def _labelme_box(shape: Any) -> tuple[float, ...]:
    kind = shape.get("shape_type", "polygon")
    # As numbers of one kind: whole numbers of JSON would be exact.
    points = [list(map(_real, point)) for point in shape["points"]]
    box = _around(points)
    if kind == "circle":
        (x, y), (u, v) = points
        radius = math.hypot(u - x, v - y)
        return x - radius, y - radius, x + radius, y + radius
    if kind == "mask":
        with Image.open(io.BytesIO(base64.b64decode(shape["mask"], validate=True))) as image:
            return _of_pixels(np.asarray(image) > 0, int(points[0][0]), int(points[0][1]))
    if kind not in ("rectangle", "polygon", "oriented_rectangle"):
        raise ValueError(kind)
    return box


def labelme(content: bytes) -> list[Row]:
    """Every shape is an object; those of one label and group are one."""
    objects: dict[tuple[str, Any], list[tuple[float, ...]]] = {}
    for k, shape in enumerate(plain(content)["shapes"]):
        group = shape.get("group_id")
        if group is not None and (isinstance(group, bool) or not isinstance(group, int | str)):
            raise Disagreement(f"a group {group!r}")
        # JSON text tells 1 and "1" apart.
        key = (shape["label"], ("alone", k) if group is None else json.dumps(group))
        objects.setdefault(key, []).append(_labelme_box(shape))
    rows: list[Row] = []
    for (label, _), boxes in objects.items():
        low, high = np.min(boxes, axis=0), np.max(boxes, axis=0)
        rows.append(("a", label, (*low[:2].tolist(), *high[2:].tolist()), None))
    return rows


# The class of an object, and its pixels.
Painted = tuple[str, np.ndarray]


def drawn(rings: list[list[float]], width: int, height: int) -> np.ndarray:
    """Return the pixels of an outline, as pycocotools draws it."""
    from pycocotools import mask

    # It crashes at far corners, and repeats what is above 2^31.
    if not rings or any(not abs(number) < 1e5 for ring in rings for number in ring):
        raise ValueError(rings)
    runs = mask.frPyObjects(rings, height, width)
    return mask.decode(mask.merge(runs)).astype(bool)


def same_masks(cohort: Any, wanted: list[Painted]) -> None:
    """Raise unless both have the same pixels of every class, in any order."""
    masks, labels = cohort.references.masks, cohort.references.label.tolist()
    own = []
    for k, label in enumerate(labels):
        own.append((cohort.classes[label], np.asarray(masks[k : k + 1].dense(0), bool)))
    pairs = [sorted((name, a.shape, a.tobytes()) for name, a in side) for side in (own, wanted)]
    if pairs[0] != pairs[1]:
        sums = [[(name, int(a.sum())) for name, a in side] for side in (own, wanted)]
        raise Disagreement(f"other pixels: {sums[0]}, but the peer has {sums[1]}")


def labelme_masks(content: bytes) -> list[Painted]:
    """Every shape is an outline or a painted mask; those of one label and group are one."""
    document = plain(content)
    width, height = document["imageWidth"], document["imageHeight"]
    if not isinstance(width, int) or not isinstance(height, int) or width * height > 1 << 20:
        raise ValueError(width)
    objects: dict[tuple[str, Any], list[tuple[str, Any]]] = {}
    for k, shape in enumerate(document["shapes"]):
        kind, group = shape.get("shape_type", "polygon"), shape.get("group_id")
        points = [list(map(_real, point)) for point in shape["points"]]
        if kind == "polygon":
            part: Any = [number for point in points for number in point]
        elif kind == "mask":
            with Image.open(io.BytesIO(base64.b64decode(shape["mask"], validate=True))) as image:
                pixels = np.asarray(image) > 0
            part = np.zeros((height, width), bool)
            x, y = (int(number) for number in points[0])
            part[y : y + pixels.shape[0], x : x + pixels.shape[1]] = pixels
        else:
            raise ValueError(kind)
        key = (shape["label"], ("alone", k) if group is None else json.dumps(group))
        objects.setdefault(key, []).append((kind, part))
    painted: list[Painted] = []
    for (label, _), parts in objects.items():
        kinds = {kind for kind, _ in parts}
        if len(kinds) > 1:
            raise ValueError(kinds)
        if kinds == {"mask"}:
            pixels = np.any([part for _, part in parts], axis=0)
        else:
            pixels = drawn([part for _, part in parts], width, height)
        painted.append((label, pixels))
    return painted


def label_studio_masks(content: bytes) -> list[Painted]:
    """Every region is a brush, a polygon or a turned rectangle."""
    painted: list[Painted] = []
    for task in plain(content):
        for entry in task["annotations"]:
            for region in [] if entry.get("was_cancelled") else entry["result"]:
                label, _ = _studio_region(region)
                painted.append((label, _studio_pixels(region)))
    return painted


def _studio_pixels(region: Any) -> np.ndarray:
    value = region["value"]
    width, height = _real(region["original_width"]), _real(region["original_height"])
    if "rle" in value:
        alpha = np.array(_unpacked(value["rle"])[3::4])
        return alpha.reshape(int(height), int(width)) > 0
    if width * height > 1 << 20:
        raise ValueError(width)
    ring: list[float] = []
    if "points" in value:
        for x, y in value["points"]:
            ring += [_real(x) * width / 100.0, _real(y) * height / 100.0]
        return drawn([ring], int(width), int(height))
    raise ValueError(value)


def scores_of_labels(content: bytes) -> dict[str, float]:
    """Return the score of every value of the volume ``c``."""
    scores: dict[str, float] = {}
    for row in cells(content):
        if row["image"].strip() == "c":
            value = number(row["label"])
            if str(int(value)) in scores or value != int(value):
                raise Disagreement(f"two scores of {value}, or a part of one")
            scores[str(int(value))] = number(row["score"])
    return scores


def names_of_values(content: bytes) -> dict[int, str]:
    """Return the names of the values, for a file in which each has one."""
    names: dict[int, str] = {}
    for key, value in plain(content)["labels"].items():
        entry = (int(key), value) if isinstance(value, str) else (value, key)
        if isinstance(entry[0], bool) or not isinstance(entry[0], int):
            raise ValueError(entry)
        if entry[0] in names:
            raise Disagreement(f"two names of {entry[0]}")
        names[entry[0]] = entry[1]
    return names


def label_studio(content: bytes, scored: bool = False) -> list[Row]:
    """Every region that has a shape is an object of its one label."""
    rows: list[Row] = []
    for task in plain(content):
        name = _studio_name(task["data"])
        entries = task.get("predictions" if scored else "annotations") or []
        if not isinstance(entries, list):
            raise ValueError(entries)
        for entry in entries:
            if entry.get("was_cancelled"):
                continue
            for region in entry["result"]:
                score = None
                if scored:
                    score = _real(region["score"] if "score" in region else entry["score"])
                rows.append((name, *_studio_region(region), score))
    return rows


def label_studio_sizes(content: bytes) -> dict[str, tuple[Any, Any]]:
    """Return the width and height that all regions of a picture state."""
    sizes: dict[str, set[tuple[Any, Any]]] = {}
    for task in plain(content):
        for entry in task["annotations"]:
            for region in [] if entry.get("was_cancelled") else entry["result"]:
                sides = _real(region["original_width"]), _real(region["original_height"])
                sizes.setdefault(_studio_name(task["data"]), set()).add(sides)
    if any(len(sides) > 1 for sides in sizes.values()):
        raise Disagreement(f"pictures of the sizes {sizes}")
    return {name: next(iter(sides)) for name, sides in sizes.items()}


def _studio_name(data: Any) -> str:
    if "image" not in data:
        raise ValueError(data)
    name = data["image"].rsplit("/", 1)[-1]
    mark, dash, rest = name.partition("-")
    is_marked = len(mark) == 8 and set(mark) <= set("0123456789abcdef") and bool(dash and rest)
    return rest if is_marked and "/upload/" in data["image"] else name


def _studio_region(region: Any) -> tuple[str, tuple[float, ...]]:
    value = region["value"]
    labels = [value[name] for name in SUFFIXES if name in value]
    if len(labels) != 1:
        raise ValueError(labels)
    if not isinstance(labels[0], list) or len(labels[0]) != 1:
        raise Disagreement(f"a region whose labels are {labels[0]!r}")
    sides = _real(region["original_width"]), _real(region["original_height"])
    if "rle" in value:
        alpha = np.array(_unpacked(value["rle"])[3::4])
        return labels[0][0], _of_pixels(alpha.reshape(int(sides[1]), int(sides[0])) > 0)
    scale = np.array(sides) / 100
    if "points" in value:
        points = np.array([list(map(_real, point)) for point in value["points"]]) * scale
        return labels[0][0], (*points.min(axis=0).tolist(), *points.max(axis=0).tolist())
    angle = math.radians(_real(value.get("rotation") or 0))
    turned = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    corner = np.array([_real(value["x"]), _real(value["y"])]) * scale
    if "radiusX" in value:
        radii = np.array([_real(value["radiusX"]), _real(value["radiusY"])]) * scale
        if (radii < 0).any():
            raise Disagreement(f"an ellipse with the radii {radii}")
        half = np.sqrt((turned**2) @ (radii**2))
        return labels[0][0], (*(corner - half).tolist(), *(corner + half).tolist())
    w, h = np.array([_real(value["width"]), _real(value["height"])]) * scale
    # About the first corner.
    corners = corner + np.array([[0, 0], [w, 0], [w, h], [0, h]]) @ turned.T
    return labels[0][0], (*corners.min(axis=0).tolist(), *corners.max(axis=0).tolist())


def _unpacked(packed: list[int]) -> list[int]:
    """Return the words of Label Studio's packed bytes, bit by bit."""
    bits = "".join(f"{byte:08b}" for byte in packed)
    at = 0

    def take(n: int) -> int:
        nonlocal at
        at += n
        if at > len(bits):
            raise ValueError(packed)
        return int(bits[at - n : at], 2)

    n_words, word = take(32), take(5) + 1
    sizes = [take(4) + 1 for _ in range(4)]
    words: list[int] = []
    while len(words) < n_words:
        is_run, size = take(1), sizes[take(2)]
        count = take(size) + 1
        if is_run:
            words += [take(word)] * count
        else:
            words += [take(word) for _ in range(count)]
    return words


def label_studio_predictions(content: bytes) -> list[Row]:
    return label_studio(content, scored=True)


def label_picture(content: bytes) -> list[Row]:
    """Every connected region of a value is an object of that class."""
    with Image.open(io.BytesIO(content)) as image:
        if image.mode != "L" or content[24] != 8:
            raise ValueError(image.mode)
        labels = np.asarray(image)
    return _regions(labels, "l")


def label_volume(suffix: str) -> Callable[[bytes], list[Row]]:
    """Return the peer of a volume of labels, which nibabel or SimpleITK reads."""

    def peer(content: bytes) -> list[Row]:
        labels, _, _ = volumes.PEERS[suffix](content)
        # Axes of one voxel may be left out, and labels are whole numbers.
        if labels.ndim != 3 or 1 in labels.shape or (labels != np.rint(labels)).any():
            raise ValueError(labels.shape)
        return _regions(labels.astype(np.int64), "l")

    return peer


def _regions(labels: np.ndarray, name: str) -> list[Row]:
    rows: list[Row] = []
    for value in np.unique(labels[labels > 0]).tolist():
        regions, n = ndimage.label(labels == value, np.ones((3,) * labels.ndim))
        assert n == regions.max()
        for place in ndimage.find_objects(regions):
            box = [*(side.start for side in place[::-1]), *(side.stop for side in place[::-1])]
            rows.append((name, str(value), tuple(map(float, box)), None))
    return rows


def nndetection(labels: np.ndarray, content: bytes) -> list[Row]:
    """Every value of the volume is an instance of the class that the JSON file says."""
    instances = plain(content)["instances"]
    rows: list[Row] = []
    for value in np.unique(labels[labels > 0]).tolist():
        label = instances[str(value)]
        if isinstance(label, bool) or not isinstance(label, int):
            raise Disagreement(f"a class {label!r}")
        places = np.argwhere(labels == value)[:, ::-1]
        box = (*places.min(axis=0).tolist(), *(places.max(axis=0) + 1).tolist())
        rows.append(("c", str(label), tuple(map(float, box)), None))
    return rows


def nndetection_boxes(content: bytes) -> list[Row]:
    rows: list[Row] = []
    for record in plain(content).values():
        z0, y0, z1, y1, x0, x1 = map(_real, record["box"])
        if isinstance(record["label"], bool) or not isinstance(record["label"], int):
            raise Disagreement(f"a class {record['label']!r}")
        box = (x0 + 1, y0 + 1, z0 + 1, x1, y1, z1)
        rows.append(("c", str(record["label"]), box, _real(record["score"])))
    return rows


def polypgen(content: bytes) -> list[Row]:
    rows: list[Row] = []
    for words in lines_of(content.replace(b",", b" ")):
        if len(words) == 5 and words.pop(0).lower() != "polyp":
            raise Disagreement(f"a line {words}")
        if len(words) != 4:
            raise ValueError(words)
        rows.append(("C1/a", "polyp", tuple(map(number, words)), None))
    return rows


def lidc(content: bytes) -> list[Row]:
    """Every annotation is the box around its contours."""
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as file:
        file.write(content)
        file.flush()
        base = sqlite3.connect(f"file:{file.name}?mode=ro&immutable=1", uri=True)
        try:
            rows = list(_annotations(base))
        finally:
            base.close()
    for (image, _, first, _), (other, _, second, _) in itertools.combinations(rows, 2):
        apart = any(first[k] >= second[k + 3] or second[k] >= first[k + 3] for k in range(3))
        if image == other and not apart:
            raise ValueError("annotations that overlap are one finding of several readers")
    return rows


def _annotations(base: sqlite3.Connection) -> Iterator[Row]:
    scans = base.execute("SELECT id, series_instance_uid FROM scans").fetchall()
    names = dict(scans)
    if len(names) < len(scans):
        raise Disagreement("two scans of one number")
    annotations = base.execute("SELECT id, scan_id FROM annotations").fetchall()
    if len(dict(annotations)) < len(annotations):
        raise Disagreement("two annotations of one number")
    for annotation, scan in annotations:
        query = "SELECT val FROM zvals WHERE scan_id = ? ORDER BY val"
        slices = [value for (value,) in base.execute(query, [scan])]
        if len(set(slices)) < len(slices):
            raise Disagreement("two slices at one place")
        points = []
        query = "SELECT image_z_position, coords FROM contours WHERE annotation_id = ?"
        for z, text in base.execute(query, [annotation]):
            k = min(range(len(slices)), key=lambda k: abs(slices[k] - z))
            for line in text.split("\n"):
                x, y = map(number, line.split(","))
                points.append((x, y, float(k)))
        low, high = np.min(points, axis=0), np.max(points, axis=0) + 1
        yield str(names[scan]), "nodule", (*low.tolist(), *high.tolist()), None


def structured_report(content: bytes, scored: bool = False) -> list[Row]:
    """Every region of a measurement group is an object of the finding of its group."""
    import pydicom

    rows: list[Row] = []
    # Whatever a report calls itself, it is no group.
    waiting = list(pydicom.dcmread(io.BytesIO(content)).get("ContentSequence") or ())
    while waiting:
        item = waiting.pop()
        children = list(item.get("ContentSequence") or ())
        if _concept(item) == "125007":
            rows += _group(children, scored)
        else:
            waiting += children
    return rows


def scored_report(content: bytes) -> list[Row]:
    return structured_report(content, scored=True)


def _concept(item: Any, sequence: str = "ConceptNameCodeSequence") -> str:
    codes = {str(concept.get("CodeValue", "")) for concept in item.get(sequence) or ()}
    if len(codes) > 1:
        raise Disagreement(f"one item is called {codes}")
    return next(iter(codes), "")


def _certainty(children: list[Any]) -> float:
    values = set()
    for item in children:
        if _concept(item) in ("111012", "111047"):
            (measured,) = item.MeasuredValueSequence
            number = _real(float(measured.NumericValue))
            unit = _concept(measured, "MeasurementUnitsCodeSequence")
            values.add(number / 100 if unit == "%" else number)
    if len(values) > 1:
        raise Disagreement(f"the certainties {values}")
    return values.pop()


def _group(children: list[Any], scored: bool) -> Iterator[Row]:
    labels = set()
    for item in children:
        if _concept(item) == "121071":
            labels.add(str(item.ConceptCodeSequence[0].get("CodeMeaning", "")).strip())
    if len(labels) > 1:
        raise Disagreement(f"the findings {labels}")
    label = next(iter(labels), "") or "finding"
    for item in children:
        if _concept(item) != "111030":
            continue
        data = list(map(float, item.GraphicData))
        points = list(zip(data[0::2], data[1::2], strict=True))
        box = _around(points)
        if item.GraphicType == "CIRCLE":
            (x, y), (u, v) = points
            radius = math.hypot(u - x, v - y)
            box = x - radius, y - radius, x + radius, y + radius
        if item.GraphicType == "ELLIPSE":
            (a, b, c, d) = np.array(points)
            half = np.sqrt((a - b) ** 2 + (c - d) ** 2) / 2
            box = (*((a + b) / 2 - half).tolist(), *((a + b) / 2 + half).tolist())
        (source,) = item.ContentSequence
        if len(source.ReferencedSOPSequence) > 1:
            raise Disagreement("a region on several images")
        reference = source.ReferencedSOPSequence[0]
        frame = reference.get("ReferencedFrameNumber")
        if frame is not None and not isinstance(frame, int | str):
            raise Disagreement(f"a region on the frames {frame}")
        name = str(reference.ReferencedSOPInstanceUID)
        score = _certainty(children) if scored else None
        yield name if frame is None else f"{name}#{int(frame)}", label, box, score


def saved_rows(content: bytes, evaluation: Any) -> None:
    """What opens as a whole says what the document says, key by key."""
    document, own = plain(content), evaluation.as_dict()
    for key, value in document.items():
        if key in own and own[key] != value:
            raise Disagreement(f"{key} is not what the document says")


def sound_rows(rows: Any) -> Any:
    """Return the judge of other files of a folder: the results stay what they were."""

    def judge(content: bytes, evaluation: Any) -> None:
        if evaluation.as_dict()["rows"] != rows:
            raise Disagreement("other results")

    return judge
