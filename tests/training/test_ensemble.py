"""Detectors from the command line: train an ensemble, predict, fuse, evaluate."""

from __future__ import annotations

import json

import numpy as np
import pytest

from calipers.cli.main import run
from calipers.training.datasets.canvases import Canvases
from calipers.training.datasets.training_images import open_images
from cases import DATA
from training import layouts
from training.needs import NEEDS_TORCH

pytest.importorskip("torch", reason=NEEDS_TORCH)
from calipers.training.members import members_of, split_of
from calipers.training.models import model_of
from calipers.training.training_plan import TrainingPlan

SMALL = ("--side", "32", "--epochs", "2", "--batch", "8", "--device", "cpu", "--quiet")


def call(*words):
    return run([str(word) for word in words])


@pytest.fixture(scope="module")
def bars(tmp_path_factory):
    return layouts.idx(tmp_path_factory.mktemp("bars"))


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory, bars):
    """Two folds, light and heavy, on few canvases; and the boxes on the test canvases."""
    folder = tmp_path_factory.mktemp("ensemble")
    words = ["train", bars, "--model", "detector", "--ensemble", "endocv2022", "--canvases", "40"]
    assert call(*words, *SMALL, "-o", folder / "runs") == 0
    assert call("predict", folder / "runs", bars, "-o", folder / "boxes", "--quiet") == 0
    return folder


def test_members_of_the_ensemble(ensemble):
    record = json.loads((ensemble / "runs" / "run.json").read_text())
    names = ["fold-1-light", "fold-1-heavy", "fold-2-light", "fold-2-heavy"]
    assert [model["name"] for model in record["models"]] == names
    assert [model["augment"] for model in record["models"]] == ["light", "heavy"] * 2
    assert record["classes"] == ["0", "1"]
    assert any("four members" in note for note in record["notes"])


def test_fuse_and_evaluate_read_what_predict_writes(ensemble, capsys, tmp_path):
    boxes = ensemble / "boxes"
    names = ["fold-1-light", "fold-1-heavy", "fold-2-light", "fold-2-heavy"]
    members = [f"{name}={boxes / name}.json" for name in names]
    words = ["fuse", boxes / "references.json", *members, "--recipe", "endocv2022"]
    assert call(*words, "-o", tmp_path / "fused.json", "--quiet") == 0
    evaluated = ["evaluate", boxes / "references.json", tmp_path / "fused.json", "--no-ci"]
    capsys.readouterr()
    assert call(*evaluated, "--preset", "endocv2022", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"]


# The run of the page on training, six detectors: four minutes of one core. Members that have hardly
# learnt anything (200 canvases, 6 epochs: AP@0.5 of 0.17) are not better together.
@pytest.mark.slow
def test_the_fused_ensemble_is_better_than_its_mean_member(tmp_path, capsys):
    mnist = DATA / "idx" / "mnist"
    if not mnist.is_dir():
        pytest.skip("needs idx files of MNIST: CALIPERS_DATA")
    words = ["train", "digits", "--model", "detector", "--ensemble", "endocv2022", "--quiet"]
    words += ["--external", mnist, "--canvases", "500", "--seed", "1", "-o", tmp_path / "runs"]
    assert call(*words) == 0
    boxes = tmp_path / "boxes"
    assert call("predict", tmp_path / "runs", "digits", "-o", boxes, "--quiet") == 0
    record = json.loads((tmp_path / "runs" / "run.json").read_text())
    names = [model["name"] for model in record["models"]]
    assert len(names) == 6
    members = [f"{name}={boxes / name}.json" for name in names]
    words = ["fuse", boxes / "references.json", *members, "--recipe", "endocv2022", "--quiet"]
    assert call(*words, "-o", tmp_path / "fused.json") == 0
    capsys.readouterr()
    words = ["evaluate", boxes / "references.json", f"fused={tmp_path / 'fused.json'}", *members]
    assert call(*words, "--preset", "endocv2022", "--no-ci", "--json") == 0
    values = {}
    for row in json.loads(capsys.readouterr().out)["rows"]:
        if row["metric"] == "AP@0.5" and row["class"] is None:
            values[row["model"]] = row["value"]
    assert values.pop("fused") > np.mean(list(values.values()))


def test_what_external_data_add(bars, tmp_path):
    folder = layouts.coco(tmp_path)
    own = open_images(str(folder))
    # The external data know lesions and something else.
    document = json.loads((folder / "annotations.json").read_text())
    document["categories"][1]["name"] = "else"
    other_folder = layouts.coco(tmp_path / "other")
    (other_folder / "annotations.json").write_text(json.dumps(document))
    both = own.joined(open_images(str(other_folder)))
    assert len(both) == 12
    assert both.classes == ("lesion", "polyp")
    assert both.ids[6:] == tuple(f"external/{i}" for i in own.ids)
    assert both.box_labels[6].tolist() == [0]  # the box of "else" is left out
    np.testing.assert_array_equal(both.picture(7), own.picture(1))
    plan = TrainingPlan.load("endocv2022")
    split = split_of(both, plan, 0, None)
    everything = np.concatenate([split.train, split.validation, split.test])
    assert everything.max() < 6  # external images never validate or test
    members = members_of(both, split, plan, seed=0, subsets=1, ensemble="endocv2022")
    assert len(members) == 6
    for member in members:
        n_external = int((member.rows >= 6).sum())
        assert n_external == (6 if member.name.endswith("external") else 0)
        assert not set(member.rows.tolist()) & set(member.validation.tolist())
        assert not set(member.rows.tolist()) & set(split.test.tolist())


def test_subsets_of_detectors_differ(bars):
    images = open_images(str(bars), canvases=Canvases(n_train=60, n_test=10, side=32, glyph=8))
    plan = TrainingPlan.load("canvases-detector")
    split = split_of(images, plan, 0, None)
    members = members_of(images, split, plan, seed=0, subsets=3, ensemble=None)
    assert len({tuple(member.rows.tolist()) for member in members}) == 3
    assert all(len(member.rows) < len(split.train) for member in members)


def test_images_without_boxes_teach_no_detector(tmp_path, capsys):
    for i in range(4):
        layouts.picture(tmp_path / "pictures" / f"im{i}.png", i)
    rows = [{"image": f"im{i}.png", "label": i % 2} for i in range(4)]
    table = layouts.table(tmp_path / "labels.csv", rows)
    words = ["train", tmp_path / "pictures", "--labels", table, "--model", "detector"]
    assert call(*words, "-o", tmp_path / "runs") == 2
    assert "[unboxed]" in capsys.readouterr().err
    # Positive images that nobody annotated would teach that nothing is there.
    box = {"x": 1, "y": 2, "w": 3, "h": 4}
    rows = [{"image": "im0", "label": 1, **box}, {"image": "im1", "label": 0, **dict.fromkeys(box)}]
    rows.append({"image": "im2", "label": 1, **dict.fromkeys(box)})
    images = open_images(str(tmp_path / "pictures"), str(layouts.table(table, rows)))
    usable = model_of(TrainingPlan.load("endocv2022")).usable(images)
    assert usable.ids == ("im0", "im1")
    assert "1 of 3 images show something without a box" in usable.notes[-1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ensemble", "endocv2023"], "did you mean 'endocv2022'"),
        (["--plan", "canvases", "--ensemble", "endocv2022"], "for --model detector"),
        (["--plan", "canvases", "--model", "detector"], "is for --model mil"),
        (["--model", "detector", "--weights", "x.pth"], "--model detector has its own network"),
    ],
)
def test_options_that_do_not_fit(words, message, tmp_path, capsys):
    assert call("train", "digits", *words, "-o", tmp_path / "runs") == 2
    assert message in capsys.readouterr().err
