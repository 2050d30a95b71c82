# SPDX-License-Identifier: Apache-2.0
"""Results in a notebook: small, in the look of the page, safe to show beside anything else."""

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
    """Return one estimate: value, interval, what stands behind it."""
    behind = f"n = {plural('image', e.n_images)}, {plural('reference', e.n_references)}"
    if math.isnan(e.value):
        return framed(
            f'<span class="undefined">undefined: {text(reason_word(e.reason))}</span> <small>{behind}</small>'
        )
    beside = between(e.low, e.high) or without_interval(e)
    level = (
        f"{100 * e.level:g} % interval over {plural(e.unit, e.n_units)}; "
        if not math.isnan(e.low)
        else ""
    )
    return framed(
        f"<strong>{short_number(e.value)}</strong> {text(beside)} <small>{text(level + behind)}</small>"
    )


def of_comparison(comparison: Comparison) -> str:
    """Return a row per difference, with its interval, test and verdict."""
    names = ("metric", "a", "b", "a − b", "interval", "p", "verdict")
    lines = []
    for d in comparison.rows:
        e, where = d.estimate, d.metric if d.label is None else f"{d.metric} of {d.label}"
        p = "" if math.isnan(d.p_adjusted) else f"{d.p_adjusted:.2g}"
        cells = (
            d.model_a,
            d.model_b,
            short_number(e.value),
            between(e.low, e.high),
            p,
            d.verdict.replace("_", " "),
        )
        lines.append(f"<tr><th scope=row>{text(where)}</th>{_cells(cells)}</tr>")
    head = "".join(f"<th scope=col>{name}</th>" for name in names)
    over, tests = plural(comparison.unit, comparison.n_units), plural("test", comparison.family)
    manner = (
        "not corrected"
        if comparison.correction == "none"
        else f"corrected ({comparison.correction}) for {tests}"
    )
    caption = f"Differences over {over}; p {manner}."
    table = f"<table><caption>{text(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return framed(table)


def of_sweep(sweep: Sweep) -> str:
    """Return the first figure of a sweep, with its finding and its note."""
    figure = sweep_figure(sweep)
    name = f"sweep-{crc32(sweep.to_json().encode()):08x}"  # ids in a notebook are shared by all that it shows
    picture = svg(figure, name=name, standalone=True)
    return framed(
        f"<p><strong>{text(figure.title)}</strong></p>{picture}<p><small>{text(figure.note)}</small></p>"
    )


def of_multiverse(result: Multiverse) -> str:
    """Return what a multiverse says, and who wins most."""
    lines = [
        f"<tr><th scope=row>{text(model)}</th><td>{text(percent(won))}</td></tr>"
        for model, won in result.wins.items()
    ]
    head = "<th scope=col>model</th><th scope=col>configurations won</th>"
    caption = f"{len(result.each)} configurations; models that tie share one."
    table = f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return framed(items(result.sentences()) + table)


def of_monitors(result: MonitorEvaluation) -> str:
    """Return what is known of monitors, OMS and OOD side by side."""
    heads = ("monitor", *(f"AUROC, {paradigm.upper()} labels" for paradigm in result.paradigms))
    lines = []
    for name in result.monitors if result.paradigms else ():
        each = [result.get("AUROC", name, paradigm) for paradigm in result.paradigms]
        cells = [
            f"{short_number(e.value) or reason_word(e.reason)} {between(e.low, e.high)}".strip()
            for e in each
        ]
        lines.append(f"<tr><th scope=row>{text(name)}</th>{_cells(cells)}</tr>")
    head = "".join(f"<th scope=col>{text(name)}</th>" for name in heads)
    caption = f"{plural('image', result.n_images)}."
    table = f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return framed(items(result.sentences()) + (table if lines else ""))


def framed(inner: str) -> str:
    """Return the inner part with its style, which reaches nothing else in the notebook."""
    style = (
        resources.files("calipers")
        .joinpath("report", "assets", "small.css")
        .read_text(encoding="utf-8")
    )
    return f'<style>{style}</style><div class="calipers">{inner}</div>'


def _cells(values: Sequence[str]) -> str:
    return "".join(f"<td>{text(value)}</td>" for value in values)
