from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from calipers.data.objects import Predictions
from calipers.errors import UsageError
from calipers.kernels import boxes
from calipers.matching.suppress import suppressed
from seeds import looped


def cohort(seed: int, n_images: int = 4, classes: int = 2) -> cal.Cohort:
    random = np.random.default_rng(seed)
    said = []
    for _ in range(n_images):
        n = int(random.integers(0, 14))
        low = random.integers(0, 12, (n, 2)).astype(float)
        boxes = np.concatenate([low, low + random.integers(2, 9, (n, 2))], axis=1)
        scores = random.integers(1, 8, n) / 8  # many ties
        said.append({"boxes": boxes, "labels": random.integers(0, classes, n), "scores": scores})
    nothing = [{"boxes": np.zeros((0, 4)), "labels": []} for _ in said]
    return cal.Cohort.from_arrays(nothing, said, classes=("a", "b")[:classes])


def iou(table: Predictions, j: int, k: int) -> float:
    extents = (table.extent[[i]] for i in (j, k))
    return float(boxes.iou(table.boxes[[j]].T, table.boxes[[k]].T, *extents)[0])


def one_after_the_other(table: Predictions, threshold: float, *, within: bool) -> list[int]:
    """From the best box to the worst: it stays unless one that stays overlaps it too much."""
    stays: list[int] = []
    for k in sorted(range(len(table)), key=lambda k: (-table.score[k], k)):
        rivals = [j for j in stays if table.image[j] == table.image[k]]
        rivals = [j for j in rivals if not within or table.label[j] == table.label[k]]
        if all(iou(table, j, k) <= threshold for j in rivals):
            stays.append(k)
    return sorted(stays)


@pytest.mark.parametrize("within", [True, False])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.5])
@looped("seed", range(20))
def test_it_is_the_greedy_rule(seed: int, threshold: float, within: bool) -> None:
    table = cohort(seed).models["model"]
    found = suppressed(table, threshold, n_classes=2 if within else 0)
    kept = one_after_the_other(table, threshold, within=within)
    np.testing.assert_array_equal(found.boxes, table.boxes[kept])
    np.testing.assert_array_equal(found.score, table.score[kept])
    np.testing.assert_array_equal(found.image, table.image[kept])


def test_a_chain_is_cut_at_every_second_box() -> None:
    """Each box overlaps its neighbours by an IoU of 1/3: the second goes, so the third stays."""
    boxes = [[2.0 * k, 0.0, 2.0 * k + 4.0, 1.0] for k in range(7)]
    said = [{"boxes": boxes, "labels": [0] * 7, "scores": [0.9 - 0.1 * k for k in range(7)]}]
    table = cal.Cohort.from_arrays(
        [{"boxes": np.zeros((0, 4)), "labels": []}], said, classes=("a",)
    ).models["model"]
    assert suppressed(table, 0.3, n_classes=1).boxes[:, 0].tolist() == [0, 4, 8, 12]
    assert len(suppressed(table, 0.34, n_classes=1)) == 7


def test_nothing_stays_nothing_and_bad_thresholds_are_refused() -> None:
    table = (
        cohort(0, n_images=1)
        .models["model"]
        .keep(np.zeros(len(cohort(0, n_images=1).models["model"]), np.bool_))
    )
    assert len(suppressed(table)) == 0
    with pytest.raises(UsageError, match="lies in"):
        suppressed(table, 1.5)


def test_a_multiverse_may_suppress() -> None:
    found = cal.multiverse(
        cal.demo_cohort(), {"nms": ["none", 0.3], "metric": ["F1"], "criterion": ["box-iou"]}
    )
    by = {name: np.array([one["nms"] == name for one in found.each]) for name in ("none", 0.3)}
    model = found.models.index("overpredicts")
    assert (
        found.values[by[0.3], model].mean() > found.values[by["none"], model].mean()
    )  # its duplicates are gone
