# SPDX-License-Identifier: Apache-2.0
"""Images on which monitors err most: unsafe ones that are accepted, safe ones that are rejected.

They are shown as pictures if the cohort is at hand, and as tables otherwise.
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
from calipers.report.naming import with_display_names
from calipers.report.sections.images import album_html
from calipers.report.words import short
from calipers.tables import Cohort

I64 = NDArray[np.int64]

MOST_MONITORS = 3
MOST_IMAGES = 8  # rows of a table, for one monitor
MOST_PICTURES = 4
MATCHING = "oms"


@dataclass(frozen=True)
class ImageGroup:
    """Images on which a monitor errs, the worst errors first."""

    title: str
    why: str
    images: I64  # of the evaluation of monitors; all of them
    monitor: str


def embarrassing(result: MonitorEvaluation) -> list[ImageGroup]:
    """Return the images on which the leading monitors err at their thresholds; nothing without
    labels or thresholds.
    """
    labels = headline(result.basis.labels, OMS) or headline(result.basis.labels, OOD)
    groups: list[ImageGroup] = []
    if labels is None:
        return groups
    other_word, wanted_word = WORDS[labels.paradigm]
    judged = result.basis.judged
    for name in leading(result, MOST_MONITORS):
        rejected = rejected_by(result, name)
        if rejected is None:
            continue
        alarm = result.basis.monitors.alarm[result.monitors.index(name)]
        for kind, word, wrong, order, fate, first in (
            (labels.positive, wanted_word, ~rejected, alarm, "accepted", "lowest"),
            (~labels.positive, other_word, rejected, -alarm, "rejected", "highest"),
        ):
            images = np.flatnonzero(kind & wrong & judged)
            images = images[np.argsort(order[images], kind="stable")]
            n = int((kind & judged).sum())
            why = f"{len(images)} of {n} images that are {word}, {first} alarms first."
            groups.append(ImageGroup(f"{short(name)}: {word} and {fate}", why, images, name))
    return groups


def images_part(
    result: MonitorEvaluation,
    scope: Scope | None = None,
    cohort: Cohort | None = None,
    folder: Path | None = None,
) -> str:
    """Return images on which monitors err: as pictures if the cohort is at hand, and as tables; ""
    if there are none.

    Parameters
    ----------
    scope
        With the names of the cohort; those of ``result`` may be shortened.
    """
    groups = [group for group in embarrassing(result) if len(group.images)]
    if not groups:
        return ""
    if cohort is None:
        return images_tables(result, groups)
    album = _album(scope or result.scope, groups, cohort, folder)
    pictures = album_html(album, volumes=cohort.dimensions == 3)
    return pictures + details("These images and more as tables", images_tables(result, groups))


def images_tables(result: MonitorEvaluation, groups: Sequence[ImageGroup]) -> str:
    """Return a table for every group."""
    parts = []
    for k, group in enumerate(groups):
        columns, rows = _rows(result, group)
        caption = f"{group.title}. {group.why}"
        full_list_note = " images.csv has all of them." if len(group.images) > len(rows) else ""
        parts.append(
            data_table(Table(columns, rows), f"table-images-{k}", caption + full_list_note)
        )
    return "\n".join(parts)


def _rows(
    result: MonitorEvaluation, group: ImageGroup
) -> tuple[tuple[str, ...], tuple[tuple[Cell, ...], ...]]:
    monitors, scope = result.basis.monitors, result.scope
    k = result.monitors.index(group.monitor)
    alarm_scores = monitors.alarm[k] if monitors.higher_is_alarm[k] else -monitors.alarm[k]
    columns: dict[str, list[Cell]] = {"image": [], "alarm score": [], "s": []}
    ood = headline(result.basis.labels, OOD)
    for i in group.images[:MOST_IMAGES].tolist():
        columns["image"].append(scope.images[i])
        columns["alarm score"].append(float(alarm_scores[i]))
        columns["s"].append(float(scope.score[i]))
        if len(scope.n_references):
            columns.setdefault("references", []).append(int(scope.n_references[i]))
            columns.setdefault("predictions", []).append(int(scope.n_predictions[i]))
        if ood is not None:
            columns.setdefault("out of distribution", []).append("yes" if ood.positive[i] else "no")
    return tuple(columns), tuple(zip(*columns.values()))


def _album(
    scope: Scope, groups: Sequence[ImageGroup], cohort: Cohort, folder: Path | None
) -> Album:
    """Return the pictures with the marks of the monitored model, matched as in its scope."""
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
    one_model = replace(cohort, models={scope.model: cohort.predictions(scope.model)})
    evaluation = with_display_names(evaluate(one_model, protocol, ci=False))
    picture_groups = []
    for group in groups:
        places = [place[scope.images[i]] for i in group.images[:MOST_PICTURES].tolist()]
        picture_groups.append((group.title, group.why, places))
    return album_of(
        evaluation,
        folder,
        picture_groups,
        model=evaluation.models[0],
        cut=settings.get("score_cut", -np.inf),
    )


def nothing_wrong(result: MonitorEvaluation) -> str:
    """Return why no image is shown."""
    if not result.paradigms:
        return paragraph(
            "Without tau or OOD labels, no image can be called wrongly accepted or rejected."
        )
    return paragraph("No monitor has a threshold, or none makes an error at its threshold.")
