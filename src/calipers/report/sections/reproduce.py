# SPDX-License-Identifier: Apache-2.0
"""Everything that is needed to get the same numbers again, and a hash to compare them by."""

from __future__ import annotations

import shlex

from calipers.kernels.route import native
from calipers.plots.figures import Table
from calipers.report.context import Context
from calipers.report.markup import data_table, details, paragraph, text
from calipers.results.provenance import environment


def section(page: Context) -> str:
    """Return command, protocol, hashes, versions and seed."""
    ev = page.evaluation
    command = " ".join(shlex.quote(word) for word in page.command)
    parts = [
        f"<h3>Command</h3><pre>{text(command)}</pre>" if command else "",
        data_table(Table(("what", "value"), tuple(_facts(page))), "table-run", "The run"),
        _inputs(page),
        details(
            "The protocol, to run it again (TOML)", f"<pre>{text(ev.protocol.to_toml())}</pre>"
        ),
    ]
    if page.hidden:
        parts.append(
            paragraph(
                "Ids and names of files are replaced by keyed hashes in this page; the key was not "
                "kept.",
                "note",
            )
        )
    return "\n".join(part for part in parts if part)


def _facts(page: Context) -> list[tuple[str, str]]:
    from calipers import __version__

    ev = page.evaluation
    facts = {
        "calipers": __version__,
        "kernels": "numpy" if native() is None else "native",
        **{name: str(value) for name, value in environment().items()},
        "seed": str(ev.protocol.seed),
        "random numbers": "Philox4x64, key = [seed, replicate]",
        "replicates": str(ev.statistics["replicates"]),
        "protocol sha256": page.protocol_hash,
    }
    if page.result_hash:
        facts["result sha256"] = page.result_hash
    return list(facts.items())


def _inputs(page: Context) -> str:
    files = page.evaluation.cohort.intake.files
    if not files or page.hidden:
        return ""
    rows = tuple((file.file, file.bytes, file.sha256) for file in files)
    table = data_table(Table(("file", "bytes", "sha256"), rows), "table-inputs", "Inputs")
    return details("Inputs and their hashes", table)
