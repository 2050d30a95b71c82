"""Long tables: a row per instance; one file may hold all models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bag_cases import IDS, MODELS, long_rows, refused, same, values, write_rows
from calipers.io.tables.table import write_table
from calipers.stability.read import read_bags


def without(rows, *names):
    return [{key: cell for key, cell in row.items() if key not in names} for row in rows]


def test_one_table_holds_all_models_in_any_order_of_rows(tmp_path: Path) -> None:
    maps, rows = values(), long_rows(values())
    shuffled = np.random.default_rng(0).permutation(rows).tolist()
    bags = read_bags(write_rows(tmp_path / "all.csv", shuffled))
    assert set(bags.models) == set(MODELS)
    order = [bags.models.index(model) for model in MODELS]
    for bag in (bags[i] for i in range(4)):
        assert np.array_equal(bag.values[order], maps[:, IDS.index(bag.id)].reshape(3, -1))


def test_a_table_per_model(tmp_path: Path) -> None:
    rows = long_rows(values())
    files = [
        write_rows(tmp_path / f"{m}.csv", without([r for r in rows if r["model"] == m], "model"))
        for m in MODELS
    ]
    assert same(read_bags(files), values())


def test_parquet_and_counting_from_one(tmp_path: Path) -> None:
    rows = long_rows(values())
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    columns |= {name: [cell + 1 for cell in columns[name]] for name in ("row", "column")}
    write_table(tmp_path / "all.parquet", columns)
    assert same(read_bags([tmp_path / "all.parquet"]), values())


def test_instances_in_a_row_and_bags_of_different_length(tmp_path: Path) -> None:
    rows = [
        {"model": m, "image": bag, "instance": k, "score": 0.125 * k}
        for m in "ab"
        for bag, n in (("x", 3), ("y", 5))
        for k in range(n)
    ]
    bags = read_bags(write_rows(tmp_path / "all.csv", rows))
    assert [bags[i].shape for i in range(2)] == [(3,), (5,)]
    assert bags[1].values.tolist() == [[0, 0.125, 0.25, 0.375, 0.5]] * 2


def test_slices_make_volumes(tmp_path: Path) -> None:
    rows = [
        {
            "model": m,
            "bag": "x",
            "slice": z,
            "row": y,
            "column": x,
            "value": (4 * z + 2 * y + x) / 8,
        }
        for m in "ab"
        for x in range(2)
        for y in range(2)
        for z in range(2)
    ]
    bag = read_bags(write_rows(tmp_path / "all.csv", rows))[0]
    assert bag.shape == (2, 2, 2)
    assert bag.values[0].tolist() == [k / 8 for k in range(8)]


def test_a_name_stands_before_the_models_of_a_table(tmp_path: Path) -> None:
    table = write_rows(tmp_path / "all.csv", long_rows(values()))
    assert read_bags({"ours": table}).models == ("ours/a", "ours/b", "ours/c")
    one = write_rows(
        tmp_path / "one.csv", [row for row in long_rows(values()) if row["model"] == "a"]
    )
    assert read_bags({"ours": one, "theirs": one}).models == ("ours", "theirs")


def test_one_model_in_a_table_is_refused(tmp_path: Path) -> None:
    rows = [row for row in long_rows(values()) if row["model"] == "a"]
    assert refused(write_rows(tmp_path / "one.csv", rows)).rule == "one-model"


def test_a_missing_instance_is_named(tmp_path: Path) -> None:
    rows = [
        r
        for r in long_rows(values())
        if not (r["model"] == "b" and r["bag"] == "x2" and r["row"] == 1 and r["column"] == 2)
    ]
    error = refused(write_rows(tmp_path / "all.csv", rows))
    assert (error.rule, error.location) == ("instances", "bag 'x2'")
    assert "row 1, column 2" in error.value


def test_an_instance_twice_is_named_with_its_line(tmp_path: Path) -> None:
    rows = long_rows(values())
    error = refused(write_rows(tmp_path / "all.csv", [*rows, rows[5]]))
    assert error.rule == "instances"
    assert error.location.startswith(f"{len(rows) + 2}:")
    assert "row 1, column 1 twice" in error.expected


def test_bags_that_one_model_lacks_are_named(tmp_path: Path) -> None:
    rows = [r for r in long_rows(values()) if not (r["model"] == "c" and r["bag"] == "x4")]
    error = refused(write_rows(tmp_path / "all.csv", rows))
    assert (error.rule, error.location) == ("bags-differ", "model 'c', bag 'x4'")


@pytest.mark.parametrize(
    ("column", "cell", "rule"),
    [
        ("value", "", "non-finite"),
        ("value", "nan", "non-finite"),
        ("value", "1.5", "score-range"),
        ("value", "high", "type"),
        ("row", "0.5", "type"),
        ("row", "-1", "type"),
        ("bag", "", "missing-id"),
        ("model", " ", "missing-id"),
    ],
)
def test_cells_that_are_wrong_are_named_with_their_line(
    tmp_path: Path, column: str, cell: str, rule: str
) -> None:
    rows = long_rows(values())
    rows[7][column] = cell
    error = refused(write_rows(tmp_path / "all.csv", rows))
    assert (error.rule, error.file) == (rule, str(tmp_path / "all.csv"))
    assert error.location.startswith("9:")


def test_columns_that_are_missing_are_named(tmp_path: Path) -> None:
    rows = long_rows(values())
    assert (
        "a column 'bag'" in refused(write_rows(tmp_path / "1.csv", without(rows, "bag"))).expected
    )
    assert (
        "a column 'value'"
        in refused(write_rows(tmp_path / "2.csv", without(rows, "value"))).expected
    )
    assert (
        "instance"
        in refused(write_rows(tmp_path / "3.csv", without(rows, "row", "column"))).expected
    )


def test_predictions_in_json_are_no_maps(tmp_path: Path) -> None:
    (tmp_path / "dets.json").write_text("[]")
    error = refused([tmp_path / "dets.json"])
    assert error.rule == "wrong-role"
    assert "--references" in error.hint


def test_other_scales_need_a_normalisation(tmp_path: Path) -> None:
    rows = long_rows(values() * 10 - 5)
    table = write_rows(tmp_path / "all.csv", rows)
    assert refused(table).rule == "score-range"
    bags = read_bags(table, normalise="sigmoid")
    assert bags[0].values == pytest.approx(
        1 / (1 + np.exp(-(values()[:, 0].reshape(3, -1) * 10 - 5)))
    )
