# SPDX-License-Identifier: Apache-2.0
"""A page shows what was computed before: it evaluates nothing and draws no replicates of its
own.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

import calipers as cal
from calipers.evaluation.evaluate import evaluate
from calipers.report.context import context_of
from calipers.report.page import page as page_of

SOURCE = Path(cal.__file__).parent
PAGES = [*sorted((SOURCE / "report").glob("*.py")), *sorted(SOURCE.glob("*/page.py"))]
FORBIDDEN = ("calipers.evaluation.evaluate", "calipers.evaluation.collect", "calipers.statistics")
QUICK = replace(cal.Protocol.load("overview"), replicates=200)
HASHES = re.compile(r"\b(?:image|patient|centre|file)-[0-9a-f]{10}\b")


@pytest.mark.parametrize("file", PAGES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_pages_import_nothing_that_evaluates_or_resamples(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert not (node.module or "").startswith(FORBIDDEN), node.module


def test_a_page_from_a_stored_folder_does_not_evaluate_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cal.evaluate(cal.demo_cohort(), QUICK, by="centre").save(tmp_path / "results")
    stored = cal.open_evaluation(tmp_path / "results")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a page evaluates nothing")

    # Modules hold the function under a name of their own, so it is replaced in all of them.
    original = evaluate
    for name, module in list(sys.modules.items()):
        if name.startswith("calipers.") and getattr(module, "evaluate", None) is original:
            monkeypatch.setattr(module, "evaluate", refuse)
    assert stored.report(tmp_path / "page.html").is_file()


def _words(evaluation: cal.Evaluation, **choices: bool) -> list[str]:
    """Return the texts of a page; an id that was replaced is one word."""
    context = context_of(evaluation, pictures=False, **choices)
    body = re.sub(r"<(script|style).*?</\1>", "", page_of(context), flags=re.DOTALL)
    text = HASHES.sub("ID", unescape(re.sub(r"<[^>]+>", "\n", body)))
    return [line.strip() for line in text.split("\n") if line.strip()]


@pytest.mark.parametrize("choice", [{}, {"stability": True}, {"multiverse": True}])
def test_a_redacted_page_has_the_numbers_of_the_open_one(choice: dict[str, bool]) -> None:
    protocol = QUICK.only(["sensitivity@0.5", "FP/image@0.5"])
    evaluation = cal.evaluate(cal.demo_cohort(), protocol)
    redacted = _words(evaluation, redact=True, **choice)
    assert redacted == _words(evaluation, redact=True, **choice)
    numbers = {line for line in _words(evaluation, **choice) if re.search(r"\d \[|interval", line)}
    assert numbers
    assert numbers <= set(redacted)


def test_renamed_units_are_drawn_in_their_old_order() -> None:
    from calipers.evaluation.rename import redact_ids

    evaluation = cal.evaluate(cal.demo_cohort(), QUICK.only(["sensitivity@0.5"]))
    renamed = redact_ids(evaluation)
    assert renamed.units.code.tolist() == evaluation.units.code.tolist()
    for name in ("froc", "pr"):
        assert renamed.figure(name).table() == evaluation.figure(name).table()
    assert renamed.compare().rows == evaluation.compare().rows
    assert renamed.at_one_alarm.rows == evaluation.at_one_alarm.rows
