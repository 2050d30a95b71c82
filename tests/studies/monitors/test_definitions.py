"""What follows from the definitions alone, with values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from calipers.studies.monitors.experiments import (
    NUMBERS_OF_CLASSES,
    all_counts,
    crowds,
    definitions,
    literal_hits,
    one_runway,
)


def test_all_counts_are_tried_once() -> None:
    counts = all_counts(2)
    assert [(c.predictions, c.references, c.hits) for c in counts] == [
        *(
            (0, 0, 0),
            (0, 1, 0),
            (0, 2, 0),
            (1, 0, 0),
            (1, 1, 0),
            (1, 1, 1),
            (1, 2, 0),
            (1, 2, 1),
            (2, 0, 0),
        ),
        *((2, 1, 0), (2, 1, 1), (2, 2, 0), (2, 2, 1), (2, 2, 2)),
    ]


def test_the_printed_score_is_lost_where_nothing_is_hit_and_nowhere_else() -> None:
    for c in all_counts():
        lost = bool(c.predictions and c.references and not c.hits)
        assert math.isnan(c.printed_score) == lost
        assert (
            c.defined_score == 0.0
            if lost
            else c.defined_score == pytest.approx(c.printed_score, abs=1e-15)
        )


def test_a_runway_that_is_hit_scores_2_of_predictions_plus_1() -> None:
    found = {(n, hit): s for n, hit, s in one_runway()}
    assert found[0, False] == 0.0
    assert [found[n, True] for n in (1, 2, 3, 7)] == pytest.approx([1.0, 2 / 3, 0.5, 0.25])
    assert all(s == 0.0 for (_, hit), s in found.items() if not hit)


def test_the_mean_over_declared_classes_hides_a_miss_and_a_confusion() -> None:
    found = definitions()
    c = np.array(NUMBERS_OF_CLASSES)
    np.testing.assert_allclose(found.missed_scores["declared"], 1 - 1 / c)
    np.testing.assert_allclose(found.confused_scores["declared"][1:], 1 - 2 / c[1:])
    for mean in ("present", "micro"):
        assert (found.missed_scores[mean] == 0.0).all()
        assert (found.confused_scores[mean][1:] == 0.0).all()


def test_one_prediction_between_two_references_is_taken_twice_by_the_literal_rule() -> None:
    references = np.array([[0.0, 0.0, 10.0, 10.0], [2.0, 0.0, 12.0, 10.0]])
    between = np.array([[1.0, 0.0, 11.0, 10.0]])
    assert literal_hits(references, between) == (2, 1, 0)
    assert literal_hits(references, references) == (2, 2, 0)
    assert literal_hits(references, between[[0, 0]]) == (2, 2, 2)  # equal IoUs match twice
    assert literal_hits(references, between + 50.0) == (0, 0, 0)
    assert literal_hits(references, np.zeros((0, 4))) == (0, 0, 0)


def test_one_to_one_matching_never_counts_more_hits_than_predictions() -> None:
    found = crowds(60, 1)
    assert found.references == 120
    assert 0 < found.twice < found.images
    assert found.hits_by_reference > found.hits_one_to_one >= found.hits_by_prediction
    assert crowds(60, 1) == found
