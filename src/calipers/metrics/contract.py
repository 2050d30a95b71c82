# SPDX-License-Identifier: Apache-2.0
"""The protocol of a metric: a recipe that collects evidence once (expensive), and a value that is
computed from evidence and weights of the images (cheap), again for every bootstrap replicate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from calipers.tables import Cohort

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


class Evidence(Protocol):
    """The result of the expensive part, image by image."""

    @property
    def n_images(self) -> int:
        """Number of images."""
        ...

    def take(self, images: I64) -> Self:
        """Return the evidence of some images."""
        ...

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Return the evidence of all images of several parts."""
        ...


E = TypeVar("E", bound=Evidence)
E_co = TypeVar("E_co", bound=Evidence, covariant=True)


class Recipe(Protocol[E_co]):
    """How evidence is collected. Recipes with one key are merged and collected once, for several
    metrics.
    """

    @property
    def key(self) -> tuple[Any, ...]:
        """What two recipes must share to be merged."""
        ...

    def merge(self, other: Self) -> Self:
        """Return the recipe that serves both."""
        ...

    def collect(self, cohort: Cohort, model: str) -> E_co:
        """Do the expensive part for the images of a cohort: no reduction over images."""
        ...


@dataclass(frozen=True, slots=True)
class MetricPlan:
    """One ``[[metric]]`` of a protocol, with the protocol's defaults filled in."""

    name: str
    kind: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about a metric that the statistics and the report use."""

    id: str  # "froc@1": goes to rows and run.json; the version changes whenever values change
    names: tuple[str, ...]
    # one per name, where the names of a family are defined differently: "ap.coco101@1"
    ids: tuple[str, ...] = ()
    bounds: tuple[float, float] = (0.0, 1.0)
    higher_is_better: bool = True
    per_class: bool = True
    proportion: bool = False  # numerator / denominator over independent units: Wilson applies
    swap: bool = True  # exchanging two models' images is a fair null (not for AP: two score scales)
    class_means: frozenset[str] = frozenset()  # names whose pooled value is the mean over classes
    # names whose values move in steps, which the jackknife does not follow
    rough: frozenset[str] = frozenset()

    def id_of(self, k: int) -> str:
        """Return the id of the k-th name, which does not depend on the others of its family."""
        return self.ids[k] if self.ids else self.id


class Metric(Protocol[E]):
    """A family of numbers computed from one evidence; built from the plans of one kind."""

    facts: Facts

    def __init__(self, plans: Sequence[MetricPlan]) -> None: ...

    @property
    def recipe(self) -> Recipe[E]:
        """How the evidence is collected."""
        ...

    def value(self, evidence: E, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names) for weights (R, n_images); entry 0 is pooled; NaN =
        undefined.
        """
        ...

    def reasons(self, evidence: E) -> Mapping[tuple[int, int], str]:
        """Return why point values are NaN: (class row, name) -> one of results.REASONS."""
        ...

    def counts(self, evidence: E, weights: I64) -> I64:
        """Return (1 + n_classes, n_names, 3) for weights (n_images,): images, references and
        predictions behind it.
        """
        ...

    def support(self, evidence: E, unit: I64, n_units: int) -> I64:
        """Return (1 + n_classes, n_names, 3) numbers of units, given the unit of every image.

        Units without which there is no value (those with references, for most metrics); units in
        which something could go wrong; units in which something did.
        """
        ...


class UnitMarks:
    """Which units have something of which class."""

    def __init__(self, n_units: int, n_classes: int) -> None:
        self.marks = np.zeros((n_units, n_classes), np.bool_)

    def add(self, unit: I64, label: NDArray[np.integer]) -> UnitMarks:
        """Mark the units and classes of some objects."""
        self.marks[unit, label] = True
        return self

    def counts(self) -> I64:
        """Return (1 + n_classes,): units with anything, then units with something of each class."""
        return np.concatenate([[self.marks.any(axis=1).sum()], self.marks.sum(axis=0)]).astype(
            np.int64
        )


def check_options(
    plan: MetricPlan, own: Sequence[str], *, matching: Sequence[str] = ("score_cut",)
) -> None:
    """Raise for an option that is neither one of the metric's own nor one of ``matching``."""
    from calipers.errors import UsageError, did_you_mean

    options = [*matching, *own]
    for name in plan.options:
        if name in options:
            continue
        metric = f"metric {plan.name!r} ({plan.kind})"
        if name in MATCHING_OPTIONS:
            raise UsageError(
                f"{metric} has a matching of its own: {name!r} does not apply, only "
                f"{', '.join(matching)}"
            )
        raise UsageError(f"{metric} has no option {name!r}; {did_you_mean(name, options)}")


def check_number(
    plan: MetricPlan, option: str, *, above: float = -float("inf"), least: float = -float("inf")
) -> None:
    """Raise unless an option is absent or a finite number above or at least a limit."""
    from calipers.errors import UsageError

    value = plan.options.get(option)
    if value is None:
        return
    number = (
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")
    )
    if not number or not (value > above and value >= least):
        limit = f" above {above:g}" if above > -float("inf") else f" of at least {least:g}"
        raise UsageError(f"metric {plan.name!r}: {option} is a number{limit}, not {value!r}")


MATCHING_OPTIONS = (
    "criterion",
    "assignment",
    "thresholds",
    "classes",
    "max_dets",
    "score_cut",
    "ties",
    "strict",
    "duplicates",
    "size",
)
# The limit of predictions for the matching: `Protocol.resolved` adds it, users may not set it.
DERIVED_OPTION = "match_dets"
