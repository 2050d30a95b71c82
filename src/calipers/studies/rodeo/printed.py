# SPDX-License-Identifier: Apache-2.0
"""Table 1 as printed in the paper, and a check of its totals."""

from __future__ import annotations

from itertools import product

# Per class: RoDeO/cls, RoDeO/loc, RoDeO/shape, RoDeO, accuracy@0.3, mAP, in percent (Meissen et
# al., table 1).
PRINTED = {
    "Atelectasis": (21.6, 17.3, 6.9, 28.4, 37.1, 2.0),
    "Cardiomegaly": (55.7, 70.4, 45.8, 55.6, 86.2, 31.7),
    "Effusion": (21.9, 15.5, 9.2, 13.7, 33.4, 5.1),
    "Infiltration": (11.0, 15.9, 8.1, 10.8, 31.6, 3.0),
    "Mass": (10.6, 11.4, 4.3, 7.2, 59.4, 1.6),
    "Nodule": (16.9, 3.0, 0.8, 1.9, 55.7, 0.0),
    "Pneumonia": (9.2, 38.3, 19.2, 16.0, 71.6, 2.1),
    "Pneumothorax": (26.6, 14.3, 12.5, 16.0, 65.8, 1.0),
    "Total": (19.8, 19.9, 10.9, 15.6, 55.1, 5.8),
}
ROUNDING = 0.05  # percent: half of the last printed digit


def harmonic(*parts: float) -> float:
    """Return the harmonic mean of numbers above 0."""
    return len(parts) / sum(1.0 / part for part in parts)


def off_by_rounding(row: tuple[float, ...]) -> bool:
    """Return whether the printed total can be the harmonic mean of parts rounded to one decimal."""
    cls, loc, shape = row[:3]
    ends = []
    for a, b, c in product((-ROUNDING, ROUNDING), repeat=3):
        ends.append(harmonic(cls + a, loc + b, shape + c))
    return min(ends) - ROUNDING <= row[3] <= max(ends) + ROUNDING
