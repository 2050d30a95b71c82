# SPDX-License-Identifier: Apache-2.0
"""The page and the folder of an evaluation of monitors: words, figures, tables and pictures.

A `MonitorEvaluation` comes in. `write_monitors` writes the whole folder for ``calipers monitor
-o``, `write_monitors_page` the page alone; `of_monitors` is what a notebook shows. The page of an
evaluation shows some of these parts in its section on monitors.

The parts, in the order of the page: the answer (`verdict`), numbers, figures, labels, tau, the
images on which monitors err most (`images_part`: unsafe ones that are accepted, safe ones that are
rejected; pictures if the cohort is at hand, tables otherwise), and the methods as a paragraph that
is ready for a paper, with its sources. `monitors_with_display_names` gives names that are short
enough for a page and never look the same; no number changes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from calipers.arrays import I64
from calipers.data.cohort import Cohort
from calipers.evaluation.protocol import Protocol
from calipers.evaluation.rename import with_display_names
from calipers.evaluation.result import Evaluation
from calipers.monitors.estimates import Disagreement
from calipers.monitors.figures import (
    OF_ALL,
    OF_ONE,
    WORDS,
    available,
    leading,
    others_of,
    rejected_by,
)
from calipers.monitors.labels import OMS, OOD, threshold_text
from calipers.monitors.result import MonitorEvaluation, headline
from calipers.monitors.scope import Scope
from calipers.monitors.tables import (
    QUANTITIES,
    halves_table,
    labels_table,
    order_table,
    pairs_table,
    quantities_table,
    rejected_table,
    rows_table,
    shares_table,
)
from calipers.monitors.words import (
    DOCUMENT,
    IMAGES,
    ROWS,
    beats_chance,
    command_line_warning,
    of_labels,
    of_monitor,
    table_files,
)
from calipers.pictures.album import Album, album_html, album_of
from calipers.results.estimate import Row
from calipers.results.files import check_folder, files_of, staged_folder, write_atomically
from calipers.show.figures import Figure
from calipers.show.html import (
    answer_page,
    answer_section,
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
)
from calipers.show.svg.draw import svg
from calipers.show.table import Cell, Table, TableRow
from calipers.show.words import (
    Short,
    count_text,
    level_text,
    plural,
    short_name,
)

MOST_ALBUM_MONITORS = 3
MOST_ROWS = 400  # of the table of all quantities
MOST_TABLE_MONITORS = 12
MOST_IMAGES = 8  # rows of a table, for one monitor
MOST_PICTURES = 4
MATCHING = "oms"

SOURCES = (
    "Guérin J, et al. Out-of-distribution detection is not all you need. AAAI 2023.",
    "Guérin J, et al. Unifying evaluation of machine learning safety monitors. ISSRE 2022.",
    "Geifman Y, et al. Bias-reduced uncertainty estimation for deep neural classifiers. ICLR 2019.",
    "Traub J, et al. Overcoming common flaws in the evaluation of selective classification "
    "systems. NeurIPS 2024.",
)
# How the mean over classes is taken, in the words of the methods.
CLASSES = {
    "declared": "all declared classes; a class with neither references nor predictions counts 1",
    "present": "the classes that are on the image, as references or as predictions",
    "micro": "all classes together, whose counts are added up",
}

PAGE = "monitor.html"
# Only files of these names are replaced or removed; whatever else is in the folder stays.
OURS = re.compile(
    rf"{re.escape(PAGE)}|{re.escape(DOCUMENT)}|{re.escape(ROWS)}|{re.escape(IMAGES)}"
    rf"|monitor-({'|'.join(OF_ALL)})\.svg|monitor-({'|'.join(OF_ONE)})-\d+\.svg"
)
SVG_WIDTH = 560
MOST_FIGURE_MONITORS = 4  # with figures of their own
TITLES = ("Can I trust this monitor?", "Can I trust these monitors?")


def write_monitors(
    result: MonitorEvaluation,
    folder: Path,
    *,
    force: bool = False,
    command: Sequence[str] = (),
    cohort: Cohort | None = None,
    images: str | Path | None = None,
) -> Path:
    """Write page, document, rows, images and figures, all of them or none; return the page.

    These are ``monitor.html``, ``monitor.json``, ``monitor.csv`` (rows), ``images.csv`` (one row
    per image) and the figures. Files of an earlier evaluation of monitors in the folder are
    replaced or removed; other files stay.

    Parameters
    ----------
    folder
        New or empty.
    force
        Allow a folder that holds something.
    command
        The command line of the evaluation, shown on the page.
    cohort
        The images with references and predictions: the page then shows those on which monitors
        err.
    images
        A folder with their pictures; without it the marks stand on empty frames.
    """
    check_folder(folder, force=force)
    # Files of an earlier run may have names that this one does not write, such as figures of a
    # fourth monitor.
    old = files_of(folder, OURS)
    display = monitors_with_display_names(result)
    with staged_folder(folder, owned=old, force=force) as stage:
        for name, figure in named_figures(display):
            picture = svg(figure, width=SVG_WIDTH, name=name, standalone=True)
            write_atomically(stage / f"monitor-{name}.svg", picture + "\n")
        for name, content in table_files(result).items():
            write_atomically(stage / name, content)
        write_monitors_page(result, stage / PAGE, command=command, cohort=cohort, images=images)
        record = result.as_dict() | made_by(command)
        write_atomically(stage / DOCUMENT, json.dumps(record, allow_nan=False) + "\n")
    return folder / PAGE


def write_monitors_page(
    result: MonitorEvaluation,
    path: Path,
    *,
    command: Sequence[str] = (),
    cohort: Cohort | None = None,
    images: str | Path | None = None,
) -> Path:
    """Write the page alone, whole or not at all; options as in `write_monitors`."""
    display = monitors_with_display_names(result)
    pictures = None if images is None else Path(images)
    write_atomically(path, monitors_page(display, command, cohort, pictures, result.scope))
    return path


def evaluation_section(result: MonitorEvaluation, *, images: bool) -> str:
    """Return the section on monitors in the page of an evaluation; with ``images`` it names those
    on which monitors err most.
    """
    first, further = verdict(result)
    blocks = "".join(_figure_blocks(result, beside_answer(result)))
    title = "The monitor" if len(result.monitors) == 1 else "The monitors"
    parts = [
        paragraph(summary_line(result), "note"),
        f"<h3>{title}</h3>",
        items([first, *further]),
        f'<div class="pair">{blocks}</div>' if blocks else "",
        order_part(result),
        outcomes_part(result),
        labels_part(result),
        tau_part(result),
        details("Numbers on monitors", numbers_part(result)),
    ]
    if images:
        parts.append(details("Images on which monitors err most", images_part(result)))
    parts += [items(result.warnings), methods_part(result)]
    return "\n".join(part for part in parts if part)


def named_figures(result: MonitorEvaluation) -> list[tuple[str, Figure]]:
    """Return all figures with the names of their files; those of single monitors are numbered, best
    first.
    """
    figures = [(name, result.figure(name)) for name in available(result)]
    names = leading(result, MOST_FIGURE_MONITORS)
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
    labels_title = "Which monitor has the highest AUROC under which labels?"
    if result.disagreement is not None:
        labels_title = "Do OOD labels stand for failures?"
    rows = table_block(rows_table(result), MOST_ROWS, all_in=ROWS)
    numbers = numbers_part(result) + details("All quantities", rows)
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
    answer = _answer(result, from_command=bool(command))
    return answer_page(title, summary_line(result), answer, parts)


def of_monitors(result: MonitorEvaluation) -> str:
    """Return the sentences on monitors, and their AUROC under OMS and OOD labels side by side."""
    if not result.paradigms:
        return framed(items(result.sentences()))
    heads = [f"AUROC, {paradigm.upper()} labels" for paradigm in result.paradigms]
    rows: list[TableRow] = []
    for name in result.monitors:
        areas = [result.get("AUROC", name, paradigm) for paradigm in result.paradigms]
        rows.append((name, *areas))
    table = Table(("monitor", *heads), tuple(rows), title=count_text("image", result.n_images))
    return framed(items(result.sentences()) + (table_block(table) if rows else ""))


def summary_line(result: MonitorEvaluation) -> str:
    """Return monitors, images and labels in one line."""
    facts = [count_text("monitor", len(result.monitors)), count_text("image", result.n_images)]
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
    chance = area is not None and not math.isnan(area.low) and not beats_chance(result, best)
    # The second sentence is about the threshold: it answers the question, unless the monitor is no
    # better than chance.
    k = 1 if len(sentences) > 1 and result.tau is not None and not chance else 0
    first = sentences[k] if sentences else "Nothing can be said."
    if chance:
        first = f"No. {first}"
    return first, [*sentences[:k], *sentences[k + 1 :], *of_labels(result)]


def _answer(result: MonitorEvaluation, *, from_command: bool) -> str:
    first, rest = verdict(result)
    figures = "".join(_figure_blocks(result, beside_answer(result)))
    warnings = result.warnings
    if from_command:
        warnings = tuple(map(command_line_warning, warnings))
    cautions = f"<h3>Cautions</h3>{items(warnings)}" if warnings else ""
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


def numbers_part(result: MonitorEvaluation) -> str:
    """Return the quantities of the leading monitors, and the differences between all pairs."""
    if not result.paradigms:
        return ""
    names = leading(result, MOST_TABLE_MONITORS)
    notes = []
    if len(names) < len(result.monitors):
        notes.append(
            f"The {len(names)} of {len(result.monitors)} monitors with the highest AUROC; "
            f"{DOCUMENT} has all."
        )
    for name in names:
        notes.append(f"{name}: {threshold_text(result.thresholds[name], others_of(result))}.")
    quantities = quantities_table(result, names).with_notes(*notes)
    meanings = items([f"{name}: {words}." for name, words in QUANTITIES.items()])
    return "\n".join(
        [
            table_block(quantities, len(quantities.rows)),
            details("What the quantities are", meanings),
            table_block(pairs_table(result), all_in=DOCUMENT),
        ]
    )


def order_part(result: MonitorEvaluation) -> str:
    """Return the ROC curves of both paradigms, and what does not stand beside the answer."""
    return in_pairs(_figure_blocks(result, _not_in_answer(result, "roc", "risk", "auroc")))


def _not_in_answer(result: MonitorEvaluation, *starts: str) -> list[str]:
    answer = beside_answer(result)
    return [name for name in _has(result, *starts) if name not in answer]


def outcomes_part(result: MonitorEvaluation) -> str:
    """Return for every leading monitor what it accepts and rejects, and where its scores lie."""
    note = ""
    if len(result.monitors) > MOST_FIGURE_MONITORS:
        note = (
            f"Figures of the {MOST_FIGURE_MONITORS} of {len(result.monitors)} monitors with the "
            "highest AUROC."
        )
    rows = [paragraph(note, "note")]
    for k, name in enumerate(leading(result, MOST_FIGURE_MONITORS)):
        blocks = []
        if result.paradigms and result.thresholds[name] is not None:
            outcomes = result.figure("outcomes", name)
            blocks.append(figure_block(outcomes, f"fig-monitor-outcomes-{k}"))
        blocks.append(figure_block(result.figure("scores", name), f"fig-monitor-scores-{k}"))
        rows.append(in_pairs(blocks))
    names = leading(result, MOST_TABLE_MONITORS)
    halves = table_block(halves_table(result, names), all_in=DOCUMENT)
    return "\n".join([halves, *rows, table_block(rejected_table(result), all_in=DOCUMENT)])


def labels_part(result: MonitorEvaluation) -> str:
    """Return how far OOD labels stand for failures, and which monitor has the highest
    AUROC under which labels.
    """
    blocks = _figure_blocks(result, _has(result, "ranking"))
    if result.disagreement is not None:
        both = table_block(labels_table(result)) + table_block(shares_table(result))
        blocks.insert(0, f"<div>{both}</div>")
    order = table_block(order_table(result), all_in=DOCUMENT)
    return in_pairs(blocks) + (details("Highest AUROC at every tau", order) if order else "")


def tau_part(result: MonitorEvaluation) -> str:
    """Return AUROC and the share of unsafe images against tau, unless they stand beside the
    answer.
    """
    return in_pairs(_figure_blocks(result, _not_in_answer(result, "sweep", "prevalence")))


def _has(result: MonitorEvaluation, *starts: str) -> list[str]:
    return [name for name in available(result) if name.startswith(starts)]


def _images(
    result: MonitorEvaluation, scope: Scope | None, cohort: Cohort | None, folder: Path | None
) -> str:

    return images_part(result, scope, cohort, folder) or nothing_wrong(result)


@dataclass(frozen=True)
class ImageGroup:
    """Images on which a monitor errs, the worst errors first."""

    title: str
    why: str
    images: I64  # of the evaluation of monitors; all of them
    monitor: str


def embarrassing(result: MonitorEvaluation) -> list[ImageGroup]:
    """Return the images on which the leading monitors err at their thresholds; nothing without
    labels or thresholds.
    """
    # Failures come before foreign images: they are what a monitor is for.
    labels = headline(result.basis.labels, OMS) or headline(result.basis.labels, OOD)
    groups: list[ImageGroup] = []
    if labels is None:
        return groups
    other_word, wanted_word = WORDS[labels.paradigm]
    judged = result.basis.judged
    for name in leading(result, MOST_ALBUM_MONITORS):
        rejected = rejected_by(result, name)
        if rejected is None:
            continue
        alarm = result.basis.monitors.alarm[result.monitors.index(name)]
        # The worst errors are the ones at the far end of the scale: unsafe images with the lowest
        # alarms, safe ones with the highest.
        for kind, word, wrong, order, fate, first in (
            (labels.positive, wanted_word, ~rejected, alarm, "accepted", "lowest"),
            (~labels.positive, other_word, rejected, -alarm, "rejected", "highest"),
        ):
            images = np.flatnonzero(kind & wrong & judged)
            images = images[np.argsort(order[images], kind="stable")]
            n = int((kind & judged).sum())
            why = f"{len(images)} of {n} images that are {word}, {first} alarms first."
            groups.append(ImageGroup(f"{short_name(name)}: {word} and {fate}", why, images, name))
    return groups


def images_part(
    result: MonitorEvaluation,
    scope: Scope | None = None,
    cohort: Cohort | None = None,
    folder: Path | None = None,
) -> str:
    """Return images on which monitors err: as pictures if the cohort is at hand, and as tables; ""
    if there are none.

    Parameters
    ----------
    scope
        With the names of the cohort; those of ``result`` may be shortened.
    """
    groups = [group for group in embarrassing(result) if len(group.images)]
    if not groups:
        return ""
    if cohort is None:
        return images_tables(result, groups)
    album = _album(scope or result.scope, groups, cohort, folder)
    pictures = album_html(album, volumes=cohort.dimensions == 3)
    return pictures + details("These images and more as tables", images_tables(result, groups))


def images_tables(result: MonitorEvaluation, groups: Sequence[ImageGroup]) -> str:
    """Return a table for every group."""
    parts = []
    for k, group in enumerate(groups):
        table = images_table(result, group)
        notes = [group.why]
        if len(group.images) > len(table.rows):
            notes.append(f"{IMAGES} has all of them.")
        table = replace(table, title=group.title, name=f"table-images-{k}").with_notes(*notes)
        parts.append(table_block(table))
    return "\n".join(parts)


def images_table(result: MonitorEvaluation, group: ImageGroup) -> Table:
    """Return the alarm score, the score s and the labels of the first images of a group."""
    monitors, scope = result.basis.monitors, result.scope
    k = result.monitors.index(group.monitor)
    alarm_scores = monitors.alarm[k] if monitors.higher_is_alarm[k] else -monitors.alarm[k]
    columns: dict[str, list[Cell]] = {"image": [], "alarm score": [], "s": []}
    ood = headline(result.basis.labels, OOD)
    for i in group.images[:MOST_IMAGES].tolist():
        columns["image"].append(scope.images[i])
        columns["alarm score"].append(float(alarm_scores[i]))
        columns["s"].append(float(scope.score[i]))
        if len(scope.n_references):
            columns.setdefault("references", []).append(int(scope.n_references[i]))
            columns.setdefault("predictions", []).append(int(scope.n_predictions[i]))
        if ood is not None:
            columns.setdefault("out of distribution", []).append("yes" if ood.positive[i] else "no")
    return Table(tuple(columns), tuple(zip(*columns.values())))


def _album(
    scope: Scope, groups: Sequence[ImageGroup], cohort: Cohort, folder: Path | None
) -> Album:
    """Return the pictures with the marks of the monitored model, matched as in its scope."""
    # Images are found by their names in the cohort, which the display names may have shortened.
    place = {image: k for k, image in enumerate(cohort.images.ids)}
    settings = scope.settings
    base = Protocol.load(MATCHING)
    matching = replace(
        base.matching,
        criterion=settings.get("criterion", base.matching.criterion),
        assignment=settings.get("assignment", base.matching.assignment),
        threshold=settings.get("iou", base.matching.threshold),
    )
    protocol = replace(base.only(base.headline[:1]), matching=matching, cluster="image")
    one_model = replace(cohort, models={scope.model: cohort.predictions(scope.model)})
    # Pictures show matches and no numbers, so there are no rows.
    evaluation = with_display_names(Evaluation(protocol, one_model, (), {}, ci=False))
    picture_groups = []
    for group in groups:
        places = [place[scope.images[i]] for i in group.images[:MOST_PICTURES].tolist()]
        picture_groups.append((group.title, group.why, places))
    return album_of(
        evaluation,
        folder,
        picture_groups,
        model=evaluation.models[0],
        cut=settings.get("score_cut", -np.inf),
    )


def nothing_wrong(result: MonitorEvaluation) -> str:
    """Return why no image is shown."""
    if not result.paradigms:
        return paragraph(
            "Without tau or OOD labels, no image can be called wrongly accepted or rejected."
        )
    return paragraph("No monitor has a threshold, or none makes an error at its threshold.")


def methods_part(result: MonitorEvaluation) -> str:
    """Return the paragraph and its sources."""
    return paragraph(methods(result)) + details("Sources", items(SOURCES))


def methods(result: MonitorEvaluation) -> str:
    """Return how monitors were evaluated, in sentences."""
    return " ".join(
        [
            *_scope(result),
            *_labels(result),
            *_quantities(result),
            *_thresholds(result),
            *_intervals(result),
        ]
    )


def _scope(result: MonitorEvaluation) -> Iterator[str]:
    settings, model = result.scope.settings, result.scope.model
    score = settings.get("score", "given")
    if score == "labels":
        yield f"An image is safe if the label that {model} predicts is the true one."
        return
    if score == "given":
        yield f"The score s of every image, high where {model} is good, was computed elsewhere."
    elif score == "mF1":
        yield (
            f"The score s of an image is the mean F1 of {model}, "
            "2 TP / (predictions + references), over "
            f"{CLASSES.get(str(settings.get('classes')), 'classes')}; hits by "
            f"{settings.get('criterion')} at {settings.get('iou', 0.5):g} "
            f"(assignment {settings.get('assignment')}), within a class."
        )
    else:
        of = f" of the protocol {settings['protocol']}" if "protocol" in settings else ""
        yield (
            f"The score s of an image is {score}{of} of {model} on this image alone, and 1 if "
            "there is nothing on it."
        )
    if "score_cut" in settings:
        yield f"Predictions with a score below {settings['score_cut']:g} do not count."
    if "set_aside" in settings:
        yield f"Broken records that were set aside and are not counted: {settings['set_aside']}."


def _labels(result: MonitorEvaluation) -> Iterator[str]:
    if OMS in result.paradigms and not result.scope.binary:
        yield (
            "Under OMS (out of model scope) labels an image is unsafe, and an alarm wanted, if "
            f"s < {result.tau:g}."
        )
    elif result.tau is None and result.taus:
        n = len(result.taus)
        yield f"An image is unsafe if s < tau; no single tau was chosen, {n} values were swept."
    if OOD in result.paradigms:
        yield (
            "Under OOD labels an alarm is wanted on the images that were labelled out of "
            "distribution."
        )
    else:
        yield "No OOD labels were given."


def _quantities(result: MonitorEvaluation) -> Iterator[str]:
    yield (
        "AUROC counts ties half; AUPR is the average precision with equal scores as one point; "
        "FPR95 is the smallest share of other images rejected at an attainable threshold that "
        "rejects 95 % of the wanted ones, without interpolation. AURC is the mean risk over all "
        "coverages, with the expected value inside ties; E-AURC is its exact excess over the best "
        "order."
    )
    if result.settings["stakes"] == "labels":
        yield (
            "SG, RH and AC are the shares of all images that are unsafe and rejected, unsafe and "
            "accepted, safe and rejected (for OOD labels: out of distribution instead of unsafe)."
        )
    else:
        yield (
            "SG, RH and AC are mean hazard removed, mean hazard left and mean reward lost, with "
            "the given severities, hazards and fall-back hazards."
        )


def _thresholds(result: MonitorEvaluation) -> Iterator[str]:
    thresholds = []
    for name, threshold in result.thresholds.items():
        if threshold is not None:
            thresholds.append(f"{name}: {threshold_text(threshold, others_of(result))}")
    if not thresholds:
        yield "No threshold was used."
        return
    yield f"Thresholds: {'; '.join(thresholds)}."
    if result.split.random:
        n = int(result.basis.judged.sum())
        yield (
            "As no tuning images were named, thresholds were chosen on a random half of the "
            f"{plural(result.settings['unit'])}; all numbers at a threshold come from the other "
            f"{n} images."
        )
    elif result.split.tuning.any():
        n = int(result.split.tuning.sum())
        yield f"The {n} tuning images were used for the thresholds only."


def _intervals(result: MonitorEvaluation) -> Iterator[str]:
    settings = result.settings
    if not settings["replicates"]:
        yield "No confidence intervals were computed."
        return
    yield (
        f"{level_text(settings['level'])} confidence intervals come from {settings['replicates']} "
        f"bootstrap replicates, resampled by {settings['unit']} (n = {settings['n_units']}, seed "
        f"{settings['seed']}); all monitors and labels use the same resampled weights, and pairs "
        "of monitors are compared under them, with Holm's correction."
    )


def monitors_with_display_names(result: MonitorEvaluation) -> MonitorEvaluation:
    """Return the evaluation with display names of monitors, model, unit and images."""
    unit = result.settings["unit"]
    all_names = [*result.monitors, result.scope.model, *result.scope.images, unit]
    names = Short(all_names, series=result.monitors)
    if not names.changed:
        return result
    name = names.name
    basis, scope = result.basis, result.scope
    disagreement = None
    if result.disagreement is not None:
        disagreement = _disagreement(result.disagreement, name)
    return replace(
        result,
        monitors=tuple(map(name, result.monitors)),
        scope=replace(scope, model=name(scope.model), images=tuple(map(name, scope.images))),
        rows=tuple(_row(row, name) for row in result.rows),
        thresholds={name(monitor): threshold for monitor, threshold in result.thresholds.items()},
        disagreement=disagreement,
        settings={**result.settings, "unit": name(unit)},
        halves=tuple(replace(one, monitor=name(one.monitor)) for one in result.halves),
        basis=replace(
            basis,
            monitors=replace(basis.monitors, names=tuple(map(name, basis.monitors.names))),
            units=replace(basis.units, name=name(basis.units.name)),
            free=tuple(replace(one, model=name(one.model)) for one in basis.free),
            decided=tuple(replace(one, model=name(one.model)) for one in basis.decided),
        ),
    )


def _disagreement(result: Disagreement, name: Callable[[str], str]) -> Disagreement:
    alarms = {name(monitor): counts for monitor, counts in result.alarms.items()}
    return replace(result, alarms=alarms, rows=tuple(_row(row, name) for row in result.rows))


def _row(row: Row, name: Callable[[str], str]) -> Row:
    return replace(
        row, model=name(row.model), estimate=replace(row.estimate, unit=name(row.estimate.unit))
    )
