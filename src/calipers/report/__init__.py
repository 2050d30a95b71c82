# SPDX-License-Identifier: Apache-2.0
"""The page of an evaluation: one self-contained HTML file."""

from calipers.report.page import table, write_page

__all__ = ["table", "write_page"]
