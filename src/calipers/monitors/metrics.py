# SPDX-License-Identifier: Apache-2.0
"""Metrics of a monitor, under weights of the images: without a threshold, at one, and shares.

A *labelling* marks the positive images, on which an alarm is wanted: those out of scope at some tau
(OMS), or those out of distribution (OOD). `calipers.monitors.estimates` joins metrics with evidence
and estimates them; weights come in, values per replicate go out. One metric serves many labellings
of the same images, so that a sweep over tau sorts once.

Without a threshold (`AlarmRanking`, `Risk`, `ExcessRisk`, `GradedRisk`, `GradedExcess`):

``AUROC``
    share of pairs of a positive and another image that the alarm score puts in the right order,
    ties counting half.
``AUPR``, ``AUPR-in``
    average precision (steps, equal scores are one point) of the positive images, and of the others
    by falling score.
``TNR95``
    the largest share of other images that is accepted at an attainable threshold that rejects at
    least 95 % of the positive ones; ``FPR95`` is 1 - TNR95.
``best-F1``
    the largest F1 over all thresholds. Optimistic: chosen on the images on which it is stated.
``AURC``, ``E-AURC``, ``AUGRC``
    mean risk over all coverages, its excess over the best possible order, mean generalised risk;
    the loss is 1 on a positive image. ``AURC/graded`` and ``E-AURC/graded``: the loss is 1 - s.

At a threshold (`AtThreshold`, `Signed`, `Hazards`) an image is rejected if its alarm score is at
least the threshold. With TP positive images rejected, FN positive images accepted, FP others
rejected, TN others accepted, of N images:

``sensitivity`` TP/(TP+FN), ``specificity`` TN/(TN+FP), ``FPR`` 1 - specificity, ``precision``
TP/(TP+FP) (undefined if nothing is rejected), ``F1`` 2TP/(2TP+FP+FN), ``g-mean`` root of
sensitivity times specificity, ``coverage`` (TN+FN)/N, ``rejected`` 1 - coverage, ``MCC`` (undefined
if nothing or everything is rejected), ``Youden`` sensitivity + specificity - 1.

``SG``, ``RH``, ``AC``
    safety gain, residual hazard, availability cost: the mean hazard h without the monitor less that
    with it; the mean hazard with it; the mean reward g without it less that with it. On a rejected
    image hazard and reward are those of the fall-back. By default h = 1 on positive images, g = 1
    on others and the fall-back has neither: SG = TP/N, RH = FN/N, AC = FP/N. Always SG + RH =
    mean h.

All but coverage are undefined where the images are all of one kind. `Share` is the share of images
with a property among the images with another one, for prevalences and for tables of labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I64, BlockCache, Flags
from calipers.kernels.agreement import matthews
from calipers.kernels.roc import Cuts, Operating, Standing, augrc, aurc, best_aurc, product, ratio
from calipers.metrics.base import Facts

Weights = NDArray[Any]

TPR = 0.95
AT_CUTS: Mapping[str, Callable[[Operating], F64]] = {
    "AUPR": Operating.aupr,
    "AUPR-in": Operating.aupr_in,
    "TNR95": lambda points: points.tnr_at_tpr(TPR),
    "best-F1": Operating.best_f1,
}
# All from one order of the images, so they are computed together.
RANKINGS = ("AUROC", *AT_CUTS)
SWEPT = ("AUPR", "TNR95")  # beside AUROC, without intervals
RISKS = ("AURC", "AUGRC")
EXCESS = ("E-AURC",)

SHARES = ("sensitivity", "specificity", "precision", "F1", "g-mean", "coverage")
SIGNED = ("MCC", "Youden")
HAZARDS = ("SG", "RH", "AC")
COLUMNS = ("rejected", "positive", "hazard", "reward", "hazard_left", "reward_left")
# Shares, or means of precisions, over the images on which an alarm is wanted, or over the others.
OF_WANTED = ("AUPR", "best-F1", "sensitivity", "F1")
OF_OTHERS = ("AUPR-in", "TNR95", "specificity")
# What one image in a wrong order is assumed to cost an area, in images of the kind it rests on: it
# costs 1 if it lies below all others, half of that if it looks like them. The choice is that of
# `calipers.validation.choices_areas`.
COST_OF_IMAGE = 0.75
# What a failure at any rank adds to AURC on average, in images; one that is ranked as the very
# safest of n adds ln(n). The choice is that of `calipers.validation.choices_areas`, too.
COST_OF_FAILURE = 1.0
# Bounds of shares, of mean losses, and of differences of losses that the caller gave.
PLAIN, LOSSES, ANYTHING = (0.0, 1.0), (0.0, np.inf), (-np.inf, np.inf)


@dataclass(frozen=True)
class Board:
    """The alarm scores of one monitor, sorted once, with a cache of what all labellings share under
    one block of weights.
    """

    alarm: F64  # (n,) high = alarm
    _blocks: BlockCache = field(default_factory=BlockCache, repr=False, compare=False)

    @cached_property
    def cuts(self) -> Cuts:
        """The images by falling alarm score."""
        return Cuts.of(self.alarm)

    def standing(self, weights: Weights) -> Standing:
        """Return the weighted ranks of the images."""
        return self._blocks.get(weights, lambda: Standing.of(self.cuts, weights))


@dataclass(frozen=True)
class LabelledAlarms:
    """The evidence of one monitor: alarm scores, and on which images alarms are wanted under every
    labelling.
    """

    board: Board
    positive: Flags  # (L, n)

    @property
    def n_images(self) -> int:
        """Number of images."""
        return len(self.board.alarm)

    def take(self, images: I64) -> LabelledAlarms:
        """Return the evidence of some images."""
        return LabelledAlarms(Board(self.board.alarm[images]), self.positive[:, images])

    def only(self, k: int) -> LabelledAlarms:
        """Return the evidence of one labelling."""
        return LabelledAlarms(self.board, self.positive[k : k + 1])

    @classmethod
    def concat(cls, parts: Sequence[LabelledAlarms]) -> LabelledAlarms:
        """Return the evidence of all images of several parts."""
        alarm = np.concatenate([part.board.alarm for part in parts])
        return cls(Board(alarm), np.concatenate([part.positive for part in parts], axis=1))


class OfLabellings:
    """Base of the metrics on labellings: columns are labellings by names, the names of a labelling
    side by side.
    """

    id = "monitor@1"
    bounds = (0.0, 1.0)

    def __init__(self, names: Sequence[str], n_labellings: int) -> None:
        self.names, self.n_labellings = tuple(names), n_labellings
        every = tuple(f"{name}#{k}" for k in range(n_labellings) for name in names)
        self.facts = Facts(id=self.id, names=every, bounds=self.bounds, per_class=False, swap=False)

    @property
    def recipe(self) -> Any:
        """Monitors come with their evidence; nothing is collected."""
        raise AssertionError("the evidence of a monitor is given")

    def narrowed(
        self, evidence: LabelledAlarms, column: int
    ) -> tuple[OfLabellings, LabelledAlarms]:
        """Return the metric and evidence of one column alone."""
        k, name = divmod(column, len(self.names))
        return type(self)((self.names[name],), 1), evidence.only(k)

    def each(self, evidence: LabelledAlarms, standing: Standing) -> Mapping[str, F64]:
        """Return name -> (L, R)."""
        raise AssertionError("every family has its formulas")

    def value(self, evidence: LabelledAlarms, weights: Weights) -> F64:
        """Return (R, 1, L x names)."""
        standing = evidence.board.standing(weights)
        p = standing.positives(evidence.positive)
        # Per replicate: a bootstrap sample may lack one kind even if the images do not.
        mixed = (p > 0) & (p < standing.total)
        values = self.each(evidence, standing)
        columns = [np.where(mixed, values[name], np.nan) for name in self.names]
        table = np.stack(columns, axis=1)  # (L, names, R)
        return table.reshape(-1, len(weights)).T[:, None]

    def reasons(self, evidence: LabelledAlarms) -> Mapping[tuple[int, int], str]:
        """Return why values are undefined: no alarm is wanted, or alarms are wanted everywhere."""
        why = {}
        for k, positive in enumerate(evidence.positive):
            reason = "single_category" if positive.any() else "no_positives"
            for j in range(len(self.names)):
                why[0, k * len(self.names) + j] = reason
        return why

    def counts(self, evidence: LabelledAlarms, weights: I64) -> I64:
        """Return (1, L x names, 3): images, images on which an alarm is wanted, 0."""
        positive = evidence.positive.astype(np.int64) @ weights
        table = np.zeros((1, self.n_labellings, len(self.names), 3), np.int64)
        table[..., 0] = weights.sum()
        table[..., 1] = positive[None, :, None]
        return table.reshape(1, -1, 3)

    def support(self, evidence: LabelledAlarms, unit: I64, n_units: int) -> I64:
        """Return (1, L x names, 3): units of the rarer kind, units tried, units in error."""
        parts = []
        for positive in evidence.positive:
            # An interval rests on the rarer kind, however many images there are of the other.
            rarer = min(n_marked(positive, unit, n_units), n_marked(~positive, unit, n_units))
            for name in self.names:
                parts.append((rarer, *self.errors(name, evidence, positive, unit, n_units)))
        return np.array(parts, np.int64).reshape(1, -1, 3)

    def errors(
        self, name: str, evidence: LabelledAlarms, positive: Flags, unit: I64, n_units: int
    ) -> tuple[int, int]:
        """Return units tried and in error; all in error: the metric is no share of units."""
        return n_units, n_units


class AlarmRanking(OfLabellings):
    """The quantities of the order of images by alarm score."""

    id = "monitor-ranking@1"

    def __init__(self, names: Sequence[str], n_labellings: int) -> None:
        super().__init__(names, n_labellings)
        areas = [name for name in self.facts.names if name.split("#")[0] != "TNR95"]
        self.facts = replace(
            self.facts,
            trials="own",
            error_costs=dict.fromkeys(areas, COST_OF_IMAGE),
            shortfalls=frozenset(areas),
        )

    def trials(self, evidence: LabelledAlarms) -> I64:
        """Return (1, L x names): images of the kind that a number rests on."""
        numbers = []
        for positive in evidence.positive:
            for name in self.names:
                numbers.append(min(int(kind.sum()) for kind in kinds_of(name, positive)))
        return np.array([numbers], np.int64)

    def each(self, evidence: LabelledAlarms, standing: Standing) -> Mapping[str, F64]:
        """Return name -> (L, R)."""
        values = {}
        if "AUROC" in self.names:
            values["AUROC"] = standing.auroc(evidence.positive)
        others = [name for name in self.names if name in AT_CUTS]
        if not others:
            return values
        tables: list[list[F64]] = [[] for _ in others]
        cuts = evidence.board.cuts
        # The weight of the images rejected at each cut, positive and other ones together.
        everyone = standing.total - standing.below
        for positive in evidence.positive:
            tp = np.cumsum(standing.weight * positive[cuts.order, None], axis=0)[cuts.last]
            operating = Operating(tp, everyone - tp)
            for table, name in zip(tables, others):
                table.append(AT_CUTS[name](operating))
        return values | dict(zip(others, map(np.stack, tables)))

    def errors(
        self, name: str, evidence: LabelledAlarms, positive: Flags, unit: I64, n_units: int
    ) -> tuple[int, int]:
        """Return units tried, and units with an image in a wrong order, or rejected wrongly for
        TNR95.

        An image is in a wrong order if one of the other kind is level with it or on the wrong side
        of it.
        """
        score = evidence.board.alarm
        if name == "TNR95":
            # 1e-9: 0.95 n must not round up to one image more
            needed = max(int(np.ceil(TPR * positive.sum() - 1e-9)) - 1, 0)
            threshold = np.sort(score[positive])[::-1][needed:][:1]
            wrong = ~positive & (score >= threshold[0]) if len(threshold) else ~positive
            return n_marked(~positive, unit, n_units), n_marked(wrong, unit, n_units)
        # A level pair counts half in AUROC, so both of its images are in error.
        highest = score[~positive].max(initial=-np.inf)
        lowest = score[positive].min(initial=np.inf)
        wrong = np.where(positive, score <= highest, score >= lowest)
        n_tried = min(n_marked(kind, unit, n_units) for kind in kinds_of(name, positive))
        # One image that is missed puts all images above it in a wrong order, and is one error.
        n_wrong = min(n_marked(wrong & kind, unit, n_units) for kind in (positive, ~positive))
        return n_tried, min(n_wrong, n_tried)


class Risk(OfLabellings):
    """AURC and AUGRC under the loss 1 on positive images."""

    id = "monitor-risk@1"

    def each(self, evidence: LabelledAlarms, standing: Standing) -> Mapping[str, F64]:
        """Return name -> (L, R)."""
        of, loss = {"AURC": aurc, "AUGRC": augrc}, evidence.positive.astype(np.float64)
        return {name: of[name](standing, loss) for name in self.names}


class ExcessRisk(OfLabellings):
    """E-AURC: AURC less that of the best order, in which all other images come before the positive
    ones. Exact.
    """

    id = "monitor-excess-risk@1"

    def __init__(self, names: Sequence[str], n_labellings: int) -> None:
        super().__init__(names, n_labellings)
        # A sum of what failures cost that are ranked as safe.
        self.facts = replace(
            self.facts,
            trials="own",
            error_costs=dict.fromkeys(self.facts.names, COST_OF_FAILURE),
            costs_of_images=True,
        )

    def trials(self, evidence: LabelledAlarms) -> I64:
        """Return (1, L x names): images on which an alarm is wanted."""
        return np.repeat(evidence.positive.sum(axis=1), len(self.names))[None]

    def errors(
        self, name: str, evidence: LabelledAlarms, positive: Flags, unit: I64, n_units: int
    ) -> tuple[int, int]:
        """Return units with a wanted alarm, and those where another image has as high a score."""
        score = evidence.board.alarm
        wrong = positive & (score <= score[~positive].max(initial=-np.inf))
        return n_marked(positive, unit, n_units), n_marked(wrong, unit, n_units)

    def each(self, evidence: LabelledAlarms, standing: Standing) -> Mapping[str, F64]:
        """Return name -> (L, R); never below 0, which rounding could be."""
        best = best_aurc(standing.positives(evidence.positive), standing.total)
        area = aurc(standing, evidence.positive.astype(np.float64))
        return {"E-AURC": np.maximum(area - best, 0.0)}


@dataclass(frozen=True)
class GradedAlarms(LabelledAlarms):
    """The evidence with a graded loss, 1 - s, and the order of the images by it, which is the best
    there is.
    """

    best: Board  # of the loss

    def take(self, images: I64) -> GradedAlarms:
        """Return the evidence of some images."""
        return GradedAlarms(
            Board(self.board.alarm[images]),
            self.positive[:, images],
            Board(self.best.alarm[images]),
        )

    def only(self, k: int) -> GradedAlarms:
        """Return the evidence itself: a graded loss is one labelling."""
        return self


class GradedRisk(OfLabellings):
    """AURC of a graded loss."""

    id = "monitor-graded-risk@1"

    def value(self, evidence: LabelledAlarms, weights: Weights) -> F64:
        """Return (R, 1, 1)."""
        assert isinstance(evidence, GradedAlarms)
        return np.asarray(
            aurc(evidence.board.standing(weights), evidence.best.alarm[None])[0][:, None, None]
        )

    def support(self, evidence: LabelledAlarms, unit: I64, n_units: int) -> I64:
        """Return that all units are needed, tried, and may be in error."""
        return np.full((1, 1, 3), n_units, np.int64)


class GradedExcess(GradedRisk):
    """E-AURC of a graded loss."""

    id = "monitor-graded-excess-risk@1"

    def __init__(self, names: Sequence[str], n_labellings: int) -> None:
        super().__init__(names, n_labellings)
        costs = dict.fromkeys(self.facts.names, COST_OF_FAILURE)
        self.facts = replace(self.facts, trials="images", error_costs=costs)

    def value(self, evidence: LabelledAlarms, weights: Weights) -> F64:
        """Return (R, 1, 1)."""
        assert isinstance(evidence, GradedAlarms)
        loss = evidence.best.alarm[None]
        area = aurc(evidence.board.standing(weights), loss)
        best = aurc(evidence.best.standing(weights), loss)
        return np.asarray(np.maximum(area - best, 0.0)[0][:, None, None])


def kinds_of(name: str, positive: Flags) -> tuple[Flags, ...]:
    """Return the kinds of images without either of which there is nothing to learn about a number.

    The choice is that of `calipers.validation.choices_areas`.
    """
    if name in OF_WANTED:
        return (positive,)
    return (~positive,) if name in OF_OTHERS else (positive, ~positive)


def n_marked(marked: Flags, unit: I64, n_units: int) -> int:
    """Return the number of units with a marked image."""
    return int((np.bincount(unit[marked], minlength=n_units) > 0).sum())


@dataclass(frozen=True)
class Decisions:
    """The evidence at a threshold: which images are rejected, which should be, and the costs."""

    rejected: Flags  # (n,)
    positive: Flags  # (n,)
    hazard: F64  # (n,) without the monitor
    reward: F64
    hazard_left: F64  # with it
    reward_left: F64
    fixed: bool = True  # False: there is no threshold, and every value is undefined

    @property
    def n_images(self) -> int:
        """Number of images."""
        return len(self.rejected)

    def take(self, images: I64) -> Decisions:
        """Return the evidence of some images."""
        return replace(self, **{name: getattr(self, name)[images] for name in COLUMNS})

    @classmethod
    def concat(cls, parts: Sequence[Decisions]) -> Decisions:
        """Return the evidence of all images of several parts."""
        columns = {}
        for name in COLUMNS:
            columns[name] = np.concatenate([getattr(part, name) for part in parts])
        return cls(**columns, fixed=all(part.fixed for part in parts))

    @property
    def cells(self) -> F64:
        """(n, 4): 1 where an image is TP, FP, FN, TN."""
        r, w = self.rejected, self.positive
        return np.stack([r & w, r & ~w, ~r & w, ~r & ~w], axis=1).astype(np.float64)


class AtThreshold:
    """Base: formulas on decided images."""

    id = "monitor-threshold@1"
    names: tuple[str, ...] = SHARES
    bounds = PLAIN

    def __init__(
        self, names: Sequence[str] | None = None, bounds: tuple[float, float] | None = None
    ) -> None:
        self.names = tuple(names or self.names)
        self.facts = Facts(
            id=self.id,
            names=self.names,
            bounds=bounds or self.bounds,
            per_class=False,
            trials="own",
        )

    @property
    def recipe(self) -> Any:
        """Monitors come with their evidence; nothing is collected."""
        raise AssertionError("the evidence of a monitor is given")

    def narrowed(self, evidence: Decisions, column: int) -> tuple[AtThreshold, Decisions]:
        """Return the metric and evidence of one column alone."""
        return type(self)((self.names[column],), self.facts.bounds), evidence

    def columns(self, evidence: Decisions, weights: F64) -> Mapping[str, F64]:
        """Return name -> (R,)."""
        tp, fp, fn, tn = (weights @ evidence.cells).T
        sensitivity, specificity = ratio(tp, tp + fn, tp + fn > 0), ratio(tn, tn + fp, tn + fp > 0)
        # Per replicate, because weights of a bootstrap need not add up to the number of images.
        n = tp + fp + fn + tn
        return {
            "sensitivity": sensitivity,
            "specificity": specificity,
            "precision": ratio(tp, tp + fp, tp + fp > 0),
            "F1": ratio(2 * tp, 2 * tp + fp + fn, tp + fn > 0),
            "g-mean": np.sqrt(sensitivity * specificity),
            "coverage": ratio(tn + fn, n, n > 0),
            "MCC": matthews(tp, fp, fn, tn),
            "Youden": sensitivity + specificity - 1.0,
        }

    def value(self, evidence: Decisions, weights: NDArray[Any]) -> F64:
        """Return (R, 1, names)."""
        w = weights.astype(np.float64)
        if not evidence.fixed:
            return np.full((len(weights), 1, len(self.names)), np.nan)
        columns, p = self.columns(evidence, w), w @ evidence.positive.astype(np.float64)
        mixed = (p > 0) & (p < w.sum(axis=1))
        values = []
        for name in self.names:
            # coverage does not look at the labels, so that it is defined for one kind of images too
            values.append(np.where(mixed | (name == "coverage"), columns[name], np.nan))
        return np.stack(values, axis=1)[:, None]

    def reasons(self, evidence: Decisions) -> Mapping[tuple[int, int], str]:
        """Return why values are undefined."""
        if not evidence.positive.any():
            reason = "no_positives"
        elif evidence.positive.all() or not evidence.fixed:
            reason = "single_category"
        else:
            reason = "constant_input"  # all rejected, or none
        why = {(0, k): reason for k in range(len(self.names))}
        if reason == "constant_input" and "precision" in self.names:
            why[0, self.names.index("precision")] = "no_predictions"
        return why

    def counts(self, evidence: Decisions, weights: I64) -> I64:
        """Return (1, names, 3): images, images on which an alarm is wanted, rejected images."""
        numbers = [
            weights.sum(),
            weights[evidence.positive].sum(),
            weights[evidence.rejected].sum(),
        ]
        return np.tile(np.array(numbers, np.int64), (1, len(self.names), 1))

    def trials(self, evidence: Decisions) -> I64:
        """Return (1, names): images that a number is a share of, of the rarer kind if of both."""
        numbers = []
        for name in self.names:
            if name == "precision":
                numbers.append(int(evidence.rejected.sum()))
            elif name in (*OF_WANTED, *OF_OTHERS, "g-mean", *SIGNED):
                kinds = kinds_of(name, evidence.positive)
                numbers.append(min(int(kind.sum()) for kind in kinds))
            else:
                numbers.append(evidence.n_images)
        return np.array([numbers], np.int64)

    def support(self, evidence: Decisions, unit: I64, n_units: int) -> I64:
        """Return (1, names, 3): units needed, tried, in error."""
        return np.array(
            [[self._units(name, evidence, unit, n_units) for name in self.names]], np.int64
        )

    def _units(
        self, name: str, evidence: Decisions, unit: I64, n_units: int
    ) -> tuple[int, int, int]:
        r, w = evidence.rejected, evidence.positive

        def units(marked: Flags) -> int:
            return n_marked(marked, unit, n_units)

        if name == "sensitivity":
            return units(w), units(w), units(w & ~r)
        if name == "specificity":
            return units(~w), units(~w), units(r & ~w)
        if name == "precision":
            return units(r), units(r), units(r & ~w)
        if name in ("F1", "g-mean", *SIGNED):
            # Errors of the kind that has fewer: many false alarms do not make a few misses many.
            n_wrong = min(units(w & ~r), units(r & ~w))
            n_tried = min(units(kind) for kind in kinds_of(name, w))
            return min(units(w), units(~w)), n_tried, min(n_wrong, n_tried)
        return n_units, n_units, n_units  # a share that may be anything: no unit is right or wrong


class Signed(AtThreshold):
    """MCC and Youden's index, from -1 to 1."""

    id = "monitor-signed@1"
    names = SIGNED
    bounds = (-1.0, 1.0)


class Hazards(AtThreshold):
    """Safety gain, residual hazard and availability cost."""

    id = "monitor-hazards@1"
    names = HAZARDS

    def columns(self, evidence: Decisions, weights: F64) -> Mapping[str, F64]:
        """Return name -> (R,)."""
        n = weights.sum(axis=1)
        residual = weights @ evidence.hazard_left
        # As a difference, so that SG + RH is the mean hazard.
        gain = weights @ evidence.hazard - residual
        cost = weights @ (evidence.reward - evidence.reward_left)
        totals = zip(HAZARDS, (gain, residual, cost))
        return {name: ratio(total, n, n > 0) for name, total in totals}


@dataclass(frozen=True)
class Marks:
    """Which images are counted, and of which they are a share; ``part`` lies inside ``whole``."""

    part: Flags  # (K, n)
    whole: Flags  # (K, n)

    @classmethod
    def of(cls, pairs: Sequence[tuple[Flags, Flags]]) -> Marks:
        """Return the marks of (property, among whom) pairs."""
        return cls(
            np.stack([part & whole for part, whole in pairs]),
            np.stack([whole for _, whole in pairs]),
        )

    @property
    def n_images(self) -> int:
        """Number of images."""
        return int(self.part.shape[1])

    def take(self, images: I64) -> Marks:
        """Return the marks of some images."""
        return Marks(self.part[:, images], self.whole[:, images])

    @classmethod
    def concat(cls, parts: Sequence[Marks]) -> Marks:
        """Return the marks of all images of several parts."""
        return cls(
            np.concatenate([one.part for one in parts], axis=1),
            np.concatenate([one.whole for one in parts], axis=1),
        )


class Share:
    """Weight of the part / weight of the whole; undefined if the whole is empty."""

    def __init__(self, names: Sequence[str]) -> None:
        self.facts = Facts(
            id="monitor-share@1", names=tuple(names), per_class=False, trials="images"
        )

    @property
    def recipe(self) -> Any:
        """Shares come with their evidence; nothing is collected."""
        raise AssertionError("the evidence of a share is given")

    def value(self, evidence: Marks, weights: NDArray[Any]) -> F64:
        """Return (R, 1, K)."""
        w = weights.astype(np.float64)
        # Sums of whole weights are exact in floats, so that shares do not depend on the order.
        part = product(evidence.part.astype(np.float64), w.T).T
        whole = product(evidence.whole.astype(np.float64), w.T).T
        return ratio(part, whole, whole > 0)[:, None]

    def reasons(self, evidence: Marks) -> Mapping[tuple[int, int], str]:
        """Return that there are no such images."""
        return {(0, k): "no_objects" for k in range(len(self.facts.names))}

    def counts(self, evidence: Marks, weights: I64) -> I64:
        """Return (1, K, 3): images it is a share of, images counted, 0."""
        table = np.zeros((1, len(self.facts.names), 3), np.int64)
        table[0, :, 0], table[0, :, 1] = evidence.whole @ weights, evidence.part @ weights
        return table

    def support(self, evidence: Marks, unit: I64, n_units: int) -> I64:
        """Return (1, K, 3): units with the whole, three times: none of them is right or wrong."""
        whole = [n_marked(marks, unit, n_units) for marks in evidence.whole]
        return np.repeat(np.array(whole, np.int64)[None, :, None], 3, axis=2)
