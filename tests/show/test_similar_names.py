# SPDX-License-Identifier: Apache-2.0
"""Models with long similar names stay apart in tables, legends, titles and sentences."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from rich.console import Console

import calipers as cal
from calipers.report.context import context_of
from calipers.report.page import page
from calipers.show.figures import Axis, Curves, Line
from calipers.show.similar_names import ROOM, tell_apart
from calipers.show.svg.draw import svg
from calipers.show.table import Table
from calipers.show.terminal import print_tables
from calipers.show.words import Short, label_name, names_apart, short_name

PATTERN = "retinanet_{}_fpn_3x_chestxray8_fold{}_epoch12_lr{}_ema_val"
MODELS = [
    PATTERN.format("r50", 0, "0.01"),
    PATTERN.format("r50", 1, "0.01"),
    PATTERN.format("r50", 0, "0.001"),
    PATTERN.format("r101", 0, "0.01"),
]


def test_the_words_that_differ_stay():
    short = tell_apart(MODELS, label_name)
    assert list(short.values()) == [
        "retinanet_r50…fold0…lr0.01…",
        "retinanet_r50…fold1…lr0.01…",
        "retinanet_r50…fold0…lr0.001…",
    ]


def test_names_that_are_short_or_differ_already_are_left_to_others():
    assert tell_apart(["a", "b", MODELS[0], MODELS[3]], label_name) == {}
    assert tell_apart([MODELS[0], MODELS[0]], label_name) == {}


@pytest.mark.parametrize(
    "names",
    [
        ["a" * 30 + k + "b" * 30 for k in ("1", "2", "22")],  # one word
        ["a" * 300 + k + "b" * 30 for k in ("1", "2")],
        ["x_a_b_" + "c" * 40 + "_" + "z" * 20, "x_b_a_" + "c" * 40 + "_" + "z" * 20],  # an order
        ["m" * 20 + k + "n" * 20 for k in ("_", "-", "--", " ")],  # signs between words
        ["m" * 20 + k * 50 + "n" * 20 for k in "uvw"],  # differences that do not fit
    ],
)
@pytest.mark.parametrize(("shorten", "room"), [(label_name, ROOM), (short_name, 40)])
def test_names_that_would_be_equal_differ_and_fit(names, shorten, room):
    short = tell_apart(names, shorten, room)
    shown = [short.get(name) or shorten(name) for name in names]
    assert len(set(shown)) == len(names)
    assert max(map(len, shown)) <= room
    again = [shorten(name) for name in shown]
    assert len(set(again)) == len(names), "shortened a second time they are equal"


def test_models_keep_short_names_in_a_page():
    names = Short(["image", *MODELS], series=MODELS)
    assert len({label_name(names.name(model)) for model in MODELS}) == len(MODELS)
    assert names.name("image") == "image"


def test_a_table_of_the_terminal_tells_models_apart():
    by_row = Table(("model", "AP"), tuple((model, 0.5) for model in MODELS))
    by_column = Table(("metric", *MODELS), (("AP", 0.1, 0.2, 0.3, 0.4),), series="model")
    for table in (by_row, by_column):
        console = Console(width=200, record=True, file=io.StringIO())
        print_tables([table], console)
        for part in ("fold0…", "fold1…", "r101"):
            assert part in console.export_text(clear=False)


def test_legends_tell_models_apart():
    ends = np.array([0.0, 1.0])
    lines = tuple(Line(model, ends, ends, slot=k) for k, model in enumerate(MODELS))
    drawn = svg(Curves("title", Axis("x"), Axis("y"), lines), width=600.0)
    assert "fold1" in drawn
    assert "lr0.001" in drawn


def test_labels_of_matplotlib_tell_models_apart():
    axes = pytest.importorskip("calipers.show.mpl.axes")
    labels = axes.labels_of(MODELS)
    assert len(set(labels)) == len(MODELS)


def test_every_sentence_of_a_page_says_which_model_it_means():
    box = {"boxes": [[0, 0, 10, 10]], "labels": [0]}
    empty = {"boxes": [], "labels": [], "scores": []}
    models = {}
    for k, model in enumerate(MODELS[:2]):
        models[model] = [{**box, "scores": [0.5]}] * (8 - 6 * k) + [empty] * 6 * k
    cohort = cal.Cohort.from_arrays([box] * 8, models, classes=("nodule",))
    protocol = replace(cal.Protocol.load("overview"), replicates=100)
    html = page(context_of(cal.evaluate(cohort, protocol), pictures=False))
    texts = unescape(re.sub(r"<[^>]+>", " ", html.split("<main")[-1]))
    mentions = re.findall(r"retinanet\w*…[\w.…]*", texts)
    assert len(mentions) > 10
    for mention in mentions:
        assert "fold0" in mention or "fold1" in mention, mention


MIDDLE = [f"retinanet_resnet50_fpn_3x_chest_fold{k}_augmented_epoch_twelve_ema" for k in range(3)]


@pytest.mark.parametrize("name", ["headline", "froc", "pr", "rodeo", "fates", "overlaps"])
def test_titles_tell_names_apart_that_differ_in_their_middle(name):
    cohort = cal.demo_cohort()
    models = dict(zip(MIDDLE, cohort.models.values()))
    evaluation = cal.evaluate(replace(cohort, models=models), "overview", ci=False)
    shown = set(re.findall(r"retinanet\S*ema", evaluation.figure(name).title))
    assert {re.search(r"fold\d", text)[0] for text in shown} == {"fold0", "fold1", "fold2"}


def test_outside_of_a_result_a_name_is_shortened_by_itself():
    with names_apart(MIDDLE):
        assert len(set(map(short_name, MIDDLE))) == len(set(map(label_name, MIDDLE))) == 3
        assert max(map(len, map(label_name, MIDDLE))) <= ROOM
        with names_apart(["other"]):
            assert len(set(map(short_name, MIDDLE))) == 3
    assert len(set(map(short_name, MIDDLE))) == 1
