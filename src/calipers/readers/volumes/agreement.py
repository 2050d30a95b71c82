# SPDX-License-Identifier: Apache-2.0
"""Do labels and a map lie on one grid? Shapes, spacings and affines are compared; nothing is
resampled by itself.
"""

from __future__ import annotations

import math
from itertools import permutations
from typing import Literal, get_args

import numpy as np

from calipers.errors import InputError, UsageError, did_you_mean
from calipers.readers.volumes.limits import said
from calipers.readers.volumes.orientation import TOLERANCE, axis_codes, corner_distance
from calipers.readers.volumes.volume import F64, Array, Volume

Resize = Literal["nearest", "linear"]
MIRRORED = {"L": "R", "R": "L", "P": "A", "A": "P", "I": "S", "S": "I"}


def check_pair(
    reference: Volume, prediction: Volume, *, resize: str | None = None
) -> tuple[str, ...]:
    """Raise unless a prediction lies on the grid of its reference; return what is worth a note.

    Parameters
    ----------
    resize
        ``"nearest"`` or ``"linear"``: shapes may differ, the extent in space may not.

    Notes
    -----
    Affines agree if no corner of the two volumes is more than 1e-3 mm from its counterpart; so do
    spacings, if one of the two has no affine. A volume without either is taken to lie on the grid
    of the other, and that is noted.
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
        return (f"{lacks} has no orientation and is taken to lie on the grid of the other one",)
    return ()


def check_resize(resize: str | None) -> None:
    """Raise for a way of resizing that does not exist."""
    if resize is not None and resize not in get_args(Resize):
        raise UsageError(f"no way of resizing {resize!r}; {did_you_mean(resize, get_args(Resize))}")


def resized(array: Array, shape: tuple[int, ...], how: str) -> Array:
    """Return a map with another shape over the same extent; voxels, not their centres, fill the
    extent.

    ``"nearest"`` takes the voxel in which a new centre lies, ``"linear"`` interpolates between
    centres; beyond the outermost centres the values stay.
    """
    check_resize(how)
    if array.shape == shape:
        return array
    from scipy import ndimage

    zoom = [new / old for new, old in zip(shape, array.shape)]
    values = array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)
    order = 0 if how == "nearest" else 1
    found = ndimage.zoom(values, zoom, order=order, mode="nearest", grid_mode=True)
    return np.asarray(found).reshape(shape)


def _shapes_differ(reference: Volume, prediction: Volume) -> InputError:
    return InputError(
        f"the shape of {reference.file}, {said(reference.shape)}",
        rule="shape-mismatch",
        file=prediction.file,
        value=said(prediction.shape),
        hint=_shape_hint(reference.shape, prediction.shape),
    )


def _shape_hint(wanted: tuple[int, ...], came: tuple[int, ...]) -> str:
    """Say what may have happened to an array ``[z, ]y, x``."""
    slices = [n for n in came if n != 1]
    if len(came) != len(wanted) and slices == [n for n in wanted if n != 1]:
        return "an axis of length one is too many or too few: drop or add it before saving"
    if len(came) == len(wanted) and came in permutations(wanted):
        return "axes look transposed: arrays are [z, y, x], the x axis last"
    if len(came) == len(wanted) + 1:
        if came[1:] == wanted:
            return f"{came[0]} channels first? Save the one that holds the scores"
        if came[:-1] == wanted:
            return f"{came[-1]} channels last? Save the one that holds the scores"
    if len(came) != len(wanted):
        return "one has two axes and the other has three"
    return "resize='nearest' or 'linear' brings maps to the shape of the labels, if that is what you want"


def _check_affines(reference: Volume, prediction: Volume, wanted: F64, came: F64) -> None:
    distance = corner_distance(wanted, came, reference.size, prediction.size)
    if distance <= TOLERANCE:
        return
    codes = axis_codes(wanted, reference.dimensions), axis_codes(came, prediction.dimensions)
    raise InputError(
        f"the place of {reference.file}, axes {codes[0]}",
        rule="affine",
        file=prediction.file,
        value=f"axes {codes[1]}, corners up to {distance:.3g} mm apart",
        hint=_affine_hint(wanted, came, codes),
    )


def _affine_hint(wanted: F64, came: F64, codes: tuple[str, str]) -> str:
    if codes[0] != codes[1]:
        flipped = [k for k, (a, b) in enumerate(zip(*codes)) if MIRRORED[a] == b]
        if all(a == b or MIRRORED[a] == b for a, b in zip(*codes)):
            axes = ", ".join("xyz"[k] for k in flipped)
            return f"mirrored along {axes}: save the prediction with the affine and voxel order of its image"
        return "axes are permuted: save the prediction with the affine and voxel order of its image"
    steps = np.linalg.norm(wanted[:3, :3], axis=0), np.linalg.norm(came[:3, :3], axis=0)
    if not np.allclose(*steps, rtol=1e-5):
        return f"spacings differ: {_mm(steps[0])} and {_mm(steps[1])} mm"
    if np.allclose(wanted[:3, :3], came[:3, :3], rtol=0, atol=1e-6):
        return "only the origins differ: was the prediction cropped, or saved without its affine?"
    return "save the prediction with the affine of its image, or resample it there first"


def _mm(steps: F64) -> str:
    return " x ".join(f"{step:.6g}" for step in steps)


def _check_spacings(reference: Volume, prediction: Volume) -> None:
    wanted, came = reference.spacing or (), prediction.spacing or ()
    apart = math.dist(
        [n * step for n, step in zip(reference.size, wanted)],
        [n * step for n, step in zip(prediction.size, came)],
    )
    if apart > TOLERANCE:
        raise InputError(
            f"the extent of {reference.file}, spacing {_mm(np.array(wanted))} mm",
            rule="spacing",
            file=prediction.file,
            value=f"spacing {_mm(np.array(came))} mm",
            hint="save the prediction with the spacing of its image",
        )
