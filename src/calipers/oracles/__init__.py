# SPDX-License-Identifier: Apache-2.0
"""Oracles: simulated predictors that corrupt the references in a known way, to learn what a metric
sees.
"""

from calipers.oracles.corruption import KINDS, corrupt
from calipers.oracles.maps import MAP_KINDS, corrupt_map, corrupt_maps

__all__ = ["KINDS", "MAP_KINDS", "corrupt", "corrupt_map", "corrupt_maps"]
