# SPDX-License-Identifier: Apache-2.0
"""An evaluation with other names in all places: rows, groups, cohort, protocol. Numbers stay.

Used for display names (`naming`) and for hashes of ids (`redaction`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from calipers.evaluation import Evaluation
from calipers.results import Row
from calipers.results.groups import GroupedRows, GroupSummary
from calipers.tables import Cohort


class Names(Protocol):
    """Maps every name to its new one."""

    def name(self, name: str) -> str:
        """Return the new name of a class, a model or a column."""
        ...

    def image(self, name: str) -> str:
        """Return the new id of an image."""
        ...

    def value(self, column: str, value: Any) -> Any:
        """Return the new entry of a column of the images, or the new name of a group such as a
        bin.
        """
        ...


def rename_all(evaluation: Evaluation, names: Names) -> Evaluation:
    """Return the evaluation with other names."""
    protocol, cluster = evaluation.protocol, evaluation.protocol.cluster
    cluster = names.name(cluster) if isinstance(cluster, str) else tuple(map(names.name, cluster))
    evidence = {}
    for (model, key), part in evaluation.evidence.items():
        evidence[names.name(model), key] = part
    return replace(
        evaluation,
        cohort=_cohort(evaluation.cohort, names),
        protocol=replace(protocol, cluster=cluster, strata=_maybe(protocol.strata, names)),
        rows=tuple(_row(row, names) for row in evaluation.rows),
        evidence=evidence,
        groupings=tuple(_grouping(grouping, names) for grouping in evaluation.groupings),
        groups=tuple(_summary(summary, names) for summary in evaluation.groups),
    )


def _maybe(name: str | None, names: Names) -> str | None:
    return None if name is None else names.name(name)


def _row(row: Row, names: Names) -> Row:
    group = row.group and {
        names.name(name): names.value(name, value) for name, value in row.group.items()
    }
    estimate = replace(row.estimate, unit=names.name(row.estimate.unit))
    return replace(
        row,
        model=names.name(row.model),
        label=_maybe(row.label, names),
        group=group,
        estimate=estimate,
    )


def _grouping(grouping: GroupedRows, names: Names) -> GroupedRows:
    rows = tuple(_row(row, names) for row in grouping.rows)
    summaries = tuple(_summary(summary, names) for summary in grouping.summaries)
    return GroupedRows(_by(grouping.by, names), rows, summaries)


def _summary(summary: GroupSummary, names: Names) -> GroupSummary:
    label = _maybe(summary.label, names)
    return replace(summary, by=_by(summary.by, names), model=names.name(summary.model), label=label)


def _by(by: str, names: Names) -> str:
    """Return a grouping with its columns renamed: ``centre,age=40:60``."""
    parts = [entry.partition("=") for entry in by.split(",")]
    return ",".join(names.name(name) + sign + cuts for name, sign, cuts in parts)


def _cohort(cohort: Cohort, names: Names) -> Cohort:
    groups = {}
    for name, column in cohort.images.groups.items():
        values = [names.value(name, value) for value in column.tolist()]
        groups[names.name(name)] = np.array(values, object)
    facts = {_fact(name, cohort, names): column for name, column in cohort.references.facts.items()}
    ids = tuple(map(names.image, cohort.images.ids))
    return replace(
        cohort,
        references=replace(cohort.references, facts=facts),
        maps={names.name(name): maps for name, maps in cohort.maps.items()},
        classes=tuple(map(names.name, cohort.classes)),
        models={names.name(name): predictions for name, predictions in cohort.models.items()},
        images=replace(cohort.images, ids=ids, groups=groups),
    )


def _fact(fact: str, cohort: Cohort, names: Names) -> str:
    """Return the name of a fact with the new name of its model: ``softIoU/sample@tversky,0.5 of
    ours``.
    """
    for model in cohort.maps:
        if fact.endswith(f" of {model}"):
            return fact.removesuffix(model) + names.name(model)
    return fact
