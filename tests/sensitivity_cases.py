"""A multiverse from numbers on paper, without any evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np

from calipers.sensitivity.result import Multiverse


def multiverse_of(
    values: Any, each: Any, models: str = "abc", base: int = 0, **more: Any
) -> Multiverse:
    """Return the multiverse of a table (configurations, models)."""
    table = np.array(values, float)
    choices = tuple(dict.fromkeys(name for one in each for name in one))
    return Multiverse(
        tuple(models[: table.shape[1]]),
        choices,
        tuple(each),
        table,
        base,
        len(table),
        0,
        9,
        20,
        **more,
    )
