"""Monitors that look inside a detector: their alarms, and the file that `monitor` reads."""

from __future__ import annotations

import csv
import json
import shutil

import numpy as np
import pytest
from scipy.special import expit

from calipers.cli.main import run
from training import layouts
from training.needs import NEEDS_TORCH

torch = pytest.importorskip("torch", reason=NEEDS_TORCH)
from calipers.training.detector import DetectorNetwork, PlaceOutputs  # noqa: E402
from calipers.training.monitors import (  # noqa: E402
    CANDIDATE,
    MONITORS,
    InspectedImages,
    MonitorFit,
    _peaks,
    alarms_of,
)
from calipers.training.predict import predict  # noqa: E402
from calipers.training.training_plan import TrainingPlan  # noqa: E402


def inspected(seed: int = 0, n: int = 30, away: float = 0.0) -> InspectedImages:
    """Two objects per image, of two classes that lie apart."""
    random = np.random.default_rng(seed)
    label = np.arange(2 * n) % 2
    features = random.normal(size=(2 * n, 3)) + 5 * label[:, None] + away
    logits = random.normal(-3, 0.1, (2 * n, 2))
    logits[np.arange(2 * n), label] = 2.0
    pictures = features.reshape(n, 2, 3).mean(axis=1)
    return InspectedImages(np.repeat(np.arange(n), 2), logits, features, np.zeros(2 * n), pictures)


def test_alarms_on_outputs_by_hand() -> None:
    usual = inspected()
    alarms = alarms_of(usual, MonitorFit.of(usual))
    assert tuple(alarms) == tuple(MONITORS)
    p = expit(usual.logits[:2])
    assert alarms["max-sigmoid"][0] == pytest.approx(np.mean(1 - p.max(axis=1)))
    energy = np.log1p(np.exp(usual.logits[:2])).sum(axis=1)
    assert alarms["energy"][0] == pytest.approx(-energy.mean())
    share = p / p.sum(axis=1, keepdims=True)
    assert alarms["entropy"][0] == pytest.approx(-(share * np.log(share)).sum(axis=1).mean())


def test_features_far_from_training_raise_alarms() -> None:
    fit = MonitorFit.of(inspected())
    near, far = alarms_of(inspected(1), fit), alarms_of(inspected(1, away=15.0), fit)
    for name in ("mahalanobis", "picture-mahalanobis"):
        assert far[name].min() > near[name].max()
    # Mahalanobis distances of three features are about 1.6 in the mean.
    assert near["mahalanobis"].mean() == pytest.approx(1.6, abs=0.3)
    turned = inspected(1)
    flipped = InspectedImages(
        turned.image, turned.logits, -turned.features - 5, turned.spread, -turned.pictures
    )
    for name in ("knn", "picture-knn"):
        assert np.median(alarms_of(flipped, fit)[name]) > 1.5 * np.median(near[name])


def outputs(scores, boxes) -> PlaceOutputs:
    logits = torch.logit(torch.tensor(scores))[None, :, None]
    return PlaceOutputs(logits, torch.tensor(boxes)[None], None, torch.zeros(1, len(scores), 1))


def test_objects_are_peaks_one_per_box() -> None:
    boxes = [[0.0, 0, 10, 10], [1, 0, 11, 10], [20, 20, 30, 30], [40, 40, 50, 50]]
    assert _peaks(outputs([0.6, 0.9, 0.3, 0.05], boxes), 0) == [1, 2]
    # Without any the best place stands for the image.
    assert _peaks(outputs([0.01, 0.02, 0.05, 0.03], boxes), 0) == [2]
    assert CANDIDATE == 0.1


def test_dropout_is_part_of_training_and_of_nothing_else() -> None:
    plan = TrainingPlan.load("canvases-detector").changed(side=32, dropout=0.5)
    torch.manual_seed(0)
    network = DetectorNetwork(plan, 1, 2)
    pictures = torch.randn(2, 1, 32, 32)
    network.train()
    assert not torch.equal(network(pictures)[0], network(pictures)[0])
    network.eval()
    assert torch.equal(network(pictures)[0], network(pictures)[0])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A detector of bars, its boxes and its alarms."""
    root = tmp_path_factory.mktemp("alarms")
    layouts.idx(root / "idx")
    words = ["train", root / "idx", "--model", "detector", "--canvases", "60", "--subsets", "1"]
    words += ["--epochs", "2", "--batch", "8", "--side", "64", "-o", root / "runs", "--quiet"]
    assert run([str(word) for word in words]) == 0
    words = ["predict", root / "runs", root / "idx", "--alarms", "-o", root / "boxes", "--quiet"]
    assert run([str(word) for word in words]) == 0
    return root


def test_alarms_are_a_table_with_a_row_per_image(trained) -> None:
    with (trained / "boxes" / "subset-1-alarms.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["image", *MONITORS]
    record = json.loads((trained / "runs" / "run.json").read_text())
    assert [row["image"] for row in rows] == record["split"]["test"]
    values = np.array([[float(row[name]) for name in MONITORS] for row in rows])
    assert np.isfinite(values).all()
    assert (values.std(axis=0) > 0).all()


def test_the_same_weights_give_the_same_alarms(trained, tmp_path) -> None:
    steps = []
    predict(
        trained / "runs",
        str(trained / "idx"),
        tmp_path / "again",
        alarms=True,
        progress=lambda *own: steps.append(own),
    )
    # Test images are looked at for boxes and for alarms, training images for alarms.
    names, counts, totals = zip(*(own for own in steps if own[0].startswith("predicting")))
    assert set(names) == {"predicting", "predicting with subset-1"}
    assert list(counts) == sorted(counts)
    assert counts[0] == 0
    record = json.loads((trained / "runs" / "run.json").read_text())
    n_looks = 2 * len(record["split"]["test"]) + len(record["split"]["train"])
    assert counts[-1] == totals[-1] == n_looks
    assert "decoding training images" in {own[0] for own in steps}
    first = (trained / "boxes" / "subset-1-alarms.csv").read_bytes()
    assert (tmp_path / "again" / "subset-1-alarms.csv").read_bytes() == first


def test_monitor_reads_what_predict_writes(trained, capsys) -> None:
    boxes = trained / "boxes"
    words = ["monitor", boxes / "references.json", boxes / "subset-1.json"]
    words += [
        "--alarm",
        boxes / "subset-1-alarms.csv",
        "--classes",
        "present",
        "--score-cut",
        "0.1",
    ]
    code = run([str(word) for word in [*words, "--tau-sweep", "--no-ci", "--json"]])
    out, err = capsys.readouterr()
    assert code == 0, err
    document = json.loads(out)
    assert document["schema"] == "calipers.monitor/1"
    assert "energy" in out


def test_monitors_need_the_training_images(trained, tmp_path, capsys) -> None:
    shutil.copytree(trained / "runs", tmp_path / "runs")
    path = tmp_path / "runs" / "run.json"
    document = json.loads(path.read_text())
    document["source"] = str(tmp_path / "gone")
    path.write_text(json.dumps(document))
    words = ["predict", tmp_path / "runs", trained / "idx", "--alarms", "-o", tmp_path / "boxes"]
    assert run([str(word) for word in words]) == 2
    assert "from which monitors learn" in capsys.readouterr().err
