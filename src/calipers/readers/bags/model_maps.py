# SPDX-License-Identifier: Apache-2.0
"""`ModelMaps`: the maps of one model, a header per bag, whatever files they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calipers.errors import InputError
from calipers.readers.volumes.limits import DEFAULT, check_extent
from calipers.readers.volumes.volume import Volume

LEAST_AXES = 2  # of what `check_extent` accepts


@dataclass(frozen=True)
class ModelMaps:
    """The maps of one model by bag; values are read on demand."""

    model: str
    source: str  # file or folder
    maps: Mapping[str, Volume]  # bag id -> map
    named: bool = True  # whether bags have ids; if not, these are the positions "0", "1", ...
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.maps:
            raise InputError(
                "at least one map",
                rule="no-bags",
                file=self.source,
                location=f"model {self.model!r}",
            )


def check_shape(shape: tuple[int, ...], each: int, file: str) -> None:
    """Raise for the shape of one map that is empty, too large, or has not one, two or three axes.

    Instances in a row, ``(n,)``, obey the limits of one image.
    """
    if shape:
        shape = (1,) * (LEAST_AXES - len(shape)) + shape
    check_extent(shape, each, file, DEFAULT)


def located(error: InputError, model: str, bag: str | None = None) -> InputError:
    """Return an error that also names the model and the bag."""
    place = f"model {model!r}"
    if bag is not None:
        place += f", bag {bag!r}"
    return InputError(
        error.expected,
        rule=error.rule,
        file=error.file,
        location=", ".join(part for part in (place, error.location) if part),
        field=error.field,
        value=_Quoted(error.value) if error.value else None,
        hint=error.hint,
    )


class _Quoted(str):
    """A value that was shortened and quoted already: it is shown as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
