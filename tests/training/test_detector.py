"""The detector learns boxes; augmentation keeps them right."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

from calipers.cli.main import run
from calipers.errors import UsageError
from calipers.kernels import boxes as kernels
from calipers.training.datasets.canvases import Canvases
from calipers.training.datasets.frames import prepare
from calipers.training.datasets.training_images import open_images
from calipers.training.training_plan import TrainingPlan
from training import layouts
from training.needs import NEEDS_TORCH

torch = pytest.importorskip("torch", reason=NEEDS_TORCH)
pytest.importorskip("monai", reason=NEEDS_TORCH)
from calipers.training.datasets import augment  # noqa: E402
from calipers.training.datasets.augment import BoxedFrame  # noqa: E402
from calipers.training.detector import (  # noqa: E402
    DetectorNetwork,
    DetectorTask,
    ap_of,
    boxes_of,
    cohort_of,
    complete_iou,
    targets_of,
)
from calipers.training.loop import fit  # noqa: E402

CPU = torch.device("cpu")
BARS = Canvases(n_train=200, n_test=40, side=32, glyph=16, fewest=1, most=1)
PLAN = TrainingPlan.load("canvases-detector").changed(side=32, epochs=4, batch=8)


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    """Canvases with bars that stand (0) and lie (1)."""
    folder = layouts.idx(tmp_path_factory.mktemp("idx"))
    return prepare(open_images(str(folder), canvases=BARS), 32)


def made(frames, plan=PLAN, rows=range(200), validation=()):
    torch.manual_seed(0)
    network = DetectorNetwork(plan, frames.channels, len(frames.images.classes))
    rows, validation = np.array(rows, np.int64), np.array(validation, np.int64)
    return DetectorTask(network, frames, rows, validation, plan, CPU)


def test_it_learns_boxes(frames, tmp_path):
    task = made(frames)
    fit(task, PLAN, task.rows, tmp_path, identity="x", seed=0)
    assert ap_of(task.network, frames, np.arange(200, 240), 16, CPU) > 0.9


@pytest.mark.parametrize("setting", ["none", "light", "heavy"])
def test_a_batch_is_learnt(frames, setting):
    task = made(frames, PLAN.changed(augment=setting), rows=range(4))
    optimiser = torch.optim.Adam(task.network.parameters(), lr=5e-3)
    first = task.loss(task.rows).item()
    for _ in range(20):
        optimiser.zero_grad()
        loss = task.loss(task.rows)
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.7 * first


def test_complete_iou_is_that_of_the_metric():
    random = np.random.default_rng(0)
    low = random.uniform(0, 50, (2, 200, 2))
    boxes = np.concatenate([low, low + random.uniform(1, 40, (2, 200, 2))], axis=2)
    extent = (boxes[..., 2:] - boxes[..., :2]).prod(axis=2)
    expected = kernels.complete_iou(boxes[0].T, boxes[1].T, extent[0], extent[1])
    values = complete_iou(torch.from_numpy(boxes[0]), torch.from_numpy(boxes[1]))
    np.testing.assert_allclose(values, expected, atol=1e-6)
    same = torch.from_numpy(boxes[0])
    assert complete_iou(same, same).min().item() == pytest.approx(1, abs=1e-6)


def test_places_learn_the_box_around_them():
    network = DetectorNetwork(PLAN.changed(side=64), 1, 2).eval()
    _, _, places = network(torch.zeros(1, 1, 64, 64))
    boxes = torch.tensor([[8.0, 8.0, 20.0, 20.0], [30.0, 4.0, 62.0, 60.0]])
    index = targets_of(boxes, places)
    small, large = places.strides[index == 0], places.strides[index == 1]
    assert set(small.tolist()) == {4.0}
    assert set(large.tolist()) == {16.0}  # 56 pixels belong to the coarsest level
    thin = targets_of(torch.tensor([[4.1, 3.0, 5.9, 13.0]]), places)
    assert (thin == 0).sum() == 1  # no place lies inside: the nearest one learns it
    for k in (0, 1):
        centres = places.centres[index == k]
        assert (centres > boxes[k, :2]).all()
        assert (centres < boxes[k, 2:]).all()
    nested = torch.tensor([[8.0, 8.0, 20.0, 20.0], [10.0, 10.0, 18.0, 18.0]])
    inner = (places.centres == 14).all(dim=1) & (places.strides == 4)
    assert targets_of(nested, places)[inner].tolist() == [1]  # the smaller one counts
    assert (targets_of(torch.zeros(0, 4), places) == -1).all()


def test_boxes_are_in_pixels_of_the_picture(frames):
    task = made(frames)
    detected = boxes_of(task.network, frames, np.arange(3), 2, CPU)
    cohort = cohort_of(frames, np.arange(3), {"m": detected})
    assert cohort.classes == ("0", "1")
    assert cohort.n_images == 3
    table = cohort.models["m"]
    assert (table.boxes >= 0).all()
    assert (table.boxes <= 32).all()


class Pair:
    """Two frames, each with a bright rectangle in its box."""

    rows = np.arange(2)

    def sample(self, i):
        x0, y0, x1, y1 = box = [[4, 6, 14, 12], [20, 22, 30, 36]][i]
        pixels = torch.zeros(1, 40, 40)
        pixels[0, y0:y1, x0:x1] = 200
        return BoxedFrame(pixels, torch.tensor([box], dtype=torch.float32), torch.tensor([i]))


def brightness(sample: BoxedFrame) -> float:
    """Share of bright pixels inside the boxes of an image."""
    bright = sample.pixels[0] > 60
    inside = torch.zeros_like(bright)
    for x0, y0, x1, y1 in sample.boxes.tolist():
        inside[math.floor(y0) : math.ceil(y1), math.floor(x0) : math.ceil(x1)] = True
    return float((bright & inside).sum() / bright.sum().clamp(min=1))


def test_a_mirror_image_twice_is_the_image():
    sample = Pair().sample(0)
    for axis, box in ((augment.X, [26, 6, 36, 12]), (augment.Y, [4, 28, 14, 34])):
        once = augment.flipped(sample, axis)
        assert once.boxes.tolist() == [box]
        assert brightness(once) == 1
        twice = augment.flipped(once, axis)
        assert torch.equal(twice.pixels, sample.pixels)
        assert torch.equal(twice.boxes, sample.boxes)


@pytest.mark.parametrize("setting", ["light", "heavy"])
def test_boxes_stay_around_what_they_show(setting):
    for seed in range(20):
        random = np.random.default_rng(seed)
        sample = augment.augmented(Pair(), seed % 2, random, setting)
        assert sample.pixels.shape == (1, 40, 40)
        assert type(sample.pixels) is torch.Tensor  # without the records of MONAI
        assert sample.pixels.min() >= 0
        assert sample.pixels.max() <= 255
        assert len(sample.boxes) == len(sample.labels)
        assert (sample.boxes[:, 2:] - sample.boxes[:, :2] >= 2).all()
        assert (sample.boxes >= 0).all()
        assert (sample.boxes <= 40).all()
        # What is bright lies in a box, except for what was cut off at the border.
        assert brightness(sample) > 0.85


MOVEMENTS = {
    "scale": {"scale": 1.2},
    "rotation": {"rotation": 25.0},
    "shear": {"shear": 20.0},
    "shift": {"shift": (-5.0, 3.0)},
    "all": {"scale": 0.8, "rotation": -10.0, "shear": 5.0, "shift": (2.0, -4.0)},
}


@pytest.mark.parametrize("case", MOVEMENTS)
def test_a_box_is_that_around_what_it_showed(case):
    """The moved rectangle fills its new box in width and height, to a pixel of blurred edges."""
    sample = augment.moved(Pair().sample(1), **MOVEMENTS[case])
    rows, columns = torch.nonzero(sample.pixels[0] > 20, as_tuple=True)
    bright = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    assert sample.boxes[0].tolist() == pytest.approx([int(own) for own in bright], abs=1.2)


def test_two_corners_of_a_box_are_not_enough():
    """Why the box around four moved corners is ours: after a rotation MONAI's box is too small."""
    from monai.apps.detection.transforms.array import AffineBox

    sample = Pair().sample(1)
    turned = augment.moved(sample, rotation=45)
    half = math.sqrt(0.5)
    affine = np.eye(3)
    affine[:2, :2] = [[half, half], [-half, half]]
    affine[:2, 2] = 20 - affine[:2, :2] @ [20, 20]
    theirs = AffineBox()(sample.boxes, torch.from_numpy(affine).float())
    assert brightness(turned) == 1
    assert brightness(turned._replace(boxes=theirs)) < 0.8


def test_movements_are_where_they_should_be():
    sample = Pair().sample(0)
    assert augment.moved(sample, shift=(3.0, 5.0)).boxes[0].tolist() == [7, 11, 17, 17]
    larger = augment.moved(sample, scale=1.25).boxes[0]
    assert larger.tolist() == pytest.approx([0, 2.5, 12.5, 10], abs=1e-5)
    # Against the clock about the centre of the screen: (x, y) goes to (y, 40 - x).
    turned = augment.moved(sample, rotation=90).boxes[0]
    assert turned.tolist() == pytest.approx([6, 26, 12, 36], abs=1e-4)


def test_what_leaves_the_frame_goes():
    sample = Pair().sample(0)
    assert len(augment.moved(sample, shift=(-12.0, 0.0)).boxes) == 0  # 2 of 10 columns are left
    assert augment.moved(sample, shift=(-8.0, 0.0)).boxes.tolist() == [[0, 6, 6, 12]]


def test_an_image_without_boxes_is_moved():
    empty = Pair().sample(0)._replace(boxes=torch.zeros(0, 4), labels=torch.zeros(0).long())
    flipped = augment.flipped(augment.moved(empty, scale=1.1, rotation=5), augment.X)
    assert flipped.boxes.shape == (0, 4)
    assert augment.mosaic([empty] * 4, np.random.default_rng(0)).boxes.shape == (0, 4)


def test_a_mosaic_shows_four_images():
    samples = [Pair().sample(k % 2) for k in range(4)]
    sample = augment.mosaic(samples, np.random.default_rng(0))
    assert sample.labels.tolist() == [0, 1, 0, 1]
    assert brightness(sample) == 1
    # Each at half its size: a quarter of the light of all.
    light = sum(float(own.pixels.sum()) for own in samples) / 4
    assert float(sample.pixels.sum()) == pytest.approx(light)


def test_copy_paste_and_mix_up_bring_both():
    first, second = Pair().sample(0), Pair().sample(1)
    both = augment.mix_up(first, second)
    assert both.labels.tolist() == [0, 1]
    assert both.pixels.max() == 100
    pasted = augment.copy_paste(first, second, np.random.default_rng(0))
    assert 1 in pasted.labels.tolist()
    assert brightness(pasted) == 1
    empty = second._replace(boxes=torch.zeros(0, 4), labels=torch.zeros(0).long())
    assert augment.copy_paste(first, empty, np.random.default_rng(0)) is first


def test_augmentation_without_monai_is_refused_at_once(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "monai", None)
    assert augment.augmented(Pair(), 0, np.random.default_rng(0), "none").labels.tolist() == [0]
    with pytest.raises(UsageError, match="augmentation needs MONAI"):
        augment.augmented(Pair(), 0, np.random.default_rng(0), "light")
    words = ["train", "digits", "--model", "detector", "--canvases", "20", "--epochs", "1"]
    for own in (["--plan", "endocv2022", "--side", "64"], ["--ensemble", "endocv2022"]):
        assert run([*words, *own, "-o", str(tmp_path / "runs")]) == 2
        assert "augmentation needs MONAI" in capsys.readouterr().err
        assert not (tmp_path / "runs").exists()


def test_a_wider_detector_has_more_channels_and_the_usual_one_is_as_before() -> None:
    plan = TrainingPlan.load("canvases-detector")
    sizes = {}
    for width in (32, 64):
        network = DetectorNetwork(plan.changed(width=width), 3, 1)
        sizes[width] = sum(one.numel() for one in network.parameters())
        logits, corners, places = network(torch.zeros(1, 3, 64, 64))
        assert logits.shape[1] == corners.shape[1] == len(places.strides)
    # The channels before the pyramid are 16, 32 and 48 for a width of 64.
    assert network.stages[0][2][0].out_channels == 48
    assert sizes[64] > 3 * sizes[32]
