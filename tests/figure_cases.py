"""Figures of every kind made on the spot, and ways to look into their drawings."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import numpy as np

from calipers.show import figures as f
from calipers.show.svg.draw import svg

NAN = math.nan
X, Y = f.Axis("false alarms per image", 0.0, 10.0), f.Axis("sensitivity", 0.0, 1.0)
NOTHING = np.empty(0)
PIXEL = "data:image/png;base64,iVBORw0KGgo="


def normal(name: str = "model A", other: str = "model B") -> dict[str, f.Figure]:
    """One figure of every kind; the names stand wherever names can stand."""
    line = np.linspace(0, 10, 11)
    two = np.array([[0.25, 0.5, NAN], [0.75, 1.0, 0.5]])
    sample = np.linspace(0, 1, 21)
    names = f.Axis("class", names=(name, other, "third"))
    marks = (f.Mark(0.5, 0.4, 0.6), f.Mark(NAN, reason="no references"))
    grid = np.add.outer(np.arange(4.0), np.arange(5.0))
    boxes = tuple(
        f.BoxMark(fate, (10.0, 10.0, 40.0, 30.0), name, 0.83)
        for fate in ("hit", "false alarm", "missed")
    )
    return {
        "curves": f.Curves(
            "t",
            X,
            Y,
            (
                f.Line(name, line, line / 10, line / 11, line / 9),
                f.Line(other, line, line / 20, slot=1),
            ),
        ),
        "forest": f.Forest(
            "t",
            Y,
            (name, other),
            (f.ForestRow(name, "12", marks), f.ForestRow(other, "3", marks, True)),
        ),
        "bars": f.Bars("t", names, Y, (name, other), two, two - 0.1, two + 0.1),
        "stack": f.Bars("t", names, f.Axis("errors"), (name, other), two, stacked=True),
        "heatmap": f.HeatMap("t", names, f.Axis("class", names=(name, other)), two, "share"),
        "scatter": f.Scatter(
            "t",
            X,
            Y,
            (
                f.Dots(name, line, line / 10, names=(name,) * 11),
                f.Dots(other, line, line / 20, slot=1),
            ),
        ),
        "blob": f.Blob(
            "t", (name, other), np.array([[0.9, 0.1], [0.1, 0.9]]), (1, 2), ((1, 2), (1, 2))
        ),
        "boxes": f.BoxDots("t", Y, (name, other), (sample, sample**2)),
        "contour": f.Contour(
            "t", f.Axis("a"), f.Axis("b"), np.arange(5.0), np.arange(4.0), grid, "height"
        ),
        "histogram": f.Histogram(
            "t",
            Y,
            f.Axis("n"),
            np.linspace(0, 1, 4),
            (name, other),
            np.array([[1.0, 2, 3], [3, 2, 1]]),
            0.5,
        ),
        "overlay": f.Overlay("t", (100.0, 80.0), boxes, picture=PIXEL),
        "cells": f.Cells("t", np.array([[0, 1, 2], [2, 2, 0]]), 2, name, np.eye(2, 3) > 0, PIXEL),
    }


def empty() -> dict[str, f.Figure]:
    """Figures without anything to show."""
    nan3 = np.full(3, NAN)
    log = f.Axis("x", log=True)
    undefined = (f.ForestRow("a", "0", (f.Mark(NAN, reason="no references"),)),)
    names = f.Axis("class", names=("a", "b", "c"))
    return {
        "curves without lines": f.Curves("t", X, Y, ()),
        "curves of NaN": f.Curves("t", X, Y, (f.Line("a", nan3, nan3, nan3, nan3),)),
        "curves without points": f.Curves("t", X, Y, (f.Line("a", NOTHING, NOTHING),)),
        "curves of zeros on a log axis": f.Curves(
            "t", log, Y, (f.Line("a", np.zeros(3), np.ones(3)),)
        ),
        "forest without rows": f.Forest("t", Y, ("a",), ()),
        "forest undefined": f.Forest("t", Y, ("a",), undefined),
        "bars without categories": f.Bars("t", f.Axis("class"), Y, ("a",), np.empty((1, 0))),
        "bars without series": f.Bars("t", names, Y, (), np.empty((0, 3))),
        "bars of NaN": f.Bars("t", names, Y, ("a",), np.full((1, 3), NAN)),
        "map without rows": f.HeatMap("t", names, f.Axis("y"), np.empty((0, 3)), "share"),
        "scatter without series": f.Scatter("t", X, Y, ()),
        "scatter of NaN": f.Scatter("t", X, Y, (f.Dots("a", nan3, nan3),)),
        "blob without models": f.Blob("t", (), np.empty((0, 0)), (), ()),
        "blob of NaN": f.Blob("t", ("a",), np.full((1, 1), NAN), (NAN,), ((NAN, NAN),)),
        "boxes without samples": f.BoxDots("t", Y, (), ()),
        "boxes of nothing": f.BoxDots("t", Y, ("a",), (NOTHING,)),
        "contour of one column": f.Contour(
            "t", X, Y, np.ones(1), np.arange(3.0), np.ones((3, 1)), "h"
        ),
        "contour of NaN": f.Contour(
            "t", X, Y, np.arange(2.0), np.arange(2.0), np.full((2, 2), NAN), "h"
        ),
        "histogram without bins": f.Histogram("t", X, Y, NOTHING, ("a",), np.empty((1, 0))),
        "histogram without series": f.Histogram("t", X, Y, np.arange(3.0), (), np.empty((0, 2))),
        "cells without any": f.Cells("t", np.zeros((0, 3), np.int64), 2, "models"),
        "overlay without a size": f.Overlay("t", (NAN, 0.0), ()),
    }


def little() -> dict[str, f.Figure]:
    """Figures with little or strange data that still show something."""
    return {**little_along_axes(), **little_elsewhere()}


def little_along_axes() -> dict[str, f.Figure]:
    """Curves and forests."""
    zero, one = np.zeros(3), np.array([1.0])
    return {
        "one point": f.Curves("t", f.Axis("x"), f.Axis("y"), (f.Line("a", one, one),)),
        "constant": f.Curves(
            "t", f.Axis("x"), f.Axis("y"), (f.Line("a", np.arange(3.0), zero, step=True),)
        ),
        "some zeros on a log axis": f.Curves(
            "t", f.Axis("x", log=True), Y, (f.Line("a", np.arange(3.0), np.ones(3)),)
        ),
        "infinite": f.Curves(
            "t",
            f.Axis("x"),
            f.Axis("y"),
            (f.Line("a", np.arange(3.0), np.array([0, math.inf, 1])),),
        ),
        "huge": f.Curves(
            "t",
            f.Axis("x"),
            f.Axis("y"),
            (
                f.Line("a", np.array([0, 1e308]), np.array([-1e308, 1e308])),
                f.Line("b", np.arange(2.0), np.arange(2.0)),
            ),
        ),
        "limits in the wrong order": f.Curves(
            "t", f.Axis("x", 1.0, 0.0), f.Axis("y", 1, 1), (f.Line("a", one, one),)
        ),
        "log axis from zero": f.Curves(
            "t",
            f.Axis("x", 0.0, 8.0, log=True),
            Y,
            (f.Line("a", np.arange(9.0), np.linspace(0, 1, 9)),),
        ),
        "fewer marks than series": f.Forest(
            "t", Y, ("a", "b"), (f.ForestRow("r", "", (f.Mark(0.5),)), f.ForestRow("s", "", ()))
        ),
        "beyond the axis": f.Forest(
            "t",
            Y,
            ("a",),
            (
                f.ForestRow("r", "3", (f.Mark(1.5, 1.2, 1.8),)),
                f.ForestRow("s", "3", (f.Mark(0.5, -1, 2),)),
            ),
        ),
    }


def little_elsewhere() -> dict[str, f.Figure]:
    """Cells, bars, dots and boxes."""
    one = np.array([1.0])
    return {
        "single cell": f.HeatMap(
            "t", f.Axis("x", names=("a",)), f.Axis("y", names=("b",)), np.array([[NAN]]), "h"
        ),
        "flat colours": f.HeatMap(
            "t",
            f.Axis("x", names=("a",)),
            f.Axis("y", names=("b",)),
            np.array([[1.0]]),
            "h",
            1.0,
            1.0,
        ),
        "flat contour": f.Contour(
            "t", X, Y, np.arange(3.0), np.linspace(0, 1, 3), np.ones((3, 3)), "h"
        ),
        "holes in a contour": f.Contour(
            "t",
            X,
            Y,
            np.arange(3.0),
            np.linspace(0, 1, 3),
            np.array([[NAN, 1, 2], [1, 2, 3], [2, 3, 4]]),
            "h",
        ),
        "negative bars": f.Bars(
            "t",
            f.Axis("x", names=("a", "b")),
            f.Axis("y"),
            ("s",),
            np.array([[-1.0, 2.0]]),
            stacked=True,
        ),
        "bars of zero": f.Bars(
            "t", f.Axis("x", names=("a", "b")), f.Axis("y"), ("s",), np.zeros((1, 2))
        ),
        "empty histogram": f.Histogram(
            "t", X, f.Axis("n"), np.arange(3.0), ("a",), np.zeros((1, 2))
        ),
        "one value": f.BoxDots("t", f.Axis("y"), ("a", "b"), (one, NOTHING)),
        "one dot on a log axis": f.Scatter(
            "t",
            f.Axis("x", log=True),
            f.Axis("y", log=True),
            (f.Dots("a", one, one),),
            diagonal=True,
        ),
        "cells that nobody marks": f.Cells(
            "t", np.zeros((1, 9), np.int64), 40, "models", np.zeros((1, 9), np.bool_)
        ),
        "no boxes": f.Overlay("t", (10.0, 10.0), ()),
        "outlines on a map": f.Overlay(
            "t",
            (10.0, 10.0),
            (
                f.BoxMark(
                    "hit",
                    (1, 1, 9, 9),
                    "a",
                    0.5,
                    (((1, 1), (9, 1), (9, 9), (1, 9)), ((3, 3), (5, 3), (5, 5))),
                ),
                f.BoxMark("missed", (2, 2, 3, 3), "a"),
            ),
            shade=PIXEL,
        ),
        "names that are not written": f.Scatter(
            "t",
            X,
            Y,
            (
                f.Dots(
                    "a",
                    np.arange(3.0),
                    np.linspace(0, 1, 3),
                    names=("one", "two", "three"),
                    quiet=True,
                ),
            ),
        ),
        "boxes of no size": f.Overlay(
            "t",
            (10.0, 10.0),
            (f.BoxMark("hit", (5, 5, 5, 5), "a"), f.BoxMark("hit", (NAN, 0, 1, 1), "a")),
        ),
    }


def tree(figure: f.Figure, **options: object) -> ET.Element:
    """The drawing of a figure, parsed."""
    return ET.fromstring(svg(figure, **options))  # type: ignore[arg-type]


def having(root: ET.Element, cls: str) -> list[ET.Element]:
    """All elements of a class."""
    return [e for e in root.iter() if cls in e.get("class", "").split()]


def texts(root: ET.Element) -> list[str]:
    """What is written in the drawing."""
    return ["".join(e.itertext()) for e in root.iter("text")]


def points(path: str) -> np.ndarray:
    """The corners of the first line of a path of M, l, h, v, H, V, L and z, as (n, 2)."""
    found, x, y = [], 0.0, 0.0
    for command, rest in re.findall(r"([MmlLhHvVz])([^MmlLhHvVz]*)", path):
        numbers = [float(v) for v in re.findall(r"-?\d*\.?\d+", rest)]
        if command == "M" and found:
            break
        pairs = {"h": [(d, None) for d in numbers], "H": [(d, None) for d in numbers]}.get(command)
        pairs = pairs or {"v": [(None, d) for d in numbers], "V": [(None, d) for d in numbers]}.get(
            command
        )
        for dx, dy in pairs or list(zip(numbers[::2], numbers[1::2])):
            if command.isupper():
                x, y = (x if dx is None else dx), (y if dy is None else dy)
            else:
                x, y = x + (dx or 0.0), y + (dy or 0.0)
            found.append((x, y))
    return np.array(found)


def tick_pixels(root: ET.Element, low: str, high: str, side: str = "x") -> tuple[float, float]:
    """Where two ticks stand, found by their texts; y of a text is its baseline, four pixels below
    its tick.
    """
    found = {
        t: float(e.get(side, "nan")) - (4.0 if side == "y" else 0.0)
        for t, e in zip(texts(root), root.iter("text"))
    }
    return found[low], found[high]
