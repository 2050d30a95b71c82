# SPDX-License-Identifier: Apache-2.0
"""The page and the folder of an evaluation of monitors: words, figures, tables and pictures.

A `MonitorEvaluation` comes in; `write_monitors` writes the whole folder for `calipers monitor -o`.
The page of an evaluation shows some of these parts in its section on monitors.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path

from calipers.monitors.labellings import OMS, OOD
from calipers.monitors.result import MonitorEvaluation
from calipers.monitors.saving import DOCUMENT, IMAGES, ROWS, document, tables
from calipers.monitors.scope_result import Scope
from calipers.monitors.wording import of_labels, of_monitor
from calipers.plots.figures import Figure
from calipers.plots.monitors import OF_ALL, OF_ONE, available
from calipers.plots.monitors_orders import leading
from calipers.plots.svg import svg
from calipers.report.answer import (
    answer_page,
    answer_section,
    further,
    in_pairs,
    made_by,
    reproduce_block,
)
from calipers.report.markup import details, figure_block, items, paragraph
from calipers.report.monitors_methods import methods_part
from calipers.report.monitors_names import monitors_with_display_names
from calipers.report.monitors_tables import (
    all_table,
    cells_table,
    headline_table,
    labels_table,
    order_table,
    pairs_table,
)
from calipers.report.words import plural
from calipers.results.files import check_folder, files_of, staged_folder, write_atomically
from calipers.tables import Cohort

PAGE = "monitor.html"
OURS = re.compile(
    rf"{re.escape(PAGE)}|{re.escape(DOCUMENT)}|{re.escape(ROWS)}|{re.escape(IMAGES)}"
    rf"|monitor-({'|'.join(OF_ALL)})\.svg|monitor-({'|'.join(OF_ONE)})-\d+\.svg"
)
SVG_WIDTH = 560
MOST_MONITORS = 4  # with figures of their own
TITLES = ("Can I trust this monitor?", "Can I trust these monitors?")


def write_monitors(
    result: MonitorEvaluation,
    folder: Path,
    *,
    force: bool = False,
    command: Sequence[str] = (),
    cohort: Cohort | None = None,
    images: Path | None = None,
) -> Path:
    """Write page, document, rows, images and figures, all of them or none; return the page.

    Files of an earlier evaluation of monitors in the folder are replaced or removed; other files
    stay.
    """
    check_folder(folder, force=force)
    old = files_of(folder, OURS)
    display = monitors_with_display_names(result)
    with staged_folder(folder, owned=old) as stage:
        for name, figure in named_figures(display):
            picture = svg(figure, width=SVG_WIDTH, name=name, standalone=True)
            write_atomically(stage / f"monitor-{name}.svg", picture + "\n")
        for name, content in tables(result).items():
            write_atomically(stage / name, content)
        page = monitors_page(display, command, cohort, images, result.scope)
        write_atomically(stage / PAGE, page)
        record = document(result) | made_by(command)
        write_atomically(stage / DOCUMENT, json.dumps(record, allow_nan=False) + "\n")
    return folder / PAGE


def named_figures(result: MonitorEvaluation) -> list[tuple[str, Figure]]:
    """Return all figures with the names of their files; those of single monitors are numbered, best
    first.
    """
    figures = [(name, result.figure(name)) for name in available(result)]
    names = leading(result, MOST_MONITORS)
    for kind in OF_ONE:
        for k, name in enumerate(names, 1):
            figures.append((f"{kind}-{k}", result.figure(kind, name)))
    return figures


def monitors_page(
    result: MonitorEvaluation,
    command: Sequence[str] = (),
    cohort: Cohort | None = None,
    images: Path | None = None,
    original: Scope | None = None,
) -> str:
    """Return the page as HTML; every text is escaped.

    Parameters
    ----------
    result
        With names that can be shown.
    original
        The scope with the names of the cohort, by which images are found.
    """
    title = TITLES[len(result.monitors) > 1]
    labels_title = "Which monitor is best under which labels?"
    if result.disagreement is not None:
        labels_title = "Do OOD labels stand for failures?"
    numbers = headline_table(result) + pairs_table(result) + all_table(result)
    parts = [
        ("numbers", "Numbers", numbers),
        ("figures", "How well do they order images?", order_part(result)),
        ("outcomes", "What happens at the threshold?", outcomes_part(result)),
        ("labels", labels_title, labels_part(result)),
        ("tau", "Does the result depend on tau?", tau_part(result)),
        ("images", "Images", _images(result, original, cohort, images)),
        ("methods", "Methods", methods_part(result)),
        ("reproduce", "Reproduce", reproduce_block(command)),
    ]
    return answer_page(title, summary_line(result), _answer(result), parts)


def summary_line(result: MonitorEvaluation) -> str:
    """Return monitors, images and labels in one line."""
    facts = [plural("monitor", len(result.monitors)), plural("image", result.n_images)]
    if OMS in result.paradigms:
        unsafe = result.get("prevalence")
        at = "" if result.scope.binary else f" (s below tau = {result.tau:g})"
        facts.append(f"{unsafe.n_references} of them unsafe{at}")
    only = " No OOD labels were given: only model-scope (OMS) labels are shown."
    if OOD in result.paradigms:
        n = result.get("AUROC", result.monitors[0], OOD).n_references
        facts.append(f"{n} out of distribution")
        only = ""
    return f"{', '.join(facts)}; the model is {result.scope.model}.{only}"


def verdict(result: MonitorEvaluation) -> tuple[str, list[str]]:
    """Return the most important sentence on the best monitor at its threshold, and the other
    sentences.
    """
    best = leading(result, 1)[0]
    sentences = list(of_monitor(result, best))
    area = result.get("AUROC", best) if OMS in result.paradigms else None
    chance = area is not None and not math.isnan(area.low) and area.low <= 0.5
    # The second sentence is about the threshold: it answers the question, unless the monitor is no
    # better than chance.
    k = 1 if len(sentences) > 1 and result.tau is not None and not chance else 0
    first = sentences[k] if sentences else "Nothing can be said."
    if chance:
        first = f"No. {first}"
    return first, [*sentences[:k], *sentences[k + 1 :], *of_labels(result)]


def _answer(result: MonitorEvaluation) -> str:
    first, rest = verdict(result)
    figures = "".join(_figure_blocks(result, beside_answer(result)))
    cautions = f"<h3>Cautions</h3>{items(result.warnings)}" if result.warnings else ""
    others = ""
    for name in leading(result, len(result.monitors))[1:]:
        others += details(f"Results of {name}", items(list(of_monitor(result, name))))
    words = f"<div>{further(rest)}{others}{cautions}</div>"
    return answer_section(first, f'<div class="pair">{words}<div>{figures}</div></div>')


def _figure_blocks(result: MonitorEvaluation, names: Sequence[str]) -> list[str]:
    return [figure_block(result.figure(name), f"fig-monitor-{name}") for name in names]


def beside_answer(result: MonitorEvaluation) -> list[str]:
    """Return the figures beside the answer."""
    swept = [] if OMS in result.paradigms else _has(result, "sweep", "prevalence")
    return swept or _has(result, "auroc", "risk")


def order_part(result: MonitorEvaluation) -> str:
    """Return the ROC curves of both paradigms, and what does not stand beside the answer."""
    return in_pairs(_figure_blocks(result, _not_in_answer(result, "roc", "risk", "auroc")))


def _not_in_answer(result: MonitorEvaluation, *starts: str) -> list[str]:
    answer = beside_answer(result)
    return [name for name in _has(result, *starts) if name not in answer]


def labels_part(result: MonitorEvaluation) -> str:
    """Return how far OOD labels stand for failures, and which monitor is best under which
    labels.
    """
    blocks = _figure_blocks(result, _has(result, "ranking"))
    if result.disagreement is not None:
        blocks.insert(0, f"<div>{labels_table(result)}</div>")
    return in_pairs(blocks) + order_table(result)


def tau_part(result: MonitorEvaluation) -> str:
    """Return AUROC and the share of unsafe images against tau, unless they stand beside the
    answer.
    """
    return in_pairs(_figure_blocks(result, _not_in_answer(result, "sweep", "prevalence")))


def outcomes_part(result: MonitorEvaluation) -> str:
    """Return for every leading monitor what it accepts and rejects, and where its scores lie."""
    note = ""
    if len(result.monitors) > MOST_MONITORS:
        note = f"Figures of the {MOST_MONITORS} best of {len(result.monitors)} monitors."
    rows = [paragraph(note, "note")]
    for k, name in enumerate(leading(result, MOST_MONITORS)):
        blocks = []
        if result.paradigms and result.thresholds[name] is not None:
            outcomes = result.figure("outcomes", name)
            blocks.append(figure_block(outcomes, f"fig-monitor-outcomes-{k}"))
        blocks.append(figure_block(result.figure("scores", name), f"fig-monitor-scores-{k}"))
        rows.append(in_pairs(blocks))
    return "\n".join([*rows, cells_table(result)])


def _has(result: MonitorEvaluation, *starts: str) -> list[str]:
    return [name for name in available(result) if name.startswith(starts)]


def _images(
    result: MonitorEvaluation, scope: Scope | None, cohort: Cohort | None, folder: Path | None
) -> str:
    from calipers.report.monitors_images import images_part, nothing_wrong

    return images_part(result, scope, cohort, folder) or nothing_wrong(result)
