"""What is written is read back the same, bit by bit."""

from __future__ import annotations

import csv
import json
import tracemalloc
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calipers.data.cohort import Cohort
from calipers.errors import InputError, UsageError
from calipers.io.read import read
from calipers.io.tables.table import protect, unprotect, write_table
from calipers.io.write import TableRows, left_out, write

SUFFIXES = ("json", "csv", "tsv", "parquet")
NASTY = (
    "=cmd()",
    "+1",
    "-5",
    "@x",
    "\tt",
    "'=x",
    "''@",
    "'plain",
    "a,b",
    'say "hi"',
    "two\nlines",
    "one\rreturn",
    "\rfirst",
    "'\rquoted",
    "both\r\nends",
    " padded ",
    "NA",
    "1.0",
    "ü",
)


def random_cohort(seed, dimensions=2, names=("b", "a", "never used"), ids=None):
    rng = np.random.default_rng(seed)
    n = len(ids) if ids else 6
    references, predictions = [], []
    for k in range(n):
        image_id = ids[k] if ids else str(k)
        many = rng.integers(0, 4, 2)
        shared = {"image_id": image_id}
        first = [rng.uniform(0, 300, (m, dimensions)) for m in many]
        boxes = [np.hstack([low, low + rng.uniform(1e-3, 200, low.shape)]) for low in first]
        references.append(
            {
                **shared,
                "boxes": boxes[0],
                "labels": rng.integers(0, 2, many[0]),
                "area": rng.uniform(1, 9, many[0]),
                "crowd": rng.random(many[0]) < 0.2,
                "ignore": rng.random(many[0]) < 0.2,
                "width": 700,
                "height": 600.5,
                "patient": f"p{k // 2}",
                **({"depth": 900} if dimensions == 3 else {}),
            }
        )
        predictions.append(
            {
                **shared,
                "boxes": boxes[1],
                "labels": rng.integers(0, 3, many[1]),
                "scores": rng.random(many[1]),
            }
        )
    # An image with objects in both, so that the number of dimensions is never in doubt.
    references[0] = {**references[0], "boxes": [[1] * dimensions + [2] * dimensions], "labels": [0]}
    references[0] |= {"area": [1.0], "crowd": [False], "ignore": [False]}
    return Cohort.from_arrays(references, {"net": predictions}, classes=names)


def assert_same(first, second, model=None):
    assert first.images.ids == second.images.ids
    assert first.classes == second.classes
    assert np.array_equal(first.images.size, second.images.size, equal_nan=True)
    tables = [(first.references, second.references)]
    if model:
        tables.append((first.models["net"], second.models[model]))
    for one, other in tables:
        assert np.array_equal(one.offsets, other.offsets)
        assert np.array_equal(one.boxes, other.boxes)
        assert np.array_equal(one.label, other.label)
    assert np.array_equal(first.references.area, second.references.area)
    assert np.array_equal(first.references.ignore, second.references.ignore)
    assert np.array_equal(first.references.crowd, second.references.crowd)
    assert first.images.groups["patient"].tolist() == second.images.groups["patient"].tolist()
    if model:
        assert np.array_equal(first.models["net"].score, second.models[model].score)


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("seed", range(5))
def test_round_trip(tmp_path, suffix, seed, dimensions):
    cohort = random_cohort(seed, dimensions)
    refs, dets = tmp_path / f"refs.{suffix}", tmp_path / f"dets.{suffix}"
    write(cohort, refs)
    write(cohort, dets, what="net")
    assert_same(cohort, read(refs, dets), "dets")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_nasty_names_come_back(tmp_path, suffix):
    cohort = random_cohort(1, names=NASTY[:3], ids=NASTY)
    write(cohort, tmp_path / f"refs.{suffix}")
    write(cohort, tmp_path / f"dets.{suffix}", what="net")
    found = read(tmp_path / f"refs.{suffix}", tmp_path / f"dets.{suffix}")
    if suffix == "json":  # COCO sorts its images by id, as pycocotools does
        assert sorted(found.images.ids) == sorted(cohort.images.ids)
        back = [found.images.ids.index(name) for name in cohort.images.ids]
        found = found.take(np.array(back))
    assert_same(cohort, found, "dets")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_groups_keep_their_names_and_values(tmp_path, suffix):
    names = ("file_name", "image_id", "label", "=cmd", "a\rb", "'@q", "plain")
    groups = {
        name: np.array([f"{value} {k}" for k in range(6)]) for name, value in zip(names, NASTY)
    }
    cohort = random_cohort(6).with_groups(groups)
    write(cohort, tmp_path / f"refs.{suffix}")
    found = read(tmp_path / f"refs.{suffix}").images.groups
    assert {name: column.tolist() for name, column in found.items() if name != "patient"} == {
        name: column.tolist() for name, column in groups.items()
    }


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_no_column_is_mistaken_or_lost(tmp_path, suffix):
    groups = {
        name: np.array([f"{name}{k}" for k in range(6)])
        for name in ("score", "group_score", "Image", "image_width")
    }
    write(random_cohort(6).with_groups(groups), tmp_path / f"refs.{suffix}")
    found = read(tmp_path / f"refs.{suffix}").images.groups
    assert set(found) == {
        "patient",
        "group_score",
        "group_group_score",
        "group_Image",
        "image_width",
    }
    assert {column[0] for name, column in found.items() if name != "patient"} == {
        f"{name}0" for name in groups
    }


def test_whole_numbers_are_written_without_a_point(tmp_path):
    write(random_cohort(7), tmp_path / "refs.csv")
    with (tmp_path / "refs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["width"], row["height"]) for row in rows if row["image"]} == {("700", "600.5")}


@given(st.text(alphabet="'=+-@\t\ra ", max_size=6))
def test_protection_is_undone_exactly(text):
    cell = protect(text)
    assert cell[:1] not in ("=", "+", "-", "@", "\t", "\r")
    assert unprotect(cell) == text


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(*[st.floats(0, 1e6)] * 2, *[st.floats(1e-6, 1e6)] * 2), min_size=1, max_size=20
    )
)
def test_sides_give_the_same_corners_again(tmp_path, sides):
    x, y, w, h = np.array(sides).T
    boxes = np.stack([x, y, x + w, y + h], axis=1)
    boxes = boxes[((boxes[:, 2:] > boxes[:, :2]).all(axis=1)) & (w * h > 0)]
    cohort = Cohort.from_arrays(
        [{"boxes": boxes, "labels": np.zeros(len(boxes), int)}], classes=("a",)
    )
    write(cohort, tmp_path / "refs.json")
    assert np.array_equal(read(tmp_path / "refs.json").references.boxes, cohort.references.boxes)


def test_no_cell_of_written_text_starts_a_formula(tmp_path):
    cohort = random_cohort(2, names=("=a", "+b", "@c"), ids=("-1", "=2", "3"))
    write(cohort, tmp_path / "refs.csv")
    with (tmp_path / "refs.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert all(
        row[0][:1] not in ("=", "-", "+") and row[1][:1] not in ("=", "+", "@") for row in rows
    )


def test_ids_that_look_like_numbers_are_numbers_again(tmp_path):
    write(random_cohort(3), tmp_path / "refs.json")
    assert [
        image["id"] for image in json.loads((tmp_path / "refs.json").read_text())["images"]
    ] == list(range(6))
    write(random_cohort(3, ids=("1", "007")), tmp_path / "refs.json")
    assert [
        image["id"] for image in json.loads((tmp_path / "refs.json").read_text())["images"]
    ] == ["1", "007"]


def test_a_normalised_format_is_read_with_the_same_option(tmp_path):
    cohort = random_cohort(4)
    write(cohort, tmp_path / "refs.csv", box_format="cxcywh-normalised")
    found = read(tmp_path / "refs.csv", box_format="cxcywh-normalised", lenient=True)
    assert np.allclose(found.references.boxes, cohort.references.boxes, rtol=1e-12)


def test_written_references_satisfy_pycocotools(tmp_path, capsys):
    coco = pytest.importorskip("pycocotools.coco")
    write(random_cohort(5), tmp_path / "refs.json")
    assert len(coco.COCO(str(tmp_path / "refs.json")).getImgIds()) == 6


def test_what_cannot_be_written(tmp_path):
    cohort = random_cohort(0)
    with pytest.raises(UsageError):
        write(cohort, tmp_path / "refs.xml")
    with pytest.raises(UsageError, match="no model 'nett'"):
        write(cohort, tmp_path / "refs.csv", what="nett")
    with pytest.raises(UsageError, match="no box format"):
        write(cohort, tmp_path / "refs.csv", box_format="yx")
    with pytest.raises(InputError) as refused:
        write(cohort, tmp_path / "nowhere" / "refs.csv")
    assert refused.value.rule == "not-writable"
    assert list(tmp_path.iterdir()) == []


def masked_cohort(seed):
    """Pictures with masks of references and of a model whose boxes are those of its masks."""
    rng = np.random.default_rng(seed)
    records = []
    for image in range(5):
        masks = rng.random((int(rng.integers(1, 4)), 20, 30)) < 0.2
        masks[:, 3, 4:9] = True
        n = len(masks)
        record = {"image_id": str(image), "labels": rng.integers(0, 2, n), "masks": masks}
        records.append(record | {"width": 30, "height": 20, "patient": f"p{image}"})
    said = [{key: one[key] for key in ("image_id", "labels", "masks")} for one in records]
    said = [{**one, "scores": rng.random(len(one["labels"]))} for one in said]
    return Cohort.from_arrays(records, {"net": said}, classes=("a", "b"))


@pytest.mark.parametrize("seed", range(3))
def test_coco_keeps_masks_bit_by_bit(tmp_path, seed):
    cohort = masked_cohort(seed)
    write(cohort, tmp_path / "refs.json")
    write(cohort, tmp_path / "net.json", what="net")
    again = read(tmp_path / "refs.json", tmp_path / "net.json")
    for one, other in (
        (cohort.references, again.references),
        (cohort.models["net"], again.models["net"]),
    ):
        for name in ("offsets", "start", "length", "size"):
            assert np.array_equal(getattr(one.masks, name), getattr(other.masks, name))
        assert np.array_equal(one.boxes, other.boxes)
        assert np.array_equal(one.area, other.area)


def test_what_a_format_cannot_hold_is_said(tmp_path):
    table = masked_cohort(0).references
    assert left_out(table, "coco") == []
    assert left_out(table, "csv") == [
        f"masks of {len(table)} objects are not written: csv holds boxes only"
    ]
    pointed = replace(table, points=table.boxes[:, :2])
    assert "points of" in left_out(pointed, "coco")[0]
    assert left_out(random_cohort(0).references, "parquet") == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("what", ["references", "net"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_blocks_give_the_bytes_of_all_at_once(tmp_path, monkeypatch, seed, what, suffix):
    cohort = random_cohort(seed, 2 + seed % 2, ids=list(NASTY))
    n, facts = len(cohort.references), {}
    if n and suffix != "json":
        facts = {"kind": np.array([f"k{k % 3}" for k in range(n)], object), "of": np.arange(n)}
        cohort = replace(cohort, references=replace(cohort.references, facts=facts))
    files = []
    for block in (1 << 16, 2, 1):
        monkeypatch.setattr("calipers.io.write.BLOCK", block)
        files.append(tmp_path / f"{block}.{suffix}")
        write(cohort, files[-1], what=what)
    assert len({file.read_bytes() for file in files}) == 1


def test_row_groups_of_parquet_are_those_of_arrow(tmp_path, monkeypatch):
    cohort = random_cohort(3, ids=list(NASTY))
    monkeypatch.setattr("calipers.io.tables.table.ROW_GROUP", 4)
    expected, found = tmp_path / "expected.parquet", tmp_path / "found.parquet"
    rows = TableRows(cohort, cohort.references, "xyxy")
    write_table(expected, next(rows.blocks(1 << 16)))
    monkeypatch.setattr("calipers.io.write.BLOCK", 2)
    write(cohort, found)
    assert pq.ParquetFile(found).num_row_groups == -(-len(rows.order) // 4) > 2
    assert found.read_bytes() == expected.read_bytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_writing_takes_little_beside_the_table(tmp_path, monkeypatch, suffix):
    n, rng = 60_000, np.random.default_rng(0)
    image = {"boxes": np.tile([1.0, 2.0, 3.0, 4.0], (20, 1)), "labels": np.zeros(20, int)}
    many = [{**image, "scores": rng.random(20)} for _ in range(n // 20)]
    cohort = Cohort.from_arrays([image] * (n // 20), {"model": many}, classes=("a",))
    monkeypatch.setattr("calipers.io.write.BLOCK", 2048)
    monkeypatch.setattr("calipers.io.tables.table.ROW_GROUP", 2048)
    steps = []
    tracemalloc.start()
    write(cohort, tmp_path / f"a.{suffix}", what="model", progress=lambda *at: steps.append(at))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Lists of all rows are several hundred bytes each; orders and owners 8.
    assert peak < 100 * n
    assert steps[0] == ("writing", 0, n)
    assert steps[-1] == ("writing", n, n)
    assert len(steps) > n / 2048
