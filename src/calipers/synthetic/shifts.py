# SPDX-License-Identifier: Apache-2.0
"""Shifts of made-up images, a simulated detector that some of them harm, and monitors that see one
or the other.

The point of these cohorts is that two questions have different, known answers: is an image out of
distribution (OOD), and does the detector fail on it (it is out of the model's scope, OMS)? Three
plain facts make the difference:

- harmless shifts (``sky``, ``tint``) are OOD, and the detector is as good on them as on usual
  images;
- harmful shifts (``fog``, ``blur``, ``night``) are OOD, and the detector often fails;
- hard images (far runways, flat lesions) are in distribution, and the detector often fails all the
  same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import erf
from typing import overload

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from calipers.errors import UsageError
from calipers.tables import Cohort
from calipers.tables.objects import Column

F64 = NDArray[np.float64]
U8 = NDArray[np.uint8]
Flags = NDArray[np.bool_]

SPLITS = ("fit", "tuning", "test")
FIT_SHARE = 0.3  # of the usual images; shifted ones are never for fitting
TUNING_SHARE = 0.25  # of the images that are not for fitting
SEES_SHIFT, SEES_FAILURE = (
    3.0,
    2.0,
)  # standard deviations between the means of the two groups that a monitor sees
MONITORS = ("shift-detector", "failure-predictor", "random")


@dataclass(frozen=True, slots=True)
class Shift:
    """A kind of image.

    ``fails`` are the probabilities that the detector fails on an easy and on a hard image;
    ``extra`` is the probability of a false alarm beside whatever else it finds.
    """

    name: str
    share: float  # of all images
    ood: bool
    fails: tuple[float, float]
    extra: float = 0.05


@dataclass(frozen=True)
class ShiftedCohort:
    """A cohort with the model ``detector``, what was planted in it, and the alarms of three
    monitors.

    ``columns`` has one entry per image: ``ood`` (bool), ``shift`` (its name), ``split`` (``fit``,
    ``tuning`` or ``test``), ``hard`` (bool) and ``fails`` (bool: the detector was made to fail).
    They are groups of the cohort too.

    ``alarms`` are normal with deviation 1. ``shift-detector`` lies 3 higher on OOD images and knows
    nothing else; ``failure-predictor`` lies 2 higher where the detector fails and knows nothing
    else; ``random`` knows nothing.
    """

    cohort: Cohort
    columns: Mapping[str, Column]
    alarms: Mapping[str, F64]
    draw: Callable[[int], U8]  # image -> (height, width, 3)
    seed: int

    @property
    def pictures(self) -> Sequence[U8]:
        """The pictures, each drawn when it is asked for."""
        return DrawnPictures(self.cohort.n_images, self.draw)

    def split(self, name: str) -> Flags:
        """Return which images belong to a split."""
        if name not in SPLITS:
            raise UsageError(f"no split {name!r}; known: {', '.join(SPLITS)}")
        return np.asarray(self.columns["split"] == name)

    def expected_auroc(self, monitor: str, paradigm: str, images: Flags | None = None) -> float:
        """Return the expected AUROC of a monitor for ``"ood"`` or ``"oms"`` labels.

        Notes
        -----
        With A = Phi(d / sqrt 2) for a monitor whose own groups lie d apart, and p and q the shares
        of its upper group among the positives and the negatives of the paradigm, it is ``1/2 + (p -
        q) (A - 1/2)``: A for its own labels, one half for ``random``. Positives of ``"oms"`` are
        the images on which the detector fails; the makers of cohorts say for which tau these are
        the images with s < tau. NaN without positives or negatives.
        """
        selection = np.ones(self.cohort.n_images, np.bool_) if images is None else images
        groups = {
            "shift-detector": ("ood", SEES_SHIFT),
            "failure-predictor": ("fails", SEES_FAILURE),
        }
        labels = {"ood": "ood", "oms": "fails"}
        if monitor not in MONITORS or paradigm not in labels:
            raise UsageError(
                f"monitors: {', '.join(MONITORS)}; paradigms: ood, oms; "
                f"got {monitor!r}, {paradigm!r}"
            )
        positive = np.asarray(self.columns[labels[paradigm]], np.bool_)[selection]
        if positive.all() or not positive.any():
            return float("nan")
        if monitor == "random":
            return 0.5
        column, apart = groups[monitor]
        upper = np.asarray(self.columns[column], np.bool_)[selection]
        share = float(upper[positive].mean() - upper[~positive].mean())
        return 0.5 + share * 0.5 * erf(apart / 2.0)  # Phi(d / sqrt 2) - 1/2


@dataclass(frozen=True)
class DrawnPictures(Sequence[U8]):
    """Pictures that are drawn when they are asked for."""

    n: int
    draw: Callable[[int], U8]

    def __len__(self) -> int:
        return self.n

    @overload
    def __getitem__(self, k: int) -> U8: ...

    @overload
    def __getitem__(self, k: slice) -> Sequence[U8]: ...

    def __getitem__(self, k: int | slice) -> U8 | Sequence[U8]:
        """Return one picture, or several of a slice."""
        if isinstance(k, slice):
            return [self.draw(one) for one in range(*k.indices(self.n))]
        if not -self.n <= k < self.n:
            raise IndexError(k)
        return self.draw(int(k) % self.n)


def dealt(shifts: Sequence[Shift], n: int, random: Generator) -> list[Shift]:
    """Return the shift of every image: shares as exact as n admits, in random order."""
    share = np.array([shift.share for shift in shifts])
    # Rounding the running sum keeps the total at n, which rounding each share would not.
    bounds = np.round(np.cumsum(share) / share.sum() * n).astype(np.int64)
    which = np.searchsorted(bounds, np.arange(n), side="right")
    return [shifts[k] for k in random.permutation(which).tolist()]


def dealt_splits(ood: Flags, random: Generator) -> Column:
    """Return the split of every image: some usual images for fitting; of the others a quarter for
    tuning.
    """
    chance = random.random((2, len(ood)))
    fit = ~ood & (chance[0] < FIT_SHARE)
    return np.where(fit, "fit", np.where(chance[1] < TUNING_SHARE, "tuning", "test"))


def simulated_alarms(ood: Flags, fails: Flags, random: Generator) -> dict[str, F64]:
    """Return the alarms of the three monitors, (n,) each."""
    noise = random.normal(size=(3, len(ood)))
    return {
        "shift-detector": noise[0] + SEES_SHIFT * ood,
        "failure-predictor": noise[1] + SEES_FAILURE * fails,
        "random": noise[2],
    }


def shifted(picture: F64, shift: str, random: Generator) -> F64:
    """Return a (height, width, 3) picture of 0 to 1 under a shift, as it is for other names."""
    if shift == "fog":
        return np.asarray(0.25 * picture + 0.75 * np.array([0.78, 0.80, 0.82]))
    if shift == "blur":
        from scipy.ndimage import gaussian_filter

        return np.asarray(gaussian_filter(picture, (2.5, 2.5, 0.0)))
    if shift == "night":
        return np.asarray(0.15 * picture + random.normal(0.0, 0.03, picture.shape))
    if shift == "tint":
        return np.asarray(picture * np.array([0.75, 1.05, 1.2]))
    return picture


def eight_bits(picture: F64) -> U8:
    """Return a picture of 0 to 1 in eight bits."""
    return np.asarray(np.round(255.0 * np.clip(picture, 0.0, 1.0)), np.uint8)
