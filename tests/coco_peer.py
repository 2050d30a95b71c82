"""pycocotools beside Calipers: both evaluate the same files or records,
and their twelve numbers are compared.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

import calipers as cal

NAMES = ("AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl")
SEGMENTATION = """
schema = "calipers.protocol/1"
name = "segmentation"
source = "pycocotools, iouType segm"
extends = "coco"
[matching]
criterion = "mask-iou"
"""
Record = dict[str, Any]


def of_files(references: Path, results: Path, kind: str) -> np.ndarray:
    """Return pycocotools' twelve numbers of two files; -1 is undefined."""
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(references))
        return np.asarray(_evaluated(truth, truth.loadRes(str(results)), kind).stats)


def of_records(dataset: Record, results: list[Record], kind: str) -> COCOeval:
    """Return pycocotools' evaluation of annotations and results in memory;
    there may be no results.
    """
    truth = COCO()
    truth.dataset = dataset
    with contextlib.redirect_stdout(io.StringIO()):
        truth.createIndex()
        found = truth.loadRes(results) if results else COCO()
        if not results:
            found.dataset = {**dataset, "annotations": []}
            found.createIndex()
        return _evaluated(truth, found, kind)


def _evaluated(truth: COCO, found: COCO, kind: str) -> COCOeval:
    evaluation = COCOeval(truth, found, kind)
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return evaluation


def cohort_of(
    images: Iterable[int],
    n_classes: int,
    references: tuple[list[Record], Mapping[str, str]],
    results: tuple[list[Record], Mapping[str, str]],
    **options: Any,
) -> cal.Cohort:
    """Return the cohort of records with ``image``; each side comes with its columns,
    ours -> that of the records.
    """

    def of_image(side: tuple[list[Record], Mapping[str, str]], image: int) -> Record:
        records, columns = side
        chosen = [record for record in records if record["image"] == image]
        found: Record = {
            ours: [record[name] for record in chosen] for ours, name in columns.items()
        }
        return {
            ours: values if ours == "masks" else np.array(values) for ours, values in found.items()
        }

    places = list(images)
    return cal.Cohort.from_arrays(
        [of_image(references, image) for image in places],
        [of_image(results, image) for image in places],
        classes=[f"c{k}" for k in range(n_classes)],
        **options,
    )


def twelve(rows: Iterable[Mapping[str, Any]]) -> np.ndarray:
    """Return the twelve numbers among the rows of a document,
    undefined ones as pycocotools writes them.
    """
    pooled = {row["metric"]: row["value"] for row in rows if row["class"] is None}
    return np.array([-1.0 if pooled[name] is None else pooled[name] for name in NAMES])


def assert_the_twelve(ours: cal.Evaluation, theirs: COCOeval, where: str) -> None:
    """Each number to 1e-12, and undefined on both sides or on none."""
    for name, value in zip(NAMES, theirs.stats):
        expected = np.nan if value == -1 else value
        assert ours[name].value == pytest.approx(expected, rel=0, abs=1e-12, nan_ok=True), (
            f"{where}: {name}"
        )
