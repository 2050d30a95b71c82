"""Several readers of one image: refused without a rule, and made one set of references by each."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from calipers.errors import InputError, UsageError
from calipers.io.consensus import _joined, _overlaps
from calipers.io.read import read

# Image a: three readers, two of them on one nodule; b: one says nothing, two mark the same; c: R1
# and R2 read it, only R1 marks.
TABLE = """image,reader,class,x0,y0,x1,y1
a,R1,nodule,10,10,30,30
a,R2,nodule,12,10,32,30
a,R3,mass,10,10,30,30
b,R1,,,,,
b,R2,nodule,0,0,10,10
b,R3,nodule,0,0,10,12
c,R1,nodule,50,50,60,60
c,R2,,,,,
"""


def put(folder: Path, text: str, name: str = "refs.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("column", ["reader", "rad_id", "Annotator"])
def test_several_readers_need_a_rule(tmp_path, column, lenient):
    path = put(tmp_path, TABLE.replace("reader", column))
    with pytest.raises(InputError) as refused:
        read(path, lenient=lenient)
    assert (refused.value.rule, refused.value.location) == ("several-readers", "3:2")
    for word in ("3 of 3 images", "any", "majority", "R1, R2, R3"):
        assert word in str(refused.value)


def test_any_joins_boxes_of_one_class_and_takes_their_mean(tmp_path):
    cohort = read(put(tmp_path, TABLE), readers="any")
    assert cohort.references.boxes.tolist() == [
        [11, 10, 31, 30],
        [10, 10, 30, 30],
        [0, 0, 10, 11],
        [50, 50, 60, 60],
    ]
    assert cohort.references.facts["readers"].tolist() == ["2 of 3", "1 of 3", "2 of 3", "1 of 2"]
    [note] = [note for note in cohort.intake.notes if note.startswith("readers any")]
    assert "6 boxes of 3 readers, merged to 4" in note
    assert "IoU of at least 0.5" in note
    assert (cohort.intake.files[0].read, cohort.intake.files[0].used) == (6, 6)


def test_a_majority_is_more_than_half_of_those_who_read_the_image(tmp_path):
    cohort = read(put(tmp_path, TABLE), readers="majority")
    assert cohort.references.boxes.tolist() == [[11, 10, 31, 30], [0, 0, 10, 11]]
    assert cohort.images.ids == ("a", "b", "c")
    # Without the row that says nothing, c is read by one, who is a majority.
    fewer = read(put(tmp_path, TABLE.replace("c,R2,,,,,\n", "")), readers="majority")
    assert len(fewer.references) == 3


def test_one_reader_is_asked_only_about_the_images_they_read(tmp_path):
    dets = put(
        tmp_path,
        "image,class,x0,y0,x1,y1,score\na,mass,1,1,2,2,.5\nc,nodule,50,50,60,60,.9\n",
        "dets.csv",
    )
    cohort = read(put(tmp_path, TABLE), dets, readers="R3")
    assert cohort.images.ids == ("a", "b")
    assert cohort.references.boxes.tolist() == [[10, 10, 30, 30], [0, 0, 10, 12]]
    assert len(cohort.models["dets"]) == 1
    assert any("1 of 3 images were not read by them" in note for note in cohort.intake.notes)


def test_the_overlap_is_an_option(tmp_path):
    path = put(tmp_path, TABLE)
    assert len(read(path, readers="any", reader_overlap=0.9).references) == 6
    assert len(read(path, readers="any", reader_overlap=0.83).references) == 5
    for wrong in (0, 1.5, "x"):
        with pytest.raises(UsageError):
            read(path, readers="any", reader_overlap=wrong)


def test_one_reader_per_image_is_a_group_as_before(tmp_path):
    text = "image,reader,class,x0,y0,x1,y1\na,R1,n,1,1,9,9\nb,R2,n,1,1,9,9\n"
    cohort = read(put(tmp_path, text))
    assert cohort.group("reader").tolist() == ["R1", "R2"]
    assert read(put(tmp_path, text), readers="R2").images.ids == ("b",)
    assert len(read(put(tmp_path, text), readers="majority").references) == 2


def test_wrong_rules(tmp_path):
    with pytest.raises(InputError, match="unknown-reader"):
        read(put(tmp_path, TABLE), readers="R9")
    plain = put(tmp_path, "image,class,x0,y0,x1,y1\na,n,1,1,9,9\n", "plain.csv")
    with pytest.raises(InputError, match="missing-column"):
        read(plain, readers="any")
    with pytest.raises(InputError, match="reader-missing") as refused:
        read(put(tmp_path, TABLE.replace("c,R1,", "c,,")), readers="any")
    assert refused.value.location == "8:2"
    lenient = read(put(tmp_path, TABLE.replace("c,R1,", "c,,")), readers="any", lenient=True)
    assert lenient.intake.files[0].quarantined == {"reader-missing": 1}


def test_flags_and_areas_of_a_finding(tmp_path):
    text = """image,reader,class,x0,y0,x1,y1,ignore,area
a,R1,n,0,0,10,10,1,80
a,R2,n,0,0,10,10,0,90
a,R1,n,50,50,60,60,1,
a,R2,n,50,50,60,60,1,
"""
    references = read(put(tmp_path, text), readers="any").references
    assert references.ignore.tolist() == [False, True]
    assert references.area.tolist() == [85, 100]


@pytest.mark.parametrize("seed", range(20))
def test_findings_on_random_boxes(seed):
    """Every finding has boxes of different readers that all overlap; none could be joined more."""
    random = np.random.default_rng(seed)
    low = random.integers(0, 6, (14, 2))
    corners = np.hstack([low, low + random.integers(4, 8, (14, 2))]).astype(float)
    readers = random.choice(["R1", "R2", "R3"], 14)
    groups = _joined(np.arange(14), corners, readers, 0.4)
    assert sorted(np.concatenate(groups).tolist()) == list(range(14))
    overlaps = _overlaps(corners)
    for rows in groups:
        assert len(set(readers[rows])) == len(rows)
        assert (overlaps[np.ix_(rows, rows)] >= 0.4).all()
    for one, other in itertools.combinations(groups, 2):
        is_shared = bool(set(readers[one]) & set(readers[other]))
        assert is_shared or not (overlaps[np.ix_(one, other)] >= 0.4).all()


def test_tables_of_one_class_need_no_column_for_it(tmp_path):
    refs = put(tmp_path, "image,x0,y0,x1,y1,age\na,1,1,9,9,50\nb,,,,,60\n")
    dets = put(tmp_path, "image,x0,y0,x1,y1,score,source\na,1,1,9,9,.5,net\n", "dets.csv")
    cohort = read(refs, dets)
    assert cohort.classes == ("object",)
    assert cohort.images.ids == ("a", "b")
    assert len(cohort.models["dets"]) == 1
    named = put(tmp_path, "image,class,x0,y0,x1,y1\na,polyp,1,1,9,9\n", "named.csv")
    assert read(named, dets).models["dets"].label.tolist() == [0]
    # Two classes: which one is meant is not guessed.
    both = put(tmp_path, "image,class,x0,y0,x1,y1\na,polyp,1,1,9,9\na,ulcer,1,1,9,9\n", "2.csv")
    with pytest.raises(InputError, match="missing-column"):
        read(both, dets)


def test_decimal_commas_are_recognised_where_commas_do_not_separate_cells(tmp_path):
    text = "image;class;x0;y0;x1;y1\na;n;1,5;2;30,25;4,5\nb;n;0,125;1;3;1,125\n"
    cohort = read(put(tmp_path, text))
    assert cohort.references.boxes.tolist() == [[1.5, 2, 30.25, 4.5], [0.125, 1, 3, 1.125]]
    assert "column 'x0' is read with decimal commas" in cohort.intake.notes
    assert "column 'y0' is read with decimal commas" not in cohort.intake.notes


@pytest.mark.parametrize("cell", ["1,234", "1,5,6", "1.234,5", "1,5x"])
def test_a_comma_that_may_be_something_else_is_refused(tmp_path, cell):
    with pytest.raises(InputError) as refused:
        read(put(tmp_path, f"image;class;x0;y0;x1;y1\na;n;0;0;{cell};9\n"))
    assert (refused.value.rule, refused.value.location) == ("type", "2:5")


def test_a_majority_of_nothing_is_an_image_without_findings(tmp_path):
    text = "image,reader,class,x0,y0,x1,y1\na,R1,n,1,1,9,9\na,R2,,,,,\n"
    cohort = read(put(tmp_path, text), readers="majority")
    assert (cohort.n_images, len(cohort.references), cohort.classes) == (1, 0, ("n",))


def test_readers_of_parquet_may_be_numbers(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"image": ["a", "a"], "reader": [1, 2], "class": ["n", "n"]}
    boxes = {"x0": [0.0, 1.0], "y0": [0.0, 0.0], "x1": [9.0, 10.0], "y1": [9.0, 9.0]}
    path = tmp_path / "refs.parquet"
    pq.write_table(pa.table({**columns, **boxes}), path)
    with pytest.raises(InputError, match="several-readers"):
        read(path)
    assert read(path, readers="any").references.boxes.tolist() == [[0.5, 0, 9.5, 9]]
    assert read(path, readers="2").references.boxes.tolist() == [[1, 0, 10, 9]]
