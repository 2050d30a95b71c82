# SPDX-License-Identifier: Apache-2.0
"""Find the columns of a table of alarms: as the user names them, else by name and content."""

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
    # of words, if there is no column `tuning` and some word is one of TUNING_WORDS
    split: str | None
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
    """Return the columns by meaning, and notes on how they were interpreted."""
    image_column = find_column(table, "image", image, IMAGE)
    if image_column is None:
        raise missing_column(table, "a column image, image_id, id or file_name")
    ood_column = find_column(table, "ood", ood, OOD)
    tuning_column = find_column(table, "tuning", tuning, TUNING)
    split_column = None
    tuning_words: frozenset[str] = frozenset()
    if tuning_column is None:
        split_column = column_of(table, SPLIT)
    if split_column is not None:
        words = set(texts(table, split_column))
        tuning_words = frozenset(word for word in words if word.strip().lower() in TUNING_WORDS)
    labels = {image_column, ood_column, tuning_column}
    if monitors is not None:
        names = _named_monitors(table, monitors, labels)
    else:
        names = _numeric_columns(table, {*labels, split_column})
    if not names:
        raise InputError(
            "a column of numbers for every monitor",
            rule="no-alarms",
            file=table.file,
            location="1",
            value=list(table.names),
            hint="a monitor is a column of numbers, one per image, or of true and false",
        )
    notes = tuple(_notes(table, names, split_column, tuning_words))
    if not tuning_words:
        split_column = None
    return AlarmColumns(
        image=image_column,
        monitors=names,
        ood=ood_column,
        tuning=tuning_column,
        split=split_column,
        tuning_words=tuning_words,
        groups=tuple(name for name in table.names if name not in {*labels, *names}),
        notes=notes,
    )


def _named_monitors(
    table: Table, monitors: Sequence[str], labels: set[str | None]
) -> tuple[str, ...]:
    names = [monitors] if isinstance(monitors, str) else several("monitors", monitors)
    for name in names:
        if existing_column(table, "monitor", name) in labels:
            raise UsageError(
                f"the column {name!r} is the image or a label, so it cannot be a monitor"
            )
    return tuple(dict.fromkeys(names))


def _numeric_columns(table: Table, labels: set[str | None]) -> tuple[str, ...]:
    names = []
    for name in table.names:
        is_free = name not in labels and name.lower() not in DESCRIBING
        if is_free and _number_share(table, name) > 0.5:
            names.append(name)
    return tuple(names)


def _number_share(table: Table, name: str) -> float:
    """Return the share of numbers and flags among the non-empty cells; 0 if all are empty."""
    cells = table.columns[name]
    if not isinstance(cells, list):
        return 1.0
    non_empty = [cell for cell in cells if cell.strip()]
    if not non_empty:
        return 0.0
    return sum(map(_is_number, non_empty)) / len(non_empty)


def _is_number(cell: str) -> bool:
    is_number = PLAIN_NUMBER.match(cell) or WORD_NUMBER.match(cell)
    return bool(is_number) or cell.strip().lower() in FLAG_WORDS


def _notes(
    table: Table, monitors: Sequence[str], split: str | None, tuning_words: frozenset[str]
) -> Iterator[str]:
    yield f"monitors: {', '.join(monitors)}"
    if split is None:
        return
    words = set(texts(table, split))
    others = ", ".join(map(repr, sorted(words - tuning_words)))
    if not tuning_words:
        yield f"{split}: no value means tuning; found {others}"
        return
    note = f"{split}: thresholds are chosen on {', '.join(map(repr, sorted(tuning_words)))}"
    if others:
        note += f"; the other images are {others}"
    yield note
