# SPDX-License-Identifier: Apache-2.0
"""What is measured of a monitor without a threshold, as metrics under weights.

A *labelling* says on which images an alarm is wanted: those out of scope at some tau (OMS), or
those out of distribution (OOD). One metric serves many labellings of the same images, so that a
sweep over tau sorts once.

``AUROC``
    share of pairs of a wanted and another image that the alarm score puts in the right order, ties
    counting half.
``AUPR``, ``AUPR-in``
    average precision (steps, equal scores are one point) of the wanted images, and of the others by
    falling score.
``TNR95``
    the largest share of other images that is accepted at an attainable threshold that rejects at
    least 95 % of the wanted ones; ``FPR95`` is 1 - TNR95.
``best-F1``
    the largest F1 over all thresholds. Optimistic: chosen on the images on which it is stated.
``AURC``, ``E-AURC``, ``AUGRC``
    mean risk over all coverages, its excess over the best possible order, mean generalised risk;
    the loss is 1 on a wanted image. ``AURC/graded`` and ``E-AURC/graded``: the loss is 1 - s.

All are undefined where the images are all of one kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels.monitoring import Cuts, Operating, Standing
from calipers.kernels.monitoring_coverage import augrc, aurc, best_aurc
from calipers.metrics.contract import Facts

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Weights = NDArray[Any]

TPR = 0.95
AT_CUTS: Mapping[str, Callable[[Operating], F64]] = {
    "AUPR": Operating.aupr,
    "AUPR-in": Operating.aupr_in,
    "TNR95": lambda found: found.tnr_at_tpr(TPR),
    "best-F1": Operating.best_f1,
}
RANKINGS = ("AUROC", *AT_CUTS)
SWEPT = ("AUPR", "TNR95")  # beside AUROC, without intervals
RISKS = ("AURC", "AUGRC")
EXCESS = ("E-AURC",)


@dataclass(frozen=True)
class Board:
    """The alarm scores of one monitor, sorted once; what is shared by all labellings of a block of
    weights is kept.
    """

    alarm: F64  # (n,) high = alarm
    _last: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def cuts(self) -> Cuts:
        """The images by falling alarm score."""
        return Cuts.of(self.alarm)

    def standing(self, weights: Weights) -> Standing:
        """Return where the images stand under some weights; blocks are worked off one after the
        other.
        """
        if self._last.get("weights") is not weights:
            self._last.update(weights=weights, standing=Standing.of(self.cuts, weights))
        found: Standing = self._last["standing"]
        return found


@dataclass(frozen=True)
class Judged:
    """The evidence of one monitor: alarm scores, and on which images alarms are wanted under every
    labelling.
    """

    board: Board
    wanted: Flags  # (L, n)

    @property
    def n_images(self) -> int:
        """Number of images."""
        return len(self.board.alarm)

    def take(self, images: I64) -> Judged:
        """Return the evidence of some images."""
        return Judged(Board(self.board.alarm[images]), self.wanted[:, images])

    def only(self, k: int) -> Judged:
        """Return the evidence of one labelling."""
        return Judged(self.board, self.wanted[k : k + 1])

    @classmethod
    def concat(cls, parts: Sequence[Judged]) -> Judged:
        """Return the evidence of all images of several parts."""
        alarm = np.concatenate([part.board.alarm for part in parts])
        return cls(Board(alarm), np.concatenate([part.wanted for part in parts], axis=1))


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

    def narrowed(self, evidence: Judged, column: int) -> tuple[OfLabellings, Judged]:
        """Return the metric and evidence of one column alone."""
        k, name = divmod(column, len(self.names))
        return type(self)((self.names[name],), 1), evidence.only(k)

    def each(self, evidence: Judged, standing: Standing) -> Mapping[str, F64]:
        """Return name -> (L, R)."""
        raise AssertionError("every family has its formulas")

    def value(self, evidence: Judged, weights: Weights) -> F64:
        """Return (R, 1, L x names)."""
        standing = evidence.board.standing(weights)
        p = standing.positives(evidence.wanted)
        mixed = (p > 0) & (p < standing.total)
        found = self.each(evidence, standing)
        table = np.stack(
            [np.where(mixed, found[name], np.nan) for name in self.names], axis=1
        )  # (L, names, R)
        return table.reshape(-1, len(weights)).T[:, None]

    def reasons(self, evidence: Judged) -> Mapping[tuple[int, int], str]:
        """Return why values are undefined: no alarm is wanted, or alarms are wanted everywhere."""
        found = {}
        for k, wanted in enumerate(evidence.wanted):
            reason = "single_category" if wanted.any() else "no_positives"
            for j in range(len(self.names)):
                found[0, k * len(self.names) + j] = reason
        return found

    def counts(self, evidence: Judged, weights: I64) -> I64:
        """Return (1, L x names, 3): images, images on which an alarm is wanted, 0."""
        wanted = evidence.wanted.astype(np.int64) @ weights
        table = np.zeros((1, self.n_labellings, len(self.names), 3), np.int64)
        table[..., 0] = weights.sum()
        table[..., 1] = wanted[None, :, None]
        return table.reshape(1, -1, 3)

    def support(self, evidence: Judged, unit: I64, n_units: int) -> I64:
        """Return (1, L x names, 3): units of the rarer kind, units tried, units in error."""
        parts = []
        for wanted in evidence.wanted:
            rarer = min(n_marked(wanted, unit, n_units), n_marked(~wanted, unit, n_units))
            parts += [
                (rarer, *self.errors(name, evidence, wanted, unit, n_units)) for name in self.names
            ]
        return np.array(parts, np.int64).reshape(1, -1, 3)

    def errors(
        self, name: str, evidence: Judged, wanted: Flags, unit: I64, n_units: int
    ) -> tuple[int, int]:
        """Return units tried and in error; all in error means that no share of units speaks for the
        metric.
        """
        return n_units, n_units


class Ranking(OfLabellings):
    """The quantities of the order of images by alarm score."""

    id = "monitor-ranking@1"

    def each(self, evidence: Judged, standing: Standing) -> Mapping[str, F64]:
        """Return name -> (L, R)."""
        found = {"AUROC": standing.auroc(evidence.wanted)} if "AUROC" in self.names else {}
        others = [name for name in self.names if name in AT_CUTS]
        if not others:
            return found
        tables: list[list[F64]] = [[] for _ in others]
        cuts = evidence.board.cuts
        everyone = standing.total - standing.below
        for wanted in evidence.wanted:
            tp = np.cumsum(standing.weight * wanted[cuts.order, None], axis=0)[cuts.last]
            operating = Operating(tp, everyone - tp)
            for table, name in zip(tables, others):
                table.append(AT_CUTS[name](operating))
        return found | {name: np.stack(table) for name, table in zip(others, tables)}

    def errors(
        self, name: str, evidence: Judged, wanted: Flags, unit: I64, n_units: int
    ) -> tuple[int, int]:
        """Return units tried, and units with an image in a wrong order, or rejected wrongly for
        TNR95.

        An image is in a wrong order if one of the other kind is level with it or on the wrong side
        of it.
        """
        score = evidence.board.alarm
        if name == "TNR95":
            bar = np.sort(score[wanted])[::-1][
                max(int(np.ceil(TPR * wanted.sum() - 1e-9)) - 1, 0) :
            ][:1]
            wrong = ~wanted & (score >= bar[0]) if len(bar) else ~wanted
            return n_marked(~wanted, unit, n_units), n_marked(wrong, unit, n_units)
        highest = score[~wanted].max(initial=-np.inf)
        lowest = score[wanted].min(initial=np.inf)
        wrong = np.where(wanted, score <= highest, score >= lowest)
        return n_units, n_marked(wrong, unit, n_units)


class Risk(OfLabellings):
    """AURC and AUGRC under the loss 1 on wanted images."""

    id = "monitor-risk@1"

    def each(self, evidence: Judged, standing: Standing) -> Mapping[str, F64]:
        """Return name -> (L, R)."""
        of, loss = {"AURC": aurc, "AUGRC": augrc}, evidence.wanted.astype(np.float64)
        return {name: of[name](standing, loss) for name in self.names}


class ExcessRisk(OfLabellings):
    """E-AURC: AURC less that of the best order, in which all other images come before the wanted
    ones. Exact.
    """

    id = "monitor-excess-risk@1"
    bounds = (0.0, np.inf)

    def each(self, evidence: Judged, standing: Standing) -> Mapping[str, F64]:
        """Return name -> (L, R); never below 0, which rounding could be."""
        best = best_aurc(standing.positives(evidence.wanted), standing.total)
        return {
            "E-AURC": np.maximum(aurc(standing, evidence.wanted.astype(np.float64)) - best, 0.0)
        }


@dataclass(frozen=True)
class Graded(Judged):
    """The evidence with a graded loss, 1 - s, and the order of the images by it, which is the best
    there is.
    """

    best: Board  # of the loss

    def take(self, images: I64) -> Graded:
        """Return the evidence of some images."""
        return Graded(
            Board(self.board.alarm[images]), self.wanted[:, images], Board(self.best.alarm[images])
        )

    def only(self, k: int) -> Graded:
        """Return the evidence itself: a graded loss is one labelling."""
        return self


class GradedRisk(OfLabellings):
    """AURC of a graded loss."""

    id = "monitor-graded-risk@1"

    def value(self, evidence: Judged, weights: Weights) -> F64:
        """Return (R, 1, 1)."""
        assert isinstance(evidence, Graded)
        return np.asarray(
            aurc(evidence.board.standing(weights), evidence.best.alarm[None])[0][:, None, None]
        )

    def support(self, evidence: Judged, unit: I64, n_units: int) -> I64:
        """Return that all units are needed, tried, and may be in error."""
        return np.full((1, 1, 3), n_units, np.int64)


class GradedExcess(GradedRisk):
    """E-AURC of a graded loss."""

    id = "monitor-graded-excess-risk@1"
    bounds = (0.0, np.inf)

    def value(self, evidence: Judged, weights: Weights) -> F64:
        """Return (R, 1, 1)."""
        assert isinstance(evidence, Graded)
        loss = evidence.best.alarm[None]
        found, best = (
            aurc(evidence.board.standing(weights), loss),
            aurc(evidence.best.standing(weights), loss),
        )
        return np.asarray(np.maximum(found - best, 0.0)[0][:, None, None])


def n_marked(marked: Flags, unit: I64, n_units: int) -> int:
    """Return the number of units with a marked image."""
    return int((np.bincount(unit[marked], minlength=n_units) > 0).sum())
