# SPDX-License-Identifier: Apache-2.0
"""`calipers inspect REFS [PREDS...]`."""

from __future__ import annotations

import json
from typing import Any

import click

from calipers.cli.messages import printable
from calipers.cli.options import named_files, output_options, reading_arguments, reading_options

LEVELS = click.Choice(["warning", "error"])


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("references", metavar="REFS")
@click.argument("predictions", metavar="[PREDS...]", nargs=-1)
@click.option(
    "--fail-on",
    type=LEVELS,
    help="Exit with code 1 if a record is broken (error), or if there is any note (warning).",
)
@reading_options
@output_options
def inspect(references: str, predictions: tuple[str, ...], **options: Any) -> int:
    """Show how files are read: formats, images, classes, groups, and every broken record.

    Problems of all files are counted, and nothing is evaluated. A file that cannot be used at all
    is an error (exit 2).
    """
    from calipers import __version__
    from calipers.evaluation import cohort_counts
    from calipers.readers.explain import describe
    from calipers.readers.parts import Options
    from calipers.readers.reading import read_all

    reading = {**reading_arguments(options), "lenient": True}
    groups = reading.pop("groups")
    files = read_all(references, named_files(predictions), groups, Options.from_keywords(**reading))
    cohort = files.cohort
    if options["as_json"]:
        document = {
            "schema": "calipers.inspect/1",
            "calipers": __version__,
            "cohort": cohort_counts(cohort),
        }
        click.echo(json.dumps({**document, "warnings": list(cohort.intake.notes)}))
    else:
        click.echo(printable(describe(files)), nl=False)
    broken, noted = cohort.intake.quarantined > 0, bool(cohort.intake.notes)
    failures = {"error": broken, "warning": broken or noted}
    return int(failures.get(options["fail_on"], False))
