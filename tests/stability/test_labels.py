"""Labels, groups, boxes, masks and scores of bags: every bag has them, and they fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bag_cases import IDS, folders, refused, values
from calipers.errors import InputError
from calipers.io.write_volume import write_volume
from calipers.stability.read import read_bags


@pytest.fixture
def maps(tmp_path: Path) -> list[Path]:
    return folders(tmp_path / "maps", values())


@pytest.fixture
def table(tmp_path: Path):
    def write(text: str, name: str = "labels.csv") -> Path:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write


GOOD = "bag,label,patient,age\nx3,1,P2,60\nx1,0,P1,50\nx2,1,P1,50\nx4,0,P2,60\n"
BOXED = (
    "image,label,x0,y0,x1,y1,width,height,patient,class\n"
    "x1,1,0,0,10,10,40,30,P1,mass\nx1,1,20,10,40,30,40,30,P1,nodule\n"
    "x2,0,,,,,40,30,P1,\nx3,1,,,,,40,30,P2,\nx4,1,5,5,6,6,40,30,P2,mass\n"
)


def test_labels_and_groups_are_matched_by_id(maps: list[Path], table) -> None:
    bags = read_bags(maps, table(GOOD))
    assert bags.positive is not None
    assert bags.positive.tolist() == [False, True, True, False]
    assert bags.groups["patient"].tolist() == ["P1", "P1", "P2", "P2"]
    assert bags.groups["age"].tolist() == ["50", "50", "60", "60"]
    assert bags.boxes == {}


def test_words_and_aliases(maps: list[Path], table) -> None:
    text = "Image,positive,Patient_ID\nx1,true,7\nx2,false,7\nx3,TRUE,8\nx4,0,8\n"
    bags = read_bags(maps, table(text))
    assert bags.positive is not None
    assert bags.positive.tolist() == [True, False, True, False]
    assert list(bags.groups) == ["patient"]


def test_an_array_of_labels_stands_in_the_order_of_the_bags(
    maps: list[Path], tmp_path: Path
) -> None:
    np.save(tmp_path / "labels.npy", np.array([0, 1, 1, 0]))
    assert read_bags(maps, tmp_path / "labels.npy").positive.tolist() == [False, True, True, False]
    for wrong in (np.zeros(3), np.array([0, 1, 2, 0])):
        np.save(tmp_path / "labels.npy", wrong)
        assert refused(maps, tmp_path / "labels.npy").rule == "labels-differ"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD.replace("x4,0,P2,60\n", ""), "bag 'x4'"),
        (GOOD + "x9,1,P9,1\n", "'x9'"),
        (GOOD.replace("x1,0", "x1,2"), "3:2"),
        (GOOD.replace("x1,0", "x1,"), "3:2"),
    ],
)
def test_labels_that_do_not_fit_are_refused(maps: list[Path], table, text: str, said: str) -> None:
    error = refused(maps, table(text))
    assert error.rule == "labels-differ"
    assert said in (error.location or error.value)


def test_a_bag_twice_and_a_table_without_labels(maps: list[Path], table) -> None:
    error = refused(maps, table(GOOD + "x1,0,P1,50\n"))
    assert (error.rule, error.location) == ("dup-bag", "6:2")
    assert refused(maps, table("bag,age\nx1,1\nx2,1\nx3,1\nx4,1\n")).rule == "missing-column"
    assert refused(maps, table("name,label\nx1,1\n")).rule == "missing-column"


def test_labels_of_quite_other_bags_show_both_names(maps: list[Path], table) -> None:
    error = refused(maps, table("bag,label\nx1.png,1\nx2.png,0\n"))
    assert error.location == "bag 'x1'"
    assert "'x1.png'" in error.hint


def test_boxes_wait_for_a_rule(maps: list[Path], table) -> None:
    bags = read_bags(maps, table(BOXED))
    assert bags.positive.tolist() == [True, False, True, True]
    assert bags.boxes["x1"].tolist() == [[0, 0, 10, 10], [20, 10, 40, 30]]
    assert bags.boxes["x2"].shape == (0, 4)
    assert "x3" not in bags.boxes  # positive, and nobody said where
    assert bags.sizes["x1"] == (40.0, 30.0)
    assert list(bags.groups) == ["patient"]
    assert any("'class' differs between the rows" in note for note in bags.notes)
    assert bags[0].instances is None

    def rule(boxes, size, grid):
        assert (size, grid) == ((40.0, 30.0), (3, 4))
        found = np.zeros(grid, np.bool_)
        found[0, 0] = len(boxes) == 2
        return found

    found = bags.with_instances(rule)
    assert np.flatnonzero(found[0].instances).tolist() == [0]
    assert not found[1].instances.any()
    assert found[2].instances is None
    assert found[3].instances is not None


def test_without_a_label_a_bag_with_a_box_is_positive(maps: list[Path], table) -> None:
    text = "bag,x,y,w,h,width,height\nx1,1,2,3,4,40,30\nx2,,,,,40,30\nx3,,,,,,\nx4,1,1,1,1,40,30\n"
    bags = read_bags(maps, table(text))
    assert bags.positive.tolist() == [True, False, False, True]
    assert bags.boxes["x1"].tolist() == [[1, 2, 4, 6]]


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("x4,1,5,5,6,6", "x4,1,5,5,5,6", "zero-area"),
        ("x4,1,5,5,6,6", "x4,1,5,,6,6", "box-shape"),
        ("x4,1,5,5,6,6,40", "x4,1,5,5,6,6,0", "image-size"),
        ("x1,1,20,10,40,30,40,30", "x1,1,20,10,40,30,41,30", "size-conflict"),
        ("x1,1,20", "x1,0,20", "labels-differ"),
        ("x4,1,5,5,6,6", "x4,0,5,5,6,6", "labels-differ"),
        (",width,height", ",w1,h1", "missing-column"),
        ("x4,1,5,5,6,6", "x4,1,five,5,6,6", "type"),
    ],
)
def test_boxes_that_make_no_sense_are_refused(
    maps: list[Path], table, old: str, new: str, rule: str
) -> None:
    assert old in BOXED
    assert refused(maps, table(BOXED.replace(old, new))).rule == rule


def test_boxes_lie_on_rows_and_columns_only(tmp_path: Path, table) -> None:
    bags = read_bags(folders(tmp_path / "flat", values(shape=(5,))), table(BOXED))
    with pytest.raises(InputError) as caught:
        bags.with_instances(lambda boxes, size, grid: np.zeros(grid, np.bool_))
    assert caught.value.rule == "volume-shape"


def test_boxes_lie_on_the_only_slice_of_a_volume(tmp_path: Path, table) -> None:
    bags = read_bags(folders(tmp_path / "one", values(shape=(1, 3, 4)), ".nii.gz"), table(BOXED))

    def rule(boxes, size, grid):
        assert grid == (3, 4)
        return np.ones(grid, np.bool_)

    bag = bags.with_instances(rule)[0]
    assert bag.shape == (1, 3, 4)
    assert bag.instances.shape == (12,)
    deep = read_bags(folders(tmp_path / "two", values(shape=(2, 3, 4)), ".nii.gz"), table(BOXED))
    with pytest.raises(InputError, match="volume-shape"):
        deep.with_instances(rule)


@pytest.mark.parametrize("suffix", [".npy", ".png"])
def test_masks_are_labels_of_instances(maps: list[Path], tmp_path: Path, suffix: str) -> None:
    (tmp_path / "masks").mkdir()
    marked = np.zeros((4, 3, 4), np.uint8)
    marked[1, 0, 2] = marked[2, 2, 2] = 255
    marked[2, 0, 0] = 128
    for bag, mask in zip(IDS, marked):
        write_volume(tmp_path / "masks" / f"{bag}{suffix}", mask)
    bags = read_bags(maps, tmp_path / "masks")
    assert bags.positive.tolist() == [False, True, True, False]
    for i in range(4):
        assert np.array_equal(bags[i].instances, marked[i].ravel() > 0)


def test_masks_that_do_not_fit_are_refused(maps: list[Path], tmp_path: Path) -> None:
    place = tmp_path / "masks"
    place.mkdir()
    for bag in IDS[:3]:
        np.save(place / f"{bag}.npy", np.zeros((3, 4), np.uint8))
    assert (refused(maps, place).rule, refused(maps, place).location) == (
        "labels-differ",
        "bag 'x4'",
    )
    np.save(place / "x4.npy", np.zeros((4, 3), np.uint8))
    assert refused(maps, place).rule == "shape-mismatch"
    np.save(place / "x4.npy", np.zeros((3, 4), np.uint8))
    np.save(place / "x5.npy", np.zeros((3, 4), np.uint8))
    assert "x5" in refused(maps, place).value


def test_groups_come_from_a_table_of_their_own(maps: list[Path], table) -> None:
    groups = table("bag,centre\nx1,N\nx2,S\nx3,N\nx4,S\n", "groups.csv")
    bags = read_bags(maps, table(GOOD), groups=groups)
    assert bags.groups["centre"].tolist() == ["N", "S", "N", "S"]
    assert bags.groups["patient"].tolist() == ["P1", "P1", "P2", "P2"]
    short = table("image,centre\nx1,N\nx2,S\nx3,N\n", "groups.csv")
    assert refused(maps, groups=short).rule == "missing-group"


def test_scores_of_whole_bags(maps: list[Path], table) -> None:
    text = "bag,c,a,b\nx4,0.1,0.2,0.3\nx1,1,2,3\nx2,4,5,6\nx3,7,8,9\n"
    bags = read_bags(maps, scores=table(text))
    assert bags.bag_scores.tolist() == [[2, 5, 8, 0.2], [3, 6, 9, 0.3], [1, 4, 7, 0.1]]
    assert refused(maps, scores=table(text.replace("bag,c", "bag,d"))).rule == "missing-column"
    assert refused(maps, scores=table(text.replace("x4,0.1", "x4,"))).rule == "non-finite"
    assert refused(maps, scores=table(text.replace("x4", "x1"))).rule == "dup-bag"
    assert refused(maps, scores=table(text.replace("x4", "x5"))).rule == "labels-differ"


def test_a_normalisation_that_does_not_exist(maps: list[Path]) -> None:
    with pytest.raises(ValueError, match="did you mean 'sigmoid'"):
        read_bags(maps, normalise="sigmoyd")
