# SPDX-License-Identifier: Apache-2.0
"""A figure of the pictures of the study of monitors: what the shifts look like, and what a detector
makes of them.

The archive keeps no pixels. Pictures of scikit-learn's digits are drawn again from the seed, and
are shown only if the references of the archive are those of the drawing. Those of idx files, which
are the user's, are not.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from calipers.errors import CalipersError
from calipers.evaluation.evaluate import evaluate
from calipers.evaluation.protocol import Protocol
from calipers.monitors.scope import scope_scores
from calipers.pictures.overlays import overlay
from calipers.pictures.pixels import Pixels, encode
from calipers.show.figures import Overlay
from calipers.studies.framework import StudyFigure
from calipers.studies.monitors.archive import MODEL, STEPS, DetectorRecord, MonitorArchive
from calipers.studies.monitors.experiments import TAU
from calipers.studies.monitors.scenes import (
    BOTH,
    FOREIGN,
    PICTURE_SHIFTS,
    STRENGTHS,
    USUAL,
    SceneCounts,
    SceneSet,
    open_scenes,
)

LARGER = 4  # pixels of a page per pixel of a canvas; browsers blur when they enlarge
DRAWN_AGAIN = "digits"  # the data set whose pictures need no files
PROTOCOL = """schema = "calipers.protocol/1"
name = "monitor-scenes"
source = "the hits that the score of an image counts"
[matching]
criterion = "box-iou"
assignment = "by-overlap"
thresholds = 0.5
max_dets = inf
[[metric]]
name = "F1"
kind = "f-beta"
"""


def scenes_figure(archive: MonitorArchive | None) -> StudyFigure | None:
    """Return one picture of every shift in its greatest strength; None if none can be drawn."""
    if archive is None or find_spec("sklearn") is None:
        return None
    records = [one for one in archive.detectors if one.name.startswith(DRAWN_AGAIN)]
    if not records:
        return None
    record = records[0]
    try:
        counts = SceneCounts(**archive.about["counts"])
        scenes = open_scenes(None, counts, int(archive.about["seed"]))
    # An archive of another version, or without these facts, has the numbers all the same.
    except (KeyError, TypeError, ValueError, CalipersError):
        return None
    if scenes.shift != record.shift:
        return None
    panels = _panels(record, scenes)
    if not panels:
        return None
    n_failed = sum("unsafe" in panel.note for panel in panels)
    return StudyFigure(
        "figure-scenes",
        f"What the shifts look like: {record.name} fails on {n_failed} of these "
        f"{len(panels)} pictures",
        "The first test picture of every kind, in its greatest strength. Blue: predictions that "
        "hit, over the white digits that they find; dotted yellow: missed digits; dashed orange: "
        f"false alarms. Predictions count from a score of {record.score_cut:g} on, which was "
        f"chosen on validation pictures. s is the score of the image; below {TAU:g} it is unsafe.",
        panels,
        rows=(4,) * -(-len(panels) // 4),
    )


def _panels(record: DetectorRecord, scenes: SceneSet) -> tuple[Overlay, ...]:
    numbers = _first_pictures(record)
    cohort = record.cohort(list(numbers.values()))
    evaluation = evaluate(cohort, Protocol.from_toml(PROTOCOL), ci=False)
    scope = scope_scores(cohort, model=MODEL, classes="present", score_cut=record.score_cut)
    panels = []
    for row, (name, k) in enumerate(numbers.items()):
        drawing = scenes.drawing(k)
        own = slice(*np.searchsorted(record.references[0], [k, k + 1]).tolist())
        boxes = np.round(np.asarray(drawing.boxes) * STEPS) / STEPS
        # Another version of the digits would give other pictures.
        if not np.array_equal(boxes, record.references[1][own]):
            return ()
        pixels = drawing.pixels.repeat(LARGER, axis=0).repeat(LARGER, axis=1)
        picture = encode(Pixels(pixels, pixels.shape[1], pixels.shape[0])).data
        panel = overlay(evaluation, MODEL, row, cut=record.score_cut, picture=picture)
        score = float(scope.score[row])
        verdict = "unsafe" if score < TAU else "safe"
        kind = "OOD" if any(flags[k] for flags in record.ood.values()) else "in distribution"
        title = "usual" if name == USUAL else name
        note = f"s = {score:.2f}, {verdict}, {kind}"
        panels.append(Overlay(title, panel.size, panel.marks, picture=picture, note=note))
    return tuple(panels)


def _first_pictures(record: DetectorRecord) -> dict[str, int]:
    """Return the first test picture of every kind, in its greatest strength."""
    numbers = {}
    for name in (USUAL, *PICTURE_SHIFTS, FOREIGN, BOTH):
        strength = 0 if name == USUAL else STRENGTHS[-1]
        is_kind = np.array([one == name for one in record.shift])
        candidates = np.flatnonzero(is_kind & (record.strength == strength))
        if len(candidates):
            numbers[name] = int(candidates[0])
    return numbers
