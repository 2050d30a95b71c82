"""Which file belongs to which image, and that no name leads out of the folder."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest

import calipers as cal
from calipers.io.source import list_files, open_regular
from calipers.pictures.files import PictureFiles


def cohort(*ids: str, files: list[str] | None = None) -> cal.Cohort:
    records = [{"image_id": image, "boxes": [], "labels": []} for image in ids]
    for record, name in zip(records, files or []):
        record["file_name"] = name
    return cal.Cohort.from_arrays(records, classes=("nodule",))


def put(folder: Path, *names: str, content: bytes = b"") -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def paired(folder: Path, of: cal.Cohort) -> list[str | None]:
    found = PictureFiles.of(folder, of)
    paths = [found.path_of(k) for k in range(of.n_images)]
    return [path and path.relative_to(folder.resolve()).as_posix() for path in paths]


@pytest.mark.parametrize(
    "name",
    [
        f"a{end}"
        for end in (
            ".png",
            ".jpg",
            ".jpeg",
            ".bmp",
            ".tif",
            ".tiff",
            ".webp",
            ".dcm",
            ".dicom",
            ".nii",
            ".nii.gz",
        )
    ],
)
def test_an_id_is_the_name_of_its_file_with_or_without_extension(tmp_path: Path, name: str) -> None:
    put(tmp_path, f"deep/er/{name}", "b.txt", "b.gif")
    assert paired(tmp_path, cohort("a")) == [f"deep/er/{name}"]
    assert paired(tmp_path, cohort(name)) == [f"deep/er/{name}"]


def test_the_column_file_name_comes_first_as_a_path_then_as_a_name(tmp_path: Path) -> None:
    put(tmp_path, "one/x.png", "two/x.png", "two/y.png", "a.png")
    of = cohort("a", "b", "c", files=["two/x.png", "elsewhere/y.png", "z.png"])
    assert paired(tmp_path, of) == ["two/x.png", "two/y.png", None]


def test_a_file_name_that_fits_nothing_leaves_the_id(tmp_path: Path) -> None:
    put(tmp_path, "a.png")
    assert paired(tmp_path, cohort("a", files=["gone.png"])) == ["a.png"]


def test_names_that_fit_several_files_are_counted_not_guessed(tmp_path: Path) -> None:
    put(tmp_path, "one/a.png", "two/a.png", "b.png", "b.dcm", "c.png")
    of = cohort("a", "b", "c")
    assert paired(tmp_path, of) == [None, None, "c.png"]
    (note,) = PictureFiles.of(tmp_path, of).notes()
    assert note == f"1 of 3 images have a picture in {tmp_path.name}; 2 names match several files"


def test_a_file_that_fits_several_images_is_given_to_none(tmp_path: Path) -> None:
    put(tmp_path, "1.png", "2.png")
    of = cohort("a", "b", "c", files=["p/1.png", "q/1.png", "2.png"])
    assert paired(tmp_path, of) == [None, None, "2.png"]
    assert "2 images would share files with others" in PictureFiles.of(tmp_path, of).notes()[0]


def test_images_that_name_the_very_path_may_share_it(tmp_path: Path) -> None:
    put(tmp_path, "1.png")
    assert paired(tmp_path, cohort("a", "b", "1", files=["1.png", "1.png", "none"])) == [
        "1.png",
        "1.png",
        None,
    ]


def test_case_and_accents_are_forgiven_where_one_file_fits(tmp_path: Path) -> None:
    put(tmp_path, unicodedata.normalize("NFD", "Müller.PNG"), "SCAN.png", "Two.png", "TWO.png")
    of = cohort(unicodedata.normalize("NFC", "müller"), "scan", "two", "TWO")
    found = paired(tmp_path, of)
    assert found[0] is not None
    assert unicodedata.normalize("NFC", found[0]) == "Müller.PNG"
    assert found[1:] == ["SCAN.png", None, "TWO.png"]


def test_folders_may_differ_in_case_too(tmp_path: Path) -> None:
    put(tmp_path, "Site/1.png", "other/1.png")
    assert paired(tmp_path, cohort("x", files=["site/1.PNG"])) == ["Site/1.png"]


def test_dicom_needs_no_extension_but_its_mark(tmp_path: Path) -> None:
    put(tmp_path, "1.2.840.55", content=bytes(128) + b"DICM")
    put(tmp_path, "1.2.840.56", content=bytes(200))
    assert paired(tmp_path, cohort("1.2.840.55", "1.2.840.56")) == ["1.2.840.55", None]


@pytest.mark.parametrize(
    "name",
    [
        "../secret.png",
        "../../etc/passwd",
        "/etc/passwd",
        "a/../../secret.png",
        "..",
        "",
        ".",
        "..\\secret.png",
    ],
)
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    put(tmp_path, "secret.png", "inside/a.png")
    assert paired(tmp_path / "inside", cohort("a", "b", files=["a.png", name])) == ["a.png", None]
    if name:
        assert paired(tmp_path / "inside", cohort("a", name)) == ["a.png", None]


def test_an_absolute_name_falls_back_to_its_last_part(tmp_path: Path) -> None:
    put(tmp_path, "in/a.png", "a.png")
    assert paired(tmp_path / "in", cohort("x", files=[str(tmp_path / "a.png")])) == ["a.png"]


def test_links_out_of_the_folder_are_refused_and_counted(tmp_path: Path) -> None:
    put(tmp_path, "secret.png", "outside/b.png", "in/real/c.png")
    folder = tmp_path / "in"
    (folder / "a.png").symlink_to(tmp_path / "secret.png")
    (folder / "out").symlink_to(tmp_path / "outside")
    (folder / "d.png").symlink_to(folder / "real" / "c.png")
    of = cohort("a", "b", "c", "d")
    # c and d are one file under two names: both images fit it
    assert paired(folder, cohort("a", "b", "d")) == [None, None, "real/c.png"]
    assert (
        "2 links out of the folder not followed"
        in PictureFiles.of(folder, of.take([0, 1, 3])).notes()[0]
    )


def test_a_root_whose_name_begins_alike_is_outside(tmp_path: Path) -> None:
    put(tmp_path, "in/b.png", "in-secret/a.png")
    (tmp_path / "in" / "a.png").symlink_to(tmp_path / "in-secret" / "a.png")
    assert paired(tmp_path / "in", cohort("a", "b")) == [None, "b.png"]


def test_loops_are_walked_once_and_dead_links_skipped(tmp_path: Path) -> None:
    put(tmp_path, "z/a.png")
    (tmp_path / "aa").symlink_to(tmp_path)
    (tmp_path / "z" / "up").symlink_to("..")
    (tmp_path / "self").symlink_to("self")
    (tmp_path / "dead.png").symlink_to("nowhere.png")
    assert list(list_files(tmp_path).files) == ["z/a.png"]


def test_a_link_that_cannot_be_followed_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is removed while the folder is listed, or one of /proc."""
    (tmp_path / "a.png").touch()
    (tmp_path / "b.png").symlink_to("a.png")
    real = os.path.realpath

    def follow(path: str | Path) -> str:
        if str(path).endswith("b.png"):
            raise FileNotFoundError(path)
        return real(path)

    monkeypatch.setattr(os.path, "realpath", follow)
    assert list(list_files(tmp_path).files) == ["a.png"]


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc")
def test_a_file_that_opens_but_cannot_be_read_is_refused() -> None:
    with (
        pytest.raises(cal.InputError, match="not-readable"),
        open_regular(Path("/proc/self/mem"), follow=True) as stream,
    ):
        stream.read(10)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_pipes_and_hidden_files_are_no_pictures(tmp_path: Path) -> None:
    put(tmp_path, ".a.png", ".hidden/b.png", "d.png")
    os.mkfifo(tmp_path / "c.png")
    os.mkfifo(tmp_path / "e")
    assert paired(tmp_path, cohort("a", ".a", "b", "c", "d", "e")) == [
        None,
        None,
        None,
        None,
        "d.png",
        None,
    ]


def test_too_many_entries_are_an_error(tmp_path: Path) -> None:
    put(tmp_path, "a", "b", "c/d")
    assert len(list_files(tmp_path, most=4).files) == 3
    with pytest.raises(cal.InputError, match="at most 3 files"):
        list_files(tmp_path, most=3)


def test_a_folder_that_is_none_is_an_error(tmp_path: Path) -> None:
    put(tmp_path, "a.png")
    with pytest.raises(cal.InputError, match="not-found"):
        PictureFiles.of(tmp_path / "none", cohort("a"))
    with pytest.raises(cal.InputError, match="not-a-folder"):
        PictureFiles.of(tmp_path / "a.png", cohort("a"))


def test_a_folder_where_nothing_fits_shows_an_id_and_a_file(tmp_path: Path) -> None:
    put(tmp_path, "scan_0001.png", "scan_0002.png", "readme.txt")
    with pytest.raises(cal.InputError, match=r"such as 'P001', got 'scan_0001.png and 1 more'"):
        PictureFiles.of(tmp_path, cohort("P001"))
    with pytest.raises(cal.InputError, match="no picture"):
        PictureFiles.of(_empty(tmp_path), cohort("P001"))


def _empty(folder: Path) -> Path:
    (folder / "empty").mkdir()
    return folder / "empty"


def test_pictures_with_the_same_bytes_are_told(tmp_path: Path) -> None:
    """Same image bytes under two ids: a copy makes intervals too narrow."""
    put(tmp_path, "a.png", "b.png", "deep/c.png", content=b"x" * 9000)
    put(tmp_path, "d.png", content=b"x" * 5000 + b"y" + b"x" * 3999)  # the same length and ends
    put(tmp_path, "e.png", content=b"z" * 9000)
    put(tmp_path, "f.png", "g.png")  # without content there is nothing to compare
    of = cohort(*"abcdefg")
    notes = PictureFiles.of(tmp_path, of).notes()
    assert notes[1:] == (
        "2 pictures are copies of another, byte by byte: 'a.png' and 'b.png' and 'c.png'; copies "
        "make intervals too narrow",
    )
    assert len(PictureFiles.of(tmp_path, of.take([0, 3, 4, 5, 6])).notes()) == 1


def test_slices_of_one_file_are_no_copies(tmp_path: Path) -> None:
    put(tmp_path, "1.png", content=b"x")
    of = cohort("a", "b", "1", files=["1.png", "1.png", "none"])
    assert len(PictureFiles.of(tmp_path, of).notes()) == 1


def test_a_copy_that_is_gone_or_a_pipe_by_then_is_no_copy(tmp_path: Path) -> None:
    put(tmp_path, "a.png", "b.png", "c.png", content=b"x")
    files = PictureFiles.of(tmp_path, cohort("a", "b", "c"))
    (tmp_path / "b.png").unlink()
    (tmp_path / "c.png").unlink()
    os.mkfifo(tmp_path / "c.png")
    assert len(files.notes()) == 1
