# SPDX-License-Identifier: Apache-2.0
"""`calipers agreement RATINGS`.

Agreement as tables and sentences in the terminal.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from calipers.agreement.agreement import Agreement
from calipers.agreement.decisions import CriterionDifference
from calipers.cli.options import output_options
from calipers.errors import UsageError
from calipers.results.estimate import Estimate
from calipers.results.files import check_file
from calipers.show.terminal import Narrator, name_of, one_line, plain_table, stdout_console
from calipers.show.words import legend, marks_of

SCALES = click.Choice(["nominal", "ordinal", "interval"])


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("ratings", metavar="RATINGS")
@click.option(
    "--rating",
    metavar="COLUMN",
    help="Column of the ratings. Default: rating, useful, usefulness or verdict.",
)
@click.option(
    "--criteria",
    metavar="COLUMN,...",
    help="Columns of the criteria. Default: all with the name of a criterion, such as box-iou.",
)
@click.option("--distances", metavar="COLUMN,...", help="Criteria for which lower is better.")
@click.option(
    "--thresholds",
    metavar="[COLUMN=]N,...",
    multiple=True,
    help=(
        "Thresholds for all overlaps (default 0,0.1,0.3,0.5,0.75), or for one criterion. "
        "Repeatable."
    ),
)
@click.option(
    "--useful",
    metavar="VALUE,...",
    help="Ratings that count as useful, if the words do not tell.",
)
@click.option(
    "--categories",
    metavar="VALUE,...",
    help="All ratings from lowest to highest, if they are ordered words.",
)
@click.option("--scale", type=SCALES, help="Scale of the ratings, for the agreement among raters.")
@click.option(
    "--rater", metavar="COLUMN", help="Column of the raters. Default: rater, reader, clinician, ..."
)
@click.option(
    "--item",
    metavar="COLUMN",
    help="Column of the rated items. Default: item or prediction, else every row is an item.",
)
@click.option(
    "--cluster",
    metavar="COLUMN",
    help="Unit of resampling: patient (default if known), image, item.",
)
@click.option(
    "--level",
    metavar="P",
    type=float,
    default=0.95,
    help="Confidence level of the intervals (0.95).",
)
@click.option(
    "--replicates",
    metavar="N",
    type=click.IntRange(min=100),
    default=2000,
    help="Number of bootstrap replicates (2000).",
)
@click.option(
    "--seed", metavar="N", type=click.IntRange(min=0), default=0, help="Seed of the bootstrap (0)."
)
@click.option(
    "--strict/--lenient",
    default=True,
    help="Stop at rows without a rating, or set them aside and count them.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Also write the result: .json, or .csv for the rows alone.",
)
@click.option("--force", is_flag=True, help="Replace FILE.")
@output_options
def agreement(ratings: str, **options: Any) -> None:
    """Compare what localization criteria accept with what clinicians rate as useful.

    RATINGS is a table (CSV, TSV or parquet) with one row per rating of a prediction, and columns of
    criteria such as box-iou or point-in-mask. If items have several ratings, the raters are also
    compared with each other.

    \b
    calipers agreement ratings.csv --criteria box-iou,mask-iou --thresholds 0.5
    """
    from calipers.agreement.agreement import agreement as run

    narrator = Narrator(quiet=options["quiet"] or options["as_json"])
    if options["output"] is not None:
        check_file(options["output"], force=options["force"], inputs=[ratings])
        if Path(options["output"]).suffix.lower() not in (".json", ".csv"):
            raise UsageError(f"-o writes .json or .csv, not {options['output']!r}")
    result = run(
        ratings,
        rating=options["rating"],
        criteria=words(options["criteria"], "--criteria"),
        distances=words(options["distances"], "--distances"),
        thresholds=threshold_map(options["thresholds"]),
        rater=options["rater"],
        item=options["item"],
        cluster=options["cluster"],
        useful=words(options["useful"], "--useful"),
        categories=words(options["categories"], "--categories"),
        scale=options["scale"],
        lenient=not options["strict"],
        level=options["level"],
        replicates=options["replicates"],
        seed=options["seed"],
    )
    for line in result.ratings.understood:
        narrator.say(line)
    narrator.warn(result.warnings)
    if options["output"]:
        write(result, Path(options["output"]))
    if options["as_json"]:
        click.echo(result.to_json())
        return

    print_agreement(result)


def words(text: str | None, option: str) -> list[str] | None:
    """Return the entries of a list with commas."""
    if text is None:
        return None
    entries = [entry.strip() for entry in text.split(",")]
    if not all(entries):
        raise UsageError(f"{option} takes names separated by commas, not {text!r}")
    return entries


def threshold_map(entries: tuple[str, ...]) -> dict[str, list[float]] | None:
    """Return criterion -> thresholds of entries such as ``0.1,0.5`` (for all criteria, under the
    name `EVERY`) and ``box-iou=0.5``.
    """
    from calipers.agreement.decisions import EVERY

    thresholds: dict[str, list[float]] = {}
    for entry in entries:
        name, sign, numbers = entry.rpartition("=")
        name = name.strip() if sign else EVERY
        if name in thresholds:
            criterion = f" for {name!r}" if sign else ""
            raise UsageError(f"--thresholds is given twice{criterion}")
        try:
            thresholds[name] = [float(number) for number in numbers.split(",")]
        except ValueError:
            raise UsageError(f"--thresholds takes [COLUMN=]N,..., not {entry!r}") from None
    return thresholds or None


def write(result: Any, path: Path) -> None:
    """Write the document, or the rows as a table."""
    from calipers.io.tables.table import columns_of, delimited
    from calipers.results.files import write_atomically

    if path.suffix.lower() == ".json":
        write_atomically(path, result.to_json() + "\n")
        return
    rows = [row.as_dict() for row in result.rows]
    # What a row is about, such as criterion and threshold, comes first.
    columns: dict[str, list[Any]] = {}
    for name in dict.fromkeys(name for row in rows for name in row["group"]):
        columns[name] = [row["group"].get(name) for row in rows]
    if rows:
        columns |= columns_of(rows)
        del columns["group"], columns["class"]
    write_atomically(path, delimited(columns))


MOST_COMPARISONS = 12
SHOWN = {
    "sensitivity": "useful accepted",
    "specificity": "not useful rejected",
    "kappa": "kappa",
    "AC1": "AC1",
}
# metrics in the tables, besides those on raters
EXPLAINED = (*SHOWN, "AUROC", "Youden-threshold", "Youden-corrected")


def print_agreement(result: Agreement) -> None:
    """Print the decisions, the criteria, raters where there are several, comparisons, and the
    result in words.
    """
    console = stdout_console()
    tables = [
        _decisions(result),
        _criteria(result),
        _by_rater(result),
        _raters(result),
        _comparisons(result),
    ]
    for table in tables:
        if table is not None:
            console.print(table)
    for sentence in result.sentences():
        click.echo(one_line(sentence))
    settings = result.settings
    click.echo(
        f"n = {len(result.ratings)} ratings; {100 * settings['level']:g} % confidence intervals, "
        f"resampled by {one_line(settings['unit'])} (n = {settings['n_units']})."
    )
    estimates = []
    for row in result.rows:
        if row.metric in EXPLAINED or "raters" in (row.group or {}):
            estimates.append(row.estimate)
    for line in legend(estimates):
        click.echo(one_line(line))


def _decisions(result: Agreement) -> Table | None:
    if not result.decisions:
        return None
    table = plain_table(["criterion", "threshold"], list(SHOWN.values()))
    for decision in result.decisions:
        cells = [_cell(result.get(metric, **decision.group)) for metric in SHOWN]
        table.add_row(name_of(decision.criterion), decision.group["threshold"], *cells)
    return table


def _criteria(result: Agreement) -> Table | None:
    if not result.ratings.criteria:
        return None
    table = plain_table(["criterion"], ["AUROC", "best threshold", "its Youden index, corrected"])
    for name in result.ratings.criteria:
        cells = [_cell(result.get("AUROC", criterion=name))]
        if not result.ratings.yes_no(name):
            cells += [
                _cell(result.get(metric, criterion=name))
                for metric in ("Youden-threshold", "Youden-corrected")
            ]
        table.add_row(name_of(name), *cells)
    return table


def _by_rater(result: Agreement) -> Table | None:
    names: dict[str, None] = {}  # an ordered set
    for row in result.rows:
        if row.metric in ("sensitivity", "specificity") and "rater" in (row.group or {}):
            names[(row.group or {})["rater"]] = None
    if not names:
        return None
    table = plain_table(
        ["criterion", "threshold", "rater"], ["useful accepted", "n", "not useful rejected", "n"]
    )
    for decision in result.headlines():
        for name in names:
            cells = [name_of(decision.criterion), decision.group["threshold"], name_of(name)]
            for metric in ("sensitivity", "specificity"):
                estimate = result.get(metric, rater=name, **decision.group)
                cells += [_cell(estimate), str(estimate.n_predictions)]
            table.add_row(*cells)
    return table


def _raters(result: Agreement) -> Table | None:
    rows = [row for row in result.rows if "raters" in (row.group or {})]
    if not rows:
        return None
    table = plain_table([f"among raters ({result.ratings.scale})"], ["value", "items", "ratings"])
    for row in rows:
        table.add_row(
            row.metric,
            _cell(row.estimate),
            str(row.estimate.n_images),
            str(row.estimate.n_predictions),
        )
    return table


def _comparisons(result: Agreement) -> Table | None:
    if not result.comparisons:
        return None
    table = plain_table(
        ["first", "second", "metric"], ["difference", "only first/second", "p", "p (Holm)"]
    )
    for one in result.comparisons[:MOST_COMPARISONS]:
        only = "" if one.only_a is None else f"{one.only_a}/{one.only_b}"
        sides = _side(one.criterion_a), _side(one.criterion_b)
        table.add_row(*sides, one.metric, _difference(one), only, _p(one.p), _p(one.p_adjusted))
    n_more = len(result.comparisons) - MOST_COMPARISONS
    if n_more > 0:
        table.add_row(f"... and {n_more} more, see --json")
    return table


def _side(group: dict[str, str]) -> str:
    at = group.get("threshold", "yes")
    return name_of(group["criterion"] + ("" if at == "yes" else f" @{at}"))


def _difference(one: CriterionDifference) -> str:
    if math.isnan(one.difference):
        return str(one.reason).replace("_", " ")
    interval = "" if math.isnan(one.low) else f" [{one.low:+.3f}, {one.high:+.3f}]"
    return f"{one.difference:+.3f}{interval}"


def _p(value: float) -> str:
    if math.isnan(value):
        return ""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _cell(estimate: Estimate) -> str:
    if math.isnan(estimate.value):
        return str(estimate.reason).replace("_", " ")
    if math.isnan(estimate.low):
        return f"{estimate.value:.3f} ({str(estimate.reason).replace('_', ' ')})"
    return escape(
        f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]{marks_of(estimate)}"
    )
