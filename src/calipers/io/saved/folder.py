# SPDX-License-Identifier: Apache-2.0
"""Read a saved evaluation back: its numbers alone, or the whole folder.

`read_stored` gives the rows of ``evaluation.json``, for ``calipers check`` and ``compare``;
`read_folder` the document, the record of the run and the cohort, for `open_evaluation`.

Nothing in a file is trusted. Documents have the shape of the structs below, the hash in
``run.json`` must be that of the rows and the protocol, and ``run.json`` holds the hash of every
file in the folder.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, field, structs

from calipers.data.cohort import Cohort, FileIntake, Intake, Quarantined
from calipers.data.maps import Maps
from calipers.errors import InputError, did_you_mean
from calipers.io.coco.walk import MAX_DEPTH, depth
from calipers.io.saved.cohort import IMAGES, OBJECTS, CohortCounts, read_cohort
from calipers.io.saved.maps import MAPS, SLICES, read_maps, read_slices
from calipers.io.source import InputFile, Progress, hash_file, open_source, require_file
from calipers.results.files import Slices, locked, sha256_of, write_atomically
from calipers.results.provenance import (
    AUDIT,
    check_log,
    check_record,
    check_repeated,
    page_entry,
    read_log,
)
from calipers.results.schema import structure

EVALUATION, RUN, QUARANTINE = "evaluation.json", "run.json", "quarantine.jsonl"
PAGE = "report.html"
EVALUATION_SCHEMA, RUN_SCHEMA = "calipers.evaluation/1", "calipers.run/1"
# The document is parsed as a whole, so its size is bounded first.
MAX_BYTES = 256 << 20  # half a million rows
LONGEST_INT = 400


Count = Annotated[int, Meta(ge=0)]

AGAIN = (
    "it was changed or truncated after the run: restore the folder from a backup, or evaluate again"
)


class StoredRow(Struct):
    """A row of the JSON contract."""

    model: str
    metric: str
    metric_id: str
    method: str
    unit: str
    label: str | None = field(name="class")
    group: dict[str, str] | None
    reason: str | None
    value: int | float | None
    low: int | float | None
    high: int | float | None
    level: int | float | None
    bias: int | float | None
    n_units: Count
    n_images: Count
    n_references: Count
    n_predictions: Count
    undefined: Count


class StoredAccount(Struct):
    """What became of the records of one input file."""

    file: str
    role: str
    format: str
    sha256: str
    bytes: Count
    read: Count
    used: Count
    quarantined: dict[str, Count]  # by rule
    notes: list[str]
    assumed_empty: Count | None = None
    reading: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.read != self.used + sum(self.quarantined.values()):
            raise InputError("read = used + quarantined", rule="range", value=self.read)


class StoredCohort(Struct):
    """The counts of the cohort, with which the tables must agree."""

    classes: list[str]
    models: dict[str, Count]  # predictions of each
    unscored: list[str]
    images: Count
    references: Count
    dimensions: Count
    files: list[StoredAccount]

    def __post_init__(self) -> None:
        if not self.classes or len(set(self.classes)) < len(self.classes):
            raise InputError("unique class names", rule="dup-category", location="classes")
        if self.dimensions not in (2, 3):
            raise InputError(
                "2 or 3 dimensions", rule="range", location="dimensions", value=self.dimensions
            )


class StoredRecord(Struct):
    """A record that was set aside."""

    file: str
    location: str
    rule: str
    record: str


class StoredFile(Struct):
    """A file of the folder, as the record of the run has it."""

    sha256: str
    bytes: int | None = None


COMPARED = 1 << 16  # rows that are compared at a time
OF_MATCHING = ("fate", "partner", "similarity")  # columns of objects that nothing is read from
# (place, what, as stored, as it is now)
ChangedPart = tuple[str, str, Any, Any]


def changed_texts(folder: Path, texts: Mapping[str, str]) -> list[ChangedPart]:
    """Return the first line that differs, of every file that is not the text it should be."""
    parts: list[ChangedPart] = []
    for name, text in texts.items():
        stored = (folder / name).read_bytes() if (folder / name).is_file() else b""
        if stored == text.encode():
            continue
        pairs = zip_longest(stored.split(b"\n"), text.encode().split(b"\n"), fillvalue=b"")
        for number, (then, now) in enumerate(pairs, 1):
            if then != now:
                words = then.decode("utf-8", "replace"), now.decode("utf-8", "replace")
                parts.append((f"{name}, line {number}", "a row", *words))
                break
    return parts


def changed_columns(
    file: Path, columns: Mapping[str, Any], progress: Progress | None = None
) -> list[ChangedPart]:
    """Return the first object that was matched otherwise, of every column of a parquet file that
    says how it was; ``columns`` are of arrow.
    """
    import pyarrow.parquet as pq

    table = pq.read_table(file, columns=list(OF_MATCHING))
    parts: list[ChangedPart] = []
    for k, name in enumerate(OF_MATCHING):
        if progress is not None:
            progress(f"comparing {file.name}", k, len(OF_MATCHING))
        stored, now = table.column(name), columns[name]
        # Values of Python are told apart as they are shown; they are made of few rows only.
        for start in range(0, max(len(stored), len(now)), COMPARED):
            rows = stored.slice(start, COMPARED), now.slice(start, COMPARED)
            if rows[0].equals(rows[1]):
                continue
            row, values = _first_change(*rows)
            if values:
                parts.append((f"{file.name}, row {start + row}", name, *values))
                break
    if progress is not None:
        progress(f"comparing {file.name}", len(OF_MATCHING), len(OF_MATCHING))
    return parts


def _first_change(stored: Any, now: Any) -> tuple[int, tuple[Any, ...]]:
    """Return the first row in which two columns differ, and both values; no values if none does:
    columns of different types can hold equal ones.
    """
    for row, values in enumerate(zip_longest(stored.to_pylist(), now.to_pylist())):
        if values[0] != values[1]:
            return row, values
    return 0, ()


@dataclass(frozen=True)
class Stored:
    """The rows of a saved evaluation, their hash, and whether a ``run.json`` confirms it."""

    file: str
    rows: tuple[Mapping[str, Any], ...]
    result_hash: str
    vouched: bool
    protocol: Mapping[str, Any]


def read_stored(path: Path | str) -> Stored:
    """Read the folder of an evaluation, or its ``evaluation.json``.

    Raises
    ------
    InputError
        ``result-hash`` if ``run.json`` beside it was written for other rows or another protocol.
    """
    path = Path(path)
    file = _within(path, EVALUATION) if os.path.isdir(path) else path
    document = _evaluation(file)
    rows = _distinct(document["rows"], str(file))
    # The numbers and how they were made; not the paths and times, which differ between equal runs.
    result_hash = _hash({"protocol": document["protocol"], "rows": document["rows"]}, str(file))
    record = file.with_name(RUN)
    # `evaluate -o` writes no file of another name: a run.json beside it belongs to something else.
    vouched = file.name == EVALUATION and record.exists()
    if vouched:
        _compare(record, result_hash, file)
    return Stored(str(file), rows, result_hash, vouched, document["protocol"])


def read_documents(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return ``evaluation.json`` and the ``run.json`` with the hash of its rows and protocol."""
    if not os.path.isdir(folder):  # a name that is too long is no folder either
        hint = "give the folder that calipers evaluate -o wrote"
        raise InputError(
            "the folder of an evaluation", rule="not-a-folder", file=str(folder), hint=hint
        )
    file, record = _within(folder, EVALUATION), _within(folder, RUN)
    document = _evaluation(file)
    result_hash = _hash({"protocol": document["protocol"], "rows": document["rows"]}, str(file))
    return document, _compare(record, result_hash, file)


def read_folder(folder: Path, progress: Progress | None = None) -> StoredFolder:
    """Read the folder of a saved evaluation. Nothing in it is trusted; no input is needed.

    ``progress`` is called with (name of the step, work done, work in all).
    """
    document, run = read_documents(folder)
    file = str(folder / EVALUATION)
    input_file = _open_verified(folder, run, EVALUATION)
    if "cohort" not in document:
        raise InputError("the key 'cohort'", rule="missing-key", file=file, location="/")
    counts = structure(document["cohort"], StoredCohort, file, syntax="JSON", where="/cohort")
    check_repeated(run, document, str(folder / RUN))
    quarantine_file = (
        _open_verified(folder, run, QUARANTINE) if QUARANTINE in _files(folder, run) else None
    )
    intake = _intake(counts, quarantine_file, file)
    # Hashes first: what was changed after the run is not even parsed.
    images, objects = (_open_verified(folder, run, name, progress) for name in (IMAGES, OBJECTS))
    stored_cohort = read_cohort(images, objects, _counts(counts), intake)
    stored_cohort = replace(stored_cohort, maps=_maps(folder, run, stored_cohort))
    slices = (
        read_slices(_open_verified(folder, run, SLICES)) if SLICES in _files(folder, run) else None
    )
    return StoredFolder(
        file, document, run, stored_cohort, input_file.sha256, input_file.size, slices
    )


@dataclass(frozen=True)
class StoredFolder:
    """The contents of a folder: the document of the numbers, the record of the run, the cohort."""

    file: str  # evaluation.json
    document: Mapping[str, Any]
    run: Mapping[str, Any]
    cohort: Cohort
    sha256: str  # of evaluation.json
    bytes: int
    slices: Slices | None = None  # the pictures of samples that the page shows


def _within(folder: Path, name: str) -> Path:
    if not (folder / name).exists():
        hint = (
            "calipers evaluate -o writes such a folder; this folder is something else, or the run "
            "did not finish"
        )
        raise InputError(f"a folder with {name}", rule="not-found", file=str(folder), hint=hint)
    return folder / name


def _evaluation(file: Path) -> dict[str, Any]:
    """Return the document of an evaluation, every row checked."""
    document = _document(file, EVALUATION_SCHEMA, ("protocol", "rows"))
    structure(document["rows"], list[StoredRow], str(file), syntax="JSON", where="/rows")
    return document


def _hash(result: dict[str, Any], file: str) -> str:
    try:
        return sha256_of(result)
    except UnicodeEncodeError as error:
        # JSON can escape half of a surrogate pair, which UTF-8 cannot encode.
        raise InputError(
            "whole characters", rule="encoding", file=file, value=error.object[error.start]
        ) from None


def _compare(record: Path, result_hash: str, file: Path) -> dict[str, Any]:
    document = _document(record, RUN_SCHEMA, ("result_hash",))
    check_record(document, str(record))
    recorded = document["result_hash"]
    if recorded != result_hash:
        raise InputError(
            f"the result that {RUN} beside it was written for, {str(recorded)[:12]}...",
            rule="result-hash",
            file=str(file),
            value=result_hash[:12] + "...",
            hint="one of the two files was changed or replaced after the run: evaluate again",
        )
    return document


def _document(file: Path, schema: str, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return a JSON object with the schema and the keys."""
    document = _load(file)
    value: object = type(document).__name__
    if isinstance(document, dict):
        value = document.get("schema", list(document)[:8])
    if not isinstance(document, dict) or value != schema:
        hint = ""
        if value == "calipers.error/1":
            hint = "the command that should have written it ended with an error"
        raise InputError(
            f'"schema": "{schema}"', rule="schema", file=str(file), value=value, hint=hint
        )
    for key in keys:
        if key not in document:
            raise InputError(
                f"the key {key!r}",
                rule="missing-key",
                file=str(file),
                location=f"/{key}",
                hint=did_you_mean(key, document),
            )
    return document


def _load(path: Path) -> Any:
    """Return a JSON document of moderate size: strict text, each key once, finite numbers."""
    if require_file(path).stat().st_size > MAX_BYTES:
        size = path.stat().st_size
        raise InputError(f"at most {MAX_BYTES} bytes", rule="too-large", file=str(path), value=size)
    data = open_source(path).data[:]
    if depth(data) > MAX_DEPTH:
        raise InputError(
            f"at most {MAX_DEPTH} brackets inside each other", rule="depth", file=str(path)
        )
    # Python accepts NaN and repeated keys, which JSON does not know.
    strict = _Strict(str(path))
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=strict.pairs,
            parse_constant=strict.number,
            parse_float=strict.number,
            parse_int=strict.whole,
        )
    except UnicodeDecodeError as error:
        raise InputError(
            "text in UTF-8", rule="encoding", file=str(path), location=f"byte {error.start}"
        ) from None
    except json.JSONDecodeError as error:
        place, hint = f"line {error.lineno}, column {error.colno}", "was the file cut off?"
        raise InputError(
            "valid JSON",
            rule="json-syntax",
            file=str(path),
            location=place,
            value=error.msg,
            hint=hint,
        ) from None


class _Strict:
    """The hooks of the decoder, which is strict about JSON where Python is not."""

    def __init__(self, file: str) -> None:
        self.file = file

    def pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            names = [key for key, _ in pairs]
            twice = next(key for key in names if names.count(key) > 1)
            raise InputError("every key once", rule="dup-key", file=self.file, field=twice)
        return members

    def number(self, digits: str) -> float:
        value = float(digits)
        if not math.isfinite(value):
            hint = "Calipers writes null for what is undefined: another program wrote this file"
            raise InputError(
                "finite numbers", rule="non-finite", file=self.file, value=digits, hint=hint
            )
        return value

    def whole(self, digits: str) -> int:
        if len(digits) > LONGEST_INT:
            raise InputError(
                "numbers of moderate length", rule="non-finite", file=self.file, value=digits
            )
        return int(digits)


def _distinct(rows: list[dict[str, Any]], file: str) -> tuple[Mapping[str, Any], ...]:
    """Return every row once; two different rows of the same estimate are an error."""
    first_rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for k, row in enumerate(rows):
        key = (row["model"], row["metric"], row["class"], frozenset((row["group"] or {}).items()))
        # An identical row twice does no harm.
        if first_rows.setdefault(key, row) != row:
            what = {name: row[name] for name in ("model", "metric", "class", "group")}
            raise InputError(
                "one row for each", rule="dup-row", file=file, location=f"/rows/{k}", value=what
            )
    return tuple(first_rows.values())


def _maps(folder: Path, run: Mapping[str, Any], cohort: Cohort) -> dict[str, Maps]:
    """Return the evidence from maps, if there is any, of the models and images of the cohort."""
    if MAPS not in _files(folder, run):
        return {}
    maps_of_models = read_maps(folder, lambda path: _open_verified(folder, run, path.name))
    for model, maps in maps_of_models.items():
        if model not in cohort.models or maps.n_images != cohort.n_images:
            expected = f"maps of {cohort.n_images} images and of a model of the evaluation"
            value = f"{maps.n_images} images, model {model!r}"
            raise InputError(
                expected, rule="record-count", file=str(folder / MAPS), value=value, hint=AGAIN
            )
    return maps_of_models


@dataclass(frozen=True)
class CheckedFiles:
    """The files of a folder that are as they were written, and those that nobody vouches for."""

    verified: tuple[str, ...]
    unverified: tuple[str, ...]
    runs: int | None  # in the log of the folder; None: an earlier version wrote no log


def check_files(
    folder: Path, run: Mapping[str, Any], progress: Progress | None = None
) -> CheckedFiles:
    """Raise if a file that the record of the run lists, or the log, has changed."""
    verified = [RUN]
    files = _files(folder, run)
    for name in files:
        # A name from a record may lead anywhere.
        if os.path.basename(name) != name:
            raise InputError(
                "names of files in this folder", rule="range", file=str(folder / RUN), value=name
            )
        _open_verified(folder, run, name, progress)
        length, now = files[name].bytes, (folder / name).stat().st_size
        if length not in (None, now):
            raise InputError(
                f"{now} bytes, which the file has",
                rule="file-hash",
                file=str(folder / RUN),
                location=f"/files/{name}/bytes",
                value=length,
            )
        verified.append(name)
    runs = None
    if "log" in run:
        runs, page = check_log(folder / AUDIT, run, open_source(folder / RUN).data[:])
        verified.append(AUDIT)
        # The page can be made again at any time, so it may be missing.
        if page is not None and (folder / PAGE).exists():
            _check_page(folder, page)
            verified.append(PAGE)
    unverified = sorted(set(os.listdir(folder)) - set(verified))
    return CheckedFiles(tuple(sorted(verified)), tuple(unverified), runs)


@contextmanager
def page_in_place(folder: Path, run: Mapping[str, Any], calipers: str) -> Iterator[None]:
    """Hold a folder while the page of its evaluation is written into it, and log the page.

    Another run may have replaced the evaluation since it was opened. Its folder must not get the
    page of the earlier one, for which the log would vouch.
    """
    with locked(folder):
        if json.loads((folder / RUN).read_bytes()) != run:
            raise InputError(
                "the evaluation of which the page was to be written",
                rule="folder-changed",
                file=str(folder / RUN),
                value="another run replaced it",
                hint="write the page again: it will show the current evaluation",
            )
        yield
        log_page(folder, calipers)


def log_page(folder: Path, calipers: str) -> None:
    """Enter the page of a folder into its log, after this version of Calipers wrote it again.

    The same page as before needs no entry; folders of earlier versions have no log, and get none.
    """
    log, page = read_log(folder / AUDIT), stored_facts(folder / PAGE)
    if log and json.loads(log[-1]).get("page") != page:
        run = (folder / RUN).read_bytes()
        log.append(page_entry(log, run, page, calipers))
        write_atomically(folder / AUDIT, "\n".join(log) + "\n")


def stored_facts(file: Path) -> dict[str, Any]:
    """Return the hash and the number of bytes of a file."""
    return {"sha256": hash_file(file), "bytes": file.stat().st_size}


def _check_page(folder: Path, page: Mapping[str, Any]) -> None:
    """Raise if the page is not the one that the log has last."""
    file = open_source(folder / PAGE)
    if {"sha256": file.sha256, "bytes": file.size} != page:
        raise InputError(
            f"the page that {AUDIT} has last",
            rule="file-hash",
            file=str(folder / PAGE),
            value=file.sha256[:12] + "...",
            hint="it was changed after it was written: calipers report DIR --force writes it again",
        )


def _files(folder: Path, run: Mapping[str, Any]) -> dict[str, StoredFile]:
    """Return the files that the record of the run lists, with their hashes."""
    file = str(folder / RUN)
    if "files" not in run:
        hint = (
            "an earlier version of Calipers saved this folder, without the cohort: evaluate again"
        )
        raise InputError("the key 'files'", rule="missing-key", file=file, hint=hint)
    return structure(run["files"], dict[str, StoredFile], file, syntax="JSON", where="/files")


def _open_verified(
    folder: Path, run: Mapping[str, Any], name: str, progress: Progress | None = None
) -> InputFile:
    """Open a file of the folder; its bytes must be those that were written."""
    files = _files(folder, run)
    if name not in files:
        raise InputError(
            f"the key {name!r}", rule="missing-key", file=str(folder / RUN), location="/files"
        )
    sha256 = files[name].sha256
    input_file = open_source(folder / name, progress)
    if input_file.sha256 != sha256:
        expected = f"the file that {RUN} was written for, {sha256[:12]}..."
        raise InputError(
            expected,
            rule="file-hash",
            file=input_file.file,
            value=input_file.sha256[:12] + "...",
            hint=AGAIN,
        )
    return input_file


def _counts(stored: StoredCohort) -> CohortCounts:
    return CohortCounts(
        images=stored.images,
        references=stored.references,
        dimensions=stored.dimensions,
        classes=tuple(stored.classes),
        models=stored.models,
        unscored=frozenset(stored.unscored),
    )


def _intake(cohort: StoredCohort, quarantine_file: InputFile | None, file: str) -> Intake:
    """Return the accounts of the inputs, and the records that were set aside."""
    files = []
    for account in cohort.files:
        facts = structs.asdict(account)
        files.append(FileIntake(**{**facts, "notes": tuple(account.notes)}))
    quarantine = () if quarantine_file is None else tuple(_quarantined(quarantine_file))
    intake = Intake(tuple(files), quarantine)
    # The count in the document and the records in their file were written together.
    if len(quarantine) != intake.n_broken:
        expected = f"{intake.n_broken} records in {QUARANTINE}"
        raise InputError(
            expected, rule="record-count", file=file, value=len(quarantine), hint=AGAIN
        )
    return intake


def _quarantined(input_file: InputFile) -> list[Quarantined]:
    records = []
    for k, line in enumerate(input_file.data[:].splitlines(), start=1):
        try:
            entry: Any = json.loads(line) if depth(line) <= MAX_DEPTH else None
        except ValueError as error:
            raise InputError(
                "valid JSON",
                rule="json-syntax",
                file=input_file.file,
                location=f"line {k}",
                value=str(error),
                hint=AGAIN,
            ) from None
        where = f"line {k}"
        record = structure(entry, StoredRecord, input_file.file, syntax="JSON", where=where)
        records.append(Quarantined(**structs.asdict(record)))
    return records
