"""Requirements: what is met, not met and not shown, and files that say where they are wrong."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calipers as cal
from calipers.errors import InputError
from calipers.results.requirements import Outcome, Requirement, Requirements, check, verdicts
from evaluated import evaluated_demo
from stored import by_centre, row

HEAD = 'schema = "calipers.requirements/1"\n'
ONE = '[[requirement]]\nid = "REQ-1"\nmetric = "AP50"\n'


def judge(rows: list[dict[str, Any]], **demanded: Any) -> tuple[Outcome, ...]:
    return check(rows, [Requirement("REQ-1", demanded.pop("metric", "AP50"), **demanded)])


def one(found: dict[str, Any], **demanded: Any) -> tuple[str, str]:
    outcome = judge([found], **demanded)[0]
    return outcome.verdict, outcome.why


@pytest.mark.parametrize(
    ("demanded", "verdict", "why"),
    [
        ({"at_least": 0.5}, "met", "lower bound 0.5 is at least 0.5"),
        ({"at_least": 0.55}, "not met", "lower bound 0.500 is below 0.55"),
        ({"at_most": 0.7}, "met", "upper bound 0.7 is at most 0.7"),
        ({"at_most": 0.65}, "not met", "upper bound 0.700 is above 0.65"),
        ({"at_least": 0.6, "statistic": "value"}, "met", "value 0.6 is at least 0.6"),
        ({"at_most": 0.55, "statistic": "low"}, "met", "lower bound 0.500 is at most 0.55"),
        ({"at_least": 0.65, "statistic": "high"}, "met", "upper bound 0.700 is at least 0.65"),
        (
            {"at_least": 0.45, "at_most": 0.75},
            "met",
            "lower bound 0.500 is at least 0.45; upper bound 0.700 is at most",
        ),
        ({"at_least": 0.55, "at_most": 0.75}, "not met", "lower bound 0.500 is below 0.55"),
        ({"at_least": 0.45, "at_most": 0.65}, "not met", "upper bound 0.700 is above 0.65"),
        ({"at_least": 0.50000001}, "not met", "lower bound 0.5 is below 0.50000001"),
        ({"at_least": 0.5, "level": 0.95}, "met", ""),
    ],
)
def test_a_limit_is_kept_by_the_bound_that_is_harder_to_keep(
    demanded: dict, verdict: str, why: str
) -> None:
    found = one(row(), **demanded)
    assert found[0] == verdict
    assert found[1].startswith(why)


@pytest.mark.parametrize(
    ("changes", "demanded", "why"),
    [
        (
            {"value": None, "low": None, "high": None, "reason": "no_references"},
            {},
            "AP50 is undefined: no references",
        ),
        (
            {"low": None, "high": None, "reason": "too_few_units"},
            {},
            "there is no interval: too few units; an interval needs 5 units",
        ),
        (
            {"low": None, "high": None, "reason": "not_requested"},
            {},
            "there is no interval: not requested; evaluate without --no-ci",
        ),
        ({"low": None}, {}, "there is no interval"),
        ({}, {"min_units": 41}, "the estimate is based on 40 units (patient), 41 are required"),
        (
            {"n_units": 1},
            {"min_units": 41},
            "the estimate is based on 1 unit (patient), 41 are required",
        ),
        (
            {"n_images": 0},
            {"min_images": 1},
            "the estimate is based on 0 images, 1 is required",
        ),
        ({}, {"min_images": 101}, "the estimate is based on 100 images, 101 are required"),
        ({}, {"min_references": 151}, "the estimate is based on 150 references, 151 are required"),
        ({}, {"level": 0.9}, "the interval has the level 0.95, 0.9 is required"),
        ({"level": None}, {"level": 0.9}, "the interval has the level None, 0.9 is required"),
        ({"method": "clopper-pearson-units"}, {}, "the stored bounds are not of AP50"),
        ({"low": 0.6, "high": 0.6}, {}, "the interval has a width of 0"),
    ],
)
def test_what_cannot_be_judged_is_not_shown(changes: dict, demanded: dict, why: str) -> None:
    verdict, said = one(row(**changes), at_least=0.1, **demanded)
    assert verdict == "not shown"
    assert said.startswith(why)


@pytest.mark.parametrize(
    "changes",
    [
        {"low": None, "high": None, "reason": "not_requested", "method": "none"},
        {"method": "clopper-pearson-units"},
        {"low": 0.6, "high": 0.6},
    ],
)
def test_a_limit_on_the_value_needs_no_interval(changes: dict) -> None:
    assert one(row(**changes), at_least=0.6, statistic="value")[0] == "met"


def test_a_value_from_too_few_units_is_not_shown_either() -> None:
    assert one(row(), at_least=0.6, statistic="value", min_units=41)[0] == "not shown"


def test_everything_that_is_too_small_is_named() -> None:
    _, said = one(row(), at_least=0.1, min_units=50, min_images=500)
    assert (
        said
        == "the estimate is based on 100 images, 500 are required; the estimate is based on 40 "
        "units (patient), 50 are required"
    )


numbers = st.floats(0, 1)


@given(
    value=st.none() | numbers,
    ends=st.none() | st.tuples(numbers, numbers).map(sorted),
    statistic=st.sampled_from([None, "low", "high", "value"]),
    limits=st.tuples(st.none() | numbers, st.none() | numbers).filter(
        lambda pair: pair != (None, None) and (None in pair or pair[0] <= pair[1])
    ),
    counts=st.tuples(*[st.integers(0, 4)] * 6),
)
def test_met_means_that_the_limit_holds_and_n_suffices(
    value, ends, statistic, limits, counts
) -> None:
    low, high = ends or (None, None)
    at_least, at_most = limits
    n, minimum = counts[:3], counts[3:]
    outcome = judge(
        [row(value=value, low=low, high=high, n_images=n[0], n_units=n[1], n_references=n[2])],
        statistic=statistic,
        at_least=at_least,
        at_most=at_most,
        **dict(zip(("min_images", "min_units", "min_references"), minimum)),
    )[0]
    lower = {None: low, "low": low, "high": high, "value": value}[statistic]
    upper = {None: high, "low": low, "high": high, "value": value}[statistic]
    usable = statistic == "value" or (ends is not None and low < high)
    shown = value is not None and usable and all(a >= b for a, b in zip(n, minimum))
    assert (outcome.verdict != "not shown") == shown
    if shown:
        kept = (at_least is None or lower >= at_least) and (at_most is None or upper <= at_most)
        assert (outcome.verdict == "met") == kept


def test_every_centre_is_judged() -> None:
    found = judge([row(low=0.1), *by_centre(0.6, 0.4, 0.8)], group={"centre": "*"}, at_least=0.5)
    assert [(o.place, o.verdict) for o in found] == [
        ("ours, centre C1", "met"),
        ("ours, centre C2", "not met"),
        ("ours, centre C3", "met"),
    ]
    assert verdicts(found) == {"REQ-1": "not met"}


def test_center_is_centre() -> None:
    outcomes = judge(by_centre(0.6, 0.4), group={"center": "C2"}, at_least=0.5)
    assert [(o.place, o.verdict) for o in outcomes] == [("ours, centre C2", "not met")]


def test_one_centre_and_no_other() -> None:
    rows = [row(), *by_centre(0.6, 0.4), row(group={"centre": "C2", "size": "small"})]
    assert [o.row["group"] for o in judge(rows, group={"centre": "C2"}, at_least=0.5)] == [
        {"centre": "C2"}
    ]
    both = judge(rows, group={"size": "*", "centre": "*"}, at_least=0.5)
    assert [o.place for o in both] == ["ours, centre C2, size small"]


def test_without_a_class_the_pooled_row_is_meant_and_with_a_star_every_class() -> None:
    rows = [row(), row(label="mass"), row(label="nodule")]
    assert [o.place for o in judge(rows, at_least=0.5)] == ["ours"]
    assert [o.place for o in judge(rows, at_least=0.5, label="mass")] == ["ours, mass"]
    assert [o.place for o in judge(rows, at_least=0.5, label="*")] == ["ours, mass", "ours, nodule"]


def test_without_a_model_every_model_has_to() -> None:
    rows = [row(), row(model="theirs", low=0.3), row("AP75", model="third")]
    found = judge(rows, at_least=0.5)
    assert [(o.place, o.verdict) for o in found] == [
        ("ours", "met"),
        ("theirs", "not met"),
        ("third", "not shown"),
    ]
    assert found[2].why == "the evaluation has no such row for the model 'third'"
    assert [o.place for o in judge(rows, at_least=0.5, model="theirs")] == ["theirs"]


@pytest.mark.parametrize(
    ("demanded", "why"),
    [
        ({"metric": "AP5"}, "the evaluation has no metric 'AP5'; did you mean 'AP50'?"),
        ({"metric": "*"}, "the evaluation has no metric '*'; known: AP50, FROC"),
        ({"model": "our"}, "the evaluation has no model 'our'; did you mean 'ours'?"),
        ({"label": "mas"}, "the evaluation has no class 'mas'; did you mean 'mass'?"),
        ({"metric": "FROC", "label": "mass"}, "FROC has no values per class"),
        ({"metric": "FROC", "label": "*"}, "FROC has no values per class"),
        ({"group": {"centre": "C9"}}, "the evaluation has no centre 'C9'; known: C1, C2"),
        (
            {"group": {"site": "*"}},
            "the evaluation has no groups by site (--by site); known: centre",
        ),
        ({"group": {"*": "*"}}, "the evaluation has no groups by * (--by *); known: centre"),
        (
            {"group": {"centre": "C1"}, "label": "mass"},
            "AP50 has no values per class in groups (--by centre,class)",
        ),
    ],
)
def test_what_the_evaluation_does_not_have_is_not_shown(demanded: dict, why: str) -> None:
    outcome = judge(
        [row(), row(label="mass"), *by_centre(0.6, 0.4), row("FROC")], at_least=0.0, **demanded
    )
    assert [o.verdict for o in outcome] == ["not shown"]
    assert outcome[0].row is None
    assert outcome[0].why.startswith(why)


@pytest.mark.parametrize(
    ("rows", "demanded", "why"),
    [
        ([], {}, "the evaluation has no rows"),
        (
            [row()],
            {"group": {"centre": "*"}},
            "the evaluation has no groups by centre (--by centre)",
        ),
        (by_centre(0.5), {}, "AP50 has no row of all images, only by centre"),
        ([row(label="mass")], {}, "AP50 has no pooled row, only classes: mass"),
    ],
)
def test_evaluations_of_another_kind(rows: list, demanded: dict, why: str) -> None:
    assert [(o.verdict, o.why) for o in judge(rows, at_least=0.0, **demanded)] == [
        ("not shown", why)
    ]


def test_rows_of_a_real_evaluation_can_be_judged() -> None:
    evaluation = evaluated_demo("overview", ci=False)
    rows = [found.as_dict() for found in evaluation.rows]
    value = float(evaluation["overpredicts", "AP@0.5"])
    found = judge(rows, metric="AP@0.5", model="overpredicts", statistic="value", at_least=value)
    assert [(o.verdict, o.place) for o in found] == [("met", "overpredicts")]
    assert (
        judge(rows, metric="AP@0.5", model="overpredicts", at_least=0.0)[0].verdict == "not shown"
    )


def test_a_good_subgroup_is_shown_to_be_good() -> None:
    """47 of 50 nodules are found, in as many patients: that shows a sensitivity of 0.6, and the
    interval of the row is the one that counts.
    """
    references, predictions = [], []
    for patient in range(50):
        box = np.array([[0.0, 0.0, 10.0, 10.0]])
        centre = "A"
        references.append({"boxes": box, "labels": [0], "patient": patient, "centre": centre})
        n = int(patient >= 3)
        predictions.append({"boxes": box[:n], "labels": [0] * n, "scores": [0.9] * n})
    cohort = cal.Cohort.from_arrays(references, predictions, classes=("nodule",))
    evaluation = cal.evaluate(cohort, "overview", by=["centre"])
    wanted = Requirement("R", "sensitivity@0.5", group={"centre": "A"}, at_least=0.6)
    (outcome,) = evaluation.check(Requirements((wanted,)))
    assert (outcome.verdict, outcome.row["value"]) == ("met", 0.94)
    assert outcome.row["low"] == pytest.approx(0.838, abs=0.01)  # of Wilson's interval


@pytest.mark.parametrize(
    ("limit", "side"), [(80, "at_least"), (-0.1, "at_least"), (1.5, "at_most"), (100, "at_most")]
)
def test_a_limit_outside_the_range_is_an_error(limit: float, side: str) -> None:
    wanted = Requirement("REQ-1", "AP50", **{side: limit})
    with pytest.raises(InputError, match="from 0 to 1, the range of AP50") as refused:
        check([row()], [wanted], bounds={"AP50": (0.0, 1.0)})
    assert refused.value.rule == "limit-range"
    percent = {80: "at_least = 0.8 is 80 %", 100: "at_most = 1 is 100 %"}
    assert refused.value.hint == percent.get(limit, "")
    assert check([row()], [Requirement("REQ-1", "AP50", at_least=1)], bounds={"AP50": (0.0, 1.0)})
    rate = Requirement("REQ-1", "FP/image", at_most=-1)
    with pytest.raises(InputError, match="a limit of at least 0, the range of FP/image"):
        check([], [rate], bounds={"FP/image": (0.0, math.inf)})


def test_the_worst_outcome_is_the_verdict() -> None:
    rows = [row(), row(model="b", low=None), row(model="c", low=0.1)]
    assert verdicts(judge(rows[:1], at_least=0.5)) == {"REQ-1": "met"}
    assert verdicts(judge(rows[:2], at_least=0.5)) == {"REQ-1": "not shown"}
    assert verdicts(judge(rows, at_least=0.5)) == {"REQ-1": "not met"}


def test_a_requirement_without_a_limit_cannot_be_made() -> None:
    with pytest.raises(InputError, match="requirement 'REQ-1': expected at_least, at_most or both"):
        Requirement("REQ-1", "AP50")


def test_a_whole_file() -> None:
    found = Requirements.from_toml(
        HEAD
        + 'name = "Acceptance"\n'
        + ONE
        + 'text = "words"\nmodel = "ours"\nclass = "mass"\ngroup = { centre = "*" }\n'
        "at_least = 0.8\nat_most = 1\nmin_images = 10\nmin_units = 5\nmin_references = 7\n"
        "level = 0.95\n"
        '[[requirement]]\nid = "REQ-2"\nmetric = "FP/image"\nat_most = 2\nstatistic = "value"\n'
    )
    assert (found.name, len(found), len(found.sha256)) == ("Acceptance", 2, 64)
    first, second = found
    assert first == Requirement(
        "REQ-1",
        "AP50",
        text="words",
        model="ours",
        label="mass",
        group={"centre": "*"},
        at_least=0.8,
        at_most=1,
        min_images=10,
        min_units=5,
        min_references=7,
        level=0.95,
    )
    assert str(first) == (
        "AP50: lower bound at least 0.8 and upper bound at most 1, from 10 images and 5 units and "
        "7 references on"
    )
    assert str(second) == "FP/image: value at most 2"


@pytest.mark.parametrize(
    ("text", "rule", "place"),
    [
        ("", "schema", ""),
        ('schema = "calipers.protocol/1"\n', "schema", ""),
        ("schema = \n", "toml-syntax", ""),
        ("schema = 1\nschema = 2\n", "toml-syntax", ""),
        ("x = " + "1" * 5000, "toml-syntax", ""),
        ("x = " + "[" * 100_000, "depth", ""),
        (HEAD, "no-requirement", ""),
        (HEAD + "requirement = []\n", "no-requirement", ""),
        (HEAD + "requirement = 3\n", "type", "requirement"),
        (HEAD + "requirement = [3]\n", "type", "requirement[0]"),
        (HEAD + "name = 3\n" + ONE, "type", "name"),
        (HEAD + "requirements = 3\n", "unknown-key", "requirements"),
        (HEAD + ONE, "no-limit", "requirement[0]"),
        (HEAD + ONE + "at_lest = 1\n", "unknown-key", "requirement[0].at_lest"),
        (HEAD + ONE + 'at_least = "0.5"\n', "type", "requirement[0].at_least"),
        (HEAD + ONE + "at_least = true\n", "type", "requirement[0].at_least"),
        (HEAD + ONE + "at_least = nan\n", "non-finite", "requirement[0].at_least"),
        (HEAD + ONE + "at_least = inf\n", "non-finite", "requirement[0].at_least"),
        (HEAD + ONE + "at_most = 1e999\n", "non-finite", "requirement[0].at_most"),
        (HEAD + ONE + f"at_most = {10**400}\n", "range", "requirement[0].at_most"),
        (HEAD + ONE + "at_least = 0.6\nat_most = 0.5\n", "contradiction", "requirement[0]"),
        (
            HEAD + ONE + 'at_least = 0.6\nstatistic = "value"\nlevel = 0.95\n',
            "contradiction",
            "requirement[0]",
        ),
        (
            HEAD + ONE + 'at_least = 0.6\nstatistic = "lower"\n',
            "choice",
            "requirement[0].statistic",
        ),
        (HEAD + ONE + "at_least = 0.6\nstatistic = []\n", "choice", "requirement[0].statistic"),
        (HEAD + ONE + "at_least = 0.6\nlevel = 95\n", "range", "requirement[0].level"),
        (HEAD + ONE + "at_least = 0.6\nmin_units = 0\n", "range", "requirement[0].min_units"),
        (HEAD + ONE + "at_least = 0.6\nmin_units = 1.5\n", "type", "requirement[0].min_units"),
        (HEAD + ONE + "at_least = 0.6\nmodel = 3\n", "type", "requirement[0].model"),
        (HEAD + ONE + 'at_least = 0.6\nclass = ""\n', "type", "requirement[0].class"),
        (HEAD + ONE + 'at_least = 0.6\ngroup = "C1"\n', "type", "requirement[0].group"),
        (HEAD + ONE + "at_least = 0.6\ngroup = {}\n", "type", "requirement[0].group"),
        (
            HEAD + ONE + "at_least = 0.6\ngroup = { centre = 1 }\n",
            "type",
            "requirement[0].group.centre",
        ),
        (HEAD + '[[requirement]]\nid = "a"\n', "missing-key", "requirement[0]"),
        (HEAD + '[[requirement]]\nmetric = "a"\n', "missing-key", "requirement[0]"),
        (
            HEAD + '[[requirement]]\nid = " a"\nmetric = "a"\n',
            "requirement-id",
            "requirement[0].id",
        ),
        (
            HEAD + '[[requirement]]\nid = "a\\u001b"\nmetric = "a"\n',
            "requirement-id",
            "requirement[0].id",
        ),
        (HEAD + (ONE + "at_least = 0\n") * 2, "dup-requirement", "requirement[1].id"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(
    text: str, rule: str, place: str, tmp_path: Path
) -> None:
    file = tmp_path / "requirements.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        Requirements.load(file)
    assert (refused.value.rule, refused.value.location, refused.value.file) == (
        rule,
        place,
        str(file),
    )


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (HEAD + ONE + "at_lest = 1\n", "did you mean 'at_least'?"),
        (HEAD + ONE + "at_least = 0.6\nlevel = 95\n", "did you mean 0.95?"),
        (HEAD + ONE + 'at_least = 0.6\nstatistic = "lo"\n', "did you mean 'low'?"),
    ],
)
def test_the_nearest_name_is_offered(text: str, hint: str) -> None:
    with pytest.raises(InputError) as refused:
        Requirements.from_toml(text)
    assert refused.value.hint == hint


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "huge.toml").write_bytes(b"#" * ((1 << 20) + 1))
    os.mkfifo(tmp_path / "pipe.toml")
    for name, rule in (
        ("bytes.toml", "encoding"),
        ("huge.toml", "too-large"),
        ("pipe.toml", "not-a-file"),
        (".", "not-a-file"),
        ("none.toml", "not-found"),
        ("a\0b", "not-readable"),
    ):
        with pytest.raises(InputError) as refused:
            Requirements.load(tmp_path / name)
        assert refused.value.rule == rule


def test_a_byte_order_mark_is_no_problem(tmp_path: Path) -> None:
    (tmp_path / "bom.toml").write_text(HEAD + ONE + "at_least = 0\n", encoding="utf-8-sig")
    assert len(Requirements.load(tmp_path / "bom.toml")) == 1
