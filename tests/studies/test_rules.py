"""Rules as data, and scans over configurations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from calipers.errors import InputError, UsageError
from calipers.studies import claim_rules as module
from calipers.studies.claim_rules import ClaimRules
from calipers.studies.framework import STUDIES, ClaimJudgement, Claims, load_study
from calipers.studies.open_choices import scan_configurations
from studies.study_cases import small_result

TEXT = """
schema = "calipers.claims/1"
study = "made"
provenance = "before the run"

[limits]
similar = 0.1

[claim.lowest]
text = "Max is the lowest."
where = "table VII"
rule = "The lowest of five."
"""


@pytest.fixture
def rules(monkeypatch) -> ClaimRules:
    monkeypatch.setattr(module, "_content", lambda file: TEXT.encode())
    return ClaimRules.load("made/claims.toml")


def test_a_file_of_rules_has_limits_and_statements(rules) -> None:
    assert rules.limit("similar") == 0.1
    assert rules.statement("lowest").rule == "The lowest of five."
    with pytest.raises(UsageError, match="no limit 'simlar'; did you mean 'similar'"):
        rules.limit("simlar")
    with pytest.raises(UsageError, match="no claim 'lowst'; did you mean 'lowest'"):
        rules.statement("lowst")


def test_a_claim_takes_its_words_and_its_rule_from_the_file(rules) -> None:
    claims: Claims[float] = Claims(rules=rules)

    @claims.judge("lowest")
    def _(run: float) -> ClaimJudgement:
        return ClaimJudgement(run < rules.limit("similar"), f"{run}")

    (claim,) = claims.judge_all(0.05)
    assert (claim.text, claim.rule, claim.verdict) == (
        "Max is the lowest.",
        "The lowest of five.",
        "held",
    )
    with pytest.raises(UsageError, match="no claim"):
        claims.judge("other")
    with pytest.raises(UsageError, match=r"ClaimRules\.load"):
        Claims().judge("lowest")


def test_limits_in_a_rule_become_numbers(monkeypatch) -> None:
    named = TEXT.replace("The lowest of five.", "Apart by `similar` or minus `similar`.")
    monkeypatch.setattr(module, "_content", lambda file: named.encode())
    assert ClaimRules.load("made").statement("lowest").rule == "Apart by 0.1 or minus 0.1."
    wrong = named.replace("minus `similar`", "`simlar`")
    monkeypatch.setattr(module, "_content", lambda file: wrong.encode())
    with pytest.raises(UsageError, match=r"the limit 'simlar'.*did you mean 'similar'"):
        ClaimRules.load("made")


def test_no_rule_of_a_study_leaves_its_limits_unsaid() -> None:
    for name in STUDIES:
        for statement in load_study(name).statements:
            assert "`" not in statement.rule, f"{name}: {statement.name}"


def test_rules_that_are_younger_than_results_are_named_in_the_provenance() -> None:
    younger = {
        "stability": ("no-best-operator", "stability-is-a-prerequisite"),
        "polyps": ("points-above-most-thresholds", "sensitivity-gains-most"),
    }
    for study, names in younger.items():
        rules = ClaimRules.load(f"{study}/claims.toml")
        assert all(name in rules.statements and name in rules.provenance for name in names), study


def test_one_thing_was_and_several_were_shown() -> None:
    result = small_result()
    made = [replace(claim, basis="made") for claim in result.claims]
    assert "1 of 3 were shown possible" in replace(result, claims=tuple(made)).summary()
    assert "1 of 1 was shown possible" in replace(result, claims=(made[0],)).summary()


def test_a_question_of_our_own_is_counted_apart(monkeypatch) -> None:
    own = TEXT.replace('rule = "', 'own = true\nrule = "')
    monkeypatch.setattr(module, "_content", lambda file: own.encode())
    claims: Claims[float] = Claims(rules=ClaimRules.load("made"))
    claims.judge("lowest")(lambda run: ClaimJudgement(True, "1"))
    (claim,) = claims.judge_all(0.0)
    assert claim.basis == "own"
    result = replace(small_result(), claims=(claim,))
    assert result.summary() == "Of 1 further questions of this study 1 held."


def test_a_file_of_rules_without_a_rule_is_refused(monkeypatch) -> None:
    broken = TEXT.replace('rule = "The lowest of five."', "")
    monkeypatch.setattr(module, "_content", lambda file: broken.encode())
    with pytest.raises(InputError, match="rule"):
        ClaimRules.load("made/claims.toml")


def test_a_scan_gives_shares_in_all_and_by_choice() -> None:
    choices = {"objects": (1, 2, 4), "soft": (False, True)}

    def outcomes_of(one):
        is_open = None if one["objects"] == 4 else one["soft"]
        return {"AP falls": one["objects"] > 1, "only soft": is_open}

    scan = scan_configurations(choices, outcomes_of)
    assert scan.share("AP falls").text == "4 of 6 configurations"
    assert scan.share("AP falls").outcome is None
    assert scan.share("AP falls", objects=1).outcome is False
    assert scan.share("only soft", soft=True).outcome is True
    # Configurations that cannot tell do not count.
    assert scan.share("only soft").n_total == 4
    table = scan.table("table-scan", "t")
    assert table.columns == ("choice", "value", "AP falls", "only soft")
    assert [row[:3] for row in table.rows] == [
        ("all", "", "4/6"),
        ("objects", "1", "0/2"),
        ("objects", "2", "2/2"),
        ("objects", "4", "2/2"),
        ("soft", "no", "2/3"),
        ("soft", "yes", "2/3"),
    ]
    assert table.rows[3][3] == "0/0"
