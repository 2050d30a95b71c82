# SPDX-License-Identifier: Apache-2.0
"""How boxes are taken from heat maps: the choices, checked once."""

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
    """What `boxes_from_heatmaps` was asked for."""

    thresholds: tuple[float, ...] = THRESHOLDS  # in the order in which they were given
    scale: Scale = "image"
    connectivity: Connectivity = "full"
    keep_best: bool = False
    score: Score = "mean"

    @classmethod
    def chosen(
        cls, thresholds: Any, scale: str, connectivity: str, keep_best: bool, score: str
    ) -> Settings:
        """Return checked settings; what makes no sense is a `UsageError`."""
        for name, value, known in (
            ("scale", scale, SCALES),
            ("connectivity", connectivity, CONNECTIVITIES),
            ("score", score, SCORES),
        ):
            if value not in known:
                raise UsageError(f"no {name} {value!r}; {did_you_mean(str(value), known)}")
        levels = _levels(thresholds, scaled=scale != "none")
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


def _levels(given: Any, *, scaled: bool) -> tuple[float, ...]:
    try:
        levels = tuple(
            float(level) for level in (given if isinstance(given, Iterable) else (given,))
        )
    except (TypeError, ValueError):
        raise UsageError(f"thresholds are numbers, not {given!r}") from None
    if not levels:
        raise UsageError("at least one threshold is needed")
    if len(set(levels)) < len(levels):
        raise UsageError(f"every threshold once, not {list(levels)}")
    for level in levels:
        if not math.isfinite(level):
            raise UsageError(f"{level:g} is no threshold: it has to be finite")
        if scaled and not 0 <= level <= TOP:
            hint = "scale='none' (--scale none) compares maps as they are"
            raise UsageError(f"maps are scaled to 0..255, so {level:g} is no threshold; {hint}")
    return levels
