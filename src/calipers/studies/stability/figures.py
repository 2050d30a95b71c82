# SPDX-License-Identifier: Apache-2.0
"""Figures of the study of stability: those of the paper, reproduced, and additional ones.

A `StabilityRun` comes in, `StudyFigure` go out, to `study.run`. Figure 5 shows single bags: how
many models call each instance, and how often each number comes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calipers.arrays import F64
from calipers.show.figures import Axis, Bars, Curves, Dots, Figure, HeatMap, Line, Scatter
from calipers.stability.result import StabilityResult
from calipers.studies.anomaly.figures import picture
from calipers.studies.framework import StudyFigure
from calipers.studies.stability.data import TABLE_VII
from calipers.studies.stability.experiments import (
    MOVES,
    SCORES,
    STEP,
    STEPS,
    Key,
    StabilityRun,
    column_correlation,
    lines,
)
from calipers.synthetic.bags import FAMILIES

# Slots of the theme with the colours and strokes of figure 9: solid blue, solid green, dotted
# black, dotted red.
SLOTS = {"blue": 0, "green": 37, "black dotted": 27, "red dotted": 8}
MEANING = {
    "blue": "blue: n11 up, n10 down",
    "green": "green: n11 up, n00 down",
    "black dotted": "black: n10 up, n01 down",
    "red dotted": "red: n10 up, n00 down",
}
COMPARED = ("PJ", "HAPJ", "APJ", "AJ", "TAR", "Pearson", "Spearman", "Kendall-b", "Kendall-a")
STABILITIES = ("APJ", "Spearman")
# Short names of MOVES, in the same order.
SHORT = ("both, added", "neither, added", "one to both", "neither to both", "one to neither")


def study_figures(run: StabilityRun) -> tuple[StudyFigure, ...]:
    """Return all figures, in the order of the paper."""
    return (
        _limits(run),
        _ties(run),
        _scores(run),
        _thresholds(run),
        figure_5(run),
        *_against_dice(run),
        _families(run),
        _against_auc(run),
        _figure_9(),
    )


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


def _limits(run: StabilityRun) -> StudyFigure:
    """Return the lowest values over N, and the share of tables in which moves lower a score."""
    sizes = np.array(run.counting.sizes[1:], np.float64)
    curves = []
    # APO is left out: its minimum, 1 - N, would hide the others.
    for slot, name in enumerate(("PO", "HAPJ", "APJ", "AJ")):
        low = np.array([run.counting.extreme(name, int(n), low=True).value for n in sizes])
        curves.append(Line(name, sizes, low, slot=slot))
    lowest = Curves(
        "The lowest value over all tables of N instances",
        Axis("N"),
        Axis("lowest value", -1.05, 0.05),
        tuple(curves),
    )
    falls = np.empty((len(MOVES), len(SCORES)))
    for row, move in enumerate(MOVES):
        for column, name in enumerate(SCORES):
            effect = run.counting.move_effect(name, move)
            falls[row, column] = effect.falls / effect.n
    names = Axis("move", names=SHORT)
    monotone = HeatMap(
        "Share of tables in which the score falls",
        Axis("score", names=SCORES),
        names,
        falls,
        "share",
        0.0,
        0.5,
    )
    caption = (
        f"All {len(run.counting.tables)} tables of 1 to {run.counting.most} instances. Left: APO "
        "is not shown, its lowest value is 1 - N. APJ and AJ take their minima at every even N. "
        "Right: only one move lowers scores: an instance that neither called is now called by "
        "both, while N stays."
    )
    return StudyFigure(
        "figure-limits",
        "Limits do not fade with N, and scores are monotone under all moves but one",
        caption,
        (lowest, monotone),
        rows=(2,),
    )


def _ties(run: StabilityRun) -> StudyFigure:
    one = run.ties
    variants = {
        "Spearman, formula of table I": one.formula,
        "Spearman": one.spearman,
        "tau-a": one.tau_a,
        "tau-b": one.tau_b,
    }
    kinds = ("without ties", "with ties")
    heights = np.empty((len(kinds), len(variants)))
    for row, kind in enumerate(kinds):
        heights[row] = [values[kind] for values in variants.values()]
    panel = Bars(
        "One pair of maps, four numbers",
        Axis("variant", names=tuple(variants)),
        Axis("correlation", 0.0, 1.0),
        kinds,
        heights,
    )
    caption = (
        "Two simulated maps of 256 instances, a spot on a noisy background; with ties: everything "
        f"below 0.5 is 0, which is {one.zeros:.0%} of the instances in both maps."
    )
    taus = one.tau_a["with ties"], one.tau_b["with ties"]
    title = f"With ties tau-a is {taus[0]:.2f} and tau-b {taus[1]:.2f}: the variant must be named"
    return StudyFigure("figure-ties", title, caption, (panel,), rows=(1,))


def _scores(run: StabilityRun) -> StudyFigure:
    """Return the correlations between scores over all bags of all cells."""
    columns = {}
    for name in COMPARED:
        columns[name] = np.concatenate([cell.per_bag(name) for cell in run.cells.values()])
    n = len(columns["APJ"])
    axis = Axis("score", names=COMPARED)
    panels = []
    for method in ("pearson", "spearman"):
        table = np.empty((len(COMPARED), len(COMPARED)))
        for row, a in enumerate(COMPARED):
            table[row] = [column_correlation(columns[a], columns[b], method) for b in COMPARED]
        title = f"{method.capitalize()} correlation over bags"
        panels.append(HeatMap(title, axis, axis, table, "correlation"))
    both = (
        column_correlation(columns["APJ"], columns["AJ"], "spearman"),
        column_correlation(columns["Kendall-b"], columns["Spearman"], "spearman"),
    )
    caption = (
        f"{n} positive bags of {run.cells_text}, each the mean over pairs of models, threshold "
        "0.5. The paper states 0.98 for APJ with AJ and 0.99 for Kendall's tau with Spearman "
        "(section IV-F). The first is an identity: APJ = AJ / (2 - AJ)."
    )
    title = f"APJ and AJ rank bags alike ({both[0]:.3f}), as tau-b and Spearman do ({both[1]:.3f})"
    return StudyFigure("figure-scores", title, caption, tuple(panels), rows=(2,))


def _sweep(name: str, result: StabilityResult, slot: int) -> Line:
    thresholds, estimates = result.sweep("APJ")
    value = np.array([estimate.value for estimate in estimates])
    low = np.array([estimate.low for estimate in estimates])
    high = np.array([estimate.high for estimate in estimates])
    return Line(name, thresholds, value, low, high, slot)


def _thresholds(run: StabilityRun) -> StudyFigure:
    first = tuple(_sweep(name, run.families[name], slot) for slot, name in enumerate(FAMILIES))
    x, y = Axis("threshold"), Axis("APJ")
    panels: list[Figure] = [Curves("Families that differ in place only", x, y, first)]
    for data in dict.fromkeys(key[0] for key in run.cells):
        sweeps: list[Line] = []
        for (data_set, operator), cell in run.cells.items():
            if data_set == data:
                sweeps.append(_sweep(operator, cell, len(sweeps)))
        name = data if run.has_maps else f"Like {data}"
        panels.append(Curves(name, x, y, tuple(sweeps)))
    caption = (
        "Mean APJ over positive bags, bands are 95 % intervals by resampling bags; "
        f"{run.cells_text}. The paper reports a steady decrease and prints no numbers (section "
        "IV-G)."
    )
    title = (
        "Stability falls with the threshold where the background is dark, and peaks in between "
        "where it is not"
    )
    title = "Stability over thresholds" if run.has_maps else title
    return StudyFigure(
        "figure-threshold",
        title,
        caption,
        tuple(panels),
        rows=(2,) * -(-len(panels) // 2),
    )


def _against_dice(run: StabilityRun) -> list[StudyFigure]:
    """Return figures 6 and 7: stability against DICE, bag by bag, of data sets with annotations."""
    from calipers.studies.stability.claims_maps import annotated_cells

    figures = []
    for k, (data, cell) in enumerate(annotated_cells(run).items()):
        panels = tuple(_dice_panel(cell, name) for name in STABILITIES)
        dice = cell.localized.per_bag("DICE")[0]
        r = []
        for score in STABILITIES:
            r.append(column_correlation(cell.per_bag(score)[cell.localized.places], dice))
        name, source = data, data
        if not run.has_maps:
            name, source = f"Like {data}", f"the simulated family like {data}, NOR"
        caption = (
            f"{len(cell.localized.places)} annotated positive bags of {source}; bars are standard "
            "deviations of DICE over models. Bags without a score are left out."
        )
        title = f"{name}: correlation with DICE is {r[0]:.2f} for APJ and {r[1]:.2f} for Spearman"
        number = f"figure-{6 + k}" if k < 2 else f"figure-7-{k}"
        figures.append(StudyFigure(number, title, caption, panels, rows=(2,)))
    return figures


def _dice_panel(cell: StabilityResult, name: str) -> Scatter:
    dots = _dice_dots(cell, name, name, 0)
    return Scatter(name, Axis(name), Axis("DICE", 0.0, 1.0), (dots,))


def _dice_dots(cell: StabilityResult, score: str, title: str, slot: int) -> Dots:
    """Return a score and DICE of the annotated bags that have the score."""
    stable = cell.per_bag(score)[cell.localized.places]
    mean, sd = cell.localized.per_bag("DICE")
    defined = ~np.isnan(stable)
    return _bars(title, stable[defined], mean[defined], sd[defined], slot)


def _bars(name: str, x: F64, y: F64, sd: F64, slot: int) -> Dots:
    return Dots(
        name, x, y, y_low=np.maximum(y - sd, 0.0), y_high=np.minimum(y + sd, 1.0), slot=slot
    )


def _families(run: StabilityRun) -> StudyFigure:
    """Return the three families that differ in place only."""
    dots = []
    for slot, name in enumerate(FAMILIES):
        dots.append(_dice_dots(run.families[name], "APJ", name, slot))
    panel = Scatter("DICE against APJ", Axis("APJ"), Axis("DICE", 0.0, 1.0), tuple(dots))
    area = [run.families[name].localized.mean("AUC") for name in FAMILIES]
    caption = (
        f"Three simulated families on the same {len(dots[0].x)} positive bags with the same "
        f"scores of whole bags (AUC {area[0]:.2f}): all models mark the lesion, all mark the same "
        "other place, or each marks its own. Bars: standard deviation of DICE over models."
    )
    return StudyFigure(
        "figure-families",
        "Stable models can be wrong; unstable ones cannot all be right",
        caption,
        (panel,),
        rows=(1,),
    )


def _against_auc(run: StabilityRun) -> StudyFigure:
    """Return figure 8: stability against bag AUC, from this run and as printed."""
    panels = [_auc_panel(run, name) for name in STABILITIES]
    if not run.has_maps:
        panels += [_printed_panel(name) for name in STABILITIES]
    title = "Bag AUC is high everywhere, stability is not"
    source = "Simulated families (above) and table VII as printed (below)"
    over = "models (above) and folds (below)"
    if run.has_maps:
        title, source, over = "Stability against bag AUC", "Given maps", "models"
    caption = (
        f"{source}, one point per pooling operator. Bars: standard deviations, of stability over "
        f"bags, of AUC over {over}."
    )
    return StudyFigure("figure-8", title, caption, tuple(panels), rows=(2,) * (len(panels) // 2))


def _auc_panel(run: StabilityRun, name: str) -> Scatter:
    dots = []
    for slot, data in enumerate(dict.fromkeys(key[0] for key in run.cells)):
        operators, stable, area = [], [], []
        for (data_set, operator), cell in run.cells.items():
            if data_set == data and cell.localized.has("AUC"):
                operators.append(operator)
                stable.append((cell[name].value, cell.sd(name)))
                area.append((cell.localized.mean("AUC"), cell.localized.sd("AUC")))
        # Mean and standard deviation in the columns, also for a data set without an AUC.
        x, y = np.array(stable).reshape(-1, 2).T, np.array(area).reshape(-1, 2).T
        dots.append(_crosses(data, x, y, tuple(operators), slot))
    source = "given" if run.has_maps else "simulated"
    return Scatter(f"{name}, {source}", Axis(name), Axis("bag AUC"), tuple(dots))


def _printed_panel(name: str) -> Scatter:
    column = "apj" if name == "APJ" else "spearman"
    # data set -> operators, and (mean, SD) of the score and of the AUC
    operators: dict[str, list[str]] = {}
    scores: dict[str, list[Any]] = {}
    areas: dict[str, list[Any]] = {}
    for (data, operator), row in TABLE_VII.items():
        operators.setdefault(data, []).append(operator)
        scores.setdefault(data, []).append(getattr(row, column))
        areas.setdefault(data, []).append(row.auc)
    dots = []
    for slot, data in enumerate(operators):
        x, y = np.array(scores[data]).T, np.array(areas[data]).T
        dots.append(_crosses(data, x, y, tuple(operators[data]), slot))
    return Scatter(f"{name}, printed", Axis(name), Axis("bag AUC"), tuple(dots))


def _crosses(name: str, x: F64, y: F64, names: tuple[str, ...], slot: int) -> Dots:
    x_ends, y_ends = (x[0] - x[1], x[0] + x[1]), (y[0] - y[1], np.minimum(y[0] + y[1], 1.0))
    return Dots(name, x[0], y[0], *x_ends, *y_ends, names=names, slot=slot, quiet=True)


def _figure_9() -> StudyFigure:
    moved_instances = STEP * np.arange(STEPS + 1, dtype=np.float64)
    panels = []
    for name in ("APJ", "AJ"):
        curves = []
        for line, values in lines(name).items():
            curves.append(Line(MEANING[line], moved_instances, values, slot=SLOTS[line]))
        y = Axis(name, -0.55, 0.55)
        panels.append(Curves(name, Axis("instances moved"), y, tuple(curves)))
    caption = (
        "Start: 50 instances of each kind. Steps of 5 instances, N = 200 throughout. Solid: "
        "positive agreement grows; dotted: it is fixed. The paper shows APJ; AJ behaves alike, "
        "being an increasing function of it."
    )
    return StudyFigure(
        "figure-9",
        "More positive agreement can lower the score (green)",
        caption,
        tuple(panels),
        rows=(2,),
    )
