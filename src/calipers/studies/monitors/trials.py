# SPDX-License-Identifier: Apache-2.0
"""One detector on one set of images, with monitors that are evaluated under both paradigms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from calipers.kernels.monitoring import Cuts, Standing
from calipers.monitors.baselines import BASELINES, baseline
from calipers.monitors.baselines_pictures import picture_features
from calipers.monitors.evaluation import evaluate_monitor
from calipers.monitors.labellings import OMS, OOD
from calipers.monitors.result import MonitorEvaluation, headline
from calipers.monitors.scope import scope_scores
from calipers.monitors.scope_result import Scope
from calipers.statistics.ranks import kendall_tau_b
from calipers.statistics.weights import Units, bootstrap, units_of
from calipers.synthetic.shifts import ShiftedCohort
from calipers.tables import Cohort

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]

TAU = 0.5
IDEAL = {OMS: "ideal-OMS", OOD: "ideal-OOD"}  # they know the labels: not part of any ranking
USUAL = "none"
RAISED_CUT = 0.6  # of the same detector as another model


@dataclass(frozen=True)
class Trial:
    """A detector, its scope, and the evaluation of monitors on the images for testing."""

    name: str  # "runways"
    title: str  # "Runways"
    evaluation: MonitorEvaluation
    cohort: Cohort  # the images for testing
    # s as the mean over all declared classes; the evaluation has the mean over those present
    declared_scope: Scope
    raised_scope: Scope  # s of the same detector with a higher score cut
    # (n,) the shift of every image; "ID" or "OOD" where no shift is known
    kinds: NDArray[np.str_]
    planted_failures: (
        Flags | None
    )  # (n,) on which images the detector was made to fail; None for given data

    @property
    def scope(self) -> Scope:
        """The score of the detector on every image for testing."""
        return self.evaluation.scope

    @property
    def unsafe(self) -> Flags:
        """(n,) OMS labels."""
        return self.scope.unsafe(TAU)

    @property
    def ood(self) -> Flags | None:
        """(n,) OOD labels, if there are any."""
        labels = headline(self.evaluation.basis.labels, OOD)
        return None if labels is None else labels.positive

    @property
    def contenders(self) -> tuple[str, ...]:
        """The monitors that do not know the labels, unlike the ideal ones."""
        return tuple(name for name in self.evaluation.monitors if name not in IDEAL.values())

    @property
    def is_mixed(self) -> bool:
        """Whether there are safe and unsafe images."""
        return bool(self.unsafe.any() and not self.unsafe.all())

    @property
    def is_comparable(self) -> bool:
        """Whether both paradigms have images of both kinds."""
        return bool(
            self.is_mixed and self.ood is not None and self.ood.any() and not self.ood.all()
        )

    def alarm(self, monitor: str) -> F64:
        """Return (n,) alarm scores, high where a monitor alarms."""
        monitors = self.evaluation.basis.monitors
        return np.asarray(monitors.alarm[monitors.index(monitor)])

    def order(self, paradigm: str) -> list[str]:
        """Return the contenders from the best AUROC to the worst."""
        return sorted(
            self.contenders, key=lambda name: -self.evaluation.get("AUROC", name, paradigm).value
        )

    @cached_property
    def harm(self) -> tuple[float, float]:
        """95 % confidence interval (bootstrap percentiles) of the difference between the shares of
        unsafe images among OOD and among ID images.
        """
        assert self.ood is not None
        basis = self.evaluation.basis
        marks = np.stack(
            [self.ood & self.unsafe, self.ood, ~self.ood & self.unsafe, ~self.ood]
        ).astype(np.float64)
        blocks = bootstrap(basis.units, basis.certainty.replicates, basis.certainty.seed)
        sums = np.concatenate([weights @ marks.T for weights in blocks])
        # A replicate without any OOD image, or without any ID image, has no difference.
        sums = sums[(sums[:, 1] > 0) & (sums[:, 3] > 0)]
        differences = sums[:, 0] / sums[:, 1] - sums[:, 2] / sums[:, 3]
        low, high = np.quantile(differences, (0.025, 0.975))
        return float(low), float(high)

    @cached_property
    def rank_agreement(self) -> RankAgreement:
        """Agreement of the orders of the contenders under both paradigms; needs OOD labels."""
        assert self.ood is not None
        return rank_agreement(self, np.stack([self.unsafe, self.ood]))


@dataclass(frozen=True)
class RankAgreement:
    """Two orders by AUROC, under the same bootstrap weights."""

    kendall: float  # tau-b between them
    low: float
    high: float
    winner_differs: float  # share of the replicates in which no monitor wins both
    replicates: int  # that are defined


def rank_agreement(trial: Trial, labels: Flags) -> RankAgreement:
    """Return the agreement of the orders under two labellings (2, n)."""
    certainty = trial.evaluation.basis.certainty
    units = trial.evaluation.basis.units
    alarms = np.stack([trial.alarm(name) for name in trial.contenders])
    table = bootstrap_auroc(
        alarms, labels, units, certainty.replicates, certainty.seed
    )  # (M, 2, B)
    value = auroc(alarms, labels)
    # Replicates without both kinds of images are undefined and left out for all monitors.
    table = table[:, :, ~np.isnan(table).any(axis=(0, 1))]
    # Ties for the first place: the winners agree if any monitor wins under both.
    best = table == table.max(axis=0)
    differs = ~(best[:, 0] & best[:, 1]).any(axis=0)
    taus = []
    for b in range(table.shape[2]):
        taus.append(float(kendall_tau_b(table[:, 0, b], table[None, :, 1, b])[0]))
    low, high = np.nanquantile(taus, (0.025, 0.975)) if taus else (np.nan, np.nan)
    tau = float(kendall_tau_b(value[:, 0], value[None, :, 1])[0])
    return RankAgreement(tau, float(low), float(high), float(differs.mean()), table.shape[2])


def auroc(alarms: F64, labels: Flags) -> F64:
    """Return (M, L): the AUROC of monitors (M, n) under labellings (L, n); NaN where all images are
    of one kind.
    """
    ones = np.ones((1, alarms.shape[1]), np.int64)
    return np.stack([Standing.of(Cuts.of(alarm), ones).auroc(labels)[:, 0] for alarm in alarms])


def bootstrap_auroc(alarms: F64, labels: Flags, units: Units, replicates: int, seed: int) -> F64:
    """Return (M, L, B): AUROC under bootstrap weights of the units; all monitors and labellings
    share the weights.
    """
    all_cuts = [Cuts.of(alarm) for alarm in alarms]
    blocks = []
    for weights in bootstrap(units, replicates, seed):
        blocks.append(np.stack([Standing.of(cuts, weights).auroc(labels) for cuts in all_cuts]))
    return np.concatenate(blocks, axis=2)


def simulate_trial(name: str, data: ShiftedCohort, replicates: int, seed: int) -> Trial:
    """Return the trial of a simulated cohort: three simulated monitors, baselines, ideal ones."""
    fit = data.split("fit")
    alarms = dict(data.alarms) | baselines(data.cohort, "detector", fit, data.pictures)
    ood = np.asarray(data.columns["ood"], np.bool_)
    splits = (fit, data.split("tuning"))
    kinds = np.asarray(data.columns["shift"], np.str_)
    planted_failures = np.asarray(data.columns["fails"], np.bool_)
    return trial(
        name,
        (data.cohort, "detector"),
        alarms,
        splits,
        (ood, kinds, planted_failures),
        (replicates, seed),
    )


def baselines(cohort: Cohort, model: str, fit: Flags, pictures: object | None) -> dict[str, F64]:
    """Return alarms of the baseline monitors; those that need pictures only if there are any."""
    names = [name for name in BASELINES if pictures is not None or not name.startswith("image-")]
    features = None if pictures is None else picture_features(cohort, pictures)  # type: ignore[arg-type]
    return {name: baseline(name, cohort, model, features, fit) for name in names}


def trial(
    name: str,
    detector: tuple[Cohort, str],
    alarms: Mapping[str, F64],
    splits: tuple[Flags, Flags],
    labels: tuple[Flags | None, NDArray[np.str_], Flags | None],
    resampling: tuple[int, int],
    cluster: str | Sequence[str] = "auto",
) -> Trial:
    """Return the trial of a detector (cohort, model) and monitors.

    Parameters
    ----------
    splits
        Images that monitors were fitted on, which are left out, and images that thresholds are
        chosen on.
    labels
        OOD labels, kinds of images, and planted failures.
    resampling
        Replicates and seed.
    """
    (cohort, model), (fit, tuning), (ood, kinds, planted_failures) = detector, splits, labels
    scope = scope_scores(cohort, model=model, classes="present")
    alarms = {**alarms, IDEAL[OMS]: scope.unsafe(TAU).astype(np.float64)}
    if ood is not None:
        alarms[IDEAL[OOD]] = ood.astype(np.float64)
    # Images that baselines were fitted on would flatter them.
    subset = ~fit
    evaluation = evaluate_monitor(
        {key: values[subset] for key, values in alarms.items()},
        scope.take(subset),
        TAU,
        None if ood is None else ood[subset],
        tuning=tuning[subset],
        cluster=cluster,
        replicates=resampling[0],
        seed=resampling[1],
    )
    test = np.flatnonzero(~fit & ~tuning)
    return Trial(
        name,
        name[:1].upper() + name[1:],
        evaluation,
        cohort.take(test),
        scope_scores(cohort, model=model).take(test),
        scope_scores(cohort, model=model, classes="present", score_cut=RAISED_CUT).take(test),
        kinds[test],
        None if planted_failures is None else planted_failures[test],
    )


def split_images(
    cohort: Cohort, ood: Flags | None, cluster: str, random: np.random.Generator
) -> tuple[Flags, Flags]:
    """Return images to fit on (3 of 10 that are not OOD) and to tune on (a quarter of the others);
    a unit is never divided.
    """
    units = units_of(cohort.images.groups, cohort.n_images, cluster)
    chance = random.random((2, units.number))[:, units.outer_code]
    fit = chance[0] < 0.3 if ood is None else (chance[0] < 0.3) & ~ood
    return fit, ~fit & (chance[1] < 0.25)
