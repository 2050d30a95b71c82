"""Plain COCO records go from text to columns in compiled code: the same numbers as on the other
route, and everything that is not plain is left to it.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calipers.errors import InputError
from calipers.io.read import read
from calipers.kernels import route
from coco_cases import REFERENCES, RESULTS
from native.buffers import taken_at_other_lengths

pytestmark = pytest.mark.skipif(route.native() is None, reason="the native kernels were not built")

PLAIN = '{"image_id": 1, "category_id": 2, "bbox": [1, 2.5, 3, 4], "score": 0.5}'
REQUIRED = sum(route.RECORD_KEYS[key] for key in ("image_id", "category_id", "bbox", "score"))
BITS = ("boxes", "extent", "area", "score", "label", "offsets", "place", "crowd", "ignore")


def scanned(text: str, required: int = REQUIRED) -> tuple[route.RecordColumns, int]:
    data = text.encode()
    return route.coco_records(route.native(), data, 0, len(data), len(data), required)  # type: ignore[arg-type]


def with_score(score: str) -> str:
    return PLAIN.replace("0.5", score)


def test_records_with_space_between_and_keys_in_any_order() -> None:
    other = '{\t"score":1e-3 ,"bbox" :[ 0,0 , 1 ,1\n],"category_id":-7,"id":3,"image_id":900 }'
    columns, at = scanned(f"{PLAIN} ,\r\n {other}")
    assert at == len(PLAIN) + 5 + len(other)
    assert columns.image.tolist() == [1, 900]
    assert columns.category.tolist() == [2, -7]
    assert columns.box.tolist() == [[1, 2.5, 3, 4], [0, 0, 1, 1]]
    assert columns.score.tolist() == [0.5, 0.001]
    assert columns.keys.tolist() == [REQUIRED, REQUIRED | route.RECORD_KEYS["id"]]


NOT_PLAIN = [
    *map(with_score, ["NaN", "Infinity", "1e999", "01", "+1", "1.", ".5", "1e", "-", "0x1", "-0"]),
    *map(with_score, ["1e-400", "null", "true", '"0.5"', "[1]", "{}", "1 2", "1.5.2", "9" * 16]),
    PLAIN.replace('"image_id": 1', '"image_id": 1.0'),
    PLAIN.replace('"image_id": 1', '"image_id": "1"'),
    PLAIN.replace('"image_id": 1', '"image_id": 9007199254740993'),
    PLAIN.replace('"image_id": 1', '"image_id": 1, "image_id": 1'),
    PLAIN.replace("image_id", "\\u0069mage_id"),
    PLAIN.replace("image_id", "image\x00id"),
    PLAIN.replace("1, 2.5, 3, 4", "1, 2.5, 3"),
    PLAIN.replace("1, 2.5, 3, 4", "1, 2.5, 3, 4, 5"),
    PLAIN.replace('"score"', '"segmentation": [], "score"'),
    PLAIN.replace(', "score": 0.5', ""),
    PLAIN.replace('"score": 0.5', '"score": 0.5,'),
    PLAIN.replace('"score"', '"iscrowd": 2, "score"'),
    PLAIN[:-1],
    PLAIN + ",",
    PLAIN + "x",
    "{}",
    "",
]


@pytest.mark.parametrize("text", NOT_PLAIN)
def test_what_is_not_plain_is_left_to_the_other_route(text: str) -> None:
    columns, at = scanned(text)
    assert (len(columns.keys), at) == (0, 0)
    columns, at = scanned(f"{PLAIN}, {text}")
    assert len(columns.keys) <= 1
    assert at in (0, len(PLAIN) + 2)


def test_numbers_are_rounded_correctly() -> None:
    rng = random.Random(1)
    texts = [repr(rng.random() * 10.0 ** rng.randint(-30, 30)) for _ in range(3000)]
    texts += [repr(float(np.float32(rng.random()))) for _ in range(1000)]
    for _ in range(3000):
        digits = "".join(rng.choice("0123456789") for _ in range(rng.randint(1, 30)))
        texts.append(f"{rng.randint(0, 10 ** rng.randint(1, 20))}.{digits}e{rng.randint(-40, 40)}")
    # Halfway cases: a double, the next one, and the number in the middle.
    texts += ["9007199254740993.0", "0.1000000000000000055511151231257827", "-1.5e-300", "4.5e15"]
    n_scanned = 0
    for text in texts:
        columns, _ = scanned(with_score(text))
        n_scanned += len(columns.keys)
        assert columns.score.tolist() in ([], [float(text)]), text
    assert n_scanned == len(texts)


def test_buffers_of_other_lengths_are_refused() -> None:
    data = PLAIN.encode()
    whole = [np.empty(2, np.int64) for _ in range(3)]
    numbers = [np.empty((2, 4)), np.empty(2), np.empty(2)]
    flags = [np.empty(2, np.uint8) for _ in range(3)]
    arguments = (data, 0, len(data), len(data), REQUIRED, *whole, *numbers, *flags)
    assert taken_at_other_lengths("coco_records", arguments) == []
    for at, end in ((-1, 5), (6, 5), (0, len(data) + 1)):
        with pytest.raises(ValueError, match="lengths do not fit"):
            route.native().coco_records(data, at, end, end, *arguments[4:])  # type: ignore[union-attr]


def outcome(references: Path, results: Path, kind: str, lenient: bool) -> Any:
    """What reading gives: every bit of the cohort, or the error in words."""
    with route.forced(kind):
        try:
            cohort = read(references, results, lenient=lenient)
        except InputError as error:
            return str(error)
    bits: list[Any] = [cohort.images.ids, cohort.classes, cohort.intake]
    for table in (cohort.references, *cohort.models.values()):
        for name in BITS:
            bits.append(getattr(table, name).tobytes() if hasattr(table, name) else None)
    return bits


CHANGES = ["NaN", "-0", "-0.0", "1e999", "01", '"1"', "null", "1.0", "true", "3", "1e2", "{}", "[]"]
CHANGES += [
    "12345678901234567",
    "0.30000000000000004",
    "7.0E-1",
    ",",
    "}",
    "]",
    "\\u0031",
    "\u00e9",
]
CHANGES += ['"score": 0.5', '"id": 5', '"segmentation": [[1, 1, 9, 1, 9, 9]]', " ", "\n"]


@pytest.mark.parametrize(
    ("seed", "n"),
    [(5, 150), pytest.param(6, 1000, marks=pytest.mark.slow)],  # the long one rarely tells more
)
def test_both_routes_read_the_same_from_files_that_were_changed_at_random(
    tmp_path: Path, seed: int, n: int
) -> None:
    rng = random.Random(seed)
    texts = [json.dumps(REFERENCES), json.dumps(RESULTS)]
    paths = [tmp_path / "references.json", tmp_path / "results.json"]
    n_sound = 0
    for _ in range(n):
        changed = list(texts)
        for _ in range(rng.randint(0, 2)):
            side, change = rng.randrange(2), rng.choice(CHANGES)
            start = rng.randrange(len(changed[side]))
            stop = start + rng.choice([0, 1, 1, 3])
            changed[side] = changed[side][:start] + change + changed[side][stop:]
        for path, text in zip(paths, changed):
            path.write_text(text, encoding="utf-8")
        for lenient in (False, True):
            both = [outcome(*paths, kind, lenient) for kind in ("native", "numpy")]
            assert both[0] == both[1], changed
            n_sound += not isinstance(both[0], str)
    assert n_sound > n // 8
