# SPDX-License-Identifier: Apache-2.0
"""What a study is: a published experiment that can be run, and what it leaves behind, as data.

A study names the statements of its paper. A run gives figures, tables and one claim per statement,
judged by numbers. Where a statement does not hold, the claim says so; the experiment is never bent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calipers.errors import UsageError
from calipers.kernels.resampling import check_seed
from calipers.plots.figures import Cell, Figure, Table

SCHEMA = "calipers.study/1"
VERDICTS = ("held", "held in part", "did not hold", "not tested")
Progress = Callable[[str, int, int], None]  # what is being done, units done, units in all


@dataclass(frozen=True, slots=True)
class Statement:
    """Something that a paper says, in our words."""

    name: str  # short, unique in its study: "accuracy-rises-with-underprediction"
    text: str
    where: str  # in the paper: "section 5, figure 4"


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement, judged by the numbers of a run."""

    name: str
    text: str
    where: str
    outcome: bool | None  # None: in part
    evidence: str  # the numbers, in words
    note: str = ""  # why, and what a reader should make of it
    # False if the run had nothing to judge it by; `evidence` says what is missing
    is_tested: bool = True

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`."""
        if not self.is_tested:
            return VERDICTS[3]
        return VERDICTS[1] if self.outcome is None else VERDICTS[0 if self.outcome else 2]

    def as_dict(self) -> dict[str, Any]:
        """Return the claim for JSON."""
        return {
            "name": self.name,
            "text": self.text,
            "where": self.where,
            "verdict": self.verdict,
            "evidence": self.evidence,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class StudyFigure:
    """One figure of the paper, made anew: panels side by side, with a finding above and a caption
    below.
    """

    name: str  # "figure-3": letters, digits and dashes; panels are "figure-3a", "figure-3b", ...
    title: str  # the finding, a short sentence
    caption: str  # what is shown, how it was made, what n is
    panels: tuple[Figure, ...]
    rows: tuple[int, ...] = ()  # panels beside each other, row by row; () = three in a row

    @property
    def heading(self) -> str:
        """The name in words: Figure 3; Side figure, if it has no number."""
        kind, _, rest = self.name.partition("-")
        words = f"{kind} {rest}" if rest[:1].isdigit() else f"{rest.replace('-', ' ')} {kind}"
        return words[:1].upper() + words[1:]

    def parts(self) -> list[tuple[str, Figure]]:
        """Return the panels with their names."""
        if len(self.panels) == 1:
            return [(self.name, self.panels[0])]
        return [(self.name + letters(k), panel) for k, panel in enumerate(self.panels)]

    def layout(self) -> list[list[tuple[str, Figure]]]:
        """Return the panels with their names, row by row."""
        parts, found = self.parts(), []
        for n in self.rows or (3,) * -(-len(parts) // 3):
            found.append(parts[:n])
            parts = parts[n:]
        return [*found, parts] if parts else found

    def table(self) -> Table:
        """Return the numbers of all panels: columns of all of them, the panel first."""
        tables = [(name, panel.title, panel.table()) for name, panel in self.parts()]
        columns = tuple(dict.fromkeys(column for _, _, table in tables for column in table.columns))
        rows: list[tuple[Cell, ...]] = []
        for name, title, table in tables:
            for row in table.rows:
                at = dict(zip(table.columns, row))
                rows.append((name, title, *(at.get(column) for column in columns)))
        return Table(("panel", "shows", *columns), tuple(rows))


def letters(k: int) -> str:
    """Return a, b, ..., z, aa, ab, ...: the letter of the panel ``k``."""
    return (letters(k // 26 - 1) if k >= 26 else "") + chr(ord("a") + k % 26)


@dataclass(frozen=True, slots=True)
class StudyTable:
    """A table of the study."""

    name: str  # "table-1": letters, digits and dashes
    title: str
    table: Table
    note: str = ""


@dataclass(frozen=True, slots=True)
class StudyOptions:
    """What a run is asked for."""

    data: str | Path | None = None  # None: data that Calipers makes
    predictions: Mapping[str, str] = field(default_factory=dict)  # model -> file
    ranking: str | Path | None = None  # of algorithms, by people
    # which images of the data are out of distribution: a column, or column=value,value
    ood: str | None = None
    runs: int | None = None  # None: what the paper has
    seed: int = 0
    quick: bool = False  # coarser grids, less data: to try it out, not to cite


@dataclass(frozen=True)
class StudyResult:
    """What a run found."""

    study: str
    title: str
    citation: str
    source: str  # the data, in a sentence
    seed: int
    quick: bool
    settings: Mapping[str, Any]  # grids, runs, sizes: everything chosen
    claims: tuple[Claim, ...]
    figures: tuple[StudyFigure, ...]
    tables: tuple[StudyTable, ...] = ()
    methods: tuple[str, ...] = ()  # paragraphs
    references: tuple[str, ...] = ()  # citations besides the paper
    warnings: tuple[str, ...] = ()
    inputs: tuple[Mapping[str, Any], ...] = ()  # files that were read: file, bytes, sha256

    def claim(self, name: str) -> Claim:
        """Return one claim."""
        return next(claim for claim in self.claims if claim.name == name)

    def counts(self) -> dict[str, int]:
        """Return how many claims have each verdict."""
        return {
            verdict: sum(claim.verdict == verdict for claim in self.claims) for verdict in VERDICTS
        }

    def summary(self) -> str:
        """Return the counts as a sentence: 12 of 15 claims held, 2 held in part, 1 did not hold."""
        counts = self.counts()
        is_tested = len(self.claims) - counts[VERDICTS[3]]
        said = [f"{counts['held']} of {is_tested} claims held"]
        said += [f"{counts[verdict]} {verdict}" for verdict in VERDICTS[1:3] if counts[verdict]]
        last = counts[VERDICTS[3]]
        return ", ".join(said) + (f"; {last} could not be tested" if last else "") + "."

    def as_dict(self) -> dict[str, Any]:
        """Return the document ``calipers.study/1``."""
        from calipers import __version__

        return {
            "schema": SCHEMA,
            "calipers": __version__,
            "study": self.study,
            "title": self.title,
            "citation": self.citation,
            "source": self.source,
            "seed": self.seed,
            "quick": self.quick,
            "settings": dict(self.settings),
            "summary": self.summary(),
            "claims": [claim.as_dict() for claim in self.claims],
            "figures": [
                {"name": f.name, "title": f.title, "caption": f.caption, **_columns(f.table())}
                for f in self.figures
            ],
            "tables": [
                {"name": t.name, "title": t.title, "note": t.note, **_columns(t.table)}
                for t in self.tables
            ],
            "warnings": list(self.warnings),
            "inputs": [dict(entry) for entry in self.inputs],
        }


def _columns(table: Table) -> dict[str, Any]:
    """Return a table for JSON; what is not finite is null."""
    rows = [
        [None if isinstance(c, float) and not math.isfinite(c) else c for c in row]
        for row in table.rows
    ]
    return {"columns": list(table.columns), "rows": rows}


@dataclass(frozen=True)
class Study:
    """A published experiment: where it comes from, what its paper says, and how it is run."""

    name: str
    title: str
    citation: str
    statements: tuple[Statement, ...]
    run: Callable[[StudyOptions, Progress], StudyResult]
    takes: frozenset[str] = (
        frozenset()
    )  # of "data", "predictions", "ranking", "ood", "runs": what a run can be given

    def statement(self, name: str) -> Statement:
        """Return one statement."""
        return next(statement for statement in self.statements if statement.name == name)

    def claim(
        self,
        name: str,
        outcome: bool | None,
        evidence: str,
        note: str = "",
        *,
        is_tested: bool = True,
    ) -> Claim:
        """Judge a statement."""
        said = self.statement(name)
        return Claim(said.name, said.text, said.where, outcome, evidence, note, is_tested)

    def check(self, options: StudyOptions) -> None:
        """Raise for options that this study cannot follow."""
        check_seed(options.seed)
        given = {"data": options.data is not None, "predictions": bool(options.predictions)}
        given |= {"ranking": options.ranking is not None, "runs": options.runs is not None}
        given["ood"] = options.ood is not None
        for name, was_given in given.items():
            if was_given and name not in self.takes:
                raise UsageError(f"the study {self.name!r} takes no {name}")
        if options.runs is not None and options.runs < 2:
            raise UsageError(
                f"runs is a number of at least 2, so that there is a band, not {options.runs!r}"
            )
