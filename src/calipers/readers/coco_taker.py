# SPDX-License-Identifier: Apache-2.0
"""Collects the records of the careful reader: sound ones as rows, the others as problems."""

from __future__ import annotations

import numpy as np

from calipers.readers.coco_columns import ObjectColumns
from calipers.readers.coco_records import MaskedAnnotation, as_annotation, check_object
from calipers.readers.jsoncareful import Record
from calipers.readers.parts import Options, Problem
from calipers.tables.checks import Role

AT_ONCE = 1 << 14  # records that become columns together


class Taker:
    """Takes records one by one: sound ones as rows, the others as problems."""

    def __init__(self, role: Role, dimensions: int, options: Options) -> None:
        self.role, self.dimensions, self.options = role, dimensions, options
        # The first box of the references decides whether they are 2D or 3D.
        self.settled = role == "predictions"
        self.rows: list[MaskedAnnotation] = []
        self.places: list[int] = []
        self.problems: list[Problem] = []
        self.n_dropped = 0
        self.n_unscored = 0

    def __call__(self, record: Record, place: int) -> None:
        """Take the record number ``place``."""
        value = record.value
        if not self.settled and isinstance(value, dict) and isinstance(value.get("bbox"), list):
            self.settled, self.dimensions = True, 3 if len(value["bbox"]) == 6 else 2
        masks = self.options.masks != "ignore" and self.dimensions == 2
        problems = check_object(record, self.role, self.dimensions, masks=masks)
        self.n_unscored += any(problem.rule == "score-missing" for problem in problems)
        if problems:
            # Strict reading shows all problems; a record counts under its first one.
            self.problems += problems
            self.n_dropped += 1
        else:
            self.rows.append(as_annotation(value, self.role, masks=masks))
            self.places.append(place)

    def give(self, columns: ObjectColumns) -> None:
        """Hand the rows over, some at a time."""
        for first in range(0, len(self.rows), AT_ONCE):
            part = slice(first, first + AT_ONCE)
            columns.add(self.rows[part], np.array(self.places[part], np.int64))
