# SPDX-License-Identifier: Apache-2.0
"""Figures of single images of a stability analysis: how many models mark each place.

A bag is an image; its instances are the cells of its map.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean
from calipers.plots.figures import Axis, Bars, Cells
from calipers.plots.ticks import MINUS
from calipers.plots.words import percent, short_name
from calipers.stability.called import CallCounts
from calipers.stability.result import StabilityResult
from calipers.stability.scores import called_values
from calipers.tables.bags import Bag

I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

SIDE = 64  # cells along a side, at most; larger maps are shown in blocks


@dataclass(frozen=True)
class MapSlice:
    """The part of an image that is shown: how many models mark every cell, and the reference."""

    counts: I64  # (rows, columns)
    inside: Flags | None
    index: int | None  # which slice of a volume; None: the image is flat
    of: int  # slices

    @property
    def side(self) -> int:
        """Cells along a side of the blocks in which it is shown; 1: as it is."""
        longest: int = max(self.counts.shape)
        return math.ceil(longest / SIDE)


def score_text(value: float) -> str:
    """Return a score with two digits; empty if it is undefined."""
    if math.isnan(value):
        return ""
    text = f"{value:.2f}"
    if text == "-0.00":
        return "0.00"
    return text.replace("-", MINUS)


def marked_by(bag: Bag, threshold: float) -> I64:
    """Return, in the shape of the map, how many models call every instance positive."""
    # A threshold of 0 is strict: else every instance would be positive.
    positive = bag.values >= threshold if threshold > 0 else bag.values > 0
    return np.asarray(positive.sum(axis=0), np.int64).reshape(bag.shape)


def disputed_slice(bag: Bag, threshold: float) -> MapSlice:
    """Return the slice with the most cells that some but not all models mark.

    Of equal slices, the one with most marks. A map with one axis is shown as one row.
    """
    counts = marked_by(bag, threshold)
    inside = None if bag.instances is None else bag.instances.reshape(bag.shape)
    if counts.ndim < 3:
        flat = None if inside is None else np.atleast_2d(inside)
        return MapSlice(np.atleast_2d(counts), flat, None, 1)
    slices = counts.reshape(len(counts), -1)
    disputed = ((slices > 0) & (slices < len(bag.values))).sum(axis=1)
    index = int(np.lexsort((-slices.sum(axis=1), -disputed))[0])
    return MapSlice(counts[index], None if inside is None else inside[index], index, len(counts))


def blocks(values: I64, side: int) -> I64:
    """Return the maximum of every ``side`` x ``side`` block of numbers from 0.

    The maximum, not the mean, so that a small mark does not vanish.
    """
    rows, columns = (-(-n // side) for n in values.shape)
    padded = np.zeros((rows * side, columns * side), np.int64)
    padded[: values.shape[0], : values.shape[1]] = values
    return np.asarray(padded.reshape(rows, side, columns, side).max(axis=(1, 3)))


def bags(
    result: StabilityResult,
    *,
    bag: str | int | None = None,
    picture: Callable[[MapSlice], tuple[str, float]] | None = None,
) -> Cells:
    """Return how many models mark every cell of an image; by default of the least stable one.

    Parameters
    ----------
    picture
        CallCounts with the slice that is shown; returns the picture below it, as a ``data:`` address,
        and the height of a cell over its width.
    """
    place = place_of(result, bag)
    part = disputed_slice(result.bag(place), result.threshold)
    background, aspect = "", 1.0
    if picture is not None:
        background, aspect = picture(part)
    side, counts, inside = part.side, part.counts, part.inside
    notes = [f"Threshold {result.threshold:g}."]
    if part.index is not None:
        notes.append(
            f"Slice {part.index + 1} of {part.of}, "
            "the one with most places that some but not all mark."
        )
    if side > 1:
        counts = blocks(counts, side)
        if inside is not None:
            inside = blocks(inside.astype(np.int64), side) > 0
        notes.append(f"Blocks of {side} × {side} cells, each shown by its highest number.")
    n_models = len(result.models)
    return Cells(
        f"{short_name(result.ids[place])}: {_disagreement_text(result, place)}",
        counts,
        n_models,
        f"how many of {n_models} models mark a place",
        inside,
        background,
        aspect,
        note=" ".join(notes),
    )


def _disagreement_text(result: StabilityResult, place: int) -> str:
    value = float(result.per_bag("APJ")[place])
    score = f"APJ {score_text(value) or 'undefined'}"
    counts = result.called().per_bag[place]
    n_marked, n_shared = int(counts[1:].sum()), int(counts[-1])
    if not n_marked:
        return f"no model marks anything, {score}"
    return f"models differ on {n_marked - n_shared} of {n_marked} marked places, {score}"


def calls(result: StabilityResult, *, bag: str | int | None = None) -> Bars:
    """Return how much of what any model marks is marked by 1, 2, ..., all models.

    Over all images together, or in one of them.
    """
    table, n_models = result.called(), len(result.models)
    where, images = "", f"{result.n_used} images together, in which large images weigh more"
    if bag is not None:
        place = place_of(result, bag)
        table = CallCounts(table.threshold, table.per_bag[place : place + 1])
        where, images = f"{short_name(result.ids[place])}: ", "1 image"
    counts = table.total
    n_marked, n = int(counts[1:].sum()), int(counts.sum())
    if n_marked:
        heights = counts[1:] / n_marked
        by_all = percent(float(called_values(counts[None], "called-by-all")[0]))
        title = f"of the places that any model marks, all {n_models} mark {by_all}"
    else:
        heights = np.full(n_models, np.nan)
        title = "no model marks anything"
    title = where + title if where else title[:1].upper() + title[1:]
    note = (
        f"n = {n_marked} places that a model marks, of {n} in {images}; "
        f"none marks the other {n - n_marked}."
    )
    x = Axis("models that mark a place", names=tuple(str(k) for k in range(1, n_models + 1)))
    y = Axis("share of marked places", 0.0, 1.0)
    return Bars(title, x, y, ("share",), heights[None], note=note)


def place_of(result: StabilityResult, bag: str | int | None) -> int:
    """Return the index of a bag among those used: by id, by index, or the least stable."""
    if bag is None:
        order = result.ranked("APJ")
        return int(order[0]) if len(order) else 0
    if isinstance(bag, str):
        if bag not in result.ids:
            raise UsageError(f"no image {bag!r} was used; {did_you_mean(bag, result.ids)}")
        return result.ids.index(bag)
    if not 0 <= bag < result.n_used:
        raise UsageError(f"no image {bag}: {result.n_used} were used, from 0 on")
    return int(bag)
