"""The reports that every test of the page sees: usual ones and all the odd ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

import calipers as cal
from browser.names import HOSTILE
from calipers.data.objects import empty_predictions
from calipers.pictures.album import album
from calipers.synthetic.demo import draw_images
from calipers.synthetic.volumes import demo_samples
from evaluated import evaluated_demo
from random_cohorts import random_cohort

EVERY_SO_MANY = 30  # hostile names, one is a model too
GROUP = "<i>centre</i>"  # the name of a column
LONGEST_GROUP = 300  # characters; a column of text holds the longest of its entries once per image


def _light(name: str, replicates: int = 100) -> cal.Protocol:
    """A protocol with few replicates: the page is tested, not the numbers."""
    return replace(cal.Protocol.load(name), replicates=replicates)


def _demo(**options) -> cal.Evaluation:
    return evaluated_demo(_light("overview"), **options)


def _one() -> cal.Evaluation:
    cohort = cal.demo_cohort()
    return cal.evaluate(
        replace(cohort, models={"ours": cohort.models["overpredicts"]}), _light("overview")
    )


def _many(classes: int, images: int) -> cal.Evaluation:
    cohort = random_cohort(images, classes, 0, models=10)
    return cal.evaluate(
        replace(cohort, classes=tuple(f"finding {k + 1}" for k in range(classes))),
        _light("overview"),
    )


def _tiny() -> cal.Evaluation:
    box = {"boxes": [[0, 0, 10, 10]], "labels": [0]}
    return cal.evaluate(
        cal.Cohort.from_arrays([box], [{**box, "scores": [0.5]}], classes=("nodule",)), "overview"
    )


def _empty() -> cal.Evaluation:
    """Images, but neither references nor predictions."""
    images = [{"boxes": np.zeros((0, 4)), "labels": [], "patient": f"p{k}"} for k in range(12)]
    cohort = cal.Cohort.from_arrays(images, classes=("nodule", "mass"))
    for model in ("ours", "theirs"):
        cohort = cohort.with_predictions(model, empty_predictions(12))
    return cal.evaluate(cohort, _light("overview"))


def _undefined() -> cal.Evaluation:
    """Predictions without references, and metrics that need references: not one number."""
    images = [{"boxes": np.zeros((0, 4)), "labels": []} for _ in range(12)]
    found = [{"boxes": [[0, 0, 10, 10]], "labels": [k % 2], "scores": [0.5]} for k in range(12)]
    cohort = cal.Cohort.from_arrays(
        images, {"ours": found, "theirs": found}, classes=("nodule", "mass")
    )
    return cal.evaluate(cohort, _light("coco"))


def _hostile() -> cal.Evaluation:
    """Every hostile name is a class and an image, every fourth a group, some are models."""
    references, found = [], []
    for k, name in enumerate(HOSTILE):
        box = {"boxes": [[0, 0, 10 + k % 7, 10]], "labels": [k], "image_id": name}
        references.append({**box, GROUP: HOSTILE[k - k % 4][:LONGEST_GROUP]})
        found.append({**box, "boxes": [[0, 0, 10, 10]], "scores": [(k % 10 + 1) / 11]})
    models = dict.fromkeys(HOSTILE[::-EVERY_SO_MANY], found)
    cohort = cal.Cohort.from_arrays(references, models, classes=tuple(HOSTILE))
    return cal.evaluate(cohort, _light("overview"), by=[GROUP])


def _sparse() -> cal.Evaluation:
    """Ten classes, the last without references, and a centre without any: numbers beside words in
    the same column.
    """
    chance = np.random.default_rng(0)
    references, found = [], []
    for k in range(40):
        box = {
            "boxes": [[0, 0, 10, 10]],
            "labels": [k % 9],
            "centre": f"centre {k % 2 + 1}",
            "patient": f"p{k}",
        }
        references.append(box)
        shift = chance.uniform(0, 5)
        found.append(
            {
                "boxes": [[0, shift, 10, 10 + shift]],
                "labels": [k % 10],
                "scores": [chance.uniform(0.1, 1)],
            }
        )
    references.append(
        {"boxes": np.zeros((0, 4)), "labels": [], "centre": "centre 3", "patient": "p40"}
    )
    found.append({"boxes": [[0, 0, 10, 10]], "labels": [0], "scores": [0.5]})
    classes = tuple(f"finding {k + 1}" for k in range(10))
    other = [{**one, "scores": [1 - one["scores"][0] / 2]} for one in found]
    cohort = cal.Cohort.from_arrays(references, {"ours": found, "theirs": other}, classes=classes)
    return cal.evaluate(cohort, _light("overview"), by=["centre"])


def _maps() -> cal.Evaluation:
    """Volumes with the maps of two models; their pictures come from the samples themselves."""
    return cal.evaluate_maps(list(demo_samples(10, size=32)), _light("anomaly"), by=["centre"])


MADE: dict[str, Callable[[], cal.Evaluation]] = {
    "demo": _demo,
    "grouped": partial(_demo, by=["centre", "size"]),
    "without intervals": partial(_demo, ci=False),
    "one model": _one,
    "ten models": partial(_many, 4, 60),
    "80 classes": partial(_many, 80, 60),
    "tiny": _tiny,
    "empty": _empty,
    "undefined": _undefined,
    "hostile": _hostile,
    "maps": _maps,
}
EVERY = tuple(MADE)
# Asked for by name only: the page is the same, and every look at every report takes its time.
MADE |= {"with pictures": _demo, "sparse": _sparse}
PICTURES = {"with pictures"}


class Reports:
    """Writes a report when it is first asked for, and keeps it; also a failure, so that it is
    waited for once.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.evaluations: dict[str, cal.Evaluation] = {}
        self.failures: dict[str, Exception] = {}

    def evaluation(self, name: str) -> cal.Evaluation:
        """Return the evaluation behind a report."""
        if name not in self.evaluations:
            self.evaluations[name] = MADE[name]()
        return self.evaluations[name]

    def __getitem__(self, name: str) -> Path:
        path = self.folder / f"{name.replace(' ', '-')}.html"
        if name in self.failures:
            raise self.failures[name]
        try:
            return (
                path
                if path.exists()
                else self.evaluation(name).report(path, images=self._images(name))
            )
        except Exception as failure:
            self.failures[name] = failure
            raise

    def _images(self, name: str) -> Path | None:
        """Draw the images that a report shows."""
        if name not in PICTURES:
            return None
        folder = self.folder / f"images of {name}"
        folder.mkdir()
        evaluation = self.evaluation(name)
        shown = {entry.image for group in album(evaluation, None).groups for entry in group.entries}
        draw_images(evaluation.cohort.take(np.array(sorted(shown))), folder)
        return folder
