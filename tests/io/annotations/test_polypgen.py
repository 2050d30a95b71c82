"""Folders of PolypGen: centres, sequences, images without polyps."""

from __future__ import annotations

import pytest
from PIL import Image

import calipers as cal
from annotation_cases import picture, put
from calipers.errors import InputError
from calipers.io.read import sniff


def polypgen(folder):
    for name in ("data_C1/images_C1/a", "data_C1/images_C1/b", "data_C6/images_C6/a"):
        picture(folder / f"{name}.png", 100, 80)
    for name in ("images_seq1/s_2", "images_seq1/s_10", "bbox_image_seq1/s_2_bbox"):
        picture(folder / f"sequenceData/positive/seq1/{name}.png", 100, 80)
    picture(folder / "sequenceData/negativeOnly/seq1_neg/n_7.png", 100, 80)
    picture(folder / "imagesAll_positive/a.png", 100, 80)
    return put(
        folder,
        {
            "data_C1/bbox_C1/a_mask.txt": "polyp 10 20 30 40\npolyp 50 50 60 60\n",
            "data_C1/bbox_C1/b_mask.txt": "",
            "data_C6/bbox_C6/a.txt": "polyp 1 2 30 40\n",
            "sequenceData/positive/seq1/bbox_seq1/s_2.txt": "polyp 5 5 15 15\n",
            "sequenceData/positive/seq1/bbox_seq1/s_10.txt": "\n",
            "sequenceData/positive/seq1/masks_seq1/s_2.txt": "polyp 5 5 15 15\n",
        },
    )


def mask(path, boxes, size=(100, 80), mode="L"):
    """Draw white boxes on black, as JPEG with losses, like the masks of the data set."""
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing = Image.new("L", size)
    for x0, y0, x1, y1 in boxes:
        drawing.paste(255, (x0, y0, x1, y1))
    drawing.convert(mode).save(path)


def test_centres_and_sequences(tmp_path) -> None:
    folder = polypgen(tmp_path / "PolypGen")
    assert sniff(folder).format == "polypgen"
    cohort = cal.read(folder)
    images = cohort.images
    assert images.ids == ("C1/a", "C1/b", "C6/a", "seq1_neg/n_7", "seq1/s_10", "seq1/s_2")
    assert images.groups["centre"].tolist() == ["C1", "C1", "C6", "", "", ""]
    assert images.groups["sequence"].tolist() == [*images.ids[:3], "seq1_neg", "seq1", "seq1"]
    assert images.groups["frame"].tolist() == [0, 0, 0, 7, 10, 2]
    assert images.size.tolist() == [[100, 80]] * 6
    assert cohort.references.boxes.tolist()[:2] == [[10, 20, 30, 40], [50, 50, 60, 60]]
    assert len(cohort.references) == 4


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_boxes_that_are_missing_are_those_of_the_mask(tmp_path, mode) -> None:
    """64 frames of centre 3 have polyps in their masks and no text file of boxes."""
    folder = polypgen(tmp_path / "PolypGen")
    picture(folder / "data_C6/images_C6/q_.png", 100, 80)
    # a speck is no polyp, and the mask of this frame lacks the line at the end of its name
    boxes = [(16, 8, 40, 24), (60, 40, 64, 44), (48, 32, 72, 72)]
    mask(folder / "data_C6/masks_C6/q_mask.jpg", boxes, mode=mode)
    cohort = cal.read(folder)
    row = cohort.images.ids.index("C6/q_")
    boxes = cohort.references.boxes[cohort.references.image == row]
    assert boxes.tolist() == [[16, 8, 40, 24], [48, 32, 72, 72]]
    assert any(note.endswith("pixels): 1") for note in cohort.intake.notes)


def test_specks_of_a_mask_are_no_polyps(tmp_path) -> None:
    folder = polypgen(tmp_path / "PolypGen")
    (folder / "data_C1/bbox_C1/a_mask.txt").unlink()
    mask(folder / "data_C1/masks_C1/a_mask.jpg", [(8, 8, 16, 16), (40, 40, 48, 48)])
    cohort = cal.read(folder / "data_C1")
    assert cohort.images.ids == ("C1/a", "C1/b")
    assert len(cohort.references) == 0


def test_a_frame_with_neither_boxes_nor_mask_is_refused(tmp_path) -> None:
    folder = polypgen(tmp_path / "PolypGen")
    (folder / "data_C1/bbox_C1/b_mask.txt").unlink()
    with pytest.raises(InputError) as error:
        cal.read(folder)
    assert error.value.rule == "boxes-missing"
    assert "C1/b" in str(error.value)


def test_a_centre_alone(tmp_path) -> None:
    folder = polypgen(tmp_path / "PolypGen")
    assert len(cal.read(folder / "data_C1").references) == 2


def test_a_broken_line_is_refused(tmp_path) -> None:
    folder = polypgen(tmp_path / "PolypGen")
    put(folder, {"data_C1/bbox_C1/a_mask.txt": "polyp 10 20 30\n"})
    with pytest.raises(InputError) as error:
        cal.read(folder)
    assert error.value.rule == "box-shape"
