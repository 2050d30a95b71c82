"""2x2 tables: published values, a plain twin, weights, and every way of being undefined."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import calipers as cal
from calipers.kernels import agreement, roc
from reference import contingency as plain

COLUMNS = ("po", "kappa", "Scott-pi", "alpha", "PABAK", "AC1", "PAR", "NAR", "PJ", "AJ", "APJ")
# n11, n10, n01, n00 and the scores in the order of COLUMNS, to four digits
TABLES = [
    (
        (40, 9, 6, 45),
        (0.85, 0.6995, 0.6992, 0.7008, 0.70, 0.7007, 0.8421, 0.8571, 0.7273, 0.6995, 0.5379),
    ),
    (
        (80, 10, 5, 5),
        (0.85, 0.3182, 0.3143, 0.3177, 0.70, 0.8080, 0.9143, 0.4000, 0.8421, 0.3182, 0.1892),
    ),
    (
        (118, 5, 2, 0),
        (0.944, -0.0234, -0.0288, -0.0247, 0.888, 0.9408, 0.9712, 0, 0.944, -0.0234, -0.0116),
    ),
    ((40, 10, 10, 40), (0.8, 0.6, 0.6, 0.602, 0.6, 0.6, 0.8, 0.8, 0.6667, 0.6, 0.4286)),
    (
        (40, 30, 30, 0),
        (0.4, -0.4286, -0.4286, -0.4214, -0.2, -0.0345, 0.5714, 0, 0.4, -0.4286, -0.1765),
    ),
    (
        (40, 20, 20, 20),
        (0.6, 0.1667, 0.1667, 0.1708, 0.2, 0.2308, 0.6667, 0.5, 0.5, 0.1667, 0.0909),
    ),
    ((40, 5, 35, 20), (0.6, 0.2381, 0.1667, 0.1708, 0.2, 0.2308, 0.6667, 0.5, 0.5, 0.2381, 0.1351)),
    ((0, 50, 50, 0), (0, -1, -1, -0.99, -1, -1, 0, 0, 0, -1, -0.3333)),
]


def scores(n11, n10, n01, n00):
    return cal.agreement_scores(n00=n00, n01=n01, n10=n10, n11=n11)


@pytest.mark.parametrize(("table", "expected"), TABLES)
def test_published_tables(table, expected):
    found = scores(*table)
    assert [found[name] for name in COLUMNS] == pytest.approx(expected, abs=5.1e-5)


@pytest.mark.parametrize(
    ("n00", "n01", "n10", "n11", "expected"),
    [
        (40, 10, 10, 40, (0.6667, 0.8, 0.6, 0.6667, 0.4286, 0.6)),
        (0, 30, 30, 40, (0.4, 0.5714, -0.4286, 0, -0.1765, -0.4286)),
        (20, 20, 20, 40, (0.5, 0.6667, 0.1667, 0.3333, 0.0909, 0.1667)),
        (20, 35, 5, 40, (0.5, 0.8889, 0.5556, 0.3333, 0.1351, 0.2381)),
    ],
)
def test_scores_of_repeated_trainings(n00, n01, n10, n11, expected):
    found = cal.agreement_scores(n00, n01, n10, n11)
    names = ("PJ", "PO", "APO", "HAPJ", "APJ", "AJ")
    assert [found[name] for name in names] == pytest.approx(expected, abs=5.1e-5)


def test_exact_values():
    assert cal.agreement_scores(0, 9, 1, 0)["APO"] == -9
    assert cal.agreement_scores(0, 50, 50, 0)["APJ"] == -1 / 3
    assert cal.agreement_scores(0, 7, 0, 0)["APJ"] == cal.agreement_scores(0, 7, 0, 0)["AJ"] == 0
    found = scores(40, 5, 35, 20)
    assert (found["n0*-n1*"], found["n*0-n*1"]) == (10, -50)
    assert found["positive_share"] == 0.4
    assert found["PAR-NAR"] == found["PAR"] - found["NAR"]
    assert (found["sensitivity"], found["PPV"]) == (40 / 75, 40 / 45)


def test_every_small_table_equals_its_plain_twin():
    tables = np.array([t for t in itertools.product(range(5), repeat=4) if sum(t)], float)
    found = scores(*tables.T)
    for name, twin in plain.SCORES.items():
        expected = [twin(*map(int, table)) for table in tables]
        assert found[name] == pytest.approx(
            np.array([math.nan if value is None else value for value in expected]),
            abs=1e-12,
            nan_ok=True,
        ), name
    assert {agreement.SCORES[name] for name in plain.SCORES} | {agreement.agreement_gap} == set(
        agreement.SCORES.values()
    )


def test_identities_and_ranges():
    tables = np.random.default_rng(0).integers(0, 60, (4, 500)).astype(float)
    found = scores(*tables)
    kappa, apj = found["AJ"], found["APJ"]
    assert apj == pytest.approx(kappa / (2 - kappa), abs=1e-12)
    assert np.nanmin(apj) >= -1 / 3
    assert found["alpha"] == pytest.approx(
        1 - (1 - found["Scott-pi"]) * (1 - 1 / (2 * tables.sum(axis=0)))
    )
    swapped = scores(tables[0], tables[2], tables[1], tables[3])
    for name in ("kappa", "Scott-pi", "alpha", "AC1", "MCC", "PJ", "APO", "APJ", "HAPJ", "PO"):
        assert swapped[name] == pytest.approx(found[name], nan_ok=True)
    assert swapped["bias-index"] == pytest.approx(-found["bias-index"])
    turned = scores(tables[3], tables[2], tables[1], tables[0])  # positive and negative trade names
    for name in ("kappa", "Scott-pi", "alpha", "AC1", "MCC", "PABAK"):
        assert turned[name] == pytest.approx(found[name], nan_ok=True)
    assert turned["PAR"] == pytest.approx(found["NAR"])


@pytest.mark.parametrize("cell", [0, 3])
def test_one_category_leaves_only_what_needs_no_chance(cell):
    counts = [0, 0, 0, 0]
    counts[cell] = 100
    found = scores(*counts)
    assert (found["po"], found["AC1"], found["PABAK"]) == (1, 1, 1)
    for name in (
        "kappa",
        "Scott-pi",
        "alpha",
        "MCC",
        "APJ",
        "AJ",
        "HAPJ",
        "APO",
        "balanced-accuracy",
    ):
        assert math.isnan(found[name]), name


def test_no_things_at_all():
    found = scores(0, 0, 0, 0)
    assert all(
        math.isnan(value) for name, value in found.as_dict().items() if not name.startswith("n")
    )


def test_large_counts_stay_defined_where_they_are():
    n = 3_000_000_001
    assert math.isnan(scores(n, 0, 0, 0)["AJ"])
    assert math.isnan(scores(n - 5, 5, 0, 0)["APO"])
    assert scores(n, 0, 0, n)["AJ"] == 1


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((1, 2, 3, -1), "not negative.*n11 has -1"),
        ((1, math.nan, 3, 1), "finite"),
        (([1, 2], 1, 1, 1), "one shape"),
        (("many", 1, 1, 1), "numbers"),
    ],
)
def test_counts_are_checked(counts, said):
    with pytest.raises(cal.UsageError, match=said):
        cal.agreement_scores(*counts)


def test_a_misspelt_score_is_answered_with_the_nearest():
    with pytest.raises(cal.UsageError, match="did you mean 'kappa'"):
        scores(1, 2, 3, 4)["kapa"]


def test_weights_count_like_copies():
    rng = np.random.default_rng(1)
    first, second = rng.random((40, 3)) < 0.5, rng.random(40) < 0.6
    weights = rng.integers(0, 4, (5, 40))
    found = agreement.tally(weights, first, second)
    for b, c in itertools.product(range(5), range(3)):
        copies = np.repeat(np.arange(40), weights[b])
        a, r = first[copies, c], second[copies]
        expected = [(a & r).sum(), (a & ~r).sum(), (~a & r).sum(), (~a & ~r).sum()]
        assert [cell[b, c] for cell in found] == expected


def area_by_pairs(values, positive, weights):
    total = right = 0.0
    for i, j in itertools.product(np.flatnonzero(positive), np.flatnonzero(~positive)):
        pair = weights[i] * weights[j]
        total += pair
        right += pair * (1.0 if values[i] > values[j] else 0.5 if values[i] == values[j] else 0.0)
    return right / total if total else math.nan


def cut_by_trying(values, positive, weights):
    """The largest Youden index over all cuts and the lowest cut that has it."""
    best = None
    for cut in sorted(set(values)):
        accepted = values >= cut
        hits, rejected = weights[accepted & positive].sum(), weights[~accepted & ~positive].sum()
        p, n = int(weights[positive].sum()), int(weights[~positive].sum())
        key = int(hits) * n + int(rejected) * p
        if best is None or key > best[0]:
            best = (key, cut, hits / p + rejected / n - 1)
    return best[1:]


@pytest.mark.parametrize("digits", [0, 1, 6])
def test_area_and_best_cut_under_weights(digits):
    rng = np.random.default_rng(digits)
    values, positive = np.round(rng.random(30), digits), rng.random(30) < 0.4
    weights = rng.integers(0, 3, (6, 30))
    ranks = roc.Cuts.of(values)
    found = roc.Operating.under(ranks, positive, weights)
    cuts = found.best_youden()
    for b in range(6):
        assert found.auroc()[b] == pytest.approx(
            area_by_pairs(values, positive, weights[b]), abs=1e-14
        )
        cut, height = cut_by_trying(values, positive, weights[b])
        assert ranks.threshold[cuts[b]] == cut
        assert found.youden()[cuts[b], b] == pytest.approx(height, abs=1e-14)


def test_area_needs_both_kinds():
    found = roc.operating(np.arange(3.0), np.array([True, True, True]), np.ones((1, 3), int))
    assert np.isnan(found.auroc()).all()
    assert np.isnan(found.youden()).all()


def test_area_of_a_constant_is_half():
    positive = np.array([True, False, True, False])
    found = roc.operating(np.ones(4), positive, np.ones((1, 4), int))
    assert found.auroc().tolist() == [0.5]
