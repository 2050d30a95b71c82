# SPDX-License-Identifier: Apache-2.0
"""The page of an evaluation: one self-contained HTML file, with the answer first.

It loads nothing from a network, and its content security policy forbids everything but its own
style and script. All content is there without scripts; the script adds sorting, filtering, CSV and
zooming. `Evaluation.report` calls `write_report`, `Evaluation.save` calls `write_results`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from calipers.evaluation.result import Evaluation, cohort_counts
from calipers.evaluation.saved import save
from calipers.evaluation.tables import metrics_table, models_table
from calipers.report import sections
from calipers.report.contents import MOST_SIDE_BY_SIDE
from calipers.report.context import Context, Step, StepProgress, context_of, slices_of
from calipers.report.sections import SECTIONS
from calipers.report.verdict import Verdict, verdict
from calipers.results.files import write_atomically
from calipers.show import html
from calipers.show.html import document, text
from calipers.show.words import count_text, join, short_name

if TYPE_CHECKING:
    from calipers.monitors.result import MonitorEvaluation

MOST_NAMED = 4  # models in the title; more are counted


def write_report(
    evaluation: Evaluation,
    path: Path,
    *,
    images: str | Path | None = None,
    pictures: bool = True,
    redact: bool = False,
    multiverse: bool = False,
    stability: bool = False,
    monitor: MonitorEvaluation | None = None,
    command: Sequence[str] = (),
    step: Step = lambda name: None,
    progress: StepProgress | None = None,
) -> Path:
    """Write the page, whole or not at all, and return its path.

    Parameters
    ----------
    images
        A folder with the pictures of the images, or a pattern such as ``scans/{name}_ct.png``;
        without it the marks stand on empty frames.
    pictures
        Whether single images are shown at all.
    redact
        Replace ids and names of files by hashes, and leave the images out.
    multiverse
        Add how sensitive the ranking of the models is to analysis choices; see
        `calipers.multiverse`.
    stability
        Add which objects all, some and none of the models find: for models that were trained alike.
    monitor
        Add what is known of monitors of a model on these images; see `calipers.evaluate_monitor`.
    command
        The command line of the evaluation; shown on the page.
    step
        Called with the name of each step, and with "" at the end.
    progress
        Called with (name of the step, work done, work in all) in steps that can be long.
    """
    context = context_of(
        evaluation,
        images=None if images is None else Path(images),
        pictures=pictures,
        redact=redact,
        command=command,
        multiverse=multiverse,
        stability=stability,
        monitor=monitor,
        step=step,
        progress=progress,
    )
    step("page")
    write_atomically(path, page(context))
    step("")
    return path


def write_results(
    evaluation: Evaluation,
    folder: Path,
    *,
    force: bool = False,
    command: Sequence[str] = (),
    started: datetime | None = None,
    images: str | Path | None = None,
    redact: bool = False,
    pictures: bool = True,
    multiverse: bool = False,
    stability: bool = False,
    step: Step = lambda name: None,
    progress: StepProgress | None = None,
) -> Path:
    """Write numbers, cohort and page into a folder and return it.

    These are ``evaluation.json``, ``objects.parquet``, ``images.parquet``, ``images.csv``,
    ``report.html`` and, last, ``run.json``; of samples with maps also ``slices.parquet``, the
    pictures of the page.

    Parameters
    ----------
    folder
        New or empty, and not the folder of an input.
    force
        Replace results that are already there; they stay untouched until the new ones are complete.
    command
        The command line of the evaluation; kept in ``run.json``.
    started
        When it began; the time of saving if left out.
    images, redact, pictures, multiverse, stability, step, progress
        Of the page, as in `write_report`; the other files keep every name.
    """
    if pictures and not redact:
        # The volumes may be gone when the folder is opened, so their pictures are kept now.
        slices = slices_of(evaluation, None if images is None else Path(images))
        # Only if there are any: a copy would have to compute again what this evaluation knows.
        if slices is not evaluation.slices:
            evaluation = replace(evaluation, slices=slices)
    page_options = {
        "images": images,
        "redact": redact,
        "pictures": pictures,
        "step": step,
        "progress": progress,
        "multiverse": multiverse,
        "stability": stability,
    }
    return save(
        evaluation,
        folder,
        force=force,
        command=command,
        started=started,
        page_options=page_options,
    )


def page(context: Context) -> str:
    """Return the page as HTML; every text from the data is escaped."""
    title = f"Evaluation of {_models(context.evaluation.models)}"
    return document(
        title, _body(context, title), skip="Skip to the answer", payload=sections.payload(context)
    )


def _body(context: Context, title: str) -> str:
    from calipers import __version__

    links, sections = "", []
    for name, heading, make in SECTIONS:
        inner = make(context)
        # An empty section would be a heading and a link to nothing.
        if inner:
            links += f'<li><a href="#{name}">{text(heading)}</a></li>'
            sections.append(html.section(name, heading, inner))
    all_sections = "\n".join(sections)
    return (
        f"<header>{_opening(context, title)}</header>\n"
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n'
        f"<main>\n{_answer(context)}\n{all_sections}\n</main>\n"
        f"<footer>Made with Calipers {text(__version__)}. Not a medical device.</footer>"
    )


def _opening(context: Context, title: str) -> str:
    return f'<h1>{text(title)}</h1>\n<p class="soft">{text(_summary_line(context.evaluation))}</p>'


def _answer(context: Context) -> str:
    """Return the verdict, and the headline as a figure and as a table."""
    ev = context.evaluation
    answer_words = verdict(ev, context.at_one, context.duel, context.comparison)
    if context.readers:
        # Readers are the yardstick and no competitor: a lead over them is not what was asked.
        answer_words = Verdict(context.readers[0], context.readers[1:])
    further = "".join(f"<li>{text(sentence)}</li>" for sentence in answer_words.further)
    answer = f'<p class="verdict">{text(answer_words.first)}</p>'
    if further:
        answer += f'<ul class="further">{further}</ul>'
    return (
        '<section id="content" aria-labelledby="content-title" tabindex="-1">'
        f'<h2 id="content-title">The answer</h2>{answer}{_headline(context)}</section>'
    )


def _headline(context: Context) -> str:
    """Return the headline metrics: beside a figure for few models, a row per model for many."""
    evaluation = context.evaluation
    if len(evaluation.models) > MOST_SIDE_BY_SIDE:
        return html.table_block(models_table(evaluation, evaluation.headline))
    table = html.table_block(metrics_table(evaluation, evaluation.headline))
    figure = context.blocks("fig-headline")
    return f'<div class="pair"><div>{table}</div>{figure}</div>' if figure else table


def _models(models: Sequence[str]) -> str:
    if len(models) > MOST_NAMED:
        return f"{len(models)} models"
    return join(list(map(short_name, models)))


def _summary_line(evaluation: Evaluation) -> str:
    counts = cohort_counts(evaluation.cohort)
    facts = [
        count_text("image", counts["images"]),
        count_text("reference", counts["references"]),
        count_text("class", len(counts["classes"])),
    ]
    for name, n in counts["groups"].items():
        # A file name is as many groups as there are images, and says nothing.
        if name != "file_name":
            facts.append(count_text(short_name(name), n))
    ignored_note = f" ({counts['ignored']} references are ignored)" if counts["ignored"] else ""
    return f"{', '.join(facts)}{ignored_note}. Protocol: {evaluation.protocol.name}."
