# SPDX-License-Identifier: Apache-2.0
"""Numbers that the paper prints: tables 2 to 5, for comparison and for claims about them alone."""

from __future__ import annotations

from collections.abc import Mapping

# AP@0.5 and AP@0.5:0.95 of small, medium and large polyps, by centre, and of all centres.
Sizes = Mapping[str, tuple[float, float, float, float, float, float]]

TABLE_2: Sizes = {
    "C1": (0.24, 0.48, 0.73, 0.14, 0.33, 0.55),
    "C2": (0.00, 0.46, 0.81, 0.00, 0.31, 0.67),
    "C3": (0.16, 0.64, 0.91, 0.10, 0.47, 0.72),
    "C4": (0.14, 0.33, 0.59, 0.06, 0.27, 0.43),
    "C5": (0.19, 0.39, 0.59, 0.12, 0.26, 0.42),
    "C6": (0.00, 0.52, 0.89, 0.00, 0.39, 0.67),
}
TABLE_2_MEAN = (0.14, 0.47, 0.75, 0.07, 0.34, 0.58)
TABLE_2_SD = (0.10, 0.11, 0.14, 0.06, 0.08, 0.13)
TABLE_2_FRAMES = (256, 276, 457, 227, 208, 88)
TABLE_2_PREVALENCE = (98, 89, 99, 64, 99, 94)
TABLE_2_TOTAL = (1512, 91)
TABLE_5: Mapping[str, Sizes] = {
    "EfficientDet ensemble": {
        "C1": (0.12, 0.20, 0.50, 0.07, 0.08, 0.22),
        "C2": (0.00, 0.39, 0.65, 0.00, 0.25, 0.38),
        "C3": (0.02, 0.24, 0.59, 0.01, 0.12, 0.29),
        "C4": (0.03, 0.00, 0.24, 0.02, 0.00, 0.13),
        "C5": (0.08, 0.08, 0.17, 0.03, 0.04, 0.08),
        "C6": (0.00, 0.03, 0.56, 0.00, 0.23, 0.32),
    },
    "YOLOv7 ensemble": {
        "C1": (0.12, 0.41, 0.59, 0.07, 0.29, 0.45),
        "C2": (0.00, 0.53, 0.81, 0.00, 0.33, 0.63),
        "C3": (0.12, 0.57, 0.83, 0.06, 0.36, 0.64),
        "C4": (0.07, 0.49, 0.58, 0.01, 0.26, 0.44),
        "C5": (0.22, 0.41, 0.58, 0.13, 0.27, 0.39),
        "C6": (0.00, 0.46, 0.69, 0.00, 0.30, 0.55),
    },
}
# The last rows of table 5, as text.
TABLE_5_SUMMARY = {
    "EfficientDet ensemble": (
        *("0.04 (0.05)", "0.20 (0.14)", "0.45 (0.20)"),
        *("0.02 (0.03)", "0.12 (0.10)", "0.24 (0.12)"),
    ),
    "YOLOv7 ensemble": (
        *("0.09 (0.08)", "0.48 (0.06)", "0.68 (0.12)"),
        *("0.05 (0.05)", "0.30 (0.04)", "0.52 (0.11)"),
    ),
}
TABLE_5_NOTES = {
    "EfficientDet ensemble": (
        "Medium polyps of centre 6 have an AP@0.5 of 0.03 and an AP@0.5:0.95 of 0.23 as printed, "
        "which cannot be, as AP falls with the threshold. With 0.33 the printed mean and SD follow."
    ),
}
CRITERIA = ("box-iou", "point-in-box", "point-in-mask", "point-in-hull")
# By metric, in the order of CRITERIA.
TABLE_3 = {
    "sensitivity": (0.68, 0.74, 0.74, 0.74),
    "PPV": (0.78, 0.86, 0.85, 0.86),
    "F1": (0.73, 0.80, 0.79, 0.80),
    "F2": (0.70, 0.74, 0.74, 0.74),
    "AP": (0.65, 0.73, 0.73, 0.73),
}
TABLE_4 = {
    "EfficientDet ensemble": {
        "sensitivity": (0.49, 0.61, 0.59, 0.59),
        "PPV": (0.36, 0.46, 0.44, 0.44),
        "F1": (0.41, 0.51, 0.49, 0.49),
        "F2": (0.45, 0.56, 0.54, 0.54),
        "AP": (0.37, 0.49, 0.47, 0.47),
    },
    "YOLOv7 ensemble": {
        "sensitivity": (0.64, 0.76, 0.75, 0.76),
        "PPV": (0.71, 0.78, 0.77, 0.77),
        "F1": (0.67, 0.77, 0.76, 0.76),
        "F2": (0.65, 0.77, 0.76, 0.76),
        "AP": (0.59, 0.74, 0.73, 0.73),
    },
}
EFFECTS = {"type[protruded]": 0.08, "size[medium]": -0.05, "size[small]": -0.28}
