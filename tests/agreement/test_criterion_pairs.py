"""Two criteria on the same ratings: what is compared with what, and differences of areas against
hand-made ones.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import calipers as cal
from calipers.agreement.decisions import Decision, comparable_pairs


def test_only_like_thresholds_are_compared():
    a, b = [Decision("a", t) for t in (0, 0.5)], [Decision("b", t) for t in (0.5, 0.7)]
    assert comparable_pairs([*a, *b]) == [(1, 2)]
    assert comparable_pairs([*a, Decision("c", None)]) == [(0, 2), (1, 2)]


def rivals(n_useful, n_other, seed=0):
    """Two criteria, one rating per image, of which few are not useful."""
    rng = np.random.default_rng(seed)
    useful = np.arange(n_useful + n_other) < n_useful
    noise = rng.random((2, len(useful)))
    return {
        "rating": useful.astype(int),
        **dict(zip(("box-iou", "mask-iou"), (noise + 0.2 * useful) / 1.2)),
    }


def area_difference(table, **options):
    found = cal.agreement(table, replicates=200, **options)
    return next(entry for entry in found.comparisons if entry.metric == "AUROC")


def test_p_of_an_area_difference_and_its_interval_agree():
    """Seven units of the rarer rating: the share of replicates beyond 0 would be bolder than the t
    interval.
    """
    sides = set()
    for seed in range(40):
        entry = area_difference(rivals(7, 7, seed), level=0.8)
        if entry.reason == "constant_input":  # both areas agree in every replicate
            assert (entry.difference, entry.p, np.isnan(entry.low)) == (0.0, 1.0, True)
            continue
        inside = entry.low <= 0.0 <= entry.high
        assert inside == (entry.p >= 0.2), seed
        assert entry.p >= 2 / 2**7
        sides.add(inside)
    assert sides == {True, False}


def test_the_rarer_rating_sets_the_freedom_of_area_differences():
    table = rivals(54, 6)
    entry = area_difference(table)
    values = []
    for b in range(200):
        drawn = np.random.Generator(np.random.Philox(key=[0, b])).integers(0, 60, 60)
        r = table["rating"][drawn] == 1
        if not r.all():
            a, o = (
                (table[name][drawn][r][:, None] > table[name][drawn][~r]).mean()
                for name in ("box-iou", "mask-iou")
            )
            values.append(a - o)
    error = np.std(values, ddof=1) * math.sqrt(6 / 5)
    assert entry.high - entry.difference == pytest.approx(stats.t.ppf(0.975, 5) * error)
    assert entry.p == pytest.approx(max(2 / 2**6, 2 * stats.t.sf(abs(entry.difference) / error, 5)))


@pytest.mark.parametrize("n_other", [1, 4])
def test_areas_over_too_few_units_of_a_rating_are_not_tested(n_other):
    entry = area_difference(rivals(30, n_other))
    assert entry.reason == "too_few_units"
    assert math.isfinite(entry.difference)
    assert math.isnan(entry.low)
    assert math.isnan(entry.p)
