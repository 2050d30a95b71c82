# SPDX-License-Identifier: Apache-2.0
"""A plain page: verdict and headline, warnings, all estimates with their n, data, method. No script, no network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path

from calipers.evaluation import Evaluation, cohort_counts
from calipers.report.grids import beside_table, classes_table, files_table, groups_table, metrics_table, text
from calipers.report.words import headline_of, intervals_in_words, join, meanings, plural, short, verdict
from calipers.results.files import write_atomically

MOST_NAMED = 4


def write_page(evaluation: Evaluation, path: Path) -> Path:
    """Write the page of an evaluation, whole or not at all."""
    write_atomically(path, page(evaluation))
    return path


def page(evaluation: Evaluation) -> str:
    """Return the page as HTML; every text from the data is escaped, and the policy forbids scripts and requests."""
    style = resources.files("calipers").joinpath("report", "assets", "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    body = "\n".join(_sections(evaluation))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text('Calipers: ' + _models(evaluation.models))}</title>\n<style>{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def table(evaluation: Evaluation) -> str:
    """Return all pooled estimates as one HTML table, for notebooks."""
    return metrics_table(evaluation, evaluation.metrics)


def _sections(evaluation: Evaluation) -> Iterator[str]:
    from calipers import __version__

    yield f"<h1>Evaluation of {text(_models(evaluation.models))}</h1>"
    yield f"<p class=soft>{text(_described(evaluation))}</p>"
    said = verdict(evaluation)
    if said:
        yield f"<p class=verdict>{text(said)}</p>"
    yield "<h2>Headline</h2>"
    yield metrics_table(evaluation, headline_of(evaluation))
    yield _warnings(evaluation.warnings)
    yield "<h2>All metrics</h2>"
    yield metrics_table(evaluation, evaluation.metrics)
    yield _meanings(evaluation)
    per_class = [metric for metric in headline_of(evaluation) if metric in evaluation.metrics_per_class]
    if len(evaluation.cohort.classes) > 1 and per_class:
        yield "<h2>Per class</h2>\n<div class=pairs>"
        yield from (classes_table(evaluation, metric) for metric in per_class)
        yield "</div>"
    yield from _groups(evaluation)
    if evaluation.cohort.intake.files:
        yield "<h2>Data</h2>"
        yield files_table(evaluation)
    yield "<h2>Method</h2>"
    yield f"<p>{text(evaluation.protocol.source)}.</p>"
    if evaluation.ci:
        yield f"<p>{text(intervals_in_words(evaluation))}</p>"
        yield "<details><summary>Beside the intervals: percentile interval, bias, Monte-Carlo error</summary>"
        yield f"{beside_table(evaluation)}</details>"
    toml = text(evaluation.protocol.to_toml())
    yield f"<details><summary>The protocol, to run it again</summary><pre>{toml}</pre></details>"
    yield f"<footer class=soft>Made with Calipers {text(__version__)}. Not a medical device.</footer>"


def _groups(evaluation: Evaluation) -> Iterator[str]:
    """Yield the headline metrics per group, grouping by grouping; classes of a group only of the first of them."""
    for grouping in evaluation.groupings:
        found = {(row.metric, row.label): None for row in grouping.rows}
        names = [metric for metric in headline_of(evaluation) if (metric, None) in found]
        places = [
            *((metric, None) for metric in names),
            *(place for place in found if place[1] and place[0] in names[:1]),
        ]
        if places:
            yield f"<h2>{text(grouping.title.capitalize())}</h2>\n<div class=stack>"
            yield from (groups_table(evaluation, grouping, *place) for place in places)
            yield "</div>"


def _models(models: Sequence[str]) -> str:
    return join([short(model) for model in models]) if len(models) <= MOST_NAMED else f"{len(models)} models"


def _described(evaluation: Evaluation) -> str:
    counts = cohort_counts(evaluation.cohort)
    described = [plural("image", counts["images"]), plural("reference", counts["references"])]
    described.append(plural("class", len(counts["classes"])))
    described += [plural(name, n) for name, n in counts["groups"].items() if name != "file_name"]
    ignored = f" ({counts['ignored']} references are ignored)" if counts["ignored"] else ""
    return f"{', '.join(described)}{ignored}. Protocol: {evaluation.protocol.name}."


def _warnings(warnings: Sequence[str]) -> str:
    if not warnings:
        return ""
    items = "".join(f"<li>{text(warning)}</li>" for warning in warnings)
    return f"<section class=care><h2>Before you trust these numbers</h2><ul>{items}</ul></section>"


def _meanings(evaluation: Evaluation) -> str:
    entries = "".join(f"<dt>{text(names)}</dt><dd>{text(meaning)}</dd>" for names, meaning in meanings(evaluation))
    return f"<details><summary>What the metrics mean</summary><dl>{entries}</dl></details>"
