# SPDX-License-Identifier: Apache-2.0
"""`calipers fuse REFS MODEL=PREDS...`: the predictions of several models become one file.

The work is done by `calipers.fusion`; this module reads, writes and prints.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from calipers.cli.options import (
    chosen_protocol,
    cluster_option,
    jobs_option,
    metric_names,
    named_files,
    output_file_option,
    output_options,
    preset_option,
    protocol_level_option,
    protocol_option,
    protocol_seed_option,
    reading_arguments,
    reading_options,
    replicates_option,
    strata_option,
    writing_options,
)
from calipers.errors import UsageError
from calipers.results.files import check_file
from calipers.show.terminal import Narrator, print_tables

# Options that only mean something with --evaluate.
OF_EVALUATION = ("preset", "protocol", "metrics", "cluster", "strata", "replicates", "level")


@click.command()
@click.argument("references", metavar="REFS")
@click.argument("predictions", metavar="MODEL=PREDS...", nargs=-1, required=True)
@output_file_option(
    "File for the fused predictions: .json (COCO), .csv, .tsv or .parquet.", required=True
)
@click.option(
    "--recipe",
    metavar="NAME|FILE",
    default="endocv2022",
    help="endocv2022 (default), nms, nmw, soft-nms, wbf, or a recipe file (TOML).",
)
@click.option("--name", metavar="NAME", help="Name of the ensemble. Default: that of the recipe.")
@click.option(
    "--evaluate",
    is_flag=True,
    help="Also evaluate members and ensemble, and what each member adds.",
)
@preset_option("Preset for --evaluate. Default: coco.")
@protocol_option()
@click.option(
    "--metrics",
    metavar="A,B,...",
    help="Metrics for --evaluate, or all. Default: the headline of the protocol.",
)
@cluster_option()
@strata_option
@replicates_option()
@protocol_level_option
@protocol_seed_option
@jobs_option()
@writing_options("FILE")
@reading_options
@output_options
def fuse(references: str, predictions: tuple[str, ...], output: str, **options: Any) -> None:
    """Fuse the predictions of several models into those of an ensemble, by a recipe.

    REFS says which images and classes there are, and is what --evaluate measures against.

    \b
    calipers fuse refs.json a=a.json b=b.json c=c.json --recipe endocv2022 -o fused.json
    calipers fuse refs.json a=a.json b=b.json -o fused.json --evaluate --metrics AP50
    """
    from calipers.fusion.evaluate import evaluate_fusion
    from calipers.fusion.fuse import carry_out
    from calipers.fusion.recipe import FusionRecipe
    from calipers.fusion.result import FusionDocument
    from calipers.io.read import read
    from calipers.io.write import left_out, write, written_format

    files = named_files(predictions)
    recipe = FusionRecipe.load(options["recipe"])
    name = options["name"] or recipe.name
    if name in files:
        raise UsageError(f"a member is called {name!r}: give the ensemble a --name")
    metrics = metric_names(options["metrics"])
    protocol = None
    if options["evaluate"]:
        names = [] if metrics in (None, ["all"]) else list(metrics or [])
        protocol = chosen_protocol(options).including(names)
    else:
        _refuse_without_evaluation(options)
    others = [options[key] for key in ("groups", "protocol") if options[key]]
    if Path(options["recipe"]).exists():
        others.append(options["recipe"])
    check_file(output, force=options["force"], inputs=(references, *files.values(), *others))
    file_format = written_format(Path(output), options["to"])
    narrator = Narrator(quiet=options["quiet"] or options["as_json"])
    cohort = read(references, files, **reading_arguments(options))
    fusion = carry_out(cohort, recipe)
    narrator.say(f"{len(files)} members on {cohort.n_images} images; recipe {recipe.name}")
    evaluation = None
    if protocol is not None:
        evaluation = evaluate_fusion(
            cohort,
            fusion,
            protocol,
            name=name,
            metrics=metrics,
            seed=options["seed"],
            jobs=options["jobs"],
            progress=narrator.steps("resampling"),
        )
    fused = cohort.with_predictions(name, fusion.predictions)
    write(fused, output, what=name, format=file_format, box_format=options["to_box_format"])
    notes = (*cohort.intake.notes, *left_out(fusion.predictions, file_format))
    document = FusionDocument(fusion, name, output, notes, evaluation)
    narrator.warn(document.warnings)
    if options["as_json"]:
        click.echo(document.to_json())
        return
    print_tables(document.tables())
    narrator.say(f"written: {output}")


def _refuse_without_evaluation(options: dict[str, Any]) -> None:
    """Raise for an option that would silently do nothing."""
    for key in (*OF_EVALUATION, "seed"):
        if options[key] is not None:
            raise UsageError(f"--{key} is for --evaluate")
