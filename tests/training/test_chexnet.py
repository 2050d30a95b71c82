"""CheXNet: maps whose means are the logits, learning, normalisation, resuming, the whole path."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from calipers.cli.main import run
from calipers.training.datasets.canvases import Canvases
from calipers.training.datasets.frames import prepare, scaled, statistics
from calipers.training.datasets.training_images import open_images
from calipers.training.training_plan import TrainingPlan
from training import layouts
from training.needs import NEEDS_TORCH

torch = pytest.importorskip("torch", reason=NEEDS_TORCH)
from calipers.training.chexnet import (  # noqa: E402
    ChexnetNetwork,
    ChexnetTask,
    class_maps,
    logits_of,
    mean_auc,
)
from calipers.training.datasets.augment import (  # noqa: E402
    blurred,
    jitter_and_blur,
    jittered,
    network_values,
    picture_tensor,
)
from calipers.training.loop import fit  # noqa: E402

CPU = torch.device("cpu")
BARS = Canvases(n_train=160, n_test=40, side=32, glyph=8, fewest=1, most=2)
PLAN = TrainingPlan.load("canvases-chexnet").changed(side=32, epochs=6, batch=16, rate=3e-2)
SMALL = ("--side", "32", "--batch", "16", "--device", "cpu")


@pytest.fixture(scope="module")
def bars(tmp_path_factory):
    return layouts.idx(tmp_path_factory.mktemp("idx"))


@pytest.fixture(scope="module")
def frames(bars):
    """Canvases with bars that stand and bars that lie: either, or both."""
    return prepare(open_images(str(bars), canvases=BARS), 32)


def task_on(frames, rows, plan=PLAN, validation=()):
    torch.manual_seed(0)
    network = ChexnetNetwork(plan, frames.channels, len(frames.images.classes))
    return ChexnetTask(network, frames, rows, np.array(validation, np.int64), plan, CPU)


def test_the_mean_of_a_map_is_the_logit(frames):
    task = task_on(frames, np.arange(16))
    task.network.eval()
    with torch.no_grad():
        pictures = torch.from_numpy(scaled(frames.pixels[:4]))
        logits, maps = task.network(pictures)
        torch.testing.assert_close(maps.mean(dim=(2, 3)), logits)
        # As CheXNet writes it: the mean of the features first, then the linear layer.
        normal = (pictures - task.network.mean[:, None, None]) / task.network.spread[:, None, None]
        features = task.network.backbone(normal).mean(dim=(2, 3))
        weight, bias = task.network.classifier.weight[:, :, 0, 0], task.network.classifier.bias
        torch.testing.assert_close(features @ weight.T + bias, logits, rtol=1e-4, atol=1e-5)


def test_pictures_are_normalised_by_the_training_images(frames):
    rows = np.arange(20, 60)
    task = task_on(frames, rows)
    mean, spread = statistics(frames, rows)
    values = scaled(frames.pixels[rows])
    assert mean[0] == pytest.approx(values.mean(), rel=1e-5)
    assert spread[0] == pytest.approx(values.std(), rel=1e-4)
    np.testing.assert_allclose(task.network.mean.numpy(), mean, rtol=1e-6)
    # They are stored with the weights, for predict.
    assert {"mean", "spread"} <= set(task.network.state_dict())


def test_it_learns_two_classes_and_where_they_are(frames, tmp_path):
    task = task_on(frames, np.arange(140), validation=range(140, 160))
    history = fit(task, PLAN, np.arange(140), tmp_path, identity="x", seed=0)
    assert history.epochs[-1].validation["AUC"] > 0.9
    test = np.arange(160, 200)
    output = class_maps(task.network, frames, test, 16, CPU)
    findings = frames.images.findings[test]
    assert mean_auc(output.logits, findings, np.ones_like(findings)) > 0.95
    hits = []
    for values, i in zip(output.maps, test.tolist()):
        assert values.shape == (2, 32, 32)
        for box, label in zip(frames.images.boxes[i], frames.images.box_labels[i]):
            x0, y0, x1, y1 = box.astype(int)
            inside = values[label, y0:y1, x0:x1].mean()
            hits.append(inside > values[label].mean())
    assert np.mean(hits) > 0.8


def test_one_batch_is_learnt_by_heart(frames):
    rows = np.arange(8)
    task = task_on(frames, rows)
    optimiser = torch.optim.Adam(task.network.parameters(), lr=3e-2)
    first = task.loss(rows).item()
    for _ in range(40):
        optimiser.zero_grad()
        loss = task.loss(rows)
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.2 * first


# A DenseNet-121 on 32 pixels: seconds for the import of MONAI, seconds for the steps.
@pytest.mark.slow
@pytest.mark.parametrize("backbone", ["densenet121", "resnet18"])
def test_published_backbones_learn_a_batch_by_heart(frames, backbone):
    pytest.importorskip("monai", reason="backbones need MONAI: make test-train")
    rows = np.arange(4)
    task = task_on(frames, rows, PLAN.changed(backbone=backbone))
    optimiser = torch.optim.Adam(task.network.parameters(), lr=1e-3)
    first = task.loss(rows).item()
    for _ in range(12):
        optimiser.zero_grad()
        loss = task.loss(rows)
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.5 * first


def test_gradients_reach_every_layer(frames):
    task = task_on(frames, np.arange(8))
    task.loss(np.arange(8)).backward()
    for name, parameter in task.network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_unknown_findings_teach_nothing(frames):
    rows = np.arange(6)
    task = task_on(frames, rows)
    task.network.eval()
    whole = task.loss(rows).item()
    task.certainty = task.certainty.copy()
    task.certainty[rows, 1] = False
    half = task.loss(rows).item()
    with torch.no_grad():
        logits, _ = task.network(torch.from_numpy(scaled(frames.pixels[rows])))
    labels = torch.from_numpy(frames.images.findings[rows].astype(np.float32))
    losses = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    assert whole == pytest.approx(losses.mean().item(), rel=1e-5)
    assert half == pytest.approx(losses[:, 0].mean().item(), rel=1e-5)


def test_maps_cover_the_picture_without_its_padding(tmp_path):
    for i in range(4):
        layouts.picture(tmp_path / f"{i}.png", i, (60, 30))
    frames = prepare(open_images(str(tmp_path)), 32)
    network = ChexnetNetwork(PLAN, 1, 2)
    output = class_maps(network, frames, np.arange(4), 2, CPU)
    assert output.maps[0].shape == (2, 16, 32)
    assert output.logits.shape == (4, 2)
    np.testing.assert_array_equal(output.logits, logits_of(network, frames, np.arange(4), 2, CPU))


class TestAugmentation:
    @pytest.fixture(autouse=True)
    def _monai(self):
        pytest.importorskip("monai", reason="transforms need MONAI: make test-train")

    def test_it_is_a_function_of_the_seed(self, frames):
        pixels = picture_tensor(frames.pixels[0])
        versions = []
        for seed in (0, 0, 1, 2, 3, 4):
            versions.append(jitter_and_blur(pixels, np.random.default_rng(seed)))
        assert torch.equal(versions[0], versions[1])
        assert len({own.numpy().tobytes() for own in versions}) > 2

    def test_a_blur_is_a_gaussian(self):
        point = torch.zeros(1, 41, 41)
        point[0, 20, 20] = 200
        blur = blurred(point, 2.0)[0]
        assert blur.shape == (41, 41)
        # The share of a normal distribution that falls into every pixel.
        edges = [math.erf((k - 20.5) / (2 * math.sqrt(2))) / 2 for k in range(42)]
        bell = np.diff(edges)
        np.testing.assert_allclose(blur, 200 * np.outer(bell, bell), atol=1e-3)

    def test_a_blur_does_not_darken_the_border(self):
        colours = torch.tensor([10.0, 100.0, 250.0])[:, None, None].expand(3, 20, 20)
        np.testing.assert_allclose(blurred(colours, 1.5), colours, rtol=1e-4)

    def test_jitter_scales_every_colour_and_shifts_all(self):
        pixels = torch.tensor([[[40.0, 100.0]], [[40.0, 100.0]], [[40.0, 100.0]]])
        dark, bright = jittered(pixels, np.random.default_rng(0)).unbind(dim=2)
        gains = (bright - dark)[:, 0] / 60
        assert len(set(gains.tolist())) == 3
        assert (abs(gains - 1) <= 0.2).all()
        offsets = dark[:, 0] - 40 * gains
        np.testing.assert_allclose(offsets, offsets[0], atol=1e-3)
        assert 0 < abs(offsets[0]) <= 25.5
        extreme = jittered(torch.tensor([[[0.0, 255.0]]]), np.random.default_rng(1))
        assert extreme.min() >= 0
        assert extreme.max() <= 255

    def test_networks_see_the_same_values_with_and_without(self, frames):
        pictures = [picture_tensor(own) for own in frames.pixels[:3]]
        np.testing.assert_allclose(network_values(pictures), scaled(frames.pixels[:3]), atol=1e-6)


@pytest.fixture(scope="module")
def pictures(frames, tmp_path_factory):
    """The canvases as a folder of pictures, with a table of their classes and boxes."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "pictures").mkdir()
    rows = []
    for i in range(120):
        layouts.Image.fromarray(frames.images.picture(i)).save(folder / "pictures" / f"{i}.png")
        rows += _rows_of(frames.images, i)
    layouts.table(folder / "labels.csv", rows)
    return folder


def _rows_of(images, i):
    rows = []
    for box, label in zip(images.boxes[i].tolist(), images.box_labels[i].tolist()):
        name = ("standing", "lying")[label]
        rows.append(
            {"image": f"{i}.png", "label": name, **dict(zip(("x0", "y0", "x1", "y1"), box))}
        )
    return rows


def train_words(pictures, out):
    words = ["train", pictures / "pictures", "--labels", pictures / "labels.csv"]
    words += ["--model", "chexnet", "--plan", "canvases-chexnet", "--subsets", "2", *SMALL]
    words += ["--epochs", "5", "--rate", "0.03", "-o", out, "--quiet"]
    return [str(word) for word in words]


@pytest.fixture(scope="module")
def trained(pictures, tmp_path_factory):
    """A run, and its maps of the test pictures."""
    folder = tmp_path_factory.mktemp("chexnet")
    assert run(train_words(pictures, folder / "runs")) == 0
    words = ["predict", folder / "runs", pictures / "pictures", "-o", folder / "maps", "--quiet"]
    words += ["--labels", pictures / "labels.csv"]
    assert run([str(word) for word in words]) == 0
    return folder


def test_from_pictures_to_rodeo(trained, capsys, tmp_path):
    maps = trained / "maps"
    record = json.loads((maps / "predictions.json").read_text())
    assert record["kind"] == "maps"
    assert record["classes"] == ["lying", "standing"]
    boxes = tmp_path / "boxes.json"
    words = ["boxes", maps / "subset-1", "--pattern", "{image}", "--classes", "lying,standing"]
    words += ["--sizes", maps / "sizes.csv", "-o", boxes, "--quiet"]
    assert run([str(word) for word in words]) == 0
    capsys.readouterr()
    words = ["evaluate", maps / "references.json", boxes, "--preset", "rodeo", "--no-ci", "--json"]
    assert run([str(word) for word in words]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    value = next(row["value"] for row in rows if row["metric"] == "RoDeO")
    assert 0 < value <= 1


def test_the_next_command(trained, pictures, capsys, tmp_path):
    words = ["predict", trained / "runs", pictures / "pictures", "-o", tmp_path / "maps"]
    assert run([str(word) for word in words]) == 0
    err = capsys.readouterr().err
    assert "next: calipers boxes" in err
    assert "--classes lying,standing --sizes" in err
    assert err.rstrip().endswith("--keep-best -o subset-1.json")


def test_scores_are_probabilities_of_every_class(trained):
    lines = (trained / "maps" / "scores.csv").read_text().splitlines()
    assert lines[0] == (
        "image,subset-1: lying,subset-1: standing,subset-2: lying,subset-2: standing"
    )
    values = np.array([line.split(",")[1:] for line in lines[1:]], float)
    assert ((values >= 0) & (values <= 1)).all()


def test_a_killed_run_ends_with_the_same_weights(trained, pictures, tmp_path, monkeypatch):
    from calipers.training import loop

    words = train_words(pictures, tmp_path / "runs")
    steps, original = iter(range(1000)), loop._step

    def dying(*arguments):
        if next(steps) == 17:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(loop, "_step", dying)
    assert run(words) == 130
    monkeypatch.undo()
    assert run([*words, "--resume"]) == 0
    for name in ("subset-1", "subset-2"):
        first = torch.load(trained / "runs" / name / "weights.pt", weights_only=True)["network"]
        second = torch.load(tmp_path / "runs" / name / "weights.pt", weights_only=True)["network"]
        assert all(torch.equal(first[key], second[key]) for key in first)


def test_predict_takes_pictures_of_some_classes(trained, frames, tmp_path):
    """New pictures whose table has a class less, and one that the run has never seen."""
    rows = []
    for i in range(6):
        layouts.Image.fromarray(frames.images.picture(i)).save(tmp_path / f"{i}.png")
        rows += [row for row in _rows_of(frames.images, i) if row["label"] == "lying"]
    n = len(rows)
    rows[0] = {**rows[0], "label": "leaning"}
    table = layouts.table(tmp_path / "labels.csv", rows)
    words = ["predict", trained / "runs", tmp_path, "--labels", table, "-o"]
    out = tmp_path.parent / f"{tmp_path.name}-maps"
    assert run([str(word) for word in [*words, out, "--quiet"]]) == 0
    document = json.loads((out / "references.json").read_text())
    assert [one["name"] for one in document["categories"]] == ["lying", "standing"]
    assert len(document["annotations"]) == n - 1


def test_without_boxes_no_references_are_written(trained, pictures, tmp_path, capsys):
    rows = [{"image": f"{i}.png", "label": ("lying", "standing")[i % 2]} for i in range(3)]
    table = layouts.table(tmp_path / "labels.csv", rows)
    words = ["predict", trained / "runs", pictures / "pictures", "--part", "all", "--quiet"]
    words += ["--labels", table, "-o", tmp_path / "maps"]
    assert run([str(word) for word in words]) == 0
    assert not (tmp_path / "maps" / "references.json").exists()
    assert len(list((tmp_path / "maps" / "subset-1").iterdir())) == 3
    # Of a table with some boxes, --boxed takes the images that have them.
    partly = [{**row, "x0": "", "y0": "", "x1": "", "y1": ""} for row in rows]
    partly[1] |= {"x0": 1, "y0": 2, "x1": 9, "y1": 12}
    layouts.table(tmp_path / "labels.csv", partly)
    assert run([str(word) for word in [*words[:-1], tmp_path / "partly", "--boxed"]]) == 0
    document = json.loads((tmp_path / "partly" / "references.json").read_text())
    assert [one["id"] for one in document["images"]] == ["1.png"]
    assert len(list((tmp_path / "partly" / "subset-1").iterdir())) == 1
    # A table whose classes are all others is a mistake.
    layouts.table(tmp_path / "labels.csv", [{"image": "0.png", "label": "leaning"}])
    assert run([str(word) for word in words[:-1]] + [str(tmp_path / "other")]) == 2
    assert "labelled 'lying'" in capsys.readouterr().err


REFUSED = {
    "one kind only": (["{data}", "--labels", "{data}/one.csv"], "[single-class]"),
    "a heavy augmentation": (["digits", "--plan", "{data}/heavy.toml"], "'heavy' is not for"),
    "two stages": (["digits", "--stages", "2"], "is for --model mil"),
    "an ensemble": (["digits", "--ensemble", "endocv2022"], "for --model detector"),
    "a plan of another model": (["digits", "--plan", "canvases"], "is for --model mil"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case, tmp_path, capsys):
    data = tmp_path / "data"
    for i in range(10):
        layouts.picture(data / f"{i}.png", i)
    rows = [{"image": f"{i}.png", "label": "mass|nodule" if i % 2 else "mass"} for i in range(10)]
    layouts.table(data / "one.csv", rows)
    plan = 'schema = "calipers.plan/1"\n[plan.a]\nextends = "chexnet"\naugment = "heavy"\n'
    (data / "heavy.toml").write_text(plan)
    words, message = REFUSED[case]
    words = [word.format(data=data) for word in words]
    words = ["train", *words, "--model", "chexnet", "-o", str(tmp_path / "out")]
    if "plan" not in case and "augmentation" not in case:
        words += ["--backbone", "small"]
    assert run(words) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_weights_of_another_model_are_refused(trained, pictures, tmp_path, capsys):
    """A run that says mil, with the weights of CheXNet."""
    import shutil

    copy = tmp_path / "runs"
    shutil.copytree(trained / "runs", copy)
    record = json.loads((copy / "run.json").read_text())
    record["plan"] |= {"model": "mil"}
    (copy / "run.json").write_text(json.dumps(record))
    words = ["predict", copy, pictures / "pictures", "-o", tmp_path / "maps"]
    assert run([str(word) for word in words]) == 2
    error = capsys.readouterr().err
    assert "that of another network" in error
    assert "[checkpoint]" in error


def test_the_published_settings():
    plan = TrainingPlan.load("chexnet")
    assert (plan.backbone, plan.side, plan.batch) == ("densenet121", 224, 128)
    assert (plan.optimiser, plan.rate, plan.weight_decay, plan.clip) == ("adam", 3.6e-5, 1e-6, 1.0)
    assert (plan.steps, plan.patience_steps, plan.augment) == (50_000, 10_000, "jitter-blur")
