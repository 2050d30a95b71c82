"""Weights of units: the draws of every replicate, clusters, strata, two levels, jackknife,
swaps.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from calipers.errors import UsageError
from calipers.kernels.resampling import generator
from calipers.statistics import weights as w
from calipers.statistics.weights import Units, units_of
from reference import resampling

both_routes = pytest.mark.usefixtures("kernel_route")


def all_of(blocks) -> np.ndarray:
    return np.concatenate(list(blocks))


@both_routes
@pytest.mark.parametrize("seed", [0, 1, 12345, 2**40])
def test_a_replicate_is_the_count_of_its_own_random_draws(seed: int) -> None:
    for n in (1, 2, 7, 100):
        found = all_of(w.bootstrap(Units.of("image", None, n), 70, seed))
        assert found.shape == (70, n)
        np.testing.assert_array_equal(found, [resampling.draws(seed, b, n) for b in range(70)])


@both_routes
def test_replicates_do_not_depend_on_how_many_there_are_or_on_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    units = Units.of("patient", np.arange(90) // 3, 90)
    many = all_of(w.bootstrap(units, 300, 3))
    np.testing.assert_array_equal(all_of(w.bootstrap(units, 65, 3)), many[:65])
    assert [len(block) for block in w.bootstrap(units, 300, 3)] == [64, 64, 64, 64, 44]
    monkeypatch.setattr(w, "BLOCK", 7)
    np.testing.assert_array_equal(all_of(w.bootstrap(units, 300, 3)), many)
    assert not (all_of(w.bootstrap(units, 300, 4)) == many).all()


@pytest.mark.parametrize(("a", "b"), [(0, 1), (2**63, 2**63 + 1), (2**64 - 2, 2**64 - 1)])
def test_every_seed_has_its_own_numbers(a: int, b: int) -> None:
    one, other = (generator(seed, 0).integers(0, 2**60, 4) for seed in (a, b))
    assert (one != other).all()


@pytest.mark.parametrize("seed", [-1, 2**64, 2**70])
def test_a_seed_that_does_not_fit_is_refused(seed: int) -> None:
    with pytest.raises(UsageError, match="a seed is a whole number from 0"):
        next(w.bootstrap(Units.of("image", None, 5), 10, seed))


@both_routes
def test_images_of_a_unit_share_their_weight() -> None:
    patient = np.array(["b", "a", "c", "a", "b", "b"])
    found = all_of(w.bootstrap(Units.of("patient", patient, 6), 100, 0))
    of_units = np.array([resampling.draws(0, b, 3) for b in range(100)])
    np.testing.assert_array_equal(
        found, of_units[:, [1, 0, 2, 0, 1, 1]]
    )  # units are numbered in the order of names


@both_routes
def test_strata_keep_their_number_of_units() -> None:
    centre = np.repeat(["A", "B", "C"], [8, 12, 20])
    patient = np.arange(40) // 2
    units = units_of({"centre": centre, "patient": patient}, 40, "patient", "centre")
    assert (units.name, units.number, units.n_strata, units.freedom) == ("patient", 20, 3, 17)
    found = all_of(w.bootstrap(units, 200, 1))
    assert (found[:, ::2] == found[:, 1::2]).all()
    for name, n in (("A", 8), ("B", 12), ("C", 20)):
        assert (found[:, centre == name].sum(axis=1) == n).all()
    assert (found.std(axis=0) > 0).all()


@both_routes
def test_in_two_levels_a_centre_comes_or_goes_with_all_its_patients() -> None:
    centre, patient = np.repeat(np.arange(6), 10), np.arange(60) // 2
    units = units_of({"centre": centre, "patient": patient}, 60, ("centre", "patient"))
    assert (units.name, units.number, units.n_drawn) == ("centre", 6, 30)
    found = all_of(w.bootstrap(units, 300, 1))
    assert (found[:, ::2] == found[:, 1::2]).all()
    per_patient = found[:, ::2].reshape(300, 6, 5)
    # Whole copies of a centre: drawing its patients again would count their spread twice.
    assert (per_patient == per_patient[:, :, :1]).all()
    assert (per_patient[:, :, 0].sum(axis=1) == 6).all()
    centres = all_of(w.bootstrap(Units.of("centre", centre, 60), 300, 1))
    np.testing.assert_array_equal(found, centres)


def test_two_levels_have_the_spread_of_a_mean_over_centres() -> None:
    """With 6 centres and no difference between them, drawing patients again had 1.4 times it."""
    random = np.random.default_rng(11)
    centre, patient = np.repeat(np.arange(6), 20), np.arange(120)
    units = units_of({"centre": centre, "patient": patient}, 120, ("centre", "patient"))
    weights = all_of(w.bootstrap(units, 400, 3)).astype(float)
    errors, means = [], []
    for _ in range(300):
        value = random.standard_normal(120)
        errors.append((weights @ value / 120).var(ddof=1) * 6 / 5)
        means.append(value.mean())
    assert np.mean(errors) / np.var(means) == pytest.approx(1.0, abs=0.2)


def test_two_level_moments_are_those_of_the_slow_twin() -> None:
    parent = np.repeat(np.arange(4), [1, 2, 4, 5])
    units = Units.within(("centre", "patient"), parent, np.arange(12), nested=True)
    found = all_of(w.bootstrap(units, 4000, 0)).astype(float)
    random = np.random.default_rng(0)
    slow = np.array([resampling.two_level(parent.tolist(), random) for _ in range(4000)], float)
    error = np.sqrt((found.var(axis=0) + slow.var(axis=0)) / 4000)
    assert (np.abs(found.mean(axis=0) - slow.mean(axis=0)) < 4.5 * error).all()
    np.testing.assert_allclose(np.cov(found.T), np.cov(slow.T), atol=0.35)
    # Two units of one centre go together, two of different centres against each other.
    assert np.cov(found.T)[7, 8] > 0 > np.cov(found.T)[1, 8]


def test_the_same_name_in_two_parents_is_two_units() -> None:
    groups = {"centre": np.array(["A", "A", "B", "B"]), "patient": np.array(["1", "2", "1", "2"])}
    assert units_of(groups, 4, "patient").number == 2
    assert units_of(groups, 4, "patient", "centre").number == 4
    assert units_of(groups, 4, ("centre", "patient")).n_drawn == 4


def test_the_jackknife_leaves_out_one_unit_after_the_other() -> None:
    code = np.arange(200) % 70
    found = all_of(w.jackknife(Units.of("patient", code, 200)))
    np.testing.assert_array_equal(found, code[None] != np.arange(70)[:, None])
    nested = Units.within(("centre", "patient"), code % 7, code, nested=True)
    np.testing.assert_array_equal(
        all_of(w.jackknife(nested)), (code % 7)[None] != np.arange(7)[:, None]
    )


@pytest.mark.parametrize("n", [1, 2, 5, 10, 16])
def test_few_units_trade_places_in_every_way_beginning_with_none(n: int) -> None:
    units = Units.of("patient", np.arange(2 * n) // 2, 2 * n)
    assert w.exact_swaps(units)
    found = all_of(w.swaps(units, 100, 0))
    assert len(found) == 2**n
    assert not found[0].any()
    assert (found[:, ::2] == found[:, 1::2]).all()
    assert set(map(tuple, found[:, ::2].tolist())) == resampling.every_swap(n)


def test_many_units_trade_places_at_random() -> None:
    units = Units.of("image", None, 17)
    assert not w.exact_swaps(units)
    found = all_of(w.swaps(units, 3000, 5))
    assert found.shape == (3000, 17)
    assert set(np.unique(found)) == {0, 1}
    assert (np.abs(found.mean(axis=0) - 0.5) < 4.5 * 0.5 / np.sqrt(3000)).all()
    np.testing.assert_array_equal(all_of(w.swaps(units, 100, 5)), found[:100])


@pytest.mark.parametrize("cluster", ["image", "patient", ("centre", "patient")])
@pytest.mark.parametrize("strata", [None, "centre"])
def test_units_of_some_images_are_those_of_these_images_alone(cluster, strata) -> None:
    if strata and not isinstance(cluster, str):
        pytest.skip("two levels have no strata")
    random = np.random.default_rng(2)
    patient = random.integers(0, 25, 60)
    groups = {"patient": patient, "centre": patient % 4}
    images = np.sort(random.choice(60, 33, replace=False))
    taken = units_of(groups, 60, cluster, strata).take(images)
    alone = units_of({name: column[images] for name, column in groups.items()}, 33, cluster, strata)
    assert (taken.name, taken.number, taken.n_drawn, taken.n_strata) == (
        (alone.name, alone.number, alone.n_drawn, alone.n_strata)
    )
    np.testing.assert_array_equal(taken.code, alone.code)
    np.testing.assert_array_equal(
        all_of(w.bootstrap(taken, 70, 3)), all_of(w.bootstrap(alone, 70, 3))
    )


def test_the_claim_in_words() -> None:
    groups = {"patient": np.arange(12) // 2, "centre": np.arange(12) // 6, "study": np.arange(12)}
    claims = {
        ("image", None): "other images like these 12",
        ("auto", None): "other patients like these 6",
        ("study", None): "other studies like these 12",
        ("patient", "centre"): "other patients of these 2 centres, not other centres",
    }
    for (cluster, strata), words in claims.items():
        assert units_of(groups, 12, cluster, strata).generalises_to() == words
    nested = units_of(groups, 12, ("centre", "patient"))
    assert nested.generalises_to() == "other centres like these 2, and their patients"
    assert units_of({}, 12).generalises_to() == "other images like these 12"


@pytest.mark.parametrize(
    ("cluster", "strata", "words"),
    [
        ("patent", None, "cluster: the images have no column 'patent'; did you mean 'patient'?"),
        ("patient", "sentre", "strata: the images have no column 'sentre'; did you mean 'centre'?"),
        (("centre", "patents"), None, "did you mean 'patient'?"),
        ("patient", "image", "strata: the images have no column 'image'"),
        (("image", "patient"), None, "two from large to small"),
        (("centre", "patient"), "scanner", "strata go with one cluster column"),
        ("centre", "centre", "strata and cluster are both 'centre'"),
        (("centre", "patient", "image"), None, "two from large to small"),
        ((), None, "two from large to small"),
    ],
)
def test_wrong_columns_are_told(cluster, strata, words: str) -> None:
    groups = {
        "patient": np.arange(8) // 2,
        "centre": np.arange(8) // 4,
        "scanner": np.arange(8) // 4,
    }
    with pytest.raises(UsageError) as caught:
        units_of(groups, 8, cluster, strata)
    assert words in str(caught.value)


@both_routes
def test_a_block_of_many_images_is_all_that_is_in_memory() -> None:
    units = Units.of("image", None, 100_000)
    tracemalloc.start()
    for block in w.bootstrap(units, 128, 0):
        assert block.nbytes <= 64 * 100_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * 64 * 100_000


@pytest.mark.slow
def test_ten_thousand_replicates_of_many_images_stream() -> None:
    units = Units.of("patient", np.arange(200_000) // 2, 200_000)
    tracemalloc.start()
    total = sum(int(block.sum(dtype=np.int64)) for block in w.bootstrap(units, 10_000, 0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == 10_000 * 200_000
    assert peak < 80e6
