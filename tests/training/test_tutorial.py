"""The commands of the how-to page, with fewer models: what the page says holds."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from calipers.cli.main import run
from training.needs import NEEDS_TORCH

pytest.importorskip("torch", reason=NEEDS_TORCH)

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "training.md"


def commands() -> list[list[str]]:
    blocks = re.findall(r"^```bash\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    lines = [line for block in blocks for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("calipers ")]


# Two networks are trained in full: a minute and a half of one core.
@pytest.mark.slow
def test_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train, predict, stability = commands()[:3]
    train[train.index("--subsets") + 1] = "2"
    assert run(train) == 0
    record = json.loads(Path("runs/run.json").read_text())
    assert all(model["test"] > 0.98 for model in record["models"])
    assert run(predict) == 0
    files = [str(path) for path in sorted(Path("maps").glob("subset-*.npz"))]
    words = [word for word in stability[1:] if word != "maps/subset-*.npz"]
    assert run(["stability", *files, *words, "--no-kendall", "--replicates", "200"]) == 0
    document = json.loads(Path("stability/stability.json").read_text())
    over_models = document["localization"]["over_models"]
    assert over_models["AUC"]["mean"] > 0.98
    # About 6 % of the patches are right: marks at random would have a DICE of about 0.06.
    assert over_models["DICE"]["mean"] > 0.3


# A network is trained in full: a minute of one core.
@pytest.mark.slow
def test_the_path_of_several_classes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    train, predict, boxes, evaluate = commands()[3:7]
    assert run(train) == 0
    record = json.loads(Path("cxr/run.json").read_text())
    assert record["models"][0]["test"] > 0.9
    assert run(predict) == 0
    assert run(boxes) == 0
    capsys.readouterr()
    assert evaluate[-2:] == ["-o", "rodeo"]
    assert run([*evaluate[:-2], "--no-ci", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    values = {row["metric"]: row["value"] for row in rows if row["class"] is None}
    assert values["RoDeO"] > 0.4


@pytest.mark.slow
def test_the_path_of_anomalies(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    block = re.search(r"^```py\n(from calipers.synthetic.*?)^```$", PAGE.read_text(), re.S | re.M)
    exec(block[1], {})
    train, predict, maps = commands()[7:10]
    assert run(train) == 0
    assert run(predict) == 0
    capsys.readouterr()
    assert maps[-2:] == ["-o", "results"]
    assert run([*maps[:-2], "--no-ci", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    values = {row["metric"]: row["value"] for row in rows}
    assert values["AUROC/sample"] > 0.7


# A detector is trained in full: two minutes of one core.
@pytest.mark.slow
def test_the_path_of_monitors(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    train, predict, monitor = commands()[10:13]
    assert run(train) == 0
    record = json.loads(Path("runs/run.json").read_text())
    assert record["models"][0]["test"] > 0.8
    assert run(predict) == 0
    capsys.readouterr()
    assert monitor[-2:] == ["-o", "monitor"]
    assert run([*monitor[:-2], "--no-ci", "--json"]) == 0
    assert "picture-mahalanobis" in capsys.readouterr().out


def test_the_page_names_what_exists():
    from calipers.training.training_plan import plans

    text = PAGE.read_text(encoding="utf-8")
    for name in re.findall(
        r"`((?:xray|mura|voc|canvases|pictures|chexnet|endocv)[a-z0-9.-]*)`", text
    ):
        assert name in plans()
    verbs = [words[0] for words in commands()]
    assert verbs[:3] == ["train", "predict", "stability"]
    assert verbs[3:7] == ["train", "predict", "boxes", "evaluate"]
    assert verbs[7:] == ["train", "predict", "maps", "train", "predict", "monitor"]


def test_the_plan_of_the_page_is_valid():
    from calipers.training.training_plan import plans, read_plans

    text = re.search(r'^```toml title="mine.toml"\n(.*?)^```$', PAGE.read_text(), re.S | re.M)[1]
    assert read_plans(text, "mine.toml", plans())["mine"].patience == 5
