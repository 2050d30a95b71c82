# SPDX-License-Identifier: Apache-2.0
"""Error types against hotcoco and tidecv, on medical-like data."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from typing import Any
from unittest.mock import MagicMock

import numpy as np

from benchmarks import workloads
from benchmarks.contest import Result, peer_name, take_turns
from benchmarks.rows import _evaluated, row

DRAWING = (
    "cv2",
    "seaborn",
    "appdirs",
)  # what tidecv draws and downloads with; nothing of it is used here
REPLICATES = 1000


@row("error-types")
def error_types() -> Iterator[Result]:
    """Kinds, gains and counts from a cohort in memory; hotcoco's matches are there before its time
    begins.
    """
    import hotcoco

    data = workloads.make("b")
    cohort, peer = workloads.to_cohort(data), _evaluated(hotcoco, data)
    found, theirs = _ours(cohort), peer.tide_errors()["counts"]
    if [found[name] for name in ("cls", "miss")] != [theirs["Cls"], theirs["Miss"]]:
        raise AssertionError("the counts differ")
    times = take_turns({"native": lambda: _ours(cohort), "hotcoco": peer.tide_errors})
    what = "error types, b"
    yield Result(
        "error-types",
        what,
        "native",
        peer_name("hotcoco"),
        times["hotcoco"],
        times["native"],
        "s",
        1.0,
        7,
    )
    tide = _tidecv(data)
    if tide is not None:
        slow = take_turns({"native": lambda: _ours(cohort), "peer": tide}, 5)
        yield Result(
            "error-types",
            what,
            "native",
            peer_name("tidecv"),
            slow["peer"],
            slow["native"],
            "s",
            50.0,
            5,
        )


@row("error-replicates")
def error_replicates() -> Iterator[Result]:
    """Replicates of all gains and counts of 882 images, from the kinds on."""
    from calipers.statistics.estimates import Certainty
    from calipers.statistics.estimates import replicates as drawn
    from calipers.statistics.weights import Units

    cohort = workloads.to_cohort(workloads.make("b882"))
    metric, model = _metric(), next(iter(cohort.models))

    def run() -> Any:
        units = Units.of("image", None, cohort.n_images)
        return drawn(
            [(metric, metric.recipe.collect(cohort, model))],
            units,
            Certainty(replicates=REPLICATES),
        )

    ours = take_turns({"ours": run}, 5)["ours"]
    what = f"{REPLICATES} replicates of error types, b882"
    yield Result("error-replicates", what, "native", "limit of 3 s", 3.0, ours, "s", 1.0, 5)


def _metric() -> Any:
    from calipers.evaluation.protocol import Protocol

    return next(
        metric for metric in Protocol.load("tide").compile() if "dAP/cls" in metric.facts.names
    )


def _ours(cohort: Any) -> dict[str, float]:
    metric = _metric()
    evidence = metric.recipe.collect(cohort, next(iter(cohort.models)))
    values = metric.value(evidence, np.ones((1, cohort.n_images), np.int64))[0, 0]
    names = [name.removeprefix("errors/") for name in metric.facts.names]
    return dict(zip(names, values.tolist()))


def _tidecv(data: workloads.Workload) -> Any:
    """Return tidecv's whole way from lists in memory to gains; None if it is not installed."""
    if importlib.util.find_spec("tidecv") is None:
        return None
    missing = [name for name in DRAWING if importlib.util.find_spec(name) is None]
    sys.modules.update({name: MagicMock() for name in missing})
    try:
        tidecv = importlib.import_module("tidecv")
    finally:
        for name in missing:
            del sys.modules[name]
    references, predictions = tidecv.Data("references"), tidecv.Data("predictions")
    for k in range(data["n_img"]):
        references.add_image(k, str(k))
    for k in range(data["n_cls"]):
        references.add_class(k, str(k))
    for image, label, box in zip(
        data["gt_img"].tolist(), data["gt_cls"].tolist(), data["gt_box"].tolist()
    ):
        references.add_ground_truth(image, label, box)
    columns = (data[name].tolist() for name in ("dt_img", "dt_cls", "dt_score", "dt_box"))
    for entry in zip(*columns):
        predictions.add_detection(*entry)

    def run() -> Any:
        tide = tidecv.TIDE()
        tide.evaluate(references, predictions)
        return tide.get_all_errors()

    return run
