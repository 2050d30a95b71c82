"""DICOM: images, series sorted by position, frames, segmentations; and not a word of the header."""

from __future__ import annotations

import contextlib
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calipers.errors import InputError, UsageError
from calipers.io.volumes.open import open_volume
from calipers.io.volumes.pairing import pair
from dicom_cases import SERIES, masks, segmentation, series
from pictures.test_dicom import NAME, written
from volume_cases import labels, noise, refused

pydicom = pytest.importorskip("pydicom")


def test_a_series_is_sorted_by_position(tmp_path: Path) -> None:
    array = noise((5, 4, 6), np.uint16)
    volume = open_volume(series(tmp_path / "ct", array))
    assert np.array_equal(volume.read(), array)
    assert volume.spacing == pytest.approx((0.5, 0.7, 2.5))
    assert volume.codes == "LPS"
    assert volume.affine is not None
    assert volume.affine[:3, 3].tolist() == [10.0, 20.0, 30.0]
    assert (len(volume.parts), volume.bytes) == (
        5,
        sum(f.stat().st_size for f in (tmp_path / "ct").iterdir()),
    )


def test_a_series_equals_that_of_simpleitk(tmp_path: Path) -> None:
    sitk = pytest.importorskip("SimpleITK")
    array = noise((4, 5, 6), np.int16)
    place = series(tmp_path / "ct", array)
    reader = sitk.ImageSeriesReader()
    reader.SetFileNames(reader.GetGDCMSeriesFileNames(str(place)))
    image = reader.Execute()
    volume = open_volume(place)
    assert np.array_equal(volume.read(), sitk.GetArrayFromImage(image))
    assert volume.spacing == pytest.approx(image.GetSpacing(), abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"slice2": {"ImagePositionPatient": [-10, -20, 40]}}, "even distances"),
        ({"slice2": {"ImagePositionPatient": [-10, -20, 32.5]}}, "one slice per position"),
        ({"slice2": {"ImagePositionPatient": [-12, -20, 35]}}, "one line"),
        ({"slice2": {"ImageOrientationPatient": [0, 1, 0, 0, 0, -1]}}, "one orientation"),
        ({"slice2": {"PixelSpacing": [0.7, 0.6]}}, "one orientation and spacing"),
        ({"slice2": {"SeriesInstanceUID": "1.2.3.9"}}, "one series"),
        ({"slice2": {"PixelSpacing": None}}, "position, orientation and spacing"),
        ({"slice2": {"ImagePositionPatient": None}}, "position, orientation and spacing"),
    ],
)
def test_slices_that_are_no_volume_are_refused(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    error = refused(series(tmp_path / "ct", noise((5, 4, 6), np.uint16), **changes))
    assert error.rule == "dicom-series"
    assert said in error.expected


def test_a_slice_of_another_size_is_refused(tmp_path: Path) -> None:
    place = series(tmp_path / "ct", noise((3, 4, 6), np.uint16))
    written(place / "9.dcm", noise((5, 6), np.uint16), SeriesInstanceUID=SERIES)
    assert refused(place).rule == "dicom-series"


def test_a_folder_without_dicom_is_no_volume(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    assert refused(tmp_path).rule == "not-a-file"


def test_an_image_is_rescaled(tmp_path: Path) -> None:
    array = noise((4, 6), np.uint16)
    path = written(
        tmp_path / "a.dcm", array, RescaleSlope=2, RescaleIntercept=-100, PixelSpacing=[0.7, 0.5]
    )
    volume = open_volume(path)
    assert volume.spacing == (0.5, 0.7)
    assert np.array_equal(volume.read(), array * 2.0 - 100.0)
    plain = open_volume(written(tmp_path / "b.dcm", array))
    assert (plain.spacing, plain.dtype) == (None, np.uint16)
    assert np.array_equal(plain.read(), array)


def test_frames_are_a_volume(tmp_path: Path) -> None:
    array = noise((3, 4, 6), np.uint8)
    volume = open_volume(
        written(tmp_path / "a.dcm", array, PixelSpacing=[1, 1], SpacingBetweenSlices=3)
    )
    assert np.array_equal(volume.read(), array)
    assert volume.spacing == (1.0, 1.0, 3.0)
    assert "order of the file" in volume.notes[0]


def test_files_without_preamble_cut_off_or_coloured_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.dcm", noise((8, 8), np.uint16))
    whole = path.read_bytes()
    path.write_bytes(whole[132:])
    assert refused(path).rule == "volume-format"
    for stop in range(140, len(whole), 23):
        path.write_bytes(whole[:stop])
        assert NAME not in str(refused(path))
    assert (
        refused(written(tmp_path / "b.dcm", noise((4, 4, 3), np.uint8))).rule == "volume-channels"
    )


@pytest.mark.parametrize(
    "elements",
    [
        {"Rows": 60_000, "Columns": 60_000},
        {"Rows": 0},
        {"BitsAllocated": 12},
        {"NumberOfFrames": 10**7},
    ],
)
def test_headers_that_claim_too_much_are_refused(tmp_path: Path, elements: dict[str, Any]) -> None:
    rule = refused(written(tmp_path / "a.dcm", noise((4, 4), np.uint16), **elements)).rule
    assert rule in ("too-large", "volume-shape", "volume-dtype", "volume-broken")


def test_without_pydicom_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a.dcm")
    monkeypatch.setitem(sys.modules, "pydicom", None)
    with pytest.raises(UsageError, match=r"calipers\[dicom\]"):
        open_volume(path)


def test_a_segmentation_is_a_label_volume_on_the_grid_of_its_series(tmp_path: Path) -> None:
    place = series(tmp_path / "ct", noise((5, 4, 6), np.uint16))
    volume = open_volume(segmentation(tmp_path / "seg.dcm", masks(), place), role="labels")
    ct = open_volume(place)
    assert (volume.format, volume.shape) == ("dicom-seg", ct.shape)
    assert volume.affine == pytest.approx(ct.affine, abs=1e-6)
    assert np.array_equal(volume.read(), masks()[..., 0] + 2 * masks()[..., 1])


def test_a_segmentation_without_a_required_attribute_says_which(tmp_path: Path) -> None:
    place = series(tmp_path / "ct", noise((5, 4, 6), np.uint16))
    path = segmentation(tmp_path / "seg.dcm", masks(), place)
    document = pydicom.dcmread(path)
    del document.SegmentSequence[0].SegmentedPropertyCategoryCodeSequence
    document.save_as(path)
    error = refused(path, role="labels")
    assert error.rule == "volume-broken"
    assert "no SegmentedPropertyCategoryCodeSequence" in str(error)
    assert "truncated" not in error.hint


def test_one_segment_is_a_mask(tmp_path: Path) -> None:
    place = series(tmp_path / "ct", noise((5, 4, 6), np.uint16))
    path = segmentation(tmp_path / "seg.dcm", masks(overlapping=True), place)
    assert np.array_equal(open_volume(path, segment=2).read(), masks(overlapping=True)[..., 1])
    error = refused(path)
    assert error.rule == "volume-member"
    assert "overlap" in error.expected
    assert refused(path, segment=3).rule == "volume-member"


def test_fractions_are_a_map(tmp_path: Path) -> None:
    place = series(tmp_path / "ct", noise((5, 4, 6), np.uint16))
    path = segmentation(tmp_path / "seg.dcm", masks() * 0.6, place, fractional=True)
    found = open_volume(path, segment=1).read()
    assert found == pytest.approx(masks()[..., 0] * 0.6, abs=1 / 255)
    assert refused(path).rule == "volume-member"


def test_the_only_segment_of_fractions_needs_no_choice(tmp_path: Path) -> None:
    place = series(tmp_path / "ct", noise((5, 4, 6), np.uint16))
    path = segmentation(tmp_path / "seg.dcm", masks()[..., :1] * 0.6, place, fractional=True)
    volume = open_volume(path)
    assert np.array_equal(volume.read(), open_volume(path, segment=1).read())
    assert volume.notes == open_volume(path, segment=1).notes


def test_a_folder_of_series_pairs_by_the_names_of_its_folders(tmp_path: Path) -> None:
    for side in ("refs", "preds"):
        (tmp_path / side).mkdir()
        for name in ("p1", "p2"):
            series(tmp_path / side / name, labels((5, 4, 6), np.uint8))
    paired = pair(tmp_path / "refs", {"m": tmp_path / "preds"})
    assert [sample.name for sample in paired] == ["p1", "p2"]
    assert np.array_equal(paired[0].load().labels, labels((5, 4, 6)))


def test_no_message_quotes_a_patient(tmp_path: Path) -> None:
    whole = written(tmp_path / "a.dcm", noise((8, 8), np.uint16)).read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(300):
        broken = bytearray(whole)
        for place in rng.integers(132, len(whole), 4):
            broken[place] = rng.integers(0, 256)
        (tmp_path / "a.dcm").write_bytes(broken)
        with contextlib.suppress(InputError):
            open_volume(tmp_path / "a.dcm").read()
            continue
        assert NAME not in str(refused(tmp_path / "a.dcm"))


@pytest.mark.parametrize("extra", [2, 24, 48])
def test_pixels_beyond_the_header_are_refused(tmp_path: Path, extra: int) -> None:
    """pydicom gives the beginning of them, with a warning."""
    path = written(tmp_path / "a.dcm", noise((2, 4, 6), np.uint8))
    data = pydicom.dcmread(path)
    data.PixelData += bytes(extra)
    data.save_as(path)
    error = refused(path)
    assert (error.rule, error.expected) == (
        "volume-broken",
        "48 bytes of pixels, as the header says",
    )


def test_pixels_are_not_read_from_what_follows_them(tmp_path: Path) -> None:
    """A first element of pixels that is too short: pydicom would read on behind it."""
    path = written(tmp_path / "a.dcm", noise((4, 6), np.uint16))
    whole = path.read_bytes()
    at = whole.index(b"\xe0\x7f\x10\x00OW")
    short = b"\xe0\x7f\x10\x00OW\x00\x00\x02\x00\x00\x00\x10\x00"
    path.write_bytes(whole[:at] + short + whole[at:])
    error = refused(path)
    assert (error.rule, error.value) == ("volume-broken", "'2 bytes'")


@pytest.mark.parametrize("shape", [(2, 4, 3), (3, 3, 3), (5, 1, 3), (1, 3), (3, 3)])
def test_frames_of_three_columns_are_no_colours(tmp_path: Path, shape: tuple[int, ...]) -> None:
    array = noise(shape, np.uint8)
    path = written(
        tmp_path / "a.dcm",
        array,
        Rows=shape[-2],
        Columns=shape[-1],
        NumberOfFrames=shape[0] if len(shape) == 3 else 1,
        SamplesPerPixel=1,
        PhotometricInterpretation="MONOCHROME2",
    )
    assert np.array_equal(pydicom.dcmread(path).pixel_array, array)
    assert np.array_equal(open_volume(path).read(), array)


def test_an_orientation_that_is_none_is_refused(tmp_path: Path) -> None:
    error = refused(
        written(
            tmp_path / "a.dcm",
            noise((4, 6), np.uint16),
            PixelSpacing=[1, 1],
            ImagePositionPatient=[0, 0, 0],
            ImageOrientationPatient=[21000, 0, 0, 0, 1, 0],
        )
    )
    assert error.rule == "affine"


@pytest.mark.parametrize("frames", ["20000000", "1e30", "65536", "1"])
def test_segmentations_that_claim_other_frames_are_refused(tmp_path: Path, frames: str) -> None:
    place = series(tmp_path / "ct", noise((5, 4, 6), np.int16))
    path = segmentation(tmp_path / "seg.dcm", masks(), place)
    data = pydicom.dcmread(path)
    element = data["NumberOfFrames"]
    # By hand: pydicom would refuse to write some of these.
    whole, old = path.read_bytes(), str(element.value).encode()
    old += b" " * (len(old) % 2)
    tag = b"\x28\x00\x08\x00IS" + len(old).to_bytes(2, "little") + old
    new = frames.encode() + b" " * (len(frames) % 2)
    changed = b"\x28\x00\x08\x00IS" + len(new).to_bytes(2, "little") + new
    assert whole.count(tag) == 1
    path.write_bytes(whole.replace(tag, changed))
    assert refused(path, role="labels").rule in ("too-large", "dicom-series", "volume-broken")


def test_a_jpeg_of_twelve_bits_needs_another_decoder_and_is_not_damaged(tmp_path: Path) -> None:
    """Pillow decodes JPEG Extended of 8 bits, and not of 12: the file is whole."""
    from pydicom.encaps import encapsulate
    from pydicom.uid import JPEGExtended12Bit

    if find_spec("pylibjpeg") is not None:
        pytest.skip("the decoder is installed")
    path = written(tmp_path / "a.dcm", noise((8, 8), np.uint16))
    one = pydicom.dcmread(path)
    one.file_meta.TransferSyntaxUID = JPEGExtended12Bit
    one.BitsStored, one.HighBit = 12, 11
    one.PixelData = encapsulate([b"\xff\xd8\xff\xd9"])
    one["PixelData"].VR = "OB"
    one["PixelData"].is_undefined_length = True
    one.save_as(path, enforce_file_format=True)
    with pytest.raises(InputError) as error:
        open_volume(path).read()
    assert error.value.rule == "volume-codec"
    assert "a JPEG decoder is missing: pip install pylibjpeg" in error.value.hint
    assert NAME not in str(error.value)
