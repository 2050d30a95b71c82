# SPDX-License-Identifier: Apache-2.0
"""Figures drawn with matplotlib, for papers and notebooks (extra ``mpl``).

matplotlib is loaded by the first call, and its global state (pyplot, ``rcParams``) is left as it
was.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from calipers.errors import UsageError
from calipers.plots.figures import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw", "save"]


def draw(figure: Figure, ax: Axes | None = None, *, title: bool = True) -> Axes:
    """Draw a figure and return its axes.

    Parameters
    ----------
    figure
        One of the kinds of `calipers.plots.figures`.
    ax
        Axes to draw into; a new matplotlib figure, 170 mm wide, if left out. It is unknown to
        pyplot and needs no closing; a notebook shows it when the axes are the last value of a cell.
    title
        Draw the finding above (and, in a new figure, the note below). A paper says both in its
        caption instead.

    Examples
    --------
    >>> import numpy as np
    >>> from calipers.plots.figures import Axis, Curves, Line
    >>> line = Line("ours", np.array([0.1, 1.0, 10.0]), np.array([0.4, 0.6, 0.7]))
    >>> x, y = Axis("false alarms", log=True), Axis("found")
    >>> axes = draw(Curves("Ours finds 60 %", x, y, (line,)))
    >>> axes.get_xlabel()
    'false alarms'
    """
    _check_installed()
    from calipers.plots.mpl.drawing import draw_into
    from calipers.plots.mpl.layout import new_axes

    if ax is None:
        return new_axes(figure, title=title)
    draw_into(figure, ax, title=title)
    return ax


def save(
    figure: Figure,
    path: str | Path,
    *,
    width_mm: float = 170.0,
    height_mm: float | None = None,
    dpi: float = 300.0,
    title: bool = True,
) -> Path:
    """Write a figure as PDF, SVG or PNG, by the suffix, and return the path. Equal figures give
    equal bytes.

    Parameters
    ----------
    width_mm
        As printed: 85 fills a column of most journals, 170 a page. Text has the same size in both.
    height_mm
        What suits the figure, if left out.
    dpi
        Pixels per inch of PNG files, and of pictures within PDF and SVG.
    title
        As in `draw`.
    """
    _check_installed()
    from calipers.plots.mpl.saving import save_as

    return save_as(figure, Path(path), width_mm=width_mm, height_mm=height_mm, dpi=dpi, title=title)


def _check_installed() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError(
            'figures for papers need matplotlib: pip install "calipers[mpl]"'
        ) from None
