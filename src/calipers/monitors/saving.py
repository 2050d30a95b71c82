# SPDX-License-Identifier: Apache-2.0
"""The files of an evaluation of monitors: the JSON document, the rows, and one row per image.

Called by `MonitorEvaluation.as_dict` and by the report, which writes the files.
"""

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


def document(result: MonitorEvaluation) -> dict[str, Any]:
    """Return the JSON document of the contract ``calipers.monitor/1``."""
    from calipers import __version__

    taus = np.array(result.taus)
    comparisons, rankings = [], []
    if len(result.monitors) > 1:
        for paradigm in result.paradigms:
            comparisons += [row.as_dict() for row in result.compare_all("AUROC", paradigm)]
        for metric in RANKED:
            if _has_ranking(result, metric):
                rankings.append(result.ranking(metric).as_dict())
    return {
        "schema": SCHEMA,
        "calipers": __version__,
        "settings": dict(result.settings),
        "monitors": list(result.monitors),
        "model": result.scope.model,
        "n_images": result.n_images,
        "n_judged": int(result.basis.judged.sum()),
        "n_tuning": int(result.split.tuning.sum()),
        "tau": result.tau,
        "taus": list(result.taus),
        "prevalence": result.scope.prevalence(taus).tolist(),
        "thresholds": {name: threshold_dict(result.thresholds[name]) for name in result.monitors},
        "rows": [row.as_dict() for row in result.rows],
        "tables": result.tables,
        "comparisons": comparisons,
        "rankings": rankings,
        "sentences": result.sentences(),
        "warnings": list(result.warnings),
    }


def image_columns(result: MonitorEvaluation) -> dict[str, list[Any]]:
    """Return one row per image: its score, its labels, and every monitor's alarm and decision."""
    columns: dict[str, list[Any]] = {
        name: column.tolist() for name, column in result.scope.as_table().items()
    }
    for paradigm, name in ((OMS, "unsafe"), (OOD, "ood")):
        labels = headline(result.basis.labels, paradigm)
        if labels is not None:
            columns[name] = labels.positive.tolist()
    columns["judged"] = result.basis.judged.tolist()
    monitors = result.basis.monitors
    for name, alarm, higher in zip(monitors.names, monitors.alarm, monitors.higher_is_alarm):
        columns[f"alarm {name}"] = (alarm if higher else -alarm).tolist()
        threshold = result.thresholds[name]
        if threshold is not None and threshold.exists:
            columns[f"rejected {name}"] = threshold.rejected(alarm).tolist()
    return columns


def tables(result: MonitorEvaluation) -> dict[str, bytes]:
    """Return the contents of the tables by the names of their files: the rows, and one row per
    image.
    """
    rows = [row.as_dict() for row in result.rows]
    for row in rows:
        row["group"] = "; ".join(f"{name}={value}" for name, value in (row["group"] or {}).items())
    columns = {}
    for name in rows[0]:
        columns[name] = [row[name] for row in rows]
    return {
        ROWS: delimited(columns).encode("utf-8", "replace"),
        IMAGES: delimited(image_columns(result)).encode("utf-8", "replace"),
    }


def _has_ranking(result: MonitorEvaluation, metric: str) -> bool:
    """Return whether all monitors have a quantity under any labels."""
    for labels in result.basis.labels:
        if all(result.basis.find(metric, name, labels.group) for name in result.monitors):
            return True
    return False
