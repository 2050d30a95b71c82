# SPDX-License-Identifier: Apache-2.0
"""What `calipers monitor` reads: the scope of a model, alarms of files and baselines, and labels.

`read_monitor_inputs` returns everything that is evaluated; `monitor` calls it after its options are
checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calipers.cli.monitor_columns import ALL, Choice, flags_by, numbers_by
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.monitors.baselines import BASELINES, NEEDS_FIT, NEEDS_PICTURES, baseline
from calipers.monitors.scope_result import Scope
from calipers.readers.alarm_columns import IMAGE, OOD, TUNING
from calipers.readers.alarms import Alarms, read_alarms

if TYPE_CHECKING:
    from calipers.tables import Cohort

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class MonitorInputs:
    """What is evaluated: the scope, the alarms in its order, and the labels of its images."""

    scope: Scope
    alarms: Mapping[str, F64]
    ood: Flags | None
    tuning: Flags | None
    severity: F64 | None
    notes: tuple[str, ...] = ()


@dataclass
class AlarmCollection:
    """The alarms and columns that were read so far."""

    scope: Scope
    cohort: Cohort | None
    options: Mapping[str, Any]
    alarms: dict[str, F64] = field(default_factory=dict)
    columns: dict[str, NDArray[Any]] = field(default_factory=dict)
    ood: Flags | None = None
    tuning: Flags | None = None
    # columns of labels that are recognised by their names
    labels: dict[str, Flags] = field(default_factory=dict)
    offered: list[str] = field(default_factory=list)  # all monitors of the files
    notes: list[str] = field(default_factory=list)

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
        for name, flags, aliases in (("ood", alarms.ood, OOD), ("tuning", alarms.tuning, TUNING)):
            if flags is None:
                continue
            earlier = getattr(self, name)
            differs = earlier is not None and not np.array_equal(earlier, flags)
            if differs and self.options[name] is None:
                raise InputError(
                    "the same labels in all files of alarms",
                    rule="labels-differ",
                    file=path,
                    field=name,
                )
            setattr(self, name, flags)
            self.labels.update(dict.fromkeys(aliases, flags))
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


def read_monitor_inputs(
    scope: Scope, cohort: Cohort | None, options: Mapping[str, Any], labels: str | None = None
) -> MonitorInputs:
    """Return the alarms and labels of all images of the scope.

    Parameters
    ----------
    labels
        The table of labels of a classifier, whose columns may be alarms too.
    """
    collection = AlarmCollection(scope, cohort, options)
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
    return MonitorInputs(
        inputs.scope.take(judged),
        {name: values[judged] for name, values in inputs.alarms.items()},
        _part(inputs.ood, judged),
        _part(inputs.tuning, judged),
        _part(inputs.severity, judged),
        (*inputs.notes, note),
    )


def _part(column: Any, judged: Flags) -> Any:
    return None if column is None else column[judged]


def _is_column(scope: Scope, entry: str) -> bool:
    return entry in scope.groups and not Path(entry).is_file()


def _check_file(entry: str, scope: Scope | None) -> None:
    """Raise for what is neither a file nor a name, with the nearest name."""
    if Path(entry).exists() or "/" in entry or "." in entry:
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
        images=options["images"],
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


def scope_of_labels(path: str, options: Mapping[str, Any]) -> Scope:
    """Return the scope of a classifier from a table of images with two columns of labels."""
    from calipers.readers.reading import read_groups_table
    from calipers.readers.source import open_source
    from calipers.readers.tabular import empty, texts

    table = read_groups_table(open_source(path))
    image = _image_column(table.names)
    truth_name, predicted_name = options["truth"], options["predicted"]
    for option, column in (("--truth", truth_name), ("--predicted", predicted_name)):
        if column not in table.names:
            hint = did_you_mean(column, table.names)
            raise _missing_column(table, f"the column {column!r} ({option})", hint)
    if image is None:
        raise _missing_column(table, "a column image, image_id, id or file_name", "")
    for column in (truth_name, predicted_name):
        gaps = np.flatnonzero(empty(table.columns[column]))
        if len(gaps):
            raise table.problem(
                int(gaps[0]), column, "missing-label", "a label for every image", ""
            ).as_error(table.file)
    truth, predicted = _labels(texts(table, truth_name)), _labels(texts(table, predicted_name))
    if truth.dtype.kind != predicted.dtype.kind:
        # Numbers against words: both are compared as they are written.
        truth = np.array(texts(table, truth_name), str)
        predicted = np.array(texts(table, predicted_name), str)
    groups = {name: np.array(texts(table, name), object) for name in table.names if name != image}
    return Scope.from_labels(
        predicted, truth, texts(table, image), model=Path(path).stem, groups=groups
    )


def _image_column(names: Sequence[str]) -> str | None:
    """Return the column of image ids; of two that differ in case only, the first one."""
    by_lower = {name.lower(): name for name in reversed(names)}
    return next((by_lower[name] for name in IMAGE if name in by_lower), None)


def _missing_column(table: Any, expected: str, hint: str) -> InputError:
    return InputError(
        expected,
        rule="missing-column",
        file=table.file,
        location="1",
        value=list(table.names),
        hint=hint,
    )


def _labels(cells: Sequence[str]) -> NDArray[Any]:
    """Return labels as numbers if all of them are, so that 1 and 1.0 are one label; else as texts
    without margins.
    """
    try:
        return np.array([float(cell) for cell in cells])
    except ValueError:
        return np.array([cell.strip() for cell in cells], str)
