"""Rankings by people are read with care, and rank correlations are those of SciPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from calipers.errors import InputError
from calipers.studies.anomaly.experiments import agreement, read_ranking, tau_between
from seeds import looped

KNOWN = ("atlas", "pyramid", "intensity", "slice-pca")


def written(folder: Path, text: str) -> Path:
    file = folder / "ranking.csv"
    file.write_text(text, encoding="utf-8")
    return file


def test_ranks_are_read_with_their_file(tmp_path: Path) -> None:
    file = written(tmp_path, "algorithm,rank,remark\natlas,1,best\npyramid,2.5,\nintensity,2.5,\n")
    found = read_ranking(file, KNOWN)
    assert found.ranks == {"atlas": 1.0, "pyramid": 2.5, "intensity": 2.5}
    assert found.entry["bytes"] == file.stat().st_size
    assert len(found.entry["sha256"]) == 64


@pytest.mark.parametrize(
    ("text", "rule", "said"),
    [
        ("name,rank\natlas,1\n", "missing-column", "algorithm and rank"),
        ("algorithm,rank\natlas,1\npyramid,first\nintensity,3\n", "type", "first"),
        ("algorithm,rank\natlas,1\npyramid,0\nintensity,3\n", "range", "3:2"),
        ("algorithm,rank\natlas,1\npyramid,\nintensity,3\n", "range", "3:2"),
        ("algorithm,rank\natlas,1\npyramids,2\nintensity,3\n", "choice", "did you mean 'pyramid'"),
        ("algorithm,rank\natlas,1\natlas,2\nintensity,3\n", "dup-row", "one rank per algorithm"),
        ("algorithm,rank\natlas,1\npyramid,2\n", "too-few-rows", "at least 3"),
        ("algorithm,rank\natlas,1,2\n", "ragged", "ranking.csv"),
    ],
)
def test_a_broken_ranking_is_an_error_that_says_where(
    tmp_path: Path, text: str, rule: str, said: str
) -> None:
    with pytest.raises(InputError) as caught:
        read_ranking(written(tmp_path, text), KNOWN)
    assert caught.value.rule == rule
    assert said in str(caught.value)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        read_ranking(tmp_path / "nowhere.csv", KNOWN)


@looped("seed", range(100))
def test_correlations_are_those_of_scipy(seed: int) -> None:
    random = np.random.default_rng(seed)
    n = int(random.integers(3, 12))
    ranks, values = random.integers(1, 6, n).astype(float), random.integers(0, 5, n) / 4
    found = agreement(ranks.tolist(), values.tolist())
    if len(set(ranks)) == 1 or len(set(values)) == 1:
        assert np.isnan([found.tau, found.rho]).all()
        return
    assert found.tau == pytest.approx(stats.kendalltau(ranks, -values).statistic, abs=1e-12)
    assert found.rho == pytest.approx(stats.spearmanr(ranks, -values).statistic, abs=1e-12)


def test_an_undefined_value_leaves_no_correlation() -> None:
    assert np.isnan(agreement([1, 2, 3], [0.5, float("nan"), 0.1]).tau)


def test_metrics_agree_with_themselves_and_not_with_their_opposites() -> None:
    tau = tau_between({"one": [0.1, 0.2, 0.3], "other": [0.3, 0.2, 0.1], "mixed": [0.1, 0.3, 0.2]})
    np.testing.assert_allclose(tau, [[1, -1, 1 / 3], [-1, 1, -1 / 3], [1 / 3, -1 / 3, 1]])
