"""Volumes that lack empty slices, channels, deflated files: read at their place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import calipers as cal
from calipers.errors import InputError, UsageError
from calipers.io.volumes.open import open_volume
from calipers.io.volumes.pairing import pair
from calipers.io.volumes.placing import common_grid, placed
from calipers.io.volumes.values import as_map
from calipers.io.volumes.volume import DEFAULT, Volume
from calipers.io.write_volume import write_volume
from volume_cases import OBLIQUE, noise, refused


def volume(array: np.ndarray, affine: np.ndarray, *, sparse: bool = True) -> Volume:
    return Volume(
        "seg", "dicom-seg", array.shape, array.dtype, lambda: array, affine=affine, sparse=sparse
    )


def shifted(affine: np.ndarray, *steps: float) -> np.ndarray:
    moved = affine.copy()
    moved[:3, 3] = affine[:3, :3] @ np.array(steps) + affine[:3, 3]
    return moved


def test_slices_come_to_their_place() -> None:
    whole = noise((6, 5, 4), np.uint8)
    grid = volume(whole, OBLIQUE, sparse=False)
    part = volume(whole[2:5], shifted(OBLIQUE, 0, 0, 2))
    result = placed(part, grid)
    expected = np.zeros_like(whole)
    expected[2:5] = whole[2:5]
    assert np.array_equal(result.read(), expected)
    assert result.affine is grid.affine


@pytest.mark.parametrize("axes", [(0, 1, 2), (1, 0, 2), (2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize("backwards", [(), (0,), (0, 2), (0, 1, 2)])
def test_mirrored_and_exchanged_axes_are_turned_back(axes, backwards) -> None:
    """The other grid has the voxels in another order; space is the same."""
    whole = noise((6, 5, 4), np.uint8)
    turn = np.zeros((4, 4))
    turn[3, 3] = 1
    other = whole.transpose(2, 1, 0).transpose(axes)
    for k, axis in enumerate(axes):
        sign = -1 if k in backwards else 1
        turn[axis, k] = sign
        if sign < 0:
            turn[axis, 3] = other.shape[k] - 1
    other = np.flip(other, backwards).transpose(2, 1, 0)
    grid = volume(whole, OBLIQUE, sparse=False)
    assert np.array_equal(placed(volume(other, OBLIQUE @ turn), grid).read(), whole)


def test_slices_outside_of_the_grid_are_refused() -> None:
    grid = volume(noise((3, 5, 4), np.uint8), OBLIQUE, sparse=False)
    part = volume(noise((2, 5, 4), np.uint8), shifted(OBLIQUE, 0, 0, 2))
    with pytest.raises(InputError, match="--geometry") as error:
        placed(part, grid)
    assert error.value.rule == "shape-mismatch"


def test_what_does_not_coincide_is_left_to_the_check_of_pairs() -> None:
    grid = volume(noise((6, 5, 4), np.uint8), OBLIQUE, sparse=False)
    part = volume(noise((2, 5, 4), np.uint8), shifted(OBLIQUE, 0, 0, 1.5))
    assert placed(part, grid) is part
    plain = replace(part, sparse=False)
    assert placed(plain, grid) is plain


def test_two_parts_share_the_smallest_grid() -> None:
    first = volume(noise((2, 5, 4), np.uint8), shifted(OBLIQUE, 0, 0, 4))
    second = volume(noise((3, 5, 4), np.uint8, seed=1), OBLIQUE)
    grid = common_grid(first, second, DEFAULT)
    assert grid.shape == (6, 5, 4)
    assert np.array_equal(grid.read()[4:], first.read())
    assert np.array_equal(placed(second, grid).read()[:3], second.read())


def test_segmentations_without_empty_slices(tmp_path: Path) -> None:
    """Written by highdicom with its default, they have other shapes than their series."""
    pytest.importorskip("highdicom")
    from dicom_cases import masks, segmentation, series

    (tmp_path / "refs").mkdir()
    (tmp_path / "preds").mkdir()
    (tmp_path / "images").mkdir()
    place = series(tmp_path / "images" / "p1", noise((5, 4, 6), np.uint16))
    late = np.roll(masks(), 1, axis=0)
    segmentation(tmp_path / "refs" / "p1.dcm", masks(), place, omit_empty_frames=True)
    segmentation(tmp_path / "preds" / "p1.dcm", late, place, omit_empty_frames=True)
    assert open_volume(tmp_path / "refs" / "p1.dcm").shape == (3, 4, 6)
    with pytest.raises(InputError, match="--geometry"):
        cal.read(tmp_path / "refs", tmp_path / "preds")
    cohort = cal.read(tmp_path / "refs", tmp_path / "preds", geometry=tmp_path / "images")
    assert cohort.images.size.tolist() == [[6, 4, 5]]
    assert cohort.references.boxes[:, 2].tolist() == [1, 3]
    assert cohort.predictions("preds").boxes[:, 2].tolist() == [2, 4]
    one = cal.read(tmp_path / "refs", geometry=tmp_path / "images", segment=2)
    assert one.references.area.tolist() == [3]
    # Pairs of maps know both files, so that they need no image.
    sample = pair(tmp_path / "refs", {"m": tmp_path / "preds"})[0].load(
        label_values="nonzero", normalise="clip"
    )
    assert sample.labels.shape == sample.maps["m"].shape == (4, 4, 6)
    on_images = pair(tmp_path / "refs", {"m": tmp_path / "preds"}, tmp_path / "images", segment=1)
    sample = on_images[0].load()
    assert np.array_equal(sample.labels, masks()[..., 0])
    assert np.array_equal(sample.maps["m"], late[..., 0])


def test_a_folder_with_one_segmentation_is_that_segmentation(tmp_path: Path) -> None:
    pytest.importorskip("highdicom")
    from dicom_cases import masks, segmentation, series

    place = series(tmp_path / "ct", noise((5, 4, 6), np.uint16))
    (tmp_path / "refs" / "p1").mkdir(parents=True)
    segmentation(tmp_path / "refs" / "p1" / "1.dcm", masks(), place)
    assert cal.read(tmp_path / "refs").images.ids == ("p1",)


def test_deflated_files_are_read(tmp_path: Path) -> None:
    pydicom = pytest.importorskip("pydicom")
    from pictures.test_dicom import written

    array = noise((16, 12), np.uint16)
    path = written(tmp_path / "a.dcm", array)
    one = pydicom.dcmread(path)
    one.file_meta.TransferSyntaxUID = pydicom.uid.DeflatedExplicitVRLittleEndian
    one.save_as(path)
    assert np.array_equal(open_volume(path).read(), array)


def test_a_deflated_segmentation_is_read(tmp_path: Path) -> None:
    pytest.importorskip("highdicom")
    import pydicom

    from dicom_cases import masks, segmentation, series

    place = series(tmp_path / "ct", noise((5, 4, 6), np.uint16))
    path = segmentation(tmp_path / "seg.dcm", masks(), place)
    one = pydicom.dcmread(path)
    one.file_meta.TransferSyntaxUID = pydicom.uid.DeflatedExplicitVRLittleEndian
    one.save_as(path)
    assert np.array_equal(open_volume(path, segment=2).read(), masks()[..., 1])


def test_deflated_bombs_are_refused(tmp_path: Path, monkeypatch) -> None:
    pydicom = pytest.importorskip("pydicom")
    from calipers.io.volumes import dicom_syntax
    from pictures.test_dicom import written

    path = written(tmp_path / "a.dcm", np.zeros((512, 512), np.uint16))
    one = pydicom.dcmread(path)
    one.file_meta.TransferSyntaxUID = pydicom.uid.DeflatedExplicitVRLittleEndian
    one.save_as(path)
    monkeypatch.setattr(dicom_syntax, "DEFAULT", replace(DEFAULT, bytes=1000))
    assert refused(path).rule == "too-large"


def softmax(path: Path) -> np.ndarray:
    nibabel = pytest.importorskip("nibabel")
    scores = noise((3, 4, 5, 6))
    image = nibabel.Nifti1Image(scores.transpose(3, 2, 1, 0), np.diag([1.0, 1, 2, 1]))
    nibabel.save(image, path)
    return scores


@pytest.mark.parametrize("suffix", [".nii.gz", ".nii"])
@pytest.mark.parametrize("channel", [0, 1, 2])
def test_a_channel_of_nifti(tmp_path: Path, suffix: str, channel: int) -> None:
    scores = softmax(tmp_path / f"a{suffix}")
    one = open_volume(tmp_path / f"a{suffix}", channel=channel)
    assert one.spacing == (1, 1, 2)
    assert np.array_equal(one.read(), scores[channel])
    assert refused(tmp_path / f"a{suffix}", channel=3).rule == "volume-channels"
    assert "--channel" in refused(tmp_path / f"a{suffix}").hint


def test_vectors_of_itk_have_their_channels_fifth(tmp_path: Path) -> None:
    sitk = pytest.importorskip("SimpleITK")
    scores = noise((4, 5, 6, 3))
    sitk.WriteImage(sitk.GetImageFromArray(scores, isVector=True), str(tmp_path / "a.nii.gz"))
    assert np.array_equal(open_volume(tmp_path / "a.nii.gz", channel=1).read(), scores[..., 1])


def test_a_channel_of_arrays(tmp_path: Path) -> None:
    scores = noise((3, 4, 5, 6))
    np.savez(tmp_path / "a.npz", probabilities=scores)
    assert np.array_equal(open_volume(tmp_path / "a.npz", channel=2).read(), scores[2])
    flat = noise((3, 5, 6))
    np.save(tmp_path / "b.npy", flat)
    assert np.array_equal(open_volume(tmp_path / "b.npy", channel=1, dimensions=2).read(), flat[1])
    assert refused(tmp_path / "b.npy", channel=1).rule == "volume-channels"


@pytest.mark.parametrize(
    "names", ['{"background": 0, "tumour": 1}', '{"0": "background", "1": "tumour"}']
)
def test_channels_have_the_names_of_the_data_set(tmp_path: Path, names: str) -> None:
    scores = noise((2, 4, 5, 6))
    for folder in ("refs", "preds"):
        (tmp_path / folder).mkdir()
    write_volume(tmp_path / "refs" / "a.npy", (scores[1] > 0.5).astype(np.uint8))
    np.savez(tmp_path / "preds" / "a.npz", probabilities=scores)
    (tmp_path / "dataset.json").write_text(f'{{"labels": {names}}}')
    paired = pair(tmp_path / "refs", tmp_path / "preds", channel="tumour")
    assert np.array_equal(paired[0].load().maps["model"], scores[1])
    assert any("'tumour' is number 1" in note for note in paired.notes)
    with pytest.raises(UsageError, match="did you mean 'tumour'"):
        pair(tmp_path / "refs", tmp_path / "preds", channel="tumor")
    (tmp_path / "dataset.json").unlink()
    with pytest.raises(UsageError, match="give a number"):
        pair(tmp_path / "refs", tmp_path / "preds", channel="tumour")


def test_scores_above_one_keep_their_order() -> None:
    """Detection maps of PI-CAI may hold any confidence from 0 on."""
    scores = np.array([[0.0, 0.5], [3.0, 80.0]], np.float32)
    result = as_map(scores, "odds")
    assert result == pytest.approx(np.array([[0, 1 / 3], [0.75, 80 / 81]]))
    with pytest.raises(InputError, match="odds"):
        as_map(np.array([[0.0, 3.5]]))
    with pytest.raises(InputError, match="scores of 0 or more"):
        as_map(np.array([[-1.0, 3.5]]), "odds")


def test_picai_of_scores_above_one_is_that_of_their_ranks() -> None:
    rng = np.random.default_rng(1)
    samples, scaled = [], []
    for _ in range(6):
        labels = np.zeros((4, 12, 12), np.uint8)
        labels[1:3, 2:6, 2:6] = rng.random() < 0.6
        scores = np.zeros(labels.shape)
        scores[1:3, 3:6, 2:6], scores[2, 8:11, 8:11] = rng.random(2)
        samples.append((scores, labels))
        scaled.append((scores / (1.0001 - scores), labels))
    plain = cal.evaluate_maps(samples, "picai", ci=False)
    odds = cal.evaluate_maps(scaled, "picai", normalise="odds", ci=False)
    for name in ("score", "AUROC/case"):
        assert float(odds[name]) == pytest.approx(float(plain[name]))
