# SPDX-License-Identifier: Apache-2.0
"""A metric is one file and one line in the registry: everything else is read from its facts."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import docs_hooks
import pytest

import calipers as cal
from calipers import registry
from calipers.evaluation.tables import print_evaluation
from calipers.metrics.base import Facts
from calipers.metrics.counts import FP, CountMetric
from calipers.report.context import context_of
from calipers.report.methods import methods_section
from calipers.report.page import page as page_of
from evaluated import evaluated_demo
from source_trees import nodes_of

SOURCE = Path(cal.__file__).parent
MOST_KINDS = 2  # keys of one dictionary: figures may be called as a metric is


class Surplus(CountMetric):
    """The number of false alarms, as somebody else would add it."""

    judged = ("predictions",)
    facts = Facts(
        id="surplus@1",
        bounds=(0.0, float("inf")),
        higher_is_better=False,
        word="surplus boxes",
        meaning="How many boxes nobody asked for.",
        citations=("Nobody N. On boxes. 2026.",),
    )

    def formula(self, counts, n_images, options):
        return counts[..., FP]

    def undefined(self, table):
        return table[:, :, 0] == 0


@pytest.fixture
def evaluation(monkeypatch: pytest.MonkeyPatch) -> cal.Evaluation:
    monkeypatch.setitem(registry.METRICS, "surplus", f"{__name__}:Surplus")  # the one line
    text = """
    schema = "calipers.protocol/1"
    extends = "overview"
    [[metric]]
    name = "surplus@0.5"
    kind = "surplus"
    thresholds = 0.5
    [report]
    headline = ["surplus@0.5"]
    """
    protocol = replace(cal.Protocol.from_toml(text), replicates=100)
    return evaluated_demo(protocol)


def test_a_metric_from_the_registry_is_in_tables_report_and_documentation(
    evaluation: cal.Evaluation, capsys: pytest.CaptureFixture[str]
) -> None:
    print_evaluation(evaluation)
    assert "surplus@0.5" in capsys.readouterr().out
    context = context_of(evaluation, pictures=False)
    methods = methods_section(context)
    assert "surplus boxes [" in methods
    assert "<dt>surplus@0.5</dt><dd>How many boxes nobody asked for.</dd>" in methods
    assert "<li>Nobody N. On boxes. 2026.</li>" in methods
    page = page_of(context)
    assert "surplus@0.5 (lower is better)" in page
    line = "| `surplus` | How many boxes nobody asked for. | lower |  | `average` |"
    assert line in docs_hooks.on_page_markdown("# Metrics\n<!-- metrics: -->\n").split("\n")


def test_lower_is_better_of_a_metric_that_says_so(evaluation: cal.Evaluation) -> None:
    assert "surplus@0.5" in evaluation.protocol.lower_is_better
    assert evaluation.compare(metrics=["surplus@0.5"]).rows
    ranking = evaluation.rank("surplus@0.5")
    assert not ranking.higher_is_better


@pytest.mark.parametrize("kind", registry.known("metric"))
def test_every_metric_states_its_meaning_and_its_page(kind: str) -> None:
    facts = registry.resolve("metric", kind).facts
    assert facts.meaning.endswith(".")
    page, _, _ = facts.page.partition("#")
    assert (SOURCE.parent.parent / "docs" / page).is_file()


def test_counts_know_which_of_them_are_mistakes() -> None:
    text = 'schema = "calipers.protocol/1"\nextends = "overview"\n'
    for of in ("TP", "FP", "FN"):
        text += f'[[metric]]\nname = "{of}@0.5"\nkind = "count"\nof = "{of}"\nthresholds = 0.5\n'
    lower = cal.Protocol.from_toml(text).lower_is_better
    assert {"FP@0.5", "FN@0.5"} <= lower
    assert "TP@0.5" not in lower


def test_nobody_else_keeps_a_list_of_metrics() -> None:
    kinds = set(registry.METRICS)
    tables = []
    for file in SOURCE.rglob("*.py"):
        if file.name == "registry.py":
            continue
        text = file.read_text(encoding="utf-8")
        assert "metric_id.startswith" not in text, "ask the Facts of a metric, not its id"
        assert "facts.id.startswith" not in text, "ask the Facts of a metric, not its id"
        for node in nodes_of(file, ast.Dict):
            keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
            if len(keys & kinds) > MOST_KINDS:
                tables.append(f"{file.name}:{node.lineno}")
    assert not tables, "what is known about a metric stands in its Facts"
