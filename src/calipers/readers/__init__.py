# SPDX-License-Identifier: Apache-2.0
"""Read files into a checked cohort (`read`), say how they are interpreted (`sniff`, `explain`),
and write them (`write`).
"""

from calipers.readers.explain import explain
from calipers.readers.reading import read
from calipers.readers.sniffing import Sniffed, sniff
from calipers.readers.writing import write

__all__ = ["Sniffed", "explain", "read", "sniff", "write"]
