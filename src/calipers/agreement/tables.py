# SPDX-License-Identifier: Apache-2.0
"""Tables of an agreement: decisions, criteria, raters, and comparisons of criteria.

An `Agreement` comes in, `show.table.Table` goes out; the command line shows these.
"""

from __future__ import annotations

from collections.abc import Mapping

from calipers.agreement.agreement import Agreement
from calipers.show.table import Amount, Cell, Table, TableRow, same_kind
from calipers.show.words import level_text, reason_text

SHOWN = {
    "sensitivity": "useful accepted",
    "specificity": "not useful rejected",
    "kappa": "kappa",
    "AC1": "AC1",
}
MOST_ROWS = {"table-comparisons": 12}  # that a terminal has room for
BEST = ("Youden-threshold", "Youden-corrected")


def tables(result: Agreement) -> list[Table]:
    """Return the decisions, the criteria, raters where there are several, and comparisons."""
    candidates = [
        decisions_table(result),
        criteria_table(result),
        by_rater_table(result),
        raters_table(result),
        comparisons_table(result),
    ]
    return [table for table in candidates if table.rows]


def tables_for_terminal(result: Agreement) -> list[Table]:
    """Return all tables, with the first comparisons only."""
    return [
        table.first(MOST_ROWS.get(table.name, len(table.rows)), all_in="--json")
        for table in tables(result)
    ]


def _units(result: Agreement) -> tuple[str, ...]:
    settings = result.settings
    return (
        f"n = {len(result.ratings)} ratings; {level_text(settings['level'])} confidence intervals, "
        f"resampled by {settings['unit']} (n = {settings['n_units']}).",
    )


def decisions_table(result: Agreement) -> Table:
    """Return what every criterion at every threshold accepts and rejects."""
    rows: list[TableRow] = []
    for decision in result.decisions:
        estimates = [result.get(metric, **decision.group) for metric in SHOWN]
        rows.append((decision.criterion, decision.group["threshold"], *estimates))
    return Table(
        ("criterion", "threshold", *SHOWN.values()),
        tuple(rows),
        title="Decisions of the criteria",
        notes=_units(result),
        name="table-decisions",
        kinds=("name", "text", *same_kind("value", len(SHOWN))),
    )


def criteria_table(result: Agreement) -> Table:
    """Return the AUROC of every criterion, and its best threshold unless it only says yes or no."""
    rows: list[TableRow] = []
    for name in result.ratings.criteria:
        best: list[Cell] = [None, None]
        # A criterion of zeros and ones has nothing to choose a threshold from.
        if not result.ratings.yes_no(name):
            best = [result.get(metric, criterion=name) for metric in BEST]
        rows.append((name, result.get("AUROC", criterion=name), *best))
    return Table(
        ("criterion", "AUROC", "best threshold", "its Youden index, corrected"),
        tuple(rows),
        title="Criteria over all thresholds",
        notes=_units(result),
        name="table-criteria",
        kinds=("name", "value", "value", "value"),
    )


def by_rater_table(result: Agreement) -> Table:
    """Return the decisions at the headline thresholds, rater by rater."""
    names: dict[str, None] = {}  # an ordered set
    for row in result.rows:
        if row.metric in ("sensitivity", "specificity") and "rater" in (row.group or {}):
            names[(row.group or {})["rater"]] = None
    rows: list[TableRow] = []
    for decision in result.headlines():
        for name in names:
            cells: list[Cell] = [decision.criterion, decision.group["threshold"], name]
            for metric in ("sensitivity", "specificity"):
                estimate = result.get(metric, rater=name, **decision.group)
                cells += [estimate, estimate.n_predictions]
            rows.append(tuple(cells))
    return Table(
        ("criterion", "threshold", "rater", "useful accepted", "n", "not useful rejected", "n"),
        tuple(rows),
        title="Decisions by rater",
        notes=_units(result),
        name="table-by-rater",
        kinds=("name", "text", "name", "value", "count", "value", "count"),
    )


def raters_table(result: Agreement) -> Table:
    """Return the coefficients of agreement among raters."""
    rows: list[TableRow] = []
    for row in result.rows:
        if "raters" in (row.group or {}):
            counts = row.estimate.n_images, row.estimate.n_predictions
            rows.append((row.metric, row.estimate, *counts))
    return Table(
        (f"among raters ({result.ratings.scale})", "value", "items", "ratings"),
        tuple(rows),
        title="Raters against each other",
        notes=_units(result),
        name="table-raters",
        kinds=("name", "value", "count", "count"),
    )


def comparisons_table(result: Agreement) -> Table:
    """Return the differences between criteria."""
    rows: list[TableRow] = []
    for one in result.comparisons:
        difference: Cell = Amount(one.difference, low=one.low, high=one.high)
        # Undefined: the reason stands in place of the number.
        if one.difference != one.difference:
            difference = reason_text(one.reason)
        sides = _side(one.criterion_a), _side(one.criterion_b)
        only = one.only_a, one.only_b
        rows.append((*sides, one.metric, difference, *only, one.p, one.p_adjusted))
    return Table(
        ("first", "second", "metric", "difference", "only first", "only second", "p", "p (Holm)"),
        tuple(rows),
        title="Comparisons of criteria",
        name="table-comparisons",
        kinds=("name", "name", "text", "signed", "count", "count", "p", "p"),
    )


def _side(group: Mapping[str, str]) -> str:
    threshold = group.get("threshold", "yes")
    return group["criterion"] if threshold == "yes" else f"{group['criterion']} @{threshold}"
