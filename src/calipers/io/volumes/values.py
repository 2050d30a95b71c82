# SPDX-License-Identifier: Apache-2.0
"""Stored values and what they mean: labels (`as_labels`) and scores (`as_map`).

`calipers.io.volumes.samples` calls the first two on the voxels of a sample. The caller declares
what the values mean (``"binary"``, ``"nonzero"``, ``"instances"`` or a list of values for labels, a
normalisation for scores); values that do not fit are errors, never guessed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import Array
from calipers.errors import InputError, UsageError, did_you_mean

MEANINGS = ("binary", "nonzero", "instances")
Meaning = str | Sequence[int]
MOST_LABELS = 64  # values beyond which scores are likelier
NORMALISATIONS = (
    "none",
    "minmax",
    "sigmoid",
    "odds",
    "clip",
    "uint8",
    "uint16",
    "percent",
    "rank",
    "invert",
)
INVERTED = ",invert"  # behind another normalisation: 1 - score
# Distinct values quoted in a message.
SHOWN = 10
# Instances are numbered in int32.
LARGEST = 2**31 - 1
PERCENT = 100
DIVISORS = {"uint8": 255, "uint16": 65_535, "percent": PERCENT}
LEAST_PERCENT = 50  # a model that is never surer than this, over all its maps, has other scores
MOST_LABELS = 20  # whole numbers up to here are rather labels than pixels of a picture


def is_meaning(labels: Any) -> bool:
    """Return whether this is a word for what label values mean, or one or more whole numbers."""
    if isinstance(labels, str):
        return labels in MEANINGS
    # What can be read once would be gone after this look, and an array may have no entries.
    is_list = isinstance(labels, Collection) and getattr(labels, "shape", (1,)) != ()
    values = list(labels) if is_list else []
    if not all(isinstance(value, int | np.integer) for value in values):
        return False
    return bool(values) and not any(isinstance(value, bool) for value in values)


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
        # A list of values needs no further check: what is not in it is background.
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
    # Two values are binary whatever the second is: 1 and 255 are both usual.
    foreground = values != 0
    if not ((values == highest) | ~foreground).all():
        hint = (
            "declare their meaning: foreground values such as 1,3 (--mask-values), or nonzero, or "
            "instances (--labels)"
        )
        if len(np.unique(values)) > MOST_LABELS:
            hint = f"are these scores, and references and predictions swapped? If not, {hint}"
        elif highest == 255:
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
        a constant map becomes 0. ``"sigmoid"``: the sigmoid of logits. ``"odds"``: s / (1 + s) of
        scores from 0 to infinity; order and zeros stay, in all samples alike. ``"clip"``: values
        outside are set to 0 or 1. ``"uint8"``, ``"uint16"``, ``"percent"``: divided by 255, 65,535
        or 100.
        ``"rank"``: average rank among the voxels of this sample, from 0 to 1; a constant map
        becomes 0.5. ``"invert"``: 1 - score, of maps that are high where nothing is found; also
        behind another one, as in ``"uint8,invert"``.

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
    check_normalisation(normalise)
    if array.dtype.kind not in "buif":
        raise InputError(
            "a number per voxel", rule="volume-dtype", file=file, value=str(array.dtype)
        )
    _check_finite(array, file)
    if normalise.endswith(INVERTED):
        scores = as_map(array, normalise.removesuffix(INVERTED), file=file)
        return np.subtract(1, scores, dtype=scores.dtype)
    if normalise in DIVISORS:
        return _divided(array, normalise, file)
    if normalise in ("none", "invert"):
        _check_range(array, file)
    # Scores keep their precision: float64 would double the memory of float32 maps for nothing, and
    # float32 would merge scores that differ in float64, which changes ranks.
    exact = np.float64 if array.dtype == np.float64 else np.float32
    if normalise == "minmax":
        return _minmax(array, exact)
    if normalise == "rank":
        return _ranks(array).astype(exact)
    scores = array.astype(exact, copy=False)
    if normalise == "sigmoid":
        return _sigmoid(scores)
    if normalise == "odds":
        return _from_odds(scores, file)
    if normalise == "invert":
        return np.subtract(1, scores, dtype=exact)
    return np.clip(scores, 0, 1) if normalise == "clip" else scores


def check_normalisation(normalise: str | Mapping[str, str]) -> None:
    """Raise for a normalisation that does not exist: one for all models, or a mapping from model
    to its own.
    """
    names = [normalise] if isinstance(normalise, str) else list(normalise.values())
    for name in names:
        if name.removesuffix(INVERTED) not in NORMALISATIONS:
            raise UsageError(f"no normalisation {name!r}; {did_you_mean(name, NORMALISATIONS)}")


def normalisations(normalise: str | Mapping[str, str], models: Iterable[str]) -> dict[str, str]:
    """Return the normalisation of every model; one that a mapping does not name has none."""
    names = list(models)
    if isinstance(normalise, str):
        return dict.fromkeys(names, normalise)
    for model in normalise:
        if model not in names:
            raise UsageError(f"normalise: no model {model!r}; {did_you_mean(model, names)}")
    return {model: normalise.get(model, "none") for model in names}


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
    # Near 2^63 a float no longer becomes a whole number of 64 bits.
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
    # `initial` makes an empty array pass, and cannot hide a value outside [0, 1].
    lowest, highest = array.min(initial=0), array.max(initial=0)
    if lowest >= 0 and highest <= 1:
        return
    hint = f"{_likely(array, lowest, highest)}; known: {', '.join(NORMALISATIONS[1:])}"
    value = f"{array.min():.6g} to {array.max():.6g}"
    raise InputError("scores in [0, 1]", rule="score-range", file=file, value=value, hint=hint)


def _likely(array: Array, lowest: float, highest: float) -> str:
    """Return a hint on values outside [0, 1]: pixels of a picture, percentages or logits."""
    if array.dtype.kind in "ui" and lowest >= 0:
        if highest <= MOST_LABELS:
            return (
                "if these are labels, pass predictions='labels' or 'instances' (--predictions); "
                "else name a normalisation"
            )
        likely = "uint16" if highest > 255 else "uint8"
        return f"normalise with {likely} (divides by {DIVISORS[likely]:,})"
    # Lower values may as well be logits or ratios.
    if lowest >= 0 and LEAST_PERCENT < highest <= PERCENT:
        return "if these are percentages, normalise with percent; else name another normalisation"
    if lowest < 0:
        return "if these are logits, normalise with sigmoid; else name another normalisation"
    return "odds keeps the order of any scores of 0 or more; else name another normalisation"


def _divided(array: Array, normalise: str, file: str) -> Array:
    divisor = DIVISORS[normalise]
    # Scores that are in [0, 1] already would all become nearly 0, and nobody would see why. A
    # sample may well have no score above 1 %: of percentages, the whole model is looked at.
    is_unit = array.dtype.kind == "f" and 0 < array.max(initial=0) <= 1
    if is_unit and normalise != "percent":
        raise InputError(
            f"values from 0 to {divisor:,}",
            rule="score-range",
            file=file,
            value=f"{array.min():.6g} to {array.max():.6g}",
            hint="these are scores in [0, 1] already: name only the models that need it, such as "
            f"NAME={normalise}",
        )
    # As a number of Python: 65,535 is infinite in 16 bits.
    if array.min(initial=0) < 0 or float(array.max(initial=0)) > divisor:
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


def _from_odds(odds: Array, file: str) -> Array:
    if odds.min(initial=0) < 0:
        value = f"{odds.min():.6g} to {odds.max():.6g}"
        raise InputError("scores of 0 or more", rule="score-range", file=file, value=value)
    # In float64, where few large scores become equal.
    wide = odds.astype(np.float64)
    return wide / (1.0 + wide)


def _ranks(array: Array) -> NDArray[np.float64]:
    # A single voxel has no rank among others: the middle.
    if array.size < 2:
        return np.full(array.shape, 0.5)
    _, inverse, counts = np.unique(array, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    average = (last - 1 + last - counts) / 2.0  # of the first and last place of equal values
    return np.asarray((average / (array.size - 1))[inverse].reshape(array.shape))
