# SPDX-License-Identifier: Apache-2.0
"""The style sheet of all drawings: rules from a file, colours and dashes from the theme."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from calipers.plots.svg.overlay import slug
from calipers.plots.svg.shades import SHADES
from calipers.plots.theme import DASHES, DAY, HALO, LIGHT, MARKS, NIGHT, Paper

HALO_WIDTH = 2.4  # pixels that the halo of a box is wider than its line


@cache
def stylesheet() -> str:
    """Return the rules for drawings in a page; the page holds them once.

    By default colours follow what the reader's system asks for, and are those of the day on paper.
    An element with ``data-theme="light"`` or ``"dark"`` decides for what it holds.
    """
    rules = files("calipers.plots").joinpath("assets/figures.css").read_text(encoding="utf-8")
    return f"{_palette()}\n{rules.strip()}\n{_series()}\n{_maps()}\n{_marks()}\n"


def standalone_stylesheet() -> str:
    """Return the rules for a drawing outside our pages: its colours apply to it alone."""
    return stylesheet().replace(":root", ".fig")


def _values(paper: Paper) -> str:
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
    day, night = _values(DAY), _values(NIGHT)
    return (
        f":root{{{day}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{night}}}}}\n"
        f'[data-theme="light"]{{{day}}}\n@media screen{{[data-theme="dark"]{{{night}}}}}'
    )


def _series() -> str:
    rules = [
        f".fig-s{k}{{stroke:var(--s{k})}}.fig-f{k}{{fill:var(--s{k})}}" for k in range(len(LIGHT))
    ]
    rules += [
        f".fig-d{k}{{stroke-dasharray:{_dashes(dash)}}}" for k, dash in enumerate(DASHES) if dash
    ]
    return "\n".join(rules)


def _maps() -> str:
    return "\n".join(f".fig-q{k}{{fill:{shade}}}" for k, shade in enumerate(SHADES))


def _marks() -> str:
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
