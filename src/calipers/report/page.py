# SPDX-License-Identifier: Apache-2.0
"""The page: one self-contained HTML file that answers, shows and proves. No network; a policy
forbids all but our own.

Everything is there without scripts. The script adds what paper cannot do: sorting, filtering, CSV,
zooming.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from calipers.evaluation import Evaluation, cohort_counts
from calipers.plots.forests import headline, headline_of
from calipers.report import markup
from calipers.report.context import Context, Step
from calipers.report.grids import metrics_table, models_table
from calipers.report.markup import text
from calipers.report.sections import SECTIONS, numbers
from calipers.report.shell import document
from calipers.report.verdict import verdict
from calipers.report.words import join, plural, short
from calipers.results.files import write_atomically

MOST_NAMED = 4


def write_page(context: Context, path: Path, step: Step = lambda name: None) -> Path:
    """Write the page, whole or not at all."""
    step("figures and tables")
    write_atomically(path, page(context))
    step("")
    return path


def page(context: Context) -> str:
    """Return the page as HTML; every text from the data is escaped, and the policy allows our style
    and script only.
    """
    title = f"Evaluation of {_models(context.evaluation.models)}"
    return document(
        title, _body(context, title), skip="Skip to the answer", payload=numbers.payload(context)
    )


def _body(context: Context, title: str) -> str:
    from calipers import __version__

    sections_html = [(name, words, make(context)) for name, words, make in SECTIONS]
    filled_sections = [(name, words, inner) for name, words, inner in sections_html if inner]
    links = "".join(
        f'<li><a href="#{name}">{text(words)}</a></li>' for name, words, _ in filled_sections
    )
    sections = "\n".join(
        markup.section(name, words, inner) for name, words, inner in filled_sections
    )
    return (
        f'<header>{_opening(context, title)}</header>\n<nav aria-label="Sections"><ul>{links}</ul></nav>\n'
        f"<main>\n{_answer(context)}\n{sections}\n</main>\n"
        f"<footer>Made with Calipers {text(__version__)}. Not a medical device.</footer>"
    )


def _opening(context: Context, title: str) -> str:
    return f'<h1>{text(title)}</h1>\n<p class="soft">{text(_summary_line(context.evaluation))}</p>'


def _answer(context: Context) -> str:
    """Return the verdict, and the headline as a figure and as a table."""
    ev = context.evaluation
    answer_words = verdict(ev, context.at_one, context.duel, context.comparison)
    further = "".join(f"<li>{text(sentence)}</li>" for sentence in answer_words.further)
    answer = f'<p class="verdict">{text(answer_words.first)}</p>' + (
        f'<ul class="further">{further}</ul>' if further else ""
    )
    inner = answer + _headline(ev)
    heading = '<h2 id="content-title">The answer</h2>'
    return f'<section id="content" aria-labelledby="content-title" tabindex="-1">{heading}{inner}</section>'


def _headline(evaluation: Evaluation) -> str:
    """Return the headline metrics: beside a figure for few models, a row per model for many."""
    names = headline_of(evaluation)
    if len(evaluation.models) > MOST_NAMED:
        return models_table(evaluation, names)
    table, chart = metrics_table(evaluation, names), headline(evaluation)
    if all(math.isnan(mark.value) for row in chart.rows for mark in row.marks):
        return table
    return f'<div class="pair"><div>{table}</div>{markup.figure_block(chart, "fig-headline")}</div>'


def _models(models: Sequence[str]) -> str:
    return (
        join([short(model) for model in models])
        if len(models) <= MOST_NAMED
        else f"{len(models)} models"
    )


def _summary_line(evaluation: Evaluation) -> str:
    counts = cohort_counts(evaluation.cohort)
    facts = [plural("image", counts["images"]), plural("reference", counts["references"])]
    facts.append(plural("class", len(counts["classes"])))
    facts += [plural(short(name), n) for name, n in counts["groups"].items() if name != "file_name"]
    ignored_note = f" ({counts['ignored']} references are ignored)" if counts["ignored"] else ""
    return f"{', '.join(facts)}{ignored_note}. Protocol: {evaluation.protocol.name}."
