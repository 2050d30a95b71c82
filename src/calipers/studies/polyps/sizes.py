# SPDX-License-Identifier: Apache-2.0
"""How large real polyps are: a summary of PolypGen, and polyps of these sizes.

`sizes.json`, which ships with Calipers, holds per centre the quantiles of three numbers of every
polyp (its side, its aspect, and how much of its box it fills), how many polyps a frame shows, and
the usual size of a frame. It was made by `summary_of` from the list ``object_sizes.json`` of
PolypGen (Ali et al., Scientific Data 2023, CC BY 4.0; 3,734 polyps, of which 1,640 are in single
frames of six centres). `calipers.studies.polyps.endoscopy` draws polyps of these sizes.

The three numbers are drawn independently of each other: in the list, side and fill have a
correlation of 0.14.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from calipers.arrays import F64
from calipers.errors import InputError

CENTRES = ("C1", "C2", "C3", "C4", "C5", "C6")
SEQUENCES = "sequences"  # the frames of the list that name no centre
LEVELS = np.linspace(0.0, 1.0, 41)
THINNEST = 10  # pixels: what is thinner is a slip of the pen
EMPTIEST = 0.1  # share of the box
SOURCE = (
    "PolypGen (Ali et al., Scientific Data 2023), list of objects by Dataset Ninja, CC BY 4.0; "
    "summarised by calipers.studies.polyps.sizes.summary_of"
)


@dataclass(frozen=True)
class SizeSummary:
    """The polyps of one centre."""

    frame: tuple[int, int]  # width and height in pixels
    polyps_per_frame: F64  # probabilities of 1, 2, ... in frames with a polyp
    side: F64  # quantiles at LEVELS: root of (area of box / area of frame)
    aspect: F64  # logarithm of width / height
    fill: F64  # area of polyp / area of box
    n: int

    def quantile(self, name: str, level: float) -> float:
        """Return one of the three numbers at a level between 0 and 1."""
        values: F64 = getattr(self, name)
        return float(np.interp(level, LEVELS, values))


@cache
def shipped_sizes() -> Mapping[str, SizeSummary]:
    """Return the summary that ships with Calipers, by centre."""
    file = resources.files("calipers").joinpath("studies", "polyps", "sizes.json")
    return parsed_sizes(json.loads(file.read_text(encoding="utf-8")))


def parsed_sizes(document: Mapping[str, Any]) -> Mapping[str, SizeSummary]:
    """Return the content of ``sizes.json``."""
    result = {}
    for name, entry in document["centres"].items():
        result[name] = SizeSummary(
            frame=(entry["frame"][0], entry["frame"][1]),
            polyps_per_frame=np.array(entry["polyps_per_frame"]),
            side=np.array(entry["side"]),
            aspect=np.array(entry["aspect"]),
            fill=np.array(entry["fill"]),
            n=entry["n"],
        )
    return result


def summary_of(path: Path | str) -> dict[str, Any]:
    """Return the content of ``sizes.json`` for the list of objects of PolypGen."""
    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))["data"]
        centres = [_centre_of(row[2]) for row in rows]
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise InputError(
            "the list of objects of PolypGen",
            rule="format",
            file=str(path),
            value=type(error).__name__,
        ) from None
    entries = {}
    for centre in (*CENTRES, SEQUENCES):
        own = [row for row, name in zip(rows, centres) if name == centre]
        entries[centre] = _entry(own)
    return {"source": SOURCE, "levels": len(LEVELS), "centres": entries}


def _centre_of(name: str) -> str:
    match = re.match(r"C[1-6]_", name)
    return match[0][:2] if match else SEQUENCES


def _entry(rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return one centre: columns are id, class, image, size, height, %, width, %, area %."""
    frames = Counter(row[3] for row in rows)
    height, width = map(int, frames.most_common(1)[0][0].split(" x "))
    per_frame = Counter(Counter(row[2] for row in rows).values())
    sides, aspects, fills = [], [], []
    for _, _, _, _, high, high_percent, wide, wide_percent, area in rows:
        fill = 100.0 * area / (high_percent * wide_percent)
        # Rounded percentages give tiny objects impossible shares.
        if min(high, wide) < THINNEST or not EMPTIEST <= fill <= 1.0:
            continue
        sides.append(math.sqrt(high_percent * wide_percent) / 100.0)
        aspects.append(math.log(wide / high))
        fills.append(fill)
    most = min(max(per_frame), 4)
    counts = np.array([per_frame[k] for k in range(1, most + 1)], np.float64)
    return {
        "n": len(sides),
        "frame": [width, height],
        "polyps_per_frame": np.round(counts / counts.sum(), 4).tolist(),
        "side": _quantiles(sides),
        "aspect": _quantiles(aspects),
        "fill": _quantiles(fills),
    }


def _quantiles(values: Sequence[float]) -> list[float]:
    return np.round(np.quantile(values, LEVELS), 4).tolist()  # type: ignore[no-any-return]
