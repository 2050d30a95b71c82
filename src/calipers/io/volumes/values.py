# SPDX-License-Identifier: Apache-2.0
"""Stored values and what they mean: labels (`as_labels`), scores (`as_map`), and `write_volume`.

`calipers.io.volumes.samples` calls the first two on the voxels of a sample. The caller declares
what the values mean (``"binary"``, ``"nonzero"``, ``"instances"`` or a list of values for labels, a
normalisation for scores); values that do not fit are errors, never guessed.

`write_volume` is the way back: it writes an array to a file that `open_volume` reads again,
atomically and with the same bytes every time.
"""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from calipers.arrays import F64, Array
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.io.volumes.open import stem_of
from calipers.io.volumes.volume import check_affine, check_spacing
from calipers.results.files import write_atomically

MEANINGS = ("binary", "nonzero", "instances")
Meaning = str | Sequence[int]
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

SUFFIXES = (".npy", ".npz", ".png", ".tif", ".tiff", ".nii", ".nii.gz")
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # zip archives have dates; always this one
# Kinds of NumPy by the mode of Pillow that stores them without loss.
PICTURES = {"u1": "L", "u2": "I;16", "f4": "F"}


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


def write_volume(
    path: str | PathLike[str],
    array: Array,
    spacing: Sequence[float] | None = None,
    affine: F64 | None = None,
) -> None:
    """Write an array ``[z, ]y, x`` so that `open_volume` gives it back.

    Parameters
    ----------
    path
        ``.npy``, ``.npz``, ``.png`` (2D, up to 16 bits), ``.tif`` (a page per slice), ``.nii`` or
        ``.nii.gz`` (extra ``volumes``).
    spacing
        mm along x, y[, z]: npz and NIfTI.
    affine
        (4, 4), from the index x, y, z to mm, RAS: npz and NIfTI. The spacing follows from it.
    """
    target = Path(fspath(path))
    suffixes = [suffix for suffix in SUFFIXES if target.name.lower().endswith(suffix)]
    suffix = max(suffixes, key=len, default="")
    if not suffix or stem_of(target.name) is None:
        raise UsageError(f"cannot write {target.name!r}; known: {', '.join(SUFFIXES)}")
    values = np.ascontiguousarray(array)
    if values.ndim not in (2, 3) or values.dtype.kind not in "buif" or values.dtype.itemsize > 8:
        raise UsageError(
            "a volume is an array of numbers with two or three axes, "
            f"not of shape {values.shape} and type {values.dtype}"
        )
    if affine is not None:
        affine = check_affine(np.asarray(affine, np.float64), str(target))
    if spacing is not None:
        spacing = check_spacing(tuple(spacing), str(target))
    if suffix in (".npy", ".png", ".tif", ".tiff"):
        if affine is not None or spacing is not None:
            raise UsageError(f"{suffix} files hold no spacing and no affine; write .npz or .nii.gz")
        content = _npy(values) if suffix == ".npy" else _picture(values, suffix)
    elif suffix == ".npz":
        content = _npz(values, spacing, affine)
    else:
        content = _nifti(values, spacing, affine)
        if suffix == ".nii.gz":
            content = gzip.compress(content, compresslevel=6, mtime=0)
    write_atomically(target, content)


def _npy(values: Array) -> bytes:
    sink = io.BytesIO()
    npy.write_array(sink, values, allow_pickle=False)
    return sink.getvalue()


def _npz(values: Array, spacing: Sequence[float] | None, affine: F64 | None) -> bytes:
    members = {"array": values}
    if affine is not None:
        members["affine"] = affine
    elif spacing is not None:
        members["spacing"] = np.array(spacing, np.float64)
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, member in members.items():
            # With a plain name `writestr` would store the time of writing, and equal results would
            # differ.
            info = zipfile.ZipInfo(f"{name}.npy", LONG_AGO)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, _npy(member))
    return sink.getvalue()


def _picture(values: Array, suffix: str) -> bytes:
    from PIL import Image

    stored = values.astype(np.uint8) if values.dtype == np.bool_ else values
    kind = stored.dtype.newbyteorder("<").str[1:]
    if kind not in PICTURES or (suffix == ".png" and (kind == "f4" or values.ndim != 2)):
        content = "8 or 16 bits, or 32-bit floats"
        if suffix == ".png":
            content = "two axes and 8 or 16 bits"
        raise UsageError(
            f"{suffix} files hold {content}, not shape {values.shape} of {values.dtype}"
        )
    planes = stored[None] if values.ndim == 2 else stored
    pages = [Image.fromarray(plane) for plane in planes]
    options: dict[str, Any] = {}
    if suffix != ".png":
        options = {
            "compression": "tiff_adobe_deflate",
            "save_all": True,
            "append_images": pages[1:],
        }
    sink = io.BytesIO()
    pages[0].save(sink, format="PNG" if suffix == ".png" else "TIFF", **options)
    return sink.getvalue()


def _nifti(values: Array, spacing: Sequence[float] | None, affine: F64 | None) -> bytes:
    try:
        import nibabel
    except ImportError:
        raise UsageError('NIfTI files need nibabel: pip install "calipers[volumes]"') from None
    stored = values.astype(np.uint8) if values.dtype == np.bool_ else values
    if stored.dtype == np.float16:
        stored = stored.astype(np.float32)
    # NIfTI counts x first, our arrays count it last.
    image = nibabel.Nifti1Image(stored.T, affine, dtype=stored.dtype)
    image.header.set_xyzt_units("mm")
    if affine is not None:
        image.header.set_sform(affine, code=1)
        image.header.set_qform(None, code=0)
    else:
        # A spacing alone says nothing about orientation, so neither form may claim one (code 0).
        image.header.set_sform(None, code=0)
        image.header.set_qform(None, code=0)
        image.header.set_zooms(spacing or (1.0,) * values.ndim)
    return bytes(image.to_bytes())
