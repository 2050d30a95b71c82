"""Families without networks: the same for the same seed, other lesions for other folds, and what
they are made for.
"""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from calipers.studies.stability.data import (
    FOLDS,
    MAX,
    MODELS,
    NOR,
    OPERATORS,
    PASCAL,
    RECIPES,
    TABLE_VII,
    XRAY,
    cells,
    folds,
    identical_bags,
    scattered_bags,
    simulate_bags,
)


def test_every_cell_of_table_vii_has_a_recipe() -> None:
    assert cells() == list(TABLE_VII)
    assert all(len(recipes) == len(OPERATORS) for recipes in RECIPES.values())


def test_the_same_seed_gives_the_same_maps_and_operators_share_their_lesions() -> None:
    one, again, other = (simulate_bags(XRAY, operator, 6, 3) for operator in (NOR, NOR, MAX))
    for a, b, c in zip(one.maps, again.maps, other.maps):
        np.testing.assert_array_equal(a, b)
        assert not np.array_equal(a, c)
    for a, c in zip(one.instances, other.instances):
        np.testing.assert_array_equal(a, c)
    assert not np.array_equal(one.maps[0], simulate_bags(XRAY, NOR, 6, 4).maps[0])
    assert len(one.models) == MODELS
    assert one.positive.tolist() == [True] * 6 + [False] * 6


def test_folds_have_other_bags_and_values_that_are_shares() -> None:
    found = folds(PASCAL, NOR, 12, 0)
    assert len(found) == FOLDS
    assert len({fold.dice for fold in found}) == FOLDS
    assert all(0 <= value <= 1 for fold in found for value in (fold.auc, fold.dice, fold.accuracy))


def test_one_model_five_times_is_perfectly_stable() -> None:
    found = cal.stability(identical_bags(simulate_bags(XRAY, NOR, 8, 0)), ci=False)
    assert found["APJ"].value == pytest.approx(1)
    assert found.called().some == 0


def test_independent_errors_at_the_right_place_are_good_and_not_stable() -> None:
    found = cal.stability(scattered_bags(40, 0), ci=False)
    assert found.localized.mean("DICE") == pytest.approx(0.7, abs=0.02)
    # two models share 0.7^2 of the lesion and 0.1^2 of the rest: n11 = 33.28 of 64 calls each, of
    # 256
    assert found["APJ"].value == pytest.approx((33.28 - 16) / (94.72 - 16), abs=0.02)
