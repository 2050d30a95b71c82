# SPDX-License-Identifier: Apache-2.0
"""A saved evaluation: written to a folder, opened again, and compared with what is stored.

`Evaluation.save` calls `save`, which writes JSON, the cohort with the fates of its objects, the
page, and last the record of the run, which vouches for the other files. `open_evaluation` and
``calipers verify`` read such a folder back (`open_folder`), without the original inputs: the cohort
and the protocol are in the folder, so every row is computed again and must have identical bits.
Where the rules of intervals have changed since, an interval that differs stands as it was stored,
and is counted (`OpenedFolder.n_earlier`); values are compared all the same.

`error_table` makes the table of mistakes, one row per wrong prediction and per reference that no
prediction is near; `Evaluation.errors` calls it, and `save` writes it as ``errors.csv`` where the
protocol has error types.
"""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from calipers import errors
from calipers.arguments import names_arguments
from calipers.data.cohort import Cohort, FileIntake
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.evaluation.collect import Progress, collect
from calipers.evaluation.evaluate import evaluate
from calipers.evaluation.protocol import Protocol
from calipers.evaluation.result import INTERVAL_RULES, Evaluation, beside, cohort_counts
from calipers.io.saved.cohort import (
    IMAGES,
    OBJECTS,
    fact_columns,
    facts_of,
    image_columns,
    object_columns,
    shape_columns,
    shapes_of,
)
from calipers.io.saved.cohort import KINDS as KINDS_
from calipers.io.saved.folder import (
    EVALUATION,
    PAGE,
    QUARANTINE,
    RUN,
    StoredFolder,
    changed_columns,
    changed_texts,
    read_folder,
    stored_facts,
)
from calipers.io.saved.maps import MAP_FILES, SLICES, save_maps, save_slices
from calipers.io.source import Progress as ReadingProgress
from calipers.io.tables.arrow import constant_column, stack_columns, text_column_of, with_nulls
from calipers.io.tables.table import delimited, write_table
from calipers.kernels import assignment
from calipers.kernels.error_types import MISS
from calipers.kernels.route import native
from calipers.matching.matches import FATES, Matches
from calipers.metrics.base import MetricPlan
from calipers.metrics.error_types import KINDS, ErrorTypes, Mistakes
from calipers.metrics.rodeo import Rodeo, RodeoPaths
from calipers.results.document import Document
from calipers.results.estimate import Estimate
from calipers.results.files import check_folder, staged_folder, write_atomically
from calipers.results.provenance import (
    AUDIT,
    log_entry,
    read_log,
    run_record,
    settings_of,
    versions,
)
from calipers.results.schema import structure

PARTS = ("beside", "groups", "each")  # of the statistics: what has numbers that no row has
# Of the statistics: how the numbers were made.
MADE_BY = ("unit", "n_units", "generalises_to", "interval", "level", "replicates", "seed")


@dataclass(frozen=True)
class ChangedValue:
    """One stored value that differs when it is computed again."""

    place: str  # JSON pointer in evaluation.json; or a table, with a line or row
    what: str  # the row in words: ours, AP50, class nodule
    stored: Any
    now: Any

    def as_dict(self) -> dict[str, Any]:
        """Return the difference for JSON."""
        return {"place": self.place, "what": self.what, "stored": self.stored, "now": self.now}

    def __str__(self) -> str:
        return f"{self.place} ({self.what}): stored {self.stored!r}, now {self.now!r}"


@dataclass(frozen=True)
class OpenedFolder:
    """An evaluation computed again from its folder, the record of its run, and the differences."""

    evaluation: Evaluation
    run: Mapping[str, Any]
    file: str  # evaluation.json
    n_values: int
    changed: tuple[ChangedValue, ...]
    n_earlier: int = 0  # intervals by earlier rules, which stand as they were stored

    @property
    def command(self) -> tuple[str, ...]:
        """How the evaluation was asked for, as the record of the run has it."""
        command = self.run.get("command")
        return tuple(map(str, command)) if isinstance(command, list) else ()

    @property
    def stability(self) -> bool:
        """Whether its page had the section on the stability of repeated trainings."""
        return self._page_setting("stability")

    @property
    def multiverse(self) -> bool:
        """Whether its page had the section on the multiverse."""
        return self._page_setting("multiverse")

    def _page_setting(self, name: str) -> bool:
        settings = self.run.get("settings")
        return isinstance(settings, dict) and settings.get(name) is True

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings for whoever opened the folder: other versions, and values that differ."""
        then, now = versions(self.run)
        notes = []
        if then != now:
            notes.append(f"saved with {then}; this is {now}")
        if self.n_earlier:
            notes.append(
                f"{self.n_earlier} intervals follow earlier rules; they are shown as stored"
            )
        if self.changed:
            notes.append(
                f"{len(self.changed)} of {self.n_values} stored values differ; "
                f"the first is {self.changed[0]}"
            )
        return tuple(notes)

    def require_equal(self) -> None:
        """Raise if any value differs."""
        if not self.changed:
            return
        first, (then, now) = self.changed[0], versions(self.run)
        others = f", and {len(self.changed) - 1} values more" if len(self.changed) > 1 else ""
        raise InputError(
            f"{first.stored!r} as it is stored ({first.what})",
            rule="not-reproduced",
            file=self.file,
            location=first.place,
            value=first.now,
            hint=f"saved with {then}; this is {now}{others}: use the version it was saved with, "
            "evaluate again, or pass differences='warn' (--differences warn) to continue with the "
            "recomputed values",
        )


@names_arguments
def open_evaluation(
    folder: str | Path,
    *,
    differences: Literal["refuse", "warn"] = "refuse",
    jobs: int = 1,
    progress: Progress | None = None,
) -> Evaluation:
    """Open a saved evaluation: compute it again from its folder, and compare the values.

    Parameters
    ----------
    folder
        What `Evaluation.save` or ``calipers evaluate -o`` wrote. The original inputs are not
        needed.
    differences
        What happens if a value comes out with other bits, after an update of NumPy for instance:
        ``"refuse"`` raises, ``"warn"`` gives a warning and returns the recomputed values, which
        carry the warning with them.
    jobs
        Threads; the result does not depend on it.
    progress
        Called with (blocks done, blocks in all).

    Raises
    ------
    InputError
        A file is missing, cut off or changed, or ``not-reproduced``: a value differs.

    Examples
    --------
    >>> import calipers as cal, tempfile
    >>> ev = cal.evaluate(cal.demo_cohort(), "rodeo")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = cal.open_evaluation(ev.save(folder))
    >>> again["mislabels", "RoDeO"] == ev["mislabels", "RoDeO"]
    True
    """
    if differences not in ("refuse", "warn"):
        raise UsageError(f"differences is 'refuse' or 'warn', not {differences!r}")
    result = open_folder(folder, jobs=jobs, progress=progress)
    if differences == "refuse":
        result.require_equal()
    elif result.changed:
        warnings.warn(f"{result.file}: {result.notes[-1]}", stacklevel=2)
    return result.evaluation


def open_folder(
    folder: str | Path,
    *,
    jobs: int = 1,
    progress: Progress | None = None,
    reading: ReadingProgress | None = None,
) -> OpenedFolder:
    """Compute the evaluation of a folder again, and list the values that differ.

    `open_evaluation` explains it; ``reading`` is called with (name of the step, work done, work in
    all) before and after the work that ``progress`` counts.
    """
    saved = read_folder(Path(errors.path("folder", folder)), reading)
    statistics = _stored_statistics(saved)
    _check_counts(saved)
    evaluation = _evaluated_again(saved, statistics, jobs, progress)
    evaluation = replace(evaluation, slices=saved.slices)
    n_earlier = 0
    if statistics.interval_rules < INTERVAL_RULES and statistics.beside:
        evaluation, n_earlier = _with_earlier_intervals(evaluation, saved.document)
    evaluation.look_for_warnings(reading)  # counted here, and part of the document
    # Identical bits, not close values: a difference in the last digit already needs a reason.
    pairs = list(compared_values(saved.document, evaluation.as_dict()))
    changes = tuple(pair for pair in pairs if _bits(pair.stored) != _bits(pair.now))
    result = OpenedFolder(evaluation, saved.run, saved.file, len(pairs), changes, n_earlier)
    return replace(result, evaluation=_noted(result, saved)) if changes else result


def rows_of_now(folder: str | Path) -> list[dict[str, Any]]:
    """Return the rows of a saved evaluation with the intervals of now, whatever is stored.

    ``calipers check`` asks for them where a stored interval is not one of the metric.
    """
    saved = read_folder(Path(folder))
    _check_counts(saved)
    evaluation = _evaluated_again(saved, _stored_statistics(saved), jobs=1, progress=None)
    return [row.as_dict() for row in evaluation.rows]


def _stored_statistics(saved: StoredFolder) -> StoredStatistics:
    facts = saved.document.get("statistics")
    stored = structure(facts, StoredStatistics, saved.file, syntax="JSON", where="/statistics")
    if stored.interval_rules > INTERVAL_RULES:
        raise InputError(
            f"rules of intervals up to {INTERVAL_RULES}, those of this version",
            rule="range",
            file=saved.file,
            location="/statistics/interval_rules",
            value=stored.interval_rules,
            hint="a later version of Calipers saved it: open it with that one",
        )
    return stored


def _evaluated_again(
    saved: StoredFolder, statistics: StoredStatistics, jobs: int, progress: Progress | None
) -> Evaluation:
    return evaluate(
        saved.cohort,
        Protocol.from_dict(saved.document["protocol"], file=saved.file),
        ci=bool(statistics.beside),
        by=list(dict.fromkeys(summary.by for summary in statistics.groups)),
        jobs=jobs,
        progress=progress,
    )


def _with_earlier_intervals(
    evaluation: Evaluation, stored: Mapping[str, Any]
) -> tuple[Evaluation, int]:
    """Return the evaluation with the stored intervals where they differ, and how many these are.

    Only bounds, method, cautions and the reason of a missing interval are taken over: values and
    counts stay those of now, and are compared.
    """
    rows, besides = stored["rows"], stored["statistics"]["beside"]
    if not len(rows) == len(besides) == len(evaluation.rows):
        return evaluation, 0
    replaced, n_earlier = [], 0
    for row, entry, facts in zip(evaluation.rows, rows, besides):
        now = {**row.as_dict(), **beside(row.estimate)}
        then = {**entry, **facts}
        differs = any(_bits(then.get(key)) != _bits(now.get(key)) for key in OF_INTERVALS)
        if differs:
            row = replace(row, estimate=_earlier(row.estimate, then))
            n_earlier += 1
        replaced.append(row)
    return replace(evaluation, rows=tuple(replaced)), n_earlier


# What the rules of intervals decide, or what sums of replicates in another order move by a bit.
OF_INTERVALS = (
    "low",
    "high",
    "method",
    "reason",
    "flags",
    "percentile",
    "mc_error",
    "bias",
    "populated",
)


def _earlier(estimate: Estimate, stored: Mapping[str, Any]) -> Estimate:
    """Return the estimate with a stored interval."""

    def real(value: float | None) -> float:
        return float("nan") if value is None else value

    (low_error, high_error), percentile = stored["mc_error"], stored["percentile"]
    populated, then = estimate.populated, stored.get("populated")
    if populated is not None and then is not None:
        populated = replace(populated, low=real(then["low"]), high=real(then["high"]))
    return replace(
        estimate,
        low=real(stored["low"]),
        high=real(stored["high"]),
        method=stored["method"],
        reason=stored["reason"],
        bias=real(stored["bias"]),
        flags=tuple(stored["flags"]),
        percentile=(real(percentile[0]), real(percentile[1])),
        mc_error=(real(low_error), real(high_error)),
        populated=None if then is None else populated,
    )


def compared_values(stored: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[ChangedValue]:
    """Yield every value of the rows and the statistics, as stored and as computed now."""
    names = [_in_words(row) for row in stored["rows"]]
    yield from _entries("/rows", stored["rows"], now["rows"], names)
    for part in PARTS:
        entries = stored["statistics"][part]
        # What stands beside the estimates has the names of their rows.
        words = names
        if part != "beside":
            words = [_in_words(entry) for entry in entries]
        yield from _entries(f"/statistics/{part}", entries, now["statistics"][part], words)
    # They say how the values were made, and are no values themselves.
    for name in MADE_BY:
        then, again = stored["statistics"].get(name), now["statistics"][name]
        if name in stored["statistics"] and _bits(then) != _bits(again):
            yield ChangedValue(f"/statistics/{name}", name, then, again)


def _entries(
    place: str,
    stored: Sequence[Mapping[str, Any]],
    now: Sequence[Mapping[str, Any]],
    names: Sequence[str],
) -> Iterator[ChangedValue]:
    # With another number of entries there are no pairs: one difference says it.
    if len(stored) != len(now):
        yield ChangedValue(place, "number of entries", len(stored), len(now))
        return
    for k, (then, again) in enumerate(zip(stored, now)):
        name = names[k] if k < len(names) else ""
        for key in dict.fromkeys((*again, *then)):
            yield ChangedValue(f"{place}/{k}/{key}", name, then.get(key), again.get(key))


def _bits(value: Any) -> str:
    """Return text that is equal for equal bits: JSON writes the shortest digits that give the
    number, and -0.0.
    """
    return json.dumps(value, sort_keys=True)


def _in_words(entry: Mapping[str, Any]) -> str:
    """Return an entry in words: ours, AP50, class nodule, centre A."""
    words = [str(entry.get("model")), str(entry.get("metric"))]
    if entry.get("class") is not None:
        words.append(f"class {entry['class']}")
    for name, value in (entry.get("group") or {}).items():
        words.append(f"{name} {value}")
    return ", ".join(words)


class StoredGrouping(Struct):
    """What a stored grouping must have, beside its numbers."""

    by: str


class StoredStatistics(Struct):
    """What is compared beside the rows; see `PARTS`."""

    beside: list[dict[str, Any]]
    groups: list[StoredGrouping]
    each: list[dict[str, Any]]
    interval_rules: int = 1


def _check_counts(stored: StoredFolder) -> None:
    """Raise unless the tables hold the cohort that the document counts."""
    document_counts, counts = stored.document["cohort"], cohort_counts(stored.cohort)
    for key, value in counts.items():
        if _bits(document_counts.get(key)) != _bits(value):
            hint = (
                "the files of this folder are not from one run: restore it from a backup, or "
                "evaluate again"
            )
            raise InputError(
                f"{value!r} as the tables have it",
                rule="record-count",
                file=stored.file,
                location=f"/cohort/{key}",
                value=document_counts.get(key),
                hint=hint,
            )


def _noted(opened: OpenedFolder, stored: StoredFolder) -> Evaluation:
    """Return the evaluation with the difference among its warnings, so that no page hides it."""
    rows = len(opened.evaluation.rows)
    account = FileIntake(
        opened.file,
        "evaluation",
        "calipers",
        rows,
        rows,
        {},
        stored.sha256,
        stored.bytes,
        (opened.notes[-1],),
    )
    cohort = opened.evaluation.cohort
    intake = replace(cohort.intake, files=(*cohort.intake.files, account))
    return replace(opened.evaluation, cohort=replace(cohort, intake=intake))


WORDS = {code: kind for kind, code in KINDS.items()}


@dataclass(frozen=True, repr=False, eq=False)
class ErrorTable(Document):
    """Mistakes as columns of one length, None where a row has no such thing.

    ``prediction`` and ``reference`` are rows of the cohort's tables, as ``row`` in
    ``objects.parquet``. The reference of a mistake is the one that made it what it is: of another
    class, roughly in the place, or taken already. ``mendable``: mending it would make it a hit.
    ``ignored``: it lies in an ignored region and costs nothing.
    """

    ROW = "mistake"
    columns: Mapping[str, tuple[Any, ...]]

    def __len__(self) -> int:
        return len(self.columns["image"])

    def __str__(self) -> str:
        counts = Counter(zip(self.columns["model"], self.columns["kind"]))
        lines = [f"{self._size()} (rows(), to_frame(), write())"]
        for model in dict.fromkeys(self.columns["model"]):
            kinds = [f"{kind} {counts[model, kind]}" for kind in KINDS if counts[model, kind]]
            lines.append(f"  {model}: {', '.join(kinds)}")
        return "\n".join(lines)

    def rows(self) -> list[dict[str, Any]]:
        """Return one mapping per mistake."""
        return [dict(zip(self.columns, row)) for row in zip(*self.columns.values())]

    def _content(self) -> dict[str, Any]:
        return {"rows": self.rows()}

    def write(self, path: str | Path) -> Path:
        """Write the mistakes as CSV; names that a spreadsheet would take for a formula are
        protected.
        """
        write_atomically(Path(path), delimited(self.columns))
        return Path(path)


def error_table(evaluation: Evaluation, model: str | None = None) -> ErrorTable:
    """Return the mistakes of one model, or of all; see `Evaluation.errors`."""
    if model is not None and model not in evaluation.models:
        raise UsageError(f"no model {model!r}; {did_you_mean(model, evaluation.models)}")
    columns: dict[str, list[Any]] = {name: [] for name in NAMES}
    for one in evaluation.models if model is None else (model,):
        part = _columns(evaluation.cohort, one, mistakes_of(evaluation, one))
        for name, column in columns.items():
            column += part[name]
    return ErrorTable({name: tuple(column) for name, column in columns.items()})


def mistakes_of(evaluation: Evaluation, model: str) -> Mistakes:
    """Return the mistakes of a model: those of the protocol's own metric, else found now."""
    for (name, _), table in evaluation.evidence.items():
        if name == model and isinstance(table, Mistakes):
            return table
    protocol = evaluation.protocol
    options = {"matching": protocol.matching, "score_cut": protocol.score_cut}
    recipe = ErrorTypes([MetricPlan("errors/cls", "error-types", options)]).recipe
    evidence = collect(evaluation.cohort, {model: (model, recipe)})[model]
    assert isinstance(evidence, Mistakes)
    return evidence


NAMES = (
    "model",
    "image",
    "kind",
    "prediction",
    "reference",
    "similarity",
    "score",
    "class",
    "reference_class",
    "mendable",
    "ignored",
)


def _columns(cohort: Cohort, model: str, mistakes: Mistakes) -> dict[str, list[Any]]:
    """Return the columns of one model: by image, predictions in input order, then missed
    references.
    """
    predicted = np.flatnonzero(np.isin(mistakes.prediction_kind, list(WORDS)))
    missed = np.flatnonzero(mistakes.reference_kind == MISS)
    image = np.concatenate([mistakes.prediction_image[predicted], mistakes.reference_image[missed]])
    # Stable: within an image predictions stay before missed references, in input order.
    order = np.argsort(image, kind="stable")
    kind = np.concatenate([mistakes.prediction_kind[predicted], mistakes.reference_kind[missed]])
    prediction = np.concatenate([predicted, np.full(len(missed), -1)])
    reference = np.concatenate([mistakes.partner[predicted], missed])
    predictions = cohort.predictions(model)
    columns: dict[str, list[Any]] = {
        "model": [model] * len(order),
        "image": [cohort.images.ids[i] for i in image[order].tolist()],
        "kind": [WORDS[code] for code in kind[order].tolist()],
        "prediction": _rows(prediction[order]),
        "reference": _rows(reference[order]),
        "similarity": _error_entries(mistakes.similarity, prediction[order]),
        "score": _error_entries(mistakes.score, prediction[order]),
        "class": _names(cohort.classes, predictions.label, prediction[order]),
        "reference_class": _names(cohort.classes, cohort.references.label, reference[order]),
        "mendable": _error_entries(mistakes.mended, prediction[order]),
        "ignored": _error_entries(mistakes.covered, prediction[order]),
    }
    return columns


def _rows(rows: NDArray[np.integer]) -> list[int | None]:
    """Return row numbers, None for -1."""
    return _error_entries(np.arange(rows.max(initial=-1) + 1), rows)


def _error_entries(values: NDArray[Any], rows: NDArray[np.integer]) -> list[Any]:
    """Return the values of some rows; None for -1 and for NaN."""
    entries: list[Any] = []
    every = values.tolist()
    for row in rows.tolist():
        value = every[row] if row >= 0 else None
        entries.append(None if value != value else value)
    return entries


def _names(
    classes: Sequence[str], label: NDArray[np.int32], rows: NDArray[np.integer]
) -> list[str | None]:
    """Return the class names of some rows; None for -1."""
    names: list[str | None] = []
    labels = label.tolist()
    for row in rows.tolist():
        names.append(classes[labels[row]] if row >= 0 else None)
    return names


ERRORS = "errors.csv"  # where the protocol has error types
FILES = (
    EVALUATION,
    OBJECTS,
    IMAGES,
    *MAP_FILES,
    "images.csv",
    ERRORS,
    SLICES,
    QUARANTINE,
    PAGE,
    RUN,
    AUDIT,
)
FATE_COUNTS = ("hits", "duplicates", "false_alarms", "missed")
OWN_COLUMNS = {"image", "model", "references", "predictions", *FATE_COUNTS}


def save(
    evaluation: Evaluation,
    folder: Path,
    *,
    force: bool,
    command: Sequence[str],
    started: datetime | None = None,
    page_options: Mapping[str, Any] | None = None,
) -> Path:
    """Write all files or none; they appear together.

    ``run.json`` is written last, because it vouches for the others.

    ``page_options`` are keywords of `Evaluation.report`. The page can be made anew from the other
    files at any time, so its hash is not in the record of the run but in the log.
    """
    began = started or datetime.now(UTC)
    cohort = evaluation.cohort
    check_folder(folder, force=force, inputs=tuple(file.file for file in cohort.intake.files))
    # A log that was tampered with is not continued, and not begun anew either.
    log = read_log(folder / AUDIT)
    document = evaluation.as_dict()
    matches = {model: evaluation.matches(model) for model in cohort.models}
    with staged_folder(folder, owned=FILES, force=force) as stage:
        write_atomically(stage / EVALUATION, json.dumps(document, allow_nan=False, indent=1) + "\n")
        write_table(
            stage / OBJECTS, objects_table(cohort, matches), facts_of(cohort) | shapes_of(cohort)
        )
        write_table(stage / IMAGES, image_columns(cohort))
        save_maps(stage, cohort.maps)
        for name, text in _texts(evaluation, matches):
            write_atomically(stage / name, text)
        if evaluation.slices is not None:
            save_slices(stage / SLICES, evaluation.slices)
        if cohort.intake.quarantine:
            lines = [json.dumps(vars_of(record)) for record in cohort.intake.quarantine]
            write_atomically(stage / QUARANTINE, "\n".join(lines) + "\n")
        files = {file.name: stored_facts(file) for file in sorted(stage.iterdir())}
        # After the hashes: the page may be replaced later, and the record may not.
        options = page_options or {}
        evaluation.report(stage / PAGE, command=command, **options)
        page_parts = {name: True for name in ("multiverse", "stability") if options.get(name)}
        metric_ids = list(dict.fromkeys(row.metric_id for row in evaluation.rows))
        record = run_record(
            document,
            files=files,
            log=log,
            metric_ids=metric_ids,
            settings={
                **settings_of(document["protocol"]),
                "kernels": "numpy" if native() is None else "native",
                **page_parts,
            },
            command=command,
            started=began,
        )
        run = (json.dumps(record, indent=1) + "\n").encode()
        log.append(log_entry(log, record, run, stored_facts(stage / PAGE)))
        write_atomically(stage / AUDIT, "\n".join(log) + "\n")
        write_atomically(stage / RUN, run)
    return folder


def _texts(evaluation: Evaluation, matches: dict[str, Matches]) -> Iterator[tuple[str, str]]:
    """Yield the tables of a folder that are text."""
    yield "images.csv", delimited(images_table(evaluation, matches))
    if any(plan.kind == "error-types" for plan in evaluation.protocol.metrics):
        yield ERRORS, delimited(error_table(evaluation).columns)


def changed_tables(
    folder: Path, evaluation: Evaluation, progress: ReadingProgress | None = None
) -> list[ChangedValue]:
    """Return which tables differ: the fates of objects, and what is written for spreadsheets."""
    matches = {model: evaluation.matches(model) for model in evaluation.cohort.models}
    parts = changed_texts(folder, dict(_texts(evaluation, matches)))
    if matches:  # maps have no objects
        table = objects_table(evaluation.cohort, matches)
        parts += changed_columns(folder / OBJECTS, table, progress)
    return [ChangedValue(place, what, then, now) for place, what, then, now in parts]


def objects_table(cohort: Cohort, matches: dict[str, Matches]) -> dict[str, Any]:
    """Return one row per object and model, references first: fate, partner and similarity under the
    first view.

    ``row`` counts the objects of a kind in cohort order; ``partner`` is the ``row`` on the other
    side. Numbers that an object does not have are null.
    """
    parts, tables = [], []
    for model, table in matches.items():
        parts += _object_parts(cohort, model, table)
        tables += [cohort.references, cohort.models[model]]
    columns: dict[str, Any] = {}
    for name in parts[0]:
        columns[name] = stack_columns([part[name] for part in parts])
    more = {**shape_columns(tables), **fact_columns(tables)}
    return columns | {name: stack_columns(entries) for name, entries in more.items()}


def _object_parts(cohort: Cohort, model: str, matches: Matches) -> list[dict[str, Any]]:
    references, predictions = cohort.references, cohort.models[model]
    hit = np.flatnonzero((matches.partner >= 0) & (matches.prediction_fate[0] == assignment.HIT))
    found_by = np.full(len(references), -1)
    found_by[matches.partner[hit]] = hit
    # Predictions know their references; here the same pairs are seen from the references.
    reached = np.full(len(references), np.nan)
    reached[matches.partner[hit]] = matches.similarity[hit]
    parts = []
    for kind, table, fate, partner, similarity in (
        (KINDS_[0], references, matches.reference_fate[0], found_by, reached),
        (KINDS_[1], predictions, matches.prediction_fate[0], matches.partner, matches.similarity),
    ):
        own = object_columns(cohort, table)
        part: dict[str, Any] = {
            "model": constant_column(model, len(table)),
            "kind": constant_column(kind, len(table)),
            "image": own["image"],
            "row": np.arange(len(table)),
            "class": own["class"],
            "fate": text_column_of([FATES[code] for code in range(len(FATES))], fate),
            "partner": with_nulls(partner.astype(np.int64)),
            "similarity": with_nulls(similarity),
            **own,
        }
        parts.append(part)
    return parts


def images_table(evaluation: Evaluation, matches: dict[str, Matches]) -> dict[str, list[Any]]:
    """Return one row per image and model: groups, counts under the first view, and RoDeO where it
    was asked for.
    """
    cohort = evaluation.cohort
    columns: dict[str, list[Any]] = {}

    def add(name: str, values: list[Any]) -> None:
        columns.setdefault(name, []).extend(values)

    for model, table in matches.items():
        add("image", list(cohort.images.ids))
        add("model", [model] * cohort.n_images)
        for name, column in cohort.images.groups.items():
            # A group that is called as one of our columns must not overwrite it.
            add(f"group_{name}" if name in OWN_COLUMNS else name, column.tolist())
        add("references", np.diff(table.reference_offsets).tolist())
        add("predictions", np.diff(table.prediction_offsets).tolist())
        for name, value in _fate_counts(table).items():
            add(name, value.tolist())
        for name, scores in _rodeo_of_images(evaluation, model).items():
            add(name, _numbers(scores))
    return columns


def _fate_counts(table: Matches) -> dict[str, NDArray[np.int64]]:
    def count(image: NDArray[np.int64], fates: NDArray[np.int8], fate: int) -> NDArray[np.int64]:
        return np.bincount(image[fates == fate], minlength=table.n_images)

    predicted, real = table.prediction_fate[0], table.reference_fate[0]
    return {
        "hits": count(table.prediction_image, predicted, assignment.HIT),
        "duplicates": count(table.prediction_image, predicted, assignment.DUPLICATE),
        "false_alarms": count(table.prediction_image, predicted, assignment.FALSE_ALARM),
        "missed": count(table.reference_image, real, assignment.MISSED),
    }


def _rodeo_of_images(evaluation: Evaluation, model: str) -> dict[str, NDArray[np.float64]]:
    scores = {}
    for metric in evaluation.protocol.compile():
        if isinstance(metric, Rodeo):
            evidence = evaluation.evidence[model, metric.recipe.key]
            assert isinstance(evidence, RodeoPaths)
            scores.update(metric.per_image(evidence))
    return scores


def vars_of(record: Any) -> dict[str, str]:
    """Return a quarantined record for JSON output."""
    return {
        "file": record.file,
        "location": record.location,
        "rule": record.rule,
        "record": record.record,
    }


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    """Return the values with None for NaN."""
    return [None if math.isnan(value) else value for value in values.tolist()]
