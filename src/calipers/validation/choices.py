# SPDX-License-Identifier: Apache-2.0
"""How the rule for means over classes was chosen: candidates, compared on data sets of their own.

Each candidate makes an interval of the mean of AP over classes from the same replicates:

``plain``
    the t interval with the bootstrap's standard error, which takes no notice of rare classes;
``binomial``
    every class has at least the variance of a share of its references, at its value drawn towards
    the mean over classes;
``units and binomial``
    besides, the variance of a class that m units have grows by ``m / (m - 1)``: the rule that
    `statistics.estimates.ClassSample` follows;
``populated``
    the mean over the classes that at least 5 units have, with the degrees of freedom of the rarest
    of them. Its truth is the mean over these classes.

``python -m calipers.validation.choices`` prints the comparison; seeds and designs are not those of
`calipers.validation.experiments`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calipers.arrays import F64, I64
from calipers.statistics.estimates import PRIOR_REFERENCES, Certainty, replicates
from calipers.statistics.few_errors import special
from calipers.statistics.intervals import MetricScale
from calipers.statistics.spread import variances
from calipers.statistics.support import FEWEST_UNITS
from calipers.statistics.weights import Units
from calipers.validation.cells import CoverageCell, Effort, Tally
from calipers.validation.designs import CohortDesign
from calipers.validation.experiments import power_law
from calipers.validation.objects import Quantity, Simulation

EFFORT = Effort(simulations=200, seed=5_000)
METRIC = "AP@0.5"


def _design(name: str, units: int, images: int, classes: tuple[float, ...]) -> CohortDesign:
    return CohortDesign(name, units, images, classes, sensitivity=0.7, alarms=0.6, separation=1.5)


DESIGNS = (
    _design("30 x 4, 8 classes", 30, 4, power_law(8, 0.6, 1.0)),
    _design("30 x 4, 8 classes, 3 rare", 30, 4, power_law(8, 0.6, 1.5)),
    _design("80 x 2, 14 classes, 5 rare", 80, 2, power_law(14, 0.5, 1.3)),
    _design("150 x 2, 14 classes, 5 rare", 150, 2, power_law(14, 0.5, 1.6)),
    _design("20 x 6, 5 classes", 20, 6, (0.5, 0.4, 0.3, 0.2, 0.1)),
    _design("60 x 1, 6 classes, 2 rare", 60, 1, power_law(6, 0.5, 1.2)),
    _design("300 x 1, 20 classes, 11 rare", 300, 1, power_law(20, 0.8, 1.8)),
    _design("40 x 3, 10 classes, 4 rare", 40, 3, (0.05,) * 10),
)


@dataclass(frozen=True)
class ClassEvidence:
    """What a candidate sees of one data set: classes with a value."""

    n_units: int  # of the data set
    mean: float
    error: float  # standard error of the mean, by the bootstrap
    value: F64
    variance: F64  # of the replicates of every class
    units: I64  # that have the class
    references: I64
    populated_error: float


def compare(design: CohortDesign, effort: Effort = EFFORT) -> list[CoverageCell]:
    """Return a cell per candidate."""
    simulation = Simulation(design, [METRIC], effort.seed)
    n_classes = len(design.prevalence)
    quantities = [Quantity("choice", METRIC, row) for row in range(n_classes + 1)]
    truth = simulation.truth(quantities, effort)[0]
    code = np.repeat(np.arange(design.units), design.images)
    units = Units.of(design.unit, code, design.n_images)
    tallies: dict[str, Tally] = {}
    for number, (tables,) in enumerate(simulation.data_sets(effort.simulations)):
        case = (simulation.metrics[0], tables[0])
        certainty = Certainty(replicates=effort.replicates, seed=number)
        sample = replicates([case], units, certainty)[0][:, :, 0]
        evidence, rows = _evidence(case, sample, units)
        common = rows[evidence.units >= FEWEST_UNITS]
        for name, centre, half in _candidates(evidence):
            is_part = name == "populated"
            target = truth[common].mean() if is_part else truth[0]
            (low,), (high,) = MetricScale(0.0, 1.0).around(np.array([centre]), np.array([half]))
            # The truth of a part differs from data set to data set: shifted to that of the first.
            tally = tallies.setdefault(name, Tally(float(target)))
            shift = tally.truth - target
            tally.add(centre + shift, low + shift, high + shift)
    cells = []
    for name, tally in tallies.items():
        cells.append(tally.cell(name, METRIC, f"{design.name}, {design.generator}", units))
    return cells


def _evidence(case: tuple[Any, Any], sample: F64, units: Units) -> tuple[ClassEvidence, I64]:
    metric, table = case
    once = np.ones((1, table.n_images), np.int64)
    value = metric.value(table, once)[0, :, 0]
    rows = np.flatnonzero(~np.isnan(value[1:])) + 1
    of_units = metric.support(table, units.code, units.number)[rows, 0, 0]
    common = rows[of_units >= FEWEST_UNITS]
    populated = np.nanmean(sample[:, common], axis=1) if len(common) else sample[:, 0]
    factor = units.number / (units.number - 1)
    evidence = ClassEvidence(
        n_units=units.number,
        mean=float(value[0]),
        error=float(np.sqrt(factor * variances(sample[:, :1])[0])),
        value=value[rows],
        variance=np.nan_to_num(variances(sample[:, rows])) * factor,
        units=np.maximum(of_units, 1),
        references=np.maximum(metric.counts(table, once[0])[rows, 0, 1], 1),
        populated_error=float(np.sqrt(factor * np.nanvar(populated, ddof=1))),
    )
    return evidence, rows


def _candidates(e: ClassEvidence) -> Iterator[tuple[str, float, float]]:
    """Yield name, centre and half width (before the scale of shares) of every candidate."""

    def t(freedom: int) -> float:
        return float(special().stdtrit(max(freedom, 1), 0.975))

    yield "plain", e.mean, t(e.n_units - 1) * e.error
    pooled = e.references + PRIOR_REFERENCES
    share = (e.references * e.value + PRIOR_REFERENCES * e.mean) / pooled
    binomial = share * (1 - share) / e.references
    for name, least in (
        ("binomial", e.variance),
        ("units and binomial", e.variance * e.units / np.maximum(e.units - 1, 1)),
    ):
        hidden = np.maximum(np.maximum(least, binomial) - e.variance, 0.0).sum() / len(e.value) ** 2
        yield name, e.mean, t(e.n_units - 1) * float(np.sqrt(e.error**2 + hidden))
    common = e.units >= FEWEST_UNITS
    if common.any():
        rarest = int(e.units[common].min())
        yield "populated", float(e.value[common].mean()), t(rarest - 1) * e.populated_error


if __name__ == "__main__":
    for one in DESIGNS:
        for cell in (*compare(one), *compare(replace(one, generator="latent"))):
            sys.stdout.write(f"{cell}\n")
