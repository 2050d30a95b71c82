# SPDX-License-Identifier: Apache-2.0
"""The page and the folder of monitors: can they be trusted, in words, figures, tables and pictures."""

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
from calipers.report.answer import answer_page, answer_section, further, made_by, paired, reproduced
from calipers.report.markup import details, figure_block, items, paragraph
from calipers.report.monitors_methods import methods_part
from calipers.report.monitors_names import bearable_monitors
from calipers.report.monitors_tables import (
    all_table,
    cells_table,
    headline_table,
    labels_table,
    order_table,
    pairs_table,
)
from calipers.report.words import plural
from calipers.results.files import check_folder, staged_folder, write_atomically
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
    found: MonitorEvaluation,
    folder: Path,
    *,
    force: bool = False,
    command: Sequence[str] = (),
    cohort: Cohort | None = None,
    images: Path | None = None,
) -> Path:
    """Write page, document, rows, images and figures, all of them or none; return the page.

    Files of an earlier evaluation of monitors in the folder are replaced or removed, others stay.
    """
    check_folder(folder, force=force)
    old = (
        [file.name for file in folder.iterdir() if OURS.fullmatch(file.name)]
        if folder.is_dir()
        else []
    )
    shown = bearable_monitors(found)
    with staged_folder(folder, owned=old) as stage:
        for name, figure in drawn(shown):
            picture = svg(figure, width=SVG_WIDTH, name=name, standalone=True)
            write_atomically(stage / f"monitor-{name}.svg", picture + "\n")
        for name, content in tables(found).items():
            write_atomically(stage / name, content)
        write_atomically(stage / PAGE, monitors_page(shown, command, cohort, images, found.scope))
        write_atomically(
            stage / DOCUMENT, json.dumps(document(found) | made_by(command), allow_nan=False) + "\n"
        )
    return folder / PAGE


def drawn(found: MonitorEvaluation) -> list[tuple[str, Figure]]:
    """Return all figures by the names of their files: those of one monitor are numbered, the best
    first.
    """
    every = [(name, found.figure(name)) for name in available(found)]
    names = leading(found, MOST_MONITORS)
    return every + [
        (f"{kind}-{k}", found.figure(kind, name))
        for kind in OF_ONE
        for k, name in enumerate(names, 1)
    ]


def monitors_page(
    found: MonitorEvaluation,
    command: Sequence[str] = (),
    cohort: Cohort | None = None,
    images: Path | None = None,
    original: Scope | None = None,
) -> str:
    """Return the page as HTML; every text is escaped.

    Parameters
    ----------
    found
        With names that can be shown.
    original
        The scope with the names of the cohort, by which images are found.
    """
    title = TITLES[len(found.monitors) > 1]
    parts = [
        ("numbers", "Numbers", headline_table(found) + pairs_table(found) + all_table(found)),
        ("figures", "How well do they order images?", order_part(found)),
        ("outcomes", "What happens at the threshold?", outcomes_part(found)),
        (
            "labels",
            "Do OOD labels stand for failures?"
            if found.disagreement is not None
            else "Who is first where?",
            labels_part(found),
        ),
        ("tau", "Does it hang on tau?", tau_part(found)),
        ("images", "Images", _images(found, original, cohort, images)),
        ("methods", "Methods", methods_part(found)),
        ("reproduce", "Reproduce", reproduced(command)),
    ]
    return answer_page(title, described(found), _answer(found), parts)


def described(found: MonitorEvaluation) -> str:
    """Return monitors, images and labels in one line."""
    said = [plural("monitor", len(found.monitors)), plural("image", found.n_images)]
    if OMS in found.paradigms:
        unsafe = found.get("prevalence")
        at = "" if found.scope.binary else f" (s below tau = {found.tau:g})"
        said.append(f"{unsafe.n_references} of them unsafe{at}")
    if OOD in found.paradigms:
        said.append(
            f"{found.get('AUROC', found.monitors[0], OOD).n_references} out of distribution"
        )
    only = (
        ""
        if OOD in found.paradigms
        else " No OOD labels were given: only model-scope (OMS) labels are shown."
    )
    return f"{', '.join(said)}; the model is {found.scope.model}.{only}"


def verdict(found: MonitorEvaluation) -> tuple[str, list[str]]:
    """Return the most important sentence, on the best monitor at its threshold, and what else is
    known of it.
    """
    best = leading(found, 1)[0]
    own = list(of_monitor(found, best))
    area = found.get("AUROC", best) if OMS in found.paradigms else None
    chance = area is not None and not math.isnan(area.low) and area.low <= 0.5
    k = 1 if len(own) > 1 and found.tau is not None and not chance else 0
    first = own[k] if own else "Nothing can be said."
    return f"No. {first}" if chance else first, [*own[:k], *own[k + 1 :], *of_labels(found)]


def _answer(found: MonitorEvaluation) -> str:
    first, rest = verdict(found)
    shown = "".join(
        figure_block(found.figure(name), f"fig-monitor-{name}") for name in beside_answer(found)
    )
    cautions = f"<h3>Cautions</h3>{items(found.warnings)}" if found.warnings else ""
    others = "".join(
        details(f"What is known of {name}", items(list(of_monitor(found, name))))
        for name in leading(found, len(found.monitors))[1:]
    )
    inner = (
        f'<div class="pair"><div>{further(rest)}{others}{cautions}</div><div>{shown}</div></div>'
    )
    return answer_section(first, inner)


def beside_answer(found: MonitorEvaluation) -> list[str]:
    """Return the figures beside the answer."""
    swept = [] if OMS in found.paradigms else _has(found, "sweep", "prevalence")
    return swept or _has(found, "auroc", "risk")


def order_part(found: MonitorEvaluation) -> str:
    """Return the ROC curves of both paradigms, and what does not stand beside the answer."""
    names = [
        name for name in _has(found, "roc", "risk", "auroc") if name not in beside_answer(found)
    ]
    return paired([figure_block(found.figure(name), f"fig-monitor-{name}") for name in names])


def labels_part(found: MonitorEvaluation) -> str:
    """Return how far OOD labels stand for failures, and who is first under which labels."""
    ranked = [
        figure_block(found.figure(name), f"fig-monitor-{name}") for name in _has(found, "ranking")
    ]
    labels = [f"<div>{labels_table(found)}</div>"] if found.disagreement is not None else []
    return paired([*labels, *ranked]) + order_table(found)


def tau_part(found: MonitorEvaluation) -> str:
    """Return AUROC and the share of unsafe images against tau, unless they stand beside the answer."""
    names = [
        name for name in _has(found, "sweep", "prevalence") if name not in beside_answer(found)
    ]
    return paired([figure_block(found.figure(name), f"fig-monitor-{name}") for name in names])


def outcomes_part(found: MonitorEvaluation) -> str:
    """Return for every leading monitor what it accepts and rejects, and where its scores lie."""
    rows = []
    for k, name in enumerate(leading(found, MOST_MONITORS)):
        kinds = (
            ("outcomes", "scores")
            if found.paradigms and found.thresholds[name] is not None
            else ("scores",)
        )
        rows.append(
            paired(
                [
                    figure_block(found.figure(kind, name), f"fig-monitor-{kind}-{k}")
                    for kind in kinds
                ]
            )
        )
    left = len(found.monitors) - MOST_MONITORS
    note = (
        f"Figures of the {MOST_MONITORS} best monitors of {len(found.monitors)}."
        if left > 0
        else ""
    )
    return "\n".join([paragraph(note, "note"), *rows, cells_table(found)])


def _has(found: MonitorEvaluation, *starts: str) -> list[str]:
    return [name for name in available(found) if name.startswith(starts)]


def _images(
    found: MonitorEvaluation, scope: Scope | None, cohort: Cohort | None, folder: Path | None
) -> str:
    from calipers.report.monitors_images import images_part, nothing_wrong

    return images_part(found, scope, cohort, folder) or nothing_wrong(found)
