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
    cluster_of,
    evaluation_options,
    named_files,
    output_options,
    picture_arguments,
    picture_options,
    reading_arguments,
    reading_options,
)
from calipers.errors import UsageError

# options that replace the statistics of the protocol
STATISTICS = ("cluster", "strata", "level", "replicates", "interval")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("references", metavar="REFS")
@click.argument("predictions", metavar="PREDS...", nargs=-1, required=True)
@evaluation_options(
    "coco (default), overview, rodeo, chestxray8, lard, luna16, oms, picai, polyp-clinical, tide, "
    "voc2007, voc2012."
)
@click.option(
    "--multiverse",
    is_flag=True,
    help="Add to the page how sensitive the ranking is to analysis choices.",
)
@click.option(
    "--stability",
    is_flag=True,
    help="Add to the page which objects all models find, as repeated trainings of one model.",
)
@picture_options
@reading_options
@output_options
def evaluate(references: str, predictions: tuple[str, ...], **options: Any) -> None:
    """Evaluate predictions against references.

    PREDS are files, or name=file to name a model. Formats are detected; see --format.

    \b
    calipers evaluate refs.json ours=a.json theirs=b.json --preset overview -o results
    """
    from calipers.evaluate import evaluate as run
    from calipers.readers import read

    narrator, start = Narrator(quiet=options["quiet"] or options["as_json"]), datetime.now(UTC)
    protocol, pictures = chosen_protocol(options), chosen_pictures(options)
    for name in ("multiverse", "stability"):
        if options[name] and (not options["output"] or len(predictions) < 2):
            raise UsageError(
                f"--{name} adds a section to the page that compares models: give -o DIR and two or "
                f"more models"
            )
    if options["output"] is not None:
        inputs = [references, *named_files(predictions).values()]
        if options["groups"]:
            inputs.append(options["groups"])
        check_output(options["output"], options["force"], tuple(inputs))
    cohort = read(references, named_files(predictions), **reading_arguments(options))
    if options["images"] is not None:
        from calipers.pictures.finding import PictureFiles

        # A folder without the pictures is reported before the work, not after it.
        PictureFiles.of(Path(options["images"]), cohort)
    narrator.say(
        f"{cohort.n_images} images, {len(cohort.references)} references, {len(cohort.classes)} "
        f"classes; "
        f"protocol {protocol.name}"
    )
    evaluation = run(
        cohort,
        protocol,
        seed=options["seed"],
        ci=not options["no_ci"],
        by=tuple(dict.fromkeys(options["by"])),
        jobs=options["jobs"],
        progress=narrator.steps("matching", "resampling"),
    )
    narrator.warn(evaluation.warnings)
    if options["output"]:
        command = click.get_current_context().obj or ()
        evaluation.save(
            options["output"],
            force=options["force"],
            command=command,
            started=start,
            multiverse=options["multiverse"],
            stability=options["stability"],
            step=narrator.doing,
            **pictures,
        )
    show(evaluation, narrator, options)


def chosen_protocol(options: dict[str, Any], default: str = "coco") -> Any:
    """Return the protocol of the options; a preset and a file together are an error."""
    from calipers.protocol import Protocol

    preset, file = options["preset"], options["protocol"]
    if preset and file:
        raise UsageError(
            '--preset and --protocol exclude each other; a protocol can use extends = "..."'
        )
    protocol = Protocol.load(Path(file) if file else preset or default)
    changes = {name: options[name] for name in STATISTICS if options.get(name) is not None}
    if "cluster" in changes:
        changes["cluster"] = cluster_of(changes["cluster"])
    return replace(protocol, **changes) if changes else protocol


def chosen_pictures(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the page; without a folder there is no page."""
    if not options["output"]:
        for name in ("images", "no_images", "redact"):
            if options[name]:
                option = name.replace("_", "-")
                raise UsageError(
                    f"--{option} is for the page, which -o DIR writes: give -o DIR too"
                )
        return picture_arguments(options, None)
    return picture_arguments(options, Path(options["output"]))


def check_output(folder: str, force: bool, inputs: tuple[str, ...]) -> None:
    """Refuse a bad output folder before any work is done."""
    if not folder:
        raise UsageError("-o needs the name of a folder")
    from calipers.results.files import check_folder

    check_folder(folder, force=force, inputs=inputs)


def show(evaluation: Any, narrator: Narrator, options: dict[str, Any]) -> None:
    """Print the result, and where the page is."""
    if options["as_json"]:
        click.echo(evaluation.to_json())
    else:
        from calipers.cli.tables import print_evaluation

        print_evaluation(evaluation)
    if options["output"]:
        narrator.say(f"page: {Path(options['output']) / 'report.html'}")
