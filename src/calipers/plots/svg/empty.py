# SPDX-License-Identifier: Apache-2.0
"""The drawing of a figure without anything to draw: it says so, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calipers.plots.figures import Axis, finite
from calipers.plots.svg.elements import Drawing, Sheet, rect, sentence, words

HEIGHT = 96.0
UNDEFINED = "no value is defined"


def empty_drawing(sheet: Sheet, why: str = "") -> Drawing:
    """Return the words "nothing to show", and why below."""
    middle = sheet.width / 2
    parts = [rect(0.0, 0.0, sheet.width, HEIGHT, "fig-empty")]
    parts.append(
        words(middle, 44.0 if why else 52.0, "nothing to show", "fig-strong", anchor="middle")
    )
    if why:
        parts.append(
            sentence(middle, 62.0, why, "fig-soft", width=sheet.width - 20.0, anchor="middle")
        )
    return Drawing(sheet.width, HEIGHT, parts)


def why_no_limits(axis: Axis, values: Sequence[Any]) -> str:
    """Return why an axis has no limits."""
    if axis.log and any(True for _ in finite(values)):
        return f"no number above zero for the logarithmic axis {axis.label}".rstrip()
    return UNDEFINED
