"""Values of all voxels together: the order in which measures are taken changes none of them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

import calipers as cal
from calipers.synthetic.volumes import demo_samples


def test_aupro_leaves_the_other_measures_as_they_are() -> None:
    samples = list(demo_samples(3, dimensions=2, size=48))
    found = cal.evaluate_maps(samples, ci=False)
    labels = np.concatenate([sample.labels.ravel() for sample in samples])
    for model in found.models:
        scores = np.concatenate([sample.maps[model].ravel() for sample in samples])
        assert found[model, "AP/dataset"].value == pytest.approx(
            average_precision_score(labels, scores), abs=1e-12
        )
        assert found[model, "AUROC/dataset"].value == pytest.approx(
            roc_auc_score(labels, scores), abs=1e-12
        )


def test_batches_are_ranked_by_their_scores_not_by_bins() -> None:
    """All scores fall into one bin of a histogram: only the scores themselves can rank them."""
    draw = np.random.default_rng(7)
    samples = []
    for _ in range(5):
        labels = (draw.random((24, 24)) < 0.2).astype(int)
        samples.append((0.5 + 1e-7 * (draw.random((24, 24)) + 0.5 * labels), labels))
    text = """
        schema = "calipers.protocol/1"
        name = "batches"
        source = "made for this test"
        [maps]
        batch = 2
        [[metric]]
        name = "AP/batch"
        kind = "voxel-average-precision"
        level = "batch"
    """
    result = cal.evaluate_maps(samples, cal.Protocol.from_toml(text), ci=False)
    expected = []
    for start in (0, 2, 4):
        batch = samples[start : start + 2]
        scores = np.concatenate([one.ravel() for one, _ in batch])
        labels = np.concatenate([one.ravel() for _, one in batch])
        expected.append(average_precision_score(labels, scores))
    # every sample carries an equal share of its batch: a batch counts once
    assert result["AP/batch"].value == pytest.approx(np.mean(expected), abs=1e-12)
