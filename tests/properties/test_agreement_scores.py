"""What holds for the scores of every 2x2 table, and of every pair of binary maps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import calipers as cal
from calipers.kernels import ranks

TABLES = st.tuples(*[st.integers(0, 60)] * 4).filter(any)  # n00, n01, n10, n11
SYMMETRIC = (
    "PJ",
    "PO",
    "APO",
    "HAPJ",
    "APJ",
    "AJ",
    "TAR",
    "PAR",
    "NAR",
    "PABAK",
    "AC1",
    "MCC",
    "positive_share",
)
NEAR = {"abs": 1e-12, "nan_ok": True}


def scores(n00: int, n01: int, n10: int, n11: int) -> cal.AgreementScores:
    return cal.agreement_scores(n00=n00, n01=n01, n10=n10, n11=n11)


@given(table=TABLES)
def test_aj_is_kappa_and_apj_follows_from_it(table: tuple[int, ...]) -> None:
    found, (n00, n01, n10, n11) = scores(*table), table
    n = sum(table)
    po = (n11 + n00) / n
    pe = ((n11 + n10) * (n11 + n01) + (n00 + n01) * (n00 + n10)) / n**2
    assume(pe < 1)
    assert found["AJ"] == pytest.approx((po - pe) / (1 - pe), abs=1e-12)
    assert found["APJ"] == pytest.approx(found["AJ"] / (2 - found["AJ"]), abs=1e-12)


@given(table=TABLES)
def test_scores_are_symmetric_and_stay_inside_their_limits(table: tuple[int, ...]) -> None:
    n00, n01, n10, n11 = table
    found, swapped = scores(*table), scores(n00, n10, n01, n11)
    for name in SYMMETRIC:
        assert swapped[name] == pytest.approx(found[name], **NEAR), name
    assert swapped["n0*-n1*"] == found["n*0-n*1"] == n00 + n10 - n01 - n11
    assert not found["APJ"] < -1 / 3
    assert not found["AJ"] < -1
    for name in SYMMETRIC:
        assert not found[name] > 1, name
    for name in ("PJ", "PO", "HAPJ", "TAR", "PAR", "NAR", "positive_share"):
        assert not found[name] < 0, name


@given(table=TABLES)
def test_scores_rise_when_a_disagreement_becomes_a_positive_agreement(
    table: tuple[int, ...],
) -> None:
    n00, n01, n10, n11 = table
    assume(n10 > 0)
    before, after = scores(*table), scores(n00, n01, n10 - 1, n11 + 1)
    for name in ("PJ", "PO", "APJ", "AJ", "TAR", "PAR", "positive_share"):
        assert not after[name] < before[name] - 1e-12, name


@given(table=TABLES)
def test_scores_are_undefined_exactly_where_the_rules_say(table: tuple[int, ...]) -> None:
    found, (n00, n01, n10, n11) = scores(*table), table
    n = sum(table)
    one_thing = n in (n11, n00)
    assert [bool(np.isnan(found[name])) for name in ("APJ", "AJ", "HAPJ")] == [
        one_thing,
        one_thing,
        one_thing or (n10 + n01 == 0 and n11 == max(n11 - n00, 0)),
    ]
    margins = {n11 + n10, n11 + n01}
    assert np.isnan(found["APO"]) == bool(margins & {0, n})
    if 0 in margins and min(n10, n01) == 0:
        assert np.isnan(found["PO"])
    assert not np.isnan([found[name] for name in ("TAR", "PABAK", "AC1", "positive_share")]).any()


BINARY = st.integers(2, 40).flatmap(
    lambda n: st.tuples(*[st.lists(st.booleans(), min_size=n, max_size=n)] * 3)
)


@given(rows=BINARY, seed=st.integers(0, 99))
def test_phi_is_every_correlation_of_two_binary_maps(
    rows: tuple[list[bool], ...], seed: int
) -> None:
    values = np.array(rows, float)
    ones, both, _ = ranks.joint_counts(values, np.array([0.5]))
    first, second = ranks.pair_index(3)
    n11, n10, n01 = both[0], ones[0, first] - both[0], ones[0, second] - both[0]
    n00 = values.shape[1] - n11 - n10 - n01
    phi = cal.agreement_scores(n00=n00, n01=n01, n10=n10, n11=n11)["MCC"]
    for correlation in ranks.correlations(values)[
        :3
    ]:  # ranks of two values are the values, stretched
        np.testing.assert_allclose(correlation, phi, rtol=0, atol=1e-12)
    order = np.random.default_rng(seed).permutation(values.shape[1])
    np.testing.assert_array_equal(ranks.joint_counts(values[:, order], np.array([0.5]))[1], both)


LINES = {  # what is added to (n00, n01, n10, n11) of 50 each in ten steps of 5, and where APJ ends
    "positive agreement for disagreement": ((0, -5, 0, 5), 1 / 3),
    "positive for negative agreement": ((-5, 0, 0, 5), -1 / 7),
    "one disagreement for the other": ((0, -5, 5, 0), 1 / 9),
    "disagreement for negative agreement": ((-5, 0, 5, 0), -1 / 5),
}


@pytest.mark.parametrize("line", LINES)
def test_tables_that_change_step_by_step(line: str) -> None:
    step, end = LINES[line]
    tables = 50 + np.arange(11)[:, None] * np.array(step)
    found = cal.agreement_scores(*tables.T)["APJ"]
    assert found[0] == 0
    assert found[-1] == pytest.approx(end, abs=1e-15)
    assert (np.diff(found) * end > 0).all()


@pytest.mark.parametrize("n", [2, 10, 100])
def test_the_lowest_values_are_reached_where_one_half_stands_against_the_other(n: int) -> None:
    found = scores(0, n // 2, n // 2, 0)
    assert (found["APJ"], found["AJ"]) == (-1 / 3, -1)
    one_sided = scores(0, n, 0, 0)
    assert (one_sided["APJ"], one_sided["AJ"]) == (0, 0)


@pytest.mark.parametrize("count", [1, 100])
def test_maps_that_call_everything_or_nothing(count: int) -> None:
    for table in ((count, 0, 0, 0), (0, 0, 0, count)):
        found = scores(*table)
        assert np.isnan([found[name] for name in ("APJ", "AJ", "HAPJ", "APO")]).all()
    nothing = scores(count, 0, 0, 0)
    assert np.isnan(nothing["PO"])
    assert np.isnan(nothing["PJ"])
    assert np.isnan(scores(count, 0, 2, 0)["PO"])
    assert np.isnan(scores(count, 0, 2, 0)["APO"])
    assert np.isnan(scores(0, 0, count, 2)["APO"])
