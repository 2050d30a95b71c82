# SPDX-License-Identifier: Apache-2.0
"""`calipers evaluate REFS PREDS...`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from calipers.cli.narration import Narrator
from calipers.cli.options import (
    named_files,
    output_options,
    picture_arguments,
    picture_options,
    reading_arguments,
    reading_options,
)
from calipers.errors import UsageError
from calipers.registry import INTERVALS

STATISTICS = ("cluster", "strata", "level", "replicates", "interval")  # options that replace the protocol's


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("references", metavar="REFS")
@click.argument("predictions", metavar="PREDS...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="DIR", help="Folder for JSON, tables and the page; new or empty.")
@click.option("--preset", metavar="NAME", help="coco (default), overview, rodeo, chestxray8, voc2007, voc2012.")
@click.option("--protocol", metavar="FILE", help="A protocol in TOML, instead of a preset.")
@click.option(
    "--cluster",
    metavar="COLUMN",
    help="What the result speaks for: image, patient (default if known), any group; or centre,patient.",
)
@click.option("--strata", metavar="COLUMN", help="Groups that the claim is about: units are drawn inside each.")
@click.option("--by", metavar="COLUMNS", multiple=True, help="Further rows per group: centre; centre,size; age=40:60.")
@click.option("--replicates", metavar="N", type=click.IntRange(min=1), help="Bootstrap replicates (2000).")
@click.option("--level", metavar="P", type=click.FloatRange(0, 1, min_open=True, max_open=True), help="Level (0.95).")
@click.option("--interval", type=click.Choice(INTERVALS), help="Kind of interval (bootse-t-logit).")
@click.option("--seed", metavar="N", type=click.IntRange(min=0), help="Replaces the seed of the protocol.")
@click.option(
    "--jobs", metavar="N", type=click.IntRange(min=1), default=1, help="Blocks of images at a time; changes no number."
)
@click.option("--engine", type=click.Choice(["local"]), default="local", help="Where the work runs: this machine.")
@click.option("--no-ci", is_flag=True, help="No intervals.")
@click.option("--force", is_flag=True, help="Allow a DIR that holds something; results in it are replaced.")
@picture_options
@reading_options
@output_options
def evaluate(references: str, predictions: tuple[str, ...], **given: Any) -> None:
    """Evaluate predictions against references.

    PREDS are files, or name=file to name a model. Formats are sniffed; see --format.

    \b
    calipers evaluate refs.json ours=a.json theirs=b.json --preset overview -o results
    """
    from calipers.evaluate import evaluate as run
    from calipers.readers import read

    narrator, started = Narrator(quiet=given["quiet"] or given["as_json"]), datetime.now(UTC)
    protocol, pictures = chosen_protocol(given), chosen_pictures(given)
    if given["output"] is not None:
        inputs = (references, *named_files(predictions).values(), *([given["groups"]] if given["groups"] else []))
        check_output(given["output"], given["force"], inputs)
    cohort = read(references, named_files(predictions), **reading_arguments(given))
    if given["images"] is not None:
        from calipers.pictures.finding import PictureFiles

        PictureFiles.of(Path(given["images"]), cohort)  # a folder without them is told before the work, not after
    narrator.say(
        f"{cohort.n_images} images, {len(cohort.references)} references, {len(cohort.classes)} classes; "
        f"protocol {protocol.name}"
    )
    evaluation = run(
        cohort,
        protocol,
        seed=given["seed"],
        ci=not given["no_ci"],
        by=tuple(dict.fromkeys(given["by"])),
        jobs=given["jobs"],
        progress=narrator.steps("matching", "resampling"),
    )
    narrator.warn(evaluation.warnings)
    if given["output"]:
        command = click.get_current_context().obj or ()
        evaluation.save(
            given["output"], force=given["force"], command=command, started=started, step=narrator.doing, **pictures
        )
    show(evaluation, narrator, given)


def chosen_protocol(given: dict[str, Any]) -> Any:
    """Return the protocol of the options; a preset and a file together are an error."""
    from calipers.protocol import Protocol

    preset, file = given["preset"], given["protocol"]
    if preset and file:
        raise UsageError('--preset and --protocol exclude each other; a protocol can say extends = "..."')
    protocol = Protocol.load(Path(file) if file else preset or "coco")
    changes = {name: given[name] for name in STATISTICS if given.get(name) is not None}
    if "," in changes.get("cluster", ""):
        changes["cluster"] = tuple(name.strip() for name in changes["cluster"].split(","))
    return replace(protocol, **changes) if changes else protocol


def chosen_pictures(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the page; without a folder there is no page."""
    if not given["output"]:
        for name, value in (
            ("images", given["images"]),
            ("no-images", given["no_images"]),
            ("redact", given["redact"]),
        ):
            if value:
                raise UsageError(f"--{name} is about the page, which -o DIR writes: give -o DIR too")
    return picture_arguments(given, Path(given["output"]) if given["output"] else None)


def check_output(folder: str, force: bool, inputs: tuple[str, ...]) -> None:
    """Refuse a bad output folder before any work is done."""
    if not folder:
        raise UsageError("-o needs the name of a folder")
    from calipers.results.files import check_folder

    check_folder(folder, force=force, inputs=inputs)


def show(evaluation: Any, narrator: Narrator, given: dict[str, Any]) -> None:
    """Print the result, and where the page is."""
    if given["as_json"]:
        click.echo(evaluation.to_json())
    else:
        from calipers.cli.tables import print_evaluation

        print_evaluation(evaluation)
    if given["output"]:
        narrator.say(f"page: {Path(given['output']) / 'report.html'}")
