"""Objects as plain Python records: what the slow twins work on."""

from __future__ import annotations

from dataclasses import dataclass

from calipers.data.cohort import Cohort


@dataclass(frozen=True)
class Thing:
    """One object."""

    row: int
    image: int
    label: int
    box: tuple[float, ...]
    area: float
    extent: float
    score: float = 0.0
    ignore: bool = False
    crowd: bool = False


def things(cohort: Cohort, model: str) -> tuple[list[Thing], list[Thing]]:
    """Return (references, predictions) of a cohort."""
    r, p = cohort.references, cohort.predictions(model)
    references = [
        Thing(
            k,
            int(r.image[k]),
            int(r.label[k]),
            tuple(r.boxes[k].tolist()),
            float(r.area[k]),
            float(r.extent[k]),
            ignore=bool(r.ignore[k]),
            crowd=bool(r.crowd[k]),
        )
        for k in range(len(r))
    ]
    predictions = [
        Thing(
            k,
            int(p.image[k]),
            int(p.label[k]),
            tuple(p.boxes[k].tolist()),
            float(p.area[k]),
            float(p.extent[k]),
            score=float(p.score[k]),
        )
        for k in range(len(p))
    ]
    return references, predictions
