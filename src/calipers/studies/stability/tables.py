# SPDX-License-Identifier: Apache-2.0
"""Tables of the study of stability: those of the paper, with the printed numbers beside ours.

A `StabilityRun` comes in, tables go out in the order of the paper, to `study.run`. Some need no
run: the binary examples and the last steps are computed from the printed counts.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from calipers.agreement.raters import agreement_scores
from calipers.show.table import Amount, Cell, Kind, Table, same_kind
from calipers.show.words import percent_text
from calipers.stability.result import StabilityResult
from calipers.studies.framework import counterparts_table
from calipers.studies.kept_archives import package_table
from calipers.studies.stability.data import (
    BINARY,
    LAST_STEPS,
    LSE_SMALL,
    NOR,
    PASCAL,
    ROW_TOTALS,
    TABLE_IV,
    TABLE_V,
    TABLE_V_EFFUSION,
    TABLE_VI,
    TABLE_VII,
    XRAY,
)
from calipers.studies.stability.experiments import (
    LINES,
    MOVES,
    SCORES,
    Extreme,
    Key,
    StabilityRun,
    last_step,
    mean_and_sd,
)
from calipers.studies.stability.networks import CHESTS, CLOTHES, DIGITS, KNOWN, SHARES

OURS, PRINTED = "this run", "printed"
# What makes a bag of ours positive.
TARGET_WORDS = {DIGITS: "a 0", CLOTHES: "an ankle boot", CHESTS: "a mass"}
NIH_ENTRIES, NIH_BOXES = "Data_Entry_2017_v2020.csv.gz", "BBox_List_2017.csv.gz"
# As the paper states them; _limits puts the counted ones beside.
LIMITS = {
    "PJ": "-",
    "PO": "[0, 1]",
    "APO": "[1 - N, 1]",
    "HAPJ": "[0, 1]",
    "APJ": "[-0.333, 1]",
    "AJ": "[-1, 1]",
}
# What the paper has, and where it is on the page.
COUNTERPARTS = (
    ("figure 1 (types of annotation)", "not here: an illustration without numbers"),
    ("figure 2 (TP, FP and FN of a map)", "figure 2, on a map of a trained network"),
    ("figure 3 (the network)", "not here: our networks are smaller, see Methods and Settings"),
    ("figure 4 (five classifiers on subsets)", "not here: a scheme; it is how ours were trained"),
    ("figure 5 (bags)", "figure 5, maps of this run's networks; the archive has no pictures"),
    ("figures 6 and 7 (against DICE)", "figures 6 and 7, data sets of this run"),
    ("figure 8 (against AUC)", "figure 8"),
    ("figure 9 and table IX (simulation)", "figure 9 and table IX, exact"),
    ("table I (limits of scores)", "table I, counted over all tables of up to 24 instances"),
    ("tables II and III (examples)", "tables II and III, with the printed values"),
    ("table IV (populations)", "table IV: ours, as printed, and NIH's where installed"),
    ("tables V to VII (performance, stability)", "tables V to VII, ours beside the printed ones"),
    ("table VIII (training settings)", "plans of calipers train, such as xray-cardiomegaly-max"),
)


def study_tables(run: StabilityRun) -> tuple[Table, ...]:
    """Return all tables, in the order of the paper."""
    supervision = _supervision(run)
    return (
        _limits(run),
        _moves(run),
        _binary(),
        _populations(run),
        _performance(run),
        _annotated(run),
        _operators(run),
        _split(run),
        *(() if supervision is None else (supervision,)),
        _last_steps(),
        _misprints(run),
        counterparts_table(COUNTERPARTS),
    )


def _limits(run: StabilityRun) -> Table:
    """Return the extremes of every score over all tables of the largest N."""
    rows: list[tuple[Cell, ...]] = []
    n = run.counting.most
    for name in SCORES:
        low = run.counting.extreme(name, n, low=True)
        high = run.counting.extreme(name, n, low=False)
        missing = int(np.isnan(run.counting.value(name)).sum())
        ends = (low.value, _places_text(low), high.value, _places_text(high))
        rows.append((name, LIMITS[name], *ends, missing))
    columns = (
        "score",
        "limits in the paper",
        "lowest",
        "at (n00, n01, n10, n11)",
        "highest",
        "at",
        "tables undefined",
    )
    note = (
        f"All tables of N = {n} instances; undefined: of the {len(run.counting.tables)} tables of "
        f"1 to {n} instances. The lowest values of APJ and AJ are those of every even N, those of "
        "APO fall with N."
    )
    return Table(
        columns,
        tuple(rows),
        name="table-1",
        title="Table I: limits of the scores, by counting",
        notes=(note,),
    )


def _places_text(extreme: Extreme) -> str:
    """Return the first table that has an extreme value, and how many others have it."""
    first, n = _counts_text(extreme.tables[0]), len(extreme.tables)
    return f"{first} and {n - 1} more" if n > 1 else first


def _counts_text(counts: Sequence[float]) -> str:
    return f"({', '.join(str(int(count)) for count in counts)})"


def _moves(run: StabilityRun) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for move in MOVES:
        for name in SCORES:
            one = run.counting.move_effect(name, move)
            rows.append(
                (
                    move,
                    name,
                    one.n,
                    one.rises,
                    one.stays,
                    one.falls,
                    one.worst,
                    _counts_text(one.example) if one.falls else "",
                )
            )
    columns = (
        "what happens to an instance",
        "score",
        "tables",
        "rises",
        "stays",
        "falls",
        "largest fall",
        "from",
    )
    note = (
        "Every table of the same sizes in which the move can be made and the score is defined "
        "before and after. The first two add an instance, so N grows; the others keep N. From: "
        "(n00, n01, n10, n11)."
    )
    return Table(
        columns,
        tuple(rows),
        name="table-1-moves",
        title="Table I: where scores are monotone",
        notes=(note,),
    )


def _binary() -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, (counts, aj, apj) in BINARY.items():
        ours = agreement_scores(*counts)
        n00, n01, n10, n11 = counts
        # Printed and computed totals side by side, so that a misprint shows.
        totals = " / ".join(map(str, ROW_TOTALS[name])), f"{n00 + n01} / {n10 + n11}"
        scores = (aj, ours["AJ"], apj, ours["APJ"], ours["positive_share"], ours["TAR"])
        more = tuple(ours[score] for score in ("PAR", "NAR", "PABAK", "AC1"))
        rows.append((name, _counts_text(counts), *totals, *scores, *more))
    columns = (
        *("table", "(n00, n01, n10, n11)", "row totals, printed", "row totals"),
        *("AJ, printed", "AJ", "APJ, printed", "APJ", "TAR as printed (eq. 20)", "TAR"),
        *("PAR", "NAR", "PABAK", "AC1"),
    )
    note = (
        "Scores agree to the two digits printed. Misprints: a row total of IIIb, 55 for 45, and "
        "equation 20, which leaves n00 out of the total agreement. IIa and IIb share n11 but not "
        "the total agreement; PABAK and AC1 follow the latter."
    )
    return Table(columns, tuple(rows), name="table-2-3", title="Tables II and III", notes=(note,))


def _last_steps() -> Table:
    rows: list[tuple[Cell, ...]] = []
    for line in LINES:
        counts = last_step(line)
        ours = agreement_scores(*counts)
        paper = _counts_text(LAST_STEPS[line]) if line in LAST_STEPS else "-"
        rows.append(
            (line, paper, _counts_text(counts), ours["APJ"], ours["AJ"], ours["PAR"], ours["TAR"])
        )
    columns = (
        "line of figure 9",
        "printed (n00, n01, n10, n11)",
        "ours",
        "APJ",
        "AJ",
        "PAR",
        "TAR",
    )
    return Table(
        columns, tuple(rows), name="table-9", title="Table IX: the last step of the simulation"
    )


def _performance(run: StabilityRun) -> Table:
    """Return table V: bag AUC, DICE and accuracy of NOR, beside the printed rows."""
    rows: list[tuple[Cell, ...]] = []
    for setting in run.settings:
        key = run.first_key(setting)
        cells: list[Cell] = [OURS, setting, key[1], _area(run, key)]
        for name in ("DICE", "accuracy"):
            cells.append(_models(run.cells[key], name))
        rows.append(tuple(cells))
    paper = {**TABLE_V, f"{XRAY} (effusion)": TABLE_V_EFFUSION}
    for data, values in paper.items():
        cells = [PRINTED, data, NOR, *(_mean_cell(*pair) for pair in values)]
        rows.append(tuple(cells))
    columns = ("source", "data set", "operator", "AUC", "DICE", "accuracy")
    note = (
        "Mean and standard deviation (ddof 0) over five models on subsets of 95 %, all tested on "
        "the same bags; printed: over five folds, which would take five times as many networks. "
        "Accuracy: Jaccard index of at least 0.1 against the reference. The printed references of "
        "Li et al. are not repeated here."
    )
    return Table(columns, tuple(rows), name="table-5", title="Table V: performance", notes=(note,))


def _mean_cell(mean: float, sd: float) -> Cell:
    """Return a mean with its standard deviation; nothing where the paper has a dash."""
    return None if math.isnan(mean) else Amount(mean, spread=sd)


def _area(run: StabilityRun, key: Key) -> Cell:
    if key not in run.areas:
        return None
    return _mean_cell(float(run.areas[key].mean()), float(run.areas[key].std()))


def _models(cell: StabilityResult, name: str) -> Cell:
    if not cell.localized.has(name):
        return None
    return _mean_cell(cell.localized.mean(name), cell.localized.sd(name))


def _cell(value: float) -> Cell:
    return None if math.isnan(value) else value


def _annotated(run: StabilityRun) -> Table:
    """Return table VI: stability and DICE on annotated bags, beside the printed rows."""
    rows: list[tuple[Cell, ...]] = []
    for setting in run.settings:
        key = run.first_key(setting)
        cell = run.cells[key]
        places = cell.localized.places
        if not len(places):
            continue
        cells: list[Cell] = [OURS, setting, key[1], len(places)]
        values_of = [cell.per_bag(name)[places] for name in ("APJ", "Spearman")]
        values_of.append(cell.localized.per_bag("DICE")[0])
        cells += [_mean_cell(*mean_and_sd(values)) for values in values_of]
        rows.append(tuple(cells))
    for data, summary in TABLE_VI.items():
        cells = [PRINTED, data, NOR, summary.bags]
        cells += [_mean_cell(*pair) for pair in summary.scores]
        rows.append(tuple(cells))
    headings = ("source", "data set", "operator", "bags", "APJ", "Spearman", "DICE")
    note = (
        "Mean and standard deviation (ddof 0) over annotated positive bags; DICE of a bag is the "
        "mean over models."
    )
    return Table(
        headings,
        tuple(rows),
        name="table-6",
        title="Table VI: stability and DICE on annotated bags",
        notes=(note,),
    )


def _operators(run: StabilityRun) -> Table:
    """Return the first half of table VII: stability of every cell, beside the printed rows."""
    rows: list[tuple[Cell, ...]] = []
    for key, cell in run.cells.items():
        cells: list[Cell] = [OURS, *key, cell.n_used, cell.undefined("APJ").pairs]
        for name in ("APJ", "Spearman"):
            cells += [cell[name], _cell(cell.sd(name))]
        rows.append(tuple(cells))
    for key, row in TABLE_VII.items():
        rows.append((PRINTED, *key, None, None, *row.apj, *row.spearman))
    columns = (
        *("source", "data set", "operator", "positive bags", "pairs without APJ"),
        *("APJ", "SD of APJ", "Spearman", "SD of Spearman"),
    )
    note = (
        "Mean over positive bags, 95 % interval by resampling bags, standard deviation over bags "
        "(ddof 0). Our data sets are not those of the paper: compare orders, not numbers."
    )
    notes = [note, *_incomplete(run)]
    return Table(
        columns,
        tuple(rows),
        kinds=("name", "text", "text", "count", "count", *same_kind("value", 4)),
        name="table-7",
        title="Table VII: stability by pooling operator",
        notes=tuple(notes),
    )


def _incomplete(run: StabilityRun) -> list[str]:
    """Return a note on cells whose networks were not all trained, if there are any."""
    if run.archive is None or not run.archive.record["incomplete"]:
        return []
    words = [", ".join(key) for key in run.archive.record["incomplete"]]
    return [f"Not shown, because their networks were not all trained: {'; '.join(words)}."]


def _split(run: StabilityRun) -> Table:
    """Return the second half of table VII: performance, with the printed columns of one split."""
    rows: list[tuple[Cell, ...]] = []
    for key, cell in run.cells.items():
        rows.append((OURS, *key, _area(run, key), _models(cell, "DICE"), None, None))
    for key, row in TABLE_VII.items():
        means = [_mean_cell(*row.auc), _mean_cell(*row.dice)]
        rows.append((PRINTED, *key, *means, row.split_auc, _cell(row.split_dice)))
    columns = ("source", "data set", "operator", "AUC", "DICE", "split AUC", "split DICE")
    note = (
        "Ours: mean and standard deviation (ddof 0) over five models, all tested on the bags on "
        "which stability was measured, so that there is no other split. Printed: over five folds; "
        "split: the fold of the stability."
    )
    return Table(
        columns,
        tuple(rows),
        kinds=("name", "text", "text", *same_kind("value", 4)),
        name="table-7-performance",
        title="Table VII: performance by pooling operator",
        notes=(note,),
    )


def _supervision(run: StabilityRun) -> Table | None:
    """Return what known instances change, for every data set and operator."""
    rows: list[tuple[Cell, ...]] = []
    for (setting, operator), network in run.networks.rows.items():
        other = run.networks.rows.get((f"{setting}, {KNOWN}", operator))
        if other is None:
            continue
        # One column of names: twelve of numbers leave no room for two.
        cells: list[Cell] = [f"{setting}, {operator}"]
        for name in ("apj", "spearman", "auc", "dice"):
            before, after = getattr(network, name), getattr(other, name)
            cells += [_cell(before), _cell(after), _cell(after - before)]
        rows.append(tuple(cells))
    if not rows:
        return None
    columns: list[str] = ["data set, operator"]
    kinds: list[Kind] = ["name"]
    for name in ("APJ", "Spearman", "AUC", "DICE"):
        columns += [name, f"{name}, known", f"{name} change"]
        kinds += ["value", "value", "signed"]
    note = (
        f"Known: the instances of {percent_text(SHARES[KNOWN])} of the positive training bags are "
        "known, and count five times in the loss (section IV of the paper and Li et al.). Means "
        "over bags and models; table VII has the intervals."
    )
    return Table(
        tuple(columns),
        tuple(rows),
        kinds=tuple(kinds),
        name="table-7-known",
        title="What known instances change",
        notes=(note,),
    )


def _populations(run: StabilityRun) -> Table:
    """Return table IV: bags of every data set, with those of NIH's own table if it is installed."""
    rows: list[tuple[Cell, ...]] = []
    if run.archive is not None:
        settings = run.archive.record["settings"]
        for data, bags in run.archive.bags.items():
            half = settings["n_train"] // 2
            n = int(bags.positive.sum())
            test = f"{n}+, {len(bags.positive) - n}-"
            known_bags = round(SHARES[KNOWN] * half)
            train = f"{half}+, {settings['n_train'] - half}-"
            rows.append((OURS, data, TARGET_WORDS[data], train, test, f"{known_bags} and {n}"))
    folder = nih_tables()
    for (data, name), (positive, negative, annotated) in TABLE_IV.items():
        boxes = "" if annotated is None else str(annotated)
        rows.append((PRINTED, data, name, f"{positive}+, {negative}-", "", boxes))
        if folder is not None and data == XRAY:
            with package_table(folder, "the tables of NIH ChestX-ray8", "torchxrayvision==1.5.7"):
                own = nih_population(folder, name)
            words = f"{own[0]}+, {own[1]}-"
            rows.append(("NIH's table", data, name, words, "", str(own[2])))
    note = "Annotated: with known instances in training, and test bags. "
    if folder is None:
        note += (
            "NIH's own table is not installed: pip install --no-deps torchxrayvision==1.5.7 "
            "(Apache-2.0; the NIH table is free to use) adds its rows."
        )
    else:
        note += (
            "NIH's table counts all images of patients with at least one positive image, as the "
            "paper describes, in the edition that torchxrayvision ships."
        )
    columns = ("source", "data set", "class", "bags", "test bags", "annotated")
    title = "Table IV: populations"
    return Table(columns, tuple(rows), name="table-4", title=title, notes=(note,))


def nih_tables() -> Path | None:
    """Return the folder of the tables of an installed torchxrayvision, without importing it."""
    spec = find_spec("torchxrayvision")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations))) / "data"
    names = (NIH_ENTRIES, NIH_BOXES)
    return folder if all((folder / name).is_file() for name in names) else None


def nih_population(folder: Path, finding: str) -> tuple[int, int, int]:
    """Return positive and negative images of patients with a finding, and images with boxes."""
    patients: dict[str, list[bool]] = {}
    with gzip.open(folder / NIH_ENTRIES, "rt", encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            shows = finding in row["Finding Labels"].split("|")
            patients.setdefault(row["Patient ID"], []).append(shows)
    ill = [shows for shows in patients.values() if any(shows)]
    positive = sum(sum(shows) for shows in ill)
    total = sum(len(shows) for shows in ill)
    with gzip.open(folder / NIH_BOXES, "rt", encoding="utf-8", newline="") as stream:
        boxed = {
            row["Image Index"] for row in csv.DictReader(stream) if row["Finding Label"] == finding
        }
    return positive, total - positive, len(boxed)


def _misprints(run: StabilityRun) -> Table:
    """Return the misprints of the paper."""
    one, split = run.ties, TABLE_VII[PASCAL, LSE_SMALL]
    rows: tuple[tuple[Cell, ...], ...] = (
        ("table IIIb", "row total 55", "45", "its cells are 5 and 40, and rows add up to 100"),
        (
            "equation 20",
            "TAR = n11 / N",
            "(n11 + n00) / N",
            "the total agreement counts both kinds; 0.4 against 0.8 in IIa",
        ),
        (
            *(
                "table I, Spearman",
                "1 - 6 sum d^2 / (N (N^2 - 1)) and a root",
                "the correlation of midranks",
            ),
            f"wrong with ties: {one.formula['with ties']:.3f} against "
            f"{one.spearman['with ties']:.3f} on a map of zeros and a spot",
        ),
        (
            *("table I, Kendall", "over all pairs", "tau-b, or say tau-a"),
            f"ties: tau-a {one.tau_a['with ties']:.3f}, tau-b {one.tau_b['with ties']:.3f} on the "
            "same map",
        ),
        (
            "equation 23",
            "prod over S of p, prod over the rest of p",
            "1 - p over the rest",
            "else the rest should be positive too",
        ),
        (
            "section III-A3",
            "at least N - (n*1 + n1*) overlap",
            "n*1 + n1* - N",
            "a sign; equation 17 has it right",
        ),
        (
            *(
                "table VII, Pascal VOC, LSE r=0.1",
                f"split DICE {split.split_dice:.2f}",
                "perhaps 0.23",
            ),
            f"the folds have {split.dice[0]:.2f} ± {split.dice[1]:.2f}, and all other splits lie "
            "within 0.04 of theirs",
        ),
        (
            *(
                "tables V and VII, X-Ray, NOR",
                "AUC 0.90, DICE 0.72; AUC 0.88, DICE 0.75",
                "one of them",
            ),
            "both are said to be five-fold cross-validation of the same model",
        ),
    )
    columns = ("where", "printed", "should be", "why")
    return Table(columns, rows, name="table-misprints", title="Misprints of the paper")
