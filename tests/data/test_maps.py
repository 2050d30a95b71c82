"""What is left of maps: histograms and sums that can be taken, joined and made coarser without
losing a voxel.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import calipers as cal
from calipers.data.maps import BINS, COUNTED, Histograms, Maps
from map_cases import every_level, map_protocol, random_samples


def maps_of(seed: int, n: int = 6, steps: int = 0) -> Maps:
    """The evidence of random samples."""
    samples = random_samples(seed, n, steps=steps)
    return cal.evaluate_maps(samples, map_protocol(every_level(), batch=2), ci=False).cohort.maps[
        "model"
    ]


def dense(histograms: Histograms, name: str) -> np.ndarray:
    """(n_images, bins) of a column."""
    n = len(histograms.offsets) - 1
    table = np.zeros((n, BINS >> histograms.shift))
    for k in range(n):
        part = slice(histograms.offsets[k], histograms.offsets[k + 1])
        table[k, histograms.bin[part]] = getattr(histograms, name)[part]
    return table


def test_every_voxel_is_counted_once() -> None:
    samples = random_samples(1, 5)
    maps = cal.evaluate_maps(samples, ci=False).cohort.maps["model"]
    held = maps.histograms
    for k, sample in enumerate(samples):
        part = slice(held.offsets[k], held.offsets[k + 1])
        assert held.positives[part].sum() == np.count_nonzero(sample["labels"])
        assert (held.positives + held.negatives)[part].sum() == sample["labels"].size
        assert (np.diff(held.bin[part]) > 0).all()
    assert held.overlap.sum() == pytest.approx(
        sum(cal.evaluate_maps(samples, ci=False).cohort.maps["model"].references)
    )


@pytest.mark.parametrize("images", [[0], [4, 1, 1], [], [5, 4, 3, 2, 1, 0]])
def test_taken_images_keep_their_rows(images: list[int]) -> None:
    whole = maps_of(2)
    part = whole.take(np.array(images, np.int64))
    assert part.n_images == len(images)
    for name in COUNTED:
        np.testing.assert_array_equal(
            dense(part.histograms, name), dense(whole.histograms, name)[images]
        )
    for key, sums in part.sums.items():
        np.testing.assert_array_equal(sums, whole.sums[key][images])


def test_parts_join_to_the_whole() -> None:
    whole = maps_of(3)
    joined = Maps.concat([whole.take(np.arange(a, b)) for a, b in ((0, 2), (2, 2), (2, 6))])
    for name in ("offsets", "bin", *COUNTED, "lowest", "highest"):
        np.testing.assert_array_equal(
            getattr(joined.histograms, name), getattr(whole.histograms, name)
        )
    for key, sums in whole.sums.items():
        np.testing.assert_array_equal(joined.sums[key], sums)


def test_exact_values_hold_for_all_images_only() -> None:
    whole = maps_of(4)
    assert whole.exact_values
    assert not whole.take(np.array([0, 1])).exact_values
    assert not whole.take(np.array([1, 0, 2, 3, 4, 5])).exact_values
    assert whole.take(np.arange(6)).exact_values == whole.exact_values
    blocks = [whole.span(a, b) for a, b in ((0, 2), (2, 5), (5, 6))]
    assert not any(block.exact_values for block in blocks)
    assert Maps.concat(blocks).exact_values == whole.exact_values
    assert not Maps.concat(blocks[:2]).exact_values
    assert not Maps.concat([blocks[1], blocks[0], blocks[2]]).exact_values
    assert not Maps.concat([whole, whole]).exact_values
    assert (
        Maps.concat([blocks[0].span(0, 1), blocks[0].span(1, 2), *blocks[1:]]).exact_values
        == whole.exact_values
    )


@pytest.mark.parametrize("shift", [1, 3, 16])
def test_coarse_bins_are_sums_of_fine_ones(shift: int) -> None:
    fine = maps_of(5).histograms
    coarse = fine.coarsened(shift)
    assert coarse.shift == shift
    for name in COUNTED:
        table = dense(fine, name).reshape(len(fine.offsets) - 1, -1, 1 << shift).sum(axis=2)
        np.testing.assert_allclose(dense(coarse, name), table, atol=1e-12)
    assert coarse.lowest.min() == fine.lowest.min()
    assert coarse.highest.max() == fine.highest.max()
    assert coarse.coarsened(shift - 1) is coarse
    in_steps = fine.coarsened(1).coarsened(shift)
    np.testing.assert_array_equal(in_steps.bin, coarse.bin)
    np.testing.assert_array_equal(in_steps.positives, coarse.positives)


def test_parts_of_different_bins_join_in_the_coarsest() -> None:
    fine = maps_of(6).histograms
    other = replace(fine.coarsened(2))
    joined = Histograms.concat([fine, other])
    assert joined.shift == 2
    n = len(fine.offsets) - 1
    np.testing.assert_array_equal(dense(joined, "positives")[:n], dense(joined, "positives")[n:])


def test_no_images_can_be_made_coarser_too() -> None:
    nobody = maps_of(7).take(np.zeros(0, np.int64)).histograms
    assert len(nobody.coarsened(3).bin) == 0
    assert len(Histograms.concat([nobody, nobody]).offsets) == 1
