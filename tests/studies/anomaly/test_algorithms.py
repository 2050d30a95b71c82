"""Algorithms without networks find unusual spheres; scores are calibrated on normal volumes."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.studies.anomaly.algorithms import (
    CLASSICAL,
    PATCH_COMPONENTS,
    STRIDE,
    at_all_voxels,
    calibrate,
    learn_patches,
    local_contrast,
)
from calipers.studies.anomaly.brains import BrainVolume
from calipers.synthetic.demo import stream
from calipers.synthetic.volumes import disc

SIDE = 24
STRONG = ("atlas", "slice-pca", "nearest-patch")  # they know what is usual at a place


def normal(name: str) -> np.ndarray:
    """A smooth ramp with a little noise: bright on one side, dark on the other."""
    ramp = np.linspace(0.2, 0.6, SIDE, dtype=np.float32)
    noise = 0.02 * stream(0, name).standard_normal((SIDE,) * 3, np.float32)
    return np.clip(ramp[:, None, None] + ramp[None, :, None] - 0.2 + noise, 0, 1)


@pytest.fixture(scope="module")
def training() -> list[np.ndarray]:
    return [normal(f"training-{k}") for k in range(4)]


@pytest.fixture(scope="module")
def case() -> BrainVolume:
    image = normal("test")
    mask = disc(image.shape, (8.5, 8.5, 8.5), 4.0)
    image[mask] = image[mask].mean() + 0.3
    return BrainVolume("test", image, mask.astype(np.uint8))


@pytest.mark.parametrize("name", CLASSICAL)
def test_spheres_score_higher_than_what_is_normal(name: str, training, case: BrainVolume) -> None:
    fit, _ = CLASSICAL[name]
    score = fit(training, 0)
    found, again = score(case.image), fit(training, 0)(case.image)
    assert found.shape == case.image.shape
    assert found.dtype == np.float32
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert (found == again).all()
    inside, outside = found[case.labels > 0], found[case.labels == 0]
    ranks = np.searchsorted(np.sort(outside), inside)
    assert ranks.mean() / len(outside) > (0.9 if name in STRONG else 0.7)


def test_calibrated_scores_are_rare_on_normal_volumes_and_keep_their_order(
    training, case: BrainVolume
) -> None:
    raw = local_contrast(training, 0)
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


def test_patches_have_a_row_per_place_and_scores_go_back_to_voxels() -> None:
    volume = stream(0, "patches").random((8, 9, 10), np.float32)
    patches, rows = learn_patches([volume], place=2.0)
    n = [len(range(0, side, STRIDE)) for side in volume.shape]
    assert rows.shape == (np.prod(n), PATCH_COMPONENTS + 3)
    assert (rows == patches.of(volume)).all()
    back = at_all_voxels(np.arange(np.prod(n), dtype=float), volume.shape)
    assert back.shape == volume.shape
    assert (back[::STRIDE, ::STRIDE, ::STRIDE].ravel() == np.arange(np.prod(n))).all()
