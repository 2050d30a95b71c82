# SPDX-License-Identifier: Apache-2.0
"""Read what monitors are evaluated on: alarms of files and baselines, labels, and the scope.

`read_alarms` reads a table with a row per image and a column per monitor; its columns are found by
the user's choice, by name (`COLUMNS`) or by content. `calipers monitor` calls `read_monitor_inputs`
after its options were checked: it collects alarms of several files and of baselines, and the labels
that options name as ``COLUMN`` of yes and no, or ``COLUMN=VALUE,VALUE``. `scope_of_labels` reads
the labels of a classifier.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I64, Column, Flags
from calipers.data.cohort import FileIntake, Images
from calipers.errors import InputError, UsageError, did_you_mean, several, spelled
from calipers.errors import path as as_path
from calipers.io.reader import Problem, text_column
from calipers.io.tables.columns import (
    IMAGES,
    OBJECTS,
    ColumnSpec,
    declare,
    existing_column,
    find_columns,
)
from calipers.io.tables.objects import are_file_names
from calipers.io.tables.table import (
    PLAIN_NUMBER,
    WORD_NUMBER,
    YES_NO,
    FileTable,
    empty,
    numbers,
    open_table,
    texts,
)
from calipers.monitors.baselines import (
    BASELINES,
    NEEDS_FIT,
    NEEDS_PICTURES,
    Features,
    baseline,
    picture_features,
)
from calipers.monitors.scope import Scope

if TYPE_CHECKING:
    from calipers.data.cohort import Cohort

COLUMNS = declare(
    IMAGES["image"],
    ColumnSpec("ood", ("ood", "is_ood", "out_of_distribution"), kind="flag", blank=False),
    ColumnSpec("tuning", ("tuning", "is_tuning"), kind="flag", blank=False),
    ColumnSpec("split", ("split",)),
)
# A column of these is a monitor: programs write them. Yes and no of people describe an image.
ALARM_WORDS = ("true", "false")
TUNING_WORDS = ("tuning", "tune", "calibration", "val", "validation")
# Numbers that describe images; ids of patients may look like numbers.
DESCRIBING = frozenset[str]().union(
    *(column.aliases for column in OBJECTS.values() if column.name != "score")
)

# Names among which a similar one is looked for.
MANY_NAMES = 1000

FeatureReader = Callable[["Cohort", Any], Features]

ALL = "all"
MOST_NAMED = 12


def read_monitor_inputs(
    scope: Scope,
    cohort: Cohort | None,
    options: Mapping[str, Any],
    labels: str | None = None,
    *,
    features: FeatureReader = picture_features,
) -> MonitorInputs:
    """Return the alarms and labels of all images of the scope.

    Parameters
    ----------
    labels
        The table of labels of a classifier, whose columns may be alarms too.
    features
        Reads the features of all pictures.
    """
    collection = AlarmCollection(scope, cohort, options, features)
    baselines = [entry for entry in options["alarm"] if entry in BASELINES]
    for entry in options["alarm"]:
        if entry in baselines:
            continue
        if labels is not None and _is_column(scope, entry):
            values = np.asarray(numbers_by(scope.groups, entry, "--alarm", scope.images))
            collection.add(entry, values, labels)
        else:
            _check_file(entry, scope if labels is not None else None)
            collection.add_file(entry)
    # Groups of the scope come last and so win: they belong to the references.
    columns = {**collection.labels, **collection.columns, **scope.groups}
    fit = None
    if options["fit"] not in (None, ALL):
        fit = flags_by(columns, options["fit"], "--fit", scope.images)
    # Baselines come after the files, because a column of a file may say what they are fitted on.
    for name in baselines:
        collection.add(name, _baseline(name, collection, fit), "--alarm")
    if baselines and options["fit"] == ALL:
        collection.notes.append(
            "baselines are fitted on the images that they judge (--fit all), which flatters them"
        )
    _check_monitors(collection)
    return _without_fit(_labelled(collection, columns), fit)


@dataclass(frozen=True)
class MonitorInputs:
    """What is evaluated: the scope, the alarms in its order, and the labels of its images."""

    scope: Scope
    alarms: Mapping[str, F64]
    ood: Flags | None
    tuning: Flags | None
    severity: F64 | None
    notes: tuple[str, ...] = ()

    def take(self, images: Flags) -> MonitorInputs:
        """Return the inputs of some images."""
        return MonitorInputs(
            self.scope.take(images),
            {name: values[images] for name, values in self.alarms.items()},
            _part(self.ood, images),
            _part(self.tuning, images),
            _part(self.severity, images),
            self.notes,
        )


def read_alarms(
    path: str | PathLike[str],
    images: Sequence[str] | Images,
    *,
    monitors: Sequence[str] | None = None,
    image: str | None = None,
    ood: str | None = None,
    tuning: str | None = None,
) -> Alarms:
    """Read a table with a row per image: CSV, TSV or parquet.

    Parameters
    ----------
    images
        Ids of the images that are evaluated, or the images of a cohort; these may also be named by
        their ``file_name``.
    monitors
        The columns that are monitors. None: every column of numbers, or of true and false, that
        has no other meaning.
    image, ood, tuning
        The columns of the image, of what is out of distribution, and of the images on which
        thresholds are chosen. None: found by their names. Instead of ``tuning`` a column ``split``
        may say ``tuning``, ``tune``, ``calibration``, ``val`` or ``validation``.

    Raises
    ------
    InputError
        Images without a row (how many, and the first), rows of unknown images, two rows of one
        image, empty cells, NaN or infinity, text among the numbers, no monitor at all.

    Notes
    -----
    Every row must belong to an image and every image must have a row: nothing is left out. A column
    in which more than half of the cells are numbers is a column of numbers, and text in it is an
    error; other columns are groups. A column ``split`` is a group too. A monitor with the same
    value on all images is allowed, and noted.
    """
    table = open_table(as_path("path", path))
    columns = find_alarm_columns(table, monitors=monitors, image=image, ood=ood, tuning=tuning)
    ids, rows = _rows(table, columns, images)
    values, problems = _values(table, columns.monitors)
    is_ood = _flags(table, "ood", columns.ood, problems)
    is_tuning = _flags(table, "tuning", columns.tuning, problems)
    table.refuse(problems)
    if is_tuning is None:
        is_tuning = _split_flags(table, columns)
    values = values[:, rows]
    notes = (*table.notes, *columns.notes, *_constant(columns.monitors, values))
    return Alarms(
        names=columns.monitors,
        values=values,
        ood=_take(is_ood, rows),
        tuning=_take(is_tuning, rows),
        groups={name: _group(table, name, rows) for name in columns.groups},
        images=ids,
        notes=notes,
        intake=table.intake("alarms", notes),
    )


@dataclass(frozen=True)
class Alarms:
    """The alarms of M monitors on n images, in the order of the images that were asked for."""

    names: tuple[str, ...]
    values: F64  # (M, n), finite; the direction is the user's to say
    ood: Flags | None  # (n,) out of distribution; None = not stated
    tuning: Flags | None  # (n,) thresholds are chosen on these; None = not stated
    groups: Mapping[str, Column]
    images: tuple[str, ...]
    notes: tuple[str, ...] = ()
    intake: FileIntake | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self.names)


def scope_of_labels(path: str, options: Mapping[str, Any]) -> Scope:
    """Return the scope of a classifier from a table of images with two columns of labels."""
    table = open_table(path)
    truth_name, predicted_name = options["truth"], options["predicted"]
    truth_name = existing_column(table, "--truth", truth_name)
    predicted_name = existing_column(table, "--predicted", predicted_name)
    image = IMAGES["image"].require(table)
    for column in (truth_name, predicted_name):
        gaps = np.flatnonzero(empty(table.columns[column]))
        if len(gaps):
            raise table.error(int(gaps[0]), column, "missing-label", "a label for every image", "")
    truth, predicted = _labels(texts(table, truth_name)), _labels(texts(table, predicted_name))
    if truth.dtype.kind != predicted.dtype.kind:
        # Numbers against words: both are compared as they are written.
        truth = np.array(texts(table, truth_name), str)
        predicted = np.array(texts(table, predicted_name), str)
    groups = {name: np.array(texts(table, name), object) for name in table.names if name != image}
    return Scope.from_labels(
        predicted, truth, texts(table, image), model=Path(path).stem, groups=groups
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
    table: FileTable,
    *,
    monitors: Sequence[str] | None,
    image: str | None,
    ood: str | None,
    tuning: str | None,
) -> AlarmColumns:
    """Return the columns by meaning, and notes on how they were interpreted."""
    columns = find_columns(table, COLUMNS, {"image": image, "ood": ood, "tuning": tuning})
    image_column = columns["image"]
    ood_column, tuning_column = columns.get("ood"), columns.get("tuning")
    split_column = None
    tuning_words: frozenset[str] = frozenset()
    if tuning_column is None:
        split_column = columns.get("split")
    if split_column is not None:
        words = set(texts(table, split_column))
        tuning_words = frozenset(word for word in words if word.strip().lower() in TUNING_WORDS)
    labels = {image_column, ood_column, tuning_column}
    if monitors is not None:
        names = _named_monitors(table, monitors, labels)
    else:
        # Without a choice every column of numbers is a monitor, except those that describe images.
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
    table: FileTable, monitors: Sequence[str], labels: set[str | None]
) -> tuple[str, ...]:
    names = [monitors] if isinstance(monitors, str) else several("monitors", monitors)
    names = [existing_column(table, "monitor", name) for name in names]
    for name in names:
        if name in labels:
            raise UsageError(
                f"the column {name!r} is the image or a label, so it cannot be a monitor"
            )
    return tuple(dict.fromkeys(names))


def _numeric_columns(table: FileTable, labels: set[str | None]) -> tuple[str, ...]:
    names = []
    for name in table.names:
        is_free = name not in labels and name.lower() not in DESCRIBING
        if is_free and _number_share(table, name) > 0.5:
            names.append(name)
    return tuple(names)


def _number_share(table: FileTable, name: str) -> float:
    """Return the share of numbers and flags among the non-empty cells; 0 if all are empty."""
    cells = table.columns[name]
    if isinstance(cells, np.ndarray):
        return 1.0
    non_empty = [cell for cell in cells if cell.strip()]
    if not non_empty:
        return 0.0
    return sum(map(_is_number, non_empty)) / len(non_empty)


def _is_number(cell: str) -> bool:
    is_number = PLAIN_NUMBER.match(cell) or WORD_NUMBER.match(cell)
    return bool(is_number) or cell.strip().lower() in ALARM_WORDS


def _notes(
    table: FileTable, monitors: Sequence[str], split: str | None, tuning_words: frozenset[str]
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


def _take(flags: Flags | None, rows: I64) -> Flags | None:
    return None if flags is None else flags[rows]


def _rows(
    table: FileTable, columns: AlarmColumns, images: Sequence[str] | Images
) -> tuple[tuple[str, ...], I64]:
    """Return the ids of the images, and the row of each."""
    names: Column | None = None
    if isinstance(images, Images):
        ids = images.ids
        names = images.groups.get("file_name")
    else:
        ids = tuple(map(str, several("images", images)))
    repeated = next((name for name, n in Counter(ids).items() if n > 1), None)
    if repeated is not None:
        raise InputError("every image once", rule="dup-image", field="images", value=repeated)
    index = {name: k for k, name in enumerate(ids)}
    if names is not None:
        by_file_name = {str(name): k for k, name in enumerate(names.tolist())}
        # A name of two images would name the wrong one.
        is_unique = len(by_file_name) == len(ids)
        if columns.image.lower() in ("file_name", "filename"):
            index = by_file_name
        elif is_unique and are_file_names(texts(table, columns.image), index, by_file_name):
            index = by_file_name
            table.notes.append("images are joined by file_name: no image has one of these ids")
    rows = np.full(len(ids), -1, np.int64)
    problems: list[Problem] = []
    hint = ""
    for row, cell in enumerate(texts(table, columns.image)):
        k = index.get(cell)
        if k is None:
            # Names are compared once: with many images each comparison takes long.
            hint = hint or did_you_mean(cell, list(index)[:MANY_NAMES])[:300]
            expected = "an image that is judged"
            problems.append(
                table.problem(row, columns.image, "unknown-image", expected, cell, hint)
            )
        elif rows[k] >= 0:
            problems.append(
                table.problem(row, columns.image, "dup-image", "one row per image", cell)
            )
        else:
            rows[k] = row
    table.refuse(problems)
    missing = np.flatnonzero(rows < 0)
    if len(missing):
        first = ids[missing[0]]
        raise InputError(
            "a row for every image",
            rule="missing-image",
            file=table.file,
            field=columns.image,
            value=first,
            hint=f"{len(missing)} of {len(ids)} images have no row; the first of them is {first!r}",
        )
    return ids, rows


def _values(table: FileTable, names: Sequence[str]) -> tuple[F64, list[Problem]]:
    """Return the (M, rows) values, and every cell that is no finite number."""
    values = np.empty((len(names), len(table)))
    problems: list[Problem] = []
    for k, name in enumerate(names):
        cells = table.columns[name]
        values[k], bad = numbers(table, name, yes_no=True)
        for row in np.flatnonzero(~np.isfinite(values[k])).tolist():
            if not isinstance(cells, np.ndarray) and not cells[row].strip():
                bad[row] = table.problem(row, name, "type", "a number for every image", "")
            elif row not in bad:
                bad[row] = table.problem(row, name, "non-finite", "a finite number", cells[row])
        problems += (bad[row] for row in sorted(bad))
    return values, problems


def _flags(
    table: FileTable, name: str, column: str | None, problems: list[Problem]
) -> Flags | None:
    """Return a column of 0 and 1; empty cells and all others become problems."""
    if column is None:
        return None
    values, bad = COLUMNS[name].read(table, column)
    problems += (bad[row] for row in sorted(bad))
    return np.asarray(values, np.bool_)


def _split_flags(table: FileTable, columns: AlarmColumns) -> Flags | None:
    """Return which rows a column `split` names for tuning."""
    if columns.split is None:
        return None
    words = texts(table, columns.split)
    return np.array([word in columns.tuning_words for word in words], np.bool_)


def _group(table: FileTable, name: str, rows: I64) -> Column:
    cells = table.columns[name]
    if isinstance(cells, np.ndarray):
        return cells[rows]
    return text_column([cells[row] for row in rows.tolist()])


def _constant(names: Sequence[str], values: F64) -> Iterator[str]:
    for name, column in zip(names, values):
        if len(column) and (column == column[0]).all():
            yield f"monitor {name!r} has the value {column[0]:g} on all {len(column)} images"


@dataclass(frozen=True)
class Choice:
    """A column, and its values that mean yes; without values the column itself says yes and no."""

    column: str
    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> Choice:
        """Return the choice of ``COLUMN`` or ``COLUMN=VALUE,VALUE``."""
        column, sign, values = text.partition("=")
        if not column or (sign and not values):
            raise UsageError(f"expected COLUMN or COLUMN=VALUE,..., got {text!r}")
        if not sign:
            return cls(column)
        return cls(column, tuple(value.strip() for value in values.split(",")))


def flags_by(
    columns: Mapping[str, NDArray[Any]], text: str, option: str, images: Sequence[str]
) -> Flags:
    """Return one flag per image."""
    choice = Choice.of(text)
    cells = [_word(cell) for cell in _column(columns, choice.column, option).tolist()]
    if choice.values:
        there = set(cells)
        for value in choice.values:
            if value not in there:
                raise UsageError(
                    f"{option}: {choice.column} is {value!r} on no image; "
                    f"{_suggestion(value, sorted(there))}"
                )
        return np.array([cell in choice.values for cell in cells], np.bool_)
    for image, cell in zip(images, cells):
        if cell.lower() not in YES_NO:
            words = ", ".join(sorted({word for word in cells if word})[:MOST_NAMED])
            hint = (
                f"or say which values are meant, {option} {choice.column}=VALUE,VALUE; there are "
                f"{words}"
            )
            where, expected = f"image {image!r}", "0 or 1, true or false"
            place = {"file": f"{option} {choice.column}", "location": where, "field": choice.column}
            raise InputError(expected, rule="flag", value=cell, hint=hint, **place)
    return np.array([YES_NO[cell.lower()] for cell in cells], np.bool_)


def numbers_by(
    columns: Mapping[str, NDArray[Any]], name: str, option: str, images: Sequence[str]
) -> F64:
    """Return one number per image."""
    column = _column(columns, name, option)
    values = np.empty(len(column))
    for k, cell in enumerate(column.tolist()):
        try:
            values[k] = float(cell)
        except (TypeError, ValueError):
            where = f"image {images[k]!r}"
            place = {"file": f"{option} {name}", "location": where, "field": name}
            raise InputError("a number for every image", rule="type", value=cell, **place) from None
    return values


def _column(columns: Mapping[str, NDArray[Any]], name: str, option: str) -> NDArray[Any]:
    name = spelled(name, columns)
    if name not in columns:
        suggestion = did_you_mean(name, columns) if columns else "the files have no further column."
        raise UsageError(
            f"{option}: no column {name!r} in the files of alarms or among the groups; {suggestion}"
        )
    return np.asarray(columns[name])


def _word(cell: Any) -> str:
    """Return a cell as the text that a user would write: 1 for 1.0, and for True."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return "" if cell is None else str(cell).strip()


def _suggestion(value: str, there: Sequence[str]) -> str:
    return did_you_mean(value, there[:MOST_NAMED])


@dataclass
class AlarmCollection:
    """The alarms and columns that were read so far."""

    scope: Scope
    cohort: Cohort | None
    options: Mapping[str, Any]
    read_features: FeatureReader
    alarms: dict[str, F64] = field(default_factory=dict)
    columns: dict[str, NDArray[Any]] = field(default_factory=dict)
    ood: Flags | None = None
    tuning: Flags | None = None
    # columns of labels that are recognised by their names
    labels: dict[str, Flags] = field(default_factory=dict)
    offered: list[str] = field(default_factory=list)  # all monitors of the files
    notes: list[str] = field(default_factory=list)
    _features: Features | None = None

    def features(self) -> Features:
        """Return the features of all pictures, which are decoded once for all baselines."""
        if self._features is None:
            assert self.cohort is not None
            self._features = self.read_features(self.cohort, self.options["images"])
        return self._features

    def add(self, name: str, values: F64, where: str) -> None:
        """Add a monitor; raise if there is one with the same name."""
        if name in self.alarms:
            raise UsageError(
                f"two monitors are called {name!r} ({where}): rename the column of one of them"
            )
        self.alarms[name] = values

    def add_file(self, path: str) -> None:
        """Read a file of alarms; columns that an option names are no monitors."""
        alarms = read_alarms(path, self._images())
        # A column of numbers that an option names (severity, a label) would else be taken for a
        # monitor.
        reserved_columns = set(reserved(self.options))
        monitors = set(self.options["monitor"])
        self.offered += [name for name in alarms.names if name not in reserved_columns]
        for name, values in zip(alarms.names, alarms.values):
            if name in reserved_columns:
                self.columns[name] = values
            elif not monitors or name in monitors:
                self.add(name, values, path)
        self.columns.update(alarms.groups)
        self._keep_labels(alarms, path)

    def _images(self) -> Any:
        """Return the images of the cohort, which can be matched by file name too, or the ids of the
        scope.
        """
        return self.scope.images if self.cohort is None else self.cohort.images

    def _keep_labels(self, alarms: Alarms, path: str) -> None:
        """Add labels recognised by their names; raise if two files contradict each other."""
        for name, labels in (("ood", alarms.ood), ("tuning", alarms.tuning)):
            if labels is None:
                continue
            earlier = getattr(self, name)
            differs = earlier is not None and not np.array_equal(earlier, labels)
            if differs and self.options[name] is None:
                raise InputError(
                    "the same labels in all files of alarms",
                    rule="labels-differ",
                    file=path,
                    field=name,
                )
            setattr(self, name, labels)
            self.labels.update(dict.fromkeys(COLUMNS[name].aliases, labels))
        self.notes += [f"{Path(path).name}: {note}" for note in alarms.notes]


def reserved(options: Mapping[str, Any]) -> set[str]:
    """Return the columns that options name: they are no monitors."""
    columns = {name.strip() for name in (options["cluster"] or "").split(",")}
    for name in ("ood", "tuning", "fit"):
        if options[name]:
            columns.add(Choice.of(options[name]).column)
    for name in ("severity", "truth", "predicted"):
        if options[name]:
            columns.add(options[name])
    return columns


def _labelled(collection: AlarmCollection, columns: Mapping[str, NDArray[Any]]) -> MonitorInputs:
    options, images = collection.options, collection.scope.images
    ood, tuning, severity = collection.ood, collection.tuning, None
    # An option replaces the column that was recognised by its name.
    if options["ood"] is not None:
        ood = flags_by(columns, options["ood"], "--ood", images)
    if options["tuning"] is not None:
        tuning = flags_by(columns, options["tuning"], "--tuning", images)
    if options["severity"]:
        severity = numbers_by(columns, options["severity"], "--severity", images)
    groups = {**collection.columns, **collection.scope.groups}
    scope = replace(collection.scope, groups=groups)
    notes = tuple(collection.notes)
    return MonitorInputs(scope, collection.alarms, ood, tuning, severity, notes)


def _without_fit(inputs: MonitorInputs, fit: Flags | None) -> MonitorInputs:
    """Return the inputs without the images that baselines were fitted on."""
    if fit is None:
        return inputs
    judged = ~fit
    if not judged.any():
        raise UsageError("--fit takes all images: none is left to evaluate")
    note = (
        f"{int(fit.sum())} images that baselines are fitted on are left out; "
        f"{int(judged.sum())} remain"
    )
    return replace(inputs.take(judged), notes=(*inputs.notes, note))


def _part(column: Any, judged: Flags) -> Any:
    return None if column is None else column[judged]


def _is_column(scope: Scope, entry: str) -> bool:
    return entry in scope.groups and not os.path.isfile(entry)


def _check_file(entry: str, scope: Scope | None) -> None:
    """Raise for what is neither a file nor a name, with the nearest name."""
    if os.path.exists(entry) or "/" in entry or "." in entry:
        return
    names, what = list(BASELINES), "a baseline"
    if scope is not None:
        names, what = list(scope.groups), "a column of the labels"
    suggestion = did_you_mean(entry, names)
    raise UsageError(f"--alarm {entry!r} is neither a file nor {what}; {suggestion}")


def _baseline(name: str, collection: AlarmCollection, fit: Flags | None) -> F64:
    options, cohort = collection.options, collection.cohort
    if cohort is None:
        raise UsageError(
            f"{name} needs predictions of boxes: a classifier's alarms come from a file or a column"
        )
    fit_images: Any = "all" if options["fit"] == ALL else fit
    if name in NEEDS_FIT and fit_images is None:
        raise UsageError(
            f"{name} must be fitted on images of its own: name them with --fit COLUMN or "
            "--fit COLUMN=VALUE, such as --fit split=train; they are left out of the evaluation. "
            "--fit all fits it on the evaluated images"
        )
    if name in NEEDS_PICTURES and options["images"] is None:
        raise UsageError(f"{name} needs the pictures: give their folder with --images")
    return baseline(
        name,
        cohort,
        collection.scope.model,
        images=collection.features() if name in NEEDS_PICTURES else None,
        fit=fit_images,
        score_cut=options["score_cut"],
    )


def _check_monitors(collection: AlarmCollection) -> None:
    for name in collection.options["monitor"]:
        if name not in collection.alarms:
            names = [
                *collection.offered,
                *(each for each in collection.alarms if each not in collection.offered),
            ]
            raise UsageError(f"--monitor: no monitor {name!r}; {did_you_mean(name, names)}")
    for name in collection.options["lower_is_alarm"]:
        if name not in collection.alarms:
            raise UsageError(
                f"--lower-is-alarm: no monitor {name!r}; {did_you_mean(name, collection.alarms)}"
            )


def _labels(cells: Sequence[str]) -> NDArray[Any]:
    """Return labels as numbers if all of them are, so that 1 and 1.0 are one label; else as texts
    without margins.
    """
    try:
        return np.array([float(cell) for cell in cells])
    except ValueError:
        return np.array([cell.strip() for cell in cells], str)
