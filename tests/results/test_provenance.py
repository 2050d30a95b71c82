# SPDX-License-Identifier: Apache-2.0
"""The record of a run and the log of a folder: no single change of either stays unnoticed."""

import copy
import json
import shutil

import pytest

import calipers as cal
from calipers.cli.main import run as call
from calipers.results.provenance import AUDIT, machine, read_log, run_record, source
from evaluated import evaluated_demo

OTHERS = (None, True, 0, -1, 0.5, "", "x", [], {}, [1], {"a": 1})


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "results"
    evaluation = evaluated_demo("coco", ci=False)
    evaluation.save(folder, command=["calipers", "evaluate"])
    evaluation.save(folder, command=["calipers", "evaluate"], force=True)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "results")


def paths(value, path=()):
    """Return the path of every value in a document."""
    found = [path] if path else []
    inner = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    for key, part in inner:
        found += paths(part, (*path, key))
    return found


def replaced(document, path, value):
    """Return a document with another value at a path; without it if the value is Ellipsis."""
    changed = copy.deepcopy(document)
    place = changed
    for key in path[:-1]:
        place = place[key]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return changed


def refusal(folder):
    """Return the rule by which `verify` refuses a folder, read without computing anything."""
    from calipers.io.saved.folder import check_files, read_folder

    with pytest.raises(cal.InputError) as caught:
        check_files(folder, read_folder(folder).run)
    return caught.value.rule


def test_no_field_of_the_record_can_be_changed_or_removed(folder):
    from calipers.io.saved.folder import read_documents

    file = folder / "run.json"
    whole = json.loads(file.read_text())
    n = 0
    for k, path in enumerate(paths(whole)):
        for value in (..., OTHERS[k % len(OTHERS)]):
            damaged = replaced(whole, path, value)
            if damaged == whole:
                continue
            file.write_text(json.dumps(damaged))
            # True equals 1 in Python, but not in a document.
            with pytest.raises(cal.InputError):
                read_documents(folder)
            n += 1
    assert n > 300
    file.write_text(json.dumps({**whole, "more": 1}))
    with pytest.raises(cal.InputError, match="record-hash"):
        read_documents(folder)


def test_no_byte_of_the_other_files_can_be_changed(folder):
    vouched = [*json.loads((folder / "run.json").read_text())["files"], AUDIT]
    for name in vouched:
        whole = (folder / name).read_bytes()
        for damaged in (whole[:-1], whole + b"\n", bytes([whole[0] ^ 1]) + whole[1:], b""):
            (folder / name).write_bytes(damaged)
            assert refusal(folder)
        (folder / name).unlink()
        assert refusal(folder) in ("not-found", "missing-key")
        (folder / name).write_bytes(whole)
    assert call(["verify", str(folder), "--json", "--quiet"]) == 0


def test_every_run_is_in_the_log(folder, capsys):
    lines = read_log(folder / AUDIT)
    assert [json.loads(line)["number"] for line in lines] == [1, 2]
    assert call(["verify", str(folder), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["runs"] == 2
    assert said["files"]["unverified"] == []
    assert {"run.json", AUDIT, "objects.parquet", "report.html"} <= set(said["files"]["verified"])


def test_the_log_has_the_page_that_was_written_last(folder, capsys):
    """A page may be written again or removed, and nobody else may change it."""
    page = folder / "report.html"
    whole = page.read_bytes()
    page.write_bytes(whole.replace(b"</body>", b"<p>much better</p></body>"))
    assert refusal(folder) == "file-hash"
    assert call(["report", str(folder), "--force", "--quiet"]) == 0
    assert page.read_bytes() == whole
    assert len(read_log(folder / AUDIT)) == 2
    assert call(["report", str(folder), "--force", "--redact", "--quiet"]) == 0
    lines = read_log(folder / AUDIT)
    assert [json.loads(line)["number"] for line in lines] == [1, 2, 3]
    capsys.readouterr()
    assert call(["verify", str(folder), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["runs"], said["files"]["unverified"]) == (2, [])
    # An entry of a page cannot be made up, moved or taken for a run.
    for damaged in (
        [*lines[:2], lines[2].replace('"bytes":', '"bytes":1')],
        [*lines[:2], lines[2].replace('"written":"2', '"written":2')],
        [lines[0], lines[2], lines[1]],
        lines[:2],
    ):
        (folder / AUDIT).write_text("\n".join([*damaged, ""]))
        assert refusal(folder) in ("audit-chain", "file-hash")
    (folder / AUDIT).write_text("\n".join([*lines, ""]))
    page.unlink()
    assert call(["verify", str(folder), "--quiet"]) == 0
    # Elsewhere a page is a file of its own.
    assert call(["report", str(folder), "-o", str(folder.parent / "p.html"), "--quiet"]) == 0
    assert read_log(folder / AUDIT) == lines
    evaluated_demo("coco", ci=False).save(folder, force=True)
    assert call(["verify", str(folder), "--quiet"]) == 0
    assert len(read_log(folder / AUDIT)) == 4


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines[1:],
        lambda lines: lines[:1],
        lambda lines: lines[::-1],
        lambda lines: [*lines, lines[-1]],
        lambda lines: [lines[0].replace('"number":1', '"number":01'), lines[1]],
        lambda lines: [lines[0].replace("calipers.audit/1", "calipers.audit/2"), lines[1]],
        lambda lines: [lines[0].replace('"ended":"2', '"ended":"3'), lines[1]],
        lambda lines: [lines[0], lines[1].replace('"ended":"2', '"ended":"3')],
        lambda lines: [lines[0], lines[1].replace(":", ": ", 1)],
        lambda lines: [lines[0], ""],
        lambda lines: [lines[0], "[" * 5000],
        lambda lines: [lines[0], '{"a":"\\ud800"}'],
    ],
)
def test_a_log_that_was_changed_is_refused_and_not_continued(folder, change):
    lines = read_log(folder / AUDIT)
    (folder / AUDIT).write_text("\n".join([*change(lines), ""]))
    assert refusal(folder) == "audit-chain"


def test_a_broken_log_is_not_overwritten(folder):
    text = (folder / AUDIT).read_text()
    (folder / AUDIT).write_text(text.replace('"number":1', '"number":7'))
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    with pytest.raises(cal.InputError, match="audit-chain"):
        evaluated_demo("coco", ci=False).save(folder, force=True)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_files_of_others_are_named(folder, capsys):
    (folder / "notes.txt").write_text("mine")
    assert call(["verify", str(folder)]) == 0
    assert "not covered: notes.txt\n" in capsys.readouterr().out


def test_a_record_may_not_lead_out_of_its_folder(folder):
    from stored import edit

    edit(folder, lambda run: run["files"].update({"../x": {"sha256": ""}}), "run.json")
    assert refusal(folder) == "range"


def test_the_record_counts_what_was_set_aside():
    account = {"read": 5, "used": 3, "quarantined": {"neg-size": 2}}
    other = {"read": 2, "used": 1, "quarantined": {"neg-size": 1}}
    document = {
        "calipers": "0",
        "protocol": {},
        "rows": [],
        "cohort": {"files": [account, other], "images": 1},
    }
    from datetime import UTC, datetime

    record = run_record(
        document, metric_ids=[], settings={}, command=[], started=datetime.now(UTC), files={}
    )
    assert record["records"] == {"read": 7, "used": 4, "quarantined": {"neg-size": 3}}


def test_source_and_machine_name_no_paths_and_people():
    facts = {**source(), **machine()}
    assert all(value is None or not value.startswith("/") for value in facts.values())
    assert facts["commit"] is None or len(facts["commit"].removesuffix("-dirty")) == 40
