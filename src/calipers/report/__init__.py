# SPDX-License-Identifier: Apache-2.0
"""The page of an evaluation: one self-contained HTML file. `small` shows results in notebooks."""

from calipers.report.context import context_of
from calipers.report.page import write_page

__all__ = ["context_of", "write_page"]
