# SPDX-License-Identifier: Apache-2.0
"""`HeatmapBoxes`: the result of `boxes_from_heatmaps`."""

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
    """Boxes of heat maps, with the images, classes and settings that they were made from."""

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
        """Remarks for users of the boxes."""
        n, notes = len(self.predictions), []
        if constant := int(self.constant.sum()):
            notes.append(f"{constant} maps of one value give no box")
        score = self.predictions.score
        if outside := int(((score < 0) | (score > 1)).sum()):
            notes.append(
                f"{outside} of {n} scores lie outside [0, 1]: read them with --score-scale raw"
            )
        if self.shrunk:
            notes.append(
                f"{self.shrunk} images are smaller than their maps, "
                "which were resampled without smoothing"
            )
        return tuple(notes)

    def by_threshold(self) -> dict[float, int]:
        """Return the number of boxes found at each threshold."""
        thresholds = self.predictions.facts["threshold"]
        return {level: int((thresholds == level).sum()) for level in self.settings.thresholds}

    def predictions_for(self, cohort: Cohort) -> Predictions:
        """Return the boxes in the order of images and classes of a cohort, for
        `Cohort.with_predictions`.

        Images are paired by id and classes by name. Every image of the cohort needs a map; an image
        or a class that the cohort lacks is an error, too: nothing is dropped.
        """
        image = _numbers(
            self.images.ids, cohort.images.ids, "unknown-image", "an image of the cohort"
        )
        label = _numbers(self.classes, cohort.classes, "unknown-category", "a class of the cohort")
        silent = sorted(set(range(cohort.n_images)) - set(image.tolist()))
        if silent:
            name = cohort.images.ids[silent[0]]
            hint = (
                f"{len(silent)} of {cohort.n_images} images have no map: "
                "select the others with Cohort.take"
            )
            raise InputError(
                "a map for every image", rule="subset", field="image", value=name, hint=hint
            )
        rows = self.predictions
        delivery = Delivery(
            image[rows.image],
            label[rows.label],
            rows.boxes,
            "xyxy",
            rows.place,
            score=rows.score,
            facts=rows.facts,
        )
        return as_predictions(delivery, cohort.images.size)

    def write(self, path: str | PathLike[str], format: str | None = None) -> None:
        """Write the boxes to a file that `calipers.read` understands, whole or not at all.

        Parameters
        ----------
        format
            ``"coco"`` (a document with the names of the categories), ``"csv"``, ``"tsv"`` or
            ``"parquet"``; None: by the suffix. Tables include the threshold of every box; COCO has
            no field for it.
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
    names: tuple[str, ...], choices: tuple[str, ...], rule: str, expected: str
) -> NDArray[np.int64]:
    """Return the index of every name among the choices."""
    index = {name: k for k, name in enumerate(choices)}
    for name in names:
        if name not in index:
            hint = did_you_mean(name, choices[:1000])
            raise InputError(expected, rule=rule, value=name, hint=hint)
    return np.array([index[name] for name in names], np.int64)
