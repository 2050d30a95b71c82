# SPDX-License-Identifier: Apache-2.0
"""The segmentations of a COCO file, taken piece by piece, as masks; or what is wrong with them."""

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
        """Whether the objects have masks: all of those seen so far, or masks are required."""
        return self.choice == "required" or (self.choice == "auto" and self.present == self.n)

    def add(self, given: Sequence[Segmentation], image: I64, boxless: Flags) -> Masks:
        """Take the segmentations of some records, and return their masks; those with a fault have
        no runs.

        Only records without a box get a mask once it is known that not all have one.
        """
        found = np.array(
            [bool(one) for one in given], np.bool_
        )  # an empty list, None and UNSET are none
        first, self.n = self.n, self.n + len(given)
        self.present += int(found.sum())
        self.missing.append(first + np.flatnonzero(~found))
        self.boxless.append(first + np.flatnonzero(boxless))
        wanted = found & (image >= 0)
        if not self.has_masks:
            self.parts.clear()
            wanted &= boxless
        masks = self._draw(Segments.sort(given, np.flatnonzero(wanted), image), first)
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
        """Return what is wrong with the masks that are used, or that a box was to be taken from."""
        faults = (
            self.faults
            if self.has_masks
            else self.faults.only(np.concatenate([np.zeros(0, np.int64), *self.boxless]))
        )
        found = faults.findings()
        missing = np.concatenate([np.zeros(0, np.int64), *self.missing])
        if self.choice == "required" and len(missing):
            hint = "pass --masks auto to evaluate the boxes of this file"
            nothing = ["no segmentation"] * len(missing)
            found.append(
                Finding("mask-missing", "segmentation", "a segmentation", missing, nothing, hint)
            )
        return found

    def notes(self) -> list[str]:
        """Say which masks are not used, and which polygons are strange."""
        if not self.present:
            return []
        if not self.has_masks:
            said = "masks are used only if every annotation has one, so only boxes are used"
            return [f"masks present in {self.present} of {self.n} annotations; {said}"]
        notes = []
        if self.n_crossed:
            said = "drawn as pycocotools does: what is enclosed twice is outside"
            notes.append(f"polygons cross themselves in {self.n_crossed} annotations; {said}")
        if self.n_unknown:
            notes.append(
                f"polygons of {self.n_unknown} annotations have too many corners to tell if they cross"
            )
        return notes

    def _draw(self, segments: Segments, first: int) -> Masks:
        """Return the masks of a piece, one for every record in it."""
        faults = Faults()
        drawn = columns_of(segments, self.size, faults)
        self.n_crossed += drawn.n_crossed
        self.n_unknown += drawn.n_unknown
        turn = run_order.Turn.of(*drawn.columns, drawn.size[:, ::-1])
        self._check_runs(drawn.rows, turn.counts, faults)
        offsets, start, length = (
            turn.runs() if not faults.fatal else (np.zeros(len(drawn.rows) + 1, np.int64), *NO_RUNS)
        )
        all_counts, all_sizes = np.zeros(segments.n, np.int64), np.ones((segments.n, 2), np.int64)
        all_counts[drawn.rows], all_sizes[drawn.rows] = np.diff(offsets), drawn.size
        self.faults.extend(faults, first)
        return Masks(ragged.from_counts(all_counts), start, length, all_sizes)

    def _check_runs(self, rows: I64, counts: I64, faults: Faults) -> None:
        """Refuse masks of too many runs before they take room, and those of none."""
        self.n_runs += int(counts.sum())
        most = min(MAX_BYTES, max(FREE_BYTES, MAX_RATIO * self.file_bytes)) // RUN_BYTES
        large = counts > (MOST_RUNS if self.n_runs <= most else 0)
        said = f"masks of at most {MOST_RUNS} runs, and {most} in this file"
        faults.add("too-large", said, rows[large], counts[large], whole_file=True)
        faults.add(
            "empty-mask", "a mask with at least one pixel", rows[counts == 0], counts[counts == 0]
        )
