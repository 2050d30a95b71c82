"""Predicted label volumes in place of maps of scores."""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from calipers.errors import InputError, UsageError
from calipers.io.write_volume import write_volume


def two_touching() -> np.ndarray:
    labels = np.zeros((6, 10, 12), np.int32)
    labels[1:4, 2:5, 2:6] = 3
    labels[1:4, 5:8, 2:6] = 4
    return labels


def test_instances_that_touch_stay_two_objects() -> None:
    labels = two_touching()
    apart = cal.evaluate_maps(
        [(labels, labels)], labels="instances", predictions="labels", ci=False
    )
    assert len(apart.cohort.references) == len(apart.cohort.predictions("model")) == 2
    assert float(apart["F1@0.5"]) == 1.0
    joint = cal.evaluate_maps([(labels, labels)], labels="nonzero", predictions="labels", ci=False)
    assert len(joint.cohort.predictions("model")) == 1
    mixed = cal.evaluate_maps(
        [(labels, labels)], labels="nonzero", predictions="instances", ci=False
    )
    assert len(mixed.cohort.references) == 1
    assert len(mixed.cohort.predictions("model")) == 2


def test_scores_are_painted_on_the_objects(tmp_path) -> None:
    for folder in ("refs", "preds"):
        (tmp_path / folder).mkdir()
        write_volume(tmp_path / folder / "a.npz", two_touching(), spacing=(1, 1, 2))
    (tmp_path / "s.csv").write_text("image,label,score\na,3,0.9\na,4,0.4\n")
    samples = cal.read_maps(tmp_path / "refs", {"ours": tmp_path / "preds"})
    evaluation = cal.evaluate_maps(
        samples,
        labels="instances",
        predictions="labels",
        scores=tmp_path / "s.csv",
        ci=False,
    )
    predictions = evaluation.cohort.predictions("ours")
    assert predictions.score.tolist() == [0.9, 0.4]
    assert evaluation.cohort.images.spacing.tolist() == [[1, 1, 2]]
    with pytest.raises(InputError, match="predictions='labels'"):
        samples[0].load(label_values="instances")
    assert any("scores come from" in note for note in evaluation.cohort.intake.notes)


def test_without_a_table_all_scores_are_one_and_a_note_says_so() -> None:
    labels = two_touching()
    evaluation = cal.evaluate_maps(
        [(labels, labels)], labels="instances", predictions="labels", ci=False
    )
    assert evaluation.cohort.predictions("model").score.tolist() == [1, 1]
    assert any("every object has the score 1" in note for note in evaluation.cohort.intake.notes)


def test_a_label_prediction_equals_the_same_map_of_ones() -> None:
    rng = np.random.default_rng(3)
    labels = (rng.random((12, 14)) < 0.2).astype(np.uint8)
    guess = (rng.random((12, 14)) < 0.2).astype(np.uint8)
    as_labels = cal.evaluate_maps([(guess, labels)], predictions="labels", ci=False)
    as_map = cal.evaluate_maps([(guess.astype(np.float32), labels)], ci=False)
    assert [row.estimate.value for row in as_labels.rows] == pytest.approx(
        [row.estimate.value for row in as_map.rows], nan_ok=True
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"predictions": "label"}, "did you mean 'labels'"),
        ({"scores": "s.csv"}, "maps hold their scores"),
        ({"predictions": "labels", "normalise": "minmax"}, "normalise is for maps"),
    ],
)
def test_choices_that_do_not_fit_are_usage_errors(arguments, message) -> None:
    labels = two_touching()
    with pytest.raises(UsageError, match=message):
        cal.evaluate_maps([(labels, labels)], labels="nonzero", ci=False, **arguments)


def test_maps_given_as_labels_are_refused() -> None:
    labels = two_touching()
    with pytest.raises(InputError) as error:
        cal.evaluate_maps(
            [(0.5 * (labels > 0), labels)], labels="nonzero", predictions="labels", ci=False
        )
    assert error.value.rule == "mask-values"
