"""Bombs are refused by their headers: quickly, and without the memory that they ask for."""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from volume_cases import metaimage, npy_header, nrrd, png_chunk

SECONDS, MEGABYTES = 1.0, 200
CONTROL = "honest.npy"  # read as a whole: the measurement must see its memory
ATTEMPT = """
import json, sys, time
import numpy, nibabel, PIL.Image, PIL.TiffImagePlugin, zipfile, gzip, scipy.ndimage
from calipers.errors import InputError
from calipers.io.volumes.open import open_volume
from calipers.io.volumes import itk, nifti, numpy, pictures
def megabytes(field):
    line = next(line for line in open("/proc/self/status") if line.startswith(field))
    return int(line.split()[1]) / 1024
found = {}
for name in sys.argv[1:]:
    # The peak that getrusage tells is at first that of the parent, so it could hide anything: this
    # one is set back.
    open("/proc/self/clear_refs", "w").write("5")
    before, start = megabytes("VmRSS"), time.process_time()
    try:
        open_volume(name).read()
        rule = "none"
    except InputError as error:
        rule = error.rule
    seconds = time.process_time() - start
    found[name] = (rule, seconds, megabytes("VmHWM") - before)
print(json.dumps(found))
"""


def nifti_header(size: tuple[int, int, int], kind: tuple[int, int] = (16, 32)) -> bytes:
    head = bytearray(352)
    struct.pack_into("<i", head, 0, 348)
    struct.pack_into("<8h", head, 40, 3, *size, 1, 1, 1, 1)
    struct.pack_into("<2h", head, 70, *kind)
    struct.pack_into("<8f", head, 76, 1, 1, 1, 1, 1, 1, 1, 1)
    struct.pack_into("<f", head, 108, 352)
    head[344:348] = b"n+1\0"
    return bytes(head)


def zeros_packed(count: int) -> bytes:
    """Zeros as gzip: a stream may have many pieces, here they are all the same."""
    return gzip.compress(bytes(1 << 24)) * (count >> 24)


def write_bombs(place: Path) -> None:
    (place / "tiny.nii.gz").write_bytes(gzip.compress(nifti_header((30_000, 30_000, 30_000))))
    (place / "small.nii.gz").write_bytes(gzip.compress(nifti_header((1000, 1000, 500))))
    whole = gzip.compress(nifti_header((800, 800, 1000))) + zeros_packed(2560 << 20)
    (place / "ratio.nii.gz").write_bytes(whole)
    (place / "behind.nii.gz").write_bytes(
        gzip.compress(nifti_header((4, 4, 4)) + bytes(256)) + zeros_packed(1 << 30)
    )
    (place / "plain.nii").write_bytes(nifti_header((1000, 1000, 500)))
    (place / "long.npy").write_bytes(
        npy_header("{'descr': '<f8', 'fortran_order': False, 'shape': (99999, 99999)}")
    )
    (place / "head.npy").write_bytes(b"\x93NUMPY\2\0" + struct.pack("<I", 2**31) + b"(" * 1000)
    with (
        zipfile.ZipFile(place / "zip.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("a.npy", "w") as file,
    ):
        file.write(
            npy_header("{'descr': '|u1', 'fortran_order': False, 'shape': (1100, 1000, 1000)}")
        )
        for _ in range(1100):
            file.write(bytes(1_000_000))
    picture = struct.pack(">2I5B", 60_000, 60_000, 8, 0, 0, 0, 0)
    content = (
        png_chunk(b"IHDR", picture)
        + png_chunk(b"IDAT", zlib.compress(bytes(10_000_000)))
        + png_chunk(b"IEND", b"")
    )
    (place / "large.png").write_bytes(b"\x89PNG\r\n\x1a\n" + content)
    nrrd(place / "large.nrrd", gzip.compress(bytes(1000)), encoding="gzip", sizes="1200 1000 1000")
    metaimage(
        place / "large.mha",
        zlib.compress(bytes(1000)),
        CompressedData=True,
        DimSize="1200 1000 1000",
    )
    metaimage(
        place / "more.mha",
        zlib.compress(bytes(200_000_000), 1),
        CompressedData=True,
        DimSize="4 3 2",
    )


@pytest.fixture(scope="module")
def attempts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, float, float]]:
    pytest.importorskip("nibabel")
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("peaks of memory are measured on Linux")
    place = tmp_path_factory.mktemp("bombs")
    write_bombs(place)
    np.save(place / CONTROL, np.ones((300, 1000, 1000), np.uint8))
    names = sorted(str(path) for path in place.iterdir())
    done = subprocess.run(
        [sys.executable, "-c", ATTEMPT, *names], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return {Path(name).name: tuple(found) for name, found in json.loads(done.stdout).items()}


RULES = {
    "tiny.nii.gz": "too-large",
    "small.nii.gz": "volume-broken",
    "ratio.nii.gz": "too-large",
    "behind.nii.gz": "too-large",
    "plain.nii": "volume-broken",
    "long.npy": "too-large",
    "head.npy": "too-large",
    "zip.npz": "too-large",
    "large.png": "too-large",
    "large.nrrd": "volume-broken",
    "large.mha": "volume-broken",
    "more.mha": "volume-broken",
}


@pytest.mark.parametrize("name", RULES)
def test_a_bomb_is_refused_quickly_and_in_little_memory(
    attempts: dict[str, tuple[str, float, float]], name: str
) -> None:
    rule, seconds, megabytes = attempts[name]
    assert rule == RULES[name]
    assert seconds < SECONDS
    assert megabytes < MEGABYTES


def test_every_bomb_has_a_rule(attempts: dict[str, tuple[str, float, float]]) -> None:
    assert set(attempts) == {*RULES, CONTROL}


def test_the_measurement_sees_memory(attempts: dict[str, tuple[str, float, float]]) -> None:
    rule, _, megabytes = attempts[CONTROL]
    assert rule == "none"
    assert megabytes > MEGABYTES


def test_an_empty_volume_is_no_bomb(tmp_path: Path) -> None:
    from calipers.io.volumes.open import open_volume
    from calipers.io.write_volume import write_volume

    write_volume(tmp_path / "a.nii.gz", np.zeros((200, 256, 256), np.uint8))
    assert (tmp_path / "a.nii.gz").stat().st_size * 200 < 200 * 256 * 256
    assert not open_volume(tmp_path / "a.nii.gz").read().any()
