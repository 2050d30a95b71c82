# SPDX-License-Identifier: Apache-2.0
"""The least and the most stable images: how many models mark every place, on the picture and as a
histogram.
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
LEGEND = (
    "The darker a place, the more models mark it: if models agree, only the lightest and the "
    "darkest shade remain."
)


@dataclass
class Pictures:
    """The pictures of images in a folder; `notes` says which cannot be shown and why."""

    files: PictureFiles | None = None
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, folder: str | Path | None, ids: tuple[str, ...]) -> Pictures:
        """Look for the pictures of images by their ids."""
        if folder is None:
            return cls()
        files = PictureFiles.from_names(Path(folder), [(name,) for name in ids])
        return cls(files, list(files.notes()))

    def below(self, place: int, part: MapSlice) -> tuple[str, float]:
        """Return the picture of an image as a data address, and the aspect ratio (height over
        width) of a cell of its map.
        """
        path = None if self.files is None else self.files.path_of(place)
        if path is None:
            return "", 1.0
        slice_at = None if part.index is None else part.index + MIDDLE
        try:
            pixels = read_pixels(path, slice_at=slice_at)
        except PictureError as error:
            self.notes.append(
                f"a picture could not be read: expected {error.expected} [{error.rule}]"
            )
            return "", 1.0
        if part.index is not None and pixels.depth not in (None, part.of):
            self.notes.append(
                f"a picture with {pixels.depth} slices does not fit a map with {part.of} slices "
                "and is not shown"
            )
            return "", 1.0
        rows, columns = part.counts.shape
        aspect = (pixels.height / rows) / (pixels.width / columns)
        return encode(_padded(pixels, part)).data, aspect


def _padded(pixels: Pixels, part: MapSlice) -> Pixels:
    """Return the picture with a black rim where the last blocks of a map reach beyond it."""
    rim = []
    for n_cells, n_pixels in zip(part.counts.shape, pixels.array.shape):
        beyond = (-(-n_cells // part.side) * part.side) / n_cells
        rim.append((0, round(n_pixels * (beyond - 1.0))))
    if not any(width for _, width in rim):
        return pixels
    colours = [(0, 0)] * (pixels.array.ndim - 2)
    return Pixels(np.pad(pixels.array, [*rim, *colours]), pixels.width, pixels.height)


def shown_images(result: StabilityResult) -> list[tuple[str, list[int]]]:
    """Return titles and places of the images that are shown; none is shown twice."""
    order = result.ranked("APJ").tolist()
    if len(order) <= 2 * EACH:
        return [("Images, least stable first", order)] if order else []
    return [("Least stable", order[:EACH]), ("Most stable", order[: -EACH - 1 : -1])]


def images_section(result: StabilityResult, pictures: Pictures) -> str:
    """Return map and histogram of the least and the most stable images; "" without any."""
    groups = shown_images(result) if result.source is not None else []
    blocks = []
    for g, (title, places) in enumerate(groups):
        entries = [_entry(result, place, pictures, f"fig-bag-{g}-{place}") for place in places]
        blocks.append(f'<h3>{title}</h3>\n<div class="pairs">{"".join(entries)}</div>')
    if not blocks:
        return ""
    return "\n".join([paragraph(LEGEND), items(list(dict.fromkeys(pictures.notes))), *blocks])


def _entry(result: StabilityResult, place: int, pictures: Pictures, name: str) -> str:
    """Return one image: its map and its histogram side by side, and the numbers of both."""
    try:
        cells = result.figure("bags", bag=place, picture=lambda part: pictures.below(place, part))
    except InputError as error:
        # The file of a map is gone: the numbers stand, and the page says why there is no map.
        return paragraph(f"{result.ids[place]}: the map could not be read again: {error}", "note")
    bars = result.figure("called", bag=place)
    panels, tables = "", ""
    for k, figure in enumerate((cells, bars)):
        picture = svg(figure, width=WIDTH, name=f"{name}-{k}")
        panels += f'<div class="panel">{picture}</div>'
        caption = f"Numbers of this figure: {figure.title}"
        tables += data_table(figure.table(), f"{name}-{k}-numbers", caption)
    return (
        f'<figure class="plot" id="{name}">\n<figcaption>{text(cells.title)}</figcaption>\n'
        f'<div class="panels">{panels}</div>\n{paragraph(f"{cells.note} {bars.note}", "note")}\n'
        f"{details('Numbers of this figure', tables)}\n</figure>"
    )
