# SPDX-License-Identifier: Apache-2.0
"""The verb `agreement`: which localization criteria accept what clinicians call useful?

`calipers agreement [REFS PREDS] RATINGS` reads a table of ratings. With references and predictions
it computes the criteria of the rated predictions (`calipers.agreement.rated_predictions`),
otherwise they are columns of the table. It compares ratings with criteria at thresholds and raters
with each other (`calipers.agreement`), prints tables and sentences, and writes JSON or CSV with
``-o``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from calipers.cli.options import (
    cluster_option,
    force_option,
    level_option,
    named_files,
    output_file_option,
    output_options,
    reading_arguments,
    reading_options,
    replicates_option,
    seed_option,
    verb,
)
from calipers.errors import UsageError
from calipers.results.files import check_file
from calipers.show.terminal import Narrator, print_lines, print_tables

CLASSES = click.Choice(["ignore", "within"])
SCALES = click.Choice(["nominal", "ordinal", "interval"])


@verb()
@click.argument("files", metavar="[REFS PREDS] RATINGS", nargs=-1, required=True)
@click.option(
    "--rating",
    metavar="COLUMN",
    help="Column of the ratings. Default: rating, useful, usefulness or verdict.",
)
@click.option(
    "--criteria",
    metavar="COLUMN,...",
    help="Columns of the criteria, or with REFS and PREDS the criteria to compute. Default: all.",
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
    help="Ratings that count as useful, if their names do not show it.",
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
@cluster_option("Unit of resampling: patient (default if known), image, item.")
@level_option
@replicates_option(default=2000)
@seed_option()
@click.option(
    "--classes",
    type=CLASSES,
    default="ignore",
    help="With REFS and PREDS: compare with references of any class (ignore), or of its own "
    "(within).",
)
@reading_options
@output_file_option("Also write the result: .json, or .csv for the rows alone.")
@force_option()
@output_options
def agreement(files: tuple[str, ...], **options: Any) -> None:
    """Compare what localization criteria accept with what clinicians rate as useful.

    RATINGS is a table (CSV, TSV or parquet) with one row per rating of a prediction. With REFS and
    PREDS the criteria are computed: the column prediction says which one was rated, by its number
    in PREDS, counted from 0. Without them, RATINGS has columns of criteria such as box-iou or
    point-in-mask. If predictions have several ratings, the raters are also compared with each
    other.

    \b
    calipers agreement refs.json preds.json ratings.csv
    calipers agreement ratings.csv --criteria box-iou,mask-iou --thresholds 0.5
    """
    from calipers.agreement.agreement import agreement as run

    narrator = Narrator(quiet=options["quiet"] or options["as_json"])
    if options["output"] is not None:
        check_file(options["output"], force=options["force"], inputs=files)
        if Path(options["output"]).suffix.lower() not in (".json", ".csv"):
            raise UsageError(f"-o writes .json or .csv, not {options['output']!r}")
    ratings, criteria = files[-1], words(options["criteria"], "--criteria")
    table: Any = ratings
    if len(files) == 3:
        table = _rated(files, criteria, options)
    elif len(files) != 1:
        raise UsageError("give RATINGS, or REFS PREDS RATINGS: one or three files")
    result = run(
        table,
        rating=options["rating"],
        criteria=criteria,
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
        progress=narrator.steps("resampling"),
    )
    for line in result.ratings.understood:
        narrator.say(line)
    narrator.warn(result.warnings)
    if options["output"]:
        write(result, Path(options["output"]))
    if options["as_json"]:
        click.echo(result.to_json())
        return
    from calipers.agreement.tables import tables_for_terminal

    print_tables(tables_for_terminal(result))
    print_lines(result.sentences())


def _rated(files: tuple[str, ...], criteria: list[str] | None, options: dict[str, Any]) -> Any:
    """Return the ratings with the criteria of every rated prediction."""
    from calipers.agreement.rated_predictions import rated_predictions
    from calipers.io.read import read

    references, predictions, ratings = files
    cohort = read(references, named_files([predictions]), **reading_arguments(options))
    return rated_predictions(cohort, ratings, criteria=criteria, classes=options["classes"])


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
