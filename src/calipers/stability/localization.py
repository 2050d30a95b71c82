# SPDX-License-Identifier: Apache-2.0
"""Localization."""

from __future__ import annotations

from calipers.results import Row
from calipers.stability.cases import Cases
from calipers.stability.pairs import BagPairs
from calipers.stability.plan import Plan


def localization_rows(evidence: BagPairs, plan: Plan, cases: Cases) -> list[Row]:
    """Return the rows of every model against the reference."""
    return []
