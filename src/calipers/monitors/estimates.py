# SPDX-License-Identifier: Apache-2.0
"""From monitors and labels to rows of estimates and differences, under the same bootstrap weights.

A *family* is a metric with its evidence (`Family`). `evaluate_monitor` collects families:
`free_families` without a threshold, `swept_families` over tau, `decided_families` at thresholds
with their `Stakes`, `prevalence_family`, `label_family` and `alarm_family` of labels; `rows_of`
estimates them.

`chance_tests` compare the AUROC of all monitors with 0.5, corrected for their number. `differences`
are paired: two monitors on the same images, or one monitor under both paradigms, both
sides resampled with the same weights (`draw_replicates`); `MonitorEvaluation.compare` and
`paradigm_gaps` call it. `Disagreement` says how far OOD labels and OMS labels disagree, and which
images monitors reject in each case.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calipers.arrays import F64, I64, Flags
from calipers.errors import UsageError, did_you_mean
from calipers.monitors.labels import OMS, Labelling, Monitors, Threshold
from calipers.monitors.metrics import (
    ANYTHING,
    EXCESS,
    LOSSES,
    PLAIN,
    RANKINGS,
    RISKS,
    SWEPT,
    AlarmRanking,
    AtThreshold,
    Board,
    Decisions,
    ExcessRisk,
    GradedAlarms,
    GradedExcess,
    GradedRisk,
    Hazards,
    LabelledAlarms,
    Marks,
    OfLabellings,
    Risk,
    Share,
    Signed,
)
from calipers.results.comparison import Difference
from calipers.results.estimate import Estimate, Row, number
from calipers.show.comparison_tables import Manner, describe
from calipers.statistics.comparison import adjusted, judge, max_t
from calipers.statistics.estimates import Case, Certainty, Progress, estimates, replicates
from calipers.statistics.intervals import Interval
from calipers.statistics.support import FEWEST_UNITS
from calipers.statistics.weights import Units

Group = Mapping[str, str]

# quantities that are also stated as 1 minus them
FLIPPED = {"TNR95": "FPR95", "specificity": "FPR", "coverage": "rejected"}

NAN = float("nan")
CHANCE = 0.5  # AUROC of a monitor that knows nothing
# FPR95 rests on the few wanted images with the lowest scores: below this number it is optimistic,
# and its intervals held the truth in .78 to .92 of simulated data sets (20 to 40 wanted images).
AT_95 = ("TNR95", "FPR95")
FEWEST_WANTED = 100
DEFAULT_REPLICATES = 2000  # for the test, if the evaluation has no intervals
# The direction decides ranks and the verdict on a difference.
LOWER_IS_BETTER = (
    "FPR95",
    "FPR",
    "AURC",
    "E-AURC",
    "AUGRC",
    "AURC/graded",
    "E-AURC/graded",
    "RH",
    "AC",
    "rejected",
)

SHARES = {
    "OOD-safe": "share of the images out of distribution that are safe",
    "ID-unsafe": "share of the images in distribution that are unsafe",
    "unsafe-ID": "share of the unsafe images that are in distribution",
    "safe-OOD": "share of the safe images that are out of distribution",
    "labels-agree": "share of all images that are both unsafe and out of distribution, or neither",
}
YES_NO = ("no", "yes")
BOTH = {"paradigm": "both"}  # the group of shares that look at both kinds of labels


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
            # A quantity may be stored as its complement: FPR95 is 1 - TNR95.
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
        # Shared by all families of a monitor: the images are sorted once.
        board = Board(alarm)
        if headlines:
            evidence = LabelledAlarms(board, np.stack([one.positive for one in headlines]))
            for metric in (AlarmRanking(RANKINGS, n), Risk(RISKS, n), ExcessRisk(EXCESS, n)):
                families.append(_family(name, metric, evidence, headlines))
        if best is not None:
            # The order by the loss itself is the best one there is; its AURC is what E-AURC
            # subtracts.
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


def rows_of(
    families: Sequence[Family],
    units: Units,
    certainty: Certainty,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Row]:
    """Return the rows of families on the same images, in their order."""
    if not families:
        return []
    cases = [family.case for family in families]
    tables = estimates(cases, units, certainty, progress, workers)
    rows = []
    for family, table in zip(families, tables):
        for (name, group), estimate in zip(family.columns, table[0]):
            metric_id = family.metric.facts.id
            if name in AT_95:
                estimate = _with_enough_wanted(estimate)
            rows.append(Row(family.model, name, metric_id, None, group, estimate))
            if name in FLIPPED:
                other = complement(estimate)
                rows.append(Row(family.model, FLIPPED[name], metric_id, None, group, other))
    return rows


def _with_enough_wanted(e: Estimate) -> Estimate:
    """Return an estimate at 95 % without its interval if too few images carry it."""
    if math.isnan(e.low) or e.n_references >= FEWEST_WANTED:
        return e
    nowhere = (NAN, NAN)
    return replace(
        e,
        low=NAN,
        high=NAN,
        method="none",
        reason="too_few_positives",
        percentile=nowhere,
        mc_error=nowhere,
        flags=(),
    )


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


@dataclass(frozen=True)
class Disagreement:
    """The tables of counts, and the shares with their intervals."""

    labels: I64  # (2, 2): out of distribution by unsafe, of all images stated
    # monitor -> (2, 2, 2): out of distribution, unsafe, rejected, of the images judged
    alarms: Mapping[str, I64]
    rows: tuple[Row, ...]

    def share(self, name: str) -> Estimate:
        """Return one of the shares of labels."""
        shares = {row.metric: row.estimate for row in self.rows if row.metric in SHARES}
        if name not in shares:
            raise UsageError(f"no share {name!r}; {did_you_mean(name, SHARES)}")
        return shares[name]

    def rejected(self, monitor: str, *, ood: bool, unsafe: bool) -> Estimate:
        """Return which share of the images of one kind a monitor rejects."""
        group = {"ood": YES_NO[ood], "unsafe": YES_NO[unsafe]}
        for row in self.rows:
            if (row.model, row.metric, row.group) == (monitor, "rejected", group):
                return row.estimate
        raise UsageError(
            f"no table of the monitor {monitor!r}; {did_you_mean(monitor, self.alarms)}"
        )

    def records(self) -> list[dict[str, Any]]:
        """Return the cells one by one: monitor (None for the labels alone), ood, unsafe, rejected,
        images, share.
        """
        cells = list(_cells(None, self.labels))
        for name, counts in self.alarms.items():
            cells += _cells(name, counts)
        return cells


def label_family(model: str, ood: Flags, unsafe: Flags) -> Family:
    """Return the shares of labels."""
    everyone = np.ones(len(ood), np.bool_)
    pairs = [
        (~unsafe, ood),
        (unsafe, ~ood),
        (~ood, unsafe),
        (ood, ~unsafe),
        (ood == unsafe, everyone),
    ]
    return Family(
        model, Share(tuple(SHARES)), Marks.of(pairs), tuple((name, BOTH) for name in SHARES)
    )


def alarm_family(monitor: str, ood: Flags, unsafe: Flags, rejected: Flags) -> Family:
    """Return which share of the images of every kind a monitor rejects."""
    pairs, columns = [], []
    for o in (False, True):
        for u in (False, True):
            pairs.append((rejected, (ood == o) & (unsafe == u)))
            columns.append(("rejected", {"ood": YES_NO[o], "unsafe": YES_NO[u]}))
    return Family(monitor, Share(["rejected"] * 4), Marks.of(pairs), tuple(columns))


def table(*flags: Flags) -> I64:
    """Return the counts of all combinations of flags, one axis each: no, yes."""
    # The flags as digits of a binary number: one count gives all combinations.
    code = np.zeros(len(flags[0]), np.int64)
    for column in flags:
        code = 2 * code + column
    return np.bincount(code, minlength=2 ** len(flags)).reshape((2,) * len(flags)).astype(np.int64)


def _cells(monitor: str | None, counts: I64) -> Iterator[dict[str, Any]]:
    total = int(counts.sum())
    for place in np.ndindex(counts.shape):
        n = int(counts[place])
        rejected = bool(place[2]) if len(place) == 3 else None
        yield {
            "monitor": monitor,
            "ood": bool(place[0]),
            "unsafe": bool(place[1]),
            "rejected": rejected,
            "images": n,
            "share": n / total if total else None,
        }


def _family(
    name: str, metric: OfLabellings, evidence: LabelledAlarms, labels: Sequence[Labelling]
) -> Family:
    columns = tuple((column, one.group) for one in labels for column in metric.names)
    return Family(name, metric, evidence, columns)


@dataclass(frozen=True)
class MonitorReplicates:
    """A quantity of one monitor: its value, its replicates, and the numbers of images behind it."""

    label: str
    value: float
    replicates: F64  # (B,)
    counts: tuple[int, int, int]
    bounds: tuple[float, float]
    id: str
    reason: str


def draw_replicates(
    quantities: Sequence[tuple[str, Family, int, bool]], units: Units, certainty: Certainty
) -> list[MonitorReplicates]:
    """Return quantities under the same weights, for (label, family, column, flipped)."""
    families = [family.narrowed(column) for _, family, column, _ in quantities]
    # Below this there is no interval, so nothing is drawn and the test is undefined.
    if units.number >= FEWEST_UNITS:
        how = replace(certainty, replicates=certainty.replicates or DEFAULT_REPLICATES)
        tables = replicates([family.case for family in families], units, how)
    else:
        tables = [np.full((1, 1, 1), np.nan)] * len(families)
    ones = np.ones((1, len(units.code)), np.int64)
    results = []
    for (label, _, _, flip), family, table in zip(quantities, families, tables):
        metric, evidence = family.case
        value = float(metric.value(evidence, ones)[0, 0, 0])
        counts = metric.counts(evidence, ones[0])[0, 0].tolist()
        reason = ""
        if math.isnan(value):
            reason = metric.reasons(evidence).get((0, 0), "no_objects")
        sample = table[:, 0, 0]
        if flip:
            value, sample = 1.0 - value, 1.0 - sample
        results.append(
            MonitorReplicates(
                label=label,
                value=value,
                replicates=sample,
                counts=(counts[0], counts[1], counts[2]),
                bounds=metric.facts.bounds,
                id=metric.facts.id,
                reason=reason,
            )
        )
    return results


@dataclass(frozen=True, slots=True)
class ChanceTest:
    """Whether the AUROC of a monitor differs from 0.5, by itself and among all monitors."""

    monitor: str
    value: float
    p: float  # two-sided
    p_adjusted: float  # NaN without a test
    family: int  # monitors with a test

    def as_dict(self, paradigm: str) -> dict[str, Any]:
        """Return the test for JSON."""
        return {
            "monitor": self.monitor,
            "paradigm": paradigm,
            "value": number(self.value),
            "p": number(self.p),
            "p_adjusted": number(self.p_adjusted),
            "family": self.family,
        }


def chance_tests(samples: Sequence[MonitorReplicates], units: Units) -> list[ChanceTest]:
    """Return the tests of AUROC against 0.5, corrected by the largest t of shared replicates."""
    d = np.array([one.value - CHANCE for one in samples])
    rows = np.stack([one.replicates - CHANCE for one in samples], axis=1)
    alone = judge(d, rows, None, units, 0.95).p
    p_adjusted = np.full(len(d), np.nan)
    # A monitor without a p value of its own is no member of the family. Replicates without an
    # image of one kind have no AUROC, whatever the monitor.
    members, defined = np.flatnonzero(~np.isnan(alone)), ~np.isnan(rows).any(axis=1)
    family = len(members)
    if family:
        rows = rows[defined][:, members]
        n_images, n_wanted, _ = samples[0].counts
        # An AUROC rests on the rarer kind of images, however many there are of the other.
        n_rarer = max(min(units.number, n_wanted, n_images - n_wanted), 2)
        p_adjusted[members] = max_t(d[members], rows, n_rarer)
    tests = []
    for one, p, adjusted_p in zip(samples, alone.tolist(), p_adjusted.tolist()):
        tests.append(ChanceTest(one.label, one.value, p, adjusted_p, family))
    return tests


def differences(
    pairs: Sequence[tuple[MonitorReplicates, MonitorReplicates]],
    metric: str,
    units: Units,
    level: float,
    correction: str = "holm",
) -> list[Difference]:
    """Return the differences of pairs, tested by the bootstrap and corrected as one family."""
    if not pairs:
        return []
    d = np.array([a.value - b.value for a, b in pairs])
    # Differences per replicate, not of intervals: what both sides share cancels.
    replicates_of_d = np.stack([a.replicates - b.replicates for a, b in pairs], axis=1)
    if metric in AT_95:
        for k, (a, _) in enumerate(pairs):
            # Without a value in any replicate there is neither an interval nor a p value.
            if a.counts[1] < FEWEST_WANTED:
                replicates_of_d[:, k] = NAN
    tests = judge(d, replicates_of_d, None, units, level)
    p_adjusted, family = adjusted(tests.p, correction)
    higher = metric not in LOWER_IS_BETTER
    rows = []
    for k, (a, b) in enumerate(pairs):
        p = float(p_adjusted[k])
        verdict = "no_difference_shown"
        if math.isnan(p):
            verdict = "undefined"
        elif p < 1.0 - level:
            verdict = "a_better" if bool(d[k] > 0) == higher else "b_better"
        row = Difference(
            metric=metric,
            metric_id=a.id,
            label=None,
            model_a=a.label,
            model_b=b.label,
            value_a=a.value,
            value_b=b.value,
            estimate=_estimate(float(d[k]), tests.intervals[k], (a, b), units, level, metric),
            p=float(tests.p[k]),
            p_adjusted=p,
            p_share=float(tests.p_share[k]),
            test="bootstrap",
            correction=correction,
            family=family,
            verdict=verdict,
            margin=None,
            margin_verdict=None,
            trades_undefined=0,
            sentence="",
        )
        rows.append(replace(row, sentence=describe(row, Manner.of(a.bounds, higher))))
    return rows


def _estimate(
    d: float,
    interval: Interval,
    pair: tuple[MonitorReplicates, MonitorReplicates],
    units: Units,
    level: float,
    metric: str,
) -> Estimate:
    a, b = pair
    reason = (a.reason or b.reason) if math.isnan(d) else None
    if reason is None and metric in AT_95 and a.counts[1] < FEWEST_WANTED:
        reason = "too_few_positives"
    return interval.around(d, level, (units.name, units.number), a.counts, reason)
