"""`calipers stability`: words, tables, JSON and a folder, from maps and from predictions;
and early refusals.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import calipers as cal
from calipers.stability.read import read_bags
from calipers.synthetic.bags import demo_bags, write_bags

FAST = ("--replicates", "100")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Write the maps of three families of three models."""
    folder = tmp_path_factory.mktemp("stability")
    for kind in ("stable-good", "stable-wrong", "unstable"):
        write_bags(folder / kind, demo_bags(kind, n_bags=24, n_models=3, shape=(8, 8)))
    return folder


@pytest.fixture
def stability(calipers, study):
    """Call the verb on the three models of a family."""

    def call(*options, kind="stable-good"):
        return calipers("stability", *(study / kind / f"run-{k}" for k in (1, 2, 3)), *options)

    return call


def table_of(text, first):
    """Return name -> cells of the table whose head begins with a word."""
    lines = text.splitlines()
    at = next(
        k for k, line in enumerate(lines) if line.split()[: len(first.split())] == first.split()
    )
    found = {}
    for line in lines[at + 2 :]:
        if not line.strip():
            break
        cells = [cell for cell in line.strip().split("  ") if cell]
        found[cells[0]] = [cell.strip() for cell in cells[1:]]
    return found


def test_sentences_come_first_then_scores_then_the_models_against_the_reference(stability, study):
    said = stability("--labels", study / "stable-good" / "labels.csv", *FAST)
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0].startswith("The three models ")
    assert " on average over 12 positive images." in lines[0]
    scores = table_of(said.out, "score")
    assert {"APJ", "AJ", "AC1", "called-by-some", "Spearman", "Kendall-b"} <= set(scores)
    mean, sd, others, undefined, n_pairs = scores["APJ"]
    assert mean.startswith("0.")
    assert "[" in mean
    assert float(sd) > 0
    assert " to " in others
    assert (undefined, n_pairs) == ("0", "36")
    heads = [line.split()[0] for line in lines if line.startswith((" score ", " model "))]
    assert heads == ["score", "model"]
    models = table_of(said.out, "model")
    assert [name for name in models if name.startswith("run")] == ["run-1", "run-2", "run-3"]
    assert len(models["run-2"]) == 4
    assert (
        "95 % confidence intervals, resampled by patient (n = 6); valid for other "
        "patients like these 6, with these models." in lines
    )


def test_warnings_and_what_was_read_go_to_stderr(stability, study):
    said = stability("--labels", study / "stable-good" / "labels.csv", *FAST)
    assert said.err.splitlines()[0] == "24 images, 3 models: run-1, run-2, run-3"
    assert "note: 12 of 24 images are negative and left out of the stability scores" in said.err
    assert "APJ = AJ / (2 - AJ): they are one finding" in said.err
    quiet = stability("--labels", study / "stable-good" / "labels.csv", *FAST, "--quiet")
    assert (quiet.err, quiet.out) == ("", said.out)


def test_the_numbers_are_those_of_python(stability, study):
    labels = study / "unstable" / "labels.csv"
    document = stability("--labels", labels, "--json", *FAST, "--seed", "3", kind="unstable").json
    assert document["schema"] == "calipers.stability/1"
    assert document["page"] is None
    places = [study / "unstable" / f"run-{k}" for k in (1, 2, 3)]
    found = cal.stability(read_bags(places, labels), replicates=100, seed=3)
    rows = {(row["model"], row["metric"], str(row["group"])): row for row in document["rows"]}
    for name in ("APJ", "Spearman", "called-by-some"):
        row, estimate = rows["all models", name, "None"], found[name]
        assert (row["value"], row["low"], row["high"]) == (
            estimate.value,
            estimate.low,
            estimate.high,
        )


def test_families_come_out_as_they_were_made(stability, study):
    values = {}
    for kind in ("stable-good", "stable-wrong", "unstable"):
        document = stability(
            "--labels", study / kind / "masks", "--no-ci", "--json", kind=kind
        ).json
        rows = {
            (row["model"], row["metric"]): row["value"]
            for row in document["rows"]
            if not row["group"]
        }
        values[kind] = rows["all models", "APJ"], rows["all models", "DICE"]
    assert values["stable-good"][0] > 0.5 > values["unstable"][0]
    assert values["stable-wrong"][0] > 0.5
    assert values["stable-good"][1] > 0.7
    assert max(values["stable-wrong"][1], values["unstable"][1]) < 0.4


def test_options_reach_the_analysis(stability, study):
    labels = ("--labels", study / "stable-good" / "labels.csv")
    options = [
        "--threshold",
        "0.3",
        "--bags",
        "all",
        "--undefined",
        "one",
        "--no-kendall",
        "--cluster",
        "centre",
    ]
    settings = stability(*labels, *options, "--level", "0.9", "--jobs", "2", "--json", *FAST).json[
        "settings"
    ]
    assert settings["threshold"] == 0.3
    assert (settings["bags"], settings["undefined"]) == ("all", "one")
    assert settings["kendall"] is False
    assert (settings["unit"], settings["n_units"]) == ("centre", 3)
    assert (settings["level"], settings["replicates"]) == (0.9, 100)


def test_pooling_changes_the_bag_auc_and_is_named(calipers, tmp_path):
    # The positive image is higher everywhere, but for one place of the negative image.
    for model in ("a", "b"):
        maps = {"ill": np.full((2, 2), 0.5), "well": np.array([[0.9, 0.1], [0.1, 0.2]])}
        np.savez(tmp_path / f"{model}.npz", **maps)
    (tmp_path / "labels.csv").write_text("bag,label\nill,1\nwell,0\n")
    models = ("stability", tmp_path / "a.npz", tmp_path / "b.npz")
    options = ("--labels", tmp_path / "labels.csv", "--no-ci")
    areas = {}
    for pooling in ("max", "mean", "noisy-or", "lse:50", "top-k:3"):
        told = calipers(*models, *options, "--pooling", pooling, "--json").json
        assert told["localization"]["bag_scores"] == told["settings"]["pooling"] == pooling
        areas[pooling] = told["localization"]["over_models"]["AUC"]["mean"]
    assert areas == {"max": 0, "mean": 1, "noisy-or": 1, "lse:50": 0, "top-k:3": 1}
    said = calipers(*models, *options, "--pooling", "top-k:3")
    assert "Whole images have the mean of the 3 highest values of their map as score." in said.out


def test_without_intervals_and_without_kendall(stability):
    said = stability("--no-ci", "--no-kendall")
    scores = table_of(said.out, "score")
    assert "Kendall-b" not in scores
    assert "[" not in scores["APJ"][0]
    assert "against the reference" not in said.out
    assert "there are no labels that mark positive bags: all bags are used" in said.err


def test_rules_turn_boxes_into_instances(stability, study):
    labels = ("--labels", study / "stable-good" / "labels.csv", "--no-ci", "--json")

    def dice(*options):
        rows = stability(*labels, *options).json["rows"]
        return next(
            row["value"] for row in rows if (row["model"], row["metric"]) == ("run-1", "DICE")
        )

    found = {
        rule: dice("--rule", rule) for rule in ("any-overlap", "centre", "rounded", "coverage")
    }
    assert dice() == found["any-overlap"]
    assert len(set(found.values())) == 4
    assert dice("--coverage", "0.9") != found["coverage"]


def test_names_of_models_and_scores_of_bags(calipers, study):
    place = study / "unstable"
    (place / "named.csv").write_text(
        (place / "scores.csv").read_text().replace("run-1,run-2", "first,second")
    )
    models = [f"first={place / 'run-1'}", f"second={place / 'run-2'}"]
    options = (
        "--labels",
        place / "labels.csv",
        "--scores",
        place / "named.csv",
        "--json",
        "--no-ci",
    )
    document = calipers("stability", *models, *options).json
    assert document["models"] == ["first", "second"]
    assert document["localization"]["bag_scores"] == "given"


def test_one_table_of_all_models(calipers, tmp_path):
    values = np.random.default_rng(0).random((2, 6, 9))
    lines = ["model,bag,instance,value"]
    lines += [
        f"{'ab'[k]},x{i},{n},{float(values[k, i, n])!r}"
        for k in range(2)
        for i in range(6)
        for n in range(9)
    ]
    (tmp_path / "all.csv").write_text("\n".join(lines) + "\n")
    document = calipers("stability", tmp_path / "all.csv", "--no-ci", "--json").json
    found = cal.stability(values, ci=False)
    assert (
        next(row["value"] for row in document["rows"] if row["metric"] == "Pearson")
        == found["Pearson"].value
    )


def test_a_folder_is_written_whole(stability, study, tmp_path):
    target = tmp_path / "results"
    said = stability("--labels", study / "stable-good" / "labels.csv", *FAST, "-o", target)
    assert said.code == 0
    assert said.out.splitlines()[-1].startswith(f"Open {target}")
    document = json.loads((target / "stability.json").read_text())
    assert document["schema"] == "calipers.stability/1"
    assert (target / "stability.csv").read_text().startswith("model,metric,")
    again = stability(*FAST, "-o", target)
    assert again.code == 2
    assert "[output-exists]" in again.err
    assert stability("--no-ci", "-o", target, "--force").code == 0


def test_results_never_land_among_the_inputs(stability, study):
    said = stability("-o", study / "stable-good" / "run-1", "--force")
    assert said.code == 2
    assert "[output-in-input]" in said.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--no-ci", "--replicates", "200"], "--replicates is for intervals"),
        (["--rule", "centre"], "--rule is about boxes in --labels"),
        (["--coverage", "0.5"], "--coverage is about boxes in --labels"),
        (["--grid", "4,4"], "--grid is for predictions"),
        (["--cluster", "patientt"], "patientt"),
        (["--threshold", "1.5"], "1.5"),
        (["--pooling", "noisy"], "did you mean 'noisy-or'"),
        (["--pooling", "mean"], "pooling is for the bag AUC, which needs labels"),
        (["--normalise", "sigmoyd"], "did you mean 'sigmoid'"),
    ],
)
def test_options_that_make_no_sense_are_refused(stability, options, words):
    said = stability(*options)
    assert said.code == 2
    assert words in said.err
    assert said.out == ""


def test_coverage_goes_with_its_rule(stability, study):
    said = stability(
        "--labels", study / "stable-good" / "labels.csv", "--rule", "centre", "--coverage", "0.5"
    )
    assert said.code == 2
    assert "--coverage is for --rule coverage" in said.err


def test_one_model_and_missing_files_are_refused(calipers, study):
    said = calipers("stability", study / "unstable" / "run-1")
    assert (said.code, "[one-model]" in said.err) == (2, True)
    said = calipers("stability", study / "unstable" / "run-1", study / "unstable" / "run-9")
    assert (said.code, "[not-found]" in said.err) == (2, True)
    said = calipers("stability", "name=", study / "unstable" / "run-1")
    assert (said.code, "a file is missing in 'name='" in said.err) == (2, True)


def test_the_first_difference_between_models_is_named(calipers, tmp_path):
    np.savez(tmp_path / "a.npz", x1=np.full(4, 0.5), x2=np.full(4, 0.5))
    np.savez(tmp_path / "b.npz", x1=np.full(4, 0.5), x3=np.full(4, 0.5))
    said = calipers("stability", tmp_path / "a.npz", tmp_path / "b.npz", "--json")
    assert said.code == 2
    error = said.json["error"]
    assert error["kind"] == "bags-differ"
    assert error["problems"][0]["location"] == "model 'b', bag 'x2'"
    np.savez(tmp_path / "b.npz", x1=np.full(4, 0.5), x2=np.array([0.5, 0.5, np.nan, 0.5]))
    said = calipers("stability", tmp_path / "a.npz", tmp_path / "b.npz")
    assert said.code == 2
    assert f"{tmp_path / 'b.npz'}, model 'b', bag 'x2', [2]: expected finite values" in said.err
    assert said.out == ""


@pytest.fixture
def detectors(files):
    """Three detectors on the small cohort; the third repeats the first with a shift."""
    ours = json.loads(Path(files.ours).read_text())
    files.write(
        "third.json", [{**one, "bbox": [one["bbox"][0] + 2, *one["bbox"][1:]]} for one in ours]
    )
    return [files.ours, files.theirs, files.path("third.json")]


def test_predictions_are_compared_object_by_object_and_on_a_grid(calipers, files, detectors):
    said = calipers(
        "stability", *detectors, "--references", files.references, "--grid", "10,10", *FAST
    )
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0].startswith("Of 5 references, ")
    counts = table_of(said.out, "models references")
    assert [counts[f"{k} of 3"][0] for k in range(4)] == ["1", "0", "3", "1"]
    assert "The same predictions as maps, cell by cell:" in lines
    assert "APJ" in table_of(said.out, "score")
    assert "a grid of 10 x 10 cells" in said.err


def test_objects_are_in_the_document(calipers, files, detectors):
    options = ("--references", files.references, "--groups", files.groups, "--no-ci", "--json")
    document = calipers("stability", *detectors, *options).json
    assert document["objects"]["schema"] == "calipers.object-stability/1"
    assert document["objects"]["references"] == 5
    assert document["settings"]["unit"] == "patient"


def test_predictions_and_maps_are_told_apart(calipers, files, detectors, study):
    said = calipers("stability", *detectors)
    assert said.code == 2
    assert "[wrong-role]" in said.err
    assert "--references REFS" in said.err
    place = study / "unstable"
    said = calipers("stability", place / "run-1", place / "run-2", "--references", files.references)
    assert (said.code, "[wrong-role]" in said.err) == (2, True)
    table = "image,class,x0,y0,x1,y1,score\n1,nodule,10,10,30,30,0.9\n"
    boxes = [files.write(f"{name}.csv", table) for name in "ab"]
    assert "[wrong-role]" in calipers("stability", *boxes).err
    assert calipers("stability", *boxes, "--references", files.references, "--no-ci").code == 0
    said = calipers(
        "stability", *detectors, "--references", files.references, "--labels", files.groups
    )
    assert (said.code, "--labels" in said.err) == (2, True)
    said = calipers("stability", *detectors, "--references", files.references, "--rule", "rounded")
    assert (said.code, "--rule any-overlap or centre" in said.err) == (2, True)
    said = calipers("stability", *detectors, "--references", files.references, "--grid", "ten")
    assert (said.code, "--grid takes rows,columns" in said.err) == (2, True)


def test_names_cannot_drive_the_terminal(calipers, tmp_path):
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(ord(name)).random((6, 9)))
    models = [f"\x1b[31m[red]={tmp_path / 'a.npy'}", f"b={tmp_path / 'b.npy'}"]
    np.save(tmp_path / "labels.npy", np.array([0, 1, 0, 1, 0, 1]))
    said = calipers("stability", *models, "--labels", tmp_path / "labels.npy", "--no-ci")
    assert said.code == 0
    assert "\x1b" not in said.out + said.err
    assert "\\x1b[31m[red]" in said.out
