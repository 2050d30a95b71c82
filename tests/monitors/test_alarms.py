"""Tables of alarms: which column is what, and every way in which images and rows may not fit."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from calipers.data.cohort import Cohort
from calipers.errors import InputError, InputProblems, UsageError
from calipers.monitors.read import read_alarms
from seeds import seeds

IMAGES = ("a", "b", "c")
TABLE = """image,energy,knn,ood,split,site
b,2.5,-1,1,test,North
a,1.5,1e-3,0,Tuning,South
c,0.5,3,0,test,North
"""


def put(folder, content=TABLE, name="alarms.csv"):
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder / name


def refused(path, images=IMAGES, **options):
    with pytest.raises(InputError) as error:
        read_alarms(path, images, **options)
    return error.value


def test_columns_are_told_by_names_and_cells(tmp_path):
    alarms = read_alarms(put(tmp_path), IMAGES)
    assert alarms.names == ("energy", "knn")
    assert alarms.values.tolist() == [[1.5, 2.5, 0.5], [1e-3, -1, 3]]
    assert alarms.ood.tolist() == [False, True, False]
    assert alarms.tuning.tolist() == [True, False, False]
    assert alarms.groups["site"].tolist() == ["South", "North", "North"]
    assert alarms.groups["split"].tolist() == ["Tuning", "test", "test"]
    assert alarms.images == IMAGES
    assert "split: thresholds are chosen on 'Tuning'; the other images are 'test'" in alarms.notes
    assert (alarms.intake.read, alarms.intake.used, alarms.intake.role) == (3, 3, "alarms")


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_other_delimiters(tmp_path, delimiter):
    alarms = read_alarms(put(tmp_path, TABLE.replace(",", delimiter), "alarms.tsv"), IMAGES)
    assert alarms.values.tolist() == [[1.5, 2.5, 0.5], [1e-3, -1, 3]]


def test_parquet_is_read_alike(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {
        "image": ["b", "a", "c"],
        "energy": [2.5, 1.5, 0.5],
        "ood": [True, False, False],
        "alarm": [0, 1, 1],
    }
    pq.write_table(pa.table(columns), tmp_path / "alarms.parquet")
    alarms = read_alarms(tmp_path / "alarms.parquet", IMAGES)
    assert alarms.names == ("energy", "alarm")
    assert alarms.values.tolist() == [[1.5, 2.5, 0.5], [1, 0, 1]]
    assert alarms.ood.tolist() == [False, True, False]


def test_columns_can_be_named(tmp_path):
    path = put(tmp_path, "case,score_1,score_2,far,fold\na,1,2,0,1\nb,3,4,1,0\nc,5,6,1,0\n")
    alarms = read_alarms(path, IMAGES, monitors=["score_2"], image="case", ood="far", tuning="fold")
    assert alarms.names == ("score_2",)
    assert (alarms.ood.tolist(), alarms.tuning.tolist()) == ([0, 1, 1], [1, 0, 0])
    assert list(alarms.groups) == ["score_1"]
    assert refused(path, image="case", ood="fat").hint == "did you mean 'far'?"
    with pytest.raises(UsageError, match="cannot be a monitor"):
        read_alarms(path, IMAGES, image="case", monitors=["case"])


def test_true_and_false_are_an_alarm_too(tmp_path):
    alarms = read_alarms(put(tmp_path, "image,alarm\na,TRUE\nb,false\nc,true\n"), IMAGES)
    assert alarms.values.tolist() == [[1, 0, 1]]


def test_ids_sizes_and_patients_are_no_monitors(tmp_path):
    alarms = read_alarms(
        put(tmp_path, "id,patient,width,m\na,1,10,1\nb,2,10,2\nc,2,10,3\n"), IMAGES
    )
    assert alarms.names == ("m",)
    assert list(alarms.groups) == ["patient", "width"]


def test_ids_stay_text(tmp_path):
    alarms = read_alarms(put(tmp_path, "image,m\n007,1\n7,2\n"), ("7", "007"))
    assert alarms.values.tolist() == [[2, 1]]


def test_images_of_a_cohort_are_found_by_their_file_names(tmp_path):
    records = [{"image_id": k, "boxes": [], "labels": [], "file_name": f"{k}.png"} for k in IMAGES]
    cohort = Cohort.from_arrays(records, classes=("x",))
    alarms = read_alarms(put(tmp_path, "file_name,m\na.png,1\nc.png,3\nb.png,2\n"), cohort.images)
    assert alarms.values.tolist() == [[1, 2, 3]]


def test_a_column_image_may_name_files_too(tmp_path):
    """COCO has numbers as ids, and whoever writes alarms knows the files."""
    records = [{"image_id": k, "boxes": [], "labels": [], "file_name": f"{k}.png"} for k in IMAGES]
    images = Cohort.from_arrays(records, classes=("x",)).images
    alarms = read_alarms(put(tmp_path, "image,m\na.png,1\nc.png,3\nb.png,2\n"), images)
    assert alarms.values.tolist() == [[1, 2, 3]]
    assert any("joined by file_name" in note for note in alarms.notes)
    by_id = read_alarms(put(tmp_path, "image,m\na,1\nb,2\nc,3\n"), images)
    assert not any("file_name" in note for note in by_id.notes)
    with pytest.raises(InputError, match="unknown-image"):  # ids and names mixed
        read_alarms(put(tmp_path, "image,m\na.png,1\nb,2\nc.png,3\n"), images)


def test_neither_labels_nor_split_are_needed(tmp_path):
    alarms = read_alarms(put(tmp_path, "image,m\na,1\nb,2\nc,3\n"), IMAGES)
    assert alarms.ood is None
    assert alarms.tuning is None
    noted = read_alarms(put(tmp_path, "image,m,split\na,1,x\nb,2,y\nc,3,y\n"), IMAGES)
    assert noted.tuning is None
    assert "split: no value means tuning; found 'x', 'y'" in noted.notes


def test_a_constant_monitor_is_noted(tmp_path):
    alarms = read_alarms(put(tmp_path, "image,m\na,1\nb,1\nc,1\n"), IMAGES)
    assert "monitor 'm' has the value 1 on all 3 images" in alarms.notes


def test_missing_images_are_counted_and_the_first_is_named(tmp_path):
    error = refused(put(tmp_path), ("a", "b", "x", "c", "y"))
    assert (error.rule, error.value) == ("missing-image", "'x'")
    assert "2 of 5 images have no row" in error.hint


def test_unknown_images_are_named(tmp_path):
    error = refused(put(tmp_path), ("a", "b"))
    assert (error.rule, error.location) == ("unknown-image", "4:1")


def test_two_rows_of_an_image_are_refused(tmp_path):
    error = refused(put(tmp_path, TABLE + "a,1,1,0,test,North\n"))
    assert (error.rule, error.location) == ("dup-image", "5:1")


@pytest.mark.parametrize(
    ("cell", "rule"),
    [
        ("nan", "non-finite"),
        ("-inf", "non-finite"),
        ("1e999", "non-finite"),
        ("", "type"),
        ("high", "type"),
    ],
)
def test_a_cell_that_is_no_number_is_named(tmp_path, cell, rule):
    error = refused(put(tmp_path, TABLE.replace("1.5", cell)))
    assert (error.rule, error.location) == (rule, "3:2")


def test_a_decimal_comma_is_read_between_semicolons_and_not_guessed_between_commas(tmp_path):
    table = read_alarms(put(tmp_path, "image;m\na;1,5\nb;2\nc;3\n"), IMAGES)
    assert np.ravel(table.values).tolist() == [1.5, 2.0, 3.0]
    error = refused(put(tmp_path, 'image,m\na,"1,5"\nb,2\nc,3\n'))
    assert error.rule == "type"
    assert "decimal comma" in error.hint


def test_nan_in_parquet_is_refused(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(
        pa.table({"image": ["a", "b", "c"], "m": [1.0, np.nan, 2.0]}), tmp_path / "alarms.parquet"
    )
    assert refused(tmp_path / "alarms.parquet").rule == "non-finite"


@pytest.mark.parametrize("cell", ["2", "maybe", ""])
def test_labels_are_0_or_1(tmp_path, cell):
    error = refused(put(tmp_path, TABLE.replace(",1,test", f",{cell},test")))
    assert (error.rule, error.location) == ("type", "2:4")


def test_several_problems_come_together(tmp_path):
    error = refused(put(tmp_path, TABLE.replace("1.5", "nan").replace(",3,", ",inf,")))
    assert isinstance(error, InputProblems)
    assert error.total == 2


def test_text_columns_are_groups_unless_they_are_asked_for(tmp_path):
    path = put(tmp_path)
    error = refused(path, monitors=["site"])
    assert error.rule == "type"


def test_no_monitor_is_an_error(tmp_path):
    assert refused(put(tmp_path, "image,ood,site\na,0,N\nb,0,N\nc,1,S\n")).rule == "no-alarms"


def test_no_image_column_is_an_error(tmp_path):
    assert refused(put(tmp_path, "who,m\na,1\n")).rule == "missing-column"


def test_json_and_ragged_rows_are_refused(tmp_path):
    assert refused(put(tmp_path, "[]")).rule == "format"
    assert refused(put(tmp_path, TABLE + "d,1\n")).rule == "ragged"
    assert refused(put(tmp_path, "image,m\n")).rule == "no-alarms"


@pytest.mark.parametrize("seed", seeds(60, default=25))
def test_whatever_is_broken_is_refused_as_input(tmp_path, seed):
    random = Random(seed)
    text = list(TABLE)
    for _ in range(random.randint(1, 4)):
        text[random.randrange(len(text))] = random.choice(
            [",", "\n", "x", "", "-", "9", '"', "\0", "1e99"]
        )
    try:
        alarms = read_alarms(put(tmp_path, "".join(text)), IMAGES)
    except InputError:
        return
    assert np.isfinite(alarms.values).all()
    assert alarms.values.shape == (len(alarms), 3)
