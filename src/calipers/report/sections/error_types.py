# SPDX-License-Identifier: Apache-2.0
"""Kinds of mistakes (TIDE): the cost of each, their number, and examples to look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from calipers.error_table import mistakes_of
from calipers.errors import UsageError
from calipers.evaluation import Evaluation
from calipers.kernels.error_types import MISS
from calipers.metrics.errors import ErrorTypes
from calipers.metrics.errors_gains import KINDS
from calipers.plots.catalogue import figure
from calipers.plots.error_types import KIND, WORDS
from calipers.plots.figures import Cell, Table
from calipers.report.context import Context
from calipers.report.markup import data_table, figure_block, paragraph, text

EXAMPLES = 3  # of each kind and model
COLUMNS = (
    "model",
    "kind",
    "image",
    "class",
    "class of the reference",
    "score",
    "similarity",
    "prediction",
    "reference",
)
MOST_LINKS = 12


def bars(ev: Evaluation, models: Sequence[str]) -> list[str]:
    """Return the figures of costs and counts, as far as the protocol computes them."""
    blocks = []
    for name in ("error-gains", "error-counts"):
        try:
            blocks.append(figure_block(figure(ev, name, models=models), f"fig-{name}"))
        except UsageError:  # only gains, or only counts
            continue
    return blocks


def introduction(ev: Evaluation) -> str:
    """Return what the kinds mean, in words; nothing without error types."""
    metric = next(
        (metric for metric in ev.protocol.compile() if isinstance(metric, ErrorTypes)), None
    )
    if metric is None:
        return ""
    r = metric.recipe
    return paragraph(
        f"A prediction is right if its {r.criterion} with a free reference of its class is at "
        f"least "
        f"{r.foreground:g}. Every other prediction is a mistake of one kind: place ({r.criterion} "
        f"from {r.background:g} to {r.foreground:g} with its class), class (at least "
        f"{r.foreground:g} with another class), double (another prediction already has its "
        f"reference), nothing (at most {r.background:g} with any reference), both (all others). "
        "Missed references are those that no mistake in place or class comes near. The cost of a "
        "kind is what fixing it would gain: the best mistake on a free reference becomes a hit, "
        "and the others are removed; missed references are removed."
    )


def examples(page: Context, models: Sequence[str]) -> str:
    """Return the mistakes with the highest scores and the largest missed references, with links to
    their pictures.
    """
    ev = page.evaluation
    if not any(plan.kind == KIND for plan in ev.protocol.metrics):
        return ""
    rows: list[tuple[Cell, ...]] = []
    for model in models:
        rows += _rows(ev, model)
    if not rows:
        return ""
    words = (
        f"Per model and kind, the {EXAMPLES} mistakes with the highest scores, and the {EXAMPLES} "
        "largest missed references. Predictions and references are numbered as in objects.parquet; "
        "errors.csv has all mistakes."
    )
    table = data_table(
        Table(COLUMNS, tuple(rows)), "table-mistakes", "Mistakes to look at", all_in="errors.csv"
    )
    return paragraph(words) + table + _links(page, [str(row[2]) for row in rows])


def _rows(ev: Evaluation, model: str) -> Iterator[tuple[Cell, ...]]:
    mistakes, cohort = mistakes_of(ev, model), ev.cohort
    references, predictions = cohort.references, cohort.predictions(model)
    for kind, code in KINDS.items():
        if code == MISS:
            lost = np.flatnonzero(mistakes.reference_kind == MISS)
            largest = lost[np.argsort(-references.area[lost], kind="stable")]
            for k in largest[:EXAMPLES].tolist():
                image = cohort.images.ids[mistakes.reference_image[k]]
                label = cohort.classes[references.label[k]]
                yield model, _kind_name(kind), image, "", label, None, None, None, k
            continue
        rows = np.flatnonzero((mistakes.prediction_kind == code) & ~mistakes.covered)
        highest = rows[np.argsort(-mistakes.score[rows], kind="stable")]
        for k in highest[:EXAMPLES].tolist():
            image = cohort.images.ids[mistakes.prediction_image[k]]
            label = cohort.classes[predictions.label[k]]
            score = float(mistakes.score[k])
            partner = int(mistakes.partner[k])
            if partner < 0:  # no reference is near
                yield model, _kind_name(kind), image, label, "", score, None, k, None
                continue
            partner_label = cohort.classes[references.label[partner]]
            similarity = float(mistakes.similarity[k])
            name = _kind_name(kind)
            yield model, name, image, label, partner_label, score, similarity, k, partner


def _links(page: Context, images: Sequence[str]) -> str:
    """Return links to those images that the page shows."""
    if page.album is None:
        return ""
    addresses: dict[str, str] = {}
    for g, group in enumerate(page.album.groups):
        for k, entry in enumerate(group.entries):
            addresses.setdefault(entry.id, f"#image-{g}-{k}")
    places = [(name, addresses[name]) for name in dict.fromkeys(images) if name in addresses][
        :MOST_LINKS
    ]
    links = ", ".join(f'<a href="{place}">{text(name)}</a>' for name, place in places)
    return f'<p class="note">Pictures of these images are below: {links}.</p>' if links else ""


def _kind_name(kind: str) -> str:
    """Return a kind as the bars and as errors.csv call it."""
    return WORDS[kind] if WORDS[kind] == kind else f"{WORDS[kind]} ({kind})"
