"""`calipers compare`: differences on stdout, in words and as JSON, and refusals before any work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import calipers as cal
from calipers.cli.main import run
from calipers.evaluation.result import Evaluation

HEAD = ["metric", "overpredicts", "misses-small", "difference"]
ROW_KEYS = [
    "metric",
    "metric_id",
    "class",
    "model_a",
    "model_b",
    "value_a",
    "value_b",
    "difference",
    "low",
    "high",
    "level",
    "method",
    "unit",
    "n_units",
    "n_images",
    "p",
    "p_adjusted",
    "test",
    "correction",
    "family",
    "verdict",
    "sentence",
    "undefined",
    "reason",
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Write the demo's data without its pictures."""
    folder = tmp_path_factory.mktemp("compare")
    cohort = cal.demo_cohort()
    cal.write(cohort, folder / "references.json")
    for model in cohort.models:
        cal.write(cohort, folder / f"{model}.json", what=model)
    rows = zip(cohort.images.ids, cohort.group("patient"), cohort.group("centre"))
    (folder / "images.csv").write_text(
        "image,patient,centre\n" + "".join(f"{','.join(row)}\n" for row in rows)
    )
    return folder


@pytest.fixture
def compare(calipers, data):
    """Call the verb on the demo's data, with few replicates."""

    def call(*options, models=("overpredicts", "misses-small")):
        files = [data / "references.json", *(data / f"{model}.json" for model in models)]
        given = [
            "--groups",
            data / "images.csv",
            "--preset",
            "overview",
            "--replicates",
            200,
            *options,
        ]
        return calipers("compare", *files, *given)

    return call


def test_tables_sentences_and_a_ranking(compare):
    said = compare("--metrics", "AP@0.5,F1@0.5")
    assert said.code == 0
    lines = [line.rstrip() for line in said.out.splitlines() if line.strip()]
    assert lines[1].split() == [*HEAD, "p", "(max-t)", "verdict"]
    assert lines[3].split()[:3] == ["AP@0.5", "0.948", "0.671"]
    assert (
        "overpredicts is better than misses-small in AP@0.5: 0.948 against 0.671, a difference of "
        "27.8 points" in said.out
    )
    assert "max-t over 2; 80 patients)." in said.out
    assert "misses-small is better than overpredicts in F1@0.5" in said.out
    assert lines[-4].split()[:3] == ["1", "overpredicts", "0.948"]
    assert lines[-1].startswith(
        "overpredicts is first in AP@0.5, and in 100 % of 200 bootstrap replicates"
    )
    assert "120 images, 189 references, 2 models; protocol overview" in said.err


def test_json_is_the_contract(compare):
    said = compare(
        "--metrics",
        "AP@0.5,PPV@0.5",
        "--margin",
        "0.05",
        "--json",
        models=("overpredicts", "misses-small", "mislabels"),
    )
    assert (said.code, said.err) == (0, "")
    document = said.json
    assert next(iter(document)) == "schema"
    assert document["schema"] == "calipers.comparison/1"
    assert len(document["rows"]) == 6
    assert all(list(row)[: len(ROW_KEYS)] == ROW_KEYS for row in document["rows"])
    assert {row["family"] for row in document["rows"]} == {6}
    ranking = document["ranking"]
    assert ranking["metric"] == "AP@0.5"
    assert [model["rank"] for model in ranking["models"]] == [1, 2, 3]
    assert all(sum(model["shares"]) == pytest.approx(1) for model in ranking["models"])
    assert len(ranking["pairs"]) == 6


def test_numbers_are_those_of_python(compare, data):
    document = compare(
        "--metrics", "F1@0.5", "--json", "--seed", "3", "--level", "0.9", "--cluster", "image"
    ).json
    cohort = cal.read(
        data / "references.json",
        {name: data / f"{name}.json" for name in ("overpredicts", "misses-small")},
        groups=data / "images.csv",
    )
    from dataclasses import replace

    protocol = replace(
        cal.Protocol.load("overview"), seed=3, level=0.9, cluster="image", replicates=200
    )
    expected = cal.evaluate(cohort, protocol, ci=False).compare(metrics=["F1@0.5"]).as_dict()
    assert document["rows"] == expected["rows"]
    assert (document["rows"][0]["level"], document["rows"][0]["unit"]) == (0.9, "image")


def test_options_reach_the_result(compare):
    row = compare(
        "--metrics", "F1@0.5", "--test", "bootstrap", "--correction", "bh", "--json"
    ).json["rows"][0]
    assert (row["test"], row["correction"]) == ("bootstrap", "bh")
    ranking = compare(
        "--rank", "sensitivity@0.5", "--rank-method", "test-then-rank", "--json"
    ).json["ranking"]
    assert (ranking["metric"], ranking["method"]) == ("sensitivity@0.5", "test-then-rank")
    rows = compare("--metrics", "F1@0.5", "--per-class", "--margin", "F1@0.5=0.4", "--json").json[
        "rows"
    ]
    assert [row["class"] for row in rows] == [None, "nodule", "mass", "effusion", "cardiomegaly"]
    assert rows[0]["margin"] == 0.4
    filled = compare(
        "--rank", "F1@0.5", "--rank-method", "mean-then-rank", "--missing", "worst", "--json"
    ).json
    assert filled["ranking"]["filled"] > 0
    assert len(compare("--metrics", "all", "--json").json["rows"]) == 11


def test_few_units_are_told(compare):
    said = compare("--cluster", "centre", "--metrics", "F1@0.5")
    assert said.code == 0
    assert "too few units" in said.out
    assert "note: 4 centres are too few for intervals; no p value can be below 0.125." in said.err


def test_an_undefined_metric_has_no_ranking_but_the_rest_is_there(calipers, files):
    files.write("silent.json", [])
    given = (
        "compare",
        files.references,
        files.ours,
        files.path("silent.json"),
        "--preset",
        "overview",
    )
    said = calipers(*given, "--metrics", "PPV@0.5,sensitivity@0.5", "--json")
    assert said.code == 0
    assert said.json["ranking"] is None
    assert any(
        warning.startswith("No ranking: PPV@0.5 is undefined for silent")
        for warning in said.json["warnings"]
    )
    row = next(row for row in said.json["rows"] if row["metric"] == "PPV@0.5")
    assert (row["reason"], row["p"], row["difference"]) == ("no_predictions", None, None)
    asked = calipers(*given, "--rank", "PPV@0.5")
    assert (asked.code, asked.out) == (2, "")
    assert calipers(*given, "--metrics", "PPV@0.5").code == 0


def test_output_is_written_once(compare, tmp_path):
    target = tmp_path / "comparison.json"
    said = compare("--metrics", "F1@0.5", "-o", target, "--json")
    assert json.loads(target.read_text()) == said.json
    before = target.read_bytes()
    again = compare("--metrics", "PPV@0.5", "-o", target)
    assert (again.code, again.out) == (2, "")
    assert "output-exists" in again.err
    assert target.read_bytes() == before
    assert compare("--metrics", "PPV@0.5", "-o", target, "--force").code == 0
    assert target.read_bytes() != before
    assert [file.name for file in tmp_path.iterdir()] == ["comparison.json"]


def test_inputs_and_folders_are_no_output(compare, data, tmp_path):
    for target, rule in (
        (data / "images.csv", "output-in-input"),
        (tmp_path, "not-a-file"),
        (tmp_path / "no" / "x", "not-a-file"),
    ):
        said = compare("-o", target, "--force")
        assert (said.code, said.out) == (2, "")
        assert rule in said.err
    assert compare("-o", "").code == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--metrics", "APP@0.6"], "no metric 'APP@0.6'"),
        (["--metrics", "AP,,F1"], "--metrics takes NAME,NAME"),
        (["--rank", "APP"], "no metric 'APP'"),
        (["--rank-method", "mean"], "no method 'mean'"),
        (["--margin", "much"], "--margin takes a number"),
        (["--margin", "0.1,0.2"], "--margin takes one number"),
        (["--margin", "0.1,AP@0.5=0.2"], "--margin takes one number"),
        (["--margin", "0"], "above 0"),
        (["--margin", "FROCK=0.1"], "did you mean 'FROC'"),
        (["--level", "95"], "0<x<1"),
        (["--replicates", "20"], "x>=100"),
        (["--cluster", "patients"], "did you mean 'patient'"),
        (["--test", "t"], "'t' is not one of"),
        (["--correction", "bonferroni"], "'bonferroni' is not one of"),
        (["--protocol", "x.toml"], "exclude each other"),
    ],
)
def test_wrong_options_are_usage_errors(compare, options, said):
    result = compare(*options)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    as_json = compare(*options, "--json")
    assert (as_json.code, as_json.json["schema"]) == (2, "calipers.error/1")


def test_one_model_is_for_evaluate(calipers, files):
    said = calipers("compare", files.references, files.ours)
    assert (said.code, said.out) == (2, "")
    assert "calipers evaluate" in said.err


def test_one_unit_compares_nothing(calipers, files):
    files.write("one.csv", "image,patient\n1,A\n2,A\n3,A\n4,A\n")
    said = calipers(
        "compare", files.references, files.ours, files.theirs, "--groups", files.path("one.csv")
    )
    assert said.code == 2
    assert "one patient only" in said.err


def test_predictions_on_other_images_are_refused_by_the_reader(calipers, files):
    files.write(
        "elsewhere.json", [{"image_id": 99, "category_id": 1, "bbox": [1, 1, 5, 5], "score": 0.5}]
    )
    said = calipers("compare", files.references, files.ours, files.path("elsewhere.json"), "--json")
    assert said.code == 2
    assert said.json["error"]["kind"] == "unknown-image"


def test_hostile_names_do_not_drive_the_terminal(calipers, files):
    said = calipers(
        "compare", files.references, f"\x1b[31mred={files.ours}", f"[bold]b={files.theirs}"
    )
    assert said.code == 0
    assert "\x1b" not in said.out
    assert "\\x1b[31mred" in said.out
    assert "[bold]b" in said.out


def test_quick_to_explain_itself(capsys):
    assert run(["compare", "--help"]) == 0
    text = capsys.readouterr().out
    assert "calipers compare refs.json ours=a.json theirs=b.json" in " ".join(text.split())
    assert Path("refs.json").exists() is False


def test_metrics_that_the_protocol_lacks_are_compared_by_their_names(compare):
    document = compare("--metrics", "AP@0.35,PPV@0.5", "--rank", "F1@0.35", "--json").json
    assert [row["metric"] for row in document["rows"]] == ["PPV@0.5", "AP@0.35"]
    assert document["ranking"]["metric"] == "F1@0.35"


def test_the_search_for_misread_boxes_is_counted(compare, monkeypatch) -> None:
    """It takes longer than the comparison where models hit next to nothing."""
    seen = []
    look = Evaluation.look_for_warnings

    def looked(evaluation, progress=None):
        seen.append(progress)
        return look(evaluation, progress)

    monkeypatch.setattr(Evaluation, "look_for_warnings", looked)
    assert compare().code == 0
    assert len(seen) == 1
    assert seen[0] is not None
