"""Folders that were damaged, exchanged or forged: never a traceback, always the file that is to
blame.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calipers as cal
from calipers.evaluation.saved import objects_table, open_folder
from calipers.io.saved.folder import changed_columns
from stored import edit, refusal, vouch


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    evaluation = cal.evaluate(
        cal.demo_cohort(), replace(cal.Protocol.load("overview"), replicates=100), by="centre"
    )
    return evaluation.save(tmp_path_factory.mktemp("made") / "out")


@pytest.fixture
def folder(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "out"))


@pytest.mark.parametrize(
    "name", ["evaluation.json", "objects.parquet", "images.parquet", "run.json"]
)
@pytest.mark.parametrize("damage", ["missing", "cut", "empty", "foreign"])
def test_damaged_files_are_named(folder, name, damage):
    file = folder / name
    if damage == "missing":
        file.unlink()
    else:
        data = file.read_bytes()
        file.write_bytes(
            {"cut": data[: len(data) // 2], "empty": b"", "foreign": b"[1, 2]"}[damage]
        )
    error = refusal(folder)
    assert name in error.file or (damage == "missing" and name in error.expected)


def test_one_flipped_bit_is_noticed(folder):
    data = bytearray((folder / "objects.parquet").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "objects.parquet").write_bytes(data)
    assert refusal(folder).rule == "file-hash"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("protocol", {"name": "another"}),
        ("protocol_hash", "0" * 64),
        ("cohort", {"images": 5}),
        ("records", {"read": 5, "used": 5, "quarantined": {}}),
        ("inputs", []),
    ],
)
def test_a_record_that_contradicts_its_evaluation_is_refused(folder, key, value):
    """With a hash of its own, a forged record of the run was vouched for."""
    edit(folder, lambda run: run.update({key: value}), "run.json")
    error = refusal(folder)
    assert (error.rule, error.location) == ("record-mismatch", f"/{key}")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("unit", "centre"),
        ("n_units", 5000),
        ("interval", "percentile"),
        ("level", 0.5),
        ("replicates", 100_000),
        ("seed", 1),
    ],
)
def test_how_intervals_were_made_is_compared(folder, key, value):
    edit(folder, lambda document: document["statistics"].update({key: value}))
    changes = open_folder(folder).changed
    assert [change.place for change in changes] == [f"/statistics/{key}"]


def test_other_folders_are_refused(tmp_path):
    assert refusal(tmp_path).rule == "not-found"
    assert refusal(tmp_path / "none").rule == "not-a-folder"
    (tmp_path / "file").write_text("x")
    assert refusal(tmp_path / "file").rule == "not-a-folder"


def test_folders_of_earlier_versions_are_told_what_to_do(folder):
    edit(folder, lambda run: run.pop("files"), "run.json")
    error = refusal(folder)
    assert (error.rule, "evaluate again" in error.hint) == ("missing-key", True)


WRONG_DOCUMENTS = {
    "no cohort": lambda d: d.pop("cohort"),
    "cohort as a list": lambda d: d.update(cohort=[]),
    "no classes": lambda d: d["cohort"].update(classes=[]),
    "classes twice": lambda d: d["cohort"].update(classes=["a", "a"]),
    "classes as numbers": lambda d: d["cohort"].update(classes=[1]),
    "other classes": lambda d: d["cohort"].update(classes=["a"]),
    "models as a list": lambda d: d["cohort"].update(models=["a"]),
    "no models": lambda d: d["cohort"].update(models={}),
    "one model more": lambda d: d["cohort"]["models"].update(more=3),
    "fewer predictions": lambda d: d["cohort"]["models"].update(mislabels=3),
    "a negative count": lambda d: d["cohort"].update(references=-1),
    "a flag for a count": lambda d: d["cohort"].update(images=True),
    "four dimensions": lambda d: d["cohort"].update(dimensions=4),
    "volumes": lambda d: d["cohort"].update(dimensions=3),
    "no unscored": lambda d: d["cohort"].pop("unscored"),
    "files as text": lambda d: d["cohort"].update(files="x"),
    "a file as text": lambda d: d["cohort"].update(files=["x"]),
    "accounts that are off": lambda d: d["cohort"]["files"][0].update(read=3),
    "set aside without records": lambda d: d["cohort"]["files"][0].update(
        used=188, quarantined={"x": 1}
    ),
    "notes as text": lambda d: d["cohort"]["files"][0].update(notes="x"),
    "other groups": lambda d: d["cohort"]["groups"].update(patient=3),
    "no statistics": lambda d: d.pop("statistics"),
    "beside as text": lambda d: d["statistics"].update(beside="x"),
    "beside as numbers": lambda d: d["statistics"].update(beside=[1]),
    "by as a number": lambda d: d["statistics"]["groups"][0].update(by=3),
    "by of no column": lambda d: d["statistics"]["groups"][0].update(by="nothing"),
    "protocol as text": lambda d: d.update(protocol="coco"),
    "protocol without a key": lambda d: d["protocol"].pop("level"),
    "protocol with a key more": lambda d: d["protocol"].update(more=1),
    "metrics as a table": lambda d: d["protocol"].update(metrics={}),
    "a metric as text": lambda d: d["protocol"]["metrics"].append("AP"),
    "a metric of no kind": lambda d: d["protocol"]["metrics"][0].update(kind="x"),
    "matching as a list": lambda d: d["protocol"].update(matching=[]),
    "a criterion as a list": lambda d: d["protocol"]["matching"].update(criterion=["x"]),
    "a headline of numbers": lambda d: d["protocol"].update(headline=[[]]),
    "sizes as numbers": lambda d: d["protocol"].update(sizes={"a": 3}),
    "a level of two": lambda d: d["protocol"].update(level=2.0),
    "a cluster of no column": lambda d: d["protocol"].update(cluster="nothing"),
    "masks": lambda d: d["protocol"].update(size_from="mask"),
    "a rescaling of text": lambda d: d["protocol"].update(rescale_to="x"),
    "a seed as text": lambda d: d["protocol"].update(seed="x"),
}


@pytest.mark.parametrize("change", WRONG_DOCUMENTS.values(), ids=WRONG_DOCUMENTS)
def test_documents_that_vouch_for_themselves_are_not_trusted(folder, change):
    edit(folder, change)
    with pytest.raises(cal.CalipersError) as caught:
        cal.open_evaluation(folder)
    assert caught.value.exit_code == 2


def column(table: pa.Table, name: str, values: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)


def entry(name: str, value: Any, row: int = 0) -> Any:
    """Change one cell."""

    def change(table: pa.Table) -> pa.Table:
        cells = table[name].to_pylist()
        cells[row] = value
        return column(table, name, pa.array(cells, table[name].type))

    return change


WRONG_OBJECTS = {
    "a box of NaN": (entry("x0", float("nan")), "non-finite"),
    "a box of null": (entry("x0", None), "type"),
    "an infinite box": (entry("y1", float("inf"), -1), "non-finite"),
    "a turned box": (entry("x1", -5.0, -1), "neg-size"),
    "a huge box": (entry("x1", 1e200, -1), "non-finite"),
    "no area": (entry("extent", 0.0, 0), "zero-area"),
    "less than no area": (entry("extent", -1.0, -1), "zero-area"),
    "a negative area": (entry("area", -1.0, -1), "area-range"),
    "a score of NaN": (entry("score", float("nan"), -1), "non-finite"),
    "no score": (entry("score", None, -1), "type"),
    "another class": (entry("class", "unheard", -1), "unknown-category"),
    "no class": (entry("class", None, -1), "type"),
    "another image": (entry("image", "unheard", -1), "unknown-image"),
    "images out of order": (entry("image", "P001_1", -1), "stored-order"),
    "a place before the start": (entry("place", -2, -1), "range"),
    "another model": (entry("model", "unheard"), "stored-order"),
    "another kind": (entry("kind", "prediction"), "stored-order"),
    "rows that do not count": (entry("row", 5), "stored-order"),
    "references that differ": (entry("x0", 0.5), "stored-order"),
    "a flag of null": (entry("ignore", None), "type"),
    "a row less": (lambda t: t.slice(1), "record-count"),
    "a row more": (lambda t: pa.concat_tables([t, t.slice(0, 1)]), "record-count"),
    "no rows": (lambda t: t.slice(0, 0), "record-count"),
    "a column less": (lambda t: t.drop_columns(["extent"]), "missing-column"),
    "a column twice": (lambda t: t.append_column("x0", t["x0"]), "dup-column"),
    "boxes of half the digits": (
        lambda t: column(t, "x0", t["x0"].cast(pa.float32())),
        "column-type",
    ),
    "boxes of text": (lambda t: column(t, "x0", pa.array(["1"] * len(t))), "column-type"),
    "rows of numbers with a point": (
        lambda t: column(t, "row", t["row"].cast(pa.float64())),
        "column-type",
    ),
    "classes in lists": (lambda t: column(t, "class", pa.array([["a"]] * len(t))), "column-type"),
    "flags of numbers": (lambda t: column(t, "ignore", pa.array([1] * len(t))), "column-type"),
    "no metadata": (lambda t: t.replace_schema_metadata(None), "missing-key"),
    "metadata that is no JSON": (
        lambda t: t.replace_schema_metadata({"calipers.facts": "["}),
        "missing-key",
    ),
    "facts that are not there": (
        lambda t: t.replace_schema_metadata(
            {"calipers.facts": '{"references": {"a": "text"}, "models": {}}'}
        ),
        "missing-column",
    ),
}


@pytest.mark.parametrize(("change", "rule"), WRONG_OBJECTS.values(), ids=WRONG_OBJECTS)
def test_tables_of_objects_that_vouch_for_themselves_are_not_trusted(folder, change, rule):
    pq.write_table(change(pq.read_table(folder / "objects.parquet")), folder / "objects.parquet")
    vouch(folder)
    error = refusal(folder)
    assert (error.rule, Path(error.file).name) == (rule, "objects.parquet")


WRONG_IMAGES = {
    "an image twice": (lambda t: pa.concat_tables([t, t.slice(0, 1)]), "record-count"),
    "an image renamed like another": (
        lambda t: entry("image", t["image"][1].as_py())(t),
        "dup-image",
    ),
    "no name": (entry("image", None), "type"),
    "no width": (entry("width", 0.0), "image-size"),
    "an infinite width": (entry("width", float("inf")), "non-finite"),
    "names of numbers": (lambda t: column(t, "image", pa.array(range(len(t)))), "column-type"),
    "a patient without a name": (entry("group_patient", None), "type"),
    "patients in lists": (
        lambda t: column(t, "group_patient", pa.array([["a"]] * len(t))),
        "column-type",
    ),
    "dates": (
        lambda t: column(t, "group_patient", pa.array([0] * len(t), pa.date32())),
        "column-type",
    ),
    "a group called image": (lambda t: t.append_column("group_image", t["image"]), "group-name"),
    "a column less": (lambda t: t.drop_columns(["spacing_x"]), "missing-column"),
}


@pytest.mark.parametrize(("change", "rule"), WRONG_IMAGES.values(), ids=WRONG_IMAGES)
def test_tables_of_images_that_vouch_for_themselves_are_not_trusted(folder, change, rule):
    pq.write_table(change(pq.read_table(folder / "images.parquet")), folder / "images.parquet")
    vouch(folder)
    error = refusal(folder)
    assert error.rule == rule
    assert error.hint


def test_groups_that_are_gone_are_noticed(folder):
    table = pq.read_table(folder / "images.parquet")
    pq.write_table(table.drop_columns(["group_centre"]), folder / "images.parquet")
    vouch(folder)
    assert (refusal(folder).rule, refusal(folder).location) == ("record-count", "/cohort/groups")


def test_bytes_at_random_never_end_in_a_traceback(folder):
    random, refused = np.random.Generator(np.random.Philox(4)), []
    for name in ("objects.parquet", "images.parquet"):
        whole = (folder / name).read_bytes()
        for _ in range(40):
            data = bytearray(whole)
            for place in random.integers(0, len(data), 5):
                data[place] = random.integers(0, 256)
            (folder / name).write_bytes(data)
            vouch(folder)
            try:
                open_folder(folder)
            except cal.CalipersError as error:
                refused.append(str(error))
        (folder / name).write_bytes(whole)
    assert len(refused) > 40
    assert all(".parquet" in said for said in refused)


@pytest.mark.parametrize("n_compared", [1, 7, 1 << 16])
def test_the_first_object_that_was_matched_otherwise(folder, monkeypatch, n_compared):
    monkeypatch.setattr("calipers.io.saved.folder.COMPARED", n_compared)
    evaluation = open_folder(folder).evaluation
    matches = {model: evaluation.matches(model) for model in evaluation.cohort.models}
    table = objects_table(evaluation.cohort, matches)
    calls = []

    def progress(*words):
        calls.append(words)

    assert changed_columns(folder / "objects.parquet", table, progress) == []
    assert calls[0] == ("comparing objects.parquet", 0, 3)
    assert calls[-1] == ("comparing objects.parquet", 3, 3)
    similarity = table["similarity"].to_pylist()
    row = next(k for k, value in enumerate(similarity) if value is not None and k > 20)
    changed = [*similarity[:row], None, *similarity[row + 1 :]]
    # Whatever the type of a column that another program wrote: its values are compared.
    fates = pa.chunked_array([table["fate"].to_pylist()], pa.large_string())
    other = {**table, "fate": fates, "similarity": pa.chunked_array([changed], pa.float64())}
    (part,) = changed_columns(folder / "objects.parquet", other)
    assert part == (f"objects.parquet, row {row}", "similarity", similarity[row], None)
    other["similarity"] = other["similarity"].slice(0, row)
    (part,) = changed_columns(folder / "objects.parquet", other)
    assert part[0] == f"objects.parquet, row {row}"
