"""Arrays in zip and tar archives: read where they lie, with the numbers of a folder."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.errors import InputError
from calipers.io.archives import find_member, list_archive
from calipers.io.volumes.open import open_volume

LONG = "a folder with a rather long name/" * 5 + "überlang.npy"


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def arrays() -> dict[str, bytes]:
    return {
        "case1.npy": npy(np.arange(12, dtype=np.float32).reshape(3, 4)),
        "in/case2.npy": npy(np.asfortranarray(np.arange(24).reshape(2, 3, 4))),
        LONG: npy(np.zeros((2, 2), np.uint8)),
    }


def write_zip(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def write_tar(path: Path, members: dict[str, bytes], form: int = tarfile.PAX_FORMAT) -> Path:
    with tarfile.open(path, "w", format=form) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def every_kind(folder: Path, members: dict[str, bytes]) -> list[Path]:
    return [
        write_zip(folder / "stored.zip", members, zipfile.ZIP_STORED),
        write_zip(folder / "deflated.zip", members),
        write_tar(folder / "pax.tar", members),
        write_tar(folder / "gnu.tar", members, tarfile.GNU_FORMAT),
    ]


def test_members_are_what_was_packed(tmp_path: Path) -> None:
    for archive in every_kind(tmp_path, arrays()):
        assert set(list_archive(archive).files) == set(arrays())
        for name, content in arrays().items():
            volume = open_volume(archive / name)
            assert np.array_equal(volume.read(), np.load(io.BytesIO(content)))
            member = find_member(archive / name)
            assert member is not None
            assert bytes(member.read()) == content


def test_large_archives_of_zip64_are_read(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    archive = write_zip(tmp_path / "large.zip", arrays())
    monkeypatch.undo()
    assert b"PK\6\6" in archive.read_bytes()
    assert open_volume(archive / "case1.npy").read().sum() == 66


def test_an_archive_gives_the_numbers_of_a_folder(tmp_path: Path) -> None:
    labels, maps = {}, {}
    for k in range(3):
        truth = np.zeros((4, 12, 12), np.uint8)
        truth[1:3, 2:6, 3 + k : 7 + k] = 1
        noise = np.random.default_rng(k).random(truth.shape)
        labels[f"case{k}.npy"], maps[f"case{k}.npy"] = npy(truth), npy(0.6 * truth + 0.4 * noise)
    for name, members in (("labels", labels), ("maps", maps)):
        (tmp_path / name).mkdir()
        for file, content in members.items():
            (tmp_path / name / file).write_bytes(content)
    samples = cal.read_maps(tmp_path / "labels", {"ours": tmp_path / "maps"})
    expected = cal.evaluate_maps(samples, ci=False)
    archived = cal.read_maps(
        write_tar(tmp_path / "labels.tar", labels), {"ours": write_zip(tmp_path / "m.zip", maps)}
    )
    evaluation = cal.evaluate_maps(archived, ci=False)
    values = [row.estimate.value for row in evaluation.rows]
    assert values == [row.estimate.value for row in expected.rows]
    # The same content has the same hash, wherever it lies.
    hashes = [file.sha256 for file in evaluation.cohort.intake.files]
    assert hashes == [file.sha256 for file in expected.cohort.intake.files]


def test_bags_are_read_from_archives(tmp_path: Path) -> None:
    from calipers.stability.read import read_bags

    models = {}
    for model in "ab":
        members = {}
        for k in range(4):
            members[f"i{k}.npy"] = npy(np.random.default_rng([k, ord(model)]).random((6, 5)))
        models[model] = members
    folders = {}
    for model, members in models.items():
        folders[model] = tmp_path / model
        folders[model].mkdir()
        for name, content in members.items():
            (folders[model] / name).write_bytes(content)
    packed = {
        "a": write_tar(tmp_path / "a.tar", models["a"]),
        "b": write_zip(tmp_path / "b.zip", models["b"]),
    }
    plain = cal.stability(read_bags(folders), ci=False)
    archived = cal.stability(read_bags(packed), ci=False)
    assert archived["APJ"].value == plain["APJ"].value
    assert archived["Spearman"].value == plain["Spearman"].value


@pytest.mark.parametrize("name", ["../case.npy", "/case.npy", "a/../../case.npy", "C:/case.npy"])
def test_names_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    for archive in every_kind(tmp_path, {name: npy(np.eye(3))}):
        with pytest.raises(InputError) as refusal:
            list_archive(archive)
        assert refusal.value.rule == "archive-member"


def test_links_are_left_out_and_devices_refused(tmp_path: Path) -> None:
    archive = write_tar(tmp_path / "links.tar", arrays())
    with tarfile.open(archive, "a") as stream:
        link = tarfile.TarInfo("passwords.npy")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        stream.addfile(link)
    listing = list_archive(archive)
    assert (listing.left, "passwords.npy" in listing.files) == (1, False)
    with tarfile.open(archive, "a") as stream:
        pipe = tarfile.TarInfo("pipe.npy")
        pipe.type = tarfile.FIFOTYPE
        stream.addfile(pipe)
    with pytest.raises(InputError, match="nothing else"):
        list_archive(archive)


def with_size(archive: Path, size: int) -> Path:
    """Change the unpacked size of the only member in the list of a zip."""
    content = bytearray(archive.read_bytes())
    at = content.rfind(b"PK\1\2")
    content[at + 24 : at + 28] = size.to_bytes(4, "little")
    archive.write_bytes(content)
    return archive


def test_bombs_are_refused(tmp_path: Path) -> None:
    claimed = {"descr": "|u1", "fortran_order": False, "shape": (20_000, 100_000)}
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, claimed)
    head = buffer.getvalue()
    packed = {"case.npy": head + bytes(1 << 20)}
    # Two gigabytes in the list and in the header of the array, from a kilobyte of packed bytes.
    archive = with_size(write_zip(tmp_path / "bomb.zip", packed), len(head) + 2_000_000_000)
    with pytest.raises(InputError, match="promises"):
        open_volume(archive / "case.npy")
    # The list and the header of the array say less than comes out.
    small = npy(np.zeros((4, 4), np.uint8))
    archive = write_zip(tmp_path / "more.zip", {"case.npy": small + bytes(1 << 24)})
    volume = open_volume(with_size(archive, len(small)) / "case.npy")
    with pytest.raises(InputError) as refusal:
        volume.read()
    assert refusal.value.rule == "volume-broken"


def test_packed_tars_are_refused_with_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "maps.tar.gz"
    with tarfile.open(path, "w:gz"):
        pass
    with pytest.raises(InputError, match="read in place") as refusal:
        cal.read_maps(path, {"ours": path})
    assert "without compression" in refusal.value.hint


def test_other_formats_are_refused_with_a_hint(tmp_path: Path) -> None:
    archive = write_zip(tmp_path / "pictures.zip", {"case.png": b"\x89PNG\r\n\x1a\n"})
    with pytest.raises(InputError, match="only arrays are read from archives"):
        open_volume(archive / "case.png")
    with pytest.raises(InputError, match="the name of a member"):
        open_volume(archive / "other.npy")


def test_damage_is_an_input_error(tmp_path: Path) -> None:
    """A byte changed, or the end cut off: what cannot be read is an `InputError`, nothing else."""
    for archive in every_kind(tmp_path, arrays()):
        content, n_refused = archive.read_bytes(), 0
        for k in range(60):
            rng = np.random.default_rng([k, len(content)])
            damaged = bytearray(content)
            if k % 3 == 0:
                damaged = damaged[: int(rng.integers(1, len(content)))]
            else:
                damaged[int(rng.integers(len(content)))] ^= int(rng.integers(1, 256))
            path = tmp_path / f"{k}-{archive.name}"
            path.write_bytes(damaged)
            try:
                for file in list_archive(path).files.values():
                    open_volume(file).read()
            except InputError:
                n_refused += 1
            finally:
                path.unlink()
        assert n_refused >= 10, archive.name  # most of the 20 that are cut off, at least


def test_a_new_archive_of_the_same_name_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "maps.zip"
    write_zip(path, {"case.npy": npy(np.zeros((2, 2)))})
    assert open_volume(path / "case.npy").read().sum() == 0
    write_zip(path, {"case.npy": npy(np.ones((2, 3)))})
    assert open_volume(path / "case.npy").read().sum() == 6
