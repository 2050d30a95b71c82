# SPDX-License-Identifier: Apache-2.0
"""The scores of a stability analysis: the meaning and limits of each, and its value on every bag.

In come `BagPairs`; out go values per bag, and (metric, evidence) pairs for
`calipers.statistics.estimates`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean
from calipers.metrics.contract import Metric
from calipers.stability.metric import BagMean, BagValues
from calipers.stability.pairs import AGREEMENT, BINARY, CONTINUOUS, BagPairs, per_bag

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
INF = math.inf

CALLED = ("called-by-all", "called-by-some")
NAMES = (*BINARY, *CALLED, *CONTINUOUS)
AT_THRESHOLD = (*BINARY, *CALLED)  # these change with the threshold


@dataclass(frozen=True, slots=True)
class Score:
    """Meaning, limits and best value of a score."""

    meaning: str
    bounds: tuple[float, float] = (0.0, 1.0)  # they set the scale of intervals
    best: float | None = 1.0  # of a bag on which all models agree; None: more is not better
    reason: str = "single_category"  # why no bag has a value: one of results.REASONS


SCORES: Mapping[str, Score] = {
    "PJ": Score("Jaccard index of the positive instances of two models", reason="no_positives"),
    "PO": Score(
        "overlap of the positive instances, relative to the smaller set", reason="no_positives"
    ),
    "APO": Score("PO, corrected for chance", (-INF, 1.0), reason="no_positives"),
    "HAPJ": Score("PJ less the overlap that cannot be avoided"),
    "APJ": Score("PJ, corrected for chance: adjusted positive Jaccard", (-1 / 3, 1.0)),
    "AJ": Score("Cohen's kappa of two models; APJ = AJ / (2 - AJ)", (-1.0, 1.0)),
    "TAR": Score("share of instances that two models call alike"),
    "PAR": Score("agreement on positive instances (Dice of two models)", reason="no_positives"),
    "NAR": Score("agreement on negative instances"),
    "PABAK": Score("2 TAR - 1: kappa without prevalence and bias", (-1.0, 1.0)),
    "AC1": Score("Gwet's AC1: chance that does not grow with prevalence", (-1.0, 1.0)),
    "PAR-NAR": Score("positive less negative agreement", (-INF, INF), None),
    "prevalence-index": Score(
        "(n11 - n00) / N: near -1 if nearly all is negative", (-INF, INF), None
    ),
    "bias-index": Score(
        "|n10 - n01| / N: how much oftener one of two models calls positive", (0.0, INF), None
    ),
    "positive_share": Score(
        "share of instances that two models both call positive", (0.0, INF), None
    ),
    "called-by-all": Score(
        "of instances that any model calls positive, those that all do", reason="no_positives"
    ),
    "called-by-some": Score(
        "share of instances that some but not all models call positive", (0.0, INF), 0.0
    ),
    "Pearson": Score("correlation of the values of two maps", (-1.0, 1.0), reason="constant_input"),
    "Spearman": Score("correlation of the ranks of two maps", (-1.0, 1.0), reason="constant_input"),
    "Kendall-b": Score(
        "Kendall's tau-b: pairs of instances in one order, ties left out",
        (-1.0, 1.0),
        reason="constant_input",
    ),
    "Kendall-a": Score(
        "Kendall's tau-a: pairs of instances in one order, of all pairs",
        (-1.0, 1.0),
        reason="constant_input",
    ),
}


def check_score(name: str) -> None:
    """Raise for a score that does not exist."""
    if name not in SCORES:
        raise UsageError(f"no stability score {name!r}; {did_you_mean(name, NAMES)}")


def metric_id(name: str) -> str:
    """Return the id of the definition of a score; its version changes whenever values change."""
    return f"stability.{name}@1"


def called_values(counts: I64, name: str) -> F64:
    """Return (B,) shares of counts (B, K + 1) of instances by the number of models that call them;
    NaN for 0/0.
    """
    n, by_any, by_all = counts.sum(axis=1), counts[:, 1:].sum(axis=1), counts[:, -1]
    part, whole = (by_all, by_any) if name == "called-by-all" else (by_any - by_all, n)
    return np.asarray(np.divide(part, whole, out=np.full(len(n), np.nan), where=whole > 0))


def bag_values(evidence: BagPairs, name: str, threshold_index: int, undefined: str = "skip") -> F64:
    """Return (B,): a number of every bag; NaN where it has none."""
    check_score(name)
    if name in CALLED:
        return called_values(evidence.calls[:, threshold_index], name)
    return per_bag(evidence, name, threshold_index, undefined)


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """One number to estimate: a score at a threshold under a rule for undefined pairs, for which
    group of rows.
    """

    name: str
    threshold_index: int
    undefined: str
    group: tuple[tuple[str, str], ...] = ()


def cases(
    evidence: BagPairs, positive: I64, requests: Sequence[ScoreRequest]
) -> Iterator[tuple[list[ScoreRequest], Any]]:
    """Yield the numbers that share their bounds, and their (metric, evidence) for
    `statistics.estimates`.

    Behind a number stand the positive bags (``positive``, (B,) 0 or 1) and the maps of all models.
    """
    # Bounds and best value belong to a metric, so that scores which share them form one metric.
    kinds: dict[tuple[tuple[float, float], float | None], list[ScoreRequest]] = {}
    for one in requests:
        kinds.setdefault((SCORES[one.name].bounds, SCORES[one.name].best), []).append(one)
    maps = np.full(evidence.n_images, evidence.n_models, np.int64)
    for (bounds, best), members in kinds.items():
        values = [
            bag_values(evidence, one.name, one.threshold_index, one.undefined) for one in members
        ]
        names = [one.name for one in members]
        reasons = [SCORES[name].reason for name in names]
        metric = BagMean(names, [metric_id(name) for name in names], bounds, best, reasons)
        table = np.stack(values, axis=1)
        yield members, (cast("Metric[Any]", metric), BagValues.of(table, positive, maps))


def conventional(name: str) -> bool:
    """Return whether the value of a score depends on the rule for undefined pairs."""
    return name in AGREEMENT and name not in ("TAR", "PABAK", "AC1")  # these are always defined
