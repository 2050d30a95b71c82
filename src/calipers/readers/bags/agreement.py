# SPDX-License-Identifier: Apache-2.0
"""Do all models speak of the same bags, with maps of one shape in one place? The first difference
is named.
"""

from __future__ import annotations

from collections.abc import Sequence

from calipers.errors import InputError, UsageError
from calipers.readers.bags.model_maps import ModelMaps, located
from calipers.readers.volumes.agreement import check_pair
from calipers.readers.volumes.limits import shape_text

SHOWN = 3


def check_models(sources: Sequence[ModelMaps]) -> tuple[tuple[str, ...], list[str]]:
    """Return the ids of the bags in the order of the first model, and notes; raise at the first
    difference.
    """
    names = [source.model for source in sources]
    twice = next((k for k, name in enumerate(names) if name in names[:k]), None)
    if twice is not None:
        first = sources[names.index(names[twice])].source
        raise UsageError(
            f"two models are called {names[twice]!r}; name them: first={first} second={sources[twice].source}"
        )
    if len(sources) < 2:
        hint = "stability is agreement between models: give the maps of two or more, or a table with a column model"
        folders = (
            sorted({bag.split("/")[0] for bag in sources[0].maps if "/" in bag}) if sources else []
        )
        if len(folders) > 1:  # the folder that holds the folders of the models
            each = f"{sources[0].source.rstrip('/')}"
            hint += f"; if its folders are the models, name each: {each}/{folders[0]} {each}/{folders[1]} ..."
        file = sources[0].source if sources else "<none>"
        raise InputError(
            "two models at least",
            rule="one-model",
            file=file,
            value=f"{len(sources)} of them",
            hint=hint,
        )
    wanted = sources[0]
    notes: list[str] = []
    for source in sources[1:]:
        _check_bags(wanted, source)
        notes += _check_maps(wanted, source)
        if source.named and list(source.maps) != list(wanted.maps):
            order = (
                f"the bags of {source.model} stand in another order than those of {wanted.model}"
            )
            notes.append(f"{order}; they are paired by their ids")
    if not wanted.named and len(wanted.maps) > 1:
        notes.append("the maps have no ids: bags are paired by position, and are called 0, 1, ...")
    return tuple(wanted.maps), notes


def _check_bags(wanted: ModelMaps, came: ModelMaps) -> None:
    """Raise unless both have the same bags."""
    if wanted.named != came.named:
        nameless = came if wanted.named else wanted
        other = wanted if wanted.named else came
        hint = f"save {nameless.source} as an npz with maps and ids, or as a folder with a file per bag"
        raise InputError(
            f"ids of the bags, as {other.source} has them",
            rule="bags-differ",
            file=nameless.source,
            location=f"model {nameless.model!r}",
            value="maps by position",
            hint=hint,
        )
    lost = [bag for bag in wanted.maps if bag not in came.maps]
    extra = [bag for bag in came.maps if bag not in wanted.maps]
    if not lost and not extra:
        return
    if not wanted.named:
        raise InputError(
            f"{len(wanted.maps)} bags, as {wanted.source} has",
            rule="bags-differ",
            file=came.source,
            location=f"model {came.model!r}",
            value=f"{len(came.maps)} bags",
            hint="maps without ids are paired by position, so every model has to have all bags in the same order",
        )
    raise InputError(
        f"the bags of {wanted.source}, model {wanted.model!r}",
        rule="bags-differ",
        file=came.source,
        location=f"model {came.model!r}, bag {(lost or extra)[0]!r}",
        value=f"{len(lost)} of them missing, {len(extra)} more" if lost else f"{len(extra)} more",
        hint="; ".join(part for part in (_few("missing", lost), _few("only here", extra)) if part),
    )


def _few(what: str, bags: Sequence[str]) -> str:
    if not bags:
        return ""
    more = f" and {len(bags) - SHOWN} more" if len(bags) > SHOWN else ""
    return f"{what}: {', '.join(map(repr, bags[:SHOWN]))}{more}"


def _check_maps(wanted: ModelMaps, came: ModelMaps) -> list[str]:
    """Raise for the first map that does not lie on the grid of the first model; return what is
    worth a note.
    """
    without = 0
    for bag, volume in wanted.maps.items():
        other = came.maps[bag]
        if other.shape != volume.shape:
            raise _other_shape(wanted, came, bag)
        try:
            without += len(check_pair(volume, other)) > 0
        except InputError as error:
            raise located(error, came.model, bag) from None
    if not without:
        return []
    said_of = f"{without} of {len(wanted.maps)} maps of {wanted.model} and {came.model}"
    return [
        f"{said_of}: only one of the two has an orientation; the other is taken to lie on the same grid"
    ]


def _other_shape(wanted: ModelMaps, came: ModelMaps, bag: str) -> InputError:
    first, second = wanted.maps[bag], came.maps[bag]
    return InputError(
        f"the shape of the map in {first.file}, {shape_text(first.shape)}",
        rule="shape-mismatch",
        file=second.file,
        location=f"model {came.model!r}, bag {bag!r}",
        value=shape_text(second.shape),
        hint="instances are compared one by one: bring the maps of all models to one shape, axes [z, ]y, x",
    )
