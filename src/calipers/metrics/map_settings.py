# SPDX-License-Identifier: Apache-2.0
"""How maps become objects, slices and batches: the table ``[maps]`` of a protocol."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from calipers.errors import UsageError, did_you_mean

AXES = ("x", "y", "z")
CONNECTIVITIES = ("full", "edges", "faces")
SCORES = ("max", "mean")
BEST, FPR = "best-dice", "fpr:"


@dataclass(frozen=True, slots=True)
class MapSettings:
    """The choices behind every number on maps.

    Predicted objects are connected components of the voxels whose score is at least the threshold:
    a number; or ``"fpr:0.05"``, the lowest score at which at most that share of the voxels outside
    of references is called; or ``"best-dice"``, the score of the largest pooled Dice on a
    ``tuning`` group of samples such as ``"split=tune"``, which is then left out of the evaluation.
    """

    threshold: float | str = 0.5
    tuning: str | None = None
    connectivity: str = "full"  # full: 8 or 26 neighbours; faces: 4 or 6; edges: 18
    least: int = 1  # voxels; smaller predicted objects are left out, and counted
    score: str = "max"  # of a predicted object: of its voxels the largest score, or their mean
    slices: str = "z"  # slices are cut across this axis
    batch: int = 8  # samples

    def __post_init__(self) -> None:
        choices = {"connectivity": CONNECTIVITIES, "score": SCORES, "slices": AXES}
        for name, words in choices.items():
            value = getattr(self, name)
            if value not in words:
                raise UsageError(f"maps: {name} is one of {', '.join(words)}, not {value!r}")
        for name in ("least", "batch"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UsageError(f"maps: {name} is a whole number of at least 1, not {value!r}")
        self._check_threshold()
        if self.tuning is not None and (
            "=" not in self.tuning or not all(self.tuning.partition("=")[::2])
        ):
            raise UsageError(
                f"maps: tuning names a group of samples, such as split=tune, not {self.tuning!r}"
            )

    def _check_threshold(self) -> None:
        threshold = self.threshold
        if threshold == BEST:
            if self.tuning is None:
                raise UsageError(
                    "maps: the best threshold must be chosen on other samples than it is judged "
                    "on; name them, such as tuning = 'split=tune'"
                )
        elif isinstance(threshold, str):
            if self.rate is None or not 0 < self.rate < 1:
                raise UsageError(
                    f"maps: threshold is a number, 'fpr:0.05' or 'best-dice', not {threshold!r}"
                )
        elif isinstance(threshold, bool) or not 0 < threshold <= 1:
            raise UsageError(f"maps: threshold is a score above 0 and at most 1, not {threshold!r}")

    @property
    def rate(self) -> float | None:
        """The rate of false voxels of ``"fpr:0.05"``."""
        return rate_of(self.threshold)

    @property
    def is_rule(self) -> bool:
        """Whether the threshold is a rule on the maps, which are then read twice."""
        return isinstance(self.threshold, str)

    def as_dict(self) -> dict[str, Any]:
        """Return the table for TOML and JSON; what is not set is left out."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> MapSettings:
        """Return the settings of a table; an unknown key is an error that names the nearest one."""
        keys = list(cls.__dataclass_fields__)
        for key in table:
            if key not in keys:
                raise UsageError(f"maps has no {key!r}; {did_you_mean(key, keys)}")
        return cls(**table)


def rate_of(text: Any) -> float | None:
    """Return 0.05 of ``"fpr:0.05"``, None of anything else."""
    if not isinstance(text, str) or not text.startswith(FPR):
        return None
    try:
        rate = float(text.removeprefix(FPR))
    except ValueError:
        return None
    return rate if math.isfinite(rate) else None
