# SPDX-License-Identifier: Apache-2.0
"""Tables of the study of stability: those of the paper, with the printed numbers beside ours.

A `StabilityRun` comes in, tables go out in the order of the paper, to `study.run`. Some need no
run: the binary examples and the last steps are computed from the printed counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from calipers.agreement.raters import agreement_scores
from calipers.show.table import Cell, Table
from calipers.stability.result import StabilityResult
from calipers.studies.stability.data import (
    BINARY,
    LAST_STEPS,
    LSE_SMALL,
    NAN,
    NOR,
    PASCAL,
    ROW_TOTALS,
    SPLIT,
    TABLE_V,
    TABLE_VI,
    TABLE_VII,
)
from calipers.studies.stability.experiments import (
    LINES,
    MOVES,
    SCORES,
    Extreme,
    Key,
    StabilityRun,
    last_step,
)

SIMULATED = (
    "Our values come from simulated families, whose recipes were chosen with the printed table in "
    "view: their similarity is no evidence about networks. Printed: Romanova et al."
)
GIVEN = "Our values are computed from the given maps. Printed: Romanova et al."
MEASURES = ("AUC", "DICE", "accuracy")  # of table V
# As the paper states them; _limits puts the counted ones beside.
LIMITS = {
    "PJ": "-",
    "PO": "[0, 1]",
    "APO": "[1 - N, 1]",
    "HAPJ": "[0, 1]",
    "APJ": "[-0.333, 1]",
    "AJ": "[-1, 1]",
}


def study_tables(run: StabilityRun) -> tuple[Table, ...]:
    """Return all tables, in the order of the paper."""
    return (
        _limits(run),
        _moves(run),
        _binary(),
        _performance(run),
        _annotated(run),
        _operators(run),
        _split(run),
        _last_steps(),
        _misprints(run),
    )


def _limits(run: StabilityRun) -> Table:
    """Return the extremes of every score over all tables of the largest N."""
    rows: list[tuple[Cell, ...]] = []
    n = run.counting.most
    for name in SCORES:
        low = run.counting.extreme(name, n, low=True)
        high = run.counting.extreme(name, n, low=False)
        missing = int(np.isnan(run.counting.value(name)).sum())
        ends = (low.value, _places_text(low), high.value, _places_text(high))
        rows.append((name, LIMITS[name], *ends, missing))
    columns = (
        "score",
        "limits in the paper",
        "lowest",
        "at (n00, n01, n10, n11)",
        "highest",
        "at",
        "tables undefined",
    )
    note = (
        f"All tables of N = {n} instances; undefined: of the {len(run.counting.tables)} tables of "
        f"1 to {n} instances. The lowest values of APJ and AJ are those of every even N, those of "
        "APO fall with N."
    )
    return Table(
        columns,
        tuple(rows),
        name="table-1",
        title="Limits of the scores, by counting",
        notes=(note,),
    )


def _places_text(extreme: Extreme) -> str:
    """Return the first table that has an extreme value, and how many others have it."""
    first, n = _counts_text(extreme.tables[0]), len(extreme.tables)
    return f"{first} and {n - 1} more" if n > 1 else first


def _counts_text(counts: Sequence[float]) -> str:
    return f"({', '.join(str(int(count)) for count in counts)})"


def _moves(run: StabilityRun) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for move in MOVES:
        for name in SCORES:
            one = run.counting.move_effect(name, move)
            rows.append(
                (
                    move,
                    name,
                    one.n,
                    one.rises,
                    one.stays,
                    one.falls,
                    one.worst,
                    _counts_text(one.example) if one.falls else "",
                )
            )
    columns = (
        "what happens to an instance",
        "score",
        "tables",
        "rises",
        "stays",
        "falls",
        "largest fall",
        "from",
    )
    note = (
        "Every table of the same sizes in which the move can be made and the score is defined "
        "before and after. The first two add an instance, so N grows; the others keep N. From: "
        "(n00, n01, n10, n11)."
    )
    return Table(
        columns, tuple(rows), name="table-1-moves", title="Where scores are monotone", notes=(note,)
    )


def _binary() -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, (counts, aj, apj) in BINARY.items():
        ours = agreement_scores(*counts)
        n00, n01, n10, n11 = counts
        # Printed and computed totals side by side, so that a misprint shows.
        totals = " / ".join(map(str, ROW_TOTALS[name])), f"{n00 + n01} / {n10 + n11}"
        scores = (aj, ours["AJ"], apj, ours["APJ"], ours["positive_share"], ours["TAR"])
        more = tuple(ours[score] for score in ("PAR", "NAR", "PABAK", "AC1"))
        rows.append((name, _counts_text(counts), *totals, *scores, *more))
    columns = (
        *("table", "(n00, n01, n10, n11)", "row totals, printed", "row totals"),
        *("AJ, printed", "AJ", "APJ, printed", "APJ", "TAR as printed (eq. 20)", "TAR"),
        *("PAR", "NAR", "PABAK", "AC1"),
    )
    note = (
        "Scores agree to the two digits printed. Misprints: a row total of IIIb, 55 for 45, and "
        "equation 20, which leaves n00 out of the total agreement. IIa and IIb share n11 but not "
        "the total agreement; PABAK and AC1 follow the latter."
    )
    return Table(columns, tuple(rows), name="table-2-3", title="Tables II and III", notes=(note,))


def _last_steps() -> Table:
    rows: list[tuple[Cell, ...]] = []
    for line in LINES:
        counts = last_step(line)
        ours = agreement_scores(*counts)
        paper = _counts_text(LAST_STEPS[line]) if line in LAST_STEPS else "-"
        rows.append(
            (line, paper, _counts_text(counts), ours["APJ"], ours["AJ"], ours["PAR"], ours["TAR"])
        )
    columns = (
        "line of figure 9",
        "printed (n00, n01, n10, n11)",
        "ours",
        "APJ",
        "AJ",
        "PAR",
        "TAR",
    )
    return Table(
        columns, tuple(rows), name="table-9", title="Table IX: the last step of the simulation"
    )


def _performance(run: StabilityRun) -> Table:
    """Return table V: bag AUC, DICE and accuracy of the first operator of every data set."""
    rows: list[tuple[Cell, ...]] = []
    for data in dict.fromkeys(key[0] for key in run.cells):
        key = next(key for key in run.cells if key[0] == data)
        cells: list[Cell] = [data, key[1]]
        # The paper prints this table for NOR only.
        paper = TABLE_V.get(data) if key[1] == NOR else None
        for k, name in enumerate(MEASURES):
            if key in run.folds:
                cells += _folds(run, key, name.lower())
            else:
                cells += _models(run.cells[key], name)
            cells += map(_cell, paper[k] if paper is not None else (NAN, NAN))
        rows.append(tuple(cells))
    columns = ("data set", "operator", *_with_sd(MEASURES))
    over = "models" if run.has_maps else "five folds"
    note = (
        f"Mean and standard deviation (ddof 0) over {over}. Accuracy: Jaccard index of at least "
        f"0.1 against the reference. {GIVEN if run.has_maps else SIMULATED}"
    )
    return Table(columns, tuple(rows), name="table-5", title="Table V: performance", notes=(note,))


def _with_sd(measures: Sequence[str]) -> tuple[str, ...]:
    """Return the headings of mean and standard deviation, ours and printed, of measures."""
    headings: list[str] = []
    for name in measures:
        headings += [name, f"{name} SD", f"{name}, printed", f"{name} SD, printed"]
    return tuple(headings)


def _folds(run: StabilityRun, key: Key, name: str) -> tuple[Cell, Cell]:
    values = [getattr(fold, name) for fold in run.folds[key]]
    return float(np.mean(values)), float(np.std(values))


def _models(cell: StabilityResult, name: str) -> tuple[Cell, Cell]:
    if not cell.localized.has(name):
        return None, None
    return cell.localized.mean(name), cell.localized.sd(name)


def _cell(value: float) -> Cell:
    return None if math.isnan(value) else value


def _annotated(run: StabilityRun) -> Table:
    """Return table VI: stability and DICE on annotated bags."""
    rows: list[tuple[Cell, ...]] = []
    for data in dict.fromkeys(key[0] for key in run.cells):
        key = next(key for key in run.cells if key[0] == data)
        cell = run.cells[key]
        places = cell.localized.places
        paper = TABLE_VI.get(data) if key[1] == NOR else None
        if not len(places):
            continue
        cells: list[Cell] = [data, key[1], len(places), paper.bags if paper else None]
        values_of = [cell.per_bag(name)[places] for name in ("APJ", "Spearman")]
        values_of.append(cell.localized.per_bag("DICE")[0])
        for k, values in enumerate(values_of):
            cells += [float(np.nanmean(values)), float(np.nanstd(values))]
            cells += map(_cell, paper.scores[k] if paper is not None else (NAN, NAN))
        rows.append(tuple(cells))
    headings: tuple[str, ...] = ("data set", "operator", "bags", "bags, printed")
    headings += _with_sd(("APJ", "Spearman", "DICE"))
    note = (
        "Mean and standard deviation (ddof 0) over annotated positive bags; DICE of a bag is the "
        f"mean over models. {GIVEN if run.has_maps else SIMULATED} MURA has no annotations in the "
        "paper; the simulated family has."
    )
    return Table(
        headings,
        tuple(rows),
        name="table-6",
        title="Table VI: stability and DICE on annotated bags",
        notes=(note,),
    )


def _operators(run: StabilityRun) -> Table:
    """Return the first half of table VII: stability of every cell."""
    rows: list[tuple[Cell, ...]] = []
    for key, cell in run.cells.items():
        paper = TABLE_VII.get(key)
        cells: list[Cell] = [*key, cell.n_used, cell.undefined("APJ").pairs]
        for name in ("APJ", "Spearman"):
            estimate = cell[name]
            ours = (estimate.value, estimate.low, estimate.high, cell.sd(name))
            cells += map(_cell, (*ours, *getattr(paper, name.lower(), (NAN, NAN))))
        rows.append(tuple(cells))
    columns: tuple[str, ...] = ("data set", "operator", "positive bags", "APJ pairs undefined")
    for name in ("APJ", "Spearman"):
        columns += (
            name,
            f"{name} low",
            f"{name} high",
            f"{name} SD",
            f"{name}, printed",
            f"{name} SD, printed",
        )
    note = (
        "Mean over positive bags, 95 % interval by resampling bags, standard deviation over bags "
        f"(ddof 0). {GIVEN if run.has_maps else SIMULATED}"
    )
    return Table(
        columns,
        tuple(rows),
        name="table-7",
        title="Table VII: stability by pooling operator",
        notes=(note,),
    )


def _split(run: StabilityRun) -> Table:
    """Return the second half of table VII: performance, with the columns of one split."""
    rows: list[tuple[Cell, ...]] = []
    for key, cell in run.cells.items():
        paper = TABLE_VII.get(key)
        cells: list[Cell] = [*key]
        for name in ("AUC", "DICE"):
            low = name.lower()
            if key in run.folds:
                cells += [*_folds(run, key, low), getattr(run.folds[key][SPLIT], low)]
            else:
                cells += [*_models(cell, name), None]
            cells += [_cell(value) for value in getattr(paper, low, (NAN, NAN))]
            cells.append(_cell(getattr(paper, f"split_{low}", NAN)))
        rows.append(tuple(cells))
    columns: tuple[str, ...] = ("data set", "operator")
    for name in ("AUC", "DICE"):
        columns += (name, f"{name} SD", f"split {name}", f"{name}, printed", f"{name} SD, printed")
        columns += (f"split {name}, printed",)
    over = (
        "the given models, without a split"
        if run.has_maps
        else f"five folds; split: fold {SPLIT + 1}"
    )
    note = (
        f"Mean and standard deviation (ddof 0) over {over}, on whose test bags the stability was "
        f"measured. {GIVEN if run.has_maps else SIMULATED}"
    )
    title = "Table VII: performance by pooling operator"
    return Table(columns, tuple(rows), name="table-7-performance", title=title, notes=(note,))


def _misprints(run: StabilityRun) -> Table:
    """Return the misprints of the paper."""
    one, split = run.ties, TABLE_VII[PASCAL, LSE_SMALL]
    rows: tuple[tuple[Cell, ...], ...] = (
        ("table IIIb", "row total 55", "45", "its cells are 5 and 40, and rows add up to 100"),
        (
            "equation 20",
            "TAR = n11 / N",
            "(n11 + n00) / N",
            "the total agreement counts both kinds; 0.4 against 0.8 in IIa",
        ),
        (
            *(
                "table I, Spearman",
                "1 - 6 sum d^2 / (N (N^2 - 1)) and a root",
                "the correlation of midranks",
            ),
            f"wrong with ties: {one.formula['with ties']:.3f} against "
            f"{one.spearman['with ties']:.3f} on a map of zeros and a spot",
        ),
        (
            *("table I, Kendall", "over all pairs", "tau-b, or say tau-a"),
            f"ties: tau-a {one.tau_a['with ties']:.3f}, tau-b {one.tau_b['with ties']:.3f} on the "
            "same map",
        ),
        (
            "equation 23",
            "prod over S of p, prod over the rest of p",
            "1 - p over the rest",
            "else the rest should be positive too",
        ),
        (
            "section III-A3",
            "at least N - (n*1 + n1*) overlap",
            "n*1 + n1* - N",
            "a sign; equation 17 has it right",
        ),
        (
            *(
                "table VII, Pascal VOC, LSE r=0.1",
                f"split DICE {split.split_dice:.2f}",
                "perhaps 0.23",
            ),
            f"the folds have {split.dice[0]:.2f} ± {split.dice[1]:.2f}, and all other splits lie "
            "within 0.04 of theirs",
        ),
        (
            *(
                "tables V and VII, X-Ray, NOR",
                "AUC 0.90, DICE 0.72; AUC 0.88, DICE 0.75",
                "one of them",
            ),
            "both are said to be five-fold cross-validation of the same model",
        ),
    )
    columns = ("where", "printed", "should be", "why")
    return Table(columns, rows, name="table-misprints", title="Misprints of the paper")
