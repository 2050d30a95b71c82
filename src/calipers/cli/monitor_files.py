# SPDX-License-Identifier: Apache-2.0
"""What `calipers monitor` reads: the scope of a model, alarms of files and baselines, and labels of
the images.
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
    """What is judged: the scope, the alarms in its order, and what is known of the images."""

    scope: Scope
    alarms: Mapping[str, F64]
    ood: Flags | None
    tuning: Flags | None
    severity: F64 | None
    notes: tuple[str, ...] = ()


@dataclass
class AlarmCollection:
    """What was found so far in the files of alarms."""

    scope: Scope
    cohort: Cohort | None
    options: Mapping[str, Any]
    alarms: dict[str, F64] = field(default_factory=dict)
    columns: dict[str, NDArray[Any]] = field(default_factory=dict)
    ood: Flags | None = None
    tuning: Flags | None = None
    labels: dict[str, Flags] = field(
        default_factory=dict
    )  # columns of labels that are found by their names
    offered: list[str] = field(default_factory=list)  # monitors of the files, chosen or not
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, values: F64, where: str) -> None:
        """Keep a monitor; two of one name are refused."""
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
        """Return the images of the cohort, which may be found by their files too; else the ids of
        the scope.
        """
        return self.scope.images if self.cohort is None else self.cohort.images

    def _keep_labels(self, alarms: Alarms, path: str) -> None:
        """Keep the labels that are found by their names; two files must not contradict each
        other.
        """
        for name, flags, aliases in (("ood", alarms.ood, OOD), ("tuning", alarms.tuning, TUNING)):
            if flags is None:
                continue
            earlier = getattr(self, name)
            if (
                self.options[name] is None
                and earlier is not None
                and not np.array_equal(earlier, flags)
            ):
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
    label_columns = [
        Choice.of(options[name]).column for name in ("ood", "tuning", "fit") if options[name]
    ]
    clusters = [name.strip() for name in (options["cluster"] or "").split(",")]
    return {
        *label_columns,
        *clusters,
        *(options[name] for name in ("severity", "truth", "predicted") if options[name]),
    }


def read_monitor_inputs(
    scope: Scope, cohort: Cohort | None, options: Mapping[str, Any], labels: str | None = None
) -> MonitorInputs:
    """Return everything that is judged.

    Parameters
    ----------
    labels
        The table of labels of a classifier, whose columns may be alarms too.
    """
    gathering = AlarmCollection(scope, cohort, options)
    names = [entry for entry in options["alarm"] if _is_baseline(entry)]
    for entry in options["alarm"]:
        if entry in names:
            continue
        if labels is not None and _column_of(scope, entry) is not None:
            gathering.add(
                entry, np.asarray(numbers_by(scope.groups, entry, "--alarm", scope.images)), labels
            )
        else:
            _check_file(entry, scope if labels is not None else None)
            gathering.add_file(entry)
    columns = {**gathering.labels, **gathering.columns, **scope.groups}
    fit = (
        flags_by(columns, options["fit"], "--fit", scope.images)
        if options["fit"] not in (None, ALL)
        else None
    )
    for name in names:
        gathering.add(name, _baseline(name, gathering, fit), "--alarm")
    if names and options["fit"] == ALL:
        gathering.notes.append(
            "baselines are fitted on the images that they judge (--fit all), which flatters them"
        )
    _check_monitors(gathering)
    return _without_fit(_labelled(gathering, columns), fit)


def _labelled(gathering: AlarmCollection, columns: Mapping[str, NDArray[Any]]) -> MonitorInputs:
    options, images = gathering.options, gathering.scope.images

    def flags(name: str) -> Flags | None:
        from_files: Flags | None = getattr(gathering, name)
        if options[name] is None:
            return from_files
        return flags_by(columns, options[name], f"--{name}", images)

    severity = (
        numbers_by(columns, options["severity"], "--severity", images)
        if options["severity"]
        else None
    )
    scope = replace(gathering.scope, groups={**gathering.columns, **gathering.scope.groups})
    return MonitorInputs(
        scope, gathering.alarms, flags("ood"), flags("tuning"), severity, tuple(gathering.notes)
    )


def _without_fit(all_images: MonitorInputs, fit: Flags | None) -> MonitorInputs:
    """Return what is judged without the images that baselines were fitted on."""
    if fit is None:
        return all_images
    judged = ~fit
    if not judged.any():
        raise UsageError("--fit takes all images: none is left to judge")

    def part(column: Any) -> Any:
        return None if column is None else column[judged]

    note = (
        f"{int(fit.sum())} images that baselines are fitted on are left out; {int(judged.sum())} "
        f"remain"
    )
    return MonitorInputs(
        all_images.scope.take(judged),
        {name: values[judged] for name, values in all_images.alarms.items()},
        part(all_images.ood),
        part(all_images.tuning),
        part(all_images.severity),
        (*all_images.notes, note),
    )


def _is_baseline(entry: str) -> bool:
    return entry in BASELINES


def _column_of(scope: Scope, entry: str) -> str | None:
    return entry if entry in scope.groups and not Path(entry).is_file() else None


def _check_file(entry: str, scope: Scope | None) -> None:
    """Refuse what is neither a file nor a name, with the nearest name."""
    if Path(entry).exists() or "/" in entry or "." in entry:
        return
    names = [*BASELINES] if scope is None else list(scope.groups)
    what = "a file nor a baseline" if scope is None else "a file nor a column of the labels"
    raise UsageError(f"--alarm {entry!r} is neither {what}; {did_you_mean(entry, names)}")


def _baseline(name: str, gathering: AlarmCollection, fit: Flags | None) -> F64:
    options, cohort = gathering.options, gathering.cohort
    if cohort is None:
        raise UsageError(
            f"{name} needs predictions of boxes: a classifier's alarms come from a file or a column"
        )
    everyone: Any = "all" if options["fit"] == ALL else fit
    if name in NEEDS_FIT and everyone is None:
        raise UsageError(
            f"{name} is fitted on images of its own: say which with --fit COLUMN or --fit "
            f"COLUMN=VALUE, such as "
            "--fit split=train; they are left out of the judgement. --fit all fits it on the "
            "images that it judges"
        )
    if name in NEEDS_PICTURES and options["images"] is None:
        raise UsageError(f"{name} looks at the pictures: give their folder with --images")
    score_cut = options["score_cut"]
    return baseline(
        name,
        cohort,
        gathering.scope.model,
        images=options["images"],
        fit=everyone,
        score_cut=score_cut,
    )


def _check_monitors(gathering: AlarmCollection) -> None:
    for name in gathering.options["monitor"]:
        if name not in gathering.alarms:
            names = [
                *gathering.offered,
                *(each for each in gathering.alarms if each not in gathering.offered),
            ]
            raise UsageError(f"--monitor: no monitor {name!r}; {did_you_mean(name, names)}")
    for name in gathering.options["lower_is_alarm"]:
        if name not in gathering.alarms:
            raise UsageError(
                f"--lower-is-alarm: no monitor {name!r}; {did_you_mean(name, gathering.alarms)}"
            )


def scope_of_labels(path: str, options: Mapping[str, Any]) -> Scope:
    """Return the scope of a classifier from a table with a row per image and two columns of
    labels.
    """
    from calipers.readers.reading import read_groups_table
    from calipers.readers.source import open_source
    from calipers.readers.tabular import empty, texts

    table = read_groups_table(open_source(path))
    lower = {name.lower(): name for name in reversed(table.names)}
    image = next((lower[name] for name in IMAGE if name in lower), None)
    for option, column in (
        ("--truth", options["truth"]),
        ("--predicted", options["predicted"]),
        ("", image),
    ):
        if column not in table.names:
            what = (
                f"the column {column!r} ({option})"
                if option
                else "a column image, image_id, id or file_name"
            )
            hint = did_you_mean(column, table.names) if column is not None else ""
            raise InputError(
                what,
                rule="missing-column",
                file=table.file,
                location="1",
                value=list(table.names),
                hint=hint,
            )
    assert image is not None
    for column in (options["truth"], options["predicted"]):
        gaps = np.flatnonzero(empty(table.columns[column]))
        if len(gaps):
            raise table.problem(
                int(gaps[0]), column, "missing-label", "a label for every image", ""
            ).as_error(table.file)
    truth, predicted = (_labels(texts(table, options[name])) for name in ("truth", "predicted"))
    if truth.dtype.kind != predicted.dtype.kind:
        truth, predicted = (
            np.array(texts(table, options[name]), str) for name in ("truth", "predicted")
        )
    groups = {name: np.array(texts(table, name), object) for name in table.names if name != image}
    return Scope.from_labels(
        predicted, truth, texts(table, image), model=Path(path).stem, groups=groups
    )


def _labels(cells: Sequence[str]) -> NDArray[Any]:
    """Return labels as numbers if all of them are, so that 1 and 1.0 are one label; else as texts
    without margins.
    """
    try:
        return np.array([float(cell) for cell in cells])
    except ValueError:
        return np.array([cell.strip() for cell in cells], str)
