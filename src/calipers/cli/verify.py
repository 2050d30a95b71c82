# SPDX-License-Identifier: Apache-2.0
"""`calipers verify DIR`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from calipers.cli.messages import one_line
from calipers.cli.narration import Narrator
from calipers.cli.options import output_options

SHOWN = 10


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", metavar="DIR")
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    help="Number of threads; results do not depend on it.",
)
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
    from calipers.opening import open_folder, versions
    from calipers.readers.stored_folder import check_files
    from calipers.saving import FILES

    narrator = Narrator(quiet=quiet or as_json)
    stored = open_folder(folder, jobs=jobs, progress=narrator.steps("matching", "resampling"))
    check_files(Path(folder), stored.run, FILES)  # also those that are not needed to open it
    differences, (then, now) = stored.changed, versions(stored.run)
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
            "differences": [one.as_dict() for one in differences],
        }
        click.echo(json.dumps(document))
        return int(bool(differences))
    if then != now:
        narrator.say(f"note: saved with {then}; this is {now}")
    n, n_equal = stored.n_values, stored.n_values - len(differences)
    if differences:
        click.echo(f"{n_equal:,} of {n:,} values recomputed and identical")
    else:
        click.echo(f"all {n:,} values recomputed and identical")
    for one in differences[:SHOWN]:
        click.echo(one_line(f"  {one}"))
    if len(differences) > SHOWN:
        click.echo(f"  ... and {len(differences) - SHOWN} more, see --json")
    return int(bool(differences))
