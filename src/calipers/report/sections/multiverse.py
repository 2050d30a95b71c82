# SPDX-License-Identifier: Apache-2.0
"""Would the order of the models be another one under other choices?"""

from __future__ import annotations

from calipers.report.context import Context
from calipers.report.markup import items, paragraph
from calipers.report.multiverse import METHOD, figures, levels_table
from calipers.sensitivity.wording import configuration_text


def section(page: Context) -> str:
    """Return what the multiverse says, its figures and its shares; nothing if it was not asked for."""
    found = page.multiverse
    if found is None:
        return ""
    base = (
        f"The base is {configuration_text(found.each[found.base])}, not the protocol of this page."
    )
    return "\n".join(
        [
            items(found.sentences()),
            figures(found),
            levels_table(found),
            paragraph(f"{METHOD} {base}", "note"),
        ]
    )
