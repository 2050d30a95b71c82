# SPDX-License-Identifier: Apache-2.0
"""Collect the segmentations of a COCO file, piece by piece, as masks or as faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import ragged, run_order
from calipers.readers.coco_drawing import Segments, columns_of
from calipers.readers.coco_faults import Faults
from calipers.readers.coco_segments import Segmentation
from calipers.tables.delivery import Finding
from calipers.tables.masks import Masks, no_masks

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOST_RUNS = 1 << 22  # of one mask
MAX_BYTES = 8 << 30  # of all runs of a file
FREE_BYTES = 1 << 28  # below this the size of the file does not matter
MAX_RATIO = 200
RUN_BYTES = 16
NO_RUNS = (np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass
class MaskColumns:
    """Collects the masks of one file.

    Parameters
    ----------
    choice
        ``auto``, ``required`` or ``ignore``.
    size
        (n_images, 2) width and height, NaN where unknown: a mask that states its size fills it, in
        a copy.
    file_bytes
        Size of the file: a small file does not become many gigabytes of runs.
    """

    choice: str
    size: F64
    file_bytes: int
    n: int = 0
    present: int = 0
    n_crossed: int = 0
    n_unknown: int = 0
    n_runs: int = 0
    parts: list[Masks] = field(default_factory=list)
    missing: list[I64] = field(default_factory=list)
    boxless: list[I64] = field(default_factory=list)
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        self.size = self.size.copy()

    @property
    def has_masks(self) -> bool:
        """Whether the file has masks: all records so far have one, or masks are required."""
        return self.choice == "required" or (self.choice == "auto" and self.present == self.n)

    def add(self, segmentations: Sequence[Segmentation], image: I64, boxless: Flags) -> Masks:
        """Take the segmentations of some records and return their masks; a fault gives no runs.

        Once it is known that not all records have a mask, only those without a box get one.
        """
        # An empty list, None and UNSET are all no segmentation.
        present = np.array([bool(segmentation) for segmentation in segmentations], np.bool_)
        first, self.n = self.n, self.n + len(segmentations)
        self.present += int(present.sum())
        self.missing.append(first + np.flatnonzero(~present))
        self.boxless.append(first + np.flatnonzero(boxless))
        to_draw = present & (image >= 0)
        if not self.has_masks:
            self.parts.clear()
            to_draw &= boxless
        segments = Segments.sort(segmentations, np.flatnonzero(to_draw), image)
        masks = self._draw(segments, first)
        if self.has_masks:
            self.parts.append(masks)
        return masks

    def skip(self, n: int) -> None:
        """Take note of records without segmentations."""
        if self.choice == "required":
            self.missing.append(np.arange(self.n, self.n + n))
            self.parts.append(Masks(np.zeros(n + 1, np.int64), *NO_RUNS, np.ones((n, 2), np.int64)))
        self.n += n

    def masks(self) -> Masks | None:
        """Return the masks of all objects, or None if not all have one."""
        if not self.has_masks:
            return None
        parts, self.parts = self.parts, []
        return Masks.concat(parts) if parts else no_masks()

    def findings(self) -> list[Finding]:
        """Return the faults of the masks that are used, or that a box was to be taken from."""
        faults = self.faults
        if not self.has_masks:
            faults = faults.only(_concat_rows(self.boxless))
        findings = faults.findings()
        missing = _concat_rows(self.missing)
        if self.choice == "required" and len(missing):
            hint = "pass --masks auto to evaluate the boxes of this file"
            values = ["no segmentation"] * len(missing)
            findings.append(
                Finding("mask-missing", "segmentation", "a segmentation", missing, values, hint)
            )
        return findings

    def notes(self) -> list[str]:
        """Say which masks are not used, and how many polygons cross themselves."""
        if not self.present:
            return []
        if not self.has_masks:
            rule = "masks are used only if every annotation has one, so only boxes are used"
            return [f"masks present in {self.present} of {self.n} annotations; {rule}"]
        notes = []
        if self.n_crossed:
            rule = "drawn as pycocotools does: what is enclosed twice is outside"
            notes.append(f"polygons cross themselves in {self.n_crossed} annotations; {rule}")
        if self.n_unknown:
            notes.append(
                f"polygons of {self.n_unknown} annotations have too many corners "
                "to tell if they cross themselves"
            )
        return notes

    def _draw(self, segments: Segments, first: int) -> Masks:
        """Return the masks of a piece, one for every record in it."""
        faults = Faults()
        drawing = columns_of(segments, self.size, faults)
        self.n_crossed += drawing.n_crossed
        self.n_unknown += drawing.n_unknown
        turn = run_order.Turn.of(*drawing.columns, drawing.size[:, ::-1])
        self._check_runs(drawing.rows, turn.counts, faults)
        if faults.fatal:
            offsets, start, length = np.zeros(len(drawing.rows) + 1, np.int64), *NO_RUNS
        else:
            offsets, start, length = turn.runs()
        counts, sizes = np.zeros(segments.n, np.int64), np.ones((segments.n, 2), np.int64)
        counts[drawing.rows], sizes[drawing.rows] = np.diff(offsets), drawing.size
        self.faults.extend(faults, first)
        return Masks(ragged.from_counts(counts), start, length, sizes)

    def _check_runs(self, rows: I64, counts: I64, faults: Faults) -> None:
        """Refuse masks of too many runs before they take room, and those of none."""
        self.n_runs += int(counts.sum())
        most = min(MAX_BYTES, max(FREE_BYTES, MAX_RATIO * self.file_bytes)) // RUN_BYTES
        large = counts > (MOST_RUNS if self.n_runs <= most else 0)
        expected = f"masks of at most {MOST_RUNS} runs, and {most} in this file"
        faults.add("too-large", expected, rows[large], counts[large], whole_file=True)
        empty = counts == 0
        faults.add("empty-mask", "a mask with at least one pixel", rows[empty], counts[empty])


def _concat_rows(parts: list[I64]) -> I64:
    return np.concatenate([np.zeros(0, np.int64), *parts])
