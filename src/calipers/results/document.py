# SPDX-License-Identifier: Apache-2.0
"""What every result with rows can do: export itself as JSON text or as a pandas frame."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from calipers.results.estimate import Row


class Document(ABC):
    """A result that is a JSON document."""

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """Return the document; every result has a contract of its own."""

    def to_json(self) -> str:
        """Return the document as JSON text, in ASCII so that no name can drive a terminal; null for
        undefined.
        """
        return json.dumps(self.as_dict(), allow_nan=False)


class RowsDocument(Document):
    """A document with a row per estimate."""

    if TYPE_CHECKING:

        @property
        def rows(self) -> Sequence[Row]:
            """A row per estimate."""

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a pandas frame (extra ``frames``)."""
        from calipers.results.frames import frame

        return frame([row.as_dict() for row in self.rows])
