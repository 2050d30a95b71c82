# SPDX-License-Identifier: Apache-2.0
"""`explain`: say how the inputs are interpreted, before any number is computed from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

import numpy as np

from calipers.readers.assemble import Assembled
from calipers.readers.parts import Options, ReadOptions
from calipers.readers.reading import PathName, Predictions, read_all
from calipers.tables.cohort import Cohort
from calipers.tables.intake import FileIntake

SHOWN_CLASSES = 30


def explain(
    references: PathName,
    predictions: Predictions = None,
    *,
    groups: PathName | None = None,
    lenient: bool = True,
    **options: Unpack[ReadOptions],
) -> str:
    """Describe the inputs: files, formats, images, objects, classes, groups, records set aside.

    The options are those of `read`, except that reading is lenient unless told otherwise, so that
    all problems of a file are counted together; what makes a whole file unusable still raises.
    """
    return describe(
        read_all(references, predictions, groups, Options.from_keywords(lenient=lenient, **options))
    )


def describe(assembled: Assembled) -> str:
    """Describe files that have been read."""
    cohort = assembled.cohort
    lines: list[str] = []
    for file, box_format in zip(cohort.intake.files, assembled.box_formats):
        lines += [*_file(file, box_format), ""]
    lines += [*_images(cohort), *_classes(cohort)]
    if cohort.intake.quarantined:
        lines += [
            "",
            f"Strict reading refuses these inputs: {cohort.intake.quarantined} broken records.",
        ]
    return "\n".join(lines) + "\n"


def _file(file: FileIntake, box_format: str) -> Iterator[str]:
    yield _safe(f"{file.file}: {file.role}")
    yield f"  format       {file.format}" + (f", boxes as {box_format}" if box_format else "")
    yield f"  size         {file.bytes:,} bytes, sha256 {file.sha256[:16]}..."
    yield f"  records      {file.read} read = {file.used} used + {file.read - file.used} set aside"
    for rule, count in file.quarantined.items():
        yield f"    {rule:<20} {count}"
    for note in file.notes:
        yield _safe(f"  note         {note}")


def _images(cohort: Cohort) -> Iterator[str]:
    n_sized = int(np.isfinite(cohort.images.size).all(axis=1).sum())
    n_spaced = int(np.isfinite(cohort.images.spacing).all(axis=1).sum())
    n_with_references = int((np.diff(cohort.references.offsets) > 0).sum())
    counts = f"{cohort.n_images}, {n_with_references} with references"
    yield f"Images         {counts}; {cohort.dimensions}D"
    yield f"  size known   {n_sized} of {cohort.n_images}"
    yield f"  spacing      known for {n_spaced} of {cohort.n_images}"
    for name, column in cohort.images.groups.items():
        yield _safe(f"  {name:<12} {len(set(column.tolist()))} different values")


def _classes(cohort: Cohort) -> Iterator[str]:
    tables = {"references": cohort.references, **cohort.models}
    counts = {}
    sizes = []
    masked = []
    for name, table in tables.items():
        counts[name] = np.bincount(table.label, minlength=len(cohort.classes))
        sizes.append(_safe(f"{len(table)} {name}"))
        if table.masks is not None and len(table):
            masked.append(name)
    yield "Objects        " + ", ".join(sizes)
    if masked:
        yield _safe("  with masks   " + ", ".join(masked))
    n_ignored, n_crowd = int(cohort.references.ignore.sum()), int(cohort.references.crowd.sum())
    if n_ignored:
        yield f"  ignored      {n_ignored} references, {n_crowd} of them crowds"
    yield f"Classes        {len(cohort.classes)}"
    for k, name in enumerate(cohort.classes[:SHOWN_CLASSES]):
        shares = ", ".join(_safe(f"{column[k]} {table}") for table, column in counts.items())
        yield _safe(f"  {name:<20} ") + shares
    if len(cohort.classes) > SHOWN_CLASSES:
        yield f"  ... and {len(cohort.classes) - SHOWN_CLASSES} more"


def _safe(text: str) -> str:
    """Escape control characters and override marks, which a terminal would obey."""
    signs = []
    for sign in text:
        signs.append(sign if sign.isprintable() else f"\\u{ord(sign):04x}")
    return "".join(signs)
