# SPDX-License-Identifier: Apache-2.0
"""What went wrong, and how much the answer depends on the threshold."""

from __future__ import annotations

from calipers.plots.catalogue import figure
from calipers.plots.errors import SHARES
from calipers.report.context import Context
from calipers.report.markup import figure_block, paragraph
from calipers.report.order import leading
from calipers.report.sections import error_types

MOST_MODELS = 3


def section(page: Context) -> str:
    """Return fates, scores of right and wrong predictions, and overlaps of hits; nothing without
    any object.

    If the protocol has error types, the cost of each kind of mistake comes first, and examples come
    last.
    """
    ev = page.evaluation
    if not len(ev.cohort.references) and not any(map(len, ev.cohort.models.values())):
        return ""
    models = leading(ev, MOST_MODELS)
    blocks = [
        *error_types.bars(ev, models),
        figure_block(figure(ev, "fates", models=models), "fig-fates"),
    ]
    if ev.protocol.matching.criterion in SHARES:
        blocks.append(figure_block(figure(ev, "overlaps", models=models), "fig-overlaps"))
    for k, model in enumerate(models):
        predictions = ev.cohort.models[model]
        if predictions.scored and len(predictions):
            blocks.append(figure_block(figure(ev, "scores", model=model), f"fig-scores-{k}"))
    n_omitted = len(ev.models) - len(models)
    note = f"The {len(models)} leading models of {len(ev.models)}." if n_omitted else ""
    return (
        error_types.introduction(ev)
        + paragraph(note, "note")
        + f'<div class="pair">{"".join(blocks)}</div>'
        + error_types.examples(page, models)
    )


def choices(page: Context) -> str:
    """Return the average precision against the threshold; nothing if it cannot vary."""
    ev = page.evaluation
    if (
        page.at_one is None
        or ev.protocol.matching.criterion not in SHARES
        or not len(ev.cohort.references)
    ):
        return ""
    words = (
        f"The protocol calls a place right at {ev.protocol.matching.criterion} "
        f"{ev.protocol.matching.threshold:g}. Nobody can prove that this threshold is the right "
        "one; the figure shows the result at other thresholds."
    )
    thresholds = figure(ev, "thresholds", models=leading(ev, 5))
    return paragraph(words) + figure_block(thresholds, "fig-thresholds")
