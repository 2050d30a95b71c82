# SPDX-License-Identifier: Apache-2.0
"""Words by which a title calls something the best or the worst, which needs a test of the data."""

from __future__ import annotations

import re

SUPERLATIVE = re.compile(
    r"\b(best|worst|most|least|highest|lowest|largest|smallest|leads?|leading|leader|wins?|winner|"
    r"better|worse|weakest|strongest|first|superior)\b"
)
# Such a title says what is seen in this sample, and claims nothing beyond.
OF_THE_SAMPLE = "On these images "


def names_an_extreme(title: str) -> bool:
    """Return whether a title names a leader, or who is last, as if that had been tested."""
    return SUPERLATIVE.search(title) is not None and not title.startswith(OF_THE_SAMPLE)
