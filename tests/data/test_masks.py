"""The table of masks: made from arrays, taken apart, put together, and what it knows of its
objects.
"""

from __future__ import annotations

import numpy as np
import pytest

from calipers.data.masks import Masks, no_masks
from reference import masks as slow


def random_arrays(seed: int, n: int = 5) -> list[np.ndarray]:
    """Return n arrays of images of different sizes."""
    random = np.random.default_rng([15, seed])
    arrays = [random.random(random.integers(1, 9, 2 + seed % 2)) < 0.5 for _ in range(n)]
    for array in arrays:
        array[tuple(random.integers(0, array.shape))] = True
    return arrays


def assert_equal(found: Masks, expected: list[np.ndarray]) -> None:
    assert len(found) == len(expected)
    for k, array in enumerate(expected):
        assert found.size[k].tolist() == list(array.shape[::-1])
        assert (found.dense(k) == array).all()


@pytest.mark.parametrize("seed", range(6))
def test_arrays_of_any_size_and_back(seed: int) -> None:
    arrays = random_arrays(seed)
    masks = Masks.from_dense(arrays)
    assert_equal(masks, arrays)
    assert masks.dimensions == arrays[0].ndim
    assert masks.voxels.tolist() == [array.sum() for array in arrays]
    assert masks.boxes().tolist() == [slow.box(array) for array in arrays]
    np.testing.assert_allclose(masks.centroids(), [slow.centroid(array) for array in arrays])
    depths = np.array([1, 2, 1, 3, 2])
    assert_equal(
        masks.boundaries(depths), [slow.boundary(a, d) for a, d in zip(arrays, depths.tolist())]
    )
    assert_equal(masks.boundaries(2), [slow.boundary(array, 2) for array in arrays])


def test_a_stack_is_read_in_one_go() -> None:
    stack = np.random.default_rng(16).random((7, 4, 5)) < 0.9  # runs go on into the next object
    assert_equal(Masks.from_dense(stack), list(stack))


def test_rows_are_chosen_in_every_way() -> None:
    arrays = random_arrays(1)
    masks = Masks.from_dense(arrays)
    assert_equal(masks[1:4], arrays[1:4])
    assert_equal(masks[::2], arrays[::2])
    assert_equal(masks[np.array([4, 0, 0])], [arrays[4], arrays[0], arrays[0]])
    assert_equal(masks[np.array([False, True, False, False, True])], [arrays[1], arrays[4]])
    assert np.shares_memory(masks[1:4].start, masks.start)
    assert_equal(Masks.concat([masks[3:], masks[:1]]), [*arrays[3:], arrays[0]])


def test_a_label_map_has_one_mask_per_value() -> None:
    labels = np.array([[[0, 9, 2], [2, 9, 0]], [[2, 2, 0], [0, 0, 4]]], np.uint16)
    assert_equal(Masks.from_labels(labels), [labels == 2, labels == 4, labels == 9])
    assert len(Masks.from_labels(np.zeros((3, 4)))) == 0


def test_components_are_objects() -> None:
    array = np.array([[1, 0, 1, 1], [0, 1, 0, 0], [0, 0, 0, 1]])
    full = slow.components(array > 0, "full")
    assert_equal(Masks.from_components(array), [full == k for k in range(1, full.max() + 1)])
    assert len(Masks.from_components(array, "faces")) == 4
    assert len(Masks.from_components(np.zeros((3, 4)))) == 0


def test_what_is_known_is_not_made_again() -> None:
    masks = Masks.from_dense(random_arrays(2))
    assert masks.hulls() is masks.hulls()
    assert masks.boxes() is masks.boxes()
    assert masks.boundaries(2) is masks.boundaries(2)
    assert masks.boundaries(2) is not masks.boundaries(1)


@pytest.mark.parametrize("at_once", [1, 7, 40])
def test_hulls_and_boundaries_block_by_block(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = random_arrays(4, 20)
    whole = Masks.from_dense(arrays)
    depths = np.arange(20) % 3 + 1
    expected = whole.hulls(), whole.boundaries(depths)
    monkeypatch.setattr("calipers.data.masks.AT_ONCE", at_once)
    again = Masks.from_dense(arrays)
    for found, known in zip((again.hulls(), again.boundaries(depths)), expected):
        assert_equal(found, [known.dense(k) for k in range(len(known))])


def test_areas_in_boxes_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = random_arrays(3)
    masks, random = Masks.from_dense(arrays), np.random.default_rng(17)
    rows = random.integers(0, len(arrays), 40)
    boxes = np.sort(random.uniform(-1, 9, (2, 3, 40)), axis=0).reshape(6, 40)
    expected = [slow.in_box(arrays[row], box.tolist()) for row, box in zip(rows, boxes.T)]
    np.testing.assert_allclose(masks.in_boxes(rows, boxes), expected, atol=1e-12)
    monkeypatch.setattr("calipers.data.masks.AT_ONCE", 3)
    np.testing.assert_allclose(masks.in_boxes(rows, boxes), expected, atol=1e-12)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_no_objects(dimensions: int) -> None:
    nobody = no_masks(dimensions)
    assert len(nobody) == len(nobody.hulls()) == len(nobody.boundaries(3)) == 0
    assert nobody.boxes().shape == (0, 2 * dimensions)
    assert nobody.centroids().shape == (0, dimensions)
    nothing = np.zeros(0, np.int64)
    assert nobody.contains(nothing, np.zeros((0, dimensions))).shape == (0,)
    assert nobody.in_boxes(nothing, np.zeros((2 * dimensions, 0))).shape == (0,)
    assert len(Masks.from_dense(np.zeros((0, *(4,) * dimensions)))) == 0
    assert len(Masks.concat([nobody, nobody])) == len(Masks.concat([])) == 0
