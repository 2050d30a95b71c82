# SPDX-License-Identifier: Apache-2.0
"""The verbs that work on a saved evaluation.

- `calipers report DIR` writes its page again, with other pictures or redacted;
- `calipers verify DIR` computes every number again from the folder and compares the bits
  (`calipers.evaluation.saved`).
"""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calipers.cli.options import (
    force_option,
    jobs_option,
    output_file_option,
    output_options,
    picture_arguments,
    picture_options,
    verb,
)
from calipers.errors import InputError
from calipers.show.terminal import Narrator, one_line

if TYPE_CHECKING:
    from calipers.io.saved.folder import CheckedFiles

PICTURE = b"data:image/"  # how a page holds a picture
SHOWN = 10


@verb()
@click.argument("folder", metavar="DIR")
@output_file_option("File of the page. Default: DIR/report.html.")
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
@jobs_option()
@force_option("Replace an existing page; nothing else is replaced.")
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
    from calipers.evaluation.saved import open_folder
    from calipers.io.saved.folder import PAGE, page_in_place

    narrator = Narrator(quiet=options["quiet"] or options["as_json"])
    target = Path(folder) / PAGE if options["output"] is None else Path(options["output"])
    pictures = picture_arguments(options, target.parent)
    _check_target(folder, target, options)
    stored = open_folder(
        folder,
        jobs=options["jobs"],
        progress=narrator.steps("matching", "resampling"),
        reading=narrator.whole(),
    )
    if options["differences"] == "refuse":
        stored.require_equal()
    notes = list(stored.notes)
    narrator.warn(notes)
    # What the page had before, it has again, unless more is asked for.
    sections = {
        name: options[name] or getattr(stored, name) for name in ("multiverse", "stability")
    }
    # Unlike Path.resolve this does not fail at links in a circle.
    is_in_place = os.path.realpath(target) == os.path.realpath(Path(folder) / PAGE)
    hold = page_in_place(Path(folder), stored.run, __version__) if is_in_place else nullcontext()
    with hold:
        stored.evaluation.report(
            target,
            command=stored.command,
            step=narrator.doing,
            progress=narrator.whole(),
            **sections,
            **pictures,
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
    click.echo(json.dumps(document) if options["as_json"] else one_line(f"Open {target}"))


def _check_target(folder: str, target: Path, options: dict[str, Any]) -> None:
    """Refuse a bad target before any work is done; of the folder itself only the page may be
    replaced.
    """
    from calipers.evaluation.saved import FILES
    from calipers.io.saved.folder import PAGE
    from calipers.results.files import check_file

    if not os.path.isdir(folder):
        hint = "give the folder that calipers evaluate -o wrote"
        raise InputError("the folder of an evaluation", rule="not-a-folder", file=folder, hint=hint)
    # The folder itself is the input: nothing in it may be replaced but its page.
    other_files = [str(Path(folder) / name) for name in FILES if name != PAGE]
    check_file(
        options["output"] if options["output"] == "" else str(target),
        force=options["force"],
        inputs=other_files,
    )


def _file_words(files: CheckedFiles) -> str:
    """Say which files were checked, and which are not covered."""
    words = f"{len(files.verified)} files are as they were written"
    if files.runs is None:
        words += ", without a log of runs (an earlier version of Calipers)"
    else:
        words += f", and so is the log of {files.runs} run{'s' if files.runs > 1 else ''}"
    if files.unverified:
        words += f"; not covered: {', '.join(files.unverified)}"
    return one_line(words)


@verb()
@click.argument("folder", metavar="DIR")
@jobs_option()
@output_options
def verify(folder: str, jobs: int, as_json: bool, quiet: bool) -> int:
    """Recompute a saved evaluation and compare every value.

    DIR was written by calipers evaluate -o; the inputs may be gone. Exit code 0: all values are
    identical to the stored ones; 1: at least one differs; 2: a file is missing, truncated or
    changed.

    \b
    calipers verify results
    """
    from calipers import __version__
    from calipers.evaluation.saved import changed_tables, open_folder
    from calipers.io.saved.folder import check_files
    from calipers.results.provenance import ON_TRUST, versions

    narrator = Narrator(quiet=quiet or as_json)
    reading = narrator.whole()
    resampling = narrator.steps("matching", "resampling")
    stored = open_folder(folder, jobs=jobs, progress=resampling, reading=reading)
    # Also those that are not needed to open it.
    files = check_files(Path(folder), stored.run, reading)
    tables = changed_tables(Path(folder), stored.evaluation, reading)
    differences = [*stored.changed, *tables]
    then, now = versions(stored.run)
    if as_json:
        document = {
            "schema": "calipers.verify/1",
            "calipers": __version__,
            "evaluation": stored.file,
            "result_hash": stored.run["result_hash"],
            "reproduced": not differences,
            "values": stored.n_values,
            "saved_with": then,
            "verified_with": now,
            "earlier_intervals": stored.n_earlier,
            "differences": [one.as_dict() for one in differences],
            "files": {"verified": files.verified, "unverified": files.unverified},
            "runs": files.runs,
            "on_trust": list(ON_TRUST),
        }
        click.echo(json.dumps(document))
        return int(bool(differences))
    if then != now:
        narrator.say(f"note: saved with {then}; this is {now}")
    n, n_equal = stored.n_values, stored.n_values - len(stored.changed)
    if stored.n_earlier:
        click.echo(
            f"{stored.n_earlier:,} intervals follow earlier rules: they were not recomputed, and "
            "stand as they were stored"
        )
    if stored.changed:
        click.echo(f"{n_equal:,} of {n:,} values recomputed and identical")
    else:
        click.echo(f"all {n:,} values recomputed and identical")
    for one in differences[:SHOWN]:
        click.echo(one_line(f"  {one}"))
    if len(differences) > SHOWN:
        click.echo(f"  ... and {len(differences) - SHOWN} more, see --json")
    click.echo(_file_words(files))
    click.echo("taken on trust, because nothing in the folder can show it:")
    for fact in ON_TRUST:
        click.echo(f"  {fact}")
    return int(bool(differences))
