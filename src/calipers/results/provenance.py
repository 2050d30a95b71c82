# SPDX-License-Identifier: Apache-2.0
"""Where a result comes from: versions, inputs, protocol, seed, and a hash that a later run can be
compared with.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any


def canonical(document: Any) -> str:
    """Return JSON text that is the same for equal documents: sorted keys, no spaces, no NaN."""
    return json.dumps(
        document, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False
    )


def sha256_of(document: Any) -> str:
    """Return the hash of a document in canonical form."""
    return hashlib.sha256(canonical(document).encode("utf-8")).hexdigest()


def environment() -> dict[str, Any]:
    """Return what the numbers may depend on: versions and machine, no paths, no names of people or
    hosts.
    """
    import numpy
    import scipy

    return {
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "platform": platform.system(),
        "machine": platform.machine(),
        "byteorder": sys.byteorder,
    }


def run_record(
    evaluation: Mapping[str, Any],
    *,
    metric_ids: Sequence[str],
    settings: Mapping[str, Any],
    command: Sequence[str],
    started: datetime,
    files: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the content of ``run.json`` for an evaluation document.

    ``result_hash`` covers rows and protocol only: two runs on the same data agree in it whatever
    the time and the machine. ``files`` are those written beside it, each with its ``sha256`` and
    ``bytes``.
    """
    return {
        "schema": "calipers.run/1",
        "calipers": evaluation["calipers"],
        "command": list(command),
        "environment": environment(),
        "protocol": evaluation["protocol"],
        "protocol_hash": sha256_of(evaluation["protocol"]),
        "settings": dict(settings),
        "metric_ids": list(metric_ids),
        "inputs": evaluation["cohort"]["files"],
        "cohort": {key: value for key, value in evaluation["cohort"].items() if key != "files"},
        "result_hash": sha256_of({"protocol": evaluation["protocol"], "rows": evaluation["rows"]}),
        "files": {name: dict(facts) for name, facts in files.items()},
        "started": _stamp(started),
        "ended": _stamp(datetime.now(UTC)),
        "exit": 0,
    }


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
