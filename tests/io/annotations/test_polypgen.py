"""Folders of PolypGen: centres, sequences, images without polyps."""

from __future__ import annotations

import pytest

import calipers as cal
from annotation_cases import picture, put
from calipers.errors import InputError
from calipers.io.read import sniff


def polypgen(folder):
    for name in ("data_C1/images_C1/a", "data_C1/images_C1/b", "data_C6/images_C6/a"):
        picture(folder / f"{name}.png", 100, 80)
    picture(folder / "sequenceData/positive/seq1/images_seq1/s_1.png", 100, 80)
    return put(
        folder,
        {
            "data_C1/bbox_C1/a_mask.txt": "polyp 10 20 30 40\npolyp 50 50 60 60\n",
            "data_C1/bbox_C1/b_mask.txt": "",
            "data_C6/bbox_C6/a.txt": "polyp 1 2 30 40\n",
            "sequenceData/positive/seq1/bbox_seq1/s_1_mask.txt": "polyp 5 5 15 15\n",
        },
    )


def test_centres_and_sequences(tmp_path) -> None:
    folder = polypgen(tmp_path / "PolypGen")
    assert sniff(folder).format == "polypgen"
    cohort = cal.read(folder)
    assert cohort.images.ids == ("C1/a", "C1/b", "C6/a", "seq1/s_1")
    assert cohort.images.groups["centre"].tolist() == ["C1", "C1", "C6", ""]
    assert cohort.images.size.tolist() == [[100, 80]] * 4
    assert cohort.references.boxes.tolist()[:2] == [[10, 20, 30, 40], [50, 50, 60, 60]]
    assert len(cohort.references) == 4


def test_a_centre_alone(tmp_path) -> None:
    folder = polypgen(tmp_path / "PolypGen")
    assert len(cal.read(folder / "data_C1").references) == 2


def test_a_broken_line_is_refused(tmp_path) -> None:
    folder = polypgen(tmp_path / "PolypGen")
    put(folder, {"data_C1/bbox_C1/a_mask.txt": "polyp 10 20 30\n"})
    with pytest.raises(InputError) as error:
        cal.read(folder)
    assert error.value.rule == "box-shape"
