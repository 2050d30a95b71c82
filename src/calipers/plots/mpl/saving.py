# SPDX-License-Identifier: Apache-2.0
"""Save figures as PDF with embedded fonts, SVG with text as text, or PNG.

Files hold no dates, so that equal figures give equal bytes.
"""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

from calipers.errors import UsageError
from calipers.plots.figures import Figure
from calipers.plots.mpl.layout import new_axes
from calipers.plots.mpl.look import look
from calipers.plots.mpl.words import SENTENCE_LENGTH, words
from calipers.results.files import write_atomically

FORMATS = ("pdf", "svg", "png")
SMALLEST, LARGEST = 30.0, 2500.0  # mm
MOST_PIXELS = 200_000_000


def save_as(
    figure: Figure, path: Path, *, width_mm: float, height_mm: float | None, dpi: float, title: bool
) -> Path:
    """Draw a figure and write it as the suffix says."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise UsageError(f"a figure is written as .pdf, .svg or .png, got {path.name!r}")
    _check_length("width_mm", width_mm)
    _check_length("height_mm", 100.0 if height_mm is None else height_mm)
    if not 10 <= dpi <= 2400:
        raise UsageError(f"dpi must be between 10 and 2400, got {dpi}")
    canvas: Any = new_axes(figure, width_mm=width_mm, height_mm=height_mm, title=title).figure
    if kind == "png" and math.prod(canvas.get_size_inches()) * dpi**2 > MOST_PIXELS:
        raise UsageError(f"a picture of more than {MOST_PIXELS} pixels: lower dpi, or write a .pdf")
    buffer = io.BytesIO()
    with look():
        canvas.savefig(buffer, format=kind, dpi=dpi, metadata=_metadata(kind, figure))
    write_atomically(path, buffer.getvalue())
    return path


def _check_length(name: str, value: float) -> None:
    if not SMALLEST <= value <= LARGEST:
        raise UsageError(f"{name} must be between {SMALLEST:g} and {LARGEST:g}, got {value}")


def _metadata(kind: str, figure: Figure) -> dict[str, Any]:
    """Return the metadata of a file: its title and its creator, but no date."""
    title = words(figure.title, weight="bold", most=SENTENCE_LENGTH)
    metadata: dict[str, dict[str, Any]] = {
        "pdf": {"Title": title, "Creator": "Calipers", "CreationDate": None},
        "svg": {"Title": title, "Creator": "Calipers", "Date": None},
        "png": {"Title": title, "Software": "Calipers"},
    }
    return metadata[kind]
