# SPDX-License-Identifier: Apache-2.0
"""A plain page: headline, warnings, all estimates with their n, data, protocol. No script, no network."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from pathlib import Path

from calipers.evaluation import Evaluation, cohort_counts
from calipers.results import Estimate
from calipers.results.files import write_atomically


def write_page(evaluation: Evaluation, path: Path) -> Path:
    """Write the page of an evaluation, whole or not at all."""
    write_atomically(path, page(evaluation))
    return path


def page(evaluation: Evaluation) -> str:
    """Return the page as HTML; every text from the data is escaped, and the policy forbids scripts and requests."""
    style = resources.files("calipers").joinpath("report", "assets", "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:"
    title = f"Calipers: {', '.join(evaluation.models)}"
    body = "\n".join(_sections(evaluation))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _sections(evaluation: Evaluation) -> Iterable[str]:
    counts = cohort_counts(evaluation.cohort)
    described = [
        f"{counts['images']} images",
        f"{counts['references']} references",
        f"{len(counts['classes'])} classes",
    ]
    described += [f"{n} {_plural(name, n)}" for name, n in counts["groups"].items() if name != "file_name"]
    summary = f"{', '.join(described)}. Protocol: {evaluation.protocol.name}."
    yield "<h1>What was found, where, and what it is</h1>"
    yield f"<p class=soft>{_text(summary)}</p>"
    yield _headline(evaluation)
    yield _warnings(evaluation.warnings)
    yield "<h2>All metrics</h2>"
    yield _table(evaluation, evaluation.metrics)
    if len(evaluation.cohort.classes) > 1:
        yield "<h2>Per class</h2>"
        yield from (_classes(evaluation, metric) for metric in evaluation.protocol.headline)
    yield _data(evaluation)
    yield "<h2>Method</h2>"
    yield f"<p>{_text(evaluation.protocol.source)}.</p>"
    toml = _text(evaluation.protocol.to_toml())
    yield f"<details><summary>The protocol, to run it again</summary><pre>{toml}</pre></details>"


def _headline(evaluation: Evaluation) -> str:
    return "<h2>Headline</h2>" + _table(evaluation, evaluation.protocol.headline or evaluation.metrics[:4])


def _table(evaluation: Evaluation, metrics: Sequence[str]) -> str:
    head = "".join(f"<th scope=col>{_text(model)}</th>" for model in evaluation.models)
    head = f"<tr><th scope=col>metric</th>{head}<th scope=col>images</th><th scope=col>references</th></tr>"
    lines = []
    for metric in metrics:
        estimates = [evaluation.get(metric, model=model) for model in evaluation.models]
        cells = "".join(_cell(e, best) for e, best in zip(estimates, _best(evaluation, metric, estimates)))
        n = f"<td>{estimates[0].n_images}</td><td>{estimates[0].n_references}</td>"
        lines.append(f"<tr><th scope=row>{_text(metric)}</th>{cells}{n}</tr>")
    star = " A star marks the best model of a row." if len(evaluation.models) > 1 else ""
    return _wrap(f"All classes together.{star}", head, lines)


def _classes(evaluation: Evaluation, metric: str) -> str:
    head = "".join(f"<th scope=col>{_text(model)}</th>" for model in evaluation.models)
    lines = []
    for label in evaluation.cohort.classes:
        estimates = [evaluation.get(metric, model=model, label=label) for model in evaluation.models]
        cells = "".join(_cell(e, best) for e, best in zip(estimates, _best(evaluation, metric, estimates)))
        lines.append(f"<tr><th scope=row>{_text(label)}</th>{cells}<td>{estimates[0].n_references}</td></tr>")
    head = f"<tr><th scope=col>class</th>{head}<th scope=col>references</th></tr>"
    return _wrap(metric, head, lines)


def _wrap(caption: str, head: str, lines: Sequence[str]) -> str:
    body = "\n".join(lines)
    return (
        f"<div class=wide><table><caption>{_text(caption)}</caption><thead>{head}</thead>\n"
        f"<tbody>{body}</tbody></table></div>"
    )


def _best(evaluation: Evaluation, metric: str, estimates: Sequence[Estimate]) -> list[bool]:
    """Return which estimates are the best of several; none if there is one model, or no order."""
    values = [e.value for e in estimates if not math.isnan(e.value)]
    if len(evaluation.models) < 2 or not values:
        return [False] * len(estimates)
    lower = metric.startswith(("FP", "FN"))
    top = min(values) if lower else max(values)
    return [e.value == top for e in estimates]


def _cell(estimate: Estimate, best: bool) -> str:
    if math.isnan(estimate.value):
        return f"<td class=undefined>{_text(str(estimate.reason).replace('_', ' '))}</td>"
    return f"<td{' class=best' if best else ''}>{estimate.value:.3f}</td>"


def _warnings(warnings: Sequence[str]) -> str:
    if not warnings:
        return ""
    items = "".join(f"<li>{_text(warning)}</li>" for warning in warnings)
    return f"<h2>Before you trust these numbers</h2><ul>{items}</ul>"


def _data(evaluation: Evaluation) -> str:
    lines = []
    for file in evaluation.cohort.intake.files:
        aside = sum(file.quarantined.values())
        name = Path(file.file).name
        lines.append(
            f"<tr><td>{_text(name)}</td><td>{_text(file.role)}</td><td>{_text(file.format)}</td><td>{file.read}</td>"
            f"<td>{file.used}</td><td>{aside}</td><td>{_text(file.sha256[:12])}</td></tr>"
        )
    names = ("file", "role", "format", "read", "used", "set aside", "sha256")
    head = "<tr>" + "".join(f"<th scope=col>{name}</th>" for name in names) + "</tr>"
    return "<h2>Data</h2>" + _wrap("Records of every input: read = used + set aside.", head, lines)


def _plural(name: str, n: int) -> str:
    return name if n == 1 else f"{name}s"


def _text(value: str) -> str:
    """Return text safe for HTML; control characters other than line breaks become visible."""
    return escape("".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in value))
