"""Corrections for several tests."""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from calipers.statistics.comparison import adjusted

P = np.array([0.01, 0.04, 0.03, 0.005, 0.5])


@pytest.mark.parametrize(
    ("correction", "expected"),
    [
        ("holm", [0.04, 0.09, 0.09, 0.025, 0.5]),
        ("bh", [0.025, 0.05, 0.05, 0.025, 0.5]),
        ("none", P.tolist()),
    ],
)
def test_worked_example(correction, expected):
    found, family = adjusted(P, correction)
    assert np.allclose(found, expected, rtol=1e-14)
    assert family == 5


def test_a_test_without_p_is_no_member_of_the_family():
    found, family = adjusted(np.array([0.02, np.nan, 0.01]), "holm")
    assert family == 2
    assert np.isnan(found[1])
    assert found[[0, 2]].tolist() == [0.02, 0.02]


@pytest.mark.parametrize("correction", ["holm", "bh", "none"])
def test_no_tests_at_all(correction):
    assert adjusted(np.array([]), correction)[1] == 0
    found, family = adjusted(np.array([np.nan]), correction)
    assert (np.isnan(found).all(), family) == (True, 0)


def test_never_above_one_and_the_input_stays():
    p = np.array([0.9, 0.8, 0.7])
    assert adjusted(p)[0].tolist() == [1.0, 1.0, 1.0]
    assert p.tolist() == [0.9, 0.8, 0.7]


def test_unknown_names_get_the_nearest():
    with pytest.raises(cal.UsageError, match="did you mean 'holm'"):
        adjusted(P, "hollm")
