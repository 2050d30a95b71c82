"""Several raters: a plain twin, copies as weights, missing ratings, and what cannot be said."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.agreement.estimates import Resampling
from calipers.agreement.raters import Panel, coefficients, partial_agreement, rater_agreement
from calipers.statistics.weights import Units
from reference import raters as plain
from seeds import looped

N = None
# Krippendorff's example of four raters and twelve items
FOUR = [
    [1, 1, N, 1],
    [2, 2, 3, 2],
    [3, 3, 3, 3],
    [3, 3, 3, 3],
    [2, 2, 2, 2],
    [1, 2, 3, 4],
    [4, 4, 4, 4],
    [1, 1, 2, 1],
    [2, 2, 2, 2],
    [N, 5, 5, 5],
    [N, N, 1, 1],
    [N, N, 3, N],
]


def panel(items, scale="nominal", q=None, lowest=1, **options):
    codes = np.array(
        [[-1 if rating is None else rating - lowest for rating in item] for item in items]
    )
    q = q or codes.max() + 1
    return Panel(codes, np.arange(q) + float(lowest), scale, **options)


def point(found):
    return {
        name: float(value[0])
        for name, value in coefficients(found, np.ones((1, len(found.codes)), int)).items()
    }


def resampling(n, units=None, replicates=200):
    return Resampling(
        Units.of("item" if units is None else "patient", units, n), replicates, 0, 0.95
    )


def test_published_values():
    found = point(panel(FOUR))
    assert found["AC1"] == pytest.approx(0.77544, abs=5e-6)
    assert found["Fleiss"] == pytest.approx(0.76117, abs=5e-6)
    assert found["Conger"] == pytest.approx(0.76282, abs=5e-6)
    assert found["alpha"] == pytest.approx(0.743421, abs=5e-7)
    assert point(panel(FOUR, "ordinal"))["alpha"] == pytest.approx(0.815388, abs=5e-7)
    assert point(panel(FOUR, "interval"))["alpha"] == pytest.approx(0.849107, abs=5e-7)


@pytest.mark.parametrize("scale", ["nominal", "ordinal", "interval"])
@looped("seed", range(10))
def test_plain_twin(scale, seed):
    rng = np.random.default_rng(seed)
    base = rng.integers(1, 5, (15, 1))
    ratings = np.where(rng.random((15, 4)) < 0.6, base, rng.integers(1, 5, (15, 4)))
    items = [[None if rng.random() < 0.2 else int(rating) for rating in row] for row in ratings]
    found, categories = point(panel(items, scale, q=4)), [1, 2, 3, 4]
    matrix = partial_agreement(scale, np.arange(1.0, 5.0))

    def partial(a, b):
        return matrix[a - 1, b - 1]

    assert found["po"] == pytest.approx(plain.observed(items, partial))
    assert found["alpha"] == pytest.approx(plain.alpha(items, scale))
    assert found["Fleiss"] == pytest.approx(plain.fleiss(items, categories, partial))
    assert found["Conger"] == pytest.approx(plain.conger(items, categories, partial))
    assert found["AC1" if scale == "nominal" else "AC2"] == pytest.approx(
        plain.gwet(items, categories, partial)
    )


@pytest.mark.parametrize("scale", ["nominal", "ordinal", "interval"])
def test_weights_count_like_copies(scale):
    weights = np.array([[2, 1, 0, 3, 1, 1, 1, 0, 2, 1, 1, 1]])
    whole = panel(FOUR, scale, q=5)
    copies = Panel(np.repeat(whole.codes, weights[0], axis=0), whole.values, scale)
    found, expected = coefficients(whole, weights), point(copies)
    assert {name: float(value[0]) for name, value in found.items()} == pytest.approx(expected)


def test_partial_agreement_by_hand():
    ordinal = np.array([[1, 2 / 3, 0], [2 / 3, 1, 2 / 3], [0, 2 / 3, 1]])
    assert partial_agreement("ordinal", np.arange(3.0)) == pytest.approx(ordinal)
    assert partial_agreement("interval", np.array([0.0, 1.0, 4.0]))[0].tolist() == [1, 15 / 16, 0]
    assert partial_agreement("nominal", np.arange(2.0)).tolist() == [[1, 0], [0, 1]]


def test_order_of_raters_and_items_plays_no_part():
    rng = np.random.default_rng(0)
    whole = panel(FOUR)
    shuffled = Panel(
        whole.codes[rng.permutation(12)][:, rng.permutation(4)], whole.values, "nominal"
    )
    assert point(shuffled) == pytest.approx(point(whole))


def test_one_category_is_no_evidence_beyond_chance():
    rows, _ = rater_agreement(panel([[1, 1, 1]] * 8, q=2), resampling(8), "m")
    found = {row.metric: row.estimate for row in rows}
    assert (found["po"].value, found["AC1"].value) == (1, 1)
    for name in ("alpha", "Fleiss", "Conger"):
        assert found[name].value != found[name].value
        assert found[name].reason == "single_category"


def test_raters_without_names_have_no_conger():
    assert "Conger" not in point(panel(FOUR, named=False))
    assert point(panel(FOUR, named=False))["Fleiss"] == point(panel(FOUR))["Fleiss"]


def test_rows_say_what_stands_behind_them():
    rows, flags = rater_agreement(panel(FOUR), resampling(12), "m")
    assert [row.metric for row in rows] == ["po", "alpha", "Fleiss", "AC1", "Conger"]
    for row in rows:
        one = row.estimate
        assert row.group == {"raters": "4", "scale": "nominal"}
        assert (one.n_images, one.n_predictions, one.unit, one.n_units) == (11, 40, "item", 12)
        assert -1 <= one.low <= one.value <= one.high <= 1
    assert flags == set()


def test_items_of_a_patient_are_drawn_together():
    items = FOUR * 5
    alone, _ = rater_agreement(panel(items), resampling(60), "m")
    together, flags = rater_agreement(
        panel(items), resampling(60, np.repeat(np.arange(6), 10)), "m"
    )
    assert together[1].estimate.unit == "patient"
    assert together[1].estimate.n_units == 6
    assert "few_units" in flags
    widths = [row.estimate.high - row.estimate.low for row in (alone[1], together[1])]
    assert widths[0] != widths[1]


def test_few_units_get_no_interval():
    rows, _ = rater_agreement(panel(FOUR[:4]), resampling(4), "m")
    assert {row.estimate.reason for row in rows} == {"too_few_units"}
    assert all(row.estimate.low != row.estimate.low for row in rows)
