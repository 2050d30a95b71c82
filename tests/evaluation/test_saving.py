"""The folder of an evaluation: a row per object, a row per image,
and that they add up to the pooled numbers.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import calipers as cal
from calipers.io.tables.table import cell, delimited, protect
from calipers.results.files import staged_folder, write_atomically
from evaluated import evaluated_demo
from preset_lists import BOX_PRESETS

COLUMNS = [
    "model", "kind", "image", "row", "class", "fate", "partner", "similarity", "score", "x0", "y0",
    "x1", "y1", "area", "extent", "ignore", "crowd", "place",
]  # fmt: skip
FATES = {
    "reference": {"hit", "missed", "ignored"},
    "prediction": {"hit", "duplicate", "false alarm", "ignored"},
}


@pytest.fixture(scope="module")
def cohort():
    return cal.demo_cohort()


@pytest.fixture(scope="module")
def evaluation(cohort):
    return cal.evaluate(cohort, "overview")


@pytest.fixture(scope="module")
def folder(evaluation, tmp_path_factory):
    return evaluation.save(tmp_path_factory.mktemp("saved") / "out")


@pytest.fixture(scope="module")
def objects(folder):
    return pq.read_table(folder / "objects.parquet").to_pylist()


@pytest.fixture(scope="module")
def images(folder):
    with (folder / "images.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_objects_are_all_there(objects, cohort):
    assert list(objects[0]) == COLUMNS
    for model, predictions in cohort.models.items():
        for kind, n in (("reference", len(cohort.references)), ("prediction", len(predictions))):
            rows = [o for o in objects if (o["model"], o["kind"]) == (model, kind)]
            assert [o["row"] for o in rows] == list(range(n))
            assert {o["fate"] for o in rows} <= FATES[kind]


def test_columns_keep_their_types_without_any_prediction(tmp_path):
    empty = {"boxes": np.zeros((0, 4)), "labels": [], "scores": []}
    cohort = cal.Cohort.from_arrays(
        [{"boxes": [[0, 0, 1, 1]], "labels": [0]}], [empty], classes=("a",)
    )
    full = pq.read_schema(evaluated_demo().save(tmp_path / "a") / "objects.parquet")
    assert pq.read_schema(cal.evaluate(cohort).save(tmp_path / "b") / "objects.parquet") == full
    assert {name: str(full.field(name).type) for name in ("row", "partner", "score", "fate")} == {
        "row": "int64",
        "partner": "int64",
        "score": "double",
        "fate": "string",
    }


def test_partners_point_at_each_other(objects):
    known = {(o["model"], o["kind"], o["row"]): o for o in objects}
    hits = [o for o in objects if o["fate"] == "hit"]
    assert hits
    for o in hits:
        other = known[
            o["model"], "prediction" if o["kind"] == "reference" else "reference", o["partner"]
        ]
        assert (other["partner"], other["fate"], other["similarity"]) == (
            o["row"],
            "hit",
            o["similarity"],
        )
        assert (other["image"], other["class"]) == (o["image"], o["class"])
        assert o["similarity"] >= 0.5
    assert all(o["partner"] is None for o in objects if o["fate"] in ("missed", "false alarm"))


def test_boxes_and_scores_are_those_of_the_cohort(objects, cohort):
    rows = [o for o in objects if (o["model"], o["kind"]) == ("mislabels", "prediction")]
    predictions = cohort.models["mislabels"]
    assert [[o[k] for k in ("x0", "y0", "x1", "y1")] for o in rows] == predictions.boxes.tolist()
    assert [o["score"] for o in rows] == predictions.score.tolist()


def test_what_makes_the_cohort_is_exact(folder, cohort):
    table = pq.read_table(folder / "objects.parquet")
    rows = table.filter((pc.field("model") == "mislabels") & (pc.field("kind") == "reference"))
    references = cohort.references
    for name in ("area", "extent", "ignore", "crowd"):
        assert rows[name].to_numpy().tobytes() == getattr(references, name).tobytes()
    assert rows["image"].to_pylist() == [cohort.images.ids[k] for k in references.image]
    predictions = table.filter(pc.field("kind") == "prediction")
    assert (
        predictions["ignore"].null_count == predictions["crowd"].null_count == predictions.num_rows
    )


def test_images_have_a_table_with_their_kinds(tmp_path):
    record = {"boxes": [[0, 0, 1, 1]], "labels": [0], "width": 9, "height": 8, "age": 4, "f": 0.1}
    record |= {"ok": True, "name": "n", "spacing": [0.5, 0.25], "width_": 1}
    found = [{"boxes": [[0, 0, 1, 1]], "labels": [0], "scores": [1.0]}]
    saved = cal.evaluate(cal.Cohort.from_arrays([record], found, classes=("a",))).save(
        tmp_path / "out"
    )
    table = pq.read_table(saved / "images.parquet")
    assert table.to_pylist() == [
        {"image": "0", "width": 9.0, "height": 8.0, "spacing_x": 0.5, "spacing_y": 0.25}
        | {"group_age": 4, "group_f": 0.1, "group_ok": True, "group_name": "n", "group_width_": 1}
    ]
    assert [str(field.type) for field in table.schema][-5:] == [
        "int64",
        "double",
        "bool",
        "string",
        "int64",
    ]


def test_the_record_of_the_run_vouches_for_all_but_the_page(folder):
    files = json.loads((folder / "run.json").read_text())["files"]
    assert set(files) == {"evaluation.json", "objects.parquet", "images.parquet", "images.csv"}
    for name, facts in files.items():
        data = (folder / name).read_bytes()
        assert facts == {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def test_images_are_all_there(images, cohort):
    assert [(row["model"], row["image"]) for row in images] == [
        (m, i) for m in cohort.models for i in cohort.images.ids
    ]
    assert [row["patient"] for row in images[: cohort.n_images]] == cohort.group("patient").tolist()


@pytest.mark.parametrize("model", ["mislabels", "overpredicts", "misses-small"])
def test_images_add_up_to_the_pooled_numbers(images, evaluation, objects, model):
    def total(name):
        return sum(int(row[name]) for row in images if row["model"] == model)

    hits, missed, alarms = (
        total("hits"),
        total("missed"),
        total("false_alarms") + total("duplicates"),
    )
    assert hits + missed == total("references") == 189
    assert hits + alarms == total("predictions")
    assert hits / (hits + missed) == evaluation[model, "sensitivity@0.5"].value
    assert hits / (hits + alarms) == evaluation[model, "PPV@0.5"].value
    assert alarms / 120 == evaluation[model, "FP/image@0.5"].value
    counted = [
        o for o in objects if (o["model"], o["kind"], o["fate"]) == (model, "prediction", "hit")
    ]
    assert len(counted) == hits


def test_rodeo_of_images(images):
    assert {"RoDeO", "RoDeO/loc", "RoDeO/shape", "RoDeO/cls"} <= set(images[0])
    for row in images:
        parts = [row[name] for name in ("RoDeO/loc", "RoDeO/shape", "RoDeO/cls")]
        if row["references"] == row["predictions"] == "0":
            assert [row["RoDeO"], *parts] == [""] * 4
        elif "0" in (row["references"], row["predictions"]):
            assert [float(part) for part in parts] == [0, 0, 0]
        else:
            values = [float(part) for part in parts]
            harmonic = 0 if 0 in values else 3 / sum(1 / value for value in values)
            assert math.isclose(float(row["RoDeO"]), harmonic, abs_tol=1e-12)


def test_groups_never_collide_with_our_columns(tmp_path):
    record = {"boxes": [[0, 0, 1, 1]], "labels": [0], "hits": "A", "model": "scanner", "site": "S"}
    cohort = cal.Cohort.from_arrays(
        [record, {**record, "hits": "B"}],
        [{"boxes": [[0, 0, 1, 1]], "labels": [0], "scores": [1.0]}] * 2,
        classes=("a",),
    )
    folder = cal.evaluate(cohort).save(tmp_path / "out")
    with (folder / "images.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [
        (row["model"], row["hits"], row["group_hits"], row["group_model"], row["site"])
        for row in rows
    ] == [
        ("model", "1", "A", "scanner", "S"),
        ("model", "1", "B", "scanner", "S"),
    ]


@pytest.mark.parametrize("preset", BOX_PRESETS)
def test_what_is_shown_is_the_matching_of_the_protocol(cohort, preset):
    evaluation = cal.evaluate(cohort, preset, ci=False)
    view = evaluation.matches("mislabels").views[0]
    wanted = evaluation.protocol.matching
    assert (view.criterion, view.assignment, view.threshold) == (
        wanted.criterion,
        wanted.assignment,
        wanted.threshold,
    )
    assert view.size[1] >= 1e10


def test_a_first_metric_on_small_objects_does_not_hide_the_others(tmp_path):
    text = (
        'schema = "calipers.protocol/1"\nname = "s"\nextends = "coco"\n'
        '[[metric]]\nname = "APs"\nkind = "average-precision"\nsize = "small"\n'
    )
    evaluation = evaluated_demo(cal.Protocol.from_toml(text))
    rows = pq.read_table(evaluation.save(tmp_path / "out") / "objects.parquet").to_pylist()
    assert not [row for row in rows if row["fate"] == "ignored"]


def test_saving_twice_gives_equal_files(evaluation, folder, tmp_path):
    again = evaluation.save(tmp_path / "again")
    for name in (
        "evaluation.json",
        "objects.parquet",
        "images.parquet",
        "images.csv",
        "report.html",
    ):
        assert (again / name).read_bytes() == (folder / name).read_bytes()
    hashes = [
        json.loads((place / "run.json").read_text())["result_hash"] for place in (folder, again)
    ]
    assert hashes[0] == hashes[1]


def test_force_is_needed_to_replace(evaluation, folder):
    with pytest.raises(cal.InputError, match="output-exists"):
        evaluation.save(folder)


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), OSError(13, "Permission denied")]
)
def test_a_write_that_fails_is_typed_and_leaves_nothing(tmp_path, monkeypatch, error):
    def refuse(handle):
        raise error

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(cal.InputError) as caught:
        write_atomically(tmp_path / "file", "text")
    assert caught.value.rule == ("disk-full" if error.errno == 28 else "not-writable")
    assert not list(tmp_path.iterdir())


def test_an_interruption_while_staging_leaves_nothing(tmp_path):
    def interrupted():
        with staged_folder(tmp_path / "a" / "b") as stage:
            (stage / "x").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not list(tmp_path.iterdir())


FORMULAS = [
    "=1+1",
    "+1",
    "-1",
    "@x",
    "\tx",
    "\rx",
    "\0x",
    "'=1",
    "''+1",
    "=HYPERLINK(1)",
    "-2+3|cmd",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_are_neutralised(text):
    assert protect(text) == "'" + text
    assert next(csv.reader([delimited({"a": [text]}).split("\n", 1)[1]]))[0][:1] == "'"


@pytest.mark.parametrize("text", ["plain", "1=1", "a-b", "", " =1", "'quoted'"])
def test_other_texts_stay(text):
    assert protect(text) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-1.5, "-1.5"),
        (-2, "-2"),
        (0.1, "0.1"),
        (3.0, "3"),
        (-0.0, "-0"),
        (1e16, "1e+16"),
        (None, ""),
        (math.nan, ""),
        (True, "True"),
    ],
)
def test_numbers_stay_numbers(value, text):
    assert cell(value) == text


@pytest.mark.parametrize("text", ["a,b", 'a"b', "a\nb", "a\rb", "a\r\nb", "", "ü"])
def test_cells_come_back(text, tmp_path):
    Path(tmp_path / "t.csv").write_bytes(delimited({"x": [text, "y"], "n": [1, 2]}).encode())
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["x", "n"], [text, "1"], ["y", "2"]]
