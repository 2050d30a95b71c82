"""Algorithms find spheres that differ from what is usual, and their scores are calibrated on normal
volumes.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from calipers.studies.anomaly.algorithms import (
    ALGORITHMS,
    PATCH_COMPONENTS,
    STRIDE,
    Algorithm,
    at_all_voxels,
    calibrate,
    intensity,
    learn_patches,
)
from calipers.studies.anomaly.data import (
    RADII,
    SIDE,
    ChestVolume,
    normal,
    test_volumes,
    with_spheres,
)
from calipers.studies.anomaly.experiments import (
    SEEN,
    SLICES,
    VOLUMES,
    has_object,
    samples_of,
)
from calipers.synthetic.demo import stream
from calipers.synthetic.volumes import disc

STRONG = (
    "atlas",
    "slice-pca",
    "nearest-patch",
    "mahalanobis",
    "autoencoder",
)  # they know what is usual at a place


@pytest.fixture(scope="module")
def training() -> list[np.ndarray]:
    return normal(0, "training", 4)


@pytest.fixture(scope="module")
def case() -> ChestVolume:
    return next(test_volumes(0, 1))


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda one: one.name)
def test_spheres_score_higher_than_what_is_normal(
    algorithm: Algorithm, training, case: ChestVolume
) -> None:
    if not algorithm.available:
        pytest.skip(f"needs {algorithm.package}")
    score = algorithm.fit(training, 0)
    found, again = score(case.image), algorithm.fit(training, 0)(case.image)
    assert found.shape == case.image.shape
    assert found.dtype == np.float32
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert (found == again).all()
    inside, outside = found[case.labels > 0], found[case.labels == 0]
    ranks = np.searchsorted(np.sort(outside), inside)
    if algorithm.name in STRONG:
        assert ranks.mean() / len(outside) > 0.8
    bright, mask = case.image.copy(), disc(case.image.shape, (24.5, 24.5, 24.5), 4.0)
    bright[mask] = 1.0
    assert score(bright)[mask].mean() > 1.05 * found[mask].mean()


def test_seven_algorithms_need_nothing_else() -> None:
    assert sum(not algorithm.package for algorithm in ALGORITHMS) >= 7
    assert {(a.package, a.extra) for a in ALGORITHMS if a.package} == {
        ("sklearn", "studies"),
        ("torch", "train"),
    }
    assert len({algorithm.name for algorithm in ALGORITHMS}) == len(ALGORITHMS)


def test_calibrated_scores_are_rare_on_normal_volumes_and_keep_their_order(
    training, case: ChestVolume
) -> None:
    raw = intensity(training, 0)
    scored = calibrate(raw, training)
    usual = np.concatenate([scored(volume).ravel() for volume in training])
    assert (usual >= 0.5).mean() == pytest.approx(0.001, rel=0.05)
    assert (usual >= 0.01).mean() == pytest.approx(0.01, rel=0.05)
    found, before = scored(case.image).ravel(), raw(case.image).ravel()
    assert 0 <= found.min() <= found.max() <= 1
    assert (np.diff(found[np.argsort(before)]) >= 0).all()


def test_scores_that_are_all_alike_stay_finite() -> None:
    flat = [np.zeros((4, 4, 4), np.float32)]
    assert np.isfinite(calibrate(lambda volume: volume, flat)(flat[0])).all()
    assert np.isfinite(calibrate(lambda volume: volume + 1, flat)(flat[0])).all()


def test_every_second_test_volume_has_one_large_and_four_small_spheres() -> None:
    for k, volume in enumerate(test_volumes(3, 4)):
        sizes = [int((volume.labels == number).sum()) for number in range(1, 6)]
        if k % 2:
            assert not volume.labels.any()
            continue
        assert sizes[0] > 5 * sizes[1] == 5 * sizes[4]
        _, n = ndimage.label(volume.labels > 0, np.ones((3, 3, 3)))
        assert n == len(RADII)


def test_spheres_differ_from_what_was_there_and_nothing_else_changes() -> None:
    before = normal(1, "training", 1)[0]
    after, labels = with_spheres(before, stream(1, "spheres"))
    assert (after[labels == 0] == before[labels == 0]).all()
    for number in range(1, 6):
        mask = labels == number
        assert len(np.unique(after[mask])) == 1
        assert abs(float(after[mask][0]) - float(before[mask].mean())) > 0.1


def test_volumes_of_one_seed_are_the_same_and_differ_from_each_other() -> None:
    one, other = normal(0, "training", 2)
    assert (one == normal(0, "training", 1)[0]).all()
    assert (one != other).mean() > 0.3
    assert one.shape == (SIDE,) * 3
    assert 0 <= one.min() < one.max() <= 1


def test_patches_have_a_row_per_place_and_scores_go_back_to_voxels() -> None:
    volume = stream(0, "patches").random((8, 9, 10), np.float32)
    patches, rows = learn_patches([volume], place=2.0)
    n = [len(range(0, side, STRIDE)) for side in volume.shape]
    assert rows.shape == (np.prod(n), PATCH_COMPONENTS + 3)
    assert (rows == patches.of(volume)).all()
    back = at_all_voxels(np.arange(np.prod(n), dtype=float), volume.shape)
    assert back.shape == volume.shape
    assert (back[::STRIDE, ::STRIDE, ::STRIDE].ravel() == np.arange(np.prod(n))).all()


def test_views_are_volumes_all_slices_and_slices_with_an_object(case: ChestVolume) -> None:
    maps = {"one": case.image}
    whole, every, some = (
        list(samples_of([(case, maps)], view)) for view in (VOLUMES, SLICES, SEEN)
    )
    assert [len(whole), len(every)] == [1, SIDE]
    assert len(some) == has_object(case).sum() < SIDE
    assert all(sample.labels.any() for sample in some)
    assert len({sample.name for sample in every}) == SIDE
