# SPDX-License-Identifier: Apache-2.0
"""`Scope`: the score of every image, from which the labels safe and unsafe are derived.

Made by `scope_scores`, from labels or from values; `evaluate_monitor` takes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calipers.arguments import finite, several, shown
from calipers.errors import InputError, UsageError
from calipers.monitors.alarms import array_of
from calipers.results.delimited import delimited
from calipers.results.files import write_atomically

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Column = NDArray[Any]

FEW = 10  # unsafe or safe images: whatever is said of them is rough
MOST_TAUS = 50


@dataclass(frozen=True)
class Scope:
    """The score s of every image, high where the model is good; ``np.asarray(scope)`` is s."""

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
        >>> from calipers.monitors import Scope
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
        below = np.searchsorted(scores, numbers, side="left").reshape(np.shape(taus))
        return np.asarray(below / max(len(scores), 1))

    def taus(self, most: int = MOST_TAUS) -> F64:
        """Return the values of tau that make a difference: the distinct scores but the lowest,
        rising.

        At each of them images are safe and unsafe, and between two of them nothing changes. If
        there are more than ``most``, those are taken that spread evenly over the images.
        """
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
        trap = 1.0 - 1.0 / max(self.n_classes, 1)
        if self.settings.get("classes") == "declared" and self.n_classes > 1 and tau <= trap:
            notes.append(
                f"tau = {tau:g} is not above 1 - 1/C = {trap:.4g} (C = {self.n_classes} declared "
                "classes): an image on which the only object is missed still counts as safe; use a "
                "larger tau, or classes='present'"
            )
        if n_unsafe in (0, n):
            subject = "no image is" if n_unsafe == 0 else f"all {n} images are"
            scores = self.score[~np.isnan(self.score)]
            limits = ""
            if len(scores) and not self.binary:
                limits = f" (s lies between {scores.min():.3g} and {scores.max():.3g})"
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


def _numbers(score: ArrayLike) -> F64:
    array = array_of(score, "score")
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        value = f"{array.dtype} of shape {array.shape}"
        raise InputError("one number per image", rule="type", field="score", value=value)
    if not len(array):
        raise InputError("at least one image", rule="no-images")
    return array.astype(np.float64)


def _parquet(columns: Mapping[str, list[Any]]) -> bytes:
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(pa.table(dict(columns)), file)
    return file.getvalue()
