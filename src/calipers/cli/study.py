# SPDX-License-Identifier: Apache-2.0
"""`calipers study NAME`."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import click

from calipers.cli.messages import one_line
from calipers.cli.narration import Narrator
from calipers.cli.options import named_files, output_options

if TYPE_CHECKING:
    from calipers.studies import StudyResult

MARKS = {"held": "+", "held in part": "~", "did not hold": "-", "not tested": "?"}
WIDEST = 110


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", metavar="NAME", required=False)
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    help="Folder for page, figures and tables; must be new or empty.",
)
@click.option(
    "--data",
    metavar="FILE|DIR",
    help="Data of the paper, or your own. Default: synthetic data.",
)
@click.option(
    "--predictions",
    metavar="[NAME=]FILE",
    multiple=True,
    help="A model for the table of given predictions. Repeatable.",
)
@click.option(
    "--ranking", metavar="FILE", help="Table of human ranks, with the columns algorithm and rank."
)
@click.option(
    "--ood", metavar="COLUMN[=VALUE,...]", help="Images of the data that are out of distribution."
)
@click.option(
    "--runs",
    metavar="N",
    type=click.IntRange(min=2),
    help="Runs per point. Default: as in the paper.",
)
@click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Seed of all random numbers (0).",
)
@click.option(
    "--quick", is_flag=True, help="Coarse grids and little data: for a trial, not for citing."
)
@click.option(
    "--force",
    is_flag=True,
    help="Allow a DIR that is not empty; an earlier study in it is replaced.",
)
@output_options
def study(name: str | None, **options: Any) -> None:
    """Reproduce a published experiment from end to end, and check every claim.

    Without NAME, list the studies. Figures (SVG; PDF with the extra mpl), tables and one page go to
    DIR.

    \b
    calipers study
    calipers study rodeo -o rodeo-study
    calipers study rodeo --data BBox_List_2017.csv -o rodeo-study
    calipers study anomaly -o anomaly-study
    calipers study stability --data maps -o stability-study
    calipers study monitors -o monitors-study
    """
    from calipers.studies import run_study

    if name is None:
        _list(as_json=options["as_json"])
        return
    narrator = Narrator(quiet=options["quiet"] or options["as_json"])
    predictions = named_files(options["predictions"])
    if options["output"] is not None:
        from calipers.results.files import check_folder

        inputs = (*filter(None, (options["data"], options["ranking"])), *predictions.values())
        check_folder(options["output"], force=options["force"], inputs=inputs)
    result = run_study(
        name,
        data=options["data"],
        predictions=predictions,
        ranking=options["ranking"],
        ood=options["ood"],
        runs=options["runs"],
        seed=options["seed"],
        quick=options["quick"],
        progress=narrator.whole(),
    )
    narrator.warn(result.warnings)
    page = _write(result, options, narrator) if options["output"] is not None else None
    if options["as_json"]:
        click.echo(json.dumps({**result.as_dict(), "page": page}, allow_nan=False))
        return
    _print(result)
    if page is not None:
        click.echo(f"Open {page}")


def _list(*, as_json: bool) -> None:
    from calipers import __version__
    from calipers.studies import STUDIES

    if as_json:
        entries = [{"name": name, "about": about} for name, (_, about) in STUDIES.items()]
        click.echo(
            json.dumps(
                {"schema": "calipers.studies/1", "calipers": __version__, "studies": entries}
            )
        )
        return
    longest = max(map(len, STUDIES))
    for name, (_, about) in STUDIES.items():
        click.echo(f"{name.ljust(longest)}  {about}")
    click.echo("Run one with: calipers study NAME -o DIR")


def _write(result: StudyResult, options: dict[str, Any], narrator: Narrator) -> str:
    from calipers.studies.writing import write_study

    command = click.get_current_context().obj or ()
    files = write_study(
        result, options["output"], force=options["force"], command=command, step=narrator.doing
    )
    return str(files[0])


def _print(result: StudyResult) -> None:
    """Print every claim with its verdict and its numbers, then the counts."""
    wide = min(shutil.get_terminal_size().columns, WIDEST) if sys.stdout.isatty() else WIDEST
    for claim in result.claims:
        head = f"{MARKS[claim.verdict]} {claim.verdict}: {claim.text} ({claim.where})"
        for words, indent in ((head, "  "), (claim.evidence, "    "), (claim.note, "    ")):
            first = "" if words is head else indent
            for line in textwrap.wrap(
                one_line(words), wide, initial_indent=first, subsequent_indent=indent
            ):
                click.echo(line)
    click.echo(result.summary())
