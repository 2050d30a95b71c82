# SPDX-License-Identifier: Apache-2.0
"""What `boxes_from_heatmaps` returns."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, did_you_mean
from calipers.heatmaps.settings import Settings
from calipers.tables.cohort import Cohort, Images
from calipers.tables.delivery import Delivery, as_predictions, as_references
from calipers.tables.intake import Intake
from calipers.tables.objects import Predictions

Flags = NDArray[np.bool_]
MODEL = "heatmaps"


@dataclass(frozen=True)
class HeatmapBoxes:
    """Boxes of heat maps, and what they were made from."""

    predictions: Predictions  # rows by image, class, threshold, first pixel; fact ``threshold``
    classes: tuple[str, ...]
    images: Images  # ids and sizes
    settings: Settings
    constant: Flags  # (n_images, n_classes) maps of one value, which give no box
    shrunk: int = 0  # images with fewer pixels than their maps along some axis

    def __len__(self) -> int:
        return len(self.predictions)

    @property
    def notes(self) -> tuple[str, ...]:
        """What whoever uses the boxes should know, in words."""
        n, found = len(self.predictions), []
        if constant := int(self.constant.sum()):
            found.append(f"{constant} maps of one value give no box")
        score = self.predictions.score
        if outside := int(((score < 0) | (score > 1)).sum()):
            found.append(
                f"{outside} of {n} scores lie outside [0, 1]: read them with --score-scale raw"
            )
        if self.shrunk:
            found.append(
                f"{self.shrunk} images are smaller than their maps, which were read without smoothing"
            )
        return tuple(found)

    def by_threshold(self) -> dict[float, int]:
        """Return the number of boxes found at each threshold."""
        found = self.predictions.facts["threshold"]
        return {level: int((found == level).sum()) for level in self.settings.thresholds}

    def predictions_for(self, cohort: Cohort) -> Predictions:
        """Return the boxes in the order of images and classes of a cohort, for
        `Cohort.with_predictions`.

        Images are paired by id and classes by name. Every image of the cohort has to be among the
        maps; a map of an image that the cohort lacks, and a class that it lacks, are errors too:
        nothing is left out.
        """
        image = _numbers(
            self.images.ids, cohort.images.ids, "unknown-image", "an image of the cohort"
        )
        label = _numbers(self.classes, cohort.classes, "unknown-category", "a class of the cohort")
        silent = sorted(set(range(cohort.n_images)) - set(image.tolist()))
        if silent:
            name = cohort.images.ids[silent[0]]
            hint = f"{len(silent)} of {cohort.n_images} images have no map: take the others with Cohort.take"
            raise InputError(
                "a map for every image", rule="subset", field="image", value=name, hint=hint
            )
        said = self.predictions
        delivery = Delivery(
            image[said.image],
            label[said.label],
            said.boxes,
            "xyxy",
            said.place,
            score=said.score,
            facts=said.facts,
        )
        return as_predictions(delivery, cohort.images.size)

    def write(self, path: str | PathLike[str], format: str | None = None) -> None:
        """Write the boxes to a file that `calipers.read` understands, whole or not at all.

        Parameters
        ----------
        format
            ``"coco"`` (a document with the names of the categories), ``"csv"``, ``"tsv"`` or
            ``"parquet"``; None: by the suffix. Tables keep the threshold of every box; COCO has no
            place for it.
        """
        from calipers.readers import write

        write(self.cohort(), path, what=MODEL, format=format)

    def cohort(self) -> Cohort:
        """Return the boxes as the only model of a cohort without references."""
        dimensions = self.predictions.dimensions
        nothing = np.zeros(0, np.int64)
        none = Delivery(nothing, nothing, np.zeros((0, 2 * dimensions)), "xyxy", nothing)
        references = as_references(none, self.images.size)
        return Cohort(self.images, self.classes, references, {MODEL: self.predictions}, Intake())

    def as_dict(self) -> dict[str, Any]:
        """Return the account for JSON: settings, counts, notes."""
        levels = [{"threshold": level, "boxes": n} for level, n in self.by_threshold().items()]
        silent = int((np.diff(self.predictions.offsets) == 0).sum())
        return {
            "settings": self.settings.as_dict(),
            "images": len(self.images),
            "classes": list(self.classes),
            "maps": int(self.constant.size),
            "constant": int(self.constant.sum()),
            "boxes": len(self),
            "by_threshold": levels,
            "images_without_boxes": silent,
        }


def _numbers(
    names: tuple[str, ...], known: tuple[str, ...], rule: str, wanted: str
) -> NDArray[np.int64]:
    index = {name: k for k, name in enumerate(known)}
    for name in names:
        if name not in index:
            raise InputError(wanted, rule=rule, value=name, hint=did_you_mean(name, known[:1000]))
    return np.array([index[name] for name in names], np.int64)
