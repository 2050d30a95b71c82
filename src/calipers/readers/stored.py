# SPDX-License-Identifier: Apache-2.0
"""Read the numbers of a saved evaluation back.

Nothing in the file is trusted, and the hash in ``run.json`` must be that of its rows and protocol.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calipers.errors import InputError, did_you_mean
from calipers.readers.jsonchunks import MAX_DEPTH, depth
from calipers.readers.source import open_source, require_file
from calipers.results.provenance import sha256_of

EVALUATION, RUN, QUARANTINE = "evaluation.json", "run.json", "quarantine.jsonl"
EVALUATION_SCHEMA, RUN_SCHEMA = "calipers.evaluation/1", "calipers.run/1"
MAX_BYTES = 256 << 20  # half a million rows
LONGEST_INT = 400


@dataclass(frozen=True)
class Stored:
    """The rows of a saved evaluation, their hash, and whether a ``run.json`` confirms it."""

    file: str
    rows: tuple[Mapping[str, Any], ...]
    result_hash: str
    vouched: bool


def read_stored(path: Path | str) -> Stored:
    """Read the folder of an evaluation, or its ``evaluation.json``.

    Raises
    ------
    InputError
        ``result-hash`` if ``run.json`` beside it was written for other rows or another protocol.
    """
    path = Path(path)
    file = _within(path, EVALUATION) if path.is_dir() else path
    document = _evaluation(file)
    rows = _distinct(document["rows"], str(file))
    result_hash = _hash({"protocol": document["protocol"], "rows": document["rows"]}, str(file))
    record = file.with_name(RUN)
    # `evaluate -o` writes no file of another name: a run.json beside it belongs to something else.
    vouched = file.name == EVALUATION and record.exists()
    if vouched:
        _compare(record, result_hash, file)
    return Stored(str(file), rows, result_hash, vouched)


def read_documents(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return ``evaluation.json`` and the ``run.json`` with the hash of its rows and protocol."""
    if not folder.is_dir():
        hint = "give the folder that calipers evaluate -o wrote"
        raise InputError(
            "the folder of an evaluation", rule="not-a-folder", file=str(folder), hint=hint
        )
    file, record = _within(folder, EVALUATION), _within(folder, RUN)
    document = _evaluation(file)
    result_hash = _hash({"protocol": document["protocol"], "rows": document["rows"]}, str(file))
    return document, _compare(record, result_hash, file)


def _within(folder: Path, name: str) -> Path:
    if not (folder / name).exists():
        hint = (
            "calipers evaluate -o writes such a folder; this one is another, or the run did not end"
        )
        raise InputError(f"a folder with {name}", rule="not-found", file=str(folder), hint=hint)
    return folder / name


def _evaluation(file: Path) -> dict[str, Any]:
    """Return the document of an evaluation, every row checked."""
    document = _document(file, EVALUATION_SCHEMA, ("protocol", "rows"))
    rows = document["rows"]
    if not isinstance(rows, list):
        raise InputError(
            "a list of rows", rule="type", file=str(file), location="/rows", value=rows
        )
    for k, row in enumerate(rows):
        _check_row(row, f"/rows/{k}", str(file))
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
    recorded = document["result_hash"]
    if recorded != result_hash:
        raise InputError(
            f"the result that {RUN} beside it was written for, {str(recorded)[:12]}...",
            rule="result-hash",
            file=str(file),
            value=result_hash[:12] + "...",
            hint="one of the two files was changed or exchanged after the run: evaluate again",
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
    data = bytes(open_source(path).data)
    if depth(data) > MAX_DEPTH:
        raise InputError(
            f"at most {MAX_DEPTH} brackets inside each other", rule="depth", file=str(path)
        )
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


Check = tuple[str, Callable[[Any], bool]]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_group(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(name, str) for name in value.values())
    return value is None


TEXT: Check = ("text", lambda value: isinstance(value, str))
MAYBE_TEXT: Check = ("text or null", lambda value: value is None or isinstance(value, str))
MAYBE_NUMBER: Check = ("a number or null", lambda value: value is None or _is_number(value))
COUNT: Check = ("a whole number that is not negative", _is_count)
ROW: Mapping[str, Check] = {
    **dict.fromkeys(("model", "metric", "metric_id", "method", "unit"), TEXT),
    **dict.fromkeys(("class", "reason"), MAYBE_TEXT),
    **dict.fromkeys(("value", "low", "high", "level", "bias"), MAYBE_NUMBER),
    **dict.fromkeys(("n_units", "n_images", "n_references", "n_predictions", "undefined"), COUNT),
    "group": ("an object of column and name, or null", _is_group),
}


def _check_row(row: Any, pointer: str, file: str) -> None:
    if not isinstance(row, dict):
        raise InputError("a row", rule="type", file=file, location=pointer, value=row)
    for key, (expected, fits) in ROW.items():
        if key not in row:
            raise InputError(f"the key {key!r}", rule="missing-key", file=file, location=pointer)
        if not fits(row[key]):
            raise InputError(
                expected, rule="type", file=file, location=f"{pointer}/{key}", value=row[key]
            )


def _distinct(rows: list[dict[str, Any]], file: str) -> tuple[Mapping[str, Any], ...]:
    """Return every row once; two different rows of the same estimate are an error."""
    first_rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for k, row in enumerate(rows):
        key = (row["model"], row["metric"], row["class"], frozenset((row["group"] or {}).items()))
        if first_rows.setdefault(key, row) != row:
            what = {name: row[name] for name in ("model", "metric", "class", "group")}
            raise InputError(
                "one row for each", rule="dup-row", file=file, location=f"/rows/{k}", value=what
            )
    return tuple(first_rows.values())
