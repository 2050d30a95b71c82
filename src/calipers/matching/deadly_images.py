# SPDX-License-Identifier: Apache-2.0
"""Images that end the worker that matches them: named in strict work, set aside in lenient work.

A worker of `engine.processes` or of a cluster may die of an image, for lack of memory as a rule. In
threads such an image ends the program, and nothing here is of any help.

- `Salvage` matches the rest of a block: what it returns in the place of the block's evidence, a
  `PartialBlock`, is stored, sent and merged like any evidence.
- `without_images` leaves the images out of a cohort, counted and named in its account.
- `on_survivors` repeats work that has no blocks to go on from, each time without the image that
  ended it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from calipers.data.cohort import Cohort, FileIntake, Quarantined
from calipers.engine.leniency import Leniency, SetAside, aside_note
from calipers.engine.ordered_map import WorkerDied
from calipers.errors import InputError

Evidence = TypeVar("Evidence")
Piece = TypeVar("Piece")
Result = TypeVar("Result")


class DeadlyImage(InputError):
    """An image that ends the worker that works on it."""

    image: str
    how: str


def deadly_image(expected: str, image: str, how: str, hint: str) -> DeadlyImage:
    """Return the error that names an image."""
    place = f"image {image!r}"
    error = DeadlyImage(expected, rule="worker-died", location=place, value=how, hint=hint)
    error.image, error.how = image, how
    return error


@dataclass(frozen=True)
class PartialBlock:
    """The evidence of a block, from which the images that end their worker are missing."""

    evidence: Any
    aside: tuple[SetAside, ...]  # named by the id of the image


@dataclass(frozen=True)
class Salvage(Generic[Piece]):
    """How the rest of a block is matched when some of its images end their worker."""

    work: Callable[[Piece], Any]
    halves: Callable[[Piece], Sequence[Piece]]
    name_of: Callable[[Piece], str]  # of a piece that cannot be cut
    executor: Executor

    def rest(self, block: Piece, death: WorkerDied) -> tuple[list[Any], list[SetAside]]:
        """Return the evidence of the pieces that do no harm, in order, and what was set aside.

        Images that are harmless alone, and only together too much for a worker, are all kept.
        """
        pieces = self.halves(block)
        if not pieces:
            return [], [SetAside.after(self.name_of(block), death)]
        evidence: list[Any] = []
        aside: list[SetAside] = []
        for piece in pieces:
            try:
                evidence.append(self.executor.submit(self.work, piece).result())
            except WorkerDied as error:
                further, images = self.rest(piece, error)
                evidence += further
                aside += images
        return evidence, aside


def without_images(cohort: Cohort, aside: Mapping[int, SetAside]) -> Cohort:
    """Return the cohort without the images with these numbers, and an account of their records."""
    if not aside:
        return cohort
    files = list(cohort.intake.files)
    records = list(cohort.intake.quarantine)
    tables = {f"predictions of {model}": table for model, table in cohort.models.items()}
    for role, table in {"references": cohort.references, **tables}.items():
        for image, item in sorted(aside.items()):
            number = int(table.offsets[image + 1] - table.offsets[image])
            for k, file in enumerate(files):
                # A role may have several files; which of them had the record is not known any more.
                n_records = min(number, file.used) if file.role == role else 0
                if n_records:
                    files[k] = _with_loss(file, item.rule, n_records)
                    place = f"image {item.name!r}"
                    records += [Quarantined(file.file, place, item.rule, item.reason)] * n_records
                    number -= n_records
    if files:
        note = aside_note([item for _, item in sorted(aside.items())], "image")
        files[0] = replace(files[0], notes=(*files[0].notes, note))
    rest = cohort.take(np.delete(np.arange(cohort.n_images), list(aside)))
    intake = replace(cohort.intake, files=tuple(files), quarantine=tuple(records))
    return replace(rest, intake=intake)


def _with_loss(file: FileIntake, rule: str, number: int) -> FileIntake:
    """Return the account of a file of which so many records are not used after all."""
    quarantined = dict(file.quarantined)
    quarantined[rule] = quarantined.get(rule, 0) + number
    return replace(file, used=file.used - number, quarantined=quarantined)


def on_survivors(
    work: Callable[[Cohort], Result], cohort: Cohort, leniency: Leniency
) -> tuple[Result, Cohort]:
    """Return the result of work on a cohort, and the cohort; lenient work is done again without an
    image that ended its worker, as often as that happens.
    """
    n_images = cohort.n_images
    lost: list[SetAside] = []
    while True:
        try:
            return work(cohort), cohort
        except DeadlyImage as error:
            if not leniency.lenient:
                raise
            lost.append(SetAside(error.image, "", error.rule, error.how))
            leniency.check(lost, n_images, "images")
            place = cohort.images.ids.index(error.image)
            cohort = without_images(cohort, {place: lost[-1]})
