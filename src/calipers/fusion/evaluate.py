# SPDX-License-Identifier: Apache-2.0
"""Is the ensemble better than its members, and what does each of them add?

`evaluate_fusion` takes a cohort with the members and a recipe. It carries out the recipe with all
members and with each of them left out, evaluates members and ensembles on the same images, and
compares the full ensemble with all others. All differences are paired, and their tests are
corrected together. The contribution of a member is the difference between the ensemble with it and
the one without it: it can be negative, and the contributions do not add up to anything.

``calipers fuse --evaluate`` is the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from calipers.data.cohort import Cohort
from calipers.errors import UsageError
from calipers.evaluation.compare import chosen_metrics
from calipers.evaluation.evaluate import evaluate
from calipers.evaluation.protocol import Protocol
from calipers.evaluation.result import Evaluation
from calipers.evaluation.warnings import interval_warnings
from calipers.fusion.fuse import Fusion, carry_out
from calipers.fusion.result import FusionEvaluation
from calipers.results.comparison import Comparison
from calipers.results.estimate import Row


def evaluate_fusion(
    cohort: Cohort,
    fusion: Fusion,
    protocol: Protocol,
    *,
    name: str,
    metrics: Sequence[str] | None = None,
    seed: int | None = None,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> FusionEvaluation:
    """Return members and ensemble with intervals, their differences, and what each member adds.

    Parameters
    ----------
    fusion
        The ensemble of all members, as `carry_out` gave it.
    name
        Name of the ensemble.
    metrics
        Names of metrics of the protocol; its headline if left out.
    """
    members = [member.model for member in fusion.members]
    models = {member: cohort.predictions(member) for member in members}
    models[name] = fusion.predictions
    without = _names_without(members, [*members, name])
    for member, title in without.items():
        others = [other for other in members if other != member]
        models[title] = carry_out(cohort, fusion.recipe, others).predictions
    # Only what is compared: other models of the cohort would join the family of tests.
    compared = replace(cohort, models=models, maps={})
    names = chosen_metrics(protocol, metrics)
    evaluation = evaluate(compared, protocol.only(names), seed=seed, jobs=jobs, progress=progress)
    comparison = evaluation.compare(name, metrics=names, jobs=jobs, progress=progress)
    rows = []
    for row in evaluation.rows:
        is_pooled = row.label is None and row.group is None
        if is_pooled and row.model not in without.values():
            rows.append(row)
    return FusionEvaluation(
        ensemble=name,
        protocol=protocol.name,
        rows=tuple(rows),
        differences=comparison,
        without=without,
        warnings=told_warnings(evaluation, comparison, rows),
        evaluation=evaluation,
    )


def told_warnings(
    evaluation: Evaluation, comparison: Comparison, rows: Sequence[Row]
) -> tuple[str, ...]:
    """Return what must be known about the rows that are shown, and about their models; further
    models and rows only serve as a comparison.
    """
    models = {row.model for row in rows}
    others = tuple(f"{model}:" for model in evaluation.models if model not in models)
    # Numbers of rows would be those of rows that nobody sees.
    of_all_rows = set(interval_warnings(evaluation.rows, ci=True))
    warnings = []
    for warning in (*evaluation.warnings, *comparison.warnings):
        if warning not in of_all_rows and not warning.startswith(others):
            warnings.append(warning)
    return tuple(dict.fromkeys((*warnings, *interval_warnings(rows, ci=True))))


def _names_without(members: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return member -> the name of the ensemble without it; a single member leaves none."""
    if len(members) < 2:
        return {}
    without = {member: f"without {member}" for member in members}
    for title in without.values():
        if title in names:
            raise UsageError(f"a model is called {title!r}: give it another name")
    return without
