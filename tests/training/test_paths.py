"""The five paths from a folder of pictures to a result, as `train` and `predict` say to go on."""

from __future__ import annotations

import json
import re
import shlex

import numpy as np
import pytest
from PIL import Image

from calipers.cli.main import run
from calipers.synthetic.anomalies import write_anomalies
from training import layouts
from training.needs import NEEDS_TORCH

pytest.importorskip("torch", reason=NEEDS_TORCH)

QUICK = ("--side", "32", "--epochs", "3", "--batch", "8", "--device", "cpu")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Bars that lie or stand, on pictures of 44 x 36 pixels in a folder with a blank in its name;
    a COCO file says where, and a table which pictures have one that stands.
    """
    folder = tmp_path_factory.mktemp("paths") / "my pictures"
    folder.mkdir()
    images, annotations, rows = [], [], []
    for i in range(48):
        random = np.random.default_rng(i)
        pixels = random.integers(0, 60, (36, 44), np.uint8)
        kinds = [k for k in (0, 1) if (i >> k) & 1]
        for k in kinds:
            w, h = ((6, 16), (16, 6))[k]
            x, y = int(random.integers(20 * k, 20 * k + 5)), int(random.integers(0, 20))
            pixels[y : y + h, x : x + w] = 250
            box = {"bbox": [x, y, w, h], "area": w * h, "iscrowd": 0}
            identity = {"id": len(annotations) + 1, "image_id": i + 1, "category_id": k + 1}
            annotations.append({**identity, **box})
        Image.fromarray(pixels).save(folder / f"{i:02d}.png")
        images.append({"id": i + 1, "file_name": f"{i:02d}.png", "width": 44, "height": 36})
        rows.append({"image": f"{i:02d}.png", "label": int(0 in kinds), "patient": i // 3})
    categories = [{"id": 1, "name": "standing"}, {"id": 2, "name": "lying"}]
    document = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "annotations.json").write_text(json.dumps(document))
    layouts.table(folder.parent / "labels.csv", rows)
    return folder


def follow(capsys, *words):
    """Run a command; return the commands that it names."""
    assert run([str(word) for word in words]) == 0
    err = capsys.readouterr().err
    commands = re.findall(r"^(?:next|then): calipers (.*)$", err, re.MULTILINE)
    return [shlex.split(command) for command in commands]


def walk(capsys, commands):
    """Run the commands one after the other; return what the last one prints."""
    for words in commands:
        quicker = {"boxes": [], "fuse": ["--replicates", "100"]}
        assert run([*words, *quicker.get(words[0], ["--no-ci"])]) == 0
    return capsys.readouterr().out


def test_stability(pictures, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ["--labels", pictures.parent / "labels.csv", "--subsets", "2", "--grid", "8"]
    (predict,) = follow(capsys, "train", pictures, *options, *QUICK, "-o", "runs")
    commands = follow(capsys, *predict, "--save-images")
    assert [words[0] for words in commands] == ["stability"]
    assert "AUC" in walk(capsys, commands)
    assert (tmp_path / "stability" / "stability.html").exists()


def test_classes_and_rodeo(pictures, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ["--model", "chexnet", "--plan", "canvases-chexnet", "--subsets", "1"]
    (predict,) = follow(capsys, "train", pictures, *options, *QUICK, "-o", "runs")
    commands = follow(capsys, *predict)
    assert [words[0] for words in commands] == ["boxes", "evaluate"]
    assert "RoDeO/cls" in walk(capsys, commands)


def test_an_ensemble(pictures, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # A member that has hardly learnt may know one class only, which fuse takes for a wrong file.
    options = ["--plan", "pictures-detector", "--ensemble", "endocv2022"]
    (predict,) = follow(capsys, "train", pictures, *options, *QUICK, "-o", "runs")
    (fuse,) = follow(capsys, *predict)
    # Nobody named patients, so no result speaks of them.
    assert "patient" not in (tmp_path / "boxes" / "references.json").read_text()
    assert fuse[fuse.index("--recipe") + 1] == fuse[fuse.index("--preset") + 1] == "endocv2022"
    assert "fold-2-heavy" in walk(capsys, [fuse])
    # Of pictures that nobody has labelled there is nothing to evaluate.
    predict[2] = str(copy_of_pictures(pictures, tmp_path))
    (fuse,) = follow(capsys, *predict[:-1], "more")
    assert "--evaluate" not in fuse


def copy_of_pictures(pictures, tmp_path):
    folder = tmp_path / "unlabelled"
    folder.mkdir()
    for path in sorted(pictures.glob("0*.png")):
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def test_anomalies(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scans = write_anomalies(tmp_path / "scans", n_normal=12, n_strange=2, side=32)
    words = ["train", scans / "normal", "--model", "anomaly", "--method", "ae"]
    (predict,) = follow(capsys, *words, *QUICK, "-o", "runs")
    assert predict[2] == "IMAGES"
    predict[2] = str(scans / "test")
    (maps,) = follow(capsys, *predict)
    assert maps[:2] == ["maps", "REFERENCES"]
    maps[1] = str(scans / "references")
    assert "AUROC" in walk(capsys, [maps])


def test_monitors(pictures, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ["--model", "detector", "--subsets", "1"]
    (predict,) = follow(capsys, "train", pictures, *options, *QUICK, "-o", "runs")
    (monitor,) = follow(capsys, *predict, "--alarms")
    assert monitor[0] == "monitor"
    assert "picture-knn" in walk(capsys, [monitor])
