"""`calipers report DIR` and `calipers verify DIR`: the page anew, and every value once more, from
the folder alone.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from calipers.evaluation import saved as saved_evaluation
from calipers.evaluation.result import Evaluation
from calipers.evaluation.saved import open_folder
from calipers.results.files import sha256_of
from stored import seal


@pytest.fixture
def saved(calipers, files, tmp_path):
    """A saved evaluation whose inputs are gone."""
    out = tmp_path / "out"
    argv = [
        "evaluate",
        files.references,
        files.ours,
        files.theirs,
        "--groups",
        files.groups,
        "--by",
        "centre",
    ]
    assert calipers(*argv, "-o", out, "--seed", 3).code == 0
    shutil.rmtree(files.folder)
    return out


@pytest.fixture
def asked(monkeypatch):
    """Note what the page is asked for."""
    found = []

    def report(self, path, **options):
        options.pop("step")("a step is told, and goes nowhere but to a terminal")
        found.append(options)
        path.write_text("page")
        return path

    monkeypatch.setattr(Evaluation, "report", report)
    return found


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def forge(folder):
    """Change a stored value, and the record of the run with it."""
    document, run = (
        json.loads((folder / name).read_text()) for name in ("evaluation.json", "run.json")
    )
    document["rows"][0]["value"] = 0.125
    text = json.dumps(document)
    (folder / "evaluation.json").write_text(text)
    own_hash = hashlib.sha256(text.encode()).hexdigest()
    run["files"]["evaluation.json"] = {"sha256": own_hash, "bytes": len(text.encode())}
    run["result_hash"] = sha256_of({"protocol": document["protocol"], "rows": document["rows"]})
    run["environment"]["numpy"] = "1.0.0"
    seal(folder, run)


def test_a_page_never_lands_in_the_evaluation_of_another_run(calipers, saved, monkeypatch):
    """A run replaced the folder between the reading of the evaluation and the writing of its page.

    The old page stood in the new folder, and `calipers verify` vouched for it.
    """
    recompute = Evaluation.report

    def late(self, path, **options):
        raise AssertionError("the page was written")

    def replaced_meanwhile(folder, **options):
        stored = open_folder(folder, **options)
        run = json.loads((saved / "run.json").read_text())
        run["started"] = "2000-01-01T00:00:00Z"
        seal(saved, run)
        return stored

    monkeypatch.setattr(saved_evaluation, "open_folder", replaced_meanwhile)
    monkeypatch.setattr(Evaluation, "report", late)
    before = contents(saved)
    said = calipers("report", saved, "--force")
    assert (said.code, "[folder-changed]" in said.err) == (2, True)
    after = contents(saved)
    assert {name for name in before if before[name] != after[name]} <= {"run.json", "audit.jsonl"}
    # A page elsewhere is that of the evaluation that was read.
    monkeypatch.setattr(Evaluation, "report", recompute)
    assert calipers("report", saved, "-o", saved.parent / "page.html").code == 0


def test_the_page_is_made_anew(calipers, saved):
    before = contents(saved)
    (saved / "report.html").unlink()
    said = calipers("report", saved)
    assert (said.code, said.out) == (0, f"Open {saved / 'report.html'}\n")
    assert contents(saved) == before


def test_a_page_that_is_there_stays_without_force(calipers, saved):
    (saved / "report.html").write_text("mine")
    said = calipers("report", saved)
    assert (said.code, "[output-exists]" in said.err, "--force" in said.err) == (2, True, True)
    assert (saved / "report.html").read_text() == "mine"
    assert calipers("report", saved, "--force").code == 0
    assert "<!doctype html>" in (saved / "report.html").read_text()
    assert calipers("verify", saved).code == 0


def test_the_page_can_go_elsewhere(calipers, saved, tmp_path):
    before = contents(saved)
    assert calipers("report", saved, "-o", tmp_path / "page.html", "-q").err == ""
    assert (tmp_path / "page.html").read_bytes() == before["report.html"]
    assert contents(saved) == before


def test_json_says_what_was_written(calipers, saved, tmp_path):
    page = tmp_path / "page.html"
    said = calipers("report", saved, "-o", page, "--json", "--redact")
    assert list(said.json) == [
        "schema",
        "calipers",
        "page",
        "bytes",
        "pictures",
        "redacted",
        "notes",
    ]
    assert (said.json["schema"], said.json["page"], said.json["redacted"]) == (
        "calipers.report/1",
        str(page),
        True,
    )
    assert (said.json["bytes"], said.json["pictures"], said.json["notes"]) == (
        page.stat().st_size,
        0,
        [],
    )


@pytest.mark.parametrize(
    "name", ["run.json", "evaluation.json", "objects.parquet", "images.parquet", "images.csv"]
)
def test_nothing_but_the_page_is_replaced(calipers, saved, name):
    before = contents(saved)
    said = calipers("report", saved, "-o", saved / name, "--force")
    assert (said.code, "[output-in-input]" in said.err) == (2, True)
    assert contents(saved) == before


def test_bad_places_are_refused_before_any_work(calipers, saved, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "calipers.evaluation.saved.open_folder", lambda *args, **kwargs: pytest.fail("was opened")
    )
    for output in ("", tmp_path, tmp_path / "none" / "page.html"):
        assert calipers("report", saved, "-o", output, "--force").code == 2
    for folder in (tmp_path / "none", saved / "run.json"):
        said = calipers("report", folder)
        assert (said.code, "[not-a-folder]" in said.err) == (2, True)


def test_options_of_the_page_are_passed_on(calipers, saved, asked, tmp_path):
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    page = tmp_path / "page.html"
    plain = {
        "images": None,
        "pictures": True,
        "redact": False,
        "multiverse": False,
        "stability": False,
    }
    for options, wanted in (
        ([], plain),
        (["--images", pictures], {**plain, "images": str(pictures)}),
        (["--no-images"], {**plain, "pictures": False}),
        (["--redact"], {**plain, "pictures": False, "redact": True}),
        (["--multiverse"], {**plain, "multiverse": True}),
        (["--stability"], {**plain, "stability": True}),
    ):
        assert calipers("report", saved, "-o", page, "--force", *options).code == 0
        found = asked.pop()
        assert callable(found.pop("progress"))
        assert list(found.pop("command"))[:2] == [
            "calipers",
            "evaluate",
        ]  # how the numbers were made
        assert found == wanted


def test_options_of_pictures_that_make_no_sense(calipers, saved, tmp_path):
    page = tmp_path / "page.html"
    assert (
        "exclude each other"
        in calipers("report", saved, "-o", page, "--images", tmp_path, "--no-images").err
    )
    assert (
        "[not-a-folder]" in calipers("report", saved, "-o", page, "--images", tmp_path / "none").err
    )
    assert "[output-in-input]" in calipers("report", saved, "-o", page, "--images", tmp_path).err
    assert (
        "leaves pictures out"
        in calipers("report", saved, "-o", page, "--images", tmp_path, "--redact").err
    )
    assert not page.exists()


def test_evaluate_passes_them_on_too(calipers, files, asked, tmp_path):
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    argv = ["evaluate", files.references, files.ours, "--no-ci"]
    said = calipers(*argv, "-o", tmp_path / "none", "--images", pictures)
    assert (said.code, "[no-picture]" in said.err, asked) == (2, True, [])  # before any work
    names = [
        image["file_name"] for image in json.loads(Path(files.references).read_text())["images"]
    ]
    (pictures / names[0]).write_bytes(
        b""
    )  # the page was replaced in this test, nobody looks into it
    assert calipers(*argv, "-o", tmp_path / "a", "--images", pictures).code == 0
    plain = {
        "images": None,
        "pictures": True,
        "redact": False,
        "multiverse": False,
        "stability": False,
        "command": 0,
        "progress": 0,
    }
    assert {**asked.pop(), "command": 0, "progress": 0} == {**plain, "images": str(pictures)}
    assert calipers(*argv, "-o", tmp_path / "b", "--redact").code == 0
    assert {**asked.pop(), "command": 0, "progress": 0} == {
        **plain,
        "pictures": False,
        "redact": True,
    }
    for option in (["--images", pictures], ["--no-images"], ["--redact"]):
        said = calipers(*argv, *option)
        assert (said.code, "-o DIR" in said.err) == (2, True)
    said = calipers(*argv, "-o", pictures, "--images", pictures)
    assert (said.code, "[output-in-input]" in said.err) == (2, True)


def test_redacting_the_page_leaves_the_other_files_alone(calipers, files, tmp_path):
    argv = ["evaluate", files.references, files.ours, "--no-ci"]
    assert calipers(*argv, "-o", tmp_path / "a").code == 0
    assert calipers(*argv, "-o", tmp_path / "b", "--redact").code == 0
    for name in ("evaluation.json", "objects.parquet", "images.parquet", "images.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert "other files in DIR keep all names" in " ".join(
        calipers("evaluate", "--help").out.split()
    )


def test_values_that_differ_stop_the_page(calipers, saved, tmp_path):
    forge(saved)
    page = tmp_path / "page.html"
    said = calipers("report", saved, "-o", page)
    assert (said.code, "[not-reproduced]" in said.err, "/rows/0/value" in said.err) == (
        2,
        True,
        True,
    )
    assert "numpy 1.0.0" in said.err
    assert not page.exists()
    said = calipers("report", saved, "-o", page, "--differences", "warn", "--json")
    assert (said.code, len(said.json["notes"])) == (0, 2)
    assert "stored values differ" in page.read_text()


def test_verify_counts_what_came_out_again(calipers, saved):
    said = calipers("verify", saved, "--json")
    assert said.code == 0
    assert said.json["schema"] == "calipers.verify/1"
    assert (said.json["reproduced"], said.json["differences"]) == (True, [])
    values = said.json["values"]
    out = calipers("verify", saved).out
    assert out.startswith(
        f"all {values:,} values recomputed and identical\n"
        "7 files are as they were written, and so is the log of 1 run\n"
        "taken on trust, because nothing in the folder can show it:\n"
    )
    forge(saved)
    said = calipers("verify", saved)
    assert said.code == 1
    assert said.out.startswith(
        f"{values - 1:,} of {values:,} values recomputed and identical\n  /rows/0/value (ours, AP)"
    )
    assert "numpy 1.0.0" in said.err
    found = calipers("verify", saved, "--json")
    assert (found.code, found.json["reproduced"]) == (1, False)
    assert found.json["differences"][0]["stored"] == 0.125


def test_verify_refuses_what_was_changed(calipers, saved):
    (saved / "images.csv").write_text("changed")
    said = calipers("verify", saved)
    assert (said.code, "[file-hash]" in said.err, "images.csv" in said.err) == (2, True, True)


def test_a_page_that_links_to_itself_is_no_reason_to_stop(calipers, saved, tmp_path):
    shutil.copytree(saved, tmp_path / "copy")
    page = tmp_path / "copy" / "report.html"
    page.unlink()
    page.symlink_to(page.name)
    assert calipers("report", tmp_path / "copy", "-o", tmp_path / "new.html").code == 0


def test_the_path_of_the_page_cannot_turn_the_line_around(calipers, saved, tmp_path):
    said = calipers("report", saved, "-o", tmp_path / "a\u202eb\x1b[0m.html")
    assert said.code == 0
    assert not {"\u202e", "\x1b"} & set(said.out)
    assert said.out.startswith("Open ")
