"""Mutated annotation files: success or an InputError, nothing else, and never slowly."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import calipers as cal
from annotation_cases import (
    CVAT,
    LABELME,
    RECTANGLE,
    VOC,
    YOLO_LABELS,
    YOLO_NAMES,
    labelme,
    put,
    region,
    task,
    yolo_data,
)
from calipers.errors import InputError
from mutations import mutated

SLOWEST = 5.0
PREDICTIONS = [{"score": 0.5, "result": [region("polyp", RECTANGLE)]}]
EXPORT = json.dumps([task("a.png", [region("polyp", RECTANGLE)], predictions=PREDICTIONS)])
PARTS = (
    "nan",
    "inf",
    "-1",
    "1e999",
    "1e308",
    "",
    "<",
    "&x;",
    "9" * 400,
    "null",
    "\0",
    "é",
    "\ufeff",
)


def outcome(attempt: Callable[[], object]) -> bool:
    """Return whether the attempt succeeds; anything but an InputError fails the test."""
    start = time.process_time()
    try:
        attempt()
    except InputError as error:
        str(error).encode("utf-8")
        return False
    finally:
        assert time.process_time() - start < SLOWEST
    return True


CASES = {
    "voc": ("data/a.xml", VOC, "data", None),
    "cvat": ("c.xml", CVAT, "c.xml", None),
    "labelme": ("data/a.json", labelme(*LABELME), "data", None),
    "label-studio": ("e.json", EXPORT, "e.json", "e.json"),
    "yolo": ("data/labels/a.txt", YOLO_LABELS, "data", None),
    "names": ("data/data.yaml", YOLO_NAMES, "data", None),
    "predictions": ("run/a.txt", "0 0.5 0.5 0.2 0.25 0.9\n1 0.1 0.1 0.1 0.1 0.2\n", "data", "run"),
}


def survive(folder: Path, case: str, rounds: int, change: Callable[[bytes, int], bytes]) -> int:
    name, text, references, predictions = CASES[case]
    yolo = case in ("yolo", "names", "predictions")
    if yolo:
        yolo_data(folder / "data")
    n_read = 0
    for k in range(rounds):
        put(folder, {name: change(text.encode(), k)})
        files = [folder / references]
        if predictions is not None:
            files.append(folder / predictions)
        # Half of them by their format, half as they are recognised.
        format = {"yolo": "yolo"}.get("yolo" if yolo else "", case) if k % 2 else None
        n_read += outcome(lambda: cal.read(*files, format=format, lenient=k % 3 == 0))
        outcome(lambda: cal.sniff(folder / references))
    return n_read


@pytest.mark.parametrize("case", list(CASES))
def test_bytes_changed(tmp_path, case: str) -> None:
    rng = np.random.default_rng(5)
    n_read = survive(tmp_path, case, 300, lambda whole, _: mutated(whole, rng))
    assert n_read < 300


@pytest.mark.parametrize("case", list(CASES))
def test_words_changed(tmp_path, case: str) -> None:
    """Numbers and names are replaced by strange ones: the file stays well formed more often."""
    draw = random.Random(9)

    def change(whole: bytes, _: int) -> bytes:
        text = whole.decode()
        signs = [k for k, sign in enumerate(text) if sign.isalnum()]
        start = draw.choice(signs)
        stop = start
        while stop < len(text) and (text[stop].isalnum() or text[stop] in ".-"):
            stop += 1
        return (text[:start] + draw.choice(PARTS) + text[stop:]).encode()

    n_read = survive(tmp_path, case, 300, change)
    assert 0 < n_read < 300


@pytest.mark.slow
@pytest.mark.parametrize("case", list(CASES))
def test_thousands_of_bytes_changed(tmp_path, case: str) -> None:
    rng = np.random.default_rng(6)
    assert survive(tmp_path, case, 5000, lambda whole, _: mutated(whole, rng)) < 5000
