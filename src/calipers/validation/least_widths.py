# SPDX-License-Identifier: Apache-2.0
"""How narrow an honest interval of a gain of AP can be: a bound that no method can beat.

Pratt (J Am Stat Assoc 1961): the expected length of an interval is the integral, over all values,
of the chance that it holds the value. If the truth is t0, an interval that holds every truth t in
.95 of the cases holds t with at least the chance 1 - b(t), where b(t) is the power of the best test
of t against t0 at the level .05. So its mean width is at least the integral of 1 - b(t).

For that, models with other truths are needed. A gain is the cost of errors of one kind, and what an
error costs depends on where it ranks. So the models are: the design as it is, and with the chance q
an image has one error more of the kind, at the top of the ranking, where it costs most (`plant` of
`CohortDesign`). In a data set of n images with none of them, which has the chance (1 - q)^n, it
cannot be told from the design. The best test at level .05 rejects such data sets only, and has at
most the power .05 / (1 - q)^n. The truths t(q) are measured as all truths are. With a cost of c per
error the bound is ``c (ln 20 - .95)``, about 2.05 c: nearly the rule of three.

This is a lower bound of the bound: models whose costly errors gather in units, or that lie on the
other side of t0, would only add to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from calipers.arrays import F64
from calipers.validation.cells import NOMINAL, WIDEST, CoverageCell, Effort
from calipers.validation.designs import CohortDesign
from calipers.validation.objects import Quantity, Simulation, object_cells

# How many errors more a data set has on average; with more, the test of level .05 is certain.
EXPECTED = np.linspace(0.0, -math.log(1 - NOMINAL), 7)
STEPS = 4000  # of the integral
Plant = Literal["alarm", "duplicate", "place", "class"]
PLANTS: dict[str, Plant] = {
    "dAP/bkg": "alarm",
    "dAP/fp": "alarm",
    "dAP/dup": "duplicate",
    "dAP/loc": "place",
    "dAP/cls": "class",
}


def least_length(truths: Sequence[float]) -> float:
    """Return the least mean length of an interval at the first of some truths.

    ``truths`` are those with `EXPECTED` costly errors more; between them they rise evenly.
    """
    number = np.linspace(0.0, EXPECTED[-1], STEPS + 1)
    # A truth that was reached with fewer errors is harder to tell, and counts once.
    truth: F64 = np.maximum.accumulate(np.interp(number, EXPECTED, truths))
    chance = 1.0 - np.minimum((1 - NOMINAL) * np.exp(number), 1.0)
    return float(((chance[1:] + chance[:-1]) / 2 * np.diff(truth)).sum())


def cells_with_least_widths(
    design: CohortDesign, quantities: Sequence[Quantity], effort: Effort
) -> Iterator[CoverageCell]:
    """Yield the cells of a design; gains that are too wide say how narrow they could be."""
    yield from _bounded(object_cells(design, quantities, effort), design, effort)


def _bounded(
    cells: Iterable[CoverageCell], design: CohortDesign, effort: Effort
) -> Iterator[CoverageCell]:
    for cell in cells:
        if cell.width > WIDEST and cell.metric in PLANTS:
            length = least_length_of_gain(design, cell.metric, effort)
            least = length / cell.sampling if cell.sampling > 0 else math.inf
            yield replace(cell, least=least)
        else:
            yield cell


def least_length_of_gain(design: CohortDesign, name: str, effort: Effort) -> float:
    """Return the least mean length of an honest interval of a gain in a design; NaN if no bound is
    known.
    """
    if name not in PLANTS:
        return math.nan
    truths = []
    for number in EXPECTED.tolist():
        chance = 1.0 - math.exp(-number / design.n_images)
        planted = replace(design, planted=chance, plant=PLANTS[name])
        simulation = Simulation(planted, [name], effort.seed)
        truths.append(float(simulation.truth([Quantity("dAP", name)], effort)[0, 0]))
    return least_length(truths)
