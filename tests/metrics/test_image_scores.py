"""The score of the RSNA pneumonia challenge: by hand, and against its definition."""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from cases import MODEL, cohort_of, metric_of, values_of
from reference import rsna2018

pytestmark = pytest.mark.usefixtures("kernel_route")

NAME = "threat/image@0.4:0.75"
BOX, LOW, FAR = [0, 0, 10, 10], [0, 0, 10, 5.2], [50, 50, 60, 60]  # LOW has an IoU of 0.52


def image(boxes: list[list[float]], scores: list[float] | None = None) -> dict:
    objects = {"boxes": np.array(boxes, float).reshape(-1, 4), "labels": [0] * len(boxes)}
    return objects if scores is None else {**objects, "scores": scores}


def cohort(pairs: list[tuple[list, list]]) -> cal.Cohort:
    references = [image(boxes) for boxes, _ in pairs]
    predictions = [image([b for _, b in said], [s for s, _ in said]) for _, said in pairs]
    return cal.Cohort.from_arrays(references, predictions, classes=("opacity",))


def test_five_images_by_hand() -> None:
    """A perfect box: 1. One of two boxes and a false alarm: 1/3. An IoU of .52: right at .4, .45
    and .5, 3/8. A false alarm on a normal image: 0. Nothing on a normal image: left out.
    """
    pairs = [
        ([BOX], [(0.9, BOX)]),
        ([BOX, FAR], [(0.9, BOX), (0.3, [80, 80, 90, 90])]),
        ([BOX], [(0.9, LOW)]),
        ([], [(0.2, BOX)]),
        ([], []),
    ]
    evaluation = cal.evaluate(cohort(pairs), "rsna2018", ci=False)
    assert float(evaluation[NAME]) == pytest.approx((1 + 1 / 3 + 3 / 8 + 0) / 4)
    assert evaluation[NAME].n_images == 5


def test_the_better_score_is_matched_first_and_a_second_box_is_a_false_alarm() -> None:
    """Both predictions lie on the one box; whichever comes first, one is right and one is not."""
    for scores in ((0.9, 0.5), (0.5, 0.9)):
        pairs = [([BOX], [(scores[0], BOX), (scores[1], [0, 0, 10, 9])])]
        assert float(cal.evaluate(cohort(pairs), "rsna2018", ci=False)[NAME]) == 0.5


def test_an_overlap_at_the_threshold_is_no_hit() -> None:
    half = [0, 0, 10, 5]  # an IoU of exactly 0.5
    evaluation = cal.evaluate(cohort([([BOX], [(0.9, half)])]), "rsna2018", ci=False)
    assert float(evaluation["threat/image@0.5"]) == 0.0
    assert float(evaluation[NAME]) == 2 / 8


def test_random_sets_equal_the_definition() -> None:
    random = np.random.default_rng(0)
    for _ in range(30):
        pairs = []
        for _ in range(int(random.integers(1, 12))):
            corners = random.integers(0, 6, (int(random.integers(0, 4)), 2)) * 10.0
            references = [[x, y, x + 20, y + 20] for x, y in corners.tolist()]
            said = []
            for x0, y0, x1, y1 in references:
                if random.random() < 0.7:
                    shift = random.uniform(-8, 8)
                    said.append((random.random(), [x0 + shift, y0, x1 + shift, y1]))
            if random.random() < 0.4:
                said.append((random.random(), [90.0, 0.0, 99.0, 9.0]))
            pairs.append((references, said))
        value = float(cal.evaluate(cohort(pairs), "rsna2018", ci=False)[NAME])
        assert value == pytest.approx(rsna2018.score(pairs), nan_ok=True)


def test_without_any_object_there_is_no_value() -> None:
    estimate = cal.evaluate(cohort([([], [])] * 3), "rsna2018")[NAME]
    assert (np.isnan(estimate.value), estimate.reason) == (True, "no_objects")


def test_classes_of_an_image_are_counted_together_or_alone() -> None:
    values = values_of(metric_of("image-threat-score"), cohort_of("plain", 3), model=MODEL)
    assert values.shape == (4, 1)
    assert not np.isnan(values).any()
