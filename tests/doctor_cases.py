"""Files of references and predictions that are sound, and ways to spoil them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import calipers as cal
from calipers.data.cohort import Cohort
from calipers.io.write import write
from random_cohorts import random_cohort

Record = dict[str, Any]


@dataclass
class Documents:
    """References and predictions of one model as a COCO document each."""

    references: Record
    predictions: Any

    def sizes(self) -> dict[object, tuple[float, float]]:
        return {
            image["id"]: (image["width"], image["height"]) for image in self.references["images"]
        }

    def move(self, change: Callable[[list[float], tuple[float, float]], list[float]]) -> None:
        """Replace every predicted box (x y w h) of an image of some size."""
        sizes = self.sizes()
        for record in self.predictions["annotations"]:
            record["bbox"] = change(record["bbox"], sizes[record["image_id"]])

    def numbered(self) -> None:
        """Give the images whole numbers from 1 as ids, without other names."""
        number = {image["id"]: k for k, image in enumerate(self.references["images"], start=1)}
        for image in self.references["images"]:
            image["id"] = number[image["id"]]
            image.pop("file_name", None)
        for record in [*self.references["annotations"], *self.predictions["annotations"]]:
            record["image_id"] = number[record["image_id"]]

    def bare(self) -> None:
        """Make the predictions a list of results, without names of categories."""
        self.predictions = self.predictions["annotations"]
        for record in self.predictions:
            del record["id"]


@dataclass
class Tables:
    """References and predictions of one model as rows each."""

    references: list[dict[str, str]]
    predictions: list[dict[str, str]]

    def each(self, column: str, change: Callable[[str], str]) -> None:
        for row in self.predictions:
            row[column] = change(row[column])


def demo(model: str = "overpredicts") -> tuple[Cohort, str]:
    return cal.demo_cohort(), model


def random(seed: int = 7) -> tuple[Cohort, str]:
    return random_cohort(60, 3, seed, size=300), "model-1"


def documents(cohort: Cohort, model: str, folder: Path) -> Documents:
    write(cohort, folder / "sound-refs.json", what="references")
    write(cohort, folder / "sound-preds.json", what=model)
    texts = [(folder / f"sound-{name}.json").read_text() for name in ("refs", "preds")]
    return Documents(*map(json.loads, texts))


def tables(cohort: Cohort, model: str, folder: Path) -> Tables:
    write(cohort, folder / "sound-refs.csv", what="references")
    write(cohort, folder / "sound-preds.csv", what=model)
    rows = []
    for name in ("refs", "preds"):
        with (folder / f"sound-{name}.csv").open(newline="") as file:
            rows.append(list(csv.DictReader(file)))
    return Tables(*rows)


def saved_documents(pair: Documents, folder: Path) -> tuple[str, str]:
    (folder / "refs.json").write_text(json.dumps(pair.references))
    (folder / "preds.json").write_text(json.dumps(pair.predictions))
    return "refs.json", "preds.json"


def saved_tables(pair: Tables, folder: Path) -> tuple[str, str]:
    for name, rows in (("refs", pair.references), ("preds", pair.predictions)):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return "refs.csv", "preds.csv"


def corners(box: list[float]) -> list[float]:
    x, y, w, h = box
    return [x, y, x + w, y + h]


def centred(box: list[float]) -> list[float]:
    x, y, w, h = box
    return [x + w / 2, y + h / 2, w, h]


def fractions(box: list[float], size: tuple[float, float]) -> list[float]:
    return (np.array(box) / np.array([*size, *size])).tolist()
