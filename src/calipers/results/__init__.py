# SPDX-License-Identifier: Apache-2.0
"""Plain data that leaves Calipers: estimates, rows, provenance, files."""

from calipers.results.estimate import REASONS, Estimate, Row

__all__ = ["REASONS", "Estimate", "Row"]
