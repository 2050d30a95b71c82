# SPDX-License-Identifier: Apache-2.0
"""The order of models: which come first where there is no room for all."""

from __future__ import annotations

from calipers.evaluation import Evaluation
from calipers.findings import lower_is_better
from calipers.plots.forests import headline_of


def by_value(evaluation: Evaluation) -> tuple[str, ...]:
    """Return the models from best to worst by the first headline metric; models without a value
    come last.
    """
    metric = headline_of(evaluation)[0]
    sign = 1.0 if metric in lower_is_better(evaluation.protocol) else -1.0

    def place(model: str) -> tuple[bool, float]:
        value = evaluation.get(metric, model=model).value
        if value != value:  # NaN
            return True, 0.0
        return False, sign * value

    return tuple(sorted(evaluation.models, key=place))


def leading(evaluation: Evaluation, most: int) -> tuple[str, ...]:
    """Return the ``most`` best models, in display order."""
    best_models = set(by_value(evaluation)[:most])
    return tuple(model for model in evaluation.models if model in best_models)
