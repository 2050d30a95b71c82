# SPDX-License-Identifier: Apache-2.0
"""Oracles: simulated predictors that corrupt the references in a known way, to learn what a metric sees."""

from calipers.oracles.corruption import KINDS, corrupt

__all__ = ["KINDS", "corrupt"]
