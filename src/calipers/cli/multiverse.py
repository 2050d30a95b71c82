# SPDX-License-Identifier: Apache-2.0
"""`calipers multiverse REFS PREDS PREDS...`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from calipers.cli.messages import one_line
from calipers.cli.narration import Narrator
from calipers.cli.options import named_files, output_options, reading_arguments, reading_options
from calipers.errors import UsageError

if TYPE_CHECKING:
    from calipers.sensitivity import Multiverse

REPLICATES = 200
NAMED = ("metric", "criterion")  # choices with an option of their own


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("references", metavar="REFS")
@click.argument("predictions", metavar="PREDS PREDS...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    help="Folder for page, JSON, CSV and figures; must be new or empty.",
)
@click.option(
    "--grid",
    metavar="FILE",
    help="Choices and their values in TOML. Default: what suits the data.",
)
@click.option(
    "--metric",
    metavar="NAME",
    multiple=True,
    help="Use only this metric, such as AP or F1. Repeatable.",
)
@click.option(
    "--criterion", metavar="NAME", multiple=True, help="Use only this criterion. Repeatable."
)
@click.option(
    "--replicates",
    metavar="N",
    type=click.IntRange(100, 10_000),
    help=f"Number of bootstrap replicates ({REPLICATES}).",
)
@click.option("--no-ci", is_flag=True, help="Compute no intervals.")
@click.option(
    "--seed", metavar="N", type=click.IntRange(min=0), default=0, help="Seed of the bootstrap (0)."
)
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    help="Number of threads; results do not depend on it.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Allow a DIR that is not empty; a multiverse in it is replaced.",
)
@reading_options
@output_options
def multiverse(references: str, predictions: tuple[str, ...], **options: Any) -> None:
    """Test how sensitive the ranking is to analysis choices.

    All models are evaluated under every defensible configuration: a metric, a criterion, a
    threshold, and so on; configurations that cannot differ count once. PREDS are files, or
    name=file to name a model.

    \b
    calipers multiverse refs.json ours=a.json theirs=b.json -o choices
    calipers multiverse refs.json a.json b.json --metric AP --metric F1 --criterion box-iou
    """
    from calipers.readers import read
    from calipers.sensitivity import multiverse as run

    files = named_files(predictions)
    if len(files) < 2:
        raise UsageError("a multiverse compares models: give the predictions of two or more models")
    grid, base = _grid(options)
    if options["output"] is not None:
        from calipers.cli.evaluate import check_output

        others = [options[key] for key in ("groups", "grid") if options[key]]
        check_output(options["output"], options["force"], (references, *files.values(), *others))
    narrator = Narrator(quiet=options["quiet"] or options["as_json"])
    cohort = read(references, files, **reading_arguments(options))
    narrator.say(
        f"{cohort.n_images} images, {len(cohort.references)} references, {len(files)} models"
    )
    result = run(
        cohort,
        grid,
        base=base,
        replicates=_replicates(options),
        seed=options["seed"],
        jobs=options["jobs"],
        progress=narrator.steps("matching", "resampling"),
    )
    _finish(result, narrator, options)


def _grid(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return grid and base of the file and the options; errors in them are reported before anything
    is read.
    """
    from calipers.sensitivity.configurations import DEFAULT, check_grid
    from calipers.sensitivity.grids import load_grid

    grid: dict[str, Any] = {}
    base: dict[str, Any] = {}
    if options["grid"] is not None:
        grid, base = load_grid(options["grid"])
    for name in NAMED:
        if options[name]:
            grid[name] = list(options[name])
    check_grid({**DEFAULT, **grid})
    return grid, base


def _replicates(options: dict[str, Any]) -> int:
    if options["no_ci"] and options["replicates"]:
        raise UsageError("--replicates is for intervals, which --no-ci leaves out")
    return 0 if options["no_ci"] else options["replicates"] or REPLICATES


def _finish(result: Multiverse, narrator: Narrator, options: dict[str, Any]) -> None:
    """Write and print the result."""
    if not options["no_ci"] and result.robustness is None:
        narrator.say("note: no intervals: too few patients or images to resample")
    page = None
    if options["output"] is not None:
        narrator.doing("figures and tables")
        command = click.get_current_context().obj or ()
        page = str(result.save(options["output"], force=options["force"], command=command))
        narrator.doing("")
    if options["as_json"]:
        click.echo(json.dumps({**result.as_dict(), "page": page}, allow_nan=False))
        return
    _print(result)
    if page is not None:
        click.echo(f"Open {page}")


def _print(result: Multiverse) -> None:
    """Print sentences, then the shares at every value of every choice, then the counts."""
    from calipers.cli.tables import TableLine, grid, stdout_console
    from calipers.sensitivity.wording import (
        choice_name,
        choice_text,
        configuration_text,
        percent_text,
    )

    for sentence in result.sentences():
        click.echo(one_line(sentence))
    console = stdout_console()
    lines = []
    for choice, level, n, wins in result.levels:
        if choice not in result.silent:
            shares = [percent_text(wins[model]) for model in result.models]
            lines.append(TableLine(choice_text(choice, level), shares, (n,)))
    whole = TableLine(
        "all", [percent_text(result.wins[model]) for model in result.models], (len(result.each),)
    )
    console.print(
        grid(console, "share won with", result.models, lines, ("configurations",), [whole])
    )
    if result.silent:
        click.echo(f"Choices that change no share: {', '.join(map(choice_name, result.silent))}.")
    click.echo(f"Base configuration: {configuration_text(result.each[result.base])}.")
    counts = f"{len(result.each)} different configurations of {result.n_possible:,} combinations."
    if result.n_undefined:
        counts += f" {result.n_undefined} more were left out, because a model has no value."
    click.echo(counts)
