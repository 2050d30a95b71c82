# SPDX-License-Identifier: Apache-2.0
"""From monitors and labels to rows of estimates, all under the same bootstrap weights.

A *family* is a metric with its evidence; `evaluate_monitor` collects families and estimates them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.monitors.alarming import (
    ANYTHING,
    LOSSES,
    PLAIN,
    AtThreshold,
    Decisions,
    Hazards,
    Signed,
)
from calipers.monitors.alarms import Monitors
from calipers.monitors.labellings import OMS, Labelling
from calipers.monitors.quantities import (
    EXCESS,
    RANKINGS,
    RISKS,
    SWEPT,
    AlarmRanking,
    Board,
    ExcessRisk,
    GradedAlarms,
    GradedExcess,
    GradedRisk,
    LabelledAlarms,
    OfLabellings,
    Risk,
)
from calipers.monitors.shares import Marks, Share
from calipers.monitors.thresholds import Threshold
from calipers.results import Estimate, Row
from calipers.statistics.estimates import Case, Certainty, estimates
from calipers.statistics.weights import Units

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]
Group = Mapping[str, str]

# quantities that are also stated as 1 minus them
FLIPPED = {"TNR95": "FPR95", "specificity": "FPR", "coverage": "rejected"}


@dataclass(frozen=True)
class Stakes:
    """What an image costs and brings with and without the monitor; None stands for the labels."""

    hazard: F64 | None
    reward: F64 | None
    severity: F64
    fallback_hazard: F64
    fallback_reward: F64

    @property
    def plain(self) -> bool:
        """Whether hazard and reward are 0 or 1 and the fall-back has neither: SG, RH and AC are
        then shares.
        """
        other = (
            (self.severity != 1.0).any() or self.fallback_hazard.any() or self.fallback_reward.any()
        )
        return self.hazard is None and self.reward is None and not other

    def decisions(self, rejected: Flags, positive: Flags, *, fixed: bool) -> Decisions:
        """Return the evidence of one monitor and labelling."""
        hazard = positive.astype(np.float64) if self.hazard is None else self.hazard
        hazard = hazard * self.severity
        reward = (~positive).astype(np.float64) if self.reward is None else self.reward
        return Decisions(
            rejected=rejected,
            positive=positive,
            hazard=hazard,
            reward=reward,
            hazard_left=np.where(rejected, self.fallback_hazard, hazard),
            reward_left=np.where(rejected, self.fallback_reward, reward),
            fixed=fixed,
        )

    def take(self, images: Flags) -> Stakes:
        """Return the stakes of some images."""
        hazard = None if self.hazard is None else self.hazard[images]
        reward = None if self.reward is None else self.reward[images]
        return Stakes(
            hazard,
            reward,
            self.severity[images],
            self.fallback_hazard[images],
            self.fallback_reward[images],
        )


@dataclass(frozen=True)
class Family:
    """A metric, its evidence, and (name, group) of each of its columns."""

    model: str
    metric: Any
    evidence: Any
    columns: tuple[tuple[str, Group], ...]

    @property
    def case(self) -> Case:
        """What `statistics.estimates` takes."""
        return self.metric, self.evidence

    def narrowed(self, column: int) -> Family:
        """Return one column alone, which is quicker to draw."""
        metric, evidence = self.metric.narrowed(self.evidence, column)
        return Family(self.model, metric, evidence, (self.columns[column],))

    def find(self, name: str, group: Group) -> tuple[int, bool] | None:
        """Return which column holds a quantity, and whether as 1 minus it."""
        for k, (column, of) in enumerate(self.columns):
            if of == group and name in (column, FLIPPED.get(column)):
                return k, name != column
        return None


def free_families(
    monitors: Monitors, labels: Sequence[Labelling], loss: F64 | None
) -> list[Family]:
    """Return what needs no threshold: all quantities of the headlines, the AUROC of the sweep, and
    graded risks.
    """
    families = []
    headlines = [one for one in labels if not one.swept]
    swept = [one for one in labels if one.swept]
    n = len(headlines)
    best = None if loss is None else Board(loss)
    for name, alarm in zip(monitors.names, monitors.alarm):
        board = Board(alarm)
        if headlines:
            evidence = LabelledAlarms(board, np.stack([one.positive for one in headlines]))
            for metric in (AlarmRanking(RANKINGS, n), Risk(RISKS, n), ExcessRisk(EXCESS, n)):
                families.append(_family(name, metric, evidence, headlines))
        if best is not None:
            graded = GradedAlarms(board, (best.alarm > 0)[None], best)
            for risk in (GradedRisk(("AURC/graded",), 1), GradedExcess(("E-AURC/graded",), 1)):
                columns = ((risk.names[0], {"paradigm": OMS}),)
                families.append(Family(name, risk, graded, columns))
        if swept:
            evidence = LabelledAlarms(board, np.stack([one.positive for one in swept]))
            families.append(_family(name, AlarmRanking(("AUROC",), len(swept)), evidence, swept))
    return families


def swept_families(monitors: Monitors, labels: Sequence[Labelling]) -> list[Family]:
    """Return the further quantities of the sweep, which are stated without intervals."""
    swept = [one for one in labels if one.swept]
    if not swept:
        return []
    positive = np.stack([one.positive for one in swept])
    families = []
    for name, alarm in zip(monitors.names, monitors.alarm):
        evidence = LabelledAlarms(Board(alarm), positive)
        families.append(_family(name, AlarmRanking(SWEPT, len(swept)), evidence, swept))
    return families


def decided_families(
    monitors: Monitors,
    labels: Sequence[Labelling],
    thresholds: Sequence[Threshold | None],
    stakes: Stakes,
) -> list[Family]:
    """Return what is measured at the thresholds, for the headlines."""
    families = []
    for name, alarm, threshold in zip(monitors.names, monitors.alarm, thresholds):
        if threshold is None:
            continue
        rejected = threshold.rejected(alarm)
        for one in labels:
            if one.swept:
                continue
            decisions = stakes.decisions(rejected, one.positive, fixed=threshold.exists)
            metrics = [AtThreshold(), Signed()]
            if stakes.plain:
                metrics.append(Hazards(bounds=PLAIN))
            elif stakes.hazard is None or one.paradigm == OMS:
                # A hazard of the caller is the cost of a failure, so it has no meaning for OOD.
                metrics += [Hazards(("SG", "AC"), ANYTHING), Hazards(("RH",), LOSSES)]
            for metric in metrics:
                columns = tuple((column, one.group) for column in metric.names)
                families.append(Family(name, metric, decisions, columns))
    return families


def prevalence_family(model: str, labels: Sequence[Labelling]) -> Family:
    """Return the share of images on which an alarm is wanted, under every labelling."""
    everyone = np.ones(len(labels[0].positive), np.bool_)
    marks = Marks.of([(one.positive, everyone) for one in labels])
    names = ["prevalence"] * len(labels)
    return Family(model, Share(names), marks, tuple(("prevalence", one.group) for one in labels))


def rows_of(families: Sequence[Family], units: Units, certainty: Certainty) -> list[Row]:
    """Return the rows of families on the same images, in their order."""
    if not families:
        return []
    tables = estimates([family.case for family in families], units, certainty)
    rows = []
    for family, table in zip(families, tables):
        for (name, group), estimate in zip(family.columns, table[0]):
            metric_id = family.metric.facts.id
            rows.append(Row(family.model, name, metric_id, None, group, estimate))
            if name in FLIPPED:
                other = complement(estimate)
                rows.append(Row(family.model, FLIPPED[name], metric_id, None, group, other))
    return rows


def complement(e: Estimate) -> Estimate:
    """Return the estimate of 1 minus a share."""
    return replace(
        e,
        value=1.0 - e.value,
        low=1.0 - e.high,  # the ends change places
        high=1.0 - e.low,
        bias=-e.bias,
        percentile=(1.0 - e.percentile[1], 1.0 - e.percentile[0]),
        mc_error=(e.mc_error[1], e.mc_error[0]),
    )


def _family(
    name: str, metric: OfLabellings, evidence: LabelledAlarms, labels: Sequence[Labelling]
) -> Family:
    columns = tuple((column, one.group) for one in labels for column in metric.names)
    return Family(name, metric, evidence, columns)
