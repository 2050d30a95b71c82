# SPDX-License-Identifier: Apache-2.0
"""The result of a multiverse: values and ranks of all models under all configurations.

`calipers.sensitivity.multiverse` makes it. It answers who wins how often, which choices move the
ranks (eta squared), how far the configurations agree (Kendall's W, mean tau-b), and which smallest
change of choices reverses the two best models; as sentences, rows, JSON, figures and a page.
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
from calipers.sensitivity.wording import (
    change_text,
    choice_name,
    configuration_label,
    percent_text,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from calipers.plots.figures import Figure

F64 = NDArray[np.float64]

SCHEMA = "calipers.multiverse/1"
NOTICED = 0.01  # smaller changes of a share of configurations are not reported


@dataclass(frozen=True)
class Flip:
    """The configuration nearest to the base in which two models change places."""

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
        changes = " and ".join(change_text(name, *pair) for name, pair in self.changed.items())
        first, second = self.turned
        return f"with {changes}, {self.worse} ({second:.3f}) beats {self.better} ({first:.3f})"


@dataclass(frozen=True)
class Multiverse:
    """Values and ranks of all models under all configurations in which every model has a value."""

    models: tuple[str, ...]
    choices: tuple[str, ...]
    each: tuple[Mapping[str, Any], ...]  # configurations
    values: F64  # (configurations, models)
    base: int  # the configuration that the others are compared with
    n_possible: int  # combinations of the grid
    n_undefined: int  # configurations left out, because a model has no value
    n_images: int
    n_references: int
    robustness: Robustness | None = None  # with replicates, if there are enough units

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
        """Choice -> the share of the variance of the winner's rank that it explains by itself, in
        descending order.
        """
        rank = self.ranks[:, self.models.index(self.winner)]
        shares: dict[str, float] = {}
        for name in self.choices:
            levels = [_level(one, name) for one in self.each]
            shares[name] = rank_analysis.explained(rank, levels)
        return dict(sorted(shares.items(), key=lambda pair: -pair[1]))

    @property
    def silent(self) -> list[str]:
        """The choices with several values that change no model's share by `NOTICED` or more."""
        shares_of: dict[str, list[list[float]]] = {}
        for choice, _, _, wins in self.levels:
            shares_of.setdefault(choice, []).append(list(wins.values()))
        ranges = {name: np.ptp(np.array(shares), axis=0) for name, shares in shares_of.items()}
        return [name for name, differences in ranges.items() if differences.max() < NOTICED]

    @cached_property
    def levels(self) -> list[tuple[str, str, int, dict[str, float]]]:
        """(choice, level, configurations, model -> share of them that it wins), for choices with
        several levels.
        """
        rows = []
        for name in self.choices:
            level_of_each = np.array([_level(one, name) or "" for one in self.each])
            levels = [level for level in dict.fromkeys(level_of_each.tolist()) if level]
            if len(levels) < 2:
                continue
            for level in levels:
                ranks = self.ranks[level_of_each == level]
                wins = dict(zip(self.models, rank_analysis.winners(ranks).tolist()))
                rows.append((name, level, len(ranks), wins))
        return rows

    @property
    def best_two(self) -> tuple[str, str]:
        """The best and the second best model under the base."""
        order = np.argsort(-self.values[self.base], kind="stable")
        return self.models[order[0]], self.models[order[1]]

    @property
    def better(self) -> F64:
        """(models, models): the share of configurations in which the row beats the column."""
        return rank_analysis.better(self.values)

    @cached_property
    def flip(self) -> Flip | None:
        """The nearest configuration in which the two best models of the base change places; None
        if there is none.
        """
        return self.flip_of(*self.best_two)

    def flip_of(self, one: str, other: str) -> Flip | None:
        """Return the nearest configuration in which two models change places; None without one."""
        for name in (one, other):
            if name not in self.models:
                raise UsageError(
                    f"no model {name!r} in this multiverse; {did_you_mean(name, self.models)}"
                )
        pair = self.models.index(one), self.models.index(other)
        place = rank_analysis.nearest_flip(self.values, self.each, self.base, pair)
        if place is None:
            return None
        if self.values[self.base, pair[0]] < self.values[self.base, pair[1]]:
            one, other, pair = other, one, (pair[1], pair[0])
        return Flip(
            one,
            other,
            self.each[self.base],
            self.each[place],
            (float(self.values[self.base, pair[0]]), float(self.values[self.base, pair[1]])),
            (float(self.values[place, pair[0]]), float(self.values[place, pair[1]])),
        )

    def sentences(self) -> list[str]:
        """Return the findings of the multiverse in sentences, the most important first."""
        won, n = self._share_won(self.winner), len(self.each)
        base = configuration_label(self.each[self.base])
        sentences = [
            f"{self.winner} is best under the base ({base}), and in {won} of {n} configurations."
        ]
        rivals = [m for m in self.models if m != self.winner and self.wins[m] > 0]
        rivals.sort(key=lambda model: -self.wins[model])
        if rivals:
            shares = ", ".join(f"{model} in {self._share_won(model)}" for model in rivals)
            sentences.append(f"Other winners: {shares}.")
        top = [(name, share) for name, share in self.explained.items() if share >= 0.01][:3]
        if top:
            parts = ", ".join(f"{choice_name(name)} {percent_text(share)}" for name, share in top)
            sentences.append(
                f"Choices that explain most of the variance in the rank of {self.winner}: {parts}."
            )
        sentences.append(self._flip_sentence())
        if len(self.models) > 2:
            w = f"Kendall's W = {self.kendall_w:.2f}{self._w_interval()}"
            sentences.append(
                f"Agreement of the configurations on the order: {w}, "
                f"mean tau-b {self.mean_tau:.2f}."
            )
        return [*sentences, *self._robustness_sentences()]

    def _share_won(self, model: str) -> str:
        """Return the share of configurations that a model wins, with its interval if known."""
        text = percent_text(self.wins[model])
        if self.robustness is None:
            return text
        low, high = self.robustness.wins[self.models.index(model)]
        if np.isnan(low):
            return text
        return f"{text} [{percent_text(low)}, {percent_text(high)}]"

    def _flip_sentence(self) -> str:
        """Return where the two best models change places."""
        if self.flip is None:
            best, second = np.sort(self.values[self.base])[[-1, -2]]
            if best == second:
                return "The two best models are tied under the base."
            return "The two best models never change places."
        n = len(self.flip.changed)
        changes = "1 change" if n == 1 else f"{n} changes"
        return f"The order of the two best reverses after {changes}: {self.flip}."

    def _w_interval(self) -> str:
        if self.robustness is None or np.isnan(self.robustness.kendall_w[0]):
            return ""
        low, high = self.robustness.kendall_w
        return f" [{low:.2f}, {high:.2f}]"

    def _robustness_sentences(self) -> list[str]:
        robust = self.robustness
        if robust is None:
            return []
        k = int(np.argmax(robust.leads))
        return [
            f"Resampled by {robust.unit} (n = {robust.n_units}), {self.models[k]} wins most "
            f"configurations in {percent_text(robust.leads[k])} of {robust.replicates} bootstrap "
            f"samples; brackets are {100 * robust.level:g} % percentile intervals."
        ]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per configuration and model."""
        rows = []
        for k, one in enumerate(self.each):
            choices = {name: one.get(name) for name in self.choices}
            for m, model in enumerate(self.models):
                value, rank = float(self.values[k, m]), float(self.ranks[k, m])
                rows.append({**choices, "model": model, "value": number(value), "rank": rank})
        return rows

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a pandas frame (extra ``frames``)."""
        from calipers.results.frames import frame

        return frame(self.rows())

    def as_dict(self) -> dict[str, Any]:
        """Return the document ``calipers.multiverse/1``."""
        from calipers import __version__

        flip = None
        if self.flip is not None:
            flip = {"words": str(self.flip), "other": dict(self.flip.other)}
        robust = None
        if self.robustness is not None:
            robust = self.robustness.as_dict(self.models)
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
            "flip": flip,
            "levels": [
                {"choice": name, "level": level, "configurations": n, "wins": wins}
                for name, level, n, wins in self.levels
            ],
            "sentences": self.sentences(),
            "robustness": robust,
            "rows": self.rows(),
        }

    def figure(self, name: str) -> Figure:
        """Return a figure as data: ``ranks``, ``curve``, ``choices`` or ``levels``."""
        from calipers.plots.multiverse import figure

        return figure(self, name)

    def plot(self, name: str = "curve", ax: Axes | None = None) -> Axes:
        """Draw a figure with matplotlib (extra ``mpl``); return its axes, which notebooks show."""
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
            The command line that made it; printed on the page.
        """
        from calipers.report.multiverse import write_multiverse

        return write_multiverse(self, Path(folder), force=force, command=command)


def _level(configuration: Mapping[str, Any], name: str) -> str | None:
    return str(configuration[name]) if name in configuration else None
