"""Resampling and boxes of heat maps against SciPy and Pillow, where they define the same."""

from __future__ import annotations

import numpy as np
from PIL import Image
from scipy import ndimage

from calipers.heatmaps.boxes import boxes_from_heatmaps, resample
from seeds import looped_seeds


@looped_seeds(150, default=40)
def test_resampling_is_zoom_in_grid_mode(seed):
    random = np.random.default_rng(seed)
    old = random.integers(1, 20, 2 + seed % 2)
    shape = tuple(random.integers(1, 60 if len(old) == 2 else 20, len(old)).tolist())
    values = random.normal(size=old)
    theirs = ndimage.zoom(values, np.array(shape) / old, order=1, mode="nearest", grid_mode=True)
    np.testing.assert_allclose(resample(values, shape), theirs, rtol=0, atol=1e-12)


@looped_seeds(100, default=30)
def test_enlarging_is_the_bilinear_filter_of_pillow(seed):
    random = np.random.default_rng(seed)
    old = random.integers(1, 20, 2)
    shape = tuple((old + random.integers(0, 60, 2)).tolist())
    values = random.random(old).astype(np.float32)
    theirs = np.asarray(Image.fromarray(values).resize(shape[::-1], Image.Resampling.BILINEAR))
    np.testing.assert_allclose(
        resample(values.astype(np.float64), shape), theirs, rtol=0, atol=1e-5
    )


@looped_seeds(100, default=30)
def test_boxes_and_scores_are_those_of_scipy(seed):
    random = np.random.default_rng(seed)
    values = ndimage.gaussian_filter(random.random((24, 30)), 1.5)
    values = (values - values.min()) / (values.max() - values.min())
    labels, n = ndimage.label(values * 255.0 >= 180.0, np.ones((3, 3)))
    found = boxes_from_heatmaps(values[None, None], classes=["a"], thresholds=180).predictions
    theirs = [[x.start, y.start, x.stop, y.stop] for y, x in ndimage.find_objects(labels)]
    assert found.boxes.tolist() == theirs
    np.testing.assert_allclose(
        found.score, ndimage.mean(values, labels, range(1, n + 1)), rtol=0, atol=1e-12
    )
