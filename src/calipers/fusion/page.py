# SPDX-License-Identifier: Apache-2.0
"""The page and the folder of a fusion: is the ensemble better than its members?

A `FusionDocument` comes in; `write_fusion` writes the folder of ``calipers fuse -o DIR``: the fused
predictions, the recipe, page, document, tables and figures. The page has the answer in words,
members and ensemble with paired intervals, what each member adds, precision and recall, the tuning,
the recipe, and methods for a paper. It computes nothing but the curves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from calipers.fusion.figures import available
from calipers.fusion.result import FusionDocument
from calipers.fusion.tables import (
    contributions_table,
    members_table,
    parameters_table,
    steps_table,
    tuning_table,
    values_table,
)
from calipers.fusion.words import METHOD, TUNING_METHOD, sentences
from calipers.results.files import check_folder, files_of, staged_folder, write_atomically
from calipers.show.html import (
    answer_page,
    answer_section,
    as_bytes,
    details,
    figure_block,
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
from calipers.show.words import count_text

PAGE, DOCUMENT, RECIPE = "fusion.html", "fusion.json", "recipe.toml"
OURS = re.compile(
    r"fusion\.(html|json)|recipe\.toml|table-[a-z]+\.csv|fusion-[a-z]+\.svg"
    r"|fused\.(json|csv|tsv|parquet)"
)
SVG_WIDTH = 560
TITLE = "Is the ensemble better than its members?"
TITLE_WITHOUT = "What became of the members"


def write_fusion(
    result: FusionDocument,
    folder: Path,
    *,
    predictions: Callable[[Path], None] | None = None,
    force: bool = False,
    command: Sequence[str] = (),
) -> Path:
    """Write page, document, recipe, tables and figures, all of them or none; return the page.

    These are ``fusion.html``, ``fusion.json``, ``recipe.toml``, ``table-*.csv`` and
    ``fusion-*.svg``. Files of an earlier fusion in the folder are replaced or removed; other files
    stay.

    Parameters
    ----------
    folder
        New or empty.
    predictions
        Writes the fused predictions into the folder that it is called with.
    force
        Allow a folder that holds something.
    command
        The command line that made it; printed on the page.
    """
    check_folder(folder, force=force)
    with staged_folder(folder, owned=files_of(folder, OURS), force=force) as stage:
        if predictions is not None:
            predictions(stage)
        write_atomically(stage / RECIPE, as_bytes(result.fusion.recipe.to_toml()))
        for name in available(result):
            picture = svg(result.figure(name), width=SVG_WIDTH, name=name, standalone=True)
            write_atomically(stage / f"fusion-{name}.svg", picture + "\n")
        for table in result.tables():
            write_atomically(stage / f"{table.name}.csv", as_bytes(table.to_csv()))
        write_fusion_page(result, stage / PAGE, command=command)
        record = result.as_dict() | made_by(command)
        write_atomically(stage / DOCUMENT, json.dumps(record, allow_nan=False) + "\n")
    return folder / PAGE


def write_fusion_page(result: FusionDocument, path: Path, *, command: Sequence[str] = ()) -> Path:
    """Write the page alone, whole or not at all."""
    write_atomically(path, as_bytes(fusion_page(result, command)))
    return path


def fusion_page(result: FusionDocument, command: Sequence[str] = ()) -> str:
    """Return the page as HTML; every text is escaped."""
    first, *rest = sentences(result)
    parts = [
        ("ensemble", "Members and ensemble", _ensemble(result)),
        ("contributions", "What each member adds", _contributions(result)),
        ("curves", "Precision and recall", _figures(result, "pr")),
        ("tuning", "Tuning", _tuning(result)),
        ("recipe", "Recipe and boxes", _recipe(result)),
        ("warnings", "Notes", items(result.warnings)),
        ("methods", "Methods", _methods(result)),
        ("reproduce", "Reproduce", reproduce_block(command)),
    ]
    title = TITLE_WITHOUT if result.evaluation is None else TITLE
    answer = answer_section(first, further(rest))
    return answer_page(title, _summary_line(result), answer, parts)


def _summary_line(result: FusionDocument) -> str:
    fusion = result.fusion
    members = ", ".join(member.model for member in fusion.members)
    words = (
        f"{count_text('member', len(fusion.members))} ({members}) on "
        f"{count_text('image', fusion.predictions.n_images)}; recipe {fusion.recipe.name}"
    )
    if result.evaluation is not None:
        words += f"; protocol {result.evaluation.protocol}"
    return f"{words}."


def _figures(result: FusionDocument, *names: str) -> str:
    """Return the figures that there are, two in a row where there is room."""
    blocks = []
    for name in names:
        if name in available(result):
            blocks.append(figure_block(result.figure(name), f"fig-{name}", all_in=DOCUMENT))
    return in_pairs(blocks)


def _ensemble(result: FusionDocument) -> str:
    if result.evaluation is None:
        return ""
    table = table_block(values_table(result.evaluation), all_in=DOCUMENT)
    return _figures(result, "ensemble", "differences") + table


def _contributions(result: FusionDocument) -> str:
    if result.evaluation is None or not result.evaluation.without:
        return ""
    table = table_block(contributions_table(result.evaluation), all_in=DOCUMENT)
    return _figures(result, "contributions") + table


def _tuning(result: FusionDocument) -> str:
    if result.tuning is None:
        return ""
    tables = (tuning_table(result.tuning), parameters_table(result.tuning))
    blocks = [table_block(table, all_in=DOCUMENT) for table in tables]
    return "\n".join([_figures(result, "tuning"), *blocks])


def _recipe(result: FusionDocument) -> str:
    recipe = result.fusion.recipe
    tables = [table_block(steps_table(result)), table_block(members_table(result))]
    source = paragraph(f"Recipe {recipe.name}: {recipe.source}.", "note") if recipe.source else ""
    toml = details("The recipe, to run it again (TOML)", f"<pre>{text(recipe.to_toml())}</pre>")
    return "\n".join([*tables, source, toml])


def _methods(result: FusionDocument) -> str:
    paragraphs = []
    if result.evaluation is not None:
        paragraphs.append(paragraph(METHOD))
    if result.tuning is not None:
        paragraphs.append(paragraph(TUNING_METHOD))
    return "\n".join(paragraphs)
