# SPDX-License-Identifier: Apache-2.0
"""Stability of localization between models that were trained alike."""

from calipers.stability.analysis import stability
from calipers.stability.result import StabilityResult

__all__ = ["StabilityResult", "stability"]
