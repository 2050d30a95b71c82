"""Drawings of all kinds: well-formed, safe in a strict page,
readable for those who do not see them, small.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from calipers.errors import UsageError
from calipers.show import figures as f
from calipers.show.figures import DAY, MARKS, NIGHT
from calipers.show.svg.draw import DRAW_FUNCTIONS, stylesheet, svg
from figure_cases import NAN, X, Y, empty, having, little, normal, texts, tree
from seeds import looped

EVERY = {**normal(), **empty(), **little()}
WIDTHS = (340, 640, 1000)
HOSTILE = (
    "<script>alert(1)</script>",
    "\"' onload='alert(1)' x=\"",
    "]]><!--",
    "&amp;&#60;",
    "\x00\x1b[31m\x7f\x85",
    "\ud800 alone",
    "a\u202egnp.exe",
    "\u2067turned\u2066",
    "\ufffe\uffff",
    "line\nbreak\ttab\u2028",
    "=cmd()",
    "url(https://example.org)",
    "שלום עולם",
    "e\u0301" * 40,
    "𝔘" * 300,
    "肺结节肺结节",
    "",
    " ",
    "x" * 100_000,
)


def test_every_kind_is_drawn() -> None:
    kinds = {
        kind for kind in vars(f).values() if isinstance(kind, type) and issubclass(kind, f.Figure)
    } - {f.Figure}
    assert set(DRAW_FUNCTIONS) == kinds == {type(figure) for figure in normal().values()}


@looped("width", WIDTHS)
@pytest.mark.parametrize("name", EVERY)
def test_a_drawing_is_well_formed_and_strict(name: str, width: int) -> None:
    drawn = svg(EVERY[name], width=width)
    root = ET.fromstring(drawn)
    assert root.get("role") == "img"
    for element in root.iter():
        assert element.tag in ALLOWED
        assert "style" not in element.attrib
        assert not [key for key in element.attrib if key.startswith("on")]
        for key in ("href", "fill", "clip-path"):
            assert re.fullmatch(
                r"#[\w-]+|url\(#[\w-]+\)|data:image/png;base64,\S*", element.get(key, "#a")
            )
    assert "NaN" not in drawn.replace("of NaN", "")
    assert not re.search(r'="[^"]*\b(nan|inf)\b', drawn)


ALLOWED = set("svg title desc defs g path rect circle text clipPath pattern image use".split())  # noqa: SIM905


@pytest.mark.parametrize("name", EVERY)
def test_ids_are_unique_and_start_with_the_name(name: str) -> None:
    drawn = svg(EVERY[name], name="fig-7")
    ids = re.findall(r'\bid="([^"]+)"', drawn)
    assert len(ids) == len(set(ids))
    assert all(each.startswith("fig-7-") for each in ids)
    assert set(re.findall(r"url\(#([^)]+)\)", drawn)) <= set(ids)


@pytest.mark.parametrize("name", EVERY)
def test_title_and_description_are_there(name: str) -> None:
    root = tree(EVERY[name], name="a")
    assert root.get("aria-labelledby") == "a-title a-desc"
    title, desc = root[0], root[1]
    assert (title.tag, title.get("id"), title.text) == ("title", "a-title", "t")
    assert (desc.tag, desc.get("id")) == ("desc", "a-desc")
    assert len(desc.text or "") > 15
    assert "t" not in texts(root)  # the page shows the title


@pytest.mark.parametrize(
    "name", [n for n in normal() if n not in ("heatmap", "contour", "overlay", "cells")]
)
def test_the_description_names_the_series(name: str) -> None:
    desc = tree(normal()[name])[1].text or ""
    assert "model A" in desc
    assert "model B" in desc


def test_the_description_says_axes_points_and_note() -> None:
    line = f.Line("a", np.arange(4.0), np.array([0, 0.5, NAN, 1]))
    desc = tree(f.Curves("t", X, Y, (line,), note="95 % intervals of 30 cases."))[1].text
    assert desc == (
        "Curves of sensitivity against false alarms per image, 1 series: a (3 points). 95 % "
        "intervals of 30 cases."
    )


@pytest.mark.parametrize("name", empty())
def test_a_figure_without_data_says_so(name: str) -> None:
    written = texts(tree(empty()[name]))
    assert written[0] == "nothing to show"
    assert len(written) == 2


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("curves of zeros on a log axis", "no number above zero for the logarithmic axis x"),
        ("forest undefined", "no references"),
        ("curves of NaN", "no value is defined"),
    ],
)
def test_the_reason_is_given_if_it_is_known(name: str, why: str) -> None:
    assert texts(tree(empty()[name]))[1] == why


@pytest.mark.parametrize("name", little())
def test_little_data_is_still_drawn(name: str) -> None:
    assert "nothing to show" not in texts(tree(little()[name]))


@looped("hostile", HOSTILE)
@pytest.mark.parametrize("name", normal())
def test_hostile_names_are_text(name: str, hostile: str) -> None:
    figure = normal(hostile, "other" + hostile)[name]
    drawn = svg(figure, width=360)
    root = ET.fromstring(drawn)
    assert {element.tag for element in root.iter()} <= ALLOWED
    assert not set(drawn) & set(
        "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\x00\x1b\x85\ud800\ufffe"
    )
    drawn.encode("utf-8")
    assert len(drawn) < 60_000


def test_a_hostile_title_and_labels_are_text() -> None:
    axis = f.Axis(HOSTILE[0], 0, 1)
    root = tree(
        f.Curves(
            HOSTILE[0], axis, axis, (f.Line("a", np.arange(2.0), np.arange(2.0)),), note=HOSTILE[0]
        )
    )
    assert root[0].text == HOSTILE[0]
    assert HOSTILE[0] in (root[1].text or "")
    assert HOSTILE[0] in texts(root)


def test_long_names_are_shortened_and_whole_in_a_title() -> None:
    name = "a model with an uncommonly long name, fold 3"
    root = tree(f.Curves("t", X, Y, (f.Line(name, np.arange(3.0), np.zeros(3)),)))
    [text] = [e for e in root.iter("text") if "…" in "".join(e.itertext())]
    assert text[0].text == name
    shown = text[0].tail or ""
    assert len(shown) <= 28
    assert shown.endswith("fold 3")  # names often differ at their ends


@pytest.mark.parametrize("name", normal())
def test_standalone_is_a_file_of_its_own(name: str) -> None:
    drawn = svg(normal()[name], standalone=True)
    root = ET.fromstring(drawn)
    space = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{space}svg"
    [style] = root.iter(f"{space}style")
    assert "--ink" in (style.text or "")
    assert ":root" not in (style.text or "")  # it must not change the notebook around it
    assert not [e for e in root.iter() if e.get("style")]
    assert root.get("width") == root.get("viewBox", "").split()[2]


def test_colours_come_from_the_theme() -> None:
    sheet = stylesheet()
    day, night = sheet.split("@media screen and (prefers-color-scheme:dark)")[:2]
    for text, paper in ((day, DAY), (night, NIGHT)):
        for key, colour in (
            ("ink", paper.ink),
            ("soft", paper.soft),
            ("line", paper.line),
            ("paper", paper.page),
        ):
            assert f"--{key}:{colour.lower()}" in text
        for k, colour in enumerate(paper.series):
            assert f"--s{k}:{colour.lower()}" in text
    for fate, look in MARKS.items():
        rule = re.search(rf"\.fig-{fate.replace(' ', '-')}{{([^}}]*)}}", sheet)
        assert rule is not None
        assert f"stroke:{look.colour.lower()};stroke-width:{look.width:g}" in rule[1]
        assert ("dasharray" in rule[1]) == bool(look.dash)


def test_every_class_has_a_rule() -> None:
    """A class without a rule is a typing error, or was forgotten;
    hooks for pages are named here.
    """
    hooks = re.compile(r"fig-(kind|layer)(-|$)|fig-picture$|fig-d0$")
    used = {c for figure in EVERY.values() for c in re.findall(r'class="([^"]+)"', svg(figure))}
    names = {name for each in used for name in each.split() if not hooks.match(name)}
    assert not {name for name in names if not re.search(rf"\.{name}\b(?!-)", stylesheet())}


def test_no_kind_shares_a_class_with_its_parts() -> None:
    for figure in normal().values():
        root = tree(figure)
        assert all(
            set(root.get("class", "").split()).isdisjoint(e.get("class", "").split())
            for e in list(root.iter())[1:]
        )


def test_a_series_is_told_by_colour_dash_and_marker() -> None:
    lines = tuple(f.Line(f"m{k}", np.arange(11.0), np.full(11, k / 20), slot=k) for k in range(14))
    root = tree(f.Curves("t", X, Y, lines))
    looks = [e.get("class") for e in having(root, "fig-line")]
    assert len(set(looks)) == 14  # colour and dash; the colours repeat after seven
    shapes = {
        re.sub(r"M\S+ [\d.]+", "", e.get("d", "circle"))
        for e in [*having(root, "fig-m"), *having(root, "fig-x")]
    }
    assert len(shapes) == 7


def test_curves_are_small() -> None:
    random = np.random.default_rng(1)
    lines = []
    for slot in range(3):
        x = np.sort(random.uniform(0, 10, 100))
        y = np.sort(random.uniform(0, 1, 100))
        lines.append(
            f.Line(
                f"model {slot}",
                x,
                y,
                y - random.uniform(0, 0.1, 100),
                y + random.uniform(0, 0.1, 100),
                slot=slot,
            )
        )
    assert len(svg(f.Curves("t", X, Y, tuple(lines)))) < 12_000


def test_a_curve_of_many_points_is_not_larger_than_the_eye_needs() -> None:
    x = np.linspace(0, 10, 50_000)
    noise = np.random.default_rng(1).uniform(0, 0.02, len(x))
    assert len(svg(f.Curves("t", X, Y, (f.Line("a", x, np.sqrt(x / 11) + noise),)))) < 40_000


def test_a_forest_of_eighty_rows_and_four_series_is_small() -> None:
    marks = tuple(f.Mark(0.512345 + 0.01 * k, 0.4123, 0.6123) for k in range(4))
    rows = tuple(f.ForestRow(f"class number {k}", "1234", marks) for k in range(80))
    assert len(svg(f.Forest("t", Y, ("one", "two", "three", "four"), rows))) < 60_000


def test_a_map_of_eighty_classes_is_small() -> None:
    names = tuple(f"class {k}" for k in range(80))
    values = np.random.default_rng(0).uniform(0, 1, (80, 80))
    drawn = svg(f.HeatMap("t", f.Axis("x", names=names), f.Axis("y", names=names), values, "share"))
    assert len(drawn) < 200_000


@pytest.mark.parametrize("name", ["a b", "", "ä", '"x', "a_b"])
def test_a_name_that_cannot_be_an_id_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="letters, digits and dashes"):
        svg(normal()["curves"], name=name)


class Doodle(f.Figure):
    """A figure of a kind that nobody can draw."""

    def table(self) -> f.Table:
        return f.Table((), ())


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(UsageError, match="expected one of Curves, Forest"):
        svg(Doodle("t"))


def test_quiet_names_are_told_but_not_written() -> None:
    dots = f.Dots("a", np.arange(3.0), np.arange(3.0), names=("one", "two", "three"), quiet=True)
    drawn = svg(f.Scatter("t", f.Axis("x"), f.Axis("y"), (dots,)))
    assert not any(">one</text>" in part for part in drawn.split("<text"))
    assert "<title>a, one: 0, 0</title>" in drawn


def test_points_of_one_place_are_drawn_once() -> None:
    places = np.tile(np.linspace(0.0, 1.0, 500), 100)
    drawn = svg(f.Scatter("t", f.Axis("x"), f.Axis("y"), (f.Dots("a", places, places),)))
    assert drawn.count("h0") == 500
