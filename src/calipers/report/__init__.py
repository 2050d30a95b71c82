# SPDX-License-Identifier: Apache-2.0
"""The page of an evaluation: one self-contained HTML file. `small` shows results in notebooks."""

from calipers.report.page import write_page

__all__ = ["write_page"]
