"""Saved evaluations: read back as written, refused when anything about them is wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from calipers.errors import InputError
from calipers.io.saved import folder as stored
from evaluated import evaluated_demo
from stored import by_centre, document, row, save


def refused(path: Path) -> InputError:
    with pytest.raises(InputError) as error:
        stored.read_stored(path)
    return error.value


def test_what_evaluate_saves_can_be_read(tmp_path: Path) -> None:
    evaluation = evaluated_demo("coco", ci=False)
    folder = evaluation.save(tmp_path / "results")
    found = stored.read_stored(folder)
    assert list(found.rows) == [entry.as_dict() for entry in evaluation.rows]
    assert found.vouched
    assert found.result_hash == json.loads((folder / "run.json").read_text())["result_hash"]
    assert stored.read_stored(folder / "evaluation.json") == found


def test_json_from_stdout_is_an_evaluation_that_nothing_vouches_for(tmp_path: Path) -> None:
    folder = save(tmp_path / "results", [row()])
    (folder / "printed.json").write_text(json.dumps(document(by_centre(0.5))))
    found = stored.read_stored(folder / "printed.json")
    assert (len(found.rows), found.vouched) == (1, False)
    assert not stored.read_stored(save(tmp_path / "bare", [row()], run=False)).vouched


def test_a_row_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    assert (
        len(stored.read_stored(save(tmp_path / "results", [row(), row(), *by_centre(0.4)])).rows)
        == 2
    )


def test_a_changed_number_is_noticed(tmp_path: Path) -> None:
    folder = save(tmp_path / "results", [row()])
    text = (folder / "evaluation.json").read_text()
    (folder / "evaluation.json").write_text(text.replace('"low": 0.5', '"low": 0.9'))
    for path in (folder, folder / "evaluation.json"):
        error = refused(path)
        assert error.rule == "result-hash"
        assert "evaluate again" in error.hint


def test_a_note_in_the_evaluation_is_not_part_of_the_result(tmp_path: Path) -> None:
    folder = save(tmp_path / "results", [row()])
    text = (folder / "evaluation.json").read_text()
    (folder / "evaluation.json").write_text(
        text.replace('"warnings": []', '"warnings": ["a note"]')
    )
    assert stored.read_stored(folder).vouched


@pytest.mark.parametrize(
    ("record", "rule"),
    [
        ("{", "json-syntax"),
        ('{"schema": "calipers.run/1"}', "missing-key"),
        ('{"schema": "calipers.run/2", "result_hash": ""}', "schema"),
        ('{"schema": "calipers.run/1", "result_hash": 3}', "result-hash"),
    ],
)
def test_a_broken_record_of_the_run_vouches_for_nothing(
    record: str, rule: str, tmp_path: Path
) -> None:
    folder = save(tmp_path / "results", [row()])
    (folder / "run.json").write_text(record)
    assert refused(folder).rule == rule


def test_places_without_an_evaluation(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty.json").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert refused(tmp_path).rule == "not-found"
    assert refused(tmp_path / "nothing").rule == "not-found"
    assert refused(tmp_path / "pipe").rule == "not-a-file"
    assert refused(tmp_path / "empty.json").rule == "empty-file"
    assert refused(tmp_path / "loop").rule == "not-readable"


WHOLE = json.dumps(document([row()]))


@pytest.mark.parametrize(
    ("text", "rule", "place"),
    [
        (WHOLE[:-1], "json-syntax", "line 1, column"),
        (WHOLE[: len(WHOLE) // 2], "json-syntax", "line 1, column"),
        (WHOLE + "}", "json-syntax", "line 1, column"),
        ("[" * 100_000, "depth", ""),
        ("[]", "schema", ""),
        ("3", "schema", ""),
        ('{"images": [], "annotations": []}', "schema", ""),
        ('{"schema": "calipers.error/1"}', "schema", ""),
        (WHOLE.replace('"rows"', '"row"'), "missing-key", "/rows"),
        (WHOLE.replace('"protocol":', '"protocoll":'), "missing-key", "/protocol"),
        (WHOLE.replace('"value": 0.6', '"value": NaN'), "non-finite", ""),
        (WHOLE.replace('"value": 0.6', '"value": -Infinity'), "non-finite", ""),
        (WHOLE.replace('"value": 0.6', '"value": 1e999'), "non-finite", ""),
        (WHOLE.replace('"n_units": 40', '"n_units": ' + "9" * 5000), "non-finite", ""),
        (WHOLE.replace('"value": 0.6', '"value": 0.6, "value": 0.9'), "dup-key", ""),
        (WHOLE.replace('"ours"', '"\\ud800"'), "encoding", ""),
        (json.dumps(document([row(), row(low=0.4)])), "dup-row", "/rows/1"),
        (json.dumps(document({})), "type", "/rows"),
        (json.dumps(document([[]])), "type", "/rows/0"),
        (json.dumps(document([row(value="0.6")])), "type", "/rows/0/value"),
        (json.dumps(document([row(low=True)])), "type", "/rows/0/low"),
        (json.dumps(document([row(n_units=-1)])), "range", "/rows/0/n_units"),
        (json.dumps(document([row(n_images=1.5)])), "type", "/rows/0/n_images"),
        (json.dumps(document([row(model=None)])), "type", "/rows/0/model"),
        (json.dumps(document([row(group={"centre": 1})])), "type", "/rows/0/group"),
        (json.dumps(document([row(group=[])])), "type", "/rows/0/group"),
        (json.dumps(document([row(), {"metric": "AP"}])), "missing-key", "/rows/1"),
    ],
)
def test_what_is_no_evaluation_is_refused(text: str, rule: str, place: str, tmp_path: Path) -> None:
    file = tmp_path / "evaluation.json"
    file.write_text(text, encoding="utf-8")
    error = refused(file)
    assert (error.rule, error.file) == (rule, str(file))
    assert error.location.startswith(place)


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    (tmp_path / "evaluation.json").write_bytes(WHOLE.encode().replace(b"ours", b"\xff\xff"))
    assert refused(tmp_path).rule == "encoding"
    (tmp_path / "evaluation.json").write_text(WHOLE, encoding="utf-8-sig")
    assert len(stored.read_stored(tmp_path).rows) == 1


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "evaluation.json").open("wb") as file:
        file.truncate(stored.MAX_BYTES + 1)
    assert refused(tmp_path).rule == "too-large"


def test_every_cut_and_every_flipped_byte_ends_in_rows_or_an_input_error(tmp_path: Path) -> None:
    data, file = (
        json.dumps(document([row(), *by_centre(0.4)])).encode(),
        tmp_path / "evaluation.json",
    )
    outcomes = set()
    for at in range(0, len(data), 7):
        for broken in (data[: max(at, 1)], data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]):
            file.write_bytes(broken)
            try:
                stored.read_stored(file)
                outcomes.add("read")
            except InputError as error:
                outcomes.add(error.rule)
    assert {"read", "json-syntax", "schema", "missing-key"} <= outcomes
