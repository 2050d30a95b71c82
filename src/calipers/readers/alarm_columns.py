# SPDX-License-Identifier: Apache-2.0
"""Which column of a table of alarms is what: as the user says, else by its name and its cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from calipers.arguments import several
from calipers.errors import InputError, UsageError
from calipers.readers.layout import ALIASES
from calipers.readers.table_columns import (
    column_of,
    existing_column,
    find_column,
    missing_column,
)
from calipers.readers.tabular import FLAG_WORDS, PLAIN_NUMBER, WORD_NUMBER, Table, texts

IMAGE = ("image", "image_id", "id", "file_name", "filename")
OOD = ("ood", "is_ood", "out_of_distribution")
TUNING = ("tuning", "is_tuning")
SPLIT = ("split",)
TUNING_WORDS = ("tuning", "tune", "calibration", "val", "validation")
# Numbers that describe images; ids of patients may look like numbers.
DESCRIBING = frozenset(
    alias for name, aliases in ALIASES.items() if name != "score" for alias in aliases
)


@dataclass(frozen=True)
class AlarmColumns:
    """The columns of a table of alarms by their meaning."""

    image: str
    monitors: tuple[str, ...]
    ood: str | None
    tuning: str | None  # of 0 and 1
    split: (
        str | None
    )  # of words, if there is no column `tuning` and some word is one of TUNING_WORDS
    tuning_words: frozenset[str]  # those of `split` that mean tuning, as the file writes them
    groups: tuple[str, ...]
    notes: tuple[str, ...]


def find_alarm_columns(
    table: Table,
    *,
    monitors: Sequence[str] | None,
    image: str | None,
    ood: str | None,
    tuning: str | None,
) -> AlarmColumns:
    """Return the columns, and in notes what was understood."""
    found_image = find_column(table, "image", image, IMAGE)
    if found_image is None:
        raise missing_column(table, "a column image, image_id, id or file_name")
    found_ood, found_tuning = (
        find_column(table, "ood", ood, OOD),
        find_column(table, "tuning", tuning, TUNING),
    )
    found_split = None if found_tuning else column_of(table, SPLIT)
    said = set(texts(table, found_split)) if found_split else set()
    words = frozenset(word for word in said if word.strip().lower() in TUNING_WORDS)
    taken = {found_image, found_ood, found_tuning}
    chosen = (
        _named(table, monitors, taken)
        if monitors is not None
        else _numeric(table, {*taken, found_split})
    )
    if not chosen:
        raise InputError(
            "a column of numbers for every monitor",
            rule="no-alarms",
            file=table.file,
            location="1",
            value=list(table.names),
            hint="a monitor is a column of numbers, one per image, or of true and false",
        )
    groups = tuple(name for name in table.names if name not in {*taken, *chosen})
    notes = tuple(_notes(table, chosen, found_split, words))
    return AlarmColumns(
        found_image,
        chosen,
        found_ood,
        found_tuning,
        found_split if words else None,
        words,
        groups,
        notes,
    )


def _named(table: Table, monitors: Sequence[str], taken: set[str | None]) -> tuple[str, ...]:
    names = [monitors] if isinstance(monitors, str) else several("monitors", monitors)
    for name in names:
        if existing_column(table, "monitor", name) in taken:
            raise UsageError(f"the column {name!r} is the image or a label, so it is no monitor")
    return tuple(dict.fromkeys(names))


def _numeric(table: Table, taken: set[str | None]) -> tuple[str, ...]:
    return tuple(
        name
        for name in table.names
        if name not in taken and name.lower() not in DESCRIBING and _number_share(table, name) > 0.5
    )


def _number_share(table: Table, name: str) -> float:
    """Return the share of numbers, true and false among the cells that are not empty; 0 if all are."""
    cells = table.columns[name]
    if not isinstance(cells, list):
        return 1.0
    filled = [cell for cell in cells if cell.strip()]
    hits = sum(1 for cell in filled if _is_number(cell))
    return hits / len(filled) if filled else 0.0


def _is_number(cell: str) -> bool:
    return (
        bool(PLAIN_NUMBER.match(cell) or WORD_NUMBER.match(cell))
        or cell.strip().lower() in FLAG_WORDS
    )


def _notes(
    table: Table, monitors: Sequence[str], split: str | None, words: frozenset[str]
) -> Iterator[str]:
    yield f"monitors: {', '.join(monitors)}"
    if split is None:
        return
    found = sorted(set(texts(table, split)))
    others = ", ".join(repr(word) for word in found if word not in words)
    if words:
        said = ", ".join(map(repr, sorted(words)))
        yield f"{split}: thresholds are chosen on {said}" + (
            f"; the other images are {others}" if others else ""
        )
    else:
        yield f"{split}: no value means tuning; found {others}"
