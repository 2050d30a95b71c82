"""The LARD list of runways: four corners, semicolons, further columns."""

from __future__ import annotations

from functools import partial
from random import Random

import numpy as np
import pytest

from calipers.errors import InputError
from calipers.io.read import explain, read, sniff
from calipers.io.tables.lard import outlines_of
from refusals import assert_refused_or_set_aside
from seeds import looped

HEADER = "image;height;width;type;scenario;airport;runway;weather;x_A;y_A;x_B;y_B;x_C;y_C;x_D;y_D\n"
# The corners are sorted by row, as LARD has them: A B are the far edge, C D the near one, so A B C
# D crosses itself.
LIST = (
    HEADER
    + "images/a.png;100;120;real;S1;LFPO;06;rain;50;20;60;20;30;60;80;60\n"
    + "images/b.png;100;120;real;S1;LFPO;06;;10;10;20;10;8;30;22;30\n"
    + "images/c.png;100;120;earth_studio;S2;KMSY;11L;;0;0;120;0;0;100;120;100\n"
)
PREDICTIONS = "image,class,x0,y0,x1,y1,score\nimages/a.png,runway,30,20,80,60,0.9\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "lard.csv").write_text(LIST)
    (tmp_path / "found.csv").write_text(PREDICTIONS)
    return tmp_path


def put(folder, content, name="lard.csv"):
    (folder / name).write_text(content)
    return folder / name


def test_it_is_known_by_its_header(folder):
    found = sniff(folder / "lard.csv")
    assert (found.format, found.role) == ("lard", "references")
    assert sniff(put(folder, LIST.replace(";", ","), "commas.csv")).format == "lard"
    assert sniff(put(folder, "image;class;x0;y0;x1;y1\n", "boxes.csv")).format == "csv"


def test_boxes_are_the_hulls_of_the_corners(folder):
    cohort = read(folder / "lard.csv")
    assert cohort.images.ids == ("images/a.png", "images/b.png", "images/c.png")
    assert cohort.classes == ("runway",)
    assert cohort.references.boxes.tolist() == [[30, 20, 80, 60], [8, 10, 22, 30], [0, 0, 120, 100]]
    assert cohort.images.size.tolist() == [[120, 100]] * 3
    assert cohort.intake.files[0].format == "lard"


def test_further_columns_are_groups(folder):
    groups = read(folder / "lard.csv").images.groups
    assert groups["airport"].tolist() == ["LFPO", "LFPO", "KMSY"]
    assert groups["runway"].tolist() == ["06", "06", "11L"]
    assert groups["weather"].tolist() == ["rain", "", ""]
    assert not {"class", "x_A", "x0"} & set(groups)


def test_the_quadrilateral_is_the_mask(folder):
    masks = read(folder / "lard.csv").references.masks
    # A trapezoid of sides 10 and 50 and height 40, one of 10, 14 and 20, and the whole picture.
    assert masks.voxels[:2] == pytest.approx([1200, 240], rel=0.02)
    assert masks.voxels[2] == 120 * 100
    middle, corner = masks.dense(0)[40], masks.dense(0)[21]
    assert (middle[55], middle[31], corner[55], corner[32]) == (1, 0, 1, 0)


@pytest.mark.parametrize("turn", np.linspace(0.0, 6.2, 9))
def test_any_order_of_the_corners_has_one_outline(turn):
    rectangle = np.array([[-30, -5], [30, -5], [30, 5], [-30, 5]]) @ np.array(
        [[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]
    )
    for order in ([0, 1, 2, 3], [0, 2, 1, 3], [3, 1, 2, 0]):
        x, y = outlines_of(rectangle[None, order])[0].T
        assert abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2 == pytest.approx(600)


def test_masks_can_be_left_out_or_required(folder):
    assert read(folder / "lard.csv", masks="ignore").references.masks is None
    assert read(folder / "lard.csv", masks="required").references.masks is not None


def test_without_sizes_only_boxes_are_used_and_said_so(folder):
    rows = [";".join(row.split(";")[:1] + row.split(";")[3:]) for row in LIST.splitlines()]
    bare = put(folder, "\n".join(rows))
    cohort = read(bare)
    assert cohort.references.masks is None
    assert cohort.references.boxes.tolist()[0] == [30, 20, 80, 60]
    assert any(
        "3 of 3 quadrilaterals" in note and "size-unknown" in note
        for note in cohort.intake.files[0].notes
    )
    with pytest.raises(InputError) as refused:
        read(bare, masks="required")
    assert (refused.value.rule, refused.value.location) == ("size-unknown", "2:7")


def test_a_runway_without_a_pixel_leaves_boxes_only(folder):
    thin = put(
        folder,
        LIST + "images/d.png;100;120;real;S2;KMSY;11L;;50;50.1;50.2;50.1;50;50.2;50.2;50.2\n",
    )
    cohort = read(thin)
    assert cohort.references.masks is None
    assert any(
        "1 of 4 quadrilaterals cannot be drawn (empty-mask)" in note
        for note in cohort.intake.files[0].notes
    )


def test_several_runways_and_none(folder):
    more = LIST + "images/c.png;100;120;earth_studio;S2;KMSY;11R;;5;5;9;5;5;9;9;9\n"
    more += "images/e.png;100;120;real;S3;KMSY;;;;;;;;;;\n"
    cohort = read(put(folder, more))
    assert np.diff(cohort.references.offsets).tolist() == [1, 1, 2, 0]
    assert cohort.references.facts["runway"].tolist() == [
        "06",
        "06",
        "11L",
        "11R",
    ]  # not constant on an image
    assert "1 rows have no corners: images without a runway" in cohort.intake.files[0].notes


def test_a_list_without_any_runway_still_has_the_class(folder):
    cohort = read(put(folder, HEADER + "a.png;10;10;;;;;;;;;;;;;\n"))
    assert (cohort.classes, len(cohort.references), cohort.n_images) == (("runway",), 0, 1)


def test_predictions_are_read_beside_it(folder):
    for kind in (None, "lard"):
        cohort = read(folder / "lard.csv", folder / "found.csv", format=kind)
        assert len(cohort.models["found"]) == 1
    assert "lard" in str(explain(folder / "lard.csv", folder / "found.csv"))


def test_a_box_format_speaks_of_the_predictions(folder):
    found = put(
        folder, "image,class,x,y,w,h,score\nimages/a.png,runway,30,20,50,40,0.9\n", "sides.csv"
    )
    cohort = read(folder / "lard.csv", found, box_format="xywh")
    assert cohort.models["sides"].boxes.tolist() == [cohort.references.boxes[0].tolist()]


@pytest.mark.parametrize(
    ("cell", "rule"),
    [("wide", "type"), ("nan", "non-finite"), ("inf", "non-finite"), ("", "box-shape")],
)
def test_a_broken_corner_is_named(folder, cell, rule):
    broken = put(folder, LIST.replace(";30;60;80;60", f";{cell};60;80;60"))
    _, cohort = assert_refused_or_set_aside(partial(read, broken), 0, rule, "2:13")
    assert cohort.n_images == 3  # the image stays


def test_corners_outside_are_not_clipped(folder):
    outside = put(folder, LIST.replace(";30;60;80;60", ";30;60;140;60"))
    assert_refused_or_set_aside(partial(read, outside, outside="refuse"), 0, "outside", "2:9")
    within = put(folder, LIST.replace(";30;60;80;60", ";30;60;120.9;60"))
    assert read(within).references.boxes[0, 2] == 120.9


def test_a_line_is_no_runway(folder):
    line = put(folder, LIST.replace("10;10;20;10;8;30;22;30", "10;10;20;10;8;10;22;10"))
    _, cohort = assert_refused_or_set_aside(partial(read, line), 0, "zero-area", "3:9")
    assert len(cohort.references) == len(read(put(folder, LIST)).references) - 1


def test_a_row_of_another_length_is_refused(folder):
    _, cohort = assert_refused_or_set_aside(
        partial(read, put(folder, LIST + "images/z.png;1;2\n")), 0, "ragged", "5:4"
    )
    assert "images/z.png" not in cohort.images.ids


def test_two_broken_cells_of_a_row_are_one_record(folder):
    broken = put(folder, LIST.replace("50;20;60;20", "far;20;off;20"))
    _, cohort = assert_refused_or_set_aside(partial(read, broken), 0, "type", "2:9")
    assert len(cohort.references) == len(read(put(folder, LIST)).references) - 1


def test_quoted_headers_are_known(folder):
    quoted = ";".join(f'"{name}"' for name in HEADER.strip().split(";")) + "\n"
    assert sniff(put(folder, LIST.replace(HEADER, quoted))).format == "lard"
    assert len(read(folder / "lard.csv").references) == 3


@looped("seed", range(60))
def test_whatever_is_broken_is_refused_as_input(folder, seed):
    random = Random(seed)
    text = list(LIST)
    for _ in range(random.randint(1, 4)):
        text[random.randrange(len(HEADER), len(text))] = random.choice(
            [";", "\n", "x", "", "-", "9", '"', "\0", "1e99"]
        )
    path = put(folder, "".join(text))
    for lenient in (False, True):
        try:
            cohort = read(path, lenient=lenient)
        except InputError:
            continue
        account = cohort.intake.files[0]
        assert account.read == account.used + sum(account.quarantined.values())
        assert (cohort.references.boxes[:, :2] < cohort.references.boxes[:, 2:]).all()


def test_missing_corners_are_named(folder):
    with pytest.raises(InputError) as refused:
        read(put(folder, LIST.replace("x_D", "x_E")), format="lard")
    assert refused.value.rule == "missing-column"
