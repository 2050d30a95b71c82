# SPDX-License-Identifier: Apache-2.0
"""Scans: in how many of the configurations that a paper leaves open does a sentence hold?

A paper rarely states every choice of an experiment. Instead of one configuration, picked by us,
`scan_configurations` runs all combinations of the open choices and asks of each which sentences
hold there; `configuration_steps` leaves that to the workers of a study. The `Scan` says for every
sentence the share of configurations, in all and by choice, so that a reader sees which choice
decides:

>>> from calipers.studies.open_choices import scan_configurations
>>> choices = {"objects": (1, 4), "radius": (0.7, 1.0)}
>>> def holds(one):
...     return {"AP falls": one["objects"] * one["radius"] < 4}
>>> scan = scan_configurations(choices, holds)
>>> scan.share("AP falls").text
'3 of 4 configurations'

Configurations are counted alike. The share is no probability: it speaks of the grid, which a study
writes down with its rules.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calipers.show.table import Cell, Table
from calipers.studies.steps import StepSet, StudyStep

Configuration = Mapping[str, Any]
# Sentence -> whether it holds; None where a configuration cannot tell.
Outcomes = Mapping[str, bool | None]


@dataclass(frozen=True, slots=True)
class ScanShare:
    """In how many configurations a sentence holds, of those that can tell."""

    n_held: int
    n_total: int
    unit: str = "configurations"  # what is counted

    @property
    def text(self) -> str:
        """The share in words."""
        return f"{self.n_held} of {self.n_total} {self.unit}"

    @classmethod
    def of(cls, flags: Sequence[bool], unit: str) -> ScanShare:
        """Return the share of true flags."""
        return cls(sum(map(bool, flags)), len(flags), unit)

    @property
    def outcome(self) -> bool | None:
        """Return True if it holds everywhere, False if nowhere, None (in part) otherwise."""
        if self.n_held == self.n_total:
            return True
        return None if self.n_held else False


@dataclass(frozen=True)
class Scan:
    """The outcomes of all configurations."""

    choices: Mapping[str, Sequence[Any]]
    configurations: tuple[Configuration, ...]
    outcomes: tuple[Outcomes, ...]  # one for each configuration

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences, in order of first appearance."""
        names: dict[str, None] = {}
        for outcome in self.outcomes:
            names |= dict.fromkeys(outcome)
        return tuple(names)

    def share(self, sentence: str, **where: Any) -> ScanShare:
        """Return the share of configurations in which a sentence holds.

        ``where`` restricts the configurations: ``share("AP falls", objects=1)``.
        """
        n_held = n_total = 0
        for configuration, outcome in zip(self.configurations, self.outcomes, strict=True):
            is_asked = all(configuration[name] == value for name, value in where.items())
            value = outcome.get(sentence)
            if is_asked and value is not None:
                n_held += bool(value)
                n_total += 1
        return ScanShare(n_held, n_total)

    def table(self, name: str, title: str) -> Table:
        """Return a column per sentence: the share in all, then by the value of every choice."""
        rows: list[tuple[Cell, ...]] = [("all", "", *self._shares({}))]
        for choice, values in self.choices.items():
            # A choice with one value would repeat the total.
            if len(values) > 1:
                for value in values:
                    rows.append((choice, choice_text(value), *self._shares({choice: value})))
        note = (
            f"{len(self.configurations)} configurations, counted alike: in how many of those that "
            "can tell a sentence holds."
        )
        columns = ("choice", "value", *self.sentences)
        return Table(columns, tuple(rows), title=title, name=name, notes=(note,))

    def _shares(self, where: Mapping[str, Any]) -> list[Cell]:
        """Return the share of every sentence in some configurations, as text."""
        parts = [self.share(sentence, **where) for sentence in self.sentences]
        return [f"{part.n_held}/{part.n_total}" for part in parts]


def configurations_of(choices: Mapping[str, Sequence[Any]]) -> tuple[Configuration, ...]:
    """Return every combination of choices (name -> values), the last choice fastest."""
    return tuple(dict(zip(choices, values)) for values in itertools.product(*choices.values()))


def scan_configurations(
    choices: Mapping[str, Sequence[Any]], outcomes_of: Callable[[Configuration], Outcomes]
) -> Scan:
    """Run every combination of the choices here and now.

    Parameters
    ----------
    choices
        Name of a choice -> its values.
    outcomes_of
        Takes a configuration (name -> value) and returns which sentences hold there; None for a
        sentence that this configuration cannot decide.
    """
    configurations = configurations_of(choices)
    outcomes = [dict(outcomes_of(configuration)) for configuration in configurations]
    return Scan(dict(choices), configurations, tuple(outcomes))


def configuration_steps(
    what: str,
    choices: Mapping[str, Sequence[Any]],
    outcomes_of: Callable[..., Outcomes],
    arguments: tuple[Any, ...] = (),
    weight: float = 1.0,
) -> StepSet[Scan]:
    """Return a step for every combination of the choices; together they make the scan.

    Parameters
    ----------
    outcomes_of
        As for `scan_configurations`, a function of a module: workers in other processes import it.
    arguments
        Its further arguments.
    weight
        How long a configuration takes, see `StudyStep`.
    """
    configurations = configurations_of(choices)
    steps = []
    for configuration in configurations:
        steps.append(StudyStep(what, outcomes_of, (configuration, *arguments), weight))

    def compose(results: Sequence[Outcomes]) -> Scan:
        return Scan(dict(choices), configurations, tuple(map(dict, results)))

    return StepSet(tuple(steps), compose)


def choice_text(value: object) -> str:
    """Return a choice or a setting for a reader: ``yes``, ``0.5``, ``by-score``."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
