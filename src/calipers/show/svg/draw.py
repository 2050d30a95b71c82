# SPDX-License-Identifier: Apache-2.0
"""Figures as SVG for pages with a strict content policy: element, style sheet, and description.

`svg` takes a figure of `calipers.show.figures` and returns an SVG element; reports, albums and
notebooks call it. It has no scripts and no style attributes, and loads nothing from elsewhere.
`stylesheet` returns the rules of all drawings: those of a file, and colours and dashes of the theme
of `calipers.show.figures`. `description` says a figure in a sentence for readers who do not see it:
kind, axes, series and counts.

What is drawn is in `lines`, `estimates` and `fields`, one function per kind of figure.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from calipers.arrays import F64
from calipers.errors import UsageError
from calipers.show import figures as kinds
from calipers.show.figures import DASHES, DAY, HALO, LIGHT, MARKS, NIGHT, Paper, tick_text
from calipers.show.svg import estimates, fields, lines
from calipers.show.svg.axes import SHADES
from calipers.show.svg.canvas import Drawing, Sheet, clean, num, safe, shorten
from calipers.show.svg.fields import slug

HALO_WIDTH = 2.4  # pixels that the halo of a box is wider than its line

MOST = 12  # series that are named one by one
LONGEST = 60

NARROWEST = 240.0
MARGIN = 12.0  # around a drawing that stands alone
LONGEST_TITLE = 500  # characters of the finding
NAME = re.compile(r"[A-Za-z0-9-]+")
DRAW_FUNCTIONS: dict[type[kinds.Figure], Callable[[Any, Sheet], Drawing]] = {
    kinds.Curves: lines.draw_curves,
    kinds.Forest: estimates.draw_forest,
    kinds.Bars: estimates.draw_bars,
    kinds.HeatMap: fields.draw_heatmap,
    kinds.Scatter: lines.draw,
    kinds.Blob: estimates.draw_blob,
    kinds.BoxDots: estimates.draw,
    kinds.Contour: fields.draw_contour,
    kinds.Histogram: lines.draw_histogram,
    kinds.Cells: fields.draw_cells,
    kinds.Overlay: fields.draw,
}


def svg(
    figure: kinds.Figure, *, width: float = 640, name: str = "figure", standalone: bool = False
) -> str:
    """Return a figure as an SVG element.

    Parameters
    ----------
    figure : Figure
        What is shown. Its title and a description are for readers who do not see it; the page shows
        the title itself.
    width : float
        Pixels for which the figure is laid out, 340 to 1000 are usual; it scales to the width of
        what holds it. An overlay is laid out in pixels of its image.
    name : str
        Prefix of ids, letters, digits and dashes, unique in a page.
    standalone : bool
        Return a whole file with its own style sheet and a background, for notebooks and folders.
        Otherwise the page holds `stylesheet` once.

    Raises
    ------
    UsageError
        If there is no way to draw ``figure``, or ``name`` cannot be a part of an id.
    """
    if not NAME.fullmatch(name):
        raise UsageError(f"name of a figure: expected letters, digits and dashes, got {name!r}")
    drawing = _draw_function(figure)(figure, Sheet(max(float(width), NARROWEST), name))
    # An overlay is laid out in pixels of its image and has no margin.
    pad = MARGIN if standalone and not isinstance(figure, kinds.Overlay) else 0.0
    w, h, start = num(drawing.width + 2 * pad, 2), num(drawing.height + 2 * pad, 2), num(-pad)
    classes, view = f"fig fig-kind-{type(figure).__name__.lower()}", f"{start} {start} {w} {h}"
    head, own = f'class="{classes}" viewBox="{view}"', ""
    if standalone:
        size = f'xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}"'
        head = f'{size} class="{classes} fig-alone" viewBox="{view}"'
        own = (
            f"<style>{standalone_stylesheet()}</style>"
            f'<rect x="{start}" y="{start}" width="{w}" height="{h}" class="fig-paper"/>'
        )
    label = f'role="img" aria-labelledby="{name}-title {name}-desc"'
    texts = (
        f'<title id="{name}-title">{safe(shorten(figure.title or "Figure", LONGEST_TITLE))}</title>'
    )
    texts += f'<desc id="{name}-desc">{safe(description(figure))}</desc>'
    return f"<svg {head} {label}>{texts}{own}{''.join(drawing.parts)}</svg>"


def _draw_function(figure: kinds.Figure) -> Callable[[Any, Sheet], Drawing]:
    for kind, draw in DRAW_FUNCTIONS.items():
        if isinstance(figure, kind):
            return draw
    names = ", ".join(kind.__name__ for kind in DRAW_FUNCTIONS)
    raise UsageError(f"figure: expected one of {names}, got {type(figure).__name__}")


@cache
def stylesheet() -> str:
    """Return the rules for drawings in a page; the page holds them once.

    By default colours follow what the reader's system asks for, and are those of the day on paper.
    An element with ``data-theme="light"`` or ``"dark"`` decides for what it holds.
    """
    rules = files("calipers.show").joinpath("assets/figures.css").read_text(encoding="utf-8")
    return f"{_palette()}\n{rules.strip()}\n{_series_rules()}\n{_shade_rules()}\n{_mark_rules()}\n"


def standalone_stylesheet() -> str:
    """Return the rules for a drawing outside our pages: its colours apply to it alone."""
    # `:root` of a file that is put into another page would change the colours of that page.
    return stylesheet().replace(":root", ".fig")


def _colour_variables(paper: Paper) -> str:
    colours = {
        "ink": paper.ink,
        "soft": paper.soft,
        "line": paper.line,
        "paper": paper.page,
        "band": paper.band,
    }
    colours |= {f"s{k}": colour for k, colour in enumerate(paper.series)}
    return ";".join(f"--{name}:{colour.lower()}" for name, colour in colours.items())


def _palette() -> str:
    day, night = _colour_variables(DAY), _colour_variables(NIGHT)
    # Paper is white, so the night is for screens only, also where a page asks for it.
    return (
        f":root{{{day}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{night}}}}}\n"
        f'[data-theme="light"]{{{day}}}\n@media screen{{[data-theme="dark"]{{{night}}}}}'
    )


def _series_rules() -> str:
    rules = [
        f".fig-s{k}{{stroke:var(--s{k})}}.fig-f{k}{{fill:var(--s{k})}}" for k in range(len(LIGHT))
    ]
    rules += [
        f".fig-d{k}{{stroke-dasharray:{_dashes(dash)}}}" for k, dash in enumerate(DASHES) if dash
    ]
    return "\n".join(rules)


def _shade_rules() -> str:
    return "\n".join(f".fig-q{k}{{fill:{shade}}}" for k, shade in enumerate(SHADES))


def _mark_rules() -> str:
    # Marks lie on pictures, which are the same by day and by night: so are their colours.
    rules = [f".fig-halo{{stroke:{HALO.lower()}}}"]
    for fate, look in MARKS.items():
        dash = f";stroke-dasharray:{_dashes(look.dash)}" if look.dash else ""
        rules.append(
            f".fig-{slug(fate)}{{stroke:{look.colour.lower()};stroke-width:{look.width:g}{dash}}}"
        )
        rules.append(f".fig-halo-{slug(fate)}{{stroke-width:{look.width + HALO_WIDTH:g}}}")
    return "\n".join(rules)


def _dashes(dash: tuple[float, ...]) -> str:
    return " ".join(f"{length:g}" for length in dash)


def description(figure: kinds.Figure) -> str:
    """Return the sentence, followed by the note of the figure."""
    for kind, sentence in SENTENCES.items():
        if isinstance(figure, kind):
            text = sentence(figure)
            break
    else:
        text = "Figure."
    return clean(f"{text} {shorten(figure.note, 1000)}".strip())


def _name(name: str) -> str:
    """Return a name that does not turn the words beside it: one written from right to left is set
    apart.
    """
    short = clean(shorten(name, LONGEST))
    # Marks of direction around the name, because words that follow it on the line would otherwise
    # be shown before it.
    turns = any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in short)
    return f"\N{LEFT-TO-RIGHT MARK}{short}\N{LEFT-TO-RIGHT MARK}" if turns else short


def _join(names: Iterable[str]) -> str:
    every = [name for name in names if name]
    more = f" and {len(every) - MOST} more" if len(every) > MOST else ""
    return ", ".join(every[:MOST]) + more


def _count(n: int, word: str, words: str = "") -> str:
    """Return a number with its noun, whose plural is ``words``, or ends in s."""
    if n == 1:
        return f"1 {word}"
    return f"{n} {words or word + 's'}"


def _axis(axis: kinds.Axis) -> str:
    label = clean(axis.label) or "no unit"
    return f"{label} (logarithmic)" if axis.log else label


def _curves(figure: kinds.Curves) -> str:
    def one(line: kinds.Line) -> str:
        band = ", with a band" if line.low is not None and line.high is not None else ""
        points = _count(_n_finite(line.x, line.y), "point")
        return f"{_name(line.name) or 'unnamed'} ({points}{band})"

    n = _count(len(figure.lines), "series", "series")
    text = f"Curves of {_axis(figure.y)} against {_axis(figure.x)}, {n}"
    lines = _join(map(one, figure.lines))
    return f"{text}: {lines}." if lines else f"{text}."


def _n_finite(*values: Any) -> int:
    return int(np.logical_and.reduce([np.isfinite(v) for v in values]).sum())


def _forest(figure: kinds.Forest) -> str:
    marks = [mark for row in figure.rows for mark in row.marks]
    n_estimates = sum(math.isfinite(mark.value) for mark in marks)
    text = f"Forest plot of {_axis(figure.x)}, {_count(len(figure.rows), 'row')}, "
    text += _count(n_estimates, "estimate")
    if len(marks) > n_estimates:
        text += f", {len(marks) - n_estimates} undefined"
    series = _join(map(_name, figure.series))
    return f"{text}; series: {series}." if series else f"{text}."


def _bars(figure: kinds.Bars) -> str:
    kind = "Stacked bars" if figure.stacked else "Bars"
    n = _count(len(figure.x.names), "category", "categories")
    series = _join(map(_name, figure.series))
    return f"{kind} of {_axis(figure.y)} by {_axis(figure.x)}, {n}; series: {series}."


def _heatmap(figure: kinds.HeatMap) -> str:
    n = f"{_count(len(figure.y.names), 'row')} and {_count(len(figure.x.names), 'column')}"
    n_missing = figure.values.size - _n_finite(figure.values)
    undefined = f", {_count(n_missing, 'cell')} undefined" if n_missing else ""
    axes = f"{_axis(figure.y)} by {_axis(figure.x)}"
    return f"Heat map of {clean(figure.label)}: {axes}, {n}{undefined}."


def _scatter(figure: kinds.Scatter) -> str:
    def one(dots: kinds.Dots) -> str:
        return f"{_name(dots.name) or 'unnamed'} ({_count(_n_finite(dots.x, dots.y), 'point')})"

    series = _join(map(one, figure.dots))
    return f"Points of {_axis(figure.y)} against {_axis(figure.x)}; series: {series}."


def _blob(figure: kinds.Blob) -> str:
    def one(m: int) -> str:
        rank = f" (median {figure.medians[m]:g})" if m < len(figure.medians) else ""
        return f"{_name(figure.models[m])}{rank}"

    models = range(len(figure.models))
    return f"Ranks of {_count(len(models), 'model')} over {figure.of}: {_join(map(one, models))}."


def _boxes(figure: kinds.BoxDots) -> str:
    def one(name: str, sample: F64) -> str:
        good = sample[np.isfinite(sample)]
        # As many digits as in the tooltip of the box.
        median = f", median {tick_text(round(float(np.median(good)), 4))}" if len(good) else ""
        return f"{_name(name)} (n = {len(good)}{median})"

    return f"Box plots of {_axis(figure.y)}: {_join(map(one, figure.names, figure.samples))}."


def _contour(figure: kinds.Contour) -> str:
    values = figure.values[np.isfinite(figure.values)]
    span = ""
    if len(values):
        span = f", from {tick_text(float(values.min()))} to {tick_text(float(values.max()))}"
    n = f"{len(figure.xs)} by {len(figure.ys)} points"
    axes = f"{_axis(figure.x)} and {_axis(figure.y)}"
    return f"Contours of {clean(figure.label)} over {axes}, {n}{span}."


def _histogram(figure: kinds.Histogram) -> str:
    bins = _count(max(len(figure.edges) - 1, 0), "bin")
    threshold = f", line at {tick_text(figure.cut)}" if math.isfinite(figure.cut) else ""
    series = _join(map(_name, figure.series))
    return (
        f"Histogram of {_axis(figure.x)}, {_axis(figure.y)} in {bins}{threshold}; series: {series}."
    )


def _cells(figure: kinds.Cells) -> str:
    total = np.bincount(figure.counts.ravel(), minlength=figure.most + 1)
    counts = ", ".join(f"{n} with {k}" for k, n in enumerate(total.tolist()) if n)
    rows, columns = figure.counts.shape
    around = ""
    if figure.inside is not None:
        around = f"; a line runs around {_count(int(figure.inside.sum()), 'cell')}"
    label = _name(figure.label)
    return f"Map of {rows} by {columns} cells, {label}: {counts or 'no cells'}{around}."


def _overlay(figure: kinds.Overlay) -> str:
    counts = Counter(mark.fate for mark in figure.marks)
    boxes = ", ".join(f"{n} {fate}" for fate, n in counts.items()) or "no objects"
    text = f"Image of {figure.size[0]:g} by {figure.size[1]:g} pixels"
    if not (figure.picture or figure.symbol):
        text += ", without the picture"
    if figure.shade or figure.shade_symbol:
        text += ", with the map of scores"
    return f"{text}: {boxes}."


# Below the functions that it names.
SENTENCES: dict[type[kinds.Figure], Callable[[Any], str]] = {
    kinds.Curves: _curves,
    kinds.Forest: _forest,
    kinds.Bars: _bars,
    kinds.HeatMap: _heatmap,
    kinds.Scatter: _scatter,
    kinds.Blob: _blob,
    kinds.BoxDots: _boxes,
    kinds.Contour: _contour,
    kinds.Histogram: _histogram,
    kinds.Cells: _cells,
    kinds.Overlay: _overlay,
}
