"""Runs of the study of polyps with predictors whose errors are known.

``even`` makes the same errors everywhere: then nothing depends on centre, size or type. ``uneven``
errs more on small polyps, on flat ones and in later centres, and places boxes that are too large:
then it does. The references are drawn, a quarter of the patients of the study.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from calipers.data.cohort import Cohort
from calipers.studies.polyps.claims import CLAIMS, RULES, scan_steps
from calipers.studies.polyps.data import PolypData
from calipers.studies.polyps.detectors import frame_cohort
from calipers.studies.polyps.endoscopy import centre_frames, drawn_frame
from calipers.studies.polyps.experiments import PolypRun, best_cut, experiment_steps, sized_areas
from calipers.studies.polyps.people import PeopleNumbers

SHARE = 0.25
# Place (in sides) and size of boxes, and probability to miss, by reference.
Errors = Callable[[dict[str, np.ndarray]], tuple[np.ndarray, np.ndarray, np.ndarray]]


@cache
def references() -> Cohort:
    frames = [drawn_frame(plan) for plan in centre_frames(0, share=SHARE)]
    cohort = frame_cohort(frames)
    return cohort.with_groups({"sequence": cohort.group("patient")})


def facts_of(cohort: Cohort) -> dict[str, np.ndarray]:
    image = cohort.references.image
    areas = sized_areas(cohort)
    return {
        "size": np.searchsorted((1e4, 4e4), areas),
        "flat": cohort.group("type")[image] == "flat",
        "centre": np.array([int(name[1]) for name in cohort.group("centre")[image]]),
    }


def even(facts: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n = len(facts["size"])
    return np.full(n, 0.06), np.full(n, 1.05), np.full(n, 0.1)


def uneven(facts: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    small = 2 - facts["size"]
    place = 0.03 + 0.05 * small + 0.06 * facts["flat"]
    scale = 1.1 + 0.12 * small + 0.1 * facts["flat"] + 0.05 * facts["centre"]
    miss = 0.05 + 0.25 * small + 0.05 * facts["centre"]
    return place, scale, np.clip(miss, 0, 0.9)


def predicted(cohort: Cohort, errors: Errors, seed: int) -> list[dict]:
    random = np.random.default_rng(seed)
    place, scale, miss = errors(facts_of(cohort))
    boxes = cohort.references.boxes
    sides = boxes[:, 2:] - boxes[:, :2]
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2 + place[:, None] * sides * random.normal(
        size=sides.shape
    )
    half = sides * (scale * np.exp(0.05 * random.normal(size=len(sides))))[:, None] / 2
    is_found = random.random(len(boxes)) >= miss
    # Good boxes have high scores, and some boxes are wrong.
    score = np.clip(
        0.9 - 2 * place - 0.3 * (scale - 1) + 0.1 * random.normal(size=len(boxes)), 0.05, 1
    )
    entries = []
    for i, name in enumerate(cohort.images.ids):
        rows = np.arange(cohort.references.offsets[i], cohort.references.offsets[i + 1])
        rows = rows[is_found[rows]]
        own = np.hstack([centre[rows] - half[rows], centre[rows] + half[rows]])
        scores = score[rows]
        if random.random() < 0.2:
            corner = random.uniform(0, 60, 2)
            own = np.vstack([own, [*corner, *(corner + 12)]])
            scores = np.append(scores, 0.3)
        labels = np.zeros(len(own), np.int64)
        entries.append({"image_id": name, "boxes": own, "scores": scores, "labels": labels})
    return entries


def data_of(errors: Sequence[Errors]) -> PolypData:
    cohort = references()
    names = ("main", "second", "third")
    models = {}
    for k, (name, own) in enumerate(zip(names, errors)):
        models[name] = predicted(cohort, own, k)
    records = []
    masks = cohort.references.masks
    assert masks is not None
    for i, name in enumerate(cohort.images.ids):
        rows = slice(int(cohort.references.offsets[i]), int(cohort.references.offsets[i + 1]))
        record = {
            "image_id": name,
            "boxes": cohort.references.boxes[rows],
            "labels": np.zeros(rows.stop - rows.start, np.int64),
            "width": int(cohort.images.size[i, 0]),
            "height": int(cohort.images.size[i, 1]),
        }
        for column, cells in cohort.images.groups.items():
            record[column] = cells[i]
        if rows.stop > rows.start:
            record["masks"] = masks[rows]
        records.append(record)
    both = Cohort.from_arrays(records, models, classes=("polyp",))
    return PolypData(
        cohort=both,
        members=None,
        source="made for a test",
        is_drawn=False,
        training=(),
        ratings=None,
        inputs=(),
        settings={},
    )


def run_of(*errors: Errors, people: PeopleNumbers | None = None) -> PolypRun:
    data = data_of(errors)
    limit = RULES.limit("non-convex")
    numbers = experiment_steps(data, seed=0, quick=True, limit=limit).run()
    scan = scan_steps(data, best_cut(data.cohort, data.models[0])).run()
    return replace(numbers, people=people or PeopleNumbers(), scan=scan)


def verdicts(run: PolypRun) -> dict[str, str]:
    return {claim.name: claim.verdict for claim in CLAIMS.judge_all(run)}
