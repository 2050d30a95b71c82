# SPDX-License-Identifier: Apache-2.0
"""The numbers that the paper prints: facts to compare with, and to judge its sentences by."""

from __future__ import annotations

import math
from dataclasses import dataclass

NAN = math.nan
XRAY, MURA, PASCAL = "X-Ray", "MURA", "Pascal VOC"
NOR, MEAN, LSE_SMALL, LSE_ONE, MAX = OPERATORS = ("NOR", "Mean", "LSE, r=0.1", "LSE, r=1", "Max")
DATA_SETS = (XRAY, MURA, PASCAL)

# Tables II and III: (n00, n01, n10, n11), AJ and APJ as printed.
BINARY = {
    "IIa": ((40, 10, 10, 40), 0.6, 0.43),
    "IIb": ((0, 30, 30, 40), -0.43, -0.18),
    "IIIa": ((20, 20, 20, 40), 0.17, 0.09),
    "IIIb": ((20, 35, 5, 40), 0.24, 0.14),
}
# The row totals of the first classifier (calls 0, calls 1), as printed beside the same tables.
ROW_TOTALS = {"IIa": (50, 50), "IIb": (30, 70), "IIIa": (40, 60), "IIIb": (55, 55)}
# Table IX: what the green and the black dotted line of figure 9 end with.
LAST_STEPS = {"green": (0, 50, 50, 100), "black dotted": (50, 0, 100, 50)}


@dataclass(frozen=True, slots=True)
class PrintedRow:
    """A row of table VII: means, standard deviations where printed, columns of one split."""

    apj: tuple[float, float]
    spearman: tuple[float, float]
    auc: tuple[float, float]
    dice: tuple[float, float]
    split_auc: float
    split_dice: float


@dataclass(frozen=True, slots=True)
class Summary:
    """A row of table VI: mean and standard deviation over bags of APJ, Spearman and DICE."""

    scores: tuple[tuple[float, float], ...]
    bags: int


def _row(*cells: float) -> PrintedRow:
    a, b, c, d = ((cells[k], cells[k + 1]) for k in (0, 2, 4, 6))
    return PrintedRow(a, b, c, d, cells[8], cells[9])


TABLE_VII = {
    (XRAY, NOR): _row(0.42, 0.20, 0.36, 0.20, 0.88, 0.02, 0.75, 0.06, 0.87, 0.72),
    (XRAY, MEAN): _row(0.31, 0.17, 0.52, 0.22, 0.88, 0.03, 0.56, 0.06, 0.88, 0.52),
    (XRAY, LSE_SMALL): _row(0.49, 0.16, 0.68, 0.21, 0.91, 0.01, 0.59, 0.10, 0.89, 0.60),
    (XRAY, LSE_ONE): _row(0.37, 0.18, 0.58, 0.23, 0.90, 0.02, 0.58, 0.10, 0.90, 0.56),
    (XRAY, MAX): _row(0.05, 0.07, 0.15, 0.10, 0.87, 0.02, 0.11, 0.04, 0.87, 0.12),
    (MURA, NOR): _row(0.29, 0.19, 0.44, 0.17, 0.85, 0.01, NAN, NAN, 0.85, NAN),
    (MURA, MEAN): _row(0.12, 0.09, 0.41, 0.14, 0.85, 0.01, NAN, NAN, 0.84, NAN),
    (MURA, LSE_SMALL): _row(0.13, 0.10, 0.40, 0.15, 0.85, 0.01, NAN, NAN, 0.84, NAN),
    (MURA, LSE_ONE): _row(0.29, 0.14, 0.48, 0.14, 0.84, 0.01, NAN, NAN, 0.84, NAN),
    (MURA, MAX): _row(0.11, 0.15, 0.24, 0.12, 0.82, 0.01, NAN, NAN, 0.82, NAN),
    (PASCAL, NOR): _row(0.56, 0.14, 0.82, 0.09, 0.99, 0.00, 0.40, 0.03, 0.98, 0.39),
    (PASCAL, MEAN): _row(0.28, 0.27, 0.82, 0.10, 0.99, 0.00, 0.24, 0.03, 0.99, 0.23),
    (PASCAL, LSE_SMALL): _row(0.29, 0.26, 0.83, 0.10, 0.99, 0.00, 0.24, 0.03, 0.98, 0.03),
    (PASCAL, LSE_ONE): _row(0.36, 0.29, 0.85, 0.09, 0.99, 0.00, 0.26, 0.03, 0.98, 0.25),
    (PASCAL, MAX): _row(0.52, 0.29, 0.64, 0.11, 0.99, 0.00, 0.57, 0.02, 1.00, 0.57),
}
# Table V: class -> AUC, DICE, accuracy with standard deviations over five folds (its own models,
# not the references).
TABLE_V = {
    XRAY: ((0.90, 0.02), (0.72, 0.07), (0.97, 0.05)),
    MURA: ((0.84, 0.01), (NAN, NAN), (NAN, NAN)),
    PASCAL: ((0.99, 0.01), (0.40, 0.03), (0.82, 0.03)),
}
# Table VI: APJ, Spearman, DICE on annotated bags, and how many bags there were (section V-C).
TABLE_VI = {
    XRAY: Summary(((0.53, 0.16), (0.48, 0.17), (0.75, 0.06)), 29),
    PASCAL: Summary(((0.63, 0.14), (0.87, 0.07), (0.38, 0.21)), 41),
}
# Bags that the text describes: APJ, Spearman, and DICE where it says so.
DESCRIBED_BAGS = {
    "figure 5b (X-Ray)": (0.34, 0.32, 0.70),
    "figure 5c (X-Ray)": (0.17, 0.12, NAN),
    "figure 5d (MURA)": (0.69, 0.73, NAN),
    "figure 5g (Pascal VOC)": (0.46, 0.74, NAN),
}
INTERCHANGEABLE = {("APJ", "AJ"): 0.98, ("Kendall-b", "Spearman"): 0.99}  # section IV-F
