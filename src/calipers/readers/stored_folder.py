# SPDX-License-Identifier: Apache-2.0
"""Read the folder of a saved evaluation back; ``run.json`` holds the hash of every file in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from calipers.errors import InputError
from calipers.readers.jsonchunks import MAX_DEPTH, depth
from calipers.readers.source import InputFile, open_source
from calipers.readers.stored import COUNT, EVALUATION, QUARANTINE, RUN, TEXT, Check, read_documents
from calipers.readers.stored_cohort import CohortCounts, read_cohort
from calipers.readers.stored_maps import MAPS, read_maps
from calipers.readers.stored_slices import SLICES, read_slices
from calipers.readers.stored_tables import IMAGES, OBJECTS
from calipers.results.pictures import Slices
from calipers.tables import Cohort, FileIntake, Intake
from calipers.tables.intake import Quarantined
from calipers.tables.maps import Maps

AGAIN = "it was changed or cut off after the run: take the folder from a backup, or evaluate again"


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


def read_folder(folder: Path) -> StoredFolder:
    """Read the folder of a saved evaluation. Nothing in it is trusted; no input is needed."""
    document, run = read_documents(folder)
    file = str(folder / EVALUATION)
    input_file = _open_verified(folder, run, EVALUATION)
    cohort = _member(document, "cohort", dict, file, "")
    quarantine_file = (
        _open_verified(folder, run, QUARANTINE) if QUARANTINE in _files(folder, run) else None
    )
    intake = _intake(cohort, quarantine_file, file)
    counts = _counts(cohort, file)
    tables = (_open_verified(folder, run, IMAGES), _open_verified(folder, run, OBJECTS))
    stored_cohort = read_cohort(*tables, counts, intake)
    stored_cohort = replace(stored_cohort, maps=_maps(folder, run, stored_cohort))
    slices = (
        read_slices(_open_verified(folder, run, SLICES)) if SLICES in _files(folder, run) else None
    )
    return StoredFolder(
        file, document, run, stored_cohort, input_file.sha256, input_file.size, slices
    )


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


def check_files(folder: Path, run: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise if one of the files ``names`` that the record of the run lists has changed."""
    for name in names:
        if name in _files(folder, run):
            _open_verified(folder, run, name)


def _files(folder: Path, run: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the files that the record of the run lists, with their hashes."""
    hint = "an earlier version of Calipers saved this folder, without the cohort: evaluate again"
    if "files" not in run:
        raise InputError("the key 'files'", rule="missing-key", file=str(folder / RUN), hint=hint)
    return dict(_member(run, "files", dict, str(folder / RUN), ""))


def _open_verified(folder: Path, run: Mapping[str, Any], name: str) -> InputFile:
    """Open a file of the folder; its bytes must be those that were written."""
    record = str(folder / RUN)
    entry = _member(_files(folder, run), name, dict, record, "/files")
    sha256 = _member(entry, "sha256", str, record, f"/files/{name}")
    input_file = open_source(folder / name)
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


def _counts(cohort: Mapping[str, Any], file: str) -> CohortCounts:
    """Return the counts of the cohort in the document, with which the tables must agree."""
    classes = _member(cohort, "classes", list, file, "/cohort")
    models = _member(cohort, "models", dict, file, "/cohort")
    unscored = _member(cohort, "unscored", list, file, "/cohort")
    for place, check, entries in (
        ("classes", TEXT, classes),
        ("unscored", TEXT, unscored),
        ("models", COUNT, models.values()),
    ):
        for entry in entries:
            _fits(entry, check, file, f"/cohort/{place}")
    if not classes or len(set(classes)) < len(classes):
        raise InputError(
            "class names that differ", rule="dup-category", file=file, location="/cohort/classes"
        )
    for name in ("images", "references", "dimensions"):
        _fits(_member(cohort, name, int, file, "/cohort"), COUNT, file, f"/cohort/{name}")
    if cohort["dimensions"] not in (2, 3):
        place, dimensions = "/cohort/dimensions", cohort["dimensions"]
        raise InputError(
            "2 or 3 dimensions", rule="range", file=file, location=place, value=dimensions
        )
    return CohortCounts(
        images=cohort["images"],
        references=cohort["references"],
        dimensions=cohort["dimensions"],
        classes=tuple(classes),
        models=dict(models),
        unscored=frozenset(unscored),
    )


ACCOUNT: Mapping[str, Check] = {
    **dict.fromkeys(("file", "role", "format", "sha256"), TEXT),
    **dict.fromkeys(("bytes", "read", "used"), COUNT),
    "quarantined": ("an object of rule and number", lambda value: _all(value, dict, COUNT)),
    "notes": ("a list of texts", lambda value: _all(value, list, TEXT)),
}


def _intake(cohort: Mapping[str, Any], quarantine_file: InputFile | None, file: str) -> Intake:
    """Return the accounts of the inputs, and the records that were set aside."""
    files = []
    for k, entry in enumerate(_member(cohort, "files", list, file, "/cohort")):
        place = f"/cohort/files/{k}"
        _record(entry, ACCOUNT, file, place)
        if entry["read"] != entry["used"] + sum(entry["quarantined"].values()):
            raise InputError(
                "read = used + quarantined",
                rule="range",
                file=file,
                location=place,
                value=entry["read"],
            )
        facts = {**{key: entry[key] for key in ACCOUNT}, "notes": tuple(entry["notes"])}
        files.append(FileIntake(**facts))
    quarantine = () if quarantine_file is None else tuple(_quarantined(quarantine_file))
    intake = Intake(tuple(files), quarantine)
    if len(quarantine) != intake.quarantined:
        expected = f"{intake.quarantined} records in {QUARANTINE}"
        raise InputError(
            expected, rule="record-count", file=file, value=len(quarantine), hint=AGAIN
        )
    return intake


def _quarantined(input_file: InputFile) -> list[Quarantined]:
    keys = ("file", "location", "rule", "record")
    records = []
    for k, line in enumerate(bytes(input_file.data).splitlines(), start=1):
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
        _record(entry, dict.fromkeys(keys, TEXT), input_file.file, f"line {k}")
        records.append(Quarantined(**{key: entry[key] for key in keys}))
    return records


def _member(document: Mapping[str, Any], key: str, kind: type, file: str, where: str) -> Any:
    """Return a member of a document that has to be there and of that kind."""
    if key not in document:
        raise InputError(f"the key {key!r}", rule="missing-key", file=file, location=where or "/")
    value = document[key]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        words = {dict: "an object", list: "a list", str: "text", int: "a whole number"}
        raise InputError(
            words[kind], rule="type", file=file, location=f"{where}/{key}", value=value
        )
    return value


def _record(entry: Any, checks: Mapping[str, Check], file: str, where: str) -> None:
    if not isinstance(entry, dict):
        raise InputError("an object", rule="type", file=file, location=where, value=entry)
    for key, check in checks.items():
        _fits(_member(entry, key, object, file, where), check, file, f"{where}/{key}")


def _fits(value: Any, check: Check, file: str, where: str) -> None:
    expected, fits = check
    if not fits(value):
        raise InputError(expected, rule="type", file=file, location=where, value=value)


def _all(value: Any, kind: type, check: Check) -> bool:
    if not isinstance(value, kind):
        return False
    entries: Iterable[Any] = value.values() if isinstance(value, dict) else value  # type: ignore[assignment]
    return all(check[1](entry) for entry in entries)
