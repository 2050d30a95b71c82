"""The loop: it learns, stops early, and continues a killed training to the same weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import calipers as cal
from calipers.training.training_plan import TrainingPlan, plans, read_plans
from training.needs import NEEDS_TORCH

torch = pytest.importorskip("torch", reason=NEEDS_TORCH)
from calipers.training.loop import (  # noqa: E402
    CHECKPOINT,
    LOG,
    WEIGHTS,
    device_named,
    fit,
    load_tensors,
    read_history,
    read_weights,
    reproducible,
)

PLAN = TrainingPlan(epochs=4, batch=8, rate=0.05, validation_share=0.2)


class Line:
    """A line through noisy points, with dropout so that the random state matters."""

    def __init__(self, stop_at=None, scores=None):
        torch.manual_seed(3)
        self.network = torch.nn.Sequential(torch.nn.Dropout(0.3), torch.nn.Linear(3, 1))
        random = np.random.default_rng(0)
        self.x = torch.tensor(random.normal(size=(50, 3)), dtype=torch.float32)
        self.y = self.x @ torch.tensor([[1.0], [-2.0], [0.5]])
        self.stop_at, self.scores, self.steps = stop_at, scores, 0

    def loss(self, rows):
        self.steps += 1
        if self.steps == self.stop_at:
            raise KeyboardInterrupt
        rows = torch.from_numpy(rows)
        return (self.network(self.x[rows]) - self.y[rows]).square().mean()

    def validate(self):
        if self.scores is not None:
            return {"score": self.scores.pop(0)}
        error = (self.network(self.x) - self.y).square().mean().item()
        return {"score": -error, "loss": error}


def trained(folder: Path, task: Line, plan=PLAN, seed=0, identity="one"):
    folder.mkdir(exist_ok=True)
    return fit(task, plan, np.arange(50), folder, identity=identity, seed=seed)


def weights(folder: Path, identity="one"):
    return read_weights(folder / WEIGHTS, identity)["network"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"optimiser": "sgd", "schedule": "one-cycle", "weight_decay": 0.01, "clip": 0.5},
        {"patience": 3},
        {"steps": 25, "patience_steps": 30, "precision": "mixed"},
    ],
)
@pytest.mark.parametrize("stop_at", [1, 9, 20, 25])
def test_a_killed_training_ends_with_the_same_weights(tmp_path, options, stop_at):
    plan = PLAN.changed(**options)
    whole = trained(tmp_path / "whole", Line(), plan)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "killed", Line(stop_at), plan)
    assert not (tmp_path / "killed" / WEIGHTS).exists()
    resumed = trained(tmp_path / "killed", Line(), plan)
    first, second = weights(tmp_path / "whole"), weights(tmp_path / "killed")
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert [epoch.loss for epoch in whole.epochs] == [epoch.loss for epoch in resumed.epochs]
    assert not (tmp_path / "killed" / CHECKPOINT).exists()


def test_what_concludes_a_training_is_part_of_the_weights(tmp_path):
    task = Line()
    task.network.register_buffer("level", torch.tensor(torch.nan))

    def conclude():
        task.network.level.fill_(7.0)

    fit(task, PLAN, np.arange(50), tmp_path, identity="one", seed=0, conclude=conclude)
    assert weights(tmp_path)["level"] == 7.0


def test_it_learns_and_says_so(tmp_path):
    steps = []
    task = Line()
    history = fit(
        task,
        PLAN.changed(epochs=30),
        np.arange(50),
        tmp_path,
        identity="one",
        seed=0,
        progress=lambda step, total: steps.append((step, total)),
    )
    assert history.epochs[-1].validation["loss"] < 0.5 * history.epochs[0].validation["loss"]
    assert steps[:2] == [(0, 210), (1, 210)]
    assert steps[-1] == (210, 210)
    log = json.loads((tmp_path / LOG).read_text())
    assert len(log["epochs"]) == 30
    assert log["best"] == 30


def test_the_seed_decides(tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        trained(tmp_path / name, Line(), seed=seed)
    a, b, c = (weights(tmp_path / name)["1.weight"] for name in "abc")
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_patience_keeps_the_best_epoch(tmp_path):
    plan = PLAN.changed(epochs=20, patience=2)
    history = trained(tmp_path, Line(scores=[0.1, 0.5, 0.4, 0.5, 0.9]), plan)
    assert len(history.epochs) == 4  # the second 0.5 is no improvement
    assert history.best == 2


def test_steps_end_a_training_within_an_epoch(tmp_path):
    # Fifty images in batches of 8 are seven steps an epoch.
    task = Line()
    history = trained(tmp_path, task, PLAN.changed(epochs=20, steps=17))
    assert task.steps == 17
    assert len(history.epochs) == 3


@pytest.mark.parametrize(("steps", "epochs"), [(7, 3), (8, 4), (14, 4), (15, 5)])
def test_patience_in_steps_is_counted_in_whole_epochs(tmp_path, steps, epochs):
    plan = PLAN.changed(epochs=20, patience_steps=steps)
    history = trained(tmp_path, Line(scores=[0.1, 0.5, 0.4, 0.3, 0.2, 0.1]), plan)
    assert (len(history.epochs), history.best) == (epochs, 2)


def test_mixed_precision(tmp_path):
    full = trained(tmp_path / "full", Line())
    mixed = trained(tmp_path / "mixed", Line(), PLAN.changed(precision="mixed"))
    first, second = full.epochs[-1].loss, mixed.epochs[-1].loss
    assert first != second
    assert second == pytest.approx(first, rel=0.05)
    weight = weights(tmp_path / "mixed")["1.weight"]
    assert weight.dtype == torch.float32


def test_without_a_state_of_its_own():
    strict, threads = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    state = torch.get_rng_state()
    with reproducible(1):
        torch.rand(3)
        assert torch.are_deterministic_algorithms_enabled()
    assert torch.are_deterministic_algorithms_enabled() == strict
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


def test_checkpoints_of_others_and_broken_ones_are_refused(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, Line(20))
    with pytest.raises(cal.InputError, match="another plan, split or seed"):
        trained(tmp_path, Line(), identity="two")
    (tmp_path / CHECKPOINT).write_bytes(b"PK\3\4 and nothing else")
    with pytest.raises(cal.InputError, match="checkpoint"):
        trained(tmp_path, Line())


@pytest.mark.parametrize("key", ["network", "optimiser", "epochs", "best", "best_weights"])
def test_checkpoints_with_odd_content_are_refused(tmp_path, key):
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, Line(20))
    sound = torch.load(tmp_path / CHECKPOINT, weights_only=True)
    for value in (None, 3, "x", {}, [], [{"epoch": "one"}], {"1.weight": "x"}):
        torch.save(sound | {key: value}, tmp_path / CHECKPOINT)
        with pytest.raises(cal.InputError, match="checkpoint"):
            trained(tmp_path, Line())
    del sound[key]
    torch.save(sound, tmp_path / CHECKPOINT)
    with pytest.raises(cal.InputError, match="checkpoint"):
        trained(tmp_path, Line())


@pytest.mark.parametrize(
    "text",
    ["", "[]", "[" * 100_000, '{"epochs": [], "best": 1}', '{"epochs": [{"epoch": 1}], "best": 1}'],
)
def test_a_damaged_log_is_refused(tmp_path, text):
    (tmp_path / "log.json").write_text(text)
    with pytest.raises(cal.InputError, match=r"log\.json"):
        read_history(tmp_path)


class Payload:
    """What a hostile file would do if it were unpickled."""

    def __reduce__(self):
        return Path.touch, (Path("harm"),)


def test_a_file_of_weights_executes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"network": Payload()}, "weights.pt")
    with pytest.raises(cal.InputError, match="checkpoint"):
        load_tensors(tmp_path / "weights.pt")
    assert not (tmp_path / "harm").exists()
    torch.save([1, 2], "list.pt")
    with pytest.raises(cal.InputError, match="tensors by name"):
        load_tensors(tmp_path / "list.pt")


def test_a_loss_that_is_not_finite_stops(tmp_path):
    task = Line()
    task.y = task.y * float("nan")
    with pytest.raises(cal.InputError, match="smaller --rate"):
        trained(tmp_path, task)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_device_that_is_not_there():
    assert device_named("cpu").type == device_named("auto").type == "cpu"
    with pytest.raises(cal.UsageError, match="no device 'cuda'"):
        device_named("cuda")
    with pytest.raises(cal.UsageError, match="known"):
        device_named("tpu")


def test_plans_of_table_8():
    table = plans()
    assert len([name for name in table if name.startswith(("xray-", "mura-", "voc-"))]) == 16
    plan = table["xray-cardiomegaly-mean"]
    assert (plan.epochs, plan.rate, plan.activity_l2) == (5, 6e-5, 7.5e-4)
    assert (plan.backbone, plan.side, plan.grid, plan.boxed_weight) == ("resnet50", 512, 16, 5)
    assert table["voc-cars-max"].epochs == 24
    assert table["xray-cardiomegaly-lse-0.1"].pooling == "lse:0.1"


def test_the_plan_of_endocv():
    plan = plans()["endocv2022"]
    assert (plan.model, plan.optimiser, plan.rate, plan.epochs) == ("detector", "sgd", 0.1, 20)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[plan.a]\nepoch = 3", "did you mean 'epochs'"),
        ("[plan.a]\nepochs = 0", "of at least 1"),
        ('[plan.a]\nbackbone = "resnet51"', "did you mean 'resnet50'"),
        ('[plan.a]\nextends = "canvas"', "did you mean 'canvases'"),
        ("[plan.a]\npatience = 3\nvalidation_share = 0.0", "validation images"),
    ],
)
def test_plans_that_are_wrong(text, message):
    with pytest.raises(cal.InputError, match=message):
        read_plans(f'schema = "calipers.plan/1"\n{text}\n', "my.toml", plans())


def test_a_plan_of_a_file(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text('schema = "calipers.plan/1"\n[plan.mine]\nextends = "canvases"\nepochs = 9\n')
    plan = TrainingPlan.load(path)
    assert (plan.name, plan.epochs, plan.rate) == ("mine", 9, 3e-3)
    with pytest.raises(cal.UsageError, match="did you mean 'canvases'"):
        TrainingPlan.load("canvasses")
    path.write_text('schema = "calipers.plan/1"\n[plan.a]\n[plan.b]\n')
    with pytest.raises(cal.InputError, match="one table"):
        TrainingPlan.load(path)
