"""Pictures whose files are called by a pattern (``--image-pattern``)."""

from __future__ import annotations

from pathlib import Path

import pytest

import calipers as cal
from annotation_cases import picture
from calipers.cli.main import run
from calipers.errors import InputError
from calipers.pictures.files import PictureFiles, split_pattern

REFERENCES = (
    "image,class,x0,y0,x1,y1,width,height\na,polyp,1,2,9,9,20,10\nb.png,polyp,1,2,9,9,20,10\n"
)


@pytest.fixture
def references(tmp_path: Path) -> Path:
    (tmp_path / "refs.csv").write_text(REFERENCES)
    for name in ("a_ct.png", "b_ct.png", "a_overlay.png", "a.png"):
        picture(tmp_path / "scans" / "deep" / name, 20, 10)
    return tmp_path / "refs.csv"


def test_a_pattern_names_the_files(tmp_path, references) -> None:
    cohort = cal.read(references)
    files = PictureFiles.of(tmp_path / "scans" / "{name}_ct.png", cohort)
    names = [Path(path).name for path in files.paths if path]
    assert names == ["a_ct.png", "b_ct.png"]
    plain = PictureFiles.of(tmp_path / "scans", cohort)
    assert [path and Path(path).name for path in plain.paths] == ["a.png", None]


def test_a_pattern_that_fits_nothing_is_refused(tmp_path, references) -> None:
    with pytest.raises(InputError) as error:
        PictureFiles.of(tmp_path / "scans" / "{name}_mr.png", cal.read(references))
    assert error.value.rule == "no-picture"


def test_a_pattern_may_have_folders() -> None:
    assert split_pattern(Path("x/{name}/{name}_ct.png")) == (Path("x"), "{name}/{name}_ct.png")
    assert split_pattern(Path("x/y")) == (Path("x/y"), "")


def test_the_page_shows_them(tmp_path, references) -> None:
    (tmp_path / "p.csv").write_text("image,class,x0,y0,x1,y1,score\na,polyp,1,2,9,9,0.5\n")
    words = ["evaluate", str(references), str(tmp_path / "p.csv"), "--no-ci", "-q"]
    words += ["--images", str(tmp_path / "scans"), "-o", str(tmp_path / "out")]
    assert run([*words, "--image-pattern", "{name}_ct.png"]) == 0
    assert "2 of 2 images have a picture" in (tmp_path / "out" / "report.html").read_text()
    assert run([*words, "--force", "--image-pattern", "ct.png"]) == 2
    assert run(["evaluate", *words[1:5], "--image-pattern", "{name}.png"]) == 2
