"""Paired tests on evidence that can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.kernels.resampling import generator
from calipers.statistics import comparison as paired
from calipers.statistics.intervals import intervals
from calipers.statistics.support import Support
from calipers.statistics.weights import Units, bootstrap, jackknife
from shares import Ratio, Shares, sides

METRIC = Ratio()


def images(n: int) -> Units:
    return Units.of("image", None, n)


def trades_of(a, b, units, replicates=2000, seed=0):
    return paired.traded([METRIC], *sides(a, b), units, replicates, seed)[0][:, 0]


def boot_of(a, b, units, replicates=2000, seed=0):
    one, other = paired.bootstrapped([METRIC], sides(a, b), units, replicates, seed)
    return (one[0] - other[0])[:, 0]


def test_all_trades_of_three_images():
    found = trades_of([3.0, 5.0, 8.0], [2.0, 2.0, 2.0], images(3))[:, 0]
    signs = [(1 - 2 * (r & 1), 1 - (r & 2), 1 - (r & 4) // 2) for r in range(8)]
    assert np.allclose(found, [(x * 1 + y * 3 + z * 6) / 3 for x, y, z in signs], atol=1e-15)
    p = paired.permutation_p(np.array([10 / 3]), found[:, None], exact=True)
    assert p.tolist() == [2 / 8]


def test_patients_trade_all_their_images_together():
    a, b = np.arange(6.0), np.zeros(6)
    units = Units.of("patient", ["x", "y", "x", "y", "x", "x"], 6)
    found = trades_of(a, b, units)[:, 0]
    assert np.allclose(
        sorted(found), sorted([15 / 6, -15 / 6, (4 - 11) / 6, (11 - 4) / 6]), atol=1e-15
    )


def test_random_trades_when_there_are_too_many():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, 40))
    found = trades_of(a, b, images(40), 150, seed=7)[:, 0]
    signs = np.stack([1 - 2 * generator(7, r).integers(0, 2, 40) for r in range(150)])
    assert np.allclose(found, signs @ (a - b) / 40, atol=1e-14)
    d = np.array([(a - b).mean()])
    reached = (np.abs(found) >= np.abs(d)).sum()
    assert paired.permutation_p(d, found[:, None], exact=False).tolist() == [(1 + reached) / 151]


def test_both_models_see_the_same_draws():
    rng = np.random.default_rng(1)
    a = rng.normal(size=20)
    assert np.allclose(boot_of(a + 0.25, a, images(20), 100), 0.25, atol=1e-15)
    drawn = np.stack([generator(5, r).integers(0, 20, 20) for r in range(100)])
    b = rng.normal(size=20)
    assert np.allclose(
        boot_of(a, b, images(20), 100, seed=5)[:, 0], (a - b)[drawn].mean(axis=1), atol=1e-14
    )


def test_p_of_the_bootstrap_and_its_interval_agree():
    rng = np.random.default_rng(0)
    units, sides_of_zero = images(15), set()
    for shift in np.linspace(-1.0, 1.0, 21):
        d = rng.normal(shift, 1.0, 15)
        found = paired.judge(
            np.array([d.mean()]), boot_of(d, np.zeros(15), units, 400), None, units, 0.9
        )
        inside = found.intervals[0].low <= 0.0 <= found.intervals[0].high
        assert inside == (found.p[0] >= 0.1)
        sides_of_zero.add(inside)
    assert sides_of_zero == {True, False}


def test_share_p_counts_one_more():
    replicates = np.array([[-1.0], [2.0], [3.0], [4.0], [np.nan]])
    assert paired.share_p(replicates, 50).tolist() == [2 * (1 + 1) / (1 + 4)]
    assert paired.share_p(np.ones((9, 1)), 50).tolist() == [2 / 10]
    assert paired.share_p(np.zeros((9, 1)), 50).tolist() == [1.0]


@pytest.mark.parametrize(("n", "least"), [(2, 0.5), (5, 0.0625), (6, 0.03125), (1, 1.0)])
def test_no_p_below_what_so_many_units_can_show(n, least):
    assert paired.smallest_p(n) == least
    rng = np.random.default_rng(0)
    wide = 100.0 + rng.normal(size=n)
    found = trades_of(wide, np.zeros(n), images(n))
    assert paired.permutation_p(np.array([wide.mean()]), found, exact=True)[0] == least
    if n > 1:
        replicates = boot_of(wide, np.zeros(n), images(n), 200)
        assert paired.bootstrap_p(np.array([wide.mean()]), replicates, n)[0] == least
        assert paired.superiority_p(np.array([wide.mean()]), replicates, n)[0] == least / 2


@pytest.mark.parametrize("n", [1, 2, 4])
def test_few_units_have_no_interval_and_no_bootstrap_test(n):
    units, a = images(n), np.arange(1.0, n + 1)
    d, trades = np.array([a.mean()]), trades_of(a, np.zeros(n), images(n))
    by_bootstrap = paired.judge(d, np.zeros((1, 1)), None, units, 0.95)
    assert by_bootstrap.intervals[0].reason == ("one_unit" if n == 1 else "too_few_units")
    assert np.isnan(by_bootstrap.p[0])
    assert paired.judge(d, np.zeros((1, 1)), trades, units, 0.95).p[0] == 2.0 ** (1 - n)


def test_equal_models_have_no_interval_of_width_zero():
    a = np.arange(12.0)
    replicates, trades = boot_of(a, a, images(12)), trades_of(a, a, images(12))
    for given in (None, trades):
        found = paired.judge(np.zeros(1), replicates, given, images(12), 0.95)
        interval = found.intervals[0]
        assert np.isnan([interval.low, interval.high, *interval.percentile]).all()
        assert (interval.method, interval.reason) == ("none", "constant_input")
        assert "identical_units" in interval.flags
        assert found.p.tolist() == [1.0]


def test_a_constant_difference_is_as_sure_as_its_units_allow():
    a = np.arange(12.0)
    found = paired.judge(np.array([1.0]), np.ones((100, 1)), None, images(12), 0.95)
    assert found.p.tolist() == [paired.smallest_p(12)]
    below = paired.superiority_p(np.array([-1.0]), -np.ones((100, 1)), 12)
    assert below.tolist() == [1.0]
    assert len(a) == 12


def test_undefined_replicates_are_counted_and_too_many_give_a_reason():
    few = Shares(
        np.array([1.0] + [0.0] * 9), np.array([1.0] + [0.0] * 9)
    )  # one image decides alone
    replicates = boot_of(few, np.linspace(0, 1, 10), images(10), 500)
    found = paired.judge(np.array([0.5]), replicates, None, images(10), 0.95)
    assert found.intervals[0].reason == "too_many_undefined"
    assert found.intervals[0].undefined == int(np.isnan(replicates).sum()) > 100
    assert np.isnan(found.p[0])
    trades = trades_of(few, Shares(np.zeros(10), np.zeros(10)), images(10))
    judged = paired.judge(
        np.array([0.5]), boot_of(np.ones(10), np.zeros(10), images(10)), trades, images(10), 0.95
    )
    assert judged.trades_undefined.tolist() == [1024]
    assert np.isnan(judged.p[0])
    assert judged.intervals[0].reason == "too_many_undefined"


def test_bytes_and_long_weights_give_the_same(monkeypatch):
    rng = np.random.default_rng(2)
    a, b, units = *rng.normal(size=(2, 30)), Units.of("patient", rng.integers(0, 18, 30), 30)
    expected = boot_of(a, b, units, 100), trades_of(a, b, units, 100)
    for name in ("bootstrap", "swaps"):
        made = getattr(paired, name)
        monkeypatch.setattr(
            paired, name, lambda *given, made=made: (w.astype(np.int64) for w in made(*given))
        )
    assert np.array_equal(boot_of(a, b, units, 100), expected[0])
    assert np.array_equal(trades_of(a, b, units, 100), expected[1])


@pytest.mark.parametrize(
    ("low", "high", "higher", "verdict"),
    [
        (-0.01, 0.015, True, "equivalent"),
        (-0.01, 0.05, True, "a_not_inferior"),
        (-0.05, 0.01, True, "b_not_inferior"),
        (-0.05, 0.05, True, "not_shown"),
        (0.03, 0.05, True, "a_superior"),
        (-0.05, -0.03, True, "b_superior"),
        (-0.02, 0.01, True, "b_not_inferior"),  # the margin itself is not inside
        (-0.01, 0.05, False, "b_not_inferior"),
        (0.03, 0.05, False, "b_superior"),
        (np.nan, np.nan, True, "not_shown"),
    ],
)
def test_margins(low, high, higher, verdict):
    assert paired.against_margin(low, high, 0.02, higher_is_better=higher) == verdict


def test_units_alone():
    shares = Shares(np.array([1.0, 2.0, 3.0, 0.0]), np.array([1.0, 4.0, 3.0, 0.0]))
    units = Units.of("patient", ["b", "a", "b", "c"], 4)
    found = paired.alone(METRIC, shares, units)[:, 0, 0]
    assert found[:2].tolist() == [0.5, 1.0]
    assert np.isnan(found[2])


def test_many_units_alone_come_in_blocks():
    values = np.arange(150.0)
    order = np.random.default_rng(0).permutation(150)
    found = paired.alone(METRIC, Shares.of(values), Units.of("image", order, 150))
    assert found[:, 0, 0].tolist() == values[np.argsort(order)].tolist()


@pytest.mark.parametrize(
    ("test", "n", "expected"),
    [("bootstrap", 4, 32), ("permutation", 10, 16), ("permutation", 17, 32)],
)
def test_blocks_are_known_beforehand(test, n, expected):
    seen = []
    units = images(n)
    given = ([METRIC], sides(np.arange(n), np.zeros(n)))
    if test == "bootstrap":
        paired.bootstrapped(*given, units, 2000, 0, progress=lambda: seen.append(1))
    else:
        paired.traded(given[0], *given[1], units, 2000, 0, progress=lambda: seen.append(1))
    assert len(seen) == paired.n_blocks(test, units, 2000) == expected


def rejections(n_units: int, shift: float, sims: int = 500) -> np.ndarray:
    """Return how often bootstrap, permutation and two separate intervals tell two models on common
    units apart.

    Each patient has its own difficulty, which both models meet; the second is better by ``shift``
    on the log odds.
    """
    rng, rejected = np.random.default_rng(8), np.zeros(3)
    n, units = 3 * n_units, Units.of("patient", np.repeat(np.arange(n_units), 3), 3 * n_units)
    for sim in range(sims):
        hard = np.repeat(rng.normal(0.0, 1.0, n_units), 3)
        under = rng.integers(2, 12, n)
        a, b = (
            Shares(
                rng.binomial(under, 1 / (1 + np.exp(better - hard))).astype(float),
                under.astype(float),
            )
            for better in (0.0, -shift)
        )
        each = [
            values[0][:, 0]
            for values in paired.bootstrapped([METRIC], sides(a, b), units, 300, sim)
        ]
        theta = [METRIC.value(x, np.ones((1, n)))[0, 0] for x in (a, b)]
        given = (theta[0] - theta[1], each[0] - each[1])
        boot = paired.judge(*given, None, units, 0.95)
        swap = paired.judge(*given, trades_of(a, b, units, 300, sim), units, 0.95)
        one, other = (intervals(t, x, [Support(n_units)])[0] for t, x in zip(theta, each))
        rejected += boot.p[0] < 0.05, swap.p[0] < 0.05, one.low > other.high or other.low > one.high
    return rejected / sims


@pytest.mark.slow
@pytest.mark.parametrize("n_units", [12, 40])
def test_paired_tests_keep_their_size_and_unpaired_ones_waste_it(n_units):
    boot, swap, unpaired = rejections(n_units, 0.0)
    assert 0.02 <= boot <= 0.085
    assert 0.01 <= swap <= 0.085  # counts are discrete: ties make an exact test careful
    assert unpaired <= 0.015


@pytest.mark.slow
def test_paired_tests_see_more_than_unpaired_ones():
    boot, swap, unpaired = rejections(20, 0.4, sims=200)
    assert boot > unpaired + 0.3
    assert swap > unpaired + 0.3


def test_a_difference_in_few_units_has_few_degrees_of_freedom() -> None:
    """A mean of 40 units has the textbook's error; if four units carry it, it is uncertain."""
    random, units = np.random.default_rng(3), Units.of("image", None, 40)
    even, uneven = random.uniform(-1.0, 1.0, 40), np.zeros(40)
    uneven[:4] = (1.0, -1.0, 1.0, -1.0)
    effects = np.stack([even, uneven], axis=1)
    weights = np.concatenate(list(bootstrap(units, 2000, 7))).astype(float)
    without = np.concatenate(list(jackknife(units))).astype(float)
    d, replicates = effects.mean(axis=0), weights @ effects / 40
    left_out = without @ effects / 39
    error = paired.standard_error(d, replicates, units, left_out)
    np.testing.assert_allclose(error, effects.std(axis=0, ddof=1) / np.sqrt(40))
    freedom = paired.effective_freedom(replicates, error, units, 7)
    assert freedom[0] == 39.0  # flatter than the normal distribution: no more than of the units
    # The kurtosis of four units of 40 is 10.
    assert freedom[1] == pytest.approx(2 / (7 / 40 + 2 / 39), rel=0.15)
    tests = paired.judge(d, replicates, None, units, 0.95, seed=7, left_out=left_out)
    for k, interval in enumerate(tests.intervals):
        assert (interval.low > 0 or interval.high < 0) == (tests.p[k] < 0.05)


def test_the_error_of_a_metric_in_steps_is_the_root_mean_square_of_both() -> None:
    """Values that jump when one of the units goes: the jackknife sees ten times the spread."""
    units, random = Units.of("image", None, 30), np.random.default_rng(5)
    replicates, d = random.normal(0.0, 1.0, (400, 3)), np.array([0.5, 0.5, 0.0])
    left_out = random.normal(0.0, 2.0, (30, 3))
    left_out[:, 2] = 0.0  # no unit moves it: the bootstrap alone
    boot = paired.standard_error(d, replicates, units)
    alone = paired.standard_error(d, replicates, units, left_out)
    both = paired.standard_error(d, replicates, units, left_out, np.array([True, False, True]))
    assert alone[0] > 5 * boot[0]
    np.testing.assert_allclose(
        both, [np.sqrt((boot[0] ** 2 + alone[0] ** 2) / 2), alone[1], boot[2]]
    )
    tests = paired.judge(
        d, replicates, None, units, 0.95, left_out=left_out, in_steps=np.array([True, False, True])
    )
    np.testing.assert_allclose(tests.steps, d / both)
