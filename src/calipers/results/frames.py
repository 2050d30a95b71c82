# SPDX-License-Identifier: Apache-2.0
"""Rows as a pandas frame (extra ``frames``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from calipers.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd


def frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the rows as a frame; without pandas an error that says how to get it."""
    try:
        import pandas as pd
    except ImportError:
        raise UsageError("to_frame needs pandas: pip install 'calipers[frames]'") from None
    return pd.DataFrame(rows)
