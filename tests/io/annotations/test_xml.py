"""Pascal VOC and ImageNet folders, and the XML of CVAT."""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from annotation_cases import CVAT, CVAT_VIDEO, EMPTY_VOC, IMAGENET, VOC, put
from calipers.errors import InputError
from refusals import assert_refused_or_set_aside


def refused(*args, **options) -> InputError:
    with pytest.raises(InputError) as caught:
        cal.read(*args, **options)
    return caught.value


def test_voc_by_hand(tmp_path) -> None:
    folder = put(tmp_path, {"Annotations/000001.xml": VOC, "Annotations/000002.xml": EMPTY_VOC})
    cohort = cal.read(folder)
    assert cohort.images.ids == ("000001", "000002")
    assert cohort.classes == ("dog", "person")
    # Pixels 48 to 195 count from 1 and include both ends: 47 to 195, 148 wide.
    np.testing.assert_array_equal(cohort.references.boxes[0], [47, 239, 195, 371])
    assert cohort.references.extent[0] == 148 * 132
    assert cohort.references.ignore.tolist() == [False, True]
    np.testing.assert_array_equal(cohort.images.size, [[353, 500], [np.nan, np.nan]])
    assert cohort.images.groups["file_name"].tolist() == ["000001.jpg", "e.jpg"]


def test_imagenet_and_a_single_file(tmp_path) -> None:
    folder = put(tmp_path, {"n01440764/n01440764_18.xml": IMAGENET})
    cohort = cal.read(folder)
    assert cohort.images.ids == ("n01440764/n01440764_18",)
    np.testing.assert_array_equal(cohort.references.boxes, [[0, 0, 500, 375]])
    single = cal.read(folder / "n01440764" / "n01440764_18.xml")
    assert single.images.ids == ("n01440764_18",)
    np.testing.assert_array_equal(single.references.boxes, cohort.references.boxes)


def test_boxes_that_count_from_zero_are_noted_and_can_be_declared(tmp_path) -> None:
    text = IMAGENET.replace("<xmin>1<", "<xmin>0<").replace("<ymin>1<", "<ymin>0<")
    folder = put(tmp_path, {"a.xml": text})
    assert any("--box-format xyxy" in note for note in cal.read(folder).intake.notes)
    cohort = cal.read(folder, box_format="xyxy")
    np.testing.assert_array_equal(cohort.references.boxes, [[0, 0, 500, 375]])
    assert not cohort.intake.notes


def test_predictions_on_voc_come_in_other_formats(tmp_path) -> None:
    folder = put(tmp_path / "v", {"Annotations/000001.xml": VOC})
    table = tmp_path / "p.csv"
    table.write_text("file_name,class,x0,y0,x1,y1,score\n000001.jpg,dog,47,239,195,371,0.9\n")
    cohort = cal.read(folder, table, format="voc")
    # The person is difficult, so the dog is all that counts.
    evaluation = cal.evaluate(cohort, "overview", ci=False)
    rows = [row for row in evaluation.rows if row.metric == "sensitivity@0.5"]
    assert rows[0].estimate.value == 1.0
    assert refused(folder, folder).rule == "score-missing"


RESULTS = {
    "comp4_det_test_dog.txt": "000001 0.9 48 240 195 371\n000001 0.25 1 1 10 10\n",
    "comp4_det_test_person.txt": "000001.jpg 0.5 8 12 352 498\n",
    "comp4_det_test_cat.txt": "",
}


def test_results_of_the_development_kit_by_hand(tmp_path) -> None:
    folder = put(tmp_path / "v", {"Annotations/000001.xml": VOC})
    results = put(tmp_path / "m", RESULTS)
    assert cal.sniff(results).format == "voc-results"
    for options in ({}, {"format": "voc"}):
        table = cal.read(folder, results, **options).models["m"]
        assert table.score.tolist() == [0.9, 0.25, 0.5]
        assert table.label.tolist() == [0, 0, 1]
        np.testing.assert_array_equal(table.boxes[0], [47, 239, 195, 371])
    one = cal.read(folder, results / "comp4_det_test_dog.txt")
    assert len(one.models["comp4_det_test_dog"]) == 2
    assert refused(results).rule == "wrong-role"


def test_names_of_results_with_a_random_identifier(tmp_path) -> None:
    folder = put(tmp_path / "v", {"Annotations/000001.xml": VOC})
    salt = "comp4_44503d57-2f73-4400-a95d-5b0d7a3a9e3c_det"
    files = {name.replace("comp4_det", salt): text for name, text in RESULTS.items()}
    results = put(tmp_path / "m", files)
    assert cal.sniff(results).format == "voc-results"
    assert cal.read(folder, results).models["m"].label.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("000001 0.5 1 1 10", "box-shape"),
        ("000001 x 1 1 10 10", "type"),
        ("000001 1.5 1 1 10 10", "score-range"),
        ("000001 0.5 20 1 10 10", "neg-size"),
        ("000002 0.5 1 1 10 10", "unknown-image"),
    ],
)
def test_broken_results_are_refused_with_file_and_line(tmp_path, line: str, rule: str) -> None:
    folder = put(tmp_path / "v", {"Annotations/000001.xml": VOC})
    name = "comp4_det_test_dog.txt"
    results = put(tmp_path / "m", {**RESULTS, name: f"{RESULTS[name]}{line}\n"})
    assert_refused_or_set_aside(
        lambda **options: cal.read(folder, results, **options), 1, rule, f"{name}:3"
    )


def test_results_of_other_classes_are_refused(tmp_path) -> None:
    folder = put(tmp_path / "v", {"Annotations/000001.xml": VOC})
    results = put(tmp_path / "m", {**RESULTS, "comp4_det_test_cat.txt": "000001 0.5 1 1 9 9\n"})
    assert_refused_or_set_aside(
        lambda **options: cal.read(folder, results, **options),
        1,
        "unknown-category",
        "comp4_det_test_cat.txt:1",
    )


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("<xmin>48</xmin>", "<xmin>x</xmin>", "type"),
        ("<xmin>48</xmin>", "", "type"),
        ("<xmin>48</xmin>", "<xmin>nan</xmin>", "non-finite"),
        ("<xmin>48</xmin>", "<xmin>400</xmin>", "neg-size"),
        ("<name>dog</name>", "<name> </name>", "class-missing"),
        ("<difficult>0</difficult>", "<difficult>2</difficult>", "ignore-flag"),
        ("<bndbox><xmin>48", "<polygon><xmin>48", "box-shape"),
    ],
)
def test_broken_objects_are_refused_with_file_and_line(tmp_path, old, new, rule) -> None:
    text = VOC.replace(old, new)
    if "polygon" in new:
        text = text.replace("371</ymax></bndbox>", "371</ymax></polygon>")
    folder = put(tmp_path, {"x/a.xml": text})
    assert_refused_or_set_aside(lambda **options: cal.read(folder, **options), 0, rule, "x/a.xml:6")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (VOC[:200], "xml-syntax"),
        ("", "xml-syntax"),
        (VOC.replace("</name>", "</nome>", 1), "xml-syntax"),
        (VOC.replace("<width>353</width>", "<width>-3</width>"), "image-size"),
        (VOC.replace("<width>353</width>", "<width>12.5</width>"), "image-size"),
        (VOC.replace("annotation>", "other>"), "format"),
        ("<annotation>" + "<a>" * 100 + "</a>" * 100 + "</annotation>", "depth"),
        ("<?xml version='1.0' encoding='no-such'?>" + VOC, "xml-syntax"),
        (VOC.encode("utf-8").replace(b"dog", b"d\xffg"), "xml-syntax"),
    ],
)
def test_files_that_cannot_be_trusted_stop_both_modes(tmp_path, text, rule) -> None:
    folder = put(tmp_path, {"a.xml": VOC, "b.xml": text})
    for lenient in (False, True):
        error = refused(folder, lenient=lenient)
        assert error.rule == rule
        assert error.file.endswith("b.xml")


BOMB = '<!DOCTYPE a [<!ENTITY x "xxxxxxxxxx"><!ENTITY y "&x;&x;&x;&x;">]>'
OUTSIDE = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]>'


@pytest.mark.parametrize("head", [BOMB, OUTSIDE, '<!DOCTYPE a SYSTEM "http://localhost/a.dtd">'])
def test_entities_and_document_types_are_refused(tmp_path, head: str) -> None:
    text = head + VOC.replace("dog", "&x;")
    error = refused(put(tmp_path, {"a.xml": text}), format="voc")
    assert error.rule == "xml-forbidden"


def test_cvat_by_hand(tmp_path) -> None:
    put(tmp_path, {"a.xml": CVAT})
    cohort = cal.read(tmp_path / "a.xml")
    assert cohort.images.ids == ("dir/a.png", "b.png")
    assert cohort.classes == ("polyp", "vessel")
    expected = [
        [10.5, 20, 30.5, 50],
        [1, 2, 21, 12],
        [45, 35, 55, 55],  # 20 x 10 about (50, 45), turned by 90 degrees
        [40, 35, 60, 45],
    ]
    np.testing.assert_allclose(cohort.references.boxes, expected)
    assert cohort.references.label.tolist() == [0, 1, 0, 0]
    notes = "\n".join(cohort.intake.notes)
    assert "1 tags of whole images" in notes
    assert "masks present in 2 of 4" in notes
    assert cal.sniff(tmp_path / "a.xml").format == "cvat"


def test_polygons_of_cvat_are_masks_if_there_is_nothing_else(tmp_path) -> None:
    lines = [
        line for line in CVAT.splitlines() if "<box" not in line and 'z_order="0"><a' not in line
    ]
    text = "\n".join(line for line in lines if "<ellipse" not in line)
    put(tmp_path, {"a.xml": text})
    masks = cal.read(tmp_path / "a.xml").references.masks
    assert masks is not None
    assert masks.voxels[0] == pytest.approx(100, abs=12)


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ('xtl="10.50"', 'xtl="x"', "type"),
        ('xtl="10.50"', "", "type"),
        ('xtl="10.50"', 'xtl="inf"', "non-finite"),
        ('<box label="polyp" source', '<box label="" source', "class-missing"),
        ('<box label="polyp" source', '<box label="other" source', "dangling"),
        ('<box label="polyp" source', '<cuboid label="polyp" source', "shape-kind"),
    ],
)
def test_broken_shapes_of_cvat_are_refused_with_their_line(tmp_path, old, new, rule) -> None:
    text = CVAT.replace(old, new)
    if "cuboid" in new:
        text = text.replace("</attribute></box>", "</attribute></cuboid>")
    path = put(tmp_path, {"a.xml": text}) / "a.xml"
    assert_refused_or_set_aside(lambda **options: cal.read(path, **options), 0, rule, "line 9")


def test_points_of_polygons_are_checked(tmp_path) -> None:
    for points in ("1,2;3", "1,2;x,4;5,6", "1,2;nan,4;5,6", "", "1,2,3;4,5,6"):
        text = CVAT.replace("1.00,2.00;21.00,2.00;21.00,12.00", points)
        assert refused(put(tmp_path, {"a.xml": text}) / "a.xml").rule == "polygon"


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ('<image id="1" name="b.png"', '<image id="1" name=""', "missing-id"),
        ('<image id="1" name="b.png"', '<image id="1" name="dir/a.png"', "dup-image"),
        ('width="64"', "", "image-size"),
        ('width="64"', 'width="1e99"', "image-size"),
        ('<image id="1"', '<track id="1" label="polyp"/><image id="1"', "format"),
        ("</annotations>", '<track id="1" label="polyp"/></annotations>', "format"),
    ],
)
def test_images_of_cvat_are_checked(tmp_path, old, new, rule) -> None:
    assert refused(put(tmp_path, {"a.xml": CVAT.replace(old, new)}) / "a.xml").rule == rule


def painted(rle: str, **place: int) -> str:
    """CVAT's file with a painted mask and nothing else."""
    sides = {"left": 10, "top": 20, "width": 4, "height": 3, **place}
    attributes = " ".join(f'{name}="{value}"' for name, value in sides.items())
    mask = f'<mask label="polyp" source="manual" rle="{rle}" {attributes} z_order="0"></mask>'
    head, _, rest = CVAT.partition('height="80">')
    return f'{head}height="80">{mask}</image>{rest.partition("</image>")[2]}'


def test_painted_masks_of_cvat_by_hand(tmp_path) -> None:
    # Rows of 4 pixels: .##. / ###. / ..#.
    path = put(tmp_path, {"a.xml": painted("1, 2, 1, 3, 3, 1, 1")}) / "a.xml"
    references = cal.read(path).references
    assert references.boxes.tolist() == [[10, 20, 13, 23]]
    mask = np.zeros((80, 100), np.bool_)
    mask[20, 11:13] = mask[21, 10:13] = mask[22, 12] = True
    assert references.masks is not None
    np.testing.assert_array_equal(references.masks.dense(0), mask)


def test_a_painted_mask_may_fill_the_image(tmp_path) -> None:
    whole = painted("0 8000", left=0, top=0, width=100, height=80)
    references = cal.read(put(tmp_path, {"a.xml": whole}) / "a.xml").references
    assert references.boxes.tolist() == [[0, 0, 100, 80]]
    assert references.masks is not None
    assert references.masks.voxels.tolist() == [8000]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (painted("1, 2, 1, 3, 3, 1"), "rle-length"),
        (painted("12"), "empty-mask"),
        (painted("1, 2, x, 3, 3, 1, 1"), "rle-kind"),
        (painted("1, -2, 13"), "rle-kind"),
        (painted("1, " + "9" * 5_000), "rle-kind"),
        (painted("1, 2, 1, 3, 3, 1, 1", left=97), "outside"),
        (painted("1, 2, 1, 3, 3, 1, 1", top=-1), "outside"),
        (painted("1, 2, 1, 3, 3, 1, 1", width=4_000_000_000), "outside"),
    ],
)
def test_broken_painted_masks_are_refused(tmp_path, text: str, rule: str) -> None:
    assert refused(put(tmp_path, {"a.xml": text}) / "a.xml").rule == rule


def test_tracks_of_a_video_by_hand(tmp_path) -> None:
    cohort = cal.read(put(tmp_path, {"a.xml": CVAT_VIDEO}) / "a.xml")
    frames = ("frame_000010", "frame_000012", "frame_000014", "frame_000016")
    assert cohort.images.ids == frames
    assert cohort.images.size.tolist() == [[64, 48]] * 4
    assert cohort.images.groups["frame"].tolist() == [10, 12, 14, 16]
    assert set(cohort.images.groups["sequence"].tolist()) == {"colon 7"}
    boxes = [[1, 2, 11, 12], [5, 3, 7, 5], [3, 2, 13, 12]]  # the mask is .## in both rows
    assert cohort.references.boxes.tolist() == boxes
    assert cohort.references.image.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ('<box frame="12"', '<box frame="13"', "unknown-image"),
        ('<box frame="12"', "<box", "unknown-image"),
        ("<size>4</size>", "<size>1e99</size>", "type"),
        ("<size>4</size>", "", "no-images"),
        ("interpolation", "annotation", "format"),
        ('<track id="1"', '<track id="1" task_id="9"', "format"),
        ("<width>64</width>", "<width>0</width>", "image-size"),
    ],
)
def test_videos_of_cvat_are_checked(tmp_path, old: str, new: str, rule: str) -> None:
    text = CVAT_VIDEO.replace(old, new)
    if rule == "no-images":
        text = text.partition("<track")[0] + "</annotations>"
    assert refused(put(tmp_path, {"a.xml": text}) / "a.xml").rule == rule


def test_a_video_without_its_size_has_boxes_only(tmp_path) -> None:
    text = CVAT_VIDEO.replace("<width>64</width><height>48</height>", "")
    cohort = cal.read(put(tmp_path, {"a.xml": text}) / "a.xml")
    assert np.isnan(cohort.images.size).all()
    assert cohort.references.boxes.tolist()[1] == [5, 3, 7, 5]
    assert cohort.references.masks is None
