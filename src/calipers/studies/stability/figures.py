# SPDX-License-Identifier: Apache-2.0
"""Figures of the study of stability: those of the paper, reproduced, and additional ones.

A `StabilityRun` comes in, `StudyFigure` go out, to `study.run`. Figure 5 shows single bags: how
many models call each instance, and how often each number comes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calipers.arrays import F64, Flags
from calipers.show.figures import Axis, Bars, Curves, Dots, Figure, HeatMap, Line, Scatter
from calipers.show.words import percent_text
from calipers.stability.result import StabilityResult
from calipers.studies.anomaly.figures import picture
from calipers.studies.framework import StudyFigure
from calipers.studies.stability.claims_maps import GOOD_DICE, LOW_STABILITY
from calipers.studies.stability.data import TABLE_VII
from calipers.studies.stability.experiments import (
    MOVES,
    PAIR,
    SCORES,
    STEP,
    STEPS,
    Key,
    StabilityRun,
    column_correlation,
    lines,
)
from calipers.studies.stability.networks import CHESTS, KNOWN, UNKNOWN

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
    counts = figure_2(run)
    return (
        *(() if counts is None else (counts,)),
        _limits(run),
        _ties(run),
        _scores(run),
        _thresholds(run),
        figure_5(run),
        *_against_dice(run),
        _pair(run),
        _against_auc(run),
        _figure_9(),
    )


def figure_2(run: StabilityRun) -> StudyFigure | None:
    """Return how TP, FP and FN come from a map: the bag of median DICE of the last setting."""
    for setting in reversed(run.settings):
        key = run.first_key(setting)
        cell = run.cells[key]
        if len(cell.localized.places):
            break
    else:
        return None
    dice = cell.localized.per_bag("DICE")[0]
    name = cell.localized.ids[int(np.argsort(dice)[len(dice) // 2])]
    bag = run.bags[key][run.bags[key].ids.index(name)]
    if len(bag.shape) != 2 or bag.instances is None:
        return None
    values = bag.values[0].reshape(bag.shape)
    calls, labels = values >= cell.threshold, bag.instances.reshape(bag.shape)
    kinds = calls + 2 * labels  # 0, FP 1, FN 2, TP 3
    n_tp, n_fp, n_fn = (int((kinds == kind).sum()) for kind in (3, 1, 2))
    panels = (
        _grid("(a) probabilities", values, ""),
        _grid("(b) calls at 0.5", calls, "x"),
        _grid("(c, d) reference", labels, "x"),
        _grid("(e) TP, FP and FN", np.array([0.0, 0.35, 0.5, 1.0])[kinds], "", kinds),
    )
    score = 2 * n_tp / (2 * n_tp + n_fp + n_fn)
    caption = (
        f"Bag {name} of {setting}, {key[1]}, the first of {len(cell.models)} models. TP {n_tp}, "
        f"FP {n_fp}, FN {n_fn}: DICE = 2 TP / (2 TP + FP + FN) = {score:.2f}, Jaccard index "
        f"{n_tp / (n_tp + n_fp + n_fn):.2f}. The reference is a box; an instance that it overlaps "
        "is positive, so (c) and (d) are one panel."
    )
    title = "Every instance is a hit, a false alarm, a miss or nothing"
    return StudyFigure("figure-2", title, caption, panels, rows=(2, 2))


def _grid(title: str, values: Any, mark: str, kinds: Any = None) -> HeatMap:
    """Return a map as a table of colours, with a mark or the kind in the cells that count."""
    words = []
    for r, row in enumerate(np.asarray(values, np.float64)):
        texts = []
        for c, value in enumerate(row):
            text = mark if mark and value else ""
            if kinds is not None:
                text = ("", "FP", "FN", "TP")[kinds[r, c]]
            texts.append(text)
        words.append(tuple(texts))
    names = tuple(str(k + 1) for k in range(len(words)))
    columns = tuple(str(k + 1) for k in range(len(words[0])))
    x, y = Axis("x", names=columns), Axis("y", names=names)
    return HeatMap(
        title, x, y, np.asarray(values, np.float64), "value", 0.0, 1.0, words=tuple(words)
    )


def figure_5(run: StabilityRun) -> StudyFigure:
    """Return the most stable and a median bag of every setting, and unstable but good ones."""
    panels: list[Figure] = []
    for setting in _shown_settings(run):
        key = run.first_key(setting)
        for words, place in _example_bags(run.cells[key]).items():
            panels += _bag_panels(run, key, words, place)
    caption = (
        f"Bags of {run.cells_text}, NOR or the first pooling operator of each setting, learned "
        "from bag labels only where there are both ways. Pictures: colour is the share of models "
        "that call an instance; white outlines are references that most models hit somewhere, "
        "dotted yellow ones are missed, dashed orange outlines are false alarms of most models. "
        "Bars: instances by the number of models that call them; perfectly stable models have only "
        "the first and the last bar."
    )
    title = "Stable bags have instances that none or all models call"
    return StudyFigure("figure-5", title, caption, tuple(panels), rows=(4,) * -(-len(panels) // 4))


def _shown_settings(run: StabilityRun) -> list[str]:
    """Return the settings without known instances, or all of given maps."""
    plain = [setting for setting in run.settings if not setting.endswith(KNOWN)]
    return plain or list(run.settings)


def _example_bags(cell: StabilityResult) -> dict[str, int]:
    """Return the most stable bag, the median one, and the least stable of those that are well
    localized.
    """
    order = cell.ranked("APJ")
    if not len(order):
        return {}
    bags = {"most stable": int(order[-1]), "middle": int(order[len(order) // 2])}
    if len(cell.localized.places):
        dice = dict(zip(cell.localized.places.tolist(), cell.localized.per_bag("DICE")[0]))
        good = [int(i) for i in order if dice.get(int(i), 0.0) >= GOOD_DICE]
        # As figure 5b; many settings have no such bag.
        if good and cell.per_bag("APJ")[good[0]] < LOW_STABILITY:
            bags["well localized, unstable"] = good[0]
    return bags


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
        f"below 0.5 is 0, which is {percent_text(one.zeros)} of the instances in both maps."
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
    x, y = Axis("threshold"), Axis("APJ")
    panels: list[Figure] = []
    for setting in run.settings:
        sweeps: list[Line] = []
        for (own, operator), cell in run.cells.items():
            if own == setting:
                sweeps.append(_sweep(operator, cell, len(sweeps)))
        panels.append(Curves(setting, x, y, tuple(sweeps)))
    caption = (
        "Mean APJ over positive bags, bands are 95 % intervals by resampling bags; "
        f"{run.cells_text}. The paper reports a steady decrease and prints no numbers (section "
        "IV-G)."
    )
    lower = []
    for cell in run.cells.values():
        values = [estimate.value for estimate in cell.sweep("APJ")[1]]
        lower.append(values[-1] < values[0])
    title = f"From the first to the last threshold APJ falls in {sum(lower)} of {len(lower)} cells"
    return StudyFigure("figure-threshold", title, caption, tuple(panels))


def _against_dice(run: StabilityRun) -> list[StudyFigure]:
    """Return figures 6 and 7: stability against DICE, bag by bag.

    Of our networks, canvases are figure 6 and chests, some of which are of low quality, figure 7.
    """
    settings = []
    for setting in run.settings:
        if len(run.cells[run.first_key(setting)].localized.places):
            settings.append(setting)
    groups = {"figure-6": settings[:1], "figure-7": settings[1:]}
    if not run.has_maps:
        poor = [setting for setting in settings if setting.startswith(CHESTS)]
        groups = {
            "figure-6": [setting for setting in settings if setting not in poor],
            "figure-7": poor,
        }
    figures = []
    for name, members in groups.items():
        if members:
            figures.append(_dice_figure(run, name, members))
    return figures


def _dice_figure(run: StabilityRun, name: str, settings: list[str]) -> StudyFigure:
    panels: list[Figure] = []
    correlations: dict[str, list[float]] = {score: [] for score in STABILITIES}
    n = 0
    for setting in settings:
        cell = run.cells[run.first_key(setting)]
        dice = cell.localized.per_bag("DICE")[0]
        n += len(dice)
        for score in STABILITIES:
            panels.append(_dice_panel(run, setting, score))
            r = column_correlation(cell.per_bag(score)[cell.localized.places], dice)
            correlations[score].append(r)
    caption = (
        f"{n} annotated positive bags of {run.cells_text}, NOR or the first operator; bars are "
        "standard deviations of DICE over models. Bags without a score are left out."
    )
    words = []
    for score, values in correlations.items():
        defined = [value for value in values if not np.isnan(value)]
        if defined:
            ends = dict.fromkeys(f"{value:.2f}" for value in (min(defined), max(defined)))
            words.append(f"{' to '.join(ends)} for {score}")
    kinds = " and ".join(dict.fromkeys(setting.partition(",")[0] for setting in settings))
    finding = f"correlation with DICE is {' and '.join(words)}" if words else "no scores"
    title = f"{kinds[:1].upper()}{kinds[1:]}: {finding}"
    return StudyFigure(name, title, caption, tuple(panels), rows=(2,) * -(-len(panels) // 2))


def _dice_panel(run: StabilityRun, setting: str, name: str) -> Scatter:
    cell, bag_set = run.cells[run.first_key(setting)], run.bag_set(setting)
    y = Axis("DICE", 0.0, 1.0)
    if bag_set is None or not bag_set.poor.any():
        dots = _dice_dots(cell, name, name, 0)
        return Scatter(f"{setting}: {name}", Axis(name), y, (dots,))
    kinds = {"usual pictures": ~bag_set.poor, "low quality": bag_set.poor}
    series = []
    for slot, (words, selection) in enumerate(kinds.items()):
        series.append(_dice_dots(cell, name, words, slot, selection))
    return Scatter(f"{setting}: {name}", Axis(name), y, tuple(series))


def _dice_dots(
    cell: StabilityResult, score: str, title: str, slot: int, selection: Flags | None = None
) -> Dots:
    """Return a score and DICE of the annotated bags that have the score, or of some of them."""
    stable = cell.per_bag(score)[cell.localized.places]
    mean, sd = cell.localized.per_bag("DICE")
    defined = ~np.isnan(stable)
    if selection is not None:
        defined &= selection[cell.localized.places]
    return _bars(title, stable[defined], mean[defined], sd[defined], slot)


def _bars(name: str, x: F64, y: F64, sd: F64, slot: int) -> Dots:
    return Dots(
        name, x, y, y_low=np.maximum(y - sd, 0.0), y_high=np.minimum(y + sd, 1.0), slot=slot
    )


def _pair(run: StabilityRun) -> StudyFigure:
    """Return the two simulated families that differ in place only."""
    dots = []
    for slot, name in enumerate(PAIR):
        dots.append(_dice_dots(run.families[name], "APJ", name, slot))
    panel = Scatter("DICE against APJ", Axis("APJ"), Axis("DICE", 0.0, 1.0), tuple(dots))
    area = run.families[PAIR[0]].localized.mean("AUC")
    caption = (
        f"Two simulated families on the same {len(dots[0].x)} positive bags with the same scores "
        f"of whole bags (AUC {area:.2f}), made to explain the score: all models mark the lesion, "
        "or all mark the same other place. Bars: standard deviation of DICE over models."
    )
    return StudyFigure(
        "figure-families",
        "Stable models can be wrong: synthetic data",
        caption,
        (panel,),
        rows=(1,),
    )


def _against_auc(run: StabilityRun) -> StudyFigure:
    """Return figure 8: stability against bag AUC, from this run and as printed."""
    groups = {"given maps": list(run.settings)}
    if not run.has_maps:
        groups = {
            UNKNOWN: [setting for setting in run.settings if not setting.endswith(KNOWN)],
            KNOWN: [setting for setting in run.settings if setting.endswith(KNOWN)],
        }
    panels: list[Figure] = []
    for words, settings in groups.items():
        if settings:
            panels += [_auc_panel(run, settings, name, words) for name in STABILITIES]
    panels += [_printed_panel(name) for name in STABILITIES]
    caption = (
        f"{run.cells_text.capitalize()}, one point per pooling operator, and table VII as printed "
        "(last row). Bars: standard deviations, of stability over bags, of AUC over models, or, as "
        "printed, over folds."
    )
    title = "Stability against bag AUC"
    keys = [key for key in run.cells if key in run.areas]
    if len(keys) >= 3:
        area = np.array([run.areas[key].mean() for key in keys])
        correlations = []
        for name in STABILITIES:
            score = np.array([run.cells[key][name].value for key in keys])
            correlations.append(f"{name} {column_correlation(score, area):.2f}")
        title = f"Correlation with bag AUC over {len(keys)} rows: {', '.join(correlations)}"
    return StudyFigure("figure-8", title, caption, tuple(panels), rows=(2,) * (len(panels) // 2))


def _auc_panel(run: StabilityRun, settings: list[str], name: str, words: str) -> Scatter:
    dots = []
    for slot, setting in enumerate(settings):
        operators, stable, area = [], [], []
        for (own, operator), cell in run.cells.items():
            if own == setting and (own, operator) in run.areas:
                operators.append(operator)
                stable.append((cell[name].value, cell.sd(name)))
                values = run.areas[own, operator]
                area.append((values.mean(), values.std()))
        # Mean and standard deviation in the columns, also for a setting without an AUC.
        x, y = np.array(stable).reshape(-1, 2).T, np.array(area).reshape(-1, 2).T
        dots.append(_crosses(setting.partition(",")[0], x, y, tuple(operators), slot))
    return Scatter(f"{name}, {words}", Axis(name), Axis("bag AUC"), tuple(dots))


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
