"""The slow obvious twin of object stability: one loop after the other, boxes only, by-overlap, box
IoU.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np


def iou(a: Any, b: Any) -> float:
    d = len(a) // 2
    common = 1.0
    for k in range(d):
        common *= max(0.0, min(a[d + k], b[d + k]) - max(a[k], b[k]))
    union = volume(a) + volume(b) - common
    return common / union


def volume(box: Any) -> float:
    d = len(box) // 2
    return float(np.prod([box[d + k] - box[k] for k in range(d)]))


def one_to_one(left: list, right: list, threshold: float) -> list[tuple[int, int, float]]:
    """Return (left, right, IoU): pairs of one class in descending IoU, taken when both are free."""
    pairs = []
    for j, second in enumerate(right):
        for i, first in enumerate(left):
            value = iou(first["box"], second["box"]) if first["label"] == second["label"] else 0.0
            if value >= threshold and value > 0:
                pairs.append((-value, -second["score"], j, i))
    taken, used, found = set(), set(), []
    for value, _, j, i in sorted(pairs):
        if i not in taken and j not in used:
            taken.add(i)
            used.add(j)
            found.append((i, j, -value))
    return found


def objects(table: Any, image: int) -> list[dict[str, Any]]:
    rows = range(int(table.offsets[image]), int(table.offsets[image + 1]))
    score = getattr(table, "score", np.zeros(len(table)))
    return [
        {
            "box": table.boxes[r].tolist(),
            "label": int(table.label[r]),
            "score": float(score[r]),
            "row": r,
        }
        for r in rows
    ]


def per_image(cohort: Any, models: list[str], threshold: float) -> list[dict[str, Any]]:
    """Return for every image: found flags, agreement and IoU of pairs, models of every place of
    false alarms.
    """
    out = []
    for image in range(cohort.n_images):
        references = objects(cohort.references, image)
        assert not any(cohort.references.ignore[r["row"]] for r in references)
        said = {name: objects(cohort.models[name], image) for name in models}
        found = {r["row"]: [] for r in references}
        alarms = []
        for name in models:
            hits = one_to_one(references, said[name], threshold)
            for i, _, _ in hits:
                found[references[i]["row"]].append(name)
            for j, one in enumerate(said[name]):
                near = any(
                    r["label"] == one["label"] and iou(r["box"], one["box"]) >= threshold
                    for r in references
                )  # a duplicate, or a hit
                if not near and j not in [k for _, k, _ in hits]:
                    alarms.append((name, one))
        agreement, overlap = {}, {}
        for a, b in combinations(models, 2):
            couples = one_to_one(said[a], said[b], threshold)
            total = len(said[a]) + len(said[b])
            agreement[a, b] = 2 * len(couples) / total if total else None
            overlap[a, b] = sum(v for *_, v in couples) / len(couples) if couples else None
        out.append(
            {
                "found": found,
                "agreement": agreement,
                "iou": overlap,
                "places": places(alarms, threshold),
            }
        )
    return out


def places(alarms: list[tuple[str, dict[str, Any]]], threshold: float) -> list[set[str]]:
    """Return the models of every place: near false alarms of different models are joined until none
    is left.
    """
    groups = [{k} for k in range(len(alarms))]
    for i, j in combinations(range(len(alarms)), 2):
        (a, one), (b, other) = alarms[i], alarms[j]
        if a != b and one["label"] == other["label"] and iou(one["box"], other["box"]) >= threshold:
            mine, theirs = (next(g for g in groups if k in g) for k in (i, j))
            if mine is not theirs:
                mine |= theirs
                groups.remove(theirs)
    return [{alarms[k][0] for k in group} for group in groups]


def mean(values: Any) -> float:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else float("nan")


def summary(cohort: Any, models: list[str], threshold: float) -> dict[str, Any]:
    images = per_image(cohort, models, threshold)

    def over_images(key: str) -> float:
        means = [mean(image[key].values()) for image in images]
        return mean([value for value in means if value == value])

    times = [len(names) for image in images for names in image["found"].values()]
    shared = [len(place) for image in images for place in image["places"]]
    silence = [[1.0 if v is None else v for v in image["agreement"].values()] for image in images]
    return {
        "agreement": over_images("agreement"),
        "agreement-with-silence": mean([mean(values) for values in silence]),
        "mean-iou": over_images("iou"),
        "found": np.bincount(times, minlength=len(models) + 1).tolist(),
        "places": np.bincount(shared, minlength=len(models) + 1)[1:].tolist(),
    }
