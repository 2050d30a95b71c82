"""Strict refuses broken records; lenient sets them aside and accounts for every one."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def broken(files):
    """Predictions of which three of seven records break a rule each."""
    records = json.loads((files.folder / "ours.json").read_text())
    records.append({"image_id": 99, "category_id": 1, "bbox": [1, 1, 2, 2], "score": 0.5})
    records.append({"image_id": 1, "category_id": 1, "bbox": [1, 1, -1, 2], "score": 0.5})
    records[4]["score"] = 1.5
    return files.write("broken.json", records)


def test_strict_is_the_default(calipers, files, broken, tmp_path):
    said = calipers("evaluate", files.references, broken, "-o", tmp_path / "out")
    assert (said.code, said.out) == (2, "")
    for rule in ("[score-range]", "[neg-size]", "[unknown-image]"):
        assert rule in said.err
    assert not (tmp_path / "out").exists()
    assert calipers("evaluate", files.references, broken, "--strict").code == 2


def test_lenient_accounts_for_every_record(calipers, files, broken, tmp_path):
    out = tmp_path / "out"
    said = calipers("evaluate", files.references, broken, "--lenient", "-o", out, "--json")
    assert said.code == 0
    account = said.json["cohort"]["files"][1]
    assert (account["read"], account["used"]) == (7, 4)
    reading = json.loads((out / "run.json").read_text())["inputs"][1]["reading"]
    assert {"box_format": "xywh", "lenient": True, "outside": "keep"}.items() <= reading.items()
    assert account["quarantined"] == {"score-range": 1, "neg-size": 1, "unknown-image": 1}
    lines = [json.loads(line) for line in (out / "quarantine.jsonl").read_text().splitlines()]
    assert all(list(line) == ["file", "location", "rule", "record"] for line in lines)
    assert sorted((line["location"], line["rule"]) for line in lines) == [
        ("/4/score", "score-range"),
        ("/5/image_id", "unknown-image"),
        ("/6/bbox", "neg-size"),
    ]
    assert all(json.loads(line["record"])["category_id"] == 1 for line in lines)


def test_lenient_says_so_where_it_is_read(calipers, files, broken, tmp_path):
    said = calipers("evaluate", files.references, broken, "--lenient", "-o", tmp_path / "out")
    assert "3 of 7 records were set aside" in said.err
    page = (tmp_path / "out" / "report.html").read_text()
    assert "3 of 7 records were set aside" in page
    assert "neg-size 1" in page


def test_lenient_without_broken_records_leaves_no_quarantine(calipers, files, tmp_path):
    assert (
        calipers("evaluate", files.references, files.ours, "--lenient", "-o", tmp_path / "out").code
        == 0
    )
    assert not (tmp_path / "out" / "quarantine.jsonl").exists()


def test_whole_file_rules_are_never_lenient(calipers, files):
    assert (
        calipers(
            "evaluate", files.references, files.write("cut.json", '[{"image_id"'), "--lenient"
        ).code
        == 2
    )
    assert calipers("evaluate", files.ours, files.references, "--lenient").code == 2


def test_lenient_has_a_floor(calipers, files):
    records = json.loads((files.folder / "ours.json").read_text())
    for record in records[1:]:
        record["score"] = 7
    mostly = files.write("mostly.json", records)
    said = calipers("evaluate", files.references, mostly, "--lenient")
    assert (said.code, said.out) == (2, "")
    assert "[mostly-broken]" in said.err
    assert "--allow-loss" in said.err
    allowed = ("--lenient", "--allow-loss", "1")
    assert calipers("evaluate", files.references, mostly, *allowed).code == 0
    assert calipers("inspect", files.references, mostly, "--lenient").code == 0
    records[0]["score"] = 7
    nothing = files.write("nothing.json", records)
    assert calipers("evaluate", files.references, nothing, *allowed).code == 2
