"""Parquet in the canonical layout."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calipers.errors import InputError
from calipers.io.read import read
from calipers.io.tables import parquet as table

COLUMNS = {
    "image": ["007", "007", "8", "9"],
    "class": ["nodule", "NA", "nodule", None],
    "x0": [10.0, 1.5, 0.0, None],
    "y0": [20.0, 2.0, 0.0, None],
    "x1": [30.0, 30.0, 5.0, None],
    "y1": [40.0, 4.0, 5.0, None],
    "width": [100, 100, 200, 50],
    "height": [100, 100, 100, 50],
    "centre": ["C1", "C1", "C2", "C2"],
    "age": [61, 61, 7, 8],
}


def put(folder, columns, name="refs.parquet"):
    path = folder / name
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path)
    return path


def test_the_canonical_layout(tmp_path):
    cohort = read(put(tmp_path, COLUMNS))
    assert cohort.images.ids == ("007", "8", "9")
    assert cohort.classes == ("NA", "nodule")
    assert cohort.references.boxes.tolist() == [[10, 20, 30, 40], [1.5, 2, 30, 4], [0, 0, 5, 5]]
    assert cohort.images.size.tolist() == [[100, 100], [200, 100], [50, 50]]
    assert cohort.images.groups["centre"].tolist() == ["C1", "C2", "C2"]
    assert cohort.images.groups["age"].tolist() == [61, 7, 8]
    assert cohort.intake.files[0].format == "parquet"


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", "b", "a", None]).dictionary_encode(),
        pa.array(["a", "b", "a", None], pa.large_string()),
        pa.array(["a", "b", "a", None], pa.string_view()),
    ],
    ids=["dictionary", "large", "view"],
)
def test_all_kinds_of_text(tmp_path, column):
    assert read(put(tmp_path, {**COLUMNS, "class": column})).classes == ("a", "b")


def test_whole_number_ids_and_decimals(tmp_path):
    from decimal import Decimal

    columns = {
        **COLUMNS,
        "image": [7, 7, 8, 2**60],
        "y1": pa.array([Decimal("40.5"), Decimal("4.5"), Decimal("5"), None]),
    }
    cohort = read(put(tmp_path, columns))
    assert cohort.images.ids == ("7", "8", str(2**60))
    assert cohort.references.boxes[0, 3] == 40.5


def test_a_missing_number_is_named_by_its_row(tmp_path):
    path = put(tmp_path, {**COLUMNS, "y1": [40.0, None, 5.0, None]})
    with pytest.raises(InputError) as refused:
        read(path)
    assert (refused.value.rule, refused.value.location, refused.value.field) == (
        "box-shape",
        "1:6",
        "y1",
    )
    assert read(path, lenient=True).intake.files[0].quarantined == {"box-shape": 1}


def test_infinite_numbers_are_refused(tmp_path):
    with pytest.raises(InputError) as refused:
        read(put(tmp_path, {**COLUMNS, "y1": [40.0, np.inf, 5.0, None]}))
    assert refused.value.rule == "non-finite"


@pytest.mark.parametrize("column", ["image", "class", "patient"])
def test_nul_is_refused_as_in_text(tmp_path, column):
    """NumPy drops it at the end of a text: the patients p and p with NUL were one."""
    columns = {**COLUMNS, "patient": ["p", "p", "q", "q"]}
    columns[column] = [f"{columns[column][0]}\0", *columns[column][1:]]
    with pytest.raises(InputError) as refused:
        read(put(tmp_path, columns))
    assert (refused.value.rule, refused.value.field) == ("encoding", column)


def test_decimals_are_the_numbers_that_their_digits_say(tmp_path):
    """Arrow makes 9.200000000000001 of 9.20."""
    cells = [Decimal("9.20"), Decimal("9.10"), Decimal("300.70"), None]
    cohort = read(put(tmp_path, {**COLUMNS, "area": pa.array(cells, pa.decimal128(9, 2))}))
    assert cohort.references.area[:3].tolist() == [9.2, 9.1, 300.7]


def test_nested_and_repeated_columns_are_refused(tmp_path):
    with pytest.raises(InputError) as refused:
        read(put(tmp_path, {**COLUMNS, "class": [["a"], ["b"], [], []]}))
    assert (refused.value.rule, refused.value.field) == ("column-type", "class")
    names = [*COLUMNS, "X0"]
    table = pa.Table.from_arrays(
        [pa.array(column) for column in [*COLUMNS.values(), COLUMNS["x0"]]], names
    )
    with pytest.raises(InputError) as refused:
        read(put(tmp_path, table))
    assert refused.value.rule == "dup-column"


def test_limits_are_checked_before_reading(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "MAX_ROWS", 3)
    with pytest.raises(InputError) as refused:
        read(put(tmp_path, COLUMNS))
    assert refused.value.rule == "too-large"


def test_a_cut_file_is_refused(tmp_path):
    path = put(tmp_path, COLUMNS)
    data = path.read_bytes()
    for length in (4, 50, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(InputError) as refused:
            read(path)
        assert refused.value.rule == "parquet-syntax"


def test_flipped_bytes_end_in_success_or_a_typed_error(tmp_path):
    import random

    draw = random.Random(5)
    path = put(tmp_path, COLUMNS)
    data = path.read_bytes()
    refused = 0
    for _ in range(300):
        broken = bytearray(data)
        broken[draw.randrange(4, len(data))] = draw.randrange(256)
        path.write_bytes(broken)
        try:
            read(path)
        except InputError as error:
            str(error).encode("utf-8")
            refused += 1
    assert 30 < refused < 300
