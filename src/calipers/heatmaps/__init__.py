# SPDX-License-Identifier: Apache-2.0
"""From maps of scores to objects: boxes around what lies above thresholds, and instances with their
masks.
"""

from calipers.heatmaps.boxes import HeatmapBoxes, boxes_from_heatmaps
from calipers.heatmaps.instances import Instances, instances_from_map

__all__ = ["HeatmapBoxes", "Instances", "boxes_from_heatmaps", "instances_from_map"]
