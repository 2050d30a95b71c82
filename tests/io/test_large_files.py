# SPDX-License-Identifier: Apache-2.0
"""Files that are too large for the memory: read piece by piece, with the same result, and with an
error instead of a crash if another program writes to them meanwhile.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import calipers as cal
from calipers.io import source
from calipers.io.coco import json as coco_json
from calipers.io.coco import walk
from calipers.io.tables import delimited, table
from calipers.io.tables.table import FileTable, TextCells

IMAGES = 40


def document() -> dict[str, object]:
    images = [{"id": k + 1, "width": 100, "height": 80, "note": "}, {"} for k in range(IMAGES)]
    annotations = []
    for k in range(3 * IMAGES):
        box = [k % 50, 1.5, 10 + k % 7, 9]
        annotations.append(
            {"id": k, "image_id": k % IMAGES + 1, "category_id": 1 + k % 2, "bbox": box}
        )
    return {
        "info": {"note": "ä" * 50},
        "images": images,
        "annotations": annotations,
        "categories": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}],
    }


def results() -> list[dict[str, object]]:
    random = np.random.default_rng(4)
    records: list[dict[str, object]] = []
    for k in range(6 * IMAGES):
        record: dict[str, object] = {
            "image_id": int(random.integers(1, IMAGES + 1)),
            "category_id": 1 + k % 2,
            "bbox": [round(float(number), 3) for number in random.uniform(1, 30, 4)],
            "score": round(float(random.random()), 4),
        }
        if k % 17 == 0:
            record["note"] = '}, {"\\u00e4'
        records.append(record)
    return records


@pytest.fixture
def files(tmp_path):
    (tmp_path / "references.json").write_text(json.dumps(document(), ensure_ascii=False), "utf-8")
    (tmp_path / "model.json").write_text(json.dumps(results()))
    lines = ["image,class,x,y,w,h,score,note"]
    for record in results():
        box = ",".join(map(str, record["bbox"]))
        note = '"two\r\nlines"' if record["score"] > 0.9 else "'=1+1"
        lines.append(
            f"{record['image_id']},{'ab'[record['category_id'] - 1]},{box},{record['score']},{note}"
        )
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n", newline="")
    return tmp_path


def columns(cohort: cal.Cohort) -> list[bytes]:
    parts = [cohort.references, *cohort.models.values()]
    return [
        np.ascontiguousarray(getattr(part, name)).tobytes()
        for part in parts
        for name in ("offsets", "boxes", "extent", "label", "place")
    ]


@pytest.mark.parametrize("name", ["model.json", "table.csv"])
@pytest.mark.parametrize("piece", [150, 700, 5000])
def test_pieces_give_what_the_whole_file_gives(files, name, piece, monkeypatch):
    expected = cal.read(files / "references.json", files / name)
    monkeypatch.setattr(source, "COPIED", 0)
    monkeypatch.setattr(source, "SEARCHED", 64)
    monkeypatch.setattr(walk, "PIECE", piece)
    monkeypatch.setattr(walk, "WINDOW", 300)
    monkeypatch.setattr(coco_json, "SPACES", 2)
    monkeypatch.setattr(delimited, "LONGEST_LINE", piece)
    for module in (table, delimited):
        monkeypatch.setattr(module, "BLOCK", 16)
    cohort = cal.read(files / "references.json", files / name)
    assert columns(cohort) == columns(expected)
    # The hash, the counts and the notes are those of the file, however it is read.
    assert cohort.intake == expected.intake


def test_a_document_of_predictions_is_read_in_pieces(files, monkeypatch):
    whole = document()
    whole["annotations"] = results()
    (files / "document.json").write_text(json.dumps(whole))
    expected = cal.read(files / "references.json", files / "document.json")
    monkeypatch.setattr(source, "COPIED", 0)
    monkeypatch.setattr(walk, "PIECE", 300)
    cohort = cal.read(files / "references.json", files / "document.json")
    assert columns(cohort) == columns(expected)


def cut_after_hashing(monkeypatch, share: float) -> None:
    """Cut every large file off as soon as its hash is known, as another program may do."""
    hash_of = source._hash_of

    def hash_and_cut(stream, *how):
        outcome = hash_of(stream)
        os.truncate(
            stream.name if isinstance(stream.name, str) else stream.fileno(),
            int(share * outcome[1]),
        )
        return outcome

    monkeypatch.setattr(source, "_hash_of", hash_and_cut)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("name", ["references.json", "model.json", "table.csv", "model.parquet"])
def test_a_file_that_is_cut_off_while_it_is_read_is_an_error(files, name, share, monkeypatch):
    if name.endswith("parquet"):
        cells = {"image": ["i"] * 9000, "class": ["a"] * 9000}
        for k, column in enumerate(("x", "y", "w", "h")):
            cells[column] = np.random.default_rng(k).random(9000).tolist()
        table.write_table(files / name, cells)
    monkeypatch.setattr(source, "COPIED", 0)
    monkeypatch.setattr(source, "open_regular", writable(source.open_regular))
    cut_after_hashing(monkeypatch, share)
    with pytest.raises(cal.InputError) as caught:
        cal.read(files / name)
    assert caught.value.file


def writable(open_regular):
    """Return the function that opens files, with a file that can also be cut off."""
    from contextlib import contextmanager

    @contextmanager
    def open_both(path, **options):
        with open_regular(path, **options) as stream:
            stream.raw.name = str(path)
            yield stream

    return open_both


def test_a_file_that_changes_while_it_is_read_is_an_error(files, monkeypatch):
    monkeypatch.setattr(source, "COPIED", 0)
    path = files / "model.json"
    hash_of = source._hash_of

    def hash_and_touch(stream, *how):
        outcome = hash_of(stream)
        os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))
        return outcome

    monkeypatch.setattr(source, "_hash_of", hash_and_touch)
    with pytest.raises(cal.InputError, match="another program writes to it") as caught:
        cal.read(files / "references.json", path)
    assert caught.value.rule == "not-readable"


def test_long_columns_behave_like_lists(monkeypatch):
    monkeypatch.setattr(table, "BLOCK", 4)
    cells = ["a", "", "ä€", " ", "b\n", "", "7", "8", "9", "\t"]
    column = TextCells()
    for start in range(0, len(cells), 4):
        column.add(cells[start : start + 4])
    assert list(column) == cells
    assert len(column) == len(cells)
    assert [column[k] for k in range(-10, 10)] == cells + cells
    assert column[3:9] == cells[3:9]
    assert table.empty(column).tolist() == table.empty(cells).tolist()
    with pytest.raises(IndexError):
        column[10]
    both = [FileTable("f", "csv", {"c": part}, np.arange(10), True) for part in (cells, column)]
    assert table.texts(both[1], "c") == cells
    mask = np.array([cell.strip().isdigit() for cell in cells])
    values = [table.numbers(part, "c", mask)[0] for part in both]
    np.testing.assert_array_equal(*values)


MEASURE = """
import sys
import calipers as cal
def megabytes(field):
    line = next(line for line in open("/proc/self/status") if line.startswith(field))
    return int(line.split()[1]) / 1024
cal.read(sys.argv[1])
open("/proc/self/clear_refs", "w").write("5")
before = megabytes("VmRSS")
cal.read(sys.argv[1], sys.argv[2])
print(megabytes("VmHWM") - before)
"""


@pytest.mark.slow  # half a million rows
@pytest.mark.parametrize("name", ["long.csv", "long.json"])
def test_long_files_take_little_memory(files, name):
    path = files / name
    n = 500_000
    with path.open("w") as stream:
        if name == "long.csv":
            stream.write("image,class,x,y,w,h,score\n")
            for k in range(n):
                stream.write(f"{k % IMAGES + 1},a,1.{k},2.{k},3.{k},4.{k},0.{k:07d}\n")
        else:
            stream.write("[")
            for k in range(n):
                record = (
                    f'"image_id":{k % IMAGES + 1},"category_id":1,"bbox":[1.{k},2.{k},3.{k},4.{k}]'
                )
                stream.write(f'{{{record},"score":0.{k:07d}}}' + ",]"[k == n - 1])
    command = [sys.executable, "-c", MEASURE, files / "references.json", path]
    used = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    bound = 4 if name == "long.csv" else 1.5
    assert used < bound * path.stat().st_size / 2**20 + 64
