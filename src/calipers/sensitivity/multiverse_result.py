# SPDX-License-Identifier: Apache-2.0
"""What a multiverse found: values and ranks under all configurations, who wins where, and what the
order hangs on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean
from calipers.results.estimate import number
from calipers.sensitivity import rank_analysis
from calipers.sensitivity.robustness import Robustness
from calipers.sensitivity.wording import brief, instead, share, spoken
from calipers.statistics.weights import plural

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from calipers.plots.figures import Figure

F64 = NDArray[np.float64]

SCHEMA = "calipers.multiverse/1"
NOTICED = 0.01  # of a share


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
        told = " and ".join(instead(name, *pair) for name, pair in self.changed.items())
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
    robustness: Robustness | None = None  # with replicates, if there are units enough to draw from

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
        """Choice -> the share of the variance of the winner's rank that it explains by itself, most
        first.
        """
        rank = self.ranks[:, self.models.index(self.winner)]
        found = {
            name: rank_analysis.explained(rank, [_level(one, name) for one in self.each])
            for name in self.choices
        }
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    @property
    def silent(self) -> list[str]:
        """The choices with several values that change the share of no model by `NOTICED` or more."""
        found = []
        for name in dict.fromkeys(choice for choice, *_ in self.levels):
            shares = np.array(
                [list(wins.values()) for choice, _, _, wins in self.levels if choice == name]
            )
            if np.ptp(shares, axis=0).max() < NOTICED:
                found.append(name)
        return found

    @cached_property
    def levels(self) -> list[tuple[str, str, int, dict[str, float]]]:
        """(choice, level, configurations, model -> share of them that it wins), of choices with
        several levels.
        """
        found = []
        for name in self.choices:
            of_each = np.array([_level(one, name) or "" for one in self.each])
            known = [level for level in dict.fromkeys(of_each.tolist()) if level]
            for level in known if len(known) > 1 else ():
                ranks = self.ranks[of_each == level]
                wins = dict(zip(self.models, rank_analysis.winners(ranks).tolist()))
                found.append((name, level, len(ranks), wins))
        return found

    @property
    def best_two(self) -> tuple[str, str]:
        """The best and the second of the base."""
        order = np.argsort(-self.values[self.base], kind="stable")
        return self.models[order[0]], self.models[order[1]]

    @property
    def better(self) -> F64:
        """(models, models): in which share of configurations the row is better than the column."""
        return rank_analysis.better(self.values)

    @cached_property
    def flip(self) -> Flip | None:
        """The nearest configuration in which the two best models of the base change places; None if
        none does.
        """
        return self.flip_of(*self.best_two)

    def flip_of(self, one: str, other: str) -> Flip | None:
        """Return the nearest configuration in which two models change places; None if none does."""
        for name in (one, other):
            if name not in self.models:
                raise UsageError(
                    f"no model {name!r} in this multiverse; {did_you_mean(name, self.models)}"
                )
        pair = self.models.index(one), self.models.index(other)
        found = rank_analysis.nearest_flip(self.values, self.each, self.base, pair)
        if found is None:
            return None
        if self.values[self.base, pair[0]] < self.values[self.base, pair[1]]:
            one, other, pair = other, one, (pair[1], pair[0])
        values = tuple(float(self.values[k, m]) for k in (self.base, found) for m in pair)
        return Flip(
            one,
            other,
            self.each[self.base],
            self.each[found],
            (values[0], values[1]),
            (values[2], values[3]),
        )

    def sentences(self) -> list[str]:
        """Return what the multiverse says, the most important first."""
        won, n = self._won(self.winner), len(self.each)
        said = [
            f"{self.winner} is best under the base ({brief(self.each[self.base])}), and in {won} of {n} configurations."
        ]
        rivals = sorted(
            (m for m in self.models if m != self.winner and self.wins[m] > 0),
            key=lambda m: -self.wins[m],
        )
        if rivals:
            said.append(
                "Others that win: "
                + ", ".join(f"{model} in {self._won(model)}" for model in rivals)
                + "."
            )
        top = [(name, part) for name, part in self.explained.items() if part >= 0.01][:3]
        if top:
            parts = ", ".join(f"{spoken(name)} {share(part)}" for name, part in top)
            said.append(
                f"What moves the rank of {self.winner} most (share of its variance): {parts}."
            )
        said.append(self._turning())
        if len(self.models) > 2:
            w = f"W = {self.kendall_w:.2f}{self._w_span()}"
            said.append(
                f"Configurations agree on the order with {w}, mean tau {self.mean_tau:.2f}."
            )
        return [*said, *self._spoken_robustness()]

    def _won(self, model: str) -> str:
        said = share(self.wins[model])
        if self.robustness is None:
            return said
        low, high = self.robustness.wins[self.models.index(model)]
        return f"{said} [{share(low)}, {share(high)}]" if low == low else said

    def _turning(self) -> str:
        """Return where the two best models change places."""
        if self.flip is None:
            tied = self.values[self.base].max() == np.sort(self.values[self.base])[-2]
            return (
                "The two best models are tied there."
                if tied
                else "The two best models never change places."
            )
        n = len(self.flip.changed)
        return f"The order turns after {n} change{'s' if n > 1 else ''}: {self.flip}."

    def _w_span(self) -> str:
        if self.robustness is None or self.robustness.kendall_w[0] != self.robustness.kendall_w[0]:
            return ""
        return " [{:.2f}, {:.2f}]".format(*self.robustness.kendall_w)

    def _spoken_robustness(self) -> list[str]:
        found = self.robustness
        if found is None:
            return []
        units = f"{found.n_units} {plural(found.unit)}"
        k = int(np.argmax(found.leads))
        return [
            f"With other {plural(found.unit)} like these, {self.models[k]} wins most configurations in "
            f"{share(found.leads[k])} of {found.replicates} bootstrap replicates of {units}; intervals are "
            f"{100 * found.level:g} % percentile intervals of these."
        ]

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
            "levels": [
                {"choice": name, "level": level, "configurations": n, "wins": wins}
                for name, level, n, wins in self.levels
            ],
            "sentences": self.sentences(),
            "robustness": None if self.robustness is None else self.robustness.as_dict(self.models),
            "rows": self.rows(),
        }

    def figure(self, name: str) -> Figure:
        """Return a figure as data: ``ranks``, ``curve``, ``choices`` or ``levels``."""
        from calipers.plots.multiverse import figure

        return figure(self, name)

    def plot(self, name: str = "curve", ax: Axes | None = None) -> Axes:
        """Draw a figure with matplotlib (extra ``mpl``) and return its axes, which notebooks show."""
        from calipers.plots.mpl import draw

        return draw(self.figure(name), ax)

    def _repr_html_(self) -> str:
        from calipers.report.small import of_multiverse

        return of_multiverse(self)

    def save(self, folder: str | Path, *, force: bool = False, command: Sequence[str] = ()) -> Path:
        """Write ``multiverse.json``, ``multiverse.csv``, figures and ``multiverse.html`` into a
        folder.

        Parameters
        ----------
        folder
            New or empty.
        force
            Allow a folder that holds something; an earlier multiverse in it is replaced, other
            files stay.
        command
            How it was asked for; shown in the page.
        """
        from calipers.report.multiverse import write_multiverse

        return write_multiverse(self, Path(folder), force=force, command=command)


def _level(configuration: Mapping[str, Any], name: str) -> str | None:
    return str(configuration[name]) if name in configuration else None
