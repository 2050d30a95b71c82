# SPDX-License-Identifier: Apache-2.0
"""Evaluate monitors against the scope of the model (OMS) and against the distribution (OOD).

`evaluate_monitor` takes alarm scores and a scope, and returns a `MonitorEvaluation`; users and
``calipers monitor`` call it. Inputs are checked and brought into the order of the scope
(`calipers.monitors.labels`), thresholds are chosen on tuning images, and the quantities of
`calipers.monitors.metrics` are estimated on the images that are stated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calipers.arguments import names_arguments
from calipers.arrays import I64, Flags
from calipers.data.look_alikes import note_on_split
from calipers.errors import InputError, UsageError, flag, whole
from calipers.kernels.resampling import check_seed
from calipers.kernels.route import MOST_THREADS
from calipers.monitors.estimates import (
    Disagreement,
    Stakes,
    alarm_family,
    decided_families,
    free_families,
    label_family,
    prevalence_family,
    rows_of,
    swept_families,
    table,
)
from calipers.monitors.halves import DEFAULT_HALVES, HalvesInput, repeat_halves
from calipers.monitors.labels import (
    OMS,
    OOD,
    AlarmTable,
    Labelling,
    Monitors,
    Rule,
    Split,
    flags_of,
    labellings_of,
    monitors_of,
    numbers_of,
    order_of,
    rules_of,
    split_of,
    thresholds_of,
)
from calipers.monitors.result import Basis, MonitorEvaluation, headline
from calipers.monitors.scope import Scope
from calipers.statistics.estimates import Certainty, Progress
from calipers.statistics.intervals import check_level, check_replicates
from calipers.statistics.weights import Units, units_of

MOST_HALVES = 10_000


@names_arguments
def evaluate_monitor(
    alarm_scores: ArrayLike | Mapping[str, ArrayLike] | AlarmTable,
    scope: Scope | ArrayLike,
    tau: float | Sequence[float] | None = None,
    ood: ArrayLike | None = None,
    *,
    higher_is_alarm: bool | Mapping[str, bool] = True,
    tuning: ArrayLike | None = None,
    threshold: Rule | Mapping[str, Rule] = "q95-safe",
    hazard: ArrayLike | None = None,
    reward: ArrayLike | None = None,
    severity: ArrayLike | None = None,
    fallback_hazard: ArrayLike = 0.0,
    fallback_reward: ArrayLike = 0.0,
    images: Sequence[str] | None = None,
    cluster: str | Sequence[str] = "auto",
    level: float = 0.95,
    replicates: int = 2000,
    seed: int = 0,
    ci: bool = True,
    halves: int = DEFAULT_HALVES,
    jobs: int = 1,
    progress: Progress | None = None,
) -> MonitorEvaluation:
    """Evaluate how well monitors alarm where the model fails, and out of distribution.

    Parameters
    ----------
    alarm_scores
        One score or yes / no per image; several monitors by name; or a table of alarms that was
        read from a file.
    scope
        From `scope_scores`, `Scope.from_labels` or `Scope.from_values`; or an array, high or True
        where the model is good.
    tau
        An image is unsafe if s < tau. There is no default: with one tau, results are stated for it,
        and swept over all others; with several or none, they are only swept. A scope of 0 and 1
        needs no tau.
    ood
        Which images are out of distribution.
    higher_is_alarm
        Whether a high score means alarm; for all monitors, or by name.
    tuning
        Images that thresholds are chosen on; they are used for nothing else. Without it thresholds
        are chosen on a random half of the units, and numbers at a threshold are those of the other
        half; see ``halves``.
    threshold
        A number (alarm at this score or above), ``q95-safe``, ``best-f1``, ``youden``, None for no
        threshold; for all monitors, or by name. A monitor has one threshold, chosen by the OMS
        labels where there are any: both paradigms judge the same alarms.
    hazard, reward, severity
        The cost of an image if the model is trusted on it (default: 1 if an alarm is wanted), its
        benefit (default: 1 if no alarm is wanted), and a factor of the hazard.
    fallback_hazard, fallback_reward
        Cost and benefit of rejected images: a human who reads them makes errors too.
    images
        Ids of the images of the arrays, if they are not in the order of the scope.
    cluster, level, replicates, seed, ci
        Settings of the intervals: the unit of resampling (patient if known, else image), and how;
        see `evaluate`.
    halves
        How many random halves thresholds are chosen on, if no tuning images are given. Mean and
        spread over all of them are `MonitorEvaluation.halves`; rows and counts are those of the
        first.
    jobs
        Number of threads for replicates and halves; the result does not depend on it.
    progress
        Called with (steps done, steps in all): for replicates, several times, then for halves.

    Notes
    -----
    Quantities are defined in `calipers.monitors.metrics`. Ties of scores are one operating point;
    only thresholds between different scores count. Without an unsafe image, or without a safe one,
    all are undefined. In rows ``n_references`` is the number of images on which an alarm is wanted,
    ``n_predictions`` the number of images rejected.

    Examples
    --------
    >>> import calipers as cal
    >>> scope = [1, 1, 1, 1, 0, 0, 1, 0, 1, 0]
    >>> alarms = [.1, .2, .1, .3, .9, .8, .4, .3, .2, .7]
    >>> result = cal.evaluate_monitor(alarms, scope, threshold=.5)
    >>> round(result.get("AUROC").value, 3), result.get("AUROC").n_references
    (0.938, 4)
    >>> result.get("sensitivity").value, result.get("RH").value
    (0.75, 0.1)
    """
    check_level(level)
    check_seed(seed)
    whole("halves", halves, 1, MOST_HALVES)
    whole("jobs", jobs, 1, MOST_THREADS)
    if flag("ci", ci):
        check_replicates(replicates)
    # The scope gives the order of images; everything else is brought into it.
    inputs = _inputs(alarm_scores, scope, ood, tuning, images)
    monitors = monitors_of(alarm_scores, inputs.scope.images, inputs.order, higher_is_alarm)
    stakes = _stakes(inputs, hazard, reward, severity, fallback_hazard, fallback_reward)
    labels = labellings_of(inputs.scope, tau, inputs.ood)
    units = units_of(inputs.scope.groups, len(inputs.scope), cluster)
    rules = rules_of(threshold, monitors)
    main = headline(labels, OMS) or headline(labels, OOD)
    if main is None:  # without a headline there are no labels to choose a threshold by
        rules = [None] * len(rules)
    split = split_of(rules, monitors, inputs.tuning, units, seed)
    if inputs.tuning is not None and "patient" in inputs.scope.groups:
        patients = inputs.scope.groups["patient"]
        sides = patients[split.tuning].tolist(), patients[split.judged].tolist()
        split = replace(split, notes=tuple(note_on_split(*sides, "tuning")))
    positive = main.positive if main is not None else split.tuning
    thresholds = thresholds_of(rules, monitors, split, positive)
    certainty = Certainty(
        level=float(level), replicates=int(replicates) if ci else 0, seed=int(seed)
    )
    # Tuning images of the caller leave here: nothing is stated of them. Random halves stay, because
    # quantities without a threshold need no tuning.
    work = _MonitorWork(inputs.scope, monitors, tuple(labels), units, stakes).take(split)
    how: dict[str, Any] = {"workers": jobs, "progress": progress}
    result = work.evaluation(split, dict(zip(monitors.names, thresholds)), certainty, how)
    if not split.random:
        return result
    random_halves = HalvesInput(monitors, labels, rules, positive, units, stakes)
    return replace(result, halves=repeat_halves(random_halves, int(seed), int(halves), **how))


@dataclass(frozen=True)
class _Inputs:
    """The images with their flags, checked and in the order of the scope."""

    scope: Scope
    order: I64 | None
    ood: Flags | None
    tuning: Flags | None


@dataclass(frozen=True)
class _MonitorWork:
    """Everything that an evaluation is computed from, on the images that are stated."""

    scope: Scope
    monitors: Monitors
    labels: tuple[Labelling, ...]
    units: Units
    stakes: Stakes

    def take(self, split: Split) -> _MonitorWork:
        """Return the images that are not for tuning; all images if the split is random."""
        if split.random or split.judged.all():
            return self
        images = split.judged
        return _MonitorWork(
            self.scope.take(images),
            replace(self.monitors, alarm=self.monitors.alarm[:, images]),
            tuple(one.take(images) for one in self.labels),
            self.units.take(np.flatnonzero(images)),
            self.stakes.take(images),
        )

    def evaluation(
        self,
        split: Split,
        thresholds: Mapping[str, Any],
        certainty: Certainty,
        how: Mapping[str, Any],
    ) -> MonitorEvaluation:
        """Return the result; ``how`` are the workers and the progress of `rows_of`."""
        judged = split.judged if split.random else np.ones(len(self.scope), np.bool_)
        some = self.units.take(np.flatnonzero(judged))
        # With s of 0 and 1 the graded loss is the label, and its risks are stated already.
        loss = None if self.scope.binary else 1.0 - self.scope.score
        free = free_families(self.monitors, self.labels, loss)
        decided = self._decided(judged, list(thresholds.values()))
        prevalence = prevalence_family(self.scope.model, self.labels)
        further = swept_families(self.monitors, self.labels)
        rows = [
            *rows_of([prevalence, *free], self.units, certainty, **how),
            # these quantities of the sweep are stated without intervals
            *rows_of(further, self.units, replace(certainty, replicates=0)),
            *rows_of(decided, some, certainty, **how),
        ]
        disagreement = self._disagreement(judged, thresholds, certainty, some, how)
        if disagreement is not None:
            rows += disagreement.rows
        main = headline(self.labels, OMS)
        return MonitorEvaluation(
            monitors=self.monitors.names,
            scope=self.scope,
            rows=tuple(rows),
            thresholds=thresholds,
            split=split,
            tau=None if main is None else main.tau,
            taus=tuple(one.tau for one in self.labels if one.swept and one.tau is not None),
            disagreement=disagreement,
            settings=self._settings(certainty),
            basis=Basis(
                self.monitors,
                self.labels,
                self.units,
                judged,
                certainty,
                (*free, *further),
                tuple(decided),
            ),
        )

    def _disagreement(
        self,
        judged: Flags,
        thresholds: Mapping[str, Any],
        certainty: Certainty,
        some: Units,
        how: Mapping[str, Any],
    ) -> Disagreement | None:
        """Return the tables of both kinds of labels, if there are both."""
        oms, ood = headline(self.labels, OMS), headline(self.labels, OOD)
        if oms is None or ood is None:
            return None
        labels = label_family(self.scope.model, ood.positive, oms.positive)
        rows = rows_of([labels], self.units, certainty, **how)
        # The labels are compared on all images, the alarms only on those judged at the threshold.
        kinds = ood.positive[judged], oms.positive[judged]
        families, counts = [], {}
        for name, alarm in zip(self.monitors.names, self.monitors.alarm):
            threshold = thresholds[name]
            if threshold is not None and threshold.exists:
                rejected = threshold.rejected(alarm[judged])
                families.append(alarm_family(name, *kinds, rejected))
                counts[name] = table(*kinds, rejected)
        rows += rows_of(families, some, certainty, **how)
        return Disagreement(table(ood.positive, oms.positive), counts, tuple(rows))

    def _decided(self, judged: Flags, thresholds: list[Any]) -> list[Any]:
        part = replace(self.monitors, alarm=self.monitors.alarm[:, judged])
        return decided_families(
            part, [one.take(judged) for one in self.labels], thresholds, self.stakes.take(judged)
        )

    def _settings(self, certainty: Certainty) -> dict[str, Any]:
        return {
            "scope": dict(self.scope.settings),
            "higher_is_alarm": dict(zip(self.monitors.names, self.monitors.higher_is_alarm)),
            "stakes": "labels" if self.stakes.plain else "given",
            "unit": self.units.name,
            "n_units": self.units.number,
            "level": certainty.level,
            "replicates": certainty.replicates,
            "seed": certainty.seed,
        }


def _inputs(
    alarms: Any, scope: Any, ood: Any, tuning: Any, images: Sequence[str] | None
) -> _Inputs:
    if not isinstance(scope, Scope):
        scope = Scope.from_values(scope)
    if not len(scope):
        raise InputError("at least one image", rule="no-images")
    if isinstance(alarms, AlarmTable):  # brought into the order of the images when it was read
        ood = alarms.ood if ood is None else ood
        tuning = alarms.tuning if tuning is None else tuning
        groups = getattr(alarms, "groups", None) or {}
        scope = replace(scope, groups={**groups, **scope.groups})
    order = order_of(images, scope.images)
    ood_flags = flags_of(ood, "ood", scope.images, order)
    tuning_flags = flags_of(tuning, "tuning", scope.images, order)
    if tuning_flags is not None and (tuning_flags.all() or not tuning_flags.any()):
        which = "all" if tuning_flags.all() else "none"
        raise UsageError(
            f"{which} of the {len(scope)} images are for tuning: some are needed to tune and "
            "some to judge"
        )
    return _Inputs(scope, order, ood_flags, tuning_flags)


def _stakes(inputs: _Inputs, hazard: Any, reward: Any, severity: Any, *fallback: Any) -> Stakes:
    def numbers(column: Any, name: str) -> NDArray[np.float64]:
        return numbers_of(column, name, inputs.scope.images, inputs.order)

    hazards = None if hazard is None else numbers(hazard, "hazard")
    rewards = None if reward is None else numbers(reward, "reward")
    return Stakes(
        hazards,
        rewards,
        numbers(1.0 if severity is None else severity, "severity"),
        numbers(fallback[0], "fallback_hazard"),
        numbers(fallback[1], "fallback_reward"),
    )
