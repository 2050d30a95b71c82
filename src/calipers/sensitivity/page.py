# SPDX-License-Identifier: Apache-2.0
"""The page and the folder of a multiverse, the folder of a sweep, and both in a notebook.

A `Multiverse` comes in; `write_multiverse` writes the folder for `calipers multiverse -o`: answer,
figures, all shares, and how to reproduce it. The page of an evaluation shows the figures and the
table in its own section. A `Sweep` has figures and tables of numbers, but no page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from zlib import crc32

from calipers.io.tables.table import columns_of, delimited
from calipers.results.files import check_folder, files_of, staged_folder, write_atomically
from calipers.sensitivity.figures import FIGURES, sweep_figure, sweep_figures
from calipers.sensitivity.result import Multiverse, Robustness, configuration_text
from calipers.sensitivity.sweep import Sweep
from calipers.sensitivity.tables import grid_table, levels_table, wins_table
from calipers.show.html import (
    answer_page,
    answer_section,
    as_bytes,
    details,
    figure_block,
    framed,
    further,
    in_pairs,
    items,
    made_by,
    paragraph,
    reproduce_block,
    table_block,
    text,
)
from calipers.show.svg.draw import svg
from calipers.show.words import Short

PAGE, DOCUMENT, ROWS = "multiverse.html", "multiverse.json", "multiverse.csv"
OURS = re.compile(rf"multiverse\.(html|json|csv)|multiverse-({'|'.join(FIGURES)})\.svg")
SWEEP_FIGURE = re.compile(r"sweep-[0-9].*\.svg")
SVG_WIDTH = 560
TITLE = "How sensitive is the ranking to analysis choices?"
METHOD = (
    "Every model is evaluated under every combination of the choices, on the same images. A choice "
    "that has no effect given the others is left out, so that nothing counts twice. Models are "
    "compared within a configuration only; a configuration in which a model has no value is left "
    "out. No combination is preferred over another: the shares describe the grid and are not "
    "probabilities."
)
REPLICATES = (
    "Confidence intervals come from {replicates} bootstrap replicates, resampled by {unit} "
    "(n = {n_units}): all configurations of a replicate use the same weights, and the shares are "
    "computed again in each replicate (seed {seed})."
)


def write_multiverse(
    result: Multiverse, folder: Path, *, force: bool = False, command: Sequence[str] = ()
) -> Path:
    """Write page, document, rows and figures, all of them or none; return the page.

    These are ``multiverse.html``, ``multiverse.json``, ``multiverse.csv`` and the figures. Files of
    an earlier multiverse in the folder are replaced or removed; other files stay.

    Parameters
    ----------
    folder
        New or empty.
    force
        Allow a folder that holds something.
    command
        The command line that made it; printed on the page.
    """
    check_folder(folder, force=force)
    old = files_of(folder, OURS)
    display = _with_display_names(result)
    # All files or none: no reader sees half of a result.
    with staged_folder(folder, owned=old, force=force) as stage:
        for name in FIGURES:
            picture = svg(display.figure(name), width=SVG_WIDTH, name=name, standalone=True)
            write_atomically(stage / f"multiverse-{name}.svg", picture + "\n")
        write_atomically(stage / ROWS, as_bytes(delimited(columns_of(result.rows()))))
        write_multiverse_page(result, stage / PAGE, command=command)
        record = result.as_dict() | made_by(command)
        write_atomically(stage / DOCUMENT, json.dumps(record, allow_nan=False) + "\n")
    return folder / PAGE


def write_multiverse_page(result: Multiverse, path: Path, *, command: Sequence[str] = ()) -> Path:
    """Write the page alone, whole or not at all."""
    write_atomically(path, multiverse_page(_with_display_names(result), command))
    return path


def _with_display_names(result: Multiverse) -> Multiverse:
    """Return the multiverse with display names of the models."""
    names = Short(result.models, series=result.models)
    return replace(result, models=tuple(map(names.name, result.models)))


def multiverse_page(result: Multiverse, command: Sequence[str] = ()) -> str:
    """Return the page as HTML; every text is escaped."""
    parts = [
        ("figures", "Figures", figures(result)),
        ("levels", "Which model has the best value where", levels_block(result)),
        ("methods", "Methods", _methods(result)),
        ("reproduce", "Reproduce", reproduce_block(command)),
    ]
    return answer_page(TITLE, _summary_line(result), _answer(result), parts)


def _summary_line(result: Multiverse) -> str:
    undefined_note = (
        f"; {result.n_undefined} more have no value for some model" if result.n_undefined else ""
    )
    return (
        f"{len(result.models)} models, {result.n_images:,} images, {result.n_references:,} "
        f"references; {len(result.each):,} configurations of {result.n_possible:,} "
        f"combinations{undefined_note}."
    )


def _answer(result: Multiverse) -> str:
    first, *rest = result.sentences()
    return answer_section(first, further(rest))


def evaluation_section(result: Multiverse) -> str:
    """Return the section on the multiverse in the page of an evaluation."""
    base = configuration_text(result.each[result.base])
    note = f"{METHOD} The base configuration is {base}, not the protocol of this page."
    parts = [items(result.sentences()), figures(result), levels_block(result)]
    return "\n".join([*parts, paragraph(note, "note")])


def figures(result: Multiverse) -> str:
    """Return all figures, two in a row where there is room."""
    blocks = []
    for name in ("curve", "ranks", "choices", "levels"):
        blocks.append(figure_block(result.figure(name), f"fig-multiverse-{name}"))
    return in_pairs(blocks)


def levels_block(result: Multiverse) -> str:
    """Return the share of configurations that every model wins, at every value of every choice."""
    table = levels_table(result)
    return table_block(table, len(table.rows), all_in=DOCUMENT)


def _methods(result: Multiverse) -> str:
    robust = result.robustness
    units = "" if robust is None else _replicates_sentence(robust)
    grid = table_block(grid_table(result))
    base = f"The base configuration is {configuration_text(result.each[result.base])}."
    return "\n".join(
        [paragraph(METHOD), paragraph(base), paragraph(units), details("The grid", grid)]
    )


def _replicates_sentence(robust: Robustness) -> str:
    return REPLICATES.format(
        replicates=robust.replicates, unit=robust.unit, n_units=robust.n_units, seed=robust.seed
    )


def write_sweep(
    sweep: Sweep, folder: Path, *, force: bool = False, command: Sequence[str] = ()
) -> Path:
    """Write ``sweep.json``, ``sweep.csv`` and figures, all of them or none; return the folder.

    Figures of an earlier sweep in the folder are removed; other files stay.
    """
    check_folder(folder, force=force)
    earlier = files_of(folder, SWEEP_FIGURE)
    with staged_folder(folder, owned=("sweep.json", "sweep.csv", *earlier), force=force) as stage:
        write_atomically(stage / "sweep.json", sweep.to_json() + "\n")
        write_atomically(stage / "sweep.csv", delimited(columns_of(sweep.rows())))
        for k, (name, figure) in enumerate(sweep_figures(sweep).items(), start=1):
            # Names of metrics have signs that file names cannot have; the number keeps them apart.
            word = re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")[:60]
            write_atomically(stage / f"sweep-{k}-{word}.svg", svg(figure, standalone=True))
    return folder


def of_sweep(sweep: Sweep) -> str:
    """Return the first figure of a sweep, with its finding and its note."""
    figure = sweep_figure(sweep)
    # All outputs of a notebook share one document, so ids must differ between sweeps.
    name = f"sweep-{crc32(sweep.to_json().encode()):08x}"
    picture = svg(figure, name=name, standalone=True)
    title = f"<p><strong>{text(figure.title)}</strong></p>"
    return framed(f"{title}{picture}<p><small>{text(figure.note)}</small></p>")


def of_multiverse(result: Multiverse) -> str:
    """Return the sentences of a multiverse, and the share of configurations that each model
    wins.
    """
    return framed(items(result.sentences()) + table_block(wins_table(result)))
