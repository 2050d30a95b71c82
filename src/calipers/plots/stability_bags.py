# SPDX-License-Identifier: Apache-2.0
"""Single images of a stability analysis: where how many models mark, and how many places that are."""

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
from calipers.stability.called import Called
from calipers.stability.result import StabilityResult
from calipers.stability.scores import called_values
from calipers.tables.bags import Bag

I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

SIDE = 64  # cells along a side, at most; larger maps are shown in blocks


@dataclass(frozen=True)
class MapSlice:
    """The part of an image that is shown: how many models mark every cell, and what the reference
    does.
    """

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
    text = f"{value:.2f}" if value == value else ""
    return text.replace("-", "" if text == "-0.00" else MINUS)


def marked_by(bag: Bag, threshold: float) -> I64:
    """Return, in the shape of the map, how many models call every instance positive."""
    positive = (
        bag.values >= threshold if threshold > 0 else bag.values > 0
    )  # a threshold of 0 is strict
    return np.asarray(positive.sum(axis=0), np.int64).reshape(bag.shape)


def disputed_slice(bag: Bag, threshold: float) -> MapSlice:
    """Return the slice with the most cells that some but not all models mark; of equal ones the
    most marked one.

    A map of one axis is shown as one row.
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
    """Return the highest of every ``side`` x ``side`` numbers, which are not negative; a small mark
    does not vanish.
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
    """Return how many models mark every cell of an image; the least stable one if none is named.

    Parameters
    ----------
    picture
        Called with the slice that is shown; returns the picture below it, as a ``data:`` address,
        and the height of a cell over its width.
    """
    place = place_of(result, bag)
    part = disputed_slice(result.bag(place), result.threshold)
    side, (below, aspect) = part.side, ("", 1.0) if picture is None else picture(part)
    counts, inside = part.counts, part.inside
    if side > 1:
        counts = blocks(counts, side)
        inside = None if inside is None else blocks(inside.astype(np.int64), side) > 0
    notes = [f"Threshold {result.threshold:g}."]
    if part.index is not None:
        notes.append(
            f"Slice {part.index + 1} of {part.of}, the one with most places that some but not all mark."
        )
    if side > 1:
        notes.append(f"Blocks of {side} × {side} cells, each shown by the highest of its numbers.")
    title = f"{short_name(result.ids[place])}: {_disagreement_text(result, place)}"
    label = f"how many of {len(result.models)} models mark a place"
    return Cells(
        title, counts, len(result.models), label, inside, below, aspect, note=" ".join(notes)
    )


def _disagreement_text(result: StabilityResult, place: int) -> str:
    value = float(result.per_bag("APJ")[place])
    score = f"APJ {score_text(value) or 'undefined'}"
    counts = result.called().per_bag[place]
    marked, shared = int(counts[1:].sum()), int(counts[-1])
    if not marked:
        return f"no model marks anything, {score}"
    return f"models differ on {marked - shared} of {marked} marked places, {score}"


def called(result: StabilityResult, *, bag: str | int | None = None) -> Bars:
    """Return of what any model marks, how much 1, 2, ..., all models mark: of all images, or of
    one.
    """
    here = result.called()
    if bag is not None:
        place = place_of(result, bag)
        here = Called(here.threshold, here.per_bag[place : place + 1])
    counts, n_models = here.total, len(result.models)
    marked, n = int(counts[1:].sum()), int(counts.sum())
    heights = (counts[1:] / marked if marked else np.full(n_models, np.nan))[None]
    by_all = float(called_values(counts[None], "called-by-all")[0])
    where = "" if bag is None else f"{short_name(result.ids[place_of(result, bag)])}: "
    title = f"{where}of the places that any model marks, all {n_models} mark {percent(by_all)}"
    if not marked:
        title = f"{where}no model marks anything"
    images = (
        "1 image"
        if bag is not None
        else f"{result.n_used} images together, in which large images weigh more"
    )
    note = f"n = {marked} places that a model marks, of {n} in {images}; none marks the other {n - marked}."
    names = tuple(str(k) for k in range(1, n_models + 1))
    x = Axis("models that mark a place", names=names)
    title = title[:1].upper() + title[1:] if not where else title
    return Bars(title, x, Axis("share of marked places", 0.0, 1.0), ("share",), heights, note=note)


def place_of(result: StabilityResult, bag: str | int | None) -> int:
    """Return the place of a bag among those that were used: by its id, by its place, or the least
    stable one.
    """
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
