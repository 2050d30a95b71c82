"""DICOM: rescaled, windowed, one frame, and not a word of the header."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calipers.pictures.pixels import PictureError, Pixels, encode, read_pixels
from scenes import refused

pydicom = pytest.importorskip("pydicom")

NAME = "Mustermann^Erika"
VALUES = np.arange(64, dtype=np.uint16).reshape(4, 16) * 10


def written(
    path: Path, values: np.ndarray = VALUES, syntax: str | None = None, **elements: Any
) -> Path:
    """Write a file with a patient in its header."""
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage, generate_uid

    meta = FileMetaDataset()
    meta.TransferSyntaxUID = syntax or ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = (
        SecondaryCaptureImageStorage,
        generate_uid(),
    )
    data = FileDataset(str(path), {}, file_meta=meta, preamble=bytes(128))
    data.PatientName, data.PatientID, data.InstitutionName = NAME, NAME, NAME
    frames = values.ndim == 3 and values.shape[-1] != 3
    colour = values.ndim == 3 and not frames
    data.Rows, data.Columns = values.shape[1:] if frames else values.shape[:2]
    data.SamplesPerPixel, data.PhotometricInterpretation = (
        (3, "RGB") if colour else (1, "MONOCHROME2")
    )
    if colour:
        data.PlanarConfiguration = 0
    if frames:
        data.NumberOfFrames = len(values)
    bits = values.dtype.itemsize * 8
    data.BitsAllocated, data.BitsStored, data.HighBit = bits, bits, bits - 1
    data.PixelRepresentation = int(values.dtype.kind == "i")
    data.PixelData = values.tobytes()
    for key, value in elements.items():
        setattr(data, key, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data.save_as(path, enforce_file_format=True)
    return path


def test_without_a_window_percentiles_are_used(tmp_path: Path) -> None:
    found = read_pixels(written(tmp_path / "a.dcm"))
    assert (found.width, found.height, found.depth) == (16, 4, None)
    assert found.array[0, 0] == 0
    assert found.array[-1, -1] == 255
    assert (np.diff(found.array.ravel().astype(int)) >= 0).all()


def test_the_first_window_is_applied_to_rescaled_values(tmp_path: Path) -> None:
    elements = {
        "RescaleSlope": 2,
        "RescaleIntercept": -100,
        "WindowCenter": [300, 40],
        "WindowWidth": [401, 80],
    }
    found = read_pixels(written(tmp_path / "a.dcm", **elements)).array
    rescaled = VALUES * 2.0 - 100.0
    wanted = np.clip((rescaled - (299.5 - 200.0)) / 400.0, 0, 1) * 255
    assert np.abs(found - wanted).max() <= 0.51


def test_exact_and_curved_windows(tmp_path: Path) -> None:
    window = {"WindowCenter": 300, "WindowWidth": 400}
    found = read_pixels(written(tmp_path / "a.dcm", VOILUTFunction="LINEAR_EXACT", **window)).array
    assert np.abs(found - np.clip((VALUES - 100.0) / 400.0, 0, 1) * 255).max() <= 0.51
    found = read_pixels(written(tmp_path / "b.dcm", VOILUTFunction="SIGMOID", **window)).array
    assert np.abs(found - 255 / (1 + np.exp(-4 * (VALUES - 300.0) / 400.0))).max() <= 0.51


@pytest.mark.parametrize("window", [(300, 0), (300, 1), (300, -5), ("", "")])
def test_a_window_without_width_is_none(tmp_path: Path, window: tuple[Any, Any]) -> None:
    plain = read_pixels(written(tmp_path / "a.dcm")).array
    found = read_pixels(
        written(tmp_path / "b.dcm", WindowCenter=window[0], WindowWidth=window[1])
    ).array
    assert np.array_equal(found, plain)


def test_monochrome1_is_inverted_after_its_window(tmp_path: Path) -> None:
    window = {"WindowCenter": 300, "WindowWidth": 401}
    plain = read_pixels(written(tmp_path / "a.dcm", **window)).array
    found = read_pixels(
        written(tmp_path / "b.dcm", PhotometricInterpretation="MONOCHROME1", **window)
    ).array
    assert np.array_equal(found, 255 - plain)


def test_signed_values_and_colours(tmp_path: Path) -> None:
    values = np.linspace(-1000, 1000, 64).astype(np.int16).reshape(8, 8)
    found = read_pixels(written(tmp_path / "a.dcm", values, WindowCenter=0, WindowWidth=2001)).array
    assert found[0, 0] == 0
    assert found[-1, -1] >= 254
    colours = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    assert np.array_equal(read_pixels(written(tmp_path / "b.dcm", colours)).array, colours)


def test_one_frame_of_several(tmp_path: Path) -> None:
    values = np.stack([VALUES.T, VALUES.T[::-1]])
    path = written(tmp_path / "a.dcm", values, WindowCenter=300, WindowWidth=601)
    first, second = read_pixels(path), read_pixels(path, slice_at=1.7)
    assert (first.depth, first.note) == (2, "the first of several frames")
    assert np.array_equal(second.array, first.array[::-1])
    assert refused(path, slice_at=2).rule == "picture-slice"


def test_no_extension_is_needed(tmp_path: Path) -> None:
    assert read_pixels(written(tmp_path / "1.2.840.1")).width == 16


def test_what_is_no_dicom_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.dcm").write_bytes(b"Mustermann" * 100)
    assert refused(tmp_path / "a.dcm").rule == "picture-format"


@pytest.mark.parametrize("cut", [10, 100])
def test_truncated_pixels_are_an_error(tmp_path: Path, cut: int) -> None:
    path = written(tmp_path / "a.dcm")
    path.write_bytes(path.read_bytes()[:-cut])
    assert refused(path).rule == "picture-broken"


def test_sizes_beyond_the_limit_are_refused_before_decoding(tmp_path: Path) -> None:
    assert refused(written(tmp_path / "a.dcm", Rows=60_000, Columns=60_000)).rule == "picture-large"
    assert refused(written(tmp_path / "b.dcm", Rows=0)).rule == "picture-broken"


@pytest.mark.parametrize("syntax", ["1.2.840.10008.1.2.4.201", "1.2.3.4"])
def test_a_syntax_without_decoder_is_named(tmp_path: Path, syntax: str) -> None:
    path = written(tmp_path / "a.dcm")
    whole = path.read_bytes()
    plain = b"1.2.840.10008.1.2.1\0"
    place = whole.index(plain)
    new = syntax.encode() + b"\0" * (len(syntax) % 2)
    length = len(whole[place - 2 : place]) and len(new).to_bytes(2, "little")
    moved = whole[: place - 2] + length + new + whole[place + len(plain) :]
    path.write_bytes(moved)
    error = refused(path)
    assert error.rule == "picture-codec"
    assert "decoder" in error.hint


def test_a_compressed_file_that_can_be_decoded_is_shown(tmp_path: Path) -> None:
    from pydicom.uid import RLELossless

    path = written(tmp_path / "a.dcm")
    data = pydicom.dcmread(path)
    data.compress(RLELossless)
    data.save_as(tmp_path / "b.dcm")
    assert np.array_equal(read_pixels(tmp_path / "b.dcm").array, read_pixels(path).array)


def test_palettes_are_refused_clearly(tmp_path: Path) -> None:
    error = refused(written(tmp_path / "a.dcm", PhotometricInterpretation="PALETTE COLOR"))
    assert error.rule == "picture-format"
    assert "MONOCHROME2" in error.expected


def test_patients_are_named_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        pixels = read_pixels(written(tmp_path / "a.dcm"))
        broken = written(tmp_path / "b.dcm", WindowCenter=1)
        text = broken.read_bytes().replace(b"MONOCHROME2", b"Mustermann ")
        broken.write_bytes(text)
        assert refused(broken).rule == "picture-format"
    assert isinstance(pixels, Pixels)
    import base64

    shown = base64.b64decode(encode(pixels).data.partition(",")[2])
    assert b"Muster" not in shown
    assert b"Muster" not in pixels.array.tobytes()
    assert "Muster" not in caplog.text + repr(pixels.note) + " ".join(
        str(one.message) for one in said
    )


def test_even_a_talkative_pydicom_logs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pydicom")
    path = written(tmp_path / "a.dcm")
    pydicom.config.debug(True, default_handler=False)
    try:
        caplog.clear()
        read_pixels(path)
        assert not caplog.records
        pydicom.dcmread(path)
        assert "Muster" in caplog.text  # what would have been logged, and that it may be again
    finally:
        pydicom.config.debug(False)


def test_damaged_files_end_in_our_error_and_quote_nothing(tmp_path: Path) -> None:
    whole = written(tmp_path / "a.dcm", WindowCenter=300, WindowWidth=400).read_bytes()
    random = np.random.default_rng(0)
    for _ in range(200):
        bad = bytearray(whole)
        for place in random.integers(132, len(bad), 4):
            bad[place] = random.integers(0, 256)
        (tmp_path / "b.dcm").write_bytes(bad)
        said = ""
        try:
            read_pixels(tmp_path / "b.dcm")
        except PictureError as error:
            said = str(error)
        assert "Muster" not in said


def test_without_pydicom_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a.dcm")
    monkeypatch.setitem(__import__("sys").modules, "pydicom", None)
    error = refused(path)
    assert error.rule == "missing-extra"
    assert "calipers[dicom]" in error.hint


def test_an_album_of_dicom_files_names_no_patient(tmp_path: Path) -> None:
    from calipers.pictures.album import album
    from scenes import scene

    values = np.arange(20_000, dtype=np.uint16).reshape(100, 200)
    written(tmp_path / "i0.dcm", values)
    written(tmp_path / "i1", values)
    written(tmp_path / "i2.dcm", values, PhotometricInterpretation="PALETTE COLOR")
    found = album(scene([[0], [0], [0]], {"m": [[], [], []]}), tmp_path)
    assert list(found.pictures) == ["picture-0", "picture-1"]
    assert any(
        note.startswith("1 picture could not be read; the first, of i2") for note in found.notes
    )
    assert "Muster" not in repr(found)
