# SPDX-License-Identifier: Apache-2.0
"""The page and the folder of a stability analysis: can the maps of these models be trusted?

A `StabilityResult` comes in; `write_stability` writes the folder for `calipers stability -o`, and
`of_stability` is the view in a notebook.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from calipers.plots.figures import Table
from calipers.plots.stability import FIGURES, available
from calipers.plots.svg import svg
from calipers.report.answer import (
    answer_page,
    answer_section,
    as_bytes,
    further,
    in_pairs,
    made_by,
    reproduce_block,
)
from calipers.report.markup import data_table, details, figure_block, items, paragraph, text
from calipers.report.naming import Short
from calipers.report.small import framed
from calipers.report.stability_images import Pictures, images_section
from calipers.report.stability_objects import objects_block
from calipers.report.stability_tables import (
    BAGS,
    bag_columns,
    bags_table,
    reference_table,
    scores_table,
)
from calipers.report.stability_words import CITATIONS, methods, summary_line, trust
from calipers.results.delimited import columns_of, delimited
from calipers.results.estimate import number
from calipers.results.files import check_folder, files_of, staged_folder, write_atomically
from calipers.stability.objects_result import ObjectStability
from calipers.stability.result import StabilityResult

PAGE, DOCUMENT, ROWS = "stability.html", "stability.json", "stability.csv"
OURS = re.compile(rf"stability\.(html|json|csv)|bags\.csv|stability-({'|'.join(FIGURES)})\.svg")
SVG_WIDTH = 560
TITLES = {
    "map": "Can these maps be trusted?",
    "model": "Can these models be trusted?",
}
# order of the figures; single images have their own section
ORDER = ("pairs", "models", "called", "images", "sweep", "scores")
AGAINST = ("dice", "auc")


@dataclass(frozen=True)
class PageInputs:
    """What the page shows besides the result."""

    command: Sequence[str] = ()
    objects: ObjectStability | None = None
    pictures: Pictures = field(default_factory=Pictures)

    @property
    def what(self) -> str:
        """What may be trusted or not: a map, or a model that predicts objects."""
        return "map" if self.objects is None else "model"


def write_stability(
    result: StabilityResult,
    folder: Path,
    *,
    force: bool = False,
    command: Sequence[str] = (),
    images: str | Path | None = None,
    objects: ObjectStability | None = None,
) -> Path:
    """Write page, document, rows, images and figures, all of them or none; return the page.

    Files of an earlier result in the folder are replaced or removed; other files stay. The folder
    of an input is refused.
    """
    check_folder(folder, force=force, inputs=_inputs(result))
    old = files_of(folder, OURS)
    inputs = PageInputs(command, objects, Pictures.of(images, result.ids))
    display = with_display_names(result)
    with staged_folder(folder, owned=old) as stage:
        for name in available(result):
            picture = svg(display.figure(name), width=SVG_WIDTH, name=name, standalone=True)
            write_atomically(stage / f"stability-{name}.svg", as_bytes(picture + "\n"))
        write_atomically(stage / ROWS, as_bytes(delimited(_rows(result))))
        write_atomically(stage / BAGS, as_bytes(delimited(bag_columns(result))))
        write_atomically(stage / PAGE, as_bytes(stability_page(display, inputs)))
        record = json.dumps(_document(result, inputs), allow_nan=False)
        write_atomically(stage / DOCUMENT, record + "\n")
    return folder / PAGE


def write_stability_page(
    result: StabilityResult,
    path: Path,
    *,
    command: Sequence[str] = (),
    images: str | Path | None = None,
    objects: ObjectStability | None = None,
) -> Path:
    """Write the page alone."""
    inputs = PageInputs(command, objects, Pictures.of(images, result.ids))
    write_atomically(path, as_bytes(stability_page(with_display_names(result), inputs)))
    return path


def _inputs(result: StabilityResult) -> tuple[str, ...]:
    """Return the files and folders of the maps; nothing for maps from memory."""
    sources = getattr(result.source, "sources", ())
    return tuple(str(one.source) for one in sources)


def _rows(result: StabilityResult) -> Mapping[str, Sequence[Any]]:
    rows = []
    for row in result.rows:
        group = json.dumps(row.group) if row.group else None
        rows.append({**row.as_dict(), "group": group})
    columns = columns_of(rows)
    columns.pop("flags", None)
    return columns


def _document(result: StabilityResult, inputs: PageInputs) -> dict[str, Any]:
    objects = {} if inputs.objects is None else {"objects": inputs.objects.as_dict()}
    return {
        **result.as_dict(),
        "verdict": trust(result, inputs.what),
        **objects,
        **made_by(inputs.command),
    }


def with_display_names(result: StabilityResult) -> StabilityResult:
    """Return the result with display names of models and images."""
    names = Short([*result.models, *result.ids])
    if not names.changed:
        return result
    models, ids = tuple(map(names.name, result.models)), tuple(map(names.name, result.ids))
    local = result.localized
    rows = tuple(replace(row, model=names.name(row.model)) for row in local.rows)
    local = replace(local, models=models, ids=tuple(map(names.name, local.ids)), rows=rows)
    return replace(result, plan=replace(result.plan, models=models, ids=ids), localized=local)


def stability_page(result: StabilityResult, inputs: PageInputs) -> str:
    """Return the page as HTML; every text is escaped."""
    objects = "" if inputs.objects is None else objects_block(inputs.objects)
    title = TITLES[inputs.what]
    parts = [
        ("cautions", "Before you trust these numbers", _cautions(result)),
        ("objects", "Object by object", objects),
        ("figures", "Do the models agree?", _figures(result, ORDER)),
        ("images", "Where they agree, and where not", images_section(result, inputs.pictures)),
        ("reference", "Is it the right place?", _reference(result)),
        ("methods", "Methods", _methods(result)),
        ("numbers", "All numbers", _numbers(result)),
        ("reproduce", "Reproduce", reproduce_block(inputs.command, result.plan.settings())),
    ]
    return answer_page(title, summary_line(result), _answer(result, inputs.what), parts)


def _answer(result: StabilityResult, what: str) -> str:
    return answer_section(trust(result, what), further(result.sentences()) + scores_table(result))


def _cautions(result: StabilityResult) -> str:
    """Return what may mislead, then further notes."""
    flagged = [remark.text for remark in result.remarks if remark.flag]
    care = f'<div class="care"><h3>What may mislead</h3>{items(flagged)}</div>' if flagged else ""
    paradox = result.paradox()
    notes = [remark.text for remark in result.remarks if not remark.flag]
    if not paradox.flagged and paradox.of_pairs:
        notes.append(
            "The kappa paradox (calls so one-sided that APJ and AJ are low although models agree) "
            f"occurs in {paradox.pairs} of {paradox.of_pairs} pairs of maps: too few to mislead"
        )
    return care + items([f"{note[:1].upper()}{note[1:]}." for note in notes])


def _figures(result: StabilityResult, names: Sequence[str]) -> str:
    """Return figures, two in a row where there is room."""
    blocks = []
    for name in names:
        if name in available(result):
            all_in = BAGS if name == "dice" else DOCUMENT
            blocks.append(figure_block(result.figure(name), f"fig-{name}", all_in=all_in))
    return in_pairs(blocks)


def _reference(result: StabilityResult) -> str:
    table = reference_table(result)
    return f"{table}\n{_figures(result, AGAINST)}" if table else ""


def _methods(result: StabilityResult) -> str:
    paragraphs = "\n".join(paragraph(words) for words in methods(result))
    return paragraphs + details("References", items(CITATIONS))


def _numbers(result: StabilityResult) -> str:
    every = details("Every score", scores_table(result, result.names, label="Every score"))
    parts = result.components("APJ")
    spread = ""
    if parts.reason is None:
        shares = {"images": "bags", "pairs of models": "pairs", "neither": "rest"}
        rows = tuple(
            (words, getattr(parts, name), number(parts.shares[name]))
            for words, name in shares.items()
        )
        table = Table(("APJ varies between", "variance", "share"), rows)
        caption = f"Where APJ varies: {parts.n_bags} images with all {parts.n_pairs} pairs"
        spread = details("Where APJ varies", data_table(table, "table-variance", caption))
    return "\n".join([bags_table(result), every, spread])


def of_stability(result: StabilityResult) -> str:
    """Return the result in a notebook: the verdict, the sentences, the main scores."""
    display = with_display_names(result)
    verdict = f"<p><strong>{text(trust(display))}</strong></p>"
    return framed(verdict + items(display.sentences()) + scores_table(display))
