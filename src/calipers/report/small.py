# SPDX-License-Identifier: Apache-2.0
"""Results in a notebook: small HTML in the style of the page, isolated from other cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import resources
from zlib import crc32

from calipers.evaluation import Evaluation
from calipers.findings import without_interval
from calipers.monitors import MonitorEvaluation
from calipers.plots.svg import svg
from calipers.plots.sweeps import sweep_figure
from calipers.plots.words import percent
from calipers.report.grids import metrics_table
from calipers.report.markup import items, text
from calipers.report.words import between, plural, reason_word
from calipers.results import Estimate
from calipers.results.comparison import Comparison
from calipers.results.digits import short_number
from calipers.sensitivity import Multiverse
from calipers.sensitivity.swept import Sweep


def of_evaluation(evaluation: Evaluation) -> str:
    """Return all pooled estimates as a table."""
    return framed(metrics_table(evaluation, evaluation.metrics))


def of_estimate(e: Estimate) -> str:
    """Return one estimate: value, interval and n."""
    behind = f"n = {plural('image', e.n_images)}, {plural('reference', e.n_references)}"
    if math.isnan(e.value):
        reason = text(reason_word(e.reason))
        return framed(f'<span class="undefined">undefined: {reason}</span> <small>{behind}</small>')
    beside = between(e.low, e.high) or without_interval(e)
    if not math.isnan(e.low):
        level = f"{100 * e.level:g} % confidence interval"
        behind = f"{level}, resampled by {e.unit} (n = {e.n_units}); {behind}"
    value = f"<strong>{short_number(e.value)}</strong>"
    return framed(f"{value} {text(beside)} <small>{text(behind)}</small>")


def of_comparison(comparison: Comparison) -> str:
    """Return a row per difference, with its interval, test and verdict."""
    names = ("metric", "a", "b", "a − b", "interval", "p", "verdict")
    lines = []
    for d in comparison.rows:
        e = d.estimate
        metric = d.metric if d.label is None else f"{d.metric} of {d.label}"
        p = "" if math.isnan(d.p_adjusted) else f"{d.p_adjusted:.2g}"
        verdict = d.verdict.replace("_", " ")
        difference = short_number(e.value)
        lines.append(
            _row(metric, (d.model_a, d.model_b, difference, between(e.low, e.high), p, verdict))
        )
    manner = "not corrected"
    if comparison.correction != "none":
        tests = plural("test", comparison.family)
        manner = f"corrected ({comparison.correction}) for {tests}"
    units = f"{comparison.unit} (n = {comparison.n_units})"
    caption = f"Differences, resampled by {units}; p values {manner}."
    return framed(_table(caption, names, lines))


def _row(name: str, values: Sequence[str]) -> str:
    cells = "".join(f"<td>{text(value)}</td>" for value in values)
    return f"<tr><th scope=row>{text(name)}</th>{cells}</tr>"


def _table(caption: str, names: Sequence[str], lines: Sequence[str]) -> str:
    head = "".join(f"<th scope=col>{text(name)}</th>" for name in names)
    return (
        f"<table><caption>{text(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def of_sweep(sweep: Sweep) -> str:
    """Return the first figure of a sweep, with its finding and its note."""
    figure = sweep_figure(sweep)
    # All outputs of a notebook share one document, so ids must differ between sweeps.
    name = f"sweep-{crc32(sweep.to_json().encode()):08x}"
    picture = svg(figure, name=name, standalone=True)
    title = f"<p><strong>{text(figure.title)}</strong></p>"
    return framed(f"{title}{picture}<p><small>{text(figure.note)}</small></p>")


def of_multiverse(result: Multiverse) -> str:
    """Return the sentences of a multiverse, and the share of configurations that each model
    wins.
    """
    lines = [_row(model, (percent(share),)) for model, share in result.wins.items()]
    caption = f"{len(result.each)} configurations; models that tie share one."
    table = _table(caption, ("model", "configurations won"), lines)
    return framed(items(result.sentences()) + table)


def of_monitors(result: MonitorEvaluation) -> str:
    """Return the sentences on monitors, and their AUROC under OMS and OOD labels side by side."""
    if not result.paradigms:
        return framed(items(result.sentences()))
    names = ("monitor", *(f"AUROC, {paradigm.upper()} labels" for paradigm in result.paradigms))
    lines = []
    for name in result.monitors:
        cells = []
        for paradigm in result.paradigms:
            e = result.get("AUROC", name, paradigm)
            value = short_number(e.value) or reason_word(e.reason)
            cells.append(f"{value} {between(e.low, e.high)}".strip())
        lines.append(_row(name, cells))
    table = _table(f"{plural('image', result.n_images)}.", names, lines)
    return framed(items(result.sentences()) + (table if lines else ""))


def framed(inner: str) -> str:
    """Return the inner part with its style, which applies to nothing else in the notebook."""
    sheet = resources.files("calipers").joinpath("report", "assets", "small.css")
    style = sheet.read_text(encoding="utf-8")
    return f'<style>{style}</style><div class="calipers">{inner}</div>'
