# SPDX-License-Identifier: Apache-2.0
"""Turn maps of scores into objects: boxes around regions above thresholds, and instances with
masks.
"""

from calipers.heatmaps.boxes import HeatmapBoxes, boxes_from_heatmaps
from calipers.heatmaps.instances import Instances, instances_from_map

__all__ = ["HeatmapBoxes", "Instances", "boxes_from_heatmaps", "instances_from_map"]
