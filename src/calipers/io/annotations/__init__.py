# SPDX-License-Identifier: Apache-2.0
"""Files of annotation tools: YOLO, Pascal VOC, CVAT, LabelMe, Label Studio; a module per format."""
