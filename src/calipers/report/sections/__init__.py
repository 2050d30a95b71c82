# SPDX-License-Identifier: Apache-2.0
"""The sections of the page, in reading order: id, heading, and the function that returns the HTML.

A section that has nothing to show returns "" and is left out.
"""

from __future__ import annotations

from collections.abc import Callable

from calipers.report.context import Context
from calipers.report.sections import (
    comparison,
    curves,
    data,
    errors,
    forests,
    images,
    maps,
    methods,
    monitor,
    multiverse,
    numbers,
    objects,
    reproduce,
    stability,
)

SECTIONS: tuple[tuple[str, str, Callable[[Context], str]], ...] = (
    ("data", "Data and cautions", data.section),
    ("maps", "Maps", maps.section),
    ("curves", "Curves", curves.section),
    ("parts", "Why: place, shape, class", forests.parts),
    ("classes", "Per class", forests.classes),
    ("groups", "Per group", forests.groups),
    ("errors", "Errors", errors.section),
    ("objects", "Objects", objects.section),
    ("choices", "Sensitivity to choices", errors.choices),
    ("multiverse", "Ranking under other choices", multiverse.section),
    ("images", "Images", images.section),
    ("stability", "Stability", stability.section),
    ("monitor", "Monitor", monitor.section),
    ("comparison", "Comparison", comparison.section),
    ("methods", "Methods", methods.section),
    ("numbers", "All numbers", numbers.section),
    ("reproduce", "Reproduce", reproduce.section),
)
