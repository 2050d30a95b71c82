# SPDX-License-Identifier: Apache-2.0
"""The page of an evaluation: one self-contained HTML file."""
