# SPDX-License-Identifier: Apache-2.0
"""Criteria: when is a place right? A criterion gives every candidate pair a similarity."""

from calipers.criteria.contract import Criterion, PairTable

__all__ = ["Criterion", "PairTable"]
