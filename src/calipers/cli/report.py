# SPDX-License-Identifier: Apache-2.0
"""`calipers report DIR`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from calipers.cli.narration import Narrator
from calipers.cli.options import output_options, picture_arguments, picture_options
from calipers.errors import InputError

PICTURE = b"data:image/"  # how a page holds a picture


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", metavar="DIR")
@click.option("-o", "--output", metavar="FILE", help="File of the page. Default: DIR/report.html.")
@picture_options
@click.option(
    "--multiverse",
    is_flag=True,
    help="Add how sensitive the ranking is to analysis choices.",
)
@click.option(
    "--stability",
    is_flag=True,
    help="Add which objects repeated trainings find.",
)
@click.option(
    "--differences",
    type=click.Choice(["refuse", "warn"]),
    default="refuse",
    help="If a recomputed value differs from the stored one in any bit: stop, or warn and go on.",
)
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    help="Number of threads; results do not depend on it.",
)
@click.option("--force", is_flag=True, help="Replace an existing page; nothing else is replaced.")
@output_options
def report(folder: str, **options: Any) -> None:
    """Write the page of a saved evaluation again.

    DIR was written by calipers evaluate -o. Nothing else is needed: the inputs may be gone. Every
    value is recomputed from the cohort in DIR and compared with the stored one.

    \b
    calipers report results --force
    calipers report results --redact -o for-others.html
    """
    from calipers import __version__
    from calipers.opening import open_folder
    from calipers.saving import PAGE

    narrator = Narrator(quiet=options["quiet"] or options["as_json"])
    target = Path(folder) / PAGE if options["output"] is None else Path(options["output"])
    pictures = picture_arguments(options, target.parent)
    _check_target(folder, target, options)
    stored = open_folder(
        folder, jobs=options["jobs"], progress=narrator.steps("matching", "resampling")
    )
    if options["differences"] == "refuse":
        stored.require_equal()
    notes = list(stored.notes)
    narrator.warn(notes)
    sections = {
        name: options[name] or getattr(stored, name) for name in ("multiverse", "stability")
    }
    stored.evaluation.report(
        target, command=stored.command, step=narrator.doing, **sections, **pictures
    )
    content = target.read_bytes()
    document = {
        "schema": "calipers.report/1",
        "calipers": __version__,
        "page": str(target),
        "bytes": len(content),
        "pictures": content.count(PICTURE),
        "redacted": options["redact"],
        "notes": notes,
    }
    click.echo(json.dumps(document) if options["as_json"] else f"Open {target}")


def _check_target(folder: str, target: Path, options: dict[str, Any]) -> None:
    """Refuse a bad target before any work is done; of the folder itself only the page may be
    replaced.
    """
    from calipers.results.files import check_file
    from calipers.saving import FILES, PAGE

    if not Path(folder).is_dir():
        hint = "give the folder that calipers evaluate -o wrote"
        raise InputError("the folder of an evaluation", rule="not-a-folder", file=folder, hint=hint)
    other_files = [str(Path(folder) / name) for name in FILES if name != PAGE]
    check_file(
        options["output"] if options["output"] == "" else str(target),
        force=options["force"],
        inputs=other_files,
    )
