# SPDX-License-Identifier: Apache-2.0
"""The alarm scores of monitors as they are given, checked and brought into the order of the scope's
images.
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
ONLY = "monitor"  # the name of a monitor that was given without one


@runtime_checkable
class AlarmTable(Protocol):
    """What a file of alarms gives: scores of several monitors, and what else it says of the images."""

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
                raise UsageError(f"several monitors: say which, one of {', '.join(self.names)}")
            return 0
        if word("a monitor", name) not in self.names:
            raise UsageError(f"no monitor {name!r}; {did_you_mean(name, self.names)}")
        return self.names.index(name)


def monitors_of(
    given: Any, images: Sequence[str], order: I64 | None, higher_is_alarm: bool | Mapping[str, bool]
) -> Monitors:
    """Return the monitors of an array, a mapping of arrays or a table of alarms.

    Parameters
    ----------
    images
        The ids of the scope, for messages.
    order
        Which entry of an array belongs to each of them; None: they are in order.
    """
    columns = _columns(given)
    if not columns:
        raise UsageError("no monitor: give an array of alarm scores, or several by name")
    turned = _directions(higher_is_alarm, list(columns))
    alarms, switches = [], []
    for name, column in columns.items():
        values, switch = _checked(name, column, images, order)
        alarms.append(values if turned[name] else -values)
        switches.append(switch)
    return Monitors(
        tuple(columns), np.stack(alarms), tuple(turned[name] for name in columns), tuple(switches)
    )


def order_of(given: Sequence[str] | None, images: Sequence[str]) -> I64 | None:
    """Return where each image of the scope is among the images that the alarms are given for."""
    if given is None:
        return None
    names = [str(name) for name in several("images", given)]
    twice = next((name for name, n in Counter(names).items() if n > 1), None)
    if twice is not None:
        raise InputError("every image once", rule="dup-image", field="images", value=twice)
    place = {name: k for k, name in enumerate(names)}
    missing = [name for name in images if name not in place]
    if missing:
        told = f"{len(missing)} of {len(images)} images without one"
        where, hint = f"image {missing[0]!r}", "every image of the scope needs an alarm score"
        raise InputError(
            "an alarm score", rule="missing-image", location=where, value=told, hint=hint
        )
    known = set(images)
    unknown = [name for name in names if name not in known]
    if unknown:
        told = f"{len(unknown)} unknown images"
        raise InputError(
            "images of the scope",
            rule="unknown-image",
            location=f"image {unknown[0]!r}",
            value=told,
        )
    return np.array([place[name] for name in images], np.int64)


def flags_of(given: Any, name: str, images: Sequence[str], order: I64 | None) -> Flags | None:
    """Return one flag per image from booleans, or numbers 0 and 1; None if nothing was given."""
    if given is None:
        return None
    column = array_of(given, name)
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


def numbers_of(given: Any, name: str, images: Sequence[str], order: I64 | None) -> F64:
    """Return one finite number of at least 0 per image, from an array or a single number."""
    column = array_of(given, name)
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


def _columns(given: Any) -> dict[str, NDArray[Any]]:
    if isinstance(given, AlarmTable):
        return dict(zip((str(name) for name in given.names), np.asarray(given.values)))
    if isinstance(given, Mapping):
        return {str(name): array_of(column, str(name)) for name, column in given.items()}
    return {ONLY: array_of(given, "alarm_scores")}


def array_of(given: Any, name: str) -> NDArray[Any]:
    """Return an array of anything; entries that are marked as unknown (masked) are refused, not
    read as numbers.
    """
    if np.ma.is_masked(given):
        raise InputError(
            "a value for every image", rule="type", field=name, value="an array with masked entries"
        )
    try:
        return np.asarray(given)
    except ValueError:
        raise InputError(
            "one value per image", rule="type", field=name, value="rows of different lengths"
        ) from None


def _directions(given: bool | Mapping[str, bool], names: Sequence[str]) -> dict[str, bool]:
    if not isinstance(given, Mapping):
        return {name: flag("higher_is_alarm", given) for name in names}
    for name in given:
        if name not in names:
            raise UsageError(f"higher_is_alarm: no monitor {name!r}; {did_you_mean(name, names)}")
    return {name: flag(f"higher_is_alarm[{name!r}]", given.get(name, True)) for name in names}


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
