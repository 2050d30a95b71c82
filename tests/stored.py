"""Saved evaluations made by hand: rows of the JSON contract, and the folder that `calipers evaluate
-o` would leave.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from calipers.results.files import sha256_of
from calipers.results.provenance import AUDIT, log_entry

PROTOCOL = {"schema": "calipers.protocol/1", "name": "made by hand", "level": 0.95}


def row(metric: str = "AP50", **changes: Any) -> dict[str, Any]:
    """A row as `Row.as_dict` returns it: 0.6 [0.5, 0.7] from 40 patients, unless changed."""
    plain = {
        "model": "ours",
        "metric": metric,
        "metric_id": "ap.coco101@1",
        "class": None,
        "group": None,
        "value": 0.6,
        "low": 0.5,
        "high": 0.7,
        "level": 0.95,
        "method": "bootse-t-logit",
        "unit": "patient",
        "n_units": 40,
        "n_images": 100,
        "n_references": 150,
        "n_predictions": 200,
        "bias": 0.001,
        "undefined": 0,
        "reason": None,
    }
    label = {"class": changes.pop("label")} if "label" in changes else {}
    assert set(changes) <= set(plain)
    return {**plain, **changes, **label}


def by_centre(*lows: float, **changes: Any) -> list[dict[str, Any]]:
    """Rows of the centres C1, C2, ... with these lower bounds."""
    return [
        row(low=low, group={"centre": f"C{k}"}, **changes) for k, low in enumerate(lows, start=1)
    ]


def document(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The content of evaluation.json."""
    head = {
        "schema": "calipers.evaluation/1",
        "calipers": "0.1.0",
        "protocol": PROTOCOL,
        "cohort": {},
    }
    return {**head, "rows": rows, "warnings": []}


def save(folder: Path, rows: list[dict[str, Any]], *, run: bool = True) -> Path:
    """Write evaluation.json and, unless told otherwise, the run.json that vouches for it."""
    folder.mkdir(exist_ok=True)
    (folder / "evaluation.json").write_text(json.dumps(document(rows), indent=1), encoding="utf-8")
    if run:
        record = {
            "schema": "calipers.run/1",
            "result_hash": sha256_of({"protocol": PROTOCOL, "rows": rows}),
        }
        (folder / "run.json").write_text(json.dumps(record), encoding="utf-8")
    return folder


def vouch(folder: Path) -> None:
    """Write a run.json that agrees with whatever the folder holds now."""
    run, document = (
        json.loads((folder / name).read_text()) for name in ("run.json", "evaluation.json")
    )
    run["result_hash"] = sha256_of({"protocol": document["protocol"], "rows": document["rows"]})
    for name, facts in run["files"].items():
        facts["sha256"] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    seal(folder, run)


def seal(folder: Path, run: dict[str, Any]) -> None:
    """Write a run.json with its hash, and a log of one run that has it."""
    run.pop("record_hash", None)
    run["record_hash"] = sha256_of(run)
    text = json.dumps(run)
    (folder / "run.json").write_text(text)
    if "log" in run:
        (folder / AUDIT).write_text(log_entry([], run, text.encode()) + "\n")


def edit(folder: Path, change: Any, name: str = "evaluation.json") -> None:
    document = json.loads((folder / name).read_text())
    change(document)
    if name == "run.json":
        seal(folder, document)
        return
    (folder / name).write_text(json.dumps(document))
    vouch(folder)


def refusal(folder: Path) -> cal.InputError:
    """Return the error with which a folder is refused."""
    with pytest.raises(cal.InputError) as caught:
        cal.open_evaluation(folder)
    return caught.value
