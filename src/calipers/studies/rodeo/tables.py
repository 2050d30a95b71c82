# SPDX-License-Identifier: Apache-2.0
"""Tables of the study of RoDeO: closed forms and measurements, table 1 as printed, and of models.

A `RodeoRun` or a cohort comes in, tables go out, to `study.run`. The laws under which RoDeO falls
with each corruption stand first; `theory_table` puts the measured values beside them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from calipers.arrays import F64
from calipers.data.cohort import Cohort
from calipers.evaluation.evaluate import evaluate
from calipers.results.estimate import Estimate
from calipers.show.table import Amount, Cell, Kind, Table
from calipers.studies.rodeo.claims import RodeoRun
from calipers.studies.rodeo.data import PRINTED, harmonic
from calipers.studies.rodeo.experiments import MEAN_AP, protocol

TOTAL = "Total"
TENTHS: tuple[Kind, ...] = ("tenths",) * 6
COLUMNS = ("RoDeO/cls", "RoDeO/loc", "RoDeO/shape", "RoDeO", "accuracy@0.3", MEAN_AP)


def _under_noise(sigma: F64) -> F64:
    return np.asarray(1.0 / (1.0 + 2.0 * math.log(2.0) * sigma**2))


def _under_bias(bias: F64) -> F64:
    return np.asarray(2.0 ** -(bias**2))


def _under_copies(mean: F64) -> F64:
    return np.asarray(1.0 / (1.0 + mean))


def _under_misses(p: F64) -> F64:
    return np.asarray(1.0 - p)


# figure, metric, axis, corruption, expectation
LAWS: tuple[tuple[str, str, int, str, Callable[[F64], F64]], ...] = (
    ("figure-8", "RoDeO/loc", 1, "position noise", _under_noise),
    ("figure-8", "RoDeO/loc", 0, "position bias", _under_bias),
    ("figure-5", "RoDeO/shape", 0, "mean copies", _under_copies),
    ("figure-5", "RoDeO/cls", 0, "mean copies", _under_copies),
    ("figure-4", "RoDeO/shape", 0, "missed classes", _under_misses),
)


def theory_table(run: RodeoRun) -> Table:
    """Return closed forms next to the values measured with oracles."""
    rows: list[tuple[Cell, ...]] = []
    for figure, metric, along, corruption, law in LAWS:
        x, values = run.curve(figure, metric, along)
        expected = law(x)
        for k in _few(len(x)):
            difference = round(float(values[k] - expected[k]), 6)
            numbers = (float(x[k]), float(expected[k]), float(values[k]), difference)
            rows.append((metric, corruption, *numbers))
    columns = ("metric", "corruption", "strength", "theory", "measured", "difference")
    note = (
        "The closed forms hold in expectation for images with one box. If an image has several, "
        "the pairing may exchange them, which favours RoDeO/loc."
    )
    return Table(
        columns,
        tuple(rows),
        name="table-theory",
        title="Closed forms and values measured with oracles",
        notes=(note,),
    )


def _few(n: int) -> list[int]:
    return sorted({int(k) for k in np.linspace(0, n - 1, min(n, 6)).round()})


def printed_table() -> Table:
    """Return table 1 of the paper with the harmonic means of its printed parts."""
    rows = tuple((name, *row, harmonic(*row[:3])) for name, row in PRINTED.items())
    columns = ("class", *COLUMNS, "harmonic mean of the parts")
    note = (
        "Printed by the paper for a trained CheXNet, in percent; the last column is computed here "
        "from the printed parts. The total of RoDeO is pooled over all boxes, those of accuracy "
        "and mAP are class means."
    )
    return Table(
        columns,
        rows,
        name="table-1-printed",
        kinds=("name", *TENTHS, "tenths"),
        title="Table 1 as printed, and its harmonic means",
        notes=(note,),
    )


def _percent(estimate: Estimate) -> Cell:
    """Return a value in percent, with its interval if it has one."""
    if math.isnan(estimate.value):
        return None
    low, high = 100.0 * estimate.low, 100.0 * estimate.high
    return Amount(100.0 * estimate.value, low=low, high=high)


def class_estimates(
    cohort: Cohort, model: str, *, seed: int = 0, ci: bool = True, replicates: int = 1000
) -> dict[str, dict[str, Estimate]]:
    """Return class -> metric of table 1 -> estimate, for one model; the class "Total" is all."""
    one = replace(cohort, models={model: cohort.models[model]})
    plan = protocol()
    # The other metrics of the study would be resampled for nothing.
    metrics = tuple(metric for metric in plan.metrics if metric.name in COLUMNS)
    plan = replace(plan, metrics=metrics, replicates=replicates)
    evaluation = evaluate(one, plan, ci=ci, seed=seed)
    estimates = {(row.metric, row.label): row.estimate for row in evaluation.rows}
    table: dict[str, dict[str, Estimate]] = {}
    for label in (*cohort.classes, None):
        table[label or TOTAL] = {metric: estimates[metric, label] for metric in COLUMNS}
    return table


def model_table(
    cohort: Cohort,
    name: str,
    model: str,
    images: str = "of the test half",
    values: Mapping[str, Mapping[str, Estimate]] | None = None,
    *,
    against: str = "",
) -> Table:
    """Return table 1 for the predictions of one model, from its `class_estimates`.

    ``against`` names the reference, where it is a reader too.
    """
    if values is None:
        # Thousands of images by class take long; `calipers evaluate` gives their intervals.
        values = class_estimates(cohort, model, ci=False)
    counts = np.bincount(cohort.references.label, minlength=len(cohort.classes))
    rows: list[tuple[Cell, ...]] = []
    has_intervals = False
    for k, (label, own) in enumerate(values.items()):
        n = len(cohort.references) if label == TOTAL else int(counts[k])
        rows.append((label, n, *(_percent(own[metric]) for metric in COLUMNS)))
        has_intervals |= not all(math.isnan(one.low) for one in own.values())
    intervals = "95 % intervals, resampled by image."
    if not has_intervals:
        intervals = "Intervals: calipers evaluate --preset rodeo."
    note = (
        f"In percent, on the {cohort.n_images} images {images}; equal scores are one "
        f"operating point. {intervals}"
    )
    title = f"As table 1, for {model}"
    return Table(
        ("class", "boxes", *COLUMNS),
        tuple(rows),
        name=name,
        kinds=("name", "count", *TENTHS),
        title=f"{title}, with {against} as the reference" if against else title,
        notes=(note,),
    )
