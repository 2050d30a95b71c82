# SPDX-License-Identifier: Apache-2.0
"""What a reader of a stability analysis must know."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calipers.stability.result import StabilityResult


def remarks(result: StabilityResult) -> list[str]:
    """Return warnings."""
    return list(result.plan.notes)
