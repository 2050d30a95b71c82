# SPDX-License-Identifier: Apache-2.0
"""The scope of a model: how good its output is on every single image, and so which are unsafe.

`scope_scores` takes a cohort and returns a `Scope`; `Scope.from_labels` and `Scope.from_values`
make one of labels or of given scores. `evaluate_monitor` takes it and derives the labels safe and
unsafe.

The score s of an image is by default the mean over classes of ``F1 = 2 TP / (Nd + Nx)``, with Nd
predictions, Nx references and TP hits of the class on the image; 1 where a class has neither. An
image is out of scope, *unsafe*, if ``s < tau``. There is no natural tau: the user gives one, or all
values are swept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calipers import registry
from calipers.arguments import names_arguments
from calipers.arrays import F64, I64, Column, Flags, host_array
from calipers.data.cohort import Cohort
from calipers.errors import (
    InputError,
    UsageError,
    did_you_mean,
    finite,
    one_of,
    real,
    several,
    shown,
)
from calipers.evaluation.collect import Progress, collect
from calipers.evaluation.protocol import Protocol
from calipers.evaluation.protocol_schema import NO_LIMIT
from calipers.io.tables.arrow import arrow_column
from calipers.io.tables.table import delimited
from calipers.kernels.assignment import HIT, IGNORED
from calipers.matching.assign import MatchRecipe
from calipers.matching.matches import Matches, View
from calipers.metrics.base import Evidence, Metric, MetricPlan
from calipers.metrics.rodeo import Rodeo
from calipers.results.document import Document
from calipers.results.files import write_atomically
from calipers.show.words import digits
from calipers.statistics.comparison import alone
from calipers.statistics.weights import Units

if TYPE_CHECKING:
    from concurrent.futures import Executor

FEW = 10  # unsafe or safe images: whatever is said of them is rough
MOST_TAUS = 50

CLASSES = ("declared", "present", "micro")
# Scores that need no protocol.
BUILT_IN = ("mF1", "rodeo")


@dataclass(frozen=True, repr=False, eq=False)
class Scope(Document):
    """The score s of every image, high where the model is good; ``np.asarray(scope)`` is s."""

    ROW = "image"

    model: str
    images: tuple[str, ...]
    score: F64  # (n,) without NaN
    groups: Mapping[str, Column] = field(default_factory=dict)
    n_classes: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    # (n,), or empty if not known
    n_references: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    n_predictions: I64 = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def from_labels(
        cls,
        predicted: ArrayLike,
        truth: ArrayLike,
        images: Sequence[str] | None = None,
        *,
        model: str = "model",
        groups: Mapping[str, Any] | None = None,
    ) -> Scope:
        """Return the scope of a classifier: s is 1 where the predicted label is the true one, else
        0.

        Examples
        --------
        >>> from calipers.monitors.scope import Scope
        >>> Scope.from_labels(["cat", "dog", "cat"], ["cat", "dog", "dog"]).score.tolist()
        [1.0, 1.0, 0.0]
        """
        labels, truth_labels = array_of(predicted, "predicted"), array_of(truth, "truth")
        if labels.dtype.kind == "V" or truth_labels.dtype.kind == "V":
            raise InputError(
                "labels", rule="type", value=f"{labels.dtype} and {truth_labels.dtype}"
            )
        if labels.ndim != 1 or labels.shape != truth_labels.shape:
            raise InputError(
                "two columns of labels of one length",
                rule="length",
                value=f"shapes {labels.shape} and {truth_labels.shape}",
            )
        if (labels.dtype.kind in "US") != (truth_labels.dtype.kind in "US"):
            hint = "labels are compared as they are: 1 is not '1'"
            value = f"{labels.dtype} and {truth_labels.dtype}"
            raise InputError(
                "labels of one type in both columns", rule="type", value=value, hint=hint
            )
        for name, column in (("predicted", labels), ("truth", truth_labels)):
            for k, label in enumerate(column.tolist()):
                if label is None or label == "" or label != label:
                    raise InputError(
                        "a label for every image", rule="missing-label", location=f"{name}[{k}]"
                    )
        scope = cls.from_values(
            (labels == truth_labels).astype(np.float64), images, model=model, groups=groups
        )
        n_classes = len(set(labels.tolist()) | set(truth_labels.tolist()))
        return cls(
            scope.model, scope.images, scope.score, scope.groups, n_classes, {"score": "labels"}
        )

    @classmethod
    def from_values(
        cls,
        score: ArrayLike,
        images: Sequence[str] | None = None,
        *,
        model: str = "model",
        groups: Mapping[str, Any] | None = None,
    ) -> Scope:
        """Return a scope of scores that were computed elsewhere: high is good, True is in scope."""
        values = _numbers(score)
        names = range(len(values)) if images is None else several("images", images)
        ids = tuple(str(name) for name in names)
        if len(ids) != len(values):
            raise InputError(
                f"{len(values)} image ids, one per score", rule="length", value=len(ids)
            )
        if len(set(ids)) < len(ids):
            twice = Counter(ids).most_common(1)[0][0]
            raise InputError("every image once", rule="dup-image", value=twice)
        wrong = np.flatnonzero(~np.isfinite(values))
        if len(wrong):
            where, what = f"image {ids[wrong[0]]!r}", values[wrong[0]].item()
            raise InputError(
                "a finite score for every image", rule="non-finite", location=where, value=what
            )
        columns = {
            str(name): array_of(column, str(name)) for name, column in (groups or {}).items()
        }
        for name, column in columns.items():
            if column.shape != values.shape:
                raise InputError(
                    f"{len(values)} entries", rule="length", field=name, value=column.shape
                )
        return cls(model, ids, values, columns, settings={"score": "given"})

    def __len__(self) -> int:
        return len(self.images)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.score, dtype=dtype, copy=True if copy is None else copy)

    @property
    def binary(self) -> bool:
        """Whether s is 0 or 1 everywhere: every tau in (0, 1] then gives the same labels, and none
        is needed.
        """
        return bool(np.isin(self.score, (0.0, 1.0)).all())

    def unsafe(self, tau: float) -> Flags:
        """Return (n,): which images are out of scope, s < tau."""
        return np.asarray(self.score < finite("tau", tau))

    def prevalence(self, taus: ArrayLike) -> F64:
        """Return the share of unsafe images at every tau."""
        scores = np.sort(self.score)
        values = np.ravel(array_of(taus, "taus")).tolist()
        numbers = np.array([finite("tau", tau) for tau in values])
        # Strictly below, as in s < tau: an image with s = tau is safe.
        below = np.searchsorted(scores, numbers, side="left").reshape(np.shape(taus))
        return np.asarray(below / max(len(scores), 1))

    def taus(self, most: int = MOST_TAUS) -> F64:
        """Return the values of tau that make a difference: the distinct scores but the lowest,
        rising.

        At each of them images are safe and unsafe, and between two of them nothing changes. If
        there are more than ``most``, those are taken that spread evenly over the images.
        """
        # At the lowest score no image is unsafe, so that tau labels nothing.
        values = np.unique(self.score)[1:]
        if len(values) <= most:
            return values
        scores = np.sort(self.score)
        scores = scores[scores > scores[0]]
        return np.unique(scores[np.linspace(0, len(scores) - 1, most).round().astype(np.int64)])

    def warnings(self, tau: float) -> tuple[str, ...]:
        """Return warnings about the labels at this tau."""
        n, n_unsafe = len(self), int(self.unsafe(tau).sum())
        notes = []
        # The score of an image whose only object is missed: all classes but one count 1.
        trap = 1.0 - 1.0 / max(self.n_classes, 1)
        if self.settings.get("classes") == "declared" and self.n_classes > 1 and tau <= trap:
            notes.append(
                f"tau = {tau:g} is not above 1 - 1/C = {digits(trap, 4)} (C = {self.n_classes} "
                "declared classes): an image on which the only object is missed still counts as "
                "safe; use a larger tau, or classes='present'"
            )
        if n_unsafe in (0, n):
            subject = "no image is" if n_unsafe == 0 else f"all {n} images are"
            scores = self.score[~np.isnan(self.score)]
            limits = ""
            if len(scores) and not self.binary:
                limits = (
                    f" (s lies between {digits(scores.min(), 3)} and {digits(scores.max(), 3)})"
                )
            notes.append(
                f"at tau = {tau:g} {subject} unsafe{limits}: results under OMS labels are undefined"
            )
        elif min(n_unsafe, n - n_unsafe) < FEW:
            few, kind = min((n_unsafe, "unsafe"), (n - n_unsafe, "safe"))
            notes.append(
                f"at tau = {tau:g} only {few} of {n} images are {kind}: every number about them is "
                "rough"
            )
        return tuple(notes)

    def take(self, images: NDArray[Any]) -> Scope:
        """Return the scope of some images: indices, or one flag per image."""
        index = array_of(images, "images")
        if not index.size and index.dtype.kind != "b":  # an empty list has the type of a float
            index = index.astype(np.int64)
        try:
            rows = np.arange(len(self))[index]
        except (IndexError, ValueError):
            rows = np.zeros(())
        if rows.ndim != 1:
            kind = f"{index.dtype} of shape {index.shape}"
            raise UsageError(
                f"take needs indices from 0 to {len(self) - 1}, or {len(self)} flags, not {kind}"
            )

        def counts(column: I64) -> I64:
            return column[rows] if len(column) else column

        return Scope(
            model=self.model,
            images=tuple(self.images[k] for k in rows.tolist()),
            score=self.score[rows],
            groups={name: np.asarray(column)[rows] for name, column in self.groups.items()},
            n_classes=self.n_classes,
            settings=self.settings,
            n_references=counts(self.n_references),
            n_predictions=counts(self.n_predictions),
        )

    def as_table(self) -> dict[str, Column]:
        """Return the columns of a table with one row per image."""
        table: dict[str, Column] = {"image": np.array(self.images, object), "score": self.score}
        for name, column in (
            ("n_references", self.n_references),
            ("n_predictions", self.n_predictions),
        ):
            if len(column):
                table[name] = column
        return table | {
            name: np.asarray(column) for name, column in self.groups.items() if name not in table
        }

    def _records(self) -> list[dict[str, Any]]:
        """Return one row per image."""
        columns = {name: column.tolist() for name, column in self.as_table().items()}
        return [dict(zip(columns, row)) for row in zip(*columns.values())]

    def _content(self) -> dict[str, Any]:
        return {"model": self.model, "settings": dict(self.settings), "rows": self._records()}

    def write(self, path: str | Path) -> Path:
        """Write the table as CSV, TSV or parquet, by the ending of the name."""
        if not isinstance(path, str | PathLike):
            raise UsageError(f"a table is written to a file, not to {shown(path)}")
        path = Path(path)
        columns = {name: column.tolist() for name, column in self.as_table().items()}
        if path.suffix == ".parquet":
            write_atomically(path, _parquet(columns))
        elif path.suffix in (".csv", ".tsv"):
            write_atomically(path, delimited(columns, "," if path.suffix == ".csv" else "\t"))
        else:
            raise UsageError(f"a table is written as .csv, .tsv or .parquet, not as {path.name!r}")
        return path


@names_arguments
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
    jobs: int = 1,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Scope:
    """Return how good a model is on every single image.

    Parameters
    ----------
    cohort
        With the model's predictions.
    iou
        Smallest value of the criterion at which a prediction finds a reference.
    model
        May be left out when the cohort has one.
    score
        ``mF1``; ``rodeo``, with the class weight of the whole data set; or a metric of
        ``protocol``.
    classes
        Over which F1 is averaged: all ``declared`` ones, those ``present`` on the image as
        references or predictions, or ``micro``, the counts of all classes together.
    criterion, assignment
        How places are compared and assigned to each other; always within a class.
    score_cut
        Predictions with a lower score do not count.
    protocol
        A preset, a TOML file or a `Protocol` that has the metric ``score``; its matching is then
        used.
    jobs, executor, progress
        As in `calipers.evaluate`; the scores do not depend on them.

    Notes
    -----
    An image without references and predictions has s = 1, whatever the score. With C declared
    classes an image on which the only object is missed still has ``1 - 1/C``: no tau up to that
    value finds it, and `Scope.warnings` says so. With one class and one reference per image s is
    ``2 / (Nd + 1)`` if it is hit, else 0.

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
    how: dict[str, Any] = {"workers": jobs, "executor": executor, "progress": progress}
    if score == "mF1":
        view = _view(iou, criterion, assignment, score_cut)
        settings |= {
            "iou": iou,
            "classes": classes,
            "criterion": criterion,
            "assignment": assignment,
        }
        recipe = MatchRecipe((view,))
        matches = collect(cohort, {"": (model, recipe)}, **how)[""]
        values = _f1(matches, classes)
    elif score == "rodeo":
        rodeo = Rodeo([MetricPlan("RoDeO", "rodeo", {"score_cut": score_cut})])
        evidence = collect(cohort, {"": (model, rodeo.recipe)}, **how)[""]
        values = _per_image(cohort, model, rodeo, evidence, score_cut)
    else:
        metric, name = _of_protocol(protocol, score)
        settings["protocol"] = name
        evidence = collect(cohort, {"": (model, metric.recipe)}, **how)[""]
        values = _per_image(cohort, model, metric, evidence)
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
    # With neither references nor predictions a class is right about everything: F1 = 1.
    total = predictions + references
    f1 = np.divide(2.0 * hits, total, out=np.ones(total.shape), where=total > 0)
    if classes != "present":
        return np.asarray(f1.mean(axis=1))
    present = total > 0
    number = present.sum(axis=1)
    return np.asarray(
        np.divide((f1 * present).sum(axis=1), number, out=np.ones(len(f1)), where=number > 0)
    )


def _f1(matches: Evidence, classes: str) -> F64:
    assert isinstance(matches, Matches)
    fate, valid = matches.prediction_fate[0], matches.reference_fate[0] != IGNORED

    def table(image: I64, label: NDArray[np.int32]) -> F64:
        # One number for image and class, so that a single pass counts all pairs.
        cells = np.bincount(
            image * matches.n_classes + label, minlength=matches.n_images * matches.n_classes
        )
        return cells.reshape(matches.n_images, matches.n_classes).astype(np.float64)

    hit, counts = fate == HIT, fate != IGNORED
    hits = table(matches.prediction_image[hit], matches.prediction_label[hit])
    predictions = table(matches.prediction_image[counts], matches.prediction_label[counts])
    references = table(matches.reference_image[valid], matches.reference_label[valid])
    return mean_f1(hits, predictions, references, classes)


def _per_image(
    cohort: Cohort,
    model: str,
    metric: Metric[Any],
    evidence: Evidence,
    score_cut: float = -np.inf,
) -> F64:
    """Return (n,): a metric on every image by itself; 1 where there is nothing on either side."""
    if isinstance(metric, Rodeo):
        # RoDeO weighs classes over the whole data set, so it has a way of its own to judge one
        # image.
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
    if metric.facts.lower_is_better(score):
        raise UsageError(
            f"{score} is better when small: the score of an image must be high where the model is "
            "good"
        )
    return metric, loaded_protocol.name


def _view(iou: float, criterion: str, assignment: str, score_cut: float) -> View:
    registry.check("criterion", criterion)
    registry.check("assignment", assignment)
    return View(criterion, assignment, float(iou), max_dets=NO_LIMIT, score_cut=float(score_cut))


def _numbers(score: ArrayLike) -> F64:
    array = array_of(score, "score")
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        value = f"{array.dtype} of shape {array.shape}"
        raise InputError("one number per image", rule="type", field="score", value=value)
    if not len(array):
        raise InputError("at least one image", rule="no-images")
    return array.astype(np.float64)


def array_of(values: Any, name: str) -> NDArray[Any]:
    """Return values as an array; raise for masked entries, whose numbers mean nothing."""
    if np.ma.is_masked(values):
        raise InputError(
            "a value for every image", rule="type", field=name, value="an array with masked entries"
        )
    try:
        return host_array(values, flags=True)
    except ValueError as error:
        raise InputError("one value per image", rule="type", field=name, value=str(error)) from None


def _parquet(columns: Mapping[str, list[Any]]) -> bytes:
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    arrays = {name: arrow_column(column) for name, column in columns.items()}
    pq.write_table(pa.table(arrays), file)
    return file.getvalue()
