"""Objects of one sample: components of labels and of called voxels,
with their places and scores.
"""

from __future__ import annotations

import numpy as np
import pytest

from calipers.maps.examine import expanded, predictions_of, references_of
from calipers.metrics.maps import MapSettings

LABELS = np.array([[1, 0, 2], [0, 1, 2], [0, 0, 0]])


@pytest.mark.parametrize(("connectivity", "n"), [("full", 1), ("faces", 2)])
def test_references_are_components(connectivity: str, n: int) -> None:
    found = references_of(LABELS, MapSettings(connectivity=connectivity), instances=False)
    assert len(found) == n
    assert found.score.tolist() == [1.0] * n


def test_references_are_values_if_every_value_is_an_object() -> None:
    found = references_of(LABELS, MapSettings(), instances=True)
    assert found.masks.voxels.tolist() == [2, 2]
    assert found.points.tolist() == [[1.0, 1.0], [2.5, 1.0]]
    assert found.boxes.tolist() == [[0, 0, 2, 2], [2, 0, 3, 2]]


def test_a_voxel_at_the_threshold_is_called() -> None:
    scores = np.array([[0.5, 0.499999, 0.0, 0.6]])
    found = predictions_of(scores, 0.5, MapSettings())
    assert found.boxes.tolist() == [[0, 0, 1, 1], [3, 0, 4, 1]]
    assert predictions_of(scores.astype(np.float32), 0.6, MapSettings()).boxes.tolist() == [
        [3, 0, 4, 1]
    ]
    assert len(predictions_of(scores, float("inf"), MapSettings())) == 0


def test_the_place_of_a_prediction_leans_to_its_scores() -> None:
    scores = np.zeros((2, 5))
    scores[0, 1:4] = 0.5, 0.5, 1.0
    found = predictions_of(scores, 0.5, MapSettings())
    assert found.points == pytest.approx(np.array([[(0.5 * 1.5 + 0.5 * 2.5 + 3.5) / 2, 0.5]]))


@pytest.mark.parametrize(("score", "values"), [("max", [1.0, 0.7]), ("mean", [0.75, 0.7])])
def test_scores_of_predictions(score: str, values: list[float]) -> None:
    scores = np.array([[0.5, 1.0, 0.0, 0.7]])
    assert predictions_of(scores, 0.5, MapSettings(score=score)).score == pytest.approx(values)


def test_small_predictions_are_left_out_and_counted() -> None:
    scores = np.array([[0.9, 0.9, 0.0, 0.9, 0.0, 0.9]])
    found = predictions_of(scores, 0.5, MapSettings(least=2))
    assert (len(found), found.small) == (1, 2)
    assert predictions_of(scores, 0.5, MapSettings(least=3)).small == 3


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
def test_nothing_is_called(shape: tuple[int, ...]) -> None:
    for score in ("max", "mean"):
        found = predictions_of(np.zeros(shape), 0.5, MapSettings(score=score))
        assert len(found) == len(found.score) == 0
        assert found.points.shape == (0, len(shape))
        assert found.boxes.shape == (0, 2 * len(shape))


def test_every_voxel_of_every_object_is_listed() -> None:
    found = expanded(references_of(LABELS, MapSettings(), instances=True).masks)
    assert (found.index.tolist(), found.owner.tolist(), found.n) == ([0, 4, 2, 5], [0, 0, 1, 1], 2)
    assert found.sums(np.arange(9.0)).tolist() == [4.0, 7.0]
    nobody = expanded(references_of(np.zeros((2, 2), int), MapSettings(), instances=False).masks)
    assert nobody.sums(np.zeros(4)).dtype == np.float64
