# SPDX-License-Identifier: Apache-2.0
"""The scope of a model: how good its output is on every single image, and so which images are
unsafe. In comes a cohort; `scope_scores` returns a `Scope`.

The score s of an image is by default the mean over classes of ``F1 = 2 TP / (Nd + Nx)``, with Nd
predictions, Nx references and TP hits of the class on the image; 1 where a class has neither. An
image is out of scope, *unsafe*, if ``s < tau``. There is no natural tau: the user gives one, or all
values are swept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calipers import registry
from calipers.arguments import finite, one_of, real, shown
from calipers.assignment import MatchRecipe
from calipers.engine import collect
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.kernels.matching import HIT, IGNORED
from calipers.matches import Matches, View
from calipers.metrics.contract import Metric, MetricPlan
from calipers.metrics.rodeo import Rodeo
from calipers.monitors.scope_result import Scope
from calipers.protocol import Protocol
from calipers.protocol_schema import NO_LIMIT
from calipers.statistics.comparison import alone
from calipers.statistics.weights import Units
from calipers.tables import Cohort

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

CLASSES = ("declared", "present", "micro")
BUILT_IN = ("mF1", "rodeo")


def scope_scores(
    cohort: Cohort,
    iou: float = 0.5,
    *,
    model: str | None = None,
    score: str = "mF1",
    classes: Literal["declared", "present", "micro"] = "declared",
    criterion: str = "box-iou",
    assignment: str = "by-overlap",
    score_cut: float = -np.inf,
    protocol: str | Path | Protocol | None = None,
) -> Scope:
    """Return how good a model is on every single image.

    Parameters
    ----------
    cohort
        With the model's predictions.
    iou
        Threshold of the criterion from which on a prediction finds a reference.
    model
        May be left out when the cohort has one.
    score
        ``mF1``; ``rodeo``, with the class weight of the whole data set; or a metric of
        ``protocol``.
    classes
        Over which F1 is averaged: all ``declared`` ones, those ``present`` on the image as
        references or predictions, or ``micro``, the counts of all classes together.
    criterion, assignment
        How places are compared, and who belongs to whom; always within a class.
    score_cut
        Predictions with a lower score do not count.
    protocol
        A preset, a TOML file or a `Protocol` that has the metric ``score``; its matching is then
        used.

    Notes
    -----
    An image without references and predictions has s = 1, whatever the score. With C declared
    classes an image on which the only object is missed still has ``1 - 1/C``: a smaller tau never
    finds it, and `Scope.warnings` says so. With one class and one reference per image s is ``2 /
    (Nd + 1)`` if it is hit, else 0.

    Examples
    --------
    >>> import calipers as cal
    >>> scope = cal.scope_scores(cal.demo_cohort(), model="misses-small")
    >>> scope.score.shape, bool(scope.unsafe(tau=1.0).any())
    ((120,), True)
    """
    if not isinstance(cohort, Cohort):
        raise UsageError(
            f"scope_scores takes a cohort, not {type(cohort).__name__}: make one with calipers.read"
        )
    model = cohort.model_named(model)
    if cohort.n_images == 0:
        raise InputError("at least one image", rule="no-images")
    one_of("classes", classes, CLASSES)
    if not isinstance(score, str):
        raise UsageError(f"score must be a name, such as 'mF1', got {shown(score)}")
    iou, score_cut = finite("iou", iou), real("score_cut", score_cut)
    settings: dict[str, Any] = {"score": score}
    if score == "mF1":
        view = _view(iou, criterion, assignment, score_cut)
        settings |= {
            "iou": iou,
            "classes": classes,
            "criterion": criterion,
            "assignment": assignment,
        }
        values = _f1(cohort, model, view, classes)
    elif score == "rodeo":
        rodeo = Rodeo([MetricPlan("RoDeO", "rodeo", {"score_cut": score_cut})])
        values = _per_image(cohort, model, rodeo, score_cut)
    else:
        metric, name = _of_protocol(protocol, score)
        settings["protocol"] = name
        values = _per_image(cohort, model, metric)
    if np.isfinite(score_cut) and score in BUILT_IN:
        settings["score_cut"] = score_cut
    return Scope(
        model=model,
        images=cohort.images.ids,
        score=values,
        groups=cohort.images.groups,
        n_classes=len(cohort.classes),
        settings=settings,
        n_references=np.diff(cohort.references.offsets),
        n_predictions=np.diff(cohort.predictions(model).offsets),
    )


def mean_f1(hits: F64, predictions: F64, references: F64, classes: str) -> F64:
    """Return (n,): the score of images from (n, C) hits, predictions and references per class."""
    if classes == "micro":
        hits = hits.sum(axis=1, keepdims=True)
        predictions = predictions.sum(axis=1, keepdims=True)
        references = references.sum(axis=1, keepdims=True)
    total = predictions + references
    f1 = np.divide(2.0 * hits, total, out=np.ones(total.shape), where=total > 0)
    if classes != "present":
        return np.asarray(f1.mean(axis=1))
    present = total > 0
    number = present.sum(axis=1)
    return np.asarray(
        np.divide((f1 * present).sum(axis=1), number, out=np.ones(len(f1)), where=number > 0)
    )


def _f1(cohort: Cohort, model: str, view: View, classes: str) -> F64:
    matches = collect(cohort, {"": (model, MatchRecipe((view,)))})[""]
    assert isinstance(matches, Matches)
    fate, valid = matches.prediction_fate[0], matches.reference_fate[0] != IGNORED

    def table(image: I64, label: NDArray[np.int32]) -> F64:
        cells = np.bincount(
            image * matches.n_classes + label, minlength=matches.n_images * matches.n_classes
        )
        return cells.reshape(matches.n_images, matches.n_classes).astype(np.float64)

    hit, counts = fate == HIT, fate != IGNORED
    hits = table(matches.prediction_image[hit], matches.prediction_label[hit])
    predictions = table(matches.prediction_image[counts], matches.prediction_label[counts])
    references = table(matches.reference_image[valid], matches.reference_label[valid])
    return mean_f1(hits, predictions, references, classes)


def _per_image(cohort: Cohort, model: str, metric: Metric[Any], score_cut: float = -np.inf) -> F64:
    """Return (n,): a metric on every image by itself; 1 where there is nothing on either side."""
    evidence = collect(cohort, {"": (model, metric.recipe)})[""]
    if isinstance(metric, Rodeo):
        values = next(iter(metric.per_image(evidence).values()))  # type: ignore[arg-type]
    else:
        values = alone(metric, evidence, Units.of("image", None, cohort.n_images))[:, 0, 0]
    references, predictions = cohort.references, cohort.predictions(model)
    has_objects = np.zeros(cohort.n_images, np.bool_)
    has_objects[references.image[~references.ignore]] = True
    has_objects[predictions.image[predictions.score >= score_cut]] = True
    # an image without references and predictions is one on which the model is right
    values = np.where(np.isnan(values) & ~has_objects, 1.0, values)
    missing = np.flatnonzero(np.isnan(values))
    if len(missing):
        raise InputError(
            f"a value of {metric.facts.names[0]} on every image",
            rule="scope-undefined",
            location=f"image {cohort.images.ids[missing[0]]!r}",
            value=f"{len(missing)} of {cohort.n_images} images without one",
            hint="mF1, the default, has a value on every image",
        )
    return values


def _of_protocol(protocol: str | Path | Protocol | None, score: str) -> tuple[Metric[Any], str]:
    """Return one metric of a protocol, and the protocol's name."""
    if protocol is None:
        hint = did_you_mean(score, BUILT_IN)
        raise UsageError(
            f"no score {score!r}; {hint} A metric needs its protocol: protocol='coco', score='AP50'"
        )
    loaded_protocol = Protocol.load(protocol)
    metric = loaded_protocol.only([score]).compile()[0]
    plan = next(plan for plan in loaded_protocol.metrics if plan.name == score)
    if not metric.facts.higher_is_better or plan.options.get("of") in ("FP", "FN"):
        raise UsageError(
            f"{score} is better when small: the score of an image must be high where the model is "
            "good"
        )
    return metric, loaded_protocol.name


def _view(iou: float, criterion: str, assignment: str, score_cut: float) -> View:
    registry.check("criterion", criterion)
    registry.check("assignment", assignment)
    return View(criterion, assignment, float(iou), max_dets=NO_LIMIT, score_cut=float(score_cut))
