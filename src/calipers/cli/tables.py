# SPDX-License-Identifier: Apache-2.0
"""Estimates as a table in the terminal."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from calipers.cli.messages import one_line
from calipers.evaluation import Evaluation
from calipers.results import Estimate

MOST_CLASSES = 12
UNLIMITED = 400


def print_evaluation(evaluation: Evaluation) -> None:
    """Print the pooled estimates of all models and, for few classes, the first headline metric per class."""
    # A file or a pipe has no width: never cut a name there.
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else UNLIMITED)
    console.print(_metrics(evaluation))
    shown = [metric for metric in evaluation.protocol.headline if metric in evaluation.metrics_per_class]
    if 1 < len(evaluation.cohort.classes) <= MOST_CLASSES and shown:
        console.print(_classes(evaluation, shown[0]))


def _metrics(evaluation: Evaluation) -> Table:
    table = _table("metric", evaluation.models, ("images", "references"))
    for metric in evaluation.metrics:
        estimates = [evaluation.get(metric, model=model) for model in evaluation.models]
        numbers = (str(estimates[0].n_images), str(estimates[0].n_references))
        table.add_row(metric, *map(_cell, estimates), *numbers)
    return table


def _classes(evaluation: Evaluation, metric: str) -> Table:
    table = _table(f"{metric} of", evaluation.models, ("references",))
    for label in evaluation.cohort.classes:
        estimates = [evaluation.get(metric, model=model, label=label) for model in evaluation.models]
        table.add_row(_name(label), *map(_cell, estimates), str(estimates[0].n_references))
    return table


def _table(first: str, models: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, no_wrap=True)
    for model in models:
        table.add_column(_name(model), justify="right", overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", style="dim", overflow="fold")
    return table


def _cell(estimate: Estimate) -> str:
    if math.isnan(estimate.value):
        return str(estimate.reason).replace("_", " ")
    value = f"{estimate.value:.3f}" if abs(estimate.value) < 100 else f"{estimate.value:.0f}"
    if math.isnan(estimate.low):
        return value
    mark = "*" if estimate.flags else ""
    return f"{value} [{estimate.low:.3f}, {estimate.high:.3f}]{mark}".replace("[", r"\[")


def _name(text: str) -> str:
    return escape(one_line(text if len(text) <= 40 else text[:37] + "..."))
