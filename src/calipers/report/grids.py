# SPDX-License-Identifier: Apache-2.0
"""Tables of the page. Every text from the data passes through `text`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

from calipers.evaluation import Evaluation
from calipers.report.words import best_of, lower_is_better, reason_word, short, undefined
from calipers.results import Estimate

FEW = 3  # models
LONG = 20  # characters of a name that need not stay in one piece


def text(value: str) -> str:
    """Return text safe for HTML; control characters other than line breaks become visible."""
    return escape("".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in value))


def metrics_table(evaluation: Evaluation, metrics: Sequence[str]) -> str:
    """Return the pooled estimates, a row per metric; n is in the caption, or in a column of its own if it varies."""
    lower = lower_is_better(evaluation)
    rows = [[evaluation.get(metric, model=model) for model in evaluation.models] for metric in metrics]
    behind = [estimates[0].n_references for estimates in rows]
    varies = len(set(behind)) > 1
    lines = []
    for metric, estimates, n in zip(metrics, rows, behind):
        cells = _cells(evaluation, estimates, lower=metric in lower)
        lines.append(_line(metric, cells, n if varies else None))
    number = f"{rows[0][0].n_images} images" + (" (and n references)" if varies else f", {behind[0]} references")
    said = [f"All classes together, n = {number}.", *_legend(evaluation, [m for m in metrics if m in lower])]
    caption = " ".join(said) + undefined([e for row in rows for e in row])
    return frame(caption, _head("metric", evaluation.models, varies), lines, kind=_few(evaluation))


def classes_table(evaluation: Evaluation, metric: str) -> str:
    """Return one metric: a row per class, a column per model."""
    lower = metric in lower_is_better(evaluation)
    lines, every = [], []
    for label in evaluation.cohort.classes:
        estimates = [evaluation.get(metric, model=model, label=label) for model in evaluation.models]
        every += estimates
        lines.append(_line(label, _cells(evaluation, estimates, lower=lower), estimates[0].n_references))
    title = f"<strong>{text(metric)}</strong>{' (lower is better)' if lower else ''}"
    return frame(undefined(every), _head("class", evaluation.models, True), lines, title=title, kind=_few(evaluation))


def files_table(evaluation: Evaluation) -> str:
    """Return the account of every input."""
    names = ("file", "role", "format", "read", "used", "set aside", "sha256")
    lines = []
    for file in evaluation.cohort.intake.files:
        aside = sum(file.quarantined.values())
        facts = (Path(file.file).name, file.role, file.format, file.read, file.used, aside, file.sha256[:12])
        cells = "".join(f'<td data-name="{name}">{text(str(fact))}</td>' for name, fact in zip(names, facts))
        lines.append(f"<tr>{cells}</tr>")
    head = "".join(f"<th scope=col>{name}</th>" for name in names)
    return frame("Records of every input: read = used + set aside.", f"<tr>{head}</tr>", lines, kind="files")


def frame(caption: str, head: str, lines: Sequence[str], *, title: str = "", kind: str = "") -> str:
    """Return a table that scrolls within itself if it is too wide."""
    body = "\n".join(lines)
    mark = f" class={kind}" if kind else ""
    return (
        f'<div class="wide"><table{mark}><caption>{title}{text(caption)}</caption><thead>{head}</thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )


def _head(first: str, models: Sequence[str], numbers: bool) -> str:
    columns = "".join(f"<th scope=col{_long(model)}>{text(short(model))}</th>" for model in models)
    number = '<th scope=col class=n><abbr title="references">n</abbr></th>' if numbers else ""
    return f"<tr><th scope=col>{first}</th>{columns}{number}</tr>"


def _few(evaluation: Evaluation) -> str:
    """Return the mark of a table whose rows fit a narrow screen once their name stands above them."""
    return "few" if len(evaluation.models) <= FEW else ""


def _long(name: str) -> str:
    """Return the mark of a name that may be broken anywhere; the whole of it, if it is shortened."""
    title = f' title="{text(name)}"' if short(name) != name else ""
    return f" class=long{title}" if len(name) > LONG else ""


def _line(name: str, cells: str, n: int | None) -> str:
    number = "" if n is None else f"<td class=n>{n}</td>"
    return f"<tr><th scope=row{_long(name)}>{text(short(name))}</th>{cells}{number}</tr>"


def _cells(evaluation: Evaluation, estimates: Sequence[Estimate], *, lower: bool) -> str:
    return "".join(_cell(e, best) for e, best in zip(estimates, best_of(estimates, lower=lower)))


def _cell(estimate: Estimate, best: bool) -> str:
    if math.isnan(estimate.value):
        return f"<td class=undefined>{text(reason_word(estimate.reason))}</td>"
    value = f"{estimate.value:.3f}" if abs(estimate.value) < 100 else f"{estimate.value:.0f}"
    star = '<span class=star title="best of its row">&#9733;</span>'
    return f"<td class=best>{value}{star}</td>" if best else f"<td>{value}</td>"


def _legend(evaluation: Evaluation, lower: Sequence[str]) -> list[str]:
    said = [f"Higher is better, except for {', '.join(lower)}." if lower else "Higher is better."]
    if len(evaluation.models) > 1:
        said.append("A star marks the best model of a row.")
    return said
