# SPDX-License-Identifier: Apache-2.0
"""`calipers check DIR REQUIREMENTS`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calipers.cli.messages import error_text
from calipers.cli.narration import Narrator
from calipers.cli.options import output_options
from calipers.errors import CalipersError, InputError

USUAL_LEVEL = 0.95

if TYPE_CHECKING:
    from calipers.readers.stored import Stored
    from calipers.results.requirements import Outcome, Requirements


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("evaluation", metavar="DIR")
@click.argument("requirements", metavar="REQUIREMENTS")
@click.option(
    "--junit",
    metavar="FILE",
    help="Also write the outcomes as JUnit XML; an earlier JUnit file is replaced.",
)
@output_options
def check(evaluation: str, requirements: str, junit: str | None, as_json: bool, quiet: bool) -> int:
    """Check an evaluation against acceptance limits.

    DIR is a folder written by calipers evaluate -o, or its evaluation.json. REQUIREMENTS is a TOML
    file. Exit code 0: all requirements are met; 1: at least one is not met or not shown; 2: bad
    input.

    \b
    calipers check results requirements.toml --junit junit.xml
    """
    from calipers.readers.stored import read_stored
    from calipers.results.junit import junit_of_error
    from calipers.results.requirements import Requirements
    from calipers.results.requirements import check as judge

    if junit is not None:
        _check_target(junit)
    try:
        evaluation_rows = read_stored(evaluation)
        demanded = Requirements.load(requirements)
    except CalipersError as error:
        if junit is not None:  # last week's verdict must not stay there as if it were today's
            _write(junit, junit_of_error(error_text(error), suite=requirements))
        raise
    outcomes = judge(evaluation_rows.rows, demanded)
    document = _document(evaluation_rows, demanded, outcomes)
    if junit is not None:
        _write(junit, _junit(document, outcomes))
    narrator = Narrator(quiet=quiet or as_json)
    narrator.warn(document["warnings"])
    counts = document["counts"]
    if as_json:
        click.echo(json.dumps(document))
    else:
        from calipers.cli.outcomes import print_outcomes

        print_outcomes(outcomes)
        click.echo(f"{counts['met']} of {counts['requirements']} requirements met")
    if junit is not None:
        narrator.say(f"JUnit: {junit}")
    return int(counts["met"] < counts["requirements"])


def _document(
    stored: Stored, demanded: Requirements, outcomes: Sequence[Outcome]
) -> dict[str, Any]:
    """Return the JSON document of the contract ``calipers.check/1``."""
    from calipers import __version__
    from calipers.results.requirements import VERDICTS, verdicts

    requirement_verdicts = list(verdicts(outcomes).values())
    counts = {"requirements": len(requirement_verdicts)}
    for verdict in VERDICTS:
        counts[verdict.replace(" ", "_")] = requirement_verdicts.count(verdict)
    warnings = []
    if not stored.vouched:
        warnings.append("there is no run.json beside the evaluation that vouches for its numbers")
    levels = [row["level"] for row in stored.rows if isinstance(row.get("level"), float)]
    weakest = min(levels, default=USUAL_LEVEL)
    if weakest < USUAL_LEVEL:
        warnings.append(
            f"the confidence level of intervals is {weakest:g}; a requirement can demand more, "
            f"such "
            "as level = 0.95"
        )
    return {
        "schema": "calipers.check/1",
        "calipers": __version__,
        "evaluation": stored.file,
        "result_hash": stored.result_hash,
        "vouched": stored.vouched,
        "requirements": demanded.file,
        "requirements_sha256": demanded.sha256,
        "name": demanded.name,
        "counts": counts,
        "outcomes": [outcome.as_dict() for outcome in outcomes],
        "warnings": warnings,
    }


def _junit(document: dict[str, Any], outcomes: Sequence[Outcome]) -> str:
    from calipers.results.junit import junit

    names = (
        "calipers",
        "evaluation",
        "result_hash",
        "vouched",
        "requirements",
        "requirements_sha256",
    )
    properties = {name: str(document[name]) for name in names}
    return junit(
        outcomes, suite=document["name"] or document["requirements"], properties=properties
    )


def _check_target(name: str) -> None:
    """Refuse to replace anything but an earlier file of this kind; a device such as stdout is
    none.
    """
    from calipers.results.junit import HEAD

    target = Path(name)
    if not name or target.is_dir():
        raise InputError("the name of a file", rule="not-a-file", file=name or "--junit")
    if not target.exists():
        return
    try:
        ours = target.is_file() and target.open("rb").read(len(HEAD)) == HEAD.encode()
    except OSError as error:
        raise InputError(
            "a file that can be replaced", rule="not-readable", file=name, value=error.strerror
        ) from None
    if not ours:
        hint = "only the JUnit file of an earlier check may be replaced: choose another name"
        raise InputError(
            "a file that does not exist yet", rule="output-exists", file=name, hint=hint
        )


def _write(name: str, text: str) -> None:
    from calipers.results.files import write_atomically

    write_atomically(name, text)
