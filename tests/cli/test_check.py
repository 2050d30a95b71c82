"""`calipers check`: exit codes, what is printed, JSON, JUnit, and names that are only names."""

from __future__ import annotations

import json
import os
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

import calipers as cal
from evaluated import evaluated_demo
from stored import by_centre, row, save

OLD = Path(__file__).parent.parent / "fixtures" / "results-0.1"
HEAD = 'schema = "calipers.requirements/1"\nname = "Acceptance"\n'
MET = (
    '[[requirement]]\nid = "REQ-1"\ntext = "finds it"\nmetric = "AP50"\nat_least = 0.45\n'
    "min_units = 20\n"
)
CENTRES = (
    '[[requirement]]\nid = "REQ-2"\nmetric = "AP50"\ngroup = { centre = "*" }\nat_least = 0.5\n'
)
ABSENT = '[[requirement]]\nid = "REQ-3"\nmetric = "AP5"\nat_least = 0.5\n'
DRIVING = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
NAMES = (
    "<b>&\"'",
    "\x1b[31mred",
    "a\nerror: forged",
    "\u202egnp",
    "[bold]x[/bold]",
    "]]>",
    "\x00",
    "\ufffe",
    "Ü 肺",
)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return save(tmp_path / "results", [row(), *by_centre(0.6, 0.4)])


@pytest.fixture
def demands(tmp_path: Path):
    def write(*parts: str) -> Path:
        file = tmp_path / "requirements.toml"
        file.write_text(HEAD + "".join(parts), encoding="utf-8")
        return file

    return write


def test_all_met_is_exit_0(calipers, results, demands):
    said = calipers("check", results, demands(MET))
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines() == [
        "REQ-1  finds it",
        "  AP50: lower bound at least 0.45, from 20 units on",
        "  met        ours  0.600 [0.500, 0.700]  n = 40 patients, 100 images, 150 references; "
        "bootse-t-logit",
        "",
        "1 of 1 requirements met",
    ]


def test_not_met_and_not_shown_are_exit_1(calipers, results, demands):
    said = calipers("check", results, demands(MET, CENTRES, ABSENT))
    assert said.code == 1
    for words in (
        "  met        ours, centre C1  0.600 [0.600, 0.700]",
        "  not met    ours, centre C2  0.600 [0.400, 0.700]",
        "             lower bound 0.400 is below 0.5",
        "  not shown  every model      -\n",
        "             the evaluation has no metric 'AP5'; did you mean 'AP50'?",
        "1 of 3 requirements met\n",
    ):
        assert words in said.out
    assert calipers("check", results, demands(ABSENT)).code == 1


def test_an_interval_of_something_else_is_not_printed_as_one_of_the_metric(
    calipers, demands, tmp_path
):
    folder = save(tmp_path / "results", [row(method="clopper-pearson-units")])
    said = calipers("check", folder, demands(MET))
    assert said.code == 1
    assert "  not shown  ours  0.600  n = 40 patients" in said.out
    assert "the stored bounds are not of AP50" in said.out
    assert "evaluate again" in said.out
    assert "value" not in said.out


def test_a_limit_outside_the_range_of_the_metric_is_an_error(calipers, demands, tmp_path):
    limit = '[[requirement]]\nid = "A"\nmetric = "AP@0.5"\nmodel = "overpredicts"\nat_least = 80\n'
    said = calipers("check", OLD / "boxes", demands(limit), "--junit", tmp_path / "junit.xml")
    assert (said.code, said.out) == (2, "")
    assert "requirement 'A'" in said.err
    assert "a limit from 0 to 1, the range of AP@0.5, got 80 [limit-range]" in said.err
    assert "at_least = 0.8 is 80 %" in said.err
    assert 'errors="1"' in (tmp_path / "junit.xml").read_text()


def test_bounds_of_version_01_that_are_not_of_the_metric_are_computed_again(calipers, demands):
    """18 of 20 boxes are found; version 0.1 stored the share of patients without error."""
    limit = (
        '[[requirement]]\nid = "A"\nmetric = "sensitivity@0.5"\nmodel = "ours"\nat_least = 0.6\n'
    )
    said = calipers("check", OLD / "boxes", demands(limit), "--json")
    outcome = said.json["outcomes"][0]
    assert (outcome["outcome"], outcome["row"]["value"]) == ("met", 18 / 20)
    assert outcome["row"]["method"] != "clopper-pearson-units"
    assert outcome["row"]["low"] > 0.6
    assert "recomputed from the folder" in said.json["warnings"][0]
    file = OLD / "boxes" / "evaluation.json"  # alone there is no cohort to compute it from
    said = calipers("check", file, demands(limit))
    assert (said.code, "not shown" in said.out) == (1, True)


def test_a_requirement_is_met_only_if_all_its_rows_are(calipers, results, demands):
    assert calipers("check", results, demands(CENTRES)).out.endswith("\n0 of 1 requirements met\n")
    assert calipers("check", results, demands(CENTRES.replace("0.5", "0.4"))).out.endswith(
        "1 of 1 requirements met\n"
    )


def test_json(calipers, results, demands):
    file = demands(MET, CENTRES, ABSENT)
    said = calipers("check", results, file, "--json")
    assert (said.code, said.err) == (1, "")
    assert list(said.json) == [
        "schema",
        "calipers",
        "evaluation",
        "result_hash",
        "vouched",
        "requirements",
        "requirements_sha256",
        "name",
        "counts",
        "outcomes",
        "warnings",
    ]
    assert said.json["schema"] == "calipers.check/1"
    assert said.json["counts"] == {"requirements": 3, "met": 1, "not_shown": 1, "not_met": 1}
    assert (said.json["vouched"], said.json["warnings"]) == (True, [])
    assert [(o["id"], o["outcome"]) for o in said.json["outcomes"]] == [
        ("REQ-1", "met"),
        ("REQ-2", "met"),
        ("REQ-2", "not met"),
        ("REQ-3", "not shown"),
    ]
    first, last = said.json["outcomes"][0], said.json["outcomes"][-1]
    assert first["row"] == row()
    assert first["limits"] == [{"statistic": "low", "at_least": 0.45}]
    assert first["minimum"] == {"units": 20}
    assert last["row"] is None
    assert calipers("check", results, demands(MET), "--json").code == 0


def test_an_evaluation_that_nothing_vouches_for_is_judged_with_a_note(calipers, demands, tmp_path):
    bare = save(tmp_path / "bare", [row()], run=False)
    said = calipers("check", bare, demands(MET))
    assert (said.code, said.err) == (
        0,
        "note: there is no run.json beside the evaluation: its numbers cannot be verified\n",
    )
    assert calipers("check", bare, demands(MET), "--quiet").err == ""
    assert (
        len(calipers("check", bare / "evaluation.json", demands(MET), "--json").json["warnings"])
        == 1
    )


def test_a_changed_evaluation_is_exit_2(calipers, results, demands):
    text = (results / "evaluation.json").read_text()
    (results / "evaluation.json").write_text(text.replace("0.4,", "0.6,"))
    said = calipers("check", results, demands(CENTRES))
    assert (said.code, said.out) == (2, "")
    assert "[result-hash]" in said.err
    said = calipers("check", results, demands(CENTRES), "--json")
    assert (said.code, said.json["schema"], said.json["error"]["kind"]) == (
        2,
        "calipers.error/1",
        "result-hash",
    )


@pytest.mark.parametrize("argument", ["results", "requirements.toml"])
def test_bad_input_is_exit_2(calipers, results, demands, tmp_path, argument):
    arguments = {"results": results, "requirements.toml": demands(MET)}
    for wrong in (tmp_path / "nothing", tmp_path, demands(MET).with_suffix(""), "", "a\0b"):
        said = calipers("check", *(arguments | {argument: wrong}).values())
        assert (said.code, said.out) == (2, "")
        assert said.err.startswith("error: ")
    assert calipers("check", results).code == 2


def test_what_evaluate_wrote_can_be_checked(calipers, files, demands, tmp_path):
    arguments = (
        "evaluate",
        files.references,
        files.ours,
        "--groups",
        files.groups,
        "--cluster",
        "image",
        "-q",
    )
    limit = '[[requirement]]\nid = "A"\nmetric = "AP50"\nstatistic = "value"\nat_least = 0.5\n'
    assert calipers(*arguments, "-o", tmp_path / "out", "--no-ci").code == 0
    said = calipers("check", tmp_path / "out", demands(limit))
    assert (said.code, said.err) == (0, "")
    assert calipers("check", tmp_path / "out", demands(limit.replace("0.5\n", "0.99\n"))).code == 1
    without = calipers(
        "check", tmp_path / "out", demands(limit.replace('statistic = "value"\n', ""))
    )
    assert without.code == 1
    assert "there is no interval: not requested" in without.out


def test_groups_of_a_real_evaluation(calipers, tmp_path):
    """Bounds and groups as `evaluate` writes them; the verdict agrees with the rows."""

    folder = tmp_path / "results"
    protocol = replace(cal.Protocol.load("overview"), replicates=200).only(["AP@0.5", "RoDeO"])
    evaluated_demo(protocol, by=["centre", "centre,class"]).save(folder)
    file = tmp_path / "requirements.toml"
    file.write_text(HEAD + CENTRES.replace("AP50", "AP@0.5"), encoding="utf-8")
    said = calipers("check", folder, file, "--json")
    found = said.json["outcomes"]
    assert (said.code, len(found)) == (1, 3 * 4)
    assert {outcome["row"]["group"]["centre"] for outcome in found} == {
        "Harbour",
        "North",
        "Summit",
        "Valley",
    }
    for outcome in found:
        low, exact = outcome["row"]["low"], outcome["row"]["method"] != "clopper-pearson-units"
        assert outcome["outcome"] == (
            "not shown" if not exact else "met" if low >= 0.5 else "not met"
        )
    assert {outcome["outcome"] for outcome in found} >= {"met", "not met"}


def test_junit(calipers, results, demands, tmp_path):
    file = tmp_path / "junit.xml"
    said = calipers("check", results, demands(MET, CENTRES, ABSENT), "--junit", file)
    assert (said.code, said.err) == (1, f"JUnit: {file}\n")
    root = ET.parse(file).getroot()
    assert (root.tag, root.attrib) == (
        "testsuites",
        {"name": "calipers check", "tests": "4", "failures": "2", "errors": "0", "time": "0"},
    )
    suite = root.find("testsuite")
    assert (suite.get("name"), suite.get("skipped"), suite.get("tests")) == ("Acceptance", "0", "4")
    assert suite.find("properties/property[@name='result_hash']").get("value")
    cases = suite.findall("testcase")
    assert [(case.get("classname"), case.get("name")) for case in cases] == [
        ("REQ-1", "ours: AP50: lower bound at least 0.45, from 20 units on"),
        ("REQ-2", "ours, centre C1: AP50: lower bound at least 0.5"),
        ("REQ-2", "ours, centre C2: AP50: lower bound at least 0.5"),
        ("REQ-3", "every model: AP5: lower bound at least 0.5"),
    ]
    failures = [case.find("failure") for case in cases]
    assert failures[:2] == [None, None]
    assert [(f.get("type"), f.get("message")) for f in failures[2:]] == [
        ("not met", "lower bound 0.400 is below 0.5"),
        ("not shown", "the evaluation has no metric 'AP5'; did you mean 'AP50'?"),
    ]
    assert cases[0].find("system-out").text == "finds it: lower bound 0.500 is at least 0.45"


def test_junit_depends_on_nothing_but_the_outcomes_and_replaces_an_earlier_one(
    calipers, results, demands, tmp_path
):
    file = tmp_path / "junit.xml"
    calipers("check", results, demands(MET), "--junit", file)
    first = file.read_bytes()
    calipers("check", results, demands(CENTRES), "--junit", file)
    assert file.read_bytes() != first
    calipers("check", results, demands(MET), "--junit", file)
    assert file.read_bytes() == first
    assert sorted(os.listdir(tmp_path)) == ["junit.xml", "requirements.toml", "results"]


def test_junit_says_so_if_nothing_could_be_judged(calipers, results, demands, tmp_path):
    file = tmp_path / "junit.xml"
    assert calipers("check", results, demands(MET), "--junit", file).code == 0
    assert calipers("check", tmp_path / "nothing", demands(MET), "--junit", file).code == 2
    root = ET.parse(file).getroot()
    assert (root.get("errors"), root.get("failures"), root.get("tests")) == ("1", "0", "1")
    assert "[not-found]" in root.find("testsuite/testcase/error").get("message")
    assert calipers("check", results, demands(MET), "--junit", file).code == 0
    assert ET.parse(file).getroot().get("errors") == "0"


def test_junit_never_replaces_anything_else(calipers, results, demands, tmp_path):
    precious = tmp_path / "precious.txt"
    precious.write_text("data")
    file = demands(MET)
    for target, rule in (
        (precious, "output-exists"),
        (file, "output-exists"),
        (results / "evaluation.json", "output-exists"),
        (results, "not-a-file"),
        ("/dev/stdout", "output-exists"),
        ("", "not-a-file"),
        (tmp_path / "no" / "folder.xml", "not-writable"),
    ):
        before = (results / "evaluation.json").read_text()
        said = calipers("check", results, file, "--junit", target)
        assert (said.code, said.out) == (2, "")
        assert f"[{rule}]" in said.err
        assert (precious.read_text(), (results / "evaluation.json").read_text()) == ("data", before)


@pytest.mark.parametrize("name", NAMES)
def test_names_drive_neither_terminal_nor_xml(calipers, demands, tmp_path, name):
    hostile = row(model=name, label=name, group={name: name}, unit=name, reason=name, low=None)
    folder, file = save(tmp_path / "hostile", [hostile]), tmp_path / "junit.xml"
    quoted = json.dumps(name)
    wanted = (
        f'[[requirement]]\nid = "A"\ntext = {quoted}\nmetric = "AP50"\nclass = "*"\nat_least = 0\n'
    )
    wanted += f'group = {{ {quoted} = "*" }}\n'
    unknown = (
        f'[[requirement]]\nid = "B"\nmetric = "AP50"\nmodel = {json.dumps(name + "?")}\n'
        f"at_least = 0\n"
    )
    said = calipers("check", folder, demands(wanted, unknown), "--junit", file)
    assert said.code == 1
    for text in (said.out, said.err, file.read_text(encoding="utf-8")):
        assert not DRIVING.search(text)
        assert "\nerror: forged" not in text
    shown = ET.parse(file).getroot().find("testsuite/testcase").get("name")
    assert shown.startswith(name if name.isprintable() else name.encode("unicode_escape").decode())
    assert "[bold]x[/bold]" in said.out or name != "[bold]x[/bold]"
    printed = calipers("check", folder, demands(wanted), "--json")
    assert printed.out.isascii()
    assert printed.json["outcomes"][0]["row"] == hostile
