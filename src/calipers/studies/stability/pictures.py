# SPDX-License-Identifier: Apache-2.0
"""Figure 5: single bags, how many models call each instance, and how often each number comes."""

from __future__ import annotations

import numpy as np

from calipers.plots.figures import Axis, Bars, Figure
from calipers.stability import StabilityResult
from calipers.studies.anomaly.pictured import picture
from calipers.studies.framework import StudyFigure
from calipers.studies.stability.found import Key, StabilityRun


def figure_5(run: StabilityRun) -> StudyFigure:
    """Return the most stable and a median bag of the first operator of every data set."""
    panels: list[Figure] = []
    for data in dict.fromkeys(key[0] for key in run.cells):
        key = next(key for key in run.cells if key[0] == data)
        for words, place in _example_bags(run.cells[key]).items():
            panels += _bag_panels(run, key, words, place)
    caption = (
        f"Bags of {run.cells_text}, the first pooling operator of each data set. Pictures (maps "
        "of two axes): colour is the share of models that call an instance; white outlines are "
        "references that most models hit somewhere, dotted yellow ones are missed, dashed orange "
        "outlines are false alarms of most models. Bars: instances by the number of models that "
        "call them; perfectly stable models have only the first and the last bar."
    )
    title = "Stable bags have instances that none or all models call"
    return StudyFigure("figure-5", title, caption, tuple(panels), rows=(4,) * -(-len(panels) // 4))


def _example_bags(cell: StabilityResult) -> dict[str, int]:
    """Return the indices of the most stable bag and of the median one."""
    order = cell.ranked("APJ")
    if not len(order):
        return {}
    return {"most stable": int(order[-1]), "middle": int(order[len(order) // 2])}


def _bag_panels(run: StabilityRun, key: Key, words: str, place: int) -> list[Figure]:
    cell, source = run.cells[key], run.bags[key]
    name = cell.plan.ids[place]
    bag = source[source.ids.index(name)]
    # How many models call each instance.
    counts = (bag.values >= cell.threshold).sum(axis=0)
    k = len(cell.models)
    note = (
        f"APJ {cell.per_bag('APJ')[place]:.2f}, Spearman "
        f"{cell.per_bag('Spearman')[place]:.2f}{_dice(cell, name)}"
    )
    title = f"{key[0]}, {words}"
    panels: list[Figure] = []
    if len(bag.shape) == 2:
        inside = np.zeros(bag.shape) if bag.instances is None else bag.instances.reshape(bag.shape)
        panels.append(picture(title, inside, (counts / k).reshape(bag.shape), note=note))
    share = np.bincount(counts, minlength=k + 1)[None] / len(counts)
    axis = Axis("models that call an instance", names=tuple(str(n) for n in range(k + 1)))
    panels.append(
        Bars(title, axis, Axis("share of instances", 0.0, 1.0), ("instances",), share, note=note)
    )
    return panels


def _dice(cell: StabilityResult, name: str) -> str:
    if name not in cell.localized.ids:
        return ""
    mean, sd = cell.localized.per_bag("DICE")
    at = cell.localized.ids.index(name)
    return f", DICE {mean[at]:.2f} ± {sd[at]:.2f}"
