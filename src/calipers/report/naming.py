# SPDX-License-Identifier: Apache-2.0
"""Names of a bearable length: a page repeats each of them hundreds of times, and nobody reads a megabyte."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256

import numpy as np

from calipers.evaluation import Evaluation
from calipers.results import Row
from calipers.results.groups import GroupSummary
from calipers.tables import Cohort

LONGEST = 200
KEPT = 120


def bearable(evaluation: Evaluation) -> Evaluation:
    """Return the evaluation with names of more than 200 characters shortened, each to another one."""
    cohort = evaluation.cohort
    columns = {name: {str(value) for value in column.tolist()} for name, column in cohort.images.groups.items()}
    values = set().union(*columns.values()) if columns else set()
    names = Short([*cohort.classes, *cohort.models, *cohort.images.ids, *columns, *values])
    if not names.changed:
        return evaluation
    groupings = tuple(
        replace(
            grouping,
            by=_by(grouping.by, names),
            rows=tuple(_row(row, names) for row in grouping.rows),
            summaries=tuple(_summary(summary, names) for summary in grouping.summaries),
        )
        for grouping in evaluation.groupings
    )
    protocol = evaluation.protocol
    cluster = protocol.cluster
    return replace(
        evaluation,
        cohort=_cohort(cohort, names),
        protocol=replace(
            protocol,
            cluster=names(cluster) if isinstance(cluster, str) else tuple(names(name) for name in cluster),
            strata=None if protocol.strata is None else names(protocol.strata),
        ),
        rows=tuple(_row(row, names) for row in evaluation.rows),
        evidence={(names(model), key): found for (model, key), found in evaluation.evidence.items()},
        groupings=groupings,
        groups=tuple(_summary(summary, names) for summary in evaluation.groups),
    )


class Short:
    """What every name becomes; names that are short enough stay."""

    def __init__(self, names: Iterable[str]) -> None:
        self.changed: Mapping[str, str] = {name: _shortened(name) for name in names if len(name) > LONGEST}

    def __call__(self, name: str) -> str:
        """Return a name as it is shown."""
        return self.changed.get(name, name)


def _shortened(name: str) -> str:
    """Return the beginning, the length, and a few digits that tell it from others with the same beginning."""
    mark = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{name[:KEPT]}… ({len(name)} characters, {mark})"


def _maybe(name: str | None, names: Short) -> str | None:
    return None if name is None else names(name)


def _row(row: Row, names: Short) -> Row:
    group = None if row.group is None else {names(name): names(value) for name, value in row.group.items()}
    estimate = replace(row.estimate, unit=names(row.estimate.unit))
    return replace(row, model=names(row.model), label=_maybe(row.label, names), group=group, estimate=estimate)


def _summary(summary: GroupSummary, names: Short) -> GroupSummary:
    label = _maybe(summary.label, names)
    return replace(summary, by=_by(summary.by, names), model=names(summary.model), label=label)


def _by(by: str, names: Short) -> str:
    """Return a grouping with the names of its columns shortened: ``centre,age=40:60``."""
    parts = [entry.partition("=") for entry in by.split(",")]
    return ",".join(names(name) + sign + cuts for name, sign, cuts in parts)


def _cohort(cohort: Cohort, names: Short) -> Cohort:
    groups = {
        names(name): np.array([names(value) if isinstance(value, str) else value for value in column.tolist()], object)
        for name, column in cohort.images.groups.items()
    }
    return replace(
        cohort,
        classes=tuple(map(names, cohort.classes)),
        models={names(name): predictions for name, predictions in cohort.models.items()},
        images=replace(cohort.images, ids=tuple(map(names, cohort.images.ids)), groups=groups),
    )
