# SPDX-License-Identifier: Apache-2.0
"""Files in, a checked cohort out: `read`. `sniff` and `explain` say what was understood, `write`
goes back.
"""

from calipers.readers.explain import explain
from calipers.readers.reading import read
from calipers.readers.sniffing import Sniffed, sniff
from calipers.readers.writing import write

__all__ = ["Sniffed", "explain", "read", "sniff", "write"]
