# SPDX-License-Identifier: Apache-2.0
"""The sections of an evaluation's page, in reading order (`SECTIONS`).

Every section is a function that takes the `Context` of the page and returns HTML, or "" if it has
nothing to show; `report.page` calls them and leaves out the empty ones. Nothing is computed here:
values come from the evaluation, tables from `evaluation.tables`, and figures were made before
(`report.contents`). The sections on pictures and maps are in `report.sections_images`, the methods
in `report.methods`.

========================  =================================================================
`section`                 what was evaluated, and what to know before trusting the numbers
`curves_section`          FROC and precision-recall curves with their bands
`parts`                   RoDeO's parts beside average precision
`classes`, `groups`       estimates side by side, per class and per group
`errors_section`          fates, scores and overlaps; kinds of mistakes (TIDE), with examples
`choices`                 how much the answer depends on the threshold
`multiverse_section`      whether the ranking changes under other analysis choices
`stability_section`       whether models that were trained alike find the same objects
`monitor_section`         whether a monitor of the model can be trusted
`comparison_section`      whether differences are more than chance; the ranking
`numbers_section`         every row, in a table that the reader can search, sort and save
`reproduce_section`       what is needed to get the same numbers, and a hash to compare by
========================  =================================================================

The rows of `numbers_section` travel as JSON, deflated (`payload`), because 80 classes of 10 models
would be a megabyte of HTML; a script shows them page by page, as text only. Without scripts the
section names the file that has the same numbers.
"""

from __future__ import annotations

import base64
import json
import math
import shlex
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.evaluation.figures_errors import KIND, WORDS
from calipers.evaluation.result import Evaluation
from calipers.evaluation.saved import mistakes_of
from calipers.evaluation.tables import (
    classes_table,
    groups_table,
    metrics_table,
    summary_tables,
)
from calipers.kernels.error_types import MISS
from calipers.kernels.route import native
from calipers.metrics.error_types import KINDS, ErrorTypes
from calipers.report import methods, sections_images
from calipers.report.contents import (
    MOST_LINES,
    MOST_MODELS,
    MOST_PAIRED,
    has_objects,
    metrics_by_class,
    metrics_by_group,
    pairs_shown,
)
from calipers.report.context import Context
from calipers.results.comparison import Comparison, GroupedRows
from calipers.results.estimate import Row
from calipers.results.files import environment
from calipers.show import html
from calipers.show.comparison_tables import differences_table
from calipers.show.html import details, items, paragraph, table_block, text
from calipers.show.table import Cell, Table
from calipers.show.words import count_text as counted
from calipers.show.words import digits, short_name

MOST_SENTENCES = 8  # on differences; the table below them has all
MOST_COLUMNS = 4  # models
MOST_CLASSES = 150  # rows of the table of the data
EXAMPLES = 3  # of each kind and model
COLUMNS = (
    "model",
    "kind",
    "image",
    "class",
    "class of the reference",
    "score",
    "similarity",
    "prediction",
    "reference",
)
MOST_LINKS = 12  # from mistakes to pictures
MOST_TABLED = 300  # cells of a static table of classes; the table of all numbers has the others
MOST_NUMBER_ROWS = 12_000  # of the table of all numbers
NUMBER_COLUMNS = (
    "model",
    "metric",
    "class",
    "group",
    "value",
    "low",
    "high",
    "units",
    "references",
    "predictions",
    "note",
)
LONGEST_NAME = 800  # several names of a group are joined


def comparison_section(page: Context) -> str:
    """Return differences with intervals and tests, and the ranking; nothing for one model."""
    comparison = pairs_shown(page.evaluation, page.comparison)
    figures = page.blocks("fig-differences", "fig-ranking")
    if comparison is None or not figures:
        return ""
    n_more = len(comparison.rows) - MOST_SENTENCES
    more = f"{counted('more difference', n_more)} in the table." if n_more > 0 else ""
    parts = [
        paragraph(
            f"Paired differences on the same images, resampled by {comparison.unit} "
            f"(n = {comparison.n_units}); {_family_in_words(page, comparison)}"
        ),
        f'<div class="pair">{figures}</div>',
        items([row.sentence for row in comparison.rows[:MOST_SENTENCES]]),
        paragraph(more, "note"),
        table_block(differences_table(comparison)),
    ]
    return "\n".join(part for part in parts if part)


def _family_in_words(page: Context, comparison: Comparison) -> str:
    """Return which tests were corrected together, and which of them are shown."""
    n_tests = counted("test", comparison.family)
    family = f"p values corrected together ({comparison.correction}, {n_tests})."
    if page.duel is not None:
        family = (
            "p values corrected together with those at one false alarm per image "
            f"({comparison.correction}, {n_tests})."
        )
    if len(page.evaluation.models) <= MOST_PAIRED:
        return family
    leader, metric = comparison.rows[0].model_a, page.evaluation.headline[0]
    return (
        f"{family} {short_name(leader)}, first in {metric}, is shown against the others; because "
        "it was chosen on these images, the pairs of the others count as tests too."
    )


def curves_section(page: Context) -> str:
    """Return the curves of the leading models; nothing without scores or references."""
    ev, blocks = page.evaluation, page.blocks("fig-froc", "fig-pr")
    if not blocks:
        return ""
    models = ev.leading(MOST_LINES)
    n_omitted = len(ev.models) - len(models)
    note = (
        f"The first {len(models)} models by {ev.headline[0]}; {n_omitted} more are in the tables."
        if n_omitted
        else ""
    )
    return paragraph(note, "note") + f'<div class="pair">{blocks}</div>'


def section(page: Context) -> str:
    """Return warnings, classes and the account of every input."""
    ev = page.evaluation
    cautions = ""
    if page.warnings:
        warnings = html.items(page.warnings)
        cautions = f'<div class="care"><h3>Before you trust these numbers</h3>{warnings}</div>'
    caption = "References and predictions of every class"
    if len(ev.cohort.classes) > MOST_CLASSES:
        caption = (
            f"References and predictions of the {MOST_CLASSES} classes with most references, and "
            "of all"
        )
    if len(ev.models) > MOST_COLUMNS:
        caption += f", of the first {MOST_COLUMNS} of {len(ev.models)} models"
    parts = [
        cautions,
        table_block(replace(_classes(page), title=caption), MOST_CLASSES),
    ]
    if ev.cohort.intake.files:
        files_caption = "Every input: records read = used + set aside"
        if any(file.assumed_empty is not None for file in ev.cohort.intake.files):
            files_caption += "; samples without a map are assumed to be empty"
        parts.append(table_block(replace(_files(page), title=files_caption)))
    return "\n".join(part for part in parts if part)


def _classes(page: Context) -> Table:
    cohort = page.evaluation.cohort
    references = cohort.references
    n_classes = len(cohort.classes)
    n_references = _count_labels(references.label[~references.ignore], n_classes)
    n_ignored = int(references.ignore.sum())
    extra = f", without {n_ignored} ignored" if n_ignored else ""
    names = ["class", f"references{extra}"]
    columns = [n_references]
    for model in list(cohort.models)[:MOST_COLUMNS]:
        names.append(f"predictions of {short_name(model)}")
        columns.append(_count_labels(cohort.models[model].label, n_classes))
    # If there are too many classes, those with most references stay, in the order of the cohort.
    most_references = sorted(range(n_classes), key=lambda k: -n_references[k])[:MOST_CLASSES]
    rows: list[tuple[Cell, ...]] = []
    for k in sorted(most_references):
        rows.append((cohort.classes[k], *(column[k] for column in columns)))
    total: tuple[Cell, ...] = ("all classes", *map(sum, columns))
    return Table(tuple(names), tuple(rows), summary=(total,), name="table-classes")


def _count_labels(label: NDArray[np.int32], n_classes: int) -> list[int]:
    return [int((label == k).sum()) for k in range(n_classes)]


def _files(page: Context) -> Table:
    files = page.evaluation.cohort.intake.files
    columns = ["file", "role", "format", "read", "used", "set aside", "sha256 (first 16)"]
    # Only maps can be missing and count as empty.
    with_maps = any(file.assumed_empty is not None for file in files)
    if with_maps:
        columns.insert(5, "assumed empty")
    rows = []
    for file in files:
        aside = sum(file.quarantined.values())
        row: list[Cell] = [Path(file.file).name, file.role, file.format, file.read, file.used]
        if with_maps:
            row.append(file.assumed_empty)
        rows.append((*row, aside, file.sha256[:16]))
    return Table(tuple(columns), tuple(rows), name="table-files")


def introduction(ev: Evaluation) -> str:
    """Return what the kinds mean, in words; nothing without error types."""
    metric = next(
        (metric for metric in ev.protocol.compile() if isinstance(metric, ErrorTypes)), None
    )
    if metric is None:
        return ""
    r = metric.recipe
    return paragraph(
        f"A prediction is right if its {r.criterion} with a free reference of its class is at "
        f"least {r.foreground:g}. Every other prediction is a mistake of one kind: place "
        f"({r.criterion} "
        f"from {r.background:g} to {r.foreground:g} with its class), class (at least "
        f"{r.foreground:g} with another class), double (another prediction already has its "
        f"reference), nothing (at most {r.background:g} with any reference), both (all others). "
        "Missed references are those that no mistake in place or class comes near. The cost of a "
        "kind is what fixing it would gain: the best mistake on a free reference becomes a hit, "
        "and the others are removed; missed references are removed."
    )


def examples(page: Context, models: Sequence[str]) -> str:
    """Return the mistakes with the highest scores and the largest missed references, with links to
    their pictures.
    """
    ev = page.evaluation
    if not any(plan.kind == KIND for plan in ev.protocol.metrics):
        return ""
    rows: list[tuple[Cell, ...]] = []
    for model in models:
        rows += _rows(ev, model)
    if not rows:
        return ""
    words = (
        f"Per model and kind, the {EXAMPLES} mistakes with the highest scores, and the {EXAMPLES} "
        "largest missed references. Predictions and references are numbered as in objects.parquet; "
        "errors.csv has all mistakes."
    )
    table = Table(COLUMNS, tuple(rows), title="Mistakes to look at", name="table-mistakes")
    block = table_block(table, all_in="errors.csv")
    return paragraph(words) + block + _links(page, [str(row[2]) for row in rows])


def _rows(ev: Evaluation, model: str) -> Iterator[tuple[Cell, ...]]:
    mistakes, cohort = mistakes_of(ev, model), ev.cohort
    references, predictions = cohort.references, cohort.predictions(model)
    for kind, code in KINDS.items():
        if code == MISS:
            lost = np.flatnonzero(mistakes.reference_kind == MISS)
            largest = lost[np.argsort(-references.area[lost], kind="stable")]
            for k in largest[:EXAMPLES].tolist():
                image = cohort.images.ids[mistakes.reference_image[k]]
                label = cohort.classes[references.label[k]]
                yield model, _kind_name(kind), image, "", label, None, None, None, k
            continue
        rows = np.flatnonzero((mistakes.prediction_kind == code) & ~mistakes.covered)
        # Stable, so that ties are listed in the order of the input and the page stays the same.
        highest = rows[np.argsort(-mistakes.score[rows], kind="stable")]
        for k in highest[:EXAMPLES].tolist():
            image = cohort.images.ids[mistakes.prediction_image[k]]
            label = cohort.classes[predictions.label[k]]
            score = float(mistakes.score[k])
            partner = int(mistakes.partner[k])
            if partner < 0:  # no reference is near
                yield model, _kind_name(kind), image, label, "", score, None, k, None
                continue
            partner_label = cohort.classes[references.label[partner]]
            similarity = float(mistakes.similarity[k])
            name = _kind_name(kind)
            yield model, name, image, label, partner_label, score, similarity, k, partner


def _links(page: Context, images: Sequence[str]) -> str:
    """Return links to those images that the page shows."""
    if page.album is None:
        return ""
    addresses: dict[str, str] = {}
    for g, group in enumerate(page.album.groups):
        for k, entry in enumerate(group.entries):
            # An image can be in several groups; the first place is as good as the others.
            addresses.setdefault(entry.id, f"#image-{g}-{k}")
    places = [(name, addresses[name]) for name in dict.fromkeys(images) if name in addresses][
        :MOST_LINKS
    ]
    links = ", ".join(f'<a href="{place}">{text(name)}</a>' for name, place in places)
    return f'<p class="note">Pictures of these images are below: {links}.</p>' if links else ""


def _kind_name(kind: str) -> str:
    """Return a kind as the bars and as errors.csv call it."""
    return WORDS[kind] if WORDS[kind] == kind else f"{WORDS[kind]} ({kind})"


def errors_section(page: Context) -> str:
    """Return fates, scores of right and wrong predictions, and overlaps of hits; nothing without
    any object.

    If the protocol has error types, the cost of each kind of mistake comes first, and examples come
    last.
    """
    ev = page.evaluation
    if not has_objects(ev):
        return ""
    models = ev.leading(MOST_MODELS)
    blocks = page.blocks("fig-error-", "fig-fates", "fig-overlaps", "fig-scores-")
    n_omitted = len(ev.models) - len(models)
    note = ""
    if n_omitted:
        note = f"The first {len(models)} of {len(ev.models)} models by {ev.headline[0]}."
    return (
        introduction(ev)
        + paragraph(note, "note")
        + f'<div class="pair">{blocks}</div>'
        + examples(page, models)
    )


def choices(page: Context) -> str:
    """Return the average precision against the threshold; nothing if it cannot vary."""
    ev, figure = page.evaluation, page.blocks("fig-thresholds")
    if not figure:
        return ""
    words = (
        f"The protocol counts a prediction as a hit at {ev.protocol.matching.criterion} "
        f"{ev.protocol.matching.threshold:g}. The threshold is a choice; the figure shows the "
        "result at other thresholds."
    )
    return paragraph(words) + figure


def parts(page: Context) -> str:
    """Return average precision beside the parts of RoDeO, which explain the score of a model."""
    figure = page.blocks("fig-rodeo")
    if not figure:
        return ""
    words = (
        "Average precision measures how well predictions are ranked. RoDeO measures what is wrong "
        "with them: their place (loc), their shape, or their class (cls); missed and surplus boxes "
        "lower all three."
    )
    return paragraph(words) + figure


def classes(page: Context) -> str:
    """Return the headline metrics per class; nothing for a single class."""
    ev, blocks = page.evaluation, page.blocks("fig-classes-")
    if not blocks:
        return ""
    figures = f'<div class="pair">{blocks}</div>'
    if len(ev.cohort.classes) * len(ev.models) <= MOST_TABLED:
        tables = "".join(table_block(classes_table(ev, name)) for name in metrics_by_class(ev))
        return figures + details("As tables", f'<div class="pairs">{tables}</div>')
    return figures + paragraph(
        "The table of all numbers below has all classes, metrics and models.", "note"
    )


def groups(page: Context) -> str:
    """Return the headline metrics per group, grouping by grouping."""
    return "\n".join(
        _grouping(page, grouping, g) for g, grouping in enumerate(page.evaluation.groupings)
    )


def _grouping(page: Context, grouping: GroupedRows, number: int) -> str:
    """Return figures and tables of one grouping; for many groups fewer of them, because the table
    of all numbers has the rest.
    """
    ev = page.evaluation
    places = dict.fromkeys((row.metric, row.label) for row in grouping.rows)  # an ordered set
    names = metrics_by_group(ev, grouping)
    if not names:
        return ""
    n_groups = len(grouping.table(names[0], None, ev.models))
    blocks = page.blocks(f"fig-groups-{number}-")
    table_rows: list[tuple[str, str | None]] = [(name, None) for name in names]
    for metric, label in places:
        if label is not None and metric == names[0]:
            table_rows.append((metric, label))
    # Many groups of many models: fewer tables, at least one.
    n_tables = max(1, MOST_TABLED // (n_groups * len(ev.models)))
    tables = ""
    for place in table_rows[:n_tables]:
        tables += table_block(groups_table(ev, grouping, *place))
    over = grouping.first_column
    if over is not None and "," in grouping.by:
        for table in summary_tables(ev.summary(over, by=grouping.by), names):
            tables += table_block(replace(table, name=f"{table.name}-{number}"))
    n_omitted = len(table_rows) - n_tables
    note = ""
    if n_omitted > 0:
        note = f"The table of all numbers has {n_omitted} more tables of groups."
    parts = [
        f"<h3>{text(grouping.title[:1].upper() + grouping.title[1:])}</h3>",
        f'<div class="pair">{blocks}</div>',
        details(
            "As tables, with mean and range of the groups", f'<div class="stack">{tables}</div>'
        ),
        paragraph(note, "note"),
    ]
    return "\n".join(parts)


def reproduce_section(page: Context) -> str:
    """Return command, protocol, hashes, versions and seed."""
    ev = page.evaluation
    command = " ".join(shlex.quote(word) for word in page.command)
    parts = [
        f"<h3>Command</h3><pre>{text(command)}</pre>" if command else "",
        table_block(
            Table(("what", "value"), tuple(_facts(page)), title="The run", name="table-run")
        ),
        _inputs(page),
        details(
            "The protocol, to run it again (TOML)", f"<pre>{text(ev.protocol.to_toml())}</pre>"
        ),
    ]
    if page.hidden:
        parts.append(
            paragraph(
                "Ids and names of files are replaced by keyed hashes in this page; the key was not "
                "kept.",
                "note",
            )
        )
    return "\n".join(part for part in parts if part)


def _facts(page: Context) -> list[tuple[str, str]]:
    from calipers import __version__

    ev = page.evaluation
    facts = {
        "calipers": __version__,
        "kernels": "numpy" if native() is None else "native",
        **{name: str(value) for name, value in environment().items()},
        "seed": str(ev.protocol.seed),
        "random numbers": "Philox4x64, key = [seed, replicate]",
        "replicates": str(ev.statistics["replicates"]),
        "protocol sha256": page.protocol_hash,
    }
    if page.result_hash:
        facts["result sha256"] = page.result_hash
    return list(facts.items())


def _inputs(page: Context) -> str:
    files = page.evaluation.cohort.intake.files
    # The hash of a file would let anybody who has it recognise it.
    if not files or page.hidden:
        return ""
    rows = tuple((file.file, file.bytes, file.sha256) for file in files)
    table = Table(("file", "bytes", "sha256"), rows, title="Inputs", name="table-inputs")
    return details("Inputs and their hashes", table_block(table))


def numbers_section(page: Context) -> str:
    """Return all pooled metrics, and the place of the table whose rows are in `payload`."""
    total = len(page.evaluation.rows)
    words = f"{total} estimates: every metric, model, class and group."
    if total > MOST_NUMBER_ROWS:
        words += f" This page has the first {MOST_NUMBER_ROWS}, evaluation.json has all."
    off = (
        "This table needs JavaScript. The same rows are in evaluation.json, and many of them in "
        "the sections above."
    )
    pooled = table_block(metrics_table(page.evaluation))
    without_script = f"<noscript>{paragraph(off, 'note')}</noscript>"
    return f'{pooled}\n{paragraph(words)}<div id="every-row"></div>{without_script}'


def payload(page: Context) -> str:
    """Return the rows for a script element, as ``{"deflate": base64}``: no sign of HTML is in
    it.
    """
    text = json.dumps(_document(page), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    deflated = base64.b64encode(zlib.compress(text.encode("ascii"), 9)).decode("ascii")
    return json.dumps({"deflate": deflated})


def _document(page: Context) -> dict[str, Any]:
    rows = page.evaluation.rows[:MOST_NUMBER_ROWS]
    names: dict[str, dict[str, int]] = {
        "model": {},
        "metric": {},
        "class": {},
        "group": {},
        "note": {},
    }

    # Names repeat in every row: they travel once, and rows have their numbers.
    def code(kind: str, name: str) -> int:
        return names[kind].setdefault(name[:LONGEST_NAME], len(names[kind]))

    columns: list[list[Any]] = [[] for _ in NUMBER_COLUMNS]
    for row in rows:
        for column, entry in zip(columns, _pack_row(row, code)):
            column.append(entry)
    return {
        "columns": NUMBER_COLUMNS,
        "names": {kind: list(codes) for kind, codes in names.items()},
        "rows": columns,
    }


def _pack_row(row: Row, code: Any) -> tuple[Any, ...]:
    e = row.estimate
    group = ", ".join(f"{name} {value}" for name, value in (row.group or {}).items())
    # Intervals that nobody asked for are no reason to warn.
    notes = [] if e.reason in (None, "not_requested") else [str(e.reason)]
    note = "; ".join([*notes, *e.flags]).replace("_", " ")
    return (
        code("model", row.model),
        code("metric", row.metric),
        code("class", row.label or ""),
        code("group", group),
        *map(_short, (e.value, e.low, e.high)),
        e.n_units,
        e.n_references,
        e.n_predictions,
        code("note", note),
    )


def _short(value: float) -> float | int | None:
    """Return a number with four significant digits: the page is for reading, evaluation.json for
    computing.
    """
    if not math.isfinite(value):
        return None
    short = float(digits(value, 4))
    return int(short) if short == int(short) and abs(short) < 1e15 else short


def readers_section(page: Context) -> str:
    """Return whether models agree with the readers as these agree with each other; nothing unless
    every reader is the reference in turn.
    """
    if not page.readers:
        return ""
    lead = (
        "Every reader is the reference in turn. <em>other readers</em> are the readers of the same "
        "images, judged by the same references: the yardstick for a model. Readers have no scores, "
        "so metrics that rank by score do not do them justice."
    )
    sentences = "".join(f"<li>{html.text(sentence)}</li>" for sentence in page.readers)
    return f"<p>{lead}</p><ul>{sentences}</ul>"


def monitor_section(page: Context) -> str:
    """Return the answer, the figures, the numbers and the methods; nothing if no monitor was
    evaluated.
    """
    if page.monitor is None:
        return ""
    # Few pages have this section, and its feature is large: it is imported when it is needed.
    from calipers.monitors.page import evaluation_section

    # A part names images, and a redacted page names none.
    return evaluation_section(page.monitor, images=not page.hidden)


def multiverse_section(page: Context) -> str:
    """Return the sentences of the multiverse, its figures and its shares; nothing if it was not
    requested.
    """
    if page.multiverse is None:
        return ""
    from calipers.sensitivity.page import evaluation_section

    return evaluation_section(page.multiverse)


def stability_section(page: Context) -> str:
    """Return what all, some and none of the models find; nothing if it was not requested."""
    if page.stability is None:
        return ""
    from calipers.stability.page import evaluation_section

    return evaluation_section(page.stability)


SECTIONS: tuple[tuple[str, str, Callable[[Context], str]], ...] = (
    ("data", "Data and cautions", section),
    ("maps", "Maps", sections_images.maps_section),
    ("readers", "Readers as the yardstick", readers_section),
    ("curves", "Curves", curves_section),
    ("parts", "Why: place, shape, class", parts),
    ("classes", "Per class", classes),
    ("groups", "Per group", groups),
    ("errors", "Errors", errors_section),
    ("objects", "Objects", sections_images.section),
    ("choices", "Sensitivity to choices", choices),
    ("multiverse", "Ranking under other choices", multiverse_section),
    ("images", "Images", sections_images.images_section),
    ("stability", "Stability", stability_section),
    ("monitor", "Monitor", monitor_section),
    ("comparison", "Comparison", comparison_section),
    ("methods", "Methods", methods.methods_section),
    ("numbers", "All numbers", numbers_section),
    ("reproduce", "Reproduce", reproduce_section),
)
