"""The interpolated FROC against MONAI's own, which needs PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from seeds import looped_seeds

pytest.importorskip("torch", reason="MONAI needs it: make test-train")
monai = pytest.importorskip("monai.metrics", reason="make test-train")

RATES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
PROTOCOL = """
schema = "calipers.protocol/1"
name = "interpolated"
source = "the FROC score of CAMELYON16, as MONAI computes it"
[matching]
criterion = "point-in-box"
assignment = "many-to-one"
duplicates = "forgiven"
thresholds = 0.5
[[metric]]
name = "FROC"
kind = "froc"
interpolation = "linear"
rates = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
"""


@looped_seeds(10, default=4)
def test_the_score_is_that_of_monai(seed: int) -> None:
    draw = np.random.default_rng(seed)
    references, predictions = [], []
    hits, alarms = [], []
    n_targets, n_images = 0, 12
    for _ in range(n_images):
        boxes = [[40.0 * k, 0.0, 40.0 * k + 20, 20.0] for k in range(draw.integers(0, 4))]
        n_targets += len(boxes)
        points, scores = [], []
        for box in boxes:
            # MONAI takes one probability of every target that was found.
            if draw.random() < 0.7:
                points.append([box[0] + 10, 10.0])
                hits.append(round(float(draw.random()), 6))
                scores.append(hits[-1])
        for k in range(draw.integers(0, 9)):
            points.append([40.0 * k + 30, 10.0])
            alarms.append(round(float(draw.random()) * 0.9, 6))
            scores.append(alarms[-1])
        around = [[x - 1, y - 1, x + 1, y + 1] for x, y in points]
        references.append({"boxes": np.array(boxes).reshape(-1, 4), "labels": [0] * len(boxes)})
        predictions.append(
            {"boxes": np.array(around).reshape(-1, 4), "labels": [0] * len(scores)}
            | {"scores": np.array(scores)}
        )
    cohort = cal.Cohort.from_arrays(references, {"m": predictions}, classes=("a",))
    ours = cal.evaluate(cohort, cal.Protocol.from_toml(PROTOCOL), ci=False)["FROC"].value
    # As its own `compute_fp_tp_probs` has it: a target that nobody found has the probability 0. The
    # lowest probability is no threshold of MONAI's, so one target has to be missed.
    hits += [0.0] * (n_targets - len(hits))
    assert min(hits) == 0.0
    alarms_per_image, sensitivity = monai.compute_froc_curve_data(
        np.array(alarms), np.array(hits), n_targets, n_images
    )
    theirs = monai.compute_froc_score(alarms_per_image, sensitivity, RATES)
    assert ours == pytest.approx(float(theirs), abs=1e-12)
