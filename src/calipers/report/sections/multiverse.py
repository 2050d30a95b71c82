# SPDX-License-Identifier: Apache-2.0
"""Would the ranking of the models change under other analysis choices?"""

from __future__ import annotations

from calipers.report.context import Context
from calipers.report.markup import items, paragraph
from calipers.report.multiverse import METHOD, figures, levels_table
from calipers.sensitivity.wording import configuration_text


def section(page: Context) -> str:
    """Return the sentences of the multiverse, its figures and its shares; nothing if it was not
    requested.
    """
    result = page.multiverse
    if result is None:
        return ""
    base = configuration_text(result.each[result.base])
    note = f"{METHOD} The base configuration is {base}, not the protocol of this page."
    parts = [items(result.sentences()), figures(result), levels_table(result)]
    return "\n".join([*parts, paragraph(note, "note")])
