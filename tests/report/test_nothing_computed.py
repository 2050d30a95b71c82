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
from types import CodeType, FrameType

import pytest

import calipers as cal
from calipers.evaluation.evaluate import evaluate
from calipers.report.context import Context, context_of
from calipers.report.page import page as page_of
from calipers.synthetic.volumes import demo_samples
from evaluated import evaluated_demo, shown
from source_trees import nodes_of

SOURCE = Path(cal.__file__).parent
PAGES = [*sorted((SOURCE / "report").glob("*.py")), *sorted(SOURCE.glob("*/page.py"))]
FORBIDDEN = ("calipers.evaluation.evaluate", "calipers.evaluation.collect", "calipers.statistics")
QUICK = replace(cal.Protocol.load("overview"), replicates=200)
FEW = QUICK.only(["sensitivity@0.5", "FP/image@0.5"])
ON_REQUEST = {"multiverse": True, "stability": True}
COMPUTING = (
    "calipers.evaluation.collect",
    "calipers.evaluation.compare",
    "calipers.evaluation.rank",
    "calipers.kernels",
    "calipers.matching",
    "calipers.metrics",
    "calipers.sensitivity.multiverse",
    "calipers.statistics",
)
# What a page may call there: names, words, plans and settings, and the numbering of model pairs.
ASKED_FOR = {
    "__init__",
    "_built",
    "as_dict",
    "generalises_to",
    "is_graded",
    "key",
    "native",
    "owners",
    "pair_index",
    "pooled",
    "threshold",
}
HASHES = re.compile(r"\b(?:image|patient|centre|file)-[0-9a-f]{10}\b")


@pytest.mark.parametrize("file", PAGES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_pages_import_nothing_that_evaluates_or_resamples(file: Path) -> None:
    for node in nodes_of(file, ast.ImportFrom):
        assert not (node.module or "").startswith(FORBIDDEN), node.module


def test_a_page_from_a_stored_folder_does_not_evaluate_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated_demo(QUICK, by="centre").save(tmp_path / "results")
    stored = cal.open_evaluation(tmp_path / "results")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a page evaluates nothing")

    # Modules hold the function under a name of their own, so it is replaced in all of them.
    original = evaluate
    for name, module in list(sys.modules.items()):
        if name.startswith("calipers.") and getattr(module, "evaluate", None) is original:
            monkeypatch.setattr(module, "evaluate", refuse)
    assert stored.report(tmp_path / "page.html").is_file()


def _calls(context: Context) -> set[str]:
    """Return which functions that compute something are called while a page is written."""
    modules: dict[CodeType, str] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        # Nothing is returned, so the lines of a function are not traced.
        modules.setdefault(frame.f_code, frame.f_globals.get("__name__", ""))

    before = sys.gettrace()
    sys.settrace(note)
    try:
        page_of(context)
    finally:
        sys.settrace(before)
    calls = set()
    for code, module in modules.items():
        # Names in angle brackets are modules on import, and comprehensions inside of a function.
        is_asked_for = code.co_name in ASKED_FOR or code.co_name.startswith("<")
        if module.startswith(COMPUTING) and not is_asked_for:
            calls.add(f"{module}.{code.co_name}")
    return calls


@pytest.mark.parametrize("preset", ["overview", "tide", "coco"])
def test_writing_a_page_of_boxes_computes_nothing(preset: str) -> None:
    protocol = replace(cal.Protocol.load(preset), replicates=200)
    context = shown(evaluated_demo(protocol, by="centre"))
    assert {"fig-froc", "fig-thresholds", "fig-differences"} <= set(context.figures)
    assert _calls(context) == set()


def test_writing_the_sections_on_request_computes_nothing() -> None:
    context = shown(evaluated_demo(FEW), **ON_REQUEST)
    # Classes are made when a module is imported, which may happen now.
    page_of(context)
    assert _calls(context) == set()


def test_writing_a_page_of_maps_computes_nothing() -> None:
    protocol = replace(cal.Protocol.load("anomaly"), replicates=200)
    context = context_of(cal.evaluate_maps(list(demo_samples(8, size=32)), protocol))
    assert {"fig-voxel-roc", "fig-levels"} <= set(context.figures)
    assert context.objects is not None
    assert _calls(context) == set()


def _words(context: Context) -> list[str]:
    """Return the texts of a page; an id that was replaced is one word."""
    body = re.sub(r"<(script|style).*?</\1>", "", page_of(context), flags=re.DOTALL)
    text = HASHES.sub("ID", unescape(re.sub(r"<[^>]+>", "\n", body)))
    return [line.strip() for line in text.split("\n") if line.strip()]


@pytest.mark.parametrize(
    ("choice", "is_repeated"),
    [
        ({}, True),
        (ON_REQUEST, False),
        # The page as such is repeated above; a second multiverse costs a second.
        pytest.param(ON_REQUEST, True, marks=pytest.mark.slow),
    ],
)
def test_a_redacted_page_has_the_numbers_of_the_open_one(
    choice: dict[str, bool], is_repeated: bool
) -> None:
    evaluation = evaluated_demo(FEW)
    redacted = _words(context_of(evaluation, redact=True, **choice))
    if is_repeated:
        assert redacted == _words(context_of(evaluation, redact=True, **choice))
    words = _words(shown(evaluation, **choice))
    numbers = {line for line in words if re.search(r"\d \[|interval", line)}
    assert numbers
    assert numbers <= set(redacted)


def test_renamed_units_are_drawn_in_their_old_order() -> None:
    from calipers.evaluation.rename import redact_ids

    evaluation = evaluated_demo(FEW)
    renamed = redact_ids(evaluation)
    assert renamed.units.code.tolist() == evaluation.units.code.tolist()
    for name in ("froc", "pr"):
        assert renamed.figure(name).table() == evaluation.figure(name).table()
    assert renamed.compare().rows == evaluation.compare().rows
    assert renamed.at_one_alarm.rows == evaluation.at_one_alarm.rows
