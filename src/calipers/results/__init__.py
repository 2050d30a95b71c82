# SPDX-License-Identifier: Apache-2.0
"""Plain data that leaves Calipers: estimates, rows, comparisons, requirements, files."""
