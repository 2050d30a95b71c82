"""Anomaly networks learn normal images, and their maps fit what they were made of."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from calipers.cli.main import run
from calipers.errors import InputError, UsageError
from calipers.io.volumes.open import open_volume
from calipers.io.write_volume import write_volume
from calipers.synthetic.anomalies import KINDS, normal_images, strange_images, write_anomalies
from calipers.training.datasets.frames import Frames
from calipers.training.training_plan import TrainingPlan, plans
from training.needs import NEEDS_TORCH

torch = pytest.importorskip("torch", reason=NEEDS_TORCH)
from calipers.training import anomaly  # noqa: E402
from calipers.training.anomaly import AnomalyNetwork, AnomalyTask  # noqa: E402
from calipers.training.anomaly_files import read_bytes  # noqa: E402

CPU = torch.device("cpu")
ROWS = np.arange(6)
SHORT = ("--side", "16", "--epochs", "1", "--batch", "4", "--device", "cpu")


def task_of(method: str, dimensions: int = 2, **changes) -> AnomalyTask:
    plan = TrainingPlan.load("anomaly").changed(
        method=method, dimensions=dimensions, side=16, batch=6, **changes
    )
    pixels = np.stack(normal_images(6, side=16, dimensions=dimensions))
    frames = Frames(None, pixels, np.full((6, 2), 16.0), np.ones(6), ())
    torch.manual_seed(0)
    return AnomalyTask(AnomalyNetwork(plan, 1), frames, ROWS[:2], plan, CPU)


def losses(task: AnomalyTask, n: int = 25) -> tuple[float, float]:
    optimiser = torch.optim.Adam(task.network.parameters(), lr=5e-3)
    values = []
    for _ in range(n):
        # The same noise and the same patches in every step: one batch is to be learnt.
        torch.manual_seed(3)
        optimiser.zero_grad()
        loss = task.loss(ROWS)
        loss.backward()
        optimiser.step()
        values.append(loss.item())
    return values[0], values[-1]


@pytest.mark.parametrize("method", anomaly.METHODS)
def test_a_batch_is_learnt(method) -> None:
    first, last = losses(task_of(method))
    assert last < 0.7 * first


@pytest.mark.parametrize("method", ["ae", "fpi"])
def test_a_batch_of_volumes_is_learnt(method) -> None:
    first, last = losses(task_of(method, 3), 12)
    assert last < 0.9 * first


@pytest.mark.parametrize("method", anomaly.METHODS)
def test_scores_are_calibrated_on_normal_images(method) -> None:
    task = task_of(method)
    task.network.eval()
    # Not of all images: those that statistics are made of are equally far from their mean.
    anomaly.fit_statistics(task, ROWS[:3])
    with pytest.raises(InputError, match="calibrated"):
        anomaly.scores_of(task.network, task.frames, ROWS, 6, CPU)
    anomaly.fit_calibration(task, ROWS)
    maps = anomaly.scores_of(task.network, task.frames, ROWS, 6, CPU)
    assert maps.shape == (6, 16, 16)
    assert maps.min() >= 0
    assert maps.max() <= 1
    assert (maps >= 0.5).mean() == pytest.approx(0.001, abs=0.002)
    assert (maps >= 0.01).mean() == pytest.approx(0.01, abs=0.004)
    # Calibration keeps the order of pixels.
    with torch.no_grad():
        raw = task.network.raw_scores(task.pictures(ROWS)).numpy()
    order = np.argsort(raw.ravel())
    assert (np.diff(maps.ravel()[order]) >= -1e-6).all()


def test_padim_whitens_what_it_has_seen() -> None:
    task = task_of("padim")
    task.network.eval()
    anomaly.fit_statistics(task, ROWS)
    with torch.no_grad():
        scores = task.network.raw_scores(task.pictures(ROWS))
        rows = task.network.features(task.pictures(ROWS))[:, task.network.feature_index].flatten(2)
    mean = rows.permute(2, 0, 1).mean(dim=1)
    np.testing.assert_allclose(task.network.mean, mean, atol=1e-5)
    # Six images span five directions: of a whitened sample the mean square is at most that.
    assert 0 < float(scores.square().mean()) <= 5 + 1e-3


def test_foreign_patches_are_blended_and_nothing_else() -> None:
    torch.manual_seed(0)
    pictures = torch.rand(12, 1, 20, 20)
    blended, shares = anomaly.foreign_patches(pictures)
    untouched = shares == 0
    assert bool((blended[:, 0][untouched] == pictures[:, 0][untouched]).all())
    expected = (1 - shares) * pictures[:, 0] + shares * pictures[:, 0].roll(1, dims=0)
    torch.testing.assert_close(blended[:, 0], expected)
    sizes = (shares > 0).flatten(1).sum(dim=1)
    assert int((sizes == 0).sum()) < 8
    assert int(sizes.max()) <= 8 * 8


def test_noise_is_coarse() -> None:
    torch.manual_seed(0)
    noise = anomaly.coarse_noise(torch.zeros(4, 1, 64, 64))[:, 0]
    step = (noise[:, 1:] - noise[:, :-1]).abs().mean() / noise.abs().mean()
    assert float(step) < 0.3


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A run on pictures, and its maps."""
    root = write_anomalies(tmp_path_factory.mktemp("pictures"), n_normal=12, n_strange=2, side=20)
    words = ["train", root / "normal", "--model", "anomaly", *SHORT, "-o", root / "runs"]
    assert run([str(word) for word in [*words, "--quiet"]]) == 0
    words = ["predict", root / "runs", root / "test", "-o", root / "maps", "--quiet"]
    assert run([str(word) for word in words]) == 0
    return root


def test_maps_lie_on_the_pixels_of_the_pictures(pictures) -> None:
    names = sorted(path.stem for path in (pictures / "test").iterdir())
    maps = pictures / "maps" / "subset-1"
    assert sorted(path.stem for path in maps.iterdir()) == names
    for path in maps.iterdir():
        array = open_volume(path).read()
        assert array.shape == (20, 20)  # scaled down to 16 and back
        assert 0 <= array.min() <= array.max() <= 1
    with (pictures / "maps" / "scores.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(names)


def test_maps_are_evaluated_as_they_are(pictures, capsys) -> None:
    words = ["maps", pictures / "references", f"a={pictures / 'maps' / 'subset-1'}"]
    assert run([str(word) for word in [*words, "--no-ci", "--json"]]) == 0
    assert '"AP/dataset"' in capsys.readouterr().out


def test_alarms_are_for_detectors(pictures, capsys) -> None:
    words = ["predict", pictures / "runs", pictures / "test", "--alarms", "-o", pictures / "none"]
    assert run([str(word) for word in words]) == 2
    assert "--model detector, not for anomaly" in capsys.readouterr().err


@pytest.mark.parametrize("dimensions", [2, 3])
def test_volumes_become_maps_on_their_grid(tmp_path, dimensions) -> None:
    pytest.importorskip("nibabel")
    affine = np.diag([0.8, 0.9, 2.0, 1.0])
    (tmp_path / "volumes").mkdir()
    for k, volume in enumerate(normal_images(4, side=12, dimensions=3)):
        path = tmp_path / "volumes" / f"case-{k}.nii.gz"
        write_volume(path, volume[:8].astype(np.float32) * 3.0, affine=affine)
    words = ["train", tmp_path / "volumes", "--model", "anomaly", "--method", "ae", *SHORT]
    words += ["--dimensions", dimensions, "-o", tmp_path / "runs", "--quiet"]
    assert run([str(word) for word in words]) == 0
    words = ["predict", tmp_path / "runs", tmp_path / "volumes", "--part", "all"]
    assert run([str(word) for word in [*words, "-o", tmp_path / "maps", "--quiet"]]) == 0
    record = json.loads((tmp_path / "runs" / "run.json").read_text())
    parts = {name: {one.partition("/")[0] for one in own} for name, own in record["split"].items()}
    # Slices of a volume stay together.
    assert not parts["train"] & parts["test"]
    volume = open_volume(tmp_path / "maps" / "subset-1" / "case-2.nii.gz")
    assert volume.shape == (8, 12, 12)
    np.testing.assert_allclose(volume.affine, affine)
    array = volume.read()
    assert 0 <= array.min() <= array.max() <= 1


def test_images_that_are_not_normal_only_test(tmp_path) -> None:
    root = write_anomalies(tmp_path, n_normal=1, n_strange=4, side=16)
    words = ["train", root / "test", "--labels", root / "test.csv", "--model", "anomaly", *SHORT]
    assert run([str(word) for word in [*words, "-o", root / "runs", "--quiet"]]) == 0
    record = json.loads((root / "runs" / "run.json").read_text())
    strange = {name for name in record["split"]["test"] if not name.startswith("none")}
    assert len(strange) == 16
    assert all(name.startswith("none") for name in record["split"]["train"])
    assert 0 <= record["models"][0]["test"] <= 1


def test_what_cannot_be_learnt_is_refused(tmp_path, capsys) -> None:
    root = write_anomalies(tmp_path, n_normal=4, n_strange=1, side=16)
    start = ["train", root / "normal", "--model", "anomaly", "-o", root / "runs"]

    def message(*words) -> str:
        assert run([str(word) for word in [*start, *words]]) == 2
        return capsys.readouterr().err

    assert "multiple of 8" in message("--side", "20")
    assert "leave out --backbone" in message("--method", "ae", "--backbone", "resnet18")
    assert "volumes" in message("--dimensions", "3")
    table = root / "all.csv"
    names = sorted(path.name for path in (root / "normal").iterdir())
    table.write_text("image,label\n" + "".join(f"{name},1\n" for name in names))
    assert "normal images" in message("--labels", table)


def test_labels_of_volumes_are_complete(tmp_path) -> None:
    from calipers.training.anomaly_files import open_normal

    write_volume(tmp_path / "a.npz", np.zeros((4, 8, 8), np.uint8))
    write_volume(tmp_path / "b.npz", np.zeros((4, 8, 8), np.uint8))
    (tmp_path / "labels.csv").write_text("image,label\na,0\n")
    plan = TrainingPlan.load("anomaly")
    with pytest.raises(InputError, match="1 of 2 volumes"):
        open_normal(str(tmp_path), str(tmp_path / "labels.csv"), None, plan)
    (tmp_path / "labels.csv").write_text("image,label\na,0\nb,odd\n")
    with pytest.raises(InputError, match="0 \\(normal\\) or 1"):
        open_normal(str(tmp_path), str(tmp_path / "labels.csv"), None, plan)
    (tmp_path / "labels.csv").write_text("image,label\na,0\nb.npz,1\n")
    images = open_normal(str(tmp_path), str(tmp_path / "labels.csv"), None, plan)
    assert images.positive.tolist() == [False] * 4 + [True] * 4


def test_bytes_are_taken_as_they_are_and_other_values_are_spread(tmp_path) -> None:
    values = np.arange(64, dtype=np.uint8).reshape(1, 8, 8)
    write_volume(tmp_path / "bytes.npz", values)
    np.testing.assert_array_equal(read_bytes(str(tmp_path / "bytes.npz")), values)
    write_volume(tmp_path / "ct.npz", values.astype(np.float32) * 30 - 1000)
    spread = read_bytes(str(tmp_path / "ct.npz"))
    assert (spread.min(), spread.max()) == (0, 255)
    write_volume(tmp_path / "flat.npz", np.full((1, 8, 8), 7.0))
    assert not read_bytes(str(tmp_path / "flat.npz")).any()


def test_a_backbone_that_stays_as_it_is_needs_no_training(tmp_path) -> None:
    pytest.importorskip("monai")
    root = write_anomalies(tmp_path, n_normal=6, n_strange=1, side=32)
    words = ["train", root / "normal", "--model", "anomaly", "--method", "padim", "--side", "32"]
    words += ["--backbone", "resnet18", "-o", root / "runs", "--quiet"]
    assert run([str(word) for word in words]) == 0
    words = ["predict", root / "runs", root / "test", "-o", root / "maps", "--quiet"]
    assert run([str(word) for word in words]) == 0


@pytest.mark.parametrize("place", ["fit_statistics", "fit_calibration"])
def test_a_kill_between_the_last_epoch_and_the_calibration_loses_nothing(
    place, tmp_path, monkeypatch
) -> None:
    root = write_anomalies(tmp_path, n_normal=8, n_strange=1, side=16)
    words = ["train", str(root / "normal"), "--model", "anomaly", "--method", "padim", *SHORT, "-q"]
    assert run([*words, "-o", str(root / "whole")]) == 0

    def dying(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(anomaly, place, dying)
    assert run([*words, "-o", str(root / "killed")]) == 130
    monkeypatch.undo()
    assert not (root / "killed" / "subset-1" / "weights.pt").exists()
    assert run([*words, "-o", str(root / "killed"), "--resume"]) == 0
    states = []
    for folder in ("whole", "killed"):
        path = root / folder / "subset-1" / "weights.pt"
        states.append(torch.load(path, weights_only=True)["network"])
    first, second = states
    assert bool(torch.isfinite(first["rare"]))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_every_shipped_plan_builds_its_network() -> None:
    own = [plan for plan in plans().values() if plan.model == "anomaly"]
    assert {plan.method for plan in own} == set(anomaly.METHODS)
    assert {plan.dimensions for plan in own} == {2, 3}
    for plan in own:
        small = plan.changed(side=16)
        assert AnomalyNetwork(small, 3 if plan.dimensions == 2 else 1)


def test_made_anomalies_are_what_they_are_called() -> None:
    for one in strange_images(3, 5):
        assert one.kind in KINDS
        assert 30 < one.labels.sum() < 900
    with pytest.raises(UsageError, match="spot"):
        strange_images(1, kinds=("tumour",))


@pytest.mark.slow  # six networks and nine scorers, some minutes
def test_a_network_beats_the_best_classical_scorer_on_some_kind(tmp_path) -> None:
    from training import anomaly_kinds

    anomaly_kinds.main(tmp_path / "kinds.json")
    rows = json.loads((tmp_path / "kinds.json").read_text())["rows"]
    assert any(row["low"] > 0 for row in rows)
