# SPDX-License-Identifier: Apache-2.0
"""How far OOD labels and OMS labels disagree, and which images monitors reject in each case.

In come labels and rejected images; out goes a `Disagreement` of a `MonitorEvaluation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean
from calipers.monitors.estimating import Family
from calipers.monitors.shares import Marks, Share
from calipers.results import Estimate, Row

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

SHARES = {
    "OOD-safe": "share of the images out of distribution that are safe",
    "ID-unsafe": "share of the images in distribution that are unsafe",
    "unsafe-ID": "share of the unsafe images that are in distribution",
    "safe-OOD": "share of the safe images that are out of distribution",
    "labels-agree": "share of all images that are both unsafe and out of distribution, or neither",
}
YES_NO = ("no", "yes")
BOTH = {"paradigm": "both"}  # the group of shares that look at both kinds of labels


@dataclass(frozen=True)
class Disagreement:
    """The tables of counts, and the shares with their intervals."""

    labels: I64  # (2, 2): out of distribution by unsafe, of all images stated
    # monitor -> (2, 2, 2): out of distribution, unsafe, rejected, of the images judged
    alarms: Mapping[str, I64]
    rows: tuple[Row, ...]

    def share(self, name: str) -> Estimate:
        """Return one of the shares of labels."""
        shares = {row.metric: row.estimate for row in self.rows if row.metric in SHARES}
        if name not in shares:
            raise UsageError(f"no share {name!r}; {did_you_mean(name, SHARES)}")
        return shares[name]

    def rejected(self, monitor: str, *, ood: bool, unsafe: bool) -> Estimate:
        """Return which share of the images of one kind a monitor rejects."""
        group = {"ood": YES_NO[ood], "unsafe": YES_NO[unsafe]}
        for row in self.rows:
            if (row.model, row.metric, row.group) == (monitor, "rejected", group):
                return row.estimate
        raise UsageError(
            f"no table of the monitor {monitor!r}; {did_you_mean(monitor, self.alarms)}"
        )

    def records(self) -> list[dict[str, Any]]:
        """Return the cells one by one: monitor (None for the labels alone), ood, unsafe, rejected,
        images, share.
        """
        cells = list(_cells(None, self.labels))
        for name, counts in self.alarms.items():
            cells += _cells(name, counts)
        return cells


def label_family(model: str, ood: Flags, unsafe: Flags) -> Family:
    """Return the shares of labels."""
    everyone = np.ones(len(ood), np.bool_)
    pairs = [
        (~unsafe, ood),
        (unsafe, ~ood),
        (~ood, unsafe),
        (ood, ~unsafe),
        (ood == unsafe, everyone),
    ]
    return Family(
        model, Share(tuple(SHARES)), Marks.of(pairs), tuple((name, BOTH) for name in SHARES)
    )


def alarm_family(monitor: str, ood: Flags, unsafe: Flags, rejected: Flags) -> Family:
    """Return which share of the images of every kind a monitor rejects."""
    pairs, columns = [], []
    for o in (False, True):
        for u in (False, True):
            pairs.append((rejected, (ood == o) & (unsafe == u)))
            columns.append(("rejected", {"ood": YES_NO[o], "unsafe": YES_NO[u]}))
    return Family(monitor, Share(["rejected"] * 4), Marks.of(pairs), tuple(columns))


def table(*flags: Flags) -> I64:
    """Return the counts of all combinations of flags, one axis each: no, yes."""
    code = np.zeros(len(flags[0]), np.int64)
    for column in flags:
        code = 2 * code + column
    return np.bincount(code, minlength=2 ** len(flags)).reshape((2,) * len(flags)).astype(np.int64)


def _cells(monitor: str | None, counts: I64) -> Iterator[dict[str, Any]]:
    total = int(counts.sum())
    for place in np.ndindex(counts.shape):
        n = int(counts[place])
        rejected = bool(place[2]) if len(place) == 3 else None
        yield {
            "monitor": monitor,
            "ood": bool(place[0]),
            "unsafe": bool(place[1]),
            "rejected": rejected,
            "images": n,
            "share": n / total if total else None,
        }
