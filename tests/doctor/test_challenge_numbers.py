"""Folders of challenges and of volumes: the first command of the doctor gives the numbers that
NumPy and SciPy give by the definitions alone.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import ndimage

from calipers.cli.main import run
from calipers.io.write_volume import write_volume

Box = tuple[float, ...]
Arrays = dict[str, np.ndarray]
TOUCHING = np.ones((3, 3, 3), bool)


class Detection(NamedTuple):
    image: str
    box: Box  # low corner, then high corner
    score: float


def overlap(a: Box, b: Box) -> float:
    """IoU of two boxes of any dimension."""
    n = len(a) // 2
    low, high = np.maximum(a[:n], b[:n]), np.minimum(a[n:], b[n:])
    common = float(np.prod(np.clip(high - low, 0, None)))
    sizes = [float(np.prod(np.subtract(box[n:], box[:n]))) for box in (a, b)]
    return common / (sum(sizes) - common)


def hits_of(truth: dict[str, list[Box]], cad: list[Detection], limit: float) -> list[bool]:
    """Return whether each detection, best first, takes the free reference that it overlaps most."""
    free = {image: list(boxes) for image, boxes in truth.items()}
    hits = []
    for one in cad:
        boxes = free[one.image]
        values = [overlap(box, one.box) for box in boxes]
        best = int(np.argmax(values)) if values else -1
        hits.append(best >= 0 and values[best] > limit)
        if hits[-1]:
            del boxes[best]
    return hits


def first_numbers(
    capsys: pytest.CaptureFixture[str], *paths: str, more: tuple[str, ...] = ()
) -> dict[str, float]:
    """Run the first command that the doctor prints, and return the values over all classes."""
    run(["doctor", *paths])
    text = capsys.readouterr().out
    commands = [line.strip() for line in text.splitlines() if line.startswith("  calipers ")]
    assert commands, text
    assert run([*shlex.split(commands[0])[1:], "--no-ci", "--json", *more]) == 0, commands[0]
    rows = json.loads(capsys.readouterr().out)["rows"]
    return {row["metric"]: row["value"] for row in rows if row.get("class") is None}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_node21(seed: int, tmp_path: Path, monkeypatch, capsys) -> None:
    """0.75 times the AUROC of images, and 0.25 times the sensitivity at 0.25 false alarms each."""
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(seed)
    truth: dict[str, list[Box]] = {}
    cad: list[Detection] = []
    rows, jobs = ["height,img_name,label,width,x,y"], []
    for k in range(40):
        image = f"{'n' if k < 24 else 'c'}{k:04d}.mha"
        boxes: list[Box] = []
        for cell in range(int(draw.integers(1, 4)) if k < 24 else 0):
            x, y = 300 * cell + draw.integers(0, 100), draw.integers(50, 800)
            w, h = draw.integers(30, 90, 2)
            boxes.append((x, y, x + w, y + h))
            rows.append(f"{h},{image},1,{w},{x},{y}")
        rows += [] if boxes else [f"0,{image},0,0,0,0"]
        truth[image] = boxes
        own = []
        for box in boxes:
            for _ in range(draw.integers(0, 3)):
                moved = np.tile(draw.integers(-20, 21, 2), 2) + box
                own.append((tuple(moved.tolist()), draw.uniform(0.2, 1)))
        for _ in range(draw.integers(0, 3)):
            x, y = draw.integers(0, 900, 2)
            own.append(((x, y, x + 60, y + 50), draw.uniform(0, 0.8)))
        listed = []
        for box, score in own:
            cad.append(Detection(image, tuple(map(float, box)), round(float(score), 6)))
            x0, y0, x1, y1 = map(float, box)
            corners = [[x1, y1, 0], [x0, y1, 0], [x0, y0, 0], [x1, y0, 0]]
            listed.append({"corners": corners, "probability": cad[-1].score})
        value = {"type": "Multiple 2D bounding boxes", "boxes": listed}
        value["version"] = {"major": 1, "minor": 0}
        inputs = [{"image": {"name": image}, "interface": {"slug": "generic-image"}}]
        outputs = [{"interface": {"slug": "nodules"}, "value": value}]
        jobs.append({"pk": str(k), "status": "Succeeded", "inputs": inputs, "outputs": outputs})
    (tmp_path / "metadata.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "predictions.json").write_text(json.dumps(jobs))

    cad.sort(key=lambda one: -one.score)
    hits = np.array(hits_of(truth, cad, 0.2))
    assert len({one.score for one in cad}) == len(cad)
    n_references = sum(map(len, truth.values()))
    is_allowed = np.cumsum(~hits) <= 0.25 * len(truth)
    sensitivity = np.cumsum(hits)[is_allowed].max() / n_references
    highest = {image: max([0.0, *(d.score for d in cad if d.image == image)]) for image in truth}
    pairs = [
        np.sign(highest[sick] - highest[well]) / 2 + 0.5
        for sick, well in product(truth, truth)
        if truth[sick] and not truth[well]
    ]
    values = first_numbers(capsys, "metadata.csv", "predictions.json")
    assert values["FROC@0.25"] == pytest.approx(sensitivity, abs=1e-12)
    assert values["AUROC/case"] == pytest.approx(np.mean(pairs), abs=1e-12)
    score = 0.75 * np.mean(pairs) + 0.25 * sensitivity
    assert values["score"] == pytest.approx(score, abs=1e-12)


def run_lengths(mask: np.ndarray) -> str:
    """Write a mask [y, x] as SIIM-ACR does: down the columns, starts since the end of the last."""
    line = mask.T.ravel()
    edges = np.flatnonzero(np.diff(np.concatenate([[0], line, [0]])))
    starts, ends = edges[::2], edges[1::2]
    gaps = starts - np.concatenate([[0], ends[:-1]])
    return " ".join(f"{gap} {end - start}" for gap, start, end in zip(gaps, starts, ends))


def test_siim_run_lengths(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(5)
    y, x = np.indices((1024, 1024))
    texts: dict[str, list[str]] = {"train": [], "submission": []}
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    n_alarms = 0
    for k in range(8):
        name = f"1.2.276.0.7230010.3.1.4.{k}"
        if k > 5:
            texts["train"].append(f"{name}, -1")
            alarm = k == 7
            texts["submission"].append(f"{name}, {'5000 9 1015 9' if alarm else '-1'}")
            n_alarms += alarm
            continue
        (cy, cx), (ry, rx) = draw.integers(200, 800, 2), draw.integers(30, 120, 2)
        moved = draw.integers(-30, 31, 2)
        masks = []
        for dy, dx in ((0, 0), moved):
            inside = ((y - cy - dy) / ry) ** 2 + ((x - cx - dx) / rx) ** 2 <= 1
            masks.append(inside.astype(np.int8))
        pairs.append((masks[0] > 0, masks[1] > 0))
        for text, mask in zip(texts.values(), masks):
            text.append(f"{name}, {run_lengths(mask)}")
    for file, lines in texts.items():
        content = "\n".join(["ImageId, EncodedPixels", *lines])
        (tmp_path / f"{file}-rle.csv").write_text(content + "\n")
    names, expected = [], []
    for limit in (0.3, 0.5, 0.7, 0.8):
        hits = sum((a & b).sum() / (a | b).sum() >= limit for a, b in pairs)
        names += [f"sensitivity@mask-iou:{limit}", f"PPV@mask-iou:{limit}"]
        expected += [hits / len(pairs), hits / (len(pairs) + n_alarms)]
    more = ("--metrics", ",".join(names))
    values = first_numbers(capsys, "train-rle.csv", "submission-rle.csv", more=more)
    assert [values[name] for name in names] == pytest.approx(expected, abs=1e-12)
    assert len(set(expected)) > 3


def scans(seed: int) -> tuple[Arrays, Arrays]:
    """Lesions apart from each other, and what a model finds of them, with false alarms."""
    draw = np.random.default_rng(seed)
    truth, cad = {}, {}
    for k in range(6):
        labels, predicted = np.zeros((2, 10, 48, 50), np.uint8)
        for cell in range(k % 3 + (k > 0)):
            corner = np.array([draw.integers(1, 4), draw.integers(2, 30), 2 + 15 * cell])
            sides = draw.integers((2, 4, 5), (6, 12, 11))
            place = tuple(slice(a, a + b) for a, b in zip(corner, sides))
            labels[place] = 1
            if draw.random() < 0.8:
                moved = corner + draw.integers(-1, 2, 3)
                predicted[tuple(slice(a, a + b) for a, b in zip(moved, sides))] = 1
        if k % 2:
            predicted[7:9, 42:46, 44:48] = 1
        truth[f"case_{k:02d}"], cad[f"case_{k:02d}"] = labels, predicted
    return truth, cad


def numbered(volumes: Arrays) -> Arrays:
    """Number the components of every volume, from the last one."""
    result = {}
    for name, voxels in volumes.items():
        labels, n = ndimage.label(voxels, TOUCHING)
        result[name] = np.where(labels > 0, n + 1 - labels, 0).astype(np.uint8)
    return result


def save(path: Path, voxels: np.ndarray) -> None:
    """Write a volume [z, y, x]; headers of ITK by hand, as their descriptions have them."""
    depth, height, width = voxels.shape
    is_float = voxels.dtype.kind == "f"
    sides = f"{width} {height} {depth}"
    if path.name.endswith(".mha"):
        head = (
            f"ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = False\n"
            f"Offset = 0 0 0\nElementSpacing = 0.7 0.7 2.5\nDimSize = {sides}\n"
            f"ElementType = {'MET_FLOAT' if is_float else 'MET_UCHAR'}\nElementDataFile = LOCAL\n"
        )
        path.write_bytes(head.encode() + voxels.tobytes())
    elif path.name.endswith(".nrrd"):
        head = (
            f"NRRD0004\ntype: {'float' if is_float else 'uchar'}\ndimension: 3\nsizes: {sides}\n"
            "spacings: 0.7 0.7 2.5\nendian: little\nencoding: raw\n\n"
        )
        path.write_bytes(head.encode() + voxels.tobytes())
    else:
        write_volume(path, voxels, spacing=(0.7, 0.7, 2.5))


def put(folder: Path, volumes: Arrays, ending: str) -> None:
    folder.mkdir()
    for name, voxels in volumes.items():
        save(folder / f"{name}{ending}", voxels)


def boxes_of(volumes: Arrays) -> dict[str, list[Box]]:
    boxes = {}
    for name, voxels in volumes.items():
        places = ndimage.find_objects(ndimage.label(voxels, TOUCHING)[0])
        boxes[name] = [
            (*(float(part.start) for part in place), *(float(part.stop) for part in place))
            for place in places
        ]
    return boxes


@pytest.mark.parametrize(
    ("ending", "change"),
    [
        (".nii.gz", lambda cad: cad),
        (".mha", lambda cad: {name: 255 * voxels for name, voxels in cad.items()}),
        (".nrrd", numbered),
        (".nii", lambda cad: {f"{name}_pred": voxels for name, voxels in cad.items()}),
        (".npz", lambda cad: {name: voxels for name, voxels in cad.items() if voxels.any()}),
    ],
)
def test_objects_of_label_volumes(
    ending: str, change: Callable[[Arrays], Arrays], tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    truth, cad = scans(7)
    put(tmp_path / "labels", truth, ending)
    put(tmp_path / "cad", change(cad), ending)
    references, names, expected = boxes_of(truth), [], []
    found = [Detection(name, box, 1.0) for name, boxes in boxes_of(cad).items() for box in boxes]
    n_references = sum(map(len, references.values()))
    for limit in (0.2, 0.4, 0.6):
        hits = sum(hits_of(references, found, limit - 1e-9))  # the limit itself is enough
        names += [f"sensitivity@{limit}", f"FP/image@{limit}"]
        expected += [hits / n_references, (len(found) - hits) / len(truth)]
    values = first_numbers(capsys, "labels", "cad", more=("--metrics", ",".join(names)))
    assert [values[name] for name in names] == pytest.approx(expected, abs=1e-12)


def ranking(truth: Arrays, scores: Arrays) -> dict[str, float]:
    """Return AP and AUROC of all voxels: equal scores are one step."""
    positive = np.concatenate([truth[name].ravel() > 0 for name in truth])
    score = np.concatenate([scores[name].ravel() for name in truth])
    values, place = np.unique(-score, return_inverse=True)
    hits = np.bincount(place, weights=positive, minlength=len(values))
    alarms = np.bincount(place, weights=~positive, minlength=len(values))
    tp, fp = np.cumsum(hits), np.cumsum(alarms)
    ap = float((hits * tp / (tp + fp)).sum() / tp[-1])
    auroc = float((alarms * (tp - hits / 2)).sum() / (tp[-1] * fp[-1]))
    return {"AP/dataset": ap, "AUROC/dataset": auroc}


def as_softmax(scores: np.ndarray) -> np.ndarray:
    return np.stack([1 - scores, scores])


@pytest.mark.parametrize(
    ("ending", "change"),
    [
        (".nii.gz", lambda scores: scores),
        (".nrrd", lambda scores: np.rint(255 * scores).astype(np.uint8)),
        (".mha", lambda scores: 100 * scores),
        (".npz", as_softmax),
        ("_prob.nii", lambda scores: np.log(scores / (1 - scores))),
    ],
)
def test_voxels_of_score_maps(
    ending: str, change: Callable[[np.ndarray], np.ndarray], tmp_path: Path, monkeypatch, capsys
) -> None:
    """All of these are changes of the scale, which no ranking knows; rounding is part of them."""
    monkeypatch.chdir(tmp_path)
    truth, cad = scans(9)
    draw = np.random.default_rng(1)
    put(tmp_path / "labels", truth, ".npz" if ending == ".npz" else ".nii.gz")
    (tmp_path / "maps").mkdir()
    written: Arrays = {}
    for name, voxels in cad.items():
        soft = ndimage.gaussian_filter(voxels.astype(float), 1.0)
        scores = (0.02 + 0.9 * soft + 0.05 * draw.random(soft.shape)).astype(np.float32)
        changed: Any = change(scores)
        written[name] = changed[1] if changed.ndim == 4 else changed
        path = tmp_path / "maps" / f"{name}{ending}"
        if changed.ndim == 4:
            np.savez(path, probabilities=changed)
        else:
            save(path, changed)
    expected = ranking(truth, written)
    values = first_numbers(capsys, "labels", "maps")
    for name, value in expected.items():
        assert values[name] == pytest.approx(value, abs=2e-6)
