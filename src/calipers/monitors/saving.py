# SPDX-License-Identifier: Apache-2.0
"""What leaves an evaluation of monitors: the document, the rows, and one row per image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calipers.monitors.labellings import OMS, OOD
from calipers.monitors.result import SCHEMA, headline, threshold_dict
from calipers.results.delimited import delimited

if TYPE_CHECKING:
    from calipers.monitors.result import MonitorEvaluation

DOCUMENT, ROWS, IMAGES = "monitor.json", "monitor.csv", "images.csv"
RANKED = ("AUROC", "FPR95", "AURC")


def document(found: MonitorEvaluation) -> dict[str, Any]:
    """Return the JSON document of the contract ``calipers.monitor/1``."""
    from calipers import __version__

    taus = np.array(found.taus)
    several = len(found.monitors) > 1
    return {
        "schema": SCHEMA,
        "calipers": __version__,
        "settings": dict(found.settings),
        "monitors": list(found.monitors),
        "model": found.scope.model,
        "n_images": found.n_images,
        "n_judged": int(found.basis.judged.sum()),
        "n_tuning": int(found.split.tuning.sum()),
        "tau": found.tau,
        "taus": list(found.taus),
        "prevalence": found.scope.prevalence(taus).tolist(),
        "thresholds": {name: threshold_dict(found.thresholds[name]) for name in found.monitors},
        "rows": [row.as_dict() for row in found.rows],
        "tables": found.tables,
        "comparisons": [
            row.as_dict() for p in found.paradigms for row in found.compare_all("AUROC", p)
        ]
        if several
        else [],
        "rankings": [found.ranking(metric).as_dict() for metric in RANKED if _ranks(found, metric)]
        if several
        else [],
        "sentences": found.sentences(),
        "warnings": list(found.warnings),
    }


def image_columns(found: MonitorEvaluation) -> dict[str, list[Any]]:
    """Return one row per image: its score, its labels, the alarms, and who rejects it."""
    columns: dict[str, list[Any]] = {
        name: column.tolist() for name, column in found.scope.as_table().items()
    }
    for paradigm, name in ((OMS, "unsafe"), (OOD, "ood")):
        labels = headline(found.basis.labels, paradigm)
        if labels is not None:
            columns[name] = labels.wanted.tolist()
    columns["judged"] = found.basis.judged.tolist()
    monitors = found.basis.monitors
    for name, alarm, higher in zip(monitors.names, monitors.alarm, monitors.higher_is_alarm):
        columns[f"alarm {name}"] = (alarm if higher else -alarm).tolist()
        threshold = found.thresholds[name]
        if threshold is not None and threshold.known:
            columns[f"rejected {name}"] = threshold.rejected(alarm).tolist()
    return columns


def tables(found: MonitorEvaluation) -> dict[str, bytes]:
    """Return the contents of the tables by the names of their files: the rows, and one row per
    image.
    """
    rows = [row.as_dict() for row in found.rows]
    for row in rows:
        row["group"] = "; ".join(f"{name}={value}" for name, value in (row["group"] or {}).items())
    contents = {
        ROWS: {name: [row[name] for row in rows] for name in rows[0]},
        IMAGES: image_columns(found),
    }
    return {
        name: delimited(columns).encode("utf-8", "replace") for name, columns in contents.items()
    }


def _ranks(found: MonitorEvaluation, metric: str) -> bool:
    """Return whether a quantity is stated under any labels."""
    return any(
        all(found.basis.find(metric, name, one.group) for name in found.monitors)
        for one in found.basis.labels
    )
