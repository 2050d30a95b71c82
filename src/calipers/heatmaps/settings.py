# SPDX-License-Identifier: Apache-2.0
"""`Settings`: the checked options of `boxes_from_heatmaps`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from calipers.errors import UsageError, did_you_mean

Connectivity = Literal["full", "edges", "faces"]
CONNECTIVITIES: tuple[Connectivity, ...] = get_args(Connectivity)
Scale = Literal["image", "image-class", "none"]
Score = Literal["mean", "max"]
SCALES: tuple[Scale, ...] = get_args(Scale)
SCORES: tuple[Score, ...] = get_args(Score)
TOP = 255.0  # what the largest value of a map becomes when it is scaled
THRESHOLDS = (60.0, 180.0)  # Wang et al., CVPR 2017


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of `boxes_from_heatmaps`."""

    thresholds: tuple[float, ...] = THRESHOLDS  # in the order of the caller
    scale: Scale = "image"
    connectivity: Connectivity = "full"
    keep_best: bool = False
    score: Score = "mean"

    @classmethod
    def of(
        cls, thresholds: Any, scale: str, connectivity: str, keep_best: bool, score: str
    ) -> Settings:
        """Check options and return them as settings; an invalid one is a `UsageError`."""
        for name, value, choices in (
            ("scale", scale, SCALES),
            ("connectivity", connectivity, CONNECTIVITIES),
            ("score", score, SCORES),
        ):
            if value not in choices:
                raise UsageError(f"no {name} {value!r}; {did_you_mean(str(value), choices)}")
        levels = _levels(thresholds, on_scale=scale != "none")
        return cls(levels, scale, connectivity, bool(keep_best), score)  # type: ignore[arg-type]

    def as_dict(self) -> dict[str, Any]:
        """Return the settings for JSON."""
        return {
            "thresholds": list(self.thresholds),
            "scale": self.scale,
            "connectivity": self.connectivity,
            "keep_best": self.keep_best,
            "score": self.score,
        }


def _levels(thresholds: Any, *, on_scale: bool) -> tuple[float, ...]:
    """Return thresholds as numbers; on the scale of 0 to 255, others are errors."""
    entries = thresholds if isinstance(thresholds, Iterable) else (thresholds,)
    try:
        levels = tuple(float(level) for level in entries)
    except (TypeError, ValueError):
        raise UsageError(f"thresholds are numbers, not {thresholds!r}") from None
    if not levels:
        raise UsageError("at least one threshold is needed")
    if len(set(levels)) < len(levels):
        raise UsageError(f"every threshold once, not {list(levels)}")
    for level in levels:
        if not math.isfinite(level):
            raise UsageError(f"{level:g} is no threshold: it must be finite")
        if on_scale and not 0 <= level <= TOP:
            hint = "scale='none' (--scale none) compares maps unscaled"
            raise UsageError(f"maps are scaled to 0..255, so {level:g} is no threshold; {hint}")
    return levels
