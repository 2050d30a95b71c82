"""Files that hold one document in another wrapping: JSON Lines, and an archive with one annotation
file.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
import zipfile
from pathlib import Path

import pytest

import calipers as cal
from calipers.errors import InputError
from calipers.io import source

ROW = {"image": "a", "class": "polyp", "x0": 1, "y0": 2, "x1": 3, "y1": 4}
TABLE = "image,class,x0,y0,x1,y1\na,polyp,1,2,3,4\nb,,,,,\n"
NOTE = "a JSON object per line, read as a list of them: /0 is the first"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n  \n", " \t\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_lines_are_a_list(tmp_path: Path, end: str, mark: str) -> None:
    rows = [{**ROW, "image": name, "note": "brace } \\n {"} for name in "abc"]
    text = mark + end.join(map(json.dumps, rows)) + end
    (tmp_path / "r.txt").write_bytes(text.encode())
    cohort = cal.read(tmp_path / "r.txt")
    assert cohort.images.ids == ("a", "b", "c")
    (intake,) = cohort.intake.files
    assert NOTE in intake.notes
    assert intake.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert intake.bytes == len(text.encode())


def test_one_line_is_a_list_only_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text(json.dumps(ROW))
    assert len(cal.read(tmp_path / "r.jsonl").references) == 1
    (tmp_path / "r.json").write_text(json.dumps(ROW))
    with pytest.raises(InputError):
        cal.read(tmp_path / "r.json")


def test_a_document_that_lacks_a_comma_is_not_repaired(tmp_path: Path) -> None:
    text = '{"images": [{"id": 1}\n{"id": 2}],\n"annotations": [], "categories": []}\n'
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(InputError) as error:
        cal.read(tmp_path / "r.json")
    assert error.value.rule == "json-syntax"


def test_a_broken_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text(json.dumps(ROW) + '\n{"image": "b",\n')
    with pytest.raises(InputError) as error:
        cal.read(tmp_path / "r.jsonl")
    assert error.value.rule == "json-syntax"


def archive(path: Path, files: dict[str, str]) -> Path:
    if path.suffix == ".tar":
        with tarfile.open(path, "w") as tar:
            for name, text in files.items():
                (path.parent / "member").write_text(text)
                tar.add(path.parent / "member", name)
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, text in files.items():
                packed.writestr(name, text)
    return path


@pytest.mark.parametrize("suffix", [".zip", ".tar", ".ZIP"])
def test_the_only_annotation_file_of_an_archive_is_read(tmp_path: Path, suffix: str) -> None:
    files = {"images/a.png": "x", "annotations/boxes.csv": "\ufeff" + TABLE}
    if suffix != ".tar":
        files["__MACOSX/annotations/._boxes.csv"] = "x"
    path = archive(tmp_path / f"export{suffix}", files)
    cohort = cal.read(path)
    assert cohort.images.ids == ("a", "b")
    (intake,) = cohort.intake.files
    assert intake.file == str(path)
    assert intake.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    note = "the only annotation file of the archive is read: annotations/boxes.csv"
    assert note in intake.notes


def test_a_file_beside_arrays_is_none_of_annotations(tmp_path: Path) -> None:
    path = archive(tmp_path / "maps.zip", {"case.npy": "x", "dataset.json": "{}"})
    assert cal.sniff(path).format == "label-volumes"


def test_of_several_none_is_chosen(tmp_path: Path) -> None:
    path = archive(tmp_path / "export.zip", {"a.csv": TABLE, "b.csv": TABLE})
    with pytest.raises(InputError, match="unpack it, and give the folder"):
        cal.read(path)


def test_a_file_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MOST_ANNOTATION_BYTES", 1000)
    path = archive(tmp_path / "export.zip", {"a.csv": TABLE + "\n" * 2000})
    with pytest.raises(InputError) as error:
        cal.read(path)
    assert error.value.rule == "too-large"
