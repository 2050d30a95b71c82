"""One grid: shapes, spacings and affines of a pair, and resizing only by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.errors import InputError, UsageError
from calipers.io.volumes.open import open_volume
from calipers.io.volumes.samples import check_pair, resize_map
from calipers.io.volumes.volume import Volume, axis_codes, corner_distance, spacing_of
from calipers.io.write_volume import write_volume
from volume_cases import OBLIQUE

PLAIN = np.diag([1.0, 1.0, 2.0, 1.0])


def volume(
    shape: tuple[int, ...], name: str = "a", affine: Any = None, spacing: Any = None
) -> Volume:
    if affine is not None:
        affine = np.asarray(affine, float)
        spacing = spacing_of(affine, len(shape))
    codes = None if affine is None else axis_codes(affine, len(shape))
    return Volume(
        name, "npy", shape, np.dtype("f4"), lambda: np.zeros(shape), spacing, affine, codes
    )


def mismatch(reference: Volume, prediction: Volume, **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        check_pair(reference, prediction, **options)
    assert caught.value.file == prediction.file
    assert reference.file in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("wanted", "came", "hint"),
    [
        ((4, 5, 6), (6, 5, 4), "transposed"),
        ((5, 6), (6, 5), "transposed"),
        ((4, 5, 6), (4, 5, 7), "resize"),
        ((5, 6), (1, 5, 6), "length one"),
        ((1, 5, 6), (5, 6), "length one"),
        ((5, 6), (3, 5, 6), "3 channels first"),
        ((5, 6), (5, 6, 2), "2 channels last"),
        ((4, 5, 6), (5, 7), "two axes"),
    ],
)
def test_shapes_that_differ_are_named_with_what_may_have_happened(
    wanted: Any, came: Any, hint: str
) -> None:
    error = mismatch(volume(wanted, "refs.npy"), volume(came, "preds.npy"))
    assert error.rule == "shape-mismatch"
    wanted_shape, shape = " x ".join(map(str, wanted)), " x ".join(map(str, came))
    assert error.value == f"'{shape} instead of {wanted_shape} (refs.npy)'"
    assert hint in error.hint


def test_a_mirrored_volume_is_called_so() -> None:
    flipped = PLAIN.copy()
    flipped[0, 0] = -1.0
    error = mismatch(volume((4, 5, 6), "r", PLAIN), volume((4, 5, 6), "p", flipped))
    assert error.rule == "affine"
    assert "axes RAS" in error.expected
    assert "axes LAS" in error.value
    assert "mirrored along x" in error.hint
    assert "11 mm apart" in error.value  # from -0.5 to 0.5, and from 5.5 to -5.5


def test_the_largest_corner_distance_is_reported() -> None:
    moved = PLAIN.copy()
    moved[:3, 3] = 3.0, 4.0, 0.0
    error = mismatch(volume((4, 5, 6), "r", PLAIN), volume((4, 5, 6), "p", moved))
    assert "5 mm apart" in error.value
    assert "only the origins differ" in error.hint


def test_other_mismatches_of_affines_are_described() -> None:
    reference = volume((4, 5, 6), "r", PLAIN)
    permuted = volume((4, 5, 6), "p", PLAIN[:, [1, 0, 2, 3]])
    assert "permuted" in mismatch(reference, permuted).hint
    assert (
        "spacings differ" in mismatch(reference, volume((4, 5, 6), "p", np.diag([1, 1, 3, 1]))).hint
    )
    angle = 0.05
    turned = PLAIN.copy()
    turned[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    assert "resample" in mismatch(reference, volume((4, 5, 6), "p", turned)).hint


@pytest.mark.parametrize(("shift", "fine"), [(0.0009, True), (0.0011, False)])
def test_the_tolerance_is_a_thousandth_of_a_millimetre(shift: float, fine: bool) -> None:
    near = OBLIQUE.copy()
    near[1, 3] += shift
    reference, prediction = volume((4, 5, 6), "r", OBLIQUE), volume((4, 5, 6), "p", near)
    if fine:
        assert check_pair(reference, prediction) == ()
    else:
        assert mismatch(reference, prediction).rule == "affine"


def test_a_small_angle_matters_at_the_corners() -> None:
    near = PLAIN.copy()
    near[0, 1] = 1e-5
    assert check_pair(volume((4, 5, 6), "r", PLAIN), volume((4, 5, 6), "p", near)) == ()
    assert (
        mismatch(volume((4, 500, 6), "r", PLAIN), volume((4, 500, 6), "p", near)).rule == "affine"
    )


def test_spacings_are_compared_where_there_is_no_affine() -> None:
    reference = volume((4, 5, 6), "r", spacing=(1.0, 1.0, 2.0))
    assert mismatch(reference, volume((4, 5, 6), "p", spacing=(1.0, 1.0, 2.5))).rule == "spacing"
    assert check_pair(reference, volume((4, 5, 6), "p", spacing=(1.0, 1.0, 2.0))) == ()
    assert check_pair(reference, volume((4, 5, 6), "p")) == ()


def test_a_volume_without_orientation_is_noted() -> None:
    assert (
        "the map has no orientation"
        in check_pair(volume((4, 5, 6), "r", PLAIN), volume((4, 5, 6), "p"))[0]
    )
    assert (
        "the reference has no orientation"
        in check_pair(volume((4, 5, 6)), volume((4, 5, 6), "p", PLAIN))[0]
    )


def test_resizing_needs_the_same_extent() -> None:
    half = np.diag([2.0, 2.0, 4.0, 1.0])
    half[:3, 3] = 0.5, 0.5, 1.0  # the centre of the first of the larger voxels
    fine, coarse = volume((4, 6, 8), "r", PLAIN), volume((2, 3, 4), "p", half)
    assert mismatch(fine, coarse).rule == "shape-mismatch"
    assert check_pair(fine, coarse, resize="linear") == ()
    assert (
        mismatch(fine, volume((2, 3, 4), "p", np.diag([2.0, 2.0, 4.0, 1.0])), resize="linear").rule
        == "affine"
    )
    assert (
        mismatch(volume((4, 6, 8)), volume((3, 4), "p"), resize="nearest").rule == "shape-mismatch"
    )
    with pytest.raises(UsageError, match="did you mean 'linear'"):
        check_pair(fine, coarse, resize="linea")


def test_nearest_repeats_voxels_and_linear_goes_through_their_centres() -> None:
    small = np.array([[0.0, 1.0], [2.0, 3.0]])
    assert np.array_equal(resize_map(small, (4, 6), "nearest"), np.kron(small, np.ones((2, 3))))
    line = resize_map(np.array([[0.0, 1.0]]), (1, 4), "linear")
    assert line == pytest.approx(np.array([[0.0, 0.25, 0.75, 1.0]]))
    assert resize_map(small, (2, 2), "linear") is small


@pytest.mark.parametrize("shape", [(7, 3, 5), (1, 9, 2), (13, 13, 13)])
def test_resizing_gives_the_shape_that_was_asked_for(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).random((4, 6, 5)).astype(np.float32)
    for how in ("nearest", "linear"):
        found = resize_map(array, shape, how)
        assert found.shape == shape
        assert found.dtype == np.float32
        assert 0 <= found.min() <= found.max() <= 1


def test_codes_and_distances_by_hand() -> None:
    assert axis_codes(np.diag([-1.0, 1.0, -1.0, 1.0])) == "LAI"
    assert axis_codes(PLAIN[:, [2, 0, 1, 3]]) == "SRA"
    moved = PLAIN.copy()
    moved[2, 3] = 7.0
    assert corner_distance(PLAIN, moved, (3, 3, 3)) == pytest.approx(7.0)


def test_files_of_different_formats_agree(tmp_path: Path) -> None:
    array = np.zeros((4, 5, 6), np.float32)
    write_volume(tmp_path / "a.nii.gz", array, affine=OBLIQUE)
    write_volume(tmp_path / "b.npz", array, affine=OBLIQUE)
    assert check_pair(open_volume(tmp_path / "a.nii.gz"), open_volume(tmp_path / "b.npz")) == ()


def sheared(tmp_path: Path, tilt: float) -> Path:
    """Return the folder of one NIfTI sample whose slices move by ``tilt`` mm in y from one to the
    next.
    """
    affine = np.diag([1.0, 1.0, 2.0, 1.0])
    affine[1, 2] = tilt
    labels = np.zeros((6, 12, 12), np.uint8)
    labels[1, 2:5, 2:5] = 1
    scores = np.zeros(labels.shape, np.float32)
    scores[4, 2:5, 2:5] = 1.0
    for part, array in (("labels", labels), ("maps", scores)):
        (tmp_path / part).mkdir()
        write_volume(tmp_path / part / "case.nii.gz", array, affine=affine)
    return tmp_path


IN_MM = """
schema = "calipers.protocol/1"
name = "mm"
source = "made for this test"
[maps]
[matching]
criterion = "centre-distance-mm"
thresholds = 20.0
[[metric]]
name = "sensitivity"
kind = "sensitivity"
"""


def test_distances_in_mm_are_refused_on_a_sheared_grid(tmp_path: Path) -> None:
    folder = sheared(tmp_path, tilt=0.5)
    samples = cal.read_maps(folder / "labels", {"m": folder / "maps"})
    with pytest.raises(UsageError, match="not at right angles"):
        cal.evaluate_maps(samples, cal.Protocol.from_toml(IN_MM), ci=False)


@pytest.mark.parametrize("tilt", [0.0, 0.5])
def test_distances_in_mm_of_a_tilted_series_are_refused(tmp_path: Path, tilt: float) -> None:
    """A gantry that is tilted moves every slice of a DICOM series along its columns."""
    from dicom_cases import series

    labels = np.zeros((6, 12, 12), np.uint8)
    labels[1, 2:5, 2:5] = 1
    places = {}
    for k in range(6):
        places[f"slice{k}"] = {"ImagePositionPatient": [-10.0, -20.0 + tilt * k, 30.0 + 2.5 * k]}
    for part in ("labels", "maps"):
        (tmp_path / part).mkdir()
    series(tmp_path / "labels" / "case", labels, **places)
    series(tmp_path / "maps" / "case", labels, **places)
    samples = cal.read_maps(tmp_path / "labels", {"m": tmp_path / "maps"})
    protocol = cal.Protocol.from_toml(IN_MM)
    if tilt:
        with pytest.raises(UsageError, match="tilted gantry"):
            cal.evaluate_maps(samples, protocol, ci=False)
    else:
        assert cal.evaluate_maps(samples, protocol, ci=False)["sensitivity"].value == 1.0


def test_a_straight_grid_has_distances_in_mm(tmp_path: Path) -> None:
    folder = sheared(tmp_path, tilt=0.0)
    samples = cal.read_maps(folder / "labels", {"m": folder / "maps"})
    result = cal.evaluate_maps(samples, cal.Protocol.from_toml(IN_MM), ci=False)
    assert result["sensitivity"].value == 1.0
