# SPDX-License-Identifier: Apache-2.0
"""A measure of a map: a quantity, at a level, with its options. One measure is one column of
`Maps.sums`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calipers.errors import UsageError
from calipers.metrics.contract import MetricPlan, check_number, check_options
from calipers.metrics.map_settings import FPR, rate_of

LEVELS = ("dataset", "sample", "slice", "batch")
BEST = "best"
VARIANTS = ("tversky", "jaccard", "printed")

# quantity -> levels at which it is defined, options beside the level
QUANTITIES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "AP": (LEVELS, ()),
    "AUROC": (LEVELS, ()),
    "AUPRO": (("dataset", "sample"), ("limit",)),
    "Dice": (LEVELS, ("at",)),
    "IoU": (LEVELS, ("at",)),
    "softIoU": (("sample",), ("alpha", "variant")),
}


@dataclass(frozen=True, slots=True)
class Measure:
    """A quantity of a map at a level."""

    quantity: str
    level: str = "dataset"
    # Dice and IoU: the best of all thresholds, one threshold, or that of a rate of false voxels
    at: float | str = BEST
    limit: float = 0.3  # AUPRO: the rate of false voxels up to which is integrated
    alpha: float = 0.5  # softIoU: the weight of false voxels
    variant: str = "tversky"  # softIoU

    @classmethod
    def of(cls, quantity: str, plan: MetricPlan) -> Measure:
        """Return the measure that a plan asks for."""
        levels, own_options = QUANTITIES[quantity]
        check_options(plan, ("level", *own_options), matching=())
        options: dict[str, Any] = dict(plan.options)
        level = options.get("level", levels[0])
        if level not in levels:
            raise UsageError(
                f"metric {plan.name!r}: level is one of {', '.join(levels)}, not {level!r}"
            )
        for name in ("limit", "alpha"):
            check_number(plan, name, least=0.0)
            if options.get(name, 0) > 1:
                raise UsageError(
                    f"metric {plan.name!r}: {name} lies in [0, 1], got {options[name]!r}"
                )
        if options.get("limit", 1) == 0:
            raise UsageError(f"metric {plan.name!r}: limit is above 0")
        if options.get("variant", VARIANTS[0]) not in VARIANTS:
            raise UsageError(f"metric {plan.name!r}: variant is one of {', '.join(VARIANTS)}")
        measure = cls(quantity, **{**options, "level": level})
        measure._check_at(plan)
        return measure

    def _check_at(self, plan: MetricPlan) -> None:
        """A name that claims a threshold has to have it."""
        number = isinstance(self.at, int | float) and not isinstance(self.at, bool)
        if not (number and 0 < float(self.at) <= 1) and self.at != BEST and self.rate is None:
            raise UsageError(
                f"metric {plan.name!r}: at is a score, 'best' or '{FPR}0.05', not {self.at!r}"
            )
        _, sign, claim = plan.name.partition("@")
        text = self.at if isinstance(self.at, str) else f"{self.at:g}"
        if sign and claim != text:
            raise UsageError(
                f"metric {plan.name!r} claims {claim}, but its option at is {text}: rename the "
                "metric or set at"
            )

    @property
    def rate(self) -> float | None:
        """The rate of false voxels of ``at = "fpr:0.05"``."""
        return rate_of(self.at)

    @property
    def threshold(self) -> float | None:
        """The score from which a voxel is called, where it is a given number."""
        return None if isinstance(self.at, str) else float(self.at)

    @property
    def pooled(self) -> bool:
        """Whether it is made of the scores of all voxels together, not of numbers per image."""
        return self.level == "dataset" and self.threshold is None

    @property
    def definition(self) -> str:
        """The part of its identifier that tells it from its relatives: ``sample``,
        ``dataset.best``, ``jaccard``.
        """
        if self.quantity == "softIoU":
            return self.variant
        if self.quantity not in ("Dice", "IoU"):
            return self.level
        if self.rate is not None:
            return f"{self.level}.fpr"
        return f"{self.level}.{BEST if self.threshold is None else 'threshold'}"

    @property
    def key(self) -> str:
        """A name that says everything: equal measures have equal keys."""
        choices = {
            "AUPRO": f"@{self.limit:g}",
            "Dice": f"@{self.at}",
            "IoU": f"@{self.at}",
            "softIoU": f"@{self.variant},{self.alpha:g}",
        }
        return f"{self.quantity}/{self.level}{choices.get(self.quantity, '')}"
