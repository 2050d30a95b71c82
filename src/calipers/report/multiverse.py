# SPDX-License-Identifier: Apache-2.0
"""The page and the folder of a multiverse: what it says, its figures, every share, and how to get
it again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from calipers.plots.figures import Cell, Table
from calipers.plots.multiverse import FIGURES
from calipers.plots.svg import svg
from calipers.report.answer import (
    answer_page,
    answer_section,
    as_bytes,
    further,
    made_by,
    paired,
    reproduced,
)
from calipers.report.markup import data_table, details, figure_block, paragraph
from calipers.report.naming import Short
from calipers.results.delimited import delimited
from calipers.results.files import check_folder, staged_folder, write_atomically
from calipers.sensitivity import Multiverse
from calipers.sensitivity.robustness import Robustness
from calipers.sensitivity.wording import described, spoken
from calipers.statistics.weights import plural

PAGE, DOCUMENT, ROWS = "multiverse.html", "multiverse.json", "multiverse.csv"
OURS = re.compile(rf"multiverse\.(html|json|csv)|multiverse-({'|'.join(FIGURES)})\.svg")
SVG_WIDTH = 560
TITLE = "How far does the order hang on choices?"
METHOD = (
    "Every model is evaluated under every combination of the choices, on the same images. A choice that has no effect "
    "beside the others is left out, so that nothing counts twice. Models are compared within a configuration only; a "
    "configuration in which a model has no value is left out. No combination is better than another here: the shares "
    "describe the grid, they are no probabilities."
)
REPLICATES = (
    "Intervals come of {replicates} bootstrap replicates over {unit}: all configurations of a replicate see the same "
    "weights, and the shares are computed anew in each (seed {seed})."
)


def write_multiverse(
    result: Multiverse, folder: Path, *, force: bool = False, command: Sequence[str] = ()
) -> Path:
    """Write page, document, rows and figures, all of them or none; return the page.

    Files of an earlier multiverse in the folder are replaced or removed, others stay.
    """
    check_folder(folder, force=force)
    old = (
        [file.name for file in folder.iterdir() if OURS.fullmatch(file.name)]
        if folder.is_dir()
        else []
    )
    display = _bearable(result)
    with staged_folder(folder, owned=old) as stage:
        for name in FIGURES:
            picture = svg(display.figure(name), width=SVG_WIDTH, name=name, standalone=True)
            write_atomically(stage / f"multiverse-{name}.svg", picture + "\n")
        rows = result.rows()
        write_atomically(
            stage / ROWS,
            as_bytes(delimited({name: [row[name] for row in rows] for name in rows[0]})),
        )
        write_atomically(stage / PAGE, multiverse_page(display, command))
        write_atomically(
            stage / DOCUMENT,
            json.dumps(result.as_dict() | made_by(command), allow_nan=False) + "\n",
        )
    return folder / PAGE


def _bearable(result: Multiverse) -> Multiverse:
    """Return the multiverse with names of models that a page can show and a reader tell apart."""
    names = Short(result.models)
    return replace(result, models=tuple(map(names.name, result.models)))


def multiverse_page(result: Multiverse, command: Sequence[str] = ()) -> str:
    """Return the page as HTML; every text is escaped."""
    parts = [
        ("figures", "Figures", figures(result)),
        ("levels", "Who wins where", levels_table(result)),
        ("methods", "Methods", _methods(result)),
        ("reproduce", "Reproduce", reproduced(command)),
    ]
    return answer_page(TITLE, _summary_line(result), _answer(result), parts)


def _summary_line(result: Multiverse) -> str:
    undefined_note = (
        f"; {result.n_undefined} more have no value for some model" if result.n_undefined else ""
    )
    return (
        f"{len(result.models)} models, {result.n_images:,} images, {result.n_references:,} references; "
        f"{len(result.each):,} configurations of {result.n_possible:,} combinations{undefined_note}."
    )


def _answer(result: Multiverse) -> str:
    first, *rest = result.sentences()
    return answer_section(first, further(rest))


def figures(result: Multiverse) -> str:
    """Return all figures, two in a row where there is room."""
    blocks = [
        figure_block(result.figure(name), f"fig-multiverse-{name}")
        for name in ("curve", "ranks", "choices", "levels")
    ]
    return paired(blocks)


def levels_table(result: Multiverse) -> str:
    """Return the share of configurations that every model wins, at every value of every choice."""
    rows: list[tuple[Cell, ...]] = [
        (spoken(choice), level, n, *(wins[model] for model in result.models))
        for choice, level, n, wins in result.levels
    ]
    rows.append(("all", "", len(result.each), *(result.wins[model] for model in result.models)))
    table = Table(("choice", "value", "configurations", *result.models), tuple(rows))
    caption = "Share of configurations that each model wins"
    return data_table(table, "table-levels", caption, len(rows), over=1, all_in=DOCUMENT)


def _methods(result: Multiverse) -> str:
    values = tuple(
        (
            spoken(name),
            ", ".join(dict.fromkeys(str(one[name]) for one in result.each if name in one)),
        )
        for name in result.choices
    )
    robust = result.robustness
    units = "" if robust is None else _replicates_sentence(robust)
    grid = data_table(Table(("choice", "values"), values), "table-grid", "The grid")
    base = f"The base is {described(result.each[result.base])}."
    return "\n".join(
        [paragraph(METHOD), paragraph(base), paragraph(units), details("The grid", grid)]
    )


def _replicates_sentence(robust: Robustness) -> str:
    unit = f"{robust.n_units} {plural(robust.unit)}"
    return REPLICATES.format(replicates=robust.replicates, unit=unit, seed=robust.seed)
