# SPDX-License-Identifier: Apache-2.0
"""`calipers convert REFS OUTPUT [--predictions PREDS]`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from calipers.cli.narration import Narrator
from calipers.cli.options import named_files, output_options, reading_arguments, reading_options
from calipers.results.files import check_file


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("references", metavar="REFS")
@click.argument("output", metavar="OUTPUT")
@click.option(
    "--predictions", metavar="PREDS", help="Convert these predictions instead of the references."
)
@click.option(
    "--to", metavar="NAME", help="coco, csv, tsv or parquet. Default: by the suffix of OUTPUT."
)
@click.option(
    "--to-box-format",
    metavar="NAME",
    help="Box format of OUTPUT. Default: xywh for COCO, xyxy for tables.",
)
@click.option("--force", is_flag=True, help="Replace OUTPUT.")
@reading_options
@output_options
def convert(references: str, output: str, **options: Any) -> None:
    """Write the references REFS, or predictions on them, in another format.

    Predictions also need the references, which define images and classes.
    """
    from calipers import __version__
    from calipers.readers import read, write
    from calipers.readers.writing import left_out, written_format

    target = Path(output)
    prediction_files: dict[str, str] = {}
    if options["predictions"]:
        prediction_files = named_files([options["predictions"]])
    inputs = [references, *prediction_files.values()]
    if options["groups"]:
        inputs.append(options["groups"])
    check_file(output, force=options["force"], inputs=inputs)
    cohort = read(references, prediction_files, **reading_arguments(options))
    what = next(iter(prediction_files), "references")
    write(cohort, target, what=what, format=options["to"], box_format=options["to_box_format"])
    table = cohort.models[what] if prediction_files else cohort.references
    notes = [*cohort.intake.notes, *left_out(table, written_format(target, options["to"]))]
    if options["as_json"]:
        document = {"schema": "calipers.convert/1", "calipers": __version__, "written": output}
        click.echo(json.dumps({**document, "what": what, "objects": len(table), "warnings": notes}))
        return
    narrator = Narrator(quiet=options["quiet"])
    narrator.warn(notes)
    narrator.say(f"{len(table)} objects on {cohort.n_images} images")
    click.echo(output)
