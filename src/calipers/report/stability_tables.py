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
from calipers.statistics.weights import plural

BAGS = "bags.csv"
MEASURES = ("DICE", "Jaccard", "accuracy", "AUC")
IN_BAGS = (
    "APJ",
    "called-by-all",
    "called-by-some",
    "Spearman",
)  # columns of the table of images on the page


def scores_table(
    result: StabilityResult, names: Sequence[str] = HEADLINE, *, label: str = "Stability"
) -> str:
    """Return a row per score: mean with its interval, SD, interval over models, undefined pairs,
    what it means.
    """
    score_names = [name for name in names if name in result.names]
    estimates = [result[name] for name in score_names]
    heads = (
        "score",
        "mean over images",
        "SD over images",
        "other trainings",
        "undefined pairs",
        "what it is",
    )
    head = (
        "".join(f"<th scope=col>{words}</th>" for words in heads[:-1])
        + f"<th scope=col class=words>{heads[-1]}</th>"
    )
    lines = [_line(result, name, estimate) for name, estimate in zip(score_names, estimates)]
    caption = f"n = {result.n_used} images, {len(result.models)} models"
    return frame(
        caption, f"<tr>{head}</tr>", lines, label=label, below=[*legend(estimates), *_below(result)]
    )


def _below(result: StabilityResult) -> list[str]:
    """Return whom the intervals speak for."""
    plan, sentences = result.plan, []
    if plan.certainty.replicates:
        level = f"{100 * plan.certainty.level:g} %"
        speaks = f"they speak for {plan.units.generalises_to()}, with these models"
        sentences.append(
            f"{level} intervals over {plan.units.number} {plural(plan.units.name)}: {speaks}."
        )
    sentences.append(
        "Other trainings: t interval from leaving out one model at a time, on these images."
    )
    return sentences


def _line(result: StabilityResult, name: str, estimate: Estimate) -> str:
    cells = [estimate_cell(estimate), _number(result.sd(name))]
    if name in CALLED:
        cells += ["<td></td>", "<td></td>"]
    else:
        jackknife, undefined = result.leave_one_out(name), result.undefined(name)
        other = between(jackknife.low, jackknife.high) or reason_word(jackknife.reason)
        cells += [
            f"<td>{text(other)}</td>",
            f"<td class=n>{undefined.pairs} of {undefined.of_pairs}</td>",
        ]
    meaning = MEANINGS.get(name, SCORES[name].meaning)
    return f"<tr><th scope=row>{text(name)}</th>{''.join(cells)}<td class=words>{text(meaning)}</td></tr>"


def estimate_cell(estimate: Estimate) -> str:
    """Return value and interval, or why there is none, as a cell."""
    if math.isnan(estimate.value):
        return f"<td class=undefined>{text(reason_word(estimate.reason))}</td>"
    beside = between(estimate.low, estimate.high) + marks_of(estimate) or without_interval(estimate)
    small = f"<small>{text(beside)}</small>" if beside else ""
    return f'<td data-v="{digits(estimate.value)}">{short_number(estimate.value)}{small}</td>'


def _number(value: float) -> str:
    return (
        "<td></td>"
        if math.isnan(value)
        else f'<td data-v="{digits(value)}">{short_number(value)}</td>'
    )


def reference_table(result: StabilityResult) -> str:
    """Return a row per model: what it finds of the reference, and how it tells whole images apart;
    "" for nothing.
    """
    local = result.localized
    names = [name for name in MEASURES if local.has(name)]
    if not names:
        return ""
    rows = [[local.get(name, model) for name in names] for model in (*local.models, ALL_MODELS)]
    lines = [
        f"<tr{' class=over' if model == ALL_MODELS else ''}><th scope=row>{text(short(model))}</th>"
        f"{''.join(map(estimate_cell, row))}</tr>"
        for model, row in zip((*local.models, "mean of all models"), rows)
    ]
    columns = [f"{name}, n = {estimate.n_images}" for name, estimate in zip(names, rows[0])]
    head = "".join(f"<th scope=col>{text(words)}</th>" for words in ("model", *columns))
    accuracy = (
        f"Accuracy: images whose Jaccard index is at least {local.least_jaccard:g}. "
        if "DICE" in names
        else ""
    )
    pooled = (
        ""
        if local.pooling == "given"
        else f"Whole images have the {local.pooling} of their map as score. "
    )
    caption = f"{accuracy}{pooled if 'AUC' in names else ''}n: images."
    every = [estimate for row in rows for estimate in row]
    return frame(
        caption,
        f"<tr>{head}</tr>",
        lines,
        label="Models against the reference",
        below=legend(every),
    )


def bag_columns(result: StabilityResult) -> dict[str, list[Any]]:
    """Return a column per fact of every image that was used, for ``bags.csv``: empty where
    undefined.
    """
    positive, evidence = result.plan.positive, result.evidence
    columns: dict[str, list[Any]] = {
        "bag": list(result.ids),
        "positive": [None] * result.n_used if positive is None else positive.astype(int).tolist(),
        "instances": evidence.n.tolist(),
    }
    columns |= {name: result.per_bag(name).tolist() for name in result.names}
    columns["undefined pairs"] = undefined_pairs(result)
    local = result.localized
    if local.has("DICE"):
        for measure in ("DICE", "Jaccard"):
            for words, values in zip(("mean", "SD"), local.per_bag(measure)):
                whole = np.full(result.n_used, np.nan)
                whole[local.places] = values
                columns[f"{measure} {words}"] = whole.tolist()
    ones = evidence.ones[:, evidence.at(result.threshold)]
    return columns | {
        f"marked by {model}": ones[:, k].tolist() for k, model in enumerate(result.models)
    }


def undefined_pairs(result: StabilityResult) -> list[int]:
    """Return how many pairs of models have no APJ on every image."""
    from calipers.stability.pairs import pair_scores

    scores = pair_scores(result.evidence, "APJ", result.evidence.at(result.threshold), "skip")
    return [int(n) for n in np.isnan(scores).sum(axis=1)]


def bags_table(result: StabilityResult) -> str:
    """Return the images, least stable first; those without a value come last."""
    columns = bag_columns(result)
    names = [
        name
        for name in ("bag", *IN_BAGS, "undefined pairs", "DICE mean", "DICE SD")
        if name in columns
    ]
    places = result.ranked("APJ").tolist()
    defined = set(places)
    order = [*places, *(i for i in range(result.n_used) if i not in defined)]
    rows: list[tuple[Cell, ...]] = []
    for i in order:
        cells = [columns[name][i] for name in names]
        rows.append(
            tuple(None if isinstance(cell, float) and math.isnan(cell) else cell for cell in cells)
        )
    heads = ("image", *names[1:])
    return data_table(
        Table(heads, tuple(rows)), "table-bags", "Every image, least stable first", all_in=BAGS
    )
