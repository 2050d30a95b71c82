# SPDX-License-Identifier: Apache-2.0
"""Presentation: words, tables, figures; on the terminal, as HTML, SVG and with matplotlib."""
