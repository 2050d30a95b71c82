# SPDX-License-Identifier: Apache-2.0
"""Stability of localization between models that were trained alike."""

from calipers.stability.analysis import stability
from calipers.stability.comparison import StabilityTable, stability_table
from calipers.stability.instances import instance_labels
from calipers.stability.result import StabilityResult

__all__ = ["StabilityResult", "StabilityTable", "instance_labels", "stability", "stability_table"]
