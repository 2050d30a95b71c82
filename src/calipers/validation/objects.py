# SPDX-License-Identifier: Apache-2.0
"""Coverage of the intervals of object metrics on simulated data sets, and of their differences.

`object_cells` takes a design, computes the estimates of many data sets of it as an evaluation does
(`statistics.estimates`), and counts how often the interval holds the truth, which is the value of a
data set so large that it hardly varies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from calipers.arrays import F64, I64
from calipers.evaluation.protocol import Protocol
from calipers.metrics.base import Metric
from calipers.statistics.comparison import (
    DifferenceTests,
    Evidences,
    bootstrapped,
    judge,
    left_out,
    step_down,
)
from calipers.statistics.estimates import Certainty, estimates
from calipers.statistics.weights import Units
from calipers.validation.cells import NOMINAL, CoverageCell, Effort, Tally
from calipers.validation.designs import MODELS, CohortDesign, cohort_of

PROTOCOL = """
schema = "calipers.protocol/1"
name = "validation"
source = "Calipers: metrics whose intervals are measured"

[matching]
criterion = "box-iou"
assignment = "by-score"
thresholds = 0.5
max_dets = 100
ties = "block"

[[metric]]
name = "AP"
kind = "average-precision"
thresholds = { from = 0.5, to = 0.95, step = 0.05 }
[[metric]]
name = "AP@0.5"
kind = "average-precision"
[[metric]]
name = "area"
kind = "average-precision"
thresholds = { from = 0.5, to = 0.95, step = 0.05 }
interpolation = "every-point"
[[metric]]
name = "area@0.5"
kind = "average-precision"
interpolation = "every-point"
[[metric]]
name = "sensitivity"
kind = "sensitivity"
[[metric]]
name = "FROC"
kind = "froc"
rates = [0.125, 0.25, 0.5, 1, 2, 4, 8]
[[metric]]
name = "PPV"
kind = "ppv"
[[metric]]
name = "F1"
kind = "f-beta"
[[metric]]
name = "FP/image"
kind = "false-alarms"
[[metric]]
name = "RoDeO"
kind = "rodeo"
part = "total"
[[metric]]
name = "dAP/cls"
kind = "error-types"
[[metric]]
name = "dAP/loc"
kind = "error-types"
[[metric]]
name = "dAP/dup"
kind = "error-types"
[[metric]]
name = "dAP/bkg"
kind = "error-types"
[[metric]]
name = "dAP/miss"
kind = "error-types"
[[metric]]
name = "dAP/fp"
kind = "error-types"
[[metric]]
name = "dAP/fn"
kind = "error-types"
"""
TOGETHER = 50  # data sets that are simulated at once
FEWER_MODELS = 5  # of a design with more


@dataclass(frozen=True)
class Quantity:
    """A number that is looked at: a metric, and a class of it or all together."""

    family: str
    metric: str
    row: int = 0  # 0 pooled, then the classes


class Simulation:
    """Data sets of a design, as evidence of some metrics."""

    def __init__(self, design: CohortDesign, names: Sequence[str], seed: int) -> None:
        self.design, self.seed = design, seed
        protocol = Protocol.from_toml(PROTOCOL).only(list(dict.fromkeys(names)))
        self.metrics: list[Metric[Any]] = protocol.compile()
        self.place = {}
        for m, metric in enumerate(self.metrics):
            for k, name in enumerate(metric.facts.names):
                self.place[name] = (m, k)

    def data_sets(self, number: int, models: Sequence[str] = MODELS[:1]) -> Iterator[list[Any]]:
        """Yield the evidence of data sets: a list of evidences of the metrics per model."""
        n = self.design.n_images
        for first in range(0, number, TOGETHER):
            cohort = cohort_of(self.design, min(TOGETHER, number - first), self.seed + first)
            tables = [self.evidence(cohort, model) for model in models]
            for k in range(min(TOGETHER, number - first)):
                rows = np.arange(k * n, (k + 1) * n)
                data_set = []
                for of_model in tables:
                    data_set.append([table.take(rows) for table in of_model])
                yield data_set

    def evidence(self, cohort: Any, model: str) -> list[Any]:
        """Return the evidence of all metrics; those of one recipe share it."""
        merged: dict[Any, Any] = {}
        for metric in self.metrics:
            key = metric.recipe.key
            recipe = metric.recipe
            merged[key] = merged[key].merge(recipe) if key in merged else recipe
        collected = {key: recipe.collect(cohort, model) for key, recipe in merged.items()}
        return [collected[metric.recipe.key] for metric in self.metrics]

    def values(self, evidence: Sequence[Any], quantities: Sequence[Quantity]) -> F64:
        """Return the values of some quantities."""
        weights = np.ones((1, evidence[0].n_images), np.int64)
        tables = [m.value(e, weights)[0] for m, e in zip(self.metrics, evidence)]
        values = []
        for quantity in quantities:
            m, k = self.place[quantity.metric]
            values.append(tables[m][quantity.row, k])
        return np.array(values, np.float64)

    def moves_in_steps(self, name: str) -> bool:
        """Return whether the values of a number move in steps."""
        return name in self.metrics[self.place[name][0]].facts.rough

    def truth(self, quantities: Sequence[Quantity], effort: Effort) -> F64:
        """Return (models, quantities): the values of one very large data set."""
        cohort = cohort_of(self.design, effort.large(self.design.n_images), self.seed + 10**6)
        return np.array([self.values(self.evidence(cohort, model), quantities) for model in MODELS])


def object_cells(
    design: CohortDesign, quantities: Sequence[Quantity], effort: Effort, *, unit: str = ""
) -> list[CoverageCell]:
    """Return the cells of a design: coverage and width of the intervals of some quantities.

    ``unit = "image"`` resamples images, which is wrong where images of a unit are alike.
    """
    simulation = Simulation(design, [q.metric for q in quantities], effort.seed)
    code = np.repeat(np.arange(design.units), design.images)
    units = Units.of("image", None, design.n_images)
    if unit != "image":
        units = Units.of(design.unit, code, design.n_images)
    truth = simulation.truth(quantities, effort)[0]
    tallies = [Tally(value) for value in truth.tolist()]
    for number, (evidence,) in enumerate(simulation.data_sets(effort.simulations + effort.extra)):
        if number >= effort.simulations:
            for tally, value in zip(tallies, simulation.values(evidence, quantities).tolist()):
                tally.add_value(value)
            continue
        certainty = Certainty(replicates=effort.replicates, seed=number)
        tables = estimates(list(zip(simulation.metrics, evidence)), units, certainty)
        for tally, quantity in zip(tallies, quantities):
            m, k = simulation.place[quantity.metric]
            estimate = tables[m][quantity.row][k]
            tally.add(estimate.value, estimate.low, estimate.high)
    cells = []
    for tally, quantity in zip(tallies, quantities):
        # Where no mistake of a kind ever occurs, there is nothing to estimate.
        if not any(tally.values) and not tally.truth:
            continue
        name = quantity.metric if quantity.row == 0 else f"{quantity.metric}, one class"
        cells.append(tally.cell(quantity.family, name, design.name, units))
    return cells


def difference_cells(
    design: CohortDesign, names: Sequence[str], effort: Effort
) -> list[CoverageCell]:
    """Return the cells of the differences of two models on the same data sets."""
    quantities = [Quantity("differences", name) for name in names]
    simulation = Simulation(design, names, effort.seed)
    code = np.repeat(np.arange(design.units), design.images)
    units = Units.of(design.unit, code, design.n_images)
    truth = simulation.truth(quantities, effort)
    tallies = [Tally(float(value)) for value in truth[0] - truth[1]]
    in_steps = np.array([simulation.moves_in_steps(name) for name in names])
    total = effort.simulations + effort.extra
    for number, models in enumerate(simulation.data_sets(total, MODELS)):
        values = [simulation.values(evidence, quantities) for evidence in models]
        differences = values[0] - values[1]
        if number >= effort.simulations:
            for tally, value in zip(tallies, differences.tolist()):
                tally.add_value(value)
            continue
        replicates, without = _replicates(simulation, models, quantities, units, (effort, number))
        tests = judge(
            differences,
            replicates,
            None,
            units,
            NOMINAL,
            seed=number,
            left_out=without,
            in_steps=in_steps,
        )
        for tally, value, interval in zip(tallies, differences.tolist(), tests.intervals):
            tally.add(value, interval.low, interval.high)
    cells = []
    for tally, quantity in zip(tallies, quantities):
        cells.append(tally.cell("differences", quantity.metric, design.name, units))
    return cells


def _tables(simulation: Simulation, models: Sequence[Sequence[Any]]) -> list[Evidences]:
    """Return the evidence of every model, by recipe."""
    tables: list[Evidences] = []
    for evidence in models:
        tables.append({m.recipe.key: e for m, e in zip(simulation.metrics, evidence)})
    return tables


def _replicates(
    simulation: Simulation,
    models: Sequence[Sequence[Any]],
    quantities: Sequence[Quantity],
    units: Units,
    draw: tuple[Effort, int],
) -> tuple[F64, F64 | None]:
    """Return (B, quantities): replicates of the differences; and those without one unit each."""
    effort, seed = draw
    tables = _tables(simulation, models)
    values = bootstrapped(simulation.metrics, tables, units, effort.replicates, seed)
    without = left_out(simulation.metrics, tables, units)

    def differences(sides: list[list[F64]]) -> F64:
        columns = []
        for quantity in quantities:
            m, k = simulation.place[quantity.metric]
            columns.append(sides[0][m][:, 0, k] - sides[1][m][:, 0, k])
        return np.stack(columns, axis=1)

    return differences(values), None if without is None else differences(without)


def equal_model_cells(
    design: CohortDesign, names: Sequence[str], effort: Effort
) -> list[CoverageCell]:
    """Return the cells of all pairs of equal models: how often none is called better.

    The coverage is that share of the data sets, for the first five of the models and for all.
    """
    quantities = [Quantity("equal models", name) for name in names]
    simulation = Simulation(design, names, effort.seed)
    code = np.repeat(np.arange(design.units), design.images)
    units = Units.of(design.unit, code, design.n_images)
    sizes = (FEWER_MODELS, design.models)
    silent = np.zeros((len(names), len(sizes)))
    for seed, models in enumerate(simulation.data_sets(effort.simulations, design.model_names)):
        tables = _tables(simulation, models)
        values = np.array([simulation.values(evidence, quantities) for evidence in models])
        resampled = bootstrapped(simulation.metrics, tables, units, effort.replicates, seed)
        without = left_out(simulation.metrics, tables, units)
        for (q, name), (s, size) in product(enumerate(names), enumerate(sizes)):
            place = simulation.place[name]
            i, j = np.triu_indices(size, k=1)
            d = values[i, q] - values[j, q]
            beside = None if without is None else _of_pairs(without, place, (i, j))
            in_steps = np.full(len(d), simulation.moves_in_steps(name))
            replicates = _of_pairs(resampled, place, (i, j))
            tests = judge(
                d,
                replicates,
                None,
                units,
                NOMINAL,
                seed=seed,
                left_out=beside,
                in_steps=in_steps,
            )
            p = _adjusted(tests, replicates, units)
            silent[q, s] += not bool((p < 1.0 - NOMINAL).any())
    cells = []
    for (q, name), (s, size) in product(enumerate(names), enumerate(sizes)):
        cells.append(
            CoverageCell(
                family="equal models",
                metric=f"{name}, {size} models",
                design=design.name,
                unit=units.name,
                n_units=units.number,
                truth=0.0,
                simulations=effort.simulations,
                stated=1.0,
                coverage=float(silent[q, s]) / effort.simulations,
                width=math.nan,
                without=0.0,
            )
        )
    return cells


def _of_pairs(values: list[list[F64]], place: tuple[int, int], pairs: tuple[I64, I64]) -> F64:
    """Return (R, pairs): differences of a number, of values per model and metric."""
    m, k = place
    of_models = np.stack([of_model[m][:, 0, k] for of_model in values], axis=1)
    return np.asarray(of_models[:, pairs[0]] - of_models[:, pairs[1]])


def _adjusted(tests: DifferenceTests, replicates: F64, units: Units) -> F64:
    """Return p values of all pairs as a comparison adjusts them."""
    return step_down(
        tests.p,
        tests.steps,
        lambda k: replicates[:, k],
        units.freedom,
        effective=tests.freedom,
    )
