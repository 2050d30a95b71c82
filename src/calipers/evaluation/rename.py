# SPDX-License-Identifier: Apache-2.0
"""An evaluation with other names in all places: rows, groups, cohort, protocol. Numbers stay.

`rename_all` does it for any `Names`, and `report.context` calls its two uses:

- `with_display_names`: a page repeats each name hundreds of times, so very long ones are shortened;
  empty names, and names that look the same although they differ in invisible characters, get a mark
  that tells them apart (`show.words.Short`).
- `redact_ids`: a page that can leave the hospital has keyed hashes in place of ids and file names.
  The key is drawn anew for every page and is not stored: a plain hash of ``P001`` could be found by
  trying all numbers. Names of classes and models stay; notes on input files are left out, because
  they may name patients.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Protocol

import numpy as np

from calipers.data.cohort import Cohort, FileIntake, Intake
from calipers.evaluation.result import Evaluation
from calipers.results.comparison import GroupedRows, GroupSummary
from calipers.results.estimate import Row
from calipers.show.words import Short
from calipers.statistics.weights import Units

LENGTH = 10  # hexadecimal digits: two of 10,000 names share a hash in 1 of 20,000 pages


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
        # Draws follow the order of the units, so the renamed evaluation keeps it.
        bootstrap_units=_units(evaluation.units, names),
        groupings=tuple(_grouping(grouping, names) for grouping in evaluation.groupings),
        groups=tuple(_summary(summary, names) for summary in evaluation.groups),
    )


def _units(units: Units, names: Names) -> Units:
    parent_name = names.name(units.parent_name) if units.parent_name else ""
    return replace(units, name=names.name(units.name), parent_name=parent_name)


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
    models = {names.name(name): predictions for name, predictions in cohort.models.items()}
    maps = {names.name(name): of_model for name, of_model in cohort.maps.items()}
    return replace(
        cohort,
        references=replace(cohort.references, facts=facts),
        maps=maps,
        classes=tuple(map(names.name, cohort.classes)),
        models=models,
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


def with_display_names(evaluation: Evaluation) -> Evaluation:
    """Return the evaluation with names of more than 200 characters shortened, names that look
    alike marked, and models with long similar names told apart.
    """
    cohort = evaluation.cohort
    all_names = [*cohort.classes, *cohort.models, *cohort.images.ids, *cohort.images.groups]
    values: set[str] = set()
    for column in cohort.images.groups.values():
        values.update(map(str, column.tolist()))
    names = Short([*all_names, *values], series=cohort.models)
    if not names.changed:
        return evaluation
    return rename_all(evaluation, names)


@dataclass(frozen=True)
class Mask:
    """Replaces ids, the same id by the same hash. Names of classes, models and columns stay."""

    # the values in the columns of the images, which may be ids
    values: Mapping[str, frozenset[str]] = field(default_factory=dict)
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    def hashed(self, kind: str, value: str) -> str:
        """Return a name such as ``patient-1f0c2a9b4e``."""
        # The kind is part of the message: a patient and an image of one name get different hashes.
        # Half a surrogate pair in a name has no other bytes.
        message = f"{kind}\0{value}".encode("utf-8", "surrogatepass")
        digest = hmac.new(self.key, message, sha256).hexdigest()
        return f"{kind}-{digest[:LENGTH]}"

    def name(self, name: str) -> str:
        """Return a name that stays."""
        return name

    def image(self, name: str) -> str:
        """Return the hash of an image."""
        return self.hashed("image", name)

    def value(self, column: str, value: Any) -> Any:
        """Return the hash of a value in a column; bins and sizes identify nobody and stay."""
        if str(value) in self.values.get(column, ()):
            return self.hashed(column, str(value))
        return value


def redact_ids(evaluation: Evaluation) -> Evaluation:
    """Return the evaluation with all ids replaced; numbers, classes and models stay."""
    # Any column may hold ids, so all values of all columns are replaced.
    columns = evaluation.cohort.images.groups
    mask = Mask({name: frozenset(map(str, column.tolist())) for name, column in columns.items()})
    masked, intake = rename_all(evaluation, mask), evaluation.cohort.intake
    files = tuple(_file(file, mask) for file in intake.files)
    return replace(masked, cohort=replace(masked.cohort, intake=Intake(files, intake.quarantine)))


def _file(file: FileIntake, mask: Mask) -> FileIntake:
    notes: tuple[str, ...] = ()
    if file.notes:
        notes = (f"{len(file.notes)} notes on an input are left out of this page.",)
    # The hash of a file would let anybody who has the file recognise it; choices may name files.
    name = mask.hashed("file", file.file)
    return replace(file, file=name, notes=notes, sha256="", reading={})
