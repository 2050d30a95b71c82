"""Folders whose facts were changed and whose hashes were made anew: what can be computed again is
compared, and `verify` says what it takes on trust.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calipers as cal
from calipers.errors import InputError
from calipers.evaluation.saved import changed_tables, open_folder
from calipers.io.saved.folder import check_files
from calipers.results.files import sha256_of
from calipers.results.provenance import log_entry


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cohort = cal.demo_cohort().take(list(range(12)))
    return cal.evaluate(cohort, "tide", by="centre").save(
        tmp_path_factory.mktemp("whole") / "folder"
    )


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "folder"))


def seal(folder: Path, change: dict[str, Any]) -> None:
    """Change the record of the run, and write all hashes anew as a forger would."""
    record = json.loads((folder / "run.json").read_text())
    document = json.loads((folder / "evaluation.json").read_text())
    for name in record["files"]:
        content = (folder / name).read_bytes()
        record["files"][name] = {
            "sha256": hashlib.sha256(content).hexdigest(),
            "bytes": len(content),
        }
    record["result_hash"] = sha256_of({"protocol": document["protocol"], "rows": document["rows"]})
    for place, value in change.items():
        *parents, key = place.split("/")
        entry = record
        for parent in parents:
            entry = entry[parent]
        entry[key] = value
    del record["record_hash"]
    record["record_hash"] = sha256_of(record)
    run = (json.dumps(record, indent=1) + "\n").encode()
    page = json.loads((folder / "audit.jsonl").read_text())["page"]
    (folder / "run.json").write_bytes(run)
    (folder / "audit.jsonl").write_text(log_entry([], record, run, page) + "\n")


def test_a_folder_that_was_only_sealed_again_is_sound(folder: Path) -> None:
    seal(folder, {})
    opened = open_folder(folder)
    assert check_files(folder, opened.run).runs == 1
    assert changed_tables(folder, opened.evaluation) == []


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("settings/seed", 7),
        ("settings/ties", "worst"),
        ("settings/matching/threshold", 0.4),
        ("settings/intervals/replicates", 9),
        ("settings/intervals/unit", "image"),
        ("metric_ids", ["ap.voc@1"]),
        ("exit", 1),
        ("log", "other.jsonl"),
    ],
)
def test_what_follows_from_the_evaluation_is_compared(folder: Path, place: str, value: Any) -> None:
    seal(folder, {place: value})
    with pytest.raises(InputError, match="record-mismatch"):
        open_folder(folder)


@pytest.mark.parametrize("change", [{"previous": "0" * 64}, {"files/images.csv/bytes": 1}])
def test_what_the_files_and_the_log_say_is_compared(folder: Path, change: dict[str, Any]) -> None:
    seal(folder, change)
    with pytest.raises(InputError, match=r"audit-chain|file-hash"):
        check_files(folder, open_folder(folder).run)


def test_statistics_in_words_are_compared(folder: Path) -> None:
    path = folder / "evaluation.json"
    text = path.read_text()
    path.write_text(text.replace('"other patients', '"all patients'))
    assert path.read_text() != text
    seal(folder, {})
    (changed,) = open_folder(folder).changed
    assert changed.place == "/statistics/generalises_to"


def test_rules_of_a_later_version_are_refused(folder: Path) -> None:
    path = folder / "evaluation.json"
    document = json.loads(path.read_text())
    document["statistics"]["interval_rules"] += 1
    path.write_text(json.dumps(document))
    seal(folder, {})
    with pytest.raises(InputError, match="interval_rules"):
        open_folder(folder)


def test_intervals_of_earlier_rules_are_said_to_stand(folder: Path, calipers) -> None:
    """Whoever forges an interval can say that it is an old one; nobody can recompute it."""
    path = folder / "evaluation.json"
    document = json.loads(path.read_text())
    document["statistics"]["interval_rules"] -= 1
    row = next(row for row in document["rows"] if row["high"] is not None)
    row["high"] += 0.001
    path.write_text(json.dumps(document))
    seal(folder, {})
    outcome = calipers("verify", folder)
    assert outcome.code == 0
    assert "1 intervals follow earlier rules: they were not recomputed" in outcome.out
    assert json.loads(calipers("verify", folder, "--json").out)["earlier_intervals"] == 1


def test_tables_are_computed_again(folder: Path, calipers) -> None:
    csv, errors = folder / "images.csv", folder / "errors.csv"
    csv.write_bytes(csv.read_bytes().replace(b"\nP0", b"\nQ0", 1))
    lines = errors.read_bytes().split(b"\n")
    errors.write_bytes(b"\n".join([lines[0], *lines[2:]]))
    table = pq.read_table(folder / "objects.parquet")
    fates = table.column("fate").to_pylist()
    k = table.column_names.index("fate")
    wrong = pa.array([fates[-1] if k else fate for k, fate in enumerate(fates[::-1])])
    field = table.schema.field("fate")
    pq.write_table(table.set_column(k, field, wrong.cast(field.type)), folder / "objects.parquet")
    seal(folder, {})
    outcome = calipers("verify", folder, "--json")
    assert outcome.code == 1
    places = [entry["place"].split(",")[0] for entry in json.loads(outcome.out)["differences"]]
    assert sorted(places) == ["errors.csv", "images.csv", "objects.parquet"]


def test_verify_says_what_it_takes_on_trust(whole: Path, calipers) -> None:
    outcome = calipers("verify", whole)
    assert outcome.code == 0
    assert "taken on trust" in outcome.out
    assert "hashes and notes of the inputs" in outcome.out
    assert len(json.loads(calipers("verify", whole, "--json").out)["on_trust"]) == 4
