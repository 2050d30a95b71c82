# SPDX-License-Identifier: Apache-2.0
"""From monitors and labels to rows of estimates, all under the same weights."""

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
    Decided,
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
    Board,
    ExcessRisk,
    Graded,
    GradedExcess,
    GradedRisk,
    Judged,
    OfLabellings,
    Ranking,
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

FLIPPED = {
    "TNR95": "FPR95",
    "specificity": "FPR",
    "coverage": "rejected",
}  # also stated as 1 minus it


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
        given = (
            (self.severity != 1.0).any() or self.fallback_hazard.any() or self.fallback_reward.any()
        )
        return self.hazard is None and self.reward is None and not given

    def decided(self, rejected: Flags, wanted: Flags, *, fixed: bool) -> Decided:
        """Return the evidence of one monitor and labelling."""
        hazard = (wanted.astype(np.float64) if self.hazard is None else self.hazard) * self.severity
        reward = (~wanted).astype(np.float64) if self.reward is None else self.reward
        left = np.where(rejected, self.fallback_hazard, hazard)
        return Decided(
            rejected,
            wanted,
            hazard,
            reward,
            left,
            np.where(rejected, self.fallback_reward, reward),
            fixed,
        )

    def take(self, images: Flags) -> Stakes:
        """Return the stakes of some images."""
        return Stakes(
            None if self.hazard is None else self.hazard[images],
            None if self.reward is None else self.reward[images],
            self.severity[images],
            self.fallback_hazard[images],
            self.fallback_reward[images],
        )


@dataclass(frozen=True)
class Family:
    """A metric, its evidence, and what each of its columns is called: (name, group)."""

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
    found = []
    headlines, swept = (
        [one for one in labels if not one.swept],
        [one for one in labels if one.swept],
    )
    best = None if loss is None else Board(loss)
    for name, alarm in zip(monitors.names, monitors.alarm):
        board = Board(alarm)
        if headlines:
            judged, n = Judged(board, np.stack([one.wanted for one in headlines])), len(headlines)
            found += [
                _family(name, metric, judged, headlines)
                for metric in (Ranking(RANKINGS, n), Risk(RISKS, n), ExcessRisk(EXCESS, n))
            ]
        if best is not None:
            graded = Graded(board, (best.alarm > 0)[None], best)
            group = {"paradigm": OMS}
            found.append(
                Family(name, GradedRisk(("AURC/graded",), 1), graded, (("AURC/graded", group),))
            )
            found.append(
                Family(
                    name, GradedExcess(("E-AURC/graded",), 1), graded, (("E-AURC/graded", group),)
                )
            )
        if swept:
            judged = Judged(board, np.stack([one.wanted for one in swept]))
            found.append(_family(name, Ranking(("AUROC",), len(swept)), judged, swept))
    return found


def swept_families(monitors: Monitors, labels: Sequence[Labelling]) -> list[Family]:
    """Return the further quantities of the sweep, which are stated without intervals."""
    swept = [one for one in labels if one.swept]
    if not swept:
        return []
    wanted = np.stack([one.wanted for one in swept])
    return [
        _family(name, Ranking(SWEPT, len(swept)), Judged(Board(alarm), wanted), swept)
        for name, alarm in zip(monitors.names, monitors.alarm)
    ]


def decided_families(
    monitors: Monitors,
    labels: Sequence[Labelling],
    thresholds: Sequence[Threshold | None],
    stakes: Stakes,
) -> list[Family]:
    """Return what is measured at the thresholds, for the headlines."""
    found = []
    for name, alarm, threshold in zip(monitors.names, monitors.alarm, thresholds):
        if threshold is None:
            continue
        rejected = threshold.rejected(alarm)
        for one in labels:
            if one.swept:
                continue
            decided = stakes.decided(rejected, one.wanted, fixed=threshold.known)
            families = [AtThreshold(), Signed()]
            if stakes.plain:
                families.append(Hazards(bounds=PLAIN))
            elif stakes.hazard is None or one.paradigm == OMS:  # a given hazard is one of failures
                families += [Hazards(("SG", "AC"), ANYTHING), Hazards(("RH",), LOSSES)]
            for metric in families:
                columns = tuple((column, one.group) for column in metric.names)
                found.append(Family(name, metric, decided, columns))
    return found


def prevalence_family(model: str, labels: Sequence[Labelling]) -> Family:
    """Return the share of images on which an alarm is wanted, under every labelling."""
    everyone = np.ones(len(labels[0].wanted), np.bool_)
    marks = Marks.of([(one.wanted, everyone) for one in labels])
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
            made = family.metric.facts.id
            rows.append(Row(family.model, name, made, None, group, estimate))
            if name in FLIPPED:
                rows.append(Row(family.model, FLIPPED[name], made, None, group, flipped(estimate)))
    return rows


def flipped(e: Estimate) -> Estimate:
    """Return the estimate of 1 minus a share."""
    return replace(
        e,
        value=1.0 - e.value,
        low=1.0 - e.high,
        high=1.0 - e.low,
        bias=-e.bias,
        percentile=(1.0 - e.percentile[1], 1.0 - e.percentile[0]),
        mc_error=(e.mc_error[1], e.mc_error[0]),
    )


def _family(name: str, metric: OfLabellings, judged: Judged, labels: Sequence[Labelling]) -> Family:
    columns = tuple((column, one.group) for one in labels for column in metric.names)
    return Family(name, metric, judged, columns)
