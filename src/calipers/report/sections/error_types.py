# SPDX-License-Identifier: Apache-2.0
"""Kinds of mistakes: what each costs, how many there are, and examples to look at."""

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
    """Return the figures of costs and counts; nothing of what the protocol does not ask for."""
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
    words = (
        f"A prediction is right if its {r.criterion} with a free reference of its class is at least {r.foreground:g}. "
        f"Every other one is a mistake of one kind: place ({r.criterion} from {r.background:g} to {r.foreground:g} "
        f"with its class), class (at least {r.foreground:g} with another class), double (its reference is taken), "
        f"nothing (at most {r.background:g} with any reference), both (what is left). Missed references are those that "
        "no mistake in place or class came near. Mending a kind makes the best mistake on a free reference a hit and "
        "takes the others away; mending missed references takes them away."
    )
    return paragraph(words)


def examples(page: Context, models: Sequence[str]) -> str:
    """Return the mistakes with the highest scores and the largest missed references, with links to
    their pictures.
    """
    ev = page.evaluation
    if not any(plan.kind == KIND for plan in ev.protocol.metrics):
        return ""
    rows = [row for model in models for row in _rows(ev, model)]
    if not rows:
        return ""
    words = (
        f"Per model and kind the {EXAMPLES} mistakes with the highest scores, and the {EXAMPLES} largest missed "
        "references. Predictions and references are counted as in objects.parquet; errors.csv has all mistakes."
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
            for k in lost[np.argsort(-references.area[lost], kind="stable")][:EXAMPLES].tolist():
                image, label = (
                    cohort.images.ids[mistakes.reference_image[k]],
                    cohort.classes[references.label[k]],
                )
                yield model, _kind_name(kind), image, "", label, None, None, None, k
            continue
        rows = np.flatnonzero((mistakes.prediction_kind == code) & ~mistakes.covered)
        for k in rows[np.argsort(-mistakes.score[rows], kind="stable")][:EXAMPLES].tolist():
            partner = int(mistakes.partner[k])
            yield (
                model,
                _kind_name(kind),
                cohort.images.ids[mistakes.prediction_image[k]],
                cohort.classes[predictions.label[k]],
                "" if partner < 0 else cohort.classes[references.label[partner]],
                float(mistakes.score[k]),
                None if partner < 0 else float(mistakes.similarity[k]),
                k,
                None if partner < 0 else partner,
            )


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
