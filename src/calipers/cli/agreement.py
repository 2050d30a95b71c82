# SPDX-License-Identifier: Apache-2.0
"""`calipers agreement RATINGS`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from calipers.cli.narration import Narrator
from calipers.cli.options import output_options
from calipers.errors import UsageError
from calipers.results.files import check_file

SCALES = click.Choice(["nominal", "ordinal", "interval"])


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("ratings", metavar="RATINGS")
@click.option(
    "--rating",
    metavar="COLUMN",
    help="The ratings; rating, useful, usefulness or verdict if left out.",
)
@click.option(
    "--criteria",
    metavar="COLUMN,...",
    help="Criteria; those with a name such as box-iou if left out.",
)
@click.option("--distances", metavar="COLUMN,...", help="Criteria that are better when small.")
@click.option(
    "--thresholds",
    metavar="[COLUMN=]N,...",
    multiple=True,
    help="For all overlaps (0,0.1,0.3,0.5,0.75 if left out), or for one criterion; may be repeated.",
)
@click.option(
    "--useful",
    metavar="VALUE,...",
    help="Ratings that count as useful, where the words do not say it.",
)
@click.option(
    "--categories",
    metavar="VALUE,...",
    help="All ratings from lowest to highest, where words have an order.",
)
@click.option("--scale", type=SCALES, help="Of the ratings, for agreement among raters.")
@click.option(
    "--rater", metavar="COLUMN", help="Who rated; rater, reader, clinician, ... if left out."
)
@click.option(
    "--item",
    metavar="COLUMN",
    help="What was rated; item or prediction if left out, else every row.",
)
@click.option(
    "--cluster",
    metavar="COLUMN",
    help="What the result speaks for: patient (default if known), image, item.",
)
@click.option("--level", metavar="P", type=float, default=0.95, help="Of the intervals.")
@click.option(
    "--replicates",
    metavar="N",
    type=click.IntRange(min=100),
    default=2000,
    help="Of the bootstrap.",
)
@click.option(
    "--seed", metavar="N", type=click.IntRange(min=0), default=0, help="Of the bootstrap."
)
@click.option(
    "--strict/--lenient",
    default=True,
    help="Refuse rows without a rating, or set them aside and count them.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write the result too: .json, or .csv for the rows alone.",
)
@click.option("--force", is_flag=True, help="Replace FILE.")
@output_options
def agreement(ratings: str, **options: Any) -> None:
    """Compare what localization criteria accept with what clinicians call useful.

    RATINGS is a table (CSV, TSV or parquet) with a row per rating: the rating of a prediction, and
    columns of criteria such as box-iou or point-in-mask. With several ratings per item, raters are
    compared with each other too.

    \b
    calipers agreement ratings.csv --criteria box-iou,mask-iou --thresholds 0.5
    """
    from calipers.statistics.agreement import agreement as run

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
    from calipers.cli.agreement_tables import print_agreement

    print_agreement(result)


def words(text: str | None, option: str) -> list[str] | None:
    """Return the entries of a list with commas."""
    if text is None:
        return None
    entries = [entry.strip() for entry in text.split(",")]
    if not all(entries):
        raise UsageError(f"{option} takes names with commas between them, not {text!r}")
    return entries


def threshold_map(entries: tuple[str, ...]) -> dict[str, list[float]] | None:
    """Return criterion -> thresholds of entries such as ``0.1,0.5`` (for all criteria, under the
    name `EVERY`) and ``box-iou=0.5``.
    """
    from calipers.statistics.decisions import EVERY

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
    from calipers.results.delimited import columns_of, delimited
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
