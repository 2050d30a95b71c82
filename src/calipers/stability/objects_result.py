# SPDX-License-Identifier: Apache-2.0
"""The result of `object_stability`: estimates, tables, single images and single models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean
from calipers.results import Estimate, Row
from calipers.results.document import RowsDocument
from calipers.results.estimate import number
from calipers.stability.objects_evidence import ObjectPairs
from calipers.stability.objects_models import (
    MEANS,
    SHARES,
    ObjectLeaveOneOut,
    dense_pairs,
    leave_one_out,
    pair_matrix,
)
from calipers.stability.objects_strata import mean_of_defined
from calipers.tables import Cohort

if TYPE_CHECKING:
    from calipers.plots.figures import Figure

F64 = NDArray[np.float64]
Column = NDArray[Any]

SCHEMA = "calipers.object-stability/1"
ALL = "all models"
SIZES = {2: ("small", "large"), 3: ("small", "medium", "large")}
MOST_DISPUTED = 10  # disputed images in the JSON document


@dataclass(frozen=True, slots=True)
class FoundBy:
    """How many references exactly k models find."""

    k: int
    references: int
    share: Estimate


@dataclass(frozen=True, slots=True)
class FalseAlarmsBy:
    """At how many places exactly k models raise a false alarm."""

    k: int
    places: int
    share: Estimate


@dataclass(frozen=True, slots=True)
class DisputedReference:
    """A reference that some models find and others do not."""

    row: int  # in the references of the cohort
    place: int  # row in the input
    label: str
    found_by: tuple[str, ...]
    missed_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DisputedImage:
    """An image with disputed references."""

    image: str
    index: int  # in the cohort
    n_references: int  # counted ones
    agreement: float  # of the models on this image
    references: tuple[DisputedReference, ...]  # the disputed ones

    def as_dict(self) -> dict[str, Any]:
        """Return the facts for JSON."""
        return {
            "image": self.image,
            "references": self.n_references,
            "agreement": number(self.agreement),
            "disputed": [
                {
                    "row": one.row,
                    "place": one.place,
                    "class": one.label,
                    "found_by": list(one.found_by),
                    "missed_by": list(one.missed_by),
                }
                for one in self.references
            ],
        }


@dataclass(frozen=True)
class ObjectStability(RowsDocument):
    """What `calipers.stability.objects.object_stability` returns."""

    cohort: Cohort
    models: tuple[str, ...]
    evidence: ObjectPairs
    rows: tuple[Row, ...]
    settings: Mapping[str, Any]
    below: Mapping[str, int]  # model -> predictions below the score cut, which were left out

    def __getitem__(self, metric: str) -> Estimate:
        """Return the estimate of all objects together, such as ``["agreement"]`` or
        ``["found-by-some"]``.
        """
        return self.get(metric)

    def get(self, metric: str, *, label: str | None = None, **group: str) -> Estimate:
        """Return the estimate of all objects, a class, or a group such as ``size="small"``."""
        rows = [row for row in self.rows if row.metric == metric]
        if not rows:
            metrics = dict.fromkeys(row.metric for row in self.rows)
            raise UsageError(
                f"no number {metric!r} in this result; {did_you_mean(metric, metrics)}"
            )
        for row in rows:
            if row.label == label and dict(row.group or {}) == group:
                return row.estimate
        subsets = dict.fromkeys(str(row.label or dict(row.group or {}) or "all") for row in rows)
        raise UsageError(
            f"{metric!r} exists for: {'; '.join(subsets)}; not for {label or group or 'all'}"
        )

    def found_by(self) -> tuple[FoundBy, ...]:
        """Return how many references exactly 0, 1, ..., K models find, with the interval of their
        share.
        """
        finders = self.evidence.references.by_model.sum(axis=1)
        times = np.bincount(finders, minlength=len(self.models) + 1)
        return tuple(FoundBy(k, int(n), self._share("found-by", k)) for k, n in enumerate(times))

    def false_alarms_by(self) -> tuple[FalseAlarmsBy, ...]:
        """Return at how many places exactly 1, ..., K models raise a false alarm, with the interval
        of their share.
        """
        n_models = len(self.models)
        times = np.bincount(self.evidence.places.by_model.sum(axis=1), minlength=n_models + 1)
        rows = []
        for k in range(1, n_models + 1):
            rows.append(FalseAlarmsBy(k, int(times[k]), self._share("false-alarms-by", k)))
        return tuple(rows)

    def _share(self, metric: str, k: int) -> Estimate:
        return self.get(metric, models=f"{k} of {len(self.models)}")

    @cached_property
    def per_image(self) -> Mapping[str, Column]:
        """One entry per image of the cohort: means over pairs of models, and references by who
        found them.
        """
        evidence, n_models = self.evidence, len(self.models)
        agreement, iou = dense_pairs(evidence)
        times = evidence.references.by_model.sum(axis=1)
        owner, n = evidence.references.image, evidence.n_images
        kinds = {
            "found_by_all": times == n_models,
            "found_by_some": (times > 0) & (times < n_models),
            "found_by_none": times == 0,
        }
        counts = {name: np.bincount(owner[rows], minlength=n) for name, rows in kinds.items()}
        return {
            "image": np.array(self.cohort.images.ids, dtype=object),
            "agreement": mean_of_defined(agreement),
            "undefined_pairs": np.isnan(agreement).sum(axis=1),
            "mean_iou": mean_of_defined(iou),
            "predictions": np.diff(evidence.predictions.offsets),
            "references": np.diff(evidence.references.offsets),
            **counts,
            "false_alarm_places": np.diff(evidence.places.offsets),
        }

    def sd(self, metric: str = "agreement") -> float:
        """Return the standard deviation (ddof 1) over the images that have a value: of agreement or
        mean-iou.
        """
        if metric not in MEANS:
            raise UsageError(
                f"only means over images vary over images; {did_you_mean(metric, MEANS)}"
            )
        values = self.per_image[metric.replace("-", "_")]
        defined_values = values[~np.isnan(values)]
        return float(defined_values.std(ddof=1)) if len(defined_values) > 1 else float("nan")

    @property
    def undefined(self) -> tuple[int, int, int]:
        """Pairs of models that both predict nothing on an image, the number of all such pairs, and
        images without any prediction.
        """
        missing = self.per_image["undefined_pairs"]
        n_pairs = len(self.models) * (len(self.models) - 1) // 2
        return int(missing.sum()), n_pairs * len(missing), int((missing == n_pairs).sum())

    @cached_property
    def per_pair(self) -> F64:
        """(K, K) the mean agreement of every two models over images; NaN on the diagonal."""
        return pair_matrix(self.evidence)

    def leave_one_out(self, metric: str = "agreement") -> ObjectLeaveOneOut:
        """Return a number without each of the models, with a jackknife interval over models where
        there is one.
        """
        if metric not in (*MEANS, *SHARES):
            raise UsageError(
                f"no {metric!r} without a model; {did_you_mean(metric, (*MEANS, *SHARES))}"
            )
        return leave_one_out(self.evidence, self.models, metric, float(self.settings["level"]))

    def disputed(self, n: int = 10) -> tuple[DisputedImage, ...]:
        """Return the n images with the most references that some but not all models find.

        Of equal ones first those on which the models agree less, then those that come first. Images
        without any are not among them.
        """
        some, agreement = self.per_image["found_by_some"], self.per_image["agreement"]
        # lexsort takes the last key first; an undefined agreement is no disagreement
        order = np.lexsort((np.nan_to_num(agreement, nan=1.0), -some))
        return tuple(self._disputed(int(image)) for image in order[:n] if some[image])

    def _disputed(self, image: int) -> DisputedImage:
        table, cohort = self.evidence.references, self.cohort
        mine = slice(int(table.offsets[image]), int(table.offsets[image + 1]))
        references = []
        for row, flags in zip(table.row[mine].tolist(), table.by_model[mine].tolist()):
            if any(flags) and not all(flags):
                finders = tuple(model for model, flag in zip(self.models, flags) if flag)
                others = tuple(model for model, flag in zip(self.models, flags) if not flag)
                label = cohort.classes[int(cohort.references.label[row])]
                place = int(cohort.references.place[row])
                references.append(DisputedReference(row, place, label, finders, others))
        agreement = float(self.per_image["agreement"][image])
        return DisputedImage(
            cohort.images.ids[image], image, mine.stop - mine.start, agreement, tuple(references)
        )

    def sentences(self) -> list[str]:
        """Return in words how far the models find the same."""
        from calipers.stability.objects_wording import sentences

        return sentences(self)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the numbers must know."""
        from calipers.stability.objects_wording import warnings

        return warnings(self)

    def figure(self, name: str) -> Figure:
        """Return a figure as data: ``found-by``, ``false-alarms``, ``sizes``, ``agreement`` or
        ``pairs``.
        """
        from calipers.plots.object_stability import figure

        return figure(self, name)

    def __str__(self) -> str:
        return "\n".join([*self.sentences(), *(f"Note: {text}" for text in self.warnings)])

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON document of the contract ``calipers.object-stability/1``."""
        from calipers import __version__

        n_undefined, n_pairs, n_silent = self.undefined
        return {
            "schema": SCHEMA,
            "calipers": __version__,
            "settings": dict(self.settings),
            "models": list(self.models),
            "images": self.evidence.n_images,
            "references": len(self.evidence.references),
            "ignored_references": int(self.evidence.ignored.sum()),
            "predictions": np.bincount(
                self.evidence.predictions.model, minlength=len(self.models)
            ).tolist(),
            "predictions_below_cut": [self.below[name] for name in self.models],
            "duplicates": self.evidence.duplicates.sum(axis=0).tolist(),
            "false_alarm_places": len(self.evidence.places),
            "undefined": {"pairs": n_undefined, "of": n_pairs, "silent_images": n_silent},
            "rows": [row.as_dict() for row in self.rows],
            "sd": {name: number(self.sd(name)) for name in MEANS},
            "pairs": [list(map(number, line)) for line in self.per_pair.tolist()],
            "leave_one_out": [self.leave_one_out(name).as_dict() for name in (*MEANS, *SHARES)],
            "disputed": [image.as_dict() for image in self.disputed(MOST_DISPUTED)],
            "sentences": self.sentences(),
            "warnings": list(self.warnings),
        }
