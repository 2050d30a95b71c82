"""Volumes on other grids are resampled by their affines, as SimpleITK resamples them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import calipers as cal
from calipers.errors import InputError, UsageError
from calipers.io.volumes.pairing import pair
from calipers.io.volumes.placing import on_grid
from calipers.io.volumes.volume import Volume, axis_codes, spacing_of
from calipers.io.write_volume import write_volume
from volume_cases import OBLIQUE, noise

LPS = np.diag([-1.0, -1.0, 1.0, 1.0])


def volume(array: np.ndarray, affine: np.ndarray) -> Volume:
    spacing = spacing_of(affine, array.ndim)
    codes = axis_codes(affine, array.ndim)
    return Volume("v", "npz", array.shape, array.dtype, lambda: array, spacing, affine, codes)


def rotation(rng: np.random.Generator) -> np.ndarray:
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    return turn * np.sign(np.linalg.det(turn))


def grid(rng: np.random.Generator, kind: str) -> np.ndarray:
    """Return an affine: rotated freely, or along the axes with borders that coincide."""
    affine = np.eye(4)
    if kind == "rotated":
        affine[:3, :3] = rotation(rng) * rng.uniform(0.5, 3, 3)
        affine[:3, 3] = rng.uniform(-3, 3, 3)
        return affine
    turn = np.eye(3)[rng.permutation(3)] * rng.choice([-1, 1], 3)
    affine[:3, :3] = turn * rng.choice([0.5, 1, 2], 3)
    affine[:3, 3] = rng.integers(-6, 6, 3) / 2
    return affine


@pytest.mark.parametrize("kind", ["rotated", "along the axes"])
def test_the_voxels_are_those_of_simpleitk(kind) -> None:
    """Bit for bit with ``nearest``, borders of voxels included; SimpleITK is an own reading."""
    itk = pytest.importorskip("SimpleITK")
    rng = np.random.default_rng(17)

    def image(array: np.ndarray, affine: np.ndarray):
        result, steps = itk.GetImageFromArray(array), LPS @ affine
        spacing = np.linalg.norm(steps[:3, :3], axis=0)
        result.SetSpacing(spacing.tolist())
        result.SetDirection((steps[:3, :3] / spacing).ravel().tolist())
        result.SetOrigin(steps[:3, 3].tolist())
        return result

    n_inside = 0
    for _ in range(60):
        source = rng.integers(1, 200, tuple(rng.integers(1, 14, 3))).astype(np.uint8)
        target = np.zeros(tuple(rng.integers(1, 14, 3)), np.uint8)
        here, there = grid(rng, kind), grid(rng, kind)
        for way, filler, array in (
            ("nearest", itk.sitkNearestNeighbor, source),
            ("linear", itk.sitkLinear, source.astype(np.float32)),
        ):
            ours = on_grid(array, volume(array, here), volume(target, there), way)
            moved = itk.Resample(
                image(array, here), image(target, there), itk.Transform(), filler, 0.0
            )
            theirs = itk.GetArrayFromImage(moved)
            if way == "nearest":
                assert np.array_equal(ours, theirs)
                assert ours.dtype == np.uint8
                n_inside += int((ours > 0).sum())
            else:
                assert np.allclose(ours, theirs, atol=2e-3)
    assert n_inside > 1000


def test_a_crop_comes_back_to_its_place_on_a_leaning_grid() -> None:
    whole = noise((6, 5, 7), np.uint8)
    affine = OBLIQUE.copy()
    affine[:3, 3] = OBLIQUE[:3, :3] @ np.array([2.0, 1.0, 3.0]) + OBLIQUE[:3, 3]
    part = whole[3:6, 1:4, 2:6]
    result = on_grid(part, volume(part, affine), volume(whole, OBLIQUE), "nearest")
    expected = np.zeros_like(whole)
    expected[3:6, 1:4, 2:6] = part
    assert np.array_equal(result, expected)


def test_pictures_with_an_affine_are_placed() -> None:
    whole = noise((6, 5), np.float32)
    moved = np.eye(4)
    moved[:2, 3] = (1, 2)
    part = whole[2:5, 1:4]
    for way in ("nearest", "linear"):
        result = on_grid(part, volume(part, moved), volume(whole, np.eye(4)), way)
        assert np.array_equal(result[2:5, 1:4], part)
        assert not result[:2].any()


AFFINE = np.diag([-0.7, -0.7, 2.5, 1.0])


def put(folder: Path, array: np.ndarray, affine: np.ndarray) -> Path:
    folder.mkdir(exist_ok=True)
    write_volume(folder / "a.npz", array, affine=affine)
    return folder


def cropped(folder: Path) -> tuple[Path, Path, np.ndarray]:
    """Return labels, the crop of a map, and the map as it was before."""
    labels = np.zeros((6, 12, 10), np.uint8)
    labels[2:4, 5:9, 3:7] = 1
    scores = np.zeros(labels.shape, np.float32)
    scores[1:5, 4:10, 2:8] = noise((4, 6, 6), np.float32)
    affine = AFFINE.copy()
    affine[:3, 3] = AFFINE[:3, :3] @ np.array([2.0, 4.0, 1.0])
    return (
        put(folder / "refs", labels, AFFINE),
        put(folder / "preds", scores[1:5, 4:10, 2:8], affine),
        scores,
    )


def test_maps_are_placed_only_if_that_is_said(tmp_path) -> None:
    refs, preds, scores = cropped(tmp_path)
    with pytest.raises(InputError, match="--place nearest") as error:
        pair(refs, {"m": preds})
    assert error.value.rule == "shape-mismatch"
    assert "--resize" not in error.value.hint  # the extents differ: it would be refused
    paired = pair(refs, {"m": preds}, place="nearest")
    assert np.array_equal(paired[0].load().maps["m"], scores)
    assert paired.reading["place"] == "nearest"
    assert (
        "predictions placed on the grid of their references by their affines (nearest) (1 of 1)"
        in (paired.notes)
    )
    assert any("do not reach all" in note for note in paired.notes)
    # A map of what is normal is turned round before: outside of the crop nothing was predicted.
    turned = paired[0].load(normalise="invert").maps["m"]
    assert turned[0].max() == 0
    assert np.array_equal(turned[1:5, 4:10, 2:8], 1 - scores[1:5, 4:10, 2:8])
    with pytest.raises(UsageError, match="exclude each other"):
        pair(refs, {"m": preds}, place="nearest", resize="nearest")
    with pytest.raises(UsageError, match="nearest"):
        pair(refs, {"m": preds}, place="neares")


def test_volumes_that_have_no_place_in_common_are_refused(tmp_path) -> None:
    refs, _, scores = cropped(tmp_path)
    far = AFFINE.copy()
    far[0, 3] = 400.0
    with pytest.raises(InputError, match="no voxel of it"):
        pair(refs, {"m": put(tmp_path / "far", scores, far)}, place="nearest")


def test_predicted_labels_are_placed_on_the_grid_of_their_references(tmp_path) -> None:
    """A turned volume, in steps of half the size: every object is met exactly."""
    refs, _, _ = cropped(tmp_path)
    labels = np.zeros((6, 12, 10), np.uint8)
    labels[2:4, 5:9, 3:7] = 1
    fine = labels.repeat(2, axis=0).repeat(2, axis=1).repeat(2, axis=2).transpose(2, 0, 1)[::-1]
    # x, y, z of the fine grid are y, z and -x of the other one; its first voxel is a corner.
    turn = np.zeros((4, 4))
    turn[1, 0] = turn[2, 1] = 0.5
    turn[0, 2] = -0.5
    turn[:3, 3] = (9.25, -0.25, -0.25)
    turn[3, 3] = 1
    preds = put(tmp_path / "turned", fine, AFFINE @ turn)
    with pytest.raises(InputError, match="--place nearest"):
        cal.read(refs, preds)
    cohort = cal.read(refs, preds, place="nearest")
    model = cohort.models["turned"]
    assert np.array_equal(model.boxes, cohort.references.boxes)
    (account,) = [file for file in cohort.intake.files if "predictions" in file.role]
    assert any("placed on the grid" in note for note in account.notes)
    with pytest.raises(InputError, match="nearest"):
        cal.read(refs, preds, place="linear")
