"""Several readers of one image: refused without a rule, and made one set of references by each."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import calipers as cal
from calipers.errors import InputError, UsageError
from calipers.evaluation.compare import reader_sentences
from calipers.io.consensus import _joined, _overlaps
from calipers.io.read import read
from evaluated import evaluated_demo
from seeds import looped

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


def test_each_reader_on_some_of_the_images(tmp_path):
    groups = put(tmp_path, "image,split\na,test\nb,train\nc,test\n", "groups.csv")
    whole = read(put(tmp_path, TABLE), readers="each", groups=groups)
    part = read(put(tmp_path, TABLE), readers="each", groups=groups, where="split=test")
    expected = [
        name for name, split in zip(whole.images.ids, whole.group("split")) if split == "test"
    ]
    assert 0 < len(expected) < whole.n_images
    assert list(part.images.ids) == expected


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


@looped("seed", range(20))
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


@pytest.mark.parametrize(
    ("corners", "place"),
    [
        (["1.030;40,5", "1.500;41,5"], "2:5"),  # beside a column with decimal commas
        (["9,5;40", "9,5;1.030"], "3:6"),
        (["1.030;40", "40,5;41"], "2:5"),  # in the same column
    ],
)
def test_a_point_beside_decimal_commas_may_be_thousands_and_is_refused(tmp_path, corners, place):
    rows = "".join(f"{image};n;1;1;{corner}\n" for image, corner in zip("ab", corners))
    with pytest.raises(InputError) as refused:
        read(put(tmp_path, f"image;class;x0;y0;x1;y1\n{rows}"))
    problems = getattr(refused.value, "problems", (refused.value,))
    assert place in [problem.location for problem in problems]
    assert {problem.rule for problem in problems} == {"type"}
    assert "thousands" in str(refused.value)


@pytest.mark.parametrize("cell", ["1.03", "0.125", "1.0300", "9"])
def test_a_decimal_point_beside_decimal_commas_is_read(tmp_path, cell):
    """A second cell of the column shows that its points are decimal ones."""
    rows = f"a;n;0;0;{cell};40,5\nb;n;0;0;1.25;41,5\n"
    cohort = read(put(tmp_path, f"image;class;x0;y0;x1;y1\n{rows}"))
    assert cohort.references.boxes[0].tolist() == [0, 0, float(cell), 40.5]


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


PREDICTIONS = "image,class,score,x0,y0,x1,y1\na,nodule,0.9,10,10,30,30\n"


def each(folder: Path, table: str = TABLE, **options):
    put(folder, PREDICTIONS, "ours.csv")
    return read(put(folder, table), {"ours": folder / "ours.csv"}, readers="each", **options)


def test_each_reader_is_the_reference_in_turn(tmp_path):
    """By hand: a and b have six ordered pairs of readers each, c has two. Of the pairs of readers
    four agree on a box; seven times the first has one that the second lacks, and as often the other
    way round. The model hits R1 and R2 on a, misses R3's mass there and everything on b and c.
    """
    cohort = each(tmp_path)
    assert (cohort.n_images, tuple(cohort.models)) == (14, ("ours", "other readers"))
    assert not cohort.models["other readers"].scored
    assert cohort.images.groups["reader"].tolist()[:6] == ["R1", "R1", "R2", "R2", "R3", "R3"]
    assert cohort.images.groups["original image"].tolist() == [*"aaaaaabbbbbbcc"]
    [note] = [note for note in cohort.intake.notes if note.startswith("readers each")]
    assert "3 images that several of 3 readers read stand for 14 ordered pairs" in note
    protocol = cal.Protocol.load("overview").with_metrics(["F1@0.5"])
    evaluation = cal.evaluate(cohort, protocol, by="reader", ci=False)
    assert evaluation["other readers", "F1@0.5"].value == pytest.approx(2 * 4 / (2 * 4 + 7 + 7))
    assert evaluation["ours", "F1@0.5"].value == pytest.approx(2 * 4 / (2 * 4 + 2 + 7))
    # Against R3, whose mass on a and nodule on b nobody or only R2 has.
    of_third = evaluation.get("F1@0.5", model="other readers", reader="R3")
    assert of_third.value == pytest.approx(2 * 1 / (2 * 1 + 2 + 3))
    assert evaluation.units.name == "original image"
    assert evaluation.units.number == 3


def test_copies_of_an_image_are_drawn_together_or_with_their_patient(tmp_path):
    groups = put(tmp_path, "image,patient\na,P\nb,P\nc,Q\n", "groups.csv")
    protocol = cal.Protocol.load("overview").with_metrics(["F1@0.5"])
    evaluation = cal.evaluate(each(tmp_path, groups=groups), protocol, ci=False)
    assert (evaluation.units.name, evaluation.units.number) == ("patient", 2)


def test_an_image_of_one_reader_is_left_out_and_counted(tmp_path):
    cohort = each(tmp_path, TABLE + "d,R1,nodule,0,0,9,9\n")
    assert "d" not in cohort.images.groups["original image"]
    assert "1 images with fewer readers are left out" in " ".join(cohort.intake.notes)
    alone = "image,reader,class,x0,y0,x1,y1\na,R1,nodule,0,0,9,9\nb,R2,nodule,0,0,9,9\n"
    with pytest.raises(InputError, match="images that several readers read"):
        each(tmp_path, alone)
    groups = put(tmp_path, "image,original image\na,1\nb,2\nc,3\n", "groups.csv")
    with pytest.raises(InputError, match="rename yours"):
        each(tmp_path, groups=groups)


def many_readers(folder: Path, n: int, found: float, noise: float, seed: int = 0) -> cal.Cohort:
    """Images that three of five readers read; the model finds a share of what is there."""
    random = np.random.default_rng(seed)
    table, said = [TABLE.splitlines()[0]], [PREDICTIONS.splitlines()[0]]
    for image in range(n):
        x, y = random.uniform(0, 400, 2)
        for reader in random.choice(5, 3, replace=False):
            box = np.array([x, y, x + 50, y + 50]) + random.normal(0, noise, 4)
            row = ",".join(map(str, box)) if random.random() < 0.8 else ",,,"
            table.append(f"{image},R{reader},{'nodule' if row != ',,,' else ''},{row}")
        if random.random() < found:
            said.append(f"{image},nodule,0.9,{x},{y},{x + 50},{y + 50}")
    put(folder, "\n".join(said) + "\n", "ours.csv")
    path = put(folder, "\n".join(table) + "\n")
    return read(path, {"ours": folder / "ours.csv"}, readers="each")


@pytest.mark.parametrize(
    ("found", "margin", "words"),
    [
        (1.0, None, "ours agrees with the readers better than they agree with each other"),
        (0.2, None, "ours agrees with the readers less well than they agree with each other"),
        (0.75, None, "It is not shown that ours agrees with the readers as well"),
        (0.75, 0.2, "ours agrees with the readers as well as they agree with each other, within"),
        (0.75, 0.001, "the margin is 0.001"),
    ],
)
def test_words_on_agreement_follow_the_interval(tmp_path, found, margin, words):
    protocol = replace(cal.Protocol.load("overview"), replicates=400).with_metrics(["F1@0.5"])
    evaluation = cal.evaluate(many_readers(tmp_path, 90, found, 1.0), protocol, ci=False)
    [sentence] = reader_sentences(evaluation, margin)
    assert words in sentence
    row = evaluation.compare("ours", "other readers").rows[0].estimate
    assert (row.low > 0) == ("better than" in sentence)
    assert (row.high < 0) == ("less well" in sentence)


def test_other_cohorts_have_no_words_on_readers_and_ranks_do_not_suit_them(tmp_path):
    assert reader_sentences(evaluated_demo("overview", ci=False)) == []
    ranked = cal.Protocol.load("overview").with_metrics(["AP@0.5"])
    [sentence] = reader_sentences(cal.evaluate(each(tmp_path), ranked, ci=False))
    assert "add F1@0.5" in sentence
