# SPDX-License-Identifier: Apache-2.0
"""Which models are shown where there is no room for all: the leading ones, in display order."""

from __future__ import annotations

from calipers.evaluation import Evaluation
from calipers.findings import lower_is_better
from calipers.plots.forests import headline_of
from calipers.report.context import Context


def leading(page: Context, most: int) -> tuple[str, ...]:
    """Return the ``most`` models with the best first headline metric, in display order."""
    return best_models(page.evaluation, most)


def best_models(evaluation: Evaluation, most: int) -> tuple[str, ...]:
    """Return the best models by the first headline metric; models without a value come last."""
    if len(evaluation.models) <= most:
        return evaluation.models
    metric = headline_of(evaluation)[0]
    sign = 1.0 if metric in lower_is_better(evaluation.protocol) else -1.0

    def place(model: str) -> tuple[bool, float]:
        value = evaluation.get(metric, model=model).value
        return value != value, sign * value

    chosen = set(sorted(evaluation.models, key=place)[:most])
    return tuple(model for model in evaluation.models if model in chosen)
