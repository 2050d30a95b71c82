"""A detector made by hand, for tests of what the study computes: nobody trains in a second."""

from __future__ import annotations

import numpy as np

from calipers.studies.monitors.archive import DetectorRecord

SHIFTS = ("none", "fog", "foreign", "both")


def made_detector(n: int = 240, seed: int = 0, name: str = "made-1") -> DetectorRecord:
    """One object per picture; it is missed more often the stronger the shift."""
    random = np.random.default_rng(seed)
    shift = np.array(SHIFTS)[np.arange(n) % 4]
    strength = np.where(shift == "none", 0, 1 + np.arange(n) // 4 % 3)
    missed = random.random(n) < np.array([0.05, 0.2, 0.6, 0.95])[strength]
    picture, by_object = np.isin(shift, ("fog", "both")), np.isin(shift, ("foreign", "both"))
    either = picture | by_object
    image = np.arange(n)
    boxes = np.tile([4.0, 4.0, 16.0, 16.0], (n, 1))
    hits = np.flatnonzero(~missed)
    alarms = {
        "knows-ood": random.normal(size=n) + 4 * either,
        "knows-failures": random.normal(size=n) + 4 * missed,
        "guesses": random.normal(size=n),
    }
    return DetectorRecord(
        name=name,
        data="made pictures",
        foreign="nothing",
        seed=seed,
        score_cut=0.3,
        average_precision=0.5,
        classes=("a", "b"),
        side=64,
        n_training=0,
        shift=tuple(shift.tolist()),
        strength=strength,
        ood={"picture": picture, "object": by_object, "either": either},
        references=(image, boxes, np.zeros(n, np.int64)),
        predictions=(
            hits,
            boxes[hits] + 0.5,
            np.zeros(len(hits), np.int64),
            np.full(len(hits), 0.75),
        ),
        alarms={key: own.astype(np.float32).astype(np.float64) for key, own in alarms.items()},
    )
