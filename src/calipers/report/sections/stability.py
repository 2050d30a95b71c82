# SPDX-License-Identifier: Apache-2.0
"""Do models that were trained alike find the same objects?"""

from __future__ import annotations

from calipers.report.context import Context
from calipers.report.markup import paragraph
from calipers.report.stability_objects import objects_block

MEANT = (
    "This section is for models that were trained alike, with other seeds or on other folds: it "
    "treats them as repeated trainings of one model and shows what another training would find too."
)


def section(page: Context) -> str:
    """Return what all, some and none of the models find; nothing if it was not requested."""
    result = page.stability
    if result is None:
        return ""
    settings = result.settings
    rule = (
        "An object is found, and two predictions are the same, if their "
        f"{settings['criterion']} is at least {settings['threshold']:g}."
    )
    return "\n".join([paragraph(MEANT), objects_block(result), paragraph(rule, "note")])
