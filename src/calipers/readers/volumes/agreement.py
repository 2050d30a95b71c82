# SPDX-License-Identifier: Apache-2.0
"""Check that labels and a map lie on the same grid.

Two `Volume` headers come in; `check_pair` compares their shapes, spacings and affines and raises an
`InputError` that names the difference. Nothing is resampled unless the caller asks for `resize`.
"""

from __future__ import annotations

import math
from itertools import permutations
from typing import Literal, get_args

import numpy as np

from calipers.errors import InputError, UsageError, did_you_mean
from calipers.readers.volumes.limits import shape_text
from calipers.readers.volumes.orientation import TOLERANCE, axis_codes, corner_distance
from calipers.readers.volumes.volume import F64, Array, Volume

Resize = Literal["nearest", "linear"]
MIRRORED = {"L": "R", "R": "L", "P": "A", "A": "P", "I": "S", "S": "I"}


def check_pair(
    reference: Volume, prediction: Volume, *, resize: str | None = None
) -> tuple[str, ...]:
    """Raise unless a prediction lies on the grid of its reference; return notes.

    Parameters
    ----------
    resize
        ``"nearest"`` or ``"linear"``: shapes may differ, the extent in space may not.

    Notes
    -----
    Affines agree if no corner of the two volumes is more than 1e-3 mm from its counterpart. If one
    of the two has no affine, the spacings are compared in the same way. A volume without either is
    assumed to lie on the grid of the other, and a note says so.
    """
    check_resize(resize)
    if len(reference.shape) != len(prediction.shape) or (
        reference.shape != prediction.shape and resize is None
    ):
        raise _shapes_differ(reference, prediction)
    if reference.affine is not None and prediction.affine is not None:
        _check_affines(reference, prediction, reference.affine, prediction.affine)
        return ()
    if reference.spacing is not None and prediction.spacing is not None:
        _check_spacings(reference, prediction)
    if (reference.affine is None) != (prediction.affine is None):
        lacks = "the map" if prediction.affine is None else "the reference"
        return (f"{lacks} has no orientation and is assumed to lie on the grid of the other",)
    return ()


def check_resize(resize: str | None) -> None:
    """Raise for an unknown way of resizing."""
    if resize is not None and resize not in get_args(Resize):
        raise UsageError(f"no way of resizing {resize!r}; {did_you_mean(resize, get_args(Resize))}")


def resize_map(array: Array, shape: tuple[int, ...], how: str) -> Array:
    """Return a map with another shape over the same extent.

    The voxels fill the extent, not their centres. ``"nearest"`` takes the voxel in which a new
    centre lies, ``"linear"`` interpolates between centres; beyond the outermost centres the values
    are those of the outermost voxels.
    """
    check_resize(how)
    if array.shape == shape:
        return array
    from scipy import ndimage

    zoom = [new / old for new, old in zip(shape, array.shape)]
    values = array
    if array.dtype not in (np.float32, np.float64):
        values = array.astype(np.float32)
    order = 0 if how == "nearest" else 1
    result = ndimage.zoom(values, zoom, order=order, mode="nearest", grid_mode=True)
    return np.asarray(result).reshape(shape)


def _shapes_differ(reference: Volume, prediction: Volume) -> InputError:
    return InputError(
        f"the shape of {reference.file}, {shape_text(reference.shape)}",
        rule="shape-mismatch",
        file=prediction.file,
        value=shape_text(prediction.shape),
        hint=_shape_hint(reference.shape, prediction.shape),
    )


def _shape_hint(reference: tuple[int, ...], prediction: tuple[int, ...]) -> str:
    """Return the likely reason why an array ``[z, ]y, x`` has another shape."""
    long_axes = [n for n in prediction if n != 1]
    expected_long_axes = [n for n in reference if n != 1]
    if len(prediction) != len(reference) and long_axes == expected_long_axes:
        return "there is an axis of length one too many or too few: drop or add it before saving"
    if len(prediction) == len(reference) and prediction in permutations(reference):
        return "the axes look transposed: arrays are [z, y, x], with the x axis last"
    if len(prediction) == len(reference) + 1:
        if prediction[1:] == reference:
            return f"{prediction[0]} channels first? Save the one that holds the scores"
        if prediction[:-1] == reference:
            return f"{prediction[-1]} channels last? Save the one that holds the scores"
    if len(prediction) != len(reference):
        return "one has two axes and the other has three"
    return "to resample maps to the shape of the labels, pass resize='nearest' or 'linear'"


def _check_affines(
    reference: Volume, prediction: Volume, reference_affine: F64, prediction_affine: F64
) -> None:
    distance = corner_distance(reference_affine, prediction_affine, reference.size, prediction.size)
    if distance <= TOLERANCE:
        return
    codes = (
        axis_codes(reference_affine, reference.dimensions),
        axis_codes(prediction_affine, prediction.dimensions),
    )
    raise InputError(
        f"the place of {reference.file}, axes {codes[0]}",
        rule="affine",
        file=prediction.file,
        value=f"axes {codes[1]}, corners up to {distance:.3g} mm apart",
        hint=_affine_hint(reference_affine, prediction_affine, codes),
    )


def _affine_hint(reference: F64, prediction: F64, codes: tuple[str, str]) -> str:
    if codes[0] != codes[1]:
        remedy = "save the prediction with the affine and voxel order of its image"
        if all(a == b or MIRRORED[a] == b for a, b in zip(*codes)):
            axes = [axis for axis, a, b in zip("xyz", *codes) if MIRRORED[a] == b]
            return f"mirrored along {', '.join(axes)}: {remedy}"
        return f"axes are permuted: {remedy}"
    steps = np.linalg.norm(reference[:3, :3], axis=0), np.linalg.norm(prediction[:3, :3], axis=0)
    if not np.allclose(*steps, rtol=1e-5):
        return f"spacings differ: {_mm(steps[0])} and {_mm(steps[1])} mm"
    if np.allclose(reference[:3, :3], prediction[:3, :3], rtol=0, atol=1e-6):
        return "only the origins differ: was the prediction cropped, or saved without its affine?"
    return "save the prediction with the affine of its image, or resample it there first"


def _mm(steps: F64) -> str:
    return " x ".join(f"{step:.6g}" for step in steps)


def _check_spacings(reference: Volume, prediction: Volume) -> None:
    reference_spacing, prediction_spacing = reference.spacing or (), prediction.spacing or ()
    distance = math.dist(
        [n * step for n, step in zip(reference.size, reference_spacing)],
        [n * step for n, step in zip(prediction.size, prediction_spacing)],
    )
    if distance > TOLERANCE:
        raise InputError(
            f"the extent of {reference.file}, spacing {_mm(np.array(reference_spacing))} mm",
            rule="spacing",
            file=prediction.file,
            value=f"spacing {_mm(np.array(prediction_spacing))} mm",
            hint="save the prediction with the spacing of its image",
        )
