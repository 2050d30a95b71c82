"""AUROC and average precision of voxels against scikit-learn, on both routes; to 1e-12."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from calipers.kernels import voxel_ranking, voxels
from kernel_routes import native_by_default
from seeds import looped, looped_seeds

# The peer takes most of the time, and `kernels/test_voxel_ranking.py` holds both routes to the same
# bits.
pytestmark = native_by_default

TOLERANCE = 1e-12


def random_set(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of all kinds: continuous, heavily tied, constant, crowded at an end; from 2 to 5,000
    voxels.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.choice([2, 3, 10, 200, 5000]))
    positive = rng.random(n) < rng.choice([0.01, 0.3, 0.9])
    positive[:2] = True, False
    scores = rng.random(n) * 0.7 + 0.3 * positive * rng.random(n)
    kind = seed % 6
    if kind == 1:
        scores = np.round(scores, 1)
    elif kind == 2:
        scores = np.full(n, 0.3)
    elif kind == 3:
        scores = scores**30
    elif kind == 4:
        scores[rng.random(n) < 0.8] = 0.0
    elif kind == 5:
        scores = np.round(scores * 255).astype(np.uint8) / 255
    return scores.astype(rng.choice([np.float32, np.float64])), positive


@looped_seeds(180, default=100)
def test_random_sets(seed: int) -> None:
    scores, positive = random_set(seed)
    auroc, ap = voxel_ranking.exact(scores[positive], scores[~positive])
    assert auroc == pytest.approx(roc_auc_score(positive, scores), abs=TOLERANCE)
    assert ap == pytest.approx(average_precision_score(positive, scores), abs=TOLERANCE)


@looped("seed", range(0, 180, 3))
def test_histograms_of_a_few_levels(seed: int) -> None:
    scores, positive = random_set(seed)
    scores = np.round(scores * 100).astype(np.float32) / 100
    found = voxels.histogram(scores, positive)
    pooled = voxels.from_histograms(found.positives[None], found.negatives[None])
    assert pooled.auroc[0] == pytest.approx(roc_auc_score(positive, scores), abs=TOLERANCE)
    assert pooled.ap[0] == pytest.approx(average_precision_score(positive, scores), abs=TOLERANCE)


@pytest.mark.parametrize("flag", [False, True])
def test_one_kind_of_voxel_only(flag: bool) -> None:
    """Where scikit-learn warns and returns 0 for an average precision without positives, ours is
    undefined.
    """
    scores, positive = np.array([0.1, 0.4, 0.4]), np.full(3, flag)
    auroc, ap = voxel_ranking.exact(scores[positive], scores[~positive])
    assert np.isnan(auroc)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = average_precision_score(positive, scores)
    assert ap == peer if flag else np.isnan(ap)


def test_a_million_voxels() -> None:
    rng = np.random.default_rng(0)
    positive = rng.random(1_000_000) < 0.4
    scores = (rng.normal(size=1_000_000) + positive).astype(np.float32)
    auroc, ap = voxel_ranking.exact(scores[positive], scores[~positive])
    assert auroc == pytest.approx(roc_auc_score(positive, scores), abs=TOLERANCE)
    assert ap == pytest.approx(average_precision_score(positive, scores), abs=TOLERANCE)
