# SPDX-License-Identifier: Apache-2.0
"""Tables of stability: scores, models against the reference, images, and objects of detectors.

A `StabilityResult` or an `ObjectStability` comes in, `show.table.Table` goes out. Command line,
page, notebook and ``bags.csv`` show these; a table without anything to show has no rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calipers.show.table import Amount, Cell, Kind, Table, TableRow
from calipers.show.words import (
    intervals_by,
    reason_text,
)
from calipers.stability.evidence import ALL_MODELS, pair_scores
from calipers.stability.objects_result import ObjectStability
from calipers.stability.result import HEADLINE, StabilityResult
from calipers.stability.scores import CALLED, SCORES

MEASURES = ("DICE", "Jaccard", "accuracy", "AUC")
IN_BAGS = ("APJ", "called-by-all", "called-by-some", "Spearman")  # scores in the table of images
MOST_DISPUTED = 20
OTHER_TRAININGS = (
    "Mean and SD (ddof 0): over images. Other trainings: t interval from leaving out one model at "
    "a time, on these images."
)
NAN = math.nan


def tables(result: StabilityResult) -> list[Table]:
    """Return every score, the models against the reference, and all images."""
    candidates = [
        scores_table(result, result.names),
        reference_table(result),
        variance_table(result),
        bags_table(result),
    ]
    return [table for table in candidates if table.rows]


def tables_for_terminal(result: StabilityResult) -> list[Table]:
    """Return every score, without its meaning, and the models against the reference."""
    candidates = [scores_table(result, result.names, meanings=False), reference_table(result)]
    return [table for table in candidates if table.rows]


def object_tables(result: ObjectStability) -> list[Table]:
    """Return how many models find the same objects, and the images on which they differ most."""
    return [table for table in (found_table(result), disputed_table(result)) if table.rows]


def scores_table(
    result: StabilityResult, names: Sequence[str] = HEADLINE, *, meanings: bool = True
) -> Table:
    """Return a row per score: mean with its interval, SD, interval over models, undefined pairs,
    meaning.
    """
    rows: list[TableRow] = []
    for name in names:
        # Kendall's tau may not have been asked for.
        if name not in result.names:
            continue
        row: list[Cell] = [name, result[name], result.sd(name), *_of_pairs(result, name)]
        if meanings:
            row.append(SCORES[name].plain or SCORES[name].meaning)
        rows.append(tuple(row))
    columns: tuple[str, ...] = ("score", "mean", "SD", "other trainings", "undefined pairs", "of")
    kinds: tuple[Kind, ...] = ("name", "value", "value", "value", "count", "count")
    if meanings:
        columns, kinds = (*columns, "meaning"), (*kinds, "text")
    return Table(
        columns,
        tuple(rows),
        title=f"Stability: n = {result.n_used} images, {len(result.models)} models",
        notes=(*_units(result), OTHER_TRAININGS),
        kinds=kinds,
    )


def _of_pairs(result: StabilityResult, name: str) -> tuple[Cell, Cell, Cell]:
    """Return the interval over models, undefined pairs and all pairs; nothing for shares over all
    models, which are no scores of pairs.
    """
    if name in CALLED:
        return None, None, None
    jackknife, undefined = result.leave_one_out(name), result.undefined(name)
    other: Cell = Amount(NAN, low=jackknife.low, high=jackknife.high)
    if math.isnan(jackknife.low):
        other = reason_text(jackknife.reason) if jackknife.reason else None
    return other, undefined.pairs, undefined.of_pairs


def _units(result: StabilityResult) -> tuple[str, ...]:
    """Return how the intervals were made and what they generalise to; nothing without any."""
    units, certainty = result.plan.units, result.plan.certainty
    if not certainty.replicates:
        return ()
    return (
        f"{intervals_by(certainty.level, units.name, units.number)}; valid for "
        f"{units.generalises_to()}, with these models.",
    )


def reference_table(result: StabilityResult) -> Table:
    """Return a row per model: overlap with the reference, and AUC of whole images."""
    local = result.localized
    names = [name for name in MEASURES if local.has(name)]
    rows: list[TableRow] = []
    for model in (*local.models, ALL_MODELS):
        rows.append((model, *(local.get(name, model) for name in names)))
    if not names:
        return Table(("model",), ())
    # The mean over models is a summary of the table, not a further model.
    *models, (_, *means) = rows
    notes = []
    if "DICE" in names:
        notes.append(f"Accuracy: images whose Jaccard index is at least {local.least_jaccard:g}.")
    if "AUC" in names and local.pooling != "given":
        notes.append(f"Whole images have the {local.pooling_words} of their map as score.")
    columns = [f"{name}, n = {local.get(name).n_images}" for name in names]
    return Table(
        ("model", *columns),
        tuple(models),
        title="Models against the reference; n: images",
        notes=tuple(notes),
        summary=(("mean of all models", *means),),
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
                # Only annotated positive images have a DICE; the others stay empty.
                whole = np.full(result.n_used, np.nan)
                whole[local.places] = values
                columns[f"{measure} {words}"] = whole.tolist()
    ones = evidence.ones[:, evidence.at(result.threshold)]
    for k, model in enumerate(result.models):
        columns[f"marked by {model}"] = ones[:, k].tolist()
    return columns


def undefined_pairs(result: StabilityResult) -> list[int]:
    """Return how many pairs of models have no APJ on every image."""
    scores = pair_scores(result.evidence, "APJ", result.evidence.at(result.threshold), "skip")
    return [int(n) for n in np.isnan(scores).sum(axis=1)]


def bags_table(result: StabilityResult) -> Table:
    """Return the images, least stable first; those without a value come last."""
    columns = bag_columns(result)
    candidates = ("bag", *IN_BAGS, "undefined pairs", "DICE mean", "DICE SD")
    names = [name for name in candidates if name in columns]
    defined = result.ranked("APJ").tolist()
    # Images without a value are not the most stable ones: they stand apart at the end.
    undefined = sorted(set(range(result.n_used)).difference(defined))
    rows: list[TableRow] = []
    for i in (*defined, *undefined):
        rows.append(tuple(columns[name][i] for name in names))
    return Table(
        ("image", *names[1:]),
        tuple(rows),
        title="Every image, least stable first",
        name="table-bags",
    )


def variance_table(result: StabilityResult) -> Table:
    """Return how much of the variance of APJ lies between images and between pairs of models."""
    parts = result.components("APJ")
    rows: list[TableRow] = []
    if parts.reason is None:
        shares = {"images": "bags", "pairs of models": "pairs", "neither": "rest"}
        for words, name in shares.items():
            rows.append((words, getattr(parts, name), parts.shares[name]))
    return Table(
        ("APJ varies between", "variance", "share"),
        tuple(rows),
        title=f"Where APJ varies: {parts.n_bags} images with all {parts.n_pairs} pairs",
        name="table-variance",
        kinds=("name", "number", "number"),
    )


def found_table(result: ObjectStability) -> Table:
    """Return how many references, and places of false alarms, exactly k models have."""
    alarms = {one.k: (one.places, one.share) for one in result.false_alarms_by()}
    rows: list[TableRow] = []
    for one in result.found_by():
        places, share = alarms.get(one.k, (None, None))
        name = f"{one.k} of {len(result.models)}"
        rows.append((name, one.references, one.share, places, share))
    return Table(
        ("models", "references", "share", "places of false alarms", "share of places"),
        tuple(rows),
        title="How many models find a reference, or raise the same false alarm",
        name="table-found",
        kinds=("name", "count", "value", "count", "value"),
    )


def disputed_table(result: ObjectStability) -> Table:
    """Return the images with most references that some but not all models find."""
    rows: list[TableRow] = []
    for one in result.disputed(MOST_DISPUTED):
        finders = []
        for reference in one.references:
            n_finders = len(reference.found_by)
            finders.append(f"{reference.label}: {n_finders} of {len(result.models)}")
        counts = len(one.references), one.n_references
        rows.append((one.image, *counts, one.agreement, "; ".join(finders)))
    return Table(
        ("image", "disputed", "references", "agreement of the models", "found by"),
        tuple(rows),
        title="The most disputed images",
        name="table-disputed",
        kinds=("name", "count", "count", "number", "text"),
    )
