# SPDX-License-Identifier: Apache-2.0
"""The least and the most stable images: how many models mark every place, over the picture, and as
a histogram.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from calipers.errors import InputError
from calipers.pictures.encoding import encode
from calipers.pictures.finding import PictureFiles
from calipers.pictures.pixels import Pixels
from calipers.pictures.reading import PictureError, read_pixels
from calipers.plots.stability_bags import MapSlice
from calipers.plots.svg import svg
from calipers.report.markup import data_table, details, items, paragraph, text
from calipers.stability.result import StabilityResult

EACH = 4  # images at either end
WIDTH = 300  # for which a panel is laid out
MIDDLE = 0.5  # of a slice, in voxels
LEGEND = "The darker a place, the more models mark it: models that agree leave only the lightest and the darkest shade."


@dataclass
class Pictures:
    """The pictures of images in a folder; those that cannot be shown are told in `notes`."""

    files: PictureFiles | None = None
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, folder: str | Path | None, ids: tuple[str, ...]) -> Pictures:
        """Look for the pictures of images by their ids."""
        if folder is None:
            return cls()
        files = PictureFiles.named(Path(folder), [(name,) for name in ids])
        return cls(files, list(files.notes()))

    def below(self, place: int, part: MapSlice) -> tuple[str, float]:
        """Return the picture of an image as an address, and the height of a cell of its map over
        its width.
        """
        path = None if self.files is None else self.files.path_of(place)
        if path is None:
            return "", 1.0
        try:
            pixels = read_pixels(path, slice_at=None if part.index is None else part.index + MIDDLE)
        except PictureError as error:
            self.notes.append(
                f"a picture could not be read: expected {error.expected} [{error.rule}]"
            )
            return "", 1.0
        if part.index is not None and pixels.depth not in (None, part.of):
            self.notes.append(
                f"a picture of {pixels.depth} slices does not fit a map of {part.of} and is not shown"
            )
            return "", 1.0
        rows, columns = part.counts.shape
        aspect = (pixels.height / rows) / (pixels.width / columns)
        return encode(_padded(pixels, part)).data, aspect


def _padded(pixels: Pixels, part: MapSlice) -> Pixels:
    """Return the picture with a black rim where the last blocks of a map reach beyond it."""
    beyond = [(-(-n // part.side) * part.side) / n for n in part.counts.shape]
    rim = [(0, round(n * (scale - 1.0))) for n, scale in zip(pixels.array.shape, beyond)]
    if not any(more for _, more in rim):
        return pixels
    return Pixels(
        np.pad(pixels.array, [*rim, *[(0, 0)] * (pixels.array.ndim - 2)]),
        pixels.width,
        pixels.height,
    )


def chosen(found: StabilityResult) -> list[tuple[str, list[int]]]:
    """Return titles and places of the images that are shown; none is shown twice."""
    ranked = found.ranked("APJ").tolist()
    if len(ranked) <= 2 * EACH:
        return [("Images, least stable first", ranked)] if ranked else []
    return [("Least stable", ranked[:EACH]), ("Most stable", ranked[: -EACH - 1 : -1])]


def images_section(found: StabilityResult, pictures: Pictures) -> str:
    """Return map and histogram of the least and the most stable images; "" without any."""
    groups = chosen(found) if found.source is not None else []
    shown = []
    for g, (title, places) in enumerate(groups):
        entries = [_entry(found, place, pictures, f"fig-bag-{g}-{place}") for place in places]
        shown.append(f'<h3>{title}</h3>\n<div class="pairs">{"".join(entries)}</div>')
    if not shown:
        return ""
    return "\n".join([paragraph(LEGEND), items(list(dict.fromkeys(pictures.notes))), *shown])


def _entry(found: StabilityResult, place: int, pictures: Pictures, name: str) -> str:
    """Return one image: its map and its histogram side by side, and the numbers of both."""
    try:
        cells = found.figure("bags", bag=place, picture=lambda part: pictures.below(place, part))
    # the file of a map is gone: the numbers stand, and the page says why there is no map
    except InputError as error:
        return paragraph(f"{found.ids[place]}: the map could not be read again: {error}", "note")
    bars = found.figure("called", bag=place)
    panels = "".join(
        f'<div class="panel">{svg(figure, width=WIDTH, name=f"{name}-{k}")}</div>'
        for k, figure in enumerate((cells, bars))
    )
    tables = "".join(
        data_table(figure.table(), f"{name}-{k}-numbers", f"Numbers of this figure: {figure.title}")
        for k, figure in enumerate((cells, bars))
    )
    return (
        f'<figure class="plot" id="{name}">\n<figcaption>{text(cells.title)}</figcaption>\n'
        f'<div class="panels">{panels}</div>\n{paragraph(f"{cells.note} {bars.note}", "note")}\n'
        f"{details('Numbers of this figure', tables)}\n</figure>"
    )
