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
