# SPDX-License-Identifier: Apache-2.0
"""Studies: published experiments, run from end to end, with a verdict on every claim of the paper.

`run_study` is what the command ``calipers study`` and Python users call. A name and options come
in, a `StudyResult` goes out: figures, tables and one `Claim` per statement, judged by the numbers
of the run. If a statement does not hold, the claim says so; the experiment is not adapted to make
it hold. `calipers.studies.page.write_study` writes the result into a folder.

A `Study` is the paper, its statements, and the function that prepares a run: it returns the heavy
steps, which any worker can do (`calipers.studies.steps`), and what makes a result of them.
Statements and the rules that decide on them are data that were there before the run
(`calipers.studies.claim_rules`); one function per statement, decorated with `Claims.judge`,
receives the numbers of a run and returns a `ClaimJudgement`. (Studies without such a file decorate
with `Claims.statement`, which takes the words too; their claims modules are then the files of
rules.) The study calls `Claims.judge_all` to get all verdicts.

A verdict says what it rests on (`BASES`): numbers of this run, numbers that the paper prints, or
data made to show that something is possible; questions of our own are marked too. The headline
counts these apart. Where a paper
leaves a choice open, `calipers.studies.open_choices` gives the share of configurations in which a
sentence holds, and the claim carries that share.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from calipers.engine.cost import RunCost
from calipers.errors import UsageError, did_you_mean
from calipers.kernels.resampling import check_seed
from calipers.results.document import Document, linked
from calipers.results.estimate import Estimate
from calipers.show.figures import Figure
from calipers.show.table import Amount, Cell, Table
from calipers.studies.claim_rules import ClaimRules, Statement, rule_files
from calipers.studies.open_choices import ScanShare
from calipers.studies.steps import Progress, StepSet, steps_cost

if TYPE_CHECKING:
    from concurrent.futures import Executor

VERDICTS = ("held", "held in part", "did not hold", "not tested")
Basis = Literal["run", "printed", "made", "own"]
# What a verdict rests on. "run": numbers of this run, measured on data or on trained networks, or
# exact consequences of definitions. "printed": the numbers of the paper alone, so the verdict says
# whether its sentences follow from its tables. "made": data made by Calipers in which the statement
# could come true, so the verdict says that something can happen, not that it does. "own": the
# statement is a question of the study that the paper suggests and does not answer; its verdict
# rests on the run, but it is no success or failure of the paper.
BASES: Mapping[Basis, str] = {
    "run": "in this run",
    "printed": "by the paper's own printed numbers only",
    "made": "shown possible on synthetic data",
    "own": "a question of this study, not a sentence of the paper",
}

# name -> (module and variable, the question in one line). A study is imported only when it is run,
# because some need optional packages.
STUDIES: Mapping[str, tuple[str, str]] = {
    "rodeo": (
        "calipers.studies.rodeo.study:STUDY",
        "how AP, accuracy and RoDeO respond to deliberate errors (MIDL 2023)",
    ),
    "anomaly": (
        "calipers.studies.anomaly.study:STUDY",
        "how metrics of anomaly maps respond to errors, and a benchmark (2024)",
    ),
    "stability": (
        "calipers.studies.stability.study:STUDY",
        "whether repeated trainings find the same places, and which scores show it",
    ),
    "monitors": (
        "calipers.studies.monitors.study:STUDY",
        "whether OOD labels rank runtime monitors as failures do (2025)",
    ),
    "polyps": (
        "calipers.studies.polyps.study:STUDY",
        "how polyp detection varies with centre, size, criterion and threshold (2023)",
    ),
}

Run = TypeVar("Run")  # the class with the numbers of a run; each study has its own


def run_study(
    name: str,
    *,
    data: str | Path | None = None,
    predictions: Mapping[str, str] | None = None,
    ranking: str | Path | None = None,
    ood: str | None = None,
    runs: int | None = None,
    seed: int = 0,
    quick: bool = False,
    train: bool = False,
    keep: str | Path | None = None,
    jobs: int = 1,
    executor: Executor | None = None,
    progress: Progress = lambda what, step, total: None,
) -> StudyResult:
    """Run a published experiment and judge the claims of its paper.

    Parameters
    ----------
    name
        One of `STUDIES`.
    data
        File or folder with data for the study; Calipers simulates data if this is left out.
    predictions
        Prediction files by model name, for the table of your own models.
    ranking
        File with a ranking of the algorithms by people: columns ``algorithm`` and ``rank``.
    ood
        Which images of ``data`` are out of distribution: a column of flags, or
        ``column=value,value``.
    runs
        Number of runs, each with its own random numbers; that of the paper if left out.
    seed
        Seed of all random numbers. The same seed gives bit-identical results.
    quick
        Use coarse grids and little data. For trying the study out, not for citing.
    train
        Train the networks of the study (extra ``train``) instead of showing trained results.
    keep
        Folder for the results of training. With ``train`` they are written there, and a run that
        was stopped goes on; without, they are shown again, which needs no PyTorch.
    jobs
        Number of threads for the steps of the study; the result does not depend on it. Networks
        are trained before, on the threads of PyTorch.
    executor
        Any `concurrent.futures.Executor` for the steps instead, such as that of a Dask client.
    progress
        Called with (description of the step, work done, work in total).
    """
    study = load_study(name)
    options = StudyOptions(
        data=data,
        predictions=predictions or {},
        ranking=ranking,
        ood=ood,
        runs=runs,
        seed=seed,
        quick=quick,
        train=train,
        keep=keep,
    )
    # Before the run, which may take minutes: an option that does nothing must not pass unnoticed.
    study.check(options)
    result = study.prepare(options, progress).run(progress, jobs=jobs, executor=executor)
    return replace(result, rules=study.rule_files())


def study_cost(name: str, options: StudyOptions, *, processes: bool = False) -> RunCost:
    """Return what a study takes, from its smallest steps; its networks are not trained for this.

    ``processes`` says whether jobs are processes.
    """
    study = load_study(name)
    study.check(options)
    if options.train:
        raise UsageError("a training cannot be foreseen: leave out --train to plan what follows it")
    start = time.process_time()
    steps = study.prepare(options, lambda what, step, total: None).steps
    alone = time.process_time() - start
    return steps_cost(steps, work=f"study {name}", alone_seconds=alone, processes=processes)


def load_study(name: str) -> Study:
    """Return a study by its name."""
    if name not in STUDIES:
        raise UsageError(f"no study {name!r}; {did_you_mean(name, STUDIES)}")
    study: Study = linked(STUDIES[name][0])
    return study


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement with the verdict on it and the numbers behind that verdict."""

    name: str
    text: str
    where: str
    outcome: bool | None  # whether the statement held; None: in part
    evidence: str  # the numbers, in words
    note: str = ""  # the reason, and how to read the verdict
    # False if the run has no numbers to judge the statement by; `evidence` says what is missing
    is_tested: bool = True
    basis: Basis = "run"  # what the verdict rests on, see `BASES`
    rule: str = ""  # what decides, in words, written before the run
    share: ScanShare | None = None  # of the configurations that the paper leaves open

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`."""
        if not self.is_tested:
            return VERDICTS[3]
        if self.outcome is None:
            return VERDICTS[1]
        return VERDICTS[0] if self.outcome else VERDICTS[2]

    def as_dict(self) -> dict[str, Any]:
        """Return the claim for JSON."""
        share = None
        if self.share is not None:
            share = {"held": self.share.n_held, "total": self.share.n_total}
        return {
            "name": self.name,
            "text": self.text,
            "where": self.where,
            "verdict": self.verdict,
            "basis": self.basis,
            "rule": self.rule,
            "share": share,
            "evidence": self.evidence,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class StudyFigure:
    """A reproduced figure of the paper: panels with a finding as title and a caption."""

    name: str  # "figure-3": letters, digits and dashes; panels are "figure-3a", "figure-3b", ...
    title: str  # the finding, a short sentence
    caption: str  # what is shown, how it was computed, and n
    panels: tuple[Figure, ...]
    rows: tuple[int, ...] = ()  # number of panels in each row; () means three per row

    @property
    def heading(self) -> str:
        """The name in words: "Figure 3", or "Side figure" if it has no number."""
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
        parts = self.parts()
        sizes = self.rows or (3,) * -(-len(parts) // 3)
        rows = []
        for size in sizes:
            rows.append(parts[:size])
            parts = parts[size:]
        # `rows` of a figure may be too short; the remaining panels form a last row.
        if parts:
            rows.append(parts)
        return rows

    def table(self) -> Table:
        """Return the numbers of all panels in one table; panels without a column leave it empty."""
        tables = [(name, panel.title, panel.table()) for name, panel in self.parts()]
        # In the order of first appearance: panels of one figure share most of their columns.
        columns = tuple(dict.fromkeys(column for _, _, table in tables for column in table.columns))
        rows: list[tuple[Cell, ...]] = []
        for name, title, table in tables:
            for row in table.rows:
                cells = dict(zip(table.columns, row))
                rows.append((name, title, *map(cells.get, columns)))
        return Table(("panel", "shows", *columns), tuple(rows))


def letters(k: int) -> str:
    """Return the letters of panel ``k``: a, b, ..., z, aa, ab, ..."""
    prefix = letters(k // 26 - 1) if k >= 26 else ""
    return prefix + chr(ord("a") + k % 26)


@dataclass(frozen=True, slots=True)
class StudyOptions:
    """The options of a run."""

    data: str | Path | None = None  # None: simulated data
    predictions: Mapping[str, str] = field(default_factory=dict)  # model -> file
    ranking: str | Path | None = None  # file with a ranking of algorithms by people
    # which images are out of distribution: a column of flags, or column=value,value
    ood: str | None = None
    runs: int | None = None  # None: the number of the paper
    seed: int = 0
    quick: bool = False  # coarse grids and little data; not for citing
    train: bool = False  # train networks instead of showing trained results
    keep: str | Path | None = None  # folder for the results of training


@dataclass(frozen=True, repr=False, eq=False)
class StudyResult(Document):
    """The result of running a study.

    ``figure(name)`` is a panel of a figure, such as ``"figure-3a"``. ``report(path, ...)`` and
    ``save(folder, ...)`` take the options of `calipers.studies.page.write_study`.
    """

    SCHEMA = "calipers.study/1"
    ROW = "claim"
    FIGURES = "calipers.studies.page:panels"
    PAGE = "calipers.studies.page:write_study_page"
    FOLDER = "calipers.studies.page:write_study"
    TABLES = "calipers.studies.page:tables"

    study: str
    title: str
    citation: str
    source: str  # one sentence about the data
    seed: int
    quick: bool
    settings: Mapping[str, Any]  # grids, runs, sizes: every choice of the run
    claims: tuple[Claim, ...]
    figures: tuple[StudyFigure, ...]
    appendix: tuple[Table, ...] = ()  # further numbers of the run
    methods: tuple[str, ...] = ()  # paragraphs
    references: tuple[str, ...] = ()  # citations in addition to the paper
    warnings: tuple[str, ...] = ()
    inputs: tuple[Mapping[str, Any], ...] = ()  # input files: file, bytes, sha256
    # files with claims and their rules, as they were at the time of the run: file, bytes, sha256
    rules: tuple[Mapping[str, Any], ...] = ()

    def claim(self, name: str) -> Claim:
        """Return one claim."""
        return next(claim for claim in self.claims if claim.name == name)

    def counts(self, basis: Basis | None = None) -> dict[str, int]:
        """Return the number of claims by verdict, with 0 for verdicts that no claim has.

        With a ``basis`` only claims that rest on it are counted.
        """
        # All verdicts, so that a reader sees a zero and need not wonder about a missing one.
        counts = dict.fromkeys(VERDICTS, 0)
        for claim in self.claims:
            if basis is None or claim.basis == basis:
                counts[claim.verdict] += 1
        return counts

    def summary(self) -> str:
        """Return the counts in words, apart for every basis.

        What held in this run, what agrees with the paper's own numbers only, and what was shown
        possible are different achievements; one sum over them would hide that.
        """
        parts = []
        for basis in BASES:
            counts = self.counts(basis)
            total = sum(counts[verdict] for verdict in VERDICTS[:3])
            # A study whose claims all rest on its run need not speak of the others.
            if total:
                parts.append(_counts_text(basis, counts, total))
        n_untested = self.counts()[VERDICTS[3]]
        if n_untested:
            parts.append(f"{n_untested} could not be tested")
        if not parts:
            return "No claims."
        sentence = "; ".join(parts)
        return sentence[:1].upper() + sentence[1:] + "."

    @property
    def rows(self) -> tuple[Claim, ...]:
        """A row per claim."""
        return self.claims

    def _content(self) -> dict[str, Any]:
        figures = []
        for figure in self.figures:
            head = {"name": figure.name, "title": figure.title, "caption": figure.caption}
            figures.append({**head, **_columns(figure.table())})
        tables = []
        for table in self.appendix:
            head = {"name": table.name, "title": table.title, "note": " ".join(table.notes)}
            tables.append({**head, **_columns(table)})
        return {
            "study": self.study,
            "title": self.title,
            "citation": self.citation,
            "source": self.source,
            "seed": self.seed,
            "quick": self.quick,
            "settings": dict(self.settings),
            "summary": self.summary(),
            "counts": {basis: self.counts(basis) for basis in BASES},
            "rules": [dict(entry) for entry in self.rules],
            "claims": self._records(),
            "figures": figures,
            "tables": tables,
            "warnings": list(self.warnings),
            "inputs": [dict(entry) for entry in self.inputs],
        }


def _counts_text(basis: Basis, counts: Mapping[str, int], total: int) -> str:
    """Return the counts of claims that rest on a basis: in this run 12 of 15 held, 3 did not."""
    n_held, in_part, failed = (counts[verdict] for verdict in VERDICTS[:3])
    was = "was" if total == 1 else "were"
    words: Mapping[Basis, str] = {
        "run": f"in this run {n_held} of {total} claims held",
        "printed": f"{n_held} of {total} agree with the paper's own printed numbers only",
        "made": f"{n_held} of {total} {was} shown possible on synthetic data",
        "own": f"of {total} further questions of this study {n_held} held",
    }
    parts = [words[basis]]
    if in_part:
        parts.append(f"{in_part} in part")
    if failed:
        parts.append(f"{failed} did not")
    return ", ".join(parts)


def _columns(table: Table) -> dict[str, Any]:
    """Return a table for JSON; NaN and infinity become null, which JSON has no numbers for."""
    rows = [list(map(_json_cell, row)) for row in table.rows]
    return {"columns": list(table.columns), "rows": rows}


def _json_cell(cell: Cell) -> Any:
    if isinstance(cell, Amount | Estimate):
        return {name: _json_cell(getattr(cell, name)) for name in ("value", "low", "high")}
    if isinstance(cell, float) and not math.isfinite(cell):
        return None
    return cell


@dataclass(frozen=True)
class Study:
    """A published experiment: its paper, the statements of the paper, and how to run it."""

    name: str
    title: str
    citation: str
    statements: tuple[Statement, ...]
    # Reads the data, and trains where that is requested; the work is that of the steps.
    prepare: Callable[[StudyOptions, Progress], StepSet[StudyResult]]
    # the options that a run accepts: a subset of "data", "predictions", "ranking", "ood", "runs",
    # "train" (which goes with "keep")
    takes: frozenset[str] = frozenset()
    # files with claims and rules, below calipers/studies: "stability/claims.toml"
    rules: tuple[str, ...] = ()

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
        """Return the claim for a statement that has been judged."""
        judgement = ClaimJudgement(outcome, evidence, note, is_tested)
        return _claim(self.statement(name), judgement, "run")

    def rule_files(self) -> tuple[Mapping[str, Any], ...]:
        """Return the files of rules with their hashes."""
        return rule_files(self.rules)

    def check(self, options: StudyOptions) -> None:
        """Raise an error for options that this study does not accept."""
        check_seed(options.seed)
        is_set = {
            "data": options.data is not None,
            "predictions": bool(options.predictions),
            "ranking": options.ranking is not None,
            "runs": options.runs is not None,
            "ood": options.ood is not None,
            "train": options.train or options.keep is not None,
        }
        for name in is_set:
            if is_set[name] and name not in self.takes:
                words = "trains no networks" if name == "train" else f"takes no {name}"
                raise UsageError(f"the study {self.name!r} {words}")
        if options.train and find_spec("torch") is None:
            raise UsageError("--train needs PyTorch: pip install 'calipers[train]'")
        # A standard deviation, drawn as a band, needs two runs.
        if options.runs is not None and options.runs < 2:
            raise UsageError(
                "runs must be at least 2, so that a standard deviation exists, not "
                f"{options.runs!r}"
            )


@dataclass(frozen=True, slots=True)
class ClaimJudgement:
    """Whether a statement held (None: in part), the numbers, and how to read them."""

    outcome: bool | None
    evidence: str
    note: str = ""
    is_tested: bool = True
    basis: Basis | None = None  # None: that of the study
    share: ScanShare | None = None


@dataclass
class Claims(Generic[Run]):
    """Statements with the functions that judge them, in the order of the paper."""

    entries: list[tuple[Statement, Callable[[Run], ClaimJudgement]]] = field(default_factory=list)
    rules: ClaimRules | None = None  # for `judge`

    def judge(
        self, name: str
    ) -> Callable[[Callable[[Run], ClaimJudgement]], Callable[[Run], ClaimJudgement]]:
        """Register the decorated function as the judge of a statement of the rules."""
        if self.rules is None:
            raise UsageError(f"the judge of {name!r} needs Claims(rules=ClaimRules.load(...))")
        source = self.rules.statement(name)
        return self._register(source)

    def statement(
        self, name: str, text: str, where: str
    ) -> Callable[[Callable[[Run], ClaimJudgement]], Callable[[Run], ClaimJudgement]]:
        """Register the decorated function as the judge of a statement."""
        return self._register(Statement(name, text, where))

    def _register(
        self, source: Statement
    ) -> Callable[[Callable[[Run], ClaimJudgement]], Callable[[Run], ClaimJudgement]]:
        def register(judge: Callable[[Run], ClaimJudgement]) -> Callable[[Run], ClaimJudgement]:
            self.entries.append((source, judge))
            return judge

        return register

    def judge_all(self, run: Run, basis: Basis = "run") -> tuple[Claim, ...]:
        """Judge every statement by the numbers of a run.

        ``basis`` is what verdicts rest on whose judges do not say so themselves.
        """
        claims = []
        for source, judge in self.entries:
            claims.append(_claim(source, judge(run), basis))
        return tuple(claims)


def _claim(source: Statement, judgement: ClaimJudgement, basis: Basis) -> Claim:
    return Claim(
        source.name,
        source.text,
        source.where,
        judgement.outcome,
        judgement.evidence,
        judgement.note,
        judgement.is_tested,
        "own" if source.is_own else judgement.basis or basis,
        source.rule,
        judgement.share,
    )


def counterparts_table(rows: Sequence[tuple[str, str]]) -> Table:
    """Return where every figure and table of a paper is on the page of its study, or why not.

    Parameters
    ----------
    rows
        What the paper has, and where it is here.
    """
    title = "Where every figure and table of the paper is"
    return Table(("in the paper", "here"), tuple(rows), name="table-counterparts", title=title)


def joint_verdict(flags: Sequence[bool]) -> bool | None:
    """Return True if all flags are true, False if none is, and None (in part) otherwise."""
    if all(flags):
        return True
    return None if any(flags) else False


def number_text(value: float) -> str:
    """Return a number with three decimals, or "undefined" for NaN."""
    return "undefined" if math.isnan(value) else f"{value:.3f}"
