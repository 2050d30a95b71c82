"""`calipers sweep`: tables, files, and choices as they are written on a command line."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest

import calipers as cal
from calipers.cli.sensitivity import choices_of

MODELS = ("--over", "threshold=0.3:0.7:0.2", "--metrics", "AP@0.5,F1@0.5")
ORACLE = ("--over", "position-noise.sigma=0,0.5", "--metric", "RoDeO/loc", "--runs", "2")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("threshold=0.1:0.9:0.1", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]),
        ("threshold=0:1:0.4", [0.0, 0.4, 0.8]),
        ("threshold=0.5:0.5:1", [0.5]),
        ("max_dets=1,10,100", [1, 10, 100]),
        ("threshold= 0.25 , 5e-1", [0.25, 0.5]),
        ("criterion=box-iou, iop", ["box-iou", "iop"]),
    ],
)
def test_values_are_ranges_or_lists(text: str, values: list) -> None:
    (found,) = choices_of((text,)).values()
    assert found == values


def test_a_table_per_metric_a_column_per_model_and_the_finding(calipers, files) -> None:
    said = calipers("sweep", files.references, files.ours, files.theirs, *MODELS, "--no-ci", "-q")
    assert said.code == 0
    assert said.err == ""
    lines = [line.split() for line in said.out.splitlines()]
    assert ["AP", "at", "threshold", "ours", "theirs"] in lines
    assert ["F1", "at", "threshold", "ours", "theirs"] in lines
    assert ["0.5", "0.800", "0.286"] in lines
    assert "On these images ours has the best F1 at every threshold." in said.out
    assert "n = 4 images, 5 references; protocol overview." in said.out


def test_an_oracle_needs_no_predictions(calipers, files) -> None:
    said = calipers("sweep", files.references, *ORACLE)
    assert said.code == 0
    assert "1.000 ± 0.000" in said.out
    assert "standard deviation (n - 1) of 2 runs" in said.out
    unused = calipers("sweep", files.references, files.ours, *ORACLE)
    assert "note: ours are not used" in unused.err


def test_the_headline_is_swept_if_no_metric_is_named(calipers, files) -> None:
    said = calipers(
        "sweep", files.references, files.ours, "--over", "threshold=0.5", "--no-ci", "--json"
    ).json
    assert "AP@0.5" in said["metrics"]
    assert not any(
        name.startswith("RoDeO") for name in said["metrics"]
    )  # thresholds are nothing to it
    cuts = calipers(
        "sweep", files.references, files.ours, "--over", "score_cut=0.5", "--no-ci", "--json"
    ).json
    assert "RoDeO" in cuts["metrics"]


def test_the_json_is_the_document_of_the_sweep(calipers, files) -> None:
    said = calipers("sweep", files.references, *ORACLE, "--seed", 4, "--json").json
    metric, over = "RoDeO/loc", {"position-noise.sigma": [0, 0.5]}
    found = cal.sweep(cal.read(files.references), metric, over, runs=2, seed=4)
    assert said == found.as_dict()


def test_two_choices_make_one_table(calipers, files) -> None:
    over = ("--over", "threshold=0.3,0.5", "--over", "criterion=box-iou,iop", "--metric", "AP@0.5")
    said = calipers("sweep", files.references, files.ours, *over, "--no-ci", "-q")
    assert ["AP", "at", "threshold", "box-iou", "iop"] in [
        line.split() for line in said.out.splitlines()
    ]


def test_the_folder_holds_document_rows_and_figures(calipers, files, tmp_path: Path) -> None:
    out = tmp_path / "a" / "sweep"
    said = calipers(
        "sweep", files.references, files.ours, files.theirs, *MODELS, "-o", out, "--json"
    )
    assert said.code == 0
    names = ["sweep-1-AP-0.5.svg", "sweep-2-F1-0.5.svg", "sweep.csv", "sweep.json"]
    assert sorted(os.listdir(out)) == names
    assert json.loads((out / "sweep.json").read_text()) == said.json
    with (out / "sweep.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["value"]) for row in rows] == [row["value"] for row in said.json["rows"]]
    assert (out / names[0]).read_text().startswith("<svg xmlns")


def test_a_folder_is_replaced_only_if_asked_and_never_an_evaluation(
    calipers, files, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    call = ("sweep", files.references, files.ours)
    assert calipers(*call, *MODELS, "--no-ci", "-o", out).code == 0
    again = calipers(*call, *MODELS, "--no-ci", "-o", out)
    assert (again.code, "output-exists" in again.err) == (2, True)
    (out / "mine.txt").write_text("mine")
    fewer = (*MODELS[:2], "--metric", "AP@0.5", "--no-ci", "-o", out, "--force")
    assert calipers(*call, *fewer).code == 0
    assert sorted(os.listdir(out)) == ["mine.txt", "sweep-1-AP-0.5.svg", "sweep.csv", "sweep.json"]
    assert (
        calipers("evaluate", files.references, files.ours, "-o", tmp_path / "ev", "--no-ci").code
        == 0
    )
    kept = calipers(*call, *MODELS, "-o", tmp_path / "ev", "--force")
    assert (kept.code, "it contains an evaluation" in kept.err) == (2, True)
    beside = calipers(*call, *MODELS, "-o", files.folder, "--force")
    assert (beside.code, "output-in-input" in beside.err) == (2, True)


@pytest.mark.parametrize(
    ("over", "told"),
    [
        (["threshold"], "--over takes CHOICE=VALUES"),
        (["threshold="], "--over takes CHOICE=VALUES"),
        (["threshold=0:1"], "a range is START:STOP:STEP"),
        (["threshold=0:1:x"], "a range is START:STOP:STEP"),
        (["threshold=0:1:0"], "steps above 0"),
        (["threshold=1:0:0.1"], "rises from START to STOP"),
        (["threshold=0:1:0.00001"], "at most 10,000"),
        (["threshold=0:inf:1"], "steps above 0"),
        (["threshold=0.1,,0.2"], "a value is missing"),
        (["threshold=0.1", "threshold=0.2"], "given twice for 'threshold'"),
        (["treshold=0.5"], "did you mean 'threshold'"),
        (["criterion=box-io"], "did you mean 'box-iou'"),
        (["threshold=half"], "are numbers"),
        ([], "--over"),
    ],
)
def test_bad_choices_are_told_before_anything_is_read(
    calipers, tmp_path: Path, over: list[str], told: str
) -> None:
    options = [word for text in over for word in ("--over", text)]
    said = calipers("sweep", tmp_path / "missing.json", *options)
    assert said.code == 2
    assert told in said.err


def test_other_bad_requests_are_told(calipers, files) -> None:
    none = calipers("sweep", files.references, "--over", "threshold=0.5")
    assert (none.code, "give predictions" in none.err) == (2, True)
    unknown = calipers(
        "sweep", files.references, files.ours, "--over", "threshold=0.5", "--metric", "AP@0,5"
    )
    assert (unknown.code, "did you mean 'AP@0.5'" in unknown.err) == (2, True)
    always = calipers(
        "sweep", files.references, files.ours, *MODELS, "--with", "position-noise(sigma=1)"
    )
    assert (always.code, "belong to an oracle" in always.err) == (2, True)
