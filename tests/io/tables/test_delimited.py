"""Delimited text and the NIH list."""

from __future__ import annotations

import csv
import gzip
import random
from functools import partial
from itertools import product

import numpy as np
import pytest

from calipers.errors import InputError, UsageError
from calipers.io.read import read, sniff
from cases import DATA
from refusals import assert_refused_or_set_aside

REFS = """image,class,x0,y0,x1,y1,width,height,patient,tool
007,nodule,10,20,30,40,100,100,p1,A
007,NA,1.5,2,3e1,4,100,100,p1,B
8,nodule,0,0,5,5,200,100,p2,A
9,,,,,,50,50,p2,
"""
DETS = """image;class;x;y;w;h;score
007;nodule;10;20;20;20;0.9
8;NA;1;1;2;2;1
"""


def put(folder, name, content, encoding="utf-8"):
    path = folder / name
    path.write_bytes(content.encode(encoding) if isinstance(content, str) else content)
    return path


def test_ids_stay_text_and_na_is_a_name(tmp_path):
    cohort = read(put(tmp_path, "refs.csv", REFS))
    assert cohort.images.ids == ("007", "8", "9")
    assert cohort.classes == ("NA", "nodule")
    assert cohort.references.boxes.tolist() == [[10, 20, 30, 40], [1.5, 2, 30, 4], [0, 0, 5, 5]]
    assert cohort.references.offsets.tolist() == [0, 2, 3, 3]
    assert cohort.images.size.tolist() == [[100, 100], [200, 100], [50, 50]]
    assert cohort.references.place.tolist() == [2, 3, 4]


def test_a_column_is_a_group_if_constant_on_every_image_else_a_fact(tmp_path):
    cohort = read(put(tmp_path, "refs.csv", REFS))
    assert cohort.images.groups["patient"].tolist() == ["p1", "p2", "p2"]
    assert "tool" not in cohort.images.groups
    assert cohort.references.facts["tool"].tolist() == ["A", "B", "A"]


def test_the_box_format_follows_from_the_names(tmp_path):
    refs = put(tmp_path, "refs.csv", REFS)
    table = read(refs, put(tmp_path, "dets.csv", DETS)).models["dets"]
    assert table.boxes.tolist() == [[10, 20, 30, 40], [1, 1, 3, 3]]
    centred = DETS.replace(";x;y;", ";cx;cy;")
    table = read(refs, put(tmp_path, "dets.csv", centred)).models["dets"]
    assert table.boxes.tolist() == [[0, 10, 20, 30], [0, 0, 2, 2]]


@pytest.mark.parametrize(
    "names", ["xmin,ymin,xmax,ymax", "X_Min,Y_Min,X_Max,Y_Max", "x1,y1,x2,y2", " x0 ,y0,x1,y1"]
)
def test_aliases_of_corners(tmp_path, names):
    cohort = read(put(tmp_path, "refs.csv", f"Image_ID,Label,{names}\na,b,1,2,3,4\n"))
    assert cohort.references.boxes.tolist() == [[1, 2, 3, 4]]


CORNER_NAMES = (
    "bbox_xmin,bbox_ymin,bbox_xmax,bbox_ymax",
    "col_min,row_min,col_max,row_max",
    "x_start,y_start,x_end,y_end",
    "topLeftX,topLeftY,bottomRightX,bottomRightY",
    "xtl,ytl,xbr,ybr",
    "x_links,y_oben,x_rechts,y_unten",
    "box_x1,box_y1,box_x2,box_y2",
    "x0 (px),y0 (px),x1 (px),y1 (px)",
)


@pytest.mark.parametrize("names", CORNER_NAMES)
def test_further_names_of_corners(tmp_path, names):
    cohort = read(put(tmp_path, "refs.csv", f"img,cls,{names}\na,b,1,2,3,5\n"))
    assert cohort.references.boxes.tolist() == [[1, 2, 3, 5]]


@pytest.mark.parametrize(
    ("names", "box"),
    [
        ("bbox_x,bbox_y,bbox_w,bbox_h", [4, 6, 6, 10]),
        ("bbox_left,bbox_top,bbox_width,bbox_height", [4, 6, 6, 10]),
        ("x (px),y (px),width (px),height (px)", [4, 6, 6, 10]),
        ("Box_1,Box_2,Box_3,Box_4", [4, 6, 6, 10]),
        ("center_x,center_y,width,height", [3, 4, 5, 8]),
        ("bbox_x_center,bbox_y_center,bbox_w,bbox_h", [3, 4, 5, 8]),
    ],
)
def test_further_names_of_sides(tmp_path, names, box):
    cohort = read(put(tmp_path, "refs.csv", f"img,cls,{names}\na,b,4,6,2,4\n"))
    assert cohort.references.boxes.tolist() == [box]


def test_names_of_boxes_that_are_doubtful_are_refused(tmp_path):
    # Two columns are the lower corner, and a point with the size of its image is no box.
    twice = "image,class,x_start,x_from,y_start,x_end,y_end\na,b,1,1,2,3,5\n"
    points = "image,class,center_x,center_y,width,height\na,b,1,2,9,9\na,b,3,4,9,9\n"
    for text in (twice, points):
        with pytest.raises(InputError) as refused:
            read(put(tmp_path, "refs.csv", text))
        assert refused.value.rule == "box-columns"


@pytest.mark.parametrize(
    "names",
    [
        "x,y,bbox_x,bbox_y,bbox_w,bbox_h",
        "w,h,bbox_x,bbox_y,bbox_w,bbox_h",
        "x1,y1,bbox_x1,bbox_y1,bbox_x2,bbox_y2",
        "xmin,ymin,bbox_xmin,bbox_ymin,bbox_xmax,bbox_ymax",
        "X,Y,bbox_left,bbox_top,bbox_width,bbox_height",
        "x_center,y_center,bbox_left,bbox_top,bbox_width,bbox_height",
        "x_center,y_center,left_px,top_px,width,height",
        "bb_w,bb_h,roi_left,roi_top",
        "box_1,box_2,bbox_3,roi_4",
        "bbox_x,bbox_y,width,height",
        "z,bbox_x,bbox_y,bbox_w,bbox_h,bbox_d",
    ],
)
def test_names_of_two_boxes_are_not_joined(tmp_path, names):
    with pytest.raises(InputError) as refused:
        read(put(tmp_path, "refs.csv", f"image,class,{names}\na,b,1,2,3,4,5,6\n"))
    assert refused.value.rule == "box-columns"


def test_columns_that_are_named_decide_between_two_boxes(tmp_path):
    text = "image,class,x,y,bbox_x,bbox_y,bbox_w,bbox_h\na,b,30,25,10,10,40,30\n"
    names = {"x": "bbox_x", "y": "bbox_y", "w": "bbox_w", "h": "bbox_h"}
    cohort = read(put(tmp_path, "refs.csv", text), columns=names)
    assert cohort.references.boxes.tolist() == [[10, 10, 50, 40]]


def test_names_of_another_box_leave_known_names_as_they_are(tmp_path):
    for names in ("roi_xmax,roi_ymax", "bbox_xmin,bbox_ymin"):
        text = f"image,class,xmin,ymin,width,height,{names}\na,b,10,10,40,30,512,512\n"
        cohort = read(put(tmp_path, "refs.csv", text))
        assert cohort.references.boxes.tolist() == [[10, 10, 50, 40]]
    # The number of a slice and the size of the image are of no box.
    text = "image,class,z,width,height,bbox_x,bbox_y,bbox_w,bbox_h\na,b,7,99,99,10,10,40,30\n"
    cohort = read(put(tmp_path, "refs.csv", text))
    assert cohort.references.boxes.tolist() == [[10, 10, 50, 40]]
    assert cohort.images.size.tolist() == [[99, 99]]


@pytest.mark.parametrize(
    "names",
    [
        "bbox_0,bbox_1,bbox_2,bbox_3,bbox_4",
        "bbox-0,bbox-1,bbox-2,bbox-3,bbox-4,bbox-5",
        "bbox_1,bbox_2,bbox_3,bbox_4,bbox_5",
        "BoundingBox_1,BoundingBox_2,BoundingBox_3,BoundingBox_4,BoundingBox_5,BoundingBox_6",
    ],
)
def test_numbered_columns_beyond_four_are_no_box(tmp_path, names):
    with pytest.raises(InputError, match="four numbers of a box") as refused:
        read(put(tmp_path, "refs.csv", f"image,class,{names}\na,b,1,2,3,4,5,6\n"))
    assert refused.value.rule == "box-columns"


@pytest.mark.parametrize("word", ["", "bbox_"])
def test_boxes_of_four_points_are_refused(tmp_path, word):
    names = ",".join(f"{word}x{k},{word}y{k}" for k in range(1, 5))
    with pytest.raises(InputError, match="parallel to the axes") as refused:
        read(put(tmp_path, "refs.csv", f"image,class,{names}\na,b,10,10,50,12,48,40,8,38\n"))
    assert refused.value.rule == "box-columns"
    assert "may be turned" in refused.value.hint


def test_the_rectangle_of_imagej_is_the_box_and_not_its_centroid(tmp_path):
    text = "image,class,Area,X,Y,BX,BY,Width,Height\na,b,900,31,24,10,10,40,30\n"
    cohort = read(put(tmp_path, "refs.csv", text))
    assert cohort.references.boxes.tolist() == [[10, 10, 50, 40]]
    with pytest.raises(InputError) as refused:
        read(put(tmp_path, "refs.csv", text.lower()))
    assert refused.value.rule == "box-columns"


def test_known_names_win_over_further_ones(tmp_path):
    head = "image,path,class,cls,x0,y0,x1,y1,x_start,y_start,x_end,y_end"
    cohort = read(put(tmp_path, "refs.csv", f"{head}\na,/d,b,7,1,2,3,5,0,0,1,1\n"))
    assert (cohort.images.ids, cohort.classes) == (("a",), ("b",))
    assert cohort.references.boxes.tolist() == [[1, 2, 3, 5]]


def test_a_column_of_ids_of_the_references_is_that_of_images(tmp_path):
    refs = put(tmp_path, "refs.csv", "image,class,x0,y0,x1,y1\np1,b,1,2,3,4\np2,,,,,\n")
    text = "patientId,note,class,x0,y0,x1,y1,score\np2,n,b,1,2,3,4,0.5\np1,p1,b,1,2,3,4,0.6\n"
    cohort = read(refs, put(tmp_path, "dets.csv", text))
    assert cohort.models["dets"].image.tolist() == [0, 1]
    # Other cells, two such columns and numbers tell nothing.
    numbered = put(tmp_path, "numbered.csv", "image,class,x0,y0,x1,y1\n1,b,1,2,3,4\n2,,,,,\n")
    ranks = text.replace("p2,n", "2,n").replace("p1,p1", "1,x")
    for references, broken in (
        (refs, text.replace("p2", "p3")),
        (refs, text.replace("p2,n", "p2,p2")),
        (numbered, ranks),
    ):
        with pytest.raises(InputError, match="expected a column 'image'"):
            read(references, put(tmp_path, "dets.csv", broken))


def test_the_error_of_another_encoding_says_how_to_convert_the_file(tmp_path):
    text = "Bild;Klasse;x;y;w;h\na;Gefäß;1;2;3;4\n"
    with pytest.raises(InputError, match="iconv -f WINDOWS-1252 -t UTF-8") as refused:
        read(put(tmp_path, "refs.csv", text, "cp1252"))
    assert refused.value.rule == "encoding"


@pytest.mark.parametrize("name", ["detectionScore", "confidence.score", "PROB"])
def test_further_names_of_scores(tmp_path, name):
    refs = put(tmp_path, "refs.csv", "image,class,x0,y0,x1,y1\na,b,1,2,3,4\n")
    dets = put(tmp_path, "dets.csv", f"image,class,x0,y0,x1,y1,{name}\na,b,1,2,3,4,0.75\n")
    assert read(refs, dets).models["dets"].score.tolist() == [0.75]


def test_normalised_boxes_need_the_option_and_sizes(tmp_path):
    path = put(
        tmp_path, "refs.csv", "image,class,cx,cy,w,h,width,height\na,b,0.5,0.5,0.5,0.5,200,100\n"
    )
    cohort = read(path, box_format="cxcywh-normalised")
    assert cohort.references.boxes.tolist() == [[50, 25, 150, 75]]
    with pytest.raises(InputError, match="as the columns cx cy w h say"):
        read(path, box_format="xyxy")
    path = put(tmp_path, "refs.csv", "image,class,cx,cy,w,h\na,b,0.5,0.5,0.5,0.5\n")
    with pytest.raises(InputError) as refused:
        read(path, box_format="cxcywh-normalised")
    assert refused.value.rule == "size-unknown"


def test_three_dimensional_columns(tmp_path):
    path = put(tmp_path, "refs.csv", "image,class,x,y,z,w,h,d\na,b,1,2,3,4,5,6\n")
    cohort = read(path)
    assert cohort.references.boxes.tolist() == [[1, 2, 3, 5, 7, 9]]
    assert cohort.images.size.shape == (1, 3)


def test_columns_can_be_named(tmp_path):
    path = put(tmp_path, "refs.csv", "StudyUID,x,y,width,height,Finding\np,1,2,3,4,1\n")
    cohort = read(
        path, columns={"image": "StudyUID", "class": "Finding", "w": "width", "h": "height"}
    )
    assert cohort.references.boxes.tolist() == [[1, 2, 4, 6]]
    assert np.isnan(cohort.images.size).all()
    with pytest.raises(InputError, match="did you mean 'Finding'"):
        read(path, columns={"class": "Findng"})
    with pytest.raises(UsageError, match="no column is called 'klass'"):
        read(path, columns={"klass": "Finding"})


def test_a_row_with_only_a_class_declares_it(tmp_path):
    cohort = read(put(tmp_path, "refs.csv", REFS + ",zebra,,,,,,,,\n,ape,,,,,,,,\n"))
    assert cohort.classes == ("zebra", "ape", "NA", "nodule")
    assert cohort.n_images == 3


def test_several_models_in_one_file(tmp_path):
    refs = put(tmp_path, "refs.csv", REFS)
    dets = (
        "image,class,x0,y0,x1,y1,score,model\n7,nodule,1,1,2,2,.5,b\n8,NA,1,1,2,2,.5,a\n"
        "8,NA,1,1,3,3,.5,b\n"
    )
    path = put(tmp_path, "dets.csv", dets.replace("\n7,", "\n007,"))
    cohort = read(refs, path)
    assert {name: len(table) for name, table in cohort.models.items()} == {"b": 2, "a": 1}
    assert list(read(refs, {"m": path}).models) == ["m/b", "m/a"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_encodings_delimiters_and_line_ends(tmp_path, encoding, end, sign):
    text = REFS.replace("nodule", "größe").replace(",", sign).replace("\n", end)
    cohort = read(put(tmp_path, "refs.csv", text, encoding))
    assert cohort.classes == ("NA", "größe")
    assert len(cohort.references) == 3


def test_mixed_line_ends_are_the_rows_that_the_csv_module_sees(tmp_path):
    """Files that were joined have several line ends; a break inside of quotes stays as it is."""
    rows = ["a,n,1,2,3,4", '"b\rc",n,1,2,3,4', "d,n,5,6,x,8"]
    header = "image,class,x0,y0,x1,y1"
    for ends in product(["\n", "\r\n", "\r"], repeat=3):
        text = "".join(row + end for row, end in zip([header, *rows], [*ends, "\n"]))
        with pytest.raises(InputError) as refused:
            read(put(tmp_path, "refs.csv", text))
        # The third row below the header; the break in quotes is a line of its own.
        assert refused.value.location == "5:5"
        cohort = read(put(tmp_path, "refs.csv", text.replace("x,8", "7,8")))
        with (tmp_path / "refs.csv").open(newline="") as file:
            expected = [row["image"] for row in csv.DictReader(file)]
        assert list(cohort.images.ids) == expected == ["a", "b\rc", "d"]


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("place", ["1", "2", "3", "end"])
def test_a_nul_is_refused_with_its_line(tmp_path, place, lenient):
    """The csv module reads NUL as text, and pandas ends the cell there."""
    lines = ["image,class,x0,y0,x1,y1", "a,n,1,2,3,4", "b,n,1,2,3,4"]
    if place == "end":
        text, place = "\n".join(lines) + "\n" + "\0" * 512, "4"
    else:
        line = lines[int(place) - 1]
        lines[int(place) - 1] = line[0] + "\0" + line[1:]
        text = "\n".join(lines) + "\n"
    with pytest.raises(InputError) as refused:
        read(put(tmp_path, "refs.csv", text), lenient=lenient)
    assert (refused.value.rule, refused.value.location) == ("encoding", f"line {place}")


def test_quoted_newlines_keep_line_numbers_right(tmp_path):
    text = 'image,class,x0,y0,x1,y1\na,"two\nlines",1,2,3,4\nb,c,1,2,x,4\n'
    with pytest.raises(InputError) as refused:
        read(put(tmp_path, "refs.csv", text))
    assert (refused.value.location, refused.value.field) == ("4:5", "x1")


def test_a_number_at_the_end_that_may_be_cut_off_is_noted(tmp_path):
    """Of a file that was cut off anywhere, the whole of it is read only with this note."""
    text = "image,class,x0,y0,x1,y1\na,b,1,2,3,44\nc,b,1,2,33,44\n"
    assert read(put(tmp_path, "refs.csv", text)).intake.notes == ()
    for cut in (1, 2):
        cohort = read(put(tmp_path, "refs.csv", text[:-cut]))
        assert "the last line is not ended" in cohort.intake.notes[0]
    for cut in (3, 4, 6):
        with pytest.raises(InputError):
            read(put(tmp_path, "refs.csv", text[:-cut]))


BROKEN_ROWS = [
    ("type", "3:4", "a,b,1,2x,3,4", ""),
    ("type", "3:3", "a,b,1_0,2,30,4", ""),
    ("type", "3:3", "a,b,١,2,30,4", ""),
    ("type", "3:3", 'a,b,"1,5",2,30,4', "decimal comma"),
    ("type", "3:5", 'a,b,1,2,"1,234.5",4', "thousands"),
    ("ragged", "3:6", "a,b,1,2,3", ""),
    ("ragged", "3:7", "a,b,1,2,3,4,5", "comma"),
    ("non-finite", "3:3", "a,b,nan,2,3,4", ""),
    ("non-finite", "3:3", "a,b,1,2,3," + "9" * 1000, ""),
    ("box-shape", "3:5", "a,b,1,2,,4", ""),
    ("box-shape", "3:3", "a,b,,,,", "without objects"),
    ("class-missing", "3:2", "a,,1,2,3,4", ""),
    ("missing-id", "3:1", ",b,1,2,3,4", ""),
    ("neg-size", "3:3", "a,b,9,2,3,4", ""),
    ("zero-area", "3:3", "a,b,3,2,3,4", ""),
]


@pytest.mark.parametrize(("rule", "place", "row", "hint"), BROKEN_ROWS)
def test_a_broken_row_is_refused_or_set_aside(tmp_path, rule, place, row, hint):
    path = put(tmp_path, "refs.csv", f"image,class,x0,y0,x1,y1\na,b,1,2,3,4\n{row}\nz,b,1,2,3,4\n")
    refused, _ = assert_refused_or_set_aside(partial(read, path), 0, rule, place)
    assert hint in str(refused)


@pytest.mark.parametrize(
    ("column", "cell", "rule"),
    [
        ("crowd", "2", "crowd-flag"),
        ("crowd", "maybe", "crowd-flag"),
        ("area", "-1", "area-range"),
        ("area", "inf", "area-range"),
    ],
)
def test_flags_and_areas_are_checked(tmp_path, column, cell, rule):
    path = put(
        tmp_path,
        "refs.csv",
        f"image,class,x0,y0,x1,y1,{column}\na,b,1,2,3,4,1\na,b,1,2,3,4,{cell}\n",
    )
    _, cohort = assert_refused_or_set_aside(partial(read, path), 0, rule, "3:7")
    assert getattr(cohort.references, column).tolist() == [1]


def test_an_empty_area_is_not_declared(tmp_path):
    path = put(tmp_path, "refs.csv", "image,class,x0,y0,x1,y1,area\na,b,1,2,3,4,\na,b,1,2,3,4,9\n")
    assert read(path).references.area.tolist() == [4, 9]


BROKEN_FILES = [
    ("missing-column", "a,b,1,2,3,4\nc,d,1,2,3,4\n"),
    ("missing-column", "image,remark,x0,y0,x1,y1\na,polyp,1,2,3,4\n"),
    ("box-columns", "image,class,x0,y0,x1\na,b,1,2,3\n"),
    ("box-columns", "image,class,x,y,w,h,x0,y0,x1,y1\n"),
    ("dup-column", "image,class,x0,y0,x1,y1,X0\n"),
    ("header", "image,,class,x0,y0,x1,y1\n"),
    ("no-images", "image,class,x0,y0,x1,y1\n"),
    ("csv-syntax", 'image,class,x0,y0,x1,y1\n"a,b,1,2,3,4\n'),
    ("csv-syntax", "image,class,x0,y0,x1,y1\n" + "a" * 200_000 + ",b,1,2,3,4\n"),
    ("encoding", b"image,class,x0,y0,x1,y1\ncaf\xe9,b,1,2,3,4\n"),
    ("encoding", "image,class,x0,y0,x1,y1\na\0,b,1,2,3,4\n"),
    ("empty-file", "\n \n"),
    ("empty-file", ""),
    ("wrong-role", "image,class,x0,y0,x1,y1,score\na,b,1,2,3,4,.5\n"),
    ("size-conflict", "image,class,x0,y0,x1,y1,width\na,b,1,2,3,4,50\na,b,1,2,3,4,60\n"),
    ("image-size", "image,class,x0,y0,x1,y1,width\na,b,1,2,3,4,-50\n"),
]


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize(("rule", "content"), BROKEN_FILES)
def test_a_broken_file_is_refused(tmp_path, rule, content, lenient):
    with pytest.raises(InputError) as refused:
        read(put(tmp_path, "refs.csv", content), lenient=lenient)
    assert refused.value.rule == rule


BROKEN_PREDICTIONS = [
    ("unknown-image", "2:1", "7;nodule;1;1;2;2;.5"),
    ("unknown-category", "2:2", "8;nodul;1;1;2;2;.5"),
    ("score-missing", "2:7", "8;nodule;1;1;2;2;"),
    ("score-range", "2:7", "8;nodule;1;1;2;2;50"),
    ("type", "2:7", "8;nodule;1;1;2;2;1,234"),
]


@pytest.mark.parametrize(("rule", "place", "row"), BROKEN_PREDICTIONS)
def test_broken_predictions(tmp_path, rule, place, row):
    refs = put(tmp_path, "refs.csv", REFS)
    dets = put(tmp_path, "dets.csv", f"image;class;x;y;w;h;score\n{row}\n8;NA;1;1;2;2;1\n")
    refused, cohort = assert_refused_or_set_aside(partial(read, refs, dets), 1, rule, place)
    assert (refused.rule, refused.location) == (rule, place)
    assert cohort.models["dets"].score.tolist() == [1.0]  # the sound row is left


def test_predictions_on_resized_images_are_refused(tmp_path):
    """A table of predictions that states the size of its images states the scale of its boxes."""
    header = "image,class,x0,y0,x1,y1,score,width,height\n"
    refs = put(tmp_path, "refs.csv", REFS)
    dets = put(tmp_path, "dets.csv", header + "007,nodule,1,1,9,9,.5,100,100\n")
    assert len(read(refs, dets).models["dets"]) == 1
    put(tmp_path, "dets.csv", header + "007,nodule,1,1,9,9,.5,100,50\n")
    with pytest.raises(InputError) as refused:
        read(refs, dets)
    assert (refused.value.rule, refused.value.location) == ("size-conflict", "2:9")
    # Sides of the boxes beside their corners are no sizes of images.
    put(tmp_path, "dets.csv", header + "007,nodule,1,1,9,11,.5,8,10\n8,NA,1,1,3,4,.5,2,3\n")
    assert len(read(refs, dets).models["dets"]) == 2


@pytest.mark.parametrize("column", ["spacing", "spacing_y"])
def test_predictions_on_resampled_images_are_refused(tmp_path, column):
    """Half the spacing is twice the pixels: such boxes were compared without a word."""
    refs = put(tmp_path, "refs.csv", "image,class,x0,y0,x1,y1,spacing\na,n,1,1,9,9,0.703125\n")
    text = f"image,class,x0,y0,x1,y1,score,{column}\na,n,1,1,9,9,.5,{{}}\n"
    for same in ("0.703125", "0.703", ""):
        dets = put(tmp_path, "dets.csv", text.format(same))
        assert len(read(refs, dets).models["dets"]) == 1
    put(tmp_path, "dets.csv", text.format("0.35"))
    with pytest.raises(InputError, match=r"0\.703125, the spacing_") as refused:
        read(refs, dets)
    assert (refused.value.rule, refused.value.location) == ("size-conflict", "2:8")
    # References that state no spacing contradict none.
    refs = put(tmp_path, "refs.csv", "image,class,x0,y0,x1,y1\na,n,1,1,9,9\n")
    assert len(read(refs, dets).models["dets"]) == 1


def test_an_unknown_class_gets_a_hint(tmp_path):
    dets = put(tmp_path, "dets.csv", DETS.replace("nodule", "noduel"))
    with pytest.raises(InputError, match="did you mean 'nodule'"):
        read(put(tmp_path, "refs.csv", REFS), dets)


def test_a_header_alone_is_a_silent_model_and_no_score_column_is_an_error(tmp_path):
    refs = put(tmp_path, "refs.csv", REFS)
    assert (
        len(read(refs, put(tmp_path, "none.csv", "image,class,x0,y0,x1,y1,score\n")).models["none"])
        == 0
    )
    with pytest.raises(InputError) as refused:
        read(
            refs,
            put(tmp_path, "none.csv", "image,class,x0,y0,x1,y1\n007,NA,1,1,2,2\n"),
            lenient=True,
        )
    assert refused.value.rule == "score-missing"


def test_an_unnamed_index_column_is_left_out_with_a_note(tmp_path):
    cohort = read(put(tmp_path, "refs.csv", ",image,class,x0,y0,x1,y1\n0,a,b,1,2,3,4\n"))
    assert "the first column has no name and was not read" in cohort.intake.notes


def test_the_nih_list(tmp_path):
    path = DATA / "chestxray8" / "BBox_List_2017.csv"
    if not path.exists():
        pytest.skip("the public data is not here")
    cohort = read(path)
    assert sniff(path).format == "nih"
    assert (cohort.n_images, len(cohort.references), len(cohort.classes)) == (880, 984, 8)
    assert cohort.classes == tuple(sorted(cohort.classes))
    assert "Infiltration" in cohort.classes
    assert (cohort.images.size == 1024).all()
    assert len(set(cohort.images.groups["patient"].tolist())) == 726
    assert cohort.images.ids[0] == "00013118_008.png"
    assert cohort.references.boxes[0].tolist() == [
        225.0847458,
        547.0192168,
        225.0847458 + 86.77966102,
        547.0192168 + 79.18644068,
    ]


def test_nih_with_trailing_columns_and_a_short_row(tmp_path):
    text = (
        "Image Index,Finding Label,Bbox [x,y,w,h],,,\n1_0.png,Infiltrate,1,2,3,4,,,\n"
        "2_0.png,Mass,1,2,3\n"
    )
    path = put(tmp_path, "boxes.csv", text)
    with pytest.raises(InputError) as refused:
        read(path)
    assert (refused.value.rule, refused.value.location) == ("ragged", "3:6")
    cohort = read(path, lenient=True)
    assert cohort.classes == ("Infiltration",)
    assert cohort.images.groups["patient"].tolist() == ["1"]


def test_usual_names_of_columns(tmp_path):
    refs = put(tmp_path, "refs.csv", "image_path,class,x0,y0,x1,y1\na/b.png,c,1,2,3,4\n")
    text = "image_name,class,probability,x0,y0,x1,y1\na/b.png,c,.25,1,2,3,4\n"
    cohort = read(refs, put(tmp_path, "dets.csv", text))
    assert cohort.predictions("dets").score.tolist() == [0.25]


def test_a_compressed_file_is_to_be_unpacked(tmp_path):
    with pytest.raises(InputError) as caught:
        read(put(tmp_path, "refs.json.gz", gzip.compress(b"{}")))
    assert caught.value.hint == "unpack the file first"


def test_five_hundred_corruptions_end_in_success_or_a_typed_error(tmp_path):
    draw = random.Random(3)
    refs = put(tmp_path, "refs.csv", REFS)
    refused = 0
    for k in range(500):
        data = bytearray((DETS if k % 2 else REFS).encode())
        for _ in range(draw.choice((1, 1, 4))):
            at = draw.randrange(len(data))
            data[at : at + draw.choice((0, 1, 2))] = bytes(
                [draw.choice((draw.randrange(256), *b",;\"\n\r\t'0.-"))]
            )
        path = put(tmp_path, "flip.csv", bytes(data))
        try:
            read(refs, path, lenient=bool(k % 3)) if k % 2 else read(path, lenient=bool(k % 3))
        except InputError as error:
            str(error).encode("utf-8")
            refused += 1
    assert 50 < refused < 500


def test_a_named_column_is_asked_of_the_side_that_has_it(tmp_path):
    refs = put(tmp_path, "refs.csv", "image,class,x0,y0,x1,y1,W,H,who\na,b,1,2,3,4,50,60,P\n")
    dets = put(tmp_path, "dets.csv", "image,class,x0,y0,x1,y1,conf,net\na,b,1,2,3,4,.5,m\n")
    names = {"score": "conf", "model": "net", "width": "W", "height": "H", "patient": "who"}
    cohort = read(refs, dets, columns=names)
    assert cohort.models["m"].score.tolist() == [0.5]
    assert cohort.images.size.tolist() == [[50, 60]]
    assert cohort.group("patient").tolist() == ["P"]
    for name, file in (("score", dets), ("width", refs), ("image", refs)):
        with pytest.raises(InputError, match="missing-column") as refused:
            read(refs, dets, columns={**names, name: "typo"})
        assert refused.value.file == str(file)
    with pytest.raises(InputError, match="swapped"):
        read(dets, refs, columns={"score": "conf"})


def test_a_missing_header_is_asked_for_only_where_the_first_row_has_numbers(tmp_path):
    hints = []
    for text in ("a,polyp,1,2,3,4\n", "image,x0,y0,x1,y1,ward\na,1,2,3,4,W\n"):
        with pytest.raises(InputError) as refused:
            read(put(tmp_path, "refs.csv", text), format="csv")
        hints.append("is the header missing?" in refused.value.hint)
    assert hints == [True, False]
