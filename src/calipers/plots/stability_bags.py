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
from calipers.plots.words import named, percent
from calipers.stability.called import CallCounts
from calipers.stability.result import StabilityResult
from calipers.stability.scores import called_values
from calipers.tables.bags import Bag

I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

SIDE = 64  # cells along a side, at most; larger maps are shown in blocks


@dataclass(frozen=True)
class Slice:
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


def shown(value: float) -> str:
    """Return a score with two digits; empty if it is undefined."""
    text = f"{value:.2f}" if value == value else ""
    return text.replace("-", "" if text == "-0.00" else MINUS)


def marked_by(bag: Bag, threshold: float) -> I64:
    """Return, in the shape of the map, how many models call every instance positive."""
    called = (
        bag.values >= threshold if threshold > 0 else bag.values > 0
    )  # a threshold of 0 is strict
    return np.asarray(called.sum(axis=0), np.int64).reshape(bag.shape)


def shown_slice(bag: Bag, threshold: float) -> Slice:
    """Return the slice with the most cells that some but not all models mark; of equal ones the
    most marked one.

    A map of one axis is shown as one row.
    """
    counts = marked_by(bag, threshold)
    inside = None if bag.instances is None else bag.instances.reshape(bag.shape)
    if counts.ndim < 3:
        flat = None if inside is None else np.atleast_2d(inside)
        return Slice(np.atleast_2d(counts), flat, None, 1)
    slices = counts.reshape(len(counts), -1)
    disputed = ((slices > 0) & (slices < len(bag.values))).sum(axis=1)
    index = int(np.lexsort((-slices.sum(axis=1), -disputed))[0])
    return Slice(counts[index], None if inside is None else inside[index], index, len(counts))


def blocks(values: I64, side: int) -> I64:
    """Return the highest of every ``side`` x ``side`` numbers, which are not negative; a small mark
    does not vanish.
    """
    rows, columns = (-(-n // side) for n in values.shape)
    padded = np.zeros((rows * side, columns * side), np.int64)
    padded[: values.shape[0], : values.shape[1]] = values
    return np.asarray(padded.reshape(rows, side, columns, side).max(axis=(1, 3)))


def bags(
    found: StabilityResult,
    *,
    bag: str | int | None = None,
    picture: Callable[[Slice], tuple[str, float]] | None = None,
) -> Cells:
    """Return how many models mark every cell of an image; the least stable one if none is named.

    Parameters
    ----------
    picture
        CallCounts with the slice that is shown; returns the picture below it, as a ``data:`` address,
        and the height of a cell over its width.
    """
    place = place_of(found, bag)
    part = shown_slice(found.bag(place), found.threshold)
    side, (below, aspect) = part.side, ("", 1.0) if picture is None else picture(part)
    counts, inside = part.counts, part.inside
    if side > 1:
        counts = blocks(counts, side)
        inside = None if inside is None else blocks(inside.astype(np.int64), side) > 0
    notes = [f"Threshold {found.threshold:g}."]
    if part.index is not None:
        notes.append(
            f"Slice {part.index + 1} of {part.of}, the one with most places that some but not all mark."
        )
    if side > 1:
        notes.append(f"Blocks of {side} × {side} cells, each shown by the highest of its numbers.")
    title = f"{named(found.ids[place])}: {_said(found, place)}"
    label = f"how many of {len(found.models)} models mark a place"
    return Cells(
        title, counts, len(found.models), label, inside, below, aspect, note=" ".join(notes)
    )


def _said(found: StabilityResult, place: int) -> str:
    value = float(found.per_bag("APJ")[place])
    told = f"APJ {shown(value) or 'undefined'}"
    counts = found.called().per_bag[place]
    marked, shared = int(counts[1:].sum()), int(counts[-1])
    if not marked:
        return f"no model marks anything, {told}"
    return f"models differ on {marked - shared} of {marked} marked places, {told}"


def called(found: StabilityResult, *, bag: str | int | None = None) -> Bars:
    """Return of what any model marks, how much 1, 2, ..., all models mark: of all images, or of
    one.
    """
    here = found.called()
    if bag is not None:
        place = place_of(found, bag)
        here = CallCounts(here.threshold, here.per_bag[place : place + 1])
    counts, n_models = here.total, len(found.models)
    marked, n = int(counts[1:].sum()), int(counts.sum())
    heights = (counts[1:] / marked if marked else np.full(n_models, np.nan))[None]
    by_all = float(called_values(counts[None], "called-by-all")[0])
    where = "" if bag is None else f"{named(found.ids[place_of(found, bag)])}: "
    title = f"{where}of the places that any model marks, all {n_models} mark {percent(by_all)}"
    if not marked:
        title = f"{where}no model marks anything"
    images = (
        "1 image"
        if bag is not None
        else f"{found.n_used} images together, in which large images weigh more"
    )
    note = f"n = {marked} places that a model marks, of {n} in {images}; none marks the other {n - marked}."
    names = tuple(str(k) for k in range(1, n_models + 1))
    x = Axis("models that mark a place", names=names)
    title = title[:1].upper() + title[1:] if not where else title
    return Bars(title, x, Axis("share of marked places", 0.0, 1.0), ("share",), heights, note=note)


def place_of(found: StabilityResult, bag: str | int | None) -> int:
    """Return the place of a bag among those that were used: by its id, by its place, or the least
    stable one.
    """
    if bag is None:
        ranked = found.ranked("APJ")
        return int(ranked[0]) if len(ranked) else 0
    if isinstance(bag, str):
        if bag not in found.ids:
            raise UsageError(f"no image {bag!r} was used; {did_you_mean(bag, found.ids)}")
        return found.ids.index(bag)
    if not 0 <= bag < found.n_used:
        raise UsageError(f"no image {bag}: {found.n_used} were used, from 0 on")
    return int(bag)
