# SPDX-License-Identifier: Apache-2.0
"""The multiverse: all models under every defensible configuration, and what their order hangs on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError
from calipers.evaluate import evaluate
from calipers.protocol import Protocol
from calipers.results.estimate import number
from calipers.sensitivity import rank_analysis
from calipers.sensitivity.configurations import DEFAULT, Configurations, Grid, configurations, plan_of
from calipers.tables import Cohort

if TYPE_CHECKING:
    import pandas as pd

F64 = NDArray[np.float64]
Progress = Callable[[int, int], None]

SCHEMA = "calipers.multiverse/1"


@dataclass(frozen=True)
class Flip:
    """The nearest configuration in which two models change places."""

    better: str  # under the base
    worse: str
    base: Mapping[str, Any]
    other: Mapping[str, Any]
    values: tuple[float, float]  # of the two models under the base
    turned: tuple[float, float]  # under the other

    @property
    def changed(self) -> dict[str, tuple[Any, Any]]:
        """The choices that differ: name -> (base, other)."""
        return rank_analysis.changes_of(self.base, self.other)

    def __str__(self) -> str:
        told = " and ".join(f"{name.replace('_', ' ')} {b} instead of {a}" for name, (a, b) in self.changed.items())
        first, second = self.turned
        return f"with {told}, {self.worse} ({second:.3f}) beats {self.better} ({first:.3f})"


@dataclass(frozen=True)
class Multiverse:
    """Values and ranks of all models under all configurations in which every model has a value."""

    models: tuple[str, ...]
    choices: tuple[str, ...]
    each: tuple[Mapping[str, Any], ...]  # configurations
    values: F64  # (configurations, models)
    base: int  # the configuration that is taken as given
    n_possible: int  # combinations of the grid
    n_undefined: int  # configurations left out, because a model has no value
    n_images: int
    n_references: int

    @cached_property
    def ranks(self) -> F64:
        """(configurations, models), 1 is best; equal values share the mean of their ranks."""
        return rank_analysis.ranks_of(self.values)

    @property
    def kendall_w(self) -> float:
        """Kendall's W over configurations."""
        return rank_analysis.kendall_w(self.ranks)

    @property
    def mean_tau(self) -> float:
        """The mean tau-b between two configurations."""
        return rank_analysis.mean_tau(self.ranks)

    @property
    def winner(self) -> str:
        """The model that is best under the base."""
        return self.models[int(np.argmax(self.values[self.base]))]

    @cached_property
    def wins(self) -> dict[str, float]:
        """Model -> the share of configurations that it wins."""
        return dict(zip(self.models, rank_analysis.winners(self.ranks).tolist()))

    @cached_property
    def explained(self) -> dict[str, float]:
        """Choice -> the share of the variance of the winner's rank that it explains by itself, most first."""
        rank = self.ranks[:, self.models.index(self.winner)]
        found = {name: rank_analysis.explained(rank, [_level(one, name) for one in self.each]) for name in self.choices}
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    @property
    def better(self) -> F64:
        """(models, models): in which share of configurations the row is better than the column."""
        return rank_analysis.better(self.values)

    @cached_property
    def flip(self) -> Flip | None:
        """The nearest configuration in which the two best models of the base change places; None if none does."""
        order = np.argsort(-self.values[self.base], kind="stable")
        return self.flip_of(self.models[order[0]], self.models[order[1]]) if len(order) > 1 else None

    def flip_of(self, one: str, other: str) -> Flip | None:
        """Return the nearest configuration in which two models change places; None if none does."""
        pair = self.models.index(one), self.models.index(other)
        found = rank_analysis.nearest_flip(self.values, self.each, self.base, pair)
        if found is None:
            return None
        if self.values[self.base, pair[0]] < self.values[self.base, pair[1]]:
            one, other, pair = other, one, (pair[1], pair[0])
        values = tuple(float(self.values[k, m]) for k in (self.base, found) for m in pair)
        return Flip(one, other, self.each[self.base], self.each[found], (values[0], values[1]), (values[2], values[3]))

    def sentences(self) -> list[str]:
        """Return what the multiverse says, the most important first."""
        share = self.wins[self.winner]
        said = [f"{self.winner} is best under the protocol, and in {share:.0%} of {len(self.each)} configurations."]
        rivals = {model: won for model, won in self.wins.items() if model != self.winner and won > 0}
        if rivals:
            said.append("Others that win: " + ", ".join(f"{m} in {won:.0%}" for m, won in _sorted(rivals)) + ".")
        top = [(name, part) for name, part in self.explained.items() if part >= 0.01][:3]
        if top:
            parts = ", ".join(f"{name.replace('_', ' ')} {part:.0%}" for name, part in top)
            said.append(f"What moves the rank of {self.winner} most (share of its variance): {parts}.")
        if self.flip is not None:
            n = len(self.flip.changed)
            said.append(f"The order turns after {n} change{'s' if n > 1 else ''}: {self.flip}.")
        elif len(self.models) > 1:
            said.append("The two best models never change places.")
        if len(self.models) > 2:
            said.append(
                f"Configurations agree on the order with W = {self.kendall_w:.2f}, mean tau {self.mean_tau:.2f}."
            )
        return said

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per configuration and model."""
        return [
            {
                **{name: one.get(name) for name in self.choices},
                "model": model,
                "value": number(float(self.values[k, m])),
                "rank": float(self.ranks[k, m]),
            }
            for k, one in enumerate(self.each)
            for m, model in enumerate(self.models)
        ]

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a pandas frame (extra ``frames``)."""
        from calipers.results.frames import frame

        return frame(self.rows())

    def as_dict(self) -> dict[str, Any]:
        """Return the document ``calipers.multiverse/1``."""
        from calipers import __version__

        flip = self.flip
        return {
            "schema": SCHEMA,
            "calipers": __version__,
            "cohort": {"images": self.n_images, "references": self.n_references},
            "models": list(self.models),
            "choices": list(self.choices),
            "configurations": {
                "possible": self.n_possible,
                "different": len(self.each) + self.n_undefined,
                "undefined": self.n_undefined,
                "evaluated": len(self.each),
            },
            "base": dict(self.each[self.base]),
            "winner": self.winner,
            "wins": self.wins,
            "kendall_w": number(self.kendall_w),
            "mean_tau": number(self.mean_tau),
            "explained": self.explained,
            "better": self.better.tolist(),
            "flip": None if flip is None else {"words": str(flip), "other": dict(flip.other)},
            "rows": self.rows(),
        }


def multiverse(
    cohort: Cohort,
    grid: Grid | None = None,
    *,
    base: Mapping[str, Any] | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Multiverse:
    """Evaluate all models under a grid of configurations.

    Parameters
    ----------
    cohort
        With two models or more.
    grid
        Choice -> its values; `calipers.sensitivity.configurations.DEFAULT` if left out. A grid that names some choices
        keeps the default values of the others; a choice with one value is fixed.
    base
        The configuration that is taken as given: some choices, the first values of the grid for all others.
    jobs
        Threads; the result does not depend on it.

    Notes
    -----
    Values are compared within a configuration only, so metrics of different scales may stand side by side. A
    configuration in which a model has no value is left out and counted. Combinations that cannot differ are one
    configuration.

    Examples
    --------
    >>> import calipers as cal
    >>> found = cal.multiverse(cal.demo_cohort())
    >>> len(found.each), found.winner
    (479, 'overpredicts')
    """
    if len(cohort.models) < 2:
        raise UsageError("a multiverse compares models: give two or more")
    whole = {**DEFAULT, **(grid or {})}
    found = configurations(whole)
    values = _values(cohort, found, jobs, progress)
    known = np.asarray(~np.isnan(values).any(axis=1))
    if not known.any():
        raise UsageError("no configuration has a value for every model")
    each = tuple(one for one, fine in zip(found.each, known) if fine)
    return Multiverse(
        models=tuple(cohort.models),
        choices=found.choices,
        each=each,
        values=values[known],
        base=_base(each, whole, base or {}),
        n_possible=found.n_possible,
        n_undefined=int((~known).sum()),
        n_images=cohort.n_images,
        n_references=int((~cohort.references.ignore).sum()),
    )


def _values(cohort: Cohort, found: Configurations, jobs: int, progress: Progress | None) -> F64:
    """Return (configurations, models); one evaluation, so that what they share is computed once."""
    names = [f"configuration {k}" for k in range(len(found))]
    plans = tuple(plan_of(one, name) for one, name in zip(found.each, names))
    protocol = replace(Protocol.load("overview"), metrics=plans, headline=(names[0],), name="multiverse")
    evaluation = evaluate(cohort, protocol, ci=False, jobs=jobs, progress=progress)
    pooled = {(row.metric, row.model): row.estimate.value for row in evaluation.rows if row.label is None}
    return np.array([[pooled[name, model] for model in cohort.models] for name in names])


def _base(each: Sequence[Mapping[str, Any]], grid: Grid, wanted: Mapping[str, Any]) -> int:
    """Return the configuration with most choices as wanted, and first values elsewhere."""
    for name in wanted:
        if name not in grid or wanted[name] not in grid[name]:
            raise UsageError(f"the base has {name} = {wanted[name]!r}, which is not in the grid")
    plain = {name: values[0] for name, values in grid.items()}
    if "threshold" in grid and 0.5 in grid["threshold"]:
        plain["threshold"] = 0.5
    plain |= wanted

    def fit(k: int) -> tuple[int, int]:
        one = each[k]
        given = sum(one.get(name) == value for name, value in wanted.items())
        return given, sum(one.get(name) == value for name, value in plain.items())

    return max(range(len(each)), key=fit)


def _level(configuration: Mapping[str, Any], name: str) -> str | None:
    return str(configuration[name]) if name in configuration else None


def _sorted(shares: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(shares.items(), key=lambda pair: -pair[1])
