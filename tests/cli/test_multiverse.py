"""`calipers multiverse`: sentences, shares and counts on stdout,
a folder that is whole or absent, early refusals.
"""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import pytest

import calipers as cal
from cases import cohort_of

FEW = ["--metric", "F1", "--metric", "RoDeO", "--criterion", "box-iou"]
FILES = {
    "multiverse.csv",
    "multiverse.html",
    "multiverse.json",
    "multiverse-choices.svg",
    "multiverse-curve.svg",
    "multiverse-levels.svg",
    "multiverse-ranks.svg",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Write a random cohort with two models."""
    folder = tmp_path_factory.mktemp("multiverse")
    cohort = cohort_of("plain", seed=6, models=2, n_images=20)
    cohort = replace(cohort, images=replace(cohort.images, groups={}))
    cal.write(cohort, folder / "references.json")
    for model in cohort.models:
        cal.write(cohort, folder / f"{model}.json", what=model)
    return folder


@pytest.fixture
def multiverse(calipers, data):
    """Call the verb on two models."""

    def call(*options, models=("model-1", "model-2")):
        files = [data / "references.json", *(data / f"{model}.json" for model in models)]
        return calipers("multiverse", *files, *options)

    return call


def test_sentences_come_first_then_shares_then_counts(multiverse):
    said = multiverse(*FEW, "--no-ci")
    assert said.code == 0
    lines = said.out.splitlines()
    assert " best value under the base configuration (F1, box-iou at 0.5), and in " in lines[0]
    assert "Share of configurations in which each model has the best value" in lines
    assert lines[-2].startswith("Base configuration: F1 (criterion box-iou, threshold 0.5,")
    assert lines[-1] == "117 different configurations of 2,592 combinations."


def test_json_is_one_object_with_the_numbers_of_python(multiverse, data):
    said = multiverse(*FEW, "--no-ci", "--json")
    document = said.json
    assert document["schema"] == "calipers.multiverse/1"
    cohort = cal.read(
        data / "references.json", {m: data / f"{m}.json" for m in ("model-1", "model-2")}
    )
    found = cal.multiverse(cohort, {"metric": ["F1", "RoDeO"], "criterion": ["box-iou"]})
    assert document == json.loads(json.dumps({**found.as_dict(), "page": None}))


def test_intervals_are_there_unless_they_are_refused(multiverse):
    document = multiverse(*FEW, "--json", "--replicates", 100, "--seed", 3).json
    assert document["robustness"]["replicates"] == 100
    assert document["robustness"]["seed"] == 3
    assert document["robustness"]["unit"] == "image"
    assert multiverse("--no-ci", "--replicates", 100).code == 2


def test_the_folder_is_complete_and_repeats(multiverse, tmp_path):
    said = multiverse(*FEW, "--no-ci", "-o", tmp_path / "out")
    assert said.code == 0
    assert said.out.endswith(f"Open {tmp_path / 'out' / 'multiverse.html'}\n")
    assert {file.name for file in (tmp_path / "out").iterdir()} == FILES
    document = json.loads((tmp_path / "out" / "multiverse.json").read_text())
    with (tmp_path / "out" / "multiverse.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(document["rows"]) == 2 * 117
    assert [float(row["value"]) for row in rows] == [row["value"] for row in document["rows"]]
    assert multiverse(*FEW, "--no-ci", "-o", tmp_path / "out").code == 2
    before = (tmp_path / "out" / "multiverse-curve.svg").read_bytes()
    (tmp_path / "out" / "mine.txt").write_text("stays")
    assert multiverse(*FEW, "--no-ci", "-o", tmp_path / "out", "--force").code == 0
    assert {file.name for file in (tmp_path / "out").iterdir()} == FILES | {"mine.txt"}
    assert (tmp_path / "out" / "multiverse-curve.svg").read_bytes() == before


def test_the_page_says_what_the_terminal_says_and_runs_nothing_of_others(
    multiverse, tmp_path, data
):
    (data / "<b>bold.json").write_bytes((data / "model-2.json").read_bytes())
    said = multiverse(*FEW, "--no-ci", "-o", tmp_path / "out", models=("model-1", "<b>bold"))
    page = (tmp_path / "out" / "multiverse.html").read_text()
    assert said.code == 0
    assert "<b>" not in page
    assert "&lt;b&gt;bold" in page
    assert "Content-Security-Policy" in page
    for name in ("curve", "ranks", "choices", "levels"):
        assert f'id="fig-multiverse-{name}"' in page


def test_a_grid_comes_from_a_file_and_options_replace_its_choices(multiverse, tmp_path):
    grid = tmp_path / "grid.toml"
    grid.write_text(
        'schema = "calipers.grid/1"\n[grid]\nmetric = ["PPV"]\ncriterion = ["iop"]\n'
        "threshold = [0.2]\n"
    )
    document = multiverse("--grid", grid, "--metric", "sensitivity", "--no-ci", "--json").json
    assert {row["metric"] for row in document["rows"]} == {"sensitivity"}
    assert {row["threshold"] for row in document["rows"]} == {0.2}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--metric", "APP"], "did you mean 'AP'"),
        (["--criterion", "box-uoi"], "did you mean 'box-iou'"),
        (["--grid", "none.toml"], "a TOML file"),
        (["-o", ""], "-o needs the name of a folder"),
    ],
)
def test_bad_options_are_told_before_anything_is_read(calipers, options, told):
    said = calipers("multiverse", "missing.json", "a.json", "b.json", *options)
    assert said.code == 2
    assert told in said.err


def test_metrics_with_thresholds_are_those_of_an_evaluation(calipers, multiverse, data):
    """`AP@0.4` of the base is the value that `calipers evaluate --metrics AP@0.4` states."""
    fixed = ["--metrics", "AP@0.4,F1@0.5", "--criterion", "box-iou", "--no-ci", "--json"]
    rows = multiverse(*fixed).json["rows"]
    assert {row["metric"] for row in rows} == {"AP@0.4", "F1@0.5"}
    files = [data / "references.json", data / "model-1.json", "--no-ci", "--json"]
    options = ["--preset", "overview", "--metrics", "AP@0.4"]
    results = calipers("evaluate", *files, *options).json["rows"]
    pooled = next(row["value"] for row in results if row["class"] is None)
    base = {"metric": "AP@0.4", "model": "model-1", "classes": "within", "score_cut": "none"}
    values = []
    for row in rows:
        if all(row[name] == value for name, value in base.items()):
            values.append(row["value"])
    assert any(value == pytest.approx(pooled, abs=1e-9) for value in values)


def test_one_model_is_refused(multiverse):
    assert "two or more" in multiverse(models=("model-1",)).err


def test_results_never_go_among_the_inputs(multiverse, data):
    assert "output-in-input" in multiverse(*FEW, "-o", data, "--force").err


def test_with_too_few_units_a_note_says_so(calipers, tmp_path):
    cohort = cohort_of("plain", seed=6, models=2, n_images=4)
    cal.write(cohort, tmp_path / "r.json")
    for model in cohort.models:
        cal.write(cohort, tmp_path / f"{model}.json", what=model)
    said = calipers(
        "multiverse",
        tmp_path / "r.json",
        tmp_path / "model-1.json",
        tmp_path / "model-2.json",
        *FEW,
    )
    assert said.code == 0
    assert "no intervals" in said.err


def test_the_page_of_an_evaluation_can_tell_of_it_and_tells_again(calipers, data, tmp_path):
    files = [data / name for name in ("references.json", "model-1.json", "model-2.json")]
    said = calipers(
        "evaluate", *files, "--preset", "rodeo", "--no-ci", "--multiverse", "-o", tmp_path / "out"
    )
    assert said.code == 0
    page = tmp_path / "out" / "report.html"
    assert 'id="fig-multiverse-curve"' in page.read_text()
    assert calipers("report", tmp_path / "out", "--force").code == 0
    assert 'id="fig-multiverse-curve"' in page.read_text()


def test_without_the_option_the_page_is_silent_until_it_is_asked(calipers, data, tmp_path):
    files = [data / name for name in ("references.json", "model-1.json", "model-2.json")]
    assert (
        calipers("evaluate", *files, "--preset", "rodeo", "--no-ci", "-o", tmp_path / "out").code
        == 0
    )
    assert "fig-multiverse" not in (tmp_path / "out" / "report.html").read_text()
    assert (
        calipers("report", tmp_path / "out", "--multiverse", "-o", tmp_path / "page.html").code == 0
    )
    assert 'id="fig-multiverse-curve"' in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(("models", "more"), [(1, ["-o", "out"]), (2, [])])
def test_a_page_that_cannot_tell_of_it_is_refused_first(calipers, models, more):
    said = calipers(
        "evaluate", "missing.json", *("a.json", "b.json")[:models], "--multiverse", *more
    )
    assert "give -o DIR and two or more models" in said.err
