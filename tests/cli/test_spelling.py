"""``center`` is ``centre`` wherever a user types it: choices, names of columns, criteria, metrics
and keywords of the library.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click
import numpy as np
import pytest

import calipers as cal
from calipers.cli.main import cli
from calipers.stability.grid import detections_as_bags, instance_labels

BOTH = ("centre", "center")


def literal_hints(function: Any) -> Iterator[tuple[str, str]]:
    """Yield keywords whose annotation is a list of words, and these words."""
    names = vars(inspect.getmodule(function))
    for keyword, hint in inspect.get_annotations(function).items():
        words = get_args(names.get(str(hint)))
        yield keyword, " ".join(map(str, words))


def options() -> Iterator[tuple[str, click.Option]]:
    context = click.Context(cli)
    for verb in cli.list_commands(context):
        command = cli.get_command(context, verb)
        assert command is not None
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                yield verb, parameter


def test_every_choice_takes_both_spellings() -> None:
    n_choices = 0
    for verb, option in options():
        if isinstance(option.type, click.Choice):
            for word in option.type.choices:
                if "centre" in word:
                    n_choices += 1
                    other = word.replace("centre", "center")
                    assert option.type.convert(other, option, None) == word, (verb, option.name)
    assert n_choices


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spelling")
    draw = np.random.default_rng(4)
    references = ["image,class,x,y,w,h,centre,patient,fps,split,width,height"]
    predictions = ["image,class,x,y,w,h,score"]
    ratings = ["image,rating,centre,rater"]
    labels = ["image,truth,centre,ood"]
    alarms = ["image,alarm"]
    for k in range(24):
        x, y = draw.integers(0, 60, 2)
        row = f"i{k},polyp,{x},{y},30,30,{'NS'[k // 2 % 2]},p{k // 2},25,{'ab'[k % 2]},100,100"
        references.append(row)
        x, y = x + draw.integers(0, 16), y + draw.integers(0, 9)
        predictions.append(f"i{k},polyp,{x},{y},30,30,{draw.random():.3f}")
        ratings.append(f"i{k},{draw.integers(0, 2)},{draw.random():.3f},r{k % 3}")
        labels.append(f"i{k},{k % 3 > 0},{'NS'[k % 2]},{k % 4 == 0:d}")
        alarms.append(f"i{k},{draw.random():.3f}")
    tables = {"refs": references, "model": predictions, "ratings": ratings}
    for name, lines in {**tables, "labels": labels, "alarms": alarms}.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    other = "\n".join(predictions).replace(",0.", ",0.1")
    (folder / "other.csv").write_text(other + "\n")
    (folder / "mixed.csv").write_text(
        "iou,age,centre,patient\n"
        + "\n".join(f"{draw.random():.3f},{k},C{k % 6},p{k // 2}" for k in range(48))
        + "\n"
    )
    return folder


FILES = ("refs.csv", "model.csv")
EVALUATE = ("evaluate", *FILES, "--metrics", "F1@0.5", "--replicates", "100")
COMPARE = ("compare", "refs.csv", "model.csv", "other.csv", "--metrics", "F1@0.5")
STABLE = ("stability", "model.csv", "other.csv", "--references", "refs.csv")
FUSE = ("fuse", *FILES, "other.csv", "-o", "fused.json", "--force")
CALLS = [
    (*EVALUATE, "--by", "centre"),
    (*EVALUATE, "--by", "centre,size"),
    (*EVALUATE, "--by", "centre", "--summary", "centre"),
    (*EVALUATE, "--cluster", "centre"),
    (*EVALUATE, "--cluster", "centre,patient"),
    (*EVALUATE, "--strata", "centre"),
    (*EVALUATE, "--where", "centre=N"),
    (*EVALUATE, "--columns", "centre=split", "--by", "centre"),
    ("evaluate", "refs.csv", "model.csv", "--no-ci", "--metrics", "F1@centre-distance:20"),
    (
        "evaluate",
        "refs.csv",
        "model.csv",
        "--no-ci",
        "--metrics",
        "F1@centre-distance-relative:0.5",
    ),
    (*COMPARE, "--replicates", "100", "--cluster", "centre"),
    (*COMPARE, "--replicates", "100", "--strata", "centre"),
    ("multiverse", "refs.csv", "model.csv", "other.csv", "--criterion", "centre-distance-relative"),
    ("sweep", "refs.csv", "model.csv", "--over", "criterion=box-iou,centre-distance"),
    (*STABLE, "--rule", "centre", "--grid", "10,10"),
    ("monitor", "refs.csv", "model.csv", "--alarm", "alarms.csv", "--cluster", "centre"),
    ("monitor", "refs.csv", "model.csv", "--alarm", "alarms.csv", "--ood", "centre=N"),
    ("monitor", "refs.csv", "model.csv", "--alarm", "alarms.csv", "--tuning", "centre=N"),
    ("agreement", "ratings.csv", "--criteria", "centre"),
    ("agreement", "ratings.csv", "--criteria", "centre", "--distances", "centre"),
    ("agreement", "ratings.csv", "--criteria", "centre", "--thresholds", "centre=0.2"),
    ("mixed", "mixed.csv", "--formula", "iou ~ age", "--groups", "centre"),
    ("mixed", "mixed.csv", "--formula", "iou ~ C(centre)", "--groups", "patient"),
    (
        "fuse",
        "refs.csv",
        "model.csv",
        "other.csv",
        "--tuning",
        "centre=N",
        "--evaluate",
        "-o",
        "fused.json",
        "--force",
    ),
]


@pytest.mark.parametrize("words", CALLS, ids=lambda words: " ".join(words[:1] + words[-2:]))
def test_both_spellings_say_the_same(
    words: tuple[str, ...], files: Path, monkeypatch: pytest.MonkeyPatch, calipers: Any
) -> None:
    monkeypatch.chdir(files)
    british = calipers(*words, "--json")
    assert british.code == 0, british.err
    american = calipers(*(word.replace("centre", "center") for word in words), "--json")
    assert american.code == 0, american.err
    ours, theirs = (json.loads(said.out) for said in (british, american))
    for document in (ours, theirs):
        document.pop("provenance", None)
        document.pop("run", None)
    assert json.dumps(theirs).replace("center", "centre") == json.dumps(ours)


def test_keywords_take_both_spellings() -> None:
    """Every public function whose annotation lists words with ``centre``."""
    named = set[tuple[str, str]]()
    functions = {name: getattr(cal, name) for name in cal.__all__}
    functions |= {one.__name__: one for one in (detections_as_bags, instance_labels)}
    for name, function in functions.items():
        if not inspect.isfunction(function):
            continue
        for keyword, hint in literal_hints(function):
            if "centre" in hint:
                named.add((name, keyword))
    assert named == {("instance_labels", "rule"), ("detections_as_bags", "covers")}
    boxes = [[10, 10, 30, 20]]
    masks = [instance_labels(boxes, (40, 40), (4, 4), rule=rule) for rule in BOTH]
    assert np.array_equal(*masks)
    arrays = [{"boxes": [[1, 1, 9, 9]], "labels": [0], "width": 10, "height": 10}]
    models = {m: [{"boxes": [[1, 1, 8, 9]], "labels": [0], "scores": [0.5]}] for m in "ab"}
    cohort = cal.Cohort.from_arrays(arrays, models, classes=("polyp",))
    bags = [detections_as_bags(cohort, (5, 5), covers=covers) for covers in BOTH]  # type: ignore[arg-type]
    assert bags[0].covers == bags[1].covers == "centre"
