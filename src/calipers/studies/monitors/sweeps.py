# SPDX-License-Identifier: Apache-2.0
"""The order of monitors as the share of harmless shifts grows, and as tau grows.

Closed forms are given next to the values that the simulation measures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.monitors.scope import scope_scores
from calipers.monitors.scope_result import Scope
from calipers.statistics.weights import Units
from calipers.studies.monitors.trials import TAU, Trial, auroc, bootstrap_auroc
from calipers.synthetic.runways import SHIFTS, runway_cohort
from calipers.synthetic.shifts import SEES_FAILURE, SEES_SHIFT

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]

HARMLESS, HARMFUL = ("sky",), ("fog", "blur", "night")
WEAK = 0.6  # standard deviations by which the weak failure predictor sees a failure: AUROC 0.664
PAIR = ("shift-detector", "weak-failure-predictor")
FAR_SHARES, QUICK_FAR_SHARES = (0.0, 0.3, 0.6), (0.0, 0.3)
GRID = tuple(k / 10 for k in range(11))
POOL, QUICK_POOL = 2000, 300  # images of each kind: usual, harmless shift, harmful shift
REPLICATES = 500
BESIDE = 0.005  # a step of a curve over tau is as wide as this


@dataclass(frozen=True)
class ShareSweep:
    """Two monitors over the share of OOD images whose shift is harmless; half of all images are
    OOD.
    """

    far: float  # share of far runways, which cause failures in distribution
    shares: F64  # (S,)
    n_images: int  # at every share
    values: Mapping[str, F64]  # paradigm -> (2, S) measured AUROC of PAIR
    low: Mapping[str, F64]
    high: Mapping[str, F64]
    difference: F64  # (3, S): OMS AUROC of the first less that of the second, low, high
    theory: Mapping[str, F64]  # paradigm -> (2, S)

    def flip(self, values: F64) -> float:
        """Return the first share at which a difference becomes negative, interpolated linearly; NaN
        if it never does.
        """
        turns = np.flatnonzero((values[:-1] > 0) & (values[1:] <= 0))
        if not len(turns):
            return float("nan")
        k = int(turns[0])
        step = values[k] / (values[k] - values[k + 1])
        return float(self.shares[k] + step * (self.shares[k + 1] - self.shares[k]))

    @property
    def measured_flip(self) -> float:
        """Where the second monitor overtakes the first under OMS labels."""
        return self.flip(self.difference[0])

    @property
    def flip_bounds(self) -> tuple[float, float]:
        """The shares between which the interval of the difference contains 0, at most [0, 1]."""
        _, low, high = self.difference
        first, last = self.flip(low), self.flip(high)
        if math.isnan(first):
            first = 0.0
        if math.isnan(last):
            last = 1.0
        return first, last

    @property
    def turns(self) -> bool:
        """Whether the first monitor is certainly better without harmless shifts, and certainly
        worse with harmless shifts only.
        """
        return bool(self.difference[1, 0] > 0 and self.difference[2, -1] < 0)

    @property
    def expected_flip(self) -> float:
        """Where the second monitor overtakes the first by the closed form."""
        return self.flip(self.theory["oms"][0] - self.theory["oms"][1])


def share_sweeps(seed: int, *, quick: bool) -> tuple[ShareSweep, ...]:
    """Return the sweep for several shares of far runways."""
    far_shares, pool = (QUICK_FAR_SHARES, QUICK_POOL) if quick else (FAR_SHARES, POOL)
    return tuple(share_sweep(far, pool, seed) for far in far_shares)


def share_sweep(far: float, pool: int, seed: int) -> ShareSweep:
    """Return one sweep over shares of harmless shifts.

    There is one pool of images of three kinds, and every share takes the first images of each kind.
    Neighbouring shares have most of their images in common, so that the curves are smooth.
    """
    weights = {shift.name: shift.share for shift in SHIFTS if shift.name in HARMFUL}
    total = sum(weights.values())
    shares = {"none": 1.0, HARMLESS[0]: 1.0}
    for name, weight in weights.items():
        shares[name] = weight / total
    shifted_cohort = runway_cohort(3 * pool, seed, shares=shares, far=far)
    shift = np.asarray(shifted_cohort.columns["shift"], np.str_)
    unsafe = scope_scores(shifted_cohort.cohort).unsafe(TAU)
    ood = np.asarray(shifted_cohort.columns["ood"], np.bool_)
    # The failure predictor is noise plus a step on failures. The weak one has the same noise and a
    # smaller step.
    fails = np.asarray(shifted_cohort.columns["fails"], np.float64)
    noise = shifted_cohort.alarms["failure-predictor"] - SEES_FAILURE * fails
    alarms = np.stack([shifted_cohort.alarms[PAIR[0]], noise + WEAK * unsafe])
    kinds = [np.flatnonzero(np.isin(shift, names)) for names in (("none",), HARMLESS, HARMFUL)]
    values, replicates = [], []
    for share in GRID:
        at_share = _at(share, kinds, pool, alarms, np.stack([unsafe, ood]), seed)
        values.append(at_share[0])
        replicates.append(at_share[1])
    value = np.stack(values, axis=-1)  # (2, 2, S)
    sample = np.stack(replicates, axis=-1)  # (2, 2, B, S)
    low, high = np.nanquantile(sample, (0.025, 0.975), axis=2)
    ends = np.nanquantile(sample[0, 0] - sample[1, 0], (0.025, 0.975), axis=0)
    names = ("oms", "ood")
    return ShareSweep(
        far=far,
        shares=np.array(GRID),
        n_images=2 * pool,
        values={name: value[:, k] for k, name in enumerate(names)},
        low={name: low[:, k] for k, name in enumerate(names)},
        high={name: high[:, k] for k, name in enumerate(names)},
        difference=np.stack([value[0, 0] - value[1, 0], *ends]),
        theory=closed_form(far, np.array(GRID)),
    )


def _at(
    share: float,
    kinds: Sequence[NDArray[np.int64]],
    pool: int,
    alarms: F64,
    labels: Flags,
    seed: int,
) -> tuple[F64, F64]:
    """Return AUROC (2 monitors, 2 labellings) at one share of harmless shifts, and its replicates
    (2, 2, B).
    """
    # Half of the images are always usual; only the kind of the shifts changes.
    harmless = round(share * pool)
    images = np.concatenate([kinds[0][:pool], kinds[1][:harmless], kinds[2][: pool - harmless]])
    units = Units.of("image", None, len(images))
    subset = alarms[:, images], labels[:, images]
    return auroc(*subset), bootstrap_auroc(*subset, units, REPLICATES, seed)


def closed_form(far: float, shares: F64) -> dict[str, F64]:
    """Return the closed form: paradigm -> (2, S) AUROC of PAIR.

    A monitor whose own two groups lie d standard deviations apart has an AUROC of A = Phi(d / sqrt
    2) for these groups, and 1/2 + (p - q) (A - 1/2) for other labels, p and q being the shares of
    its upper group among the images with that label and without it.
    """
    fails = {shift.name: (1.0 - far) * shift.fails[0] + far * shift.fails[1] for shift in SHIFTS}
    weights = np.array([shift.share for shift in SHIFTS if shift.name in HARMFUL])
    harmful = float(weights @ np.array([fails[name] for name in HARMFUL]) / weights.sum())
    usual_rate = fails["none"]
    shifted_rate = shares * fails[HARMLESS[0]] + (1.0 - shares) * harmful
    p, q = (
        shifted_rate / (shifted_rate + usual_rate),
        (1.0 - shifted_rate) / (2.0 - shifted_rate - usual_rate),
    )
    sees_shift, sees_failure = (0.5 * math.erf(d / 2.0) for d in (SEES_SHIFT, WEAK))
    level = np.ones(len(shares))
    return {
        "oms": np.stack([0.5 + (p - q) * sees_shift, (0.5 + sees_failure) * level]),
        "ood": np.stack(
            [(0.5 + sees_shift) * level, 0.5 + (shifted_rate - usual_rate) * sees_failure]
        ),
    }


@dataclass(frozen=True)
class TauCurves:
    """Prevalence and AUROC of the contenders of a trial over tau, for one way to average over
    classes.
    """

    trial: str
    classes: str  # "present" or "declared"
    taus: F64  # (T,)
    prevalence: F64  # (T,)
    monitors: tuple[str, ...]
    values: F64  # (M, T), NaN where all images are of one kind
    low: F64
    high: F64

    @property
    def defined(self) -> Flags:
        """(T,) where there are safe and unsafe images."""
        return np.asarray(~np.isnan(self.values).any(axis=0))

    @property
    def winners(self) -> tuple[str, ...]:
        """The monitors that are best at some tau, in the order of tau."""
        best = self.values[:, self.defined].argmax(axis=0)
        return tuple(dict.fromkeys(self.monitors[k] for k in best.tolist()))


def tau_grid(scope: Scope) -> F64:
    """Return values of tau from near 0 to 1: every score that occurs, and a value just above it, at
    which an image with that score is unsafe.
    """
    values = scope.taus()
    steps = np.concatenate([[BESIDE, 1.0], values, values + BESIDE])
    return np.unique(steps[steps <= 1.0])


def tau_curves(trial: Trial, replicates: int) -> list[TauCurves]:
    """Return the curves for the mean over present classes and, if there are several, over declared
    ones.
    """
    scopes = {"present": trial.scope}
    if trial.scope.n_classes > 1:
        scopes["declared"] = trial.declared_scope
    return [_tau_curves(trial, name, scope, replicates) for name, scope in scopes.items()]


def _tau_curves(trial: Trial, classes: str, scope: Scope, replicates: int) -> TauCurves:
    taus = tau_grid(scope)
    labels = np.stack([scope.unsafe(tau) for tau in taus.tolist()])
    # Most values of tau give the same labels; each labelling is evaluated once.
    unique_labels, back = np.unique(labels, axis=0, return_inverse=True)
    alarms = np.stack([trial.alarm(name) for name in trial.contenders])
    basis = trial.evaluation.basis
    replicate_values = bootstrap_auroc(
        alarms, unique_labels, basis.units, replicates, basis.certainty.seed
    )
    back = back.reshape(-1)
    value = auroc(alarms, unique_labels)
    blank = np.isnan(value)
    ends = np.full((2, *value.shape), np.nan)
    for m, k in np.argwhere(~blank).tolist():
        ends[:, m, k] = np.nanquantile(replicate_values[m, k], (0.025, 0.975))
    curves = (value[:, back], ends[0][:, back], ends[1][:, back])
    return TauCurves(trial.name, classes, taus, scope.prevalence(taus), trial.contenders, *curves)
