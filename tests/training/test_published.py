"""Small copies of published data sets are read as their publishers mean them."""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from calipers.training.datasets.frames import prepare
from calipers.training.datasets.splits import split_images, subset
from calipers.training.datasets.training_images import open_images
from training import layouts


def test_mura(tmp_path):
    images = open_images(str(layouts.mura(tmp_path)))
    assert images.name == "MURA"
    assert images.classes == ("XR_SHOULDER", "XR_WRIST")
    assert len(images) == 10
    assert images.ids[0] == "train/XR_SHOULDER/patient00001/study1_positive/image1.png"
    shoulders = images.only("XR_SHOULDER")
    # Wrists say nothing about shoulders.
    assert len(shoulders) == 6
    assert shoulders.positive.tolist() == [True, True, False, False, False, False]
    assert shoulders.patients[:4] == ("patient00001",) * 2 + ("patient00002",) * 2
    assert shoulders.picture(4).shape == (40, 30)
    note = "6 of 10 images say whether they show XR_SHOULDER; the others are left out"
    assert note in shoulders.notes


def test_the_official_validation_set_of_mura_is_the_test_set(tmp_path):
    shoulders = open_images(str(layouts.mura(tmp_path))).only("XR_SHOULDER")
    for seed in range(3):
        split = split_images(shoulders, seed, validation_share=0.0)
        assert {shoulders.ids[i].split("/")[0] for i in split.test.tolist()} == {"valid"}
        assert {shoulders.ids[i].split("/")[0] for i in split.train.tolist()} == {"train"}


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("train_labeled_studies.csv", None, "not-found"),
        ("valid_image_paths.csv", None, "not-found"),
        ("train_image_paths.csv", "MURA-v1.1/train/XR_HAND/patient1/study1/image1.png\n", "lists"),
        ("train_labeled_studies.csv", "MURA-v1.1/train/XR_HAND/patient1/study1/,2\n", "0 or 1"),
        ("train_labeled_studies.csv", "MURA-v1.1/train/XR_HAND/patient1/study1/\n", "2 cells"),
    ],
)
def test_broken_tables_of_mura(tmp_path, file, text, message):
    folder = layouts.mura(tmp_path)
    if text is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(text)
    with pytest.raises(cal.InputError, match=message) as caught:
        open_images(str(folder))
    assert file in str(caught.value)


def test_chexpert(tmp_path):
    images = open_images(str(layouts.chexpert(tmp_path)))
    assert images.classes == ("Cardiomegaly", "Edema")  # "No Finding" is no class
    assert images.findings.tolist() == [
        [False, False], [True, False], [False, True], [False, False], [True, False]
    ]  # fmt: skip
    assert images.certainty[:, 0].tolist() == [True, True, True, False, True]
    assert images.certainty[:, 1].tolist() == [True, False, True, True, True]
    assert images.patients[0] == images.patients[1] == "patient00001"
    assert images.test.tolist() == [False, False, False, False, True]
    edema = images.only("Edema")
    assert len(edema) == 4
    assert edema.certainty is None
    assert images.picture(1).shape == (30, 40)


def test_a_table_with_a_column_per_class(tmp_path):
    folder = layouts.chexpert(tmp_path)
    images = open_images(str(folder), str(folder / "train.csv"))
    assert len(images) == 4
    assert images.classes == ("Cardiomegaly", "Edema")
    assert images.test is None
    text = (folder / "valid.csv").read_text().replace("Edema", "Oedema")
    (folder / "valid.csv").write_text(text)
    with pytest.raises(cal.InputError, match="the column 'Edema'"):
        open_images(str(folder))
    (folder / "valid.csv").write_text(text.replace("Oedema", "Edema").replace("1.0,0.0", "1.0,x"))
    with pytest.raises(cal.InputError, match="1, 0, -1 or nothing"):
        open_images(str(folder))


def test_pascal_voc_2005(tmp_path):
    images = open_images(str(layouts.voc2005(tmp_path)))
    assert images.name == "Pascal VOC 2005"
    assert images.classes == ("car", "motorbike")
    index = {name: i for i, name in enumerate(images.ids)}
    bikes, cars = index["PNGImages/bikes/image_0001.png"], index["PNGImages/cars/image_0001.png"]
    # Pixels count from 1, and the last one belongs to the box.
    assert images.boxes[cars].tolist() == [[10, 5, 30, 25]]
    assert images.boxes[bikes].tolist() == [[0, 0, 20, 20], [30, 10, 60, 40]]
    assert images.box_labels[bikes].tolist() == [1, 0]
    only = images.only("car")
    assert only.positive.sum() == 2
    assert images.boxes[index["PNGImages/clutter/0001.png"]].shape == (0, 4)
    assert images.picture(cars).shape == (40, 60, 3)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [("Image filename", "Image", "Image filename"), ("(11, 6)", "(31, 6)", "box-shape")],
)
def test_broken_annotations_of_voc_2005(tmp_path, old, new, message):
    folder = layouts.voc2005(tmp_path)
    path = folder / "Annotations" / "cars" / "image_0001.txt"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(cal.InputError, match=message):
        open_images(str(folder))


def test_polypgen(tmp_path):
    images = open_images(str(layouts.polypgen(tmp_path)))
    assert images.classes == ("polyp",)
    assert images.positive.tolist() == [True, False, True, False]
    assert images.boxes[0].tolist() == [[5, 6, 25, 30]]
    assert images.boxes[1].shape == (0, 4)
    assert images.picture(0).shape == (40, 50, 3)


LAYOUTS = ("nih", "mura", "chexpert", "voc2005", "polypgen", "coco")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_frames_of_every_layout(tmp_path, layout):
    """The longer side is scaled down, the rest is zero, boxes move with their picture."""
    images = open_images(str(getattr(layouts, layout)(tmp_path)))
    frames = prepare(images, 24)
    assert len(frames) == len(images)
    assert frames.pixels.shape[1:3] == (24, 24)
    for i in range(len(frames)):
        width, height = frames.sizes[i]
        assert frames.scales[i] == min(1, 24 / max(width, height))
        assert not frames.pixels[i, round(height * frames.scales[i]) :].any()
        assert not frames.pixels[i, :, round(width * frames.scales[i]) :].any()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_picture_that_cannot_be_decoded_is_counted(tmp_path, layout):
    folder = getattr(layouts, layout)(tmp_path)
    pictures = sorted(path for path in folder.rglob("*") if path.suffix in (".png", ".jpg"))
    content = pictures[0].read_bytes()
    # The header is whole: formats that ask for sizes read that one at once.
    pictures[0].write_bytes(content[: len(content) // 2])
    images = open_images(str(folder))
    frames = prepare(images, 16)
    assert len(frames) == len(images) - 1
    assert len(frames.broken) == 1
    assert pictures[0].name in frames.broken[0].file


@pytest.mark.parametrize("layout", LAYOUTS)
def test_subsets_keep_boxed_images(tmp_path, layout):
    images = open_images(str(getattr(layouts, layout)(tmp_path)))
    rows = np.arange(len(images))
    boxed = set(np.flatnonzero(images.boxed).tolist())
    for number in range(3):
        part = subset(images, rows, 0.75, 0, number)
        assert boxed <= set(part.tolist())
        n_out = round(0.25 * len(images))
        assert len(part) == len(images) - min(n_out, len(images) - len(boxed))
        np.testing.assert_array_equal(part, subset(images, rows, 0.75, 0, number))
