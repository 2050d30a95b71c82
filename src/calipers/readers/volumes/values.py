# SPDX-License-Identifier: Apache-2.0
"""Convert stored values to labels (`as_labels`) and scores (`as_map`).

The caller declares what the values mean; values that do not fit are errors, never guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, UsageError, did_you_mean
from calipers.readers.volumes.volume import Array

MEANINGS = ("binary", "nonzero", "instances")
Meaning = str | Sequence[int]
NORMALISATIONS = ("none", "minmax", "sigmoid", "clip", "uint8", "uint16", "rank")
SHOWN = 10
LARGEST = 2**31 - 1
DIVISORS = {"uint8": 255, "uint16": 65_535}
PERCENT = 100


def as_labels(array: Array, meaning: Meaning = "binary", *, file: str = "<arrays>") -> Array:
    """Return labels whose background is 0.

    Parameters
    ----------
    array
        Whole numbers ``[z, ]y, x``; floats that are whole are fine.
    meaning
        ``"binary"``: 0 and one other value. ``"nonzero"``: everything but 0 is foreground.
        ``"instances"``: every value is an object. A list of values: these are foreground, all
        others are not.

    Returns
    -------
    ndarray
        uint8 of 0 and 1; for instances int32 with the values as they are. A label of all zeros is
        one without objects.

    Examples
    --------
    >>> import numpy as np
    >>> as_labels(np.array([[0, 255], [255, 0]]))
    array([[0, 1],
           [1, 0]], dtype=uint8)
    """
    if isinstance(meaning, str) and meaning not in MEANINGS:
        raise UsageError(
            f"labels cannot be {meaning!r}; {did_you_mean(meaning, MEANINGS)}, or a list of values"
        )
    values = _whole(array, file)
    if not isinstance(meaning, str):
        return np.asarray(np.isin(values, np.asarray(list(meaning))), np.uint8)
    lowest, highest = 0, 0
    if values.size:
        lowest, highest = int(values.min()), int(values.max())
    if meaning == "nonzero":
        return np.asarray(values != 0, np.uint8)
    if lowest < 0 or highest > LARGEST:
        expected = f"labels from 0 to {LARGEST:,}"
        raise InputError(expected, rule="mask-values", file=file, value=_distinct(values))
    if meaning == "instances":
        return values.astype(np.int32, copy=False)
    foreground = values != 0
    if not ((values == highest) | ~foreground).all():
        hint = "declare their meaning: foreground values such as 1,3, or nonzero, or instances"
        if highest == 255:
            hint += "; if the edges were smoothed, save the mask without smoothing"
        raise InputError(
            "0 and one other value",
            rule="mask-values",
            file=file,
            value=_distinct(values),
            hint=hint,
        )
    return np.asarray(foreground, np.uint8)


def as_map(array: Array, normalise: str = "none", *, file: str = "<arrays>") -> Array:
    """Return scores in [0, 1].

    Parameters
    ----------
    array
        Scores ``[z, ]y, x``.
    normalise
        ``"none"``: they are in [0, 1] already. ``"minmax"``: scaled by the extremes of this sample;
        a constant map becomes 0. ``"sigmoid"``: the sigmoid of logits. ``"clip"``: values outside
        are set to 0 or 1. ``"uint8"``, ``"uint16"``: divided by 255 or 65,535. ``"rank"``: average
        rank among the voxels of this sample, from 0 to 1; a constant map becomes 0.5.

    Returns
    -------
    ndarray
        float32; float64 stays float64.

    Raises
    ------
    InputError
        ``non-finite``: NaN or infinity, with their number and the first place. ``score-range``:
        scores outside [0, 1].
    """
    if normalise not in NORMALISATIONS:
        raise UsageError(
            f"no normalisation {normalise!r}; {did_you_mean(normalise, NORMALISATIONS)}"
        )
    if array.dtype.kind not in "buif":
        raise InputError(
            "a number per voxel", rule="volume-dtype", file=file, value=str(array.dtype)
        )
    _check_finite(array, file)
    if normalise in DIVISORS:
        return _divided(array, DIVISORS[normalise], file)
    if normalise == "none":
        _check_range(array, file)
    exact = np.float64 if array.dtype == np.float64 else np.float32
    if normalise == "minmax":
        return _minmax(array, exact)
    if normalise == "rank":
        return _ranks(array).astype(exact)
    scores = array.astype(exact, copy=False)
    if normalise == "sigmoid":
        return _sigmoid(scores)
    return np.clip(scores, 0, 1) if normalise == "clip" else scores


def _whole(array: Array, file: str) -> NDArray[Any]:
    """Return an array of whole numbers; floats must be whole."""
    if array.dtype.kind in "ui":
        return array
    if array.dtype.kind == "b":
        return array.view(np.uint8)
    if array.dtype.kind != "f":
        raise InputError(
            "a whole number per voxel", rule="volume-dtype", file=file, value=str(array.dtype)
        )
    _check_finite(array, file)
    if (np.rint(array) != array).any():
        value = _distinct(array[np.rint(array) != array])
        hint = "labels are whole numbers: was the file interpolated, scaled, or is it a map?"
        raise InputError("whole numbers", rule="mask-values", file=file, value=value, hint=hint)
    if array.size and np.abs(array).max() > 2.0**62:
        raise InputError(
            f"labels from 0 to {LARGEST:,}", rule="mask-values", file=file, value=_distinct(array)
        )
    return array.astype(np.int64)


def _distinct(array: Array) -> str:
    values = np.unique(array)
    if array.dtype.kind == "f":
        text = ", ".join(f"{value:.6g}" for value in values[:SHOWN])
    else:
        text = ", ".join(str(value) for value in values[:SHOWN])
    more = f" and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
    return text + more


def _check_finite(array: Array, file: str) -> None:
    if array.dtype.kind != "f":
        return
    # Minimum and maximum carry a NaN on: two passes without a temporary array of flags.
    with np.errstate(all="ignore"):
        if np.isfinite(array.min(initial=0)) and np.isfinite(array.max(initial=0)):
            return
    bad = ~np.isfinite(array)
    first = np.unravel_index(int(bad.argmax()), array.shape)
    place = "[" + ", ".join(str(int(n)) for n in first) + "]"
    value = f"{int(bad.sum())} of {array.size} NaN or infinite, the first is {array[first]}"
    raise InputError("finite values", rule="non-finite", file=file, location=place, value=value)


def _check_range(array: Array, file: str) -> None:
    lowest, highest = array.min(initial=0), array.max(initial=0)
    if lowest >= 0 and highest <= 1:
        return
    hint = f"{_likely(array, lowest, highest)}; known: {', '.join(NORMALISATIONS[1:])}"
    value = f"{array.min():.6g} to {array.max():.6g}"
    raise InputError("scores in [0, 1]", rule="score-range", file=file, value=value, hint=hint)


def _likely(array: Array, lowest: float, highest: float) -> str:
    """Return a hint on values outside [0, 1]: pixels of a picture, percentages or logits."""
    if array.dtype.kind in "ui" and lowest >= 0:
        likely = "uint16" if highest > 255 else "uint8"
        return f"normalise with {likely} (divides by {DIVISORS[likely]:,})"
    if lowest >= 0 and 10 < highest <= PERCENT:
        return "if these are percentages, divide by 100 in the files; else name a normalisation"
    if lowest < 0:
        return "if these are logits, normalise with sigmoid; else name another normalisation"
    return "name a normalisation"


def _divided(array: Array, divisor: int, file: str) -> Array:
    if array.min(initial=0) < 0 or array.max(initial=0) > divisor:
        value = f"{array.min():.6g} to {array.max():.6g}"
        raise InputError(
            f"values from 0 to {divisor:,}", rule="score-range", file=file, value=value
        )
    exact = np.float64 if array.dtype == np.float64 else np.float32
    return np.divide(array, exact(divisor), dtype=exact)


def _minmax(array: Array, exact: type[np.floating[Any]]) -> Array:
    low, high = 0.0, 0.0
    if array.size:
        low, high = float(array.min()), float(array.max())
    if not high > low:
        return np.zeros(array.shape, exact)
    # Computed with halves, because the range itself may overflow.
    scores = array.astype(np.float64) * 0.5
    scores -= low * 0.5
    scores /= high * 0.5 - low * 0.5
    return np.clip(scores, 0.0, 1.0, out=scores).astype(exact, copy=False)


def _sigmoid(logits: Array) -> Array:
    small = np.exp(-np.abs(logits))  # never overflows
    scores = np.where(logits >= 0, 1 / (1 + small), small / (1 + small))
    return scores.astype(logits.dtype, copy=False)


def _ranks(array: Array) -> NDArray[np.float64]:
    if array.size < 2:
        return np.full(array.shape, 0.5)
    _, inverse, counts = np.unique(array, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    average = (last - 1 + last - counts) / 2.0  # of the first and last place of equal values
    return np.asarray((average / (array.size - 1))[inverse].reshape(array.shape))
