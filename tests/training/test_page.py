"""The page of a run: curves of loss and validation."""

from __future__ import annotations

import numpy as np
import pytest

from training.needs import NEEDS_TORCH

pytest.importorskip("torch", reason=NEEDS_TORCH)
from calipers.training.loop import Epoch, History
from calipers.training.page import MOST_LINES, curves_of


def history(losses, areas=None, best=None):
    epochs = []
    for k, loss in enumerate(losses):
        validation = {} if areas is None else {"score": areas[k], "AUC": areas[k]}
        epochs.append(Epoch(k + 1, loss, 0.1, 1.0, validation))
    return History(tuple(epochs), best or len(losses))


def test_a_line_per_model_with_the_stored_epoch():
    histories = {"a": history([3, 2, 1], [0.5, 0.9, 0.8], best=2), "b": history([4, 3], [0.6, 0.7])}
    loss, area = curves_of(histories, "AUC")
    assert [line.name for line in loss.lines] == ["a", "b"]
    assert loss.lines[0].y.tolist() == [3, 2, 1]
    assert loss.lines[0].marks == (1,)
    assert loss.title == "Training loss: 2.00 to 3.00 in the epochs that were stored"
    assert area.title == "AUC, validation: 0.70 to 0.90 in the epochs that were stored"
    assert area.lines[1].x.tolist() == [1, 2]


def test_without_validation_there_is_only_the_loss():
    (figure,) = curves_of({"a": history([3, 2])}, "AUC")
    assert figure.title == "Training loss: 2.00 in the epoch that was stored"


def test_many_models_are_a_mean_and_a_range():
    histories = {}
    for k in range(MOST_LINES + 1):
        histories[str(k)] = history([float(k)] * (2 + k % 2))
    (figure,) = curves_of(histories, "AUC")
    (line,) = figure.lines
    assert line.y.tolist() == pytest.approx([3, 3, np.mean([1, 3, 5])])
    assert line.low.tolist() == [0, 0, 1]
    assert line.high.tolist() == [6, 6, 5]
