# SPDX-License-Identifier: Apache-2.0
"""The maps of one model: a header per bag, whatever the file is that they lie in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calipers.errors import InputError
from calipers.readers.volumes.limits import DEFAULT, check_extent
from calipers.readers.volumes.volume import Volume

LEAST_AXES = 2  # of what `check_extent` accepts


@dataclass(frozen=True)
class ModelMaps:
    """What one model says of every bag; the values are read when they are asked for."""

    model: str
    source: str  # file or folder
    maps: Mapping[
        str, Volume
    ]  # bag id -> map; ids are the positions "0", "1", ... if `named` is false
    named: bool = True
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.maps:
            raise InputError(
                "a map at least", rule="no-bags", file=self.source, location=f"model {self.model!r}"
            )


def check_shape(shape: tuple[int, ...], each: int, file: str) -> None:
    """Raise for the shape of one map that is empty, too large, or has not one, two or three axes.

    Instances in a row, ``(n,)``, hold to the limits of one image.
    """
    check_extent((1,) * (LEAST_AXES - len(shape)) + shape if shape else shape, each, file, DEFAULT)


def located(error: InputError, model: str, bag: str | None = None) -> InputError:
    """Return an error that says of which model, and of which bag, it speaks."""
    place = f"model {model!r}" + ("" if bag is None else f", bag {bag!r}")
    return InputError(
        error.expected,
        rule=error.rule,
        file=error.file,
        location=", ".join(part for part in (place, error.location) if part),
        field=error.field,
        value=_Said(error.value) if error.value else None,
        hint=error.hint,
    )


class _Said(str):
    """What was shortened once is not quoted again."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
