# SPDX-License-Identifier: Apache-2.0
"""The order in which pairs of equal similarity are looked at."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.kernels import assignment


@pytest.mark.parametrize("levels", [1, 3, 40, 10**9])
@pytest.mark.parametrize("n", [0, 1, 2, 300])
def test_pairs_come_by_similarity_then_score_then_rows(levels: int, n: int) -> None:
    rng = np.random.default_rng(n + levels)
    reference, prediction = rng.integers(0, 20, (2, n))
    similarity = rng.integers(1, levels + 1, n) / levels
    score = rng.integers(0, 3, 20) / 3.0
    order = assignment._descending_order(reference, prediction, similarity, score)
    keys = list(zip(-similarity, -score[prediction], prediction, reference, np.arange(n).tolist()))
    assert order.tolist() == [key[-1] for key in sorted(keys)]
