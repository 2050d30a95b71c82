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
from calipers.results.digits import shown
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
    found: StabilityResult, names: Sequence[str] = HEADLINE, *, label: str = "Stability"
) -> str:
    """Return a row per score: mean with its interval, SD, interval over models, undefined pairs,
    what it means.
    """
    shown = [name for name in names if name in found.names]
    estimates = [found[name] for name in shown]
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
    lines = [_line(found, name, estimate) for name, estimate in zip(shown, estimates)]
    caption = f"n = {found.n_used} images, {len(found.models)} models"
    return frame(
        caption, f"<tr>{head}</tr>", lines, label=label, below=[*legend(estimates), *_below(found)]
    )


def _below(found: StabilityResult) -> list[str]:
    """Return whom the intervals speak for."""
    plan, said = found.plan, []
    if plan.certainty.replicates:
        level = f"{100 * plan.certainty.level:g} %"
        speaks = f"they speak for {plan.units.generalises_to()}, with these models"
        said.append(
            f"{level} intervals over {plan.units.number} {plural(plan.units.name)}: {speaks}."
        )
    said.append(
        "Other trainings: t interval from leaving out one model at a time, on these images."
    )
    return said


def _line(found: StabilityResult, name: str, estimate: Estimate) -> str:
    cells = [estimate_cell(estimate), _number(found.sd(name))]
    if name in CALLED:
        cells += ["<td></td>", "<td></td>"]
    else:
        left, missing = found.leave_one_out(name), found.undefined(name)
        other = between(left.low, left.high) or reason_word(left.reason)
        cells += [
            f"<td>{text(other)}</td>",
            f"<td class=n>{missing.pairs} of {missing.of_pairs}</td>",
        ]
    meaning = MEANINGS.get(name, SCORES[name].meaning)
    return f"<tr><th scope=row>{text(name)}</th>{''.join(cells)}<td class=words>{text(meaning)}</td></tr>"


def estimate_cell(estimate: Estimate) -> str:
    """Return value and interval, or why there is none, as a cell."""
    if math.isnan(estimate.value):
        return f"<td class=undefined>{text(reason_word(estimate.reason))}</td>"
    beside = between(estimate.low, estimate.high) + marks_of(estimate) or without_interval(estimate)
    small = f"<small>{text(beside)}</small>" if beside else ""
    return f'<td data-v="{digits(estimate.value)}">{shown(estimate.value)}{small}</td>'


def _number(value: float) -> str:
    return "<td></td>" if math.isnan(value) else f'<td data-v="{digits(value)}">{shown(value)}</td>'


def reference_table(found: StabilityResult) -> str:
    """Return a row per model: what it finds of the reference, and how it tells whole images apart;
    "" for nothing.
    """
    local = found.localized
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
    said = f"{accuracy}{pooled if 'AUC' in names else ''}n: images."
    every = [estimate for row in rows for estimate in row]
    return frame(
        said, f"<tr>{head}</tr>", lines, label="Models against the reference", below=legend(every)
    )


def bag_columns(found: StabilityResult) -> dict[str, list[Any]]:
    """Return a column per fact of every image that was used, for ``bags.csv``: empty where
    undefined.
    """
    positive, evidence = found.plan.positive, found.evidence
    columns: dict[str, list[Any]] = {
        "bag": list(found.ids),
        "positive": [None] * found.n_used if positive is None else positive.astype(int).tolist(),
        "instances": evidence.n.tolist(),
    }
    columns |= {name: found.per_bag(name).tolist() for name in found.names}
    columns["undefined pairs"] = undefined_pairs(found)
    local = found.localized
    if local.has("DICE"):
        for measure in ("DICE", "Jaccard"):
            for words, values in zip(("mean", "SD"), local.per_bag(measure)):
                whole = np.full(found.n_used, np.nan)
                whole[local.places] = values
                columns[f"{measure} {words}"] = whole.tolist()
    ones = evidence.ones[:, evidence.at(found.threshold)]
    return columns | {
        f"marked by {model}": ones[:, k].tolist() for k, model in enumerate(found.models)
    }


def undefined_pairs(found: StabilityResult) -> list[int]:
    """Return how many pairs of models have no APJ on every image."""
    from calipers.stability.pairs import pair_scores

    scores = pair_scores(found.evidence, "APJ", found.evidence.at(found.threshold), "skip")
    return [int(n) for n in np.isnan(scores).sum(axis=1)]


def bags_table(found: StabilityResult) -> str:
    """Return the images, least stable first; those without a value come last."""
    columns = bag_columns(found)
    names = [
        name
        for name in ("bag", *IN_BAGS, "undefined pairs", "DICE mean", "DICE SD")
        if name in columns
    ]
    ranked = found.ranked("APJ").tolist()
    known = set(ranked)
    order = [*ranked, *(i for i in range(found.n_used) if i not in known)]
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
