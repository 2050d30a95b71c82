# SPDX-License-Identifier: Apache-2.0
"""The table of mistakes: one row per wrong prediction and per reference that no prediction is near.

`Evaluation.errors` calls `error_table`, and so does saving for ``errors.csv``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calipers.engine import collect
from calipers.errors import UsageError, did_you_mean
from calipers.kernels.error_types import MISS
from calipers.metrics.contract import MetricPlan
from calipers.metrics.errors import ErrorTypes
from calipers.metrics.errors_evidence import Mistakes
from calipers.metrics.errors_gains import KINDS
from calipers.results.delimited import delimited
from calipers.results.files import write_atomically
from calipers.tables import Cohort

if TYPE_CHECKING:
    import pandas as pd

    from calipers.evaluation import Evaluation

WORDS = {code: kind for kind, code in KINDS.items()}


@dataclass(frozen=True, repr=False)
class ErrorTable:
    """Mistakes as columns of one length, None where a row has no such thing.

    ``prediction`` and ``reference`` are rows of the cohort's tables, as ``row`` in
    ``objects.parquet``. The reference of a mistake is the one that made it what it is: of another
    class, roughly in the place, or taken already. ``mendable``: mending it would make it a hit.
    ``ignored``: it lies in an ignored region and costs nothing.
    """

    columns: Mapping[str, tuple[Any, ...]]

    def __len__(self) -> int:
        return len(self.columns["image"])

    def __repr__(self) -> str:
        counts = Counter(zip(self.columns["model"], self.columns["kind"]))
        lines = [f"{len(self)} mistakes (rows(), to_frame(), write())"]
        for model in dict.fromkeys(self.columns["model"]):
            kinds = [f"{kind} {counts[model, kind]}" for kind in KINDS if counts[model, kind]]
            lines.append(f"  {model}: {', '.join(kinds)}")
        return "\n".join(lines)

    def rows(self) -> list[dict[str, Any]]:
        """Return one mapping per mistake."""
        return [dict(zip(self.columns, row)) for row in zip(*self.columns.values())]

    def to_frame(self) -> pd.DataFrame:
        """Return the mistakes as a pandas frame (extra ``frames``)."""
        from calipers.results.frames import frame

        return frame(self.rows())

    def write(self, path: str | Path) -> Path:
        """Write the mistakes as CSV; names that a spreadsheet would take for a formula are
        protected.
        """
        write_atomically(Path(path), delimited(self.columns))
        return Path(path)


def error_table(evaluation: Evaluation, model: str | None = None) -> ErrorTable:
    """Return the mistakes of one model, or of all; see `Evaluation.errors`."""
    if model is not None and model not in evaluation.models:
        raise UsageError(f"no model {model!r}; {did_you_mean(model, evaluation.models)}")
    columns: dict[str, list[Any]] = {name: [] for name in NAMES}
    for one in evaluation.models if model is None else (model,):
        part = _columns(evaluation.cohort, one, mistakes_of(evaluation, one))
        for name, column in columns.items():
            column += part[name]
    return ErrorTable({name: tuple(column) for name, column in columns.items()})


def mistakes_of(evaluation: Evaluation, model: str) -> Mistakes:
    """Return the mistakes of a model: those of the protocol's own metric, else found now."""
    for (name, _), table in evaluation.evidence.items():
        if name == model and isinstance(table, Mistakes):
            return table
    protocol = evaluation.protocol
    options = {"matching": protocol.matching, "score_cut": protocol.score_cut}
    recipe = ErrorTypes([MetricPlan("errors/cls", "error-types", options)]).recipe
    evidence = collect(evaluation.cohort, {model: (model, recipe)})[model]
    assert isinstance(evidence, Mistakes)
    return evidence


NAMES = (
    "model",
    "image",
    "kind",
    "prediction",
    "reference",
    "similarity",
    "score",
    "class",
    "reference_class",
    "mendable",
    "ignored",
)


def _columns(cohort: Cohort, model: str, mistakes: Mistakes) -> dict[str, list[Any]]:
    """Return the columns of one model: by image, predictions in input order, then missed
    references.
    """
    predicted = np.flatnonzero(np.isin(mistakes.prediction_kind, list(WORDS)))
    missed = np.flatnonzero(mistakes.reference_kind == MISS)
    image = np.concatenate([mistakes.prediction_image[predicted], mistakes.reference_image[missed]])
    # Stable: within an image predictions stay before missed references, in input order.
    order = np.argsort(image, kind="stable")
    kind = np.concatenate([mistakes.prediction_kind[predicted], mistakes.reference_kind[missed]])
    prediction = np.concatenate([predicted, np.full(len(missed), -1)])
    reference = np.concatenate([mistakes.partner[predicted], missed])
    predictions = cohort.predictions(model)
    columns: dict[str, list[Any]] = {
        "model": [model] * len(order),
        "image": [cohort.images.ids[i] for i in image[order].tolist()],
        "kind": [WORDS[code] for code in kind[order].tolist()],
        "prediction": _rows(prediction[order]),
        "reference": _rows(reference[order]),
        "similarity": _entries(mistakes.similarity, prediction[order]),
        "score": _entries(mistakes.score, prediction[order]),
        "class": _names(cohort.classes, predictions.label, prediction[order]),
        "reference_class": _names(cohort.classes, cohort.references.label, reference[order]),
        "mendable": _entries(mistakes.mended, prediction[order]),
        "ignored": _entries(mistakes.covered, prediction[order]),
    }
    return columns


def _rows(rows: NDArray[np.integer]) -> list[int | None]:
    """Return row numbers, None for -1."""
    return _entries(np.arange(rows.max(initial=-1) + 1), rows)


def _entries(values: NDArray[Any], rows: NDArray[np.integer]) -> list[Any]:
    """Return the values of some rows; None for -1 and for NaN."""
    entries: list[Any] = []
    every = values.tolist()
    for row in rows.tolist():
        value = every[row] if row >= 0 else None
        entries.append(None if value != value else value)
    return entries


def _names(
    classes: Sequence[str], label: NDArray[np.int32], rows: NDArray[np.integer]
) -> list[str | None]:
    """Return the class names of some rows; None for -1."""
    names: list[str | None] = []
    labels = label.tolist()
    for row in rows.tolist():
        names.append(classes[labels[row]] if row >= 0 else None)
    return names
