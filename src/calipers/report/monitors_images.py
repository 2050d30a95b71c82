# SPDX-License-Identifier: Apache-2.0
"""The most embarrassing images of monitors: unsafe and accepted with the lowest alarm, safe and
rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calipers.evaluate import evaluate
from calipers.monitors.labellings import OMS, OOD
from calipers.monitors.result import MonitorEvaluation, headline
from calipers.monitors.scope_result import Scope
from calipers.pictures.album import Album, album_of
from calipers.plots.figures import Cell, Table
from calipers.plots.monitors_alarms import WORDS, rejected_by
from calipers.plots.monitors_orders import leading
from calipers.protocol import Protocol
from calipers.report.markup import data_table, details, paragraph
from calipers.report.naming import bearable
from calipers.report.sections.images import shown
from calipers.report.words import short
from calipers.tables import Cohort

I64 = NDArray[np.int64]

MOST_MONITORS = 3
MOST_IMAGES = 8  # rows of a table, for one monitor
MOST_PICTURES = 4
MATCHING = "oms"


@dataclass(frozen=True)
class Chosen:
    """Images on which a monitor errs, the most embarrassing first."""

    title: str
    why: str
    images: I64  # of the evaluation of monitors; all of them
    monitor: str


def embarrassing(found: MonitorEvaluation) -> list[Chosen]:
    """Return the images on which the leading monitors err at their thresholds; nothing without
    labels or thresholds.
    """
    labels = headline(found.basis.labels, OMS) or headline(found.basis.labels, OOD)
    groups: list[Chosen] = []
    for name in leading(found, MOST_MONITORS) if labels is not None else ():
        rejected = rejected_by(found, name)
        if rejected is None:
            continue
        assert labels is not None
        other, wanted = WORDS[labels.paradigm]
        alarm, judged = found.basis.monitors.alarm[found.monitors.index(name)], found.basis.judged
        for kind, word, wrong, order, fate, first in (
            (labels.positive, wanted, ~rejected, alarm, "accepted", "lowest"),
            (~labels.positive, other, rejected, -alarm, "rejected", "highest"),
        ):
            images = np.flatnonzero(kind & wrong & judged)
            images = images[np.argsort(order[images], kind="stable")]
            why = f"{len(images)} of {int((kind & judged).sum())} images that are {word}, {first} alarms first."
            groups.append(Chosen(f"{short(name)}: {word} and {fate}", why, images, name))
    return groups


def images_part(
    found: MonitorEvaluation,
    scope: Scope | None = None,
    cohort: Cohort | None = None,
    folder: Path | None = None,
) -> str:
    """Return images on which monitors err: as pictures if the cohort is at hand, and as tables; ""
    if there are none.

    Parameters
    ----------
    scope
        With the names of the cohort; those of ``found`` may be shortened.
    """
    groups = [group for group in embarrassing(found) if len(group.images)]
    if not groups:
        return ""
    if cohort is None:
        return images_tables(found, groups)
    album = _album(scope or found.scope, groups, cohort, folder)
    pictures = shown(album, volumes=cohort.dimensions == 3)
    return pictures + details("These images and more as tables", images_tables(found, groups))


def images_tables(found: MonitorEvaluation, groups: Sequence[Chosen]) -> str:
    """Return a table for every group."""
    parts = []
    for k, group in enumerate(groups):
        columns, rows = _rows(found, group)
        caption = f"{group.title}. {group.why}"
        more = " images.csv has all of them." if len(group.images) > len(rows) else ""
        parts.append(data_table(Table(columns, rows), f"table-images-{k}", caption + more))
    return "\n".join(parts)


def _rows(
    found: MonitorEvaluation, group: Chosen
) -> tuple[tuple[str, ...], tuple[tuple[Cell, ...], ...]]:
    monitors, scope = found.basis.monitors, found.scope
    k = found.monitors.index(group.monitor)
    own = monitors.alarm[k] if monitors.higher_is_alarm[k] else -monitors.alarm[k]
    columns: dict[str, list[Cell]] = {"image": [], "alarm score": [], "s": []}
    ood = headline(found.basis.labels, OOD)
    for i in group.images[:MOST_IMAGES].tolist():
        columns["image"].append(scope.images[i])
        columns["alarm score"].append(float(own[i]))
        columns["s"].append(float(scope.score[i]))
        if len(scope.n_references):
            columns.setdefault("references", []).append(int(scope.n_references[i]))
            columns.setdefault("predictions", []).append(int(scope.n_predictions[i]))
        if ood is not None:
            columns.setdefault("out of distribution", []).append("yes" if ood.positive[i] else "no")
    return tuple(columns), tuple(zip(*columns.values()))


def _album(scope: Scope, groups: Sequence[Chosen], cohort: Cohort, folder: Path | None) -> Album:
    """Return the pictures with the marks of the model whose scope it is, matched as the scope was."""
    place = {image: k for k, image in enumerate(cohort.images.ids)}
    settings = scope.settings
    base = Protocol.load(MATCHING)
    matching = replace(
        base.matching,
        criterion=settings.get("criterion", base.matching.criterion),
        assignment=settings.get("assignment", base.matching.assignment),
        threshold=settings.get("iou", base.matching.threshold),
    )
    protocol = replace(base.only(base.headline[:1]), matching=matching, cluster="image")
    alone = replace(cohort, models={scope.model: cohort.predictions(scope.model)})
    evaluation = bearable(evaluate(alone, protocol, ci=False))
    wanted = [
        (
            group.title,
            group.why,
            [place[scope.images[i]] for i in group.images[:MOST_PICTURES].tolist()],
        )
        for group in groups
    ]
    return album_of(
        evaluation,
        folder,
        wanted,
        model=evaluation.models[0],
        cut=settings.get("score_cut", -np.inf),
    )


def nothing_wrong(found: MonitorEvaluation) -> str:
    """Return that no image is shown, and why."""
    if not found.paradigms:
        return paragraph("Without a tau or OOD labels no image is wrongly accepted or rejected.")
    return paragraph("No monitor has a threshold, or none of them errs at it.")
