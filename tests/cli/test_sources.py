"""What `compare` and `multiverse` work on: saved results and folders of volumes, like files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import calipers as cal
from calipers.io.write import write

MODELS = ("overpredicts", "mislabels")


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The demo's files, and a saved result of every model and of both."""
    folder = tmp_path_factory.mktemp("demo")
    cohort = cal.demo_cohort()
    write(cohort, folder / "references.json")
    for model in MODELS:
        write(cohort, folder / f"{model}.json", what=model)
    protocol = cal.Protocol.load("overview").with_metrics(["F1@0.5", "PPV@0.5"])
    tables = {model: cohort.models[model] for model in MODELS}
    for name in (*MODELS, "both"):
        models = tables if name == "both" else {name: tables[name]}
        cal.evaluate(replace(cohort, models=models), protocol, ci=False).save(folder / f"r_{name}")
    return folder


def rows(said) -> list[tuple[str, str, str, float]]:
    found = []
    for row in said.json["rows"]:
        found.append((row["metric"], row["model_a"], row["model_b"], row["difference"]))
    return found


def test_a_saved_result_is_compared_as_its_files_are(calipers, demo: Path):
    files = [demo / f"{model}.json" for model in MODELS]
    options = ("--metrics", "F1@0.5,PPV@0.5", "--replicates", "200", "--json")
    plain = calipers("compare", demo / "references.json", *files, "--preset", "overview", *options)
    saved = calipers("compare", demo / "r_both", "--replicates", "200", "--json")
    joined = calipers(
        "compare", *(demo / f"r_{model}" for model in MODELS), "--replicates", "200", "--json"
    )
    assert sorted(rows(saved)) == sorted(rows(plain))
    assert rows(joined) == rows(saved)
    assert saved.json["ranking"]["metric"] == "F1@0.5"
    other = calipers("compare", demo / "r_both", "--metrics", "AP@0.4", "--no-such")
    assert other.code == 2
    named = calipers("compare", demo / "r_both", "--metrics", "AP@0.4", "--json")
    assert {row["metric"] for row in named.json["rows"]} == {"AP@0.4"}


def test_what_cannot_be_compared_is_told(calipers, demo: Path, tmp_path: Path):
    one = calipers("compare", demo / "r_mislabels")
    assert (one.code, "there is only one model here" in one.err) == (2, True)
    none = calipers("compare", demo / "references.json")
    assert (none.code, "no predictions here" in none.err) == (2, True)
    mixed = calipers("compare", demo / "r_mislabels", demo / "overpredicts.json")
    assert (mixed.code, "is a saved result" in mixed.err) == (2, True)
    part = cal.demo_cohort().take(np.arange(50))
    cal.evaluate(part, "overview", ci=False).save(tmp_path / "part")
    others = calipers("compare", demo / "r_mislabels", tmp_path / "part")
    assert (others.code, "[other-references]" in others.err) == (2, True)


def test_two_results_of_one_name_are_called_by_their_folders(calipers, demo: Path):
    twice = calipers("compare", demo / "r_mislabels", f"again={demo / 'r_mislabels'}", "--json")
    assert {(row["model_a"], row["model_b"]) for row in twice.json["rows"]} == {
        ("mislabels", "again")
    }


def test_a_multiverse_of_a_saved_result(calipers, demo: Path):
    options = ("--metric", "F1", "--criterion", "box-iou", "--no-ci", "--json")
    saved = calipers("multiverse", demo / "r_both", *options).json
    files = [demo / f"{model}.json" for model in MODELS]
    plain = calipers("multiverse", demo / "references.json", *files, *options).json
    assert saved["configurations"] == plain["configurations"]


@pytest.fixture
def volumes(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    for name in ("labels", "good", "poor"):
        (tmp_path / name).mkdir()
    for k in range(8):
        labels = np.zeros((4, 16, 16), np.uint8)
        labels[1:3, 3 : 8 + k % 3, 4:9] = 1
        noise = random.uniform(0, 0.3, labels.shape)
        np.save(tmp_path / "labels" / f"{k}.npy", labels)
        np.save(tmp_path / "good" / f"{k}.npy", np.clip(0.7 * labels + noise, 0, 1))
        np.save(tmp_path / "poor" / f"{k}.npy", np.clip(0.2 * labels + 2 * noise, 0, 1))
    return tmp_path


def test_folders_of_volumes_are_compared_directly_and_as_a_result(calipers, volumes: Path):
    folders = [volumes / name for name in ("labels", "good", "poor")]
    fewer = ("--metrics", "AP/dataset,softIoU", "--replicates", "100", "--json")
    direct = calipers("compare", *folders, *fewer)
    assert {row["metric"] for row in direct.json["rows"]} == {"AP/dataset", "softIoU"}
    assert all(row["difference"] > 0 for row in direct.json["rows"])
    out = volumes / "out"
    assert calipers("maps", *folders, "--no-ci", "--no-images", "-o", out, "-q").code == 0
    assert rows(calipers("compare", out, *fewer)) == rows(direct)
    choices = ("--metric", "F1", "--criterion", "box-iou", "--no-ci", "--json")
    assert calipers("multiverse", out, *choices).json["configurations"]


def test_predicted_labels_are_compared_as_evaluate_does(calipers, volumes: Path):
    """Objects, unless the protocol has metrics on voxels; options of reading are obeyed."""
    for name, shift in (("ours", 0), ("theirs", 2)):
        (volumes / name).mkdir()
        for k in range(8):
            labels = np.load(volumes / "labels" / f"{k}.npy")
            # The first case has no finding: what the folder holds is told by the others.
            predicted = np.roll(labels, shift, axis=2) * (k > 0)
            np.save(volumes / name / f"{k}_pred.npy", predicted)
    folders = [volumes / name for name in ("labels", "ours", "theirs")]
    pattern = ("--pattern", "{name}_pred.npy", "--json")
    few = ("--metrics", "AP50", "--replicates", "100")
    evaluation = calipers("evaluate", *folders, *pattern, "--no-ci", "--metrics", "AP50").json
    values = {row["model"]: row["value"] for row in evaluation["rows"]}
    (row,) = calipers("compare", *folders, *pattern, *few).json["rows"]
    assert row["value_a"] == values["ours"] > values["theirs"] == row["value_b"]
    grid = ("--metric", "F1", "--criterion", "box-iou", "--no-ci")
    assert calipers("multiverse", *folders, *pattern, *grid).json["configurations"]
    on_voxels = ("--metrics", "AP/dataset", "--replicates", "100")
    said = calipers("compare", *folders, *pattern, "--preset", "anomaly", *on_voxels)
    assert [row["metric"] for row in said.json["rows"]] == ["AP/dataset"]


def test_options_of_reading_are_not_ignored(calipers, demo: Path, volumes: Path):
    said = calipers("compare", demo / "r_both", "--where", "split=test")
    assert (said.code, "--where is not for saved results" in said.err) == (2, True)
    folders = [volumes / name for name in ("labels", "good", "poor")]
    said = calipers("compare", *folders, "--box-format", "xywh")
    assert (said.code, "--box-format is not for folders of score maps" in said.err) == (2, True)


def test_scores_that_need_a_normalisation_are_sent_to_maps(calipers, volumes: Path):
    pixels = volumes / "pixels"
    pixels.mkdir()
    for file in (volumes / "good").iterdir():
        np.save(pixels / file.name, (255 * np.load(file)).astype(np.uint8))
    said = calipers("compare", volumes / "labels", volumes / "good", pixels)
    assert (said.code, "calipers maps" in said.err) == (2, True)
    options = ("--normalise", "pixels=uint8", "--no-ci", "--no-images", "-o", volumes / "both")
    assert calipers("maps", volumes / "labels", volumes / "good", pixels, *options).code == 0
    assert calipers("compare", volumes / "both", "--replicates", "100").code == 0
