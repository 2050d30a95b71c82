# SPDX-License-Identifier: Apache-2.0
"""How good is a monitor? Its alarms against the scope of the model (OMS) and the distribution
(OOD), side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calipers.arguments import flag
from calipers.errors import InputError, UsageError
from calipers.kernels.resampling import check_seed
from calipers.monitors.alarms import (
    AlarmTable,
    Monitors,
    flags_of,
    monitors_of,
    numbers_of,
    order_of,
)
from calipers.monitors.disagreement import Disagreement, alarm_family, label_family, table
from calipers.monitors.estimating import (
    Stakes,
    decided_families,
    free_families,
    prevalence_family,
    rows_of,
    swept_families,
)
from calipers.monitors.labellings import OMS, OOD, Labelling, labellings_of
from calipers.monitors.result import Basis, MonitorEvaluation, headline
from calipers.monitors.scope_result import Scope
from calipers.monitors.thresholds import Rule, Split, rules_of, split_of, thresholds_of
from calipers.statistics.estimates import Certainty
from calipers.statistics.intervals import check_level, check_replicates
from calipers.statistics.weights import Units, units_of

I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]


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
) -> MonitorEvaluation:
    """Evaluate monitors: how well they alarm where the model fails, and where images are foreign.

    Parameters
    ----------
    alarm_scores
        One score or yes / no per image; several monitors by name; or a table of alarms that was
        read from a file.
    scope
        From `scope_scores`, `Scope.from_labels` or `Scope.from_values`; or an array, high or True
        where the model is good.
    tau
        An image is unsafe if s < tau. There is no default: with one tau results are stated for it,
        and swept over all others; with several, or none, they are only swept. A scope of 0 and 1
        needs none.
    ood
        Which images are out of distribution.
    higher_is_alarm
        Whether a high score means alarm; for all monitors, or by name.
    tuning
        Images that thresholds are chosen on; nothing else is stated of them. Without it thresholds
        are chosen on a random half of the units, and numbers at a threshold are those of the other
        half.
    threshold
        A number (alarm from this score on), ``q95-safe``, ``best-f1``, ``youden``, None for no
        threshold; for all monitors, or by name. A monitor has one threshold, chosen by the OMS
        labels where there are any: both paradigms judge the same alarms.
    hazard, reward, severity
        What an image costs if the model is trusted on it (default: 1 if an alarm is wanted), what
        it brings (default: 1 if none is), and a factor of the hazard.
    fallback_hazard, fallback_reward
        The same where the monitor rejects: a human who reads the image errs too.
    images
        Ids of the images of the arrays, if they are not in the order of the scope.
    cluster, level, replicates, seed, ci
        Of the intervals: what is resampled (patient if known, else image), and how; see `evaluate`.

    Notes
    -----
    Quantities are defined in `calipers.monitors.quantities` and `calipers.monitors.alarming`. Ties
    of scores are one operating point; only thresholds between different scores count. Without an
    unsafe image, or without a safe one, all are undefined. In rows ``n_references`` is the number
    of images on which an alarm is wanted, ``n_predictions`` the number of images rejected.

    Examples
    --------
    >>> import calipers as cal
    >>> scope = [1, 1, 1, 1, 0, 0, 1, 0, 1, 0]
    >>> alarms = [.1, .2, .1, .3, .9, .8, .4, .3, .2, .7]
    >>> found = cal.evaluate_monitor(alarms, scope, threshold=.5)
    >>> round(found.get("AUROC").value, 3), found.get("AUROC").n_references
    (0.938, 4)
    >>> found.get("sensitivity").value, found.get("RH").value
    (0.75, 0.1)
    """
    check_level(level)
    check_seed(seed)
    if flag("ci", ci):
        check_replicates(replicates)
    given = _given(alarm_scores, scope, ood, tuning, images)
    monitors = monitors_of(alarm_scores, given.scope.images, given.order, higher_is_alarm)
    stakes = _stakes(given, hazard, reward, severity, fallback_hazard, fallback_reward)
    labels = labellings_of(given.scope, tau, given.ood)
    units = units_of(given.scope.groups, len(given.scope), cluster)
    rules = rules_of(threshold, monitors)
    main = headline(labels, OMS) or headline(labels, OOD)
    rules = rules if main is not None else [None] * len(rules)
    split = split_of(rules, monitors, given.tuning, units, seed)
    thresholds = thresholds_of(
        rules, monitors, split, main.wanted if main is not None else split.tuning
    )
    certainty = Certainty(
        level=float(level), replicates=int(replicates) if ci else 0, seed=int(seed)
    )
    work = _Work(given.scope, monitors, tuple(labels), units, stakes).take(split)
    return work.evaluation(split, dict(zip(monitors.names, thresholds)), certainty)


@dataclass(frozen=True)
class _Given:
    """The images with what was said of them."""

    scope: Scope
    order: I64 | None
    ood: Flags | None
    tuning: Flags | None


@dataclass(frozen=True)
class _Work:
    """What is judged."""

    scope: Scope
    monitors: Monitors
    labels: tuple[Labelling, ...]
    units: Units
    stakes: Stakes

    def take(self, split: Split) -> _Work:
        """Return the images that are not for tuning; all of them if the halves were made by chance."""
        if split.random or split.judged.all():
            return self
        kept = split.judged
        return _Work(
            self.scope.take(kept),
            replace(self.monitors, alarm=self.monitors.alarm[:, kept]),
            tuple(one.take(kept) for one in self.labels),
            self.units.take(np.flatnonzero(kept)),
            self.stakes.take(kept),
        )

    def evaluation(
        self, split: Split, thresholds: Mapping[str, Any], certainty: Certainty
    ) -> MonitorEvaluation:
        """Return the result."""
        judged = split.judged if split.random else np.ones(len(self.scope), np.bool_)
        some = self.units.take(np.flatnonzero(judged))
        loss = None if self.scope.binary else 1.0 - self.scope.score
        free = free_families(self.monitors, self.labels, loss)
        decided = self._decided(judged, list(thresholds.values()))
        prevalence = prevalence_family(self.scope.model, self.labels)
        further = swept_families(self.monitors, self.labels)
        rows = [
            *rows_of([prevalence, *free], self.units, certainty),
            *rows_of(further, self.units, replace(certainty, replicates=0)),
            *rows_of(decided, some, certainty),
        ]
        disagreement = self._disagreement(judged, thresholds, certainty, some)
        main = headline(self.labels, OMS)
        return MonitorEvaluation(
            monitors=self.monitors.names,
            scope=self.scope,
            rows=(*rows, *(disagreement.rows if disagreement is not None else ())),
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
        self, judged: Flags, thresholds: Mapping[str, Any], certainty: Certainty, some: Units
    ) -> Disagreement | None:
        """Return the tables of both kinds of labels, if there are both."""
        oms, ood = headline(self.labels, OMS), headline(self.labels, OOD)
        if oms is None or ood is None:
            return None
        rows = rows_of(
            [label_family(self.scope.model, ood.wanted, oms.wanted)], self.units, certainty
        )
        kinds = ood.wanted[judged], oms.wanted[judged]
        rejected = {
            name: thresholds[name].rejected(alarm[judged])
            for name, alarm in zip(self.monitors.names, self.monitors.alarm)
            if thresholds[name] is not None and thresholds[name].known
        }
        rows += rows_of(
            [alarm_family(name, *kinds, flags) for name, flags in rejected.items()], some, certainty
        )
        counts = {name: table(*kinds, flags) for name, flags in rejected.items()}
        return Disagreement(table(ood.wanted, oms.wanted), counts, tuple(rows))

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


def _given(alarms: Any, scope: Any, ood: Any, tuning: Any, images: Sequence[str] | None) -> _Given:
    found = scope if isinstance(scope, Scope) else Scope.from_values(scope)
    if not len(found):
        raise InputError("at least one image", rule="no-images")
    if isinstance(alarms, AlarmTable):  # brought into the order of the images when it was read
        ood = alarms.ood if ood is None else ood
        tuning = alarms.tuning if tuning is None else tuning
        groups = getattr(alarms, "groups", None) or {}
        found = replace(found, groups={**groups, **found.groups})
    order = order_of(images, found.images)
    flags = (
        flags_of(ood, "ood", found.images, order),
        flags_of(tuning, "tuning", found.images, order),
    )
    if flags[1] is not None and (flags[1].all() or not flags[1].any()):
        what = "all" if flags[1].all() else "none"
        raise UsageError(
            f"{what} of the {len(found)} images are for tuning: some are needed to tune and some to judge"
        )
    return _Given(found, order, *flags)


def _stakes(given: _Given, hazard: Any, reward: Any, severity: Any, *fallback: Any) -> Stakes:
    def numbers(column: Any, name: str) -> NDArray[np.float64]:
        return numbers_of(column, name, given.scope.images, given.order)

    return Stakes(
        None if hazard is None else numbers(hazard, "hazard"),
        None if reward is None else numbers(reward, "reward"),
        numbers(1.0 if severity is None else severity, "severity"),
        numbers(fallback[0], "fallback_hazard"),
        numbers(fallback[1], "fallback_reward"),
    )
