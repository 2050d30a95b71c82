# SPDX-License-Identifier: Apache-2.0
"""One hue from light to dark in even steps of lightness, for maps; the same by day and by night."""

from __future__ import annotations

import math

import numpy as np

from calipers.plots.figures import F64
from calipers.plots.svg.scales import I64

STEPS = 16
LIGHTEST, DARKEST = 0.965, 0.33  # lightness in OKLab
HUE = math.radians(252.0)  # blue
CHROMA = 0.125  # in the middle of the scale; the ends are paler
LIGHT_INK, DARK_INK = "#ffffff", "#000000"


def _linear_rgb(lightness: float, a: float, b: float) -> tuple[float, float, float]:
    """Return linear sRGB of an OKLab colour (Ottosson 2020)."""
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )


def _hex(linear: tuple[float, float, float]) -> str:
    channels = []
    for value in linear:
        c = min(max(value, 0.0), 1.0)
        channels.append(
            round(255 * (12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055))
        )
    return "#" + "".join(f"{c:02x}" for c in channels)


def _ramp() -> tuple[str, ...]:
    colours = []
    for k in range(STEPS):
        t = k / (STEPS - 1)
        chroma = 0.01 + CHROMA * math.sin(math.pi * (0.02 + 0.78 * t))
        lightness = LIGHTEST + (DARKEST - LIGHTEST) * t
        colours.append(_hex(_linear_rgb(lightness, chroma * math.cos(HUE), chroma * math.sin(HUE))))
    return tuple(colours)


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour "#rrggbb" as WCAG 2 defines it."""
    linear = []
    for k in (1, 3, 5):
        c = int(colour[k : k + 2], 16) / 255
        linear.append(c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4)
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as WCAG 2 defines it, from 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


SHADES = _ramp()
ON_DARK = tuple(contrast(shade, LIGHT_INK) > contrast(shade, DARK_INK) for shade in SHADES)


def shade_of(values: F64, low: float, high: float) -> I64:
    """Return the step of every value between ``low`` and ``high``; -1 where it is undefined.

    Values beyond the ends have the step of the nearer end.
    """
    span = high - low
    share = (values - low) / span if span > 0 else np.where(np.isfinite(values), 0.5, np.nan)
    steps = np.clip(np.floor(np.nan_to_num(share, nan=0.0) * STEPS), 0, STEPS - 1).astype(np.int64)
    return np.where(np.isnan(values), -1, steps)


def ink_on(step: int) -> str:
    """Return the class of text that is readable on a step."""
    return "fig-on-dark" if ON_DARK[step] else "fig-on-light"
