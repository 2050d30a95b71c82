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
from calipers.sensitivity.wording import choice_name, configuration_text
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
    found: Multiverse, folder: Path, *, force: bool = False, command: Sequence[str] = ()
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
    shown = _bearable(found)
    with staged_folder(folder, owned=old) as stage:
        for name in FIGURES:
            drawn = svg(shown.figure(name), width=SVG_WIDTH, name=name, standalone=True)
            write_atomically(stage / f"multiverse-{name}.svg", drawn + "\n")
        rows = found.rows()
        write_atomically(
            stage / ROWS,
            as_bytes(delimited({name: [row[name] for row in rows] for name in rows[0]})),
        )
        write_atomically(stage / PAGE, multiverse_page(shown, command))
        write_atomically(
            stage / DOCUMENT, json.dumps(found.as_dict() | made_by(command), allow_nan=False) + "\n"
        )
    return folder / PAGE


def _bearable(found: Multiverse) -> Multiverse:
    """Return the multiverse with names of models that a page can show and a reader tell apart."""
    names = Short(found.models)
    return replace(found, models=tuple(map(names.name, found.models)))


def multiverse_page(found: Multiverse, command: Sequence[str] = ()) -> str:
    """Return the page as HTML; every text is escaped."""
    parts = [
        ("figures", "Figures", figures(found)),
        ("levels", "Who wins where", levels_table(found)),
        ("methods", "Methods", _methods(found)),
        ("reproduce", "Reproduce", reproduced(command)),
    ]
    return answer_page(TITLE, _described(found), _answer(found), parts)


def _described(found: Multiverse) -> str:
    left = f"; {found.n_undefined} more have no value for some model" if found.n_undefined else ""
    return (
        f"{len(found.models)} models, {found.n_images:,} images, {found.n_references:,} references; "
        f"{len(found.each):,} configurations of {found.n_possible:,} combinations{left}."
    )


def _answer(found: Multiverse) -> str:
    first, *rest = found.sentences()
    return answer_section(first, further(rest))


def figures(found: Multiverse) -> str:
    """Return all figures, two in a row where there is room."""
    drawn = [
        figure_block(found.figure(name), f"fig-multiverse-{name}")
        for name in ("curve", "ranks", "choices", "levels")
    ]
    return paired(drawn)


def levels_table(found: Multiverse) -> str:
    """Return the share of configurations that every model wins, at every value of every choice."""
    rows: list[tuple[Cell, ...]] = [
        (choice_name(choice), level, n, *(wins[model] for model in found.models))
        for choice, level, n, wins in found.levels
    ]
    rows.append(("all", "", len(found.each), *(found.wins[model] for model in found.models)))
    table = Table(("choice", "value", "configurations", *found.models), tuple(rows))
    caption = "Share of configurations that each model wins"
    return data_table(table, "table-levels", caption, len(rows), over=1, all_in=DOCUMENT)


def _methods(found: Multiverse) -> str:
    values = tuple(
        (
            choice_name(name),
            ", ".join(dict.fromkeys(str(one[name]) for one in found.each if name in one)),
        )
        for name in found.choices
    )
    robust = found.robustness
    units = "" if robust is None else _spoken(robust)
    grid = data_table(Table(("choice", "values"), values), "table-grid", "The grid")
    base = f"The base is {configuration_text(found.each[found.base])}."
    return "\n".join(
        [paragraph(METHOD), paragraph(base), paragraph(units), details("The grid", grid)]
    )


def _spoken(robust: Robustness) -> str:
    unit = f"{robust.n_units} {plural(robust.unit)}"
    return REPLICATES.format(replicates=robust.replicates, unit=unit, seed=robust.seed)
