"""Independent readers of the formats under attack: a few lines each, written from the formats.

A peer takes the bytes of a file and returns its objects as rows `(image, class, box, score)`, or
raises whatever comes up for an input that it does not understand. `agrees` makes a judge of it:
what Calipers accepted as a whole has to be what the peer reads.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from xml.etree import ElementTree

import numpy as np

Row = tuple[str, str, tuple[float, ...], float | None]
Peer = Callable[[bytes], list[Row]]

NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
VINDR = {"3": "Cardiomegaly", "8": "Nodule/Mass", "14": ""}


class Disagreement(AssertionError):
    """Calipers accepted an input and read something else than its peer."""


def agrees(peer: Peer, model: bool = False) -> Callable[[bytes, Any], None]:
    """Return the judge that compares all rows with those of a peer."""

    def judge(content: bytes, cohort: Any) -> None:
        sound(cohort)
        wanted = reading(peer, content, cohort)
        if wanted is None:
            return
        table = next(iter(cohort.models.values())) if model else cohort.references
        compare(rows_of(cohort, table), wanted)

    return judge


def reading(peer: Callable[[bytes], Any], content: bytes, cohort: Any) -> Any:
    """Return what a peer reads; None if it refuses that, or cannot be compared."""
    if cohort.intake.quarantined:
        return None  # the rest is what the rules say, not what the file says
    try:
        return peer(content)
    except Disagreement:
        raise
    except Exception:
        return None


def sound(cohort: Any) -> None:
    """Every record is used or set aside, and every object lies on an image."""
    for account in cohort.intake.files:
        assert account.read == account.used + sum(account.quarantined.values())
    for table in (cohort.references, *cohort.models.values()):
        assert int(table.offsets[-1]) == len(table)


def rows_of(cohort: Any, table: Any) -> list[Row]:
    scores = getattr(table, "score", None)
    rows: list[Row] = []
    for k, (image, label, box) in enumerate(
        zip(table.image.tolist(), table.label.tolist(), table.boxes.tolist())
    ):
        score = None if scores is None else float(scores[k])
        rows.append((cohort.images.ids[image], cohort.classes[label], tuple(box), score))
    return rows


def compare(rows: Sequence[Row], wanted: Sequence[Row]) -> None:
    """Raise unless both have the same rows, in any order, up to the last bits of the boxes."""
    if len(rows) != len(wanted):
        raise Disagreement(f"{len(rows)} rows, but the peer reads {len(wanted)}")
    for row, other in zip(sorted(rows, key=_order), sorted(wanted, key=_order)):
        same = row[:2] == other[:2] and row[3] == other[3]
        box = list(map(float, other[2]))  # JSON has numbers that no array of integers holds
        if not same or not np.allclose(row[2], box, rtol=1e-9, atol=1e-9):
            raise Disagreement(f"{row}, but the peer reads {other}")


def _order(row: Row) -> tuple[Any, ...]:
    score = -1.0 if row[3] is None else row[3]
    return row[0], row[1], score, tuple(round(side, 6) for side in row[2])


def number(text: str) -> float:
    """Return a number as people write it; Python would also take 1_0 or digits of other scripts."""
    if not NUMBER.fullmatch(text):
        raise ValueError(text)
    return float(text)


def cells(content: bytes, delimiter: str = ",") -> Iterator[dict[str, str]]:
    """Yield the rows of delimited text that are not blank, by the header in lower case."""
    text = content.decode("utf-8-sig").lstrip()
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header = [name.strip().lower() for name in next(rows)]
    for row in rows:
        if any(cell.strip() for cell in row):
            if len(row) != len(header):
                raise ValueError(row)
            yield dict(zip(header, row))


def table(names: str, score: str = "") -> Peer:
    """Return the peer of a table with a row per object: image, class and four corners."""
    image, label, *box = names.split()

    def peer(content: bytes) -> list[Row]:
        rows: list[Row] = []
        for row in cells(content):
            if not any(row[name].strip() for name in (label, *box)):
                continue
            corners = tuple(number(row[name]) for name in box)
            rows.append((row[image], row[label], corners, number(row[score]) if score else None))
        return rows

    return peer


def submission(image: str, convert: Callable[[list[str]], Row | None], n_words: int) -> Peer:
    """Return the peer of a table with a string of boxes per image."""

    def peer(content: bytes) -> list[Row]:
        rows: list[Row] = []
        for row in cells(content):
            words = row["predictionstring"].split()
            for start in range(0, len(words), n_words):
                converted = convert([row[image], *words[start : start + n_words]])
                if converted is not None:
                    rows.append(converted)
        return rows

    return peer


def vindr(content: bytes) -> list[Row]:
    names = ("x_min", "y_min", "x_max", "y_max")
    rows: list[Row] = []
    for row in cells(content):
        if row["class_name"] not in ("No finding", ""):
            corners = tuple(number(row[name]) for name in names)
            rows.append((row["image_id"], row["class_name"], corners, None))
    return rows


def vindr_box(words: list[str]) -> Row | None:
    image, label, score, *box = words
    if not VINDR[label]:
        return None
    return image, VINDR[label], tuple(map(number, box)), number(score)


def rsna(content: bytes) -> list[Row]:
    rows: list[Row] = []
    for row in cells(content):
        if number(row["target"]):
            box = corners_of([row[name] for name in ("x", "y", "width", "height")])
            rows.append((row["patientid"], "pneumonia", box, None))
    return rows


def rsna_box(words: list[str]) -> Row:
    return words[0], "pneumonia", corners_of(words[2:]), number(words[1])


def corners_of(words: Sequence[Any]) -> tuple[float, ...]:
    """Return the corners of x, y, width, height, as texts or numbers."""
    x, y, w, h = (number(word) if isinstance(word, str) else float(word) for word in words)
    return x, y, x + w, y + h


OPEN_SIZES = {"000026e7ee790996": (200, 100), "000062a39995e348": (400, 300)}


def openimages(content: bytes) -> list[Row]:
    rows: list[Row] = []
    for row in cells(content):
        sides = [number(row[name]) for name in ("xmin", "ymin", "xmax", "ymax")]
        rows.append((row["imageid"], row["labelname"], _scaled(row["imageid"], sides), None))
    return rows


def openimages_box(words: list[str]) -> Row:
    image, label, score, *box = words
    return image, label, _scaled(image, list(map(number, box))), number(score)


def _scaled(image: str, sides: list[float]) -> tuple[float, ...]:
    width, height = OPEN_SIZES[image]
    return tuple(side * length for side, length in zip(sides, (width, height) * 2))


def luna16(annotations: str, excluded: str, name: str) -> Peer:
    """Return the peer of the folder, of which one file is damaged."""

    def peer(content: bytes) -> list[Row]:
        texts = {"annotations": annotations.encode(), "excluded": excluded.encode()}
        texts[name] = content
        rows: list[Row] = []
        for key, text in texts.items():
            for row in cells(text):
                centre = [number(row[axis]) for axis in ("coordx", "coordy", "coordz")]
                diameter = number(row["diameter_mm"])
                if key == "excluded" and diameter == -1:
                    diameter = 10.0
                scan = row["seriesuid"].strip()
                rows.append((scan, "nodule", _cube(centre, diameter), None))
        return rows

    return peer


def _cube(centre: list[float], diameter: float) -> tuple[float, ...]:
    low = [place - diameter / 2 for place in centre]
    return (*low, *(place + diameter / 2 for place in centre))


def candidates(content: bytes) -> list[Row]:
    rows: list[Row] = []
    for row in cells(content):
        centre = [number(row[axis]) for axis in ("coordx", "coordy", "coordz")]
        score = number(row["probability"])
        rows.append((row["seriesuid"].strip(), "nodule", _cube(centre, 0.0), score))
    return rows


def deeplesion(content: bytes) -> list[Row]:
    rows: list[Row] = []
    for row in cells(content):
        if row["bounding_boxes"].strip():
            box = tuple(number(word) for word in row["bounding_boxes"].split(","))
            rows.append((row["file_name"], "lesion", box, None))
    return rows


def siim(content: bytes) -> list[Row]:
    rows: list[Row] = []
    for row in cells(content):
        words = row["encodedpixels"].split()
        if words in ([], ["-1"]):
            continue
        mask = np.zeros(1024 * 1024, np.bool_)
        place = 0
        for skip, length in zip(words[0::2], words[1::2], strict=True):
            place += int(skip)
            if not (skip.isdigit() and length.isdigit()) or place + int(length) > len(mask):
                raise ValueError(words)
            mask[place : place + int(length)] = True
            place += int(length)
        x, y = np.nonzero(mask.reshape(1024, 1024))
        box = (float(x.min()), float(y.min()), float(x.max() + 1), float(y.max() + 1))
        rows.append((row["imageid"].strip(), "pneumothorax", box, None))
    return rows


def nih(content: bytes) -> list[Row]:
    text = content.decode("utf-8-sig").lstrip()
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[Row] = []
    next(lines)
    for cells_of_row in lines:
        if not any(cell.strip() for cell in cells_of_row):
            continue
        image, label, *others = cells_of_row
        if any(cell.strip() for cell in others[4:]):
            raise ValueError(others)
        name = "Infiltration" if label == "Infiltrate" else label
        rows.append((image, name, corners_of(others[:4]), None))
    return rows


def lard(content: bytes) -> list[Row]:
    rows: list[Row] = []
    for row in cells(content, ";"):
        xs = [row[f"x_{corner}"] for corner in "abcd"]
        ys = [row[f"y_{corner}"] for corner in "abcd"]
        if any(cell.strip() for cell in (*xs, *ys)):
            x, y = list(map(number, xs)), list(map(number, ys))
            rows.append((row["image"], "runway", (min(x), min(y), max(x), max(y)), None))
    return rows


def node21(content: bytes) -> list[Row]:
    rows: list[Row] = []
    for row in cells(content):
        if number(row["label"]):
            box = corners_of([row[name] for name in ("x", "y", "width", "height")])
            rows.append((row["img_name"], "nodule", box, None))
    return rows


def plain(content: bytes) -> Any:
    """Return a JSON document without keys that stand twice and without NaN."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError(pairs)
        return dict(pairs)

    def refuse(word: str) -> None:
        raise ValueError(word)

    text = content.decode("utf-8-sig")
    return json.loads(text, object_pairs_hook=once, parse_constant=refuse)


def _box_of_corners(box: Any, image: str) -> Row:
    points = box["corners"]
    x, y = [point[0] for point in points], [point[1] for point in points]
    score = box["probability"]
    return image, "nodule", (min(x), min(y), max(x), max(y)), score


def jobs(content: bytes) -> list[Row]:
    rows: list[Row] = []
    for job in plain(content):
        (image,) = [entry["image"]["name"] for entry in job["inputs"] if "image" in entry]
        (boxes,) = [entry["value"]["boxes"] for entry in job["outputs"]]
        # Names without folder and suffix are those of the images, too.
        name = image.rsplit("/", 1)[-1].split(".")[0] + ".mha"
        rows += [_box_of_corners(box, name) for box in boxes]
    return rows


def nodules(content: bytes) -> list[Row]:
    rows: list[Row] = []
    for box in plain(content)["boxes"]:
        (z,) = {point[2] for point in box["corners"]}
        if z != int(z):
            raise Disagreement(f"a box on the image {z}")
        rows.append(_box_of_corners(box, str(int(z))))
    return rows


def voc(content: bytes) -> list[Row]:
    rows: list[Row] = []
    for entry in ElementTree.fromstring(content).findall("object"):
        label, box = _text(entry, "name"), _one(entry, "bndbox")
        x0, y0, x1, y1 = (number(_text(box, side)) for side in ("xmin", "ymin", "xmax", "ymax"))
        rows.append(("a", label, (x0 - 1, y0 - 1, x1, y1), None))
    return rows


def _one(element: Any, tag: str) -> Any:
    children = element.findall(tag)
    if len(children) > 1:
        raise Disagreement(f"{len(children)} elements <{tag}> where there is one")
    return children[0]


def _text(element: Any, tag: str) -> str:
    return "".join(_one(element, tag).itertext()).strip()


def cvat(content: bytes) -> list[Row]:
    rows: list[Row] = []
    for image in ElementTree.fromstring(content).findall("image"):
        for shape in image:
            if shape.tag not in ("tag", "attribute"):
                rows.append((image.attrib["name"], shape.attrib["label"], _around(shape), None))
    return rows


def _around(shape: Any) -> tuple[float, ...]:
    """Return the box around a shape of CVAT."""
    numbers = {key: number(text) for key, text in shape.attrib.items() if key in CVAT_NUMBERS}
    angle = math.radians(numbers.get("rotation", 0.0))
    cosine, sine = math.cos(angle), math.sin(angle)
    if shape.tag == "polygon":
        points = [tuple(map(number, pair.split(","))) for pair in shape.attrib["points"].split(";")]
        x, y = zip(*points)
        return min(x), min(y), max(x), max(y)
    if shape.tag == "ellipse":
        rx, ry = numbers["rx"], numbers["ry"]
        if rx < 0 or ry < 0:
            raise Disagreement(f"an ellipse with the radii {rx} and {ry}")
        half = math.hypot(rx * cosine, ry * sine), math.hypot(rx * sine, ry * cosine)
        x, y = numbers["cx"], numbers["cy"]
        return x - half[0], y - half[1], x + half[0], y + half[1]
    if shape.tag != "box":
        raise ValueError(shape.tag)
    box = [numbers[name] for name in ("xtl", "ytl", "xbr", "ybr")]
    if not angle:
        return tuple(box)
    w, h = (box[2] - box[0]) / 2, (box[3] - box[1]) / 2
    x, y = box[0] + w, box[1] + h
    half = abs(w * cosine) + abs(h * sine), abs(w * sine) + abs(h * cosine)
    return x - half[0], y - half[1], x + half[0], y + half[1]


CVAT_NUMBERS = ("xtl", "ytl", "xbr", "ybr", "cx", "cy", "rx", "ry", "rotation")


def lines_of(content: bytes) -> Iterator[list[str]]:
    for line in content.decode("utf-8-sig").split("\n"):
        if line.split():
            yield line.split()


def voc_results(content: bytes) -> list[Row]:
    rows: list[Row] = []
    for image, score, *box in lines_of(content):
        x0, y0, x1, y1 = map(number, box)
        rows.append((image, "dog", (x0 - 1, y0 - 1, x1, y1), number(score)))
    return rows


def yolo(scored: bool) -> Peer:
    """Return the peer of the lines of the image ``a``, which has 100 x 80 pixels."""

    def peer(content: bytes) -> list[Row]:
        rows: list[Row] = []
        for words in lines_of(content):
            label, *numbers = map(number, words)
            score = numbers.pop() if scored else None
            if len(numbers) != 4:
                raise ValueError(words)
            x, y, w, h = numbers
            box = (x - w / 2, y - h / 2, x + w / 2, y + h / 2)
            scaled = tuple(side * (100, 80)[k % 2] for k, side in enumerate(box))
            rows.append(("a", ["polyp", "other thing"][int(label)], scaled, score))
        return rows

    return peer


def ultralytics(content: bytes) -> list[Row]:
    rows: list[Row] = []
    for record in plain(content):
        box = tuple(record["box"][side] for side in ("x1", "y1", "x2", "y2"))
        label = _class(record["name"] if "name" in record else record["class"])
        rows.append(("a", label, box, record["confidence"]))
    return rows


def _class(label: Any) -> str:
    """Return the only class of the references of dumps: its number or its name."""
    if label in (0, "polyp"):
        return "polyp"
    raise Disagreement(f"the class {label!r}")


def torchvision(content: bytes) -> list[Row]:
    rows: list[Row] = []
    for image, entry in plain(content).items():
        columns = (entry["boxes"], entry["labels"], entry["scores"])
        for box, label, score in zip(*columns, strict=True):
            rows.append((image, _class(label), tuple(box), score))
    return rows


def detectron2(content: bytes) -> list[Row]:
    rows: list[Row] = []
    for entry in plain(content):
        for record in entry["instances"]:
            if record.get("image_id", entry["image_id"]) != entry["image_id"]:
                raise Disagreement("an instance of another image")
            box = corners_of(record["bbox"])
            label = _class(record["category_id"])
            rows.append((str(entry["image_id"]), label, box, record["score"]))
    return rows


def coco(content: bytes) -> list[Row]:
    document = plain(content)
    names = {entry["id"]: entry["name"] for entry in document["categories"]}
    rows: list[Row] = []
    for record in document.get("annotations") or ():
        box = corners_of(record["bbox"])
        rows.append((str(record["image_id"]), names[record["category_id"]], box, None))
    return rows


def coco_results(content: bytes) -> list[Row]:
    document = plain(content)
    names = {1: "nodule", 2: "mass"}
    if isinstance(document, dict):
        if "categories" in document:
            names = {entry["id"]: entry["name"] for entry in document["categories"]}
        document = document["annotations"]
    rows: list[Row] = []
    for record in document:
        box, label = corners_of(record["bbox"]), names[record["category_id"]]
        rows.append((str(record["image_id"]), label, box, record["score"]))
    return rows


def groups(content: bytes, cohort: Any) -> None:
    """Compare the columns of a table of groups, if its header is still the old one."""
    sound(cohort)
    try:
        rows = {row["image_id"]: row for row in cells(content)}
        wanted = [(rows[image]["patient"], rows[image]["age"]) for image in cohort.images.ids]
    except Exception:
        return
    # A column of the user's own keeps the name that its header has.
    columns = {name.lower(): column for name, column in cohort.images.groups.items()}
    pairs = zip(map(str, columns["patient"].tolist()), map(str, columns["age"].tolist()))
    assert list(pairs) == wanted
