"""Every layout of training data gives the same images; what is broken is told or counted."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

import calipers as cal
from calipers.training.datasets.canvases import (
    Canvases,
    open_canvases,
    read_idx,
    write_canvases,
)
from calipers.training.datasets.frames import frame_of, prepare, scaled, statistics
from calipers.training.datasets.training_images import open_images
from training import layouts

SMALL = Canvases(n_train=12, n_test=6, target="0", side=32, glyph=8, fewest=2, most=3)


def test_nih(tmp_path):
    images = open_images(str(layouts.nih(tmp_path)))
    assert images.classes == ("Cardiomegaly", "Effusion")
    assert images.ids[:3] == ("00000000_000.png", "00000000_001.png", "00000001_000.png")
    assert images.findings[0].tolist() == [True, True]
    assert images.findings[1].tolist() == [False, False]
    assert images.patients[:3] == ("0", "0", "1")
    assert images.boxes[0].tolist() == [[100, 200, 400, 400]]
    assert images.boxed.sum() == 1
    assert images.picture(3).shape == (64, 64)
    assert any("boxes of 1 other image" in note for note in images.notes)


def test_the_patient_rule_of_nih(tmp_path):
    images = open_images(str(layouts.nih(tmp_path)))
    one = images.only("Cardiomegaly")
    # Images 0 and 6 could show it, and only 0 and 4, 8 have findings: one patient remains.
    assert one.ids == ("00000000_000.png", "00000000_001.png")
    assert one.positive.tolist() == [True, False]
    assert any("2 of 12 images belong to the 1 patient with" in note for note in one.notes)
    # The box of another class is none of this one.
    other = images.only("Effusion")
    assert other.boxes[0] is None
    with pytest.raises(cal.UsageError, match="did you mean 'Cardiomegaly'"):
        images.only("cardiomegaly")


def test_nih_without_its_table(tmp_path):
    folder = layouts.nih(tmp_path)
    (folder / "Data_Entry_2017.csv").unlink()
    with pytest.raises(cal.InputError, match="not-found"):
        open_images(str(folder))


def test_a_coco_folder(tmp_path):
    images = open_images(str(layouts.coco(tmp_path)))
    assert images.classes == ("lesion", "polyp")
    assert images.positive.tolist() == [True, False, True, False, True, False]
    assert images.boxes[0].tolist() == [[5, 6, 13, 15], [15, 6, 23, 15]]
    assert images.box_labels[0].tolist() == [0, 1]
    assert images.boxes[1].shape == (0, 4)
    assert images.picture(0).shape == (40, 50, 3)
    polyps = images.only("polyp")
    assert polyps.boxed.tolist() == [True, False, False, False, False, False]
    (tmp_path / "second.json").write_text("{}")
    with pytest.raises(cal.InputError, match="say which"):
        open_images(str(tmp_path))


@pytest.fixture
def folder(tmp_path):
    for i in range(4):
        layouts.picture(tmp_path / "pictures" / f"im{i}.png", i)
    return tmp_path / "pictures"


def test_a_folder_and_a_table_of_0_and_1(folder, tmp_path):
    rows = [{"image": f"im{i}.png", "label": i % 2, "patient": i // 2} for i in range(4)]
    images = open_images(str(folder), str(layouts.table(tmp_path / "labels.csv", rows)))
    assert images.classes == ("positive",)
    assert images.positive.tolist() == [False, True, False, True]
    assert images.patients == ("0", "0", "1", "1")
    assert images.boxes == (None,) * 4


def test_a_folder_and_a_table_of_classes_and_boxes(folder, tmp_path):
    box, none = {"x": 1, "y": 2, "w": 3, "h": 4}, {"x": "", "y": "", "w": "", "h": ""}
    rows = [
        {"image": "im0", "class": "mass", **box},
        {"image": "im0", "class": "nodule", **box},
        {"image": "im1", "class": "", **none},
        {"image": "im2", "class": "mass", **none},
        {"image": "gone", "class": "mass", **none},
    ]
    images = open_images(str(folder), str(layouts.table(tmp_path / "labels.csv", rows)))
    assert images.classes == ("mass", "nodule")
    assert images.boxes[0].tolist() == [[1, 2, 4, 6]] * 2
    assert images.box_labels[0].tolist() == [0, 1]
    assert images.boxes[1].shape == (0, 4)  # negative: nothing to draw
    assert images.boxes[2] is None  # positive, and nobody drew it
    assert len(images) == 3
    assert any("3 of 4 images have a picture" in note for note in images.notes)


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        ([{"image": "im0"}], "missing-column"),
        ([{"name": "im0", "label": 1}], "missing-column"),
        ([{"image": "im0", "label": 1, "patient": 1}, {"image": "im0", "label": 1, "patient": 2}],
         "labels-differ"),
        ([{"image": "im0", "class": "a", "x": 1, "y": 1, "w": "", "h": 2}], "box-shape"),
        ([{"image": "im0", "class": "a", "x": 1, "y": 1, "w": -3, "h": 2}], "box-shape"),
        ([{"image": "im0", "class": "a|b", "x": 1, "y": 1, "w": 3, "h": 2}], "labels-differ"),
    ],
)  # fmt: skip
def test_tables_that_are_broken(folder, tmp_path, rows, rule):
    with pytest.raises(cal.InputError, match=rule):
        open_images(str(folder), str(layouts.table(tmp_path / "labels.csv", rows)))


def test_pictures_alone(folder, tmp_path):
    images = open_images(str(folder))
    assert images.ids == ("im0.png", "im1.png", "im2.png", "im3.png")
    assert images.classes == ()
    (tmp_path / "empty").mkdir()
    with pytest.raises(cal.InputError, match="pictures"):
        open_images(str(tmp_path / "empty"))


@pytest.mark.parametrize("packed", [True, False])
def test_canvases_of_idx_files(tmp_path, packed):
    images = open_images(str(layouts.idx(tmp_path, packed=packed)), canvases=SMALL)
    assert len(images) == 18
    assert images.classes == ("0", "1")
    assert images.test.sum() == 6
    only = images.only("0")
    assert only.positive.tolist() == [True, False] * 9
    for i in range(0, 18, 2):
        pixels = images.picture(i)
        assert pixels.shape == (32, 32)
        (x0, y0, x1, y1) = only.boxes[i][0].astype(int)
        # The bar stands: it is bright, and what is left and right of it is not.
        assert (x1 - x0, y1 - y0) == (2, 8)
        assert pixels[y0:y1, x0:x1].mean() > 180
    again = open_images(str(tmp_path), canvases=SMALL)
    np.testing.assert_array_equal(images.picture(5), again.picture(5))
    other = open_images(str(tmp_path), canvases=Canvases(**{**_fields(SMALL), "seed": 1}))
    assert (other.picture(5) != images.picture(5)).any()


def _fields(settings):
    return {name: getattr(settings, name) for name in settings.__slots__}


def test_canvases_of_digits_need_no_file():
    images = open_images("digits", canvases=Canvases(n_train=4, n_test=2))
    assert images.classes == tuple("0123456789")
    assert images.picture(0).shape == (64, 64)
    assert 3 <= len(images.boxes[0]) <= 6
    with pytest.raises(cal.UsageError, match="no character"):
        open_canvases("digits", Canvases(target="x"))
    with pytest.raises(cal.UsageError, match="has labels already"):
        open_images("digits", "labels.csv")


def test_canvases_as_a_folder_of_pictures(tmp_path):
    folder = write_canvases(tmp_path / "made", n=6, side=40, classes=("3", "1"), seed=2)
    images = open_images(str(folder))
    assert images.classes == ("3", "1")
    assert images.ids[5] == "canvas-0005.png"
    # The folder shows what the canvases show.
    settings = Canvases(n_train=6, n_test=0, target="3", side=40, glyph=8, seed=2)
    drawn = open_images("digits", canvases=settings).with_classes(("3", "1"))
    np.testing.assert_array_equal(images.findings, drawn.findings)
    for i in range(6):
        np.testing.assert_array_equal(images.picture(i), drawn.picture(i))
        np.testing.assert_array_equal(images.boxes[i], drawn.boxes[i])
    labelled = open_images(str(folder / "pictures"), str(folder / "labels.csv"))
    np.testing.assert_array_equal(labelled.positive, images.findings[:, 0])


def test_broken_idx_files(tmp_path):
    folder = layouts.idx(tmp_path, packed=False)
    images = folder / "train-images-idx3-ubyte"
    content = images.read_bytes()
    cases = {"cut": content[:-1], "long": content + b"x", "mark": b"\0\0\0\1" + content[4:]}
    cases |= {"short": content[:7], "bomb": content[:4] + b"\xff" * 12}
    cases["packed"] = gzip.compress(content)[:-20]
    for broken in cases.values():
        images.write_bytes(broken)
        with pytest.raises(cal.InputError, match="idx-format"):
            read_idx(images, 3)
    images.unlink()
    with pytest.raises(cal.InputError, match="train-images-idx3-ubyte"):
        open_images(str(folder))
    with pytest.raises(cal.InputError, match="idx-format"):
        read_idx(folder / "train-labels-idx1-ubyte", 3)


def test_frames_are_scaled_and_padded():
    wide = np.full((30, 60), 200, np.uint8)
    frame, scale = frame_of(wide, 20, colour=False)
    assert scale == pytest.approx(1 / 3)
    assert (frame[:10] == 200).all()
    assert (frame[10:] == 0).all()
    small, scale = frame_of(np.full((4, 6), 9, np.uint8), 20, colour=True)
    assert scale == 1  # never enlarged
    assert small.shape == (20, 20, 3)
    assert (small[:4, :6] == 9).all()
    values = scaled(np.array([[[0, 255], [51, 204]]], np.uint8))
    assert values.shape == (1, 1, 2, 2)
    assert values.ravel().tolist() == pytest.approx([-1, 1, -0.6, 0.6])


def test_broken_pictures_are_set_aside_and_counted(folder, tmp_path):
    (folder / "im1.png").write_bytes((folder / "im1.png").read_bytes()[:90])
    rows = [{"image": f"im{i}.png", "label": i % 2} for i in range(4)]
    images = open_images(str(folder), str(layouts.table(tmp_path / "labels.csv", rows)))
    frames = prepare(images, 16, jobs=2)
    assert frames.images.ids == ("im0.png", "im2.png", "im3.png")
    assert [error.rule for error in frames.broken] == ["picture-broken"]
    assert frames.pixels.shape == (3, 16, 16)
    mean, spread = statistics(frames, np.arange(3))
    assert mean == pytest.approx([scaled(frames.pixels).mean()], abs=1e-6)
    assert spread == pytest.approx([scaled(frames.pixels).std()], abs=1e-6)
    for i in (0, 2):
        (folder / f"im{i}.png").write_bytes(b"nothing")
    with pytest.raises(cal.InputError, match="mostly-broken"):
        prepare(images, 16)


def test_boxes_lie_on_the_grid_of_the_frame(folder, tmp_path):
    # The picture is 40 x 30; the frame of 20 pixels is 40 x 40 of its pixels.
    box = {"x0": 0, "y0": 20, "x1": 10, "y1": 30}
    rows = [{"image": "im0.png", "label": 1, **box}]
    images = open_images(str(folder), str(layouts.table(tmp_path / "labels.csv", rows)))
    frames = prepare(images, 20)
    assert frames.extent(0) == 40
    flags = frames.instances(0, 4)
    assert np.argwhere(flags).tolist() == [[2, 0]]


def test_many_frames_live_in_a_file(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("calipers.training.datasets.frames.IN_MEMORY", 100)
    images = open_images(str(folder))
    frames = prepare(images, 16, folder=tmp_path)
    assert isinstance(frames.pixels, np.memmap)
    monkeypatch.undo()
    np.testing.assert_array_equal(frames.pixels, prepare(images, 16).pixels)
    assert not [path for path in tmp_path.iterdir() if path.is_file()]
