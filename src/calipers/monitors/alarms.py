# SPDX-License-Identifier: Apache-2.0
"""Check the alarm scores and flags of the caller, and bring them into the order of the scope's
images. In come arrays, mappings or a table of alarms; out go `Monitors` and arrays per image.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import flag, several, word
from calipers.errors import InputError, UsageError, did_you_mean

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

LARGEST = 1e100  # of a hazard or reward: sums and products of them stay finite
ONLY = "monitor"  # the name of a monitor that came without one


@runtime_checkable
class AlarmTable(Protocol):
    """A table read from a file of alarms: scores of several monitors, and flags of the images."""

    @property
    def names(self) -> Sequence[str]:
        """The monitors."""
        ...

    @property
    def values(self) -> NDArray[Any]:
        """(M, n) scores."""
        ...

    @property
    def ood(self) -> Flags | None:
        """(n,) which images are out of distribution, if the file says so."""
        ...

    @property
    def tuning(self) -> Flags | None:
        """(n,) which images thresholds may be chosen on, if the file says so."""
        ...


@dataclass(frozen=True)
class Monitors:
    """Alarm scores in the order of the images, turned so that high means alarm."""

    names: tuple[str, ...]
    alarm: F64  # (M, n)
    higher_is_alarm: tuple[bool, ...]
    switches: tuple[bool, ...]  # monitors that only say yes or no

    def index(self, name: str | None) -> int:
        """Return which monitor is meant; with a single one the name may be left out."""
        if name is None:
            if len(self.names) > 1:
                raise UsageError(f"there are several monitors: name one of {', '.join(self.names)}")
            return 0
        if word("a monitor", name) not in self.names:
            raise UsageError(f"no monitor {name!r}; {did_you_mean(name, self.names)}")
        return self.names.index(name)


def monitors_of(
    alarms: Any,
    images: Sequence[str],
    order: I64 | None,
    higher_is_alarm: bool | Mapping[str, bool],
) -> Monitors:
    """Return the monitors of an array, a mapping of arrays or a table of alarms.

    Parameters
    ----------
    images
        The ids of the scope, for messages.
    order
        Which entry of an array belongs to each of them; None: they are in order.
    """
    columns = _columns(alarms)
    if not columns:
        raise UsageError("no monitor: give an array of alarm scores, or several by name")
    directions = _directions(higher_is_alarm, list(columns))
    scores, switches = [], []
    for name, column in columns.items():
        values, switch = _checked(name, column, images, order)
        scores.append(values if directions[name] else -values)
        switches.append(switch)
    higher = tuple(directions[name] for name in columns)
    return Monitors(tuple(columns), np.stack(scores), higher, tuple(switches))


def order_of(alarm_images: Sequence[str] | None, images: Sequence[str]) -> I64 | None:
    """Return the index of each image of the scope among the images of the alarms."""
    if alarm_images is None:
        return None
    names = [str(name) for name in several("images", alarm_images)]
    twice = next((name for name, n in Counter(names).items() if n > 1), None)
    if twice is not None:
        raise InputError("every image once", rule="dup-image", field="images", value=twice)
    place = {name: k for k, name in enumerate(names)}
    missing = [name for name in images if name not in place]
    if missing:
        raise InputError(
            "an alarm score",
            rule="missing-image",
            location=f"image {missing[0]!r}",
            value=f"{len(missing)} of {len(images)} images without one",
            hint="every image of the scope needs an alarm score",
        )
    scope = set(images)
    strangers = [name for name in names if name not in scope]
    if strangers:
        raise InputError(
            "images of the scope",
            rule="unknown-image",
            location=f"image {strangers[0]!r}",
            value=f"{len(strangers)} unknown images",
        )
    return np.array([place[name] for name in images], np.int64)


def flags_of(values: Any, name: str, images: Sequence[str], order: I64 | None) -> Flags | None:
    """Return one flag per image from booleans, or numbers 0 and 1; None for None."""
    if values is None:
        return None
    column = array_of(values, name)
    if column.shape != (len(images),):
        raise InputError(
            f"one entry for each of {len(images)} images",
            rule="length",
            field=name,
            value=column.shape,
        )
    if column.dtype.kind not in "biuf":
        raise InputError("true or false, 1 or 0", rule="type", field=name, value=str(column.dtype))
    column = column if order is None else column[order]
    wrong = np.flatnonzero(~np.isin(column, (0, 1)))
    if len(wrong):
        where, value = f"image {images[wrong[0]]!r}", column[wrong[0]].item()
        raise InputError(
            "true or false, 1 or 0", rule="flag", location=where, field=name, value=value
        )
    return column.astype(np.bool_)


def numbers_of(entries: Any, name: str, images: Sequence[str], order: I64 | None) -> F64:
    """Return one finite number of at least 0 per image, from an array or a single number."""
    column = array_of(entries, name)
    if column.dtype.kind not in "biuf" or column.shape not in ((), (len(images),)):
        value = f"{column.dtype} of shape {column.shape}"
        raise InputError("a number, or one per image", rule="type", field=name, value=value)
    values = np.broadcast_to(column.astype(np.float64), (len(images),))
    values = values if order is None or not column.shape else values[order]
    wrong = np.flatnonzero(~((values >= 0) & (values <= LARGEST)))
    if len(wrong):
        where, value = f"image {images[wrong[0]]!r}", values[wrong[0]].item()
        raise InputError(
            f"a number from 0 to {LARGEST:g}", rule="range", location=where, field=name, value=value
        )
    return np.asarray(values)


def _columns(alarms: Any) -> dict[str, NDArray[Any]]:
    if isinstance(alarms, AlarmTable):
        return dict(zip((str(name) for name in alarms.names), np.asarray(alarms.values)))
    if isinstance(alarms, Mapping):
        return {str(name): array_of(column, str(name)) for name, column in alarms.items()}
    return {ONLY: array_of(alarms, "alarm_scores")}


def array_of(values: Any, name: str) -> NDArray[Any]:
    """Return values as an array; raise for masked entries, whose numbers mean nothing."""
    if np.ma.is_masked(values):
        raise InputError(
            "a value for every image", rule="type", field=name, value="an array with masked entries"
        )
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(
            "one value per image", rule="type", field=name, value="rows of different lengths"
        ) from None


def _directions(
    higher_is_alarm: bool | Mapping[str, bool], names: Sequence[str]
) -> dict[str, bool]:
    if not isinstance(higher_is_alarm, Mapping):
        return {name: flag("higher_is_alarm", higher_is_alarm) for name in names}
    for name in higher_is_alarm:
        if name not in names:
            raise UsageError(f"higher_is_alarm: no monitor {name!r}; {did_you_mean(name, names)}")
    return {
        name: flag(f"higher_is_alarm[{name!r}]", higher_is_alarm.get(name, True)) for name in names
    }


def _checked(
    name: str, column: NDArray[Any], images: Sequence[str], order: I64 | None
) -> tuple[F64, bool]:
    """Return the scores of one monitor, and whether it only says yes or no."""
    if column.shape != (len(images),):
        hint = "with alarms in another order, or of a file, give their image ids: images=..."
        value = f"shape {column.shape}"
        raise InputError(
            f"{len(images)} alarm scores", rule="length", field=name, value=value, hint=hint
        )
    if column.dtype.kind not in "biuf":
        raise InputError(
            "numbers or true and false", rule="type", field=name, value=str(column.dtype)
        )
    column = column if order is None else column[order]
    values = column.astype(np.float64)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        where, value = f"image {images[wrong[0]]!r}", values[wrong[0]].item()
        hint = "a monitor that cannot judge an image should give its highest or its lowest score"
        raise InputError(
            "a finite alarm score",
            rule="non-finite",
            location=where,
            field=name,
            value=value,
            hint=hint,
        )
    return values, bool(np.isin(values, (0.0, 1.0)).all())
