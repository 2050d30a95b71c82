# SPDX-License-Identifier: Apache-2.0
"""Where a result comes from: the record of its run, and the log of all runs in its folder.

`run_record` makes the content of ``run.json``: versions, machine, source, inputs, protocol, seed,
hashes of the files beside it, and a hash of itself (`check_record`), so that no field of it can
change unnoticed. `log_entry` makes the next line of ``audit.jsonl``: every line has the hash of the
line before and of the ``run.json`` of its run, so that no run can be taken out of the middle or
changed (`read_log`, `check_log`). It also has the hash of the page, which may be written again
without a run: then the log gets a line of its own (`page_entry`). `calipers.evaluation.saved`
writes both files, `calipers.io.saved` and ``calipers verify`` check them.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from calipers.errors import InputError
from calipers.results.files import LAST, canonical, environment, sha256_of

AUDIT = "audit.jsonl"
VERSIONS = ("calipers", "numpy")  # that may move the last bits of a number
AUDIT_SCHEMA = "calipers.audit/1"
MOST_LOG_BYTES = 64 << 20
# What nothing in a folder can show to be wrong; everything else is computed again or compared.
ON_TRUST = (
    "names, formats, sizes, hashes and notes of the inputs, and which records were set aside",
    "warnings as they are stored; whoever opens the folder gets them computed again",
    "name and source of the protocol",
    "command, times, source and environment of the run",
)
# What an entry of the log repeats from the record of its run.
REPEATED = ("calipers", "result_hash", "started", "ended")
# Asked once, for folders that were saved from a checkout. `git describe --dirty` says the same, but
# walks through the history first.
GIT = ("git", "status", "--porcelain=v2", "--branch", "--untracked-files=no")
COMMIT = "# branch.oid "  # how the line of its answer with the commit begins
PATIENCE = 5  # seconds for git


def run_record(
    evaluation: Mapping[str, Any],
    *,
    metric_ids: Sequence[str],
    settings: Mapping[str, Any],
    command: Sequence[str],
    started: datetime,
    files: Mapping[str, Mapping[str, Any]],
    log: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the content of ``run.json`` for an evaluation document.

    ``result_hash`` covers rows and protocol only: two runs on the same data agree in it whatever
    the time and the machine. ``files`` are those written beside it, each with its ``sha256`` and
    ``bytes``. ``log`` has the lines of earlier runs in the folder: with the hash of the last one,
    no two records are alike. ``record_hash`` covers everything else in the record.
    """
    inputs = evaluation["cohort"]["files"]
    record = {
        "schema": "calipers.run/1",
        "calipers": evaluation["calipers"],
        "source": source(),
        "command": list(command),
        "environment": {**environment(), **machine()},
        "protocol": evaluation["protocol"],
        "protocol_hash": sha256_of(evaluation["protocol"]),
        "settings": dict(settings),
        "metric_ids": list(metric_ids),
        "inputs": inputs,
        "records": _records(inputs),
        "cohort": {key: value for key, value in evaluation["cohort"].items() if key != "files"},
        "result_hash": sha256_of({"protocol": evaluation["protocol"], "rows": evaluation["rows"]}),
        "files": {name: dict(facts) for name, facts in files.items()},
        "log": AUDIT,
        "previous": _hash(log[-1]) if log else None,
        "started": _stamp(started),
        "ended": _stamp(datetime.now(UTC)),
        "exit": 0,
    }
    return {**record, "record_hash": sha256_of(record)}


def settings_of(protocol: Mapping[str, Any]) -> dict[str, Any]:
    """Return how objects are matched and intervals made by a protocol, as a document has it."""
    intervals = {
        "method": protocol.get("interval"),
        "level": protocol.get("level"),
        "replicates": protocol.get("replicates"),
        "unit": protocol.get("cluster"),
        "strata": protocol.get("strata"),
        "scheme": "replicate b uses Philox with the key (seed, b)",
    }
    return {
        "seed": protocol.get("seed"),
        "rng": "Philox4x64",
        "ties": protocol.get("ties"),
        "matching": protocol.get("matching"),
        "intervals": intervals,
    }


def check_repeated(record: Mapping[str, Any], evaluation: Mapping[str, Any], file: str) -> None:
    """Raise if ``run.json`` says something else than ``evaluation.json`` where it repeats it.

    Its own hash vouches for the record only: whoever writes another one writes another hash.
    """
    inputs = evaluation["cohort"].get("files")
    repeated = {
        "protocol": evaluation["protocol"],
        "protocol_hash": sha256_of(evaluation["protocol"]),
        "inputs": inputs,
        "cohort": {key: value for key, value in evaluation["cohort"].items() if key != "files"},
    }
    if "records" in record:
        repeated["records"] = _records(inputs)
    # What follows from the others stands here for readers, who need no protocol for it.
    # A protocol of another type is refused by who reads it.
    if isinstance(record.get("settings"), dict) and isinstance(evaluation["protocol"], dict):
        settings = dict(record["settings"])
        for name, value in settings_of(evaluation["protocol"]).items():
            if name in settings:
                settings[name] = value
        repeated["settings"] = settings
    repeated["metric_ids"] = list(dict.fromkeys(row["metric_id"] for row in evaluation["rows"]))
    repeated |= {"log": AUDIT, "exit": 0}
    for key, value in repeated.items():
        # Records of earlier versions have fewer keys.
        if key in record and canonical(record[key]) != canonical(value):
            raise InputError(
                "what evaluation.json has",
                rule="record-mismatch",
                file=file,
                location=f"/{key}",
                value=record[key],
                hint=(
                    "the files of this folder are not from one run: restore it from a backup, or "
                    "evaluate again"
                ),
            )


def check_record(record: Mapping[str, Any], file: str) -> None:
    """Raise if a field of ``run.json`` has changed; records of earlier versions have no hash."""
    if "record_hash" not in record and "records" not in record:
        return
    rest = {key: value for key, value in record.items() if key != "record_hash"}
    try:
        own_hash = sha256_of(rest)
    except UnicodeEncodeError:  # half of a surrogate pair, which no record has
        own_hash = ""
    if record.get("record_hash") != own_hash:
        raise InputError(
            "the record of a run as it was written",
            rule="record-hash",
            file=file,
            location="/record_hash",
            value=record.get("record_hash"),
            hint=(
                "it was changed after the run: restore the folder from a backup, or evaluate again"
            ),
        )


def versions(run: Mapping[str, Any]) -> tuple[str, str]:
    """Return the versions that the numbers depend on, as they were and as they are."""
    from calipers import __version__

    stored = run.get("environment")
    # A record from elsewhere may have anything there, or nothing.
    then = {**stored} if isinstance(stored, dict) else {}
    then["calipers"] = run.get("calipers")
    now = {**environment(), "calipers": __version__}
    return _version_text(then), _version_text(now)


def _version_text(versions_by_name: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {versions_by_name.get(name)}" for name in VERSIONS)


@cache
def source() -> dict[str, Any]:
    """Return which build of Calipers this is: the commit of a checkout, and the hash of the list of
    installed files, which has the hash of each.
    """
    return {"commit": _commit(), "installed_sha256": _installed()}


@cache
def machine() -> dict[str, Any]:
    """Return what the numbers should not depend on, but might: BLAS, processor and system."""
    import numpy

    config: Any = numpy.show_config(mode="dicts")
    blas = config.get("Build Dependencies", {}).get("blas", {})
    return {
        "blas": f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip(),
        "cpu": _processor(),
        "release": platform.release(),
    }


def _commit() -> str | None:
    """Return the commit of the checkout that this package lies in, with ``-dirty`` if files were
    changed; None if it is installed.
    """
    checkout = Path(__file__).resolve().parents[3]
    if not (checkout / ".git").exists() or not (checkout / "src" / "calipers").is_dir():
        return None
    try:
        answer = subprocess.run(
            GIT, cwd=checkout, capture_output=True, text=True, timeout=PATIENCE, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    commit, is_dirty = "", False
    for line in answer.stdout.splitlines():
        if line.startswith(COMMIT):
            commit = line.removeprefix(COMMIT)
        elif not line.startswith("#"):
            is_dirty = True
    if not commit or commit == "(initial)":
        return None
    return f"{commit}-dirty" if is_dirty else commit


def _installed() -> str | None:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        listing = distribution("calipers").read_text("RECORD")
    except PackageNotFoundError:
        return None
    return None if listing is None else hashlib.sha256(listing.encode()).hexdigest()


def _processor() -> str:
    """Return the name of the processor; Linux has it in a file, others say it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _records(inputs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the account of all inputs together: read = used + quarantined."""
    quarantined: Counter[str] = Counter()
    for account in inputs:
        quarantined.update(account["quarantined"])
    return {
        "read": sum(account["read"] for account in inputs),
        "used": sum(account["used"] for account in inputs),
        "quarantined": dict(sorted(quarantined.items())),
    }


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def log_entry(
    earlier: Sequence[str],
    record: Mapping[str, Any],
    run: bytes,
    page: Mapping[str, Any] | None = None,
) -> str:
    """Return the line of the log for a run.

    ``earlier`` are the lines before, ``run`` is its ``run.json``, and ``page`` has the ``sha256``
    and the ``bytes`` of its page; logs of earlier versions say nothing of it.
    """
    entry = {
        "schema": AUDIT_SCHEMA,
        "number": len(earlier) + 1,
        "previous": _hash(earlier[-1]) if earlier else None,
        "run_sha256": hashlib.sha256(run).hexdigest(),
        **{key: record[key] for key in REPEATED},
    }
    return canonical(entry if page is None else {**entry, "page": dict(page)})


def page_entry(
    earlier: Sequence[str], run: bytes, page: Mapping[str, Any], calipers: str, moment: str = ""
) -> str:
    """Return the line of the log for a page that was written again, after a run."""
    entry = {
        "schema": AUDIT_SCHEMA,
        "number": len(earlier) + 1,
        "previous": _hash(earlier[-1]),
        "run_sha256": hashlib.sha256(run).hexdigest(),
        "calipers": calipers,
        "written": moment or _stamp(datetime.now(UTC)),
        "page": dict(page),
    }
    return canonical(entry)


class CheckedLog(NamedTuple):
    """What a log says that belongs to its folder."""

    runs: int
    page: Mapping[str, Any] | None  # sha256 and bytes; None: an earlier version wrote the log


def read_log(path: Path) -> list[str]:
    """Return the lines of a log whose chain is whole; none if there is no file.

    Raises
    ------
    InputError
        ``audit-chain``: a line was changed, removed or added by something else.
    """
    if not path.exists():
        return []
    if path.stat().st_size > MOST_LOG_BYTES:
        raise InputError(f"at most {MOST_LOG_BYTES} bytes", rule="too-large", file=str(path))
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _broken(path, 1, str(error)) from None
    lines = text.split("\n")
    if lines.pop():
        raise _broken(path, len(lines) + 1, "the last line has no end")
    previous = None
    for number, line in enumerate(lines, 1):
        entry = _entry(line)
        if entry is None or entry.get("number") != number or entry.get("previous") != previous:
            raise _broken(path, number, line)
        previous = _hash(line)
    return lines


def check_log(path: Path, record: Mapping[str, Any], run: bytes) -> CheckedLog:
    """Raise unless the last run in the log is this one, with nothing but its pages after it."""
    lines = read_log(path)
    if not lines:
        raise InputError(
            f"the log of runs that {LAST} names",
            rule="not-found",
            file=str(path),
            hint=(
                "it was removed after the run: restore the folder from a backup, or evaluate again"
            ),
        )
    entries: list[dict[str, Any]] = [json.loads(line) for line in lines]
    of_runs = [k for k, entry in enumerate(entries) if "written" not in entry]
    last = of_runs[-1] if of_runs else 0
    expected = log_entry(lines[:last], record, run, entries[last].get("page"))
    # Logs of earlier versions begin anew in every record.
    before = entries[last]["previous"]
    if lines[last] != expected or record.get("previous", before) != before:
        raise _broken(path, last + 1, lines[last], f"the entry of the {LAST} beside it")
    for k in range(last + 1, len(lines)):
        entry = entries[k]
        page, calipers, moment = (entry.get(key) for key in ("page", "calipers", "written"))
        line = ""
        if isinstance(page, dict) and isinstance(calipers, str) and isinstance(moment, str):
            line = page_entry(lines[:k], run, page, calipers, moment)
        if lines[k] != line:
            raise _broken(path, k + 1, lines[k], f"a page of the {LAST} beside it")
    return CheckedLog(len(of_runs), entries[-1].get("page"))


def _entry(line: str) -> dict[str, Any] | None:
    """Return an entry of the log; None if it is not exactly as one is written."""
    try:
        entry = json.loads(line)
        is_canonical = isinstance(entry, dict) and canonical(entry) == line
    except (ValueError, RecursionError):  # also half of a surrogate pair
        return None
    return entry if is_canonical and entry.get("schema") == AUDIT_SCHEMA else None


def _hash(line: str) -> str:
    return hashlib.sha256(line.encode("utf-8")).hexdigest()


def _broken(
    path: Path, number: int, value: str, expected: str = "an entry that follows the one before"
) -> InputError:
    return InputError(
        expected,
        rule="audit-chain",
        file=str(path),
        location=f"line {number}",
        value=value,
        hint="the log was changed after the run: restore the folder from a backup; to begin a new "
        "log, evaluate into a new folder",
    )
