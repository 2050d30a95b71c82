# SPDX-License-Identifier: Apache-2.0
"""A ranking of models, and how stable it is under resampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calipers.results.estimate import number


@dataclass(frozen=True, slots=True)
class Place:
    """The rank of a model, and its ranks in the replicates."""

    model: str
    value: float  # what was ranked: the metric, a mean rank, or a number of tests won
    rank: int  # 1 is best; equal values share the better rank
    median: float  # of the ranks in the replicates
    low: float
    high: float
    # of the replicates in which the model had rank 1, 2, ...: the blobs of a blob plot
    shares: tuple[float, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the place for JSON output."""
        return {
            "model": self.model,
            "value": number(self.value),
            "rank": self.rank,
            "median": number(self.median),
            "low": number(self.low),
            "high": number(self.high),
            "shares": [number(share) for share in self.shares],
        }


@dataclass(frozen=True, slots=True)
class Superiority:
    """A one-sided test of one model being better than another."""

    better: str
    worse: str
    p: float
    p_adjusted: float
    significant: bool

    def as_dict(self) -> dict[str, Any]:
        """Return the test for JSON output."""
        return {
            "better": self.better,
            "worse": self.worse,
            "p": number(self.p),
            "p_adjusted": number(self.p_adjusted),
            "significant": self.significant,
        }


@dataclass(frozen=True, slots=True)
class TauSummary:
    """Kendall's tau-b between the ranking and those of the replicates."""

    mean: float
    low: float
    high: float
    undefined: int  # replicates without one: all models tied

    def as_dict(self) -> dict[str, Any]:
        """Return the summary for JSON output."""
        return {
            "mean": number(self.mean),
            "low": number(self.low),
            "high": number(self.high),
            "undefined": self.undefined,
        }


@dataclass(frozen=True, slots=True)
class Ranking:
    """What `Evaluation.rank` returns: models from best to worst."""

    metric: str
    metric_id: str
    label: str | None  # the class, None = pooled; written as "class"
    method: str
    higher_is_better: bool  # of the metric
    unit: str
    n_units: int
    n_images: int
    n_cases: int  # with a value for every model; 0 for the method "data-set", which has no cases
    left_out: int  # cases that are undefined for all models
    filled: int  # values of single models that were undefined and count as the worst
    level: float
    replicates: int
    undefined: int  # replicates in which a model had no value
    seed: int
    places: tuple[Place, ...]
    tau: TauSummary
    winner_kept: float  # share of replicates with the same models on rank 1
    test: str  # of the significance map
    correction: str
    family: int
    pairs: tuple[Superiority, ...]  # all ordered pairs
    reason: str | None  # why there is nothing about replicates: one of REASONS

    def __getitem__(self, model: str) -> Place:
        for place in self.places:
            if place.model == model:
                return place
        raise KeyError(model)

    @property
    def models(self) -> tuple[str, ...]:
        """The models from best to worst."""
        return tuple(place.model for place in self.places)

    def sentence(self) -> str:
        """Return in words which model is first and how stable that is."""
        first = [place.model for place in self.places if place.rank == 1]
        claim = "is first" if len(first) == 1 else "share rank 1"
        opening = f"{' and '.join(first)} {claim} in {self.metric}"
        if self.label is not None:
            opening += f" of {self.label}"
        if self.reason is not None:
            return (
                f"{opening}; the stability of this order is unknown "
                f"({self.reason.replace('_', ' ')})."
            )
        replicates = self.replicates - self.undefined
        words = f"{opening}, and in {100 * self.winner_kept:.0f} % of {replicates} replicates."
        if len(self.places) > 2 and self.tau.mean == self.tau.mean:
            words += f" Mean Kendall's tau with the orders of the replicates: {self.tau.mean:.2f}."
        return words

    def as_dict(self) -> dict[str, Any]:
        """Return the ranking for JSON output: keys in a fixed order, NaN as None."""
        return {
            "metric": self.metric,
            "metric_id": self.metric_id,
            "class": self.label,
            "method": self.method,
            "higher_is_better": self.higher_is_better,
            "unit": self.unit,
            "n_units": self.n_units,
            "n_images": self.n_images,
            "n_cases": self.n_cases,
            "left_out": self.left_out,
            "filled": self.filled,
            "level": self.level,
            "replicates": self.replicates,
            "undefined": self.undefined,
            "seed": self.seed,
            "models": [place.as_dict() for place in self.places],
            "tau": self.tau.as_dict(),
            "winner_kept": number(self.winner_kept),
            "test": self.test,
            "correction": self.correction,
            "family": self.family,
            "pairs": [pair.as_dict() for pair in self.pairs],
            "sentence": self.sentence(),
            "reason": self.reason,
        }
