# SPDX-License-Identifier: Apache-2.0
"""A fusion in sentences: what was tested, what that showed, and what it did not show.

A `FusionDocument` comes in; the page and ``calipers fuse`` show the sentences. A model is called
better or worse only where a test, corrected together with all others, says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from calipers.fusion.result import FusionDocument, FusionEvaluation, FusionTuning
from calipers.results.comparison import Difference
from calipers.results.estimate import Estimate
from calipers.show.words import (
    count_text,
    interval_in_words,
    interval_text,
    join,
    number_text,
    reason_text,
    short_name,
)

METHOD = (
    "Members and ensembles were evaluated on the same images. Differences are paired: every "
    "bootstrap replicate draws the same images for all models. The contribution of a member is the "
    "ensemble minus the ensemble without it. All tests, of members and of contributions, are "
    "corrected together."
)
NOT_EVALUATED = "Whether the ensemble is better than its members was not evaluated."
TUNING_METHOD = (
    "The parameters were chosen on the tuning split: each in turn takes the best value of its "
    "range, starting from the values of the recipe, until a round changes nothing. The same search "
    "was repeated with every fold left out, and the resulting recipe was applied to that fold. All "
    "folds together give the held-out value; calibration was fitted within the search."
)


def sentences(result: FusionDocument) -> list[str]:
    """Return the answer, then what else there is to know."""
    lines = []
    if result.evaluation is None:
        lines.append(NOT_EVALUATED)
    else:
        lines += _of_evaluation(result.evaluation, on_new_images=result.tuning is not None)
    if result.tuning is not None:
        lines.append(_of_tuning(result.tuning))
    lines.append(_boxes(result))
    return lines


def _boxes(result: FusionDocument) -> str:
    counts = result.fusion.counts
    return (
        f"{counts[0].boxes:,} boxes of {count_text('member', len(result.fusion.members))} became "
        f"{counts[-1].boxes:,}."
    )


def _of_evaluation(evaluation: FusionEvaluation, *, on_new_images: bool) -> list[str]:
    lines = []
    name = short_name(evaluation.ensemble)
    for metric in evaluation.metrics:
        row = next(
            row
            for row in evaluation.rows
            if (row.model, row.metric) == (evaluation.ensemble, metric)
        )
        members = {d.model_b: d for d in evaluation.members if d.metric == metric}
        where = " on images that the tuning has not seen" if on_new_images else ""
        unit = evaluation.evaluation.protocol.units.get(metric, "")
        value = _value_text(row.estimate, unit)
        lines.append(f"{metric} of {name} is {value}{where}; {_verdicts(members)}.")
        if evaluation.without:
            each = {member: evaluation.contribution(member, metric) for member in members}
            lines.append(_contributions(metric, each))
    return lines


def _value_text(estimate: Estimate, unit: str) -> str:
    """Return a value with its unit and interval; marks belong to tables, which explain them."""
    if math.isnan(estimate.value):
        return reason_text(estimate.reason)
    interval = interval_text(estimate.low, estimate.high)
    return " ".join(filter(None, (number_text(estimate.value), unit, interval)))


def _verdicts(rows: Mapping[str, Difference]) -> str:
    """Return whom the ensemble is shown to differ from, and for whom nothing is shown."""
    better, worse, open_names = _sorted_out(rows)
    clauses = []
    if better:
        clauses.append(f"it is shown to be better than {better}")
    if worse:
        clauses.append(f"it is shown to be worse than {worse}")
    if open_names:
        clauses.append(f"no difference from {open_names} is shown")
    return "; ".join(clauses)


def _contributions(metric: str, rows: Mapping[str, Difference]) -> str:
    better, worse, open_names = _sorted_out(rows)
    clauses = []
    if better:
        clauses.append(f"the ensemble is shown to be worse without {better}")
    if worse:
        clauses.append(f"it is shown to be better without {worse}")
    if open_names:
        clauses.append(f"no contribution of {open_names} is shown")
    text = "; ".join(clauses)
    return f"With one member left out at a time, in {metric}: {text}."


def _sorted_out(rows: Mapping[str, Difference]) -> tuple[str, str, str]:
    names: dict[str, list[str]] = {"a_better": [], "b_better": [], "": []}
    for name, row in rows.items():
        verdict = row.verdict if row.verdict in names else ""
        names[verdict].append(short_name(name))
    return _listed(names["a_better"]), _listed(names["b_better"]), _listed(names[""])


def _listed(names: Sequence[str]) -> str:
    return join(list(names)) if names else ""


def _ends(low: float, high: float) -> str:
    return f"{number_text(low)} to {number_text(high)}"


def _of_tuning(tuning: FusionTuning) -> str:
    held_out, start = tuning.held_out, tuning.as_given
    verdicts = {
        "a_better": "tuning is shown to help",
        "b_better": "tuning is shown to harm",
    }
    verdict = verdicts.get(tuning.gain.verdict, "tuning is not shown to help")
    return (
        f"On held-out folds of the tuning split, {tuning.metric} of the tuned recipe is "
        f"{number_text(held_out.value)} ({interval_in_words(held_out, _ends)}), of the "
        f"recipe as given {number_text(start.value)}: {verdict}. On the images that chose the "
        f"parameters it is {number_text(tuning.optimistic.value)}, which is optimistic."
    )
