"""Figures drawn with matplotlib hold the numbers of their specification."""

from __future__ import annotations

import base64
import io
import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from seeds import in_turn

pytest.importorskip("matplotlib")

import matplotlib as mpl
from matplotlib.collections import LineCollection
from matplotlib.contour import QuadContourSet
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Rectangle, StepPatch
from PIL import Image

from calipers.errors import UsageError
from calipers.show import figures
from calipers.show.figures import (
    NAN,
    Axis,
    Bars,
    Blob,
    BoxDots,
    BoxMark,
    Cells,
    Contour,
    Curves,
    Dots,
    Figure,
    Forest,
    ForestRow,
    HeatMap,
    Histogram,
    Line,
    Mark,
    Overlay,
    Scatter,
)
from calipers.show.mpl.axes import BLUES, colour, luminance, text_colour
from calipers.show.mpl.draw import draw
from calipers.show.mpl.kinds import KINDS
from calipers.show.table import Table

X, Y = Axis("false alarms per image"), Axis("sensitivity")
EMPTY = np.zeros(0)
NANS = np.full(3, np.nan)
LOG, P, Q, MANY = (
    Axis("v", log=True),
    Axis("x", names=("p",)),
    Axis("y", names=("q",)),
    Axis("z", names=("name",) * 90),
)
HOLE = np.where(np.eye(3), np.nan, np.arange(9.0).reshape(3, 3))
PLANE = np.tile(np.arange(5.0), (4, 1))
OFF = BoxMark("hit", (20, 1, 30, 4), "off")


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def picture() -> str:
    held = io.BytesIO()
    Image.fromarray(np.arange(48, dtype=np.uint8).reshape(6, 8)).save(held, "png")
    return "data:image/png;base64," + base64.b64encode(held.getvalue()).decode()


def labelled(ax: Any, name: str) -> list[Any]:
    return [artist for artist in ax.get_children() if artist.get_label() == name]


def segments(ax: Any) -> list[list[list[float]]]:
    """Whiskers as lists of their two ends."""
    found = [
        c
        for c in ax.collections
        if isinstance(c, LineCollection) and not isinstance(c, QuadContourSet)
    ]
    return [segment.tolist() for collection in found for segment in collection.get_segments()]


def settings() -> dict[str, Any]:
    """All settings but the backend, which is found out by asking for it."""
    return {key: mpl.rcParams[key] for key in mpl.rcParams if key != "backend"}


def texts(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.texts]


def title(ax: Any) -> str:
    return str(ax.figure.get_suptitle()).replace("\n", " ")


def legend(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


NORMAL: dict[str, Figure] = {
    "curves": Curves(
        "A is above B",
        X,
        Y,
        (
            Line(
                "a",
                np.array([0.0, 1, 2]),
                np.array([0.2, 0.5, 0.6]),
                np.zeros(3),
                np.ones(3),
                marks=(1,),
            ),
            Line("b", np.array([0.0, 2]), np.array([0.1, 0.4]), slot=1, step=True),
        ),
        diagonal=True,
    ),
    "forest": Forest(
        "All are found",
        Axis("AP", 0, 1),
        ("a", "b"),
        (
            ForestRow("nodule", "12", (Mark(0.5, 0.4, 0.6), Mark(0.7))),
            ForestRow(
                "mass", "0", (Mark(NAN, reason="no references"), Mark(NAN, reason="no references"))
            ),
            ForestRow("all", "12", (Mark(0.5, 0.4, 0.6), Mark(0.7, 0.6, 0.9)), strong=True),
        ),
        reference=0.5,
    ),
    "bars": Bars(
        "Most are hits",
        Axis("fate", names=("hit", "missed")),
        Axis("references"),
        ("a", "b"),
        np.array([[3.0, 1.0], [2.0, np.nan]]),
        np.array([[2.0, 0.5], [1.0, np.nan]]),
        np.array([[4.0, 2.0], [3.0, np.nan]]),
    ),
    "heat map": HeatMap(
        "Masses are confused",
        Axis("predicted", names=("a", "b")),
        Axis("reference", names=("a", "b")),
        np.array([[0.9, 0.1], [np.nan, 0.4]]),
        "share",
    ),
    "scatter": Scatter(
        "They differ",
        Axis("place"),
        Axis("class"),
        (
            Dots("a", np.array([0.1, 0.2]), np.array([0.3, 0.4]), names=("p", "q")),
            Dots("b", *np.array([[0.5], [0.6], [0.4], [0.7], [0.55], [0.65]]), slot=1),
        ),
    ),
    "blob": Blob(
        "First is sure",
        ("a", "b"),
        np.array([[0.9, 0.1], [0.1, 0.9]]),
        (1.0, 2.0),
        ((1, 1), (1, 2)),
    ),
    "box and dots": BoxDots(
        "Hits are large", Axis("size (mm)"), ("a", "b"), (np.arange(21.0), np.array([5.0]))
    ),
    "contour": Contour(
        "AP falls",
        Axis("x"),
        Axis("y"),
        np.arange(5.0),
        np.arange(4.0),
        PLANE,
        "AP",
    ),
    "cells": Cells(
        "They differ", np.array([[0, 1, 2], [2, 2, 0]]), 2, "models", np.eye(2, 3) > 0, picture()
    ),
    "overlay": Overlay(
        "One is missed",
        (8.0, 6.0),
        (BoxMark("hit", (1, 1, 3, 4), "nodule", 0.83), BoxMark("missed", (5, 2, 7, 5), "mass")),
        picture(),
    ),
    "histogram": Histogram(
        "Hits score high",
        Axis("score"),
        Axis("n"),
        np.array([0.0, 0.5, 1.0]),
        ("a", "b"),
        np.array([[1.0, 4], [3, 0]]),
        0.5,
    ),
}

EMPTIES: dict[str, Figure] = {
    "curves, none": Curves("t", X, Y, ()),
    "curves, no points": Curves("t", X, Y, (Line("a", EMPTY, EMPTY),)),
    "curves, undefined": Curves("t", X, Y, (Line("a", NANS, NANS, NANS, NANS),)),
    "curves, zeros on a log axis": Curves(
        "t", Axis("x", log=True), Y, (Line("a", np.zeros(3), np.ones(3)),)
    ),
    "forest, none": Forest("t", X, ("a",), ()),
    "bars, none": Bars("t", Axis("x"), Y, (), np.zeros((0, 0))),
    "bars, undefined": Bars("t", Axis("x", names=("p", "q", "r")), Y, ("a",), NANS[None]),
    "heat map, none": HeatMap("t", Axis("x"), Axis("y"), np.zeros((0, 0)), "v"),
    "scatter, none": Scatter("t", X, Y, ()),
    "scatter, undefined": Scatter(
        "t", X, Y, (Dots("a", NANS, NANS, NANS, NANS, NANS, NANS, ("p", "q", "r")),)
    ),
    "blob, none": Blob("t", (), np.zeros((0, 0)), (), ()),
    "box, none": BoxDots("t", Y, (), ()),
    "box, no samples": BoxDots("t", Y, ("a",), (EMPTY,)),
    "contour, undefined": Contour(
        "t", X, Y, np.arange(3.0), np.arange(3.0), np.full((3, 3), np.nan), "v"
    ),
    "contour, none": Contour("t", X, Y, EMPTY, EMPTY, np.zeros((0, 0)), "v"),
    "cells, none": Cells("t", np.zeros((0, 0), np.int64), 2, "models"),
    "overlay, no size": Overlay("t", (0.0, 0.0), ()),
    "histogram, none": Histogram("t", X, Y, EMPTY, (), np.zeros((0, 0))),
    "histogram, undefined": Histogram("t", X, Y, np.arange(4.0), ("a",), NANS[None]),
}

ODD: dict[str, Figure] = {
    "one point": Curves("t", X, Y, (Line("a", np.ones(1), np.ones(1)),)),
    "one point among undefined ones": Curves(
        "t", X, Y, (Line("a", np.arange(3.0), np.array([np.nan, 1, np.nan])),)
    ),
    "log axis with zeros": Curves("t", LOG, LOG, (Line("a", np.arange(4.0), np.arange(4.0)),)),
    "infinite": Curves(
        "t", X, Y, (Line("a", np.array([1, np.inf, 2]), np.array([2, -np.inf, 1.0])),)
    ),
    "huge": Scatter("t", X, Y, (Dots("a", np.array([-1e300, 1e300]), np.array([1e-300, 2e-300])),)),
    "undefined forest": Forest("t", X, ("a",), (ForestRow("r", "0", (Mark(NAN),)),)),
    "log forest": Forest(
        "t", LOG, ("a",), (ForestRow("r", "", (Mark(0.0, 0, 1),)), ForestRow("s", "", (Mark(2.0),)))
    ),
    "log bars": Bars("t", Axis("x", names=("p", "q")), LOG, ("a",), np.array([[0.0, 10.0]])),
    "negative bars": Bars("t", P, Y, ("a",), np.array([[-2.0]]), stacked=True),
    "undefined heat map": HeatMap("t", P, Q, np.full((1, 1), np.nan), "v"),
    "flat heat map": HeatMap("t", P, Q, np.ones((1, 1)), "v", 1.0, 1.0),
    "many columns": HeatMap("t", MANY, MANY, np.ones((90, 90)), "v"),
    "one blob": Blob("t", ("a",), np.ones((1, 1)), (NAN,), ((NAN, NAN),)),
    "log box": BoxDots("t", LOG, ("a", "b"), (np.array([0.0, 1, 10]), np.array([np.nan, -1]))),
    "flat contour": Contour("t", X, Y, np.arange(3.0), np.arange(3.0), np.ones((3, 3)), "v"),
    "contour of one row": Contour("t", X, Y, np.arange(3.0), np.ones(1), np.arange(3.0)[None], "v"),
    "contour with a hole": Contour("t", X, Y, np.arange(3.0), np.arange(3.0), HOLE, "v"),
    "bare overlay": Overlay("t", (8.0, 6.0), (OFF, BoxMark("hit", (NAN, 0, 1, 1), "x"))),
    "broken picture": Overlay("t", (8.0, 6.0), (), "data:image/png;base64,AAAA"),
    "log histogram": Histogram("t", LOG, LOG, np.array([0.0, 1, 10]), ("a",), np.array([[0.0, 5]])),
}


def test_every_kind_of_figure_is_among_the_cases() -> None:
    kinds = {
        kind
        for kind in vars(figures).values()
        if isinstance(kind, type) and issubclass(kind, Figure)
    }
    assert {type(figure) for figure in NORMAL.values()} == kinds - {Figure} == set(KINDS)


@pytest.mark.parametrize(
    ("name", "width"), in_turn([*NORMAL, *EMPTIES, *ODD], [85.0, 170.0], default=1)
)
def test_everything_is_drawn_within_the_canvas(name: str, width: float) -> None:
    from calipers.show.mpl.draw import new_axes

    ax = new_axes((NORMAL | EMPTIES | ODD)[name], width_mm=width)
    ax.figure.canvas.draw()
    box = ax.figure.get_tightbbox()
    wide, high = ax.figure.get_size_inches()
    assert wide == pytest.approx(width / 25.4)
    assert box.x0 > -0.01
    assert box.y0 > -0.01
    assert box.x1 < wide + 0.01
    assert box.y1 < high + 0.01


@pytest.mark.parametrize("name", EMPTIES)
def test_what_is_empty_says_so(name: str) -> None:
    assert any("nothing to show" in text for text in texts(draw(EMPTIES[name])))


@pytest.mark.parametrize("name", NORMAL)
def test_titles_and_labels_are_those_of_the_figure(name: str) -> None:
    figure: Any = NORMAL[name]
    ax = draw(figure)
    assert title(ax) == figure.title
    for side, label in (("x", ax.get_xlabel()), ("y", ax.get_ylabel())):
        if hasattr(figure, side) and not (side == "y" and name == "forest"):
            assert label == getattr(figure, side).label


def test_without_title_the_caption_says_it() -> None:
    figure = Curves("finding", X, Y, NORMAL["curves"].lines, note="n = 3")  # type: ignore[attr-defined]
    assert [text.get_text() for text in draw(figure).figure.texts] == ["finding", "n = 3"]
    assert not draw(figure, title=False).figure.texts
    bare = Canvas().subplots()
    assert draw(figure, bare, title=False).get_title(loc="left") == ""
    assert draw(figure, bare).get_title(loc="left") == "finding"


def test_curves_hold_their_points_bands_and_marks() -> None:
    figure: Any = NORMAL["curves"]
    ax = draw(figure)
    for line, artist in zip(figure.lines, labelled(ax, "_line"), strict=True):
        np.testing.assert_array_equal(artist.get_xdata(), line.x)
        np.testing.assert_array_equal(artist.get_ydata(), line.y)
    first, second = labelled(ax, "_line")
    assert first.get_markevery() == [1]
    assert second.get_drawstyle() == "steps-post"
    band = labelled(ax, "_band")[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (0.0, 1.0)
    assert legend(ax) == ["a", "b"]


def test_a_single_point_gets_a_marker() -> None:
    assert labelled(draw(ODD["one point among undefined ones"]), "_line")[0].get_markevery() == [1]


def test_forest_whiskers_end_where_intervals_do() -> None:
    ax = draw(NORMAL["forest"])
    ends = sorted((start[0], end[0]) for start, end in segments(ax))
    assert ends == [(0.4, 0.6), (0.4, 0.6), (0.6, 0.9)]
    values = [
        v for label in ("_marks", "_strong") for m in labelled(ax, label) for v in m.get_xdata()
    ]
    assert sorted(values) == [0.5, 0.5, 0.7, 0.7]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["nodule", "mass", "all"]
    assert [label.get_weight() for label in ax.get_yticklabels()] == ["normal", "normal", "bold"]
    assert texts(ax).count("no references") == 1
    assert texts(ax).count("12") == 2
    assert labelled(ax, "_reference")[0].get_xdata()[0] == 0.5


def test_a_forest_of_one_series_states_its_numbers() -> None:
    figure = Forest(
        "t",
        Axis("AP"),
        ("a",),
        (ForestRow("r", "7", (Mark(0.5, 0.25, 0.75),)), ForestRow("s", "1", (Mark(-0.5),))),
    )
    assert {"0.500 [0.250, 0.750]", "−0.500", "7"} <= set(texts(draw(figure)))


def test_bars_have_their_heights_and_whiskers() -> None:
    ax = draw(NORMAL["bars"])
    heights = [bar.get_height() for bar in ax.patches]
    np.testing.assert_array_equal(heights, [3, 1, 2, np.nan])
    assert sorted((start[1], end[1]) for start, end in segments(ax)) == [(0.5, 2), (1, 3), (2, 4)]
    assert texts(ax) == ["–"]


def test_stacked_bars_stand_on_each_other() -> None:
    figure = Bars(
        "t",
        Axis("x", names=("p",)),
        Y,
        ("a", "b", "c"),
        np.array([[1.0], [np.nan], [2.0]]),
        stacked=True,
    )
    bars: Any = draw(figure).patches
    assert (bars[0].get_y(), bars[0].get_height()) == (0.0, 1.0)
    assert (bars[2].get_y(), bars[2].get_height()) == (1.0, 2.0)


def test_a_heat_map_holds_its_values_and_hatches_what_is_undefined() -> None:
    ax = draw(NORMAL["heat map"])
    held = ax.collections[0].get_array()
    np.testing.assert_array_equal(np.ma.filled(held, np.nan).ravel(), [0.9, 0.1, np.nan, 0.4])
    assert texts(ax) == ["0.90", "0.10", "–", "0.40"]
    (cell,) = labelled(ax, "_undefined")
    assert (cell.get_x(), cell.get_y(), cell.get_hatch()) == (-0.5, 0.5, "////")
    assert ax.yaxis_inverted()


def test_text_on_colours_can_be_read() -> None:
    for share in np.linspace(0, 1, 101):
        shade = BLUES(share)
        pair = sorted((luminance(shade), luminance(text_colour(shade))))
        assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5


def test_points_hold_their_places_bars_and_names() -> None:
    ax = draw(NORMAL["scatter"])
    places = [artist.get_xydata().tolist() for artist in labelled(ax, "_dots")]
    assert places == [[[0.1, 0.3], [0.2, 0.4]], [[0.5, 0.6]]]
    assert segments(ax) == [[[0.4, 0.6], [0.7, 0.6]], [[0.5, 0.55], [0.5, 0.65]]]
    assert texts(ax) == ["p", "q"]


def test_areas_of_blobs_are_shares() -> None:
    ax = draw(NORMAL["blob"])
    sizes = [artist.get_sizes() for artist in labelled(ax, "_shares")]
    assert sizes[0][0] / sizes[0][1] == pytest.approx(9.0)
    assert sizes[0][0] == pytest.approx(sizes[1][1])
    assert labelled(ax, "_medians")[0].get_xdata().tolist() == [1.0, 2.0]
    assert [segment for segment in segments(ax) if segment[0] != segment[1]] == [[[1, 1], [2, 1]]]


def test_boxes_are_quartiles_and_dots_are_samples() -> None:
    ax = draw(NORMAL["box and dots"])
    assert labelled(ax, "_box")[0].get_bbox().extents.tolist() == [-0.25, 5.0, 0.25, 15.0]
    ends = [[[x, y] for x, y in segment] for segment in labelled(ax, "_whiskers")[0].get_segments()]
    assert ends == [[[0, 1], [0, 5]], [[0, 15], [0, 19]]]
    assert labelled(ax, "_median")[0].get_segments()[0][0].tolist() == [-0.25, 10.0]
    assert sorted(labelled(ax, "_samples")[0].get_ydata()) == list(range(21))


def test_many_samples_are_a_box_alone() -> None:
    assert not labelled(draw(BoxDots("t", Y, ("a",), (np.arange(500.0),))), "_samples")


def test_lines_of_equal_height_of_a_plane_are_straight() -> None:
    figure: Any = NORMAL["contour"]
    ax = draw(
        Contour(
            figure.title,
            figure.x,
            figure.y,
            figure.xs,
            figure.ys,
            figure.values,
            "AP",
            (1.5, 3.0, 9.0),
        )
    )
    lines = next(c for c in ax.collections if isinstance(c, QuadContourSet) and not c.filled)
    assert lines.levels.tolist() == [1.5, 3.0]
    for level, path in zip(lines.levels, lines.get_paths()):
        points = path.vertices
        np.testing.assert_allclose(points[:, 0], level)


def test_overlays_have_boxes_with_halos_on_the_picture() -> None:
    ax = draw(NORMAL["overlay"])
    boxes = {patch.get_label(): patch for patch in ax.patches if isinstance(patch, Rectangle)}
    assert boxes["_hit"].get_bbox().extents.tolist() == [1, 1, 3, 4]
    assert boxes["_missed"].get_bbox().extents.tolist() == [5, 2, 7, 5]
    assert len(labelled(ax, "_halo")) == 2
    assert ax.images[0].get_array().shape[:2] == (6, 8)
    assert (ax.get_xlim(), ax.get_ylim()) == ((0, 8), (6, 0))
    assert legend(ax) == [figures.MARKS["hit"].words, figures.MARKS["missed"].words]
    assert texts(ax) == ["0.83"]


def test_a_box_off_the_picture_leaves_a_sign_at_its_edge() -> None:
    (sign,) = labelled(draw(ODD["bare overlay"]), "_outside")
    assert (sign.get_xdata()[0], sign.get_ydata()[0]) == (8.0, 2.5)


def test_histograms_hold_counts_and_edges() -> None:
    ax = draw(NORMAL["histogram"])
    outlines = [p for p in ax.patches if isinstance(p, StepPatch) and p.get_label() == "_series"]
    assert [outline.get_data().values.tolist() for outline in outlines] == [[1, 4], [3, 0]]
    assert outlines[0].get_data().edges.tolist() == [0.0, 0.5, 1.0]
    assert labelled(ax, "_cut")[0].get_xdata()[0] == 0.5


def test_series_differ_in_colour_dash_and_marker() -> None:
    lines = tuple(
        Line(str(k), np.arange(2.0), np.arange(2.0) + k, slot=k, marks=(0,)) for k in range(7)
    )
    drawn = labelled(draw(Curves("t", X, Y, lines)), "_line")
    assert (
        [artist.get_color() for artist in drawn]
        == [colour(k) for k in range(7)]
        == list(figures.LIGHT)
    )
    assert len({str(artist._unscaled_dash_pattern) for artist in drawn}) == 7
    assert len({artist.get_marker() for artist in drawn}) == 7
    filled = Bars("t", Axis("x", names=("p",)), Y, tuple("abcdefg"), np.ones((7, 1)))
    assert len({bar.get_hatch() for bar in draw(filled).patches}) == 7


def test_limits_ticks_and_names_are_those_of_the_axis() -> None:
    axis = Axis("x", 0.1, 10, log=True, ticks=(0.125, 1, 8), names=("1/8", "1", "8"))
    ax = draw(
        Curves("t", axis, Axis("y", 0, 1), (Line("a", np.array([1.0, 2]), np.array([0.2, 0.3])),))
    )
    assert ax.get_xlim() == (0.1, 10)
    assert ax.get_ylim() == (0, 1)
    assert ax.get_xscale() == "log"
    assert ax.get_xticks().tolist() == [0.125, 1, 8]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1/8", "1", "8"]


@pytest.mark.parametrize("span", [(1e-5, 1e5), (0.5, 30), (2.0, 3.0)])
def test_log_axes_have_readable_ticks(span: tuple[float, float]) -> None:
    ax = draw(Curves("t", Axis("x", log=True), Y, (Line("a", np.array(span), np.ones(2)),)))
    ax.figure.canvas.draw()
    shown = [label.get_text() for label in ax.get_xticklabels() if label.get_text()]
    assert len(shown) >= 2
    assert not any("$" in text for text in shown)


class Doodle(Figure):
    """A figure of a kind that nobody can draw."""

    def table(self) -> Table:
        return Table((), ())


def test_what_is_no_figure_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot draw Doodle; known: Curves"):
        draw(Doodle("t"))


def test_given_axes_are_used_and_their_neighbours_left_alone() -> None:
    canvas = Canvas(layout="constrained")
    left, right = canvas.subplots(1, 2)
    before = settings()
    for name, figure in NORMAL.items():
        left.clear()
        assert draw(figure, left) is left, name
        canvas.canvas.draw()
    assert settings() == before
    assert not right.lines
    assert math.isfinite(left.get_position().width)
