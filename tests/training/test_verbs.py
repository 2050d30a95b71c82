"""`calipers train` and `predict` as a newcomer calls them, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from calipers.cli.main import run
from training import layouts
from training.needs import NEEDS_TORCH

torch = pytest.importorskip("torch", reason=NEEDS_TORCH)

SMALL = ("--side", "32", "--grid", "8", "--epochs", "2", "--batch", "16", "--device", "cpu")


def call(capsys, *words):
    capsys.readouterr()
    code = run([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Sixty pictures; the positive ones have a bright square, half of them with a box."""
    folder = tmp_path_factory.mktemp("data")
    rows, random = [], np.random.default_rng(0)
    (folder / "pictures").mkdir()
    for i in range(60):
        pixels = random.integers(0, 60, (32, 40), np.uint8)
        x, y = (int(value) for value in random.integers(0, 24, 2))
        row = {"image": f"im{i:02d}.png", "label": i % 2, "patient": f"p{i // 3}"}
        row |= {"x0": "", "y0": "", "x1": "", "y1": ""}
        if i % 2:
            pixels[y : y + 8, x : x + 8] = 230
            if i % 4 == 1:
                row |= {"x0": x, "y0": y, "x1": x + 8, "y1": y + 8}
        rows.append(row)
        layouts.Image.fromarray(pixels).save(folder / "pictures" / row["image"])
    layouts.table(folder / "labels.csv", rows)
    return folder


@pytest.fixture(scope="module")
def trained(data):
    """A run of two models and their mean, and its maps."""
    words = ["train", data / "pictures", "--labels", data / "labels.csv", *SMALL]
    words += ["--subsets", "2", "--boxed-share", "1", "--average", "-o", data / "runs", "--quiet"]
    assert run([str(word) for word in words]) == 0
    words = ["predict", data / "runs", data / "pictures", "--labels", data / "labels.csv"]
    assert (
        run([str(word) for word in [*words, "-o", data / "maps", "--save-images", "--quiet"]]) == 0
    )
    return data


def test_the_run_says_what_was_done(trained):
    record = json.loads((trained / "runs" / "run.json").read_text())
    assert record["status"] == "finished"
    assert [model["name"] for model in record["models"]] == ["subset-1", "subset-2", "average"]
    parts = record["split"]
    everything = [*parts["train"], *parts["validation"], *parts["test"]]
    assert sorted(everything) == [f"im{i:02d}.png" for i in range(60)]
    patients = {name: {int(one[2:4]) // 3 for one in ids} for name, ids in parts.items()}
    assert not patients["train"] & patients["test"]
    # All boxed training images are in every subset.
    n_boxed = len([name for name in parts["train"] if int(name[2:4]) % 4 == 1])
    assert [model["n_boxed"] for model in record["models"][:2]] == [n_boxed, n_boxed]
    n = len(parts["train"])
    assert record["models"][0]["n_train"] == n - round(0.05 * n)
    assert sorted(path.name for path in (trained / "runs" / "subset-1").iterdir()) == [
        "log.json",
        "weights.pt",
    ]


def test_the_run_has_a_page_of_its_curves(trained):
    page = (trained / "runs" / "training.html").read_text()
    assert "How did the training go?" in page
    assert "AUC, validation: " in page
    assert page.count("<svg") == 2
    assert "<script src" not in page


def test_stability_reads_what_predict_writes(trained, capsys):
    maps = trained / "maps"
    models = (maps / "subset-1.npz", maps / "subset-2.npz")
    options = (
        "--labels",
        maps / "labels.csv",
        "--scores",
        maps / "scores.csv",
        "--no-ci",
        "--json",
    )
    code, out, _ = call(capsys, "stability", *models, *options)
    assert code == 0
    document = json.loads(out)
    record = json.loads((trained / "runs" / "run.json").read_text())
    areas = document["localization"]["over_models"]["AUC"]
    expected = np.mean([model["test"] for model in record["models"][:2]])
    assert areas["mean"] == pytest.approx(expected)
    assert document["localization"]["bag_scores"] == "given"
    test = record["split"]["test"]
    assert sorted(path.stem for path in (maps / "images").iterdir()) == [
        name.removesuffix(".png") for name in sorted(test)
    ]


def test_boxes_are_on_the_grid_that_the_maps_have(trained):
    from calipers.stability.grid import instance_labels
    from calipers.stability.read import read_bags

    maps = trained / "maps"
    bags = read_bags([maps / "subset-1.npz", maps / "subset-2.npz"], maps / "labels.csv")
    assert set(bags.sizes.values()) == {(40.0, 40.0)}  # 32 pixels of a frame are 40 of the picture
    marked = bags.with_instances(instance_labels)
    found = [marked[i].instances for i in range(len(marked)) if marked.positive[i]]
    annotated = [own for own in found if own is not None]
    assert annotated
    assert all(own.any() for own in annotated)


def test_pictures_alone_are_predicted_as_a_whole(trained, capsys, tmp_path):
    code, out, _ = call(
        capsys,
        "predict",
        trained / "runs",
        trained / "pictures",
        "-o",
        tmp_path / "m",
        "--part",
        "all",
    )
    assert code == 0
    assert "on all images: 60" in out
    assert not (tmp_path / "m" / "labels.csv").exists()
    with np.load(tmp_path / "m" / "subset-1.npz") as archive:
        assert archive["maps"].shape == (60, 8, 8)
        assert archive["ids"][0] == "im00.png"


def test_a_run_that_was_killed_ends_with_the_same_weights(trained, capsys, tmp_path, monkeypatch):
    words = ["train", trained / "pictures", "--labels", trained / "labels.csv", *SMALL]
    words += ["--subsets", "2", "--boxed-share", "1", "--average", "-o", tmp_path / "runs"]
    from calipers.training import loop

    steps = iter(range(100))
    original = loop._step

    def dying(*arguments):
        if next(steps) == 4:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(loop, "_step", dying)
    code, _, err = call(capsys, *words)
    assert code == 130
    assert "add --resume to go on" in err
    monkeypatch.undo()
    code, _, err = call(capsys, *words)
    assert code == 2
    assert "continue this run with --resume" in err
    code, _, err = call(capsys, *words, "--resume", "--seed", "1")
    assert code == 2
    assert "another" in err
    assert call(capsys, *words, "--resume")[0] == 0
    for name in ("subset-1", "subset-2", "average"):
        first = torch.load(trained / "runs" / name / "weights.pt", weights_only=True)["network"]
        second = torch.load(tmp_path / "runs" / name / "weights.pt", weights_only=True)["network"]
        assert all(torch.equal(first[key], second[key]) for key in first)
    # Nothing is left to do, and doing it again changes nothing.
    assert call(capsys, *words, "--resume")[0] == 0


def test_digits_need_no_data(capsys, tmp_path):
    code, out, err = call(
        capsys,
        "train",
        "digits",
        "--subsets",
        "1",
        "--canvases",
        "40",
        *SMALL,
        "-o",
        tmp_path / "r",
    )
    assert code == 0
    assert "Models that find 0" in out
    assert f"next: calipers predict {tmp_path / 'r'} digits -o maps" in err
    code, out, _ = call(capsys, "predict", tmp_path / "r", "digits", "-o", tmp_path / "m", "--json")
    assert code == 0
    document = json.loads(out)
    assert (document["part"], document["images"], document["positive"]) == ("test", 20, 10)


@pytest.mark.parametrize("model", ["chexnet", "detector"])
def test_a_plan_for_a_gpu_is_called_that_before_anything_else(model, capsys, tmp_path):
    words = ["train", tmp_path / "gone", "--model", model, "--device", "cpu", "-o", tmp_path / "r"]
    code, _, err = call(capsys, *words)
    assert code == 2
    assert err.startswith("note: the plan ")
    small = f"--plan pictures-{model}"
    assert small in err
    assert "note" not in call(capsys, *words, *small.split())[2]
    assert "note" not in call(capsys, *words, "--side", "64")[2]


REFUSED = {
    "no output": (["{data}/pictures", "--labels", "{data}/labels.csv"], "-o DIR"),
    "no labels": (["{data}/pictures", "-o", "{out}"], "--labels TABLE"),
    "no folder": (["{data}/gone", "-o", "{out}"], "gone"),
    "no table": (["{data}/pictures", "--labels", "{data}/gone.csv", "-o", "{out}"], "not-found"),
    "one class": (["{data}/pictures", "--labels", "{data}/ill.csv", "-o", "{out}"], "single-class"),
    "several classes": (
        ["{data}/pictures", "--labels", "{data}/classes.csv", "-o", "{out}"],
        "--target",
    ),
    "no such class": (
        ["{data}/pictures", "--labels", "{data}/classes.csv", "--target", "bb", "-o", "{out}"],
        "no image of pictures is labelled 'bb'",
    ),
    "no gpu": (["digits", "--device", "cuda", "-o", "{out}"], "no device 'cuda'"),
    "no plan": (["digits", "--plan", "canvass", "-o", "{out}"], "did you mean 'canvases'"),
    "no pooling": (["digits", "--canvases", "20", "--pooling", "maxi", "-o", "{out}"], "maxi"),
    "epochs": (["digits", "--epochs", "0", "-o", "{out}"], "of at least 1"),
    "among the inputs": (
        ["{data}/pictures", "--labels", "{data}/labels.csv", "-o", "{data}/pictures/runs"],
        "output-in-input",
    ),
    "an option of another model": (
        ["digits", "--model", "detector", "--pooling", "max", "-o", "{out}"],
        "--pooling is for --model mil, not for detector",
    ),
    "an option of two other models": (
        ["digits", "--model", "detector", "--backbone", "small", "-o", "{out}"],
        "--backbone is for --model mil, chexnet and anomaly, not for detector",
    ),
    "nothing to resume": (["digits", "--resume", "-o", "{out}"], "a run to continue"),
    "weights": (["digits", "--canvases", "20", "--weights", "{data}/labels.csv", "-o", "{out}"],
                "no published weights"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_train_refuses(trained, capsys, tmp_path, case):
    if case == "no gpu" and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    names = [f"im{i:02d}.png" for i in range(60)]
    layouts.table(trained / "ill.csv", [{"image": name, "label": 1} for name in names])
    rows = [{"image": name, "label": "ab"[i % 2]} for i, name in enumerate(names)]
    layouts.table(trained / "classes.csv", rows)
    words, message = REFUSED[case]
    words = [word.format(data=trained, out=tmp_path / "out") for word in words]
    code, out, err = call(capsys, "train", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert not (tmp_path / "out").exists()


def test_what_predict_refuses(trained, capsys, tmp_path):
    pictures, runs = trained / "pictures", trained / "runs"
    out = ("-o", tmp_path / "out")
    for words, message in (
        (("predict", runs, pictures), "-o DIR"),
        (("predict", trained / "maps", pictures, *out), "a training run"),
        (("predict", runs, trained / "gone", *out), "gone"),
        (("predict", runs, "digits", "--part", "test", *out), "the test images of the run"),
    ):
        code, _, err = call(capsys, *words)
        assert code == 2
        assert message in err
        assert not (tmp_path / "out").exists()


def test_weights_of_another_run_are_refused(trained, capsys, tmp_path):
    import shutil

    copy = tmp_path / "runs"
    shutil.copytree(trained / "runs", copy)
    shutil.copy(copy / "subset-1" / "weights.pt", copy / "subset-2" / "weights.pt")
    code, _, err = call(capsys, "predict", copy, trained / "pictures", "-o", tmp_path / "m")
    assert code == 2
    assert "[checkpoint]" in err
    record = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps({**record, "status": "running"}))
    code, _, err = call(capsys, "predict", copy, trained / "pictures", "-o", tmp_path / "m")
    assert code == 2
    assert "a finished run" in err
    (copy / "run.json").write_text("{")
    assert call(capsys, "predict", copy, trained / "pictures", "-o", tmp_path / "m")[0] == 2


def test_broken_pictures_are_counted(trained, capsys, tmp_path):
    import shutil

    copy = tmp_path / "pictures"
    shutil.copytree(trained / "pictures", copy)
    Path(copy / "im05.png").write_bytes((copy / "im05.png").read_bytes()[:200])
    code, out, _ = call(
        capsys, "predict", trained / "runs", copy, "--part", "all", "-o", tmp_path / "m", "--json"
    )
    assert code == 0
    assert json.loads(out)["images"] == 59
    assert json.loads(out)["broken"][0]["rule"] == "picture-broken"
