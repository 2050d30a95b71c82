"""What a study is: claims with verdicts, figures with panels, options that are checked, a document
without NaN.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calipers.errors import UsageError
from calipers.show.figures import Axis, Curves, Line
from calipers.studies import framework, open_choices
from calipers.studies.framework import (
    STUDIES,
    VERDICTS,
    Claim,
    ClaimJudgement,
    Claims,
    Study,
    StudyFigure,
    StudyOptions,
    letters,
    load_study,
    run_study,
)
from calipers.studies.open_choices import ScanShare
from studies.study_cases import small_result


@pytest.mark.parametrize(
    ("outcome", "is_tested", "verdict"),
    [
        (True, True, "held"),
        (None, True, "held in part"),
        (False, True, "did not hold"),
        (None, False, "not tested"),
        (True, False, "not tested"),
    ],
)
def test_a_claim_has_one_of_four_verdicts(outcome, is_tested, verdict) -> None:
    assert Claim("a", "b", "c", outcome, "d", is_tested=is_tested).verdict == verdict
    assert verdict in VERDICTS


def test_the_summary_counts_only_claims_that_were_tested() -> None:
    said = "In this run 1 of 3 claims held, 1 in part, 1 did not; 1 could not be tested."
    assert small_result().summary() == said
    claims = small_result().claims[:1]
    assert replace(small_result(), claims=claims).summary() == "In this run 1 of 1 claims held."
    assert replace(small_result(), claims=()).summary() == "No claims."


def test_the_summary_counts_apart_what_verdicts_rest_on() -> None:
    held = small_result().claims[0]
    claims = (
        held,
        replace(held, basis="printed"),
        replace(held, basis="printed", outcome=None),
        replace(held, basis="made"),
        replace(held, basis="made", outcome=False),
    )
    result = replace(small_result(), claims=claims)
    assert result.summary() == (
        "In this run 1 of 1 claims held; 1 of 2 agree with the paper's own printed numbers only, 1 "
        "in part; 1 of 2 were shown possible on synthetic data, 1 did not."
    )
    assert result.counts("printed") == dict(zip(VERDICTS, (1, 1, 0, 0)))
    assert result.as_dict()["counts"]["made"]["did not hold"] == 1


def test_judges_say_what_they_rest_on_or_the_study_does() -> None:
    claims: Claims[int] = Claims()

    @claims.statement("a", "A.", "1")
    def _(run: int) -> ClaimJudgement:
        return ClaimJudgement(run > 0, "1")

    @claims.statement("b", "B.", "1")
    def _(run: int) -> ClaimJudgement:
        return ClaimJudgement(run > 0, "1", basis="printed", share=ScanShare(3, 4))

    judged = claims.judge_all(1, "made")
    assert [claim.basis for claim in judged] == ["made", "printed"]
    assert judged[1].as_dict()["share"] == {"held": 3, "total": 4}
    assert [claim.basis for claim in claims.judge_all(1)] == ["run", "printed"]


def test_the_hash_of_the_rules_is_in_the_result() -> None:
    study = Study(
        "made", "t", "c", (), lambda options, progress: small_result(), rules=("open_choices.py",)
    )
    (entry,) = study.rule_files()
    content = Path(open_choices.__file__).read_bytes()
    assert entry["sha256"] == hashlib.sha256(content).hexdigest()
    assert replace(small_result(), rules=(entry,)).as_dict()["rules"] == [dict(entry)]


def test_the_document_is_json_without_nan() -> None:
    line = Line("AP", np.array([0.0, 1.0]), np.array([1.0, np.nan]))
    figure = StudyFigure("figure-1", "t", "c", (Curves("p", Axis("x"), Axis("y"), (line,)),))
    document = json.loads(json.dumps(small_result(figures=(figure,)).as_dict(), allow_nan=False))
    assert document["schema"] == "calipers.study/1"
    assert document["figures"][0]["rows"][1][-3:] == [None, None, None]
    assert [claim["verdict"] for claim in document["claims"]] == list(VERDICTS)


def test_panels_are_lettered_and_laid_out_in_rows() -> None:
    panel = small_result().figures[0].panels[0]
    figure = StudyFigure("figure-3", "t", "c", (panel,) * 7, rows=(3,))
    assert [name for name, _ in figure.parts()] == [f"figure-3{k}" for k in "abcdefg"]
    assert [len(row) for row in figure.layout()] == [3, 4]
    assert [len(row) for row in replace(figure, rows=()).layout()] == [3, 3, 1]
    assert [letters(k) for k in (0, 25, 26, 27)] == ["a", "z", "aa", "ab"]


def test_a_single_panel_has_the_name_of_its_figure() -> None:
    side = small_result().figures[1]
    assert [name for name, _ in side.parts()] == ["figure-side"]
    assert (side.heading, small_result().figures[0].heading) == ("Side figure", "Figure 1")


def test_the_numbers_of_panels_are_joined() -> None:
    table = small_result().figures[0].table()
    assert table.columns == (
        "panel",
        "shows",
        "series",
        "strength",
        "value",
        "low",
        "high",
        "a",
        "b",
    )
    assert [row[0] for row in table.rows] == ["figure-1a"] * 3 + ["figure-1b"] * 9
    assert table.rows[-1][-2:] == (1.0, 1.0)


def test_options_that_a_study_cannot_follow_are_refused() -> None:
    study = Study("made", "t", "c", (), lambda options, progress: small_result())
    for options, words in (
        (StudyOptions(data="x.csv"), "takes no data"),
        (StudyOptions(predictions={"a": "b"}), "takes no predictions"),
        (StudyOptions(runs=5), "takes no runs"),
        (StudyOptions(train=True), "trains no networks"),
        (StudyOptions(keep="folder"), "trains no networks"),
    ):
        with pytest.raises(UsageError, match=words):
            study.check(options)
    with pytest.raises(UsageError, match="at least 2"):
        replace(study, takes=frozenset({"runs"})).check(StudyOptions(runs=1))
    with pytest.raises(UsageError):
        study.check(StudyOptions(seed=-1))


def test_training_without_pytorch_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setattr(framework, "find_spec", lambda name: None)
    takes = frozenset({"train"})
    study = Study("made", "t", "c", (), lambda options, progress: small_result(), takes=takes)
    study.check(StudyOptions(keep="folder"))
    with pytest.raises(UsageError, match=r"pip install 'calipers\[train\]'"):
        study.check(StudyOptions(train=True))


def test_an_unknown_study_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="did you mean 'rodeo'"):
        run_study("rodo")


@pytest.mark.parametrize("name", STUDIES)
def test_every_listed_study_can_be_loaded_and_says_what_it_judges(name: str) -> None:
    study = load_study(name)
    names = [statement.name for statement in study.statements]
    assert study.name == name
    assert len(names) == len(set(names)) > 0
    assert study.rule_files()
    assert all(statement.text.endswith(".") and statement.where for statement in study.statements)
