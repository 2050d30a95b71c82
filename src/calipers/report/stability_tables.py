# SPDX-License-Identifier: Apache-2.0
"""Tables of the page of a stability analysis: scores, models against the reference, images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calipers.findings import legend, marks_of, without_interval
from calipers.plots.figures import Cell, Table
from calipers.report.grids import frame
from calipers.report.markup import data_table, digits, text
from calipers.report.stability_words import MEANINGS
from calipers.report.words import between, reason_word, short
from calipers.results import Estimate
from calipers.results.digits import short_number
from calipers.stability.document import HEADLINE
from calipers.stability.plan import ALL_MODELS
from calipers.stability.result import StabilityResult
from calipers.stability.scores import CALLED, SCORES

BAGS = "bags.csv"
MEASURES = ("DICE", "Jaccard", "accuracy", "AUC")
IN_BAGS = ("APJ", "called-by-all", "called-by-some", "Spearman")  # scores in the table of images


def scores_table(
    result: StabilityResult, names: Sequence[str] = HEADLINE, *, label: str = "Stability"
) -> str:
    """Return a row per score: mean with its interval, SD, interval over models, undefined pairs,
    meaning.
    """
    score_names = [name for name in names if name in result.names]
    estimates = [result[name] for name in score_names]
    heads = (
        "score",
        "mean over images",
        "SD over images",
        "other trainings",
        "undefined pairs",
    )
    head = "".join(f"<th scope=col>{words}</th>" for words in heads)
    head += "<th scope=col class=words>meaning</th>"
    lines = [_line(result, name, estimate) for name, estimate in zip(score_names, estimates)]
    caption = f"n = {result.n_used} images, {len(result.models)} models"
    below = [*legend(estimates), *_below(result)]
    return frame(caption, f"<tr>{head}</tr>", lines, label=label, below=below)


def _below(result: StabilityResult) -> list[str]:
    """Return how the intervals were made and what they generalise to."""
    plan, sentences = result.plan, []
    if plan.certainty.replicates:
        sentences.append(
            f"{100 * plan.certainty.level:g} % confidence intervals, resampled by "
            f"{plan.units.name} (n = {plan.units.number}); they generalise to "
            f"{plan.units.generalises_to()}, with these models."
        )
    sentences.append(
        "Other trainings: t interval from leaving out one model at a time, on these images."
    )
    return sentences


def _line(result: StabilityResult, name: str, estimate: Estimate) -> str:
    other, pairs = "<td></td>", "<td></td>"
    if name not in CALLED:
        jackknife, undefined = result.leave_one_out(name), result.undefined(name)
        interval = between(jackknife.low, jackknife.high) or reason_word(jackknife.reason)
        other = f"<td>{text(interval)}</td>"
        pairs = f"<td class=n>{undefined.pairs} of {undefined.of_pairs}</td>"
    meaning = MEANINGS.get(name, SCORES[name].meaning)
    return (
        f"<tr><th scope=row>{text(name)}</th>{estimate_cell(estimate)}"
        f"{_number(result.sd(name))}{other}{pairs}<td class=words>{text(meaning)}</td></tr>"
    )


def estimate_cell(estimate: Estimate) -> str:
    """Return value and interval, or why there is none, as a cell."""
    if math.isnan(estimate.value):
        return f"<td class=undefined>{text(reason_word(estimate.reason))}</td>"
    beside = between(estimate.low, estimate.high) + marks_of(estimate) or without_interval(estimate)
    small = f"<small>{text(beside)}</small>" if beside else ""
    return f'<td data-v="{digits(estimate.value)}">{short_number(estimate.value)}{small}</td>'


def _number(value: float) -> str:
    if math.isnan(value):
        return "<td></td>"
    return f'<td data-v="{digits(value)}">{short_number(value)}</td>'


def reference_table(result: StabilityResult) -> str:
    """Return a row per model: overlap with the reference, and AUC of whole images; "" for
    nothing.
    """
    local = result.localized
    names = [name for name in MEASURES if local.has(name)]
    if not names:
        return ""
    every: list[Estimate] = []
    lines = []
    for model in (*local.models, ALL_MODELS):
        estimates = [local.get(name, model) for name in names]
        every += estimates
        mark, title = "", model
        if model == ALL_MODELS:
            mark, title = " class=over", "mean of all models"
        cells = "".join(map(estimate_cell, estimates))
        lines.append(f"<tr{mark}><th scope=row>{text(short(title))}</th>{cells}</tr>")
    columns = [f"{name}, n = {estimate.n_images}" for name, estimate in zip(names, every)]
    head = "".join(f"<th scope=col>{text(words)}</th>" for words in ("model", *columns))
    caption = "n: images."
    if "AUC" in names and local.pooling != "given":
        caption = f"Whole images have the {local.pooling} of their map as score. {caption}"
    if "DICE" in names:
        accuracy = f"images whose Jaccard index is at least {local.least_jaccard:g}"
        caption = f"Accuracy: {accuracy}. {caption}"
    return frame(
        caption,
        f"<tr>{head}</tr>",
        lines,
        label="Models against the reference",
        below=legend(every),
    )


def bag_columns(result: StabilityResult) -> dict[str, list[Any]]:
    """Return a column per fact of every image that was used, for ``bags.csv``; undefined values are
    empty.
    """
    positive, evidence = result.plan.positive, result.evidence
    columns: dict[str, list[Any]] = {
        "bag": list(result.ids),
        "positive": [None] * result.n_used if positive is None else positive.astype(int).tolist(),
        "instances": evidence.n.tolist(),
    }
    for name in result.names:
        columns[name] = result.per_bag(name).tolist()
    columns["undefined pairs"] = undefined_pairs(result)
    local = result.localized
    if local.has("DICE"):
        for measure in ("DICE", "Jaccard"):
            for words, values in zip(("mean", "SD"), local.per_bag(measure)):
                whole = np.full(result.n_used, np.nan)
                whole[local.places] = values
                columns[f"{measure} {words}"] = whole.tolist()
    ones = evidence.ones[:, evidence.at(result.threshold)]
    for k, model in enumerate(result.models):
        columns[f"marked by {model}"] = ones[:, k].tolist()
    return columns


def undefined_pairs(result: StabilityResult) -> list[int]:
    """Return how many pairs of models have no APJ on every image."""
    from calipers.stability.pairs import pair_scores

    scores = pair_scores(result.evidence, "APJ", result.evidence.at(result.threshold), "skip")
    return [int(n) for n in np.isnan(scores).sum(axis=1)]


def bags_table(result: StabilityResult) -> str:
    """Return the images, least stable first; those without a value come last."""
    columns = bag_columns(result)
    candidates = ("bag", *IN_BAGS, "undefined pairs", "DICE mean", "DICE SD")
    names = [name for name in candidates if name in columns]
    defined = result.ranked("APJ").tolist()
    undefined = sorted(set(range(result.n_used)).difference(defined))
    rows: list[tuple[Cell, ...]] = []
    for i in (*defined, *undefined):
        rows.append(tuple(_value_or_none(columns[name][i]) for name in names))
    heads = ("image", *names[1:])
    return data_table(
        Table(heads, tuple(rows)), "table-bags", "Every image, least stable first", all_in=BAGS
    )


def _value_or_none(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value
