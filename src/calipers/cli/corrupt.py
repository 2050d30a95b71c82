# SPDX-License-Identifier: Apache-2.0
"""`calipers corrupt REFS --kind KIND... -o FILE`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from calipers.cli.narration import Narrator
from calipers.cli.options import named_files, output_options, reading_arguments, reading_options
from calipers.results.files import check_file

KINDS = 'Corruption, such as "position-noise(sigma=0.5)"; several are applied in order.'


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("references", metavar="REFS")
@click.option("--kind", "kinds", metavar="KIND", multiple=True, required=True, help=KINDS)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    help="File for the predictions: .json (COCO), .csv, .tsv or .parquet.",
)
@click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Seed of the random numbers (0).",
)
@click.option("--of", metavar="PREDS", help="Corrupt these predictions instead of the references.")
@click.option(
    "--to", metavar="NAME", help="coco, csv, tsv or parquet. Default: by the suffix of FILE."
)
@click.option(
    "--to-box-format",
    metavar="NAME",
    help="Box format of FILE. Default: xywh for COCO, xyxy for tables.",
)
@click.option("--force", is_flag=True, help="Replace FILE.")
@reading_options
@output_options
def corrupt(references: str, kinds: tuple[str, ...], output: str, **options: Any) -> None:
    """Write the predictions of an oracle: the references, corrupted in a known way.

    Kinds: position-noise(sigma), position-bias(bias), shape-noise(sigma), size-noise(sigma),
    aspect-noise(sigma), class-underprediction(p), class-overprediction(p),
    box-overprediction(mean), class-confusion(p), random-boxes(size).

    \b
    calipers corrupt refs.json --kind "position-noise(sigma=0.5)" -o oracle.json
    calipers evaluate refs.json oracle.json --preset rodeo
    """
    from calipers import __version__
    from calipers.oracles import KINDS as KNOWN
    from calipers.oracles import corrupt as run
    from calipers.oracles.described import several
    from calipers.readers import read, write
    from calipers.readers.writing import written_format

    steps = several(kinds, {}, KNOWN)  # errors are reported before anything is read
    prediction_files = named_files([options["of"]]) if options["of"] else {}
    inputs = [
        references,
        *prediction_files.values(),
        *([options["groups"]] if options["groups"] else []),
    ]
    check_file(output, force=options["force"], inputs=inputs)
    written_format(Path(output), options["to"])
    cohort = read(references, prediction_files, **reading_arguments(options))
    name, of = " + ".join(map(str, steps)), next(iter(prediction_files), None)
    oracle = run(cohort, [str(step) for step in steps], seed=options["seed"], name=name, of=of)
    write(oracle, output, what=name, format=options["to"], box_format=options["to_box_format"])
    n, n_ignored = (
        len(oracle.models[name]),
        int(cohort.references.ignore.sum()) if of is None else 0,
    )
    notes = [*cohort.intake.notes]
    if n_ignored:
        notes.append(
            f"{n_ignored} ignored references are left out: an oracle says nothing about them"
        )
    if options["as_json"]:
        document = {
            "schema": "calipers.corrupt/1",
            "calipers": __version__,
            "written": output,
            "kinds": [str(step) for step in steps],
            "seed": options["seed"],
            "of": of or "references",
            "images": cohort.n_images,
            "objects": len(cohort.models[of]) if of else len(cohort.references),
            "predictions": n,
            "warnings": notes,
        }
        click.echo(json.dumps(document))
        return
    narrator = Narrator(quiet=options["quiet"])
    narrator.warn(notes)
    before = (
        f"{len(cohort.models[of])} predictions" if of else f"{len(cohort.references)} references"
    )
    narrator.say(
        f"{before} on {cohort.n_images} images became {n} predictions: {name}, seed "
        f"{options['seed']}"
    )
    click.echo(output)
