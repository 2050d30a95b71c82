# SPDX-License-Identifier: Apache-2.0
"""Names that can be borne and told apart: a page repeats each of them hundreds of times, and nobody reads a megabyte.

Names that show nothing, and names that look the same though they differ in signs that nobody sees, get a mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from unicodedata import normalize

import numpy as np

from calipers.evaluation import Evaluation
from calipers.results import Row
from calipers.results.groups import GroupSummary
from calipers.tables import Cohort

LONGEST = 200
KEPT = 120
UNSEEN = "\ufffd"
INVISIBLE = {*map(chr, range(0xFE00, 0xFE10)), "\u115f", "\u1160", "\u3164", "\uffa0", "\u2800"}  # drawn as nothing


def bearable(evaluation: Evaluation) -> Evaluation:
    """Return the evaluation with names of more than 200 characters shortened, and those that look alike marked."""
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
    """What every name becomes; names that are short enough, and look like no other, stay."""

    def __init__(self, names: Iterable[str]) -> None:
        alike: dict[str, list[str]] = {}
        for name in dict.fromkeys(names):
            alike.setdefault(_look(name), []).append(name)
        self.changed: Mapping[str, str] = {
            name: changed
            for look, found in alike.items()
            for name in found
            if (changed := _changed(name, look, several=len(found) > 1)) != name
        }

    def __call__(self, name: str) -> str:
        """Return a name as it is shown."""
        return self.changed.get(name, name)


def _look(name: str) -> str:
    """Return what is seen of a name: unprintable signs as one and the same, spaces as a browser draws them."""
    if name.isprintable() and name.isascii():
        return " ".join(name.split())
    plain = "".join(c if c.isprintable() else UNSEEN for c in normalize("NFC", name) if c not in INVISIBLE)
    return " ".join(plain.split())


def _changed(name: str, look: str, *, several: bool) -> str:
    if len(name) > LONGEST:
        return _shortened(name)
    if not name or not look:
        return f"(no name, {_mark(name)})" if name else "(no name)"
    return f"{name} ({_mark(name)})" if several and name != look else name


def _shortened(name: str) -> str:
    """Return the beginning, the length, and a few digits that tell it from others with the same beginning."""
    return f"{name[:KEPT]}… ({len(name)} characters, {_mark(name)})"


def _mark(name: str) -> str:
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]


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
