"""Soft overlap from sums, against hand values and loops over voxels."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.kernels import voxel_ranking
from reference import voxels as slow
from seeds import looped

VARIANTS = ("tversky", "jaccard", "printed")
E = 1e-5


def sums(inside: float, voxels: int, background: float) -> voxel_ranking.SoftSums:
    return voxel_ranking.SoftSums(np.array([inside]), np.array([voxels]), background)


@pytest.mark.parametrize(
    ("variant", "alpha", "expected"),
    [
        ("tversky", 0.5, (3 + E) / (0.5 * 5 + 0.5 * 4 + E)),
        ("tversky", 0.2, (3 + E) / (0.2 * 5 + 0.8 * 4 + E)),
        ("jaccard", 0.5, (3 + E) / (3 + 2 + 1 + E)),
        ("jaccard", 0.2, (3 + E) / (3 + 0.4 * 2 + 1.6 * 1 + E)),
        ("printed", 0.5, 0.5 * 3 / (0.5 * 5 + 0.5 * 4)),
        ("printed", 0.2, 0.2 * 3 / (0.5 * 5 + 0.8 * 4)),
    ],
)
def test_hand_values(variant: voxel_ranking.Variant, alpha: float, expected: float) -> None:
    # 4 voxels with scores that sum up to 3, and 2 outside.
    assert voxel_ranking.per_object(sums(3.0, 4, 2.0), alpha, variant)[0] == pytest.approx(
        expected, abs=1e-15
    )


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_a_perfect_map(alpha: float) -> None:
    perfect = sums(7.0, 7, 0.0)
    assert voxel_ranking.per_object(perfect, alpha, "tversky")[0] == pytest.approx(1.0, abs=1e-15)
    assert voxel_ranking.per_object(perfect, alpha, "jaccard")[0] == pytest.approx(1.0, abs=1e-15)
    assert voxel_ranking.per_object(perfect, alpha, "printed")[0] == pytest.approx(
        alpha / (1.5 - alpha), abs=1e-15
    )


def test_false_discs_of_object_size_cost_as_the_theory_says() -> None:
    for k in range(4):
        assert voxel_ranking.per_object(sums(1e6, 10**6, k * 1e6), 0.5, "tversky")[
            0
        ] == pytest.approx(1 / (1 + k / 2))


def test_dice_and_iou_at_one_half_belong_together() -> None:
    found = sums(3.0, 4, 2.0)
    dice, iou = (voxel_ranking.per_object(found, 0.5, v)[0] for v in ("tversky", "jaccard"))  # type: ignore[arg-type]
    assert iou == pytest.approx(dice / (2 - dice), abs=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_sample_without_objects(variant: voxel_ranking.Variant) -> None:
    def nothing(background: float) -> voxel_ranking.SoftSums:
        return voxel_ranking.SoftSums(np.zeros(0), np.zeros(0, np.int64), background)

    assert voxel_ranking.per_object(nothing(3.0), 0.5, variant).tolist() == []
    assert voxel_ranking.per_sample(nothing(0.0), 0.5, variant) == 1.0
    assert voxel_ranking.per_sample(nothing(3.0), 0.5, variant) == pytest.approx(
        E / (1.5 + E), rel=1e-12
    )


def test_the_printed_formula_is_undefined_where_it_has_no_denominator() -> None:
    assert np.isnan(voxel_ranking.per_object(sums(0.0, 4, 0.0), 1.0, "printed")[0])


@pytest.mark.parametrize("variant", VARIANTS)
@looped("seed", range(20))
def test_sums_give_what_a_loop_over_voxels_gives(variant: voxel_ranking.Variant, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(2, 6, rng.integers(2, 4)))
    scores, labels = rng.random(shape), rng.choice([0, 0, 1, 2, 3], shape)
    alpha = float(rng.random())
    found = voxel_ranking.per_object(voxel_ranking.sums(scores, labels, 3), alpha, variant)
    for k in np.unique(labels[labels > 0]):
        expected = slow.soft_iou(scores, labels, k, alpha, variant)
        assert found[k - 1] == pytest.approx(expected, abs=1e-12)
