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
    "-o", "--output", metavar="DIR", help="Folder for page, JSON, CSV and figures; new or empty."
)
@click.option(
    "--grid",
    metavar="FILE",
    help="Choices and their values in TOML; what suits the data if left out.",
)
@click.option(
    "--metric",
    metavar="NAME",
    multiple=True,
    help="Only this metric, such as AP or F1; may be repeated.",
)
@click.option(
    "--criterion", metavar="NAME", multiple=True, help="Only this criterion; may be repeated."
)
@click.option(
    "--replicates",
    metavar="N",
    type=click.IntRange(100, 10_000),
    help=f"For intervals ({REPLICATES}).",
)
@click.option("--no-ci", is_flag=True, help="No intervals.")
@click.option(
    "--seed", metavar="N", type=click.IntRange(min=0), default=0, help="Of the replicates."
)
@click.option(
    "--jobs", metavar="N", type=click.IntRange(min=1), default=1, help="Threads; changes no number."
)
@click.option(
    "--force",
    is_flag=True,
    help="Allow a DIR that holds something; a multiverse in it is replaced.",
)
@reading_options
@output_options
def multiverse(references: str, predictions: tuple[str, ...], **given: Any) -> None:
    """Evaluate all models under every defensible configuration, and say what their order hangs on.

    PREDS are files, or name=file to name a model. A configuration is a metric, a criterion, a
    threshold, and so on; what cannot differ is counted once.

    \b
    calipers multiverse refs.json ours=a.json theirs=b.json -o choices
    calipers multiverse refs.json a.json b.json --metric AP --metric F1 --criterion box-iou
    """
    from calipers.readers import read
    from calipers.sensitivity import multiverse as run

    files = named_files(predictions)
    if len(files) < 2:
        raise UsageError("a multiverse compares models: give the predictions of two or more")
    grid, base = _grid(given)
    if given["output"] is not None:
        from calipers.cli.evaluate import check_output

        inputs = (
            references,
            *files.values(),
            *(given[key] for key in ("groups", "grid") if given[key]),
        )
        check_output(given["output"], given["force"], inputs)
    narrator = Narrator(quiet=given["quiet"] or given["as_json"])
    cohort = read(references, files, **reading_arguments(given))
    narrator.say(
        f"{cohort.n_images} images, {len(cohort.references)} references, {len(files)} models"
    )
    found = run(
        cohort,
        grid,
        base=base,
        replicates=_replicates(given),
        seed=given["seed"],
        jobs=given["jobs"],
        progress=narrator.steps("matching", "resampling"),
    )
    _finish(found, narrator, given)


def _grid(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return grid and base of the file and the options; what is wrong with them is told before
    anything is read.
    """
    from calipers.sensitivity.configurations import DEFAULT, check_grid
    from calipers.sensitivity.grids import load_grid

    grid, base = load_grid(given["grid"]) if given["grid"] is not None else ({}, {})
    grid |= {name: list(given[name]) for name in NAMED if given[name]}
    check_grid({**DEFAULT, **grid})
    return grid, base


def _replicates(given: dict[str, Any]) -> int:
    if given["no_ci"] and given["replicates"]:
        raise UsageError("--replicates are for intervals, which --no-ci leaves out")
    return 0 if given["no_ci"] else given["replicates"] or REPLICATES


def _finish(found: Multiverse, narrator: Narrator, given: dict[str, Any]) -> None:
    """Write and print the result."""
    if not given["no_ci"] and found.robustness is None:
        narrator.say("note: too few patients or images to draw from: no intervals")
    page = None
    if given["output"] is not None:
        narrator.doing("figures and tables")
        page = str(
            found.save(
                given["output"], force=given["force"], command=click.get_current_context().obj or ()
            )
        )
        narrator.doing("")
    if given["as_json"]:
        click.echo(json.dumps({**found.as_dict(), "page": page}, allow_nan=False))
        return
    _print(found)
    if page is not None:
        click.echo(f"Open {page}")


def _print(found: Multiverse) -> None:
    """Print sentences, then the shares at every value of every choice, then the counts."""
    from calipers.cli.tables import Line, grid, stdout_console
    from calipers.sensitivity.wording import (
        choice_name,
        choice_text,
        configuration_text,
        percent_text,
    )

    for sentence in found.sentences():
        click.echo(one_line(sentence))
    console = stdout_console()
    lines = [
        Line(
            choice_text(choice, level), [percent_text(wins[model]) for model in found.models], (n,)
        )
        for choice, level, n, wins in found.levels
        if choice not in found.silent
    ]
    whole = Line(
        "all", [percent_text(found.wins[model]) for model in found.models], (len(found.each),)
    )
    console.print(
        grid(console, "share won with", found.models, lines, ("configurations",), [whole])
    )
    if found.silent:
        click.echo(f"Choices that change no share: {', '.join(map(choice_name, found.silent))}.")
    click.echo(f"Base: {configuration_text(found.each[found.base])}.")
    left = (
        f" {found.n_undefined} more were left out, because a model has no value."
        if found.n_undefined
        else ""
    )
    click.echo(
        f"{len(found.each)} configurations that differ, of {found.n_possible:,} combinations.{left}"
    )
